"""Cross-validation of a suite: every model on the same folds, out-of-fold predictions kept, failures kept as rows.

`evaluate` takes features, measured values and candidates, and returns an `Evaluation`: per scheme (shuffled folds, or
folds that never split a group: `make_folds`) the predictions of the rows held out, and a row of metrics per candidate.
No fold splits the repeats of a problem: who has seen one has seen them all.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import takewhile
from statistics import median_low
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from ..arrays import BoolArray, FloatArray, IntArray, in_parts
from ..errors import DataError, one_line
from ..laws.rates import HOST_DEVICE
from ..models.base import Candidate, Memo, fit, selected_features
from ..operators.operators import RUN
from ..remarks import remark
from ..table.problems import problem_ids
from ..workers import Jobs, one_thread, pool
from .fold_scheduler import Course, Leave, Outcome, Task, Then, placed
from .kept_fits import KeptFits
from .metrics import ape, check_targets, e_out, finite, summarise

SCHEMES: Final = ("kfold", "grouped")  # shuffled folds, and folds that never split a group
MOST_SEEN: Final = 15_000
"""Rows that were trained on, drawn at random, on which E_in is worked out: more cost more than they tell."""
Progress = Callable[[int, int, str, float], None]
"""Called as ``progress(done, total, label, eta_seconds)`` whenever fits are done; the last is NaN while unknown."""


class LearningData(Protocol):
    """What is needed of a data set: features, measured values, groups, identifying columns, target-only rows."""

    @property
    def X(self) -> pd.DataFrame: ...  # noqa: D102, N802
    @property
    def y(self) -> NDArray: ...  # noqa: D102
    @property
    def groups(self) -> NDArray: ...  # noqa: D102
    @property
    def rows(self) -> pd.DataFrame: ...  # noqa: D102
    @property
    def unpaired(self) -> LearningData | None: ...  # noqa: D102


@dataclass(frozen=True)
class SchemeResult:
    """What one scheme found.

    Attributes
    ----------
    folds : ndarray of int, shape (n,)
        Fold in which each row was held out.
    predictions : DataFrame of shape (n, n_models)
        Out-of-fold predictions, in the unit of the target, of the models that ran, in the order given.
    rows : list of dict
        One row per candidate, in the order given, as `metrics.summarise` makes it (a failed one has its ``error``),
        with ``space``, ``note`` (warnings of the fits, or None) and ``left``: None, or that the candidate left early,
        after how many folds, and how many times the error of the best model it had on them; it has no other figures.
    partial : DataFrame of shape (n, n_left)
        Predictions of the candidates that left early; NaN in the folds that they were not fitted for.
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


@dataclass(frozen=True)
class Evaluation:
    """Out-of-fold predictions and errors of every model under every scheme.

    ``observed`` (n,) are the measured values, ``groups`` (n,) the group of each row, ``names`` the candidates in the
    order given, ``schemes`` the result of each scheme, and ``problems`` (n,) the number of the problem that a row
    repeats (`repeats_of`); None where nothing was repeated.
    """

    observed: FloatArray
    groups: NDArray
    names: tuple[str, ...]
    schemes: dict[str, SchemeResult]
    problems: NDArray | None = None

    def __getitem__(self, scheme: str) -> SchemeResult:
        return self.schemes[scheme]


def evaluate(
    dataset: LearningData,
    candidates: Sequence[Candidate],
    *,
    schemes: Sequence[str] = SCHEMES,
    folds: int | Mapping[str, int] = 10,
    seed: int = 0,
    jobs: Jobs = 1,
    budget: float | None = None,
    progress: Progress | None = None,
    tell_groups: Collection[str] = SCHEMES,
    leave: Leave | None = None,
    then: Then | None = None,
    kept: KeptFits | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Evaluation:
    """Cross-validate every candidate on the same folds.

    The result depends on ``seed`` alone, not on ``jobs``: every fit runs with one thread per numerical library. Raises
    DataError: a measured value is not positive, or there are too few rows or groups.

    Parameters
    ----------
    dataset : LearningData
        ``unpaired`` rows are added to the training rows of the candidates that use them, except those whose group is
        held out (scheme ``"grouped"``), and the repeats of a problem that is.
    candidates, schemes, folds, seed
        In the order in which the budget is spent on them; as for `make_folds`, folds also by scheme.
    jobs : int or Cluster
        Processes, -1 for one per core, or the workers of a cluster (`workers`). They share the data.
    budget : float, optional
        Seconds (of ``clock``) after which no further fit is started; a candidate that is not through a scheme by then
        is left out of it, with that as its error.
    tell_groups : collection of str
        Schemes under which models are given the groups, for inner folds that respect them. By default both, so that
        what is evaluated is what a final fit with groups does. Under the others they are given the problems as groups
        where there are repeats.
    leave, then, progress : callable, optional
        Asked after the first folds of a scheme (`fold_scheduler.LOOKS`), unless there is a budget: who ``leave`` names,
        and is ``expensive``, is fitted for no further fold of it. The seconds that ``then`` returns are those of what
        follows, which the time left has in it; ``progress`` is told of it in this process after every fit.
    kept : KeptFits, optional
        Fits done before, which are not done again; those that are done are written there.
    """
    names = tuple(candidate.name for candidate in candidates)
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"parameter candidates of evaluate must have different names, got {twice[0]!r} twice")
    observed = check_targets(dataset.y, _sources(dataset))
    repeats = repeats_of(dataset)
    problems = None if repeats is None else repeats[0]
    counts = folds if isinstance(folds, Mapping) else dict.fromkeys(schemes, folds)
    fold_of = {
        scheme: make_folds(scheme, dataset.groups, len(observed), counts[scheme], seed, problems) for scheme in schemes
    }
    shared = _Shared.of(dataset, fold_of, frozenset(tell_groups), repeats)
    course = Course(candidates, fold_of, clock=clock, budget=budget, leave=leave, then=then, observed=observed)
    _run(course, partial(shared.part, candidates=candidates), shared, jobs, progress, kept)
    results = {scheme: _collect(scheme, course, observed, dataset, candidates) for scheme in schemes}
    return Evaluation(observed, np.asarray(dataset.groups, dtype=str), names, results, problems)


@dataclass(frozen=True)
class _Shared:
    """The arrays every fit needs, plain so that joblib hands them to processes as memory maps."""

    X: FloatArray
    columns: pd.Index
    y: FloatArray
    groups: NDArray
    fold_of: dict[str, IntArray]
    tell_groups: frozenset[str]
    unpaired: tuple[FloatArray, FloatArray, NDArray] | None
    campaigns: tuple[NDArray, NDArray] | None
    repeats: tuple[NDArray, NDArray] | None
    hosts: NDArray | None

    @classmethod
    def of(
        cls,
        data: LearningData,
        fold_of: dict[str, IntArray],
        tell_groups: frozenset[str],
        repeats: tuple[NDArray, NDArray] | None,
    ) -> _Shared:
        extra, unpaired = data.unpaired, None
        if extra is not None and len(extra.y):
            values = extra.X.reindex(columns=data.X.columns).to_numpy(dtype=np.float64)
            unpaired = (values, check_targets(extra.y, _sources(extra)), np.asarray(extra.groups, dtype=str))
        return cls(
            X=data.X.to_numpy(dtype=np.float64),
            columns=pd.Index([str(column) for column in data.X.columns], dtype=object),  # Arrow is slow for a few names
            y=np.asarray(data.y, dtype=np.float64),
            groups=np.asarray(data.groups, dtype=str),
            fold_of=fold_of,
            tell_groups=tell_groups,
            unpaired=unpaired,
            campaigns=campaigns_of(data),
            repeats=repeats,
            hosts=hosts_of(data),
        )

    def part(self, scheme: str, fold: int, candidates: Sequence[Candidate]) -> _Fold:
        """Return what these candidates need of one fold."""
        held_out = self.fold_of[scheme] == fold
        ways = dict.fromkeys((each.uses_unpaired, each.most_rows) for each in candidates)
        others = learnable(held_out, self.groups, self.hosts) if scheme == "grouped" else ~held_out
        learnt = {way: self._learnt(scheme, fold, drawn(others, way[1]), way[0]) for way in ways}
        return _Fold(scheme, fold, self._rows(held_out), learnt)

    def _learnt(self, scheme: str, fold: int, train: BoolArray, uses_unpaired: bool) -> _Learnt:
        """Return the rows to train on, then the unpaired ones: those of groups, and problems, that are not held out."""
        told = campaigns = None
        if scheme in self.tell_groups:
            told = self.groups, None if self.unpaired is None else self.unpaired[2]
        elif self.repeats is not None:
            told = self.repeats
        X, y = self._rows(train), self.y[train]
        groups = None if told is None else told[0][train]
        if uses_unpaired and self.unpaired is not None:
            keep = self._kept(scheme, fold)
            X, y = self._frame(np.vstack([X, self.unpaired[0][keep]])), np.r_[y, self.unpaired[1][keep]]
            groups = None if told is None or told[1] is None else np.r_[told[0][train], told[1][keep]]
            if self.campaigns is not None:
                campaigns = np.r_[self.campaigns[0][train], self.campaigns[1][keep]]
        seen = drawn(train, MOST_SEEN)
        return _Learnt(X, y, groups, campaigns, self._rows(seen), self.y[seen])

    def _rows(self, rows: BoolArray) -> pd.DataFrame:
        return self._frame(self.X.T.take(np.flatnonzero(rows), axis=1).T)  # column by column: no further copy

    def _frame(self, values: FloatArray) -> pd.DataFrame:
        return pd.DataFrame(np.asfortranarray(values), columns=self.columns, copy=False)  # as pandas would copy it

    def _kept(self, scheme: str, fold: int) -> NDArray[np.bool_]:
        """Return which unpaired rows may be trained on without a fold."""
        assert self.unpaired is not None
        held_out = self.fold_of[scheme] == fold
        keep = ~np.isin(self.unpaired[2], self.groups[held_out] if scheme == "grouped" else [])
        return keep if self.repeats is None else keep & ~np.isin(self.repeats[1], self.repeats[0][held_out])


def campaigns_of(data: LearningData) -> tuple[NDArray, NDArray] | None:
    """Return the search that found each time of the paired and the unpaired rows; None where not all rows state it."""
    if data.unpaired is None or not all("campaign" in each.rows for each in (data, data.unpaired)):
        return None
    found = [each.rows["campaign"] for each in (data, data.unpaired)]
    if any(column.isna().any() for column in found):
        return None
    return found[0].to_numpy(dtype=str), found[1].to_numpy(dtype=str)


def repeats_of(data: LearningData) -> tuple[NDArray, NDArray] | None:
    """Return the number of the problem of each paired and each unpaired row; None where no problem has repeats.

    Repeats are rows that the column ``run`` alone tells apart (`table.problems.number_runs`), and those of many targets
    whose problem was measured on another one too: a new problem is measured on the host alone.
    """
    if RUN not in data.rows and HOST_DEVICE not in data.rows:
        return None
    every = [data.rows] if data.unpaired is None else [data.rows, data.unpaired.rows]
    ids = problem_ids(pd.concat(every, ignore_index=True).drop(columns=RUN, errors="ignore"), device=False)
    count = len(data.rows)
    return (ids[:count], ids[count:]) if len(np.unique(ids)) < len(ids) else None


def hosts_of(data: LearningData) -> NDArray | None:
    """Return the group that each row would be of on its host, (n,), where rows have hosts of their own; else None."""
    return getattr(data, "host_groups", None)


def learnable(left_out: BoolArray, groups: NDArray, hosts: NDArray | None) -> BoolArray:
    """Return which rows, (n,), may be learnt from where groups are left out: they are left out as hosts too."""
    return ~left_out if hosts is None else ~left_out & ~np.isin(hosts, groups[left_out])


def _run(
    course: Course,
    of_fold: Callable[[str, int], _Fold],
    shared: _Shared,
    jobs: Jobs,
    progress: Progress | None,
    kept: KeptFits | None,
) -> None:
    """Do every fit that is not kept."""
    fold = lru_cache(1)(of_fold)
    with pool(jobs) as fits:
        for part in course.parts():
            tasks = takewhile(course.goes_on, part if kept is None else _undone(part, course, kept))
            for fitted in fits.map(_fit_fold, tasks, shared, lambda task: fold(task.scheme, task.fold)):
                for outcome in fitted:
                    course.take(outcome)
                if kept is not None:
                    kept.add(fitted)
                if progress is not None:
                    done = sum(map(len, course.outcomes.values()))
                    label = f"{', '.join(outcome.name for outcome in fitted)} ({fitted[0].scheme})"
                    progress(done, done + course.time.fits, label, course.seconds())


def _undone(tasks: Sequence[Task], course: Course, kept: KeptFits) -> list[Task]:
    """Return the tasks that are to be done, once those that are kept have been counted."""
    undone = []
    for task in tasks:
        found = kept.of(task, int(np.sum(course.fold_of[task.scheme] == task.fold)))
        for outcome in found or ():
            course.take(outcome, again=True)
        undone += [task] if found is None else []
    return undone


class _Learnt(NamedTuple):
    """Features, times, what inner folds must not split, and campaigns, of rows to train on; some rows to ask about."""

    X: pd.DataFrame
    y: FloatArray
    groups: NDArray | None
    campaigns: NDArray | None
    seen: pd.DataFrame
    seen_y: FloatArray


@dataclass(frozen=True)
class _Fold:
    """What the candidates of a fold are fitted to and asked for: arrays made once, which none of them writes to."""

    scheme: str
    fold: int
    asked: pd.DataFrame
    learnt: dict[tuple[bool, int | None], _Learnt]


def _fit_fold(task: Task, shared: _Shared | _Fold) -> list[Outcome]:
    """Fit candidates without one fold and predict the fold; what several of them need is worked out once."""
    fold = shared if isinstance(shared, _Fold) else shared.part(task.scheme, task.fold, task.candidates)
    memo = Memo()
    return [_fit_one(candidate, fold, memo) for candidate in task.candidates]


def _fit_one(candidate: Candidate, fold: _Fold, memo: Memo) -> Outcome:
    """Fit one candidate without one fold and predict the fold; what goes wrong is an outcome, not an exception."""
    own, known = (candidate.name, fold.scheme, fold.fold), fold.learnt[candidate.uses_unpaired, candidate.most_rows]
    estimator = clone(candidate.estimator)
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught, one_thread():
        warnings.simplefilter("always")
        try:
            fitted = fit(estimator, known.X, known.y, known.groups, memo=memo, campaigns=known.campaigns)
            seconds = time.perf_counter() - start
            predicted = _predict(fitted, fold.asked)
            e_in = e_out(known.seen_y, _predict(fitted, known.seen))
            used = selected_features(fitted)
        except Exception as error:
            seconds, why = time.perf_counter() - start, one_line(error)
            return Outcome(*own, None, np.nan, seconds, seconds, None, _texts(caught), why)
    count, took = None if used is None else len(used), time.perf_counter() - start
    return Outcome(*own, predicted, e_in, seconds, took, count, _texts(caught), None)


def _predict(fitted: Any, X: pd.DataFrame) -> FloatArray:
    found = np.empty(len(X))
    for rows in in_parts(len(X)):
        predicted = np.asarray(fitted.predict(X.iloc[rows]), dtype=np.float64)
        if predicted.shape != found[rows].shape:
            raise ValueError(f"predicted an array of shape {predicted.shape} for {len(found[rows])} rows")
        found[rows] = predicted
    return found


def _texts(caught: list[warnings.WarningMessage]) -> list[str]:
    """Return the first line of each different warning, in order of appearance."""
    texts = [f"{item.category.__name__}: {(str(item.message).strip().splitlines() or [''])[0]}" for item in caught]
    return list(dict.fromkeys(texts))


def _collect(
    scheme: str, course: Course, observed: FloatArray, dataset: LearningData, candidates: Sequence[Candidate]
) -> SchemeResult:
    """Put the folds of each candidate together."""
    folds, count, left = course.fold_of[scheme], course.counts[scheme], course.left[scheme]
    predictions: dict[str, FloatArray] = {}
    partial: dict[str, FloatArray] = {}
    rows = []
    for candidate in candidates:
        name = candidate.name
        found = sorted(course.outcomes.get((scheme, name), []), key=lambda outcome: outcome.fold)
        predicted, error = _assemble(found, folds, left.get(name, count), dataset, course.budget)
        if predicted is not None:
            (partial if name in left else predictions)[name] = predicted
        whole = predictions.get(name)
        selected = [outcome.selected for outcome in found if outcome.selected is not None]
        row = summarise(
            name,
            observed,
            whole,
            groups=dataset.groups,
            e_in=float(np.mean([outcome.e_in for outcome in found])) if whole is not None else None,
            features_selected=median_low(selected) if whole is not None and selected else None,
            features_available=dataset.X.shape[1],
            fit_seconds=sum(outcome.seconds for outcome in found),
            error=error,
            space=candidate.space,
            note=_note(found, len(found)),
            left=None,
        )
        rows.append(row)
    errors = {name: ape(observed, predicted) for name, predicted in (predictions | partial).items()}
    for row in rows:
        if row["name"] in partial:
            seen = folds < left[row["name"]]
            rivals = [name for name in errors if left.get(name, count) >= left[row["name"]]]
            best = min(rivals, key=lambda name: (errors[name][seen].mean(), name))
            times = finite(errors[row["name"]][seen].mean() / errors[best][seen].mean())
            told = "" if times is None else f": {times:.3g} times the error of {best} on the same folds"
            text = f"stopped after {left[row['name']]} of {count} folds (could no longer win){told}"
            row["left"] = remark(
                "cannot-win", text, folds=left[row["name"]], of=count, times=times, best=best
            ).to_dict()
    index = range(len(observed))
    return SchemeResult(scheme, folds, pd.DataFrame(predictions, index=index), rows, pd.DataFrame(partial, index=index))


def _assemble(
    found: list[Outcome], folds: IntArray, count: int, dataset: LearningData, budget: float | None
) -> tuple[FloatArray | None, str | None]:
    """Return the out-of-fold predictions of one candidate, NaN in folds from ``count`` on, or why there are none."""
    failed = [outcome for outcome in found if outcome.error is not None]
    if failed:
        where = "" if len(failed) == count else f" (in {len(failed)} of {count} folds)"
        return None, f"{failed[0].error}{where}"
    if len(found) < count:
        return None, f"left out: the budget of {budget:g} s was spent"
    predicted = placed(found, folds)
    bad = np.flatnonzero(~np.isfinite(predicted) & (folds < count))
    if len(bad):
        sources = _sources(dataset)
        first = f"row {bad[0]}" if sources is None else sources[bad[0]]
        return None, f"predicted {predicted[bad[0]]} for {len(bad)} of {len(predicted)} rows (first: {first})"
    return predicted, None


def _note(found: list[Outcome], count: int) -> str | None:
    """Say which kinds of warnings the fits raised (the first of each kind), and in how many folds."""
    first: dict[str, str] = {}
    folds: Counter[str] = Counter()
    for outcome in found:
        kinds = {text.split(":")[0]: text for text in reversed(outcome.warned)}
        folds.update(kinds.keys())
        first = kinds | first
    return "; ".join(f"{text} (in {folds[kind]} of {count} folds)" for kind, text in sorted(first.items())) or None


def _sources(dataset: LearningData) -> list[str] | None:
    return dataset.rows["source"].astype(str).tolist() if "source" in dataset.rows.columns else None


def drawn(rows: BoolArray, most: int | None) -> BoolArray:
    """Return which of the rows, (n,), take part where at most so many may: all, or so many drawn at random."""
    if most is None or rows.sum() <= most:
        return rows
    found = np.zeros(len(rows), dtype=bool)
    found[np.random.default_rng(0).choice(np.flatnonzero(rows), most, replace=False)] = True
    return found


def make_folds(
    scheme: str,
    groups: ArrayLike | None,
    n: int,
    folds: int = 10,
    seed: int = 0,
    problems: ArrayLike | None = None,
) -> IntArray:
    """Return the fold in which each row is held out.

    Scheme ``"kfold"`` shuffles the ``n`` rows into folds whose sizes differ by at most one; where rows are repeats,
    their ``problems`` (n,), each in one fold, as groups of the other scheme are. ``"grouped"`` keeps every group of
    ``groups`` (n,) in one fold: groups go, largest first (those of equal size shuffled), to the fold with the fewest
    rows; with at most as many groups as folds each group is a fold of its own (leave one group out). The fold numbers
    0, 1, ..., shape (n,), each have at least one row. Raises DataError: fewer rows than folds, or fewer than two
    groups.
    """
    if folds < 2:
        raise ValueError(f"parameter folds of make_folds must be at least 2, got {folds}")
    if scheme == "kfold":
        count = n if problems is None else len(np.unique(problems))
        if count < folds:
            raise DataError(
                f"{folds}-fold cross-validation needs at least {folds} {'rows' if problems is None else 'problems'}, "
                f"there are {count}: measure more, or select fewer conditions"
            )
        if problems is not None:
            return _grouped(np.asarray(problems), n, folds, seed)
        return np.random.default_rng(seed).permutation(n) % folds
    if scheme == "grouped":
        if groups is None:
            raise ValueError("parameter groups of make_folds must be given for the scheme 'grouped', got None")
        return _grouped(np.asarray(groups), n, folds, seed)
    raise ValueError(f"parameter scheme of make_folds must be one of {', '.join(SCHEMES)}, got {scheme!r}")


def _grouped(groups: NDArray, n: int, folds: int, seed: int) -> IntArray:
    if len(groups) != n:
        raise ValueError(f"parameter groups of make_folds must have {n} entries, got {len(groups)}")
    code, names = pd.factorize(groups, sort=True)
    sizes = np.bincount(code)
    if len(names) < 2:
        found = f"all rows are of group {str(names[0])!r}" if len(names) else "there are no rows"
        raise DataError(
            f"grouped cross-validation needs at least 2 groups, {found}: "
            "choose another column for the groups, or measure more of them"
        )
    if len(names) <= folds:
        return code.astype(np.int64)
    return _balanced(sizes, folds, seed)[code]


def _balanced(sizes: NDArray, folds: int, seed: int) -> IntArray:
    """Fold of each group: the largest group first, each to the fold with the fewest rows so far."""
    shuffled = np.random.default_rng(seed).permutation(len(sizes))
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    rows = np.zeros(folds, dtype=np.int64)
    fold = np.empty(len(sizes), dtype=np.int64)
    for group in order:
        fold[group] = np.argmin(rows)
        rows[fold[group]] += sizes[group]
    return fold
