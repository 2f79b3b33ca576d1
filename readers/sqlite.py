"""SQLite databases as the trace readers see them: opened without a trace beside the user's file, read by columns.

Profilers write databases that can be large, compressed, cut off, or still in use. They are opened
read-only and immutable (no lock, no journal, nothing written); a gzip or bzip2 file is unpacked
into a temporary one. SQLite stores values of any type in any column, so the types are checked here:
a number that is text is an error with its place.
"""

from __future__ import annotations

import bz2
import gzip
import itertools
import re
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import numpy as np
import pandas as pd

from ..errors import DataError
from ..remarks import remark
from ..staging import temporary_folder
from ..traces.dispatches import Finding
from .base import SQLITE, DataFile, Options
from .files import check_size

ROW = "row"  # column: 1-based number of the row within its table
_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
_CREATED = re.compile(rb"CREATE TABLE [\"'`\[]?(\w+)")
_ROWS_AT_ONCE = 65536
_STEPS_AT_ONCE = 10_000
_STEPS, _STEPS_A_BYTE = 20_000_000, 100
"""Steps of SQLite's machine that a database may take, and how many more for each of its bytes: its
rows take fewer than ten a byte, and loops in a damaged one have no end."""
_WORDS, _WORDS_A_BYTE = (
    2**26,
    4,
)  # bytes of text that may come out of it, and how many more for each of its bytes
_LONGEST = 2**20  # bytes of its longest value
_COPY_BYTES = 1 << 20
#: What a database raises whose bytes are not what they should be; UnicodeError: SQLite quotes them in its message.
_DAMAGE = (sqlite3.Error, UnicodeError, MemoryError, OverflowError)
T = TypeVar("T")


class Database:
    """An open database: the user's file, for messages, and the names of its tables.

    Tables alone are read: what they give is bounded by the size of the file, and a view may have no
    end.
    """

    def __init__(self, connection: sqlite3.Connection, source: str) -> None:
        self._connection = connection
        self.source = source
        listed = connection.execute(
            "SELECT name, type = 'table' AND rootpage > 0 FROM sqlite_master"
        ).fetchall()
        self.tables = frozenset(name for name, stored in listed if stored and isinstance(name, str))
        self._others = frozenset(name for name, _ in listed) - self.tables

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns."""
        return [
            str(row[1]) for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
        ]

    def only(self, table: str, column: str) -> str | None:
        """Return the one text that all rows of a column have; None if they differ or the column is missing."""
        if column not in self.columns(table):
            return None
        name = _quoted(column)
        asked = f"SELECT MIN({name}), MAX({name}), COUNT(*) - COUNT({name}) FROM {_quoted(table)}"
        first, last, missing = self._connection.execute(asked).fetchone()
        if isinstance(first, str) and first == last and not missing:
            return first
        return None

    def read(
        self,
        table: str,
        *,
        integers: Sequence[str] = (),
        words: Sequence[str] = (),
        reals: Sequence[str] = (),
        required: Sequence[str] = (),
    ) -> pd.DataFrame:
        """Return columns of a table in the order of its rows, and the number of each row as `row`.

        `integers`, `words` and `reals` are read as Int64, as str ("" where missing) and as float64;
        a table that does not exist has no rows, and a column that it does not have is missing in
        every row, unless `required`.

        Raises
        ------
        DataError
            It is a view, a required column is missing, or a value is not of the type asked for.
        sqlite3.Error
            The database is damaged; `opened` turns it into a DataError.
        """
        if table in self._others:
            raise DataError(
                f"{table} is no table: not as its producer writes it", source=self.source
            )
        if table in self.tables:
            present = set(self.columns(table))
        else:
            present = None
        if present is not None and (lacking := [name for name in required if name not in present]):
            raise DataError(
                f"table {table} has no column {lacking[0]!r}: not as its producer writes it",
                source=self.source,
            )
        wanted = [name for name in (*integers, *words, *reals) if present and name in present]
        values, rows = self._values(table, wanted, frozenset(integers), frozenset(reals))
        read = {name: pd.Series(values[name]) for name in wanted}
        for names, absent in ((integers, _no_integers), (words, _no_words), (reals, _no_reals)):
            read.update({name: absent(rows) for name in names if name not in read})
        return pd.DataFrame(read | {ROW: np.arange(1, rows + 1)})

    def _values(
        self, table: str, columns: Sequence[str], integers: frozenset[str], reals: frozenset[str]
    ) -> tuple[dict[str, Any], int]:
        """Return each column as one array, and the number of rows."""
        if not columns:
            return {}, 0
        parts: list[list[Any]] = [[] for _ in columns]
        listing = ", ".join(map(_quoted, columns))
        cursor = self._connection.execute(f"SELECT {listing} FROM {_quoted(table)}")
        first = 1
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            for name, part, values in zip(columns, parts, zip(*rows, strict=True), strict=True):
                if name in integers:
                    convert = _as_integers
                elif name in reals:
                    convert = _as_reals
                else:
                    convert = _as_words
                part.append(convert(values, _Place(self.source, table, name, first)))
            first += len(rows)
        absent = [
            _no_integers if name in integers else _no_reals if name in reals else _no_words
            for name in columns
        ]
        arrays = [
            pd.concat(part, ignore_index=True) if part else none(0)
            for part, none in zip(parts, absent, strict=True)
        ]
        return dict(zip(columns, arrays, strict=True)), first - 1


@contextmanager
def opened(file: DataFile, options: Options) -> Generator[Database]:
    """Open a database, compressed or not, for reading.

    Raises DataError where the file is not a database, is damaged, or has more than
    ``options.trace_bytes`` once decompressed; also where that shows only while its tables are read.
    """
    try:
        with (
            _plain(file.path, options.trace_bytes) as path,
            closing(_connection(path)) as connection,
        ):
            yield Database(connection, str(file.path))
    except _DAMAGE as error:
        raise DataError(
            f"cannot be read as an SQLite database ({_in_words(error)}): it is cut off, damaged "
            "or still being "
            "written; copy it again, or save what is left with `sqlite3 FILE .recover`",
            source=str(file.path),
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot be read ({error})", source=str(file.path)) from error


def peek(path: Path, look: Callable[[Database], T]) -> T | None:
    """Return what `look` finds in a database; None if the file is compressed, damaged or no database."""
    try:
        with path.open("rb") as file:
            if file.read(len(SQLITE)) != SQLITE:
                return None
        with closing(_connection(path)) as connection:
            return look(Database(connection, str(path)))
    except (*_DAMAGE, OSError, DataError):
        return None


def names_of(path: Path, head: bytes) -> frozenset[str]:
    """Return the names of the tables, as far as they can be read without unpacking or repairing the file.

    `head` is its (decompressed) beginning: where the file itself is compressed or damaged, only
    tables created there are seen.
    """
    if not head.startswith(SQLITE):
        return frozenset()
    names = peek(path, lambda database: database.tables)
    return names or frozenset(name.decode("ascii", "replace") for name in _CREATED.findall(head))


def joined(left: pd.DataFrame, right: pd.DataFrame, on: Sequence[str]) -> pd.DataFrame:
    """Return every row of `left` with what the first row of `right` of the same key says, missing where there is none.

    A missing key matches nothing; the row numbers stay those of `left`.
    """
    keyed = (
        right.drop(columns=ROW, errors="ignore").dropna(subset=list(on)).drop_duplicates(list(on))
    )
    return left.merge(keyed, how="left", on=list(on))


def timed(activities: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the activities with `start_ns` and `duration_ns` for `start` and `end`, and a finding on those without.

    Impossible times (an end before its start) stay as they are, a duration that 64 bits cannot hold
    is the longest of its sign; a row with no start or no end can have no place.
    """
    is_timed = activities["start"].notna() & activities["end"].notna()
    kept = activities[is_timed].reset_index(drop=True)
    start, end = kept["start"].to_numpy(np.int64), kept["end"].to_numpy(np.int64)
    difference = end - start
    wrapped = ((end ^ start) & (end ^ difference)) < 0
    held = np.where(end > start, np.iinfo(np.int64).max, np.iinfo(np.int64).min)
    table = kept.drop(columns=["start", "end"]).assign(
        start_ns=start, duration_ns=np.where(wrapped, held, difference)
    )
    missing = int((~is_timed).sum())
    if not missing:
        return table, []
    text = "have no start or no end in the database and are left out: the recording was interrupted"
    return table, [Finding(remark("no-time", text), "error", missing, source=source)]


def unfinished(file: DataFile) -> list[Finding]:
    """Return a finding if changes to the database lie unsaved in a file beside it, which is not read."""
    log = file.path.with_name(file.path.name + "-wal")
    if not (log.is_file() and log.stat().st_size):
        return []
    text = (
        f"beside the database, {log.name} holds activities not yet saved, which are not read: let "
        "the "
        f'program end, then run `sqlite3 {file.path.name} "PRAGMA wal_checkpoint(TRUNCATE)"`'
    )
    unsaved = remark("unsaved-database", text, database=file.path.name, log=log.name)
    return [Finding(unsaved, "warning", 1, source=file.label)]


@contextmanager
def _plain(path: Path, max_bytes: int) -> Generator[Path]:
    """Yield the path of the uncompressed database: the file itself, or a copy that lives as long as the context."""
    with path.open("rb") as file:
        magic = file.read(3)
    opener = next((opener for start, opener in _OPENERS.items() if magic.startswith(start)), None)
    if opener is None:
        check_size(path.stat().st_size, max_bytes, path)
        yield path
        return
    with temporary_folder() as folder:
        copy = folder / "database"
        with opener(path) as packed, copy.open("wb") as unpacked:
            # As far as the limit; the disk is not filled by what a small file says to hold.
            size = 0
            while block := cast(IO[bytes], packed).read(_COPY_BYTES):
                size += len(block)
                check_size(size, max_bytes, path)
                if shutil.disk_usage(unpacked.name).free < len(block):
                    raise DataError(
                        "does not fit on the disk once unpacked: set TMPDIR to a larger one",
                        source=str(path),
                    )
                unpacked.write(block)
        yield copy


def _connection(path: Path) -> sqlite3.Connection:
    """Return a connection that can change nothing and trusts nothing that the file brings along."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    size = path.stat().st_size
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    steps = itertools.count(_STEPS_AT_ONCE, _STEPS_AT_ONCE)
    connection.set_progress_handler(
        lambda: next(steps) > _STEPS + _STEPS_A_BYTE * size, _STEPS_AT_ONCE
    )
    connection.text_factory = _Words(_WORDS + _WORDS_A_BYTE * size)
    for pragma in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _in_words(error: BaseException) -> str:
    """Return what an error says in one line of printable characters."""
    if not isinstance(error, sqlite3.Error):
        return type(error).__name__
    return "".join(letter if letter.isprintable() else "?" for letter in str(error))[:120]


def _decoded(text: bytes) -> str:
    """Return text, bytes that are not UTF-8 kept visible."""
    return text.decode("utf-8", "backslashreplace")


class _Words:
    """Decodes text, as long as it is not more than a file of its size can hold."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, text: bytes) -> str:
        self._left -= len(text)
        if self._left < 0:
            raise MemoryError
        return _decoded(text)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class _Place:
    """Where a run of values stands."""

    def __init__(self, source: str, table: str, column: str, first: int) -> None:
        self._source, self._table, self._column, self._first = source, table, column, first

    def error(self, values: Sequence[Any], allowed: tuple[type, ...], expected: str) -> DataError:
        """Return the error for the first value that is not of the types allowed."""
        index, value = next(
            (i, value) for i, value in enumerate(values) if not isinstance(value, allowed)
        )
        shown = repr(value)[:60]
        where = f"table {self._table}, row {self._first + index}, column {self._column}"
        return DataError(
            f"{where}: {shown} where {expected} belongs; the database is damaged",
            source=self._source,
        )


def _as_integers(values: Sequence[Any], place: _Place) -> pd.Series:
    types = set(map(type, values))
    if types == {int}:
        return pd.Series(np.array(values, dtype=np.int64)).astype("Int64")
    if not types <= {int, type(None)}:
        raise place.error(values, (int, type(None)), "an integer")
    return pd.Series(pd.array(list(values), dtype="Int64"))


def _as_reals(values: Sequence[Any], place: _Place) -> pd.Series:
    if not set(map(type, values)) <= {int, float, type(None)}:
        raise place.error(values, (int, float, type(None)), "a number")
    return pd.Series(np.array(values, dtype=np.float64))


def _as_words(values: Sequence[Any], place: _Place) -> pd.Series:
    if set(map(type, values)) == {str}:
        return pd.Series(values, dtype=object)
    return pd.Series([_word(value) for value in values], dtype=object)


def _word(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return _decoded(value)
    return str(value)


def _no_integers(rows: int) -> pd.Series:
    return pd.Series(pd.NA, index=range(rows), dtype="Int64")


def _no_words(rows: int) -> pd.Series:
    return pd.Series("", index=range(rows), dtype=object)


def _no_reals(rows: int) -> pd.Series:
    return pd.Series(np.nan, index=range(rows), dtype=np.float64)
