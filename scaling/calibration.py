"""How far a law's predictions reach beyond what was measured, learned from its errors on other benchmarks.

Other benchmarks are those the user has measured and, where they are too few, the published ones (`published_curves`).
Each is cut like the curve that is predicted (`cases_for`), and a law's errors at the sizes cut off are its scores. The
score of a training benchmark is ``|log(observed / predicted)|`` at a size that the law has not seen. The radius is the
conformal quantile of the scores, the ceil((m + 1) · level)-th of m [1]_: a new benchmark from the same population is
covered with probability ``level`` or more, whatever the distribution of the errors. With too few scores for that (fewer
than 9 at 90 %) it is the prediction interval of normal errors with mean 0, rms · t_m · sqrt(1 + 1/m), and at least the
largest score.

References
----------
.. [1] V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", Springer, 2005.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Final, Literal, Self

import numpy as np
from scipy import stats

from .. import datasets
from ..arrays import FloatArray
from .curves import Curve


@cache
def published_curves() -> tuple[Curve, ...]:
    """Return published curves: 21 with strong, 6 with weak scaling, 5 of multi-chiplet GPUs.

    From the artifact of SeyyedAghaei, Naderan-Tahan, Eeckhout, GPU Scale-Model Simulation, HPCA 2024.
    """
    text = (resources.files(datasets) / "scale_model.csv").read_text(encoding="utf-8")
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in csv.DictReader(text.splitlines()):
        rows.setdefault((row["scenario"], row["benchmark"]), []).append(row)
    return tuple(_curve(group) for group in rows.values())


def _curve(rows: list[dict[str, str]]) -> Curve:
    f_mem = [float(row["f_mem"]) for row in rows if row["f_mem"]]
    return Curve(
        benchmark=rows[0]["benchmark"],
        scenario=rows[0]["scenario"],
        unit=rows[0]["unit"],
        sizes=np.array([float(row["size"]) for row in rows]),
        performance=np.array([float(row["ipc"]) for row in rows]),
        mpki=np.array([float(row["llc_mpki"]) for row in rows]),
        f_mem=f_mem[0] if f_mem else None,
        simulation_time_s={
            float(row["size"]): float(row["simulation_time_s"]) for row in rows if row["simulation_time_s"]
        },
    ).check()


MIN_BENCHMARKS = 5
"""Fewer benchmarks say too little of how errors spread; the published ones then join them."""


Source = Literal["given", "joined", "published"]
SOURCES: Final[dict[Source, str]] = {
    "given": "other benchmarks",
    "joined": "benchmarks, the published ones among them",
    "published": "published benchmarks",
}
"""Where benchmarks to learn from come from: the user; the user and the paper, or the paper alone."""


@dataclass(frozen=True)
class Teachers:
    """What a law learns from: how many benchmarks, their scenario (``"any"`` where they are mixed), and whose."""

    benchmarks: int
    scenario: str
    source: Source

    def __str__(self) -> str:
        return f"{self.benchmarks} {SOURCES[self.source]} ({self.scenario} scaling)"

    @property
    def values(self) -> dict[str, Any]:
        """The same as values of a remark."""
        return vars(self)


@dataclass(frozen=True)
class Case:
    """One training curve: the part a law is fitted to, and the larger sizes it is tried on."""

    whole: Curve
    known: Curve
    sizes: FloatArray

    @property
    def observed(self) -> FloatArray:
        """The performance at the larger sizes."""
        return self.whole.performance[np.isin(self.whole.sizes, self.sizes)]


def cases_for(curve: Curve, training: Sequence[Curve] | None) -> tuple[list[Case], Teachers]:
    """Return training cases like a curve, and where they are from.

    A training curve with the same sizes as the curve that a law is fitted to is cut to them; of another the smallest as
    many are taken, down to two where it has no more. Where the benchmarks given are fewer than `MIN_BENCHMARKS` the
    published ones join them. Curves of the same benchmark are left out; curves of the same scenario are preferred if
    they are of `MIN_BENCHMARKS` benchmarks or more.
    """
    given = all_cases(curve, training or ())
    count = benchmarks_of(given)
    if count >= MIN_BENCHMARKS:
        return _like(curve, given, "given")
    return _like(curve, all_cases(curve, with_published(training)), "joined" if count else "published")


def with_published(training: Sequence[Curve] | None) -> list[Curve]:
    """Return training curves and the published ones, those of the same benchmark and scenario as given."""
    given = list(training or ())
    known = {(curve.benchmark, curve.scenario) for curve in given}
    return given + [curve for curve in published_curves() if (curve.benchmark, curve.scenario) not in known]


def all_cases(curve: Curve, training: Sequence[Curve]) -> list[Case]:
    """Return the case of every training curve of another benchmark that has larger sizes than the part cut off it."""
    found = (_case(curve, other) for other in training if other.benchmark != curve.benchmark)
    return [case for case in found if case is not None]


def _case(curve: Curve, other: Curve) -> Case | None:
    """Cut a training curve as the curve was cut; None where nothing remains to predict."""
    known = curve.sizes
    if not np.all(np.isin(known, other.sizes)):
        known = other.sizes[: max(2, min(len(curve.sizes), len(other.sizes) - 1))]
    beyond = other.sizes[other.sizes > known[-1]]
    return Case(other, _no_wiser(curve, other.cut(known)), beyond) if len(beyond) else None


def _no_wiser(curve: Curve, cut: Curve) -> Curve:
    """Return a cut training curve without the miss rates that the curve lacks: none at all, or none beyond its sizes.

    A law that is not told of a cliff errs by it; intervals must have seen that.
    """
    if curve.mpki is None:
        return replace(cut, mpki=None, mpki_sizes=None)
    if cut.mpki is None or curve.miss_sizes[-1] > curve.sizes[-1]:
        return cut
    seen = cut.miss_sizes <= cut.sizes[-1]
    return replace(cut, mpki=cut.mpki[seen], mpki_sizes=cut.miss_sizes[seen])


def _like(curve: Curve, cases: list[Case], source: Source) -> tuple[list[Case], Teachers]:
    """Return the cases of the curve's scenario, or all of them where those are of too few benchmarks."""
    same = [case for case in cases if case.whole.scenario == curve.scenario]
    kept, scenario = (same, curve.scenario) if benchmarks_of(same) >= MIN_BENCHMARKS else (cases, "any")
    return kept, Teachers(benchmarks_of(kept), scenario, source)


def benchmarks_of(cases: Sequence[Case]) -> int:
    """Return how many benchmarks the cases are of."""
    return len({case.whole.benchmark for case in cases})


class Calibration:
    """The radius of an interval on the log scale, as a function of how far a size lies from those measured.

    It is made of m scores, |log(observed / predicted)|, each `reach` doublings (> 0) from the largest size known to the
    size predicted. `knots_` are the mean distance and the scores of the sizes one doubling away (to the nearest), two,
    ...; those with fewer than `MIN_BENCHMARKS` scores are left out, unless all are.

    Between the knots the radius is interpolated, from 0 at sizes that were measured; it never falls with distance, and
    grows in proportion beyond the last knot.
    """

    def __init__(self, reach: FloatArray, scores: FloatArray) -> None:
        steps = np.maximum(np.round(reach), 1)
        groups = [(float(reach[steps == step].mean()), np.sort(scores[steps == step])) for step in np.unique(steps)]
        enough = [knot for knot in groups if len(knot[1]) >= MIN_BENCHMARKS]
        self.knots_ = enough or groups

    @classmethod
    def of(cls, cases: Sequence[Case], errors: Sequence[FloatArray]) -> Self:
        """Return the calibration by the errors, log(observed / predicted), at the sizes of each case."""
        reach = [np.log2(case.sizes / case.known.sizes[-1]) for case in cases]
        return cls(np.concatenate([*reach, []]), np.abs(np.concatenate([*errors, []])))

    def radius(self, reach: FloatArray, level: float) -> FloatArray:
        """Return the radius at each distance (in doublings); infinite where nothing is known of the law's errors."""
        if not self.knots_:
            return np.where(reach > 0, np.inf, 0.0)
        at = np.array([0.0, *(where for where, _ in self.knots_)])
        radii = np.maximum.accumulate([0.0, *(quantile(scores, level) for _, scores in self.knots_)])
        bounded = np.isfinite(radii)
        inner = np.interp(reach, at[bounded], radii[bounded])
        inner = np.where(reach > at[bounded][-1], np.inf, inner)
        return np.where(reach > at[-1], radii[-1] * reach / at[-1], inner)


def quantile(scores: FloatArray, level: float) -> float:
    """Return the score that a new one stays within with probability ``level``, from sorted scores.

    Examples
    --------
    >>> quantile(np.arange(1.0, 21.0), 0.9)
    19.0
    """
    m = len(scores)
    rank = int(np.ceil((m + 1) * level - 1e-9))
    if rank <= m:
        return float(scores[rank - 1])
    rms = float(np.sqrt(np.mean(scores**2)))
    return max(float(scores[-1]), rms * float(stats.t.ppf((1 + level) / 2, m)) * float(np.sqrt(1 + 1 / m)))
