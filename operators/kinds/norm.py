"""Normalisations: layer, RMS, group and batch norms, and their gradients.

A row is what is normalised together. A layer's parameters are counted though it may have none
(variant ``plain``). Backward passes read the gradient with what the forward pass kept, and write
the gradient of the input.
"""

from __future__ import annotations

from math import prod

from ...errors import DataError
from ..call import Call, CallReader, Described, Tensor, require
from ..op import (
    Builder,
    Measured,
    Op,
    Operands,
    Row,
    Run,
    matrix,
    of_variant,
    only_format,
    sizes,
    word,
)
from ..vector import ROW_WISE_SPREAD, VectorWork, vector_op, whole_rows


def layer_norm(call: Call) -> Described:
    """``native_layer_norm(x, normalized_shape, weight, ...)``, ``rms_norm``; the weight has the shape if need be."""
    x = call.tensor(0)
    weight = None
    if call.has(2):
        weight = call.tensor(2)
    return _normalised("rms_norm" if "rms" in call.kind else "layer_norm", call, x, weight, 1)


def layer_norm_backward(call: Call) -> Described:
    """``native_layer_norm_backward(dy, x, normalized_shape, mean, rstd, weight, ...)``; RMS norms have no mean."""
    rms = "rms" in call.kind
    at = 5
    if rms:
        at = 4
    weight = None
    if call.has(at):
        weight = call.tensor(at)
    return _normalised(
        "rms_norm_backward" if rms else "layer_norm_backward", call, call.tensor(1), weight, 2
    )


def _normalised(op: str, call: Call, x: Tensor, weight: Tensor | None, shape: int) -> Described:
    if weight is None or call.text(shape):
        cols = prod(call.integers(shape))
    else:
        cols = weight.numel
    return whole_rows(op, "" if weight is not None else "plain", x, cols)


def library_rms_norm(x: int, weight: int, op: str = "rms_norm") -> CallReader:
    """Return what reads a library's RMS norm over the last dimension, given the positions of input and weight."""

    def read(call: Call) -> Described:
        tensor = call.tensor(x)
        width = call.tensor(weight).numel
        require(bool(tensor.dims) and tensor.dims[-1] == width)
        return whole_rows(op, "", tensor, width)

    return read


def group_norm(call: Call) -> Described:
    """``native_group_norm(x, weight, bias, N, C, HxW, group, eps)``."""
    return _grouped("group_norm", call.tensor(0), call.integer(6), affine=call.has(1))


def group_norm_of_groups(call: Call) -> Described:
    """``group_norm(x, groups, weight, bias, ...)`` and AITER's."""
    return _grouped("group_norm", call.tensor(0), call.integer(1), affine=call.has(2))


def group_norm_backward(call: Call) -> Described:
    """``native_group_norm_backward(dy, x, mean, rstd, weight, N, C, HxW, group, mask)``."""
    return _grouped("group_norm_backward", call.tensor(1), call.integer(8), affine=call.has(4))


def _grouped(op: str, x: Tensor, groups: int, *, affine: bool) -> Described:
    require(len(x.dims) > 1 and groups > 0 and x.dims[1] % groups == 0)
    return whole_rows(op, "" if affine else "plain", x, x.dims[1] // groups * prod(x.dims[2:]))


def batch_norm(call: Call) -> Described:
    """``native_batch_norm(x, weight, bias, mean, variance, training, ...)``: a row per channel."""
    op = "batch_norm_inference"
    if "with_update" in call.kind or call.flag(5):
        op = "batch_norm"
    return _per_channel(op, call.tensor(0), affine=call.has(1))


def batch_norm_backward(call: Call) -> Described:
    """``native_batch_norm_backward(dy, x, weight, ...)``; MIOpen and cuDNN have x before dy."""
    return _per_channel("batch_norm_backward", call.tensor(1), affine=call.has(2))


def _per_channel(op: str, x: Tensor, *, affine: bool) -> Described:
    require(len(x.dims) > 1 and x.dims[1] > 0)
    return whole_rows(op, "" if affine else "plain", x, x.numel // x.dims[1])


ATEN: dict[str, CallReader] = {
    **{
        f"aten::{name}": layer_norm
        for name in ("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm")
    },
    "aten::native_layer_norm_backward": layer_norm_backward,
    "aten::_fused_rms_norm_backward": layer_norm_backward,
    "aiter::rmsnorm": library_rms_norm(1, 2),
    "sgl_kernel::rmsnorm": library_rms_norm(1, 2),
    "_C::rms_norm": library_rms_norm(1, 2),
    "aiter::add_rmsnorm": library_rms_norm(1, 4, "add_rms_norm"),
    "sgl_kernel::fused_add_rmsnorm": library_rms_norm(0, 2, "add_rms_norm"),
    "_C::fused_add_rms_norm": library_rms_norm(0, 2, "add_rms_norm"),
    "aten::native_group_norm": group_norm,
    "aten::group_norm": group_norm_of_groups,
    "aiter::_groupnorm_run": group_norm_of_groups,
    "aten::native_group_norm_backward": group_norm_backward,
    **{
        f"aten::{name}": batch_norm
        for name in (
            "batch_norm",
            "native_batch_norm",
            "_native_batch_norm_legit",
            "_batch_norm_with_update",
            "cudnn_batch_norm",
            "miopen_batch_norm",
            "_batch_norm_impl_index",
        )
    },
    "aten::native_batch_norm_backward": batch_norm_backward,
    "aten::cudnn_batch_norm_backward": batch_norm_backward,
    "aten::miopen_batch_norm_backward": batch_norm_backward,
}


def _norm(make: Operands, row: Row) -> Run:
    """Return layer and RMS normalisation, with scale (and shift, a layer norm's), or without (``plain``)."""
    (cols,) = sizes(row, "cols")
    x = matrix(make, row)
    nn = make.torch.nn.functional
    dtype = only_format(row)
    affine = _affine(row)
    weight = None
    if affine:
        weight = make.tensor(dtype, cols)
    if word(row, "op") == "rms_norm":
        return lambda: nn.rms_norm(x, (cols,), weight)
    bias = None
    if affine:
        bias = make.tensor(dtype, cols)
    return lambda: nn.layer_norm(x, (cols,), weight, bias)


def _batch_norm(make: Operands, row: Row) -> Run:
    """Return ``batch_norm`` of one image: rows are channels."""
    (rows, cols) = sizes(row, "rows", "cols")
    dtype = only_format(row)
    training = word(row, "op") == "batch_norm"
    if training and cols < 2:
        raise DataError("batch_norm needs two values per channel: cols >= 2")
    norm = make.torch.nn.functional.batch_norm
    x = make.tensor(dtype, 1, rows, cols)
    mean = make.tensor(dtype, rows)
    variance = make.tensor(dtype, rows).abs()
    weight, bias = (make.tensor(dtype, rows) if _affine(row) else None for _ in range(2))
    return lambda: norm(x, mean, variance, weight, bias, training=training)


def _affine(row: Row) -> bool:
    return of_variant(row, {"": True, "plain": False})


def _op(name: str, work: VectorWork, *aliases: str, build: Builder | None = None) -> Op:
    measured = None
    if build:
        measured = Measured(build, "norm")
    return vector_op(
        name,
        work,
        row_wise=True,
        spread=ROW_WISE_SPREAD,
        kernels="norm",
        aliases=aliases,
        measured=measured,
    )


OPERATORS = (
    # mean; subtract, square, sum; divide, scale, shift; root per row
    _op(
        "layer_norm",
        VectorWork(8, parameters=2),
        "ln",
        "layernorm",
        "native_layer_norm",
        build=_norm,
    ),
    # square, sum; divide, scale
    _op("rms_norm", VectorWork(4, parameters=1), "rmsnorm", "_fused_rms_norm", build=_norm),
    # 2 sums of products; 3 terms
    _op(
        "layer_norm_backward",
        VectorWork(11, inputs=2, parameters=1, row_parameters=2),
        "native_layer_norm_backward",
    ),
    _op(
        "rms_norm_backward",
        VectorWork(8, inputs=2, parameters=1, row_parameters=1),
        "_fused_rms_norm_backward",
    ),
    # as layer_norm, a row per image and group; scale and shift are too few to count
    _op("group_norm", VectorWork(8), "native_group_norm"),
    _op(
        "group_norm_backward",
        VectorWork(11, inputs=2, row_parameters=2),
        "native_group_norm_backward",
    ),
    # as layer_norm, a row per channel
    _op(
        "batch_norm",
        VectorWork(8, row_parameters=4),
        "native_batch_norm",
        "cudnn_batch_norm",
        "miopen_batch_norm",
        build=_batch_norm,
    ),
    # scale and shift
    _op("batch_norm_inference", VectorWork(2, row_parameters=4), build=_batch_norm),
    _op(
        "batch_norm_backward",
        VectorWork(11, inputs=2, row_parameters=3),
        "native_batch_norm_backward",
        "cudnn_batch_norm_backward",
        "miopen_batch_norm_backward",
    ),
    # the sum is written for the next layer
    _op(
        "add_rms_norm",
        VectorWork(5, inputs=2, outputs=2, parameters=1),
        "fused_add_rms_norm",
        "fused_add_rmsnorm",
        "add_rmsnorm",
    ),
)
