"""Execution-time binning: of many runs of a kernel, those that took the time most runs took are the golden ones.

FinGraV (Singhania, Aga, Ibrahim, *FinGraV: Methodology for Fine-Grain GPU Power Visibility and
Insights*, ISPASS 2025) keeps the runs of the fullest bin of execution times, so that readings of
several runs may be put together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ...arrays import BoolArray, FloatArray
from ...errors import DataError, ParameterError

MARGINS: Final = ((25.0, 0.05), (50.0, 0.05), (200.0, 0.02), (1000.0, 0.02))
"""Time from which a margin holds, in microseconds, and the margin, as published."""
EACH_OTHER = "each-other"
MIDDLE = "middle"
"""What the times of a bin lie within the margin of: each other, as published, or its middle, a bin twice as wide."""


@dataclass(frozen=True)
class GoldenRuns:
    """The fullest bin."""

    kept: BoolArray  # the golden runs, shape (n,)
    lower: float  # edges of the bin, in the unit of the values; runs on an edge belong to it
    upper: float
    margin: float  # 0.05 is 5 %
    fuller: BoolArray  # the runs of fuller bins, left out before this one was chosen
    ratio: float  # of the upper edge to the lower


def margin_of(time_us: float) -> float | None:
    """Return the published margin for kernels of this time; None below 25 us, for which none is published.

    >>> margin_of(30.0), margin_of(500.0), margin_of(10.0)
    (0.05, 0.02, None)
    """
    margins = [margin for start, margin in MARGINS if time_us >= start]
    if margins:
        return margins[-1]
    return None


def bin_ratio(margin: float, within: str = EACH_OTHER) -> float:
    """Return the longest time of a bin over its shortest.

    Raises ParameterError: the margin is negative, or `within` is another word.

    >>> bin_ratio(0.05), round(bin_ratio(0.05, "middle"), 3)
    (1.05, 1.105)
    """
    if not margin >= 0:
        raise ParameterError("margin", f"must not be negative, got {margin:g}: 0.05 is 5 %")
    if within not in (EACH_OTHER, MIDDLE):
        raise ParameterError("within", f"must be {EACH_OTHER} or {MIDDLE}, got {within!r}")
    if within == EACH_OTHER:
        return 1 + margin
    if margin < 1:
        return (1 + margin) / (1 - margin)
    return np.inf


def golden_runs(
    durations_us: ArrayLike, margin: float | None = None, *, within: str = EACH_OTHER, rank: int = 1
) -> GoldenRuns:
    """Return the runs of the fullest bin of execution times (see `fullest_bins`), or of the next ones.

    ``durations_us`` are positive; a bin holds times within ``margin`` of each other, or of its
    middle (``within``), by default the published margin of the median time; ``inf`` keeps every
    run. Of ``rank`` 2 is the fullest bin of the runs that the fullest leaves, and so on. A
    DataError says that there are no runs, or none of that rank, a time is not positive, or no
    margin is given for a kernel of under 25 us; a ParameterError that a parameter is out of range.

    >>> golden_runs([30.0, 30.6, 31.0, 36.0, 29.8]).kept.tolist()
    [True, True, True, False, True]
    >>> golden_runs([30.0, 30.6, 31.0, 36.0, 29.8], rank=2).kept.tolist()
    [False, False, False, True, False]
    """
    times = np.asarray(durations_us, dtype=np.float64)
    if not len(times) or not np.all(np.isfinite(times) & (times > 0)):
        raise DataError("execution-time binning needs positive times: leave out runs without one")
    if margin is None and (margin := margin_of(float(np.median(times)))) is None:
        raise DataError(
            f"no margin is published for kernels under {MARGINS[0][0]:g} µs: state one, e.g. 0.05"
        )
    if rank < 1:
        raise ParameterError("bin_rank", f"must be 1 (the fullest bin) or more, got {rank}")
    ratio = bin_ratio(margin, within)
    fuller = np.zeros(len(times), dtype=np.bool_)
    for _ in range(rank):
        if fuller.all():
            raise DataError(f"no run is left for bin {rank}: fuller ones hold all {len(times)}")
        lower, upper = fullest_bin(times[~fuller], ratio)
        kept = ~fuller & (times >= lower) & (times <= upper)
        before = fuller
        fuller = fuller | kept
    # pyrefly: ignore[unbound-name]  rank is at least 1
    return GoldenRuns(kept, lower, upper, margin, before, ratio)


def fullest_bin(times: FloatArray, ratio: float) -> tuple[float, float]:
    """Return the bounds of the bin that holds the most times; `fullest_bins` for one sample.

    >>> low, high = fullest_bin(np.array([90.0, 100, 102, 104, 130]), 1.05)
    >>> (round(low, 2), round(high, 2))
    (99.05, 104.0)
    """
    low, high = fullest_bins(times, np.ones((1, len(times))), ratio)
    return float(low[0]), float(high[0])


def fullest_bins(
    times: FloatArray, weights: FloatArray, ratio: float
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of the fullest bin of each sample, low and high of shape (b,).

    ``times`` are of shape (n,), ``weights`` say how often each occurs in each sample, shape (b, n).
    The longest time of a bin is at most ``ratio`` times its shortest (`bin_ratio`).

    Bins may start or end at any time, so that none is cut in two by a grid. Bins whose counts
    differ from the highest by no more than the standard deviation of the difference of two such
    counts (√2n, of Poisson counts of n) are as full, and of those the middle one is taken: a run
    more or less then does not move it far. Only bins are looked at that the fullest (of several the
    one of the shortest times) slides to through bins as full: what lies beyond is another way of
    running, however frequent.
    """
    if ratio == np.inf:
        return np.zeros(len(weights)), np.full(len(weights), np.inf)
    ordered = np.sort(times)
    low = np.r_[ordered / ratio, ordered]
    high = np.r_[ordered, ordered * ratio]
    order = np.argsort(low, kind="stable")
    low = low[order]
    high = high[order]
    weighed = np.cumsum(weights[:, np.argsort(times, kind="stable")], axis=1)
    reached = np.pad(weighed, ((0, 0), (1, 0)))
    until = np.searchsorted(ordered, high, side="right")
    count = reached[:, until] - reached[:, np.searchsorted(ordered, low)]
    fullest_count = count.max(axis=1, keepdims=True)
    fullest = count.argmax(axis=1)[:, None]
    # no more than a quarter below, so that a few runs spread out are not all as full as each other
    short = count < fullest_count - np.minimum(np.sqrt(2 * fullest_count), fullest_count / 4)
    # no bin slides over a gap wider than itself
    stretch = np.cumsum(np.r_[False, low[1:] > high[:-1]])
    short |= stretch != stretch[fullest]
    place = np.arange(len(low))
    first = np.where(short & (place < fullest), place, -1).max(axis=1) + 1
    last = np.where(short & (place > fullest), place, len(low)).min(axis=1) - 1
    middle = (low[first] + low[last]) / 2
    slid = (place >= first[:, None]) & (place <= last[:, None])
    best = np.where(slid, np.abs(low - middle[:, None]), np.inf).argmin(axis=1)
    return low[best], high[best]
