"""Results that appear whole or not at all: written beside their place, then renamed. Folders, files, and tables.

What a result may replace is one rule, here: a file that flopcast wrote, which says so
(`is_marked`), or any other where `replacing` allows it; and never, whatever is allowed, a file that
the same call reads.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from .errors import DataError, ParameterError, few
from .remarks import visible, without_hidden
from .staging import put_folder, staged

# what writes tables imports them: commands check where a result goes before they take the time
if TYPE_CHECKING:
    import pyarrow as pa

READABLE: Final = (".parquet", ".csv")
# suffixes of tables; those that can be read again as data stand apart
FORMATS: Final = (
    *READABLE,
    ".xlsx",
)
PREDICTION_FORMATS: Final = (".csv", ".parquet", ".json", ".xlsx", ".html")
"""Suffixes of files of predictions; JSON has a report beside the rows, HTML is the page."""
FILES: Final = {
    "check": ("check.json", "check.html"),
    "compare": ("compare.json", "compare.html"),
    "curve": ("curve.json", "curve.html"),
    "explain": ("explain.json", "explain.html"),
    "forecast": ("forecast.json", "forecast.html", "forecast.csv"),
    "power": ("power.json", "power.html"),
    "project": ("project.json", "project.html", "kernels.parquet", "trace.json.gz"),
    "projections": ("projections.json", "projections.html"),
    "scale": ("scale.json", "scale.html"),
    "validate": ("validation.json", "validation.html"),
}
"""What the folder of an answer holds, by what was asked: JSON, page, and what stands beside them."""
METADATA: Final = b"flopcast"
"""Key of a Parquet file's metadata under which stands, as JSON, where the table comes from and the findings."""
SCHEMA: Final = 1
"""Version of all that flopcast writes to be read by programs; readers refuse another. One until the first release."""
MADE_BY: Final = {"made_by": "flopcast"}
"""What JSON begins with that is a result by itself."""
MARK: Final = "made by flopcast"
"""What scripts and TOML say in a comment of their first lines, and pages in their head."""
_MARKED: Final = re.compile(rb"made by flopcast|made_by.{1,12}flopcast", re.DOTALL)
_HEAD: Final = 4096  # bytes of a file, among which its mark is
_WRITTEN: Final = (
    frozenset({"target", "metric", "level", "basis"}),  # predictions
    frozenset({"predicted", "lower", "upper", "unit", "level"}),  # forecasts
    frozenset({"gpu", "engine", "replicas", "holds"}),  # ways to serve
    frozenset({"predicted", "group", "known", "cost_s"}),  # what to measure next
    frozenset({"op", "dtype_a", "duration_us", "source"}),  # measurements
)
"""Columns that mark a CSV of flopcast; `_csv_is_marked` has its other marks."""
_MISS_RATES: Final = ("benchmark", "size", "performance", "mpki", "unit")
_HEADERS: Final = (
    # left out
    (
        "reason",
        "source",
        "device",
        "kind",
        "name",
        "run",
        "step",
        "duration_us",
        "median_us",
        "limit_us",
    ),
    ("benchmark", "size", "unit", "ipc", "mpki", "f_mem"),  # kernels counted at several sizes
    _MISS_RATES,
    # durations of passes
    (
        "rank",
        "device_number",
        "name",
        "occurrence",
        "workgroups",
        "threads",
        "runs",
        "duration_us",
        "source",
        "spread_us",
    ),
)
"""Whole headers of the CSVs that flopcast wrote whose columns, in another order, may be those of the user's table."""


@dataclass(frozen=True)
class _Allowed:
    """What results may replace: anything where ``overwrite``, but none of the files and folders in ``reads``."""

    overwrite: bool = False
    reads: tuple[Path, ...] = ()


_ALLOWED: ContextVar[_Allowed] = ContextVar("_ALLOWED", default=_Allowed())  # noqa: B039


@contextmanager
def replacing(*, overwrite: bool = False, reads: Iterable[Path] = ()) -> Generator[None]:
    """Say, for the results of this block, whether they may replace any file, and what is read and never replaced.

    What an enclosing block says holds too.
    """
    before = _ALLOWED.get()
    token = _ALLOWED.set(_Allowed(before.overwrite or overwrite, (*before.reads, *reads)))
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def overwriting() -> bool:
    """Whether `replacing` allows to replace any file that is not read."""
    return _ALLOWED.get().overwrite


def check_replaceable(out: Path, data: Iterable[Path] = ()) -> None:
    """Refuse to replace a file that is read, or one that flopcast did not write where `replacing` does not allow it.

    Raises DataError. What does not exist may be written.
    """
    if not os.path.lexists(out):
        return
    check_unread(out, data)
    if not overwriting() and not is_marked(out):
        what = (
            "exists, and nothing in it says that flopcast wrote it: choose another file, or give "
            "overwrite=True"
        )
        raise DataError(what, source=str(out))


def is_marked(file: Path) -> bool:
    """Whether a file says that flopcast wrote it: by its metadata, its first lines, or as a CSV by its header.

    A spreadsheet that somebody saved again does not say so, nor a CSV that another program wrote
    again.
    """
    if not file.is_file():
        return False
    try:
        with file.open("rb") as opened:
            head = opened.read(_HEAD)
    except OSError:
        return False
    if head.startswith(b"PAR1"):
        return _parquet_is_marked(file)
    if head.startswith(b"PK"):
        return _workbook_is_marked(file)
    return _MARKED.search(head) is not None or _csv_is_marked(head)


def _parquet_is_marked(file: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return METADATA in (pq.read_metadata(file).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def _workbook_is_marked(file: Path) -> bool:
    with suppress(OSError, KeyError, zipfile.BadZipFile), zipfile.ZipFile(file) as book:
        about = book.read("docProps/core.xml")
        return b">flopcast</dc:creator>" in about and b"lastModifiedBy" not in about
    return False


def _csv_is_marked(head: bytes) -> bool:
    """Whether every name of the header is quoted, as spreadsheets and pandas do not write them, and are flopcast's.

    Miss rates whose performance somebody has filled in are that person's.
    """
    header, _, rows = head.decode(errors="replace").partition("\n")
    if not re.fullmatch(r'"[^"]*"(,"[^"]*")*', header):
        return False
    names = tuple(header[1:-1].split('","'))
    if names == _MISS_RATES:
        return not _filled_in(rows, names.index("performance"))
    return names in _HEADERS or any(columns <= set(names) for columns in _WRITTEN)


def _filled_in(rows: str, place: int) -> bool:
    """Whether a row of CSV, the last of which may be cut, has a value in the column of that place."""
    cells = [row[place] for row in csv.reader(rows.splitlines()) if len(row) > place]
    return any(cells)


def is_as_written(file: Path, table: pa.Table) -> bool:
    """Whether a file is what `write_table` makes of a table as CSV, byte for byte: nobody has filled it in."""
    text = io.BytesIO()
    write_csv(table, text)
    return file.is_file() and file.read_bytes() == text.getvalue()


def check_output(
    out: Path | None,
    names: Collection[str],
    data: Iterable[Path] = (),
    *,
    checked: Collection[str] = (),
) -> None:
    """Refuse ``out``, if any, as the folder of a result made of such files; call it before the work, not after.

    It need not exist. A folder that holds nothing else, and of which a file says that flopcast
    wrote it, is an earlier result and will be replaced; one with other files in it is somebody's
    data, and none of the ``data`` that are read may be replaced. Raises DataError: ``out`` is a
    file, holds other files or one that is read, or cannot be written; or its files are not
    flopcast's, and `replacing` does not allow to replace them. Of the ``names`` those are
    ``checked`` that are folders whose content the caller has looked at.
    """
    if out is None:
        return
    if os.path.lexists(out):
        if not out.is_dir():
            raise DataError("is a file: choose another folder", source=str(out))
        foreign = sorted({item.name for item in out.iterdir()} - set(names))
        if not foreign:  # a folder of others may be a whole file system
            foreign = _unmarked_within(out, checked)
        if foreign:
            raise DataError(
                f"holds other files ({', '.join(foreign[:5])}): choose another", source=str(out)
            )
        check_unread(out, data)
        held = sorted(out.iterdir())
        if held and not overwriting() and not any(map(is_marked, held)):
            what = "holds files that flopcast did not write"
            text = (
                f"{what} ({few(item.name for item in held)}): choose another folder, or give "
                "overwrite=True"
            )
            raise DataError(text, source=str(out))
    check_folder(out)


def _unmarked_within(out: Path, checked: Collection[str]) -> list[str]:
    """Return the files in the folders of a result that flopcast did not write: it replaces these folders as a whole."""
    held = sorted(file for file in out.glob("*/**/*") if not file.is_dir())
    inside = [file.relative_to(out) for file in held if not is_marked(file)]
    return [str(file) for file in inside if file.parts[0] not in checked]


def check_name(out: Path) -> None:
    """Refuse a name that no file can have, or that a shell or another program would take for something else.

    Raises DataError: it is too long, has a sign that names have not, begins with ``~``, the home
    folder to a shell alone, or is ``-``, which other programs take for what they print.
    """
    if str(out) == "-":
        raise DataError("would be a file of that name: choose another, or print JSON", source="-")
    in_home = len(out.parts) > 1 and out.parts[0].startswith("~")
    if in_home or str(out) == "~":
        what = "begins with ~, which only a shell replaces: give the whole path"
        raise DataError(what, source=str(out))
    try:
        os.lstat(out)
    except ValueError as error:
        raise DataError(
            f"is no name of a file ({error}): choose another", source=str(out)
        ) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            what = "is too long for the name of a file: choose a shorter one"
            raise DataError(what, source=str(out)) from None


def is_called_a_file(out: Path) -> bool:
    """Whether a place has the suffix of files, and is no folder."""
    return out.suffix.lower() in _OF_FILES and not out.is_dir()


def check_folder(out: Path) -> None:
    """Refuse a new folder whose name is that of a file, and one where nothing can be written (`check_place`)."""
    check_name(out)
    if is_called_a_file(out):
        what = (
            f"would be a folder, for several files: choose a name that does not end in {out.suffix}"
        )
        raise DataError(what, source=str(out))
    check_place(Path(os.path.realpath(out)))


_OF_FILES: Final = (
    *PREDICTION_FORMATS,
    ".db",
    ".feather",
    ".gz",
    ".htm",
    ".log",
    ".md",
    ".npz",
    ".pdf",
    ".png",
    ".py",
    ".sh",
    ".sqlite",
    ".svg",
    ".toml",
    ".tsv",
    ".txt",
    ".xls",
    ".yaml",
    ".yml",
    ".zip",
)
"""Suffixes of files, which no new folder has: it may be called after a release, as in release-0.10."""


def check_place(out: Path) -> None:
    """Refuse a place where nothing can be written, by writing and removing a file there; call it before the work.

    Folders that are missing on the way are made with the result. Raises DataError where one of them
    is a file, the folder may not be written to, or its file system is read-only.
    """
    _check_in_no_run(out)
    parent = next(folder for folder in out.absolute().parents if os.path.lexists(folder))
    try:
        with staged(parent / out.name):
            pass
    except OSError as error:
        raise DataError(
            f"cannot be written: {parent}: {error.strerror or error}", source=str(out)
        ) from error


def _check_in_no_run(out: Path) -> None:
    check_name(out)
    for folder in Path(os.path.realpath(out)).parents:
        if (folder / "metrics.json").is_file() and (folder / "manifest.json").is_file():
            raise DataError(
                "lies in a run, whose seal another file would break: choose another place",
                source=str(out),
            )


@contextmanager
def whole_file(out: Path) -> Generator[Path]:
    """Give a hidden file beside ``out`` to write; rename it to ``out`` when the block ends well, else remove it.

    Raises DataError if ``out`` cannot be written, or lies in a run.
    """
    _check_in_no_run(out)
    try:
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        with staged(out.absolute()) as path:
            yield path
            os.replace(path, out)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", source=str(out)) from error


def check_file(
    out: Path | None, formats: Sequence[str], data: Iterable[Path] = (), parameter: str = "out"
) -> None:
    """Refuse ``out``, if any, as the file of a result (an earlier one is replaced); call it before the work, not after.

    ``formats`` are the suffixes it may have; it may be none of the ``data`` that are read, nor one
    in these folders, through links neither; ``parameter`` is what the caller calls it. Raises
    ParameterError: the suffix is another, or nothing is installed that writes it; DataError:
    ``out`` is a folder, a file that is read, or one that flopcast did not write
    (`check_replaceable`), or cannot be written.
    """
    if out is None:
        return
    check_name(out)
    if out.suffix.lower() not in formats:
        formats_named = " or ".join(filter(None, [", ".join(formats[:-1]), formats[-1]]))
        raise ParameterError(parameter, f"must end in {formats_named}, got {str(out)!r}")
    if out.suffix.lower() == ".xlsx" and find_spec("openpyxl") is None:
        raise ParameterError(
            parameter, "needs openpyxl for .xlsx: pip install 'flopcast[excel]', or end it in .csv"
        )
    if out.is_dir():
        raise DataError("is a folder: give a file", source=str(out))
    check_replaceable(out, data)
    check_place(out)


def check_table(out: Path | None, parameter: str = "out", data: Iterable[Path] = ()) -> None:
    """Refuse ``out`` as the place of a table, as `check_file` does; call it before the work, not after."""
    check_file(out, FORMATS, data, parameter)


def check_tables(places: Mapping[str, Path | None], data: Iterable[Path] = ()) -> None:
    """Refuse places of several tables, by what the caller calls each, as `check_table` does, and one given twice."""
    read = list(data)
    resolved: dict[str, str] = {}
    for parameter, out in places.items():
        check_table(out, parameter, read)
        if out is None:
            continue
        first = resolved.setdefault(os.path.realpath(out), parameter)
        if first != parameter:
            raise ParameterError(
                parameter, f"must be another file than that of `{first}`, got {str(out)!r}"
            )


def check_unread(out: Path, data: Iterable[Path] = ()) -> None:
    """Refuse a file that is among those read, or in one of the folders, by its name or a link's; of a folder any.

    What is read are the ``data``, and what `replacing` names. Raises DataError.
    """
    replaced = {_identity(file): file for file in _files_of(out)}
    for path in (*data, *_ALLOWED.get().reads) if replaced else ():
        for file in _files_of(path):
            same = replaced.get(_identity(file))
            if same is not None:
                raise DataError("is a file that is read: choose another", source=str(same))


def _files_of(path: Path) -> Iterable[Path]:
    """Return a file, or those of a folder, whose folders are not followed through links."""
    if path.is_dir():
        inside = path.rglob("*")
    else:
        inside = [path]
    return [file for file in inside if file.is_file()]


def _identity(file: Path) -> tuple[int, int]:
    """Return what all names of a file have in common."""
    stated = file.stat()
    return stated.st_dev, stated.st_ino


@contextmanager
def whole_table(
    out: Path, schema: pa.Schema, beside: str = "{}", *, repeating: Sequence[str] | None = None
) -> Generator[Any]:
    """Give a writer of Arrow tables to a CSV, Excel or else Parquet file, which appears when the block ends well.

    ``beside`` is JSON for the metadata of a Parquet file, ``repeating`` the columns whose values
    that keeps once each, by default all. Raises DataError: ``out`` cannot be written, or is a file
    that flopcast did not write (`check_replaceable`).
    """
    import pyarrow.csv
    import pyarrow.parquet as pq

    check_replaceable(out)
    compact = json.dumps(json.loads(beside)).encode()
    schema = schema.with_metadata({**(schema.metadata or {}), METADATA: compact})
    with whole_file(out) as path:
        if out.suffix.lower() == ".csv":
            with pyarrow.csv.CSVWriter(path, _guarded(schema.empty_table()).schema) as file:
                yield _Writer(file, schema, _guarded)
        elif out.suffix.lower() == ".xlsx":
            with _workbook(path, schema, out) as sheet:
                yield _Writer(sheet, schema)
        else:
            once = True
            if repeating is not None:
                once = list(repeating)
            with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=once) as file:
                yield _Writer(file, schema)


def write_table(table: pa.Table, out: Path, beside: str) -> None:
    """Write a table with its metadata, as `whole_table` does."""
    with whole_table(out, table.schema, beside) as writer:
        writer.write_table(table)


# A spreadsheet runs a cell of CSV that begins with one of these signs, blanks before it or not, and
# a kernel's name may well be such a cell. It is written behind an apostrophe, which spreadsheets
# take as "this is text"; texts that begin with apostrophes and such a sign get one more, so that
# taking one away always gives back what was written.
_RUN_BY_SPREADSHEETS: Final = r"'* *[=+\-@＝＋－＠\t\r\n]"
_GUARDED = re.compile(f"'(?={_RUN_BY_SPREADSHEETS})")


def write_csv(table: pa.Table, path: Path | io.BytesIO) -> None:
    """Write a table as CSV that spreadsheets do not run; `unguarded` gives its texts back.

    `path` is one that `whole_file` gives, any other, or memory. Texts are quoted, numbers and
    missing values are not.
    """
    import pyarrow.csv

    pyarrow.csv.write_csv(_guarded(table), path)


def unguarded(text: str) -> str:
    """Return the text of a CSV cell, or a column's name, that `write_csv` or `whole_table` wrote as ``text``.

    >>> unguarded("'=1+1"), unguarded("=1+1"), unguarded("'quoted'")
    ('=1+1', '=1+1', "'quoted'")
    """
    if _GUARDED.match(text):
        return text[1:]
    return text


def _guarded(table: pa.Table) -> pa.Table:
    """Return a table whose texts and names of columns are safe in a spreadsheet."""
    import pyarrow as pa

    columns = [_guarded_texts(column) for column in table.columns]
    names = [
        f"'{name}" if re.match(_RUN_BY_SPREADSHEETS, name) else name for name in table.column_names
    ]
    return pa.table(
        columns, pa.schema([(name, one.type) for name, one in zip(names, columns, strict=True)])
    )


def _guarded_texts(column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    if not pc.any(pc.match_substring_regex(column, f"^{_RUN_BY_SPREADSHEETS}")).as_py():
        return column
    return pc.replace_substring_regex(column, f"^({_RUN_BY_SPREADSHEETS})", r"'\1")


@contextmanager
def whole_folder(out: Path) -> Generator[Path]:
    """Give a fresh folder beside ``out`` to write into; it takes the place of ``out`` when the block ends well.

    Whatever happens on the way, ``out`` holds either the previous result or the new one, and never
    a mix. What the user has put beside the files of a previous result stays. Parents are made, an
    earlier result is replaced (refuse a folder that holds something else first: `check_output`).
    Raises DataError: ``out`` cannot be written, or lies in a run.
    """
    _check_in_no_run(out)
    folder = Path(out).resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with staged(folder, folder=True) as aside:
            new = aside / "new"
            new.mkdir()
            yield new
            put_folder(aside, new, folder)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", source=str(out)) from error


def write_text(out: Path, text: str, *, overwrite: bool = False) -> None:
    """Write a text file, UTF-8, whole or not at all; one that bears `MARK` may be replaced, others to ``overwrite``.

    Raises DataError: ``out`` is a file that flopcast did not write, or cannot be written.
    """
    with replacing(overwrite=overwrite):
        check_replaceable(out)
    with whole_file(out) as path:
        path.write_text(text, encoding="utf-8")


def write_texts(out: Path, texts: Mapping[str, str]) -> None:
    """Write text files, UTF-8, into the folder ``out``, all that the result consists of, whole or not at all.

    Raises DataError: ``out`` holds other files or cannot be written.
    """
    check_output(out, texts)
    with whole_folder(out) as folder:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class _Writer:
    """A writer whose tables need not have the metadata of the file."""

    file: Any
    schema: pa.Schema
    prepared: Callable[[pa.Table], pa.Table] = lambda table: table

    def write_table(self, table: pa.Table) -> None:
        self.file.write_table(self.prepared(table.cast(self.schema)))


# Excel: one sheet, numbers as numbers. Texts are cells of text, so that none of them is run.

_SHEET_ROWS: Final = 1_048_575  # rows of a sheet below its head
_EXACT: Final = 2**53  # whole numbers beyond it are texts: a spreadsheet would round them


@contextmanager
def _workbook(path: Path, schema: pa.Schema, out: Path) -> Generator[Any]:
    from openpyxl import Workbook  # an extra, which `check_file` has checked
    from openpyxl.writer.excel import ExcelWriter

    book = Workbook(write_only=True)
    book.properties.creator = "flopcast"
    sheet = book.create_sheet("table")
    sheet.freeze_panes = "A2"
    packed = io.BytesIO()  # an archive that a full disk cuts short would be closed a second time
    try:
        yield _Sheet(sheet, schema.names, out)
        # closed here, for what openpyxl leaves open Python 3.13 tells of
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            ExcelWriter(book, archive).save()
    except BaseException:
        with suppress(Exception):  # a full disk fails this too, and the first error says it
            sheet.close()  # it writes to a separate file meanwhile
        raise
    path.write_bytes(packed.getbuffer())


class _Sheet:
    """The rows of a sheet that is written from top to bottom."""

    def __init__(self, sheet: Any, names: Sequence[str], out: Path) -> None:
        self._sheet = sheet
        self._out = out
        self._rows = 0
        sheet.append([self._cell(name) for name in names])

    def write_table(self, table: pa.Table) -> None:
        """Append the rows of a table. Raises DataError: a sheet cannot hold so many."""
        self._rows += table.num_rows
        if self._rows > _SHEET_ROWS:
            raise DataError(
                f"a sheet holds {_SHEET_ROWS:,} rows: write .csv or .parquet", source=str(self._out)
            )
        for batch in table.to_batches():
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                self._sheet.append([self._cell(value) for value in row])

    def _cell(self, value: Any) -> Any:
        from openpyxl.cell import WriteOnlyCell

        if value is None or value != value:  # NaN is not itself
            return None
        limit = _EXACT
        if isinstance(value, float):
            limit = math.inf
        if isinstance(value, int | float) and abs(value) < limit:
            return value
        cell = WriteOnlyCell(self._sheet, visible(str(value)))
        cell.data_type = "s"
        return cell


# JSON as flopcast writes it: plain numbers, stable bytes, nothing that another reader would refuse
# or a terminal obey.


def dumps(
    value: Any, *, digits: int | None = None, missing: bool = False, sort: bool = False
) -> str:
    """Return ``value`` as JSON text that ends in a newline; the same value gives the same bytes.

    NumPy arrays and scalars are written as the Python values they hold. Floats are rounded to so
    many significant ``digits``; without it each is written in full and reads back equal. With
    ``missing`` NaN and infinities are ``null``; JSON has no such numbers, and without it they are a
    ValueError with their path. With ``sort`` the keys of mappings are sorted, numbers by value
    (``"5"`` before ``"10"``). Raises TypeError: a value is none of these.
    """

    def plain(item: Any, path: str) -> Any:
        # of NumPy, which need not be imported to ask
        if hasattr(item, "dtype") and hasattr(item, "tolist"):
            item = item.tolist()
        if item is None or isinstance(item, bool | int | str):
            return item
        if isinstance(item, float):
            return _number(item, path, digits, missing)
        if isinstance(item, Mapping):
            keys = item
            if sort:
                keys = sorted(item, key=_natural)
            return {str(key): plain(item[key], f"{path}.{key}") for key in keys}
        if isinstance(item, Sequence):
            return [plain(entry, f"{path}[{index}]") for index, entry in enumerate(item)]
        if isinstance(item, PurePath):
            return item.as_posix()
        raise TypeError(f"{path} is a {type(item).__name__}, which JSON cannot hold")

    import msgspec  # here: messages alone need no JSON

    text = json.dumps(plain(value, "value"), ensure_ascii=False, allow_nan=False)
    # what `json` takes three times as long to indent
    return msgspec.json.format(printable_json(text), indent=1) + "\n"


def printable_json(text: str) -> str:
    """Return JSON text with escapes for the characters that `visible` shows; it holds the same values.

    JSON escapes control characters up to U+001F by itself.
    """
    return without_hidden(text, lambda sign: json.dumps(sign)[1:-1])


def _number(value: float, path: str, digits: int | None, missing: bool) -> float | None:
    if not math.isfinite(value):
        if missing:
            return None
        raise ValueError(f"{path} is {value}, which is not a number in JSON")
    if digits is None:
        return value
    return float(f"{value:.{digits}g}")


def _natural(key: Any) -> tuple[bool, float, str]:
    """Sort numbers by value and before words."""
    text = str(key)
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text
