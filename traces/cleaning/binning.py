"""Execution-time binning: of many runs of a kernel, those that took the time most runs took are the golden ones.

FinGraV (Singhania, Aga, Ibrahim, *FinGraV: Methodology for Fine-Grain GPU Power Visibility and Insights*, ISPASS 2025)
keeps the runs of the fullest bin of execution times, so that readings of several runs may be put together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import DataError, ParameterError

FloatArray = NDArray[np.float64]

MARGINS: Final = ((25.0, 0.05), (50.0, 0.05), (200.0, 0.02), (1000.0, 0.02))
"""Time from which a margin holds, in microseconds, and the margin, as published."""


@dataclass(frozen=True)
class GoldenRuns:
    """The fullest bin."""

    kept: NDArray[np.bool_]  # the golden runs, shape (n,)
    lower: float  # edges of the bin, in the unit of the values; runs on an edge belong to it
    upper: float
    margin: float  # half the width of the bin relative to its middle: 0.05 is ±5 %


def margin_of(time_us: float) -> float | None:
    """Return the published margin for kernels of this time; None below 25 us, for which none is published.

    Examples
    --------
    >>> margin_of(30.0), margin_of(500.0), margin_of(10.0)
    (0.05, 0.02, None)
    """
    found = [margin for start, margin in MARGINS if time_us >= start]
    return found[-1] if found else None


def golden_runs(durations_us: ArrayLike, margin: float | None = None) -> GoldenRuns:
    """Return the runs of the fullest bin of execution times (see `fullest_bins`).

    ``durations_us`` are positive; a bin holds the times within ± ``margin`` of its middle, by default the published
    margin of the median time; ``inf`` keeps every run. A DataError says that there are no runs, a time is not positive,
    or no margin is given for a kernel of under 25 us; a ParameterError that the margin is negative.

    Examples
    --------
    >>> golden_runs([30.0, 30.6, 31.0, 36.0, 29.8]).kept.tolist()
    [True, True, True, False, True]
    """
    times = np.asarray(durations_us, dtype=np.float64)
    if not len(times) or not np.all(np.isfinite(times) & (times > 0)):
        raise DataError("execution-time binning needs positive times: leave out runs without one")
    if margin is None and (margin := margin_of(float(np.median(times)))) is None:
        raise DataError(f"no margin is published for kernels under {MARGINS[0][0]:g} µs: state one, e.g. 0.05")
    if not margin >= 0:
        raise ParameterError("margin", f"must not be negative, got {margin:g}: 0.05 is ±5 %")
    lower, upper = fullest_bin(times, margin)
    return GoldenRuns((times >= lower) & (times <= upper), lower, upper, margin)


def fullest_bin(times: FloatArray, margin: float) -> tuple[float, float]:
    """Return the bounds of the bin of ± ``margin`` that holds the most times; `fullest_bins` for one sample.

    Examples
    --------
    >>> low, high = fullest_bin(np.array([90.0, 100, 102, 104, 130]), 0.05)
    >>> (round(low, 2), round(high, 2))
    (94.1, 104.0)
    """
    low, high = fullest_bins(times, np.ones((1, len(times))), margin)
    return float(low[0]), float(high[0])


def fullest_bins(times: FloatArray, weights: FloatArray, margin: float) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of the fullest bin of each sample, low and high of shape (b,).

    ``times`` are of shape (n,), ``weights`` say how often each occurs in each sample, shape (b, n). A bin holds the
    times within ± ``margin`` of its middle; from 1 on it holds all.

    Bins may start or end at any time, so that none is cut in two by a grid. Bins whose counts differ from the highest
    by no more than the standard deviation of the difference of two such counts (√2n, of Poisson counts of n) are as
    full, and of those the middle one is taken: a run more or less then does not move it far. Only bins are looked at
    that the fullest (of several the one of the shortest times) slides to through bins as full: what lies beyond is
    another way of running, however frequent.
    """
    if margin >= 1:
        return np.zeros(len(weights)), np.full(len(weights), np.inf)
    ordered, ratio = np.sort(times), (1 + margin) / (1 - margin)
    low, high = np.concatenate([ordered / ratio, ordered]), np.concatenate([ordered, ordered * ratio])
    order = np.argsort(low, kind="stable")
    low, high = low[order], high[order]
    reached = np.pad(np.cumsum(weights[:, np.argsort(times, kind="stable")], axis=1), ((0, 0), (1, 0)))
    until, before = np.searchsorted(ordered, high, side="right"), np.searchsorted(ordered, low, side="left")
    count = reached[:, until] - reached[:, before]
    most, fullest = count.max(axis=1, keepdims=True), count.argmax(axis=1)[:, None]
    # no more than a quarter below, so that a few runs spread out are not all as full as each other
    short = count < most - np.minimum(np.sqrt(2 * most), most / 4)
    stretch = np.cumsum(np.concatenate([[False], low[1:] > high[:-1]]))  # no bin slides over a gap wider than itself
    short |= stretch != stretch[fullest]
    place = np.arange(len(low))
    first = np.where(short & (place < fullest), place, -1).max(axis=1) + 1
    last = np.where(short & (place > fullest), place, len(low)).min(axis=1) - 1
    middle = (low[first] + low[last]) / 2
    slid = (place >= first[:, None]) & (place <= last[:, None])
    best = np.where(slid, np.abs(low - middle[:, None]), np.inf).argmin(axis=1)
    return low[best], high[best]
