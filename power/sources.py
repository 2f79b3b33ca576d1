"""The tables as files: CSV or Parquet of this package's own form, and power logs in any form that is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ..errors import DataError
from ..readers.files import head, plain_rows, read_plain_table, text
from .clocks import Clocks, fit_clocks, one_clock
from .logs import read_power_log
from .readings import check_executions, check_power_log, whole_lines
from .runs import group_runs

GPU_CLOCK, CPU_CLOCK, NO_CLOCK = "gpu", "epoch", "none"
"""What the times of a log are: of the GPU's counter, of the CPU since 1970, or absent."""


@dataclass(frozen=True)
class PowerLog:
    """A power log of one GPU.

    Attributes
    ----------
    readings : DataFrame
        As `power.readings.check_power_log` returns them; ``gpu_ns`` is the log's own clock.
    clock : str
        What that clock is: "gpu", "epoch" (the CPU's) or "local time".
    notes : tuple of str
        What of the file is left out.
    """

    readings: pd.DataFrame
    clock: str
    notes: tuple[str, ...]


def read_log(path: Path, gpu: int | None = None) -> PowerLog:
    """Read a power log: a table with gpu_ns and power_w, or a log of nvidia-smi, amd-smi or rocm-smi.

    Parameters
    ----------
    path : Path
        The file.
    gpu : int, optional
        Which GPU's readings count; may be left out where the log has one only. A table of this package's own form says
        which in a column ``gpu``.

    Raises
    ------
    DataError
        The file cannot be read, has no times, is of several GPUs of which none was chosen, or not of the one chosen.
    """
    if not path.is_file():
        raise DataError("no such file", source=str(path))
    beginning = head(path)
    header = beginning.split(b"\n", 1)[0].lower()
    if beginning.startswith(b"PAR1") or (b"power_w" in header and b"time_ns" not in header):
        return _own(path, gpu)
    found = read_power_log(path)
    clock = str(found.attrs["clock"])
    if clock == NO_CLOCK:
        raise DataError("the log states no times: record them (amd-smi metric: with -w)", source=str(path))
    chosen = _of_gpu(found, found["gpu"], gpu, str(path)).rename(columns={"time_ns": "gpu_ns"})
    _check_seconds(chosen, str(path))
    missing = found.attrs["left_out"]
    notes = [f"readings of the log without power, left out: {missing}"] if missing else []
    return PowerLog(check_power_log(chosen, str(path)), clock, (*notes, *_cut(found.attrs["cut"])))


def _own(path: Path, gpu: int | None) -> PowerLog:
    """Read a log with gpu_ns and power_w."""
    cut = 0
    if head(path).startswith(b"PAR1"):
        rows = read_plain_table(path)
    else:
        lines, cut = whole_lines(text(path))
        rows = plain_rows("\n".join(lines), str(path))
    column = next((name for name in rows if str(name).strip().lower() == "gpu"), None)
    if column is None and gpu is not None:
        raise DataError(
            "the log does not say of which GPU it is: leave --gpu out, or give it a column gpu", source=str(path)
        )
    if column is not None:
        numbers = pd.to_numeric(rows[column], errors="coerce")
        if numbers.isna().any():
            given = rows[column][numbers.isna()].iloc[0]
            raise DataError(f"gpu must be the number of a GPU, got {str(given)!r}", source=str(path))
        rows = _of_gpu(rows, numbers, gpu, str(path))
    return PowerLog(check_power_log(rows, str(path)), GPU_CLOCK, _cut(cut))


def _of_gpu(rows: pd.DataFrame, numbers: pd.Series, gpu: int | None, source: str) -> pd.DataFrame:
    """Return the readings of the GPU that was chosen, or of the only one."""
    known = numbers.unique().tolist()
    named = ", ".join(f"{number:g}" for number in known)
    if gpu is None and len(known) > 1:
        raise DataError(f"the log is of GPUs {named}: choose one with --gpu", source=source)
    if gpu is not None and gpu not in known:
        raise DataError(f"no reading of GPU {gpu}: the log is of {named}", source=source)
    return rows if gpu is None else rows[numbers == gpu].reset_index(drop=True)


def _check_seconds(rows: pd.DataFrame, source: str) -> None:
    """Refuse stamps of whole seconds that several readings share."""
    if not (rows["gpu_ns"] % 10**9).any() and rows.duplicated(["gpu_ns", "component"]).any():
        raise DataError(
            "several readings have the same timestamp, whose step is a whole second: log at most one a second, or with "
            "finer stamps",
            source=source,
        )


def _cut(lines: int) -> tuple[str, ...]:
    return ("the log breaks off in its last line, which is left out",) if lines else ()


# A power log put on the CPU's clock, beside the executions it shall tell the power of.


@dataclass(frozen=True)
class Measured:
    """A log on the CPU's clock, with its executions in runs.

    Attributes
    ----------
    times_ns : ndarray of int64, shape (n,)
        Time stamps on the CPU's clock.
    gpu_ns : ndarray of int64, shape (n,)
        The same as the log states them.
    extrapolated : ndarray of bool, shape (n,)
        Which of them lie outside the clock pairs.
    power_w : DataFrame of n rows
        A column per component.
    executions : DataFrame
        As `power.runs.group_runs` returns them.
    clocks : Clocks
    step_ns : int
        Of the log's time stamps: all are multiples of so many nanoseconds; of some loggers of milliseconds.
    """

    times_ns: np.ndarray
    gpu_ns: np.ndarray
    extrapolated: np.ndarray
    power_w: pd.DataFrame
    executions: pd.DataFrame
    clocks: Clocks
    step_ns: int

    @property
    def interval_us(self) -> float:
        """Median time between readings."""
        return float(np.median(np.diff(self.times_ns))) / 1e3

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels, in order of their first execution."""
        return [str(name) for name in self.executions["kernel"].unique()]


def synchronise(log: pd.DataFrame, executions: pd.DataFrame, pairs: pd.DataFrame | None) -> Measured:
    """Check the three tables, fit the clocks and put the log on the CPU's clock.

    Parameters
    ----------
    log, executions, pairs : DataFrame
        As `power.readings` describes them; no pairs: the log is on the CPU's clock already.

    Raises
    ------
    DataError
        A table cannot be used, or no reading falls between the executions.

    Notes
    -----
    Clock pairs may all lie before the log or after it: its times are extrapolated then, which `Measured` tells.
    """
    checked = check_power_log(log)
    ends = int(checked["gpu_ns"].min()), int(checked["gpu_ns"].max())
    clocks = one_clock(*ends) if pairs is None else fit_clocks(pairs)
    return on_cpu_clock(checked, group_runs(check_executions(executions)), clocks)


def on_cpu_clock(log: pd.DataFrame, executions: pd.DataFrame, clocks: Clocks) -> Measured:
    """Return the checked log on the CPU's clock.

    Parameters
    ----------
    log : DataFrame
        As `power.readings.check_power_log` returns it.
    executions : DataFrame
        As `power.runs.group_runs` returns them.
    clocks : Clocks
        To put the log on the CPU's clock.

    Raises
    ------
    DataError
        No reading falls between the first execution and the last.
    """
    power = log.pivot_table(index="gpu_ns", columns="component", values="power_w", sort=False).sort_index()
    gpu_ns = power.index.to_numpy()
    times = clocks.to_cpu_ns(gpu_ns)
    first, last = int(executions["start_ns"].iloc[0]), int(executions["end_ns"].iloc[-1])
    if times[-1] < first or times[0] > last:
        raise DataError(
            "no reading of the power log falls between the first execution and the last: are start_ns, end_ns and "
            "cpu_ns of one clock, the gpu_ns of log and clock pairs of another, all in nanoseconds?"
        )
    step_ns = int(np.gcd.reduce(gpu_ns))  # of the stamps, not their differences, which a steady logger's are too
    outside = clocks.extrapolated(gpu_ns)
    return Measured(times, gpu_ns, outside, power.reset_index(drop=True), executions, clocks, step_ns)
