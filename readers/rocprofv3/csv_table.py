"""A CSV file of rocprofv3 by columns, whatever the case of their names, with all that is odd about its fields."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from ...errors import DataError
from ...remarks import Remark, remark
from ...traces.dispatches import Finding, Severity
from ..base import HEAD_BYTES, DataFile, Options
from ..files import content, csv_header
from .common import FIRST, LAST, beyond_clock

BoolArray = NDArray[np.bool_]

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
    """Start and end of every row.

    Attributes
    ----------
    start, end : ndarray of int64
        0 where unknown.
    known : ndarray of bool
        Rows that have both.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    known: BoolArray


@dataclass(frozen=True)
class _Whole:
    """A column as whole numbers: which fields are numbers, which were not written whole, which are beyond 64 bits."""

    values: NDArray[np.int64]
    known: BoolArray
    rounded: BoolArray
    beyond: BoolArray


class CsvTable:
    """The rows of a file; fields are text until they are asked for.

    Parameters
    ----------
    file : DataFile
    options : Options

    Attributes
    ----------
    file : DataFile
    names : frozenset of str
        Columns in lower case.
    lines : ndarray of int64
        1-based line of each row.
    findings : list of Finding
        What was odd about the lines, and about the fields asked for so far.

    Raises
    ------
    DataError
        The file cannot be read as delimited text.
    """

    def __init__(self, file: DataFile, options: Options) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self._columns, self.lines = self._read(_utf8(content(file.path, max_bytes=options.max_bytes)))
        self.names = frozenset(self._columns)

    def __len__(self) -> int:
        return len(self.lines)

    def _read(self, raw: bytes) -> tuple[Mapping[str, Any], NDArray[np.int64]]:
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
            self._find(remark("broken-lines", by="rocprofv3"), "warning", sum(broken.values()), min(broken))
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

    def numbers(self, name: str) -> NDArray[np.float64]:
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
            self._find(remark("unreadable-times", rows="rows"), "error", int((~known).sum()), self._line(~known))
        rounded = known & (start.rounded | end.rounded)
        if rounded.any():
            spoiled = remark("spoiled-timestamps", written="fraction")
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
            self._find(remark("unreadable-field", column=name), "warning", int(odd.sum()), self._line(odd))

    def _line(self, rows: BoolArray) -> int:
        return int(self.lines[int(np.argmax(rows))])

    def _find(self, what: Remark, severity: Severity, count: int, line: int) -> None:
        self.findings.append(Finding(what, severity, count, source=f"{self.file.label}:{line}"))


def _utf8(raw: bytes) -> bytes:
    """Return the text without its byte order mark, foreign bytes made visible, the header a line of its own."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        raw = raw.decode(errors="backslashreplace").encode()
    raw = raw.removeprefix(b"\xef\xbb\xbf")
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
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


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
