"""Which part of the published peaks real kernels reach, as far as both devices were measured in the same way."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from ..errors import UnknownGPUError
from ..features.ops import Work
from ..hardware import GPU, Ceiling, all_gpus, find, measured

MEMORY = "hbm_copy"
"""The measurement that stands for memory bandwidth: a copy that streams (BabelStream)."""
MATRIX = "gemm_bf16"
"""The measurement that stands for matrix peaks of a precision nobody has measured."""
LOW = "low"
"""Confidence of measurements that do not count."""
_SAME_RATE = {"fp16": "bf16", "bf16": "fp16"}
"""Precisions that stand in for each other: they run at one rate on every matrix unit."""


def memory_shares(host: GPU, target: GPU) -> tuple[float, float]:
    """Return the part of the memory bandwidth that a streaming copy reaches on each device (see `shares`)."""
    return shares(host, target, MEMORY) or (typical(MEMORY) or 1.0,) * 2


def matrix_shares(host: GPU, target: GPU, dtype: str) -> tuple[float, float]:
    """Return the part of the matrix peak that the best products of matrices reach on each device (see `shares`)."""
    own = f"gemm_{dtype}"
    found = shares(host, target, own) or shares(host, target, f"gemm_{_SAME_RATE.get(dtype, dtype)}")
    return found or (typical(own) or typical(MATRIX) or 1.0,) * 2


def shares(host: GPU, target: GPU, metric: str) -> tuple[float, float] | None:
    """Return the part of a figure that was reached on each device.

    Two figures measured in the same way (column `method` of hardware/measured.csv) count as they are. If only one
    device was measured, or each in another way, one share stands for both, the larger one of the host or else of the
    target: a ratio of two methods would measure the methods.

    Parameters
    ----------
    host, target : GPU
        The devices.
    metric : str
        ``hbm_copy``, ``gemm_bf16``, ...

    Returns
    -------
    (float, float) or None
        None where neither was measured.
    """
    own, others = _by_method(host, metric), _by_method(target, metric)
    common = [method for method in own if method in others]
    if common:
        return own[common[0]], others[common[0]]
    either = own or others
    return (max(either.values()),) * 2 if either else None


@cache
def typical(metric: str) -> float | None:
    """Return the median share over all measurements of all GPUs; None where there is none."""
    found = [share for gpu in all_gpus() for row in _rows(gpu.name, metric) if (share := row.share(gpu))]
    return float(np.median(found)) if found else None


def reached(work: Work, host: GPU, target: GPU) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the part of the peak of its unit and precision that each row can reach on each device.

    Vector operators count with the whole peak: nothing was measured, and they wait for memory.
    """
    codes, kinds = work.kinds()
    pairs = [matrix_shares(host, target, dtype) if unit == "matrix" else (1.0, 1.0) for dtype, unit in kinds]
    found = np.array(pairs, dtype=float).reshape(-1, 2)[codes]
    return found[:, 0], found[:, 1]


def _by_method(gpu: GPU, metric: str) -> dict[str, float]:
    """Return the shares of a device by method, the largest of each: its own, or of the one it is based on."""
    found: dict[str, float] = {}
    for row in _rows(gpu.measured_name, metric):
        share = row.share(find(row.gpu))
        if share and row.confidence != LOW:
            found[row.method] = max(share, found.get(row.method, 0.0))
    return found


def _rows(name: str, metric: str) -> list[Ceiling]:
    try:
        return measured(name, metric)
    except UnknownGPUError:  # the user's own, based on none
        return []
