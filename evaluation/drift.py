"""How much the times of the same problems changed between two tables of measurements, by operator."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ..errors import DataError
from ..operators.operators import group_labels
from ..operators.work import texts
from ..table.problems import problem_ids
from .cluster_bootstrap import effective_groups, percentile_interval

DRAWS: Final = 2000
LEAST: Final = 4  # groups that an interval needs, as in `checking`


def drift(first: pd.DataFrame, second: pd.DataFrame, *, level: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """Return how the times of problems that both tables hold changed, a row per device, operator and number formats.

    Of each table the fastest kernel of a problem counts. ``ratio`` is the geometric mean of second / first, ``lower``
    and ``upper`` its interval: whole default groups are drawn (`cluster_bootstrap`), NaN for fewer than four.
    ``fastest_tenth`` and ``slowest_tenth`` are the 10 and 90 % quantiles of the ratio, ``kernels`` the part of the
    problems whose fastest kernel has another name. Other columns: ``device``, ``op``, ``dtype_a``, ``dtype_b``,
    ``problems``, ``groups``. Raises DataError: they share no problem.
    """
    both = pd.concat([first.assign(_side=0), second.assign(_side=1)], ignore_index=True)
    both["_problem"] = problem_ids(both)
    both = both.sort_values("duration_us", kind="stable").drop_duplicates(["_problem", "_side"])
    one, other = (both[both["_side"] == side].set_index("_problem") for side in (0, 1))
    shared = one.index.intersection(other.index)
    if not len(shared):
        raise DataError("the tables hold no problem in common: compare those of one device, operator and format")
    one, other = one.loc[shared].reset_index(drop=True), other.loc[shared].reset_index(drop=True)
    change = np.log(other["duration_us"].to_numpy(dtype=float) / one["duration_us"].to_numpy(dtype=float))
    named = "kernel_source" if "kernel_source" in both else "kernel"  # which some tables write with the release
    renamed = texts(one, named) != texts(other, named)
    groups, rng = group_labels(one), np.random.default_rng(seed)
    found = []
    by = ["device", "op", "dtype_a", "dtype_b"]
    for rows in one.groupby(by, sort=True, dropna=False).indices.values():
        _, label = np.unique(groups[rows], return_inverse=True)
        counts, sums = np.bincount(label), np.bincount(label, weights=change[rows])
        lower = upper = np.nan
        if len(counts) >= LEAST:
            times = rng.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), size=DRAWS)
            draws = (times @ sums) / (times @ counts)
            lower, upper = np.exp(percentile_interval(draws, effective_groups(groups[rows]), level=level))
        low, high = np.exp(np.quantile(change[rows], [0.1, 0.9]))
        figures = {"problems": len(rows), "groups": len(counts), "ratio": np.exp(change[rows].mean())}
        figures |= {"lower": float(lower), "upper": float(upper), "fastest_tenth": low, "slowest_tenth": high}
        found.append({**one.loc[rows[0], by].to_dict(), **figures, "kernels": renamed[rows].mean()})
    return pd.DataFrame(found)
