"""The power profile of a kernel: readings of all golden runs stitched over its time, steady execution and steady power.

Two profiles are kept apart. SSE, the steady-state-execution profile, is that of the first execution whose time is
steady (the 4th); an averaging logger still shows what came before it. SSP, the steady-state-power profile, is that of
the executions that start when the logger's window holds nothing but the run. Taking the first for the second is the
error that the method's authors found to reach 80 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from ..errors import DataError, few
from .deconvolution import Deconvolved, Pauses, Windows, deconvolve, find_pauses, windows
from .energy import PHASES, Energy, kernel_energy, polynomial, spline
from .recording import LEAST_EXECUTIONS, SHORTEST_US, Plan, executions_published, plan
from .runs import RunChoice, covered_share, golden_runs, readings_of_interest
from .sources import Measured
from .throttling import Throttling, detect_throttling

LEAST_READINGS: Final = 6
"""A polynomial of degree 4 has five coefficients."""
ALONE: Final = 0.99
"""Share of the window that the kernel must fill for it to count as measured alone."""
LEAST_CELLS: Final = 10
"""Time stamps must tell at least so many parts of the kernel's time apart."""
LEAST_GOLDEN: Final = 0.5
"""Share of the runs that the fullest bin of execution times should hold."""
UNSURE: Final = 0.1
"""Times of readings should be known to this share of the kernel's time."""
LEAST_FILLED: Final = 0.7
"""The published number of executions fills at least 3/4 of the window before the last one starts."""


@dataclass(frozen=True)
class Curve:
    """Readings stitched over the kernel's time, and the curves through them at `smoothing.PHASES`."""

    readings: pd.DataFrame
    polynomial_w: np.ndarray
    spline_w: np.ndarray

    @property
    def mean_w(self) -> float:
        """Mean of the polynomial over the kernel's time."""
        return float(self.polynomial_w.mean())


@dataclass(frozen=True)
class ComponentPower:
    """The power of one component while the kernel runs.

    Attributes
    ----------
    component : str
    sse : Curve or None
        Of the steady execution; None where fewer than `LEAST_READINGS` readings fell into it.
    ssp : Curve
        Of the executions with steady power.
    energy : Energy
        Of one execution, from the steady power while executions run; NaN where other kernels share the windows.
    throttling : Throttling
    deconvolved : Deconvolved or None
        Only where the logger's window was stated and enough runs tell.
    """

    component: str
    sse: Curve | None
    ssp: Curve
    energy: Energy
    throttling: Throttling
    deconvolved: Deconvolved | None

    @property
    def sse_error_percent(self) -> float:
        """Error made by taking SSE for SSP, of the mean power; NaN without an SSE profile."""
        return np.nan if self.sse is None else 100 * (self.sse.mean_w / self.ssp.mean_w - 1)


@dataclass(frozen=True)
class KernelPower:
    """The power profile of one kernel.

    Attributes
    ----------
    kernel, label : str
        Its name, and its class by op-to-byte ratio ("" where not given).
    kernel_us : float
        Median execution time over golden runs.
    window_us : float
        Averaging window of the logger; 0: instantaneous.
    window_stated : bool
        False where the time between readings was taken for it.
    sse_execution, ssp_execution : int
        Number of the execution of the one profile, and of the first of the other.
    filled : float
        Share of the window that lies inside the run when that execution starts.
    alone, others : float
        Mean share of the windows of the SSP readings in which the kernel itself, and in which other kernels, ran.
    runs : RunChoice
    plan : Plan
        The protocol recommended for this kernel.
    components : dict of str to ComponentPower
    notes : tuple of str
    """

    kernel: str
    label: str
    kernel_us: float
    window_us: float
    window_stated: bool
    sse_execution: int
    ssp_execution: int
    filled: float
    alone: float
    others: float
    runs: RunChoice
    plan: Plan
    components: dict[str, ComponentPower]
    notes: tuple[str, ...]

    @property
    def isolation(self) -> str:
        """How a kernel shorter than the window was measured: ``isolated`` (back to back, alone) or ``interleaved``."""
        if self.kernel_us >= self.window_us:
            return "longer than the window"
        if self.others > 1 - ALONE:
            return "interleaved"
        return "isolated" if self.alone >= ALONE else "isolated, with pauses"


def profile_kernel(
    measured: Measured,
    kernel: str | None = None,
    *,
    window_us: float | None = None,
    execution: int = LEAST_EXECUTIONS,
    margin: float | None = None,
    components: Sequence[str] | None = None,
    replicates: int = 1000,
    level: float = 0.9,
    seed: int = 0,
) -> KernelPower:
    """Return the power profile of one kernel.

    Parameters
    ----------
    measured : Measured
        As `synchronise` returns it.
    kernel : str, optional
        Its name; may be left out where only one was run.
    window_us : float, optional
        Averaging window of the logger, 0 for an instantaneous one. Where it is stated, the window's effect is also
        removed (deconvolution). By default the time between readings is taken for it, and nothing is removed.
    execution : int
        The first whose time is steady.
    margin : float, optional
        Of the execution-time bin; by default the published one, ``inf`` keeps every run.
    components : sequence of str, optional
        By default all of the log.
    replicates, level, seed : int, float, int
        Of the energy's bootstrap interval; the seed is also that of the folds of the deconvolution.

    Raises
    ------
    DataError
        The kernel or a component is unknown, the time stamps of the log are too coarse for the kernel, or too few
        executions or readings are left.
    """
    name = _kernel(measured, kernel)
    chosen = _components(measured, components)
    own = measured.executions[measured.executions["kernel"].eq(name)]
    runs = golden_runs(own, execution, margin)
    _check_stamps(measured, runs.kernel_us)
    window = measured.interval_us if window_us is None else window_us
    recommended = plan(runs.kernel_us, window)
    stitched, (alone, others) = _stitch(measured, own, runs, window_us or 0.0, window, execution)
    result = KernelPower(
        kernel=name,
        label=_label(own),
        kernel_us=runs.kernel_us,
        window_us=window,
        window_stated=window_us is not None,
        sse_execution=execution,
        ssp_execution=stitched.ssp_execution,
        filled=stitched.filled,
        alone=alone,
        others=others,
        runs=runs,
        plan=recommended,
        components={
            one: _component(one, measured.power_w[one].to_numpy(), stitched, replicates, level, seed) for one in chosen
        },
        notes=(),
    )
    return replace(result, notes=tuple(_notes(result, measured, stitched.steady, stitched.pauses)))


@dataclass(frozen=True)
class _Stitched:
    """What the profiles of all components are made from.

    ``golden`` are the readings in golden runs whose window had filled, ``first`` those of the steady execution,
    ``steady`` those with steady power, and ``every`` the same of all runs, with the place of each run in ``times_us``;
    ``mixed`` says whether their windows see other kernels too.
    """

    ssp_execution: int
    filled: float
    golden: pd.DataFrame
    first: pd.DataFrame
    steady: pd.DataFrame
    every: pd.DataFrame
    place: np.ndarray
    times_us: np.ndarray
    margin: float
    pauses: Pauses
    mixed: bool
    equations: Windows | None


def _stitch(
    measured: Measured, own: pd.DataFrame, runs: RunChoice, removed_us: float, window_us: float, execution: int
) -> tuple[_Stitched, tuple[float, float]]:
    """Find the readings of the kernel, and its company; ``removed_us`` is the window to deconvolve, 0 for none."""
    golden = own[own["run"].isin(runs.kept)]
    ssp_execution, filled = _steady_power(golden, runs.kernel_us, window_us, execution)
    found = readings_of_interest(measured.times_ns, golden)
    steady = found[found["execution"] >= ssp_execution]
    if len(steady) < LEAST_READINGS:
        raise DataError(
            f"only {len(steady)} readings fall into executions of {own['kernel'].iloc[0]} with steady power (number "
            f"{ssp_execution} and later, {len(runs.kept)} golden runs): at least {LEAST_READINGS} are needed, see "
            "`flopcast power plan`"
        )
    every = readings_of_interest(measured.times_ns, own)
    every = every[every["execution"] >= ssp_execution]
    timed = runs.table.dropna(subset="time_us")
    rest = measured.executions.drop(golden.index)
    company = _company(measured, own["kernel"].iloc[0], steady, window_us or runs.kernel_us)
    stitched = _Stitched(
        ssp_execution=ssp_execution,
        filled=filled,
        golden=found[found["since_run_us"] >= window_us],
        first=found[found["execution"] == execution],
        steady=steady,
        every=every,
        place=pd.Index(timed["run"]).get_indexer(every["run"]),
        times_us=timed["time_us"].to_numpy(),
        margin=runs.margin,
        pauses=find_pauses(measured.times_ns, every["reading"].to_numpy(), measured.executions, 1e3 * window_us),
        mixed=company[1] > 1 - ALONE,
        equations=windows(measured.times_ns, golden, rest, 1e3 * removed_us, warm=execution - 1)
        if removed_us
        else None,
    )
    return stitched, company


def _component(
    name: str, power_w: np.ndarray, stitched: _Stitched, replicates: int, level: float, seed: int
) -> ComponentPower:
    """Return the profiles of one component, whose power at every time stamp is ``power_w``."""
    golden, equations = stitched.golden, stitched.equations
    return ComponentPower(
        component=name,
        sse=_curve(stitched.first, power_w) if len(stitched.first) >= LEAST_READINGS else None,
        ssp=_curve(stitched.steady, power_w),
        energy=_energy(stitched, power_w, replicates, level, seed),
        throttling=detect_throttling(golden["execution"].to_numpy(), power_w[golden["reading"]]),
        deconvolved=None if equations is None else deconvolve(equations, power_w, seed=seed),
    )


def _energy(stitched: _Stitched, power_w: np.ndarray, replicates: int, level: float, seed: int) -> Energy:
    """Return the energy of one execution, freed of pauses; of a mixture of kernels nobody knows whose it is."""
    if stitched.mixed:
        return Energy(np.nan, np.nan, np.nan, np.nan)
    every, pauses, told = stitched.every, stitched.pauses, stitched.pauses.told
    read_w = power_w[every["reading"]]

    def energy(of_w: np.ndarray, error_w: float) -> Energy:
        return kernel_energy(
            stitched.place[told],
            every["phase"].to_numpy()[told],
            of_w[told],
            stitched.times_us,
            stitched.margin,
            error_w=error_w,
            replicates=replicates,
            seed=seed,
            level=level,
        )

    found = energy(*pauses.running_w(power_w, read_w))
    if not pauses.correctable:  # the idle power lies between nothing and what was read
        return replace(found, upper_j=found.upper_j / (1 - pauses.share))
    if stitched.equations is None and pauses.share:  # the window is a guess: it may have seen no pauses
        return replace(found, lower_j=float(np.minimum(found.lower_j, energy(read_w, 0.0).lower_j)))
    return found


def _check_stamps(measured: Measured, kernel_us: float) -> None:
    """Refuse time stamps so coarse that nobody knows when in the kernel's time a reading fell."""
    step_us = measured.step_ns / 1e3
    if step_us > kernel_us / LEAST_CELLS:
        raise DataError(
            f"time stamps of the power log are multiples of {step_us:g} µs, over 1/{LEAST_CELLS} of the kernel's "
            f"{kernel_us:.4g} µs: log finer ones, or time {math.ceil(LEAST_CELLS * step_us / kernel_us)} launches back "
            "to back as one execution"
        )


def _kernel(measured: Measured, kernel: str | None) -> str:
    names = measured.kernels
    if kernel is None and len(names) == 1:
        return names[0]
    if kernel is None:
        raise DataError(f"which kernel? the executions are of {few(names)}")
    if kernel not in names:
        raise DataError(f"no execution of kernel {kernel!r}: the executions are of {few(names)}")
    return kernel


def _components(measured: Measured, components: Sequence[str] | None) -> list[str]:
    known = [str(name) for name in measured.power_w.columns]
    for name in components or ():
        if name not in known:
            raise DataError(f"the power log has no component {name!r}: it has {', '.join(known)}")
    return list(components or known)


def _label(own: pd.DataFrame) -> str:
    """Return the class given for the kernel; two for one kernel are an error."""
    given = [str(one) for one in own["class"].unique() if one] if "class" in own else []
    if len(given) > 1:
        raise DataError(f"kernel {own['kernel'].iloc[0]} is both {given[0]} and {given[1]}: give it one class")
    return given[0] if given else ""


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
    if number < execution or starts[number] < LEAST_FILLED * window_us:
        raise DataError(
            f"steady power needs {needed} executions per run, the runs have {last}: the averaging window of "
            f"{window_us:g} µs does not fill, see `flopcast power plan`"
        )
    return number, float(starts[number]) / window_us


def _company(measured: Measured, kernel: str, steady: pd.DataFrame, span_us: float) -> tuple[float, float]:
    """Return the mean share of the windows in which the kernel itself ran, and in which others did."""
    own = measured.executions["kernel"].eq(kernel)
    at = measured.times_ns[steady["reading"]]
    alone, others = (covered_share(at, measured.executions[part], 1e3 * span_us).mean() for part in (own, ~own))
    return float(alone), float(others)


def _curve(found: pd.DataFrame, power_w: np.ndarray) -> Curve:
    readings = found.drop(columns="reading").assign(power_w=power_w[found["reading"]]).reset_index(drop=True)
    phase, power = readings["phase"].to_numpy(), readings["power_w"].to_numpy()
    return Curve(readings, polynomial(phase, power, PHASES), spline(phase, power, PHASES))


def _notes(result: KernelPower, measured: Measured, steady: pd.DataFrame, pauses: Pauses) -> list[str]:
    """Return what the user should know of this profile."""
    notes = []
    if not result.window_stated:
        notes.append(
            f"the logger's window is not stated: the time between readings, {result.window_us:g} µs, is taken for it; "
            "state it with --window, 0 only of a logger known to be instantaneous"
        )
    if result.filled < 1:
        notes.append(
            f"when execution {result.ssp_execution} starts, {100 * (1 - result.filled):.0f} % of the window lie before "
            f"the run: power is read too low; append executions up to {result.plan.executions_filled} or later"
        )
    if result.others > 1 - ALONE:
        notes.append(
            f"other kernels fill {100 * result.others:.0f} % of the windows: the power is that of the mixture, and the "
            "energy of this kernel cannot be told"
        )
    elif result.alone < ALONE and not pauses.correctable:
        notes.append(
            f"{100 * pauses.share:.2g} % of the windows are pauses and no readings between runs tell the idle power: "
            "power and energy are read too low"
        )
    elif result.filled == 1 and result.alone < ALONE:
        notes.append(
            f"{100 * (1 - result.alone):.0f} % of the windows are pauses: power is read too low; the energy is "
            "corrected, as if power fell to idle in them"
            + (
                ""
                if result.window_stated
                else "; its interval reaches down to what was read, since the window is a guess"
            )
        )
    if result.runs.margin_assumed:
        taken = f"{100 * result.runs.margin:g} % taken"
        notes.append(f"no margin of the execution-time bin is published below {SHORTEST_US:g} µs: {taken}")
    golden, runs = len(result.runs.kept), len(result.runs.table)
    if golden < LEAST_GOLDEN * runs:
        notes.append(
            f"the fullest bin of execution times holds {golden} of {runs} runs: the kernel has no usual time, and "
            "power and energy are those of a minority; look for clocks, inputs or neighbours that change"
        )
    wanted = result.plan.logs
    if wanted is not None and len(steady) < wanted:
        notes.append(f"{len(steady)} readings of interest, {wanted} are recommended")
    if result.plan.row is not None and len(result.runs.table) < result.plan.row.runs:
        notes.append(f"{len(result.runs.table)} runs, {result.plan.row.runs} are recommended")
    outside = int(measured.extrapolated[steady["reading"]].sum())
    if outside:
        notes.append(f"{outside} of {len(steady)} readings lie outside the clock pairs: their times are extrapolated")
    clocks = measured.clocks
    unsure_us = float(clocks.error_ns(measured.gpu_ns[steady["reading"]]).max()) / 1e3
    if clocks.drift_known and unsure_us > UNSURE * result.kernel_us:
        notes.append(
            f"the clock pairs tell the drift of the clocks to ±{clocks.drift_error_ppm:.2g} ppm only: the times of "
            f"readings are unsure by up to ±{unsure_us:.2g} µs; give pairs over the whole log"
        )
    if not clocks.drift_known:
        notes.append("one clock pair: the drift of the clocks is not known and not corrected")
    return notes
