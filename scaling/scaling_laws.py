"""What every law of scaling shares, and the laws people draw through a few sizes: straight lines to Gunther's.

A law (`ScalingLaw`) is fitted to the small sizes of one benchmark and predicts any size, with an
interval: that of its errors on other benchmarks (`Calibration`), and where sizes outnumber
parameters also that of the residuals. Sizes are counted in units of the smallest one fitted, u = x
/ x₀, so a law does not depend on what a size is: a serial share is that of the work done at x₀.
Except for the proportional law all minimise squared relative errors; with two sizes and two
parameters they go through both points.

An interval: how far a law's predictions reach beyond what was measured, learned from its errors on
other benchmarks. Other benchmarks are those the user has measured and, where they are too few, the
published ones (`curves.published_curves`). Each is cut like the curve that is predicted
(`cases_for`), and a law's errors at the sizes cut off are its scores. The score of a training
benchmark is ``|log(observed / predicted)|`` at a size that the law has not seen. The radius is the
conformal quantile of the scores (`evaluation.intervals.conformal_quantile`) [5]_: a new benchmark
from the same population is covered with probability ``level`` or more, whatever the distribution of
the errors.

References
----------
.. [1] G. M. Amdahl, "Validity of the single processor approach to achieving large scale computing capabilities",
   AFIPS Spring Joint Computer Conference, 1967.
.. [2] J. L. Gustafson, "Reevaluating Amdahl's law", Communications of the ACM 31(5), 1988.
.. [3] N. J. Gunther, "Guerrilla Capacity Planning", Springer, 2007.
.. [4] H. SeyyedAghaei, M. Naderan-Tahan, L. Eeckhout, "GPU Scale-Model Simulation", HPCA 2024.
.. [5] V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World", Springer, 2005.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import nnls

from ..arrays import FloatArray
from ..errors import DataError
from ..evaluation.intervals import conformal_quantile
from ..remarks import Remark, remark
from .curves import (
    Curve,
    CurveError,
    among,
    doublings_away,
    listed,
    log_ratio,
    positive,
    published_curves,
)

# fewer benchmarks say too little of how errors spread; the published ones then join them
MIN_BENCHMARKS = 5
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


@dataclass(frozen=True, eq=False)
class Case:
    """One training curve: the part a law is fitted to, the larger sizes it is tried on. Equal by what they hold."""

    whole: Curve
    fitted: Curve
    sizes: FloatArray

    @cached_property
    def _held(self) -> tuple[object, ...]:
        values = (*vars(self.whole).values(), *vars(self.fitted).values(), self.sizes)
        return tuple(one.tobytes() if isinstance(one, np.ndarray) else repr(one) for one in values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and self._held == other._held

    def __hash__(self) -> int:
        return hash(self._held)

    @property
    def observed(self) -> FloatArray:
        """The performance at the larger sizes."""
        return self.whole.performance[among(self.whole.sizes, self.sizes)]


def cases_for(curve: Curve, training: Sequence[Curve] | None) -> tuple[list[Case], Teachers]:
    """Return training cases like a curve, and where they are from.

    A training curve with the same sizes as the curve that a law is fitted to is cut to them; of
    another the smallest as many are taken, down to two where it has no more. Where the benchmarks
    given are fewer than `MIN_BENCHMARKS` the published ones join them. Curves of the same benchmark
    are left out; curves of the same scenario are preferred if they are of `MIN_BENCHMARKS`
    benchmarks or more.
    """
    given = all_cases(curve, training or ())
    count = benchmarks_of(given)
    if count >= MIN_BENCHMARKS:
        return _like(curve, given, "given")
    return _like(
        curve, all_cases(curve, with_published(training)), "joined" if count else "published"
    )


def with_published(training: Sequence[Curve] | None) -> list[Curve]:
    """Return training curves and the published ones, those of the same benchmark and scenario as given."""
    given = list(training or ())
    measured = {(curve.benchmark, curve.scenario) for curve in given}
    return given + [
        curve for curve in published_curves() if (curve.benchmark, curve.scenario) not in measured
    ]


def all_cases(curve: Curve, training: Sequence[Curve]) -> list[Case]:
    """Return the case of every training curve of another benchmark that has larger sizes than the part cut off it."""
    cases = []
    for other in (other for other in training if other.benchmark != curve.benchmark):
        sizes = curve.sizes
        if not among(sizes, other.sizes).all():
            sizes = other.sizes[: max(2, min(len(curve.sizes), len(other.sizes) - 1))]
        beyond = other.sizes[other.sizes > sizes[-1]]
        if len(beyond):
            cases.append(Case(other, _no_wiser(curve, other.cut(sizes)), beyond))
    return cases


def _no_wiser(curve: Curve, cut: Curve) -> Curve:
    """Return a cut training curve without the miss rates that the curve lacks: none at all, or none beyond its sizes.

    A law that does not know of a cliff errs by it; intervals must include that.
    """
    if curve.mpki is None:
        return replace(cut, mpki=None, l2_mpki=None, mpki_sizes=None)
    if cut.mpki is None or curve.miss_sizes[-1] > curve.sizes[-1]:
        return cut
    seen = cut.miss_sizes <= cut.sizes[-1]
    inner = None
    if cut.l2_mpki is not None:
        inner = cut.l2_mpki[seen]
    return replace(cut, mpki=cut.mpki[seen], l2_mpki=inner, mpki_sizes=cut.miss_sizes[seen])


def _like(curve: Curve, cases: list[Case], source: Source) -> tuple[list[Case], Teachers]:
    """Return the cases of the curve's scenario, or all of them where those are of too few benchmarks."""
    same = [case for case in cases if case.whole.scenario == curve.scenario]
    if benchmarks_of(same) >= MIN_BENCHMARKS:
        kept = same
        scenario = curve.scenario
    else:
        kept = cases
        scenario = "any"
    return kept, Teachers(benchmarks_of(kept), scenario, source)


def benchmarks_of(cases: Sequence[Case]) -> int:
    """Return how many benchmarks the cases are of."""
    return len({case.whole.benchmark for case in cases})


class Calibration:
    """The radius of an interval on the log scale, as a function of how far a size lies from those measured.

    It is made of m scores, |log(observed / predicted)|, each `reach` doublings (> 0) from the
    largest size given to the size predicted. `knots_` are the mean distance and the scores of the
    sizes one doubling away (to the nearest), two,
    ...; those with fewer than `MIN_BENCHMARKS` scores are left out, unless all are.

    Between the knots the radius is interpolated, from 0 at sizes that were measured; it never falls
    with distance, and grows in proportion beyond the last knot.
    """

    def __init__(self, reach: FloatArray, scores: FloatArray) -> None:
        steps = np.maximum(np.round(reach), 1)
        groups = [
            (float(reach[steps == step].mean()), np.sort(scores[steps == step]))
            for step in np.unique(steps)
        ]
        enough = [knot for knot in groups if len(knot[1]) >= MIN_BENCHMARKS]
        self.knots_ = enough or groups

    @classmethod
    def of(cls, cases: Sequence[Case], errors: Sequence[FloatArray]) -> Self:
        """Return the calibration by the errors, log(observed / predicted), at the sizes of each case."""
        reach = [np.log2(case.sizes / case.fitted.sizes[-1]) for case in cases]
        distances = np.concatenate([*reach, []])
        scores = np.abs(np.concatenate([*errors, []]))
        return cls(distances, scores)

    def radius(self, reach: FloatArray, level: float) -> FloatArray:
        """Return the radius at each distance (in doublings); infinite without errors of the law."""
        if not self.knots_:
            return np.where(reach > 0, np.inf, 0.0)
        at = np.array([0.0, *(where for where, _ in self.knots_)])
        quantiles = [0.0]
        for _, scores in self.knots_:
            quantiles.append(float(conformal_quantile(scores, level)))
        radii = np.maximum.accumulate(quantiles)
        bounded = np.isfinite(radii)
        inner = np.interp(reach, at[bounded], radii[bounded])
        inner = np.where(reach > at[bounded][-1], np.inf, inner)
        outer = radii[-1] * np.maximum(reach, at[-1]) / at[-1]
        return np.where(reach > at[-1], outer, inner)


class ScalingLaw(ABC):
    """A law of scaling: fitted to the small sizes of one benchmark, it predicts any size, with an interval.

    ``training`` are curves of other benchmarks with the sizes to predict: what the errors (and the
    learned law) are learned from. Without them, and where they are fewer than `MIN_BENCHMARKS`, the
    published ones serve (`curves.published_curves`). Curves of the benchmark that is predicted are
    left out in any case. A law ``needs`` so many sizes at least; ``notes`` say what there is to say
    of the fit, then where its interval comes from (``interval-from-others``, or
    ``interval-from-others-and-residuals``).
    """

    name: ClassVar[str]
    needs: ClassVar[int] = 2

    def __init__(self, training: Sequence[Curve] | None = None) -> None:
        self.training = training
        self.notes: list[Remark] = []

    def fit(self, curve: Curve) -> Self:
        """Fit the law to all sizes of the curve.

        A CurveError says that the curve cannot be used, has too few sizes for the law, or breaks
        it.
        """
        self._check(curve)
        for learned in ("_calibration", "_cases"):
            self.__dict__.pop(learned, None)
        self.curve_ = curve
        self.notes = []
        self._fit(curve)
        self.notes += self._interval_notes()
        return self

    def predict(self, sizes: ArrayLike) -> FloatArray:
        """Return the performance at each size, ndarray of shape (n,)."""
        return self._predict(positive(sizes))

    def interval(self, sizes: ArrayLike, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper bound of the performance at each size; NaN where the prediction is not positive.

        Raises ValueError if the level does not lie between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"parameter level of interval must lie between 0 and 1, got {level}")
        return self._interval(positive(sizes), level)

    def _check(self, curve: Curve) -> None:
        curve.check()
        if curve.sizes.size < self.needs:
            raise CurveError(
                curve.benchmark, f"{self.name} needs {self.needs} sizes, got {listed(curve.sizes)}"
            )

    def _interval(self, sizes: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Multiply and divide the prediction by what others' errors reach, and widen it by what the law leaves open."""
        radius = self._calibration.radius(doublings_away(self.curve_.sizes, sizes), level)
        centre = self._predict(sizes)
        centre = np.where(centre > 0, centre, np.nan)
        low, high = self._open(sizes)
        with np.errstate(over="ignore"):
            return centre * low * np.exp(-radius), centre * high * np.exp(radius)

    @cached_property
    def _cases(self) -> tuple[list[Case], Teachers]:
        return cases_for(self.curve_, self.training)

    @cached_property
    def _calibration(self) -> Calibration:
        cases, _ = self._cases
        return Calibration.of(cases, self._case_errors(cases))

    def _case_errors(self, cases: Sequence[Case]) -> list[FloatArray]:
        """Return log(observed / predicted) at the larger sizes of each training case, infinite without a prediction."""
        return [self._case_error(case) for case in cases]

    def _case_error(self, case: Case) -> FloatArray:
        return _tried(type(self), case)

    def _interval_notes(self) -> list[Remark]:
        teachers = self._cases[1]
        return [
            remark(
                "interval-from-others", f"interval from the errors of {teachers}", **teachers.values
            )
        ]

    def _open(self, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the factors below and above 1 between which the law does not know the performance."""
        return np.ones(len(sizes)), np.ones(len(sizes))

    @abstractmethod
    def _fit(self, curve: Curve) -> None: ...

    @abstractmethod
    def _predict(self, sizes: FloatArray) -> FloatArray: ...


@lru_cache(4096)
def _tried(kind: type[ScalingLaw], case: Case) -> FloatArray:
    """Return the errors of a law at a training case: every curve that is predicted asks for the same cases."""
    law = kind(training=())
    try:
        law._check(case.fitted)
        law.curve_ = case.fitted
        law._fit(case.fitted)
    except DataError:
        return np.full(len(case.sizes), np.inf)
    return log_ratio(case.observed, law._predict(case.sizes))


class Proportional(ScalingLaw):
    """Performance in proportion to size, from the smallest size: P(x) = P₀ · x / x₀.

    The smallest, because that is how the published errors of "proportional scaling" follow from
    their data [4]_.
    """

    name = "proportional"

    def _fit(self, curve: Curve) -> None:
        self.slope_ = curve.performance[0] / curve.sizes[0]

    def _predict(self, sizes: FloatArray) -> FloatArray:
        return self.slope_ * sizes


ROUNDING = 1e-12  # residuals below are those of arithmetic: the fit is exact


@dataclass(frozen=True)
class RelativeFit:
    """A fitted vector of parameters and what its residuals say of its uncertainty."""

    coefficients: FloatArray  # estimates, shape (p,)
    covariance: FloatArray  # (A'A)^-1 of the parameters that are not held at 0, 0 for those that are; shape (p, p)
    noise: float  # root of the residual variance, NaN without degrees of freedom
    freedom: int  # rows less free parameters

    def spread(self, rows: FloatArray, scale: FloatArray) -> FloatArray:
        """Return the standard deviation of a new observation at each row, its noise multiplied by ``scale``.

        sd² = noise² (a' (A'A)^-1 a + scale²)
        """
        of_mean = np.einsum("ij,jk,ik->i", rows, self.covariance, rows)
        return self.noise * np.sqrt(of_mean + scale**2)


def relative_fit(design: FloatArray, target: FloatArray, *, bounded: bool = False) -> RelativeFit:
    """Minimise ``|design · b - target|²``, with b ≥ 0 where ``bounded``.

    ``design``, of shape (k, p), has rows scaled so that a residual is a relative error; ``target``,
    of shape (k,), is ones, or logarithms.
    """
    if bounded:
        b = nnls(design, target)[0]
    else:
        b = np.linalg.lstsq(design, target, rcond=None)[0]
    if bounded:
        free = b > 0
    else:
        free = np.ones(len(b), dtype=bool)
    covariance = np.zeros((len(b), len(b)))
    gram = design[:, free].T @ design[:, free]
    covariance[np.ix_(free, free)] = np.linalg.pinv(gram)
    freedom = len(target) - int(free.sum())
    residual = target - design @ b
    residual = np.where(np.abs(residual) < ROUNDING, 0.0, residual)
    if freedom:
        noise = float(np.sqrt(residual @ residual / freedom))
    else:
        noise = float("nan")
    return RelativeFit(np.asarray(b, dtype=np.float64), covariance, noise, freedom)


class LinearInParameters(ScalingLaw):
    """A law η(u) = A(u) · b whose parameters least squares finds; performance is η, 1 / η or exp(η).

    Where sizes outnumber parameters, its interval holds both that of the residuals (Student's t of
    a new observation) and that of the law's errors on other benchmarks. Residuals alone tell how
    well the law fits the sizes it was fitted to, not how it fails beyond: on the published data 90
    % intervals made of them hold 33 to 67 % of the performances two doublings beyond three sizes.
    Without sizes to spare it is that of the errors on others.

    `coefficients_` are the parameters b, in the order of the columns of A.
    """

    link: ClassVar[Literal["identity", "inverse", "log"]] = "identity"
    bounded: ClassVar[bool] = False

    def _fit(self, curve: Curve) -> None:
        performance = curve.performance[:, None]
        design = self._rows(curve.sizes)
        if self.link == "log":
            self.result_ = relative_fit(design, np.log(curve.performance))
        else:
            if self.link == "identity":
                scaled = design / performance
            else:
                scaled = design * performance
            self.result_ = relative_fit(scaled, np.ones(len(design)), bounded=self.bounded)
        self.coefficients_ = self.result_.coefficients
        self._interpret()

    def _predict(self, sizes: FloatArray) -> FloatArray:
        eta = self._rows(sizes) @ self.coefficients_
        if self.link == "log":
            return np.exp(eta)
        if self.link == "identity":
            return eta
        return 1 / eta

    def _interval(self, sizes: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        lower, upper = super()._interval(sizes, level)
        if not self.result_.freedom:
            return lower, upper
        below, above = self._residual_interval(sizes, level)
        return np.minimum(lower, below), np.maximum(upper, above)

    def _residual_interval(self, sizes: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Return the t interval of a new observation at each size."""
        rows = self._rows(sizes)
        eta = rows @ self.coefficients_
        if self.link == "log":
            scale = np.ones(len(eta))
        else:
            scale = np.abs(eta)
        reach = stats.t.ppf((1 + level) / 2, self.result_.freedom) * self.result_.spread(
            rows, scale
        )
        lower = eta - reach
        upper = eta + reach
        if self.link == "log":
            return np.exp(lower), np.exp(upper)
        if self.link == "inverse":
            return 1 / upper, np.divide(1.0, lower, out=np.full(len(eta), np.inf), where=lower > 0)
        return np.maximum(lower, 0), upper

    def _interval_notes(self) -> list[Remark]:
        spare = self.result_.freedom
        if not spare:
            return super()._interval_notes()
        residuals = {"sizes": len(self.curve_.sizes), "spare": spare}
        teachers = self._cases[1]
        of_sizes = f"{len(self.curve_.sizes)} sizes ({spare} spare)"
        text = f"interval from the errors of {teachers}, and from the residuals of {of_sizes}"
        return [remark("interval-from-others-and-residuals", text, **teachers.values, **residuals)]

    def _rows(self, sizes: FloatArray) -> FloatArray:
        """Return A(u) of shape (n, p)."""
        return np.column_stack(np.broadcast_arrays(*self._columns(sizes / self.curve_.sizes[0])))

    def _interpret(self) -> None:
        """Say what the parameters mean."""

    @abstractmethod
    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]: ...


class Linear(LinearInParameters):
    """P = a·u + b."""

    name = "linear"

    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]:
        return u, 1.0


class Power(LinearInParameters):
    """P = a·u^b, fitted to the logarithms."""

    name = "power law"
    link = "log"

    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]:
        return 1.0, np.log(u)


class Logarithmic(LinearInParameters):
    """P = a + b·log u."""

    name = "logarithmic"

    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]:
        return 1.0, np.log(u)


class SerialShare(LinearInParameters):
    """A law of two parameters s, p ≥ 0, of which s / (s + p) is the serial share, `serial_`."""

    bounded = True

    def _interpret(self) -> None:
        self.serial_ = float(self.coefficients_[0] / self.coefficients_.sum())
        if self.serial_ == 0:
            self.notes.append(
                remark(
                    "no-serial-share",
                    "no serial share: performance grows at least in proportion to the size",
                )
            )


class Amdahl(SerialShare):
    """A part of the work does not speed up [1]_: 1 / P = s + p / u with s, p ≥ 0; the serial share is s / (s + p).

    Performance that grows faster than the size has no serial share: it is then proportional to the
    size.
    """

    name = "Amdahl"
    link = "inverse"

    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]:
        return 1.0, 1 / u


class Gustafson(SerialShare):
    """Work grows with the GPU except for a serial part [2]_: P = s + p·u with s, p ≥ 0; its share is s / (s + p).

    The straight line, barred from growing faster than in proportion.
    """

    name = "Gustafson"

    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]:
        return 1.0, u


class UniversalScalability(LinearInParameters):
    """Contention σ and coherence κ [3]_: P = λu / (1 + σ(u - 1) + κu(u - 1)), with λ > 0 and σ, κ ≥ 0.

    1 / P = (1/λ)·1/u + (σ/λ)·(u - 1)/u + (κ/λ)·(u - 1) is linear in its three parameters, so it
    takes three sizes.
    """

    name = "USL"
    link = "inverse"
    bounded = True
    needs = 3

    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]:
        return 1 / u, (u - 1) / u, u - 1

    def _interpret(self) -> None:
        self.contention_, self.coherence_ = (
            float(b) for b in self.coefficients_[1:] / self.coefficients_[0]
        )
        if self.coherence_ > 0 and self.contention_ < 1:
            peak = self.curve_.sizes[0] * np.sqrt((1 - self.contention_) / self.coherence_)
            self.notes.append(
                remark(
                    "performance-peaks",
                    f"performance peaks at size {float(peak):.4g}",
                    size=float(peak),
                )
            )
