"""Which readings tell of a kernel: those of golden runs, from the first execution with steady power on.

`stitch` finds them for all components at once, with what else their windows see: other kernels, pauses, the fill of
the window before a run. `detect_throttling` looks for power that rises and then falls over the executions of a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..errors import DataError
from .clocks import Measured
from .deconvolution import Windows, windows
from .energy import Pauses, find_pauses
from .recording import ADVICE, executions_published
from .runs import FULLER_BIN, RunChoice, covered_share, readings_of_interest

LEAST_READINGS: Final = 6
"""A polynomial of degree 4 has five coefficients."""
ALONE: Final = 0.99
"""Share of the window that the kernel must fill for it to count as measured alone."""
_LEAST_FULL: Final = 0.7
"""The published number of executions fills at least 3/4 of the window before the last one starts."""

STAGES: Final = 8
"""Parts a run is cut into at most to look for throttling: of whole executions, so that what varies within the kernel
cancels."""
LEAST_FALL: Final = 0.03
"""A smaller fall, as a share of the highest power, is not called throttling."""
STANDARD_ERRORS: Final = 4.0
"""Rise and fall must exceed so many standard errors of the difference."""

_LEAST_OF_STAGE: Final = 3
"""Per stage."""


@dataclass(frozen=True)
class Stitched:
    """The readings that the profiles of all components are made from.

    Tables of readings are as `power.runs.readings_of_interest` returns them.
    """

    ssp_execution: int  # first execution with steady power
    filled: float  # share of the window that lies inside the run when that execution starts
    golden: pd.DataFrame  # readings of golden runs whose window had filled
    first: pd.DataFrame  # of golden runs, those of the steady execution
    steady: pd.DataFrame  # of golden runs, those with steady power
    every: pd.DataFrame  # readings with steady power of all runs, golden or not, but those of fuller bins
    place: np.ndarray  # place in `times_us` of the run of each of them
    times_us: np.ndarray  # (runs,), execution time of each run
    ratio: float  # of the longest to the shortest time of the execution-time bin
    pauses: Pauses  # what the windows of `every` see besides executions
    alone: float  # mean share of the windows of `steady` in which the kernel itself ran
    others: float  # and in which other kernels ran
    equations: Windows | None  # for the removal of the window, where it is known

    @property
    def mixed(self) -> bool:
        """Whether the windows see other kernels too."""
        return self.others > 1 - ALONE


def stitch(
    measured: Measured,
    executions: pd.DataFrame,
    runs: RunChoice,
    window_us: float,
    *,
    removed_us: float = 0.0,
    execution: int,
    steady_from: int | None = None,
) -> Stitched:
    """Find the readings of a kernel, and what their windows see besides it.

    `executions` are those of the kernel, `window_us` is the averaging window of the logger (0: instantaneous),
    `removed_us` the window to deconvolve (0: none), `execution` the first whose time is steady, `steady_from` the
    first whose power is, where that is later than the window fills.

    Raises
    ------
    DataError
        The window does not fill, or fewer than `LEAST_READINGS` readings have steady power.
    """
    name = executions["kernel"].iloc[0]
    golden = executions[executions["run"].isin(runs.kept)]
    ssp_execution, filled = _steady_power(golden, runs.kernel_us, window_us, execution)
    later = steady_from is not None and steady_from > ssp_execution
    ssp_execution = max(ssp_execution, steady_from or 0)
    inside = readings_of_interest(measured.times_ns, golden)
    steady = inside[inside["execution"] >= ssp_execution]
    if len(steady) < LEAST_READINGS:
        raise DataError(
            f"only {len(steady)} readings fall into executions of {name} with steady power (number "
            f"{ssp_execution} and later, {len(runs.kept)} golden runs): at least {LEAST_READINGS} are needed, {ADVICE},"
            " or let the bin's times lie within the margin of its middle"
        )
    every = readings_of_interest(measured.times_ns, executions)
    timed = runs.table[runs.table["time_us"].notna() & runs.table["reason"].ne(FULLER_BIN)]
    every = every[(every["execution"] >= ssp_execution) & every["run"].isin(timed["run"])]
    seen = golden[golden["execution"] >= ssp_execution] if later else golden
    rest = measured.executions.drop(seen.index)
    alone, others = _company(measured, name, steady, window_us or runs.kernel_us)
    return Stitched(
        ssp_execution=ssp_execution,
        filled=filled,
        golden=inside[inside["since_run_us"] >= window_us],
        first=inside[inside["execution"] == execution],
        steady=steady,
        every=every,
        place=pd.Index(timed["run"]).get_indexer(every["run"]),
        times_us=timed["time_us"].to_numpy(),
        ratio=runs.ratio,
        pauses=find_pauses(measured.times_ns, every["reading"].to_numpy(), measured.executions, 1e3 * window_us),
        alone=alone,
        others=others,
        equations=windows(measured.times_ns, seen, rest, 1e3 * removed_us, warm=0 if later else execution - 1)
        if removed_us
        else None,
    )


def _steady_power(golden: pd.DataFrame, kernel_us: float, window_us: float, execution: int) -> tuple[int, float]:
    """Return the first execution with steady power, and the share of the window inside the run at its start.

    It is the first that starts with the whole window inside the run, in the median run; where the runs are too short
    for that the published number, or one less, as a kernel needs that turned out faster than planned.
    """
    if not window_us:
        return execution, 1.0
    since = (golden["start_ns"] - golden["run_start_ns"]) / 1e3
    starts = since.groupby(golden["execution"]).median()
    filled = starts.index[(starts >= window_us) & (starts.index >= execution)]
    if len(filled):
        return int(filled[0]), 1.0
    needed, last = max(executions_published(kernel_us, window_us), execution), int(starts.index.max())
    number = min(needed, last)
    if number < execution or starts[number] < _LEAST_FULL * window_us:
        raise DataError(
            f"steady power needs {needed} executions per run, the runs have {last}: the averaging window of "
            f"{window_us:g} µs does not fill, {ADVICE}"
        )
    return number, float(starts[number]) / window_us


def _company(measured: Measured, kernel: str, steady: pd.DataFrame, span_us: float) -> tuple[float, float]:
    """Return the mean share of the windows in which the kernel itself ran, and in which others did."""
    of_kernel = measured.executions["kernel"].eq(kernel)
    at = measured.times_ns[steady["reading"]]
    alone, others = (
        covered_share(at, measured.executions[part], 1e3 * span_us).mean() for part in (of_kernel, ~of_kernel)
    )
    return float(alone), float(others)


@dataclass(frozen=True)
class Throttling:
    """What became of the power over the executions of a run; NaN and 0 where too few readings tell."""

    found: bool  # whether it rose and then fell
    peak_w: float  # mean power of the highest stage
    settled_w: float  # and of the last
    peak_execution: int  # first execution of the highest stage

    @property
    def fall_percent(self) -> float:
        """From the peak to the end of the run."""
        return 100 * (1 - self.settled_w / self.peak_w)


def detect_throttling(execution: np.ndarray, power_w: np.ndarray) -> Throttling:
    """Look for a rise and then a fall of power over the executions of golden runs.

    `execution` (n,) is the one each reading fell into. Readings whose window had not filled must be left out: they
    would supply a rise to any fall.
    """
    if not len(execution):
        return Throttling(False, np.nan, np.nan, 0)
    earliest = int(execution.min())
    count = int(execution.max()) - earliest + 1
    stage = (execution - earliest) * min(STAGES, count) // count
    stages = [power_w[stage == one] for one in range(stage.max() + 1)]
    told = [place for place, readings in enumerate(stages) if len(readings) >= _LEAST_OF_STAGE]
    if len(told) < _LEAST_OF_STAGE:
        return Throttling(False, np.nan, np.nan, 0)
    mean = np.array([stages[place].mean() for place in told])
    error = np.array([stages[place].std(ddof=1) / np.sqrt(len(stages[place])) for place in told])
    peak = int(np.argmax(mean))

    def clear(end: int) -> bool:
        fall = mean[peak] - mean[end]
        return bool(fall > max(LEAST_FALL * mean[peak], STANDARD_ERRORS * np.hypot(error[peak], error[end])))

    first = int(execution[stage == told[peak]].min())
    return Throttling(clear(0) and clear(-1), float(mean[peak]), float(mean[-1]), first)
