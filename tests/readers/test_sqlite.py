from __future__ import annotations

import bz2
import gzip
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.readers import sqlite
from flopcast.readers.base import SQLITE, DataFile, Options
from flopcast.readers.sqlite import joined, names_of, opened, peek, timed, unfinished


def database(path: Path, *statements: str) -> DataFile:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return DataFile(path, path.name, True)


TABLE = (
    "CREATE TABLE t (id INTEGER, word TEXT, share REAL)",
    "INSERT INTO t VALUES (1, 'a', 0.5), (NULL, NULL, NULL)",
)


@pytest.fixture
def file(tmp_path: Path) -> DataFile:
    return database(tmp_path / "a database # 100%.db", *TABLE, "CREATE VIEW v AS SELECT id FROM t")


def test_columns_are_typed_and_missing_values_stay_missing(file: DataFile) -> None:
    with opened(file, Options()) as db:
        assert db.tables == {"t"}
        read = db.read(
            "t", integers=("id", "absent"), words=("word", "no_word"), reals=("share", "no_real")
        )
    assert read["id"].tolist() == [1, pd.NA]
    assert read["id"].dtype == read["absent"].dtype == "Int64"
    assert read["absent"].isna().all()
    assert read["word"].tolist() == ["a", ""]
    assert read["no_word"].tolist() == ["", ""]
    assert read["share"].iloc[0] == 0.5
    assert read[["share", "no_real"]].isna().to_numpy().tolist() == [[False, True], [True, True]]
    assert read["row"].tolist() == [1, 2]


def test_a_table_that_is_not_there_has_no_rows_and_one_with_other_columns_is_refused(
    file: DataFile,
) -> None:
    with opened(file, Options()) as db:
        none = db.read("lazy", integers=("id",), words=("word",), required=("id",))
        assert none.empty
        assert list(none) == ["id", "word", "row"]
        with pytest.raises(DataError, match="'start'"):
            db.read("t", integers=("start",), required=("start",))


@pytest.mark.parametrize(
    ("value", "shown"),
    [("'abc'", "'abc'"), ("1.5", "1.5"), ("x'00ff'", r"b'\\x00\\xff'"), ("1e400", "inf")],
)
def test_a_value_of_another_type_is_refused_with_its_place(
    tmp_path: Path, value: str, shown: str
) -> None:
    file = database(
        tmp_path / "x.db", "CREATE TABLE t (id)", f"INSERT INTO t VALUES (7), (NULL), ({value})"
    )
    message = f"table t, row 3, column id: {shown} where an integer belongs"
    with pytest.raises(DataError, match=message), opened(file, Options()) as db:
        db.read("t", integers=("id",))


def test_words_of_any_type_are_shown(tmp_path: Path) -> None:
    file = database(
        tmp_path / "x.db",
        "CREATE TABLE t (w)",
        "INSERT INTO t VALUES (12), (x'61ff'), (CAST(x'62ff' AS TEXT))",
    )
    with opened(file, Options()) as db:
        assert db.read("t", words=("w",))["w"].tolist() == ["12", r"a\xff", r"b\xff"]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_compressed_databases_are_unpacked(
    file: DataFile, tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(compress(file.path.read_bytes()))
    with opened(DataFile(packed, "packed", True), Options()) as db:
        assert db.read("t", integers=("id",))["id"].iloc[0] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [file.path.name, "packed"]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_database_larger_than_the_limit_is_refused(
    file: DataFile, tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "big").write_bytes(compress(file.path.read_bytes()))
    with (
        pytest.raises(DataError, match="raise the limit"),
        opened(DataFile(tmp_path / "big", "big", True), Options(max_bytes=8191)),
    ):
        pytest.fail("was opened")
    size = file.path.stat().st_size
    with opened(DataFile(tmp_path / "big", "big", True), Options(max_bytes=size)):
        pass


def test_nothing_is_written_and_a_read_only_folder_will_do(file: DataFile) -> None:
    before = file.path.read_bytes()
    with opened(file, Options()) as db:
        db.read("t", integers=("id",))
        assert [path.name for path in file.path.parent.iterdir()] == [file.path.name]
    assert file.path.read_bytes() == before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: SQLITE + b"no database at all" * 300, "file is not a database"),
        (lambda data: data[: len(data) // 2], "malformed"),
        (lambda data: data[:100] + b"\xff" * 400 + data[500:], "malformed"),
        (lambda data: data.replace(b"CREATE VIEW v AS", b"CREATE VIE\xf7\n\n AS"), "SQLite"),
        (lambda data: gzip.compress(data)[:-20], "cannot be read"),
        (lambda data: b"\x1f\x8b" + b"junk" * 9, "cannot be read"),
    ],
)
def test_damage_is_one_line_with_the_file(
    file: DataFile, damage: Callable[[bytes], bytes], message: str
) -> None:
    file.path.write_bytes(damage(file.path.read_bytes()))
    with pytest.raises(DataError, match=message) as caught, opened(file, Options()) as db:
        db.read("t", integers=("id",))
    assert caught.value.source == str(file.path)
    assert "\n" not in str(caught.value)
    assert peek(file.path, lambda db: db.read("t", integers=("id",))) is None


def test_a_file_that_is_gone_is_a_data_error(tmp_path: Path) -> None:
    with (
        pytest.raises(DataError, match="cannot be read"),
        opened(DataFile(tmp_path / "no", "no", True), Options()),
    ):
        pytest.fail("was opened")


def test_a_view_is_not_read_whatever_it_would_give(tmp_path: Path) -> None:
    endless = "CREATE VIEW v AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i AS id FROM c"
    large = "CREATE TABLE g (id INTEGER, word TEXT GENERATED ALWAYS AS (printf('%.*c', 2000000, 'x')) VIRTUAL)"
    file = database(tmp_path / "v.db", *TABLE, endless, large, "INSERT INTO g VALUES (1)")
    with opened(file, Options()) as db:
        assert db.tables == {"t", "g"}
        assert db.read("g", integers=("id",), words=("word",)).to_numpy().tolist() == [[1, "", 1]]
    with pytest.raises(DataError, match=r"\bv\b"), opened(file, Options()) as db:
        db.read("v", integers=("id",))


def test_what_comes_out_of_a_database_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "INSERT INTO t VALUES (1, printf('%.*c', 2000000, 'x'), 0.5)"
    with (
        pytest.raises(DataError, match="too big"),
        opened(database(tmp_path / "l.db", *TABLE, long), Options()) as db,
    ):
        db.read("t", words=("word",))
    many = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 20000) SELECT i, 'a', 1 FROM c"
    file = database(tmp_path / "m.db", *TABLE, f"INSERT INTO t {many}")
    monkeypatch.setattr(sqlite, "_STEPS", 0)
    monkeypatch.setattr(sqlite, "_STEPS_A_BYTE", 0)
    with pytest.raises(DataError, match="interrupted"), opened(file, Options()) as db:
        db.read("t", integers=("id",))
    monkeypatch.undo()
    monkeypatch.setattr(sqlite, "_WORDS", 10_000)
    monkeypatch.setattr(sqlite, "_WORDS_A_BYTE", 0)
    with pytest.raises(DataError, match="MemoryError"), opened(file, Options()) as db:
        db.read("t", words=("word",))


def test_names_are_found_in_the_head_of_what_cannot_be_opened(file: DataFile) -> None:
    head = file.path.read_bytes()
    assert names_of(file.path, head) == {"t"}
    file.path.write_bytes(gzip.compress(head))
    assert names_of(file.path, head) == {"t"}
    assert names_of(file.path, b"CREATE TABLE t") == frozenset()
    assert names_of(file.path.with_name("no"), head) == {"t"}


def test_joined_keeps_every_left_row_once() -> None:
    left = pd.DataFrame({"k": pd.array([1, None, 2, 3], dtype="Int64"), "row": [1, 2, 3, 4]})
    right = pd.DataFrame(
        {"k": pd.array([2, 2, None, 1], dtype="Int64"), "w": list("abcd"), "row": [9, 9, 9, 9]}
    )
    found = joined(left, right, ["k"])
    assert found["w"].fillna("-").tolist() == ["d", "-", "a", "-"]
    assert found["row"].tolist() == [1, 2, 3, 4]


def test_activities_without_a_time_are_left_out_with_a_finding_and_impossible_ones_kept() -> None:
    ends = pd.DataFrame({"start": [5, 5, None], "end": [7, 4, 9], "name": list("abc")}).astype(
        {"start": "Int64", "end": "Int64"}
    )
    table, [finding] = timed(ends, "x.db")
    assert table["duration_ns"].tolist() == [2, -1]
    assert (finding.code, finding.severity, finding.count) == ("no-time", "error", 1)
    assert timed(ends[:2], "x.db")[1] == []


def test_a_duration_that_does_not_fit_is_the_longest_that_does() -> None:
    times = pd.DataFrame(
        {"start": [-(2**62) - 5, 2**62 + 5, 1], "end": [2**62, -(2**62), 2**63 - 1]}
    ).astype("Int64")
    table, _ = timed(times, "x.db")
    assert table["duration_ns"].tolist() == [2**63 - 1, -(2**63), 2**63 - 2]


def test_a_log_with_unsaved_changes_is_reported(file: DataFile) -> None:
    assert unfinished(file) == []
    log = file.path.with_name(file.path.name + "-wal")
    log.touch()
    assert unfinished(file) == []
    log.write_bytes(b"changes")
    assert [(finding.code, finding.severity) for finding in unfinished(file)] == [
        ("unsaved-database", "warning")
    ]
