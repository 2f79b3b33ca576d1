"""Operators that sum along their rows: reductions to one value (the variant names which), softmax, and losses."""

from __future__ import annotations

from ..call import NO_FIT, Call, CallReader, Described, Tensor, promote, require
from ..op import Measured, Operands, Row, Run, matrix, of_variant, only_format, sizes, word
from ..vector import ROW_WISE_SPREAD, VectorWork, along, axes_of, vector_op, whole_rows
from .elementwise import pointwise

_EVERYTHING = frozenset({"", "None", "[]", "True", "False"})
_INDICES = frozenset({"argmax", "argmin"})
_TRUTHS = frozenset({"any", "all"})


def reduction(axes: int = 1, dtype: int = -1) -> CallReader:
    """Return what reads a reduction with its axes (none, one or a list) and its argument `dtype` at these positions.

    All axes are reduced where the argument is absent, None, an empty list or no axis (``var(x,
    True)``).
    """

    def read(call: Call) -> Described:
        x = call.tensor(0)
        kind = call.kind
        # sum(x, dtype)
        typed = dtype >= 0 and len(call) == axes + 1 and call.types[axes] != "ScalarList"
        reduced = list(range(len(x.dims)))
        if not typed and axes < len(call):
            require(not call.has(axes))  # max(x, other) is element-wise
            if call.word(axes) not in _EVERYTHING:
                reduced = axes_of(call.integers(axes), len(x.dims))
        if kind in _INDICES:
            special = "int64"
        elif kind in _TRUTHS:
            special = "bool"
        else:
            special = x.dtype
        out = special
        if dtype >= 0:
            out = call.dtype(axes if typed else dtype, special)
        return along("reduction", [kind], x, reduced, out)

    return read


def _extreme(call: Call) -> Described:
    """``max(x)``, ``max(x, dim)``, ``min``; of two tensors they are element-wise."""
    try:
        return reduction()(call)
    except NO_FIT:
        return pointwise(2)(call)


def _reduction(make: Operands, row: Row) -> Run:
    """Return a reduction over the last dimension; the variant names it (``sum`` by default)."""
    torch = make.torch
    x = matrix(make, row, written=word(row, "dtype_out") or word(row, "dtype_a"))
    names = ("sum", "mean", "amax", "amin", "argmax", "argmin", "prod", "std", "var", "logsumexp")
    call = of_variant(row, {"": torch.sum, **{name: getattr(torch, name) for name in names}})
    return lambda: call(x, dim=1)


def softmax(call: Call) -> Described:
    """``_softmax(x, dim, half_to_float)`` and ``softmax(x, dim, dtype)``, and their logarithms."""
    x = call.tensor(0)
    axes = axes_of(call.integers(1), len(x.dims))
    if "log" in call.kind:
        words = ["log"]
    else:
        words = []
    out = "fp32"
    if call.text(2) != "True":
        out = call.dtype(2, x.dtype)
    return along("softmax", words, x, axes, out)


def softmax_backward(call: Call) -> Described:
    """``_softmax_backward_data(grad, output, dim, input_dtype)``."""
    x = call.tensor(1)
    if "log" in call.kind:
        words = ["log"]
    else:
        words = []
    return along(
        "softmax_backward", words, x, axes_of(call.integers(2), len(x.dims)), call.dtype(3, x.dtype)
    )


def _softmax(make: Operands, row: Row) -> Run:
    """Return a softmax over the last dimension; variant ``log``."""
    x = matrix(make, row)
    torch = make.torch
    call = of_variant(row, {"": torch.softmax, "log": torch.log_softmax})
    return lambda: call(x, dim=1)


_FORWARD = VectorWork(5)  # max, subtract, exponential, sum, divide
_BACKWARD = VectorWork(4, inputs=2)  # product, sum; subtract, product


def loss(call: Call) -> Described:
    """``mse_loss(x, target, reduction)``: one number from two tensors, or element-wise without reduction."""
    x = call.tensor(0)
    target = call.tensor(1)
    require(x.dims == target.dims and call.integer(_REDUCTION.get(call.kind, 2)) in (1, 2))
    whole = Tensor((x.numel,), promote(x.dtype, target.dtype))
    return whole_rows("loss", call.kind, whole, x.numel)


#: Position of the argument `reduction` where it is not the third.
_REDUCTION = {"binary_cross_entropy": 3, "binary_cross_entropy_with_logits": 4}


def _loss(make: Operands, row: Row) -> Run:
    """Return ``cross_entropy`` (mean) or ``mse_loss``, as the variant says."""
    (rows, cols) = sizes(row, "rows", "cols")
    x = matrix(make, row)
    nn = make.torch.nn.functional
    call = of_variant(row, {"cross_entropy": nn.cross_entropy, "mse_loss": nn.mse_loss})
    crossed = word(row, "variant") == "cross_entropy"
    if crossed:
        target = make.integers(cols, rows)
    else:
        target = make.tensor(only_format(row), rows, cols)
    return lambda: call(x, target)


ATEN: dict[str, CallReader] = {
    **{f"aten::{name}": reduction(dtype=3) for name in ("sum", "mean", "nansum", "prod")},
    **{f"aten::{name}": reduction(2, dtype=4) for name in ("norm", "linalg_vector_norm")},
    **{
        f"aten::{name}": reduction()
        for name in (
            "logsumexp",
            "amax",
            "amin",
            "argmax",
            "argmin",
            "any",
            "all",
            "var",
            "std",
            "var_mean",
            "std_mean",
            "aminmax",
            "count_nonzero",
        )
    },
    "aten::max": _extreme,
    "aten::min": _extreme,
    **{f"aten::{name}": softmax for name in ("softmax", "_softmax", "log_softmax", "_log_softmax")},
    "aten::_softmax_backward_data": softmax_backward,
    "aten::_log_softmax_backward_data": softmax_backward,
    **{
        f"aten::{name}": loss
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", *_REDUCTION)
    },
}
OPERATORS = (
    vector_op(
        "reduction",
        VectorWork(1, reduces=True),
        row_wise=True,
        spread=ROW_WISE_SPREAD,
        measured=Measured(_reduction),
    ),
    vector_op(
        "softmax",
        _FORWARD,
        row_wise=True,
        spread=ROW_WISE_SPREAD,
        aliases=("_softmax", "log_softmax", "_log_softmax"),
        measured=Measured(_softmax),
    ),
    vector_op(
        "softmax_backward",
        _BACKWARD,
        row_wise=True,
        spread=ROW_WISE_SPREAD,
        kernels="softmax",
        aliases=("_softmax_backward_data", "_log_softmax_backward_data"),
    ),
    vector_op(
        "loss",
        VectorWork(3, inputs=2, reduces=True),  # difference, square, sum
        row_wise=True,
        spread=ROW_WISE_SPREAD,
        measured=Measured(_loss, "cross_entropy"),
    ),
)
