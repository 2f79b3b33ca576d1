"""Runs of a kernel: how many to make, which executions belong together, which count, which readings see the kernel.

`plan` says how many runs to make, the published protocol for a kernel's time, and how many
executions: until the power is steady by the logger's window and lag, and by the board
(`steady_after_us`). Executions are grouped into runs (`group_runs`). Golden runs are those whose
kernel took the time it mostly takes (`golden_runs`). Readings of interest fall into an execution;
what their averaging window saw besides it is `covered_share`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..errors import DataError, ParameterError, check_number
from ..remarks import Remark, remark
from ..table import physics
from ..traces.cleaning import binning
from ..traces.cleaning.binning import MARGINS, margin_of

# the fourth execution is the first that is steady: earlier ones warm up clocks and caches
LEAST_EXECUTIONS: Final = 4
SHORTEST_US: Final = MARGINS[0][0]  # where the published table begins
# power is steady where no more than this of its rise is missing from a reading
MISSED: Final = 0.005
# executions made from the first of steady power on, where it is later than the window fills
AFTER: Final = 3
COARSE_US: Final = 1e4
"""A logger that reads this seldom (NVIDIA's, programs) may read no execution of a run that is so
short: runs go on for another window, or for `SWING_US` where power settles late."""
SWING_US: Final = 2e5
"""In which the power of an H100 swings about its limit once, by a tenth: trains are searched for so long, too."""
ADVICE: Final = "see `flopcast power plan`"  # what to do about a log that says too little


@dataclass(frozen=True)
class Row:
    """One row of the published table."""

    from_us: float  # kernel times from this on, and below the next, are those the row is for
    to_us: float
    runs: int  # how often to run
    # readings of interest to gather: one for each such part of the kernel's time
    log_every_us: float

    @property
    def margin(self) -> float:
        """Of the execution-time bin: 0.05 is ±5 %."""
        margin = margin_of(self.from_us)
        assert margin is not None
        return margin


TABLE: Final = (
    Row(SHORTEST_US, 50, 400, 5),
    Row(50, 200, 200, 10),
    Row(200, 1000, 200, 10),
    Row(1000, math.inf, 200, 10),
)
"""Singhania, Aga and Ibrahim, ISPASS 2025, table of profiling guidance."""


@dataclass(frozen=True)
class Plan:
    """How to measure one kernel."""

    kernel_us: float  # time of the kernel
    interval_us: float  # the logger's averaging interval; 0 of an instantaneous one
    # time constant of the power that is read, behind what is drawn; None: nobody has measured it
    lag_us: float | None
    settling_us: float  # from the start of a run until the board holds its power: 0 where it does not throttle
    row: Row | None  # of the published table; None below `SHORTEST_US`
    # executions per run, for the steady-state power: max(⌈interval / kernel time⌉, 4)
    published: int
    # The first execution that starts with the whole interval inside the run. The published number
    # may fall short of it by up to one kernel time, and its reading is then too low.
    executions_filled: int
    steady_from: int  # the first execution that starts when power is steady (`steady_after_us`)
    executions: int  # per run, to make
    logs: int | None  # readings of interest to gather
    # readings that fall into one execution, over all runs of the row; NaN without a row
    expected_logs: float
    repeats: int  # back-to-back launches to time as one, so that the table applies; 1 where the kernel is long enough
    # wait before each run for a random time up to this, so that readings fall everywhere
    random_delay_us: float

    @property
    def advice(self) -> list[Remark]:
        """The explanation of the figures."""
        said = []
        if self.row is None:
            text = (
                f"no row is published below {SHORTEST_US:g} µs: launch the kernel {self.repeats} "
                "times back "
                "to back, timed as one execution, or interleave it as the application does; "
                "either way the "
                "power is that of the sequence, not of one launch"
            )
            said.append(
                remark(
                    "power-plan-below-table", text, shortest_us=SHORTEST_US, repeats=self.repeats
                )
            )
        elif self.logs is not None and self.expected_logs < self.logs:
            needed = math.ceil(self.logs * self.row.runs / self.expected_logs)
            text = (
                f"{self.row.runs} runs give about {self.expected_logs:.0f} readings in one "
                f"execution, {self.logs} are "
                f"wanted: make {needed} runs, or append executions to each run"
            )
            figures = {"runs": self.row.runs, "expected": self.expected_logs}
            figures |= {"wanted": self.logs, "needed": needed}
            said.append(remark("power-plan-more-runs", text, **figures))
        if self.lag_us is None:
            text = (
                "how long the read power lags behind the kernel is unknown: these executions "
                "fill the window alone; "
                "`flopcast power record` measures the lag, or state it"
            )
            said.append(remark("power-plan-lag-unknown", text, executions=self.executions))
        return said


def plan(
    kernel_us: float,
    window_us: float = 1000.0,
    *,
    lag_us: float | None = None,
    settling_us: float = 0.0,
) -> Plan:
    """Say how to measure a kernel: runs, readings and margins as published, executions per run as record makes them.

    Parameters
    ----------
    kernel_us : float
        Time of one execution, µs.
    window_us : float
        Time over which the logger averages, µs; 0: its readings are instantaneous. What a logger calls its power
        (``current``, ``instant``) does not say that: many average what they call so. Of 0 one reading per ms is
        assumed.
    lag_us : float, default unknown
        Time constant of the read power behind the kernel's, µs: record measures it. It comes besides the
        window. Where it is unknown, the executions fill the window alone, and the plan says so.
    settling_us : float
        Time of a run until the board holds its power, µs; 0: it does not throttle. That of the longest train that
        does not throttle.

    Raises
    ------
    ParameterError
        A time is out of its range.

    Examples
    --------
    >>> chosen = plan(120, 1000, lag_us=400)
    >>> chosen.row.runs, chosen.row.margin, chosen.published, chosen.steady_from, chosen.executions, chosen.logs
    (200, 0.05, 9, 24, 27, 12)
    """
    check_number("kernel_us", kernel_us, physics.SHORTEST_US, physics.LONGEST_US, whole=False)
    times = {"window_us": window_us, "lag_us": lag_us or 0.0, "settling_us": settling_us}
    for name, value in times.items():
        check_number(name, value, 0, physics.LONGEST_US, whole=False)
    if 0 < window_us < physics.SHORTEST_US:
        problem = f"must be 0, or {physics.SHORTEST_US:g} or more, got {window_us:g}"
        raise ParameterError("window_us", problem)
    row = next((row for row in TABLE if row.from_us <= kernel_us < row.to_us), None)
    period_us = window_us or 1000.0
    filled = _first_after(window_us, kernel_us)
    steady_from = _first_after(settling_us + steady_after_us(window_us, lag_us or 0.0), kernel_us)
    appended = 0
    if steady_from > filled:
        appended = AFTER
    if window_us >= COARSE_US:
        appended = _ceil(max(window_us, SWING_US if settling_us else 0.0) / kernel_us)
    logs = None
    expected_logs = math.nan
    repeats = _ceil(SHORTEST_US / kernel_us)
    if row:
        logs = _ceil(kernel_us / row.log_every_us)
        repeats = 1
        expected_logs = row.runs * kernel_us / period_us
    return Plan(
        kernel_us=kernel_us,
        interval_us=window_us,
        lag_us=lag_us,
        settling_us=settling_us,
        row=row,
        published=executions_published(kernel_us, window_us),
        executions_filled=filled,
        steady_from=steady_from,
        executions=steady_from + appended,
        logs=logs,
        expected_logs=expected_logs,
        repeats=repeats,
        random_delay_us=period_us,
    )


def steady_after_us(window_us: float, lag_us: float) -> float:
    """Return the time after a kernel's begin at which all but `MISSED` of the rise of its power is read, µs.

    >>> steady_after_us(1000, 0), round(steady_after_us(0, 400)), round(steady_after_us(1000, 400))
    (1000, 2119, 2719)
    """
    if not lag_us:
        return window_us
    # A reading at t misses the mean of exp(-s / lag) over the window before t: lag / window *
    # (exp(window / lag) - 1) times exp(-t / lag). Written so that a lag far below the window does
    # not overflow.
    ratio = window_us / lag_us
    within = 1.0
    if ratio:
        within = -math.expm1(-ratio) / ratio
    return window_us + lag_us * math.log(max(within / MISSED, 1.0))


def read_share(since_us: np.ndarray, window_us: float, lag_us: float) -> np.ndarray:
    """Return the share of the rise of the power that readings show so long after a kernel began, shape (n,)."""

    def area(us: np.ndarray) -> np.ndarray:
        return us + lag_us * np.expm1(-us / lag_us)

    return (area(since_us) - area(np.maximum(since_us - window_us, 0.0))) / window_us


def _first_after(us: float, kernel_us: float) -> int:
    """Return the first execution that begins so long after the run, or later; one that is warm."""
    return max(_ceil(us / kernel_us) + 1, LEAST_EXECUTIONS)


def executions_published(kernel_us: float, interval_us: float) -> int:
    """Return max(⌈interval / kernel time⌉, 4)."""
    return max(_ceil(interval_us / kernel_us), LEAST_EXECUTIONS)


def _ceil(ratio: float) -> int:
    """Return the ceiling; a ratio that is whole but for rounding stays."""
    return math.ceil(ratio - 1e-9)


CLEAR_RATIO: Final = 3.0  # gaps so many times longer than others count as pauses between runs
SHORTEST_GAP_NS: Final = 1_000.0  # gaps below this count as this: back to back
OTHER_TIME = "power-run-time-outside-bin"
TOO_FEW = "power-run-of-few-executions"
FULLER_BIN = "power-run-of-fuller-bin"
NOT_GOLDEN: Final = {
    OTHER_TIME: "execution time outside the bin",
    FULLER_BIN: "execution time in a fuller bin",
    TOO_FEW: "fewer executions than the one of interest",
}
"""Code of why a run is not golden -> why."""


@dataclass(frozen=True)
class RunChoice:
    """The runs that are used, and the others.

    `table` has a row per run: ``run``, ``time_us`` (median of the kernel's executions from the one
    of interest on), ``golden`` and ``reason`` (the code of why not, "" for golden runs).
    """

    table: pd.DataFrame
    low_us: float  # the fullest bin of execution times, from here to `high_us`
    high_us: float
    margin: float  # that its times lie within, of each other or of its middle
    ratio: float  # of `high_us` to `low_us`
    # it is that of the shortest kernels published: none is for one as short as this
    margin_assumed: bool

    @property
    def kept(self) -> np.ndarray:
        """The golden runs."""
        return self.table.loc[self.table["golden"], "run"].to_numpy()

    @property
    def removed(self) -> dict[str, int]:
        """Number of runs removed for each reason (code)."""
        reasons = self.table.loc[~self.table["golden"], "reason"].value_counts()
        return {str(reason): int(count) for reason, count in reasons.items()}

    @property
    def kernel_us(self) -> float:
        """Median execution time of the golden runs."""
        return float(self.table.loc[self.table["golden"], "time_us"].median())


def group_runs(executions: pd.DataFrame) -> pd.DataFrame:
    """Return the executions with ``run`` (as given, else 0, 1, ...), ``execution`` and ``run_start_ns``.

    They are as `power.readings.check_executions` returns them; ``execution`` counts those of the
    kernel in its run, from 1. Where no run is given, the gaps tell how long the pauses are that
    separate runs. Raises DataError: no run is given and the gaps do not tell, a run comes back
    after another, or executions are out of order.
    """
    rows = executions.copy()
    if "run" in rows:
        given = rows["run"]
        if given.isna().any() or given.eq("").any():
            raise DataError(
                "an execution has no run: give one to every execution, or leave the column out"
            )
        begun = given[given.ne(given.shift())]
        if begun.duplicated().any():
            again = begun[begun.duplicated()].iloc[0]
            raise DataError(f"run {again} comes back after another run: sort the executions")
    else:
        gaps = (rows["start_ns"] - rows["end_ns"].shift()).to_numpy(dtype=float)[1:]
        number = np.cumsum(gaps >= _clear_pause(gaps))
        rows["run"] = np.concatenate([[0], number]).astype(np.int64)
    within = rows.groupby(["run", "kernel"], sort=False)
    if "execution" not in rows:
        rows["execution"] = within.cumcount() + 1
    elif (broken := within["execution"].diff() <= 0).any():
        first = rows[broken].iloc[0]
        raise DataError(
            f"execution {first['execution']} of {first['kernel']} does not follow the one before "
            "in its run"
        )
    rows["run_start_ns"] = rows.groupby("run")["start_ns"].transform("min")
    return rows


def apart(executions: pd.DataFrame) -> pd.DataFrame:
    """Split kernels that ran alone in some runs and among others in the rest in two, by name.

    The executions are as `group_runs` returns them; those of the other runs get the name of the
    kernel and ``, interleaved``. Where these are runs of different kernels, a kernel is as many
    more as there are kernels that it follows in them (the first of a run follows the last: runs are
    trains), ``, after`` each.
    """
    orders = executions.groupby("run")["kernel"].unique().map(tuple)
    order = executions["run"].map(orders)
    among = order.map(len).gt(1)
    name = executions["kernel"]
    moved = among & among.groupby(name).transform("nunique").eq(2)
    several = order[moved].groupby(name[moved]).nunique().gt(1)
    renamed = name.astype(object)
    moved_names = list[str]()
    for of, kernel_name in zip(order[moved], name[moved], strict=True):
        how = "interleaved"
        if several[kernel_name]:
            how = f"after {of[of.index(kernel_name) - 1]}"
        moved_names.append(f"{kernel_name}, {how}")
    renamed[moved] = moved_names
    return executions.assign(kernel=renamed.astype(name.dtype), isolated=name.where(moved, ""))


def golden_runs(
    executions: pd.DataFrame,
    execution: int = LEAST_EXECUTIONS,
    margin: float | None = None,
    *,
    within: str = binning.EACH_OTHER,
    rank: int = 1,
) -> RunChoice:
    """Return the runs whose execution time lies in the fullest bin, or in that of another `rank`.

    The executions are those of one kernel, with ``run`` and ``execution``; those before `execution`
    warm up and do not count. The bin holds times within `margin` of each other, or of its middle
    (`within`): by default the published one, below the published table that of its first row;
    ``inf`` keeps every run. See `traces.cleaning.binning`. Raises DataError: no run has the
    execution of interest, or fuller bins hold all runs.
    """
    times = (executions["end_ns"] - executions["start_ns"]) / 1e3
    steady = times[executions["execution"] >= execution].groupby(executions["run"]).median()
    if steady.empty:
        last = int(executions["execution"].max())
        raise DataError(
            f"no run has execution {execution} of the kernel, the runs have {last}: {ADVICE}"
        )
    assumed = margin is None and binning.margin_of(float(steady.median())) is None
    if assumed:
        margin = binning.MARGINS[0][1]
    golden = binning.golden_runs(
        steady.to_numpy(),
        margin,
        within=within,
        rank=rank,
    )
    table = (
        steady.reindex(executions["run"].unique())
        .rename("time_us")
        .rename_axis("run")
        .reset_index()
    )
    table["golden"] = table["run"].isin(steady.index[golden.kept])
    fuller = table["run"].isin(steady.index[golden.fuller])
    table["reason"] = np.select(
        [table["golden"], table["time_us"].isna(), fuller], ["", TOO_FEW, FULLER_BIN], OTHER_TIME
    )
    return RunChoice(
        table,
        golden.lower,
        golden.upper,
        golden.margin,
        golden.ratio,
        assumed,
    )


def _clear_pause(gaps_ns: np.ndarray) -> float:
    """Return the length that separates the pauses between runs from the gaps within: the widest step in the lengths."""
    ordered = np.sort(np.maximum(gaps_ns, SHORTEST_GAP_NS))
    step = ordered[1:] / ordered[:-1]
    if not len(step) or step.max() < CLEAR_RATIO:
        raise DataError(
            "the gaps between executions do not show where runs begin: give a column run"
        )
    place = int(np.argmax(step))
    return float(np.sqrt(ordered[place] * ordered[place + 1]))


def readings_of_interest(times_ns: np.ndarray, executions: pd.DataFrame) -> pd.DataFrame:
    """Return the readings whose time stamp, on the CPU's clock, falls into an execution.

    The executions have ``start_ns``, ``end_ns``, ``run``, ``execution`` and ``run_start_ns``, and
    are in order of time. The result has ``reading`` (place among the time stamps), ``run``,
    ``execution``, ``time_us`` (of interest: since the execution's start), ``phase`` (the same as a
    share of its duration, 0 to 1), ``since_run_us`` and ``execution_start_us``, both since the
    start of the run.
    """
    start = executions["start_ns"].to_numpy()
    end = executions["end_ns"].to_numpy()
    place = np.searchsorted(start, times_ns, side="right") - 1
    inside = (place >= 0) & (times_ns <= end[place])
    reading = np.flatnonzero(inside)
    place = place[inside]
    rows = executions.iloc[place]
    since = times_ns[reading] - start[place]
    began = rows["run_start_ns"].to_numpy()
    return pd.DataFrame(
        {
            "reading": reading,
            "run": rows["run"].to_numpy(),
            "execution": rows["execution"].to_numpy(),
            "time_us": since / 1e3,
            "phase": since / (end[place] - start[place]),
            "since_run_us": (times_ns[reading] - began) / 1e3,
            "execution_start_us": (start[place] - began) / 1e3,
        }
    )


def covered_share(times_ns: np.ndarray, executions: pd.DataFrame, window_ns: float) -> np.ndarray:
    """Return the share of each window [time − window, time] in which an execution ran, shape (n,).

    The executions are in order of time, none overlaps the next; without any the shares are 0.
    """
    if executions.empty:
        return np.zeros(len(times_ns))
    origin = int(executions["start_ns"].iloc[0])
    # (executions, 2)
    edges = (executions[["start_ns", "end_ns"]].to_numpy() - origin).astype(float)
    busy = np.cumsum(edges[:, 1] - edges[:, 0])
    total = np.column_stack([np.concatenate([[0.0], busy[:-1]]), busy]).ravel()
    at = (np.asarray(times_ns) - origin).astype(float)
    until, before = (np.interp(moment, edges.ravel(), total) for moment in (at, at - window_ns))
    return (until - before) / window_ns
