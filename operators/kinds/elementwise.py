"""Operators that go over elements: any number of operands, some of them broadcast.

What fits one of the plain operators (``add``, ``mul``, ``relu``...: operands of the result's size
and format) is named so; everything else is ``elementwise`` with the operator's name as its variant,
the number of its operands, and the elements each of them has in memory. Rows and columns are the
result's last dimension and the product of the others. A fused optimizer is a step over all
parameters together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import ceil, prod

import numpy as np
import pandas as pd

from ...errors import DataError
from ..call import Call, CallReader, Described, Tensor, broadcast, promote, readers_of, require
from ..op import Dim, Measured, Op, Operands, Row, Run, matrix, of_variant, only_format, sizes, word
from ..vector import COLS, ELEMENTWISE_SPREAD, ROW_WISE_SPREAD, ROWS, VectorWork, as_rows, vector_op
from ..work import BITS, CATALOGUE, as_numbers, element_bytes, numbers


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return one operation per element of the result and operand beyond the first, at least one per element."""
    rows, cols, inputs = numbers(frame, "rows", "cols", "inputs")
    return rows * cols * np.maximum(inputs - 1, 1)


def bytes_moved(frame: pd.DataFrame) -> np.ndarray:
    """Return ``elements_a a + elements_b b + rows cols c``: what is read and written once.

    ``elements_a`` are the different elements of the first operand, ``elements_b`` those of all
    others together (a bias added to every row has cols elements, not rows cols); where missing,
    operands have the size of the result.
    """
    rows, cols, inputs = numbers(frame, "rows", "cols", "inputs")
    sizes = rows * cols
    first = as_numbers(frame, "elements_a")
    others = as_numbers(frame, "elements_b")
    first = np.where(np.isnan(first), sizes, first)
    others = np.where(np.isnan(others), (inputs - 1) * sizes, others)
    a, b, out = (element_bytes(frame, name) for name in ("dtype_a", "dtype_b", "dtype_out"))
    return first * a + others * b + sizes * out


#: Operators with one tensor; those with a separate name, and those that give truth values.
_PLAIN = {"relu": "relu", "tanh": "tanh", "gelu": "gelu"}
_WITH_SCALAR = {"add": "addu", "sub": "addu", "mul": "mulu", "div": "divu", "pow": "powu"}
_WITH_TENSOR = {"add": "add", "sub": "add", "mul": "mul", "div": "div", "pow": "pow"}


def elementwise(kind: str, operands: list[Tensor], dims: Sequence[int], out: str) -> Described:
    """Return the generic operator: every different element of the operands is read, every one of the result written."""
    first = operands[0]
    others = operands[1:]
    size = prod(dims)
    described = {"op": "elementwise", "variant": kind, **as_rows(dims), "inputs": len(operands)}
    if others:
        dtype_b = others[0].dtype
    else:
        dtype_b = first.dtype
    formats = {
        "dtype_a": first.dtype,
        "dtype_b": dtype_b,
        "dtype_out": out,
    }
    if first.elements != size:
        described["elements_a"] = first.elements
    if any(other.elements != size or other.dtype != others[0].dtype for other in others):
        widest = max(others, key=lambda other: other.elements)
        formats["dtype_b"] = widest.dtype
        require(all(other.dtype in BITS for other in others))
        described["elements_b"] = ceil(
            sum(other.elements * BITS[other.dtype] for other in others) / BITS[widest.dtype]
        )
    return described | formats


def pointwise(count: int, *, truth: bool = False) -> CallReader:
    """Return what reads an element-wise operator with at most this many tensors; a further one is where to write."""

    def read(call: Call) -> Described:
        tensors = [call.tensor(at) for at in range(len(call)) if call.has(at)][:count]
        require(bool(tensors))
        operands = [t for t in tensors if t.dims] or tensors  # a tensor of no dimension is a scalar
        dims = broadcast(*(t.dims for t in operands))
        if truth:
            out = "bool"
        else:
            out = _result(call, promote(*(t.dtype for t in operands)))
        # a plain operator where its formula fits: whole operands of one format, that of the result
        kind = call.kind
        formats = {"dtype_a": out, "dtype_b": out, "dtype_out": out}
        fits = all(t.elements == prod(dims) and t.dtype == out for t in operands)
        names = {1: _PLAIN | _WITH_SCALAR, 2: _WITH_TENSOR}.get(len(operands), {})
        if not fits or kind not in names:
            return elementwise(kind, operands, dims, out)
        variant = ""
        if kind == "sub":
            variant = kind
        return {
            "op": names[kind],
            "variant": variant,
            **as_rows(dims),
            **formats,
        }

    return read


def _result(call: Call, promoted: str) -> str:
    """Return the format of the result: in place that of the first operand; a masked fill and a choice are no sums."""
    kind = call.kind
    if call.name.endswith("_") or kind in ("masked_fill", "native_dropout_backward"):
        return call.tensor(0).dtype
    if kind == "where":
        if call.has(1):
            return promote(*(call.tensor(at).dtype for at in (1, 2) if call.has(at)))
        return promoted
    if kind in CATALOGUE["elementwise"]["floating"] and promoted.startswith(
        ("int", "uint", "bool")
    ):
        return "fp32"
    return promoted


def gated(call: Call) -> Described:
    """``silu_and_mul(out, x)``: x holds gate and value side by side, each of the result's size."""
    out = call.tensor(0)
    x = call.tensor(1)
    require(x.numel == 2 * out.numel)
    half = Tensor(out.dims, x.dtype)
    return elementwise(call.kind, [half, half], out.dims, out.dtype)


def rotary(call: Call) -> Described:
    """``rotary_embedding(positions, query, key, head_size, cos_sin_cache, ...)``: query and key turned in place."""
    positions, q, k, cache = (call.tensor(position) for position in (0, 1, 2, 4))
    require(positions.numel > 0 and (q.numel + k.numel) % positions.numel == 0 and bool(cache.dims))
    dims = (positions.numel, (q.numel + k.numel) // positions.numel)
    angles = Tensor((positions.numel, cache.dims[-1]), cache.dtype)
    return elementwise(call.kind, [Tensor(dims, q.dtype), angles], dims, q.dtype)


def upsample(call: Call) -> Described:
    """``upsample_nearest2d(x, output_size, ...)``: every element read, those of the new size written."""
    x = call.tensor(0)
    size = call.integers(1)
    require(len(x.dims) == 2 + len(size))
    return elementwise(call.kind, [x], (*x.dims[:2], *size), x.dtype)


def foreach(call: Call) -> Described:
    """``_foreach_add_(tensors, tensors, ...)``: one element-wise operator on all members of its lists together."""
    lists = [
        call.tensors(at)
        for at in range(len(call))
        if call.types[at] == "TensorList" or type(call.types[at]) is list
    ]
    require(bool(lists))
    total = sum(tensor.numel for tensor in lists[0])
    for other in lists:
        require(sum(tensor.numel for tensor in other) == total)
    whole = Tensor((total,), lists[0][0].dtype if lists[0] else "")
    if call.kind == "foreach_zero":
        formats = {"dtype_a": whole.dtype, "dtype_b": whole.dtype, "dtype_out": whole.dtype}
        return {"op": "fill", "variant": call.kind, "rows": 1, "cols": total, **formats}
    operands = lists
    if call.kind == "foreach_copy":
        operands = lists[1:]
    return elementwise(call.kind, [whole] * max(len(operands), 1), (total,), whole.dtype)


def fused_adam(call: Call) -> Described:
    """``_fused_adam_(params, grads, moments, squares, max_squares, steps, ...)``; with AMSGrad it is not described."""
    params = call.tensors(0)
    extra = call.tensors(4)
    require(not extra)
    return _stepped("adam", call, params)


def fused_sgd(call: Call) -> Described:
    """``_fused_sgd_(params, grads, momenta, ...)``."""
    params = call.tensors(0)
    if call.tensors(2):
        return _stepped("sgd_momentum", call, params)
    whole = Tensor((sum(tensor.numel for tensor in params),), params[0].dtype if params else "")
    return elementwise(call.kind, [whole, whole], whole.dims, whole.dtype)


def _stepped(op: str, call: Call, params: list[Tensor]) -> Described:
    require(bool(params))
    dtype = params[0].dtype
    total = sum(tensor.numel for tensor in params)
    formats = {"dtype_a": dtype, "dtype_b": dtype, "dtype_out": dtype}
    return {"op": op, "variant": call.kind, "rows": 1, "cols": total, **formats}


_READERS = {
    "unary": pointwise(1),
    "binary": pointwise(2),
    "ternary": pointwise(3),
    "tests": pointwise(2, truth=True),
    "upsample": upsample,
    "foreach": foreach,
    "gated": gated,
    "rotary": rotary,
    "adam": fused_adam,
    "sgd": fused_sgd,
}
ATEN: dict[str, CallReader] = readers_of("elementwise", _READERS)


def _one_operand(make: Operands, row: Row) -> Run:
    of_variant(row, {"": None})
    torch = make.torch
    x = matrix(make, row)
    scalar = {"addu": torch.add, "mulu": torch.mul, "divu": torch.div, "powu": torch.pow}
    op = word(row, "op")
    if op in scalar:
        call = scalar[op]
        base = x
        if op == "powu":
            base = x.abs()
        return lambda: call(base, 1.5)
    apply = {"relu": torch.relu, "tanh": torch.tanh, "gelu": torch.nn.functional.gelu}[op]
    return lambda: apply(x)


def _two_operands(make: Operands, row: Row) -> Run:
    torch = make.torch
    op = word(row, "op")
    x = matrix(make, row)
    other = make.tensor(only_format(row), *x.shape)
    if op == "add":
        call = of_variant(row, {"": torch.add, "sub": torch.sub})
    else:
        of_variant(row, {"": None})
        call = {"mul": torch.mul, "div": torch.div, "pow": torch.pow}[op]
    left = x
    if op == "pow":
        left = x.abs()
    return lambda: call(left, other)


def _elementwise(make: Operands, row: Row) -> Run:
    """Return an operator without a name among ours, on whole operands."""
    torch = make.torch
    x = matrix(make, row)
    one = {name: getattr(torch, name) for name in ("exp", "sigmoid", "sin", "abs", "neg", "erf")}
    one["silu"] = torch.nn.functional.silu
    two = {"maximum": torch.maximum, "minimum": torch.minimum, "atan2": torch.atan2}
    (inputs,) = sizes(row, "inputs")
    if inputs not in (1, 2):
        raise DataError(f"elementwise rows can be measured with 1 or 2 inputs, got {inputs}")
    others = [make.tensor(only_format(row), *x.shape) for _ in range(inputs - 1)]
    whole = [row.get(name) for name in ("elements_a", "elements_b")[:inputs]]
    if any(given is not None and not math.isnan(given) and given != x.numel() for given in whole):
        raise DataError(
            "elementwise rows can be measured with operands of the size of the result only"
        )
    call = of_variant(row, one if inputs == 1 else two)
    return lambda: call(x, *others)


_NAMED = {
    **{name: (VectorWork(1, inputs=2), _two_operands) for name in ("add", "mul", "div", "pow")},
    **{
        name: (VectorWork(1), _one_operand)
        for name in ("addu", "mulu", "divu", "powu", "relu", "tanh")
    },
    # x/2 (1 + erf(x/sqrt 2)): two products, erf, add, product
    "gelu": (VectorWork(5), _one_operand),
}
_OPERANDS = (
    Dim("inputs", "how many operands", 2),
    Dim(
        "elements_a",
        "different elements of the first operand, where it is not of the result's size",
        default=np.nan,
        least=0,
    ),
    Dim("elements_b", "different elements of all other operands together", default=np.nan, least=0),
)
_ADAM = VectorWork(14, inputs=4, outputs=3)  # moments 3 + 4, root and quotient 3, decay 2, step 2
_MOMENTUM = VectorWork(4, inputs=3, outputs=2)  # momentum 2, step 2
OPERATORS = (
    Op(
        "elementwise",
        "vector",
        (ROWS, COLS, *_OPERANDS),
        ("cols",),
        "elementwise {cols}",
        flops,
        bytes_moved,
        VectorWork.view,
        spread=ELEMENTWISE_SPREAD,
        measured=Measured(_elementwise),
    ),
    *(
        vector_op(
            name,
            work,
            spread=ELEMENTWISE_SPREAD,
            kernels="elementwise",
            measured=Measured(build, "elementwise"),
        )
        for name, (work, build) in _NAMED.items()
    ),
    vector_op("adam", _ADAM, row_wise=True, spread=ROW_WISE_SPREAD, kernels="optimizer"),
    vector_op(
        "sgd_momentum", _MOMENTUM, row_wise=True, spread=ROW_WISE_SPREAD, kernels="optimizer"
    ),
)
