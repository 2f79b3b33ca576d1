"""Models of one, two or more parameters as Extra-P fits them: constants times p^a · log2(p)^b, added and multiplied.

A region that was measured at several values of every parameter enters `fit_terms`; what leaves is a
`TermModel`: a formula, how well it fits, and predictions with an interval.

Of one parameter the model is c0 + c1 · p^a · log2(p)^b [1]_. Of the exponents in `EXPONENTS` those are
taken whose symmetric error (SMAPE) is least when each point is predicted from the others; a constant
stays where none is better. Of several parameters [2]_ each first has a separate model, from the points
that differ in it alone. The terms of these models are then added and multiplied (`structures`), the
coefficients are fitted to all points by least squares, and the least SMAPE wins. A term that nowhere
contributes 0.05 % of what was measured is not taken.

The interval knows that other exponents fit the same points nearly as well and go elsewhere beyond
them. One term after the other is exchanged for every other one, one structure for the others, each
is fitted to relative errors, and all that the points do not reject (likelihood ratio, at the level
of the interval) have an interval of Student's t for a new repetition. The interval of the model
reaches from the least to the greatest of them. The scatter of repetitions about their mean enters
both: points never count as surer than it lets them be, and a new repetition scatters as those
measured. Of 300 made-up grids of two parameters with known formulas and 2 or 5 % of noise,
intervals of 90 % held 96 to 97 % of the truth at twice every measured value, and 95 of 100 at eight
times; of three parameters with 2 % of noise, 39 of 40 at twice. Formulas that look alike within the
grid make them wide.

References
----------
.. [1] A. Calotoiu, T. Hoefler, M. Poke, F. Wolf, "Using automated performance modeling to find scalability bugs in
   complex codes", SC 2013.
.. [2] A. Calotoiu, D. Beckingsale, C. W. Earl, T. Hoefler, I. Karlin, M. Schulz, F. Wolf, "Fast multi-parameter
   performance modeling", IEEE Cluster 2016.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Final, Literal, NamedTuple

import numpy as np
from scipy import stats

from ..arrays import FloatArray
from ..errors import DataError
from ..remarks import Remark, remark
from .extrap import Experiment
from .scaling_laws import RelativeFit, relative_fit

FEW_VALUES: Final = 5  # of a parameter: Extra-P asks for as many
_NEGLIGIBLE: Final = 0.0005  # share of what was measured that a term contributes somewhere
_SUREST: Final = 0.999  # level of an interval: formulas that are rejected at it are not kept
_ONLY: Final = 1e-9  # relative errors of a fit that is exact
Measure = Literal["mean", "median"]


class Term(NamedTuple):
    """A factor p^exponent · log2(p)^logarithms of one parameter p."""

    exponent: Fraction
    logarithms: int

    def values(self, at: FloatArray) -> FloatArray:
        """Return the factor at each value of the parameter."""
        return at ** float(self.exponent) * np.log2(at) ** self.logarithms

    def written(self, name: str) -> str:
        """Return the factor as text.

        >>> Term(Fraction(3, 2), 1).written("p")
        'p^(3/2)·log2(p)'
        """
        words = []
        if self.exponent != 0:
            words.append(name + _power(self.exponent))
        if self.logarithms != 0:
            words.append(f"log2({name})" + _power(Fraction(self.logarithms)))
        return "·".join(words)


def _power(exponent: Fraction) -> str:
    if exponent == 1:
        return ""
    if exponent.denominator == 1 and exponent > 0:
        return f"^{exponent}"
    return f"^({exponent})"


def _terms(exponents: str, logarithms: int) -> Iterator[Term]:
    for word in exponents.split():
        yield Term(Fraction(word), logarithms)


EXPONENTS: Final = (
    *_terms("1/4 1/3 1/2 2/3 3/4 4/5 1 5/4 4/3 3/2 5/3 7/4 2 9/4 7/3 5/2 8/3 11/4 3", 0),
    *_terms("0 1/4 1/3 1/2 2/3 3/4 1 5/4 4/3 3/2 2 5/2 3", 1),
    *_terms("0 1/4 1/3 1/2 2/3 3/4 1 3/2 2 5/2", 2),
)
"""The 42 terms that Extra-P tries of each parameter."""
NEGATIVE: Final = (
    *_terms("-1/4 -1/3 -1/2 -2/3 -3/4 -4/5 -1 -5/4 -4/3 -3/2 -5/3 -7/4 -2", 0),
    *_terms("-9/4 -7/3 -5/2 -8/3 -11/4 -3", 0),
    *_terms("0 -1/4 -1/3 -1/2 -2/3 -3/4 -1 -5/4 -4/3 -3/2 -2 -5/2 -3", -1),
    *_terms("0 -1/4 -1/3 -1/2 -2/3 -3/4 -1 -3/2 -2 -5/2", -2),
)
"""The 42 that it adds where times may fall with a parameter, as in strong scaling."""

Product = tuple[int, ...]
"""The places of the parameters whose terms are multiplied."""
Structure = tuple[Product, ...]
"""Products that are added, each with a separate coefficient."""


def structures(places: Sequence[int]) -> list[Structure]:
    """Return how the terms of the parameters at these places are added and multiplied.

    >>> structures([0, 1])
    [((0, 1),), ((0,), (1,)), ((0,), (0, 1)), ((1,), (0, 1))]
    >>> len(structures([0, 1, 2]))
    23
    """
    every = tuple(places)
    singles = [(place,) for place in every]
    shapes: list[Structure] = [(every,), tuple(singles)]
    if len(every) == 1:
        return shapes[:1]
    if len(every) == 2:
        return [*shapes, *((single, every) for single in singles)]
    if len(every) > 3:
        return shapes
    shapes += [(every, single) for single in singles]
    for pair in combinations(every, 2):
        first = (pair[0],)
        second = (pair[1],)
        (rest,) = (single for single in singles if single[0] not in pair)
        shapes += [(every, pair), (every, pair, rest), (every, first, second)]
        shapes += [(pair, rest), (pair, rest, first), (pair, rest, second)]
    return shapes


class Fit(NamedTuple):
    """Products of terms with their coefficients, the constant first."""

    terms: Mapping[int, Term]
    structure: Structure
    coefficients: FloatArray

    def predict(self, points: FloatArray) -> FloatArray:
        """Return the value at each point, (n,), of points (n, parameters)."""
        return _design(points, self.terms, self.structure) @ self.coefficients


class Scatter(NamedTuple):
    """How far repetitions at one point lie from each other, relative to their mean."""

    repetition: float  # deviation of one; 0 where none is repeated
    mean: float  # deviation of what stands for those at a point


class Alternative(NamedTuple):
    """Another formula that the points do not reject."""

    terms: Mapping[int, Term]
    structure: Structure
    relative: RelativeFit
    error: float  # sum of squared relative errors


@dataclass(frozen=True, eq=False)
class TermModel:
    """The formula of one metric of one region."""

    region: str
    metric: str
    parameters: tuple[str, ...]
    points: FloatArray  # measured, (n, parameters)
    measured: FloatArray  # the mean, or the median, of the repetitions at each, (n,)
    fit: Fit
    adjusted_r2: float  # of the fit to all points; NaN of a constant
    smape_percent: float  # mean of 2·|predicted - measured| / (predicted + measured)
    candidates: tuple[tuple[Term, ...], ...]  # the terms that were tried of each parameter
    scatter: Scatter
    notes: tuple[Remark, ...] = ()

    @cached_property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The formulas that the points do not reject at any level of an interval."""
        return tuple(
            _alternatives(self.points, self.measured, self.fit, self.candidates, self.scatter)
        )

    @property
    def formula(self) -> str:
        """The model as text, e.g. ``1.2 + 0.034·p·log2(n)``."""
        words = [f"{self.fit.coefficients[0]:.4g}"]
        for product, coefficient in zip(self.fit.structure, self.fit.coefficients[1:], strict=True):
            factors = [self.fit.terms[place].written(self.parameters[place]) for place in product]
            sign = "+"
            if coefficient < 0:
                sign = "-"
            words.append(f"{sign} {'·'.join([f'{abs(coefficient):.4g}', *factors])}")
        return " ".join(words)

    def predict(self, points: FloatArray) -> FloatArray:
        """Return the value at each point, (n,), of points (n, parameters)."""
        return self.fit.predict(points)

    def interval(self, points: FloatArray, level: float = 0.9) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of a new repetition at each point; NaN where no point is to spare."""
        lower = upper = self.predict(points)
        least = min(other.error for other in self.alternatives)
        most = _most_error(least, self.points.shape, level, self.scatter)
        alone = max(self.scatter.repetition**2 - self.scatter.mean**2, 0.0)
        for other in self.alternatives:
            if not np.isfinite(other.relative.noise):
                return np.full(len(points), np.nan), np.full(len(points), np.nan)
            if other.error > most:
                continue
            design = _design(points, other.terms, other.structure)
            centre = design @ other.relative.coefficients
            relative = replace(other.relative, noise=max(other.relative.noise, self.scatter.mean))
            spread = relative.spread(design, np.abs(centre))
            spread = np.sqrt(spread**2 + alone * centre**2)
            reach = stats.t.ppf((1 + level) / 2, relative.freedom) * spread
            lower = np.minimum(lower, centre - reach)
            upper = np.maximum(upper, centre + reach)
        if (self.measured >= 0).all():
            lower = np.maximum(lower, 0.0)
        return lower, upper

    def beyond(self, points: FloatArray) -> FloatArray:
        """Return how many times beyond the measured values each point lies, 1 within them, (n,)."""
        above = points / self.points.max(axis=0)
        below = self.points.min(axis=0) / points
        return np.maximum(np.maximum(above, below).max(axis=1), 1.0)


def fit_terms(
    experiment: Experiment, *, measure: Measure = "mean", negative_exponents: bool = False
) -> tuple[list[TermModel], tuple[Remark, ...]]:
    """Return the model of each region and metric, and what is left out: values that are not above zero.

    Raises DataError: no region can be modelled, or a parameter is not above zero.
    """
    grouped: dict[tuple[str, str], dict[tuple[float, ...], list[float]]] = {}
    for value in experiment.values:
        points = grouped.setdefault((value.region, value.metric), {})
        points.setdefault(value.point, []).extend(value.measured)
    models = list[TermModel]()
    left_out = list[str]()
    for (region, metric), points in grouped.items():
        at = np.array([*points], dtype=np.float64)
        if not (at > 0).all():
            raise DataError(
                f"parameters must be above 0, got {_written(experiment.parameters, at)}",
                source=region,
            )
        summary = {"mean": np.mean, "median": np.median}[measure]
        with np.errstate(over="ignore"):
            measured = np.array([float(summary(repeated)) for repeated in points.values()])
        if len(at) < 2 or not ((measured > 0) & np.isfinite(measured)).all():
            left_out.append(f"{region} ({metric})")
            continue
        with np.errstate(all="ignore"):  # of terms that overflow, which are not taken
            model = _model(
                (region, metric),
                experiment.parameters,
                at,
                measured,
                _scatter(list(points.values()), measured, measure),
                negative_exponents,
            )
        models.append(model)
    if not models:
        raise DataError("no region was measured above zero at two points or more")
    notes = []
    if left_out:
        text = f"left out, measured at one point or not above zero everywhere: {len(left_out)}"
        notes.append(remark("regions-left-out", text, regions=tuple(left_out)))
    return models, tuple(notes)


def _written(parameters: Sequence[str], at: FloatArray) -> str:
    worst = at[(at <= 0).any(axis=1)][0]
    return ", ".join(f"{name}={value:g}" for name, value in zip(parameters, worst, strict=True))


def _model(
    names: tuple[str, str],
    parameters: tuple[str, ...],
    points: FloatArray,
    measured: FloatArray,
    scatter: Scatter,
    negative_exponents: bool,
) -> TermModel:
    """Return the model of one region."""
    lines = [_line(points, measured, place) for place in range(len(parameters))]
    candidates = [_candidates(at, negative_exponents) for at, _ in lines]
    fits = dict[int, Fit]()
    for place, (at, values) in enumerate(lines):
        fit = _best_of_one(at, values, place, candidates[place])
        if fit is not None:
            fits[place] = fit
    fit = _together(points, measured, fits)
    notes = []
    for place, (at, _) in enumerate(lines):
        if len(at) < FEW_VALUES:
            name = parameters[place]
            text = f"{name} has {len(at)} values on a line: {FEW_VALUES} or more tell terms apart"
            notes.append(remark("few-values-of-parameter", text, parameter=name, values=len(at)))
    return TermModel(
        *names,
        parameters,
        points,
        measured,
        fit,
        _adjusted_r2(fit, points, measured),
        _smape(fit.predict(points), measured),
        tuple(candidates),
        scatter,
        tuple(notes),
    )


def _scatter(
    repeated: Sequence[Sequence[float]], measured: FloatArray, measure: Measure
) -> Scatter:
    """Return the relative scatter of repetitions, pooled over all points, each about its mean."""
    squares = 0.0
    freedom = 0
    inverse = 0.0
    for repetitions, value in zip(repeated, measured, strict=True):
        relative = np.asarray(repetitions, dtype=np.float64) / value
        squares += float(((relative - relative.mean()) ** 2).sum())
        freedom += len(relative) - 1
        inverse += 1.0 / len(relative)
    if freedom == 0:
        return Scatter(0.0, 0.0)
    repetition = float(np.sqrt(squares / freedom))
    share = inverse / len(repeated)
    if measure == "median":
        share = min(share * np.pi / 2, 1.0)
    return Scatter(repetition, repetition * float(np.sqrt(share)))


def _line(points: FloatArray, measured: FloatArray, place: int) -> tuple[FloatArray, FloatArray]:
    """Return the values of one parameter, and what was measured at them while the others stay.

    Of the lines along the parameter the longest count; their mean is taken at each value, over the
    lines that the first value lies on.
    """
    lines: dict[tuple[float, ...], dict[float, float]] = {}
    for point, value in zip(points, measured, strict=True):
        others = tuple(np.delete(point, place).tolist())
        lines.setdefault(others, {})[float(point[place])] = float(value)
    length = max(map(len, lines.values()))
    longest = [line for line in lines.values() if len(line) == length]
    first = next(iter(longest[0]))
    chosen = [line for line in longest if first in line]
    at = list(dict.fromkeys(value for line in chosen for value in line))
    means = []
    for value in at:
        means.append(np.mean([line[value] for line in chosen if value in line]))
    return np.array(at, dtype=np.float64), np.array(means, dtype=np.float64)


def _candidates(at: FloatArray, negative_exponents: bool) -> tuple[Term, ...]:
    """Return the terms that can be computed: logarithms are none of values below 1, nor inverse ones of 1."""
    every = EXPONENTS
    if negative_exponents:
        every = (*EXPONENTS, *NEGATIVE)
    logarithms = bool((at > 1).all() or (not negative_exponents and (at >= 1).all()))
    kept = []
    for term in every:
        if (logarithms or term.logarithms == 0) and np.isfinite(term.values(at)).all():
            kept.append(term)
    return tuple(kept)


def _best_of_one(
    at: FloatArray, measured: FloatArray, place: int, candidates: Iterable[Term]
) -> Fit | None:
    """Return the model of one parameter at ``place``, None where it is a constant."""
    least = _smape(np.full(len(measured), measured.mean()), measured)
    best = None
    if np.ptp(measured) == 0 or len(at) < 3:
        return best
    for term in candidates:
        values = term.values(at)
        design = np.column_stack([np.ones(len(at)), values])
        coefficients = np.asarray(np.linalg.lstsq(design, measured, rcond=None)[0], np.float64)
        contribution = np.abs(coefficients[1] * values / measured).max()
        error = _smape(_left_out(values, measured), measured)
        if contribution >= _NEGLIGIBLE and error < least:
            least = error
            best = Fit({place: term}, ((place,),), coefficients)
    return best


def _left_out(values: FloatArray, measured: FloatArray) -> FloatArray:
    """Return each measured value as a straight line over ``values`` through the others predicts it.

    A constant below 0.05 % of the least value is an error of arithmetic and counts as none.
    """
    others = ~np.eye(len(values), dtype=bool)
    x = np.broadcast_to(values, others.shape)[others].reshape(len(values), -1)
    y = np.broadcast_to(measured, others.shape)[others].reshape(len(values), -1)
    centred = x - x.mean(axis=1, keepdims=True)
    slope = (centred * y).sum(axis=1) / (centred**2).sum(axis=1)
    constant = y.mean(axis=1) - slope * x.mean(axis=1)
    constant[np.abs(constant) < _NEGLIGIBLE * y.min(axis=1)] = 0.0
    return constant + slope * values


def _together(points: FloatArray, measured: FloatArray, fits: Mapping[int, Fit]) -> Fit:
    """Return the best model of all parameters that have a term."""
    if not fits:
        return Fit({}, (), np.array([measured.mean()]))
    terms = {place: fit.terms[place] for place, fit in fits.items()}
    if len(fits) == 1:
        (alone,) = fits.values()
        again = _fitted(points, measured, terms, alone.structure)
        return min(alone, again, key=lambda fit: _smape(fit.predict(points), measured))
    best = None
    least = np.inf
    for structure in structures(list(terms)):
        design = _design(points, terms, structure)
        if not np.isfinite(design).all():
            continue
        fit = _fitted(points, measured, terms, structure)
        error = _smape(fit.predict(points), measured)
        contributions = np.abs(design[:, 1:] * fit.coefficients[1:] / measured[:, None])
        needed = bool((contributions.max(axis=0) >= _NEGLIGIBLE).all())
        if best is None or (needed and error < least):
            best = fit
            least = error
    return best or Fit({}, (), np.array([measured.mean()]))


def _fitted(
    points: FloatArray, measured: FloatArray, terms: Mapping[int, Term], structure: Structure
) -> Fit:
    design = _design(points, terms, structure)
    scale = np.abs(design).max(axis=0)
    scale[scale == 0] = 1.0
    coefficients = np.linalg.lstsq(design / scale, measured, rcond=None)[0] / scale
    return Fit(terms, structure, coefficients)


def _design(points: FloatArray, terms: Mapping[int, Term], structure: Structure) -> FloatArray:
    """Return ones and each product of terms at each point, (n, 1 + products)."""
    columns = [np.ones(len(points))]
    for product in structure:
        column = np.ones(len(points))
        for place in product:
            column = column * terms[place].values(points[:, place])
        columns.append(column)
    return np.column_stack(columns)


def _smape(predicted: FloatArray, measured: FloatArray) -> float:
    """Return the symmetric mean absolute percentage error."""
    return float(200 * np.mean(np.abs(predicted - measured) / (np.abs(predicted) + measured)))


def _adjusted_r2(fit: Fit, points: FloatArray, measured: FloatArray) -> float:
    """Return R² for as many degrees of freedom as factors leave, NaN of a constant and where none are left."""
    factors = sum(map(len, fit.structure))
    freedom = len(measured) - factors - 1
    total = np.sum((measured - measured.mean()) ** 2)
    if not factors or freedom < 1 or total == 0:
        return float("nan")
    rest = np.sum((measured - fit.predict(points)) ** 2)
    return float(1 - rest / total * (len(measured) - 1) / freedom)


class _Trial(NamedTuple):
    """A formula, and the sum of squared relative errors that it leaves."""

    terms: Mapping[int, Term]
    structure: Structure
    error: float


def _alternatives(
    points: FloatArray,
    measured: FloatArray,
    fit: Fit,
    candidates: Sequence[Sequence[Term]],
    scatter: Scatter,
) -> Iterator[Alternative]:
    """Yield the formulas that the points do not reject, the one that fits relative errors best among them.

    The search begins at the formula chosen and goes on from the best of its neighbours
    (`_neighbours`) until none is better.
    """
    tried = dict[tuple[object, ...], _Trial]()
    best = _tried(points, measured, fit.terms, fit.structure, tried)
    improved = True
    while improved:
        improved = False
        for terms, structure in [*_neighbours(best, candidates)]:
            other = _tried(points, measured, terms, structure, tried)
            if other.error < best.error:
                best = other
                improved = True
    most = _most_error(best.error, points.shape, _SUREST, scatter)
    kept = [other for other in tried.values() if other.error <= most]
    for one, other in combinations(kept, 2):
        if one.structure == other.structure:
            for place in one.terms:
                terms = {**one.terms, place: other.terms[place]}
                _tried(points, measured, terms, one.structure, tried)
    for other in tried.values():
        if other.error <= most:
            design, scale = _relative(points, measured, other.terms, other.structure)
            scaled = relative_fit(design, np.ones(len(measured)))
            relative = replace(
                scaled,
                coefficients=scaled.coefficients / scale,
                covariance=scaled.covariance / np.outer(scale, scale),
            )
            yield Alternative(other.terms, other.structure, relative, other.error)


def _neighbours(
    centre: _Trial, candidates: Sequence[Sequence[Term]]
) -> Iterator[tuple[Mapping[int, Term], Structure]]:
    """Yield formulas of another structure, and those with another term of one parameter."""
    if len(centre.terms) > 1:
        for structure in structures(list(centre.terms)):
            yield centre.terms, structure
    for place in centre.terms:
        for term in candidates[place]:
            yield {**centre.terms, place: term}, centre.structure


def _tried(
    points: FloatArray,
    measured: FloatArray,
    terms: Mapping[int, Term],
    structure: Structure,
    tried: dict[tuple[object, ...], _Trial],
) -> _Trial:
    """Return a formula fitted to relative errors, from those ``tried`` where it is among them."""
    key = (frozenset(structure), *terms.values())
    if key not in tried:
        error = np.inf
        design, _ = _relative(points, measured, terms, structure)
        if np.isfinite(design).all():
            coefficients = np.linalg.lstsq(design, np.ones(len(measured)), rcond=None)[0]
            residual = design @ coefficients - 1
            error = max(float(residual @ residual), _ONLY**2)
        tried[key] = _Trial(terms, structure, error)
    return tried[key]


def _relative(
    points: FloatArray, measured: FloatArray, terms: Mapping[int, Term], structure: Structure
) -> tuple[FloatArray, FloatArray]:
    """Return the design of relative errors with columns of at most 1, and by what they were divided."""
    design = _design(points, terms, structure) / measured[:, None]
    scale = np.abs(design).max(axis=0)
    scale[scale == 0] = 1.0
    return design / scale, scale


def _most_error(least: float, shape: tuple[int, ...], level: float, scatter: Scatter) -> float:
    """Return the error from which on points reject a formula, by the ratio of likelihoods.

    An error that the scatter of repetitions makes rejects none.
    """
    count, parameters = shape
    scattered = max(least, count * scatter.mean**2)
    return float(scattered * np.exp(stats.chi2.ppf(level, parameters) / count))
