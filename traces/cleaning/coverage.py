"""Runs that each profile a part of the kernels, put together; and proof that together they have all of them.

Small kernels are timed best a few at a time: a profiler that times everything slows everything. Every run then covers
some kernels, and the whole is only trustworthy once each place of the program is covered by at least one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...errors import DataError
from ...table.problems import codes_of
from ..activity_work import launch_product
from ..dispatches import KERNEL

# The place of a kernel in a program: its name and the number of its occurrence, the same in every run.
#
# Runs that each profile a part of the kernels, or collect other counters, have nothing else in common: times differ,
# and the numbers of dispatches count what a run leaves out.

PLACE = ("rank", "device_number", "name", "occurrence")
"""Columns that make a place."""


def places_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return the place of every kernel of a run.

    Parameters
    ----------
    table : DataFrame
        Dispatch table of one run.

    Returns
    -------
    DataFrame
        One row per kernel, indexed as in `table`, in the order of their start: `rank` (-1 where there is none),
        `device_number` (GPUs counted from 0 in the order of their numbers, per rank), `name`, `occurrence` (from 1 on),
        `workgroups` and `threads` of the launch (NaN where not recorded), `duration_us`, `source`.
    """
    kernels = table[table["kind"].astype(str) == KERNEL]
    kernels = kernels.iloc[np.argsort(kernels["start_ns"].to_numpy(), kind="stable")]
    rank = kernels["rank"].fillna(-1).astype(np.int64)
    device = kernels["gpu"].fillna(-1).astype(np.int64).groupby(rank).rank(method="dense").astype(np.int64) - 1
    name = kernels["name"].astype(str)
    occurrence = name.groupby(codes_of([rank, device, name])).cumcount() + 1 if len(name) else name.astype(np.int64)
    launch = {stem: launch_product(kernels, stem) for stem in ("grid", "block")}
    return pd.DataFrame(
        {
            "rank": rank,
            "device_number": device,
            "name": name,
            "occurrence": occurrence,
            "workgroups": launch["grid"],
            "threads": launch["block"],
            "duration_us": kernels["duration_ns"] / 1e3,
            "source": kernels["source"].astype(str),
        },
        index=kernels.index,
    )


def every_place(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the places of several runs of one program below each other, `run` the name of each.

    Raises
    ------
    DataError
        Two runs launch the kernel of one place differently: they are not the same program, or not the same input.
    """
    every = pd.concat([places_of(table).assign(run=run) for run, table in runs.items()], ignore_index=True)
    check_launches(every)
    return every


def check_launches(every: pd.DataFrame) -> None:
    """Refuse runs that launch the kernel of one place differently.

    Parameters
    ----------
    every : DataFrame
        Places of several runs (`places_of`), `run` the name of each.

    Raises
    ------
    DataError
        Two runs differ in the workgroups or threads of a place where both have recorded them.
    """
    place = every.groupby(list(PLACE), sort=False)
    for column in ("workgroups", "threads"):
        differs = every[column].notna() & (every[column] != place[column].transform("first"))
        if not differs.any():
            continue
        row = every[differs].iloc[0]
        same = every[(every[list(PLACE)] == row[list(PLACE)]).all(axis=1) & every[column].notna()].iloc[0]
        raise DataError(
            f"kernel {row['name']!r}, occurrence {row['occurrence']}: {column} {same[column]:g} in {same['run']} "
            f"({same['source']}), {row[column]:g} in {row['run']} ({row['source']}): give runs of one program on the "
            "same input"
        )


_NAMED = 3


@dataclass(frozen=True)
class Coverage:
    """What several runs cover together.

    Attributes
    ----------
    places : DataFrame
        One row per place that a run has: `rank`, `device_number`, `name`, `occurrence`, `workgroups`, `threads`,
        `runs` (that have it), `duration_us` (median over them), `spread_us` (MAD; NaN for one run), `source`.
    missing : DataFrame
        Kernels not covered: `rank`, `device_number`, `name`, `covered` and `wanted` (occurrences), `run` ("" for all
        together, against the full list; else a run that has fewer occurrences than another).
    proved : bool
        Whether there was a full list to prove it against.
    """

    places: pd.DataFrame
    missing: pd.DataFrame
    proved: bool

    @property
    def complete(self) -> bool:
        """Whether every place is proved to be covered."""
        return self.proved and self.missing.empty

    @property
    def words(self) -> str:
        """The verdict in a sentence."""
        count = len(self.places)
        if self.complete:
            return f"coverage complete: all {count} kernels of the full list are measured"
        gaps = int((self.missing["wanted"] - self.missing["covered"]).sum())
        first = ", ".join(dict.fromkeys(self.missing["name"].str.slice(0, 40)[:_NAMED]))
        if self.proved:
            return f"coverage incomplete: {gaps} of {count + gaps} kernels of the full list are not measured ({first})"
        if gaps:
            return f"coverage not proved: no full list, and runs differ in how often they have {first}"
        return f"coverage not proved: no full list; the runs have {count} kernels together and agree on them"


def merge_coverage(runs: Mapping[str, pd.DataFrame], full: pd.DataFrame | None = None) -> Coverage:
    """Return what several runs of one program measure together, place by place.

    Parameters
    ----------
    runs : mapping of str to DataFrame
        Dispatch table of each run.
    full : DataFrame, optional
        Every kernel of the program: the dispatch table of a run that left nothing out, or any table with `name`, one
        row per launch. Without it the union of the runs is the best there is, and nothing is proved: `missing` then
        has the runs that know a kernel, but fewer occurrences of it than another run.

    Raises
    ------
    DataError
        There are no kernels; two runs, or a run and the full one, launch the kernel of a place differently, or a run
        has a kernel more often than the full list.
    """
    every = every_place(runs) if runs else pd.DataFrame()
    if every.empty:
        raise DataError("no kernels to put together: give runs of one program that each profile some")
    keys = list(PLACE)
    grouped = every.groupby(keys, sort=False)
    deviation = (every["duration_us"] - grouped["duration_us"].transform("median")).abs()
    places = grouped.agg(
        workgroups=("workgroups", "first"),
        threads=("threads", "first"),
        runs=("run", "nunique"),
        duration_us=("duration_us", "median"),
        source=("source", "first"),
    )
    spread = deviation.groupby([every[key] for key in keys], sort=False).median()
    places = places.assign(spread_us=spread.where(places["runs"] > 1)).reset_index()
    return Coverage(places, _uneven(every) if full is None else _missing(every, full), full is not None)


def _counts(table: pd.DataFrame, keys: list[str]) -> pd.Series:
    return table.groupby(keys, sort=False)["occurrence"].max()


def _missing(every: pd.DataFrame, full: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels of the full list that no run has."""
    if "start_ns" in full:
        keys, places = list(PLACE[:-1]), places_of(full).assign(run="the full list")
        check_launches(pd.concat([places, every], ignore_index=True))
        wanted = _counts(places, keys)
    else:
        keys, wanted = ["name"], full.groupby("name", sort=False).size()
    if keys == ["name"] and len(every[["rank", "device_number"]].drop_duplicates()) > 1:
        raise DataError("a list of names says nothing of several GPUs: give the trace of a full run instead")
    covered = _counts(every, keys)
    extra = covered[covered > wanted.reindex(covered.index).fillna(0)]
    if len(extra):
        name = extra.index[0] if keys == ["name"] else extra.index[0][-1]
        has = int(wanted.reindex(extra.index).fillna(0).iloc[0])
        raise DataError(f"kernel {name!r} runs {int(extra.iloc[0])} times, but {has} times in the full list")
    have = covered.reindex(wanted.index).fillna(0)
    table = pd.DataFrame({"covered": have, "wanted": wanted}).astype(np.int64)
    found = table[table["covered"] < table["wanted"]].reset_index().assign(run="")
    return found.reindex(columns=[*PLACE[:-1], "covered", "wanted", "run"])


def _uneven(every: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that know a kernel but have fewer occurrences of it than another run."""
    keys = list(PLACE[:-1])
    own = _counts(every, [*keys, "run"]).rename("covered").reset_index()
    own["wanted"] = own.groupby(keys, sort=False)["covered"].transform("max")
    return own[own["covered"] < own["wanted"]].reset_index(drop=True)[[*keys, "covered", "wanted", "run"]]
