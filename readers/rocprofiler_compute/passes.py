"""The passes of a rocprofiler-compute run, brought to the same dispatches.

The hardware counts a handful of events at a time, so the tool runs the program again and again; every run is a pass
with a file of its own (``pmc_perf_0.csv``, ``SQ_LEVEL_WAVES.csv``; ``timestamps.csv`` counts nothing), and
``pmc_perf.csv`` is their join: wide, one line per dispatch, or since ROCm 7 long, one line per dispatch and counter.
Dispatch_ID starts from 0 or from 1 as it likes, so passes are joined by the order within kernel, grid and workgroup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...errors import DataError
from ...remarks import Remark, remark
from ...table.counters import FloatArray, channels_of, merge_passes
from ...traces.dispatches import Finding
from ..base import DataFile, Options
from ..rocprof.results_csv import DispatchTable, IntArray, at, counters, positions, read_table
from ..rocprof.times import Times, channels_missing, replay_spread, times_of, unmatched

_CELLS = 10_000_000  # a long table may need this many cells when made wide, or
_CELLS_PER_LINE = 16  # this many for each of its lines
_ON_EVERY_CHANNEL = "TCC_"  # counters of the L2, whose channels sysinfo.csv counts


@dataclass(frozen=True)
class Pass:
    """One file: its dispatches, one row each, and their counters under the counters' names.

    Each counter is an array of shape (n_dispatches,); `words` are columns left out, which hold no numbers. `times` is
    None if the file has none, `spread` by how much the durations of one dispatch differ between the passes in the file,
    relative to the longest.
    """

    table: DispatchTable
    counters: list[tuple[str, FloatArray]]
    words: list[str]
    times: Times | None
    spread: float = 0.0

    @property
    def label(self) -> str:
        """The file."""
        return self.table.label


@dataclass(frozen=True)
class Joined:
    """The counters of all passes for the dispatches of the first, and what was found on the way."""

    counters: dict[str, FloatArray]
    findings: list[Finding]
    notes: list[Remark]


def read_pass(file: DataFile, options: Options) -> Pass:
    """Return the dispatches and counters of one file, of either layout.

    Raises DataError where it cannot be read, or is too ragged a long table.
    """
    table = read_table(file, options)
    if table.has("counter_name", "counter_value"):
        return _from_long(table)
    columns, words = counters(table)
    return Pass(table, columns, words, times_of(table))


def rows_of(base: DispatchTable, other: DispatchTable) -> IntArray:
    """Return for each dispatch of `base` the row of the same dispatch in `other`, -1 where there is none.

    The n-th dispatch of a kernel with a grid and workgroup is the n-th of the other file, in the order of Dispatch_ID
    (of the lines, where it is no number). GPUs are told apart where both files know the same ones.
    """
    same_gpus = set(base.integers("gpu").dropna()) == set(other.integers("gpu").dropna())
    mine, theirs = _order(base), _order(other)
    found = positions(_keys(base, same_gpus).iloc[mine], _keys(other, same_gpus).iloc[theirs])
    rows = np.full(len(base), -1, dtype=np.int64)
    rows[mine] = np.where(found >= 0, theirs[found] if len(theirs) else -1, -1)
    return rows


def join(base: Pass, others: Sequence[Pass], channels: int | None) -> Joined:
    """Return the counters of `base` and `others` for the dispatches of `base`.

    Values of a pass are preferred to those of the passes after it. `channels` are those of the device's L2, if known.
    """
    findings = [*base.table.findings]
    columns, durations, words = list(base.counters), [_durations(base)], list(base.words)
    for other in others:
        rows = rows_of(base.table, other.table)
        findings += [*other.table.findings, *unmatched(rows, len(other.table), other.label)]
        columns += [(name, at(values, rows)) for name, values in other.counters]
        durations.append(at(_durations(other), rows))
        words += other.words
    merged = merge_passes(columns)
    of_time = max(base.spread, merge_passes(("", own) for own in durations).spread.get("", 0.0))
    findings += replay_spread({"duration": of_time, **merged.spread}, base.label)
    findings += channels_missing(_recorded(merged.columns, channels), base.label)
    unread = tuple(dict.fromkeys(words))
    notes = [remark("columns-left-out", file=base.label, columns=unread)] if unread else []
    if merged.columns:
        notes.append(remark("counters-of-several-runs", file=base.label))
    return Joined(merged.columns, findings, notes)


def _durations(own: Pass) -> FloatArray:
    """Return durations as numbers, NaN where there are none to trust."""
    if own.times is None:
        return np.full(len(own.table), np.nan)
    return np.where(own.times.known & ~own.times.spoiled, own.times.duration_ns.astype(np.float64), np.nan)


def _recorded(values: dict[str, FloatArray], channels: int | None) -> dict[str, tuple[int, int]]:
    """Return for each per-channel counter how many channels are recorded, and how many there should be."""
    found = channels_of(values)
    known = {name: channels or 0 for name in found if name.startswith(_ON_EVERY_CHANNEL)}
    return {name: (len(own), max(max(own) + 1, known.get(name, 0))) for name, own in found.items()}


def _keys(table: DispatchTable, gpus: bool) -> pd.DataFrame:
    columns = {"name": table.names().astype(object)}
    meanings = ("grid", "block", "gpu") if gpus else ("grid", "block")
    return pd.DataFrame({**columns, **{meaning: table.integers(meaning) for meaning in meanings}})


def _order(table: DispatchTable) -> IntArray:
    ids = table.integers("dispatch_id")
    if ids.isna().any():
        return np.arange(len(table), dtype=np.int64)
    return np.argsort(ids.to_numpy(dtype=np.int64), kind="stable").astype(np.int64)


def _from_long(table: DispatchTable) -> Pass:
    """Return a long table with one row per dispatch: the first line of each, with the counters of all its lines."""
    keys = pd.DataFrame({meaning: table.integers(meaning) for meaning in ("gpu", "dispatch_id")})
    dispatch = keys.groupby(["gpu", "dispatch_id"], sort=False, dropna=False).ngroup()
    rows: IntArray = dispatch.to_numpy(dtype=np.int64).astype(np.int64)
    first = np.sort(np.unique(rows, return_index=True)[1])
    codes, found = pd.factorize(np.array(table.column("counter_name").fill_null("").to_pylist(), dtype=object))
    labels, names = codes.astype(np.int64), [str(name) for name in found]
    if first.size * len(names) > max(_CELLS, _CELLS_PER_LINE * len(table)):
        raise DataError(
            f"has {len(table)} lines for {first.size} dispatches x {len(names)} counters: not a table of counters",
            source=table.label,
        )
    text = pd.Series(table.column("counter_value").to_pylist(), dtype=object)
    values = pd.to_numeric(text, errors="coerce").to_numpy(np.float64)
    wide = _wide(rows, labels, values, names, first.size)
    times = times_of(table)
    spread = _spread_of(times, rows) if times else 0.0
    dispatches = table.take(first.astype(np.int64))
    return Pass(dispatches, wide, [], times_of(dispatches), spread)


def _wide(
    rows: IntArray, labels: IntArray, values: FloatArray, names: Sequence[str], count: int
) -> list[tuple[str, FloatArray]]:
    """Return one column per counter; a counter recorded again for a dispatch is a further column of its name."""
    times = pd.Series(values).groupby([pd.Series(rows), pd.Series(labels)]).cumcount().to_numpy()
    columns: list[tuple[str, FloatArray]] = []
    for time in range(int(times.max(initial=-1)) + 1):
        now = times == time
        table = np.full((len(names), count), np.nan)
        table[labels[now], rows[now]] = values[now]
        present = np.zeros(len(names), dtype=bool)
        present[labels[now]] = True
        columns += [(name, table[i]) for i, name in enumerate(names) if present[i]]
    return columns


def _spread_of(times: Times, rows: IntArray) -> float:
    durations = pd.Series(times.duration_ns.astype(np.float64)).where(times.known)
    by_dispatch = durations.groupby(rows)
    low, high = by_dispatch.min(), by_dispatch.max()
    return float(((high - low) / high.where(high > 0)).max(skipna=True) or 0.0) if len(low) else 0.0
