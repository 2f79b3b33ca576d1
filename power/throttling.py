"""Throttling: power that rises and then falls while the same kernel runs again and again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

STAGES: Final = 8
"""Parts a run is cut into at most, of whole executions, so that what varies within the kernel cancels."""
LEAST_FALL: Final = 0.03
"""A smaller fall, as a share of the highest power, is not called throttling."""
STANDARD_ERRORS: Final = 4.0
"""Rise and fall must exceed so many standard errors of the difference."""

_LEAST_READINGS: Final = 3
"""Per stage."""


@dataclass(frozen=True)
class Throttling:
    """What became of the power over the executions of a run.

    Attributes
    ----------
    found : bool
        Whether it rose and then fell.
    peak_w, settled_w : float
        Mean power of the highest stage, and of the last; NaN where too few readings tell.
    peak_execution : int
        First execution of the highest stage; 0 where too few readings tell.
    """

    found: bool
    peak_w: float
    settled_w: float
    peak_execution: int

    @property
    def fall_percent(self) -> float:
        """From the peak to the end of the run."""
        return 100 * (1 - self.settled_w / self.peak_w)


def detect_throttling(execution: np.ndarray, power_w: np.ndarray) -> Throttling:
    """Look for a rise and then a fall of power over the executions of golden runs.

    Parameters
    ----------
    execution : ndarray of int, shape (n,)
        The execution each reading fell into. Readings whose window had not filled must be left out: they would supply
        a rise to any fall.
    power_w : ndarray of shape (n,)
        Its power.
    """
    if not len(execution):
        return Throttling(False, np.nan, np.nan, 0)
    earliest = int(execution.min())
    count = int(execution.max()) - earliest + 1
    stage = (execution - earliest) * min(STAGES, count) // count
    found = [power_w[stage == one] for one in range(stage.max() + 1)]
    told = [place for place, readings in enumerate(found) if len(readings) >= _LEAST_READINGS]
    if len(told) < _LEAST_READINGS:
        return Throttling(False, np.nan, np.nan, 0)
    mean = np.array([found[place].mean() for place in told])
    error = np.array([found[place].std(ddof=1) / np.sqrt(len(found[place])) for place in told])
    peak = int(np.argmax(mean))

    def clear(end: int) -> bool:
        fall = mean[peak] - mean[end]
        return bool(fall > max(LEAST_FALL * mean[peak], STANDARD_ERRORS * np.hypot(error[peak], error[end])))

    first = int(execution[stage == told[peak]].min())
    return Throttling(clear(0) and clear(-1), float(mean[peak]), float(mean[-1]), first)
