"""The range a model was trained in: which rows leave it, by which feature, and how far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray
from ..errors import DataError, few
from ..features.catalogue import PERIODIC
from ..remarks import Alike, Reasons, Remark, remark
from ..workers import in_parts

WIDENING: Final = 0.3
"""Growth of the interval's half-width (log scale) per doubling, or per trained span, outside the trained range.

The 90th percentile of |log(y / f(x))| of an additive base with trees on its residual, trained on
MI300X and MI300X -> MI355X FP8 GEMMs of M <= 64, 256 and 1024 and tried on larger M, stayed below
``1 + 0.3 d`` times the one inside the range at distances d of 1 to 6 doublings (largest seen: 2.0
at 3.5 and 2.7 at 5.5 doublings). For models that have not learnt from ranges left out
(`extrapolation`): too few rows.
"""
OPERATORS: Final = "op="  # features so named are 1 in the rows of an operator
LOG_PREFIX: Final = "log2."  # features so named are logarithms to base 2 already
_FURTHEST: Final = 20.0  # doublings; a zero where only positive values were trained is this far
_TOLERANCE: Final = 0.014  # doublings or spans: a hundredth more than was trained is less than repeats of a row differ
_NAMED: Final = 3  # features named per row


@dataclass(frozen=True)
class RangeCheck:
    """How rows lie to the trained range."""

    extrapolated: BoolArray  # whether any feature lies outside; shape (n,)
    # the features outside and by how much, the furthest first, three at most; none inside the
    # range. Codes: ``above-trained-range``, ``below-trained-range``, ``missing-value``,
    # ``never-in-training``.
    reasons: Reasons
    # distance of the furthest feature: doublings beyond the range for positive and log features,
    # trained spans for others. 0 inside. shape (n,)
    distance: FloatArray
    # factor >= 1 for the half-width of an interval on the log scale, ``1 + WIDENING * distance``;
    # shape (n,)
    widening: FloatArray
    # distance from the range of all classes together: of what a class has not reached another may
    # have; shape (n,)
    common: FloatArray


@dataclass(frozen=True)
class _Outside:
    """Where n rows lie outside a range."""

    names: tuple[str, ...]  # of all features of the range
    rows: int
    distances: dict[int, FloatArray]  # by feature that any row leaves that of each row, 0 inside

    def furthest(self) -> FloatArray:
        """Return the distance of the furthest feature of each row, (n,)."""
        furthest = np.zeros(self.rows)
        for distances in self.distances.values():
            np.maximum(furthest, distances, out=furthest)
        return furthest

    def furthest_first(self, named: int) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """Yield features and the rows of which each is the furthest, then the second, ..., ``named`` of each row."""
        rows = np.flatnonzero(self.furthest() > 0)
        left = {feature: distances[rows] for feature, distances in self.distances.items()}
        for _ in range(min(named, len(left))):
            furthest = np.zeros(len(rows))
            feature_of_rows = np.full(len(rows), -1)
            for feature, distances in left.items():
                feature_of_rows[distances > furthest] = feature
                np.maximum(furthest, distances, out=furthest)
            for feature, distances in left.items():
                at = np.flatnonzero(feature_of_rows == feature)
                if len(at):
                    yield feature, rows[at]
                    distances[at] = 0.0

    def ignore(self, unknown: Mapping[str, BoolArray] | None, rows: NDArray[np.intp]) -> None:
        """Set the distances to zero in the features that are ``unknown`` of all rows; these are at ``rows``."""
        for name, without in (unknown or {}).items():
            distances = self.distances.get(self.names.index(name))
            if distances is not None:
                distances[without[rows]] = 0.0


@dataclass(frozen=True)
class TrainedRange:
    """Smallest and largest value of every feature in training.

    Large products say nothing of large sums: where rows belong to classes (operators), each row is
    held against a separate range.
    """

    names: tuple[str, ...]  # features in training order
    # smallest and largest trained value; NaN for a feature that was always missing; shape (p,)
    low: FloatArray
    high: FloatArray
    gaps: BoolArray  # whether training rows had missing values of the feature; shape (p,)
    # 0/1 feature of a class -> the range of its rows
    by_kind: Mapping[str, TrainedRange] = field(default_factory=dict)

    @classmethod
    def of(cls, X: pd.DataFrame, classes: str = "") -> Self:
        """Return the range of the training features ``X`` (n rows × p named columns).

        Features whose name begins with ``classes`` are 1 in the rows of a class, which then has a
        separate range.
        """
        if classes:
            kinds = {
                str(name): X[X[name] > 0.5] for name in X.columns if str(name).startswith(classes)
            }
            return replace(
                cls.of(X), by_kind={name: cls.of(rows) for name, rows in kinds.items() if len(rows)}
            )
        if X.empty:
            raise DataError(
                "the trained range needs at least one row and one feature: there are no training "
                "data"
            )
        values = X.to_numpy(dtype=np.float64)
        # NaN where all are
        low = np.fmin.reduce(values, axis=0)
        high = np.fmax.reduce(values, axis=0)
        names = tuple(map(str, X.columns))
        has_gaps = np.any(np.isnan(values), axis=0)
        return cls(names, low, high, has_gaps)

    @classmethod
    def together(cls, parts: Sequence[TrainedRange]) -> Self:
        """Return the range of the rows of all parts, which have the same features."""
        low = np.fmin.reduce([one.low for one in parts])
        high = np.fmax.reduce([one.high for one in parts])
        gaps = np.any([one.gaps for one in parts], axis=0)
        kinds = dict.fromkeys(kind for one in parts for kind in one.by_kind)
        of_kinds = {}
        for kind in kinds:
            of_kinds[kind] = cls.together(
                [one.by_kind[kind] for one in parts if kind in one.by_kind]
            )
        return cls(parts[0].names, low, high, gaps, of_kinds)

    def check(self, X: pd.DataFrame, unknown: Mapping[str, BoolArray] | None = None) -> RangeCheck:
        """Say for each row of ``X`` whether, where and how far it leaves the range.

        Columns are found by name; a missing value counts as outside (by one unit) where none was
        missing in training. The rows, (n,), of which a feature is ``unknown`` are not held against
        its range.

        Raises
        ------
        DataError
            A trained feature is not among the columns.
        """
        values = self._values(X)
        furthest = np.zeros(len(X))
        reasons = Reasons(len(X))
        for one, rows, part in self._parts(values):
            outside = one._outside(part)
            outside.ignore(unknown, rows)
            furthest[rows] = outside.furthest()
            reasons.extend(one._reasons(part, outside), rows)
        common = furthest
        if self.by_kind:
            every = self._outside(values)
            every.ignore(unknown, np.arange(len(X)))
            common = every.furthest()
        return RangeCheck(furthest > 0, reasons, furthest, 1.0 + WIDENING * furthest, common)

    def holds(self, X: pd.DataFrame) -> BoolArray:
        """Return which rows of ``X`` do not leave the range, (n,), as `check` says."""
        values = self._values(X)
        inside = np.ones(len(X), dtype=bool)
        for one, rows, part in self._parts(values):
            inside[rows] = ~(one._outside(part).furthest() > 0)
        return inside

    def places(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return where the first row of ``X`` lies: ``feature``, ``value``, ``low``, ``high``, ``place``, ``distance``.

        `place` is 0 at the lower end of the range and 1 at the upper one (of positive features by
        their logarithms), NaN of a feature that is one value; `distance` is that of `RangeCheck`.
        The furthest outside come first, then those nearest to an end.
        """
        columns = self._values(X[:1])
        values = np.concatenate(columns)
        limits = next(one for one, _, _ in self._parts(columns))
        positive = limits._is_ratio & (values > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high, at = (
                np.where(positive, np.log(one), one) for one in (limits.low, limits.high, values)
            )
            place = (at - low) / np.where(high > low, high - low, np.nan)
        places = pd.DataFrame(
            {"feature": self.names, "value": values, "low": limits.low, "high": limits.high}
        )
        distances = np.zeros(len(self.names))
        for feature, distance in limits._outside(columns).distances.items():
            distances[feature] = distance[0]
        places = places.assign(place=place, distance=distances)
        order = np.lexsort((np.minimum(place, 1 - place), -places["distance"].to_numpy()))
        return places.iloc[order].reset_index(drop=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the range as JSON holds it: feature -> low, high (None if always missing), gaps, own by class."""
        state: dict[str, Any] = {
            name: {"low": _or_none(low), "high": _or_none(high), "gaps": bool(gaps)}
            for name, low, high, gaps in zip(
                self.names, self.low, self.high, self.gaps, strict=True
            )
        }
        for kind, one in self.by_kind.items():
            for name, limits in one.to_dict().items():
                state[name].setdefault("own", {})[kind] = limits
        return state

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Return the range that ``to_dict`` described."""
        if not state:
            raise ValueError("a trained range names no feature")
        entries = state.values()
        low = np.array([entry["low"] for entry in entries], dtype=np.float64)
        high = np.array([entry["high"] for entry in entries], dtype=np.float64)
        never = np.isnan(low) & np.isnan(high)
        if not (never | (np.isfinite(low) & np.isfinite(high) & (low <= high))).all():
            raise ValueError("a trained range ends before it begins, or nowhere")
        kinds = dict.fromkeys(kind for entry in entries for kind in entry.get("own", {}))
        foreign = sorted(set(kinds) - set(state))
        if foreign:
            raise ValueError(f"ranges of classes that are no features: {few(foreign)}")
        of_kinds = {}
        for kind in kinds:
            of_kinds[kind] = cls.from_dict(
                {name: entry["own"][kind] for name, entry in state.items()}
            )
        return cls(
            tuple(state),
            low,
            high,
            np.array([entry["gaps"] for entry in entries], dtype=bool),
            of_kinds,
        )

    def _parts(
        self, values: Sequence[FloatArray]
    ) -> Iterator[tuple[TrainedRange, NDArray[np.intp], Sequence[FloatArray]]]:
        """Yield the range of each class that has rows, their positions and p columns (n,); of none, the whole one."""
        rest = np.ones(len(values[0]), dtype=bool)
        parts = []
        for name, one in self.by_kind.items():
            rows = rest & (values[self.names.index(name)] > 0.5)
            rest &= ~rows
            parts.append((one, rows))
        for one, rows in (*parts, (self, rest)):
            if rows.all():
                yield one, np.arange(len(rows)), values
            elif rows.any():
                yield one, np.flatnonzero(rows), [column[rows] for column in values]

    @cached_property
    def _is_log(self) -> BoolArray:
        return np.array([name.startswith(LOG_PREFIX) for name in self.names], dtype=bool)

    @cached_property
    def _is_ratio(self) -> BoolArray:
        """Features without a zero or a negative value in training: factors say how far a value lies outside."""
        category = np.array(["=" in name for name in self.names], dtype=bool)
        return (self.low > 0) & ~self._is_log & ~category

    def _values(self, X: pd.DataFrame) -> list[FloatArray]:
        """Return the columns of the features, p of (n,); they are not copied."""
        places = {str(name): place for place, name in enumerate(X.columns)}
        absent = [name for name in self.names if name not in places]
        if absent:
            raise DataError(f"the model was trained with features that are missing: {few(absent)}")
        values = X.to_numpy(dtype=np.float64)
        return [values[:, places[name]] for name in self.names]

    def _outside(self, values: Sequence[FloatArray]) -> _Outside:
        """Return which features any row leaves, and how far each lies outside them: of p columns (n,)."""
        outside = dict[int, FloatArray]()
        for feature, now in enumerate(values):
            with np.errstate(invalid="ignore"):
                inside = (now >= self.low[feature]) & (now <= self.high[feature])
            rows = np.flatnonzero(~inside)
            far = self._distances(feature, now[rows])
            if far.any():
                of_rows = np.zeros(len(now))
                of_rows[rows] = far
                outside[feature] = of_rows
        return _Outside(self.names, len(values[0]), outside)

    def _distances(self, feature: int, values: FloatArray) -> FloatArray:
        """Return how far values of a feature (n,) lie outside: doublings of log and positive ones, spans of others."""
        low = self.low[feature]
        high = self.high[feature]
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.maximum(np.maximum(values - high, low - values), 0.0)
            if self._is_log[feature]:
                distances = beyond
            elif self._is_ratio[feature]:
                logs = np.log2(np.maximum(values, 0.0))
                doublings = np.maximum(np.maximum(logs - np.log2(high), np.log2(low) - logs), 0.0)
                distances = np.where(beyond > 0, doublings, beyond)
            else:
                distances = 1.0 / self._spans[feature] * beyond
        distances[np.isnan(distances)] = 0.0
        if not self.gaps[feature]:
            distances[np.isnan(values)] = 1.0
        distances[distances <= _TOLERANCE] = 0.0
        return np.minimum(distances, _FURTHEST)

    @cached_property
    def _spans(self) -> FloatArray:
        """Trained spans; of a constant feature its size, at least 1."""
        span = self.high - self.low
        return np.where(span > 0, span, np.maximum(np.abs(self.high), 1.0))

    def _reasons(self, values: Sequence[FloatArray], outside: _Outside) -> Reasons:
        """Return the features outside of each row, the furthest first, as remarks; of p columns (n,)."""
        reasons = Reasons(outside.rows)
        for feature, rows in outside.furthest_first(_NAMED):
            for some, what in self._said_of(feature, values[feature][rows]):
                reasons.add(rows[some], what)
        return reasons

    def _said_of(
        self, column: int, values: FloatArray
    ) -> Iterator[tuple[NDArray[np.intp], Remark | Alike]]:
        """Yield positions among values of a feature (n,), all outside its range, and how they lie to it."""
        name = self.names[column]
        low = float(self.low[column])
        high = float(self.high[column])
        log = bool(self._is_log[column])
        ratio = bool(self._is_ratio[column])
        span = float(self._spans[column])
        missing = np.isnan(values)
        above = values > high
        if missing.any():
            yield (
                np.flatnonzero(missing),
                remark(
                    "missing-value",
                    f"{name} is missing; in training it always had a value",
                    feature=name,
                ),
            )
        if "=" in name and high == 0:
            yield (
                np.flatnonzero(~missing),
                remark("never-in-training", f"{name} never occurred in training", feature=name),
            )
            return
        # far is a factor, else a number of spans
        if log:
            scaled = np.full(len(values), True)
        else:
            scaled = ratio & (values > 0)
        ends = ("above-trained-range", high, above), ("below-trained-range", low, ~missing & ~above)
        for (code, limit, side), factor in product(ends, (True, False)):
            at = np.flatnonzero(side & (scaled == factor))
            if not len(at):
                continue
            far = _far(values[at], limit, log, factor, span)
            if log:
                meant = np.exp2(values[at])
                bound = np.exp2(limit)
            else:
                meant = values[at]
                bound = limit
            shared = {"feature": name, "limit": float(bound), "only": low == high, "factor": factor}
            values_of = {"value": meant, "far": far}
            unit = " spans"
            if factor:
                unit = "x"
            called = name
            if log:
                called = name.removeprefix(LOG_PREFIX)
            if low == high:
                trained = "only at"
            elif side is above:
                trained = "to"
            else:
                trained = "from"
            if side is above:
                way = "above"
                side_of = "beyond"
            else:
                way = "below"
                side_of = "below"
            place = f"trained {trained} {bound:.6g} (%.3g{unit} {side_of})"
            template = f"{called.replace('%', '%%')} is %.6g, {place}"
            yield (
                at,
                Alike(
                    code,
                    tuple(shared.items()),
                    values_of,
                    template,
                    f"{called} is {way} the trained range",
                ),
            )


def _far(values: FloatArray, limit: float, log: bool, factor: bool, span: float) -> FloatArray:
    """Return how far values (n,) lie from a limit: by which factor, or how many trained spans."""
    if log:
        return np.exp2(np.minimum(np.abs(values - limit), 99.0))
    if factor:
        return np.maximum(values / limit, limit / values)
    return np.abs(values - limit) / span


def trained_range(X: pd.DataFrame) -> TrainedRange:
    """Return the range of the features that have one, by operator: not of remainders, of sizes only as logarithms."""
    named = [str(name) for name in X.columns]
    kept = [name for name in named if not name.startswith(PERIODIC) and f"log2.{name}" not in named]
    return TrainedRange.of(X[kept], classes=OPERATORS)


def in_range_of_others(X: pd.DataFrame, folds: NDArray[Any]) -> BoolArray:
    """Return whether each row, (n,), lies in the range of the features X (n × p) of the rows of all other folds.

    Of a table of many rows some are looked at at a time.
    """
    inside = np.zeros(len(X), dtype=bool)
    numbers = np.unique(folds).tolist()
    if len(numbers) < 2:
        return inside
    parts = [(X.iloc[rows], folds[rows]) for rows in in_parts(len(X))]
    ranges = {}
    for fold in numbers:
        of_fold = [trained_range(rows[of == fold]) for rows, of in parts if (of == fold).any()]
        ranges[fold] = TrainedRange.together(of_fold)
    others = {}
    for fold in numbers:
        rest = [ranges[one] for one in numbers if one != fold]
        others[fold] = TrainedRange.together(rest)
    for place, (rows, of) in zip(in_parts(len(X)), parts, strict=True):
        for fold in np.unique(of).tolist():
            inside[place][of == fold] = others[fold].holds(rows[of == fold])
    return inside


def _or_none(value: float) -> float | None:
    if np.isfinite(value):
        return float(value)
    return None
