"""Which few hardware counters keep the accuracy: chosen for a number of profiling passes, inside every fold.

A profiler counts a few counters of each hardware block at once (`table.counters.per_pass`); more
need another pass over the program. `choose` takes the counters that explain the time best as long
as they fit; `WithinPasses` does so whenever it is fitted, so cross-validation scores the choice
too. `by_passes` and `ablation` compare the best model of each of `CATEGORIES` with all and with
fewer columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin

from ..errors import DataError
from ..features.matrix import Dataset
from ..models.base import Candidate, Memo, fit, selected_features
from ..models.suite import Columnar, suite
from ..settings import Report
from ..table.counters import block_of, per_pass, recorded_as
from ..table.measurements import COUNTER
from ..traces.epochs import EPOCH
from ..traces.summary import LAUNCH
from .competition import columnar, usable_schemes
from .crossval import Evaluation, cross_validate
from .metrics import ape
from .observers.progress import Progress

# counters that are tried together at most, and how often they are thinned and filled up again
MOST = 40
ROUNDS = 5
CATEGORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "non-linear": ("RandomForest", "BoostedTrees"),
    "OLS": ("OLS", "OLS/Forward/BIC"),
    "NNLS": ("NNLS", "NNLS/Forward/BIC"),
    "regularised": ("Lasso", "ElasticNet"),
    "regularised NNLS": ("Lasso/NNLS", "ElasticNet/NNLS"),
}
"""Models of the suite whose best stands for a category."""


def is_counter(column: str) -> bool:
    """Whether a column of X needs a pass of the profiler; what an epoch did stands in the trace."""
    return column.startswith(COUNTER) and not column.startswith((EPOCH, LAUNCH))


def recorded(columns: Sequence[str]) -> list[str]:
    """Return the counters that a profiler must be asked for to have the columns, each once, without prefix."""
    return list(
        dict.fromkeys(
            recorded_as(name.removeprefix(COUNTER)) for name in columns if is_counter(name)
        )
    )


def choose(X: pd.DataFrame, y: np.ndarray, passes: int, limits: Mapping[str, int]) -> list[str]:
    """Return the counters that fit into so many passes and explain the time best, in the order they were chosen.

    Rows are divided by y, so that a sum of columns is to be 1; columns that are no counters, and no
    categories, are always in it. Of the counters whose block has a place left the one that lowers
    the sum of squares most is added, until none fits or `MOST` are in; those are thinned by the
    extended BIC [1]_, whose penalty grows with how many there are to choose from, and each is
    exchanged where another does better; then again, until nothing changes. X is (n, p), of the
    columns of one counter (sum, maximum, imbalance) each may be chosen, at the cost of one;
    ``limits`` are by block the counters in a pass.

    References
    ----------
    .. [1] J. Chen and Z. Chen, "Extended Bayesian information criteria for model selection with large model spaces",
       Biometrika 95(3), 2008.
    """
    names = [str(name) for name in X.columns]
    # n x p, what a sum of times sees of each column
    scaled = X.to_numpy(dtype=np.float64) / y[:, None]
    scaled = scaled / np.maximum(np.linalg.norm(scaled, axis=0), 1e-300)
    without_pass = np.array([not is_counter(name) for name in names])
    always = [place for place, name in enumerate(names) if without_pass[place] and "=" not in name]
    constant = 1 / y / np.linalg.norm(1 / y)
    space = _Space(np.column_stack([scaled, constant]), [*always, len(names)])
    counters = max(int((~without_pass).sum()), 1)
    penalty = (np.log(len(y)) + 2 * np.log(counters)) / len(y)
    room = _Room(names, {block: passes * limit for block, limit in limits.items()})
    limit = min(MOST, len(y) - len(always) - 2)
    chosen: list[int] = []
    for _ in range(ROUNDS):
        before = chosen
        while len(chosen) < limit:
            best = space.best(chosen, room.open(chosen) & ~without_pass)
            if best is None:
                break
            chosen = [*chosen, best]
        chosen = _exchanged(space, space.thinned(chosen, penalty), room, ~without_pass)
        if chosen == before:
            break
    return [names[one] for one in space.thinned(chosen, penalty)]


def _exchanged(space: _Space, chosen: list[int], room: _Room, allowed: np.ndarray) -> list[int]:
    """Return the counters with each exchanged for a better one, one after the other."""
    for place in range(len(chosen)):
        others = [*chosen[:place], *chosen[place + 1 :]]
        best = space.best(others, room.open(others) & allowed)
        if best is not None and best != chosen[place]:
            chosen = [*chosen[:place], best, *chosen[place + 1 :]]
    return chosen


class _Space:
    """Least squares of ones on some of the columns of A (n, p), `always` among them."""

    def __init__(self, A: np.ndarray, always: Sequence[int]) -> None:
        left, sizes, _ = np.linalg.svd(A[:, always], full_matrices=False)
        basis = left[:, sizes > 1e-8 * sizes[0]]
        ones = np.ones(len(A))
        self._A = A - basis @ (basis.T @ A)  # what `always` does not explain
        self._norms = np.linalg.norm(self._A, axis=0)
        self._ones = ones - basis @ (basis.T @ ones)

    def best(self, chosen: Sequence[int], allowed: np.ndarray) -> int | None:
        """Return the column that lowers the sum of squares most beside those chosen; None where none does."""
        rest, basis = self._left(chosen)
        norms = self._norms**2 - ((basis.T @ self._A) ** 2).sum(axis=0)
        gain = np.divide(
            (self._A.T @ rest) ** 2, norms, out=np.zeros(len(norms)), where=norms > 1e-9
        )
        gain = np.where(np.append(allowed, False), gain, 0.0)
        best = int(np.argmax(gain))
        if gain[best] > 1e-12 * len(rest):
            return best
        return None

    def thinned(self, chosen: Sequence[int], penalty: float) -> list[int]:
        """Return the columns that each lower the logarithm of the residual by more than the penalty."""
        kept = list(chosen)
        while kept:
            rest, _ = self._left(kept)
            R = np.linalg.qr(self._A[:, kept], mode="r")
            inverse = np.linalg.pinv(R)
            coefficients = inverse @ inverse.T @ (self._A[:, kept].T @ self._ones)
            # what leaving each out adds
            loss = coefficients**2 / np.maximum((inverse**2).sum(axis=1), 1e-300)
            least = int(np.argmin(loss))
            left = max(float(rest @ rest), 1e-300)
            if np.log1p(loss[least] / left) > penalty:
                break
            del kept[least]
        return kept

    def _left(self, chosen: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        basis, _ = np.linalg.qr(self._A[:, list(chosen)])
        return self._ones - basis @ (basis.T @ self._ones), basis


class _Room:
    """Which columns can be had beside others: their block has a place left, or their counter is recorded already."""

    def __init__(self, names: Sequence[str], places: Mapping[str, int]) -> None:
        asked = [recorded_as(name.removeprefix(COUNTER)) for name in names]
        self._counter, counters = pd.factorize(pd.Series(asked))
        blocks = [block_of(str(name)) for name in counters]
        self._block, levels = pd.factorize(pd.Series(blocks))  # of each counter
        self._places = np.array([places[str(block)] for block in levels])

    def open(self, chosen: Sequence[int]) -> np.ndarray:
        """Return which columns, of shape (p,), may be chosen next."""
        recorded = np.unique(self._counter[list(chosen)])
        used = np.bincount(self._block[recorded], minlength=len(self._places))
        may = (used < self._places)[self._block[self._counter]] | np.isin(self._counter, recorded)
        may[list(chosen)] = False
        return may


def in_passes(counters: Sequence[str], limits: Mapping[str, int]) -> list[list[str]]:
    """Return which counters to record in each pass, the first chosen first."""
    passes: list[list[str]] = []
    used: Counter[str] = Counter()
    for name in counters:
        block = block_of(name)
        at = used[block] // limits[block]
        used[block] += 1
        passes += [[] for _ in range(at + 1 - len(passes))]
        passes[at].append(name)
    return passes


def passes_of(columns: Sequence[str]) -> int:
    """Return how many passes of the profiler it takes to have the counters among columns of X."""
    return len(in_passes(recorded(columns), per_pass()))


class WithinPasses(RegressorMixin, BaseEstimator):
    """The model ``name`` of the default suite on the counters that fit into some passes, chosen from each training set.

    ``columnar`` is what the suite must know of X, ``limits`` are by block the counters in a pass,
    ``counters_`` the columns that were chosen.
    """

    def __init__(
        self, name: str, columnar: Columnar, passes: int, limits: Mapping[str, int], seed: int = 0
    ) -> None:
        self.name = name
        self.columnar = columnar
        self.passes = passes
        self.limits = limits
        self.seed = seed

    def fit(
        self,
        X: pd.DataFrame,
        y: np.ndarray,
        groups: np.ndarray | None = None,
        memo: Memo | None = None,
    ) -> Self:
        """Choose the counters and fit the model to these columns."""
        made = lambda: choose(X, y, self.passes, self.limits)  # noqa: E731
        rows = (X.to_numpy(), np.asarray(y))
        if memo is None:
            self.counters_ = made()
        else:
            self.counters_ = memo.of(("counters", self.passes), rows, made)
        self.columns_ = [
            str(name) for name in X.columns if not is_counter(str(name)) or name in self.counters_
        ]
        roles = {name: self.columnar.roles[name] for name in self.columns_}
        model = suite("default", replace(self.columnar, roles=roles), self.seed, [self.name])[0]
        self.model_ = fit(model.estimator, X[self.columns_], y, groups, memo=memo)
        self.selected_features_ = selected_features(self.model_) or self.columns_
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Return the times that the model predicts, shape (n,)."""
        return np.asarray(self.model_.predict(X[self.columns_]))


@dataclass(frozen=True)
class Trial:
    """How well the best model of a category did with some columns."""

    columns: str  # what there was: "all", "2 passes", or "without counter.TCC*"
    passes: int  # passes of the profiler that it takes
    counters: int  # counters that are recorded in them
    # which category, and which of its models did best; "" where none ran
    category: str
    model: str
    e_out: float  # mean absolute error out of sample, %; NaN where no model ran
    ape: np.ndarray  # error of each row, %; shape (n,)


def scheme_of(dataset: Dataset) -> str:
    """Return the scheme that trials are judged under: groups left out, where there are enough of them."""
    return usable_schemes(dataset)[0][-1]


def by_passes(
    dataset: Dataset,
    passes: int,
    limits: Mapping[str, int],
    *,
    seed: int = 0,
    progress: Report | None = None,
) -> list[Trial]:
    """Return the trials with the counters of 0, 1, ... passes, then with all; the choice is made in every fold.

    Raises DataError: the rows have no counters.
    """
    every = recorded(list(map(str, dataset.X.columns)))
    if not every:
        raise DataError(
            "no counters to choose from: no column counter.NAME has a value in every row, or it "
            "never varies"
        )
    needed = len(in_passes(every, limits))
    seen = columnar(dataset)
    trials: list[Trial] = []
    for count in range(min(passes, needed - 1) + 1):
        candidates = [
            replace(
                model,
                estimator=WithinPasses(model.name, seen, count, limits, seed),
                family="passes",
            )
            for model in _suite(dataset, seed)
        ]
        evaluation = _evaluated(dataset, candidates, seed, progress)
        chosen = recorded(choose(dataset.X, dataset.y, count, limits))
        trials += _best(
            dataset, evaluation, f"{count} passes" if count != 1 else "1 pass", count, len(chosen)
        )
    evaluation = _evaluated(dataset, _suite(dataset, seed), seed, progress)
    return [*trials, *_best(dataset, evaluation, "all", needed, len(every))]


def ablation(
    dataset: Dataset,
    families: Collection[str],
    limits: Mapping[str, int],
    *,
    seed: int = 0,
    progress: Report | None = None,
) -> list[Trial]:
    """Return the trials without the columns that each family's patterns match (commas between).

    Raises DataError: a family matches no column, or all of them.
    """
    trials: list[Trial] = []
    for family in families:
        less = without(dataset, family.split(","))
        every = recorded(list(map(str, less.X.columns)))
        evaluation = _evaluated(less, _suite(less, seed), seed, progress)
        trials += _best(
            less, evaluation, f"without {family}", len(in_passes(every, limits)), len(every)
        )
    return trials


def without(dataset: Dataset, patterns: Sequence[str]) -> Dataset:
    """Return the data set without the columns that shell patterns match: ``counter.TCC*``.

    Raises DataError: they match no column, or all of them.
    """
    names = [str(name) for name in dataset.X.columns]
    kept = []
    for name in names:
        if not any(fnmatchcase(name, pattern.strip()) for pattern in patterns):
            kept.append(name)
    if len(kept) in (0, len(names)):
        what = "no feature"
        if not kept:
            what = "every feature"
        raise DataError(
            f"{','.join(patterns)} matches {what}: there are {', '.join(names[:8])}, ..."
        )
    roles = {name: dataset.recipe.roles[name] for name in kept}
    recipe = replace(dataset.recipe, columns=tuple(kept), roles=roles)
    return replace(dataset, X=dataset.X[kept], recipe=recipe, unpaired=None)


def fewest(trials: Sequence[Trial], dataset: Dataset, passes: int) -> Trial:
    """Return, of the trials of so many passes at most, that of the fewest that is as good as the best of them.

    As good: the best category's error is within one standard error of the best trial's, that of the
    mean difference of both over groups.
    """
    error = lambda one: float(np.nan_to_num(one.e_out, nan=np.inf))  # noqa: E731
    affordable = [one for one in trials if one.passes <= passes]
    best = min(affordable, key=error)
    groups = dataset.groups.astype(str)
    for count in sorted({one.passes for one in affordable}):
        cheaper = min((one for one in affordable if one.passes == count), key=error)
        means = pd.Series(cheaper.ape - best.ape).groupby(groups).mean()
        if cheaper.e_out - best.e_out <= means.std(ddof=1) / np.sqrt(len(means)):
            return cheaper
    return best


def _suite(dataset: Dataset, seed: int) -> list[Candidate]:
    names = []
    for models in CATEGORIES.values():
        for name in models:
            names.append(name)
    return suite("default", columnar(replace(dataset, unpaired=None)), seed, names)


def _evaluated(
    dataset: Dataset,
    candidates: Sequence[Candidate],
    seed: int,
    progress: Report | None,
) -> Evaluation:
    return cross_validate(
        replace(dataset, unpaired=None),
        candidates,
        schemes=(scheme_of(dataset),),
        seed=seed,
        observers=[] if progress is None else [Progress(progress)],
        tell_groups=("grouped",),
    )


def _best(
    dataset: Dataset, evaluation: Evaluation, columns: str, passes: int, counters: int
) -> list[Trial]:
    """Return the best model of each category."""
    predictions = evaluation[scheme_of(dataset)].predictions
    trials = []
    for category, models in CATEGORIES.items():
        errors = {name: ape(dataset.y, predictions[name]) for name in models if name in predictions}
        name = min(errors, key=lambda one: float(errors[one].mean()), default="")
        errors_of = errors.get(name, np.full(len(dataset), np.nan))
        trials.append(
            Trial(columns, passes, counters, category, name, float(errors_of.mean()), errors_of)
        )
    return trials
