"""What is predicted outside the trained range: the model fades into a simple rule, and the interval follows.

What a learner knows beyond its data ends soon; a sum of times goes on. For a row d doublings
outside (`domain`), ``log t = w log f + (1 - w) log g`` with ``w = max(0, 1 - d / D)``: at the edge
the model's f, from D doublings on the rule's g. What one operator has not reached another may have:
predictions fade by the range of all of them, intervals widen by that of the row's own, and as much
more as it erred than others. Which rule, the fade D and the widths are learnt by leaving ranges
out: in each operator the quarter of largest work is predicted from the rest, and the quarter of
least (of few rows half from half). So what is said of new ranges was measured on ranges that no fit
had seen, at the price of two fits. Ranges left out cannot show a knee or a step that lies just
outside all of them: an interval holds what either rule alone says from one doubling on, and is wide
where the two disagree.

Of workloads that a model knows nothing of, an analytic law speaks at the rates that training
reached (`FallbackLaw`): the roofline (with a host, its measured time scaled by the ratio of the
rooflines: the row keeps the rate that it reached there), stretched to what was measured: ``t = a +
b law``, a and b >= 0. How far other operators and number formats lie from such a line is measured
by leaving each kind out; where training has fewer than three kinds, by a factor that was measured
elsewhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray
from ..features.matrix import Dataset
from ..laws.computation import ROOFLINE
from ..laws.user_law import titled
from ..models.base import Candidate
from ..models.baselines import AdditiveTime, Affine
from ..models.suite import additive_base
from ..remarks import Remark, remark
from .competition import REFERENCE, columnar, fit_all
from .domain import OPERATORS, WIDENING, trained_range
from .folds import drawn, make_folds
from .intervals import LEVEL, ConformalIntervals, Coverage, covered, log_ratio
from .metrics import ape

WIDER: Final = {True: 4.0, False: 10.0}
"""Factor of the half-width (log scale) where fewer than three kinds were trained, with a host and without.

The line fitted to each one of 15 PyTorch operators (MI100 -> MI210) and of 6 kinds of MIOpen
convolutions (MI210 -> MI300X) covered 90 and 99 % of the rows of the others within so many times
its own 90 % quantile; without a host 91 and over 99 %."""
LEAST_KINDS: Final = 3
LEAST_ROWS_OF_LINE: Final = 10
MOST_ROWS: Final = 2000  # rows that one line is fitted to, evenly spread over the table


@dataclass(frozen=True)
class FallbackLaw:
    """A law at the rates of the training rows."""

    law: str  # its name (`features.roofline`)
    # a, in the unit of the metric, and b
    intercept: float
    ratio: float
    intervals: ConformalIntervals  # for rows of kinds that were never trained

    def predict(self, laws: pd.DataFrame) -> FloatArray:
        """Return its prediction, (n,), from the laws' columns; NaN where the law has no value."""
        return self.intercept + self.ratio * laws[self.law].to_numpy(dtype=float)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON holds."""
        return {**vars(self), "intervals": self.intervals.to_dict()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return what `to_dict` described; a KeyError, TypeError or ValueError where it is damaged."""
        intercept = float(saved["intercept"])
        ratio = float(saved["ratio"])
        if not (0 <= intercept < np.inf and 0 <= ratio < np.inf):
            raise ValueError("intercept and ratio of the law must be 0 or more")
        return cls(
            str(saved["law"]), intercept, ratio, ConformalIntervals.from_dict(saved["intervals"])
        )


def learn_law(dataset: Dataset) -> FallbackLaw | None:
    """Return the law at the rates of the training rows; None for metrics without laws, or too few rows that have it.

    That is the roofline, which needs no more of a GPU than its peaks and its bandwidth; of a metric
    without one the last law. A user's law is none of these.
    """
    law_names = {
        titled(law, scaling=dataset.host is not None) for law in dataset.recipe.additions.laws
    }
    names = []
    for name in map(str, dataset.laws):
        if name not in law_names:
            names.append(name)
    if not names:
        return None
    name = next((name for name in names if ROOFLINE.title in name), names[-1])
    values = dataset.laws[name].to_numpy(dtype=float)
    finite = np.isfinite(values)
    if finite.sum() < LEAST_ROWS_OF_LINE:
        return None
    x = values[finite]
    y = dataset.y[finite]
    named = dataset.rows["op"].astype(str) + " " + dataset.rows["compute_dtype"].astype(str)
    kinds, names = pd.factorize(named[finite], sort=True)
    line = _line(x, y)
    if len(names) >= LEAST_KINDS:
        predicted = np.empty(len(y))
        for kind in range(len(names)):
            a, b = _line(x[kinds != kind], y[kinds != kind])
            predicted[kinds == kind] = a + b * x[kinds == kind]
        intervals = ConformalIntervals("grouped").fit(y, predicted, kinds)
    else:
        intervals = ConformalIntervals("kfold").fit(y, line[0] + line[1] * x, np.arange(len(y)))
        intervals.radii_ = intervals.radii_ * WIDER[dataset.host is not None]
    return FallbackLaw(name, *line, intervals)


def _line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return a and b of ``y = a + b x``, fitted to relative error."""
    places = np.linspace(0, len(x) - 1, min(len(x), MOST_ROWS))
    some = np.unique(places.astype(int))
    line = Affine().fit(x[some, None], y[some])
    return line.intercept_, line.ratio_


FADES: Final = (1.0, 2.0, 4.0)
"""Doublings outside the range, from which on the rule alone counts, among which one is chosen."""
PREFERENCE: Final = 1.02
"""The line is the rule, unless the sum of terms errs so many times less: it has more to learn from fewer rows."""
END: Final = 0.25  # share of each operator's rows that is left out as its largest, and as its least
ENOUGH: Final = 200  # where the ends of all operators have fewer rows, they are larger, up to half
MOST_TRIED: Final = 40_000
"""Rows, drawn at random, whose ends are left out: what lies there makes the errors, not how many rows tell of it."""
# rows of each end that there must be, and rows outside the range of the others
LEAST_ROWS: Final = 20
OTHERS: Final = 100.0
"""Rows that all other operators together count as, where it is asked how much more one of them errs.

In 12 splits of 15 operators (two pairs, one device, a quarter of the rows) that made intervals 11 %
narrower at the same coverage; 20 to 200 rows made it 15 to 8 %.
"""


@dataclass(frozen=True)
class Rule:
    """A sum of terms with coefficients >= 0: ``g = max(c_0 + sum_j c_j x_j, least)``."""

    name: str  # ``affine``, the line of the reference, or ``additive``, the base that residuals are learnt over
    terms: tuple[str, ...]  # the columns x: features, or ``reference``
    # intercept first; the shared ones in row 0, then those of each class; shape (n_classes + 1,
    # n_terms + 1)
    coefficients: FloatArray
    classes: tuple[str, ...] = ()  # 0/1 columns of the classes with their coefficients
    least: float = 0.0  # the least prediction

    def predict(self, X: pd.DataFrame, reference: FloatArray) -> FloatArray:
        """Return the rule's value of every row, (n,), from features (n × p) and what baselines scale (n,)."""
        columns = [np.ones(len(X))]
        for name in self.terms:
            values = reference
            if name != REFERENCE:
                values = X[name].to_numpy(dtype=float)
            columns.append(np.maximum(values, 0.0))
        terms = np.column_stack(columns)
        predicted = terms @ self.coefficients[0]
        for name, of_class in zip(self.classes, self.coefficients[1:], strict=True):
            rows = X[name].to_numpy() > 0.5
            predicted[rows] = terms[rows] @ of_class
        return np.maximum(predicted, self.least)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON holds."""
        return {**vars(self), "coefficients": self.coefficients.tolist()}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return what `to_dict` described; a KeyError, TypeError or ValueError where it is damaged."""
        terms = tuple(map(str, saved["terms"]))
        classes = tuple(map(str, saved["classes"]))
        coefficients = np.array(saved["coefficients"], dtype=np.float64)
        least = float(saved["least"])
        if (
            coefficients.shape != (len(classes) + 1, len(terms) + 1)
            or not (coefficients >= 0).all()
        ):
            raise ValueError("coefficients of the rule outside the trained range")
        if not least >= 0:
            raise ValueError("least value of the rule outside the trained range")
        return cls(str(saved["name"]), terms, coefficients, classes, least)


def fit_rules(
    X: pd.DataFrame, y: FloatArray, reference: FloatArray, base: AdditiveTime
) -> Iterator[Rule]:
    """Yield the rules fitted to training rows: the line of the reference, and the sum of terms ``base``."""
    line = Affine(REFERENCE).fit(pd.DataFrame({REFERENCE: reference}), y)
    yield Rule("affine", (REFERENCE,), np.array([[line.intercept_, line.ratio_]]))
    total = base.fit(X, y)
    names = [str(name) for name in X.columns]
    terms = tuple(names[column] for column in total.term_columns_)
    classes = tuple(names[column] for column in total.class_columns_)
    yield Rule("additive", terms, total.coef_, classes, total.smallest_)


@dataclass(frozen=True)
class Beyond:
    """How a model goes on outside its trained range."""

    rule: Rule  # fitted to all rows
    fade: float  # d, in doublings
    # of the rule where it counts alone, calibrated on the ranges left out (see
    # `ConformalIntervals.outside`)
    intervals: ConformalIntervals
    # 0/1 feature of an operator -> how many times wider these intervals are in its rows (see
    # `errors_by_operator`)
    wider: Mapping[str, float]
    # the rule that was not chosen: an interval holds what either says (`second`). None in runs of
    # earlier versions.
    other: Rule | None
    # what it did on those ranges, rule and fade of each end being chosen on the other: ``rows``
    # outside, ``e_out`` (%), beside it those of the ``model`` and of the line alone, and
    # `intervals.Coverage` of the intervals
    found: Mapping[str, Any]

    def share(self, distance: FloatArray) -> FloatArray:
        """Return the share of the rule, 1 - w, or of its interval, for rows so many doublings outside."""
        return np.clip(distance / self.fade, 0.0, 1.0)

    def second(
        self, model: FloatArray, X: pd.DataFrame, reference: FloatArray, distance: FloatArray
    ) -> list[FloatArray]:
        """Return the prediction of each rule alone from one doubling outside on, (n,) each; nothing in earlier runs."""
        if self.other is None:
            return []
        share = np.clip(distance / FADES[0], 0.0, 1.0)
        return [blend(model, one.predict(X, reference), share) for one in (self.rule, self.other)]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON types, without `found`."""
        return {
            "rule": self.rule.to_dict(),
            "fade": self.fade,
            "intervals": self.intervals.to_dict(),
            "wider": dict(self.wider),
            "other": self.other and self.other.to_dict(),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return what `to_dict` described; a KeyError, TypeError or ValueError where it is damaged."""
        fade = float(saved["fade"])
        if not fade > 0:
            raise ValueError("fade of the rule outside the trained range")
        if saved.get("other"):
            other = Rule.from_dict(saved["other"])
        else:
            other = None
        wider = {str(name): float(times) for name, times in saved.get("wider", {}).items()}
        if not all(0 < times < np.inf for times in wider.values()):
            raise ValueError("widths of operators outside the trained range")
        intervals = ConformalIntervals.from_dict(saved["intervals"])
        return cls(Rule.from_dict(saved["rule"]), fade, intervals, wider, other, {})


def fixed_widening() -> Remark:
    """Return what to say of a model without a `Beyond`: the rule of its intervals outside was never measured."""
    text = (
        "outside the trained range the model still answers, and its intervals widen by a fixed "
        f"{WIDENING:.0%} per doubling, a figure that was not measured: measuring it takes "
        f"{LEAST_ROWS} rows at each end of a range, to be left out of training"
    )
    return remark("fixed-widening", text, widening=WIDENING, least=LEAST_ROWS)


def blend(model: FloatArray, rule: FloatArray, share: FloatArray) -> FloatArray:
    """Return ``exp((1 - share) log model + share log rule)``; what is not positive has no part in it.

    >>> blend(np.array([2.0, 2.0, -1.0]), np.array([8.0, 8.0, 8.0]), np.array([0.0, 0.5, 0.5])).round(6).tolist()
    [2.0, 4.0, 8.0]
    """
    weight = np.where(model > 0, share, np.where(share > 0, 1.0, 0.0))
    mixed = (weight > 0) & (rule > 0)
    logs = (1 - weight) * np.log(np.where(model > 0, model, 1.0)) + weight * np.log(
        np.where(rule > 0, rule, 1.0)
    )
    return np.where(mixed, np.exp(logs), model)


def limits(
    intervals: ConformalIntervals,
    predicted: FloatArray,
    others: Sequence[FloatArray],
    level: float,
    **options: Any,
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of intervals that also contain the other predictions, (n,).

    ``others`` are predictions by each rule alone from one doubling outside on (`FADES`), (n,) each.
    Intervals, level and options are those of `ConformalIntervals.bounds`.
    """
    lower, upper = intervals.bounds(predicted, level, **options)
    scaled = {name: value for name, value in options.items() if name in ("scale", "widen")}
    for other in others:
        low, high = intervals.bounds(other, level, **scaled)
        unknown = np.isnan(low)
        lower = np.minimum(lower, np.where(unknown, lower, low))
        upper = np.maximum(upper, np.where(unknown, upper, high))
    return lower, upper


def learn_beyond(
    dataset: Dataset,
    candidate: Candidate,
    scheme: str,
    predicted: FloatArray,
    scale: FloatArray | None = None,
    within: BoolArray | None = None,
) -> Beyond | None:
    """Learn from ranges left out how a model goes on outside its trained range.

    ``predicted`` (n,) are its out-of-fold predictions under ``scheme``, for which its intervals are
    calibrated on the rows ``within`` (n,), by default all; ``scale`` (n,) is how many times as wide
    the interval of each is. None where there are too few rows of different size, or the model
    cannot be fitted to the others.
    """
    if within is None:
        within = np.ones(len(dataset), dtype=bool)
    some = drawn(np.ones(len(dataset), dtype=bool), MOST_TRIED)
    if scale is None:
        near = np.ones(some.sum())
    else:
        near = scale[some]
    dataset = dataset.taken(some)
    predicted = predicted[some]
    within = within[some]
    ends, unpaired = _ends(dataset)
    if min((ends > 0).sum(), (ends < 0).sum()) < LEAST_ROWS:
        return None
    try:
        left_out = _LeftOut.of(dataset, candidate, scheme, ends, unpaired)
    except Exception:  # of a model that was fitted before: the rest of the rows is too few for it
        return None
    name, fade = left_out.chosen(dataset.y, (ends > 0, ends < 0))
    rules = fit_rules(
        dataset.X, dataset.y, dataset.reference.to_numpy(float), additive_base(columnar(dataset))
    )
    rule, other = sorted(rules, key=lambda one: one.name != name)
    wide = np.clip(left_out.distance / fade, 0.0, 1.0)
    if (wide > 0).sum() < LEAST_ROWS:
        return None
    mixed = left_out.mixed(name, fade)
    inside = ConformalIntervals(scheme).fit(
        dataset.y[within], predicted[within], dataset.groups[within], scale=near[within]
    )
    wider = errors_by_operator(dataset.X[wide > 0], log_ratio(dataset.y, mixed)[wide > 0])
    times = by_operator(dataset.X, wider)
    intervals = inside.outside(dataset.y, mixed, dataset.groups, wide, scale=near, wider=times)
    judged, wide = left_out.judged(dataset.y, ends)
    second = [left_out.mixed(one, FADES[0]) for one in left_out.rules]
    out = wide > 0
    if not out.any():
        return None
    figures = {
        "rule": name,
        "fade": fade,
        "rows": int(out.sum()),
        **_coverage(dataset, scheme, predicted, judged, second, wide, near, within)._asdict(),
        **{
            key: float(ape(dataset.y[out], values[out]).mean())
            for key, values in (
                ("e_out", judged),
                ("e_out_model", left_out.model),
                ("e_out_affine", left_out.rules["affine"]),
            )
        },
    }
    return Beyond(rule, fade, intervals, wider, other, figures)


@dataclass(frozen=True)
class _LeftOut:
    """Predictions of the rows at the ends by fits to all others, NaN between; arrays of shape (n,)."""

    model: FloatArray
    rules: dict[str, FloatArray]
    distance: FloatArray
    """Doublings outside the range of the row's operator among the others."""
    common: FloatArray
    """Doublings outside the range of all of them."""

    @classmethod
    def of(
        cls,
        data: Dataset,
        candidate: Candidate,
        scheme: str,
        ends: NDArray[np.int8],
        unpaired: NDArray[np.int8],
    ) -> _LeftOut:
        model = np.full(len(data), np.nan)
        (distance, common) = np.zeros((2, len(data)))
        rules: dict[str, FloatArray] = {}
        reference = data.reference.to_numpy(float)
        base = additive_base(columnar(data))
        for end in (1, -1):
            train = ends != end
            test = ends == end
            X = data.X[train].reset_index(drop=True)
            rest = data.X[test].reset_index(drop=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model[test] = fit_all(data, candidate, scheme, train, unpaired != end).predict(rest)
            check = trained_range(X).check(rest)
            distance[test] = check.distance
            common[test] = check.common
            for rule in fit_rules(X, data.y[train], reference[train], base):
                rules.setdefault(rule.name, np.full(len(data), np.nan))[test] = rule.predict(
                    rest, reference[test]
                )
        return cls(model, rules, distance, common)

    def mixed(self, rule: str, fade: float) -> FloatArray:
        """Return the predictions with a rule and a fade."""
        return blend(self.model, self.rules[rule], np.clip(self.common / fade, 0.0, 1.0))

    def judged(self, y: FloatArray, ends: NDArray[np.int8]) -> tuple[FloatArray, FloatArray]:
        """Return predictions, and shares of the half-width, of each end by the choice the other end alone makes."""
        mixed = np.full(len(y), np.nan)
        wide = np.zeros(len(y))
        for rest, other in ((ends > 0, ends < 0), (ends < 0, ends > 0)):
            name, fade = self.chosen(y, (other,))
            wide[rest] = np.clip(self.distance[rest] / fade, 0.0, 1.0)
            mixed[rest] = self.mixed(name, fade)[rest]
        return mixed, wide

    def chosen(self, y: FloatArray, ends: Sequence[BoolArray]) -> tuple[str, float]:
        """Return rule and fade with the least mean error over the ends."""

        def error(choice: tuple[str, float]) -> float:
            name, fade = choice
            errors = ape(y, self.mixed(name, fade))
            handicap = PREFERENCE
            if name == "affine":
                handicap = 1.0
            return handicap * float(sum(errors[end].mean() for end in ends))

        return min(product(self.rules, FADES), key=error)


def errors_by_operator(X: pd.DataFrame, errors: FloatArray) -> dict[str, float]:
    """Return by 0/1 feature of an operator how many times as large its errors are as those of all rows.

    ``errors`` (n,), on the log scale, are those of rows outside the trained range. Of an operator
    with few of them its own say little: all others together count like `OTHERS` rows.
    """

    def reach(weights: FloatArray) -> float:
        return float(np.quantile(np.abs(errors), LEVEL, weights=weights, method="inverted_cdf"))

    reaches = {}
    whole = reach(np.ones(len(X)))
    for name in (str(name) for name in X if str(name).startswith(OPERATORS) and whole > 0):
        of_operator = X[name].to_numpy() > 0.5
        if of_operator.any() and not of_operator.all():
            reaches[name] = reach(np.where(of_operator, 1.0, OTHERS / np.sum(~of_operator))) / whole
    return {name: times for name, times in reaches.items() if 0 < times < np.inf}


def by_operator(X: pd.DataFrame, wider: Mapping[str, float]) -> FloatArray:
    """Return the figure of each row's operator, (n,); 1 where it has none."""
    times = np.ones(len(X))
    for name, factor in wider.items():
        times[X[name].to_numpy() > 0.5] = factor
    return times


def share_left_out(rows: int) -> float:
    """Return which share of so many rows is left out as the largest, and as the least."""
    return min(max(END, ENOUGH / rows), 0.5)


def _ends(dataset: Dataset) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return for paired and unpaired rows 1 at the end of largest work of their operator, -1 at the least, else 0.

    Where work is unknown the reference stands for it, which unpaired rows lack: all of them are 0.
    """
    has_work = np.isfinite(dataset.rows["flops"]).all()
    size = pd.Series(dataset.rows["flops"] if has_work else dataset.reference).reset_index(
        drop=True
    )
    op = dataset.rows["op"].astype(str).reset_index(drop=True)
    by_op = size.groupby(op)
    share = share_left_out(len(dataset))
    low = by_op.quantile(share)
    high = by_op.quantile(1 - share)

    def ends(size: pd.Series, op: pd.Series) -> NDArray[np.int8]:
        above = (size > op.map(high)).to_numpy()
        return above.astype(np.int8) - (~above & (size <= op.map(low)).to_numpy())

    extra = dataset.unpaired
    if extra is None:
        return ends(size, op), np.zeros(0, dtype=np.int8)
    if not has_work:
        return ends(size, op), np.zeros(len(extra.rows), dtype=np.int8)
    return ends(size, op), ends(extra.rows["flops"].astype(float), extra.rows["op"].astype(str))


def _coverage(
    dataset: Dataset,
    scheme: str,
    predicted: FloatArray,
    mixed: FloatArray,
    second: Sequence[FloatArray],
    share: FloatArray,
    near: FloatArray,
    within: BoolArray,
) -> Coverage:
    """Return the coverage of intervals outside the range, calibrated without the groups that they are tested on."""
    y = dataset.y
    groups = dataset.groups
    many = len(pd.unique(groups)) >= 3
    folds = make_folds("grouped" if many else "kfold", groups, len(y), 5)
    lower, upper = np.full((2, len(y)), np.nan)
    for fold in np.unique(folds):
        rest = folds != fold
        test = (folds == fold) & (share > 0)
        if not (share[rest] > 0).any():
            continue
        mixed_rows = rest & within
        inside = ConformalIntervals(scheme).fit(
            y[mixed_rows], predicted[mixed_rows], groups[mixed_rows], scale=near[mixed_rows]
        )
        out = rest & (share > 0)
        times = by_operator(
            dataset.X, errors_by_operator(dataset.X[out], log_ratio(y[out], mixed[out]))
        )
        outside = inside.outside(
            y[rest], mixed[rest], groups[rest], share[rest], scale=near[rest], wider=times[rest]
        )
        options = {
            "scale": near[test],
            "outside": outside,
            "share": share[test],
            "wider": times[test],
        }
        lower[test], upper[test] = limits(
            inside, mixed[test], [one[test] for one in second], LEVEL, **options
        )
    finite = np.isfinite(lower)
    return covered(y[finite], mixed[finite], groups[finite], lower[finite], upper[finite])
