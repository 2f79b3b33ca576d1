"""Performance at sizes that were not measured: every scaling law fitted to the small sizes of each benchmark.

The table of curves enters `predict_sizes`; what leaves is, for each benchmark, the prediction of
every law with its interval, how the benchmark scales, its cliffs, and what simulating the small
sizes costs. `summarise` says how the laws did where a target was measured. `LAWS` is the list of
laws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from numbers import Real

import numpy as np

from ..errors import DataError, ParameterError, check_level
from ..evaluation.metrics import speedup
from ..remarks import Remark, remark
from .curves import Curve, CurveError, CurveTable, listed
from .scale_models import Equations, LearnedScaleModel, Program
from .scaling_class import Cliff, ScalingClass, classify, cliffs_of
from .scaling_laws import (
    Amdahl,
    Gustafson,
    Linear,
    Logarithmic,
    Power,
    Proportional,
    ScalingLaw,
    UniversalScalability,
)

_ALL: tuple[type[ScalingLaw], ...] = (
    Proportional,
    Linear,
    Power,
    Logarithmic,
    Amdahl,
    Gustafson,
    UniversalScalability,
    Equations,
    Program,
    LearnedScaleModel,
)
# every law by its name, in the order of tables
LAWS: dict[str, type[ScalingLaw]] = {law.name: law for law in _ALL}


def every_law(training: Sequence[Curve] | None = None) -> list[ScalingLaw]:
    """Return every law, unfitted; ``training`` are curves of other benchmarks, the published ones by default."""
    return [law(training) for law in LAWS.values()]


@dataclass(frozen=True)
class LawPrediction:
    """What one law, fitted to the small sizes of one benchmark, says of larger ones.

    Arrays are of shape (k,), from the largest size fitted to the largest asked for; bounds are NaN
    without an interval.
    """

    law: str
    sizes: np.ndarray
    predicted: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    notes: tuple[Remark, ...] = ()  # what the law itself remarks
    failed: str = ""  # why it could not be fitted; empty where it could

    def at(self, size: float) -> tuple[float, float, float]:
        """Return the prediction at a size and the bounds of its interval."""
        i = int(np.flatnonzero(self.sizes == size)[0])
        return float(self.predicted[i]), float(self.lower[i]), float(self.upper[i])


@dataclass(frozen=True)
class SimulationCost:
    """What simulating the scale models costs, in seconds, against simulating the target.

    ``together_s`` is the time of all scale models one after the other, ``longest_s`` that of the
    slowest: all that passes where they run side by side.
    """

    target: float
    target_s: float
    together_s: float
    longest_s: float

    @property
    def speedup(self) -> float:
        """How many times faster the scale models are, one after the other."""
        return float(speedup(self.target_s, self.together_s))

    @property
    def parallel_speedup(self) -> float:
        """How many times faster they are side by side."""
        return float(speedup(self.target_s, self.longest_s))


@dataclass(frozen=True)
class BenchmarkPrediction:
    """All that is said of one benchmark."""

    curve: Curve  # what was measured, at the sizes fitted and beyond
    laws: tuple[LawPrediction, ...]
    scaling: ScalingClass  # how it scales over all measured sizes
    cliffs: tuple[Cliff, ...] | None  # of the miss rate; None without miss rates
    costs: tuple[SimulationCost, ...]  # one per target with a simulation time

    @property
    def notes(self) -> dict[Remark, list[str]]:
        """What the laws remark, each remark with the laws it is from; cliffs beyond stand in `cliffs`."""
        said: dict[Remark, list[str]] = {}
        for law in self.laws:
            for note in law.notes:
                if note.code not in ("cliff-beyond", "l2-cliff-beyond"):
                    said.setdefault(note, []).append(law.law)
        return said

    @property
    def fitted(self) -> int:
        """How many laws could be fitted."""
        return sum(not law.failed for law in self.laws)


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
    notes: tuple[Remark, ...]

    @property
    def names(self) -> list[str]:
        """The laws, in order."""
        return [one.law for one in self.benchmarks[0].laws]


def predict_sizes(
    table: CurveTable,
    fit: Sequence[float],
    targets: Sequence[float],
    *,
    laws: Sequence[str] | None = None,
    level: float = 0.9,
) -> SizePredictions:
    """Fit every law to the small sizes of each benchmark, two or more, and predict larger ones; both increase.

    A law is named by a part of its name. What the laws learn from other benchmarks, their intervals
    included, they learn from those of the table, or from the published ones where the table has too
    few (`ScalingLaw`); never from the benchmark that is predicted.

    Raises ParameterError: the sizes (``fit``, ``targets``) cannot be used, or a law is unknown;
    DataError: a benchmark was not measured at a size to fit, or its curve cannot be used.
    """
    chosen = check_request(fit, targets, laws, level)
    beyond = [one for one in table.curves if one.sizes.size > 1 and one.sizes[-1] > fit[-1]]
    # of one benchmark, only the published ones serve
    several = len({one.benchmark for one in beyond}) > 1
    fitted = [law for law in every_law(beyond if several else None) if law.name in chosen]
    benchmarks = tuple(_benchmark(curve, fitted, fit, targets, level) for curve in table.curves)
    return SizePredictions(benchmarks, tuple(fit), tuple(targets), level, table.notes)


def summarise(result: SizePredictions) -> list[LawSummary]:
    """Return how each law did at each target, over the benchmarks of a scenario that were measured there."""
    scenarios = list(dict.fromkeys(one.curve.scenario for one in result.benchmarks))
    cells = []
    for scenario in scenarios:
        for target in result.targets:
            for law in result.names:
                cells.append((scenario, target, law))
    return [summary for cell in cells if (summary := _summary(result, *cell)) is not None]


def error_percent(predicted: float, measured: float) -> float:
    """Return the absolute error of a prediction, in percent of what was measured."""
    return 100 * abs(predicted - measured) / measured


def check_request(
    fit: Sequence[float],
    targets: Sequence[float] | None,
    laws: Sequence[str] | None = None,
    level: float = 0.9,
) -> list[str]:
    """Refuse sizes that no law can be fitted to, and unknown laws, with a ParameterError; return the names of the laws.

    Parameters are those of `predict_sizes`; targets may be without a measurement.
    """
    for name, sizes in (("fit", fit), ("sizes", () if targets is None else targets)):
        if not np.iterable(sizes) or not all(
            isinstance(size, Real) and isfinite(size) for size in sizes
        ):
            raise ParameterError(name, f"must be a sequence of numbers, got {sizes!r:.60}")
    if len(fit) < 2:
        raise ParameterError(
            "fit", f"needs two sizes or more, got {listed(fit)}: one size shows no scaling"
        )
    for name, sizes in (("fit", fit), ("sizes", fit if targets is None else targets)):
        if min(sizes) <= 0 or any(b <= a for a, b in pairwise(sizes)):
            raise ParameterError(name, f"must be sizes above 0 that increase, got {listed(sizes)}")
    if targets is not None and targets[0] <= fit[-1]:
        raise ParameterError(
            "sizes", f"must lie beyond the sizes to fit (up to {fit[-1]:g}), got {targets[0]:g}"
        )
    check_level(level)
    names = list(LAWS)
    fitting = {}
    for wanted in laws or names:
        fitting[wanted] = [law for law in names if wanted.casefold() in law.casefold()]
    unknown = [name for name, chosen in fitting.items() if not chosen]
    if unknown:
        raise ParameterError(
            "law", f"has an unknown {unknown[0]!r}: choose from {', '.join(names)}"
        )
    result = []
    for law in names:
        if any(law in chosen for chosen in fitting.values()):
            result.append(law)
    return result


def _benchmark(
    curve: Curve,
    chosen: Sequence[ScalingLaw],
    fit: Sequence[float],
    targets: Sequence[float],
    level: float,
) -> BenchmarkPrediction:
    missing = [size for size in fit if curve.measured_at(size) is None]
    if missing:
        raise DataError(
            f"{curve.name} was not measured at {listed(missing)}, only at {listed(curve.sizes)}: "
            "choose other sizes to fit, or other benchmarks"
        )
    # doublings of the largest size fitted, the sizes measured, and the targets
    count = np.ceil(np.log2(targets[-1] / fit[-1]))
    doublings = fit[-1] * 2.0 ** np.arange(count)
    inside = curve.sizes[(curve.sizes >= fit[-1]) & (curve.sizes <= targets[-1])]
    fitted = curve.cut(fit)
    grid = np.unique(np.concatenate([doublings, inside, targets]))
    times = curve.simulation_time_s
    timed = []
    if all(size in times for size in fit):
        timed = [times[size] for size in fit]
    return BenchmarkPrediction(
        curve=curve,
        laws=tuple(fit_law(law, fitted, grid, level) for law in chosen),
        scaling=classify(curve),
        cliffs=None if curve.mpki is None else cliffs_of(curve),
        costs=tuple(
            SimulationCost(t, times[t], sum(timed), max(timed))
            for t in targets
            if timed and t in times
        ),
    )


def fit_law(law: ScalingLaw, curve: Curve, grid: np.ndarray, level: float) -> LawPrediction:
    """Fit one law; one that cannot be fitted stays, with its reason."""
    try:
        fitted = law.fit(curve)
        predicted = np.asarray(fitted.predict(grid), dtype=float)
        lower, upper = fitted.interval(grid, level)
    except DataError as error:
        nothing = np.full(len(grid), np.nan)
        if isinstance(error, CurveError):
            reason = error.problem
        else:
            reason = str(error)
        return LawPrediction(law.name, grid, nothing, nothing, nothing, failed=reason)
    notes = tuple(fitted.notes)
    none = predicted <= 0
    if none.any():  # a line through performance that falls
        size = float(grid[none].min())
        notes += (
            remark(
                "no-performance-left", f"no performance is left from size {size:g} on", size=size
            ),
        )
        predicted = np.where(none, np.nan, predicted)
    return LawPrediction(law.name, grid, predicted, np.asarray(lower), np.asarray(upper), notes)


def _summary(result: SizePredictions, scenario: str, target: float, law: str) -> LawSummary | None:
    errors = []
    covered = []
    failed = 0
    for one in result.benchmarks:
        measured = one.curve.measured_at(target)
        of_law = next(prediction for prediction in one.laws if prediction.law == law)
        if one.curve.scenario != scenario or measured is None:
            continue
        predicted, lower, upper = of_law.at(target)
        if np.isnan(predicted):
            failed += 1
            continue
        errors.append(error_percent(predicted, measured))
        covered.append(np.nan if np.isnan(lower) else float(lower <= measured <= upper))
    if not errors:
        if failed:
            return LawSummary(law, scenario, target, 0, failed, np.nan, np.nan, np.nan)
        return None
    coverage = float(np.mean(covered))
    return LawSummary(
        law, scenario, target, len(errors), failed, float(np.mean(errors)), max(errors), coverage
    )
