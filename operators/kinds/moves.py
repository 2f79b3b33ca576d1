"""What only moves: copies, within a GPU and to it, fills, and gathers and scatters, by an index (``dtype_b``)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import pandas as pd

from ...errors import DataError
from ..call import Call, CallReader, Described, Tensor, broadcast, require
from ..op import Measured, Op, Operands, Row, Run, matrix, of_variant, sizes, unknown, word
from ..vector import COLS, ELEMENTWISE_SPREAD, ROWS, VectorWork, as_rows, vector_op
from ..work import element_bytes, numbers
from .elementwise import elementwise


def _copied(source: Tensor, dims: Sequence[int], out: str, variant: str = "") -> Described:
    if source.elements != prod(dims):
        return elementwise("copy", [source], dims, out)
    formats = {"dtype_a": source.dtype, "dtype_b": source.dtype, "dtype_out": out}
    return {"op": "copy", "variant": variant, **as_rows(dims), **formats}


def copy_into(call: Call) -> Described:
    """``copy_(self, source)``: the source may be expanded, the formats may differ."""
    target = call.tensor(0)
    source = call.tensor(1)
    broadcast(target.dims, source.dims)
    return _copied(source, target.dims, target.dtype)


def copy_of(call: Call) -> Described:
    """``clone(x)``, ``contiguous(x)``, ``_to_copy(x, dtype)``."""
    x = call.tensor(0)
    return _copied(x, x.dims, call.dtype(1, x.dtype) if call.kind == "to_copy" else x.dtype)


def cat(call: Call) -> Described:
    """``cat(tensors, dim)``: a copy of all of them."""
    tensors = [tensor for tensor in call.tensors(0) if tensor.dims != (0,)]
    require(
        bool(tensors) and all(len(tensor.dims) == len(tensors[0].dims) > 0 for tensor in tensors)
    )
    axis = call.integer(1)
    rank = len(tensors[0].dims)
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
    variant = ""
    if call.kind not in ("fill", "zero"):
        variant = call.kind
    return {
        "op": "fill",
        "variant": variant,
        **as_rows(x.dims),
        **formats,
    }


def _copy(make: Operands, row: Row) -> Run:
    """Return ``copy_`` on the device; variants ``DtoD``, ``HtoD``, ``DtoH``: the copy engine, pinned memory."""
    (rows, cols) = sizes(row, "rows", "cols")
    variant = word(row, "variant")
    dtype = word(row, "dtype_a")
    written = word(row, "dtype_out") or dtype
    if variant not in ("", "DtoD", "HtoD", "DtoH"):
        raise unknown(row, "variant", "DtoD, HtoD, DtoH")
    source = make.tensor(dtype, rows, cols)
    target = make.tensor(written, rows, cols)
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


VOCABULARY = 32_768  # rows of the table that embeddings are taken from: the dimensions of a gather do not tell it


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return zeros: nothing is computed."""
    return np.zeros(len(frame))


def bytes_moved(frame: pd.DataFrame) -> np.ndarray:
    """Return ``rows (cols (a + c) + b)``: for each index (``dtype_b``) ``cols`` elements are read and written."""
    rows, cols = numbers(frame, "rows", "cols")
    a, b, out = (element_bytes(frame, name) for name in ("dtype_a", "dtype_b", "dtype_out"))
    return rows * (cols * (a + out) + b)


def least_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return ``rows (cols c + b)``: all indices may name the same row."""
    rows, cols = numbers(frame, "rows", "cols")
    return rows * (cols * element_bytes(frame, "dtype_out") + element_bytes(frame, "dtype_b"))


def _gathered(kind: str, source: Tensor, index: Tensor, cols: int, rows: int = 0) -> Described:
    formats = {"dtype_a": source.dtype, "dtype_b": index.dtype, "dtype_out": source.dtype}
    return {"op": "gather", "variant": kind, "rows": rows or index.numel, "cols": cols, **formats}


def embedding(call: Call) -> Described:
    """``embedding(weight, indices)``."""
    weight = call.tensor(0)
    require(len(weight.dims) == 2)
    return _gathered("embedding", weight, call.tensor(1), weight.dims[1])


def embedding_backward(call: Call) -> Described:
    """``embedding_dense_backward(grad, indices, ...)``: the gradients' rows are added to those of the table."""
    grad = call.tensor(0)
    require(bool(grad.dims))
    return _gathered("embedding_backward", grad, call.tensor(1), grad.dims[-1])


def index_select(call: Call) -> Described:
    """``index_select(x, dim, index)``: slices of x across one dimension."""
    x = call.tensor(0)
    axis = call.integer(1)
    index = call.tensor(2)
    require(bool(x.dims) and -len(x.dims) <= axis < len(x.dims) and x.dims[axis] > 0)
    return _gathered(call.kind, x, index, x.numel // x.dims[axis])


def index_add(call: Call) -> Described:
    """``index_add(x, dim, index, source)`` and ``index_copy``: slices of the source across one dimension."""
    index = call.tensor(2)
    source = call.tensor(3)
    require(index.numel > 0 and source.numel % index.numel == 0)
    return _gathered(call.kind, source, index, source.numel // index.numel)


def gather(call: Call) -> Described:
    """``gather(x, dim, index)``, ``scatter``, ``scatter_add``: an index per element, unless the index is expanded."""
    index = call.tensor(2)
    require(index.elements > 0 and index.numel % index.elements == 0)
    return _gathered(
        call.kind, call.tensor(0), index, index.numel // index.elements, index.elements
    )


def _gather(make: Operands, row: Row) -> Run:
    """Return ``embedding`` in a table of `VOCABULARY` rows."""
    of_variant(row, {"": None, "embedding": None})
    if word(row, "dtype_b") not in ("", "int64", "int32"):
        raise unknown(row, "dtype_b", "int64, int32")
    rows, cols = sizes(row, "rows", "cols")
    table = make.tensor(word(row, "dtype_a"), VOCABULARY, cols)
    indices = make.integers(VOCABULARY, rows).to(make.dtype(word(row, "dtype_b") or "int64"))
    embedding = make.torch.nn.functional.embedding
    return lambda: embedding(indices, table)


ATEN: dict[str, CallReader] = {
    "aten::copy": copy_into,
    **{f"aten::{name}": copy_of for name in ("clone", "contiguous", "_to_copy")},
    "aten::cat": cat,
    "aten::_cat": cat,
    "_C_cache_ops::reshape_and_cache_flash": cache_write,
    "sglang::store_cache": cache_write,
    **{
        f"aten::{name}": fill
        for name in (
            "fill",
            "zero",
            "normal",
            "uniform",
            "random",
            "bernoulli",
            "exponential",
            "log_normal",
        )
    },
    "aten::embedding": embedding,
    "aten::embedding_dense_backward": embedding_backward,
    "aten::index_select": index_select,
    "aten::index_add": index_add,
    "aten::index_copy": index_add,
    **{f"aten::{name}": gather for name in ("gather", "scatter", "scatter_add")},
}
OPERATORS = (
    vector_op("copy", VectorWork(0), spread=ELEMENTWISE_SPREAD, measured=Measured(_copy)),
    vector_op(
        "fill", VectorWork(0, inputs=0), spread=ELEMENTWISE_SPREAD, measured=Measured(_fill, "copy")
    ),
    Op(
        "gather",
        "vector",
        (ROWS, COLS),
        ("cols",),
        "gather {cols}",
        flops,
        bytes_moved,
        VectorWork.view,
        _least_bytes=least_bytes,
        spread=ELEMENTWISE_SPREAD,
        aliases=("embedding", "index_select"),
        kernels="embedding",
        measured=Measured(_gather, "embedding", formats=lambda dtype: {"dtype_b": "int64"}),
    ),
)
