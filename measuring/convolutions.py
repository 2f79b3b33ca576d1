"""Calls of convolutions: forward, and the gradients of data and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import DataError
from .backend import Operands
from .journal import sizes, unknown, word
from .timing import Call

_PASSES = {"B": (True, False), "W": (False, True), "BW": (True, True)}
"""Gradients of each direction: of data, of weights."""
_CHANNELS_LAST = ("NHWC", "NDHWC")
_AXES = "dhw"


def convolution(make: Operands, row: Mapping[str, Any]) -> Call:
    """Return the call of a convolution; two-dimensional unless depth counts.

    Raises
    ------
    DataError
        The output is not the one that follows from input, filter, padding, stride and dilation, or a word is unknown.
    """
    axes = _AXES if any(_axis(row, "d", name) > 1 for name in ("in", "fil")) else _AXES[1:]
    batch, c_in, c_out = sizes(row, "batch", "in_channels", "out_channels")
    (groups,) = sizes(row, "groups", default=1)
    if c_in % groups or c_out % groups:
        raise DataError(f"groups must divide in_channels and out_channels, got {groups}, {c_in} and {c_out}")
    _check_output(row, axes)
    dtype = word(row, "dtype_a")
    for name in ("dtype_b", "dtype_out"):
        if word(row, name) not in ("", dtype):
            raise unknown(row, name, dtype)
    x = make.tensor(dtype, batch, c_in, *(_axis(row, axis, "in") for axis in axes))
    w = make.tensor(dtype, c_out, c_in // groups, *(_axis(row, axis, "fil") for axis in axes))
    x, w = (_laid_out(make, row, tensor) for tensor in (x, w))
    stride, pad, dilation = ([_axis(row, axis, side) for axis in axes] for side in ("stride", "pad", "dil"))
    return _call(make, row, x, w, (stride, pad, dilation, groups))


def _call(
    make: Operands, row: Mapping[str, Any], x: Any, w: Any, how: tuple[list[int], list[int], list[int], int]
) -> Call:
    torch, (stride, pad, dilation, groups), direction = make.torch, how, word(row, "direction")
    variant = word(row, "variant")
    if variant not in ("", "bias") or (variant and direction != "F"):
        raise unknown(row, "variant", "bias, of direction F")
    bias = make.tensor(word(row, "dtype_a"), w.shape[0]) if variant else None
    if direction == "F":
        forward = torch.nn.functional.conv2d if len(stride) == 2 else torch.nn.functional.conv3d
        return lambda: forward(x, w, bias, stride, pad, dilation, groups)
    if direction not in _PASSES:
        raise unknown(row, "direction", "F, B, W, BW")
    data, weights = _PASSES[direction]
    size = [x.shape[0], w.shape[0], *(_axis(row, axis, "out") for axis in _AXES[-len(stride) :])]
    gradient = _laid_out(make, row, make.tensor(word(row, "dtype_a"), *size))
    backward, none = torch.ops.aten.convolution_backward, [0] * len(stride)
    mask = [data, weights, False]
    return lambda: backward(gradient, x, w, None, stride, pad, dilation, False, none, groups, mask)


def _axis(row: Mapping[str, Any], axis: str, side: str) -> int:
    default = {"in": None, "out": None, "fil": None, "pad": 0}.get(side, 1)
    return sizes(row, f"{side}_{axis}", default=1 if axis == "d" and default is None else default)[0]


def _check_output(row: Mapping[str, Any], axes: str) -> None:
    for axis in axes:
        side, fil, stride, pad, dil, out = (
            _axis(row, axis, name) for name in ("in", "fil", "stride", "pad", "dil", "out")
        )
        expected = (side + 2 * pad - dil * (fil - 1) - 1) // stride + 1
        if out != expected:
            raise DataError(f"out_{axis} must be {expected}, which follows from input and filter, got {out}")


def _laid_out(make: Operands, row: Mapping[str, Any], tensor: Any) -> Any:
    """Return the tensor with channels first, or last where the row's layout says so."""
    layout = word(row, "layout")
    if layout in ("", "NCHW", "NCDHW"):
        return tensor
    if layout not in _CHANNELS_LAST:
        raise unknown(row, "layout", "NCHW, NHWC, NCDHW, NDHWC")
    torch = make.torch
    return tensor.contiguous(memory_format=torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d)
