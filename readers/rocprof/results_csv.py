"""The tables that rocprof and rocprofiler-compute write: one line per dispatch with its times, and counters.

Names of the columns changed with the generations; :data:`COLUMNS` has all that were seen: rocprof v1 (ROCm 5 and 6),
rocprof v2, Omniperf 1 and 2, rocprofiler-compute 3 (ROCm 6.2 to 7.0). What is not named there and holds numbers is a
hardware counter. Tables of counters may have thousands of columns, so they are read column by column.

A :class:`DispatchTable` holds the text. :func:`times_of` reads its stamps, nanoseconds since boot of 15 to 17 digits:
as floating-point numbers they would be wrong by up to a few nanoseconds, so whole numbers and fractions
(rocprofiler-compute 3 writes means over passes) are kept apart. The last functions say what is odd about them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from ...arrays import BoolArray, FloatArray, IntArray
from ...errors import DataError, few
from ...remarks import Remark, remark
from ...table.counters import summarise
from ...table.measurements import COUNTER
from ...traces.dispatches import Finding, Severity
from ..base import HEAD_BYTES, DataFile, Options, of_file
from ..files import as_utf8, content

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "dispatch_id": ("Dispatch_ID", "Index"),
    "name": ("Kernel_Name", "KernelName"),
    "gpu": ("GPU_ID", "gpu-id"),
    "stream": ("Queue_ID", "queue-id"),
    "process": ("PID", "pid"),
    "grid": ("Grid_Size", "grd"),
    "block": ("Workgroup_Size", "wgr"),
    "lds_bytes": ("LDS_Per_Workgroup", "lds"),
    "scratch_bytes": ("Scratch_Per_Workitem", "scr"),
    "vgpr": ("Arch_VGPR", "arch_vgpr", "vgpr"),
    "accum_vgpr": ("Accum_VGPR", "accum_vgpr"),
    "sgpr": ("SGPR", "sgpr"),
    "correlation": ("Correlation_ID",),
    "begin": ("Start_Timestamp", "BeginNs"),
    "end": ("End_Timestamp", "EndNs"),
    "duration": ("DurationNs",),
    "counter_name": ("Counter_Name",),
    "counter_value": ("Counter_Value",),
}
"""What a column means -> the names it was given, newest first."""
_OTHERS = (
    "queue-index", "tid", "wave_size", "sig", "obj", "dispatchns", "completens", "kernel_id", "xcc_index", "agent_id",
    "process_id", "thread_id", "unnamed: 0", "",
)  # fmt: skip
_PLACES = frozenset(name.lower() for names in COLUMNS.values() for name in names) | frozenset(_OTHERS)
_REPEATED = re.compile(r"^(.+)_(\d+)$")
_KERNEL_ENDING = re.compile(r"(?:(?<!\s)\s*+(?:\[clone \.kd\]|\(\.kd\))|\.kd)$")
_ACCUMULATED = "SQ_ACCUM_PREV_HIRES"  # accumulates the counter that stands before it in the pass
_MISSING = ["", "nan", "NaN", "NA", "N/A", "None", "null"]
_BLOCK_BYTES = 2**24
_WHOLE = r"^\s*(\d{1,18})(\.\d*)?\s*$"
_MOST_NS = 2**62 - 2**10  # stamps beyond it are cut there, so that differences fit 64 bits
_WIDE = 0.1  # spread between passes from which counters of one row hardly describe one execution
_READ_ERRORS = (pa.ArrowException, ValueError, TypeError, OverflowError, csv.Error)


@dataclass(frozen=True)
class DispatchTable:
    """The lines of one file, column by column, as text.

    `columns` are in the order of the file; of columns with the same name the first has it, the others are in
    `repeated`. `lines` has the 1-based line of each row, `findings` what was left out.
    """

    label: str
    columns: dict[str, Any]
    lines: IntArray
    repeated: tuple[tuple[str, Any], ...] = ()
    findings: tuple[Finding, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.lines)

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
            return pd.Series(pc.cast(column, pa.int64()).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get))
        except pa.ArrowInvalid:
            values = pd.to_numeric(pd.Series(column.to_pylist(), dtype=object), errors="coerce").to_numpy(np.float64)
            whole = np.isfinite(values) & (np.abs(values) < 2**53) & (values == np.floor(values))
            return pd.Series(np.where(whole, values, np.nan)).astype("Int64")

    def names(self) -> pd.Categorical:
        """Return the kernels' names without the ending that marks a kernel descriptor, quotes removed."""
        column = self.column("name").fill_null("").combine_chunks().dictionary_encode()
        words = [_KERNEL_ENDING.sub("", word.strip().strip('"').strip()) for word in column.dictionary.to_pylist()]
        codes, unique = pd.factorize(np.array(words, dtype=object))
        return pd.Categorical.from_codes(codes[column.indices.to_numpy()], categories=pd.Index(unique, dtype="str"))

    def take(self, rows: IntArray) -> DispatchTable:
        """Return the table of these rows, in this order."""
        columns = {name: values.take(pa.array(rows)) for name, values in self.columns.items()}
        again = tuple((name, values.take(pa.array(rows))) for name, values in self.repeated)
        return replace(self, columns=columns, lines=self.lines[rows], repeated=again)


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

    Empty lines are passed over. Lines with another number of fields than the header are left out, with a Finding
    "broken-lines". Raises DataError where the file cannot be read, is too large or is no table.
    """
    data = content(file.path, max_bytes=options.trace_bytes)
    try:
        if not (names := _fields(data.partition(b"\n")[0])):
            raise DataError("names no columns in its first line", source=file.label)
        return _parsed(as_utf8(data), names, file, only)
    except _READ_ERRORS as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"is not a table that can be read ({reason})", source=file.label) from error


def counters(table: DispatchTable) -> tuple[list[tuple[str, FloatArray]], list[str]]:
    """Return the columns that are counters, and the names of those that hold no numbers.

    A column that a join has repeated under a suffix (``SQ_WAVES_13``) keeps the counter's own name. The accumulator
    ``SQ_ACCUM_PREV_HIRES`` belongs to the counter before it, in other columns every time: it is called ``<that
    counter>_ACCUM``, as rocprofiler-compute 3 does. Values are of shape (n_rows,), NaN where nothing is recorded; a
    name recurs where several passes have counted it.
    """
    found: list[tuple[str, FloatArray]] = []
    words: list[str] = []
    for name, own, values in _named_counters(table):
        numbers = _floats(values)
        if numbers is None:
            words.append(own)
        else:
            found.append((name, numbers))
    return found, words


def is_counter(name: str) -> bool:
    """Return whether a column is none of the columns that describe a dispatch, in any spelling."""
    known = name.strip().lower()
    return known not in _PLACES and _REPEATED.sub(r"\1", known) not in _PLACES


def positions(left: pd.DataFrame, right: pd.DataFrame) -> IntArray:
    """Return for each row of `left` the row of `right` with the same values, the n-th with the n-th; -1 for none."""
    both = pd.concat([left, right], ignore_index=True)
    group = both.groupby(list(both.columns), sort=False, dropna=False, observed=True).ngroup().to_numpy()
    mine, theirs = pd.Series(group[: len(left)]), pd.Series(group[len(left) :])
    return pd.MultiIndex.from_arrays([theirs, theirs.groupby(theirs).cumcount()]).get_indexer(
        pd.MultiIndex.from_arrays([mine, mine.groupby(mine).cumcount()])
    )


def at(values: FloatArray, rows: IntArray) -> FloatArray:
    """Return the values at these rows, NaN where the row is -1."""
    if not len(values):
        return np.full(len(rows), np.nan)
    return np.where(rows >= 0, values[rows], np.nan)


def counter_columns(values: Mapping[str, FloatArray], options: Options) -> dict[str, FloatArray]:
    """Return the counters as columns of the dispatch table, channels summarised unless `options` keeps them."""
    summary = summarise(values, keep_channels=options.channels)
    return {COUNTER + name: own for name, own in summary.items()}


def _named_counters(table: DispatchTable) -> Iterator[tuple[str, str, Any]]:
    """Yield each counter's name, the name of its column, and the column."""
    before = ""
    for own, values in (*table.columns.items(), *table.repeated):
        if not is_counter(own):
            continue
        match = _REPEATED.match(own)
        name = match[1] if match and (match[1] in table.columns or match[1] == _ACCUMULATED) else own
        if name == _ACCUMULATED and before:
            name = f"{before}_ACCUM"
        before = name
        yield name, own, values


def _floats(column: Any) -> FloatArray | None:
    """Return a column as numbers, NaN where it has none; None if it has words."""
    try:
        values = pc.cast(column, pa.float64())
    except pa.ArrowInvalid:
        text = pd.Series(column.to_pylist(), dtype=object)
        numbers = pd.to_numeric(text, errors="coerce").to_numpy(np.float64)
        return numbers if not np.isnan(numbers).all() else None
    return np.array(values.to_numpy(), dtype=np.float64)


def _fields(line: bytes) -> list[str]:
    try:
        text = line.decode("utf-8-sig", errors="replace").strip("\r")
        return [name.strip() for name in next(csv.reader([text]), [])]
    except csv.Error:
        return []


def _parsed(data: bytes, names: list[str], file: DataFile, only: Collection[str]) -> DispatchTable:
    """Return the lines after the first, cut into columns."""
    broken: list[int] = []

    def leave_out(row: Any) -> str:
        broken.append(int(row.number))
        return "skip"

    rest = data.partition(b"\n")[2]
    if not rest.strip():
        empty = pa.chunked_array([], type=pa.string())
        return DispatchTable(file.label, dict.fromkeys(names, empty), np.array([], dtype=np.int64))
    ids = [str(number) for number in range(len(names))]
    wanted = [i for i, name in zip(ids, names, strict=True) if not only or name in only]
    table = pacsv.read_csv(
        pa.BufferReader(rest),
        read_options=pacsv.ReadOptions(column_names=ids, use_threads=False, block_size=_BLOCK_BYTES),
        parse_options=pacsv.ParseOptions(invalid_row_handler=leave_out, ignore_empty_lines=False),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(ids, pa.string()),
            include_columns=wanted,
            null_values=_MISSING,
            strings_can_be_null=True,
        ),
    )
    return _labelled(table, names, broken, file)


def _labelled(table: Any, names: list[str], broken: list[int], file: DataFile) -> DispatchTable:
    """Return the columns under their names, empty lines removed, with the line of each row."""
    lines = np.arange(2, len(table) + len(broken) + 2, dtype=np.int64)
    lines = np.delete(lines, [number - 1 for number in broken])
    filled = np.zeros(len(table), dtype=bool)
    for column in table.columns:
        filled |= column.is_valid().to_numpy()
    table, lines = (table, lines) if filled.all() else (table.filter(pa.array(filled)), lines[filled])
    columns: dict[str, Any] = {}
    repeated: list[tuple[str, Any]] = []
    for i, values in zip(table.column_names, table.columns, strict=True):
        name = names[int(i)]
        if name in columns:
            repeated.append((name, values))
        else:
            columns[name] = values
    findings = () if not broken else (_broken_lines(len(broken), file, min(broken) + 1),)
    return DispatchTable(file.label, columns, lines, tuple(repeated), findings)


def _broken_lines(count: int, file: DataFile, first: int) -> Finding:
    text = "lines with another number of fields than the header, left out: was the file cut short?"
    return Finding(remark("broken-lines", text, by="rocprof"), "warning", count, source=f"{file.label}:{first}")


@dataclass(frozen=True)
class Times:
    """Start and duration of every row (0 where not `known`: both stamps are numbers), arrays of shape (n_rows,).

    `rounded_ns` is the largest fraction of a nanosecond by which a duration was rounded. A row is `spoiled` where a
    stamp is written with an exponent ("8.1097E+14"): a spreadsheet has cut its digits.
    """

    start_ns: IntArray
    duration_ns: IntArray
    known: BoolArray
    rounded_ns: float
    spoiled: BoolArray

    @property
    def sound(self) -> bool:
        """Whether every row has a time and none is spoiled."""
        return bool(self.known.all()) and not self.spoiled.any()


def times_of(table: DispatchTable) -> Times | None:
    """Return when the dispatches ran; None if the file has no times."""
    begin, end = table.column("begin"), table.column("end")
    if begin is None or end is None:
        return None
    first, last = _stamps(begin), _stamps(end)
    known, spoiled = first.known & last.known, first.spoiled | last.spoiled
    rest = last.fraction - first.fraction
    duration = last.whole - first.whole + np.rint(rest).astype(np.int64)
    start = first.whole + np.rint(first.fraction).astype(np.int64)
    off = np.abs(rest - np.rint(rest))
    return Times(np.where(known, start, 0), np.where(known, duration, 0), known, float(off.max(initial=0.0)), spoiled)


def dispatch_columns(table: DispatchTable, times: Times) -> dict[str, Any]:
    """Return the columns of the dispatch table, counters aside, for every row.

    The files give the grid as one number of work-items, x, y and z multiplied, and the workgroup alike: `grid_x` is
    the number of workgroups of all three dimensions and `block_x` that of work-items in one; y and z stay missing.
    """
    work_items, block = table.integers("grid"), table.integers("block")
    possible = block.gt(0) & work_items.ge(0)
    block = block.where(possible.fillna(False))
    correlation = table.integers("correlation")
    recorded = correlation.ne(0).fillna(False).any()  # rocprof v2 writes 0 everywhere
    plain = ("process", "gpu", "stream", "lds_bytes", "scratch_bytes", "vgpr", "accum_vgpr", "sgpr", "dispatch_id")
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
    known: BoolArray
    spoiled: BoolArray


def _stamps(column: Any) -> _Stamps:
    """Return a column of nanoseconds in whole numbers and fractions: as one float they would lose digits."""
    none = np.zeros(len(column), dtype=bool)
    try:
        whole = pc.cast(column, pa.int64())
        known = whole.is_valid().to_numpy()
        values = np.clip(whole.fill_null(0).to_numpy(), -_MOST_NS, _MOST_NS)
        return _Stamps(values, np.zeros(len(column)), known, none)
    except pa.ArrowInvalid:
        return _odd_stamps(pd.Series(column.to_pylist(), dtype=object).fillna("").astype("str"))


def _odd_stamps(text: pd.Series) -> _Stamps:
    parts = text.str.extract(_WHOLE)
    plain = parts[0].notna().to_numpy()
    numbers = pd.to_numeric(text, errors="coerce").to_numpy(np.float64)
    known = plain | np.isfinite(numbers)
    cut = np.rint(np.clip(np.where(known & ~plain, numbers, 0.0), -_MOST_NS, _MOST_NS)).astype(np.int64)
    whole = parts[0].fillna("0").astype(np.int64).to_numpy()
    fraction = ("0" + parts[1].fillna("")).astype(np.float64).to_numpy()
    spoiled = known & text.str.contains("e", case=False, regex=False).to_numpy(dtype=bool)
    return _Stamps(np.where(plain, whole, cut), np.where(plain, fraction, 0.0), known, spoiled)


def spoiled_timestamps(times: Times, table: DispatchTable, remedy: str = "export", other: str = "") -> list[Finding]:
    """Return a finding if stamps have lost their digits to a spreadsheet.

    `remedy` says what to do: "export" the table again, "profile" again, or nothing, as the times of the file `other`
    are used instead ("other").
    """
    if not times.spoiled.any():
        return []
    where = f"{table.label}:{table.lines[int(times.spoiled.argmax())]}"
    advice = {
        "export": "export the data again",
        "profile": "durations cannot be trusted, profile again or take the file as it was written",
        "other": f"the times of {other} are used instead",
    }[remedy]
    text = f"timestamps written with an exponent, as a spreadsheet saves them: their last digits are lost; {advice}"
    spoiled = remark("spoiled-timestamps", text, written="exponent", remedy=remedy, other=other)
    return [Finding(spoiled, "error", int(times.spoiled.sum()), source=where)]


def columns_left_out(label: str, columns: Iterable[str]) -> Remark:
    """Return the note that columns of counters without numbers were left out."""
    names = tuple(columns)
    text = f"columns without numbers left out: {few(names, 3)}"
    return of_file(label, remark("columns-left-out", text, columns=names))


def left_out(times: Times, table: DispatchTable) -> list[Finding]:
    """Return a finding if rows have no time."""
    if times.known.all():
        return []
    where = f"{table.label}:{table.lines[int(times.known.argmin())]}"
    unreadable = remark("unreadable-times", "dispatches whose start or end is no number: left out", rows="dispatches")
    return [Finding(unreadable, "error", int((~times.known).sum()), source=where)]


def without_times(count: int, label: str) -> Finding:
    """Return the finding that a file has counters and no times."""
    text = "dispatches with counters but no times: give the timing run of the same program with them"
    return Finding(remark("counters-without-times", text, lacking="timing run"), "warning", count, source=label)


def unmatched(rows: np.ndarray, others: int, label: str) -> list[Finding]:
    """Return a finding if dispatches of one pass are not those of the other, the file `label`.

    `rows` has for each dispatch the row of the other file, which has `others` rows, -1 for none.
    """
    here, there = int((rows < 0).sum()), others - int((rows >= 0).sum())
    if not here and not there:
        return []
    text = f"dispatches that the passes do not share ({here} not in this file, {there} only here): no counters there"
    unshared = remark("unmatched-pass", text, why="not shared", missing=here, only_here=there)
    return [Finding(unshared, "warning", here + there, source=label)]


def replay_spread(spread: Mapping[str, float], label: str) -> list[Finding]:
    """Return a finding if passes that recorded the same thing disagree."""
    differ = {name: value for name, value in spread.items() if value > 0}
    if not differ:
        return []
    worst = sorted(differ, key=lambda name: -differ[name])
    severity: Severity = "warning" if differ[worst[0]] > _WIDE else "info"
    spreads = tuple((name, differ[name]) for name in worst)
    listed = few((f"{name} {spread:.1%}" for name, spread in spreads), 3)
    text = f"quantities that differ between replay passes of a dispatch, by at most: {listed}; the first is used"
    return [Finding(remark("replay-spread", text, spreads=spreads), severity, len(differ), source=label)]


def channels_missing(found: Mapping[str, tuple[int, int]], label: str) -> list[Finding]:
    """Return a finding if sums are not over all channels; `found`: counter -> channels recorded, channels there are."""
    short = {name: numbers for name, numbers in found.items() if numbers[0] < numbers[1]}
    if not short:
        return []
    sums = tuple((name, have, all_) for name, (have, all_) in short.items())
    listed = few((f"{name} {have} of {all_}" for name, have, all_ in sums), 3)
    text = f"counters recorded on some channels only ({listed}): their sums are of these channels"
    return [Finding(remark("channels-missing", text, counters=sums), "warning", len(short), source=label)]
