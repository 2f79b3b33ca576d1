"""The recipe of a feature matrix: which columns, in which order, for which devices; it outlives the training."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import BoolArray, IntArray
from ..errors import ArtifactError, DataError, NotPublishedError, ParameterError, few
from ..hardware import GPU, Comparison
from ..operators.operators import Work
from ..output import SCHEMA
from ..remarks import Alike, Reasons, Remark, remark
from ..table.counters import counts_time
from ..table.measurements import COUNTER, OWN
from ..table.problems import HOST, beside
from .additions import Additions
from .catalogue import (
    BASELINE_INPUT,
    BY_NAME,
    CATALOGUE,
    CATEGORIES,
    HOST_CAMPAIGN,
    OF_KERNEL_NAME,
    Category,
    Feature,
    counter,
    extra_metric,
    of_rule,
    user_column,
)
from .context import Context

OTHER = "other"
UNSTATED = "none"
_SCALES = "scale_block"  # category whose absence is a statement
_SAME = 1e-9
_AT_ONCE = 100_000  # rows of which all columns are held twice
_NAMED = 3  # ways in which a row is unlike training that are named
DEFINING = ("op", "dtype", "dtype_out", "direction", "layout")
"""Categories that say what is computed: of a level that was never trained a model knows nothing."""


@dataclass(frozen=True)
class FeatureRecipe:
    """How to turn rows into a feature matrix."""

    columns: tuple[str, ...]  # names of the matrix's columns, in order
    # role (additive, shape, category) and unit of each column
    roles: Mapping[str, str]
    units: Mapping[str, str]
    levels: Mapping[str, tuple[str, ...]]  # levels of each category in the training rows
    constant: Mapping[str, float]  # features left out because every training row had this value
    # features left out because they were a multiple of a column: that column and the factor
    redundant: Mapping[str, tuple[str, float]]
    # features left out because a figure of a device is not published, or rows lack a value: why
    skipped: Mapping[str, str]
    host: GPU | None  # None for models of one device
    target: GPU  # the device to predict
    metric: str = "duration_us"  # what is predicted
    # functions and laws of the user: code, which a saved recipe does not have
    additions: Additions = field(default_factory=Additions, hash=False)

    @property
    def comparison(self) -> Comparison:
        """The devices of the recipe."""
        return Comparison(self.host, self.target)

    def transform(
        self, rows: pd.DataFrame | Context, used: Collection[str] | None = None
    ) -> pd.DataFrame:
        """Return the matrix of new rows: exactly `columns`, in order, float64; RangeIndex.

        Of columns that are not ``used`` (None: all are) those that the rows cannot give are NaN.
        With a host the rows need what it measured, either as the table has it (`device` is then the
        host) or in columns with the prefix ``host_``. Raises DataError: rows lack a dimension or
        the host's time, or were measured on another device; NotPublishedError: a row computes at a
        precision whose peak is not published.
        """
        return self._matrix(self.context(rows), self.columns, used)

    def with_rule(self, name: str) -> FeatureRecipe:
        """Return the recipe with a simple rule's input as the last column, by its name (`catalogue.BASELINE_INPUT`)."""
        rule = self._feature(name)
        roles = {**self.roles, name: rule.role}
        units = {**self.units, name: rule.unit}
        return replace(self, columns=(*self.columns, name), roles=roles, units=units)

    def without_host(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the matrix of rows that the host has not measured, NaN where its measurement would be needed."""
        return self._matrix(Context(rows, self.host, self.target, self.metric), self.columns)

    def never_trained(self, rows: pd.DataFrame | Context) -> Reasons:
        """Return what each row computes that no training row did (``never-trained``), one reason at most.

        That is its operator, number formats, direction or layout, the first of them that is new.
        What a row, or a row of training, does not state is not held against it.
        """
        context = self.context(rows)
        reasons = Reasons(len(context))
        for name in DEFINING:
            trained_levels = self.levels.get(name, (UNSTATED,))
            if UNSTATED in trained_levels:
                continue
            codes, levels = context.levels(name, _CATEGORY[name].compute)
            new = ~np.isin(levels, [*trained_levels, UNSTATED])[codes] & ~reasons.any()
            for code in pd.unique(codes[new]):
                level = levels[code]
                never = f"{name} {level} was never trained"
                text = f"{never} ({few(trained_levels)}): the model cannot predict it"
                what = remark(
                    "never-trained",
                    text,
                    never,
                    category=name,
                    level=str(level),
                    known=trained_levels,
                )
                reasons.add(np.flatnonzero(new & (codes == code)), what)
        return reasons

    def unseen(self, rows: pd.DataFrame | Context) -> Reasons:
        """Return in which ways each row is unlike every training row.

        Unlike means: a category has a level that training had not (``unseen-level``), a feature
        that was constant has another value (``was-constant``), or two features that were
        proportional no longer are (``was-proportional``). Three are named, ``further-reasons``
        counts the others. What a row does not state is unknown, and nothing is held against it:
        scales alone are stated by their absence. (Ranges of the columns are the models' matter.)
        """
        context = self.context(rows)
        words = dict[str, np.ndarray]()
        reasons = Reasons(len(context))
        ways = np.zeros(len(context), dtype=np.intp)
        for at, what in chain(
            self._unseen_levels(context),
            self._no_longer_constant(context, words),
            self._no_longer_proportional(context, words),
        ):
            reasons.add_some(at, what, ways[at] < _NAMED)
            ways[at] += 1
        more = np.maximum(ways - _NAMED, 0)
        for count in np.unique(more[more > 0]).tolist():
            further = remark("further-reasons", f"and {count} more", count=count)
            reasons.add(np.flatnonzero(more == count), further)
        return reasons

    def _unseen_levels(self, context: Context) -> Iterator[tuple[IntArray, Remark]]:
        """Yield rows of a level that training had not, by category and level."""
        for name, trained_levels in self.levels.items():
            # training says nothing of it
            unstated = _CATEGORY[name].needs == "measured" and {*trained_levels} == {UNSTATED}
            if OTHER in trained_levels or name == HOST_CAMPAIGN or unstated:
                continue
            like = list(trained_levels)
            if name != _SCALES:
                like.append(UNSTATED)
            codes, levels = context.levels(name, _CATEGORY[name].compute)
            for code in np.flatnonzero(~np.isin(levels, like)):
                level = levels[code]
                unseen = f"{name} {level} was not in training"
                text = f"{unseen} ({few(trained_levels)})"
                what = remark(
                    "unseen-level",
                    text,
                    unseen,
                    category=name,
                    level=str(level),
                    known=trained_levels,
                )
                yield np.flatnonzero(codes == code), what

    def _no_longer_constant(
        self, context: Context, words: dict[str, np.ndarray]
    ) -> Iterator[tuple[IntArray, Alike]]:
        """Yield rows with another value of a feature that was constant in training, by feature."""
        for name, value in self.constant.items():
            now = self._column(name, context, words)
            other = np.abs(now - value) > 2 * _SAME * max(abs(value), 1.0)
            if name in OF_KERNEL_NAME:
                other &= ~_nameless(context)
            at = np.flatnonzero(other)
            yield (
                at,
                Alike(
                    "was-constant",
                    (("feature", name), ("trained", value)),
                    {"value": now[at]},
                    f"{name.replace('%', '%%')} is %.4g, in training always {value:.4g}",
                    f"{name} never varied in training",
                ),
            )

    def _no_longer_proportional(
        self, context: Context, words: dict[str, np.ndarray]
    ) -> Iterator[tuple[IntArray, Remark]]:
        """Yield rows in which a feature is no longer the multiple of another that it was in training, by feature."""
        for name, (twin, factor) in self.redundant.items():
            now = self._column(name, context, words)
            expected = factor * self._column(twin, context, words)
            other = np.abs(now - expected) > 1e-6 * np.maximum(np.abs(now), 1.0)
            if name in OF_KERNEL_NAME:
                other &= ~_nameless(context)
            text = f"{name} is not {factor:.4g} x {twin} as in training"
            what = remark("was-proportional", text, feature=name, factor=factor, to=twin)
            yield np.flatnonzero(other), what

    def unknown(self, rows: pd.DataFrame | Context) -> dict[str, BoolArray]:
        """Return the rows, (n,), whose value in a column is unknown: they do not name the kernel of the host."""
        names = [name for name in self.columns if name in OF_KERNEL_NAME]
        if not names:
            return {}
        return dict.fromkeys(names, _nameless(self.context(rows)))

    def knows(self, rows: pd.DataFrame) -> np.ndarray:
        """Return which rows are of trained kinds: every category but those of the host's kernel."""
        context = Context(rows, self.host, self.target, self.metric)
        usable = np.ones(len(rows), dtype=bool)
        for name, levels in self.levels.items():
            if _CATEGORY[name].needs != "measured" and OTHER not in levels:
                codes, words = context.levels(name, _CATEGORY[name].compute)
                usable &= np.isin(words, levels)[codes]
        return usable

    def describe(self) -> pd.DataFrame:
        """Return one row per column: name, unit, role, formula."""
        records = []
        for name in self.columns:
            category = ""
            if "=" in name:
                category = name.split("=", 1)[0]
            if category:
                formula = _CATEGORY[category].formula
            else:
                formula = self._feature(name).formula
            records.append(
                {
                    "name": name,
                    "unit": self.units[name],
                    "role": self.roles[name],
                    "formula": formula,
                }
            )
        return pd.DataFrame(records, columns=["name", "unit", "role", "formula"])

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for JSON, devices included."""
        return {
            "schema": SCHEMA,
            "columns": [
                {"name": n, "unit": self.units[n], "role": self.roles[n]} for n in self.columns
            ],
            "levels": {name: list(levels) for name, levels in self.levels.items()},
            "constant": dict(self.constant),
            "redundant": {name: list(twin) for name, twin in self.redundant.items()},
            "skipped": dict(self.skipped),
            "host": self.host.to_dict() if self.host else None,
            "target": self.target.to_dict(),
            "metric": self.metric,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> FeatureRecipe:
        """Return the recipe that `to_dict` wrote.

        Raises ArtifactError where it is of another schema, is incomplete, or names features this
        version does not know.
        """
        if saved.get("schema") != SCHEMA:
            raise ArtifactError(
                f"feature recipe has schema {saved.get('schema')!r}, this version reads {SCHEMA}"
            )
        try:
            columns = {str(c["name"]): c for c in saved["columns"]}
            recipe = cls(
                columns=tuple(columns),
                roles={name: str(c["role"]) for name, c in columns.items()},
                units={name: str(c["unit"]) for name, c in columns.items()},
                levels={
                    str(name): tuple(map(str, levels)) for name, levels in saved["levels"].items()
                },
                constant={str(name): float(value) for name, value in saved["constant"].items()},
                redundant={
                    str(name): (str(twin), float(factor))
                    for name, (twin, factor) in saved["redundant"].items()
                },
                skipped={str(name): str(reason) for name, reason in saved["skipped"].items()},
                host=GPU.from_dict(saved["host"], "host of the feature recipe")
                if saved["host"]
                else None,
                target=GPU.from_dict(saved["target"], "target of the feature recipe"),
                metric=str(saved["metric"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArtifactError(
                f"feature recipe is damaged: {type(error).__name__} {error}"
            ) from error
        figures = [*recipe.constant.values(), *(factor for _, factor in recipe.redundant.values())]
        if not np.isfinite(figures).all():
            raise ArtifactError("feature recipe is damaged: a figure of it is not finite")
        unknown = [name for name in recipe._names() if not recipe._is_feature(name)]
        if unknown:
            raise ArtifactError(
                f"feature recipe names features this version does not know: {few(unknown)}"
            )
        return recipe

    def _names(self) -> list[str]:
        return [
            *self.columns,
            *self.constant,
            *self.redundant,
            *(twin for twin, _ in self.redundant.values()),
        ]

    def _is_feature(self, name: str) -> bool:
        if "=" in name:
            return name.split("=", 1)[0] in _CATEGORY
        return (
            name in BY_NAME
            or name == f"{HOST}{self.metric}"
            or name.startswith((COUNTER, OWN, BASELINE_INPUT))
        )

    def _feature(self, name: str) -> Feature:
        return _feature(name, self.metric, self.host is not None)

    def context(self, rows: pd.DataFrame | Context, work: Work | None = None) -> Context:
        """Return the input of the features; given to several methods in place of the rows, it is computed once.

        `work` is that of the rows, if computed already.
        """
        if isinstance(rows, Context):
            return rows
        wanted = [name.removeprefix(OWN) for name in self._names() if name.startswith(OWN)]
        with_host = self.host is not None
        rows = self.additions.completed(rows, [*dict.fromkeys(wanted)], host=with_host)
        if self.host is not None and f"{HOST}duration_us" not in rows:
            rows = as_host(rows, self.host, self.metric)
        return Context(rows, self.host, self.target, self.metric, work, self.additions.laws)

    def _matrix(
        self,
        context: Context,
        columns: tuple[str, ...],
        used: Collection[str] | None = None,
    ) -> pd.DataFrame:
        words: dict[str, np.ndarray] = {}
        matrix = np.empty((len(columns), len(context)))
        for values, name in zip(matrix, columns, strict=True):
            try:
                values[:] = self._column(name, context, words)
            except DataError:
                if used is None or name in used:
                    raise
                values[:] = np.nan
        return pd.DataFrame(matrix.T, columns=list(columns), copy=False)

    def _column(self, name: str, context: Context, words: dict[str, np.ndarray]) -> np.ndarray:
        if "=" not in name:
            feature = self._feature(name)
            missing = feature.needs == "measured" and not context.has_measured
            if missing:
                return np.full(len(context), np.nan)
            return feature.compute(context)
        stem, level = name.split("=", 1)
        category = _CATEGORY[stem]
        if category.needs == "measured" and not context.has_measured:
            return np.full(len(context), np.nan)
        codes, occurring = context.levels(stem, category.compute)
        if stem not in words:
            words[stem] = _levelled(occurring, self.levels[stem])
        return (words[stem] == level).astype(float)[codes]


def _nameless(context: Context) -> BoolArray:
    """Return which rows lack the name of the host's kernel, (n,)."""
    codes, names = context.coded("host_kernel")
    return np.asarray(names == "", dtype=bool)[codes]


_CATEGORY: dict[str, Category] = {category.name: category for category in CATEGORIES}


def learn_matrix(
    rows: pd.DataFrame,
    host: GPU | None,
    target: GPU,
    metric: str = "duration_us",
    without: Sequence[str] = (),
    additions: Additions | None = None,
) -> tuple[FeatureRecipe, pd.DataFrame]:
    """Return the recipe for these training rows, with every feature that varies among them, and its matrix.

    Without a host it is one for models of one device; with one, its measurements are in columns
    ``host_*``. Features that shell patterns in ``without`` match are left out. The rows have the
    columns of ``additions`` already. Raises
    ParameterError (``without_features``) where one matches none, or they match all.
    """
    context = Context(rows, host, target, metric)
    columns, roles, units, skipped = _numerical(context)
    levels: dict[str, tuple[str, ...]] = {}
    for category in CATEGORIES:
        if category.applies(context):
            codes, occurring = category.compute(context)
            words = occurring[codes]
            levels[category.name] = _levels(words, category.share)
            levelled = _levelled(words, levels[category.name])
            for level in levels[category.name] if len(levels[category.name]) > 1 else ():
                name = f"{category.name}={level}"
                columns[name] = (levelled == level).astype(float)
                roles[name] = "category"
                units[name] = "0/1"
    for pattern in without:
        matched = fnmatch.filter(columns, pattern)
        if not matched or len(matched) == len(columns):
            problem = (
                f"must match some features and not all that are left, got {pattern!r}: there are "
                f"{few(columns)}"
            )
            raise ParameterError("without_features", problem)
        skipped |= dict.fromkeys(matched, "left out as asked")
        columns = {name: values for name, values in columns.items() if name not in matched}
    constant = {name: float(values[0]) for name, values in columns.items() if _is_constant(values)}
    varied = {name: values for name, values in columns.items() if name not in constant}
    redundant = _redundant(varied)
    kept = tuple(name for name in varied if name not in redundant)
    columns.clear()
    matrix = np.empty((len(kept), len(rows)))
    for values, name in zip(matrix, kept, strict=True):
        values[:] = varied.pop(name)
    recipe = FeatureRecipe(
        columns=kept,
        roles={name: roles[name] for name in kept},
        units={name: units[name] for name in kept},
        levels=levels,
        constant=constant,
        redundant=redundant,
        skipped=skipped,
        host=host,
        target=target,
        metric=metric,
        additions=additions or Additions(),
    )
    return recipe, pd.DataFrame(matrix.T, columns=list(kept), copy=False)


def as_host(rows: pd.DataFrame, host: GPU, metric: str = "duration_us") -> pd.DataFrame:
    """Return rows measured on the host with their measurements repeated under the prefix ``host_``.

    Raises DataError where rows were measured on another device, or have no time.
    """
    if "device" in rows:
        others = rows["device"][rows["device"] != host.name]
    else:
        others = rows.index[:0]
    if len(others):
        raise DataError(
            f"this model predicts from rows of {host.name}, {len(others)} are of "
            f"{few(others.unique())}"
        )
    missing = [name for name in dict.fromkeys(("duration_us", metric)) if name not in rows]
    if missing:
        raise DataError(
            f"this model predicts from what {host.name} measured: the rows lack "
            f"{' and '.join(missing)}"
        )
    return beside(rows, rows, metric)


def _numerical(
    context: Context,
) -> tuple[dict[str, np.ndarray], dict[str, str], dict[str, str], dict[str, str]]:
    """Compute every numerical feature of the rows: values, roles, units, and the skipped ones with the reason."""
    columns: dict[str, np.ndarray] = {}
    roles: dict[str, str] = {}
    units: dict[str, str] = {}
    skipped: dict[str, str] = {}
    if context.metric == "duration_us":
        metrics = ()
    else:
        metrics = (extra_metric(context.metric),)
    for feature in (
        *metrics,
        *CATALOGUE,
        *(counter(name, context.has_host) for name in context.counters),
        *(user_column(name, host=context.has_host) for name in context.user_columns),
    ):
        if not feature.applies(context):
            continue
        if not context.has_host and feature.name == context.metric:
            continue
        if not context.has_host and feature.name.startswith(COUNTER) and counts_time(feature.name):
            skipped[feature.name] = "counts the time of the run to be predicted"
            continue
        try:
            values = feature.compute(context)
        except NotPublishedError as error:
            skipped[feature.name] = f"{error.figure} of {error.gpu} is not published"
            continue
        missing = int((~np.isfinite(values)).sum())
        if missing:
            skipped[feature.name] = f"unknown in {missing} of {len(values)} rows"
            continue
        columns[feature.name] = values
        roles[feature.name] = feature.role
        units[feature.name] = feature.unit
    return columns, roles, units, skipped


def _feature(name: str, metric: str, host: bool) -> Feature:
    if name.startswith(COUNTER):
        return counter(name, host)
    if name.startswith(BASELINE_INPUT):
        return of_rule(name)
    if name.startswith(OWN):
        return user_column(name, host=host)
    if name in BY_NAME:
        return BY_NAME[name]
    return extra_metric(metric)


def _levels(words: np.ndarray, share: float) -> tuple[str, ...]:
    """Return the levels with at least that share of the rows, sorted, and ``other`` for the rest."""
    codes, levels = pd.factorize(words)
    kept = sorted(map(str, levels[np.bincount(codes) >= share * len(words)]))
    if len(kept) == len(levels):
        return tuple(kept)
    return (*kept, OTHER)


def _levelled(words: np.ndarray, levels: tuple[str, ...]) -> np.ndarray:
    """Return the words with ``other`` in place of those that are no level."""
    return np.where(np.isin(words, levels), words, OTHER)


def _is_constant(values: np.ndarray) -> bool:
    return bool(np.ptp(values) <= _SAME * max(float(np.abs(values).max()), 1e-300))


def _redundant(columns: Mapping[str, np.ndarray]) -> dict[str, tuple[str, float]]:
    """Return the columns that are a positive multiple of an earlier one, with that one and the factor."""
    names = list(columns)
    repeated = dict[str, tuple[str, float]]()
    if not names:
        return repeated
    norms = [float(np.linalg.norm(columns[name])) for name in names]
    count = len(columns[names[0]])
    cosines = np.zeros((len(names), len(names)))  # 1 where two columns are proportional
    for first in range(0, count, _AT_ONCE):
        rows = slice(first, first + _AT_ONCE)
        directions = np.column_stack(
            [columns[name][rows] / norm for name, norm in zip(names, norms, strict=True)]
        )
        cosines += directions.T @ directions
    for late, early in zip(*np.nonzero(np.tril(cosines > 1 - 1e-10, -1)), strict=True):
        gap = np.abs(
            columns[names[late]] / norms[late] - columns[names[early]] / norms[early]
        ).max()
        if names[early] not in repeated and names[late] not in repeated and gap < _SAME:
            repeated[names[late]] = (names[early], norms[late] / norms[early])
    return repeated
