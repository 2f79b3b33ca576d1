"""Families of groups that no column states: groups that follow each other in the data, or share a label, err alike.

Where a column ``campaign`` or the files say which groups come from one search, whole campaigns are
left out and resampled (`campaigns`). Where nothing says so, errors and intervals of new groups hold
for groups of these families only, and too few of them may be known to tell more. Two traces of a
family are left in a table: its groups stand next to each other, as they were measured, and a label
that no model reads (a server, a version, a library) may be theirs alone. For both the groups' mean
logarithms of observed / predicted, predicted out of fold, are ranked, once what their sizes explain
is taken out:

- of groups in the order of their lines, by the mean squared difference of the ranks of neighbours
  (the rank version of von Neumann's ratio, Bartels 1982);
- of groups by each such label, by the variance of the labels' mean ranks (Kruskal & Wallis 1952).

Each has its p-value by `PERMUTATIONS` permutations of the groups, and the least of them is told
where it is below `LEVEL` over the number of tests. A table whose lines were shuffled and that keeps
no label has no trace: nobody can tell.

References
----------
R. Bartels, "The rank version of von Neumann's ratio test for randomness", Journal of the American
Statistical Association 77(377), 1982.

W. H. Kruskal & W. A. Wallis, "Use of ranks in one-criterion variance analysis", Journal of the
American Statistical Association 47(260), 1952.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from ..arrays import FloatArray
from ..operators.operators import DIMENSIONS
from ..remarks import Remark, remark
from ..table.measurements import DTYPE_COLUMNS
from ..table.problems import HOST
from .campaigns import NESTED

LEVEL: Final = 0.05
PERMUTATIONS: Final = 1999
LEAST_GROUPS: Final = 8
GROUPS_A_SIZE: Final = 5
"""Groups for each size whose part in the errors is taken out."""
_READ_BY_MODELS: Final = ("op", "device", "compute_dtype", "bound", *DTYPE_COLUMNS)
_ROUNDING: Final = 1e-12
_NO_LABELS: Final = ("source", "campaign", *_READ_BY_MODELS)


def unstated_families(
    rows: pd.DataFrame,
    groups: NDArray[Any],
    errors: FloatArray,
    *,
    read: Collection[str] = (),
    seed: int = 0,
) -> Remark | None:
    """Return what shows that groups come in families which no column states; None where nothing does.

    Parameters
    ----------
    rows : DataFrame of shape (n, p)
        Of measurements, with the ``source`` of each.
    groups : ndarray of shape (n,)
        The group of each row.
    errors : ndarray of shape (n,)
        Logarithms of observed / predicted, out of folds by group.
    read : collection of str
        Columns that the models read: what they say is in the predictions already.
    seed : int
        Of the permutations.

    Examples
    --------
    >>> four = np.repeat(np.arange(16), 3)
    >>> lines = [f"a.csv:{number}" for number in range(48)]
    >>> errors = 0.1 * (four // 4 % 2) + 0.01 * np.sin(four)
    >>> unstated_families(pd.DataFrame({"source": lines}), four, errors).values["by"]
    'order'
    """
    names, code = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    if len(names) < LEAST_GROUPS:
        return None
    of_groups = np.bincount(code, errors) / np.bincount(code)
    ranks = stats.rankdata(of_groups - _of_sizes(rows, code, of_groups))
    rng = np.random.default_rng(seed)
    tests = dict(_traces(rows, code, len(names), read))
    if not tests:
        return None
    least = 1.0
    by = ""
    for name, statistic in tests.items():
        p_value = _p_value(ranks, statistic, rng)
        if p_value < least:
            least = p_value
            by = name
    least = min(least * len(tests), 1.0)
    if least >= LEVEL:
        return None
    return _told(by, least, len(names))


def _told(by: str, p_value: float, groups: int) -> Remark:
    alike = f"groups that share their {by} err alike"
    what_to_do = f"state it as their campaign (rename {by}=campaign)"
    if by == "order":
        alike = "groups that follow each other in the data err alike"
        what_to_do = "state the search, day or model that each row is of in a column campaign"
    text = (
        f"{alike} (p = {p_value:.2g}): the {groups} groups seem to come in families that no column "
        "states, so errors and intervals of new groups hold for groups of these families, and what "
        f"others err by cannot be told: {what_to_do}"
    )
    return remark("unstated-families", text, by=by, p_value=p_value, groups=groups)


def _of_sizes(rows: pd.DataFrame, code: NDArray[np.intp], of_groups: FloatArray) -> FloatArray:
    """Return what sizes that all rows of a group share explain of the mean errors, (groups,), by least squares."""
    count = len(of_groups)
    columns: list[NDArray[np.floating]] = [np.ones(count)]
    for name in DIMENSIONS:
        if name not in rows or len(columns) > count // GROUPS_A_SIZE:
            continue
        values = pd.to_numeric(rows[name], errors="coerce").to_numpy(dtype=float)
        if not (values > 0).all():
            continue
        of_rows = pd.Series(np.log2(values)).groupby(code)
        of_group = of_rows.first().to_numpy()
        if of_rows.nunique().max() == 1 and np.ptp(of_group) > 0:
            columns.append(of_group)
    design = np.column_stack(columns)
    return design @ np.linalg.lstsq(design, of_groups, rcond=None)[0]


def _traces(
    rows: pd.DataFrame, code: NDArray[np.intp], groups: int, read: Collection[str]
) -> Iterator[tuple[str, Callable[[FloatArray], FloatArray]]]:
    """Yield each trace that families may have left, and its statistic of ranks (permutations, groups): small if so."""
    if "source" in rows:
        place = _place(rows["source"].astype(str))
        if place is not None:
            order = np.argsort(pd.Series(place).groupby(code).median().to_numpy(), kind="stable")
            yield "order", lambda ranks: (np.diff(ranks[:, order], axis=1) ** 2).sum(axis=1)
    for name in rows:
        column = str(name)
        if column in {*_NO_LABELS, *DIMENSIONS, *read} or column.startswith(HOST):
            continue
        labels = _of_groups(rows[name], code, groups)
        if labels is not None:
            sizes = np.bincount(labels)
            one_of = np.eye(len(sizes))[labels]
            yield column, lambda ranks, of=one_of, n=sizes: -((ranks @ of) ** 2 / n).sum(axis=1)


def _place(sources: pd.Series) -> NDArray[np.int64] | None:
    """Return where each row stands in the data: by file, then by line; None where a source has no line."""
    parts = sources.str.extract(r"^(?P<file>.*\D)?(?P<line>\d+)$")
    if parts["line"].isna().any():
        return None
    order = pd.DataFrame({"file": parts["file"].fillna(""), "line": parts["line"].astype(int)})
    sorted_rows = order.sort_values(["file", "line"], kind="stable").index.to_numpy()
    place = np.empty(len(order), dtype=np.int64)
    place[sorted_rows] = np.arange(len(order))
    return place


def _of_groups(column: pd.Series, code: NDArray[np.intp], groups: int) -> NDArray[np.intp] | None:
    """Return the label of each group, as numbers; None where a column has no words that several groups share."""
    if pd.api.types.is_numeric_dtype(column) or column.isna().any():
        return None
    table = pd.DataFrame({"group": code, "label": column.astype(str).to_numpy()})
    if table["label"].eq("").any():
        return None
    counts = table.value_counts(sort=False).rename("rows").reset_index()
    counts = counts.sort_values(["group", "rows"], ascending=[True, False], kind="stable")
    first = counts.drop_duplicates("group")
    labels = pd.factorize(first["label"], sort=True)[0]
    levels = int(labels.max()) + 1
    if first["rows"].sum() < NESTED * len(table) or not 2 <= levels <= groups // 2:
        return None
    return labels


def _p_value(
    ranks: FloatArray, statistic: Callable[[FloatArray], FloatArray], rng: np.random.Generator
) -> float:
    """Return the share of permutations of the groups with so small a statistic."""
    permuted = rng.permuted(np.tile(ranks, (PERMUTATIONS, 1)), axis=1)
    observed = statistic(ranks[None])[0]
    as_small = statistic(permuted) <= observed + _ROUNDING * abs(observed)
    return float((1 + as_small.sum()) / (PERMUTATIONS + 1))
