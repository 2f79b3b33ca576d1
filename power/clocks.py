"""The power log on the CPU's clock, beside the executions it shall tell the power of.

The GPU's clock is related to the CPU's by a robust line through pairs of readings, weighted by how
long each read took (`fit_clocks`); `synchronise` checks the three tables, fits the line and moves
the log.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
from scipy import stats

from ..errors import DataError
from ..traces.cleaning.robust import MAD_TO_SIGMA
from .readings import check_clock_pairs, check_executions, check_power_log
from .runs import group_runs

# clocks in the same unit agree far better than this: their quartz is good to some 10^-4
MOST_SLOPE_ERROR: Final = 0.01
MOST_SCATTER_NS: Final = 100_000.0
"""Clocks wander from a straight line by a few microseconds; so much is another mistake."""
USUAL_DRIFT: Final = 1e-4
"""Quartz is good to this: what is believed of a drift that the pairs do not tell, as a standard deviation."""
LONGEST_MISS_NS: Final = 1e6  # by so much a read that was preempted may be wrong
MISSES: Final = 5.0  # a pair is an outlier if the line misses its interval by more than so many typical residuals
CHANCE: Final = 3.0
"""Standard deviations of a count of readings, at most one for each run, beyond which it is no chance that some lack."""
# pairs that the robust start looks at; its slopes are those of all pairs of pairs
_START_PAIRS: Final = 300


@dataclass(frozen=True)
class Clocks:
    """The line from the GPU's clock to the CPU's, cpu = cpu_origin + shift + slope · (gpu − gpu_origin).

    The origins are the readings of the first pair. If reads always sample the counter early or
    late, all times are off by up to `bound_ns`. Before the first pair and after `last_gpu_ns`, the
    last one's reading, the line is extrapolated.
    """

    gpu_origin_ns: int
    cpu_origin_ns: int
    last_gpu_ns: int
    middle_gpu_ns: int  # the weighted mean of the GPU's readings
    shift_ns: float = 0.0  # of the line against the first pair
    slope: float = 1.0  # CPU nanoseconds per GPU nanosecond
    pairs: int = 0  # given; 0 of a log on the CPU's clock
    # places (from 0) of the pairs left out, which contradict the others
    outliers: tuple[int, ...] = ()
    # root mean square of the pairs kept, weighted as the fit; NaN where no pair is to spare
    residual_ns: float = np.nan
    largest_residual_ns: float = np.nan  # the largest of the pairs kept; NaN likewise
    bound_ns: float = np.nan  # half the shortest delay
    drift_fitted: bool = True  # False for a constant offset, whose slope of 1 nobody has measured
    slope_error: float = 0.0  # standard error of the slope
    level_error_ns: float = 0.0  # standard error of the line at `middle_gpu_ns`, where it is least

    @property
    def offset_ns(self) -> int:
        """The GPU's clock minus the CPU's, at the first pair."""
        return self.gpu_origin_ns - self.cpu_origin_ns - round(self.shift_ns)

    @property
    def drift_ppm(self) -> float:
        """How much the GPU's clock gains on the CPU's, millionths; NaN where it is unknown."""
        if self.drift_fitted:
            return 1e6 * (1 / self.slope - 1)
        return np.nan

    @property
    def drift_error_ppm(self) -> float:
        """Standard error of the drift, millionths; the usual drift where it is unknown."""
        return 1e6 * self.slope_error

    def error_ns(self, gpu_ns: np.ndarray) -> np.ndarray:
        """Return the standard errors of times of the GPU's clock put on the CPU's."""
        since = (np.asarray(gpu_ns, dtype=np.int64) - self.middle_gpu_ns).astype(float)
        return np.hypot(self.level_error_ns, self.slope_error * since)

    def to_cpu_ns(self, gpu_ns: np.ndarray) -> np.ndarray:
        """Return times of the GPU's clock (int64) on the CPU's, to the nearest nanosecond."""
        since = np.asarray(gpu_ns, dtype=np.int64) - self.gpu_origin_ns
        # slope - 1 is small: multiplying by it alone keeps the nanoseconds
        moved = np.rint(self.shift_ns + (self.slope - 1) * since.astype(float)).astype(np.int64)
        return self.cpu_origin_ns + since + moved

    def extrapolated(self, gpu_ns: np.ndarray) -> np.ndarray:
        """Return which times lie before the first pair or after the last."""
        times = np.asarray(gpu_ns, dtype=np.int64)
        return (times < self.gpu_origin_ns) | (times > self.last_gpu_ns)


def fit_clocks(pairs: pd.DataFrame) -> Clocks:
    """Fit offset and drift to clock pairs (`power.readings`); one pair alone gives a constant offset.

    The counter was sampled at an unknown moment of the read, so a pair says cpu_ns + delay_ns / 2
    with a standard deviation of delay_ns / √12, and its weight is the inverse square. Delays below
    a tenth of the median count as that: they are the clock's steps more than fast reads, and one
    alone must not decide. Theil and Sen's line starts; pairs that it misses by more than half their
    delay and `MISSES` times the typical residual are left out; weighted least squares on the others
    follows. Raises DataError: the pairs cannot be used, the clocks tick in different units, or the
    pairs lie on no line.
    """
    checked = check_clock_pairs(pairs)
    if len(checked) == 1:
        return constant_offset(checked)
    gpu, cpu, delay = _relative(checked)
    stretches = np.array_split(np.arange(len(gpu)), min(len(gpu), _START_PAIRS))
    # of each the one read fastest
    start = np.array([stretch[np.argmin(delay[stretch])] for stretch in stretches])
    slope, _, _, _ = stats.theilslopes(cpu[start], gpu[start])
    if abs(float(slope) - 1) > MOST_SLOPE_ERROR + LONGEST_MISS_NS / float(gpu[-1]):
        raise DataError(
            f"clock pairs: the CPU's clock advances by {slope:.6g} while the GPU's advances by 1: "
            "both must be "
            "nanoseconds (a counter's ticks times the length of a tick)"
        )
    residual = cpu - slope * gpu
    residual -= np.median(residual[start])
    typical = MAD_TO_SIGMA * float(np.median(np.abs(residual)))
    if typical > max(MOST_SCATTER_NS, 10 * float(np.median(delay))):
        raise DataError(
            f"clock pairs scatter by {typical / 1e3:,.0f} µs around a line: are they of one GPU?"
        )
    outlier = np.abs(residual) - delay / 2 > MISSES * max(typical, 1.0)
    return _weighted_line(checked, ~outlier)


def constant_offset(pairs: pd.DataFrame) -> Clocks:
    """Return the offset of the first pair, assumed constant."""
    checked = check_clock_pairs(pairs)
    first = checked.iloc[0]
    last = checked.iloc[-1]
    half = float(first["delay_ns"]) / 2
    return replace(
        one_clock(int(first["gpu_ns"]), int(last["gpu_ns"])),
        cpu_origin_ns=int(first["cpu_ns"]),
        shift_ns=half,
        pairs=len(checked),
        bound_ns=half,
        drift_fitted=False,
        slope_error=USUAL_DRIFT,
        level_error_ns=half / np.sqrt(3),
    )


def one_clock(first_ns: int, last_ns: int) -> Clocks:
    """Return the clocks of a log that is on the CPU's clock already; nothing between its ends is extrapolated."""
    return Clocks(
        gpu_origin_ns=first_ns,
        cpu_origin_ns=first_ns,
        last_gpu_ns=last_ns,
        middle_gpu_ns=first_ns,
    )


def _relative(pairs: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the pairs since the first, the middle of each read as its CPU time, as floats."""
    since = (pairs - pairs.iloc[0]).to_numpy().astype(float)
    delay = pairs["delay_ns"].to_numpy(dtype=float)
    return since[:, 0], since[:, 1] + delay / 2, delay


def _weighted_line(pairs: pd.DataFrame, kept: np.ndarray) -> Clocks:
    gpu, cpu, delay = _relative(pairs)
    shortest = max(float(np.median(delay[kept])) / 10, 1.0)
    x = gpu[kept]
    y = (cpu - gpu)[kept]
    sigma = np.maximum(delay[kept], shortest) / np.sqrt(12)
    weight = sigma**-2.0
    middle = np.average(x, weights=weight)
    level = np.average(y, weights=weight)
    gain, error, worse = _gain(x - middle, y - level, weight)
    residual = y - level - gain * (x - middle)
    residual_ns = largest_residual_ns = np.nan
    if kept.sum() > 2:
        residual_ns = float(np.sqrt(np.average(residual**2, weights=weight)))
        largest_residual_ns = float(np.abs(residual).max())
    return Clocks(
        gpu_origin_ns=int(pairs["gpu_ns"].iloc[0]),
        cpu_origin_ns=int(pairs["cpu_ns"].iloc[0]),
        shift_ns=float(level - gain * middle),
        slope=1 + gain,
        pairs=len(pairs),
        outliers=tuple(np.flatnonzero(~kept).tolist()),
        residual_ns=residual_ns,
        largest_residual_ns=largest_residual_ns,
        bound_ns=float(delay[kept].min()) / 2,
        last_gpu_ns=int(pairs["gpu_ns"].iloc[-1]),
        drift_fitted=bool(kept.sum() > 1),
        slope_error=error,
        level_error_ns=worse / float(np.sqrt(weight.sum())),
        middle_gpu_ns=int(pairs["gpu_ns"].iloc[0]) + round(float(middle)),
    )


def _gain(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[float, float, float]:
    """Return the excess of the slope over 1, its standard error, and the excess scatter of the pairs.

    ``x`` and ``y`` are of weighted mean 0, the weights inverse variances by the reads' delays. The
    prior counts as one observation of slope 1; what contradicts the line, or the prior, makes all
    errors of the pairs grow.
    """
    information = float(weight @ x**2)
    prior = USUAL_DRIFT**-2.0
    gain = 0.0
    worse = 1.0
    for _ in range(2):  # the second time with the errors of the first
        gain = float(weight @ (x * y)) / (information + prior * worse**2)
        missed = float(weight @ (y - gain * x) ** 2) + gain**2 * prior
        worse = max(1.0, float(np.sqrt(missed / max(len(x) - 1, 1))))
    return gain, float(1 / np.sqrt(information / worse**2 + prior)), worse


@dataclass(frozen=True)
class Measured:
    """A log on the CPU's clock, with its executions in runs (`power.runs.group_runs`)."""

    times_ns: np.ndarray  # (n,), int64, time stamps on the CPU's clock
    gpu_ns: np.ndarray  # (n,), int64, the same as the log states them
    extrapolated: np.ndarray  # (n,), which of them lie outside the clock pairs
    power_w: pd.DataFrame  # n rows, a column per component
    executions: pd.DataFrame
    clocks: Clocks
    step_ns: int  # all stamps of the log are multiples of so many nanoseconds; of some loggers of milliseconds

    @property
    def interval_us(self) -> float:
        """Median time between readings."""
        return float(np.median(np.diff(self.times_ns))) / 1e3

    def missing(self, kernel: str) -> float:
        """Return the share of expected readings in the runs of a kernel, one an interval, that the log lacks.

        0 where chance may have it so: each run may have one reading more or less than its length
        says.
        """
        runs = self.executions[self.executions["kernel"].eq(kernel)].groupby("run")
        starts = runs["start_ns"].min().to_numpy()
        ends = runs["end_ns"].max().to_numpy()
        due = float((ends - starts).sum()) / 1e3 / self.interval_us
        read = np.searchsorted(self.times_ns, ends) - np.searchsorted(self.times_ns, starts)
        lacks = due - float(read.sum())
        if lacks > CHANCE * math.sqrt(len(starts)):
            return lacks / due
        return 0.0

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels, in order of their first execution."""
        return [str(name) for name in self.executions["kernel"].unique()]


def synchronise(
    log: pd.DataFrame, executions: pd.DataFrame, pairs: pd.DataFrame | None
) -> Measured:
    """Check the three tables (`power.readings`), fit the clocks and put the log on the CPU's clock.

    Without pairs the log is on the CPU's clock already. Pairs may all lie before the log or after
    it: its times are extrapolated then, which `Measured` tells. Raises DataError: a table cannot be
    used, or no reading falls between the executions.
    """
    checked = check_power_log(log)
    ends = int(checked["gpu_ns"].min()), int(checked["gpu_ns"].max())
    if pairs is None:
        clocks = one_clock(*ends)
    else:
        clocks = fit_clocks(pairs)
    return on_cpu_clock(checked, group_runs(check_executions(executions)), clocks)


def on_cpu_clock(log: pd.DataFrame, executions: pd.DataFrame, clocks: Clocks) -> Measured:
    """Return the checked log on the CPU's clock; executions are as `power.runs.group_runs` returns them.

    Raises DataError: no reading falls between the first execution and the last.
    """
    power = log.pivot_table(
        index="gpu_ns", columns="component", values="power_w", sort=False
    ).sort_index()
    gpu_ns = power.index.to_numpy()
    times = clocks.to_cpu_ns(gpu_ns)
    first = int(executions["start_ns"].iloc[0])
    last = int(executions["end_ns"].iloc[-1])
    if times[-1] < first or times[0] > last:
        raise DataError(
            "no reading of the power log falls between the first execution and the last: are "
            "start_ns, end_ns and "
            "cpu_ns of one clock, the gpu_ns of log and clock pairs of another, all in nanoseconds?"
        )
    # of the stamps, not their differences, which a steady logger's are too
    step_ns = int(np.gcd.reduce(gpu_ns))
    read = (gpu_ns, clocks.extrapolated(gpu_ns), power.reset_index(drop=True))
    return Measured(times, *read, executions, clocks, step_ns)
