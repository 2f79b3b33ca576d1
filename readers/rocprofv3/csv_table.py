"""CSV files of rocprofv3 as tables, and hardware counters of one or several passes brought to the dispatches timed.

`CsvTable` gives a file by columns, whatever the case of their names, with all that is odd about its fields.

A counter file is long: one row per dispatch and counter. Every pass is a run of the whole program, with times, threads
and correlation ids of its own, so passes are never joined by time: the n-th dispatch of a kernel in one pass is the
n-th in the other. Where a pass has another number of dispatches of a kernel (a filter, a program that is not
deterministic), the dispatches are joined by their numbers, if the other run has the same kernel under each of them;
else they are left out and reported (`counters`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from ...arrays import BoolArray, FloatArray, IntArray
from ...errors import DataError
from ...remarks import Remark, remark
from ...table.measurements import COUNTER
from ...traces.dispatches import Finding, Severity
from ..base import HEAD_BYTES, DataFile, Options
from ..files import as_utf8, content, csv_header
from .common import FIRST, LAST, beyond_clock

_WORDS = frozenset(
    {
        "guid", "kernel_name", "counter_name", "agent_id", "source_agent_id", "destination_agent_id", "direction",
        "domain", "agent_type", "name", "product_name",
    }
)  # fmt: skip
_WORD, _FIELD = pa.dictionary(pa.int32(), pa.large_string()), pa.large_string()
_WHOLE = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS = 40  # more than any 64-bit number has; Python refuses to convert very long ones
_DELIMITERS = ",;\t"
_BLOCK_BYTES = 1 << 24  # a line must fit


@dataclass(frozen=True)
class Times:
    """Start and end of every row in ns, 0 where unknown, and which rows have both."""

    start: IntArray
    end: IntArray
    known: BoolArray


@dataclass(frozen=True)
class _Whole:
    """A column as whole numbers: which fields are numbers, which were not written whole, which are beyond 64 bits."""

    values: IntArray
    known: BoolArray
    rounded: BoolArray
    beyond: BoolArray


class CsvTable:
    """The rows of a file; fields are text until they are asked for. A DataError if it cannot be read as delimited text.

    `names` are the columns in lower case, `lines` the 1-based line of each row, `findings` what was odd about the
    lines, and about the fields asked for so far.
    """

    def __init__(self, file: DataFile, options: Options) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self._columns, self.lines = self._read(_utf8(content(file.path, max_bytes=options.trace_bytes)))
        self.names = frozenset(self._columns)

    def __len__(self) -> int:
        return len(self.lines)

    def _read(self, raw: bytes) -> tuple[Mapping[str, Any], IntArray]:
        """Return the lines that have as many fields as the header, by column, and their numbers."""
        header = [name.lower() for name in csv_header(raw[:HEAD_BYTES])]
        broken: dict[int, int] = {}

        def skip(row: Any) -> str:
            broken[row.number] = 1 + row.text.rstrip("\n").count("\n")  # an open quote swallows lines
            return "skip"

        try:
            rows = _parsed(raw, header, skip)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise DataError(f"cannot be read as CSV ({_first_line(error)})", source=self.file.label) from error
        lines = np.delete(np.arange(2, 2 + rows.num_rows + len(broken)), [line - 2 for line in broken])
        if broken:
            text = "lines with more or fewer fields than the header (cut off?): left out"
            self._find(remark("broken-lines", text, by="rocprofv3"), "warning", sum(broken.values()), min(broken))
        filled = _filled(rows)
        rows = rows if filled.all() else rows.filter(pa.array(filled))
        columns = rows.unify_dictionaries().columns
        return {name: _whole_array(column) for name, column in zip(header, columns, strict=True)}, lines[filled]

    def words(self, name: str) -> pd.Categorical:
        """Return a column of words, "" in a column that the file does not have."""
        if name not in self._columns:
            return pd.Categorical.from_codes(np.zeros(len(self), dtype=np.int8), categories=pd.Index([""], dtype="str"))
        column = self._columns[name]
        return pd.Categorical.from_codes(
            column.indices.to_numpy(), categories=pd.Index(column.dictionary.to_pylist(), dtype="str")
        )

    def integers(self, *names: str) -> pd.Series:
        """Return the first of the columns that the file has as Int64; missing where empty, or in no such column."""
        for name in names:
            if name in self._columns:
                whole = self._whole(name)
                known = whole.known & ~whole.beyond
                self._report_unreadable(name, known)
                return pd.Series(pd.arrays.IntegerArray(whole.values, ~known))
        return pd.Series(pd.NA, index=range(len(self)), dtype="Int64")

    def numbers(self, name: str) -> FloatArray:
        """Return a column as float64, NaN where there is no number."""
        fields = pc.utf8_trim_whitespace(self._columns[name])
        try:
            return np.asarray(pc.cast(_or_null(fields), pa.float64()).to_numpy(zero_copy_only=False))
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

        Rows without both are reported here; so are times that a spreadsheet has rounded, and times beyond 63 bits.
        """
        start, end = self._whole("start_timestamp"), self._whole("end_timestamp")
        known = start.known & end.known
        if not known.all():
            text = "rows without a start or an end that is a number: left out"
            self._find(remark("unreadable-times", text, rows="rows"), "error", int((~known).sum()), self._line(~known))
        rounded = known & (start.rounded | end.rounded)
        if rounded.any():
            text = "timestamps that are not whole nanoseconds, as a spreadsheet saves them: durations are wrong"
            spoiled = remark("spoiled-timestamps", text, written="fraction")
            self._find(spoiled, "error", int(rounded.sum()), self._line(rounded))
        beyond = known & (start.beyond | end.beyond)
        if beyond.any():
            self.findings.append(beyond_clock(int(beyond.sum()), f"{self.file.label}:{self._line(beyond)}"))
        return Times(start.values, end.values, known)

    def _whole(self, name: str) -> _Whole:
        fields = pc.utf8_trim_whitespace(self._columns[name])
        try:
            whole = pc.cast(_or_null(fields), pa.int64())
        except pa.ArrowInvalid:
            values, known, rounded, beyond = _each(fields, _whole_number, np.int64).reshape(-1, 4).T
            return _Whole(values, known.astype(bool), rounded.astype(bool), beyond.astype(bool))
        none = np.zeros(len(self), dtype=bool)
        return _Whole(_numpy(pc.fill_null(whole, 0)), _numpy(whole.is_valid()), none, none)

    def _report_unreadable(self, name: str, known: BoolArray) -> None:
        """Report the fields of a column that hold something, but no number."""
        if known.all():
            return
        odd = _numpy(pc.not_equal(pc.utf8_trim_whitespace(self._columns[name]), "")) & ~known
        if odd.any():
            self._find(
                remark("unreadable-field", f"fields of {name} that are no number: missing", column=name),
                "warning",
                int(odd.sum()),
                self._line(odd),
            )

    def _line(self, rows: BoolArray) -> int:
        return int(self.lines[int(np.argmax(rows))])

    def _find(self, what: Remark, severity: Severity, count: int, line: int) -> None:
        self.findings.append(Finding(what, severity, count, source=f"{self.file.label}:{line}"))


def _utf8(raw: bytes) -> bytes:
    """Return the text without its byte order mark, foreign bytes made visible, the header a line of its own."""
    raw = as_utf8(raw).removeprefix(b"\xef\xbb\xbf")
    return raw if b"\n" in raw else raw + b"\n"


def _parsed(raw: bytes, header: list[str], skip: Callable[[Any], str]) -> pa.Table:
    """Return the lines below the header, every field as text; `skip` hears of lines of another width."""
    first = raw[:HEAD_BYTES].partition(b"\n")[0].decode(errors="replace")
    columns = [str(place) for place in range(len(header))]
    types = [_WORD if name in _WORDS else _FIELD for name in header]
    return pa.csv.read_csv(
        pa.BufferReader(raw),
        read_options=pa.csv.ReadOptions(use_threads=False, column_names=columns, skip_rows=1, block_size=_BLOCK_BYTES),
        parse_options=pa.csv.ParseOptions(
            delimiter=max(_DELIMITERS, key=first.count), ignore_empty_lines=False, invalid_row_handler=skip
        ),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict(zip(columns, types, strict=True)), strings_can_be_null=False
        ),
    )


def _filled(rows: pa.Table) -> BoolArray:
    """Return which rows are more than an empty line."""
    filled = np.zeros(rows.num_rows, dtype=bool)
    for column in rows.columns:
        if filled.all():
            break
        filled |= _numpy(pc.not_equal(column.cast(_FIELD), ""))
    return filled


def _whole_array(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.combine_chunks() if column.num_chunks else pa.nulls(0, column.type)


def _or_null(fields: Any) -> Any:
    return pc.if_else(pc.equal(fields, ""), None, fields)


def _numpy(array: Any) -> NDArray[Any]:
    return np.asarray(array.to_numpy(zero_copy_only=False) if isinstance(array, pa.Array) else array.to_numpy())


def _each(fields: Any, convert: Callable[[str], Any], dtype: type[np.generic]) -> NDArray[Any]:
    """Return what a function makes of each field, called once for each different one."""
    encoded = fields.dictionary_encode()
    return np.array([convert(word) for word in encoded.dictionary.to_pylist()], dtype=dtype)[encoded.indices.to_numpy()]


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def _whole_number(word: str) -> tuple[int, bool, bool, bool]:
    """Return a number held at the ends of 64 bits, whether it is one, was not written whole, was beyond the ends."""
    if whole := bool(_WHOLE.fullmatch(word)):
        number = int(word[:_MOST_DIGITS])
    elif math.isnan(value := _number(word)):
        return 0, False, False, False
    else:
        number = round(max(min(value, 2.0**64), -(2.0**64)))
    within = min(max(number, FIRST), LAST)
    return within, True, not whole, within != number


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


# Counters of all passes at the dispatches of the run whose times are used.

_KERNEL = ["run", "name"]
_NUMBERED = [*_KERNEL, "dispatch_id"]


@dataclass(frozen=True)
class Pass:
    """Counters of one file: one row per dispatch and counter, columns of `dispatch_key`, `counter` and `value`."""

    rows: pd.DataFrame
    source: str


def dispatch_key(run: IntArray, name: pd.Categorical, dispatch_id: pd.Series, items: pd.Series) -> pd.DataFrame:
    """Return what tells the dispatches of a file apart, comparable between passes.

    `run` is the number of the process, in the order in which the file mentions them, `dispatch_id` that of the dispatch
    in its process, `items` the work-items of the whole grid, missing if unknown.
    """
    return pd.DataFrame({"run": run, "name": name, "dispatch_id": dispatch_id.array, "items": items.array})


def counters(kernels: pd.DataFrame, passes: Sequence[Pass]) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the counters of each dispatch, columns ``counter.NAME`` in the order of their names, and what was odd.

    `kernels` has the `dispatch_key` of the dispatches, RangeIndex, which is that of the values. A counter that was
    taken more than once for a dispatch gives the median.
    """
    findings: list[Finding] = []
    kernels, *measured = _with_numbered_names([kernels, *(item.rows for item in passes)])
    joined = [
        _at_dispatches(kernels, values, item.source, findings) for values, item in zip(measured, passes, strict=True)
    ]
    every = pd.concat([part for part in joined if len(part)] or [_NOTHING], ignore_index=True)
    every = every.astype({"counter": "str"})
    grouped = every.groupby(["position", "counter"], sort=True)["value"]
    values = grouped.median()
    if len(values) < len(every):
        findings += _varying(grouped.nunique(), passes)
    wide = values.unstack("counter").reindex(kernels.index)  # noqa: PD010 (one value per cell, nothing to aggregate)
    return wide.rename(columns=lambda name: f"{COUNTER}{name}"), findings


_NOTHING = pd.DataFrame({"position": np.array([], dtype=np.int64), "counter": [], "value": np.array([], dtype=float)})


def _with_numbered_names(parts: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the parts with a number for each kernel, the same in all, in place of its name."""
    numbers: dict[str, int] = {}
    numbered = []
    for part in parts:
        names = part["name"].cat
        own = np.array([numbers.setdefault(name, len(numbers)) for name in names.categories], dtype=np.int64)
        numbered.append(part.assign(name=own[names.codes.to_numpy()]))
    return numbered


def _at_dispatches(kernels: pd.DataFrame, values: pd.DataFrame, source: str, findings: list[Finding]) -> pd.DataFrame:
    """Return the values of a pass as rows of `position` (in `kernels`), `counter` and `value`."""
    launches = values[["run", "dispatch_id"]].drop_duplicates().index
    measured = values.loc[launches, ["run", "name", "dispatch_id", "items"]]
    position = _positions(kernels, measured)
    if (lost := int(position.isna().sum())) > 0:
        untimed = remark(
            "unmatched-pass",
            "dispatches of a counter pass that are not among those timed (another number of launches of the kernel, or "
            "another grid): their counters are left out",
            why="not timed",
        )
        findings.append(Finding(untimed, "warning", lost, source=source))
    place = measured[["run", "dispatch_id"]].assign(position=position)
    found = values[["run", "dispatch_id", "counter", "value"]].merge(place, on=["run", "dispatch_id"], how="left")
    return found.loc[found["position"].notna(), ["position", "counter", "value"]].astype({"position": np.int64})


def _positions(kernels: pd.DataFrame, measured: pd.DataFrame) -> pd.Series:
    """Return at which position in `kernels` each dispatch of a pass stands, missing where at none."""
    timed = kernels.assign(position=np.arange(len(kernels)))
    sizes = timed.groupby(_KERNEL).size().rename("size")
    as_many = measured.groupby(_KERNEL)["name"].transform("size") == measured.join(sizes, on=_KERNEL)["size"]
    by_order = _joined(_ranked(measured), _ranked(timed), [*_KERNEL, "rank"])
    by_number = _joined(measured, timed.drop_duplicates(_NUMBERED), _NUMBERED)
    complete = by_number["position"].notna().groupby([measured["run"], measured["name"]]).transform("all")
    chosen = by_order.where(as_many, by_number.where(complete))
    other_grid = chosen["items_timed"].notna() & measured["items"].notna() & chosen["items_timed"].ne(measured["items"])
    return chosen["position"].mask(other_grid.fillna(False).astype(bool))


def _ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with `rank`: which of the dispatches of its kernel it is, in the order of their numbers."""
    rank = rows.sort_values("dispatch_id", kind="stable").groupby(_KERNEL).cumcount()
    return rows.assign(rank=rank)


def _joined(measured: pd.DataFrame, timed: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `position` and `items_timed` of the dispatches that agree in `by`, at the index of `measured`."""
    right = timed[[*by, "position", "items"]].rename(columns={"items": "items_timed"})
    found = measured[by].merge(right, on=by, how="left")
    return found[["position", "items_timed"]].set_index(measured.index)


def _varying(distinct: pd.Series, passes: Sequence[Pass]) -> list[Finding]:
    """Report counters that were taken several times for a dispatch, with different values."""
    differing = distinct[distinct > 1]
    if differing.empty:
        return []
    names = tuple(sorted(set(differing.index.get_level_values("counter"))))
    text = f"values of a counter for one dispatch that differ between passes ({', '.join(names)}): the median is taken"
    return [Finding(remark("replay-spread", text, counters=names), "info", len(differing), source=passes[0].source)]
