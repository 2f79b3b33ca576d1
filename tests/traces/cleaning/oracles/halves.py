"""Two medians compared the plain way, one pair at a time: the oracle of the drift within many series."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

LEAST_COMPARED = 7
"""Repeats of either sample from which the difference of two medians has an interval of 95 %."""


@dataclass(frozen=True)
class Difference:
    """Second median minus the first, and its interval."""

    value: float
    lower: float
    upper: float

    @property
    def agrees(self) -> bool:
        """Whether the interval holds zero."""
        return self.lower <= 0.0 <= self.upper


def difference_of_medians(first: ArrayLike, second: ArrayLike, *, floor: float = 0.0) -> Difference:
    """Return by how much the second median exceeds the first, with an interval of 95 % that reaches `floor` at least.

    Each median has an interval of sqrt(0.95); the floor is the resolution of the clock.
    """
    one, two = (np.sort(np.asarray(sample, dtype=float)) for sample in (first, second))
    (lower1, upper1), (lower2, upper2) = bounds(one), bounds(two)
    value = float(np.median(two) - np.median(one))
    return Difference(
        value, min(lower2 - upper1, value - floor), max(upper2 - lower1, value + floor)
    )


def bounds(ordered: np.ndarray) -> tuple[float, float]:
    """Return the interval of the median of sorted values: from the l-th smallest to the l-th largest, NaN without."""
    rank = rank_of(len(ordered))
    return (
        (float(ordered[rank - 1]), float(ordered[-rank])) if rank else (float("nan"), float("nan"))
    )


@cache
def rank_of(count: int) -> int:
    """Return the largest rank whose interval covers the median with sqrt(0.95); 0 where there is none."""
    # of the intervals of rank 1, 2, ...
    tails = 2 * binom.cdf(np.arange(count // 2 + 1), count, 0.5)
    return int((1 - tails >= 0.95**0.5).sum())
