"""rocprof v1 (ROCm up to 6): ``results.csv``, ``results.db``, and counters in separate files.

A timing run (``rocprof --stats``) writes one line per dispatch with BeginNs and EndNs, the same
lines into table KERN of an SQLite database, sums into ``results.stats.csv`` and a Chrome trace.
With ``--hip-trace`` alone the times are in table OPS and in the events of ``results.json``, without
grids, copies among the kernels: only the names of these kernels are recorded (finding
``grid-not-recorded``), which is enough for ``ingest``, ``project`` and ``compare``, and no row of
the measurement table. A counter run (``rocprof -i``) of the same program writes a line per dispatch
with counters and no times: it is joined to the timing run of its folder by Index and KernelName.
Grids are one number of work-items, so `grid_x` counts the workgroups of all dimensions. The files
do not name the device. Seen: rocprof of ROCm 5.x and 6.x, Omniperf 1's column names.
"""

from __future__ import annotations

import csv
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import DataError, few
from ..remarks import Remark, remark
from ..table.counters import merge_passes, summarise
from ..table.measurements import COUNTER
from ..traces.dispatches import (
    KERNEL,
    MEMCPY,
    MEMSET,
    Finding,
    Severity,
    Trace,
    dispatch_table,
    findings_at,
    findings_on,
    in_order,
)
from .base import (
    GRID_NOT_RECORDED,
    HEAD_BYTES,
    SQLITE,
    DataFile,
    Options,
    Reader,
    TraceReader,
    by_folder,
    of_file,
    register,
)
from .files import as_utf8, content, even_lines, head
from .kernel_sums import tables_of
from .labels import KERNEL_ENDING
from .rocpd import direction
from .words import vocabulary

# Tables that rocprof and rocprofiler-compute write: one line per dispatch with its times, and
# counters.
#
# Names of the columns changed with the generations; COLUMNS has all that were seen: rocprof v1
# (ROCm 5 and 6), rocprof v2, Omniperf 1 and 2, rocprofiler-compute 3 (ROCm 6.2 to 7.0). What is not
# named there and holds numbers is a hardware counter. Tables of counters may have thousands of
# columns, so they are read column by column.
#
# Stamps are nanoseconds since boot of 15 to 17 digits: as floating-point numbers they would be
# wrong by up to a few nanoseconds, so whole numbers and fractions (rocprofiler-compute 3 writes
# means over passes) are kept apart.

COLUMNS: Mapping[str, Sequence[str]] = vocabulary("rocprof_columns")
"""What a column means -> the names it was given, newest first."""
_OTHERS = (
    "queue-index",
    "tid",
    "wave_size",
    "sig",
    "obj",
    "dispatchns",
    "completens",
    "kernel_id",
    "xcc_index",
    "agent_id",
    "process_id",
    "thread_id",
    "unnamed: 0",
    "",
)
_PLACES = frozenset(name.lower() for names in COLUMNS.values() for name in names) | frozenset(
    _OTHERS
)
_REPEATED = re.compile(r"^(.+)_(\d+)$")
_ACCUMULATED = "SQ_ACCUM_PREV_HIRES"  # accumulates the counter that stands before it in the pass
_MISSING = ["", "nan", "NaN", "NA", "N/A", "None", "null"]
_WHOLE = r"^\s*(\d{1,18})(\.\d*)?\s*$"
_MOST_NS = 2**62 - 2**10  # stamps beyond it are cut there, so that differences fit 64 bits
_WIDE = 0.1  # spread between passes from which counters of one row hardly describe one execution
_READ_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError, csv.Error)


@dataclass(frozen=True)
class DispatchTable:
    """The lines of one file, column by column, as text.

    `columns` are in the order of the file; of columns with the same name the first has it, the
    others are in `repeated`. `lines` has the 1-based line of each row, `findings` what was left
    out.
    """

    label: str
    columns: dict[str, Any]
    lines: IntArray
    repeated: tuple[tuple[str, Any], ...] = ()
    findings: tuple[Finding, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.lines)

    def findings_on(self, rows: BoolArray, /, *what: Any, **values: str) -> list[Finding]:
        """Return a finding on these rows, at the line of the first (`findings_at`)."""
        return findings_at(
            rows,
            self.label,
            self.lines,
            *what,
            **values,
        )

    def has(self, *meanings: str) -> bool:
        """Return whether there is a column of each of these meanings."""
        return all(self.column(meaning) is not None for meaning in meanings)

    def column(self, meaning: str) -> Any:
        """Return the column of that meaning; None if the file has none."""
        return next((self.columns[name] for name in COLUMNS[meaning] if name in self.columns), None)

    def integers(self, meaning: str) -> pd.Series:
        """Return a column as Int64; missing where the file has none, or no whole number."""
        column = self.column(meaning)
        if column is None:
            return pd.Series(pd.NA, index=pd.RangeIndex(len(self)), dtype="Int64")
        try:
            whole = pc.cast(column, pa.int64())
            return pd.Series(whole.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get))
        except pa.ArrowInvalid:
            values = parsed(column)
            whole = np.isfinite(values) & (np.abs(values) < 2**53) & (values == np.floor(values))
            return pd.Series(np.where(whole, values, np.nan)).astype("Int64")

    def names(self) -> pd.Categorical:
        """Return the kernels' names without the ending that marks a kernel descriptor, quotes removed."""
        column = self.column("name").fill_null("").combine_chunks().dictionary_encode()
        words = [
            KERNEL_ENDING.sub("", word.strip().strip('"').strip())
            for word in column.dictionary.to_pylist()
        ]
        codes, unique = pd.factorize(np.array(words, dtype=object))
        return pd.Categorical.from_codes(
            codes[column.indices.to_numpy()], categories=pd.Index(unique, dtype="str")
        )

    def take(self, rows: IntArray) -> DispatchTable:
        """Return the table of these rows, in this order."""
        places = pa.array(rows)
        columns = {name: values.take(places) for name, values in self.columns.items()}
        again = tuple((name, values.take(places)) for name, values in self.repeated)
        return replace(
            self,
            columns=columns,
            lines=self.lines[rows],
            repeated=again,
        )


def header_of(beginning: bytes) -> list[str]:
    """Return the names in the first line of a comma-separated table, as far as given; none if it is binary."""
    first, newline, _ = beginning.partition(b"\n")
    if b"\x00" in first[:1024]:
        return []
    if not newline and len(beginning) >= HEAD_BYTES:
        first = first.rpartition(b",")[0]
    return _fields(first)


def read_table(file: DataFile, options: Options, only: Collection[str] = ()) -> DispatchTable:
    """Return the lines of a comma-separated file, plain or compressed; of the columns `only`, or of all.

    Empty lines are passed over. Lines with another number of fields than the header are left out,
    with a Finding "broken-lines". Raises DataError where the file cannot be read, is too large or
    is no table.
    """
    data = as_utf8(content(file.path, max_bytes=options.trace_bytes))
    names = _fields(data.partition(b"\n")[0])
    if not names:
        raise DataError("names no columns in its first line", source=file.label)
    wanted = [str(place) for place, name in enumerate(names) if not only or name in only]
    try:
        table, lines, broken = even_lines(
            data,
            [pa.string()] * len(names),
            include_columns=wanted,
            null_values=_MISSING,
            strings_can_be_null=True,
        )
    except _READ_ERRORS as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"is not a table that can be read ({reason})", source=file.label) from error
    columns: dict[str, Any] = {}
    repeated: list[tuple[str, Any]] = []
    for place, values in zip(wanted, table.columns, strict=True):
        name = names[int(place)]
        if name in columns:
            repeated.append((name, values))
        else:
            columns[name] = values
    text = "lines with another number of fields than the header, left out: was the file cut short?"
    where = f"{file.label}:{min(broken, default=0)}"
    findings = findings_on(
        len(broken),
        "broken-lines",
        text,
        "warning",
        where,
        by="rocprof",
    )
    return DispatchTable(
        file.label,
        columns,
        lines,
        tuple(repeated),
        tuple(findings),
    )


def counters(table: DispatchTable) -> tuple[list[tuple[str, FloatArray]], list[str]]:
    """Return the columns that are counters, and the names of those that hold no numbers.

    A column that a join has repeated under a suffix (``SQ_WAVES_13``) keeps the counter's name.
    The accumulator ``SQ_ACCUM_PREV_HIRES`` belongs to the counter before it, in other columns every
    time: it is called ``<that counter>_ACCUM``, as rocprofiler-compute 3 does. Values are of shape
    (n_rows,), NaN where nothing is recorded; a name recurs where several passes have counted it.
    """
    counters: list[tuple[str, FloatArray]] = []
    words: list[str] = []
    for name, heading, values in _named_counters(table):
        numbers = _floats(values)
        if numbers is None:
            words.append(heading)
        else:
            counters.append((name, numbers))
    return counters, words


def is_counter(name: str) -> bool:
    """Return whether a column is none of the columns that describe a dispatch, in any spelling."""
    plain = name.strip().lower()
    return plain not in _PLACES and _REPEATED.sub(r"\1", plain) not in _PLACES


def positions(left: pd.DataFrame, right: pd.DataFrame) -> IntArray:
    """Return for each row of `left` the row of `right` with the same values, the n-th with the n-th; -1 for none."""
    both = pd.concat([left, right], ignore_index=True)
    columns = list(both.columns)
    group = both.groupby(
        columns,
        sort=False,
        dropna=False,
        observed=True,
    ).ngroup()
    mine, theirs = (
        pd.MultiIndex.from_arrays([part, part.groupby(part).cumcount()])
        for part in (group[: len(left)], group[len(left) :])
    )
    return theirs.get_indexer(mine)


def at(values: FloatArray, rows: IntArray) -> FloatArray:
    """Return the values at these rows, NaN where the row is -1."""
    if not len(values):
        return np.full(len(rows), np.nan)
    return np.where(rows >= 0, values[rows], np.nan)


def counter_columns(values: Mapping[str, FloatArray], options: Options) -> dict[str, FloatArray]:
    """Return the counters as columns of the dispatch table, channels summarised unless `options` keeps them."""
    summary = summarise(values, keep_channels=options.channels)
    return {COUNTER + name: numbers for name, numbers in summary.items()}


def _named_counters(table: DispatchTable) -> Iterator[tuple[str, str, Any]]:
    """Yield each counter's name, the name of its column, and the column."""
    before = ""
    for heading, values in (*table.columns.items(), *table.repeated):
        if not is_counter(heading):
            continue
        name = heading
        match = _REPEATED.match(heading)
        if match and (match[1] in table.columns or match[1] == _ACCUMULATED):
            name = match[1]
        if name == _ACCUMULATED and before:
            name = f"{before}_ACCUM"
        before = name
        yield name, heading, values


def _floats(column: Any) -> FloatArray | None:
    """Return a column as numbers, NaN where it has none; None if it has words."""
    try:
        return np.array(pc.cast(column, pa.float64()).to_numpy(), dtype=np.float64)
    except pa.ArrowInvalid:
        numbers = parsed(column)
    if np.isnan(numbers).all():
        return None
    return numbers


def parsed(column: Any) -> FloatArray:
    """Return the numbers among the words of a column, NaN for others."""
    words = pd.Series(column.to_pylist(), dtype=object)
    return pd.to_numeric(words, errors="coerce").to_numpy(np.float64)


def _fields(line: bytes) -> list[str]:
    try:
        text = line.decode("utf-8-sig", errors="replace").strip("\r")
        return [name.strip() for name in next(csv.reader([text]), [])]
    except csv.Error:
        return []


@dataclass(frozen=True)
class Times:
    """Start and duration of every row (0 where not `readable`: both stamps are numbers), arrays of shape (n_rows,).

    `rounded_ns` is the largest fraction of a nanosecond by which a duration was rounded. A row is
    `spoiled` where a stamp is written with an exponent ("8.1097E+14"): a spreadsheet has cut its
    digits.
    """

    start_ns: IntArray
    duration_ns: IntArray
    readable: BoolArray
    rounded_ns: float
    spoiled: BoolArray

    @property
    def sound(self) -> bool:
        """Whether every row has a time and none is spoiled."""
        return bool(self.readable.all()) and not self.spoiled.any()

    def take(self, rows: IntArray) -> Times:
        """Return the times of these rows, in this order."""
        ours = (self.start_ns[rows], self.duration_ns[rows], self.readable[rows])
        return Times(*ours, self.rounded_ns, self.spoiled[rows])


def times_of(table: DispatchTable) -> Times | None:
    """Return when the dispatches ran; None if the file has no times."""
    begin = table.column("begin")
    end = table.column("end")
    if begin is None or end is None:
        return None
    first = _stamps(begin)
    last = _stamps(end)
    is_timed = first.readable & last.readable
    spoiled = first.spoiled | last.spoiled
    rest = last.fraction - first.fraction
    duration = last.whole - first.whole + np.rint(rest).astype(np.int64)
    start = first.whole + np.rint(first.fraction).astype(np.int64)
    off = np.abs(rest - np.rint(rest))
    return Times(
        np.where(is_timed, start, 0),
        np.where(is_timed, duration, 0),
        is_timed,
        float(off.max(initial=0.0)),
        spoiled,
    )


def dispatch_columns(table: DispatchTable, times: Times) -> dict[str, Any]:
    """Return the columns of the dispatch table, counters aside, for every row.

    The files give the grid as one number of work-items, x, y and z multiplied, and the workgroup
    alike: `grid_x` is the number of workgroups of all three dimensions and `block_x` that of
    work-items in one; y and z stay missing.
    """
    work_items = table.integers("grid")
    block = table.integers("block")
    possible = block.gt(0) & work_items.ge(0)
    block = block.where(possible.fillna(False))
    correlation = table.integers("correlation")
    recorded = correlation.ne(0).fillna(False).any()  # rocprof v2 writes 0 everywhere
    plain = (
        "process",
        "gpu",
        "stream",
        "lds_bytes",
        "scratch_bytes",
        "vgpr",
        "accum_vgpr",
        "sgpr",
        "dispatch_id",
    )
    lines = pd.Series(table.lines).astype("str")
    return {
        "kind": "kernel",
        "name": table.names(),
        "start_ns": times.start_ns,
        "duration_ns": times.duration_ns,
        "grid_x": -(-work_items // block),
        "block_x": block,
        "correlation": correlation if recorded else None,
        "source": f"{table.label}:" + lines,
        **{meaning: table.integers(meaning) for meaning in plain},
    }


@dataclass(frozen=True)
class _Stamps:
    whole: IntArray
    fraction: FloatArray
    readable: BoolArray
    spoiled: BoolArray


def _stamps(column: Any) -> _Stamps:
    """Return a column of nanoseconds in whole numbers and fractions: as one float they would lose digits."""
    nothing = np.zeros(len(column))
    try:
        whole = pc.cast(column, pa.int64())
        values = np.clip(whole.fill_null(0).to_numpy(), -_MOST_NS, _MOST_NS)
        return _Stamps(
            values,
            nothing,
            whole.is_valid().to_numpy(),
            nothing.astype(bool),
        )
    except pa.ArrowInvalid:
        text = pd.Series(column.to_pylist(), dtype=object).fillna("").astype("str")
    parts = text.str.extract(_WHOLE)
    numbers = parsed(column)
    plain = parts[0].notna().to_numpy()
    readable = plain | np.isfinite(numbers)
    cut = np.rint(np.clip(np.where(readable & ~plain, numbers, 0.0), -_MOST_NS, _MOST_NS))
    whole = parts[0].fillna("0").astype(np.int64).to_numpy()
    fraction = ("0" + parts[1].fillna("")).astype(np.float64).to_numpy()
    spoiled = readable & text.str.contains("e", case=False, regex=False).to_numpy(dtype=bool)
    return _Stamps(
        np.where(plain, whole, cut.astype(np.int64)),
        np.where(plain, fraction, 0.0),
        readable,
        spoiled,
    )


def spoiled_timestamps(
    times: Times, table: DispatchTable, remedy: str = "export", other: str = ""
) -> list[Finding]:
    """Return a finding if stamps have lost their digits to a spreadsheet.

    `remedy` says what to do: "export" the table again, "profile" again, or nothing, as the times of
    the file `other` are used instead ("other").
    """
    advice = {
        "export": "export the data again",
        "profile": "durations cannot be trusted, profile again or take the file as it was written",
        "other": f"the times of {other} are used instead",
    }[remedy]
    text = (
        "timestamps written with an exponent, as a spreadsheet saves them: their last digits are "
        f"lost; {advice}"
    )
    return table.findings_on(
        times.spoiled,
        "spoiled-timestamps",
        text,
        "error",
        written="exponent",
        remedy=remedy,
        other=other,
    )


def columns_left_out(label: str, columns: Iterable[str]) -> Remark:
    """Return the note that columns of counters without numbers were left out."""
    names = tuple(columns)
    text = f"columns without numbers left out: {few(names, 3)}"
    return of_file(label, remark("columns-left-out", text, columns=names))


def left_out(times: Times, table: DispatchTable) -> list[Finding]:
    """Return a finding if rows have no time."""
    text = "dispatches whose start or end is no number: left out"
    return table.findings_on(
        ~times.readable,
        "unreadable-times",
        text,
        "error",
        rows="dispatches",
    )


def without_times(table: DispatchTable) -> list[Finding]:
    """Return a finding if a file has counters and no times."""
    text = (
        "dispatches with counters but no times: give the timing run of the same program with them"
    )
    return findings_on(
        len(table),
        "counters-without-times",
        text,
        "warning",
        table.label,
        lacking="timing run",
    )


def unmatched(rows: np.ndarray, others: int, label: str) -> list[Finding]:
    """Return a finding if dispatches of one pass are not those of the other, the file `label`.

    `rows` has for each dispatch the row of the other file, which has `others` rows, -1 for none.
    """
    here = int((rows < 0).sum())
    only_there = others - int((rows >= 0).sum())
    text = (
        f"dispatches that the passes do not share ({here} not in this file, {only_there} only here): "
        "no counters there"
    )
    return findings_on(
        here + only_there,
        "unmatched-pass",
        text,
        "warning",
        label,
        why="not shared",
        missing=here,
        only_here=only_there,
    )


def replay_spread(spread: Mapping[str, float], label: str) -> list[Finding]:
    """Return a finding if passes that recorded the same thing disagree."""
    differ = {name: value for name, value in spread.items() if value > 0}
    if not differ:
        return []
    worst = sorted(differ, key=lambda name: -differ[name])
    severity: Severity = "warning" if differ[worst[0]] > _WIDE else "info"
    spreads = tuple((name, differ[name]) for name in worst)
    listed = few((f"{name} {spread:.1%}" for name, spread in spreads), 3)
    text = (
        f"quantities that differ between replay passes of a dispatch, by at most: {listed}; the "
        "first is used"
    )
    return findings_on(
        len(differ),
        "replay-spread",
        text,
        severity,
        label,
        spreads=spreads,
    )


def channels_missing(channels: Mapping[str, tuple[int, int]], label: str) -> list[Finding]:
    """Return a finding if sums miss channels; `channels`: counter -> channels recorded, channels of the GPU."""
    sums = tuple((name, have, all_) for name, (have, all_) in channels.items() if have < all_)
    listed = few((f"{name} {have} of {all_}" for name, have, all_ in sums), 3)
    text = f"counters recorded on some channels only ({listed}): their sums are of these channels"
    return findings_on(
        len(sums),
        "channels-missing",
        text,
        "warning",
        label,
        counters=sums,
    )


# The reader: which files are of one run, and its dispatches with the counters of other runs.

Role = Literal["times", "database", "counters", "statistics", "events"]
_DISPATCH = frozenset(("KernelName", "gpu-id", "grd", "wgr"))
_STATISTICS = ["Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage"]
_STATISTICS_FILE = re.compile(r"\.(\w+_)?stats\.csv$")
_KEY = ("Index", "KernelName")
_EVENTS = re.compile(
    rb'^\s*(\{\s*"traceEvents"\s*:\s*\[\s*\{\s*\}\s*)?,\s*\{"args":\{"name":"[^"]*"\},"ph":"M","pid":'
)
_TABLE = re.compile(rb'CREATE TABLE "?(?:KERN|OPS)"?\s*\(')
_WITH_TIMES = re.compile(rb'"BeginNs"\s*:\s*"?\d')
_OPERATIONS = vocabulary("rocprof_operations")
"""Column of an operation of the GPU, as ``--hip-trace`` writes them -> the same column of a dispatch."""
_COPY = re.compile(r"(?i)(?:hc)?(?:mem)?copy|memcpy")
_FILL = re.compile(r"(?i)fill|memset")
_NO_WORK = re.compile(r"(?i)(?:hc(?:Command)?)?(?:marker|barrier)")
_NO_JSON = (
    "is no JSON: rocprof ended before it wrote the trace; give results.csv or results.db of the "
    "same run"
)
_AGREEING = 0.5  # share of the dispatches of a counter run that its timing run must have too


@register
class RocprofReader(TraceReader):
    """rocprof v1: dispatches with times, counters of further runs joined to them."""

    name = "rocprof"
    containers = (SQLITE, b"")

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the columns of a dispatch table, the database, or a file that accompanies them."""
        return role_of(path, head) is not None

    def gather(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
        """Return each timing run with the counter runs of its folder that saw the same dispatches."""
        return list(chain.from_iterable(map(_groups, by_folder(files))))

    def tables(self, files: Sequence[DataFile]) -> Sequence[tuple[Reader, DataFile]]:
        """Return the sums of kernels where no file has dispatches."""
        if any(role_of(file.path, head(file.path)) != "statistics" for file in files):
            return ()
        return tables_of(files)

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the dispatches of one timing run; a DataError if a file is damaged, or the files hold several runs."""
        roles = {file: role_of(file.path, head(file.path)) for file in files}
        runs = [file for file in files if roles[file] in ("times", "database")]
        counted = [file for file in files if roles[file] == "counters"]
        if not runs:
            runs = [file for file in files if roles[file] == "events"]
        notes = list[Remark]()
        for file in files:
            if file not in runs:
                notes += _nothing_to_read(file, roles[file], runs)
        if not runs:
            findings = []
            for file in counted:
                findings += without_times(read_table(file, options))
            return Trace(dispatch_table({}, rows=0), findings=findings, notes=notes)
        tables = [_read(file, options) for file in runs]
        notes += _same_run(tables)
        run = tables[0]
        counter_runs = [read_table(file, options) for file in counted]
        times = times_of(run)
        if times is None:  # the header of a timing run promises them
            raise DataError("has neither BeginNs nor EndNs", source=run.label)
        findings = [*run.findings, *spoiled_timestamps(times, run), *_mismatch(run, times)]
        columns, more, words = _counters(run, counter_runs, options)
        findings += more
        if words:
            notes.append(columns_left_out(run.label, words))
        if "device" not in options.defaults:
            text = "the device is not recorded: give default device=NAME"
            notes.append(of_file(run.label, remark("device-not-recorded", text, by="rocprof")))
        if counter_runs:
            others = tuple(table.label for table in counter_runs)
            text = (
                f"counters come from other runs of the program ({few(others, 3)}), joined by "
                "Index and name"
            )
            notes.append(of_file(run.label, remark("counters-of-other-runs", text, runs=others)))
        table = dispatch_table({**dispatch_columns(run, times), **columns}, rows=len(run))
        findings += left_out(times, run)
        if not run.has("grid"):
            text = (
                "no launch has its grid, as --hip-trace writes none: profile with --stats as well"
            )
            findings += findings_on(
                len(run),
                GRID_NOT_RECORDED,
                text,
                by="rocprof",
            )
        table = _of_operations(table[times.readable].reset_index(drop=True), notes)
        return Trace(in_order(table), findings=findings, notes=notes)


def _of_operations(table: pd.DataFrame, notes: list[Remark]) -> pd.DataFrame:
    """Return the table without markers, copies and fills as such: ``--hip-trace`` lists them among the kernels."""
    names = table["name"].astype("str")
    kinds = {}
    named = {}
    for name in names.unique():
        kinds[name] = KERNEL
        named[name] = name
        if _COPY.match(name) and (way := direction(pd.Series([name]))[0]) != name:
            kinds[name] = MEMCPY
            named[name] = way
        elif _FILL.match(name) and "(" not in name:
            kinds[name] = MEMSET
            named[name] = "memset"
        elif _NO_WORK.fullmatch(name):
            kinds[name] = ""
    kind = names.map(kinds)
    count = int(kind.eq("").sum())
    if count:
        text = f"{count} operations are markers and barriers of the queue, no work: left out"
        notes.append(remark("markers-left-out", text, operations=count))
    if kind.eq(KERNEL).all():
        return table
    work = table.assign(kind=pd.Categorical(kind), name=pd.Categorical(names.map(named)))
    return work[kind.ne("")].reset_index(drop=True)


def role_of(path: Path, beginning: bytes) -> Role | None:
    """Return what a file of rocprof v1 holds; None if it is none."""
    if beginning.startswith(SQLITE):
        return "database" if _TABLE.search(beginning) else None
    timed = b'"traceEvents"' in beginning and _WITH_TIMES.search(beginning)
    if timed or _EVENTS.match(beginning):
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
    alone: list[DataFile] = []
    counted: list[tuple[DataFile, pd.DataFrame]] = []
    statistics: list[DataFile] = []
    for file in files:
        try:
            role = role_of(file.path, head(file.path))
            if role in ("times", "database"):
                _add_run(runs, file)
            elif role == "counters":
                counted.append((file, _keys(read_table(file, Options(), _KEY))))
            elif role == "events" and head(file.path).lstrip().startswith(b","):
                alone.append(file)
            else:
                statistics.append(file)
        except DataError:
            alone.append(file)  # `trace` will say what is wrong with it
    chosen = [(file, _best_run(runs, file, keys)) for file, keys in counted]
    for file in statistics:
        alike = partial(_likeness, file)
        chosen.append((file, max(runs, key=lambda run: alike(run.files[0]), default=None)))
    for file, run in chosen:
        if run is None:
            alone.append(file)
        else:
            run.files.append(file)
    return [*(tuple(run.files) for run in runs), *((file,) for file in alone)]


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
    ranked = []
    for place, run in enumerate(runs):
        shared = 0.0
        if len(keys):
            shared = np.mean(positions(keys, run.keys) >= 0)
        ranked.append((shared, _likeness(run.files[0], file), -place))
    shared, _, place = max(ranked, default=(0.0, 0, 0))
    if shared < _AGREEING:
        return None
    return runs[-place]


def _likeness(file: DataFile, other: DataFile) -> int:
    """Return how many characters the two names begin with alike."""
    pairs = zip(file.path.name, other.path.name, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _fingerprint(table: DispatchTable) -> tuple[int, ...]:
    """Return numbers that two files of one run share, and two runs hardly ever."""
    times = times_of(table)
    if times is None or not len(table):
        return ()
    start = times.start_ns
    duration = times.duration_ns
    return len(table), int(start[0]), int(start[-1]), int(duration.sum())


def _keys(table: DispatchTable) -> pd.DataFrame:
    return pd.DataFrame(
        {"index": table.integers("dispatch_id"), "name": table.names().astype(object)}
    )


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]


def _read(file: DataFile, options: Options, only: Sequence[str] = ()) -> DispatchTable:
    """Return the dispatches of a timing run, from CSV or database."""
    if head(file.path).startswith(SQLITE):
        data = content(file.path, max_bytes=options.trace_bytes)
        connection = sqlite3.connect(":memory:")
        connection.text_factory = lambda raw: raw.decode("utf-8", errors="backslashreplace")
        try:
            connection.deserialize(data)
            kernels = _columns(connection, "KERN")
            operations = _columns(connection, "OPS")
            # --hip-trace writes the times of kernels into OPS
            names = {name: name for name in kernels}
            chosen = "KERN"
            if operations and not {"BeginNs", "EndNs"} <= set(kernels):
                chosen = "OPS"
                names = {name: _OPERATIONS[name] for name in operations if name in _OPERATIONS}
            rows: list[Any] = []
            if names:
                texts = ('CAST("{}" AS TEXT)'.format(name.replace('"', '""')) for name in names)
                asked = f"SELECT {', '.join(texts)} FROM {chosen}"
                rows = connection.execute(asked).fetchmany(len(data))
        except (sqlite3.Error, MemoryError, OverflowError, UnicodeError, ValueError) as error:
            raise DataError(f"the database cannot be read ({error})", source=file.label) from error
        finally:
            connection.close()
        values = list(zip(*rows, strict=True)) or [()] * len(names)
        columns = {
            name: pa.chunked_array([pa.array(words, pa.string())])
            for name, words in zip(names.values(), values, strict=True)
        }
        table = DispatchTable(file.label, columns, np.arange(1, len(rows) + 1, dtype=np.int64))
        if not table.has("name", "begin", "end"):
            text = (
                "neither table KERN nor OPS has names with BeginNs and EndNs: profile with "
                "--stats or --hip-trace"
            )
            raise DataError(text, source=file.label)
        return table
    if role_of(file.path, head(file.path)) == "events":
        return _from_events(file, options)
    return read_table(file, options, only)


def _from_events(file: DataFile, options: Options) -> DispatchTable:
    """Return the operations of the GPU in ``results.json``: the events that name a device beside their times."""
    data = content(file.path, max_bytes=options.trace_bytes)
    try:
        document = msgspec.json.decode(as_utf8(data))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DataError(_NO_JSON, source=file.label) from error
    events = document
    if isinstance(document, dict):
        events = document.get("traceEvents")
    rows = []
    places = []
    for place, event in enumerate(events if isinstance(events, list) else [], start=1):
        given = None
        if isinstance(event, dict):
            given = event.get("args")
        if not isinstance(given, dict) or "BeginNs" not in given:
            continue
        if "dev-id" in given or "gpu-id" in given:
            name = given.get("Name") or given.get("KernelName") or event.get("name")
            row = {_OPERATIONS[key]: str(given[key]) for key in given if key in _OPERATIONS}
            rows.append(row | {"KernelName": str(name)})
            places.append(place)
    if not rows:
        raise DataError(
            "has no operation of a GPU with its times: give results.csv or results.db",
            source=file.label,
        )
    names = dict.fromkeys(chain.from_iterable(rows))
    table = pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in names]))
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return DispatchTable(file.label, columns, np.array(places, dtype=np.int64))


def _counters(
    run: DispatchTable, counted: Sequence[DispatchTable], options: Options
) -> tuple[dict[str, FloatArray], list[Finding], list[str]]:
    """Return the counters of the run itself and of the counter runs, for the dispatches of the run."""
    findings: list[Finding] = []
    passes, words = counters(run)
    keys = _keys(run)
    for table in counted:
        other_keys = _keys(table)
        rows = positions(keys, other_keys)
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
    wrong = ~np.isnan(stated) & times.readable & (stated != times.duration_ns)
    text = "DurationNs is not EndNs - BeginNs: durations are taken from the stamps"
    return run.findings_on(wrong, "duration-mismatch", text, "warning")


def _same_run(tables: Sequence[DispatchTable]) -> list[Remark]:
    """Return notes on the files that repeat the first one."""
    first, *others = tables
    notes = []
    for table in others:
        if _fingerprint(table) != _fingerprint(first):
            raise DataError(
                f"holds another run than {first.label}: read them apart", source=table.label
            )
        text = f"the same dispatches as {first.label}, read once"
        notes.append(of_file(table.label, remark("same-dispatches", text, other=first.label)))
    return notes


def _nothing_to_read(file: DataFile, role: Role | None, runs: Sequence[DataFile]) -> list[Remark]:
    """Return a note on a file that holds nothing to read; raise `DataError` for a trace that was never written."""
    if role == "statistics":
        text = "holds sums over kernels, no single dispatches: give results.csv"
        return [of_file(file.label, remark("sums-only", text))]
    if role != "events":
        return []
    if head(file.path).lstrip().startswith(b","):
        raise DataError(_NO_JSON, source=file.label)
    text = f"events of the same run as {runs[0].label}, which is read instead"
    return [of_file(file.label, remark("picture-of-results", text))]
