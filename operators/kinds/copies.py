"""Copies, within a GPU and to it, and fills."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...errors import DataError
from ..call import Call, CallReader, Described, Tensor, broadcast, require
from ..op import Measured, Operands, Row, Run, matrix, of_variant, sizes, unknown, word
from ..vector import ELEMENTWISE_SPREAD, VectorWork, as_rows, vector_op
from .elementwise import elementwise


def _copied(source: Tensor, dims: Sequence[int], out: str, variant: str = "") -> Described:
    if source.elements != prod(dims):
        return elementwise("copy", [source], dims, out)
    formats = {"dtype_a": source.dtype, "dtype_b": source.dtype, "dtype_out": out}
    return {"op": "copy", "variant": variant, **as_rows(dims), **formats}


def copy_into(call: Call) -> Described:
    """``copy_(self, source)``: the source may be expanded, the formats may differ."""
    target, source = call.tensor(0), call.tensor(1)
    broadcast(target.dims, source.dims)
    return _copied(source, target.dims, target.dtype)


def copy_of(call: Call) -> Described:
    """``clone(x)``, ``contiguous(x)``, ``_to_copy(x, dtype)``."""
    x = call.tensor(0)
    return _copied(x, x.dims, call.dtype(1, x.dtype) if call.kind == "to_copy" else x.dtype)


def cat(call: Call) -> Described:
    """``cat(tensors, dim)``: a copy of all of them."""
    tensors = [tensor for tensor in call.tensors(0) if tensor.dims != (0,)]
    require(bool(tensors) and all(len(tensor.dims) == len(tensors[0].dims) > 0 for tensor in tensors))
    axis, rank = call.integer(1), len(tensors[0].dims)
    require(-rank <= axis < rank)
    dims = list(tensors[0].dims)
    dims[axis] = sum(tensor.dims[axis] for tensor in tensors)
    require(prod(dims) == sum(tensor.numel for tensor in tensors))
    return _copied(Tensor(tuple(dims), tensors[0].dtype), dims, tensors[0].dtype, "cat")


def cache_write(call: Call) -> Described:
    """``reshape_and_cache_flash(key, value, key_cache, value_cache, ...)``, ``store_cache``: keys and values copied."""
    key, value, cache = (call.tensor(position) for position in range(3))
    require(bool(key.dims) and key.dims[0] == value.dims[0] > 0)
    dims = (key.dims[0], (key.numel + value.numel) // key.dims[0])
    return _copied(Tensor(dims, key.dtype), dims, cache.dtype, call.kind)


def fill(call: Call) -> Described:
    """``fill_``, ``zero_`` and random numbers: only written."""
    x = call.tensor(0)
    formats = {"dtype_a": x.dtype, "dtype_b": x.dtype, "dtype_out": x.dtype}
    return {"op": "fill", "variant": "" if call.kind in ("fill", "zero") else call.kind, **as_rows(x.dims), **formats}


ATEN: dict[str, CallReader] = {
    "aten::copy": copy_into,
    **{f"aten::{name}": copy_of for name in ("clone", "contiguous", "_to_copy")},
    "aten::cat": cat,
    "aten::_cat": cat,
    "_C_cache_ops::reshape_and_cache_flash": cache_write,
    "sglang::store_cache": cache_write,
    **{f"aten::{name}": fill for name in (
        "fill", "zero", "normal", "uniform", "random", "bernoulli", "exponential", "log_normal",
    )},
}  # fmt: skip


def _copy(make: Operands, row: Row) -> Run:
    """Return ``copy_`` on the device; variants ``DtoD``, ``HtoD``, ``DtoH``: the copy engine, pinned memory."""
    (rows, cols), variant, dtype = sizes(row, "rows", "cols"), word(row, "variant"), word(row, "dtype_a")
    written = word(row, "dtype_out") or dtype
    if variant not in ("", "DtoD", "HtoD", "DtoH"):
        raise unknown(row, "variant", "DtoD, HtoD, DtoH")
    source, target = make.tensor(dtype, rows, cols), make.tensor(written, rows, cols)
    if variant in ("HtoD", "DtoH") and not make.backend.is_gpu:
        raise DataError(f"a copy {variant} needs a GPU: leave these rows out on a CPU")
    if variant == "HtoD":
        source = source.cpu().pin_memory()
    if variant == "DtoH":
        target = target.cpu().pin_memory()
    return lambda: target.copy_(source, non_blocking=True)


def _fill(make: Operands, row: Row) -> Run:
    of_variant(row, {"": None})
    x = matrix(make, row)
    return lambda: x.fill_(1)


OPERATORS = (
    vector_op("copy", VectorWork(0), spread=ELEMENTWISE_SPREAD, measured=Measured(_copy)),
    vector_op("fill", VectorWork(0, inputs=0), spread=ELEMENTWISE_SPREAD, measured=Measured(_fill, "copy")),
)
