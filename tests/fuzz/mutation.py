"""Damage with a structure: cells of tables, values of JSON, rows of databases, columns of Parquet, then bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import math
import re
import sqlite3
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flopcast.tests.fuzz.corpus import Files

NUMBERS = (
    "0", "-1", "-0.0", "1e400", "-1e400", "NaN", "inf", "-Infinity", "1e-320", "4.9e-324", "1.8e308", "1e15", "1e18",
    "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615",
    "9" * 40, "9" * 5000, "0x1F", "1_000", "1,5", "1.5", "１２", "٣", " 7 ", "7\x00", "+3", "1e", "--1", "1.5.2",
    "", "null", "true", "[]", "{}", "3.0000000001", "0.1", "16",
)  # fmt: skip
WORDS = (
    "", " ", "\x00", "\r", "\n", '"', "'", "\\", "💥", "\u202e", "\x1b[2J", "=cmd()", "../../etc/passwd",
    "/etc/gpu.toml", "%s%n", "{0}", "(", "(((((((", ")", "[", "<", "a,b;c\td|e", "nan", "None", "-", "_", ":", "::",
    "x" * 70000, '"' + "x" * 140000, "MI300X", "gemm", "aten::mm", "bf16", "torch.float8_e4m3fnuz",
    "\ufeff", "\x85", "\u2028",
)  # fmt: skip
_TOKEN = re.compile(rb"[0-9]+(?:\.[0-9]+)?|[A-Za-z_]{2,}")
_MAGIC_SQLITE, _MAGIC_PARQUET, _MAGIC_ZIP = b"SQLite format 3\x00", b"PAR1", b"PK\x03\x04"
Mutation = Callable[[bytes, np.random.Generator], bytes]
T = TypeVar("T")


def mutated(original: Files, others: Sequence[Files], rng: np.random.Generator) -> Files:
    """Return an input with one to three damages in one of its files, now and then also in its name or packing."""
    files = dict(original)
    name = _any(sorted(files), rng)
    for _ in range(int(rng.integers(1, 4))):
        # what an earlier damage has left may be nothing that this one can read
        with suppress(Exception):
            files[name] = _any(_suited(files[name]), rng)(files[name], rng)
    chance = rng.random()
    if chance < 0.03:
        other = _any(others, rng)
        files[name] = other[_any(sorted(other), rng)]
    elif chance < 0.06:
        pack = gzip.compress if rng.random() < 0.5 else bz2.compress
        files[name] = pack(files[name], 1)
        if rng.random() < 0.5:
            files[name] = _any(_BYTES, rng)(files[name], rng)
    elif chance < 0.08:
        files[
            _any(
                ("x", "gfx942.HIP.fdb.txt", "a_counter_collection.csv", "ä b.json", "pmc_perf.csv"),
                rng,
            )
        ] = files.pop(name)
    elif chance < 0.10 and len(files) > 1:
        del files[name]
    return files


def _any(items: Sequence[T], rng: np.random.Generator) -> T:
    return items[int(rng.integers(len(items)))]


def _nasty(rng: np.random.Generator) -> str:
    return _any(NUMBERS if rng.random() < 0.7 else WORDS, rng)


def _suited(content: bytes) -> Sequence[Mutation]:
    if content.startswith(_MAGIC_SQLITE):
        return (cell_of_database, cell_of_database, schema_of_database, *_BYTES)
    if content.startswith(_MAGIC_PARQUET):
        return (
            column_of_parquet,
            cell_of_parquet,
            cell_of_parquet,
            text_of_parquet,
            text_of_parquet,
            *_BYTES,
        )
    if content.startswith(_MAGIC_ZIP):
        return (member_of_zip, member_of_zip, *_BYTES)
    if content.lstrip()[:1] in (b"{", b"["):
        return (value_of_json, value_of_json, value_of_json, token, *_BYTES)
    return (cell, cell, line, token, *_BYTES)


# Bytes.


def flip(content: bytes, rng: np.random.Generator) -> bytes:
    """Change some bytes anywhere."""
    found = bytearray(content)
    for place in rng.integers(len(found), size=int(rng.integers(1, 9))) if found else ():
        found[place] = int(rng.integers(256))
    return bytes(found)


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    """End the file early."""
    return content[: int(rng.integers(len(content) + 1))]


def drop(content: bytes, rng: np.random.Generator) -> bytes:
    """Leave out a piece."""
    start = int(rng.integers(len(content) + 1))
    return content[:start] + content[start + int(rng.integers(1, 200)) :]


def repeat(content: bytes, rng: np.random.Generator) -> bytes:
    """Write a piece several times."""
    start = int(rng.integers(len(content) + 1))
    return (
        content[:start]
        + content[start : start + int(rng.integers(1, 200))] * int(rng.integers(2, 20))
        + content[start:]
    )


def put(content: bytes, rng: np.random.Generator) -> bytes:
    """Write something odd anywhere."""
    start = int(rng.integers(len(content) + 1))
    return content[:start] + _nasty(rng).encode() + content[start:]


_BYTES: tuple[Mutation, ...] = (flip, cut, drop, repeat, put)


# Text.


def token(content: bytes, rng: np.random.Generator) -> bytes:
    """Put something else where a number or a word stands."""
    places = list(_TOKEN.finditer(content[:20000]))
    if not places:
        return content
    place = _any(places, rng)
    choices = NUMBERS if place[0][:1].isdigit() else WORDS
    return content[: place.start()] + _any(choices, rng).encode() + content[place.end() :]


def line(content: bytes, rng: np.random.Generator) -> bytes:
    """Leave out, repeat, move or join lines."""
    lines = content.split(b"\n")
    at, to = rng.integers(len(lines), size=2)
    kind = int(rng.integers(5))
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(to, lines[at])
    elif kind == 2:
        lines.insert(to, lines.pop(at))
    elif kind == 3:
        lines[at] = lines[at].replace(b",", _any((b";", b"\t", b"|", b", ", b",,"), rng))
    else:
        return _any((b"\r", b"\r\n", b"\n\n", b"\x00"), rng).join(lines)
    return b"\n".join(lines)


def cell(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a cell, or a column, of what looks like a table."""
    lines = content.split(b"\n")
    at = int(rng.integers(len(lines)))
    cells = lines[at].split(b",")
    column = int(rng.integers(len(cells)))
    kind = int(rng.integers(5))
    if kind == 0:
        cells[column] = _any(cells, rng)
    elif kind == 1:
        cells.insert(column, cells[column])
    else:
        cells[column] = _nasty(rng).encode()
    lines[at] = b",".join(cells)
    if kind == 4:  # the whole column
        value = _nasty(rng).encode()
        rows = [row.split(b",") for row in lines[1:]]
        lines[1:] = [
            b",".join([*row[:column], value, *row[column + 1 :]])
            if len(row) > column
            else b",".join(row)
            for row in rows
        ]
    return b"\n".join(lines)


# JSON.


def value_of_json(content: bytes, rng: np.random.Generator) -> bytes:
    """Change, repeat, leave out or wrap a value anywhere in a document."""
    document = json.loads(content)
    places = [
        (holder, key)
        for holder in _holders(document)
        for key in (holder if isinstance(holder, dict) else range(len(holder)))
    ]
    holder, key = _any(places, rng)
    kind = int(rng.integers(6))
    if kind == 0:
        del holder[key]
    elif kind == 1:
        other, at = _any(places, rng)
        holder[key] = json.loads(json.dumps(other[at]))
    elif kind == 2:
        holder[key] = [holder[key]] * int(rng.integers(0, 4))
    elif kind == 3 and rng.random() < 0.1:
        text = json.dumps(document)
        return text.replace(json.dumps(holder[key]), "[" * 5000 + "]" * 5000, 1).encode()
    else:
        holder[key] = _loose(_nasty(rng))
    return json.dumps(document).encode()


def _loose(word: str) -> Any:
    """Return a word as the value of JSON that it may be, or as text."""
    try:
        return json.loads(word)
    except ValueError:
        return word


def _holders(item: Any) -> list[Any]:
    """Return all lists and objects of a document that are not empty."""
    found, stack = [], [item]
    while stack:
        item = stack.pop()
        if isinstance(item, (dict, list)) and item:
            found.append(item)
            stack += item.values() if isinstance(item, dict) else item
    return found


# Databases.


def _value(rng: np.random.Generator) -> Any:
    """Return a value of any of SQLite's types."""
    words = (None, -1, 0, 2**63 - 1, -(2**63), 1.5, float("inf"), b"\xff\xfe", "x" * 1000, 2**40)
    return _any(words, rng) if rng.random() < 0.6 else _nasty(rng)


def _with_database(
    content: bytes, change: Callable[[sqlite3.Connection, list[str]], object]
) -> bytes:
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(content)
        tables = [
            name
            for (name,) in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            )
        ]
        change(db, tables)
        db.commit()
        return db.serialize()


def cell_of_database(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a cell, a column or the rows of a table."""

    def change(db: sqlite3.Connection, tables: list[str]) -> None:
        table = _any(tables, rng)
        column = _any([row[1] for row in db.execute(f'PRAGMA table_info("{table}")')], rng)
        kind = int(rng.integers(4))
        some = "" if kind == 0 else f" WHERE rowid = {int(rng.integers(1, 4))}"
        if kind < 3:
            db.execute(f'UPDATE OR REPLACE "{table}" SET "{column}" = ?{some}', (_value(rng),))
        else:
            db.execute(f'DELETE FROM "{table}"{some}')

    return _with_database(content, change)


def schema_of_database(content: bytes, rng: np.random.Generator) -> bytes:
    """Drop or rename a table or a column, or put a view in the table's place that may have no end."""

    def change(db: sqlite3.Connection, tables: list[str]) -> None:
        table = _any(tables, rng)
        columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
        kind = int(rng.integers(5))
        if kind == 0:
            db.execute(f'DROP TABLE "{table}"')
        elif kind == 1:
            db.execute(
                f'ALTER TABLE "{table}" RENAME TO "{_any(("x", "sqlite", table.upper() + "_"), rng)}"'
            )
        elif kind == 2:
            db.execute(
                f'ALTER TABLE "{table}" RENAME COLUMN "{_any(columns, rng)}" TO "{_any(("start", "end", "x"), rng)}"'
            )
        elif kind == 3:
            db.execute(f'ALTER TABLE "{table}" DROP COLUMN "{_any(columns, rng)}"')
        else:
            db.execute(f'DROP TABLE "{table}"')
            listed = ", ".join(f'i AS "{name}"' for name in columns)
            db.execute(
                f'CREATE VIEW "{table}" AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) '
                f"SELECT {listed} FROM c"
            )

    return _with_database(content, change)


# Parquet.

_COLUMNS: tuple[Callable[[int], pa.Array], ...] = (
    lambda rows: pa.array([b"\xff\xfe"] * rows, pa.binary()),
    lambda rows: pa.array([[1, 2]] * rows, pa.list_(pa.int64())),
    lambda rows: pa.array([{"a": 1}] * rows),
    lambda rows: pa.array([None] * rows, pa.null()),
    lambda rows: pa.array([2**62] * rows, pa.int64()),
    lambda rows: pa.array([2**64 - 1] * rows, pa.uint64()),
    lambda rows: pa.array([float("inf")] * rows),
    lambda rows: pa.array([1] * rows, pa.timestamp("ns")),
    lambda rows: pa.array([1] * rows, pa.duration("us")),
    lambda rows: pa.array([2**53] * rows, pa.timestamp("s")),
    lambda rows: pa.array(["gemm"] * rows).dictionary_encode(),
    lambda rows: pa.array([True] * rows),
    lambda rows: pa.array([None] * rows, pa.decimal128(20, 3)),
    lambda rows: pa.array(["1e400"] * rows),
)


def column_of_parquet(content: bytes, rng: np.random.Generator) -> bytes:
    """Give a column another type, another's name, or write it twice."""
    table, texts = _opened(content)
    place = int(rng.integers(table.num_columns))
    name = table.column_names[place]
    kind = int(rng.integers(4))
    if kind == 0:
        table = table.append_column(name, table.column(place))
    elif kind == 1:
        names = [*table.column_names]
        names[place] = _any((*names, "", "__index_level_0__", "us", "\x00"), rng)
        table = table.rename_columns(names)
    else:
        table = table.set_column(place, name, _any(_COLUMNS, rng)(table.num_rows))
    return _written(table, texts)


def cell_of_parquet(content: bytes, rng: np.random.Generator) -> bytes:
    """Change a value, or all of a column, to another of its type."""
    table, texts = _opened(content)
    place = int(rng.integers(table.num_columns))
    column = table.column(place)
    values = column.to_pylist()
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        value = _any(_FIGURES, rng)
    else:
        value = _any(WORDS, rng)
    changed = [int(rng.integers(len(values)))]
    if rng.random() < 0.2:
        changed = range(len(values))
    for row in changed:
        values[row] = value
    table = table.set_column(place, table.column_names[place], pa.array(values, column.type))
    return _written(table, texts)


_FIGURES = (
    None,
    0,
    -1,
    1,
    2,
    1000,
    2**31,
    2**53,
    1e-320,
    0.5,
    1e18,
    1e308,
    math.inf,
    -math.inf,
    math.nan,
)


def text_of_parquet(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage what was written beside the columns, by pandas or flopcast: more often as JSON than as bytes."""
    table, texts = _opened(content)
    key = _any(sorted({*texts, b"pandas"}), rng)
    before = texts.get(key, b'{"columns": []}')
    texts[key] = _any(_suited(before), rng)(before, rng)
    return _written(table, texts)


def _opened(content: bytes) -> tuple[pa.Table, dict[bytes, bytes]]:
    """Return the table and all texts of the file but the schema, which is written anew."""
    table, texts = _parsed(content)
    return table, dict(texts)


@lru_cache(maxsize=8)
def _parsed(content: bytes) -> tuple[pa.Table, Mapping[bytes, bytes]]:
    """Return what `_opened` does; the sound file, which most damages begin with, is read once."""
    with pq.ParquetFile(io.BytesIO(content)) as file:
        texts = dict(file.metadata.metadata or {})
        texts.pop(b"ARROW:schema", None)
        return file.read(), texts


def _written(table: pa.Table, texts: dict[bytes, bytes]) -> bytes:
    found = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(texts), found)
    return found.getvalue()


# The saved model.


def member_of_zip(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage one file of an archive, which is then whole again."""
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    name = _any(sorted(members), rng)
    members[name] = _any(_suited(members[name]), rng)(members[name], rng)
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as new:
        for member, data in members.items():
            new.writestr(member, data)
    return found.getvalue()
