"""A power log put on the CPU's clock, beside the executions it shall tell the power of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..errors import DataError
from .clocks import Clocks, fit_clocks, one_clock
from .runs import group_runs
from .tables import check_executions, check_power_log


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
        As `telemetry.runs.group_runs` returns them.
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
        As `telemetry.tables` describes them; no pairs: the log is on the CPU's clock already.

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
        As `telemetry.tables.check_power_log` returns it.
    executions : DataFrame
        As `telemetry.runs.group_runs` returns them.
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
