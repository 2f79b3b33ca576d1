"""Two predictors, or two runs, on the same rows: how much less one errs, and whether that is more than luck.

Rows of a group err together, so groups are what counts: Student's t interval of the mean
difference, with the variance between groups and their effective number (a bootstrap of few groups
is too narrow), and the test over groups of `ties`, in which the largest group counts no more than
any other.

Two tables of measurements are compared by how the times of the problems that both hold changed
(`drift`).

Two estimates of one quantity each (`Estimate`: projections, forecasts) are compared by what they
share: an error that both make alike, of the same law on the same GPU, is no error of their ratio.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import ndtri

from ..arrays import IntArray
from ..errors import DataError
from ..operators.operators import OPS, group_labels
from ..operators.work import texts
from ..table.measurements import DTYPE_COLUMNS
from ..table.problems import problem_ids
from .campaigns import Campaigns
from .cluster_bootstrap import effective_groups, percentile_interval
from .ties import p_value_of_pair


@dataclass(frozen=True)
class PairedDifference:
    """The errors of two predictors on common rows.

    Attributes
    ----------
    rows, groups : int
        How many both predicted.
    campaigns : int or None
        Campaigns that the groups come in, each of which is one unit then; None where they come in
        none.
    first, second : float
        Mean error of each, %.
    difference : float
        Second minus first, points: negative where the second errs less.
    lower, upper : float or None
        Its interval at `level`; None of fewer than two groups.
    p_value : float or None
        Two-sided, over groups (`ties.p_value_of_pair`); None of fewer than two.
    level : float
        Of the interval.
    """

    rows: int
    groups: int
    campaigns: int | None
    first: float
    second: float
    difference: float
    lower: float | None
    upper: float | None
    p_value: float | None
    level: float

    @property
    def apart(self) -> bool:
        """Whether the test over groups rejects at the interval's level that both err alike.

        The interval is of the mean over rows. It may hold zero where one group has most rows,
        though one of the two errs more in nearly all groups.
        """
        return self.p_value is not None and self.p_value < 1 - self.level


def paired_difference(
    first: ArrayLike,
    second: ArrayLike,
    groups: ArrayLike,
    *,
    campaigns: ArrayLike | None = None,
    level: float = 0.95,
) -> PairedDifference:
    """Compare the errors (%, n at least 1) of two predictors, row by row.

    ``campaigns`` (n,) are those that the groups come in: where given, they are the units.

    >>> found = paired_difference([5.0, 7.0, 6.0, 8.0], [4.0, 6.0, 5.0, 7.0], ["a", "a", "b", "b"])
    >>> found.difference, round(found.p_value, 3)
    (-1.0, 0.053)
    """
    one = np.asarray(first, dtype=float)
    other = np.asarray(second, dtype=float)
    if campaigns is None:
        units_of = groups
    else:
        units_of = campaigns
    _, code, sizes = np.unique(
        np.asarray(units_of).astype(str), return_inverse=True, return_counts=True
    )
    sums = np.bincount(code, weights=other - one).astype(np.float64)
    difference = float(sums.sum() / len(one))
    lower = None
    upper = None
    p_value = None
    if len(sums) > 1:
        units = max(effective_groups(code), 2.0)
        # of a ratio
        scatter = ((sums - sizes * difference) ** 2).sum()
        spread = np.sqrt(scatter * units / (units - 1)) / len(one)
        reach = float(stats.t.ppf((1 + level) / 2, units - 1) * spread)
        lower = difference - reach
        upper = difference + reach
        means = (np.bincount(code, weights=errors) / sizes for errors in (one, other))
        p_value = p_value_of_pair(*means, less=difference < 0, level=level)
    return PairedDifference(
        rows=len(one),
        groups=len(np.unique(np.asarray(groups).astype(str))),
        campaigns=None if campaigns is None else len(sums),
        first=float(one.mean()),
        second=float(other.mean()),
        difference=difference,
        lower=lower,
        upper=upper,
        p_value=p_value,
        level=level,
    )


@dataclass(frozen=True)
class SchemeComparison:
    """Two runs under one scheme of cross-validation, on the rows that both predicted.

    Attributes
    ----------
    scheme : str
        ``"kfold"``, ``"grouped"``.
    names : tuple of str
        The model that each selected.
    paired : PairedDifference or None
        Of their errors; None without common rows.
    by_model : DataFrame
        ``model``, ``first``, ``second`` (mean error, %, NaN where a run lacks it or it left early)
        and ``difference``.
    by_group : DataFrame
        ``group``, ``rows``, ``first``, ``second``, ``difference`` of the selected models, the
        largest difference first.
    """

    scheme: str
    names: tuple[str, str]
    paired: PairedDifference | None
    by_model: pd.DataFrame
    by_group: pd.DataFrame


def common_rows(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Return which rows of two runs' predictions are one: ``row_first``, ``row_second`` and the first's ``group``.

    Rows are one whose observed values agree in nine digits, and whose file and line do; of files
    that were renamed, those of a group.
    """
    sides = [
        run.drop_duplicates("row").assign(observed=lambda of: of["observed"].map("{:.9g}".format))
        for run in (first, second)
    ]
    for name in ("source", "group"):
        if all(name in side for side in sides):
            keyed = [
                side.assign(
                    key=side[name].astype(object).fillna("").astype(str).str.rpartition("/")[2]
                )
                for side in sides
            ]
            keyed = [
                side.assign(nth=side.groupby(["key", "observed"]).cumcount()) for side in keyed
            ]
            pairs = keyed[0].merge(
                keyed[1], on=["key", "observed", "nth"], suffixes=("_first", "_second")
            )
            if len(pairs):
                return pairs.rename(columns={"group_first": "group"})[
                    ["row_first", "row_second", "group"]
                ]
    return pd.DataFrame({"row_first": [], "row_second": [], "group": []})


SIZES: Final = tuple(dict.fromkeys(name for op in OPS.values() for name in op.dims))
"""Dimensions in the order of their operators."""
IDENTITY: Final = (
    "op",
    "family",
    "variant",
    *DTYPE_COLUMNS,
    *SIZES,
    "kernel",
    "device",
    "group",
    "campaign",
    "source",
)
"""Columns of predictions that say which workload a row is."""


def same_workloads(
    first: pd.DataFrame,
    second: pd.DataFrame,
    predicted: str,
    measured: Collection[str],
    names: tuple[str, str] = ("the first table", "the second table"),
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of one workload in two tables of predictions beside each other, in the order of the first.

    The columns of `IDENTITY` say which workload a row of `flopcast.predict` is, but those
    ``measured``, as ``source`` is where the files were not the same ones, and the host. Rows
    without a prediction are left out. Errors call the two tables by ``names``.

    Raises DataError: no workload is predicted in both, or a table lacks a column by which the other
    tells workloads apart, or has one more often.
    """
    whole = [frame.reset_index(drop=True) for frame in (first, second)]
    sides = [frame[frame[predicted].gt(0)] for frame in whole]
    by = [
        name
        for name in IDENTITY
        if name in first and name in second and name not in (*measured, "device")
    ]
    for side, other, which in ((*sides, names[1]), (*sides[::-1], names[0])):
        stated_names = [
            name
            for name in IDENTITY
            if name in side and name not in (*measured, "source") and name not in other
        ]
        lost = [name for name in stated_names if len(side[name].unique()) > 1]
        if lost:
            raise DataError(
                f"{which} has no column {lost[0]}, which tells the workloads of the other apart"
            )
    if any(len(side["target"].unique()) > 1 for side in sides):
        by.append("target")
    columns = [{name: _as_text(side[name]) for name in by} for side in sides]
    for keys in (by, [name for name in by if name != "source"]):
        workloads = []
        for side, of in zip(sides, columns, strict=True):
            workloads.append(_workloads([of[name] for name in keys], len(side)))
        times = [Counter(of) for of in workloads]
        if not times[0].keys() & times[1].keys():
            continue
        for row, key in zip(sides[0].index, workloads[0], strict=True):
            in_first, in_second = times[0][key], times[1][key]
            if in_second and in_first != in_second:
                what = f"the workload of row {row + 1} of {names[0]} is predicted {in_first} and "
                what += f"{in_second} times in {names[0]} and {names[1]}: keep as many in each"
                raise DataError(what)
        pairs = _pairs(*workloads)
        one, other = (side.iloc[pairs[:, at]] for at, side in enumerate(sides))
        return one.reset_index(drop=True), other.reset_index(drop=True)
    raise DataError("no workload is predicted in both: there is nothing to compare")


def _workloads(columns: Sequence[Sequence[str]], rows: int) -> list[tuple[str, ...]]:
    """Return what each row says of its workload, in the order of the columns."""
    if not columns:
        return [()] * rows
    return list(zip(*columns, strict=True))


def _pairs(first: Sequence[tuple[str, ...]], second: Sequence[tuple[str, ...]]) -> IntArray:
    """Return the rows of each workload of both, (pairs, 2), which has as many rows in either."""
    places: dict[tuple[str, ...], list[int]] = {}
    for place in reversed(range(len(second))):
        places.setdefault(second[place], []).append(place)
    pairs = []
    for place, key in enumerate(first):
        if key in places:
            pairs.append((place, places[key].pop()))
    return np.array(pairs)


def _as_text(column: pd.Series) -> list[str]:
    """Return a column as text in which a number is the same however a file held it."""
    codes, numbers = pd.factorize(pd.to_numeric(column, errors="coerce").astype(float))
    of_numbers = [f"{number:.12g}" for number in numbers]
    words = column.astype(object).where(column.notna(), "")
    cells = []
    for code, word in zip(codes.tolist(), words.tolist(), strict=True):
        if code >= 0:
            cells.append(of_numbers[code])
        else:
            cells.append(str(word))
    return cells


def compare_scheme(
    cvs: tuple[Mapping[str, Any], Mapping[str, Any]],
    predictions: tuple[pd.DataFrame, pd.DataFrame],
    common: pd.DataFrame,
    *,
    campaigns: Campaigns | None = None,
    level: float = 0.95,
) -> SchemeComparison:
    """Compare two runs under a scheme that both have, by its entry of ``metrics["cv"]`` and the predictions of each.

    ``common`` are the rows that `common_rows` found, ``campaigns`` those that their groups come in;
    ``level`` is that of `paired_difference`.
    """
    sides = []
    for cv, table, rows in zip(
        cvs, predictions, (common["row_first"], common["row_second"]), strict=True
    ):
        errors = table[table["scheme"] == cv["scheme"]].pivot_table(
            "ape", "row", "model", observed=True
        )
        sides.append(errors.reindex(rows).reset_index(drop=True))
    means = pd.DataFrame(
        {
            side: errors.mean(skipna=False)
            for side, errors in zip(("first", "second"), sides, strict=True)
        }
    )
    by_model = (
        means.assign(difference=means["second"] - means["first"]).rename_axis("model").reset_index()
    )
    names = (
        str((cvs[0].get("selected") or {}).get("name")),
        str((cvs[1].get("selected") or {}).get("name")),
    )
    paired = None
    by_group = pd.DataFrame(columns=["group", "rows", "first", "second", "difference"])
    if names[0] in sides[0] and names[1] in sides[1]:
        common_pairs = pd.DataFrame(
            {"group": common["group"], "first": sides[0][names[0]], "second": sides[1][names[1]]}
        ).dropna()
        if len(common_pairs):
            units = None
            if campaigns is not None:
                units = campaigns.labels(common_pairs["group"])
            paired = paired_difference(
                common_pairs["first"],
                common_pairs["second"],
                common_pairs["group"],
                campaigns=units,
                level=level,
            )
        groups = common_pairs.groupby("group", observed=True).agg(
            rows=("first", "size"), first=("first", "mean"), second=("second", "mean")
        )
        groups = groups.assign(difference=groups["second"] - groups["first"]).reset_index()
        by_group = groups.sort_values(
            "difference", key=lambda of: -of.abs(), kind="stable", ignore_index=True
        )
    return SchemeComparison(str(cvs[0]["scheme"]), names, paired, by_model, by_group)


@dataclass(frozen=True)
class Estimate:
    """A positive quantity that errs log-normally: its median, and the deviation of its logarithm by source, signed."""

    value: float
    sources: Mapping[str, float]


@dataclass(frozen=True)
class EstimatedDifference:
    """The second of two estimates against the first, with intervals at a level."""

    # second over first
    ratio: float
    ratio_lower: float
    ratio_upper: float
    # second minus first, in their unit
    difference: float
    lower: float
    upper: float
    shared: float  # share of the variance of both that is common, and so cancels as far as both are moved alike

    @property
    def apart(self) -> bool:
        """Whether the interval of the ratio leaves 1 out."""
        return self.ratio_lower > 1 or self.ratio_upper < 1


def estimated_difference(
    first: Estimate, second: Estimate, shared: Collection[str], level: float
) -> EstimatedDifference:
    """Compare two estimates that make the errors of ``shared`` sources alike, and all others independently.

    The ratio is log-normal; the interval of the difference is that of its linearisation.

    >>> one, other = Estimate(100.0, {"gemm": 0.2, "cpu": 0.03}), Estimate(90.0, {"gemm": 0.2, "cpu": 0.04})
    >>> found = estimated_difference(one, other, {"gemm"}, 0.9)
    >>> round(found.ratio, 3), round(found.ratio_lower, 3), round(found.ratio_upper, 3)
    (0.9, 0.829, 0.977)
    """
    names = dict.fromkeys([*first.sources, *second.sources])
    logs = 0.0
    plain = 0.0
    common = 0.0
    every = 0.0
    for name in names:
        one = first.sources.get(name, 0.0)
        other = second.sources.get(name, 0.0)
        every += one**2 + other**2
        if name in shared:
            common += one**2 + other**2
            logs += (other - one) ** 2
            plain += (other * second.value - one * first.value) ** 2
        else:
            logs += one**2 + other**2
            plain += (one * first.value) ** 2 + (other * second.value) ** 2
    z = float(ndtri((1 + level) / 2))
    ratio = second.value / first.value
    reach = z * np.sqrt(plain)
    change = second.value - first.value
    with np.errstate(over="ignore"):  # an interval may have no end
        width = float(np.exp(z * np.sqrt(logs)))
    together = 0.0
    if every:
        together = common / every
    return EstimatedDifference(
        ratio, ratio / width, ratio * width, change, change - reach, change + reach, together
    )


_DRAWS: Final = 2000  # of the groups of two tables
_LEAST: Final = 4  # groups that an interval needs, as in `checking`


def drift(
    first: pd.DataFrame, second: pd.DataFrame, *, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """Return how the times of problems that both tables hold changed, a row per device, operator, formats and scales.

    Of each table the fastest kernel of a problem counts. ``ratio`` is the geometric mean of second
    / first, ``lower`` and ``upper`` its interval: whole default groups are drawn
    (`cluster_bootstrap`), NaN for fewer than four. ``fastest_tenth`` and ``slowest_tenth`` are the
    10 and 90 % quantiles of the ratio, ``kernels`` the part of the problems whose fastest kernel
    has another name. Other columns: ``device``, ``op``, ``dtype_a``, ``dtype_b``, ``scale_block``,
    ``problems``, ``groups``. Raises DataError: they share no problem.
    """
    both = pd.concat([first.assign(_side=0), second.assign(_side=1)], ignore_index=True)
    both["_problem"] = problem_ids(both)
    both = both.sort_values("duration_us", kind="stable").drop_duplicates(["_problem", "_side"])
    one, other = (both[both["_side"] == side].set_index("_problem") for side in (0, 1))
    shared = one.index.intersection(other.index)
    if not len(shared):
        raise DataError(
            "the tables hold no problem in common: compare those of one device, operator and format"
        )
    one = one.loc[shared].reset_index(drop=True)
    other = other.loc[shared].reset_index(drop=True)
    change = np.log(
        other["duration_us"].to_numpy(dtype=float) / one["duration_us"].to_numpy(dtype=float)
    )
    # which some tables write with the release
    named = "kernel"
    if "kernel_source" in both:
        named = "kernel_source"
    renamed = texts(one, named) != texts(other, named)
    groups = group_labels(one)
    rng = np.random.default_rng(seed)
    lines = []
    by = ["device", "op", "dtype_a", "dtype_b", "scale_block"]
    one["scale_block"] = texts(one, "scale_block")
    for rows in one.groupby(by, sort=True, dropna=False).indices.values():
        _, label = np.unique(groups[rows], return_inverse=True)
        counts = np.bincount(label)
        sums = np.bincount(label, weights=change[rows])
        lower = upper = np.nan
        if len(counts) >= _LEAST:
            times = rng.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), size=_DRAWS)
            draws = (times @ sums) / (times @ counts)
            lower, upper = np.exp(
                percentile_interval(draws, effective_groups(groups[rows]), level=level)
            )
        low, high = np.exp(np.quantile(change[rows], [0.1, 0.9]))
        figures = {
            "problems": len(rows),
            "groups": len(counts),
            "ratio": np.exp(change[rows].mean()),
        }
        figures |= {
            "lower": float(lower),
            "upper": float(upper),
            "fastest_tenth": low,
            "slowest_tenth": high,
        }
        figures["kernels"] = renamed[rows].mean()
        lines.append({**one.loc[rows[0], by].to_dict(), **figures})
    return pd.DataFrame(lines)
