"""How much of the published peaks a kernel class reaches on both devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from ..features.ops import Work, work_of
from ..features.roofline import compute_us, memory_us, where_published
from ..hardware import GPU


@dataclass(frozen=True)
class Efficiency:
    """Median share of the published peaks, 0 to 1; NaN where a peak is not published.

    Attributes
    ----------
    host_flops, target_flops : float
        HE: achieved FLOPS / dense peak FLOPS of the precision the kernel computes in.
    host_bandwidth, target_bandwidth : float
        Bytes the kernel must move per second / peak memory bandwidth. Above 1 where a cache delivers them.
    """

    host_flops: float
    target_flops: float
    host_bandwidth: float
    target_bandwidth: float


def median_efficiency(
    rows: pd.DataFrame, *, host: GPU, host_us: np.ndarray, target: GPU, target_us: np.ndarray
) -> Efficiency:
    """Return the median efficiency of some workloads on both sides.

    Parameters
    ----------
    rows : DataFrame of n rows
        Column ``op`` and the operators' dimensions and precisions.
    host, target : GPU
        The devices.
    host_us, target_us : ndarray of shape (n,)
        Measured times (µs).
    """
    work, sides = work_of(rows), ((host, host_us), (target, target_us))
    return Efficiency(
        *(_median_share(work, at_peak, gpu, us) for at_peak in (compute_us, memory_us) for gpu, us in sides)
    )


def _median_share(work: Work, at_peak: Callable[..., np.ndarray], gpu: GPU, measured_us: np.ndarray) -> float:
    """Return the median of time at peak / time measured: the share of that peak."""
    times, _ = where_published(work, partial(at_peak, gpu=gpu))
    return float(np.median(times / measured_us))
