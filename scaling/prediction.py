"""Performance at sizes that were not measured: every scaling law fitted to the small sizes of each benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..errors import DataError
from ..evaluation.intervals import check_level
from . import LAWS, laws
from .classes import ScalingClass, classify
from .cliffs import cliffs
from .curve import Curve
from .scaling_laws import ScalingLaw
from .size_data import SizeSeries, SizeTable

NAMED = 3
"""Laws that a remark names; more are counted."""


@dataclass(frozen=True)
class LawPrediction:
    """What one law, fitted to the small sizes of one benchmark, says of larger ones.

    Attributes
    ----------
    law : str
        Its name.
    sizes, predicted, lower, upper : ndarray of shape (k,)
        From the largest size fitted to the largest asked for, with the interval; NaN without one.
    notes : tuple of str
        The law's own remarks.
    failed : str
        Why it could not be fitted; empty where it could.
    """

    law: str
    sizes: np.ndarray
    predicted: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    notes: tuple[str, ...] = ()
    failed: str = ""

    def at(self, size: float) -> tuple[float, float, float]:
        """Return the prediction at a size and the bounds of its interval."""
        i = int(np.flatnonzero(self.sizes == size)[0])
        return float(self.predicted[i]), float(self.lower[i]), float(self.upper[i])


@dataclass(frozen=True)
class SimulationCost:
    """What simulating the scale models costs, in seconds, against simulating the target.

    ``together`` is the time of all scale models one after the other, ``longest`` that of the slowest: all that passes
    where they run side by side.
    """

    target: float
    target_s: float
    together_s: float
    longest_s: float

    @property
    def speedup(self) -> float:
        """How many times faster the scale models are, one after the other."""
        return self.target_s / self.together_s

    @property
    def parallel_speedup(self) -> float:
        """How many times faster they are side by side."""
        return self.target_s / self.longest_s


@dataclass(frozen=True)
class BenchmarkPrediction:
    """All that is said of one benchmark.

    Attributes
    ----------
    series : SizeSeries
        What was measured, at the sizes fitted and beyond.
    laws : tuple of LawPrediction
        One per law.
    scaling : ScalingClass
        How it scales over all measured sizes.
    cliffs : tuple of str or None
        Cliffs of the miss rate, in words; None where no miss rates are known.
    costs : tuple of SimulationCost
        One per target whose simulation time is known.
    """

    series: SizeSeries
    laws: tuple[LawPrediction, ...]
    scaling: ScalingClass
    cliffs: tuple[str, ...] | None
    costs: tuple[SimulationCost, ...]

    @property
    def notes(self) -> list[str]:
        """What the laws remark, each remark once and after the laws it is from; cliffs stand elsewhere."""
        said: dict[str, list[str]] = {}
        for law in self.laws:
            for remark in law.notes:
                said.setdefault(remark, []).append(law.law)
        every = sum(not law.failed for law in self.laws)
        return [_of(laws, every) + remark for remark, laws in said.items() if remark not in (self.cliffs or ())]


@dataclass(frozen=True)
class LawSummary:
    """How one law did at one target over the benchmarks measured there; errors in %."""

    law: str
    scenario: str
    target: float
    benchmarks: int
    failed: int
    average: float
    maximum: float
    coverage: float
    """Share of the intervals that hold what was measured, 0 to 1; NaN where a law has none."""


@dataclass(frozen=True)
class SizePredictions:
    """Every benchmark's predictions, and what they were made from."""

    benchmarks: tuple[BenchmarkPrediction, ...]
    fit: tuple[float, ...]
    targets: tuple[float, ...]
    level: float
    notes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The laws, in order."""
        return [one.law for one in self.benchmarks[0].laws]


def predict_sizes(
    table: SizeTable,
    fit: Sequence[float],
    targets: Sequence[float],
    *,
    names: Sequence[str] | None = None,
    level: float = 0.9,
) -> SizePredictions:
    """Fit every law to the small sizes of each benchmark and predict the others.

    Parameters
    ----------
    table : SizeTable
        What was measured.
    fit : sequence of float
        Sizes to fit, two or more, increasing.
    targets : sequence of float
        Sizes to predict, increasing, beyond those to fit.
    names : sequence of str, optional
        Laws, each by a part of its name; all by default.
    level : float
        Of the intervals.

    Raises
    ------
    DataError
        The sizes cannot be used, a law is unknown, or a benchmark was not measured at a size to fit.

    Notes
    -----
    What the laws learn from other benchmarks, their intervals included, they learn from those of the table, or from the
    published ones where the table has too few (`ScalingLaw`); never from the benchmark that is predicted.
    """
    _check(fit, targets, level)
    chosen = _chosen(names)
    every = [curve_of(one) for one in table.series]
    fitted = [law for law in laws(_training(every, fit)) if law.name in chosen]
    benchmarks = tuple(
        _benchmark(one, curve, fitted, fit, targets, level) for one, curve in zip(table.series, every, strict=True)
    )
    return SizePredictions(benchmarks, tuple(fit), tuple(targets), level, table.notes)


def summarise(result: SizePredictions) -> list[LawSummary]:
    """Return how each law did at each target, over the benchmarks of a scenario that were measured there."""
    scenarios = list(dict.fromkeys(one.series.scenario for one in result.benchmarks))
    cells = [(scenario, target, law) for scenario in scenarios for target in result.targets for law in result.names]
    return [found for cell in cells if (found := _summary(result, *cell)) is not None]


def error_percent(predicted: float, measured: float) -> float:
    """Return the absolute error of a prediction, in percent of what was measured."""
    return 100 * abs(predicted - measured) / measured


def curve_of(series: SizeSeries) -> Curve:
    """Return all that was measured as the laws take it."""
    return Curve(
        benchmark=series.benchmark,
        scenario=series.scenario,
        unit=series.unit,
        sizes=series.sizes,
        performance=series.performance,
        mpki=series.mpki,
        mpki_sizes=series.mpki_sizes,
        f_mem=series.f_mem,
    )


def _check(fit: Sequence[float], targets: Sequence[float], level: float) -> None:
    """Refuse sizes that no law can be fitted to."""
    if len(fit) < 2:
        raise DataError(f"--fit needs two sizes or more, got {_listed(fit)}: one size shows no scaling")
    for option, sizes in (("--fit", fit), ("--target", targets)):
        if min(sizes) <= 0 or any(b <= a for a, b in pairwise(sizes)):
            raise DataError(f"{option} must be sizes above 0 that increase, got {_listed(sizes)}")
    if targets[0] <= fit[-1]:
        raise DataError(f"--target must lie beyond the sizes to fit (up to {fit[-1]:g}), got {targets[0]:g}")
    check_level(level)


def _chosen(names: Sequence[str] | None) -> list[str]:
    """Return the laws whose names contain one of those asked for, in the order of `LAWS`."""
    known = list(LAWS)
    found = {name: [law for law in known if name.casefold() in law.casefold()] for name in names or known}
    if unknown := [name for name, fitting in found.items() if not fitting]:
        raise DataError(f"unknown law {unknown[0]!r}: choose from {', '.join(known)}")
    return [law for law in known if any(law in fitting for fitting in found.values())]


def _training(every: Sequence[Curve], fit: Sequence[float]) -> list[Curve] | None:
    """Return the curves to learn from; None where there is but one benchmark, so that only published ones serve."""
    beyond = [one for one in every if one.sizes.size > 1 and one.sizes[-1] > fit[-1]]
    return beyond if len({one.benchmark for one in beyond}) > 1 else None


def _benchmark(
    series: SizeSeries,
    curve: Curve,
    chosen: Sequence[ScalingLaw],
    fit: Sequence[float],
    targets: Sequence[float],
    level: float,
) -> BenchmarkPrediction:
    """Fit the laws to one benchmark."""
    missing = [size for size in fit if series.measured_at(size) is None]
    if missing:
        raise DataError(
            f"{series.name} was not measured at {_listed(missing)}, only at {_listed(series.sizes)}: "
            "choose other sizes with --fit, or other benchmarks with --where"
        )
    known, grid = curve.cut(fit), _grid(fit[-1], targets, series.sizes)
    return BenchmarkPrediction(
        series=series,
        laws=tuple(_law(law, known, grid, level) for law in chosen),
        scaling=classify(curve),
        cliffs=None if curve.mpki is None else tuple(map(str, cliffs(curve.miss_sizes, curve.mpki))),
        costs=tuple(_costs(series, fit, targets)),
    )


def _grid(first: float, targets: Sequence[float], measured: np.ndarray) -> np.ndarray:
    """Return the sizes to draw: doublings of the largest size fitted, those measured, and the targets."""
    doublings = first * 2.0 ** np.arange(np.ceil(np.log2(targets[-1] / first)))
    inside = measured[(measured >= first) & (measured <= targets[-1])]
    return np.unique(np.concatenate([doublings, inside, targets]))


def _law(law: ScalingLaw, curve: Curve, grid: np.ndarray, level: float) -> LawPrediction:
    """Fit one law; one that cannot be fitted stays, with its reason."""
    try:
        fitted = law.fit(curve)
        predicted = np.asarray(fitted.predict(grid), dtype=float)
        lower, upper = fitted.interval(grid, level)
    except DataError as error:
        nothing = np.full(len(grid), np.nan)
        reason = str(error).removeprefix(f"{curve.benchmark}: ")
        return LawPrediction(law.name, grid, nothing, nothing, nothing, failed=reason)
    return LawPrediction(law.name, grid, predicted, np.asarray(lower), np.asarray(upper), tuple(fitted.notes))


def _costs(series: SizeSeries, fit: Sequence[float], targets: Sequence[float]) -> list[SimulationCost]:
    seconds = [series.simulation_time_s.get(size) for size in fit]
    known = [one for one in seconds if one is not None]
    if len(known) < len(seconds):
        return []
    times = series.simulation_time_s
    return [SimulationCost(t, times[t], sum(known), max(known)) for t in targets if t in times]


def _summary(result: SizePredictions, scenario: str, target: float, law: str) -> LawSummary | None:
    errors, covered, failed = [], [], 0
    for one in result.benchmarks:
        measured = one.series.measured_at(target)
        found = next(prediction for prediction in one.laws if prediction.law == law)
        if one.series.scenario != scenario or measured is None:
            continue
        predicted, lower, upper = found.at(target)
        if np.isnan(predicted):
            failed += 1
            continue
        errors.append(error_percent(predicted, measured))
        covered.append(np.nan if np.isnan(lower) else float(lower <= measured <= upper))
    if not errors:
        return LawSummary(law, scenario, target, 0, failed, np.nan, np.nan, np.nan) if failed else None
    coverage = float(np.mean(covered))
    return LawSummary(law, scenario, target, len(errors), failed, float(np.mean(errors)), max(errors), coverage)


def _of(laws: Sequence[str], every: int) -> str:
    """Return the laws that a remark is from as the beginning of a sentence; many are counted, all go without saying."""
    if len(laws) == every:
        return ""
    return f"{', '.join(laws)}: " if len(laws) <= NAMED else f"{len(laws)} of {every} laws: "


def _listed(sizes: Sequence[float] | np.ndarray) -> str:
    return ", ".join(f"{size:g}" for size in sizes) or "none"
