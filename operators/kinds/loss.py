"""Losses: one number from predictions and targets."""

from __future__ import annotations

from ..call import Call, CallReader, Described, Tensor, promote, require
from ..op import Measured, Operands, Row, Run, matrix, of_variant, only_format, sizes, word
from ..vector import ROW_WISE_SPREAD, VectorWork, vector_op, whole_rows


def loss(call: Call) -> Described:
    """``mse_loss(x, target, reduction)``: one number from two tensors, or element-wise without reduction."""
    x, target = call.tensor(0), call.tensor(1)
    require(x.dims == target.dims and call.integer(_REDUCTION.get(call.kind, 2)) in (1, 2))
    whole = Tensor((x.numel,), promote(x.dtype, target.dtype))
    return whole_rows("loss", call.kind, whole, x.numel)


#: Position of the argument `reduction` where it is not the third.
_REDUCTION = {"binary_cross_entropy": 3, "binary_cross_entropy_with_logits": 4}
ATEN: dict[str, CallReader] = {
    f"aten::{name}": loss for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", *_REDUCTION)
}


def _loss(make: Operands, row: Row) -> Run:
    """Return ``cross_entropy`` (mean) or ``mse_loss``, as the variant says."""
    (rows, cols), x, nn = sizes(row, "rows", "cols"), matrix(make, row), make.torch.nn.functional
    call = of_variant(row, {"cross_entropy": nn.cross_entropy, "mse_loss": nn.mse_loss})
    crossed = word(row, "variant") == "cross_entropy"
    target = make.integers(cols, rows) if crossed else make.tensor(only_format(row), rows, cols)
    return lambda: call(x, target)


OPERATORS = (
    vector_op("loss", VectorWork(3, inputs=2, reduces=True),  # difference, square, sum
              row_wise=True, spread=ROW_WISE_SPREAD, measured=Measured(_loss, "cross_entropy")),
)  # fmt: skip
