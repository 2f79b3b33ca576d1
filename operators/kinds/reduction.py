"""Reductions of a row to one value; the variant names which: ``sum``, ``amax``, ``var``..."""

from __future__ import annotations

from ..call import NO_FIT, Call, CallReader, Described, require
from ..op import Measured, Operands, Row, Run, matrix, of_variant, word
from ..vector import ROW_WISE_SPREAD, VectorWork, along, axes_of, vector_op
from .elementwise import pointwise

_EVERYTHING = frozenset({"", "None", "[]", "True", "False"})
_INDICES = frozenset({"argmax", "argmin"})
_TRUTHS = frozenset({"any", "all"})


def reduction(axes: int = 1, dtype: int = -1) -> CallReader:
    """Return what reads a reduction with its axes (none, one or a list) and its argument `dtype` at these positions.

    All axes are reduced where the argument is absent, None, an empty list or no axis (``var(x, True)``).
    """

    def read(call: Call) -> Described:
        x, kind = call.tensor(0), call.kind
        typed = dtype >= 0 and len(call) == axes + 1 and call.types[axes] != "ScalarList"  # sum(x, dtype)
        reduced = list(range(len(x.dims)))
        if not typed and axes < len(call):
            require(not call.has(axes))  # max(x, other) is element-wise
            if call.word(axes) not in _EVERYTHING:
                reduced = axes_of(call.integers(axes), len(x.dims))
        special = "int64" if kind in _INDICES else "bool" if kind in _TRUTHS else x.dtype
        out = call.dtype(axes if typed else dtype, special) if dtype >= 0 else special
        return along("reduction", [kind], x, reduced, out)

    return read


def _extreme(call: Call) -> Described:
    """``max(x)``, ``max(x, dim)``, ``min``; of two tensors they are element-wise."""
    try:
        return reduction()(call)
    except NO_FIT:
        return pointwise(2)(call)


ATEN: dict[str, CallReader] = {
    **{f"aten::{name}": reduction(dtype=3) for name in ("sum", "mean", "nansum", "prod")},
    **{f"aten::{name}": reduction(2, dtype=4) for name in ("norm", "linalg_vector_norm")},
    **{f"aten::{name}": reduction() for name in (
        "logsumexp", "amax", "amin", "argmax", "argmin", "any", "all",
        "var", "std", "var_mean", "std_mean", "aminmax", "count_nonzero",
    )},
    "aten::max": _extreme,
    "aten::min": _extreme,
}  # fmt: skip


def _reduction(make: Operands, row: Row) -> Run:
    """Return a reduction over the last dimension; the variant names it (``sum`` by default)."""
    torch, x = make.torch, matrix(make, row, written=word(row, "dtype_out") or word(row, "dtype_a"))
    names = ("sum", "mean", "amax", "amin", "argmax", "argmin", "prod", "std", "var", "logsumexp")
    call = of_variant(row, {"": torch.sum, **{name: getattr(torch, name) for name in names}})
    return lambda: call(x, dim=1)


OPERATORS = (
    vector_op("reduction", VectorWork(1, reduces=True), row_wise=True, spread=ROW_WISE_SPREAD,
              measured=Measured(_reduction)),
)  # fmt: skip
