"""Which rows are held out together, and from which the others may learn.

`make_folds` deals rows, or whole groups, into folds. `TrainingRows` holds the arrays of a data set
and says, for every fit of the package, which rows it learns from and what its inner folds must
not split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import DataError, TooFewRowsError
from ..laws.rates import HOST_DEVICE
from ..operators.operators import RUN
from ..table.problems import problem_ids
from .metrics import check_targets

SCHEMES: Final = ("kfold", "grouped")  # shuffled folds, and folds that never split a group
NEW_CAMPAIGN: Final = "campaign"
"""The question of a new campaign: folds that never split a campaign of groups, and the intervals of its rows."""
MOST_SEEN: Final = 15_000
"""Training rows, drawn at random, on which E_in is computed: more cost more than they tell."""


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


class LearningRows(NamedTuple):
    """What one fit is made to, and some of its paired rows to compute E_in on."""

    X: pd.DataFrame  # (n, p): the paired rows, then the unpaired ones
    y: FloatArray  # (n,)
    groups: NDArray | None  # (n,): what inner folds must not split
    campaigns: NDArray | None  # (n,): the search that each time came from
    seen: pd.DataFrame  # (k, p), k <= `MOST_SEEN`
    seen_y: FloatArray  # (k,)


@dataclass(frozen=True)
class TrainingRows:
    """The arrays of a data set, plain so that joblib hands them to processes as memory maps.

    The one rule of which rows a fit may learn from: no held-out row, no row whose group (as target
    or as host) is held out under the scheme ``"grouped"``, or whose campaign is under the scheme
    ``"campaign"``, and no repeat of a problem that is held out.
    """

    X: FloatArray  # (n, p)
    columns: pd.Index
    y: FloatArray  # (n,)
    groups: NDArray  # (n,)
    folds: Mapping[str, IntArray]  # scheme -> the fold in which each row is held out, (n,)
    # schemes under which a model is given the groups for its inner folds
    tell_groups: frozenset[str]
    unpaired: Unpaired | None
    campaigns: PairedAndUnpaired | None
    repeats: PairedAndUnpaired | None
    hosts: NDArray | None  # (n,): the group of each row on its host
    origins: PairedAndUnpaired | None = None
    """The campaign of each row's group: whole ones are left out where a new campaign is asked for."""

    @classmethod
    def of(
        cls,
        data: LearningData,
        folds: Mapping[str, IntArray],
        tell_groups: frozenset[str],
        repeats: PairedAndUnpaired | None,
        origins: PairedAndUnpaired | None = None,
    ) -> TrainingRows:
        """Take the arrays of a data set."""
        unpaired = None
        if data.unpaired is not None and len(data.unpaired.y):
            unpaired = Unpaired(
                data.unpaired.X.reindex(columns=data.X.columns).to_numpy(dtype=np.float64),
                check_targets(data.unpaired.y, sources_of(data.unpaired)),
                np.asarray(data.unpaired.groups, dtype=str),
            )
        names = [str(column) for column in data.X.columns]
        return cls(
            X=data.X.to_numpy(dtype=np.float64),
            columns=pd.Index(names, dtype=object),  # Arrow is slow for a few names
            y=np.asarray(data.y, dtype=np.float64),
            groups=np.asarray(data.groups, dtype=str),
            folds=folds,
            tell_groups=tell_groups,
            unpaired=unpaired,
            campaigns=campaigns_of(data),
            repeats=repeats,
            hosts=hosts_of(data),
            origins=origins,
        )

    def held_out(self, scheme: str, fold: int) -> BoolArray:
        """Return which paired rows a fold holds out, (n,)."""
        return self.folds[scheme] == fold

    def without_fold(
        self, scheme: str, fold: int, max_rows: int | None, *, uses_unpaired: bool
    ) -> LearningRows:
        """Return what a fit without one fold learns from, ``max_rows`` paired rows of it."""
        held_out = self.held_out(scheme, fold)
        paired = ~held_out
        if scheme != "kfold":
            paired = learnable(held_out, self.groups, self.hosts)
        unpaired = None
        if uses_unpaired and self.unpaired is not None:
            unpaired = self._unpaired_without(scheme, held_out)
        return self.learning_rows(scheme, drawn(paired, max_rows), unpaired)

    def learning_rows(
        self, scheme: str, paired: BoolArray, unpaired: BoolArray | None
    ) -> LearningRows:
        """Return the input of a fit to these paired and unpaired rows under a scheme."""
        X = self.frame_of(paired)
        y = self.y[paired]
        inner = self._inner_groups(scheme)
        groups = None
        if inner is not None:
            groups = inner.paired[paired]
        campaigns = None
        if unpaired is not None and self.unpaired is not None:
            X = self._frame(np.vstack([X, self.unpaired.X[unpaired]]))
            y = np.r_[y, self.unpaired.y[unpaired]]
            if inner is not None:
                groups = np.r_[groups, inner.unpaired[unpaired]]
            if self.campaigns is not None:
                campaigns = np.r_[self.campaigns.paired[paired], self.campaigns.unpaired[unpaired]]
        seen = drawn(paired, MOST_SEEN)
        return LearningRows(X, y, groups, campaigns, self.frame_of(seen), self.y[seen])

    def frame_of(self, rows: BoolArray) -> pd.DataFrame:
        """Return the features of some paired rows."""
        values = self.X.T.take(np.flatnonzero(rows), axis=1).T  # column by column: no further copy
        return self._frame(values)

    def _inner_groups(self, scheme: str) -> PairedAndUnpaired | None:
        """Return the sets of rows that inner folds keep whole: groups if models are given them, else problems."""
        if scheme not in self.tell_groups:
            return self.repeats
        if self.unpaired is None:
            return PairedAndUnpaired(self.groups, self.groups[:0])
        return PairedAndUnpaired(self.groups, self.unpaired.groups)

    def _unpaired_without(self, scheme: str, held_out: BoolArray) -> BoolArray:
        """Return which unpaired rows may be learnt from while some paired rows are held out."""
        assert self.unpaired is not None
        keep = np.ones(len(self.unpaired.y), dtype=bool)
        if scheme == "grouped":
            keep &= ~np.isin(self.unpaired.groups, self.groups[held_out])
        if scheme == NEW_CAMPAIGN and self.origins is not None:
            keep &= ~np.isin(self.origins.unpaired, self.origins.paired[held_out])
        if self.repeats is not None:
            keep &= ~np.isin(self.repeats.unpaired, self.repeats.paired[held_out])
        return keep

    def _frame(self, values: FloatArray) -> pd.DataFrame:
        return pd.DataFrame(np.asfortranarray(values), columns=self.columns, copy=False)


class Unpaired(NamedTuple):
    """Target rows without a host time."""

    X: FloatArray  # (u, p)
    y: FloatArray  # (u,)
    groups: NDArray  # (u,)


class PairedAndUnpaired(NamedTuple):
    """A label of each paired row, (n,), and of each unpaired one, (u,)."""

    paired: NDArray
    unpaired: NDArray


def campaigns_of(data: LearningData) -> PairedAndUnpaired | None:
    """Return the search that each time came from; None where not all rows state it."""
    if data.unpaired is None:
        return None
    labels = []
    for rows in (data.rows, data.unpaired.rows):
        if "campaign" not in rows or rows["campaign"].isna().any():
            return None
        labels.append(rows["campaign"].to_numpy(dtype=str))
    return PairedAndUnpaired(*labels)


def repeats_of(data: LearningData) -> PairedAndUnpaired | None:
    """Return the number of the problem of each row; None where no problem has repeats.

    Repeats are rows that the column ``run`` alone tells apart (`table.problems.number_runs`), and
    those of many targets whose problem was measured on another one too: a new problem is measured
    on the host alone.
    """
    if RUN not in data.rows and HOST_DEVICE not in data.rows:
        return None
    if data.unpaired is None:
        tables = [data.rows]
    else:
        tables = [data.rows, data.unpaired.rows]
    problems = pd.concat(tables, ignore_index=True).drop(columns=RUN, errors="ignore")
    ids = problem_ids(problems, device=False)
    if len(np.unique(ids)) == len(ids):
        return None
    count = len(data.rows)
    return PairedAndUnpaired(ids[:count], ids[count:])


def hosts_of(data: LearningData) -> NDArray | None:
    """Return the group that each row would be of on its host, (n,), where rows have separate hosts; else None."""
    return getattr(data, "host_groups", None)


def sources_of(data: LearningData) -> list[str] | None:
    """Return the file and row that each row came from; None where the table does not say."""
    if "source" in data.rows.columns:
        return data.rows["source"].astype(str).tolist()
    return None


def learnable(left_out: BoolArray, groups: NDArray, hosts: NDArray | None) -> BoolArray:
    """Return which rows, (n,), may be learnt from where groups are left out: they are left out as hosts too."""
    if hosts is None:
        return ~left_out
    return ~left_out & ~np.isin(hosts, groups[left_out])


def drawn(rows: BoolArray, max_rows: int | None) -> BoolArray:
    """Return which of the rows, (n,), take part where at most so many may: all, or so many drawn at random."""
    if max_rows is None or rows.sum() <= max_rows:
        return rows
    part = np.zeros(len(rows), dtype=bool)
    part[np.random.default_rng(0).choice(np.flatnonzero(rows), max_rows, replace=False)] = True
    return part


def make_folds(
    scheme: str,
    groups: ArrayLike | None,
    n: int,
    folds: int = 10,
    seed: int = 0,
    problems: ArrayLike | None = None,
) -> IntArray:
    """Return the fold in which each row is held out.

    Scheme ``"kfold"`` shuffles the ``n`` rows into folds whose sizes differ by at most one; where
    rows are repeats, their ``problems`` (n,), each in one fold, as groups of the other scheme are.
    ``"grouped"`` keeps every group of ``groups`` (n,) in one fold: groups go, largest first (those
    of equal size shuffled), to the fold with the fewest rows; with at most as many groups as folds
    each group is a separate fold (leave one group out). The fold numbers 0, 1, ..., shape (n,),
    each have at least one row. Raises DataError: fewer rows than folds, or fewer than two groups.
    """
    if folds < 2:
        raise ValueError(f"parameter folds of make_folds must be at least 2, got {folds}")
    if scheme == "kfold":
        units = "problems"
        if problems is None:
            units = "rows"
        count = n
        if problems is not None:
            count = len(np.unique(problems))
        if count < folds:
            raise TooFewRowsError(
                f"{folds}-fold cross-validation needs at least {folds} {units}, there are {count}: "
                "measure more, or select fewer conditions"
            )
        if problems is not None:
            return _grouped(np.asarray(problems), n, folds, seed)
        return np.random.default_rng(seed).permutation(n) % folds
    if scheme == "grouped":
        if groups is None:
            raise ValueError(
                "parameter groups of make_folds must be given for the scheme 'grouped', got None"
            )
        return _grouped(np.asarray(groups), n, folds, seed)
    raise ValueError(
        f"parameter scheme of make_folds must be one of {', '.join(SCHEMES)}, got {scheme!r}"
    )


def rows_in_other_folds(groups: NDArray[Any], folds: IntArray) -> NDArray[np.int64]:
    """Return how many rows of the group of each row, (n,), are in other folds than it."""
    code = pd.factorize(groups)[0]
    table = np.zeros((code.max() + 1, folds.max() + 1), dtype=np.int64)
    np.add.at(table, (code, folds), 1)
    return table.sum(axis=1)[code] - table[code, folds]


def _grouped(groups: NDArray, n: int, folds: int, seed: int) -> IntArray:
    if len(groups) != n:
        raise ValueError(f"parameter groups of make_folds must have {n} entries, got {len(groups)}")
    code, names = pd.factorize(groups, sort=True)
    if len(names) < 2:
        if len(names):
            counted = f"all rows are of group {str(names[0])!r}"
        else:
            counted = "there are no rows"
        raise DataError(
            f"grouped cross-validation needs at least 2 groups, {counted}: "
            "choose another column for the groups, or measure more of them"
        )
    if len(names) <= folds:
        return code.astype(np.int64)
    return _balanced(np.bincount(code), folds, seed)[code]


def _balanced(sizes: Sequence[int] | NDArray, folds: int, seed: int) -> IntArray:
    """Return the fold of each group: the largest group first, each to the fold with the fewest rows so far."""
    sizes = np.asarray(sizes)
    shuffled = np.random.default_rng(seed).permutation(len(sizes))
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    rows = np.zeros(folds, dtype=np.int64)
    fold = np.empty(len(sizes), dtype=np.int64)
    for group in order:
        fold[group] = np.argmin(rows)
        rows[fold[group]] += sizes[group]
    return fold
