"""Two medians compared the plain way, one pair at a time: the oracle of the drift within many series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from flopcast.traces.cleaning.robust import median_intervals

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
    intervals = [median_intervals(sample, np.zeros(len(np.asarray(sample))), 0.95**0.5) for sample in (first, second)]
    one, two = (found.iloc[0] for found in intervals)
    value = float(two["median"] - one["median"])
    lower, upper = float(two["lower"] - one["upper"]), float(two["upper"] - one["lower"])
    return Difference(value, min(lower, value - floor), max(upper, value + floor))
