"""Files as the readers see them: found under folders, decompressed by content, CSV text cut into columns."""

from __future__ import annotations

import bz2
import csv
import hashlib
import io
import mmap
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from os.path import isfile  # False of a name too long to be one, where that of Path raises
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from isal import igzip, isal_zlib

from ..arrays import IntArray
from ..errors import DataError, check_plain_file, few, one_line
from ..remarks import Remark, remark, visible
from ..table.measurements import DEFECT, DEFECT_DETAIL
from .base import ARCHIVE, HEAD_BYTES, LINE, PARQUET, TABLE_BYTES, TRACE_BYTES, DataFile, FileRead

_GZIP = b"\x1f\x8b"
_BZIP2 = b"BZh"
WORKBOOK = ARCHIVE
_NO_WORKBOOK = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    SyntaxError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
_CELL = (
    8  # bytes of a number; a column of one value repeated is small in the file and large in memory
)
_DELIMITERS = ",;\t|"
_QUOTED = {
    sign: re.compile(rf'(?:^|[{re.escape(sign)}\n])"[^"\n\r]*"(?=[{re.escape(sign)}\r\n]|\Z)')
    for sign in _DELIMITERS
}
"""Delimiter -> a field that stands between quotation marks and holds none."""
_COMPRESSED = (".gz", ".bz2")
_COMMA = r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?"
_THOUSAND = r"[+-]?[1-9]\d{0,2},\d{3}"
_LINE_END = re.compile(r"[\r\n]")
_LONGEST_LINE = 4000  # characters of a line of a log
_BLOCK_BYTES = 2**24  # that Arrow reads at a time: a line must fit
_PIECE = 2**20  # bytes that are inflated at a time
_RATIO = 100
_SMALL = 2**26
"""Traces and tables shrink to a twentieth; what unpacks to so many times its bytes, beyond 64 MiB, was made to."""
_DAMAGED = (OSError, EOFError, zlib.error, cast(type[Exception], isal_zlib.error))


@dataclass(frozen=True)
class Csv:
    """A delimited text file, as text: the cells of every named column ("" where a line is too short).

    `lines` has the 1-based line of each row, `overlong` line and text of the rows with more fields
    than the header, which are in no column. Of columns of one name (`twice`) the last is there.
    """

    cells: pa.Table
    lines: np.ndarray
    overlong: list[tuple[int, str]]
    twice: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """Column name -> its values, arrays of str."""
        return {name: self.cells[name].to_numpy() for name in self.cells.column_names}


def find_files(paths: Sequence[Path | str | DataFile]) -> list[DataFile]:
    """Return every file under `paths`, folders searched through, in a fixed order and each file once.

    In the order of `paths`, sorted by path within a folder, without hidden files and folders
    (`.name`) and without installed software (environments of Python and conda, `site-packages`,
    `node_modules`, `__pycache__`). Labels are paths relative to the folder, or file names; where
    two files would share a label, the full path. Raises DataError for a path that does not exist.
    """
    by_path: dict[Path, DataFile] = {}
    for path in (one if isinstance(one, DataFile) else Path(one) for one in paths):
        if isinstance(path, DataFile):
            files = [path]
        elif path.is_dir():
            inside = sorted((file.relative_to(path).parts, file) for file in _visible(path))
            files = [DataFile(file, visible("/".join(parts)), False) for parts, file in inside]
        elif path.is_file():
            files = [DataFile(path, visible(path.name), True)]
        else:
            check_plain_file(path)
            raise DataError("no such file or folder", source=str(path))
        for file in files:
            key = file.path.resolve()
            if key not in by_path or file.named:
                by_path[key] = DataFile(
                    file.path, by_path[key].label if key in by_path else file.label, file.named
                )
    many = Counter(file.label for file in by_path.values())
    return [
        replace(file, label=visible(file.path.as_posix())) if many[file.label] > 1 else file
        for file in by_path.values()
    ]


def campaign_of(path: Path) -> str:
    """Return the file's name without its extension and compression ("gfx942130.HIP.fdb.txt.bz2" -> ...fdb)."""
    name = visible(path.name)
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return Path(name).stem


def suffix_of(path: Path) -> str:
    """Return the file's extension in lower case, not that of its compression (".csv" of a.CSV.gz)."""
    name = path.name.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return Path(name).suffix


def by_number(word: str) -> list[str | int]:
    """Return a key that sorts words with numbers in them by the numbers: pass_2 before pass_10.

    That is the text before the first number, the number, the text behind it, and so on.
    """
    pieces = re.split(r"([0-9]{1,18})", word)
    return [int(piece) if place % 2 else piece for place, piece in enumerate(pieces)]


def content(path: Path, size: int = -1, *, max_bytes: int = TABLE_BYTES) -> bytes:
    """Return the file's content (its first `size` bytes), decompressed if it is gzip or bzip2 by content.

    Raises DataError: the file cannot be opened, its compression is damaged, or it has more than
    `max_bytes` once decompressed.
    """
    if size < 0:
        return bytes(view(path, max_bytes=max_bytes))
    with _reading(path), path.open("rb") as file:
        return _decompressed(file).read(size)


def chunks(path: Path, *, max_bytes: int = TABLE_BYTES) -> Generator[bytes]:
    """Yield the file's content piece by piece, decompressed; errors as of `content`, as soon as they show."""
    with _reading(path), path.open("rb") as file:
        stream = _decompressed(file)
        size = os.fstat(file.fileno()).st_size
        if stream is file:
            check_size(size, max_bytes, path)
        read = 0
        # Piece by piece, so that a small archive cannot fill the memory.
        while piece := stream.read(_PIECE):
            read += len(piece)
            if stream is not file:
                check_size(read, max_bytes, path, size)
            yield piece


def view(path: Path, *, max_bytes: int = TABLE_BYTES) -> bytes | memoryview:
    """Return the file's content like `content`, with the same errors, but map uncompressed files without a copy."""
    with _reading(path), path.open("rb") as file:
        if _decompressed(file) is file:
            size = os.fstat(file.fileno()).st_size
            check_size(size, max_bytes, path)
            if size:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            return b""
    buffer = io.BytesIO()
    for piece in chunks(path, max_bytes=max_bytes):
        buffer.write(piece)
    return buffer.getvalue()


@contextmanager
def _reading(path: Path) -> Generator[None]:
    """Turn a reading failure into an error that names the file."""
    check_plain_file(path)
    try:
        yield
    except FileNotFoundError:
        raise DataError("no such file", source=str(path)) from None
    except _DAMAGED as error:
        raise DataError(f"cannot be read ({error})", source=str(path)) from error


def check_size(
    size: int,
    max_bytes: int,
    path: Path,
    packed: int | None = None,
) -> None:
    """Refuse a file that is larger than allowed once decompressed; under the default limit, also a bomb.

    `packed` is its size as it lies there, where it is compressed.
    """
    if size > max_bytes:
        problem = f"more than {max_bytes / 2**30:g} GiB"
    else:
        problem = ""
    if (
        packed is not None
        and max_bytes in (TABLE_BYTES, TRACE_BYTES)
        and size > max(_SMALL, _RATIO * packed)
    ):
        problem = f"more than {_RATIO} times its {packed:,} bytes"
    if problem:
        raise DataError(
            f"has {problem} decompressed: raise the limit (ingest it with max_size) if it is meant to",
            source=str(path),
        )


def _decompressed(file: BinaryIO) -> IO[bytes]:
    magic = file.read(3)
    file.seek(0)
    if magic.startswith(_GZIP):
        return cast(IO[bytes], igzip.IGzipFile(fileobj=file))
    if magic.startswith(_BZIP2):
        return bz2.BZ2File(file)
    return file


def fingerprint(file: DataFile) -> FileRead:
    """Return size and hash of a file; just read, it comes from the system's cache."""
    with _reading(file.path), file.path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return FileRead(file.label, stream.tell(), digest)


def head(path: Path) -> bytes:
    """Return the beginning of the file's content."""
    return content(path, HEAD_BYTES)


def text(path: Path, *, max_bytes: int = TABLE_BYTES) -> str:
    """Return the file's content as text (UTF-8, with or without a byte order mark; foreign bytes are kept visible)."""
    return content(path, max_bytes=max_bytes).decode("utf-8-sig", errors="backslashreplace")


def short_lines(path: Path, *, max_bytes: int = TABLE_BYTES) -> Iterator[tuple[int, str]]:
    """Yield line number (from 1) and text of each line of a log; overlong lines are skipped."""
    for number, line in enumerate(text(path, max_bytes=max_bytes).split("\n"), start=1):
        if len(line) <= _LONGEST_LINE:
            yield number, line


def as_utf8(data: bytes) -> bytes:
    """Return the content as UTF-8; foreign bytes are kept visible."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data.decode(errors="backslashreplace").encode()
    return data


def csv_header(beginning: bytes) -> list[str]:
    """Return the names in the first line of delimited text; nothing if it is not text."""
    first = beginning.replace(b"\r", b"\n").partition(b"\n")[0]
    if b"\x00" in beginning[:1024] or len(first) == len(beginning) == HEAD_BYTES:
        return []
    line = first.decode("utf-8-sig", errors="replace")
    return [name.strip() for name in next(csv.reader([line], delimiter=_delimiter(line)), [])]


def parse_csv(content_text: str, source: str, before: int = 0) -> Csv:
    """Cut delimited text (comma, semicolon, tab or bar; the first line names the columns) into columns.

    Empty lines are passed over, lines that are too short filled with "", trailing empty fields
    dropped. A carriage return ends a line, alone too. The text begins `before` lines after the
    file. Raises DataError, with `source` and the line, for a field longer than 128 KiB.
    """
    end = _LINE_END.search(content_text)
    first = content_text
    if end:
        first = content_text[: end.start()]
    delimiter = _delimiter(first)
    return _even_csv(content_text, first, delimiter, before) or _uneven_csv(
        content_text, delimiter, source, before
    )


def _even_csv(
    content_text: str,
    first: str,
    delimiter: str,
    before: int,
) -> Csv | None:
    """Return the same as `_uneven_csv`, many times as fast; None where Arrow might split differently.

    That is where lines differ in their number of fields, end otherwise than in newlines, or are
    empty, and where a quotation mark stands elsewhere than around a whole field.
    """
    returns = content_text.count("\r")
    marks = content_text.count('"')
    ends = returns and returns != content_text.count("\r\n")
    if ends or "\0" in content_text or '"' in first:
        return None
    names = [name.strip() for name in first.split(delimiter)]
    if not first or len(set(names)) < len(names):
        return None
    if marks and marks != 2 * sum(1 for _ in _QUOTED[delimiter].finditer(content_text)):
        return None
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(content_text.encode()),
            pa_csv.ReadOptions(use_threads=False, skip_rows=1, column_names=names),
            pa_csv.ParseOptions(delimiter=delimiter, ignore_empty_lines=False),
            pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except (pa.ArrowException, UnicodeError):
        return None
    filled = pc.not_equal(table[0], "")
    for column in table.columns[1:]:
        if pc.all(filled).as_py() is not False:
            break
        filled = pc.or_(filled, pc.not_equal(column, ""))
    lines = np.arange(2, len(table) + 2, dtype=np.int64) + before
    if pc.all(filled).as_py() is False:
        table = table.filter(filled)
        lines = lines[filled.to_numpy()]
    return Csv(table, lines, [])


def even_lines(
    data: bytes, types: Sequence[pa.DataType], delimiter: str = ",", **options: Any
) -> tuple[pa.Table, IntArray, dict[int, int]]:
    """Return the lines below the header that have as many fields and are not empty, and the number of each.

    Columns are called by their place, "0" the first, and of the ``types``; ``options`` are Arrow's
    for their conversion. What leaves last are the broken lines, with how many lines of the file
    each is: an open quotation mark swallows those after it. Raises what Arrow raises.
    """
    broken: dict[int, int] = {}

    def skip(row: Any) -> str:
        broken[row.number] = 1 + row.text.rstrip("\n").count("\n")
        return "skip"

    places = [str(place) for place in range(len(types))]
    if b"\n" not in data:
        data += b"\n"
    table = pa_csv.read_csv(
        pa.BufferReader(data),
        pa_csv.ReadOptions(
            use_threads=False, skip_rows=1, column_names=places, block_size=_BLOCK_BYTES
        ),
        pa_csv.ParseOptions(
            delimiter=delimiter, ignore_empty_lines=False, invalid_row_handler=skip
        ),
        pa_csv.ConvertOptions(column_types=dict(zip(places, types, strict=True)), **options),
    )
    lines = np.arange(2, 2 + len(table) + len(broken))
    lines = np.delete(lines, [line - 2 for line in broken])
    filled = np.zeros(len(table), dtype=bool)
    for column in table.columns:
        if not filled.all():
            texts = pc.not_equal(column.cast(pa.large_string()), "")
            filled |= pc.fill_null(texts, False).to_numpy()
    if not filled.all():
        table = table.filter(pa.array(filled))
    return table, lines[filled], broken


def _uneven_csv(
    content_text: str,
    delimiter: str,
    source: str,
    before: int,
) -> Csv:
    reader = csv.reader(io.StringIO(content_text, newline=None), delimiter=delimiter)
    rows: list[list[str]] = []
    lines: list[int] = []
    overlong: list[tuple[int, str]] = []
    line = 0
    try:
        names = [name.strip() for name in next(reader, [])]
        width = len(names)
        line = reader.line_num
        for row in reader:
            number = before + line + 1
            line = reader.line_num
            if len(row) > width and any(row[width:]):
                overlong.append((number, ",".join(row)))
            elif any(row):
                rows.append((row + [""] * (width - len(row)))[:width] if len(row) != width else row)
                lines.append(number)
    except csv.Error as error:
        place = f"{source}:{before + line + 1}"
        raise DataError(
            f"cannot be cut into fields ({error}): is a quotation mark open?", source=place
        ) from error
    columns = dict(zip(names, zip(*rows, strict=True) if rows else [()] * width, strict=True))
    cells = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    twice = tuple(sorted({name for name in names if name and names.count(name) > 1}))
    return Csv(
        cells,
        np.array(lines, dtype=np.int64),
        overlong,
        twice,
    )


def read_plain_table(path: Path) -> pd.DataFrame:
    """Read a CSV (which may be compressed), the first sheet of an .xlsx, or a Parquet file.

    The values of CSV and .xlsx stay text for the check that follows.

    Raises DataError where it does not exist, is empty or cannot be read.
    """
    check_plain_file(path)
    if not isfile(path):
        raise DataError("no such file", source=str(path))
    beginning = head(path)
    if not beginning.strip():
        raise DataError("is empty", source=str(path))
    if beginning.startswith(PARQUET):
        return read_parquet(path)
    return plain_rows(
        first_sheet(path) if beginning.startswith(WORKBOOK) else text(path), str(path)
    )


def table_header(path: Path, beginning: bytes) -> list[str]:
    """Return the names of the columns of a CSV, Parquet or .xlsx file, by its beginning; nothing if it is none.

    Raises DataError: it is damaged, or openpyxl is missing.
    """
    if beginning.startswith(PARQUET):
        return parquet_columns(path)
    if is_workbook(path, beginning):
        return csv_header(first_sheet(path).encode()[:HEAD_BYTES])
    return csv_header(beginning)


def is_workbook(path: Path, beginning: bytes) -> bool:
    """Return whether a file is an .xlsx: an archive with a workbook."""
    if not beginning.startswith(WORKBOOK):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except _NO_WORKBOOK:
        return False


def first_sheet(path: Path, *, max_bytes: int = TABLE_BYTES) -> str:
    """Return the values of a workbook's first sheet as CSV; DataError where it is damaged, or openpyxl is missing."""
    if find_spec("openpyxl") is None:
        raise DataError(
            "is a workbook: pip install 'flopcast[excel]', or save the sheet as CSV",
            source=str(path),
        )
    from openpyxl import load_workbook

    cells = io.StringIO()
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
        check_size(
            size,
            max_bytes,
            path,
            path.stat().st_size,
        )
        with closing(load_workbook(path, read_only=True, data_only=True)) as book:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()
            writer = csv.writer(cells)
            for row in sheet.values:
                is_empty = all(cell is None for cell in row)
                writer.writerow(() if is_empty else row)
    except DataError:
        raise
    except _NO_WORKBOOK as error:
        raise DataError(f"is no readable workbook: {one_line(error)}", source=str(path)) from error
    return cells.getvalue()


def parquet_columns(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file, which may be compressed; errors as of `read_parquet`."""
    with open_parquet(path, TABLE_BYTES) as file:
        return list(file.schema_arrow.names)


def read_parquet(path: Path, *, max_bytes: int = TABLE_BYTES) -> pd.DataFrame:
    """Return a Parquet file's columns by the file's schema, ignoring pandas metadata.

    Binary cells are text, foreign bytes kept visible; values that are neither numbers nor text are
    their words. Raises DataError where it is damaged, has two columns of one name, or cells of more
    than `max_bytes` in all.
    """
    with open_parquet(path, max_bytes) as file:
        names = file.schema_arrow.names
        check_names(sorted({name for name in names if names.count(name) > 1}), path)
        return plain_frame(whole_table(file, path, max_bytes))


def whole_table(
    file: pq.ParquetFile,
    path: Path,
    max_bytes: int = TABLE_BYTES,
    *,
    once: bool = False,
) -> pa.Table:
    """Return the table of an open file; a DataError where its cells take more than `max_bytes`.

    A text that millions of rows share stands in a file once, and if `once`, in the table too: texts
    are categories. Otherwise, where all texts could take too much, columns of text are read as they
    stand there, and the bytes of all rows counted before they are made.
    """
    kept = file.metadata
    columns = range(file.metadata.num_columns)
    packed = None
    if once:
        packed = path.stat().st_size
    check_size(
        kept.num_rows * max(len(columns), 1) * _CELL,
        max_bytes,
        path,
        packed,
    )
    parts = [
        kept.row_group(group).column(place)
        for group in range(kept.num_row_groups)
        for place in columns
    ]
    texts = [one for one in parts if one.physical_type == "BYTE_ARRAY"]
    if once:
        check_size(
            sum(one.total_uncompressed_size for one in texts),
            max_bytes,
            path,
            packed,
        )
    elif sum(one.num_values * one.total_uncompressed_size for one in texts) <= max_bytes:
        return file.read()
    shared = sorted({one.path_in_schema for one in texts})
    with pq.ParquetFile(
        pa.BufferReader(view(path, max_bytes=max_bytes)), read_dictionary=shared
    ) as again:
        table = again.read()
        size = 0
    if once:
        return table
    for name, column in zip(table.column_names, table.columns, strict=True):
        for chunk in column.chunks if pa.types.is_dictionary(column.type) else ():
            lengths = pc.binary_length(chunk.dictionary).take(chunk.indices)
            size += pc.sum(lengths).as_py() or 0
            check_size(size, max_bytes, path)
        if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(
            file.schema_arrow.field(name).type
        ):
            place = table.column_names.index(name)
            table = table.set_column(place, name, column.cast(column.type.value_type))
    return table


def plain_frame(table: pa.Table) -> pd.DataFrame:
    """Return the columns of a Parquet file: numbers, booleans and text as they are, other values as text."""
    return pd.DataFrame({name: _plain_column(table.column(name)) for name in table.column_names})


_MOST_INTEGER: Final = 10**300  # beyond it an integer is no float


def plain_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose cells are numbers or text, the others in the words that a file would have.

    pandas takes truth values and complex numbers for 1, and fails at integers beyond a float, at
    bytes and at arrays.
    """
    changed = dict[str, pd.Series]()
    for name in table.columns[[kind.kind in "Ob" for kind in _numpy_kinds(table)]]:
        column = table[name]
        if isinstance(column, pd.DataFrame):  # two of one name, which is refused
            continue
        if column.dtype == bool:
            changed[name] = column.astype("str")
            continue
        odd = column.map(_is_no_plain_cell)
        if odd.any():
            changed[name] = column.astype(object).mask(odd, column.map(plain_text))
    if changed:
        return table.assign(**changed)
    return table


def _numpy_kinds(table: pd.DataFrame) -> list[np.dtype]:
    plain = np.dtype(np.float64)
    return [kind if isinstance(kind, np.dtype) else plain for kind in table.dtypes]


def _is_no_plain_cell(value: object) -> bool:
    if isinstance(value, str):
        return False
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) > _MOST_INTEGER
    return isinstance(value, bool | np.bool_ | complex | np.complexfloating | Iterable)


def check_names(twice: Sequence[str], path: Path) -> None:
    """Refuse a table with two columns of one name, because they are ambiguous."""
    if twice:
        raise DataError(
            f"has the column {twice[0]!r} more than once: rename or remove one", source=str(path)
        )


@contextmanager
def open_parquet(path: Path, max_bytes: int) -> Generator[pq.ParquetFile]:
    """Open a Parquet file; damage raises a DataError, also when it shows only during reading."""
    try:
        with whole_parquet(pa.BufferReader(view(path, max_bytes=max_bytes))) as file:
            yield file
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise DataError(f"is not readable Parquet ({one_line(error)})", source=str(path)) from error


def whole_parquet(source: pa.NativeFile | Path) -> pq.ParquetFile:
    """Return an open Parquet file, every column of which can be; pyarrow's own error where one cannot.

    Of a damaged column `FileMetaData.row_group` ends the whole process. To buffer all columns
    ahead, pyarrow looks at them first, and raises; a batch of no rows unpacks nothing.
    """
    file = pq.ParquetFile(source, pre_buffer=True)
    groups = range(file.metadata.num_row_groups)
    next(file.reader.iter_batches(0, row_groups=groups), None)
    return file


_PLAIN_KINDS = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
)


def _plain_column(column: pa.ChunkedArray) -> pd.Series:
    """Return numbers, booleans and text as they are, other values as text, missing ones missing."""
    column.validate(full=True)  # text of foreign bytes
    if pa.types.is_dictionary(column.type):
        kind = column.type.value_type
    else:
        kind = column.type
    if any(is_plain(kind) for is_plain in _PLAIN_KINDS):
        return column.to_pandas()
    cells = []
    for value in column.to_pylist():
        if value is not None:
            value = plain_text(value)
        cells.append(value)
    return pd.Series(cells, dtype=object)


def plain_text(value: object) -> str:
    """Return a cell as text; of bytes, foreign ones stay visible.

    >>> plain_text(b"gemm"), plain_text([1, 2])
    ('gemm', '[1, 2]')
    """
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return str(value)


def plain_rows(content_text: str, source: str) -> pd.DataFrame:
    """Return the rows of delimited text with their line numbers; a DataError for one with too many fields."""
    table = parse_csv(content_text, source)
    if table.overlong:
        raise DataError(
            "has more fields than the header names", source=f"{source}:{table.overlong[0][0]}"
        )
    return pd.DataFrame(
        {**{name: values for name, values in table.columns.items() if name}, LINE: table.lines}
    )


def with_points(
    table: pd.DataFrame, names: Iterable[str], source: str | None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the table with decimal points in place of decimal commas, in the named numeric columns.

    Spreadsheets of many countries write 1,5. Raises DataError where commas may as well mark
    thousands, or stand beside points.
    """
    words = [name for name in names if not pd.api.types.is_numeric_dtype(table[name])]
    commas = {name: table[name].str.fullmatch(_COMMA, na=False) for name in words}
    commas = {name: marked for name, marked in commas.items() if marked.any()}
    for name, marked in commas.items():
        if (pointed := table[name].str.contains(".", regex=False, na=False)).any():
            both = f"{table[name][marked].iloc[0]} and {table[name][pointed].iloc[0]}"
            raise DataError(
                f"column {name!r} has commas and points ({both}): write decimals in one way",
                source=source,
            )
    if commas and all(
        table[name][marked].str.fullmatch(_THOUSAND).all() for name, marked in commas.items()
    ):
        name, marked = next(iter(commas.items()))
        what = f"{table[name][marked].iloc[0]} may have a decimal comma or mark thousands"
        raise DataError(
            f"column {name!r}: {what}: write decimals with a point, thousands plain", source=source
        )
    read = {
        name: table[name].where(~marked, table[name].str.replace(",", "."))
        for name, marked in commas.items()
    }
    return table.assign(**read), tuple(commas)


def decimal_commas(columns: Sequence[str]) -> Remark:
    """Return the note that `with_points` has read columns with decimal commas."""
    text = f"commas are read as decimal points in {few(columns, 3)}"
    return remark("decimal-commas", text, columns=tuple(columns))


def with_overlong(rows: pd.DataFrame, csv_table: Csv) -> pd.DataFrame:
    """Return the rows and, refused, the lines that have more fields than the header."""
    if not csv_table.overlong:
        return rows
    refused = pd.DataFrame(csv_table.overlong, columns=[LINE, DEFECT_DETAIL])
    return pd.concat([rows, refused.assign(**{DEFECT: "line-unlike-header"})], ignore_index=True)


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=line.count)


_SOFTWARE = {"site-packages", "node_modules", "__pycache__"}
"""Folders of installed software, of tens of thousands of files."""
_ENVIRONMENT = {"pyvenv.cfg", "conda-meta"}  # what an environment has at its top


def _visible(folder: Path) -> Iterator[Path]:
    """Yield the files under a folder, without hidden ones, installed software, and special files."""
    for place, folders, names in os.walk(folder):
        if Path(place) != folder and not _ENVIRONMENT.isdisjoint([*folders, *names]):
            folders.clear()
            continue
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in _SOFTWARE
        ]
        yield from (
            Path(place, name)
            for name in names
            if name[0] != "." and os.path.isfile(os.path.join(place, name))
        )
