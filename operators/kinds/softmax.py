"""Softmax over a row, and its gradient; the variant ``log`` is its logarithm."""

from __future__ import annotations

from ..call import Call, CallReader, Described
from ..op import Measured, Operands, Row, Run, matrix, of_variant
from ..vector import ROW_WISE_SPREAD, VectorWork, along, axes_of, vector_op


def softmax(call: Call) -> Described:
    """``_softmax(x, dim, half_to_float)`` and ``softmax(x, dim, dtype)``, and their logarithms."""
    x = call.tensor(0)
    axes = axes_of(call.integers(1), len(x.dims))
    words = ["log"] if "log" in call.kind else []
    out = "fp32" if call.text(2) == "True" else call.dtype(2, x.dtype)
    return along("softmax", words, x, axes, out)


def softmax_backward(call: Call) -> Described:
    """``_softmax_backward_data(grad, output, dim, input_dtype)``."""
    x = call.tensor(1)
    words = ["log"] if "log" in call.kind else []
    return along("softmax_backward", words, x, axes_of(call.integers(2), len(x.dims)), call.dtype(3, x.dtype))


def _softmax(make: Operands, row: Row) -> Run:
    """Return a softmax over the last dimension; variant ``log``."""
    x, torch = matrix(make, row), make.torch
    call = of_variant(row, {"": torch.softmax, "log": torch.log_softmax})
    return lambda: call(x, dim=1)


ATEN: dict[str, CallReader] = {
    **{f"aten::{name}": softmax for name in ("softmax", "_softmax", "log_softmax", "_log_softmax")},
    "aten::_softmax_backward_data": softmax_backward,
    "aten::_log_softmax_backward_data": softmax_backward,
}
_FORWARD = VectorWork(5)  # max, subtract, exponential, sum, divide
_BACKWARD = VectorWork(4, inputs=2)  # product, sum; subtract, product
OPERATORS = (
    vector_op("softmax", _FORWARD, row_wise=True, spread=ROW_WISE_SPREAD,
              aliases=("_softmax", "log_softmax", "_log_softmax"), measured=Measured(_softmax)),
    vector_op("softmax_backward", _BACKWARD, row_wise=True, spread=ROW_WISE_SPREAD, kernels="softmax",
              aliases=("_softmax_backward_data", "_log_softmax_backward_data")),
)  # fmt: skip
