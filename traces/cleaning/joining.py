"""Runs of one program put together place by place: what they cover, and the counters of several passes.

A place is a kernel in the program: its name and the number of its occurrence, the same in every
run. Runs that each profile a part of the kernels, or collect other counters, have nothing else in
common: times differ, and the numbers of dispatches count what a run leaves out.

`merge_coverage` serves kernels that are timed a few at a time, since a profiler that times
everything slows everything: the whole is only trustworthy once each place is covered by at least
one run. `join_passes` puts the counters of several passes on the same dispatches, with how far
passes that counted the same thing differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...arrays import FloatArray
from ...errors import DataError
from ...remarks import Remark, remark
from ...table.counters import merge_passes
from ...table.measurements import COUNTER
from ..activity_work import launch_product
from ..dispatches import KERNEL, counters_of

PLACE = ("rank", "device_number", "name", "occurrence")  # columns that make a place


def places_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return the place of every kernel of a run's dispatch table, indexed as in it, in the order of their start.

    The columns are `rank` (-1 where there is none), `device_number` (GPUs counted from 0 in the
    order of their numbers, per rank), `name`, `occurrence` (from 1 on), `workgroups` and `threads`
    of the launch (NaN where not recorded), `duration_us`, `source`.
    """
    kernels = table[table["kind"].astype(str) == KERNEL]
    kernels = kernels.iloc[np.argsort(kernels["start_ns"].to_numpy(), kind="stable")]
    rank = kernels["rank"].fillna(-1).astype(np.int64)
    gpus = kernels["gpu"].fillna(-1).astype(np.int64).groupby(rank)
    device = gpus.rank(method="dense").astype(np.int64) - 1
    name = kernels["name"].astype(str)
    return pd.DataFrame(
        {
            "rank": rank,
            "device_number": device,
            "name": name,
            "occurrence": name.groupby([rank, device, name], sort=False).cumcount() + 1,
            "workgroups": launch_product(kernels, "grid"),
            "threads": launch_product(kernels, "block"),
            "duration_us": kernels["duration_ns"] / 1e3,
            "source": kernels["source"].astype(str),
        },
        index=kernels.index,
    )


def every_place(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the places of several runs of one program below each other, `run` the name of each.

    A DataError says that two runs launch the kernel of one place differently: they are not the same
    program, or not the same input.
    """
    every = pd.concat(
        [places_of(table).assign(run=run) for run, table in runs.items()], ignore_index=True
    )
    check_launches(every)
    return every


def check_launches(every: pd.DataFrame) -> None:
    """Refuse with a DataError runs whose recorded workgroups or threads differ at a place.

    ``every`` has the places of several runs (`places_of`), `run` the name of each.
    """
    place = every.groupby(list(PLACE), sort=False)
    for column in ("workgroups", "threads"):
        differs = every[column].notna() & (every[column] != place[column].transform("first"))
        if not differs.any():
            continue
        row = every[differs].iloc[0]
        there = (every[list(PLACE)] == row[list(PLACE)]).all(axis=1)
        same = every[there & every[column].notna()].iloc[0]
        raise DataError(
            f"kernel {row['name']!r}, occurrence {row['occurrence']}: {column} {same[column]:g} "
            f"in {same['run']} "
            f"({same['source']}), {row[column]:g} in {row['run']} ({row['source']}): give runs of "
            "one program on the "
            "same input"
        )


_NAMED = 3


@dataclass(frozen=True)
class Coverage:
    """The joint coverage of several runs."""

    # one row per place that a run has: `rank`, `device_number`, `name`, `occurrence`, `workgroups`,
    # `threads`, `runs` (that have it), `duration_us` (median over them), `spread_us` (MAD; NaN for
    # one run), `source`
    places: pd.DataFrame
    # kernels not covered: `rank`, `device_number`, `name`, `covered` and `wanted` (occurrences),
    # `run` ("" for all together, against the full list; else a run that has fewer occurrences than
    # another)
    missing: pd.DataFrame
    proved: bool  # whether there was a full list to prove it against

    @property
    def complete(self) -> bool:
        """Whether every place is provably covered."""
        return self.proved and self.missing.empty

    @property
    def verdict(self) -> Remark:
        """The outcome: ``coverage-complete``, ``-incomplete``, ``-uneven`` (runs differ) or ``-unproved``."""
        count = len(self.places)
        gaps = int((self.missing["wanted"] - self.missing["covered"]).sum())
        first = tuple(dict.fromkeys(self.missing["name"].tolist()[:_NAMED]))
        names = ", ".join(name[:40] for name in first)
        if self.complete:
            text = f"coverage complete: all {count} kernels of the full list are measured"
            return remark("coverage-complete", text, kernels=count)
        if self.proved:
            of = f"{gaps} of {count + gaps} kernels of the full list"
            text = f"coverage incomplete: {of} are not measured ({names})"
            return remark(
                "coverage-incomplete", text, missing=gaps, kernels=count + gaps, first=first
            )
        if gaps:
            text = (
                f"coverage not proved: no full list, and runs differ in how often they have {names}"
            )
            return remark("coverage-uneven", text, first=first)
        text = (
            f"coverage not proved: no full list; the runs have {count} kernels together and agree "
            "on them"
        )
        return remark("coverage-unproved", text, kernels=count)


def merge_coverage(runs: Mapping[str, pd.DataFrame], full: pd.DataFrame | None = None) -> Coverage:
    """Return the joint measurements of several runs of one program, place by place.

    Each run is a dispatch table. ``full`` has every kernel of the program: the dispatch table of a
    run that left nothing out, or any table with `name`, one row per launch. Without it the union of
    the runs is the best there is, and nothing is proved: `missing` then has the runs that know a
    kernel, but fewer occurrences of it than another run.

    Raises DataError: there are no kernels; two runs, or a run and the full one, launch the kernel
    of a place differently, or a run has a kernel more often than the full list.
    """
    if runs:
        every = every_place(runs)
    else:
        every = pd.DataFrame()
    if every.empty:
        raise DataError(
            "no kernels to put together: give runs of one program that each profile some"
        )
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
    return Coverage(
        places, _uneven(every) if full is None else _missing(every, full), full is not None
    )


def _counts(table: pd.DataFrame, keys: list[str]) -> pd.Series:
    return table.groupby(keys, sort=False)["occurrence"].max()


def _missing(every: pd.DataFrame, full: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels of the full list that every run lacks."""
    if "start_ns" in full:
        keys = list(PLACE[:-1])
        places = places_of(full).assign(run="the full list")
        check_launches(pd.concat([places, every], ignore_index=True))
        wanted = _counts(places, keys)
    else:
        keys = ["name"]
        wanted = full.groupby("name", sort=False).size()
    if keys == ["name"] and len(every[["rank", "device_number"]].drop_duplicates()) > 1:
        raise DataError(
            "a list of names says nothing of several GPUs: give the trace of a full run instead"
        )
    covered = _counts(every, keys)
    extra = covered[covered > wanted.reindex(covered.index).fillna(0)]
    if len(extra):
        if keys == ["name"]:
            name = extra.index[0]
        else:
            name = extra.index[0][-1]
        has = int(wanted.reindex(extra.index).fillna(0).iloc[0])
        raise DataError(
            f"kernel {name!r} runs {int(extra.iloc[0])} times, but {has} times in the full list"
        )
    have = covered.reindex(wanted.index).fillna(0)
    table = pd.DataFrame({"covered": have, "wanted": wanted}).astype(np.int64)
    missing = table[table["covered"] < table["wanted"]].reset_index().assign(run="")
    return missing.reindex(columns=[*PLACE[:-1], "covered", "wanted", "run"])


def _uneven(every: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that have a kernel but fewer occurrences of it than another run."""
    keys = list(PLACE[:-1])
    counted = _counts(every, [*keys, "run"]).rename("covered").reset_index()
    counted["wanted"] = counted.groupby(keys, sort=False)["covered"].transform("max")
    fewer = counted[counted["covered"] < counted["wanted"]]
    return fewer[[*keys, "covered", "wanted", "run"]].reset_index(drop=True)


@dataclass(frozen=True)
class Joined:
    """Dispatches with the counters of every pass.

    `counters` has one row per counter: `counter`, `passes` (that recorded it), `dispatches` (with a
    value), `compared` (with two values or more), `median_cv` and `max_cv` (standard deviation over
    mean of a dispatch, over those compared; NaN where none is).
    """

    # the runs whose times count, each with the counters of all passes
    dispatches: dict[str, pd.DataFrame]
    counters: pd.DataFrame
    # ``passes-joined``, and ``times-of-runs-without-counters`` where there are such runs
    notes: tuple[Remark, ...]


def join_passes(runs: Mapping[str, pd.DataFrame]) -> Joined:
    """Return the runs with the counters of all of them, joined by place (`places_of`): never by time, nor by number.

    Times are those of the runs without counters where there are any: collecting counters runs
    kernels one at a time and stretches them. The counters of a dispatch then come from several
    runs: they were never true together. A DataError says that no run has counters, or that two runs
    contradict each other about a place.
    """
    counted = {run: table for run, table in runs.items() if counters_of(table)}
    if not counted:
        raise DataError("no counters to join: give the counter collections of the program's passes")
    every = every_place(runs)
    timed = {run: table for run, table in runs.items() if run not in counted} or counted
    keys = list(PLACE)
    index = pd.MultiIndex.from_frame(every[keys].drop_duplicates())
    columns = []  # every counter of every pass, one value for each place, NaN where the pass has none
    for run, table in counted.items():
        at = index.get_indexer(pd.MultiIndex.from_frame(every.loc[every["run"] == run, keys]))
        kernels = table.loc[places_of(table).index]
        for name in counters_of(table):
            values = np.full(len(index), np.nan)
            values[at] = kernels[name].to_numpy(dtype=np.float64)
            columns.append((name, values))
    merged = merge_passes(columns)
    merged_values = pd.DataFrame(merged.columns)
    joined = {run: _with(table, index, merged_values) for run, table in timed.items()}
    text = (
        f"counters of {len(counted)} passes joined by kernel and order: they were not measured "
        "together"
    )
    notes = [remark("passes-joined", text, passes=len(counted))]
    if timed is not counted:
        text = f"times are those of {len(timed)} runs without counters"
        notes.append(remark("times-of-runs-without-counters", text, runs=len(timed)))
    return Joined(joined, _differences(columns, merged.variance, merged.mean), tuple(notes))


def _with(table: pd.DataFrame, index: pd.MultiIndex, merged_values: pd.DataFrame) -> pd.DataFrame:
    """Return a run with the counters of all passes in place of the recorded ones; copies and fills have none."""
    places = places_of(table)
    at = index.get_indexer(pd.MultiIndex.from_frame(places[list(PLACE)]))
    values = merged_values.iloc[at].set_axis(places.index).reindex(table.index)
    return pd.concat([table.drop(columns=counters_of(table)), values], axis=1)


def _differences(
    columns: list[tuple[str, FloatArray]],
    variance: Mapping[str, np.ndarray],
    mean: Mapping[str, np.ndarray],
) -> pd.DataFrame:
    rows = []
    for name in dict.fromkeys(name for name, _ in columns):
        values = np.stack([values for column, values in columns if column == name])
        recorded = (~np.isnan(values)).sum(axis=0)
        several = recorded > 1
        median_cv = max_cv = np.nan
        if several.any():
            deviation = np.sqrt(variance[name][several])
            average = np.abs(mean[name][several])
            with np.errstate(divide="ignore", invalid="ignore"):
                cv = np.where(deviation == 0.0, 0.0, deviation / average)
            median_cv = float(np.median(cv))
            max_cv = float(np.max(cv))
        rows.append(
            {
                "counter": name.removeprefix(COUNTER),
                "passes": len(values),
                "dispatches": int((recorded > 0).sum()),
                "compared": int(several.sum()),
                "median_cv": median_cv,
                "max_cv": max_cv,
            }
        )
    return pd.DataFrame(rows)
