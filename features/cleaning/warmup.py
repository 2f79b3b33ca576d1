"""Warm-up: how many of the first repeats of a series were measured before it had settled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import median_filter
from scipy.stats import mannwhitneyu

from .mad import mad_filter

FloatArray = NDArray[np.float64]

BATCH = 5
LEAST_KEPT = 10
"""Repeats that must be left."""
TOLERANCE = 0.02
"""Change of the median, relative to it, that counts: less is not worth losing repeats for."""
_SIGNIFICANCE = 1e-3
_SLACK = 2.0


@dataclass(frozen=True)
class WarmUp:
    """Where a series settles.

    Attributes
    ----------
    count : int
        Repeats at the beginning to leave out.
    settled : bool
        False where what is left still changes from its first half to its second: nothing is left out then, because no
        part of the series can be said to be the steady state.
    """

    count: int
    settled: bool


def warm_up(values: ArrayLike, *, floor: float = 0.0, least_kept: int = LEAST_KEPT) -> WarmUp:
    """Return how many of the first values are warm-up.

    MSER-5 (White, *An effective truncation heuristic for bias reduction in simulation output*, Simulation 69, 1997;
    White, Cobb & Spratt, WSC 2000): of k batches of five values, the first d <= k / 2 are cut so that
    ``sum over j > d of (z_j - mean)^2 / (k - d)^2`` is smallest. Three changes make it fit for measured times:

    - z is the median of a batch, not its mean, and a batch that stands out from both its neighbours has the median of
      the three (Hampel), so that outliers do not move it. A single slow first call is no warm-up for this rule: it is
      an outlier (`mad`).
    - MSER cuts a little too much by chance. The first d within twice the minimum is taken, and a cut counts only if
      what it removes differs from what it keeps: by a rank test (Mann-Whitney, 0.1 %), and in the median by more than
      `floor` and by more than `TOLERANCE`.
    - A series whose kept part differs in the same way between its first and its second half has not settled at all.

    Parameters
    ----------
    values : array-like of float of shape (n,)
        Durations in the order they were measured.
    floor : float, default=0
        Resolution of the clock, in the unit of the values.
    least_kept : int, default=10
        Values that must be left.

    Returns
    -------
    WarmUp
        Of fewer than 2 `least_kept` values nothing is said (0, settled).
    """
    data = np.asarray(values, dtype=np.float64)
    batches = len(data) // BATCH
    if len(data) < 2 * least_kept or batches < 2:
        return WarmUp(0, True)
    medians = np.median(data[: batches * BATCH].reshape(batches, BATCH), axis=1)
    half = min(batches // 2, (len(data) - least_kept) // BATCH)
    statistic = _mser(_without_spikes(medians))[: half + 1]
    cut = BATCH * int(np.argmax(statistic <= _SLACK * statistic.min()))
    if cut and not _differ(data[:cut], data[cut:], floor):
        cut = 0
    middle = (cut + len(data)) // 2
    if _differ(data[cut:middle], data[middle:], floor):
        return WarmUp(0, False)
    return WarmUp(cut, True)


def _without_spikes(medians: FloatArray) -> FloatArray:
    smooth = median_filter(medians, 3, mode="nearest")
    return np.where(mad_filter(medians - smooth).kept, medians, smooth)


def _mser(medians: FloatArray) -> FloatArray:
    """Return the statistic for every number of batches cut, 0 to k - 1."""
    centred = (medians - np.median(medians))[::-1]
    left = np.arange(1, len(medians) + 1)
    squares = np.cumsum(centred**2) - np.cumsum(centred) ** 2 / left
    return (np.maximum(squares, 0.0) / left**2)[::-1]


def _differ(before: FloatArray, after: FloatArray, floor: float) -> bool:
    median = float(np.median(after))
    if abs(float(np.median(before)) - median) <= max(floor, TOLERANCE * abs(median)):
        return False
    return bool(mannwhitneyu(before, after, method="asymptotic").pvalue < _SIGNIFICANCE)
