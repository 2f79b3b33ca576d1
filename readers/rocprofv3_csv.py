"""CSV files of rocprofv3 (rocprofiler-sdk): kernel traces, counters, memory copies, agents, API calls.

Written by default until ROCm 7.0, since then with ``--output-format csv`` or by ``rocpd convert``.
Seen: the versions of October 2024 (agents as integers, no streams, no registers) and of 2025
(agents as "Agent 4"; every field quoted, or only words), and the spelling of ``rocpd convert`` (a
column Guid, other capitals). Columns are therefore matched by name in any case, and may be missing.
Rows are in no order. Times are integer nanoseconds, grids in work-items.

``*_kernel_trace.csv`` has one row per dispatch; ``*_counter_collection.csv`` one row per dispatch
and counter, of the grid only the total (`grid_x` then counts the workgroups of all dimensions), and
times in newer versions only. ``*_memory_copy_trace.csv`` does not say how much was copied. Only
``*_agent_info.csv`` says what a device is. `Run` has the files of one run together: whose times
count, which devices the agents are, what launched what.
"""

from __future__ import annotations

import csv
import math
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray, ObjectArray
from ..errors import DataError
from ..remarks import Remark, remark
from ..table.measurements import COUNTER
from ..traces.dispatches import (
    FIRST,
    KERNEL,
    LAST,
    MEMCPY,
    Finding,
    Trace,
    columns_of,
    dispatch_table,
    durations,
    findings_at,
    findings_on,
    in_order,
)
from . import rocprofv3
from .base import HEAD_BYTES, DataFile, Options, Reader, TraceReader, register
from .files import as_utf8, by_number, content, csv_header, even_lines, head
from .kernel_sums import tables_of
from .rocpd import direction, launch_size

# Files: what a CSV file holds, by its header, and which files are of one run, by their names.
#
# A process writes ``<host>/<pid>_kernel_trace.csv``, ``<host>/<pid>_agent_info.csv`` and so on;
# with ``-o NAME`` the prefix is NAME, and in documentation it is missing. An input file with
# several lines of counters runs the program once for each, into folders ``pass_1``, ``pass_2``, ...
# (``pmc_1``, ... in later versions).


class Content(Enum):
    """What a file holds; the value is the columns that tell, in lower case."""

    KERNELS = frozenset(
        {"kind", "agent_id", "dispatch_id", "kernel_name", "start_timestamp", "end_timestamp"}
    )
    COUNTERS = frozenset(
        {"agent_id", "dispatch_id", "kernel_name", "counter_name", "counter_value"}
    )
    COPIES = frozenset(
        {"direction", "source_agent_id", "destination_agent_id", "start_timestamp", "end_timestamp"}
    )
    AGENTS = frozenset({"agent_type", "cu_count", "gfx_target_version"})
    API = frozenset({"domain", "function", "correlation_id", "start_timestamp", "end_timestamp"})
    # rocprof v1 has no minns
    STATISTICS = frozenset({"name", "calls", "totaldurationns", "minns", "stddev"})
    ALLOCATIONS = frozenset({"kind", "operation", "allocation_size", "address"})
    SCRATCH = frozenset({"kind", "operation", "alloc_flags", "start_timestamp"})
    SAMPLES = frozenset({"sample_timestamp", "dispatch_id", "instruction"})


_API = r"(?:hip|hsa|marker|rccl|ompt|rocdecode|rocjpeg|kfd)"
_PART = r"(?:api|runtime|compile|compiler|core|amd|ext|image|finalize|finalizer|control|name|range|domain)"
_TIMED = rf"(?:kernel|memory_copy|memory_allocation|scratch_memory|domain|{_API}(?:_{_PART})*)"
_FILE_NAME = re.compile(
    rf"(?:(?P<prefix>.+?)_)??(?:{_TIMED}_(?:trace|stats)|counter_collection|agent_info|pc_sampling_[a-z_]+)",
    re.IGNORECASE,
)
_PASS = re.compile(r"(?:pass|pmc)_([0-9]+)", re.IGNORECASE)
_SUFFIXES = (".gz", ".bz2", ".csv")


@dataclass(frozen=True)
class Place:
    """Where in the output of a run a file stands.

    `home` is the folder without that of the pass, `replay` that folder, "" outside of any;
    `prefix` is what the names of all files of a process begin with; the whole name where it is not
    one of rocprofv3's.
    """

    home: Path
    replay: str
    prefix: str


def content_of(head: bytes) -> Content | None:
    """Return what a file with this beginning holds, None if it is not of rocprofv3."""
    try:
        names = frozenset(name.lower() for name in csv_header(head))
    except csv.Error:
        return None
    return next((content for content in Content if content.value <= names), None)


def place_of(path: Path) -> Place:
    """Return where a file stands."""
    parts = path.parent.parts
    passes = [place for place, part in enumerate(parts) if _PASS.fullmatch(part)]
    home = path.parent
    replay = ""
    if passes:
        home = Path(*parts[: passes[-1]], *parts[passes[-1] + 1 :])
        replay = parts[passes[-1]]
    stem = path.name
    for suffix in _SUFFIXES:
        if stem.lower().endswith(suffix):
            stem = stem[: -len(suffix)]
    named = _FILE_NAME.fullmatch(stem)
    return Place(home, replay, (named["prefix"] or "") if named else stem)


def runs(files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
    """Return the files of each run, in the order of its first file.

    Files of one folder with one prefix belong together. So do passes: their processes by the prefix
    where all passes have the same, else (prefixes are process ids) first with first in the order of
    the ids, if there are equally many.
    """
    homes: dict[Path, dict[str, dict[str, list[DataFile]]]] = {}
    for file in files:
        place = place_of(file.path)
        passes = homes.setdefault(place.home, {})
        passes.setdefault(place.replay, {}).setdefault(place.prefix, []).append(file)
    number = {file: position for position, file in enumerate(files)}
    matched = chain.from_iterable(map(_matched, homes.values()))
    groups = [tuple(sorted(group, key=number.__getitem__)) for group in matched]
    return sorted(groups, key=lambda group: number[group[0]])


def _matched(passes: dict[str, dict[str, list[DataFile]]]) -> Iterator[list[DataFile]]:
    """Yield the files of each process, those of all passes together where the passes match."""
    of_pass = list(passes.values())
    if all(processes.keys() == of_pass[0].keys() for processes in of_pass):
        for prefix in of_pass[0]:
            yield [file for processes in of_pass for file in processes[prefix]]
    elif len({len(processes) for processes in of_pass}) == 1:
        ordered = [sorted(processes, key=by_number) for processes in of_pass]
        for prefixes in zip(*ordered, strict=True):
            pairs = zip(of_pass, prefixes, strict=True)
            yield [*chain.from_iterable(processes[name] for processes, name in pairs)]
    else:
        for processes in of_pass:
            yield from processes.values()


# Tables: a file by its columns, whatever the case of their names, with all that is odd about its
# fields.

_WORDS = frozenset(
    {
        "guid",
        "kernel_name",
        "counter_name",
        "agent_id",
        "source_agent_id",
        "destination_agent_id",
        "direction",
        "domain",
        "agent_type",
        "name",
        "product_name",
    }
)
_WORD = pa.dictionary(pa.int32(), pa.large_string())
_FIELD = pa.large_string()
_WHOLE = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS = 40  # more than any 64-bit number has; Python refuses to convert very long ones
_DELIMITERS = ",;\t"


@dataclass(frozen=True)
class Times:
    """Start and end of every row in ns, 0 where unknown, and which rows have both."""

    start: IntArray
    end: IntArray
    readable: BoolArray


@dataclass(frozen=True)
class _Whole:
    """A column as whole numbers: which fields are numbers, which were not written whole, which are beyond 64 bits."""

    values: IntArray
    readable: BoolArray
    rounded: BoolArray
    beyond: BoolArray


class CsvTable:
    """The rows of a file; fields are text until they are asked for. A DataError if it cannot be read as delimited text.

    `names` are the columns in lower case, `lines` the 1-based line of each row, `findings` what was
    odd about the lines, and about the fields asked for so far.
    """

    def __init__(self, file: DataFile, options: Options) -> None:
        self.file = file
        self.findings: list[Finding] = []
        raw = content(file.path, max_bytes=options.trace_bytes)
        self._columns, self.lines = self._read(as_utf8(raw).removeprefix(BOM_UTF8))
        self.names = frozenset(self._columns)

    def __len__(self) -> int:
        return len(self.lines)

    def _read(self, raw: bytes) -> tuple[Mapping[str, Any], IntArray]:
        """Return the lines that have as many fields as the header, by column, and their numbers."""
        header = [name.lower() for name in csv_header(raw[:HEAD_BYTES])]
        first = raw[:HEAD_BYTES].partition(b"\n")[0].decode(errors="replace")
        types = [_WORD if name in _WORDS else _FIELD for name in header]
        try:
            rows, lines, broken = even_lines(raw, types, max(_DELIMITERS, key=first.count))
        except (pa.ArrowException, ValueError, OverflowError) as error:
            reason = str(error).partition("\n")[0]
            raise DataError(f"cannot be read as CSV ({reason})", source=self.file.label) from error
        text = "lines with more or fewer fields than the header (cut off?): left out"
        self.findings += findings_on(
            sum(broken.values()),
            "broken-lines",
            text,
            "warning",
            f"{self.file.label}:{min(broken, default=0)}",
            by="rocprofv3",
        )
        columns = map(_whole_array, rows.unify_dictionaries().columns)
        return dict(zip(header, columns, strict=True)), lines

    def words(self, name: str) -> pd.Categorical:
        """Return a column of words, "" in a column that the file does not have."""
        codes = np.zeros(len(self), dtype=np.int8)
        words = [""]
        if name in self._columns:
            column = self._columns[name]
            codes = column.indices.to_numpy()
            words = column.dictionary.to_pylist()
        return pd.Categorical.from_codes(codes, categories=pd.Index(words, dtype="str"))

    def integers(self, *names: str) -> pd.Series:
        """Return the first of the columns that the file has as Int64; missing where empty, or in no such column."""
        for name in names:
            if name in self._columns:
                whole = self._whole(name)
                is_whole = whole.readable & ~whole.beyond
                self._report_unreadable(name, is_whole)
                return pd.Series(pd.arrays.IntegerArray(whole.values, ~is_whole))
        return pd.Series(pd.NA, index=range(len(self)), dtype="Int64")

    def numbers(self, name: str) -> FloatArray:
        """Return a column as float64, NaN where there is no number."""
        fields = pc.utf8_trim_whitespace(self._columns[name])
        try:
            return _numpy(pc.cast(_or_null(fields), pa.float64()))
        except pa.ArrowInvalid:
            values = _each(fields, _number, np.float64)
        self._report_unreadable(name, ~np.isnan(values))
        return values

    @property
    def timed(self) -> bool:
        """Whether the file has times at all."""
        return {"start_timestamp", "end_timestamp"} <= self.names

    def times(self) -> Times:
        """Return start and end of every row.

        Rows without both are reported here; so are times that a spreadsheet has rounded, and times
        beyond 63 bits.
        """
        start = self._whole("start_timestamp")
        end = self._whole("end_timestamp")
        is_timed = start.readable & end.readable
        text = "rows without a start or an end that is a number: left out"
        self._find(~is_timed, "unreadable-times", text, "error", rows="rows")
        text = (
            "timestamps that are not whole nanoseconds, as a spreadsheet saves them: durations are "
            "wrong"
        )
        rounded = is_timed & (start.rounded | end.rounded)
        self._find(rounded, "spoiled-timestamps", text, "error", written="fraction")
        beyond = is_timed & (start.beyond | end.beyond)
        self._find(beyond, *rocprofv3.BEYOND_CLOCK, clipped="activities")
        return Times(start.values, end.values, is_timed)

    def _whole(self, name: str) -> _Whole:
        fields = pc.utf8_trim_whitespace(self._columns[name])
        try:
            whole = pc.cast(_or_null(fields), pa.int64())
        except pa.ArrowInvalid:
            values, *tests = _each(fields, _whole_number, np.int64).reshape(-1, 4).T
            return _Whole(values, *(test.astype(bool) for test in tests))
        none = np.zeros(len(self), dtype=bool)
        return _Whole(
            _numpy(pc.fill_null(whole, 0)),
            _numpy(whole.is_valid()),
            none,
            none,
        )

    def _report_unreadable(self, name: str, is_whole: BoolArray) -> None:
        """Report the fields of a column that hold something, but no number."""
        if is_whole.all():
            return
        odd = _numpy(pc.not_equal(pc.utf8_trim_whitespace(self._columns[name]), "")) & ~is_whole
        text = f"fields of {name} that are no number: missing"
        self._find(odd, "unreadable-field", text, "warning", column=name)

    def _find(self, rows: BoolArray, /, *what: Any, **values: str) -> None:
        """Report these rows, if there are any, at the line of the first (`findings_at`)."""
        self.findings += findings_at(
            rows,
            self.file.label,
            self.lines,
            *what,
            **values,
        )


def _whole_array(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks:
        return column.combine_chunks()
    return pa.nulls(0, column.type)


def _or_null(fields: Any) -> Any:
    return pc.if_else(pc.equal(fields, ""), None, fields)


def _numpy(array: pa.Array) -> NDArray[Any]:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _each(fields: Any, convert: Callable[[str], Any], dtype: type[np.generic]) -> NDArray[Any]:
    """Return what a function makes of each field, called once for each different one."""
    encoded = fields.dictionary_encode()
    converted = np.array([*map(convert, encoded.dictionary.to_pylist())], dtype=dtype)
    return converted[encoded.indices.to_numpy()]


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def _whole_number(word: str) -> tuple[int, bool, bool, bool]:
    """Return a number held at the ends of 64 bits, whether it is one, was not written whole, was beyond the ends."""
    whole = bool(_WHOLE.fullmatch(word))
    if whole:
        number = int(word[:_MOST_DIGITS])
    elif math.isnan(value := _number(word)):
        return 0, False, False, False
    else:
        number = round(max(min(value, 2.0**64), -(2.0**64)))
    within = min(max(number, FIRST), LAST)
    return within, True, not whole, within != number


# Counters of all passes at the dispatches of the run whose times are used.
#
# A counter file is long: one row per dispatch and counter. Every pass is a run of the whole
# program, with different times, threads and correlation ids, so passes are never joined by time:
# the n-th dispatch of a kernel in one pass is the n-th in the other. Where a pass has another
# number of dispatches of a kernel (a filter, a program that is not deterministic), the dispatches
# are joined by their numbers, if the other run has the same kernel under each of them; else they
# are left out and reported (`counters`).

_KERNEL = ["run", "name"]
_NUMBERED = [*_KERNEL, "dispatch_id"]


@dataclass(frozen=True)
class Pass:
    """Counters of one file: one row per dispatch and counter, columns of `dispatch_key`, `counter` and `value`."""

    rows: pd.DataFrame
    source: str


def dispatch_key(
    run: IntArray,
    name: pd.Categorical,
    dispatch_id: pd.Series,
    items: pd.Series,
) -> pd.DataFrame:
    """Return what identifies the dispatches of a file, comparable between passes.

    `run` is the number of the process, in the order in which the file mentions them, `dispatch_id`
    that of the dispatch in its process, `items` the work-items of the whole grid, missing if
    unknown.
    """
    return pd.DataFrame(
        {
            "run": run,
            "name": name,
            "dispatch_id": dispatch_id.array,
            "items": items.array,
        }
    )


def counters(kernels: pd.DataFrame, passes: Sequence[Pass]) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the counters of each dispatch, columns ``counter.NAME`` in the order of their names, and what was odd.

    `kernels` has the `dispatch_key` of the dispatches, RangeIndex, which is that of the values. A
    counter that was taken more than once for a dispatch gives the median.
    """
    findings: list[Finding] = []
    # A number for each kernel, the same in all parts, in place of its name.
    numbers: dict[str, int] = {}
    numbered = []
    for part in [kernels, *(item.rows for item in passes)]:
        names = part["name"].cat
        counter_names = np.array(
            [numbers.setdefault(name, len(numbers)) for name in names.categories], dtype=np.int64
        )
        numbered.append(part.assign(name=counter_names[names.codes.to_numpy()]))
    kernels, *measured = numbered
    joined = [
        _at_dispatches(kernels, values, item.source, findings)
        for values, item in zip(measured, passes, strict=True)
    ]
    every = pd.concat([part for part in joined if len(part)] or [_NOTHING], ignore_index=True)
    every = every.astype({"counter": "str"})
    grouped = every.groupby(["position", "counter"], sort=True)["value"]
    values = grouped.median()
    if len(values) < len(every):
        findings += _varying(grouped.nunique(), passes)
    wide = values.unstack("counter").reindex(kernels.index)  # noqa: PD010 (one value per cell, nothing to aggregate)
    return wide.rename(columns=lambda name: f"{COUNTER}{name}"), findings


_NOTHING = pd.DataFrame(
    {
        "position": np.array([], dtype=np.int64),
        "counter": [],
        "value": np.array([], dtype=float),
    }
)


def _at_dispatches(
    kernels: pd.DataFrame,
    values: pd.DataFrame,
    source: str,
    findings: list[Finding],
) -> pd.DataFrame:
    """Return the values of a pass as rows of `position` (in `kernels`), `counter` and `value`."""
    launches = values[["run", "dispatch_id"]].drop_duplicates().index
    measured = values.loc[launches, ["run", "name", "dispatch_id", "items"]]
    timed = kernels.assign(position=np.arange(len(kernels)))
    sizes = timed.groupby(_KERNEL).size().rename("size")
    count = measured.groupby(_KERNEL)["name"].transform("size")
    as_many = count == measured.join(sizes, on=_KERNEL)["size"]
    by_order = _joined(_ranked(measured), _ranked(timed), [*_KERNEL, "rank"])
    by_number = _joined(measured, timed.drop_duplicates(_NUMBERED), _NUMBERED)
    numbered = by_number["position"].notna()
    complete = numbered.groupby([measured["run"], measured["name"]]).transform("all")
    chosen = by_order.where(as_many, by_number.where(complete))
    recorded = chosen["items_timed"].notna() & measured["items"].notna()
    other_grid = recorded & chosen["items_timed"].ne(measured["items"])
    position = chosen["position"].mask(other_grid.fillna(False).astype(bool))
    text = (
        "dispatches of a counter pass that are not among those timed (another number of launches "
        "of the kernel, or another grid): their counters are left out"
    )
    lost = int(position.isna().sum())
    findings += findings_on(lost, "unmatched-pass", text, "warning", source, why="not timed")
    dispatch = ["run", "dispatch_id"]
    placed = values.drop(columns=["name", "items"]).merge(
        measured[dispatch].assign(position=position), on=dispatch
    )
    kept = placed.dropna(subset=["position"])[["position", "counter", "value"]]
    return kept.astype({"position": np.int64})


def _ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with `rank`: which of the dispatches of its kernel it is, in the order of their numbers."""
    rank = rows.sort_values("dispatch_id", kind="stable").groupby(_KERNEL).cumcount()
    return rows.assign(rank=rank)


def _joined(measured: pd.DataFrame, timed: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `position` and `items_timed` of the dispatches that agree in `by`, at the index of `measured`."""
    right = timed[[*by, "position", "items"]].rename(columns={"items": "items_timed"})
    items = measured[by].merge(right, on=by, how="left")
    return items[["position", "items_timed"]].set_index(measured.index)


def _varying(distinct: pd.Series, passes: Sequence[Pass]) -> list[Finding]:
    """Report counters that were taken several times for a dispatch, with different values."""
    differing = distinct[distinct > 1]
    names = tuple(sorted(set(differing.index.get_level_values("counter"))))
    text = (
        f"values of a counter for one dispatch that differ between passes ({', '.join(names)}): "
        "the median is taken"
    )
    source = passes[0].source
    return findings_on(
        len(differing),
        "replay-spread",
        text,
        "info",
        source,
        counters=names,
    )


# The reader.

_READ = (Content.KERNELS, Content.COUNTERS, Content.COPIES, Content.AGENTS, Content.API)
_LAUNCHING = ("HIP", "HSA")  # domains of the API calls that launch kernels and copies


class Run:
    """The tables of a run, by what they hold, in the order of the passes; files without GPU activity are passed over.

    `passes` are the folders of the passes, "" for files outside of any; `sums` the files of sums
    over kernels. `timed` is the table whose rows are the dispatches: the kernel trace of the first
    pass that has one, else the first counters that have times, or None.
    """

    def __init__(self, files: Sequence[DataFile], options: Options) -> None:
        replays = {file: place_of(file.path).replay for file in files}
        self.passes = sorted(set(replays.values()), key=by_number)
        self._tables: list[tuple[Content, str, CsvTable]] = []
        contents = {file: content_of(head(file.path)) for file in files}
        self.sums = [file.label for file in files if contents[file] is Content.STATISTICS]
        for file in sorted(files, key=lambda file: self.passes.index(replays[file])):
            content = contents[file]
            if content in _READ:
                self._tables.append((content, replays[file], CsvTable(file, options)))
        traces = [table for table in self.of(Content.KERNELS) if len(table)]
        counted = [table for table in self.of(Content.COUNTERS) if len(table) and table.timed]
        self.timed = next(iter([*traces, *counted]), None)

    def of(self, content: Content) -> list[CsvTable]:
        """Return the tables of all passes."""
        return [table for what, _, table in self._tables if what is content]

    def of_pass(self, content: Content) -> list[CsvTable]:
        """Return the tables of the pass that the times are from; of the first that has some, if there are no times."""
        tables = [(replay, table) for what, replay, table in self._tables if what is content]
        timed = [replay for _, replay, table in self._tables if table is self.timed]
        chosen = [*timed, *(replay for replay, _ in tables)][:1]
        return [table for replay, table in tables if replay in chosen]

    def findings(self) -> list[Finding]:
        """Return what was odd about the lines and about the fields read so far."""
        findings = (table.findings for *_, table in self._tables)
        return list(dict.fromkeys(chain.from_iterable(findings)))


_NUMBERS_OF_AGENTS = (
    "node_id",
    "logical_node_id",
    "logical_node_type_id",
    "gfx_target_version",
    "cu_count",
)


def _or_none(numbers: pd.Series) -> list[int | None]:
    return [None if number is pd.NA else int(number) for number in numbers]


def agents(run: Run) -> tuple[rocprofv3.Agents, list[Remark]]:
    """Return the GPUs that the lists of agents name, and remarks on what they are called."""
    gpus: list[rocprofv3.Agent] = []
    remarks: dict[Remark | None, None] = {}
    for table in run.of(Content.AGENTS):
        numbers = [_or_none(table.integers(name)) for name in _NUMBERS_OF_AGENTS]
        described = map(table.words, ("agent_type", "name", "product_name"))
        lines: Iterator[tuple[Any, ...]] = zip(*numbers, *described, strict=True)
        for node, logical, of_type, version, cus, kind, name, product in lines:
            if kind.casefold().endswith("gpu"):
                device, assumption = rocprofv3.agent_device(product, name, version, cus)
                gpus.append(rocprofv3.Agent(node, logical, of_type, device))
                remarks[assumption] = None
    return rocprofv3.Agents(gpus), [*filter(None, remarks)]


def launches(run: Run) -> pd.DataFrame:
    """Return the API calls that may have launched something: `guid`, `correlation`, `process`."""
    parts = [
        pd.DataFrame(
            {
                "guid": [],
                "correlation": [],
                "process": [],
            },
            dtype="Int64",
        )
    ]
    for table in run.of_pass(Content.API):
        calls = pd.DataFrame(
            {
                "guid": np.asarray(table.words("guid"), dtype=object),
                "correlation": table.integers("correlation_id"),
                "process": table.integers("process_id"),
            }
        )
        launching = each(table.words("domain"), lambda word: word.upper().startswith(_LAUNCHING))
        parts.append(calls[launching.astype(bool)])
    return pd.concat(parts[1:] or parts, ignore_index=True)


def linked(rows: pd.DataFrame, calls: pd.DataFrame) -> BoolArray:
    """Return which rows have the correlation id of a call of their process."""
    with_correlation = calls[calls["correlation"].notna()]
    is_linked = rows["correlation"].isin(with_correlation["correlation"]).to_numpy(dtype=bool)
    if not (
        is_linked.any() and rows["guid"].ne("").all() and with_correlation["guid"].ne("").all()
    ):
        return is_linked
    pairs = pd.MultiIndex.from_frame(
        with_correlation[["guid", "correlation"]].astype({"correlation": np.int64})
    )
    keyed = rows.loc[is_linked, ["guid", "correlation"]].astype(
        {"guid": object, "correlation": np.int64}
    )
    is_linked[is_linked] = pd.MultiIndex.from_frame(keyed).isin(pairs)
    return is_linked


def processes(rows: pd.DataFrame, calls: pd.DataFrame, run: Run) -> pd.Series:
    """Return the process of each row.

    As the row itself says; else that of all API calls of its run, if they are of one; else the
    number that the file is named by.
    """
    ids = calls.groupby("guid", sort=False)["process"].agg(["min", "max"])
    single = ids.loc[ids["min"] == ids["max"], "min"]
    process = rows["process"].fillna(rows["guid"].astype(object).map(single).astype("Int64"))
    tables = [table for table in (run.timed, *run.of_pass(Content.COPIES)) if table is not None]
    prefix = place_of(tables[0].file.path).prefix
    if re.fullmatch(r"[0-9]{1,18}", prefix):
        return process.fillna(int(prefix))
    return process


def each(words: pd.Categorical, function: Callable[[str], Any]) -> ObjectArray:
    """Return what a function makes of each word, called once for each different one."""
    made = np.empty(len(words.categories), dtype=object)
    made[:] = [function(str(word)) for word in words.categories]
    return made[words.codes]


@register
class Rocprofv3CsvReader(TraceReader):
    """Runs of rocprofv3: dispatches and copies, with the counters of all passes."""

    name = "rocprofv3 CSV"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header of any of the files, those without GPU activity too."""
        return content_of(head) is not None

    def gather(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
        """Return the files of each run: those of one process, and of all passes over its counters."""
        return runs(files)

    def tables(self, files: Sequence[DataFile]) -> Sequence[tuple[Reader, DataFile]]:
        """Return the sums of kernels where no file has dispatches."""
        held = {content_of(head(file.path)) for file in files}
        if held & {Content.KERNELS, Content.COUNTERS, Content.COPIES}:
            return ()
        return tables_of(files)

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the dispatches and copies of a run.

        Times are those of the kernel trace of the first pass that has one, else of the first
        counter collection that has times. `source` is the line of the file that the times are from;
        `gpu` is the number in Agent_Id; `stream` is the HIP stream, or the queue where no streams
        were recorded. `linked`: a HIP or HSA call has the row's correlation id.
        """
        run = Run(files, options)
        notes = _remarks(run)
        findings = _untimed(run)
        parts = [_copies(table) for table in run.of_pass(Content.COPIES)]
        if run.timed is not None:
            kernels, streamed = _kernels(run.timed, run, notes)
            values, odd = _counters(kernels, run)
            parts = [part if streamed else part.drop(columns="stream") for part in parts]
            parts.insert(0, pd.concat([kernels, values], axis=1))
            findings += odd
        table = _table(rocprofv3.stacked(parts), run, notes)
        return Trace(table, findings=[*findings, *run.findings()], notes=notes)


def _remarks(run: Run) -> list[Remark]:
    """Return where the times are from, if that is not as usual."""
    notes: list[Remark] = []
    timed = run.timed
    if timed in run.of(Content.COUNTERS):
        text = (
            "no kernel trace: times were taken while counters were collected, one kernel at a "
            "time; of grids only the total is recorded (grid_x, block_x)"
        )
        notes.append(remark("no-kernel-trace", text, grids="total only"))
    repeated = [table for table in run.of(Content.KERNELS) if table is not timed and len(table)]
    if timed is not None and repeated:
        text = (
            f"{len(repeated)} more kernel traces repeat the run: times are those of "
            f"{timed.file.label}"
        )
        about = {"traces": len(repeated), "timed": timed.file.label}
        notes.append(remark("kernel-traces-repeat", text, **about))
    if timed is None and run.sums:
        text = (
            f"{run.sums[0]} holds sums over kernels, no single dispatches: record with "
            "--kernel-trace"
        )
        notes.append(remark("sums-only", text, by="rocprofv3"))
    if len(run.passes) > 1:
        text = f"{len(run.passes)} passes joined by kernel and the order of its dispatches"
        notes.append(remark("kernel-passes-joined", text, passes=len(run.passes)))
    return notes


def _untimed(run: Run) -> list[Finding]:
    """Return the finding that there are counters and nothing that says how long the kernels ran."""
    tables = [table for table in run.of(Content.COUNTERS) if len(table)]
    if run.timed is not None or not tables:
        return []
    text = (
        "rows of counters without times: they are no activities; add the kernel trace "
        "(--kernel-trace) of the run"
    )
    return findings_on(
        sum(map(len, tables)),
        "counters-without-times",
        text,
        "warning",
        tables[0].file.label,
        lacking="kernel trace",
        counted="rows",
    )


def _kernels(table: CsvTable, run: Run, notes: list[Remark]) -> tuple[pd.DataFrame, bool]:
    """Return the dispatches, RangeIndex, and whether `stream` is the stream (else the queue)."""
    rows = _common(table, table.words("agent_id")).assign(
        kind=KERNEL,
        name=table.words("kernel_name"),
        queue=table.integers("queue_id"),
        lds_bytes=table.integers("lds_block_size", "group_segment_size"),
        scratch_bytes=table.integers("scratch_size", "private_segment_size"),
        vgpr=table.integers("vgpr_count"),
        accum_vgpr=table.integers("accum_vgpr_count"),
        sgpr=table.integers("sgpr_count"),
        dispatch_id=table.integers("dispatch_id"),
        items=_items(table),
        run=_process_codes(table),
        **_sizes(table),
    )
    rows = rows[rows["known"]]
    if table in run.of(Content.COUNTERS):
        rows = rows[~rows.duplicated(["run", "dispatch_id"])]
    rows = rows.reset_index(drop=True)
    stream, streamed = rocprofv3.streams(rows["stream"], rows["queue"], notes)
    return rows.assign(stream=stream).drop(columns="queue"), streamed


def _sizes(table: CsvTable) -> dict[str, pd.Series]:
    """Return grid (in workgroups) and block; of a counter file the totals only."""
    if "grid_size" in table.names:
        return launch_size("x", table.integers("grid_size"), table.integers("workgroup_size"))
    sizes = {}
    for axis in "xyz":
        items = table.integers(f"grid_size_{axis}")
        sizes |= launch_size(axis, items, table.integers(f"workgroup_size_{axis}"))
    return sizes


def _items(table: CsvTable) -> pd.Series:
    """Return the work-items of the whole grid."""
    if "grid_size" in table.names:
        return table.integers("grid_size")
    x, y, z = (table.integers(f"grid_size_{axis}") for axis in "xyz")
    return x * y * z


def _process_codes(table: CsvTable) -> IntArray:
    """Return a number for the process of each row, in the order in which the processes appear."""
    has_guid = "guid" in table.names
    if has_guid:
        process = table.words("guid")
    else:
        process = table.integers("process_id")
    return np.asarray(pd.factorize(process, use_na_sentinel=False)[0], dtype=np.int64)


def _copies(table: CsvTable) -> pd.DataFrame:
    """Return the memory copies; their agent is the GPU they end on, else the one they start from."""
    words = table.words("direction")
    names = direction(pd.Series(words.categories, dtype="str"))
    to_gpu, from_gpu = (
        getattr(names.str, end)("D").to_numpy(dtype=bool)[words.codes]
        for end in ("endswith", "startswith")
    )
    origin, target = (
        np.asarray(table.words(f"{end}_agent_id"), dtype=object)
        for end in ("source", "destination")
    )
    agent = pd.Categorical(np.where(to_gpu, target, np.where(from_gpu, origin, "")))
    name = pd.Categorical(names.to_numpy(dtype=object)[words.codes])
    rows = _common(table, agent).assign(kind=MEMCPY, name=name)
    return rows[rows["known"]].reset_index(drop=True)


def _common(table: CsvTable, agent: pd.Categorical[Any]) -> pd.DataFrame:
    """Return what dispatches and copies have in common; rows that are not `known` have no time."""
    times = table.times()
    correlation = table.integers("correlation_id")
    return pd.DataFrame(
        {
            "guid": table.words("guid"),
            "agent": agent,
            "process": table.integers("process_id"),
            "stream": table.integers("stream_id"),
            "start_ns": times.start,
            "duration_ns": durations(times.start, times.end),
            "correlation": correlation.where(correlation > 0),
            "source": f"{table.file.label}:" + pd.Series(table.lines).astype("str"),
            "known": times.readable,
        }
    )


def _counters(kernels: pd.DataFrame, run: Run) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the counters of the dispatches, and what was odd about them."""
    findings = list[Finding]()
    passes = list[Pass]()
    for table in run.of(Content.COUNTERS):
        numbers = table.integers("dispatch_id")
        key = dispatch_key(
            _process_codes(table), table.words("kernel_name"), numbers, _items(table)
        )
        values = key.assign(
            counter=table.words("counter_name"), value=table.numbers("counter_value")
        )
        text = "counter values without the number of a dispatch: left out"
        findings += findings_on(
            int(numbers.isna().sum()),
            "unmatched-pass",
            text,
            "warning",
            table.file.label,
            why="no number",
        )
        passes.append(Pass(values[numbers.notna()].reset_index(drop=True), table.file.label))
    timed = dispatch_key(
        kernels["run"].to_numpy(), kernels["name"].array, kernels["dispatch_id"], kernels["items"]
    )
    columns, odd = counters(timed, passes)
    return columns, [*findings, *odd]


def _table(rows: pd.DataFrame, run: Run, notes: list[Remark]) -> pd.DataFrame:
    if rows.empty:
        if not run.sums and not run.of(Content.COUNTERS):
            notes.append(rocprofv3.NO_ACTIVITY)
        return dispatch_table({"start_ns": [], "duration_ns": []})
    gpus, remarks = agents(run)
    calls = launches(run)
    words = rows["agent"].array
    device = each(words, gpus.device)
    if ((device == "") & (words != "")).any():
        notes.append(rocprofv3.NO_DEVICE)
    if calls.empty:
        notes.append(rocprofv3.UNLINKED)
    notes.extend(remarks)
    columns = columns_of(rows) | {
        "device": pd.Categorical(device),
        "gpu": pd.Series(each(words, rocprofv3.agent_number)).astype("Int64"),
        "process": processes(rows, calls, run),
        "linked": linked(rows, calls),
    }
    return in_order(dispatch_table(columns))
