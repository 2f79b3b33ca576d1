"""Work of convolutions; the columns are the forward problem's (x in, y out) in all three directions.

A direction of two letters is a call that makes both passes one after the other (see `TWO_PASSES`).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from .work import element_bytes, numbers, texts

AXES = ("d", "h", "w")
TWO_PASSES = ("BW", "FW")
"""Directions of calls that compute both gradients; FW: of a transposed convolution, the first pass a forward one."""


def _product(frame: pd.DataFrame, side: str) -> np.ndarray:
    """Return the product of a per-axis dimension over depth, height and width."""
    d, h, w = numbers(frame, *(f"{side}_{axis}" for axis in AXES))
    return d * h * w


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return ``2 N K (C/g) R S T P Q O``, the same forward (F), backward by data (B) and by weights (W).

    Every one of the three passes multiplies each filter tap with each output position once (Chetlur et al.,
    "cuDNN", arXiv:1410.0759, section 3). N images, C input and K output channels, g groups, R S T the filter,
    P Q O the output y of the forward problem. Two passes (BW) count twice.
    """
    n, c, k, groups = numbers(frame, "batch", "in_channels", "out_channels", "groups")
    return 2 * n * k * c / groups * _product(frame, "fil") * _product(frame, "out") * (1 + _two_passes(frame))


def least_flops(frame: pd.DataFrame) -> np.ndarray:
    """Return the FLOPs that no algorithm gets below: along an axis ``(s p + r - s) / (p r)`` of the direct ones.

    p outputs of a filter of r taps take at least p + r - 1 multiplications (Winograd, "Arithmetic Complexity of
    Computations", 1980; Lavin & Gray, arXiv:1509.09308, section 4); a stride s makes s filters of r / s taps. Kernels
    by Winograd's or Fourier's transform stay above it, and may be faster than the peak lets the direct sum be.
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

    F reads x and w and writes y; B reads dy and w and writes dx; W reads x and dy and writes dw. The tensor written
    has ``dtype_out``, the others ``dtype_a`` (dy, x) and ``dtype_b`` (w). Two passes (BW) move what each of them does.
    """
    n, c, k, groups = numbers(frame, "batch", "in_channels", "out_channels", "groups")
    x, y = n * c * _product(frame, "in") * touched, n * k * _product(frame, "out")
    w = k * c / groups * _product(frame, "fil")
    a, b, out = (element_bytes(frame, name) for name in ("dtype_a", "dtype_b", "dtype_out"))
    direction, two = texts(frame, "direction"), _two_passes(frame)
    total = np.zeros(len(frame))
    no, yes = np.zeros(len(frame), dtype=bool), np.ones(len(frame), dtype=bool)
    for backward, weights, counted in ((np.isin(direction, ["B", "BW"]), direction == "W", yes), (no, yes, two)):
        moved_y = y * np.where(backward | weights, a, out)
        total += counted * (x * np.where(backward, out, a) + w * np.where(weights, out, b) + moved_y)
    return total


def _two_passes(frame: pd.DataFrame) -> np.ndarray:
    return np.isin(texts(frame, "direction"), TWO_PASSES)


def view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the implicit GEMM of each direction, one per group.

    - F: m = N P Q O, n = K/g, k = C/g R S T;
    - B: with strides, one product per non-empty class of filter taps (stride classes, as in Composable Kernel's
      ``TransformConvBwdDataToGemm``): m = N ceil(H/s)..., n = C/g, k = K/g ceil(R/s)..., batch = g min(R, s)...;
    - W: m = K/g, n = C/g R S T, k = N P Q O;
    - two passes (BW): as W with twice the k, which keeps the FLOPs.
    """
    images, c, k, groups = numbers(frame, "batch", "in_channels", "out_channels", "groups")
    taps, positions = _product(frame, "fil"), _product(frame, "out")
    channels, filters = c / groups, k / groups
    pixels, slices, classes = images.copy(), filters.copy(), groups.copy()
    for axis in AXES:
        side, fil, stride = numbers(frame, f"in_{axis}", f"fil_{axis}", f"stride_{axis}")
        pixels, slices = pixels * np.ceil(side / stride), slices * np.ceil(fil / stride)
        classes = classes * np.minimum(fil, stride)
    direction, passes = texts(frame, "direction"), 1 + _two_passes(frame)
    cases = [direction == "B", (direction == "W") | (passes > 1)]
    return pd.DataFrame(
        {
            "batch": np.select(cases, [classes, groups], groups),
            "m": np.select(cases, [pixels, filters], images * positions),
            "n": np.select(cases, [channels, channels * taps], filters),
            "k": np.select(cases, [slices, images * positions * passes], channels * taps),
        }
    )
