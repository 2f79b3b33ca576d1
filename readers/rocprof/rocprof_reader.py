"""rocprof v1 (ROCm up to 6): ``results.csv``, ``results.db``, and counters in files of their own.

A timing run (``rocprof --stats``) writes one line per dispatch with BeginNs and EndNs, the same lines into table KERN
of an SQLite database, sums into ``results.stats.csv`` and a Chrome trace. A counter run (``rocprof -i``) of the same
program writes a line per dispatch with counters and no times: it is joined to the timing run of its folder by Index and
KernelName. Grids are one number of work-items, so `grid_x` counts the workgroups of all dimensions. The files do not
name the device. Seen: rocprof of ROCm 5.x and 6.x, Omniperf 1's column names.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from ...arrays import FloatArray
from ...errors import DataError, few
from ...remarks import Remark, remark
from ...table.counters import merge_passes
from ...traces.dispatches import Finding, Trace, dispatch_table, in_order
from ..base import DataFile, Options, TraceReader, by_folder, of_file, register
from ..files import content, head
from .results_csv import (
    DispatchTable,
    Times,
    at,
    columns_left_out,
    counter_columns,
    counters,
    dispatch_columns,
    header_of,
    left_out,
    positions,
    read_table,
    replay_spread,
    spoiled_timestamps,
    times_of,
    unmatched,
    without_times,
)

Role = Literal["times", "database", "counters", "statistics", "events"]

_DISPATCH = frozenset(("KernelName", "gpu-id", "grd", "wgr"))
_STATISTICS = ["Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage"]
_STATISTICS_FILE = re.compile(r"\.(\w+_)?stats\.csv$")
_KEY = ("Index", "KernelName")
_EVENTS = re.compile(rb'^\s*(\{\s*"traceEvents"\s*:\s*\[\s*\{\s*\}\s*)?,\s*\{"args":\{"name":"[^"]*"\},"ph":"M","pid":')
_SQLITE = b"SQLite format 3\x00"
_TABLE = re.compile(rb'CREATE TABLE "?KERN"?\s*\(')
_AGREEING = 0.5  # share of the dispatches of a counter run that its timing run must have too


@register
class RocprofReader(TraceReader):
    """rocprof v1: dispatches with times, counters of further runs joined to them."""

    name = "rocprof"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the columns of a dispatch table, the database, or a file that accompanies them."""
        return role_of(path, head) is not None

    def gather(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
        """Return each timing run with the counter runs of its folder that saw the same dispatches."""
        return [group for own in by_folder(files) for group in _groups(own)]

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the dispatches of one timing run; a DataError if a file is damaged, or the files hold several runs."""
        roles = {file: role_of(file.path, head(file.path)) for file in files}
        runs = [file for file in files if roles[file] in ("times", "database")]
        counted = [file for file in files if roles[file] == "counters"]
        notes = [note for file in files if (note := _nothing_to_read(file, roles[file]))]
        if not runs:
            tables = [read_table(file, options) for file in counted]
            findings = [without_times(len(table), table.label) for table in tables]
            return Trace(dispatch_table({}, rows=0), findings=findings, notes=notes)
        tables = [_read(file, options) for file in runs]
        notes += _same_run(tables)
        return _trace(tables[0], [read_table(file, options) for file in counted], options, notes)


def role_of(path: Path, beginning: bytes) -> Role | None:
    """Return what a file of rocprof v1 holds; None if it is none."""
    if beginning.startswith(_SQLITE):
        return "database" if _TABLE.search(beginning) else None
    if _EVENTS.match(beginning):
        return "events"
    names = header_of(beginning)
    if names == _STATISTICS and _STATISTICS_FILE.search(path.name):
        return "statistics"
    if not set(names) >= _DISPATCH:
        return None
    return "times" if {"BeginNs", "EndNs"} <= set(names) else "counters"


@dataclass
class _Run:
    """A timing run of a folder: its dispatches, its times, and the files that belong to it."""

    keys: pd.DataFrame
    times: tuple[int, ...]
    files: list[DataFile] = field(default_factory=list)


def _groups(files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
    """Return the files of one folder by run."""
    if len(files) == 1:
        return [(files[0],)]
    runs: list[_Run] = []
    alone: list[tuple[DataFile, ...]] = []
    counted: list[tuple[DataFile, pd.DataFrame]] = []
    statistics: list[DataFile] = []
    for file in files:
        try:
            role = role_of(file.path, head(file.path))
            if role in ("times", "database"):
                _add_run(runs, file)
            elif role == "counters":
                counted.append((file, _keys(read_table(file, Options(), _KEY))))
            elif role == "statistics":
                statistics.append(file)
            else:
                alone.append((file,))
        except DataError:
            alone.append((file,))  # `trace` will say what is wrong with it
    for file, keys in counted:
        run = _best_run(runs, file, keys)
        if run is None:
            alone.append((file,))
        else:
            run.files.append(file)
    for file in statistics:
        if runs:
            max(runs, key=lambda run: _likeness(run.files[0], file)).files.append(file)
        else:
            alone.append((file,))
    return [*(tuple(run.files) for run in runs), *alone]


def _add_run(runs: list[_Run], file: DataFile) -> None:
    """Add a run, or the file to the run whose dispatches it has as well."""
    table = _read(file, Options(), (*_KEY, "BeginNs", "EndNs"))
    times = _fingerprint(table)
    for run in runs:
        if run.times == times:
            run.files.append(file)
            return
    runs.append(_Run(_keys(table), times, [file]))


def _best_run(runs: Sequence[_Run], file: DataFile, keys: pd.DataFrame) -> _Run | None:
    """Return the run that has the dispatches of a counter run; of equal ones that with the likest file name."""
    ranked = [(_share(keys, run.keys), _likeness(run.files[0], file), -place) for place, run in enumerate(runs)]
    if not ranked or max(ranked)[0] < _AGREEING:
        return None
    return runs[-max(ranked)[2]]


def _share(keys: pd.DataFrame, others: pd.DataFrame) -> float:
    return float(np.mean(positions(keys, others) >= 0)) if len(keys) else 0.0


def _likeness(file: DataFile, other: DataFile) -> int:
    """Return how many characters the two names begin with alike."""
    pairs = zip(file.path.name, other.path.name, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _fingerprint(table: DispatchTable) -> tuple[int, ...]:
    """Return numbers that two files of one run share, and two runs hardly ever."""
    times = times_of(table)
    if times is None or not len(table):
        return ()
    return (len(table), int(times.start_ns[0]), int(times.start_ns[-1]), int(times.duration_ns.sum()))


def _keys(table: DispatchTable) -> pd.DataFrame:
    return pd.DataFrame({"index": table.integers("dispatch_id"), "name": table.names().astype(object)})


def _read(file: DataFile, options: Options, only: Sequence[str] = ()) -> DispatchTable:
    """Return the dispatches of a timing run, from CSV or database."""
    if head(file.path).startswith(_SQLITE):
        return _read_database(file, options)
    return read_table(file, options, only)


def _read_database(file: DataFile, options: Options) -> DispatchTable:
    """Return table KERN, everything as text as in the CSV, row numbers for lines."""
    data = content(file.path, max_bytes=options.trace_bytes)
    connection = sqlite3.connect(":memory:")
    connection.text_factory = lambda raw: raw.decode("utf-8", errors="backslashreplace")
    try:
        connection.deserialize(data)
        names = [row[1] for row in connection.execute("PRAGMA table_info(KERN)")]
        quoted = ", ".join('CAST("{}" AS TEXT)'.format(name.replace('"', '""')) for name in names)
        rows = connection.execute(f"SELECT {quoted} FROM KERN").fetchmany(len(data))
    except (sqlite3.Error, MemoryError, OverflowError, UnicodeError, ValueError) as error:
        raise DataError(f"the database cannot be read ({error})", source=file.label) from error
    finally:
        connection.close()
    values = list(zip(*rows, strict=True)) or [()] * len(names)
    columns = {name: pa.chunked_array([pa.array(own, pa.string())]) for name, own in zip(names, values, strict=True)}
    table = DispatchTable(file.label, columns, np.arange(1, len(rows) + 1, dtype=np.int64))
    if not table.has("name", "begin", "end"):
        raise DataError("table KERN lacks KernelName, BeginNs or EndNs", source=file.label)
    return table


def _trace(run: DispatchTable, counted: Sequence[DispatchTable], options: Options, notes: list[Remark]) -> Trace:
    times = times_of(run)
    if times is None:  # the header of a timing run promises them
        raise DataError("has neither BeginNs nor EndNs", source=run.label)
    findings = [*run.findings, *spoiled_timestamps(times, run), *_mismatch(run, times)]
    columns, more, words = _counters(run, counted, options)
    findings += more
    notes += [columns_left_out(run.label, words)] if words else []
    if "device" not in options.defaults:
        text = "the device is not recorded: set device=NAME"
        notes.append(of_file(run.label, remark("device-not-recorded", text, by="rocprof")))
    if counted:
        others = tuple(table.label for table in counted)
        text = f"counters come from other runs of the program ({few(others, 3)}), joined by Index and name"
        notes.append(of_file(run.label, remark("counters-of-other-runs", text, runs=others)))
    table = dispatch_table({**dispatch_columns(run, times), **columns}, rows=len(run))
    findings += left_out(times, run)
    return Trace(in_order(table[times.known].reset_index(drop=True)), findings=findings, notes=notes)


def _counters(
    run: DispatchTable, counted: Sequence[DispatchTable], options: Options
) -> tuple[dict[str, FloatArray], list[Finding], list[str]]:
    """Return the counters of the run itself and of the counter runs, for the dispatches of the run."""
    findings: list[Finding] = []
    passes, words = counters(run)
    keys = _keys(run)
    for table in counted:
        own = _keys(table)
        rows = positions(keys, own)
        findings += [*table.findings, *unmatched(rows, len(table), table.label)]
        counted_there, more = counters(table)
        passes += [(name, at(values, rows)) for name, values in counted_there]
        words += more
    merged = merge_passes(passes)
    findings += replay_spread(merged.spread, run.label)
    return counter_columns(merged.columns, options), findings, words


def _mismatch(run: DispatchTable, times: Times) -> list[Finding]:
    """Return a finding if DurationNs is not EndNs - BeginNs."""
    stated = run.integers("duration").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isnan(stated) & times.known & (stated != times.duration_ns)
    if not wrong.any():
        return []
    where = f"{run.label}:{run.lines[int(wrong.argmax())]}"
    return [
        Finding(
            remark("duration-mismatch", "DurationNs is not EndNs - BeginNs: durations are taken from the stamps"),
            "warning",
            int(wrong.sum()),
            source=where,
        )
    ]


def _same_run(tables: Sequence[DispatchTable]) -> list[Remark]:
    """Return notes on the files that repeat the first one."""
    first = _fingerprint(tables[0])
    for table in tables[1:]:
        if _fingerprint(table) != first:
            raise DataError(f"holds another run than {tables[0].label}: read them apart", source=table.label)
    return [
        of_file(
            table.label,
            remark("same-dispatches", f"the same dispatches as {tables[0].label}, read once", other=tables[0].label),
        )
        for table in tables[1:]
    ]


def _nothing_to_read(file: DataFile, role: Role | None) -> Remark | None:
    """Return a note on a file that holds nothing to read, None where it does; a DataError for a trace never written."""
    if role == "statistics":
        return of_file(file.label, remark("sums-only", "holds sums over kernels, no single dispatches"))
    if role != "events":
        return None
    if head(file.path).lstrip().startswith(b","):
        raise DataError(
            "is no JSON: rocprof ended before it wrote the trace; give results.csv or results.db of the same run",
            source=file.label,
        )
    text = "a rendering of results.csv of the same run, which is read instead"
    return of_file(file.label, remark("picture-of-results", text))
