"""Campaigns: families of groups whose times came from one search, trace or file, and so err together.

The weight shapes of one model are tuned in one campaign, with one version of the kernels, on one
day. What a campaign adds to the error is alike in all of its groups, so a table of 16 groups of four
campaigns says no more about another campaign than four numbers do. The campaign of a row is its
column ``campaign``, or the file of its ``source`` where that is empty; that of a group is the one
that most of its rows are of. Campaigns count where groups are nested in them:

- two or more, stated by half of the rows or more, and fewer than the groups;
- of the rows that state one, 80 % or more are of the campaign of their group. Passes that measure
  the same shapes again are repeats, not families.

With five or more (`LEAST`), none of which holds more than two thirds of the groups, whole campaigns
are resampled where groups were, and rows of a new campaign have a separate interval. With
three or more (`LEAST_LEFT_OUT`) the error of a new campaign is measured: each is left out once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..errors import counted
from ..remarks import Remark, remark
from .folds import LearningData, PairedAndUnpaired

LEAST: Final = 5  # campaigns that are enough to resample them
LEAST_LEFT_OUT: Final = 3  # campaigns from which each is left out once
# share of the groups that one campaign may hold where campaigns are resampled
LARGEST: Final = 2 / 3
STATED: Final = 0.5  # share of the rows that must state their campaign
NESTED: Final = 0.8  # share of these that must be of the campaign of their group


@dataclass(frozen=True)
class Campaigns:
    """The campaign of each group.

    >>> rows = pd.DataFrame({"campaign": ["a", "a", "b", "b", "b"]})
    >>> found = Campaigns.of_rows(rows, ["1x1", "1x1", "2x2", "2x2", "3x3"])
    >>> found.of_groups
    {'1x1': 'a', '2x2': 'b', '3x3': 'b'}
    >>> str(found)
    '3 groups of 2 campaigns'
    """

    of_groups: Mapping[str, str]

    @classmethod
    def of_rows(cls, rows: pd.DataFrame, groups: ArrayLike) -> Self | None:
        """Return the campaigns of rows and their groups, (n,); None where groups are not nested in them."""
        names = pd.Series(np.asarray(groups)).astype(str)
        table = pd.DataFrame({"group": names, "campaign": stated(rows)})
        named = table[table["campaign"] != ""]
        if len(named) < STATED * len(table):
            return None
        counts = named.value_counts().rename("rows").reset_index()
        counts = counts.sort_values(["rows", "campaign"], ascending=[False, True], kind="stable")
        first = counts.drop_duplicates("group")
        if first["rows"].sum() < NESTED * len(named):
            return None
        unstated = dict.fromkeys(sorted(table["group"].unique()), "")
        of_groups = dict(zip(first["group"], first["campaign"], strict=True))
        return cls._of_groups(unstated | of_groups)

    @classmethod
    def of_data(cls, data: LearningData) -> tuple[Self, PairedAndUnpaired] | None:
        """Return the campaigns of a data set, and that of each paired and unpaired row; None as `of_rows`."""
        tables = [data.rows]
        groups = [np.asarray(data.groups).astype(object)]
        if data.unpaired is not None:
            tables.append(data.unpaired.rows)
            groups.append(np.asarray(data.unpaired.groups).astype(object))
        columns = [table.reindex(columns=["campaign", "source"]) for table in tables]
        every = cls.of_rows(pd.concat(columns, ignore_index=True), np.concatenate(groups))
        if every is None:
            return None
        names = sorted(pd.Series(groups[0]).astype(str).unique())
        paired = cls._of_groups({name: every.of_groups[name] for name in names})
        if paired is None:
            return None
        if len(groups) > 1:
            unpaired = every.labels(groups[1])
        else:
            unpaired = groups[0][:0]
        return paired, PairedAndUnpaired(every.labels(groups[0]), unpaired)

    @classmethod
    def of_metrics(cls, metrics: Mapping[str, Any]) -> Self | None:
        """Return the campaigns that a run states with its groups; None of runs that state none."""
        of_groups = {}
        for row in metrics.get("groups") or []:
            if row.get("campaign") is not None:
                of_groups[str(row["group"])] = str(row["campaign"])
        return cls._of_groups(of_groups)

    @classmethod
    def _of_groups(cls, of_groups: Mapping[str, str]) -> Self | None:
        count = len(set(of_groups.values()))
        if 2 <= count < len(of_groups):
            return cls(dict(of_groups))
        return None

    @property
    def names(self) -> list[str]:
        """The campaigns, sorted; "" stands for that of groups that state none."""
        return sorted(set(self.of_groups.values()))

    @property
    def enough(self) -> bool:
        """Whether whole campaigns are resampled: `LEAST` or more, none with more than `LARGEST` of the groups."""
        sizes = pd.Series(list(self.of_groups.values())).value_counts()
        return len(sizes) >= LEAST and int(sizes.iloc[0]) <= LARGEST * len(self.of_groups)

    def labels(self, groups: ArrayLike) -> NDArray[np.object_]:
        """Return the campaign of each row by its group, words (n,); "" of groups that no row names."""
        names = pd.Series(np.asarray(groups)).astype(str).map(self.of_groups).fillna("")
        return names.to_numpy(dtype=object)

    def __str__(self) -> str:
        count = len(self.names)
        return f"{counted(len(self.of_groups), 'group')} of {counted(count, 'campaign')}"

    @property
    def remark(self) -> Remark:
        """Why nobody can tell of other campaigns, where there are not `enough`."""
        text = (
            f"{self}: too few, or too unequal, to tell how campaigns differ ({LEAST} needed), so "
            "errors and intervals of new groups hold for groups of these campaigns"
        )
        return remark(
            "few-campaigns",
            text,
            groups=len(self.of_groups),
            campaigns=len(self.names),
            least=LEAST,
        )


def stated(rows: pd.DataFrame) -> NDArray[np.object_]:
    """Return the campaign that each row states, words (n,): its column, else the file of its source, else ""."""
    names = pd.Series("", index=range(len(rows)))
    if "campaign" in rows:
        names = rows["campaign"].astype(object).fillna("").astype(str).reset_index(drop=True)
    unnamed = names == ""
    if "source" in rows and unnamed.any():
        sources = rows["source"].astype(object).fillna("").astype(str).reset_index(drop=True)
        names = names.mask(unnamed, sources.str.rpartition(":")[0])
    return names.to_numpy(dtype=object)
