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
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import numpy as np
import pandas as pd

from ..errors import DataError
from ..staging import temporary_folder
from ..traces.dispatches import Finding, durations, findings_on
from .base import SQLITE, DataFile, Options
from .files import check_size

ROW = "row"  # column: 1-based number of the row within its table
_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}
_CREATED = re.compile(rb"CREATE TABLE [\"'`\[]?(\w+)")
_ROWS_AT_ONCE = 65536
_STEPS_AT_ONCE = 10_000
_STEPS = 20_000_000
_STEPS_A_BYTE = 100
"""Steps of SQLite's machine that a database may take, and how many more for each of its bytes: its
rows take fewer than ten a byte, and loops in a damaged one have no end."""
# bytes of text that may come out of it, and how many more for each of its bytes
_WORDS = 2**26
_WORDS_A_BYTE = 4
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
        listed = self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
        return [str(row[1]) for row in listed]

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
            present = self.columns(table)
        else:
            present = []
        lacking = [name for name in required if name not in present]
        if lacking and table in self.tables:
            raise DataError(
                f"table {table} has no column {lacking[0]!r}: not as its producer writes it",
                source=self.source,
            )
        kinds = dict.fromkeys(integers, _INTEGER)
        kinds |= dict.fromkeys(words, _WORD) | dict.fromkeys(reals, _REAL)
        wanted = [name for name in kinds if name in present]
        parts: dict[str, list[pd.Series]] = {name: [] for name in wanted}
        count = 0
        for rows in self._pieces(table, wanted):
            for name, values in zip(wanted, zip(*rows, strict=True), strict=True):
                place = f"table {table}, row {{}}, column {name}"
                kinds[name].check(
                    values,
                    place,
                    count + 1,
                    self.source,
                )
                parts[name].append(kinds[name].series(values))
            count += len(rows)
        read = {}
        for name, kind in kinds.items():
            if parts.get(name):
                read[name] = pd.concat(parts[name], ignore_index=True)
            else:
                read[name] = pd.Series(kind.missing, index=range(count), dtype=kind.dtype)
        return pd.DataFrame(read | {ROW: np.arange(1, count + 1)})

    def _pieces(self, table: str, columns: Sequence[str]) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a table, some at a time."""
        if columns:
            listing = ", ".join(map(_quoted, columns))
            cursor = self._connection.execute(f"SELECT {listing} FROM {_quoted(table)}")
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                yield rows


@dataclass(frozen=True)
class _Kind:
    """What a column is read as: the types of Python that its values may have, and how messages call them."""

    dtype: Any
    missing: Any
    allowed: tuple[type, ...]
    expected: str

    def check(
        self,
        values: Sequence[Any],
        place: str,
        first: int,
        source: str,
    ) -> None:
        """Refuse values that are not of the types allowed; ``place`` has room for the number of the row."""
        if set(map(type, values)) <= {*self.allowed}:
            return
        for row, value in enumerate(values, start=first):
            if type(value) not in self.allowed:
                problem = f"{value!r:.60} where {self.expected} belongs; the database is damaged"
                raise DataError(f"{place.format(row)}: {problem}", source=source)

    def series(self, values: Sequence[Any]) -> pd.Series:
        """Return values of a column."""
        if self.dtype is object:
            return pd.Series([*map(_word, values)], dtype=object)
        if self.dtype == "Int64" and None not in values:
            return pd.Series(np.array(values, dtype=np.int64)).astype("Int64")
        return pd.Series([*values], dtype=self.dtype)


_NONE = type(None)
_INTEGER = _Kind(
    "Int64",
    pd.NA,
    (int, _NONE),
    "an integer",
)
_REAL = _Kind(
    np.float64,
    np.nan,
    (int, float, _NONE),
    "a number",
)
_WORD = _Kind(
    object,
    "",
    (str, bytes, int, float, _NONE),
    "a text",
)


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
            f"cannot be read as an SQLite database ({_in_words(error)}): it is cut off, damaged or "
            "still being written; copy it again, or save what is left with `sqlite3 FILE .recover`",
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
    key = list(on)
    said = right.drop(columns=ROW, errors="ignore").dropna(subset=key).drop_duplicates(key)
    return left.merge(said, how="left", on=key)


def timed(activities: pd.DataFrame, source: str) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the activities with `start_ns` and `duration_ns` for `start` and `end`, and a finding on those without.

    Impossible times (an end before its start) stay as they are, a duration that 64 bits cannot hold
    is the longest of its sign; a row with no start or no end can have no place.
    """
    is_timed = activities["start"].notna() & activities["end"].notna()
    kept = activities[is_timed].reset_index(drop=True)
    start = kept["start"].to_numpy(np.int64)
    end = kept["end"].to_numpy(np.int64)
    table = kept.drop(columns=["start", "end"])
    table = table.assign(start_ns=start, duration_ns=durations(start, end))
    text = "have no start or no end in the database and are left out: the recording was interrupted"
    count = int((~is_timed).sum())
    return table, findings_on(count, "no-time", text, "error", source)


def unfinished(file: DataFile) -> list[Finding]:
    """Return a finding if changes to the database lie unsaved in a file beside it, which is not read."""
    log = file.path.with_name(file.path.name + "-wal")
    if not (log.is_file() and log.stat().st_size):
        return []
    text = (
        f"beside the database, {log.name} holds activities not yet saved, which are not read: let "
        f'the program end, then run `sqlite3 {file.path.name} "PRAGMA wal_checkpoint(TRUNCATE)"`'
    )
    return findings_on(
        1,
        "unsaved-database",
        text,
        "warning",
        file.label,
        database=file.path.name,
        log=log.name,
    )


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


class _Words:
    """Decodes text, as long as it is not more than a file of its size can hold."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, text: bytes) -> str:
        self._left -= len(text)
        if self._left < 0:
            raise MemoryError
        return text.decode("utf-8", "backslashreplace")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _word(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
