"""Counters of different passes put on the same dispatches, with how far passes that counted the same thing differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...errors import DataError
from ...table.counters import merge_passes
from ...table.measurements import COUNTER
from ..dispatches import counters_of
from .coverage import PLACE, every_place, places_of


@dataclass(frozen=True)
class Joined:
    """Dispatches with the counters of every pass.

    Attributes
    ----------
    dispatches : dict of str to DataFrame
        The runs whose times count, each with the counters of all passes.
    counters : DataFrame
        One row per counter: `counter`, `passes` (that recorded it), `dispatches` (with a value), `compared` (with two
        values or more), `median_cv` and `max_cv` (standard deviation over mean of a dispatch, over those compared; NaN
        where none is).
    notes : tuple of str
    """

    dispatches: dict[str, pd.DataFrame]
    counters: pd.DataFrame
    notes: tuple[str, ...]


def join_passes(runs: Mapping[str, pd.DataFrame]) -> Joined:
    """Return the runs with the counters of all of them, joined by place (`places`): never by time, nor by number.

    Times are those of the runs without counters where there are any: collecting counters runs kernels one at a time
    and stretches them. The counters of a dispatch then come from several runs: they were never true together.

    Parameters
    ----------
    runs : mapping of str to DataFrame
        Dispatch table of each run of one program.

    Raises
    ------
    DataError
        No run has counters, or two runs contradict each other about a place.
    """
    counted = {run: table for run, table in runs.items() if counters_of(table)}
    if not counted:
        raise DataError("no counters to join: give the counter collections of the program's passes")
    every = every_place(runs)
    timed = {run: table for run, table in runs.items() if run not in counted} or counted
    keys = list(PLACE)
    index = pd.MultiIndex.from_frame(every[keys].drop_duplicates())
    columns = [
        (name, values)
        for run, table in counted.items()
        for name, values in _at_places(table, every.loc[every["run"] == run, keys], index)
    ]
    merged = merge_passes(columns)
    known = pd.DataFrame(merged.columns)
    found = {run: _with(table, index, known) for run, table in timed.items()}
    notes = [f"counters of {len(counted)} passes joined by kernel and order: they were never true together"]
    if timed is not counted:
        notes.append(f"times are those of {len(timed)} runs without counters")
    return Joined(found, _table(columns, merged.variance, merged.mean), tuple(notes))


def _at_places(
    table: pd.DataFrame, places: pd.DataFrame, index: pd.MultiIndex
) -> list[tuple[str, np.ndarray[tuple[int], np.dtype[np.float64]]]]:
    """Return every counter of a pass, one value for each place, NaN where the pass has none."""
    at = index.get_indexer(pd.MultiIndex.from_frame(places))
    kernels = table.loc[places_of(table).index]
    columns = []
    for name in counters_of(table):
        values = np.full(len(index), np.nan)
        values[at] = kernels[name].to_numpy(dtype=np.float64)
        columns.append((name, values))
    return columns


def _with(table: pd.DataFrame, index: pd.MultiIndex, known: pd.DataFrame) -> pd.DataFrame:
    """Return a run with the counters of all passes in place of its own; copies and fills have none."""
    places = places_of(table)
    at = index.get_indexer(pd.MultiIndex.from_frame(places[list(PLACE)]))
    values = known.iloc[at].set_axis(places.index).reindex(table.index)
    return pd.concat([table.drop(columns=counters_of(table)), values], axis=1)


def _table(
    columns: list[tuple[str, np.ndarray[tuple[int], np.dtype[np.float64]]]],
    variance: Mapping[str, np.ndarray],
    mean: Mapping[str, np.ndarray],
) -> pd.DataFrame:
    rows = []
    for name in dict.fromkeys(name for name, _ in columns):
        own = np.stack([values for found, values in columns if found == name])
        recorded = (~np.isnan(own)).sum(axis=0)
        several = recorded > 1
        deviation = np.sqrt(variance[name][several]) if name in variance else np.zeros(0)
        average = np.abs(mean[name][several]) if name in mean else np.zeros(0)
        with np.errstate(divide="ignore", invalid="ignore"):
            cv = np.where(deviation == 0.0, 0.0, deviation / average)
        rows.append(
            {
                "counter": name.removeprefix(COUNTER),
                "passes": len(own),
                "dispatches": int((recorded > 0).sum()),
                "compared": int(several.sum()),
                "median_cv": float(np.median(cv)) if len(cv) else np.nan,
                "max_cv": float(np.max(cv)) if len(cv) else np.nan,
            }
        )
    return pd.DataFrame(rows)
