"""Power while kernels run, from readings whose windows also see the pauses between executions.

A reading over a window of which the share s was filled by executions is s times their power plus 1 − s times the idle
power, which the readings between runs show: the first follows. It takes for granted that power falls to idle at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from .interest import covered_share

LEAST_IDLE: Final = 6
"""Below so many readings between runs those before and after all runs count too; below so many of these none do."""
LEAST_FILLED: Final = 0.5
"""Windows less filled than this part of the mean one say too little of executions."""

_NONE: Final = 1e-9
"""Shares of a window below this are rounding."""


@dataclass(frozen=True)
class Pauses:
    """What the windows of readings see besides executions.

    Attributes
    ----------
    filled : ndarray of shape (n,)
        Share of each window in which an execution ran; 1 of an instantaneous logger.
    idle : ndarray of int
        Places, among all time stamps, of the readings whose windows see no execution.
    """

    filled: np.ndarray
    idle: np.ndarray

    @property
    def share(self) -> float:
        """Mean share of the windows that is no execution."""
        return float(1 - self.filled.mean())

    @property
    def told(self) -> np.ndarray:
        """Which readings say enough of executions to be freed of pauses."""
        return self.filled >= LEAST_FILLED * self.filled.mean()

    @property
    def correctable(self) -> bool:
        """Whether the idle power is known, as far as there is need."""
        return self.share <= _NONE or len(self.idle) >= LEAST_IDLE

    def running_w(self, power_w: np.ndarray, read_w: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the power while executions ran, and the standard error that the idle power gives its mean.

        Parameters
        ----------
        power_w : ndarray
            At every time stamp.
        read_w : ndarray of shape (n,)
            Of the readings, which is returned as it is where the idle power is not known. What is returned for readings
            that are not `told` is of no use.
        """
        if self.share <= _NONE or not self.correctable:
            return read_w, 0.0
        idle = power_w[self.idle]
        filled = np.maximum(self.filled, LEAST_FILLED * self.filled.mean())
        pause = (1 - filled) / filled
        error = float(pause.mean() * idle.std(ddof=1) / np.sqrt(len(idle)))
        return read_w / filled - pause * idle.mean(), error


def find_pauses(times_ns: np.ndarray, reading: np.ndarray, executions: pd.DataFrame, window_ns: float) -> Pauses:
    """Return what the windows of some readings see besides executions.

    Parameters
    ----------
    times_ns : ndarray of int64
        All time stamps on the CPU's clock.
    reading : ndarray of int, shape (n,)
        Places of the readings, which fall into executions.
    executions : DataFrame
        All, in order of time.
    window_ns : float
        The logger's averaging window; 0: instantaneous.
    """
    if not window_ns:
        return Pauses(np.ones(len(reading)), np.array([], dtype=int))
    share = covered_share(times_ns, executions, window_ns)
    first, last = executions["start_ns"].iloc[0], executions["end_ns"].iloc[-1]
    outside = share <= _NONE
    between = outside & (times_ns > first) & (times_ns < last)
    return Pauses(share[reading], np.flatnonzero(between if between.sum() >= LEAST_IDLE else outside))
