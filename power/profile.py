"""The power profile of a kernel: readings of all golden runs stitched over its time, steady execution and steady power.

Two profiles are kept apart. SSE, the steady-state-execution profile, is that of the first execution
whose time is steady (the 4th); an averaging logger still shows what came before it. SSP, the
steady-state-power profile, is that of the executions that start when the logger's window holds
nothing but the run. Taking the first for the second is the error that the method's authors found to
reach 80 %.

Both are parts of a run, whose power over all its executions is kept as well (`ComponentPower.run`);
`without_steps` says what each step of the method is worth on a measurement of the user.

`stitch` finds the readings of all components at once, those of golden runs, with what else their
windows see: other kernels, pauses, the fill of the window before a run. `detect_throttling` looks
for power that rises and then falls over the executions of a run.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from .. import values
from ..errors import DataError, ParameterError, check_level, check_number, counted, few
from ..readers.files import read_plain_table
from ..readers.reading import check_renames
from ..remarks import Remark, remark
from ..traces.cleaning.binning import EACH_OTHER, bin_ratio
from ..values import Assigned, Beside, Names
from .clocks import Clocks, Measured, synchronise
from .deconvolution import Deconvolved, Windows, deconvolve, windows
from .energy import PHASES, Energy, Pauses, find_pauses, kernel_energy, polynomial, spline
from .logs import TOTAL
from .readings import (
    COLUMNS,
    CPU_CLOCK,
    Facts,
    check_clock_pairs,
    check_executions,
    facts_of,
    read_log,
)
from .runs import (
    ADVICE,
    FULLER_BIN,
    LEAST_EXECUTIONS,
    SHORTEST_US,
    Plan,
    RunChoice,
    apart,
    covered_share,
    executions_published,
    golden_runs,
    plan,
    readings_of_interest,
)

LEAST_READINGS: Final = 6  # a polynomial of degree 4 has five coefficients
# share of the window that the kernel must fill for it to count as measured alone
ALONE: Final = 0.99
_LEAST_FULL: Final = 0.7
"""The published number of executions fills at least 3/4 of the window before the last one starts."""
STAGES: Final = 8
"""Parts a run is cut into at most to look for throttling: of whole executions, so that what varies
within the kernel cancels."""
# a smaller fall, as a share of the highest power, is not called throttling
LEAST_FALL: Final = 0.03
STANDARD_ERRORS: Final = 4.0  # rise and fall must exceed so many standard errors of the difference
_LEAST_OF_STAGE: Final = 3  # per stage


@dataclass(frozen=True)
class Stitched:
    """The readings that all components' profiles are made from.

    Tables of readings are as `power.runs.readings_of_interest` returns them.
    """

    ssp_execution: int  # first execution with steady power
    filled: float  # share of the window that lies inside the run when that execution starts
    whole: pd.DataFrame  # readings of golden runs
    golden: pd.DataFrame  # those of them whose window had filled
    first: pd.DataFrame  # of golden runs, those of the steady execution
    steady: pd.DataFrame  # of golden runs, those with steady power
    # readings with steady power of all runs, golden or not, but those of fuller bins
    every: pd.DataFrame
    place: np.ndarray  # place in `times_us` of the run of each of them
    times_us: np.ndarray  # (runs,), execution time of each run
    ratio: float  # of the longest to the shortest time of the execution-time bin
    pauses: Pauses  # what the windows of `every` see besides executions
    alone: float  # mean share of the windows of `steady` in which the kernel itself ran
    others: float  # and in which other kernels ran
    equations: Windows | None  # for the removal of a window of known length

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
    """Find the readings of a kernel, and the other kernels in their windows.

    `executions` are those of the kernel, `window_us` is the averaging window of the logger (0:
    instantaneous), `removed_us` the window to deconvolve (0: none), `execution` the first whose
    time is steady, `steady_from` the first whose power is, where that is later than the window
    fills. Raises DataError: the window does not fill, or fewer than `LEAST_READINGS` readings have
    steady power.
    """
    name = executions["kernel"].iloc[0]
    golden = executions[executions["run"].isin(runs.kept)]
    ssp_execution, filled = _steady_power(
        golden,
        runs.kernel_us,
        window_us,
        execution,
    )
    later = steady_from is not None and steady_from > ssp_execution
    ssp_execution = max(ssp_execution, steady_from or 0)
    inside = readings_of_interest(measured.times_ns, golden)
    steady = inside[inside["execution"] >= ssp_execution]
    if len(steady) < LEAST_READINGS:
        raise DataError(
            f"only {len(steady)} readings fall into executions of {name} with steady power (number "
            f"{ssp_execution} and later, {len(runs.kept)} golden runs): at least {LEAST_READINGS} "
            f"are needed, {ADVICE},"
            " or let the bin's times lie within the margin of its middle"
        )
    every = readings_of_interest(measured.times_ns, executions)
    timed = runs.table[runs.table["time_us"].notna() & runs.table["reason"].ne(FULLER_BIN)]
    every = every[(every["execution"] >= ssp_execution) & every["run"].isin(timed["run"])]
    seen = golden
    if later:
        seen = golden[golden["execution"] >= ssp_execution]
    rest = measured.executions.drop(seen.index)
    of_kernel = measured.executions["kernel"].eq(name)
    at = measured.times_ns[steady["reading"]]
    span_ns = 1e3 * (window_us or runs.kernel_us)
    alone, others = (
        float(covered_share(at, measured.executions[part], span_ns).mean())
        for part in (of_kernel, ~of_kernel)
    )
    equations = None
    if removed_us:
        warm = 0
        if not later:
            warm = execution - 1
        equations = windows(
            measured.times_ns,
            seen,
            rest,
            1e3 * removed_us,
            warm=warm,
        )
    return Stitched(
        ssp_execution=ssp_execution,
        filled=filled,
        whole=inside,
        golden=inside[inside["since_run_us"] >= window_us],
        first=inside[inside["execution"] == execution],
        steady=steady,
        every=every,
        place=pd.Index(timed["run"]).get_indexer(pd.Index(every["run"])),
        times_us=timed["time_us"].to_numpy(),
        ratio=runs.ratio,
        pauses=find_pauses(
            measured.times_ns, every["reading"].to_numpy(), measured.executions, 1e3 * window_us
        ),
        alone=alone,
        others=others,
        equations=equations,
    )


def _steady_power(
    golden: pd.DataFrame, kernel_us: float, window_us: float, execution: int
) -> tuple[int, float]:
    """Return the first execution with steady power, and the share of the window inside the run at its start.

    It is the first that starts with the whole window inside the run, in the median run; where the
    runs are too short for that the published number, or one less, as a kernel needs that turned out
    faster than planned.
    """
    if not window_us:
        return execution, 1.0
    since = (golden["start_ns"] - golden["run_start_ns"]) / 1e3
    starts = since.groupby(golden["execution"]).median()
    filled = starts.index[(starts >= window_us) & (starts.index >= execution)]
    if len(filled):
        return int(filled[0]), 1.0
    needed = max(executions_published(kernel_us, window_us), execution)
    last = int(starts.index.max())
    number = min(needed, last)
    if number < execution or starts[number] < _LEAST_FULL * window_us:
        raise DataError(
            f"steady power needs {needed} executions per run, the runs have {last}: the averaging "
            "window of "
            f"{window_us:g} µs does not fill, {ADVICE}"
        )
    return number, float(starts[number]) / window_us


@dataclass(frozen=True)
class Throttling:
    """The course of the power over the executions of a run; NaN and 0 where too few readings show it."""

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

    `execution` (n,) is the one each reading fell into. Readings whose window had not filled must be
    left out: they would supply a rise to any fall.
    """
    if not len(execution):
        return Throttling(False, np.nan, np.nan, 0)
    earliest = int(execution.min())
    count = int(execution.max()) - earliest + 1
    stage = (execution - earliest) * min(STAGES, count) // count
    stages = [power_w[stage == one] for one in range(stage.max() + 1)]
    read = {place: watts for place, watts in enumerate(stages) if len(watts) >= _LEAST_OF_STAGE}
    if len(read) < _LEAST_OF_STAGE:
        return Throttling(False, np.nan, np.nan, 0)
    mean = np.array([watts.mean() for watts in read.values()])
    errors = [watts.std(ddof=1) / np.sqrt(len(watts)) for watts in read.values()]
    error = np.array(errors)
    peak = int(np.argmax(mean))

    def clear(end: int) -> bool:
        fall = mean[peak] - mean[end]
        noise = STANDARD_ERRORS * np.hypot(error[peak], error[end])
        return bool(fall > max(LEAST_FALL * mean[peak], noise))

    first = int(execution[stage == [*read][peak]].min())
    return Throttling(
        clear(0) and clear(-1),
        float(mean[peak]),
        float(mean[-1]),
        first,
    )


LEAST_CELLS: Final = 10  # time stamps must tell at least so many parts of the kernel's time apart
LEAST_GOLDEN: Final = 0.25
"""Share of the runs that the fullest bin of execution times should hold: at half the published
margin of scatter, a third."""
UNSURE: Final = 0.1  # the largest error of times of readings, of the kernel's time
OVER: Final = 1.02  # share of the cap from which on power is over it
COMPLETE: Final = 0.9  # share of the readings due in the runs that a log should have
SCATTER: Final = 0.2
"""Standard deviation of readings around their curve, as a share of the mean: steady power is not that unsteady.

A judgement: the simulated GEMMs of the guide have 1 %; where one reading of 50 says 6553.5 W, three
of the four have 92 % and more; where a clock of the log jumps within the runs, up to 62 % (5 ms)
and 87 % (50 ms).
"""


TAIL: Final = 0.99
"""Quantile of the readings that stands for the tail of a kernel's power."""


@dataclass(frozen=True)
class Curve:
    """Readings stitched over the kernel's time, and the curves through them at `energy.PHASES`."""

    readings: pd.DataFrame
    polynomial_w: np.ndarray

    @cached_property
    def spline_w(self) -> np.ndarray:
        """The smoothing spline, fitted where it is shown: choosing how smooth takes most of a profile's time."""
        return spline(
            self.readings["phase"].to_numpy(), self.readings["power_w"].to_numpy(), PHASES
        )

    @property
    def scatter(self) -> float:
        """Standard deviation of the readings around the polynomial, as a share of its mean."""
        phase = self.readings["phase"].to_numpy()
        power = self.readings["power_w"].to_numpy()
        return float(np.std(power - np.interp(phase, PHASES, self.polynomial_w))) / self.mean_w

    @property
    def mean_w(self) -> float:
        """Mean of the polynomial over the kernel's time."""
        return float(self.polynomial_w.mean())


@dataclass(frozen=True)
class ComponentPower:
    """The power of one component while the kernel runs."""

    component: str
    # of the steady execution; None where fewer than `LEAST_READINGS` readings fell into it
    sse: Curve | None
    ssp: Curve  # of the executions with steady power
    # of one execution, from the steady power; NaN where other kernels share the windows
    energy: Energy
    throttling: Throttling
    # only where the logger's window was stated and enough runs tell
    deconvolved: Deconvolved | None
    run: pd.DataFrame  # readings of golden runs: ``since_run_us``, ``execution``, ``start_us`` (of it) and ``power_w``

    @property
    def by_execution(self) -> pd.DataFrame:
        """Power over the whole run, a row per execution: its median ``start_us``, ``mean_w`` and ``readings``."""
        of = self.run.groupby("execution", sort=True)
        table = of.agg(
            start_us=("start_us", "median"),
            mean_w=("power_w", "mean"),
            readings=("power_w", "count"),
        )
        return table.reset_index()

    @property
    def sse_error_percent(self) -> float:
        """Error of taking SSE for SSP, of the mean power; NaN without an SSE profile."""
        if self.sse is None:
            return np.nan
        return 100 * (self.sse.mean_w / self.ssp.mean_w - 1)


@dataclass(frozen=True)
class KernelPower:
    """The power profile of one kernel."""

    kernel: str
    facts: Facts  # what the executions say of it besides
    kernel_us: float  # median execution time over golden runs
    window_us: float  # averaging window of the logger; 0: instantaneous
    window_stated: bool  # False where the time between readings was taken for it
    sse_execution: int  # number of the steady execution
    ssp_execution: int  # number of the first execution with steady power
    filled: float  # share of the window that lies inside the run when that execution starts
    alone: float  # mean share of the windows of the SSP readings in which the kernel itself ran
    others: float  # and in which other kernels ran
    runs: RunChoice
    plan: Plan  # the protocol recommended for this kernel
    components: dict[str, ComponentPower]
    notes: tuple[Remark, ...]
    # profiles with steps left out
    without: Mapping[str, KernelPower | DataError] = field(default_factory=dict)

    @property
    def isolation(self) -> str:
        """How the kernel was measured.

        ``longer-than-window``; or, of a shorter one, ``isolated`` (back to back, alone),
        ``isolated-with-pauses``, or ``interleaved`` with other kernels.
        """
        if self.kernel_us >= self.window_us:
            return "longer-than-window"
        if self.others > 1 - ALONE:
            return "interleaved"
        if self.alone >= ALONE:
            return "isolated"
        return "isolated-with-pauses"


@dataclass(frozen=True)
class PowerProfiles:
    """The profiles of the kernels of one log, the synchronisation of its clock, and the level of the intervals."""

    kernels: list[KernelPower]
    clocks: Clocks
    level: float
    left_out: tuple[Remark, ...] = ()  # kernels of the executions that have no profile, and why
    # of the board, by which pairs of kernels are judged (`power.lessons.learn`); None: unknown
    cap_w: float | None = None
    idle_w: float = 0.0

    def __repr__(self) -> str:
        """Return a row for each kernel and component, as in `compare`."""
        table = compare(self.kernels)[
            ["kernel", "component", "kernel_us", "ssp_w", "energy_j", "lower_j", "upper_j"]
        ]
        return f"<PowerProfiles of {counted(len(self.kernels), 'kernel')}>\n{table}"


def profile_files(
    log: str | Path,
    executions: Beside,
    clocks: Beside | None = None,
    *,
    gpu_index: int | None = None,
    kernel: str | None = None,
    component: Names | None = None,
    window_us: float | None = None,
    execution: int = LEAST_EXECUTIONS,
    steady_from: int | None = None,
    within: str = EACH_OTHER,
    bin_rank: int = 1,
    ablate: bool = False,
    cap_w: float | None = None,
    rename: Assigned | None = None,
    idle_w: float = 0.0,
    interval: float = 0.9,
    seed: int = 0,
) -> PowerProfiles:
    """Stitch the power of kernels over their time from the readings of a log, with the energy of one execution.

    One kernel, or every kernel of the executions is profiled; the tables are those of `power.readings`.
    The log may be nvidia-smi's, amd-smi's or rocm-smi's; one that states times since 1970 needs no
    clocks. Of several
    kernels those that cannot be profiled are left out (`PowerProfiles.left_out`); one that ran alone
    in some runs and among others in the rest is profiled as two (`power.runs.apart`).

    Parameters
    ----------
    log : path
        CSV or Parquet: gpu_ns, component, power_w; or a log of nvidia-smi or amd-smi.
    executions : path
        Table with start_ns, end_ns, kernel; also run, execution, class.
    clocks : path, optional
        Table with gpu_ns, cpu_ns, delay_ns: readings of both clocks; a log of times since 1970 needs none.
    gpu_index : int, optional
        Which GPU of a log of several.
    kernel : str, default all
        Only this kernel.
    component : sequence of str, default all
        Only these components.
    window_us : float, optional
        As for `power_plan`. Where it is stated, its effect is also removed (deconvolution); else the time between
        readings is taken for it, and nothing is removed.
    execution : int, default=4
        First execution of a run whose time is steady. From 1 on.
    steady_from : int, default when the window has filled
        First execution of steady power. Later than the window fills of a kernel that throttles; by default
        what the executions state, too.
    within : {"each-other", "middle"}, default each-other
        A bin's times lie within the margin of each other, each-other (published), or of its middle: wider.
    bin_rank : int, default=1
        Which bin of execution times: 1 the fullest, 2 the next, ... The next is the fullest of the other runs.
    ablate : bool
        Also without synchronised clocks, without bins, with 50 runs. Each kernel is profiled once more without each
        step (`without_steps`).
    cap_w : float, optional
        Power cap of the board, W: no deconvolved power is above it; which two stay below it together.
    rename : mapping of str to str, optional
        As for `read`: of the three tables, such as ``{"watts": "power_w"}``.
    idle_w : float, default=0
        Idle power of the board, W, drawn once by two kernels together.
    interval : float, default=0.9
        As for `predict`.
    seed : int, default=0
        As for `train`: of the energy's bootstrap and of the folds of the deconvolution.

    Raises
    ------
    ParameterError
        A parameter is out of its range, or clocks are needed and not given.
    DataError
        A file or a table cannot be used, or too few readings of every kernel are left.

    Examples
    --------
    >>> import flopcast as fc
    >>> found = fc.power_profile("log.csv", "executions.csv", "clocks.csv", window_us=1000)  # doctest: +SKIP
    >>> found.kernels[0].components["total"].ssp.mean_w  # doctest: +SKIP
    """
    if execution < 1:
        raise ParameterError("execution", f"is counted from 1, got {execution}")
    check_level(interval)
    for name, value in (("window_us", window_us), ("cap_w", cap_w), ("idle_w", idle_w)):
        if value is not None:
            check_number(
                name,
                value,
                0,
                sys.float_info.max,
                whole=False,
            )
    for name, path in (("log", log), ("executions", executions), ("clocks", clocks)):
        if not isinstance(path, str | Path) and (path is not None or name != "clocks"):
            raise ParameterError(name, f"must be the path of a file, got {type(path).__name__}")
    bin_ratio(0.0, within)  # refuses another word
    check_number("bin_rank", bin_rank, 1)
    if steady_from is not None:
        check_number("steady_from", steady_from, 1)
    component = values.names("component", component)
    log = Path(log)
    executions = Path(executions)
    if clocks is None:
        clocks = None
    else:
        clocks = Path(clocks)
    rename = values.assigned("rename", rename)
    tables = [path for path in (log, executions, clocks) if path is not None]
    check_renames(tables, rename, columns_used=COLUMNS)
    power_log = read_log(log, gpu_index, rename)
    if clocks is None and power_log.clock != CPU_CLOCK:
        raise ParameterError(
            "clocks",
            f"must be given, readings of both clocks: the times of {log} are of another "
            f"({power_log.clock}) than those of "
            "the executions",
        )
    measured = synchronise(
        power_log.readings,
        check_executions(_table_of(executions, rename), str(executions)),
        None if clocks is None else check_clock_pairs(_table_of(clocks, rename), str(clocks)),
    )
    measured = replace(measured, executions=apart(measured.executions))
    profiles = list[KernelPower]()
    errors = dict[str, DataError]()
    settings: dict[str, Any] = {
        "window_us": window_us,
        "execution": execution,
        "steady_from": steady_from,
        "within": within,
        "rank": bin_rank,
        "components": component,
        "cap_w": power_log.limit_w if cap_w is None else cap_w,
        "level": interval,
        "seed": seed,
    }
    for name in measured.kernels if kernel is None else [kernel]:
        try:
            profile = profile_kernel(measured, name, **settings)
            if ablate:
                without = without_steps(measured, name, **settings)
            else:
                without = {}
            profiles.append(replace(profile, without=without))
        except ParameterError:
            raise
        except DataError as error:  # of this kernel alone
            errors[name] = error
    if not profiles:
        raise next(iter(errors.values()))
    left_out = list[Remark]()
    for name, error in errors.items():
        text = f"{name} is left out: {error!s}"
        left_out.append(
            remark(
                "power-kernel-left-out",
                text,
                kernel=name,
                reason=str(error),
            )
        )
    noted = [replace(one, notes=(*one.notes, *power_log.notes)) for one in profiles]
    return PowerProfiles(
        noted,
        measured.clocks,
        interval,
        tuple(left_out),
        cap_w,
        idle_w,
    )


def _table_of(path: Path, rename: Mapping[str, str]) -> pd.DataFrame:
    """Return a table under the names that the user gives its columns."""
    return read_plain_table(path).rename(columns=rename)


def profile_kernel(
    measured: Measured,
    kernel: str | None = None,
    *,
    window_us: float | None = None,
    execution: int = LEAST_EXECUTIONS,
    steady_from: int | None = None,
    margin: float | None = None,
    within: str = EACH_OTHER,
    rank: int = 1,
    components: Sequence[str] | None = None,
    cap_w: float | None = None,
    replicates: int = 1000,
    level: float = 0.9,
    seed: int = 0,
) -> KernelPower:
    """Return the power profile of one kernel, which may be left unnamed where only one was run.

    ``window_us`` is the averaging window of the logger, 0 for an instantaneous one; where it is
    stated, its effect is also removed (deconvolution), else the time between readings is taken for
    it, and nothing is removed. ``execution`` is the first whose time is steady, ``steady_from`` the
    first whose power is, where that is later than the window fills (of a kernel that throttles); by
    default what the executions state. ``margin`` is that of the execution-time bin: by default the
    published one (``inf`` keeps every run); ``within`` says what its times lie within it of, and
    ``rank`` which bin: 1 is the fullest, 2 the fullest of the other runs, ...
    (`traces.cleaning.binning`). No deconvolved power lies above the board's ``cap_w``. ``seed`` is
    that of the energy's bootstrap and of the folds of the deconvolution.

    Raises DataError: the kernel or a component is unknown, the time stamps of the log are too
    coarse for the kernel, or too few executions or readings are left.
    """
    names = measured.kernels
    components_logged = [str(one) for one in measured.power_w.columns]
    if kernel is None and len(names) > 1:
        raise ParameterError("kernel", f"must be given: the executions are of {few(names)}")
    if kernel is None:
        name = names[0]
    else:
        name = kernel
    if name not in names:
        raise ParameterError(
            "kernel", f"must be one of those of the executions, {few(names)}, got {kernel!r}"
        )
    for one in components or ():
        if one not in components_logged:
            raise ParameterError(
                "component",
                f"must be among those of the log, {', '.join(components_logged)}, got {one!r}",
            )
    rows = measured.executions[measured.executions["kernel"].eq(name)]
    if steady_from is None and "steady_from" in rows:
        steady_from = int(rows["steady_from"].max())
    runs = golden_runs(
        rows,
        execution,
        margin,
        within=within,
        rank=rank,
    )
    step_us = measured.step_ns / 1e3
    # nobody knows when in the kernel's time a reading fell
    if step_us > runs.kernel_us / LEAST_CELLS:
        launches = math.ceil(LEAST_CELLS * step_us / runs.kernel_us)
        raise DataError(
            f"time stamps of the power log are multiples of {step_us:g} µs, over 1/{LEAST_CELLS} "
            "of the kernel's "
            f"{runs.kernel_us:.4g} µs: log finer ones, or time {launches} launches back to back "
            "as one execution"
        )
    if window_us is None:
        window = measured.interval_us
    else:
        window = window_us
    stitched = stitch(
        measured,
        rows,
        runs,
        window,
        removed_us=window_us or 0.0,
        execution=execution,
        steady_from=steady_from,
    )
    result = KernelPower(
        kernel=name,
        facts=facts_of(rows),
        kernel_us=runs.kernel_us,
        window_us=window,
        window_stated=window_us is not None,
        sse_execution=execution,
        ssp_execution=stitched.ssp_execution,
        filled=stitched.filled,
        alone=stitched.alone,
        others=stitched.others,
        runs=runs,
        plan=plan(runs.kernel_us, window),
        components={
            one: _component(
                one, measured.power_w[one].to_numpy(), stitched, cap_w, replicates, level, seed
            )
            for one in components or components_logged
        },
        notes=(),
    )
    notes = (
        *_power_notes(result, stitched),
        *_cap_notes(result, cap_w),
        *_sample_notes(result, measured, stitched),
    )
    return replace(result, notes=notes)


FEW_RUNS: Final = 50


def without_steps(
    measured: Measured, kernel: str, **settings: Any
) -> dict[str, KernelPower | DataError]:
    """Return the profile of a kernel without synchronised clocks, without bins, and of few runs, or why there is none.

    Not synchronised, log and executions are taken to begin together. The settings are those of
    `profile_kernel`.
    """
    executions = measured.executions
    first = measured.executions["start_ns"].iloc[0]
    of_kernel = executions["kernel"].eq(kernel)
    few_runs = executions["run"].isin(executions.loc[of_kernel, "run"].unique()[:FEW_RUNS])
    cases: dict[str, tuple[Measured, dict[str, Any]]] = {
        "without synchronisation": (
            replace(measured, times_ns=measured.gpu_ns - measured.gpu_ns[0] + first),
            {},
        ),
        "without binning": (measured, {"margin": math.inf}),
        f"{FEW_RUNS} runs": (replace(measured, executions=executions[few_runs | ~of_kernel]), {}),
    }
    profiles: dict[str, KernelPower | DataError] = {}
    for name, (changed, more) in cases.items():
        try:
            profiles[name] = profile_kernel(changed, kernel, **settings | more)
        except DataError as error:
            profiles[name] = error
    return profiles


def _component(
    name: str,
    power_w: np.ndarray,
    stitched: Stitched,
    cap_w: float | None,
    replicates: int,
    level: float,
    seed: int,
) -> ComponentPower:
    """Return the profiles of one component, whose power at every time stamp is ``power_w``."""
    golden = stitched.golden
    equations = stitched.equations
    sse = deconvolved = None
    if len(stitched.first) >= LEAST_READINGS:
        sse = _curve(stitched.first, power_w)
    if equations is not None:
        deconvolved = deconvolve(
            equations,
            power_w,
            cap_w=cap_w,
            seed=seed,
        )
    return ComponentPower(
        component=name,
        sse=sse,
        ssp=_curve(stitched.steady, power_w),
        energy=_energy(stitched, power_w, replicates, level, seed),
        throttling=detect_throttling(golden["execution"].to_numpy(), power_w[golden["reading"]]),
        deconvolved=deconvolved,
        run=stitched.whole[["since_run_us", "execution"]].assign(
            start_us=stitched.whole["execution_start_us"],
            power_w=power_w[stitched.whole["reading"]],
        ),
    )


def _energy(
    stitched: Stitched, power_w: np.ndarray, replicates: int, level: float, seed: int
) -> Energy:
    """Return the energy of one execution, freed of pauses; a mixture of kernels cannot be attributed."""
    if stitched.mixed:
        return Energy(
            np.nan,
            np.nan,
            np.nan,
            np.nan,
        )
    every = stitched.every
    pauses = stitched.pauses
    usable = stitched.pauses.usable
    read_w = power_w[every["reading"]]

    def energy(of_w: np.ndarray, error_w: float) -> Energy:
        return kernel_energy(
            stitched.place[usable],
            every["phase"].to_numpy()[usable],
            of_w[usable],
            stitched.times_us,
            stitched.ratio,
            error_w=error_w,
            replicates=replicates,
            seed=seed,
            level=level,
        )

    freed = energy(*pauses.running_w(power_w, read_w))
    if not pauses.correctable:  # the idle power lies between nothing and what was read
        return replace(freed, upper_j=freed.upper_j / (1 - pauses.share))
    # the window is a guess: it may have seen no pauses
    if stitched.equations is None and pauses.share:
        return replace(freed, lower_j=float(np.minimum(freed.lower_j, energy(read_w, 0.0).lower_j)))
    return freed


def _curve(places: pd.DataFrame, power_w: np.ndarray) -> Curve:
    readings = (
        places.drop(columns="reading")
        .assign(power_w=power_w[places["reading"]])
        .reset_index(drop=True)
    )
    phase = readings["phase"].to_numpy()
    power = readings["power_w"].to_numpy()
    return Curve(readings, polynomial(phase, power, PHASES))


def _power_notes(result: KernelPower, stitched: Stitched) -> Iterator[Remark]:
    """Yield the caveats of this profile's power and energy."""
    pauses = stitched.pauses
    if not result.window_stated:
        yield remark(
            "power-window-assumed",
            "the logger's averaging window is not stated: taken as the time between readings, "
            f"{result.window_us:g} "
            "µs; state the window (0 only for a logger known to be instantaneous)",
            window_us=result.window_us,
        )
    if result.filled < 1:
        before_run = 1 - result.filled
        filled_from = result.plan.executions_filled
        yield remark(
            "power-window-not-filled",
            f"when execution {result.ssp_execution} starts, {100 * before_run:.0f} % of the "
            "window lie before the run: "
            f"power is read too low; append executions up to {filled_from} or later",
            execution=result.ssp_execution,
            before_run=before_run,
            filled_from=filled_from,
        )
    total = result.components.get(TOTAL)
    if total is not None and not stitched.mixed and total.ssp.scatter > SCATTER:
        text = (
            f"readings of steady power scatter by {100 * total.ssp.scatter:.0f} %: some are not "
            "of this kernel; "
            "look for spikes in the log, a clock that jumps, or work of others"
        )
        yield remark("power-readings-scatter", text, scatter=total.ssp.scatter)
    if stitched.mixed:
        text = (
            f"other kernels fill {100 * result.others:.0f} % of the windows: the power is that of "
            "the mixture, and the "
            "energy of this kernel cannot be told"
        )
        yield remark("power-of-mixture", text, others=result.others)
    elif result.alone < ALONE and not pauses.correctable:
        text = (
            f"{100 * pauses.share:.2g} % of the windows are pauses and no readings between runs "
            "tell the idle power: "
            "power and energy are read too low"
        )
        yield remark("power-idle-unknown", text, pauses=pauses.share)
    elif result.filled == 1 and result.alone < ALONE:
        share = 1 - result.alone
        guessed = "; its interval reaches down to what was read, since the window is a guess"
        text = (
            f"{100 * share:.0f} % of the windows are pauses: power is read too low; the energy is "
            "corrected, as if "
            f"power fell to idle in them{'' if result.window_stated else guessed}"
        )
        yield remark(
            "power-pauses-corrected", text, pauses=share, window_stated=result.window_stated
        )


def _cap_notes(result: KernelPower, cap_w: float | None) -> Iterator[Remark]:
    """Yield whether steady power exceeds the cap, and how much of a deconvolved curve is bound by the cap alone."""
    total = result.components.get(TOTAL)
    if cap_w is not None and total is not None and total.ssp.mean_w > OVER * cap_w:
        text = (
            f"steady power, {total.ssp.mean_w:.4g} W, is above the cap of {cap_w:g} W: it is "
            "another cap, or "
            "boards keep to it on average over more than a run"
        )
        yield remark(
            "power-over-the-cap",
            text,
            power_w=total.ssp.mean_w,
            cap_w=cap_w,
        )
    for name, one in result.components.items():
        curve = one.deconvolved
        if cap_w is None or curve is None:
            continue
        capped = float(np.mean(curve.power_w > 0.999 * cap_w))
        if not capped:
            continue
        text = (
            f"{100 * capped:.0f} % of the curve of {name} with the window removed are at the cap "
            f"of {cap_w:g} W: "
            "readings do not tell its shape there"
        )
        yield remark(
            "power-at-the-cap",
            text,
            component=name,
            share=capped,
            cap_w=cap_w,
        )


def _sample_notes(result: KernelPower, measured: Measured, stitched: Stitched) -> Iterator[Remark]:
    """Yield for what there are too few, or too imprecise, runs, readings and clocks."""
    steady = stitched.steady
    clocks = measured.clocks
    golden = len(result.runs.kept)
    runs = len(result.runs.table)
    if result.runs.margin_assumed:
        margin = result.runs.margin
        text = (
            f"no margin of the execution-time bin is published below {SHORTEST_US:g} µs: "
            f"{100 * margin:g} % is assumed"
        )
        yield remark("power-margin-assumed", text, margin=margin, shortest_us=SHORTEST_US)
    if golden < LEAST_GOLDEN * runs and FULLER_BIN not in result.runs.removed:
        text = (
            f"the fullest bin of execution times holds {golden} of {runs} runs: the kernel has no "
            "typical time, and "
            "power and energy are those of a minority; look for changes of clocks, inputs or "
            "neighbours"
        )
        yield remark("power-no-usual-time", text, golden=golden, runs=runs)
    wanted = result.plan.logs
    if wanted is not None and len(steady) < wanted:
        text = f"{len(steady)} readings of interest, {wanted} are recommended"
        yield remark(
            "power-few-readings",
            text,
            readings=len(steady),
            wanted=wanted,
        )
    if result.plan.row is not None and runs < result.plan.row.runs:
        text = f"{runs} runs, {result.plan.row.runs} are recommended"
        yield remark(
            "power-few-runs",
            text,
            runs=runs,
            wanted=result.plan.row.runs,
        )
    missing = measured.missing(result.kernel)
    if missing > 1 - COMPLETE:
        text = (
            f"{100 * missing:.0f} % of the readings due while the kernel ran, one per interval, "
            "are not in the log"
        )
        yield remark("power-log-incomplete", text, share=missing)
    outside = int(measured.extrapolated[steady["reading"]].sum())
    if outside:
        text = (
            f"{outside} of {len(steady)} readings lie outside the clock pairs: their times are "
            "extrapolated"
        )
        yield remark(
            "power-times-extrapolated",
            text,
            outside=outside,
            readings=len(steady),
        )
    unsure_us = float(clocks.error_ns(measured.gpu_ns[steady["reading"]]).max()) / 1e3
    if clocks.drift_fitted and unsure_us > UNSURE * result.kernel_us:
        text = (
            f"the clock pairs give the drift of the clocks to ±{clocks.drift_error_ppm:.2g} ppm "
            "only: the "
            f"times of readings are uncertain by up to ±{unsure_us:.2g} µs; give pairs over the "
            "whole log"
        )
        yield remark(
            "power-drift-unsure", text, drift_error_ppm=clocks.drift_error_ppm, unsure_us=unsure_us
        )
    if not clocks.drift_fitted:
        text = "one clock pair: the drift of the clocks is unknown and not corrected"
        yield remark("power-drift-unknown", text)


def compare(kernels: Sequence[KernelPower]) -> pd.DataFrame:
    """Return one row per kernel and component.

    The columns are ``kernel``, ``isolated`` (of one among others: its name alone), ``class``,
    ``component``, ``kernel_us``, ``sse_w`` and ``ssp_w`` (means over the kernel's time),
    ``sse_error_percent``, ``peak_w`` (of the steady-power polynomial), ``p99_w`` (of its readings:
    a hundredth of them is above, each the mean over a window of the logger), ``share`` (of the component
    ``total``; NaN without one), ``energy_j``, ``lower_j``, ``upper_j``, ``throttling`` and
    ``readings``.
    """
    rows = []
    for one in kernels:
        total = one.components.get(TOTAL)
        whole = np.nan
        if total:
            whole = total.ssp.mean_w
        rows += [
            {
                "kernel": one.kernel,
                "isolated": one.facts.isolated,
                "class": one.facts.bound,
                "component": name,
                "kernel_us": one.kernel_us,
                "sse_w": np.nan if part.sse is None else part.sse.mean_w,
                "ssp_w": part.ssp.mean_w,
                "sse_error_percent": part.sse_error_percent,
                "peak_w": float(part.ssp.polynomial_w.max()),
                "p99_w": float(part.ssp.readings["power_w"].quantile(TAIL)),
                "share": part.ssp.mean_w / whole,
                "energy_j": part.energy.energy_j,
                "lower_j": part.energy.lower_j,
                "upper_j": part.energy.upper_j,
                "throttling": part.throttling.found,
                "readings": len(part.ssp.readings),
            }
            for name, part in one.components.items()
        ]
    return pd.DataFrame(rows)


def compare_classes(compared: pd.DataFrame) -> pd.DataFrame:
    """Return the mean power and share of each component over the kernels of a class, from `compare`.

    The columns are ``class``, ``component``, ``kernels``, ``ssp_w`` and ``share``; kernels without
    a class are left out, and those among others that were also profiled alone.
    """
    compared_alone = compared[compared["class"].ne("") & compared["isolated"].eq("")]
    groups = compared_alone.groupby(["class", "component"], sort=False)
    return groups.agg(
        kernels=("kernel", "count"), ssp_w=("ssp_w", "mean"), share=("share", "mean")
    ).reset_index()
