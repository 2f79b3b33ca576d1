"""Execution-time binning: of many runs of a kernel, those that took the time most runs took are the golden ones.

FinGraV (Singhania, Aga, Ibrahim, *FinGraV: Methodology for Fine-Grain GPU Power Visibility and Insights*, ISPASS 2025)
keeps the runs of the fullest bin of execution times, so that readings of several runs may be put together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import DataError

MARGINS = ((25.0, 0.05), (50.0, 0.05), (200.0, 0.02), (1000.0, 0.02))
"""Time from which a margin holds, in microseconds, and the margin, as published."""


@dataclass(frozen=True)
class GoldenRuns:
    """The fullest bin.

    Attributes
    ----------
    kept : ndarray of bool of shape (n,)
        The golden runs.
    lower, upper : float
        Edges of the bin, in the unit of the values; runs on an edge belong to it.
    margin : float
        Width of the bin relative to its lower edge.
    """

    kept: NDArray[np.bool_]
    lower: float
    upper: float
    margin: float

    @property
    def share(self) -> float:
        """Share of the runs that are golden, 0 to 1."""
        return float(self.kept.mean())


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
    """Return the runs of the fullest bin of execution times.

    A bin is any window ``[t, t (1 + margin)]`` that begins at a measured time, not one of a fixed grid: no run is lost
    because an edge happens to lie in the middle of the crowd. Of equally full bins the narrowest counts, then the
    fastest.

    Parameters
    ----------
    durations_us : array-like of float of shape (n,)
        Execution times of the runs in microseconds, positive.
    margin : float, optional
        Relative width of a bin; the published one of the median time by default.

    Raises
    ------
    DataError
        There are no runs, a time is not positive, the margin is negative, or none is given for a kernel of under 25
        us.

    Examples
    --------
    >>> golden_runs([30.0, 30.6, 31.0, 36.0, 29.8]).kept.tolist()
    [True, True, True, False, True]
    """
    times = np.asarray(durations_us, dtype=np.float64)
    if not len(times) or not np.all(np.isfinite(times) & (times > 0)):
        raise DataError("execution-time binning needs positive times: leave out runs without one")
    if margin is None and (margin := margin_of(float(np.median(times)))) is None:
        raise DataError(f"no margin is published for kernels under {MARGINS[0][0]:g} us: state one, e.g. 0.05")
    if margin < 0:
        raise DataError(f"the binning margin must not be negative, got {margin:g}: 0.05 is 5 %")
    ordered = np.sort(times)
    end = np.searchsorted(ordered, ordered * (1.0 + margin), side="right")
    first = np.arange(len(ordered))
    width = ordered[end - 1] - ordered
    best = int(np.lexsort((first, width, first - end))[0])
    lower, upper = float(ordered[best]), float(ordered[end[best] - 1])
    return GoldenRuns((times >= lower) & (times <= upper), lower, upper, margin)
