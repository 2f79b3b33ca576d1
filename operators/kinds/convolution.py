"""Convolutions; the columns are the forward problem's (x in, y out) in all three directions.

A direction of two letters is a call that makes both passes one after the other (see `TWO_PASSES`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ...errors import DataError
from ..call import Call, CallReader, Described, Tensor, promote, require
from ..op import (
    Dim,
    Dimensions,
    Measured,
    Op,
    Operands,
    OwnFeature,
    Row,
    Run,
    log_dims,
    log_feature,
    only_format,
    sizes,
    unknown,
    word,
)
from ..work import CATALOGUE, element_bytes, numbers, texts
from .gemm import BATCH

AXES = ("d", "h", "w")
TWO_PASSES = ("BW", "FW")
"""Directions of calls that compute both gradients; FW: of a transposed convolution, the first pass a forward one."""


def _product(frame: pd.DataFrame, side: str) -> np.ndarray:
    """Return the product of a per-axis dimension over depth, height and width."""
    d, h, w = numbers(frame, *(f"{side}_{axis}" for axis in AXES))
    return d * h * w


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return ``2 N K (C/g) R S T P Q O``, the same forward (F), backward by data (B) and by weights (W).

    Every one of the three passes multiplies each filter tap with each output position once (Chetlur
    et al., "cuDNN", arXiv:1410.0759, section 3). N images, C input and K output channels, g groups,
    R S T the filter, P Q O the output y of the forward problem. Two passes (BW) count twice.
    """
    n, c, k, groups = numbers(frame, "batch", "in_channels", "out_channels", "groups")
    return (
        2
        * n
        * k
        * c
        / groups
        * _product(frame, "fil")
        * _product(frame, "out")
        * (1 + _two_passes(frame))
    )


def least_flops(frame: pd.DataFrame) -> np.ndarray:
    """Return the FLOPs that no algorithm gets below: along an axis ``(s p + r - s) / (p r)`` of the direct ones.

    p outputs of a filter of r taps take at least p + r - 1 multiplications (Winograd, "Arithmetic
    Complexity of Computations", 1980; Lavin & Gray, arXiv:1509.09308, section 4); a stride s makes
    s filters of r / s taps. Kernels by Winograd's or Fourier's transform stay above it, and may be
    faster than the peak lets the direct sum be.
    """
    fewer = np.ones(len(frame))
    for axis in AXES:
        out, fil, stride = numbers(frame, f"out_{axis}", f"fil_{axis}", f"stride_{axis}")
        fewer *= np.minimum((stride * out + fil - stride) / (out * fil), 1)
    return flops(frame) * fewer


def least_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return `bytes_moved` with that part of x alone which filters touch: at most p r of its points along an axis."""
    touched = np.ones(len(frame))
    for axis in AXES:
        side, out, fil = numbers(frame, f"in_{axis}", f"out_{axis}", f"fil_{axis}")
        touched *= np.minimum(out * fil / side, 1)
    return bytes_moved(frame, touched)


def bytes_moved(frame: pd.DataFrame, touched: np.ndarray | float = 1.0) -> np.ndarray:
    """Return the bytes of the tensors read and written once; of x the share `touched`.

    F reads x and w and writes y; B reads dy and w and writes dx; W reads x and dy and writes dw.
    The tensor written has ``dtype_out``, the others ``dtype_a`` (dy, x) and ``dtype_b`` (w). Two
    passes (BW) move what each of them does.
    """
    n, c, k, groups = numbers(frame, "batch", "in_channels", "out_channels", "groups")
    x = n * c * _product(frame, "in") * touched
    y = n * k * _product(frame, "out")
    w = k * c / groups * _product(frame, "fil")
    a, b, out = (element_bytes(frame, name) for name in ("dtype_a", "dtype_b", "dtype_out"))
    direction = texts(frame, "direction")
    two = _two_passes(frame)
    total = np.zeros(len(frame))
    no = np.zeros(len(frame), dtype=bool)
    yes = np.ones(len(frame), dtype=bool)
    for backward, weights, counted in (
        (np.isin(direction, ["B", "BW"]), direction == "W", yes),
        (no, yes, two),
    ):
        moved_y = y * np.where(backward | weights, a, out)
        total += counted * (
            x * np.where(backward, out, a) + w * np.where(weights, out, b) + moved_y
        )
    return total


def _two_passes(frame: pd.DataFrame) -> np.ndarray:
    return np.isin(texts(frame, "direction"), TWO_PASSES)


def view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the implicit GEMM of each direction, one per group.

    - F: m = N P Q O, n = K/g, k = C/g R S T;
    - B: with strides, one product per non-empty class of filter taps (stride classes, as in
      Composable Kernel's ``TransformConvBwdDataToGemm``): m = N ceil(H/s)..., n = C/g, k = K/g
      ceil(R/s)..., batch = g min(R, s)...;
    - W: m = K/g, n = C/g R S T, k = N P Q O;
    - two passes (BW): as W with twice the k, which keeps the FLOPs.
    """
    images, c, k, groups = numbers(frame, "batch", "in_channels", "out_channels", "groups")
    taps = _product(frame, "fil")
    positions = _product(frame, "out")
    channels = c / groups
    filters = k / groups
    pixels = images.copy()
    slices = filters.copy()
    classes = groups.copy()
    for axis in AXES:
        side, fil, stride = numbers(frame, f"in_{axis}", f"fil_{axis}", f"stride_{axis}")
        pixels = pixels * np.ceil(side / stride)
        slices = slices * np.ceil(fil / stride)
        classes = classes * np.minimum(fil, stride)
    direction = texts(frame, "direction")
    passes = 1 + _two_passes(frame)
    cases = [direction == "B", (direction == "W") | (passes > 1)]
    return pd.DataFrame(
        {
            "batch": np.select(cases, [classes, groups], groups),
            "m": np.select(cases, [pixels, filters], images * positions),
            "n": np.select(cases, [channels, channels * taps], filters),
            "k": np.select(cases, [slices, images * positions * passes], channels * taps),
        }
    )


def convolution(
    stride: int,
    padding: int,
    dilation: int,
    groups: int,
    *,
    bias: int = 2,
    transposed: int | bool = False,
    extra: int = 7,
) -> CallReader:
    """Return what reads a forward convolution with its arguments at these positions.

    A negative `bias` stands for none, a negative `groups` for as many as channels (depthwise).
    `transposed` is the position of the flag, or what the operator always is: a transposed
    convolution is the backward pass by data (direction B) of the convolution that would undo it.
    """

    def read(call: Call) -> Described:
        x = call.tensor(0)
        w = call.tensor(1)
        if isinstance(transposed, bool):
            turned = transposed
        else:
            turned = call.flag(transposed)
        if groups >= 0:
            group_count = call.integer(groups)
        else:
            group_count = x.dims[1]
        variant = ""
        if bias >= 0 and call.has(bias):
            variant = "bias"
        window = [_per_axis(call, at, len(w.dims) - 2) for at in (stride, padding, dilation)]
        require(len(x.dims) == len(w.dims) and all(step > 0 for step in window[0]))
        axes = list(zip(x.dims[2:], w.dims[2:], *window, strict=True))
        if turned:
            added = _per_axis(call, extra, len(w.dims) - 2)
            sides = [
                (side - 1) * step - 2 * pad + dil * (fil - 1) + 1
                for side, fil, step, pad, dil in axes
            ]
            y = (x.dims[0], w.dims[1] * group_count, *map(sum, zip(sides, added, strict=True)))
        else:
            sides = [
                (side + 2 * pad - dil * (fil - 1) - 1) // step + 1
                for side, fil, step, pad, dil in axes
            ]
            y = (x.dims[0], w.dims[0], *sides)
        near, far = (y, x.dims) if turned else (x.dims, y)
        shape = _conv(near, far, w, window, group_count, _conv_layout(x))
        direction = "F"
        if turned:
            direction = "B"
        return {**shape, "variant": variant, "direction": direction, **_formats(x, w)}

    return read


def convolution_backward(call: Call, window_at: int = 4) -> Described:
    """``convolution_backward(dy, x, w, bias_sizes, stride, padding, dilation, transposed, extra, groups, mask)``.

    The mask says which gradients are asked for: of x (direction B), of w (W) or both (BW, two
    passes). Backwards of a transposed convolution the gradient of x is a forward pass (F, FW).
    """
    dy, x, w = (call.tensor(position) for position in range(3))
    turned = call.flag(window_at + 3)
    wanted = call.flags(window_at + 6)
    window = [_per_axis(call, window_at + which, len(w.dims) - 2) for which in range(3)]
    if turned:
        near = dy.dims
        far = x.dims
    else:
        near = x.dims
        far = dy.dims
    passes = ("F" if turned else "B") * wanted[0] + "W" * wanted[1]
    require(passes != "" and len(near) == len(far) == len(w.dims))
    shape = _conv(near, far, w, window, call.integer(window_at + 5), _conv_layout(x))
    return {**shape, "variant": "", "direction": passes, **_formats(x, w)}


def _conv(
    near: tuple[int, ...],
    far: tuple[int, ...],
    w: Tensor,
    window: list[list[int]],
    groups: int,
    layout: str,
) -> Described:
    """Return a convolution from `near` (x of the forward problem) to `far` (y) with channels checked."""
    require(
        near[0] == far[0] and groups > 0 and w.dims[0] == far[1] and w.dims[1] * groups == near[1]
    )
    axes = AXES[3 - (len(w.dims) - 2) :]
    described = {"op": "conv", "layout": layout, "batch": near[0], "groups": groups}
    described |= {"in_channels": near[1], "out_channels": far[1], "in_h": 1, "out_h": 1, "fil_h": 1}
    sides = {"in": near[2:], "out": far[2:], "fil": w.dims[2:]} | dict(
        zip(("stride", "pad", "dil"), window, strict=True)
    )
    sizes_of_axes = {}
    for side, lengths in sides.items():
        for axis, length in zip(axes, lengths, strict=True):
            sizes_of_axes[f"{side}_{axis}"] = length
    return described | sizes_of_axes


def _formats(x: Tensor, w: Tensor) -> Described:
    return {"dtype_a": x.dtype, "dtype_b": w.dtype, "dtype_out": promote(x.dtype, w.dtype)}


def _per_axis(call: Call, position: int, axes: int) -> list[int]:
    """Return a value per axis; one value stands for all."""
    listed = call.integers(position)
    require(1 <= axes <= 3 and len(listed) in (1, axes))
    if len(listed) == 1:
        return listed * axes
    return listed


def _conv_layout(x: Tensor) -> str:
    """Return the layout of the activations; a 1-D convolution is a 2-D one of height 1."""
    channels_last = len(x.strides) > 2 and x.strides[1] == 1 and x.dims[1] > 1
    plain = "NCHW"
    if len(x.dims) == 5:
        plain = "NCDHW"
    if channels_last:
        return plain.replace("C", "") + "C"
    return plain


#: Position of ``output_padding``; 7 in ``convolution`` and ``_convolution``.
ATEN: dict[str, CallReader] = {
    "aten::convolution_backward": convolution_backward,
    "aten::convolution_backward_overrideable": partial(convolution_backward, window_at=3),
}
ATEN |= {name: convolution(**places) for name, places in CATALOGUE["convolution"].items()}
_PASSES = {"B": (True, False), "W": (False, True), "BW": (True, True)}
"""Gradients that a convolution of each direction makes: of data, of weights."""


def _convolution(make: Operands, row: Row) -> Run:
    """Return ``conv2d``, ``conv3d`` where depth counts (direction F), or ``convolution_backward`` (B, W, BW)."""
    if any(_axis(row, "d", name) > 1 for name in ("in", "fil")):
        axes = AXES
    else:
        axes = AXES[1:]
    batch, c_in, c_out = sizes(row, "batch", "in_channels", "out_channels")
    (groups,) = sizes(row, "groups", default=1)
    if c_in % groups or c_out % groups:
        raise DataError(
            f"groups must divide in_channels and out_channels, got {groups}, {c_in} and {c_out}"
        )
    for axis in axes:
        side, fil, stride, pad, dil, out = (
            _axis(row, axis, of) for of in ("in", "fil", "stride", "pad", "dil", "out")
        )
        expected = (side + 2 * pad - dil * (fil - 1) - 1) // stride + 1
        if out != expected:
            raise DataError(
                f"out_{axis} must be {expected}, which follows from input and filter, got {out}"
            )
    dtype = only_format(row)
    x = make.tensor(dtype, batch, c_in, *(_axis(row, axis, "in") for axis in axes))
    w = make.tensor(dtype, c_out, c_in // groups, *(_axis(row, axis, "fil") for axis in axes))
    x, w = (_laid_out(make, row, tensor) for tensor in (x, w))
    strides = [_axis(row, axis, "stride") for axis in axes]
    pads = [_axis(row, axis, "pad") for axis in axes]
    dilations = [_axis(row, axis, "dil") for axis in axes]
    torch = make.torch
    variant = word(row, "variant")
    direction = word(row, "direction")
    if variant not in ("", "bias") or (variant and direction != "F"):
        raise unknown(row, "variant", "bias, of direction F")
    bias = None
    if variant:
        bias = make.tensor(dtype, c_out)
    if direction == "F":
        if len(axes) == 2:
            forward = torch.nn.functional.conv2d
        else:
            forward = torch.nn.functional.conv3d
        return lambda: forward(x, w, bias, strides, pads, dilations, groups)
    if direction not in _PASSES:
        raise unknown(row, "direction", "F, B, W, BW")
    gradient = make.tensor(dtype, batch, c_out, *(_axis(row, axis, "out") for axis in axes))
    gradient = _laid_out(make, row, gradient)
    backward = torch.ops.aten.convolution_backward
    none = [0] * len(axes)
    mask = [*_PASSES[direction], False]
    return lambda: backward(
        gradient, x, w, None, strides, pads, dilations, False, none, groups, mask
    )


def _axis(row: Row, axis: str, side: str) -> int:
    default = {"in": None, "out": None, "fil": None, "pad": 0}.get(side, 1)
    return sizes(row, f"{side}_{axis}", default=1 if axis == "d" and default is None else default)[
        0
    ]


def _laid_out(make: Operands, row: Row, tensor: Any) -> Any:
    """Return the tensor with channels first, or last where the row's layout says so."""
    layout = word(row, "layout")
    if layout in ("", "NCHW", "NCDHW"):
        return tensor
    if layout not in ("NHWC", "NDHWC"):
        raise unknown(row, "layout", "NCHW, NHWC, NCDHW, NDHWC")
    torch = make.torch
    if tensor.dim() == 4:
        memory_format = torch.channels_last
    else:
        memory_format = torch.channels_last_3d
    return tensor.contiguous(memory_format=memory_format)


def _all_are(rows: Dimensions, stem: str, value: float) -> np.ndarray:
    """Return whether a dimension has one value along height and width."""
    return (rows.dim(f"{stem}_h") == value) & (rows.dim(f"{stem}_w") == value)


def _depthwise(rows: Dimensions) -> np.ndarray:
    groups = rows.dim("groups")
    return ((groups == rows.dim("in_channels")) & (groups > 1)).astype(float)


def _winograd(rows: Dimensions) -> np.ndarray:
    dense = _all_are(rows, "stride", 1) & _all_are(rows, "dil", 1) & (rows.dim("groups") == 1)
    return (_all_are(rows, "fil", 3) & dense).astype(float)


def _along_axes(
    side: str, meaning: str, default: float | None = None, example: int | None = None
) -> list[Dim]:
    """Return a dimension along depth, height and width; where it has no default it has one along depth, 1."""
    least = 1
    if side == "pad":
        least = 0
    return [
        Dim(
            f"{side}_d",
            meaning.format("depth"),
            default=1.0 if default is None else default,
            least=least,
        ),
        Dim(f"{side}_h", meaning.format("height"), example, default, least=least),
        Dim(f"{side}_w", meaning.format("width"), example, default, least=least),
    ]


_SHAPE = (
    Dim("groups", "groups of channels", default=1.0),
    Dim("in_channels", "channels of the input", 64),
    *_along_axes("in", "{} of the input", example=56),
    Dim("out_channels", "channels of the output", 64),
    *_along_axes("out", "{} of the output", example=54),
    *_along_axes("fil", "{} of the filter", example=3),
    *_along_axes("pad", "padding along {}, on either side", 0.0),
    *_along_axes("stride", "stride along {}", 1.0),
    *_along_axes("dil", "dilation along {}", 1.0),
)
OPERATORS = (
    Op(
        "conv",
        "matrix",
        (
            Dim(
                "direction",
                "F forward, B gradient of the data, W gradient of the weights, BW both",
                "F",
                kind="word",
            ),
            Dim("layout", "memory layout, as in `NCHW`", default="", kind="word"),
            BATCH,
            *_SHAPE,
        ),
        tuple(dim.name for dim in _SHAPE),
        "conv {in_channels}x{in_d}x{in_h}x{in_w} to {out_channels}x{out_d}x{out_h}x{out_w}"
        " filter {fil_d}x{fil_h}x{fil_w} stride {stride_d}x{stride_h}x{stride_w} pad "
        "{pad_d}x{pad_h}x{pad_w}"
        " dilation {dil_d}x{dil_h}x{dil_w} groups {groups}",
        flops,
        bytes_moved,
        view,
        _least_flops=least_flops,
        _least_bytes=least_bytes,
        aliases=(
            "conv1d",
            "conv2d",
            "conv3d",
            "convolution",
            "_convolution",
            "cudnn_convolution",
            "miopen_convolution",
        ),
        spread=0.5,
        features=(
            log_feature("log2.images", "log2(batch) of a convolution", "batch"),
            *log_dims(
                "groups",
                "in_channels",
                "out_channels",
                "in_d",
                "in_h",
                "in_w",
                "out_d",
                "out_h",
                "out_w",
                "fil_d",
                "fil_h",
                "fil_w",
                "stride_d",
                "stride_h",
                "stride_w",
                "dil_d",
                "dil_h",
                "dil_w",
            ),
            OwnFeature(
                "pad_h", "1", "shape", "padding along height", lambda rows: rows.dim("pad_h", 0)
            ),
            OwnFeature(
                "pad_w", "1", "shape", "padding along width", lambda rows: rows.dim("pad_w", 0)
            ),
            OwnFeature(
                "pointwise",
                "0/1",
                "shape",
                "1 x 1 filter",
                lambda rows: _all_are(rows, "fil", 1).astype(float),
            ),
            OwnFeature("depthwise", "0/1", "shape", "groups = in_channels > 1", _depthwise),
            OwnFeature(
                "winograd",
                "0/1",
                "shape",
                "3 x 3 filter, stride and dilation 1, one group",
                _winograd,
            ),
        ),
        measured=Measured(_convolution),
    ),
)
