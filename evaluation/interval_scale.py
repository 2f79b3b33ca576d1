"""How difficult each row is to predict: what makes intervals wider where a model errs more, learnt from its residuals.

The difficulty of a row is ``s = exp(power * (b_0 + sum_j b_j z_j))``, z standardised features, the
logarithm of the prediction and, in models over many devices, which of them the row is told of; b
the ridge regression of ``log |log(y / f(x))|`` on them, every group of the same weight, or on the
prediction alone, for which fewer groups are enough. Intervals that are as many times wider
(normalised conformal prediction, Papadopoulos, Vovk & Gammerman 2011) cover as many rows with less
width where difficulty can be told, and are worse where it cannot: with few groups it tells groups
apart, not rows. So the data decide (`learn_difficulty`): rows are scaled only where, on groups that
the regression has not seen, the interval score (`intervals.interval_score`) falls by more than two
standard errors, and by that of the two by which it falls most.

A group of few trained rows is predicted less surely than one of many. Within the question of known groups the
radius is that of a stratum of groups by their trained rows (`Strata`; Mondrian conformal
prediction, Vovk, Lindsay, Nouretdinov & Gammerman 2003). Where a stratum has few rows it is shrunk
to what is expected of it: something between the radius of all rows and that of new groups, nearer
to the latter the fewer of the group's rows are trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..arrays import BoolArray, FloatArray
from ..models.ensembles import HOST_CAMPAIGN
from .domain import LOG_PREFIX
from .folds import drawn, make_folds
from .intervals import (
    LEVEL,
    ConformalIntervals,
    conformal_quantile,
    cross_bounds,
    interval_score,
    log_ratio,
)

# of the difficulty found, how much is believed (0: intervals of one radius)
POWERS: Final = (
    0.5,
    1.0,
)
PENALTY: Final = 0.1  # of the ridge regression on standardised columns, per row
FOLDS: Final = 5
MOST_ROWS: Final = 15_000  # rows, drawn at random, that it is learnt and judged on
SURE: Final = 2.0  # standard errors by which the interval score must fall
LEAST_GROUPS: Final = 10  # groups below which no standard error can be trusted
_SMALLEST: Final = 0.05  # quantile of |r| under which residuals count as that: chance hits say nothing of difficulty
_FAR: Final = 300.0  # logarithm of a scale beyond which it, and what it widens, would overflow
_TOLD: Final = 3  # features named
_EXACT: Final = 1e-6  # |r| under which it is rounding
ON_DEVICE: Final = "on device="
"""How columns begin that say which device a row is told of, in models over many devices."""
LEAST_OF_DEVICE: Final = 100  # rows of a device that tell how difficult it is
_AT_ONCE: Final = 100_000  # rows of which all columns are held once more
_LIMITS: Final = (0.01, 0.99)  # quantiles of the difficulties seen, beyond which none is believed
STRATA: Final = (10, 25, 60, 200)
"""Trained rows of a group up to which it is of the first stratum, the second, ...; those of more are of the last."""
PRIOR_ROWS: Final = 10  # rows that what is expected of a stratum is worth
_TYPICAL_ROWS: Final = np.array([5.0, 17.0, 42.0, 130.0, np.inf])
"""Trained rows of a group of each stratum, about the middle of its limits."""
HALF_KNOWN: Final = 5
"""Trained rows that take half of the excess variance of a new group away; 10 and 20 would hold 1 to 2 % more rows
of barely known groups, at 5 to 10 % more width."""


@dataclass(frozen=True)
class Difficulty:
    """A learnt difficulty of rows."""

    names: tuple[str, ...]  # features it asks for
    # mean and standard deviation of each column and its coefficient; the logarithm of the
    # prediction is the last; shape (n_names + 1,)
    middle: FloatArray
    spread: FloatArray
    weights: FloatArray
    intercept: float
    power: float = 1.0
    # least and largest difficulty that is believed
    low: float = 0.0
    high: float = np.inf

    def scale(
        self, X: pd.DataFrame, predicted: ArrayLike, devices: ArrayLike | None = None
    ) -> FloatArray:
        """Return the difficulty of rows, (n,), from their features (n × p), predictions and devices (n,); > 0."""
        p = np.asarray(predicted, dtype=np.float64)
        scales = np.empty(len(X))
        if devices is None:
            named = None
        else:
            named = np.asarray(devices, dtype=object)
        for first in range(0, len(X), _AT_ONCE):
            rows = slice(first, first + _AT_ONCE)
            devices_of = None
            if named is not None:
                devices_of = named[rows]
            scales[rows] = self._scale(
                _columns(X.iloc[rows], self.names, p[rows], devices=devices_of)
            )
        return scales

    def _scale(self, columns: FloatArray) -> FloatArray:
        z = (columns - self.middle) / self.spread
        exponent = np.clip(self.power * (self.intercept + z @ self.weights), -_FAR, _FAR)
        return np.clip(np.exp(exponent), self.low, self.high)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON holds."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return what `to_dict` described; a KeyError, TypeError or ValueError where it is damaged."""
        names = tuple(map(str, saved["names"]))
        middle, spread, weights = (
            np.array(saved[key], dtype=np.float64) for key in ("middle", "spread", "weights")
        )
        numbers = [float(saved[key]) for key in ("intercept", "power", "low", "high")]
        same = middle.shape == spread.shape == weights.shape == (len(names) + 1,)
        finite = np.isfinite([*middle, *spread, *weights, *numbers]).all()
        if not (same and finite and (spread > 0).all() and 0 < numbers[2] <= numbers[3]):
            raise ValueError("figures of the difficulty of rows")
        return cls(names, middle, spread, weights, *numbers)


@dataclass(frozen=True)
class Strata:
    """How many times as wide the interval of a known group is, by its trained rows (`STRATA`)."""

    factors: tuple[float, ...]
    unknown: float = 1.0  # how many times as wide the interval of a new group would be, 1 or more

    @classmethod
    def learn(
        cls, scores: FloatArray, trained_rows: NDArray[np.integer], unknown: float = 1.0
    ) -> Strata:
        """Learn the factors from scores out of fold: |log ratio| over difficulty, (n,), and the rows trained, (n,).

        Of a stratum with n rows the factor is the mean of the logarithms of ``q / q_all``, with q
        the conformal quantile of its scores at `LEVEL`, and of what is `expected` of it, with the
        weights n and `PRIOR_ROWS`.
        """
        every = float(conformal_quantile(np.sort(scores), LEVEL))
        place = np.searchsorted(STRATA, trained_rows)
        factors = []
        for stratum, expected in enumerate(cls.expected(unknown)):
            part = np.sort(scores[place == stratum])
            seen = len(part) / (len(part) + PRIOR_ROWS)
            ratio = 1.0
            if len(part) and 0 < every < np.inf:
                ratio = float(conformal_quantile(part, LEVEL)) / every
            ratio = float(np.clip(ratio, _EXACT, 1 / _EXACT))
            factors.append(ratio**seen * float(expected) ** (1 - seen))
        return cls(tuple(factors), unknown)

    @staticmethod
    def expected(unknown: float) -> FloatArray:
        """Return the factor of each stratum if nobody was seen there, (n_strata,), from that of new groups.

        The variance that a new group has beside that of known ones is halved by `HALF_KNOWN`
        trained rows, and falls with their square.

        >>> Strata.expected(3.0).round(2).tolist()
        [2.24, 1.28, 1.05, 1.01, 1.0]
        """
        left = 1 / (1 + (_TYPICAL_ROWS / HALF_KNOWN) ** 2)
        return np.sqrt(1 + (unknown**2 - 1) * left)

    def scale(self, trained_rows: NDArray[np.integer]) -> FloatArray:
        """Return the factor of each row, (n,), by the trained rows of its group."""
        return np.array(self.factors)[np.searchsorted(STRATA, trained_rows)]

    @classmethod
    def from_list(cls, saved: Sequence[float]) -> Self:
        """Return the strata of a manifest; a TypeError or ValueError where it is damaged."""
        factors = tuple(float(factor) for factor in saved)
        if len(factors) != len(STRATA) + 1 or not all(0 < factor < np.inf for factor in factors):
            raise ValueError("factors of strata must be positive, one for each")
        return cls(factors)


@dataclass(frozen=True)
class Spread:
    """Intervals that answer one question, new rows or new groups, with what scales them."""

    intervals: ConformalIntervals
    difficulty: Difficulty | None  # None where rows have one radius
    strata: Strata | None = None  # of known groups alone

    def scale(
        self,
        X: pd.DataFrame,
        predicted: ArrayLike,
        devices: ArrayLike | None = None,
        trained_rows: NDArray[np.integer] | None = None,
    ) -> FloatArray:
        """Return how many times as wide the interval of each row is, (n,), as `Difficulty.scale` and `Strata.scale`."""
        scale = np.ones(len(X))
        if self.difficulty is not None:
            scale = self.difficulty.scale(X, predicted, devices)
        if self.strata is not None and trained_rows is not None:
            scale = scale * self.strata.scale(trained_rows)
        return scale

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON holds."""
        return {
            "intervals": self.intervals.to_dict(),
            "difficulty": self.difficulty and self.difficulty.to_dict(),
            "strata": self.strata and list(self.strata.factors),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return what `to_dict` described; a KeyError, TypeError or ValueError where it is damaged."""
        if saved.get("difficulty"):
            difficulty = Difficulty.from_dict(saved["difficulty"])
        else:
            difficulty = None
        if saved.get("strata"):
            strata = Strata.from_list(saved["strata"])
        else:
            strata = None
        return cls(ConformalIntervals.from_dict(saved["intervals"]), difficulty, strata)


@dataclass(frozen=True)
class Learnt:
    """A difficulty for new rows, and that of the rows it was learnt from by fits to other groups, (n,)."""

    difficulty: Difficulty
    scale: FloatArray

    def summary(self) -> dict[str, Any]:
        """Return, fit for JSON, the deciles of how wide intervals are against the middle one, and what tells most."""
        tenth, ninth = np.quantile(self.scale / np.median(self.scale), (0.1, 0.9))
        strongest = np.argsort(-np.abs(self.difficulty.weights), kind="stable")[:_TOLD]
        names = [*self.difficulty.names, "predicted"]
        return {
            "power": self.difficulty.power,
            "widths": [float(tenth), float(ninth)],
            "features": [names[place] for place in strongest],
        }


def learn_difficulty(
    X: pd.DataFrame,
    observed: ArrayLike,
    predicted: ArrayLike,
    groups: ArrayLike,
    scheme: str,
    *,
    rows: BoolArray | None = None,
    devices: ArrayLike | None = None,
) -> Learnt | None:
    """Learn how difficult rows are from predictions out of fold under ``scheme``.

    ``observed``, ``predicted`` and ``groups`` are (n,), X has n rows, or more of which ``rows``
    says which are meant (which saves a copy). ``devices`` (n,) are those that the rows are told of,
    where one may be harder than another. None where intervals of one radius are as good, or there
    are fewer than ten groups.
    """
    y = np.asarray(observed, float)
    p = np.asarray(predicted, float)
    names = _names(X, devices)
    return _learn(names, _columns(X, names, p, rows, devices), y, p, np.asarray(groups), scheme)


def _learn(
    names: tuple[str, ...],
    columns: FloatArray,
    y: FloatArray,
    p: FloatArray,
    groups: NDArray[Any],
    scheme: str,
) -> Learnt | None:
    """Return what `learn_difficulty` does, from its columns (n × (p + 1))."""
    code = pd.factorize(groups, sort=True)[0]
    residuals = np.abs(log_ratio(y, p))
    if (
        code.max(initial=-1) + 1 < LEAST_GROUPS
        or not np.isfinite(residuals).all()
        or not residuals.any()
    ):
        return None
    folds = make_folds("grouped", code, len(y), FOLDS)
    some = drawn(np.ones(len(y), dtype=bool), MOST_ROWS)
    codes = np.unique(code[some], return_inverse=True)[1]

    def score(scale: FloatArray) -> FloatArray:
        lower, upper = cross_bounds(
            y[some], p[some], codes, folds[some], LEVEL, scheme, scale=scale[some]
        )
        return np.bincount(codes, interval_score(y[some], lower, upper, LEVEL)) / np.bincount(codes)

    plain = score(np.ones(len(y)))
    largest = 0.0
    best = None
    for asked in dict.fromkeys((names, ())):
        Z = _asked_columns(asked, columns)
        logs = np.empty(len(y))
        # the logarithm of each row's difficulty, by what the other folds know
        for fold in np.unique(folds):
            rest = some & (folds != fold)
            test = folds == fold
            fitted = _fit(asked, Z[rest], residuals[rest], code[rest])
            logs[test] = np.log(fitted._scale(Z[test]))
        logs = np.clip(logs, *np.quantile(logs, _LIMITS))
        for power in POWERS:
            # a scale may fail by any factor: then nothing is sure
            with np.errstate(over="ignore", invalid="ignore"):
                gains = plain - score(np.exp(power * logs))
                mean = float(gains.mean())
                sure = SURE * gains.std(ddof=1) / np.sqrt(len(plain))
            if mean > max(sure, largest):
                largest = mean
                best = (asked, power, np.exp(power * logs))
    if best is None:
        return None
    asked, power, scale = best
    whole = _fit(asked, _asked_columns(asked, columns)[some], residuals[some], code[some])
    return Learnt(
        replace(whole, power=power, low=float(scale.min()), high=float(scale.max())), scale
    )


def held_out_limits(
    X: pd.DataFrame,
    observed: ArrayLike,
    predicted: ArrayLike,
    groups: ArrayLike,
    folds: ArrayLike,
    level: float,
    scheme: str,
    *,
    rows: BoolArray | None = None,
    devices: ArrayLike | None = None,
    trained_rows: NDArray[np.integer] | None = None,
    unknown: float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper end of every row's interval, (n,): all that it rests on is learnt without its fold.

    ``folds`` (n,) are those of ``scheme``, under which ``predicted`` is out of fold,
    ``trained_rows`` (n,) the rows of the group of each in the other folds, where intervals have
    strata by them, and ``unknown`` how much wider new groups are; else as `learn_difficulty`.
    """
    y = np.asarray(observed, float)
    p = np.asarray(predicted, float)
    fold = np.asarray(folds)
    features = _names(X, devices)
    group_of = np.asarray(groups)
    columns = _columns(X, features, p, rows, devices)
    lower, upper = np.full((2, len(y)), np.nan)
    for held_out in np.unique(fold):
        rest = fold != held_out
        test = fold == held_out
        learnt = _learn(features, columns[rest], y[rest], p[rest], group_of[rest], scheme)
        of_rest = np.ones(rest.sum())
        of_test = np.ones(test.sum())
        if learnt is not None:
            of_rest = learnt.scale
            of_test = learnt.difficulty._scale(
                _asked_columns(learnt.difficulty.names, columns)[test]
            )
        if trained_rows is not None:
            scores = np.abs(log_ratio(y[rest], p[rest])) / of_rest
            strata = Strata.learn(scores, trained_rows[rest], unknown)
            of_rest = of_rest * strata.scale(trained_rows[rest])
            of_test = of_test * strata.scale(trained_rows[test])
        intervals = ConformalIntervals(scheme).fit(
            y[rest], p[rest], group_of[rest], scale=of_rest, level=level
        )
        lower[test], upper[test] = intervals.bounds(p[test], level, scale=of_test)
    return lower, upper


def _fit(
    names: tuple[str, ...], Z: FloatArray, residuals: FloatArray, code: NDArray[np.intp]
) -> Difficulty:
    """Return the difficulty of rows whose columns Z and residuals |r| are given, believed as it is."""
    weights = 1.0 / np.bincount(code)[code]
    target = np.log(np.maximum(residuals, max(np.quantile(residuals, _SMALLEST), _EXACT)))
    middle = np.average(Z, axis=0, weights=weights)
    spread = np.sqrt(np.average((Z - middle) ** 2, axis=0, weights=weights))
    spread = np.where(spread > 0, spread, 1.0)
    z = (Z - middle) / spread
    w = weights / weights.sum()
    intercept = float(w @ target)
    gram = z.T @ (w[:, None] * z)
    products = z.T @ (w * (target - intercept))
    coef = np.linalg.solve(gram + PENALTY * np.eye(z.shape[1]), products)
    return Difficulty(names, middle, spread, coef, intercept)


def _names(X: pd.DataFrame, devices: ArrayLike | None = None) -> tuple[str, ...]:
    """Return the features that tell of a row; which search chose the host's kernel tells groups apart (`Transfer`)."""
    features = [name for name in map(str, X.columns) if not name.startswith(HOST_CAMPAIGN)]
    named, counts = np.unique(
        np.asarray([] if devices is None else devices, str), return_counts=True
    )
    return (*features, *(ON_DEVICE + str(name) for name in named[counts >= LEAST_OF_DEVICE]))


def _asked_columns(names: tuple[str, ...], columns: FloatArray) -> FloatArray:
    """Return the columns that a difficulty asks for: all of them, or of no names the prediction alone."""
    return columns[:, -1 - len(names) :]


def _columns(
    X: pd.DataFrame,
    names: tuple[str, ...],
    predicted: ArrayLike,
    rows: BoolArray | None = None,
    devices: ArrayLike | None = None,
) -> FloatArray:
    """Return features and the prediction (n × (p + 1)), those in no logarithm as sign(x) log2(1 + |x|); NaN is 0.

    With ``rows`` the n are some of those of X. ``devices`` (n,) are none of the features: a name
    with `ON_DEVICE` is 1 in the rows of one.
    """
    p = np.asarray(predicted, dtype=np.float64)
    columns = np.empty((len(p), len(names) + 1))
    # one after the other: a wide table is not held several times
    for place, name in enumerate(names):
        if name.startswith(ON_DEVICE):
            if devices is None:
                columns[:, place] = 0.0
            else:
                columns[:, place] = np.asarray(devices, str) == name.removeprefix(ON_DEVICE)
            continue
        values = X[name].to_numpy(dtype=np.float64)
        values = np.nan_to_num(values if rows is None else values[rows], posinf=0.0, neginf=0.0)
        if name.startswith(LOG_PREFIX):
            columns[:, place] = values
        else:
            columns[:, place] = np.sign(values) * np.log2(1 + np.abs(values))
    columns[:, -1] = np.log2(np.where(p > 0, p, 1.0))
    return columns
