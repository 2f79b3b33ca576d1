"""Runs and what falls into them: which executions belong together, which runs count, which readings see the kernel.

Executions are grouped into runs (`group_runs`). Golden runs are those whose kernel took the time it mostly takes
(`golden_runs`). Readings of interest fall into an execution; what their averaging window saw besides it is
`covered_share`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..errors import DataError
from ..traces.cleaning import binning
from .recording import ADVICE, LEAST_EXECUTIONS

CLEAR_RATIO: Final = 3.0
"""Pauses between runs are told from gaps within them if they are so many times longer."""
SHORTEST_GAP_NS: Final = 1_000.0
"""Gaps below this count as this: back to back."""

OTHER_TIME, TOO_FEW = "power-run-time-outside-bin", "power-run-of-few-executions"
FULLER_BIN = "power-run-of-fuller-bin"
NOT_GOLDEN: Final = {
    OTHER_TIME: "execution time outside the bin",
    FULLER_BIN: "execution time in a fuller bin",
    TOO_FEW: "fewer executions than the one of interest",
}
"""Code of why a run is not golden -> why."""


@dataclass(frozen=True)
class RunChoice:
    """The runs that are used, and those that are not.

    `table` has a row per run: ``run``, ``time_us`` (median of the kernel's executions from the one of interest on),
    ``golden`` and ``reason`` (the code of why not, "" for golden runs).
    """

    table: pd.DataFrame
    low_us: float  # the fullest bin of execution times, from here to `high_us`
    high_us: float
    margin: float  # that its times lie within, of each other or of its middle
    ratio: float  # of `high_us` to `low_us`
    margin_assumed: bool  # it is that of the shortest kernels published: none is for one as short as this

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


def group_runs(executions: pd.DataFrame, pause_us: float | None = None) -> pd.DataFrame:
    """Return the executions with ``run`` (as given, else 0, 1, ...), ``execution`` and ``run_start_ns``.

    They are as `power.readings.check_executions` returns them; ``execution`` counts those of the kernel in its run,
    from 1. Where no run is given, pauses from `pause_us` on separate runs; by default that is told from the gaps.

    Raises
    ------
    DataError
        No run is given and the gaps do not tell, a run comes back after another, or executions are out of order.
    """
    rows = executions.copy()
    if "run" in rows:
        _check_given_runs(rows["run"])
    else:
        rows["run"] = _runs_by_gap(rows, pause_us)
    within = rows.groupby(["run", "kernel"], sort=False)
    if "execution" not in rows:
        rows["execution"] = within.cumcount() + 1
    elif (broken := within["execution"].diff() <= 0).any():
        first = rows[broken].iloc[0]
        raise DataError(
            f"execution {first['execution']} of {first['kernel']} does not follow the one before in its run"
        )
    rows["run_start_ns"] = rows.groupby("run")["start_ns"].transform("min")
    return rows


def apart(executions: pd.DataFrame) -> pd.DataFrame:
    """Return kernels that ran alone in some runs and among others in the rest as two, by name; ``isolated`` says whose.

    The executions are as `group_runs` returns them; those of the other runs get the name of the kernel and
    ``, interleaved``.
    """
    among = executions.groupby("run")["kernel"].transform("nunique").gt(1)
    moved = among & among.groupby(executions["kernel"]).transform("nunique").eq(2)
    name = executions["kernel"]
    return executions.assign(kernel=name.where(~moved, name + ", interleaved"), isolated=name.where(moved, ""))


def golden_runs(
    executions: pd.DataFrame,
    execution: int = LEAST_EXECUTIONS,
    margin: float | None = None,
    *,
    within: str = binning.EACH_OTHER,
    rank: int = 1,
) -> RunChoice:
    """Return the runs whose execution time lies in the fullest bin, or in that of another `rank`.

    The executions are those of one kernel, with ``run`` and ``execution``; those before `execution` warm up and do not
    count. The bin holds times within `margin` of each other, or of its middle (`within`): by default the published one,
    below the published table that of its first row; ``inf`` keeps every run. See `traces.cleaning.binning`.

    Raises
    ------
    DataError
        No run has the execution of interest, or fuller bins hold all runs.
    """
    times = (executions["end_ns"] - executions["start_ns"]) / 1e3
    steady = times[executions["execution"] >= execution].groupby(executions["run"]).median()
    if steady.empty:
        most = int(executions["execution"].max())
        raise DataError(f"no run has execution {execution} of the kernel, the runs have {most}: {ADVICE}")
    assumed = margin is None and binning.margin_of(float(steady.median())) is None
    margin = binning.MARGINS[0][1] if assumed else margin
    golden = binning.golden_runs(steady.to_numpy(), margin, within=within, rank=rank)
    table = steady.reindex(executions["run"].unique()).rename("time_us").rename_axis("run").reset_index()
    table["golden"] = table["run"].isin(steady.index[golden.kept])
    fuller = table["run"].isin(steady.index[golden.fuller])
    table["reason"] = np.select(
        [table["golden"], table["time_us"].isna(), fuller], ["", TOO_FEW, FULLER_BIN], OTHER_TIME
    )
    return RunChoice(table, golden.lower, golden.upper, golden.margin, golden.ratio, assumed)


def _check_given_runs(given: pd.Series) -> None:
    """Refuse a run that has no name or comes back after another."""
    if given.isna().any() or given.eq("").any():
        raise DataError("an execution has no run: give one to every execution, or leave the column out")
    begun = given[given.ne(given.shift())]
    if begun.duplicated().any():
        raise DataError(f"run {begun[begun.duplicated()].iloc[0]} comes back after another run: sort the executions")


def _runs_by_gap(rows: pd.DataFrame, pause_us: float | None) -> np.ndarray:
    gaps = (rows["start_ns"] - rows["end_ns"].shift()).to_numpy(dtype=float)[1:]
    pause = _clear_pause(gaps) if pause_us is None else 1e3 * pause_us
    return np.concatenate([[0], np.cumsum(gaps >= pause)]).astype(np.int64)


def _clear_pause(gaps_ns: np.ndarray) -> float:
    """Return the length that separates the pauses between runs from the gaps within: the widest step in the lengths."""
    ordered = np.sort(np.maximum(gaps_ns, SHORTEST_GAP_NS))
    step = ordered[1:] / ordered[:-1]
    if not len(step) or step.max() < CLEAR_RATIO:
        raise DataError("runs cannot be told apart by the gaps between executions: give a column run")
    place = int(np.argmax(step))
    return float(np.sqrt(ordered[place] * ordered[place + 1]))


def readings_of_interest(times_ns: np.ndarray, executions: pd.DataFrame) -> pd.DataFrame:
    """Return the readings whose time stamp, on the CPU's clock, falls into an execution.

    The executions have ``start_ns``, ``end_ns``, ``run``, ``execution`` and ``run_start_ns``, and are in order of time.
    The result has ``reading`` (place among the time stamps), ``run``, ``execution``, ``time_us`` (of interest: since
    the execution's start), ``phase`` (the same as a share of its duration, 0 to 1), ``since_run_us`` and
    ``execution_start_us``, both since the start of the run.
    """
    start, end = executions["start_ns"].to_numpy(), executions["end_ns"].to_numpy()
    place = np.searchsorted(start, times_ns, side="right") - 1
    inside = (place >= 0) & (times_ns <= end[place])
    reading, place = np.flatnonzero(inside), place[inside]
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
    edges = (executions[["start_ns", "end_ns"]].to_numpy() - origin).astype(float)  # (executions, 2)
    busy = np.cumsum(edges[:, 1] - edges[:, 0])
    total = np.column_stack([np.concatenate([[0.0], busy[:-1]]), busy]).ravel()
    at = (np.asarray(times_ns) - origin).astype(float)
    until, before = (np.interp(moment, edges.ravel(), total) for moment in (at, at - window_ns))
    return (until - before) / window_ns
