"""Cross-validation of a suite: every model on the same folds, out-of-fold predictions kept, failures kept as rows.

`cross_validate` takes features, measured values and candidates, and returns an `Evaluation`: per
scheme (shuffled folds, or folds that never split a group: `folds.make_folds`) the predictions of
the rows held out, and a row of metrics per candidate. No fold splits the repeats of a problem: a
model that has seen one of them has seen them all.

It knows neither time nor files nor budgets: whoever wants to watch it, or to spare it some fits, is
an `Observer`.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import median_low
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from ..arrays import FloatArray, IntArray
from ..errors import one_line
from ..models.base import Candidate, Memo, fit, selected_features
from ..remarks import Remark
from ..workers import in_parts, one_thread, pool
from .folds import (
    NEW_CAMPAIGN,
    SCHEMES,
    LearningData,
    LearningRows,
    PairedAndUnpaired,
    TrainingRows,
    make_folds,
    repeats_of,
    sources_of,
)
from .metrics import check_targets, e_out, summarise


@dataclass(frozen=True)
class SchemeResult:
    """The errors and predictions under one scheme.

    Attributes
    ----------
    folds : ndarray of int, shape (n,)
        Fold in which each row was held out.
    predictions : DataFrame of shape (n, n_models)
        Out-of-fold predictions, in the unit of the target, of the models that ran, in the order
        given.
    rows : list of dict
        One row per candidate, in the order given, as `metrics.summarise` makes it (a failed one has
        its ``error``), with ``space``, ``note`` (warnings of the fits, or None) and ``left``: None,
        or the remark of the observer that stopped the candidate; it has no other figures.
    partial : DataFrame of shape (n, n_stopped)
        Predictions of the candidates that an observer stopped after some folds; NaN in the folds
        that they were not fitted for.
    """

    scheme: str
    folds: IntArray
    predictions: pd.DataFrame
    rows: list[dict[str, Any]]
    partial: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def errors(self) -> dict[str, str]:
        """Why each failed model failed."""
        return {row["name"]: row["error"] for row in self.rows if row["error"] is not None}

    def left(self, code: str) -> dict[str, str]:
        """Why each model left that was stopped with a remark of this code."""
        reasons = {}
        for row in self.rows:
            if row["left"] is not None and row["left"]["code"] == code:
                reasons[row["name"]] = str(row["left"]["text"])
        return reasons


@dataclass(frozen=True)
class Evaluation:
    """Out-of-fold predictions and errors of every model under every scheme.

    ``observed`` (n,) are the measured values, ``groups`` (n,) the group of each row, ``names`` the
    candidates in the order given, ``schemes`` the result of each scheme, and ``problems`` (n,) the
    number of the problem that a row repeats (`folds.repeats_of`); None where nothing was repeated.
    """

    observed: FloatArray
    groups: NDArray
    names: tuple[str, ...]
    schemes: dict[str, SchemeResult]
    problems: NDArray | None = None

    def __getitem__(self, scheme: str) -> SchemeResult:
        return self.schemes[scheme]


@dataclass(frozen=True)
class Outcome:
    """One fit: its predictions of the held-out rows, or its error."""

    name: str
    scheme: str
    fold: int
    predicted: FloatArray | None
    e_in: float
    seconds: float
    selected: int | None  # number of features that the model kept; None where it does not select
    warned: list[str]
    error: str | None


@dataclass(frozen=True)
class Task:
    """One fold of one scheme for ``candidates`` that are fitted together: one, or those of one family.

    An observer may take candidates out of it: those whose ``outcomes`` it has, and those that it
    stops under the scheme (name -> why).
    """

    candidates: tuple[Candidate, ...]
    scheme: str
    fold: int
    outcomes: tuple[Outcome, ...] = ()
    stopped: Mapping[str, Remark] = field(default_factory=dict)


class Observer:
    """Watches a cross-validation: asked before each task, told after its fits.

    ``pauses`` are folds before which all fits of earlier folds are waited for.
    """

    pauses: Collection[int] = ()

    def before(self, task: Task, course: Course) -> Task:
        """Return the task as it shall be done."""
        return task

    def after(self, outcomes: Sequence[Outcome], course: Course) -> None:
        """Take notice of the fits of a task."""


class Course:
    """A cross-validation under way: its folds, the outcomes so far, and which candidates were stopped."""

    def __init__(
        self, observed: FloatArray, candidates: Sequence[Candidate], folds: Mapping[str, IntArray]
    ) -> None:
        self.observed = observed
        self.candidates = candidates
        self.folds = folds
        self.counts = {scheme: len(np.unique(fold_of_row)) for scheme, fold_of_row in folds.items()}
        self.stopped: dict[tuple[str, str], Remark] = {}
        self.outcomes: dict[tuple[str, str], list[Outcome]] = {}
        for scheme in folds:
            for candidate in candidates:
                self.outcomes[scheme, candidate.name] = []

    @property
    def done(self) -> int:
        """Number of fits with an outcome."""
        return sum(len(outcomes) for outcomes in self.outcomes.values())

    @property
    def left(self) -> int:
        """Number of fits that are still to be done."""
        left = 0
        for (scheme, name), outcomes in self.outcomes.items():
            if (scheme, name) not in self.stopped:
                left += self.counts[scheme] - len(outcomes)
        return left

    def record(self, outcomes: Iterable[Outcome]) -> None:
        """Keep the outcomes of a task."""
        for outcome in outcomes:
            self.outcomes[outcome.scheme, outcome.name].append(outcome)

    def predictions(self, scheme: str, name: str) -> FloatArray:
        """Return the predictions of a candidate so far, (n,); NaN in folds without one."""
        predicted = np.full(len(self.observed), np.nan)
        for outcome in self.outcomes[scheme, name]:
            if outcome.predicted is not None:
                predicted[self.folds[scheme] == outcome.fold] = outcome.predicted
        return predicted

    def first_folds(self, scheme: str, folds: int) -> tuple[NDArray[np.intp], pd.DataFrame]:
        """Return the rows of the first folds, and the predictions of every candidate that has them all."""
        rows = np.flatnonzero(self.folds[scheme] < folds)
        predictions = {}
        for candidate in self.candidates:
            predicted = self.predictions(scheme, candidate.name)[rows]
            if np.isfinite(predicted).all():
                predictions[candidate.name] = predicted
        return rows, pd.DataFrame(predictions)


def cross_validate(
    dataset: LearningData,
    candidates: Sequence[Candidate],
    *,
    schemes: Sequence[str] = SCHEMES,
    folds: int | Mapping[str, int] = 10,
    seed: int = 0,
    observers: Sequence[Observer] = (),
    by_candidate: bool = False,
    tell_groups: Collection[str] = SCHEMES,
    origins: PairedAndUnpaired | None = None,
) -> Evaluation:
    """Cross-validate every candidate on the same folds.

    The `workers` of the block fit, and share the data. The result depends on ``seed`` alone, not on
    them: every fit runs with one thread per numerical library. Raises DataError: a measured value
    is not positive, or there are too few rows or groups.

    Parameters
    ----------
    dataset : LearningData
        ``unpaired`` rows are added to the training rows of the candidates that use them, except
        those whose group is held out (scheme ``"grouped"``), and the repeats of a problem that is.
    candidates, schemes, folds, seed
        As for `folds.make_folds`, folds also by scheme.
    observers : sequence of Observer
        Asked in this order before each task, and told after it.
    by_candidate : bool
        Whether one candidate after the other is worked through, in the order given. Otherwise fold
        by fold, the last candidates first: they take longest, and no process waits for them at the
        end.
    tell_groups : collection of str
        Schemes under which models are given the groups, for inner folds that respect them. By
        default both, so that what is evaluated is what a final fit with groups does. Under the
        others they are given the problems as groups where there are repeats.
    origins : PairedAndUnpaired, optional
        The campaign of each row's group, which the scheme ``"campaign"`` leaves out whole.

    Examples
    --------
    >>> import flopcast as fc
    >>> from flopcast.features.matrix import build_dataset
    >>> from flopcast.models.suite import suite
    >>> from flopcast.evaluation.competition import columnar
    >>> rows = fc.read(where={"m": (None, 16)}).frame
    >>> pairs = build_dataset(rows, host=fc.gpu("MI300X"), target=fc.gpu("MI355X"))
    >>> candidates = suite("default", columnar(pairs), names=["OLS"])
    >>> evaluation = cross_validate(pairs, candidates, schemes=["kfold"])
    >>> evaluation["kfold"].predictions.shape == (len(pairs), 1)
    True
    """
    names = tuple(candidate.name for candidate in candidates)
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(
                f"parameter candidates of cross_validate must have different names, got {name!r} "
                "twice"
            )
    observed = check_targets(dataset.y, sources_of(dataset))
    repeats = repeats_of(dataset)
    problems = None
    if repeats is not None:
        problems = repeats.paired
    counts = folds
    if not isinstance(counts, Mapping):
        counts = dict.fromkeys(schemes, counts)
    fold_of_row = {}
    for scheme in schemes:
        leaves_out = scheme
        units = dataset.groups
        if scheme == NEW_CAMPAIGN and origins is not None:
            leaves_out = "grouped"
            units = origins.paired
        fold_of_row[scheme] = make_folds(
            leaves_out, units, len(observed), counts[scheme], seed, problems
        )
    rows = TrainingRows.of(dataset, fold_of_row, frozenset(tell_groups), repeats, origins)
    course = Course(observed, candidates, fold_of_row)

    @lru_cache(maxsize=1)  # tasks of one fold follow each other
    def inputs_of_fold(scheme: str, fold: int) -> Fold:
        return Fold.of(rows, scheme, fold, candidates)

    def inputs_of(task: Task) -> Fold:
        return inputs_of_fold(task.scheme, task.fold)

    with pool() as processes:
        for tasks in _rounds(course, observers, by_candidate):
            planned = _planned(tasks, observers, course)
            for outcomes in processes.map(_fit_fold, planned, rows, inputs_of):
                course.record(outcomes)
                for observer in observers:
                    observer.after(outcomes, course)
    results = {scheme: _collected(scheme, course, dataset) for scheme in schemes}
    return Evaluation(observed, np.asarray(dataset.groups, dtype=str), names, results, problems)


def _rounds(
    course: Course, observers: Sequence[Observer], by_candidate: bool
) -> Iterator[list[Task]]:
    """Yield the tasks in rounds; all fits of a round are done before the next is asked for."""
    tasks = []
    for members in families(course.candidates):
        for scheme, count in course.counts.items():
            for fold in range(count):
                tasks.append(Task(members, scheme, fold))
    if not by_candidate:
        schemes = list(course.folds)
        tasks.reverse()
        tasks.sort(key=lambda task: (task.fold, schemes.index(task.scheme)))
    begin = 0
    pauses = set()
    for observer in observers:
        for pause in observer.pauses:
            pauses.add(pause)
    for end in [*sorted(pauses), max(course.counts.values())]:
        yield [task for task in tasks if begin <= task.fold < end]
        begin = end


def _planned(
    tasks: Iterable[Task], observers: Sequence[Observer], course: Course
) -> Iterator[Task]:
    """Yield the tasks of a round that are left to do, as the observers want them, when they can be begun."""
    for task in tasks:
        for observer in observers:
            task = observer.before(task, course)
        for name, why in task.stopped.items():
            course.stopped.setdefault((task.scheme, name), why)
        course.record(task.outcomes)
        if task.candidates:
            yield task


def families(candidates: Sequence[Candidate]) -> list[tuple[Candidate, ...]]:
    """Return the candidates, those of one family together, in the order of the last of them."""
    members: dict[str, tuple[Candidate, ...]] = {}
    for candidate in candidates:
        if candidate.family is None:
            key = candidate.name
        else:
            key = f"family {candidate.family}"
        members[key] = (*members.pop(key, ()), candidate)
    return list(members.values())


@dataclass(frozen=True)
class Fold:
    """What the candidates of a fold are fitted to and asked for: arrays made once, which none of them writes to."""

    asked: pd.DataFrame
    # by ``uses_unpaired`` and ``most_rows`` of a candidate
    learnt: dict[tuple[bool, int | None], LearningRows]

    @classmethod
    def of(
        cls, rows: TrainingRows, scheme: str, fold: int, candidates: Iterable[Candidate]
    ) -> Fold:
        """Return the inputs of these candidates from one fold."""
        learnt = {}
        for candidate in candidates:
            key = candidate.uses_unpaired, candidate.most_rows
            if key not in learnt:
                learnt[key] = rows.without_fold(
                    scheme, fold, candidate.most_rows, uses_unpaired=candidate.uses_unpaired
                )
        return cls(rows.frame_of(rows.held_out(scheme, fold)), learnt)


def _fit_fold(task: Task, shared: TrainingRows | Fold) -> list[Outcome]:
    """Fit candidates without one fold and predict the fold; shared inputs are computed once."""
    inputs = shared
    if not isinstance(inputs, Fold):
        inputs = Fold.of(inputs, task.scheme, task.fold, task.candidates)
    memo = Memo()
    return [_fit_one(candidate, task, inputs, memo) for candidate in task.candidates]


def _fit_one(candidate: Candidate, task: Task, inputs: Fold, memo: Memo) -> Outcome:
    """Fit one candidate without one fold and predict the fold; a failure is an outcome, not an exception."""
    rows = inputs.learnt[candidate.uses_unpaired, candidate.most_rows]
    estimator = clone(candidate.estimator)
    predicted = None
    e_in = np.nan
    selected = None
    error = None
    start = time.perf_counter()
    fitted_at = None
    with warnings.catch_warnings(record=True) as caught, one_thread():
        warnings.simplefilter("always")
        try:
            fitted = fit(
                estimator, rows.X, rows.y, rows.groups, memo=memo, campaigns=rows.campaigns
            )
            fitted_at = time.perf_counter()
            outside = _predict(fitted, inputs.asked)
            error_in = e_out(rows.seen_y, _predict(fitted, rows.seen))
            features = selected_features(fitted)
        except Exception as failure:
            error = one_line(failure)
        else:
            predicted = outside
            e_in = error_in
            if features is not None:
                selected = len(features)
    if fitted_at is None or error is not None:
        fitted_at = time.perf_counter()
    return Outcome(
        candidate.name,
        task.scheme,
        task.fold,
        predicted,
        e_in,
        fitted_at - start,
        selected,
        _texts(caught),
        error,
    )


def _predict(fitted: Any, X: pd.DataFrame) -> FloatArray:
    predicted = np.empty(len(X))
    for rows in in_parts(len(X)):
        part = np.asarray(fitted.predict(X.iloc[rows]), dtype=np.float64)
        if part.shape != predicted[rows].shape:
            raise ValueError(
                f"predicted an array of shape {part.shape} for {len(predicted[rows])} rows"
            )
        predicted[rows] = part
    return predicted


def _texts(caught: list[warnings.WarningMessage]) -> list[str]:
    """Return the first line of each different warning, in order of appearance."""
    texts: dict[str, None] = {}
    for item in caught:
        lines = str(item.message).strip().splitlines() or [""]
        texts[f"{item.category.__name__}: {lines[0]}"] = None
    return list(texts)


def _collected(scheme: str, course: Course, dataset: LearningData) -> SchemeResult:
    """Put the folds of each candidate together."""
    predictions: dict[str, FloatArray] = {}
    partial: dict[str, FloatArray] = {}
    rows = []
    for candidate in course.candidates:
        name = candidate.name
        outcomes = sorted(course.outcomes[scheme, name], key=lambda outcome: outcome.fold)
        stopped = course.stopped.get((scheme, name))
        error = _failure(scheme, name, course, dataset)
        e_in = selected = None
        if error is None and stopped is not None:
            if outcomes:
                partial[name] = course.predictions(scheme, name)
        elif error is None:
            predictions[name] = course.predictions(scheme, name)
            e_in = float(np.mean([outcome.e_in for outcome in outcomes]))
            counts = [outcome.selected for outcome in outcomes if outcome.selected is not None]
            if counts:
                selected = median_low(counts)
        row = summarise(
            name,
            course.observed,
            predictions.get(name),
            groups=dataset.groups,
            e_in=e_in,
            features_selected=selected,
            features_available=dataset.X.shape[1],
            fit_seconds=sum(outcome.seconds for outcome in outcomes),
            error=error,
            space=candidate.space,
            note=_note(outcomes),
            left=None,
        )
        if error is None and stopped is not None:
            row["left"] = stopped.to_dict()
        rows.append(row)
    index = range(len(course.observed))
    return SchemeResult(
        scheme,
        course.folds[scheme],
        pd.DataFrame(predictions, index=index),
        rows,
        pd.DataFrame(partial, index=index),
    )


def _failure(scheme: str, name: str, course: Course, dataset: LearningData) -> str | None:
    """Return why there are no predictions of a candidate; None where there are, all or those before it was stopped."""
    outcomes = course.outcomes[scheme, name]
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed:
        where = ""
        if len(failed) < len(outcomes):
            where = f" (in {len(failed)} of {len(outcomes)} folds)"
        return f"{failed[0].error}{where}"
    folds = course.folds[scheme]
    predicted = course.predictions(scheme, name)
    asked = np.isin(folds, [outcome.fold for outcome in outcomes])
    bad = np.flatnonzero(~np.isfinite(predicted) & asked)
    if not len(bad):
        return None
    first = f"row {bad[0]}"
    sources = sources_of(dataset)
    if sources is not None:
        first = sources[bad[0]]
    return f"predicted {predicted[bad[0]]} for {len(bad)} of {len(predicted)} rows (first: {first})"


def _note(outcomes: list[Outcome]) -> str | None:
    """Say which kinds of warnings the fits raised (the first of each kind), and in how many folds."""
    first: dict[str, str] = {}
    folds: Counter[str] = Counter()
    for outcome in outcomes:
        kinds = {}
        for text in outcome.warned:
            kinds.setdefault(text.split(":")[0], text)
        folds.update(kinds.keys())
        first = kinds | first
    notes = [
        f"{text} (in {folds[kind]} of {len(outcomes)} folds)"
        for kind, text in sorted(first.items())
    ]
    return "; ".join(notes) or None
