"""Fused optimizers: a step over all parameters together."""

from __future__ import annotations

from ..call import Call, CallReader, Described, Tensor, require
from ..vector import ROW_WISE_SPREAD, VectorWork, vector_op
from .elementwise import elementwise


def fused_adam(call: Call) -> Described:
    """``_fused_adam_(params, grads, moments, squares, max_squares, steps, ...)``; with AMSGrad it is not described."""
    params, extra = call.tensors(0), call.tensors(4)
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


ATEN: dict[str, CallReader] = {
    "aten::_fused_adam": fused_adam,
    "aten::_fused_adamw": fused_adam,
    "aten::_fused_sgd": fused_sgd,
}
_ADAM = VectorWork(14, inputs=4, outputs=3)  # moments 3 + 4, root and quotient 3, decay 2, step 2
_MOMENTUM = VectorWork(4, inputs=3, outputs=2)  # momentum 2, step 2
OPERATORS = (
    vector_op("adam", _ADAM, row_wise=True, spread=ROW_WISE_SPREAD, kernels="optimizer"),
    vector_op("sgd_momentum", _MOMENTUM, row_wise=True, spread=ROW_WISE_SPREAD, kernels="optimizer"),
)
