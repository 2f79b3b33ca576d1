from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.errors import DataError, ParameterError
from flopcast.output import (
    METADATA,
    _guarded,
    check_output,
    check_table,
    check_tables,
    unguarded,
    whole_file,
    whole_folder,
    whole_table,
    write_csv,
    write_table,
    write_texts,
)


def write(out: Path, text: str = "new", name: str = "result.json") -> None:
    with whole_folder(out) as folder:
        (folder / name).write_text(text)


def fail(out: Path) -> None:
    with whole_folder(out) as folder:
        (folder / "result.json").write_text("half")
        raise RuntimeError("half way")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_folder_appears_with_its_files(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "run")
    assert (tmp_path / "deep" / "run" / "result.json").read_text() == "new"
    assert names(tmp_path / "deep") == ["run"]


def test_nothing_appears_when_writing_fails(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="half way"):
        fail(tmp_path / "run")
    assert names(tmp_path) == []


def test_an_earlier_result_is_replaced_as_a_whole_or_kept(tmp_path: Path) -> None:
    out = tmp_path / "run"
    write(out, "old")
    with pytest.raises(RuntimeError, match="half way"):
        fail(out)
    assert (out / "result.json").read_text() == "old"
    write(out, "new")
    assert (out / "result.json").read_text() == "new"
    assert names(tmp_path) == ["run"]


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match=r"thesis.txt"):
        check_output(tmp_path / "run", ["result.json"])


def test_a_folder_of_others_is_not_searched_through(tmp_path: Path) -> None:
    (tmp_path / "home" / "thesis" / "years").mkdir(parents=True)
    (tmp_path / "home" / "thesis" / "years" / "of.txt").write_text("work")
    with pytest.raises(DataError, match=r"home: holds other files \(thesis\)"):
        check_output(tmp_path / "home", ["result.json"])


def test_texts_make_a_folder_and_another_folder_is_refused(tmp_path: Path) -> None:
    write_texts(tmp_path / "run", {"a.json": "{}", "b.html": "µs"})
    assert names(tmp_path / "run") == ["a.json", "b.html"]
    assert (tmp_path / "run" / "b.html").read_bytes() == "µs".encode()
    with pytest.raises(DataError, match=r"run: holds other files \(b.html\)"):
        write_texts(tmp_path / "run", {"a.json": "[]"})
    assert (tmp_path / "run" / "a.json").read_text() == "{}"


def test_what_the_user_added_to_an_earlier_result_stays(tmp_path: Path) -> None:
    write(tmp_path / "run", "old")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    write(tmp_path / "run", "new")
    assert names(tmp_path / "run") == ["notes.txt", "result.json"]


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "table.csv"
    with pytest.raises(TypeError), whole_file(out) as path:
        path.write_text(b"half")  # type: ignore[arg-type]
    assert names(tmp_path / "deep") == []
    with whole_file(out) as path:
        path.write_text("whole")
    assert out.read_text() == "whole"


def test_who_still_reads_the_earlier_file_sees_nothing_of_the_new_one(tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    out.write_text("earlier")
    with out.open(encoding="utf-8") as reader:
        with whole_file(out) as path:
            path.write_text("new")
        assert reader.read() == "earlier"
    assert out.read_text() == "new"


def test_a_file_in_the_way_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(DataError, match="is a file"):
        check_output(tmp_path / "run", ["result.json"])


def test_a_place_that_cannot_be_written_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        write(tmp_path / "file" / "run")


def test_tables_are_written_with_their_metadata(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2]})
    for name in ("t.parquet", "t.csv"):
        write_table(table, tmp_path / name, '{"rows": 2}')
    assert json.loads(pq.read_schema(tmp_path / "t.parquet").metadata[METADATA]) == {"rows": 2}
    assert (
        pd.read_parquet(tmp_path / "t.parquet")["a"].tolist()
        == pd.read_csv(tmp_path / "t.csv")["a"].tolist()
        == [1, 2]
    )


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.xlsx"])
def test_a_table_that_breaks_off_does_not_appear(tmp_path: Path, name: str) -> None:
    if name == "t.xlsx":
        pytest.importorskip("openpyxl")
    table = pa.table({"a": [1]})

    def half() -> None:
        with whole_table(tmp_path / name, table.schema, "{}") as writer:
            writer.write_table(table)
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        half()
    assert names(tmp_path) == []


def test_a_table_has_one_of_three_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    check_table(Path("t.CSV"))
    with pytest.raises(DataError, match=r"removed.*'t\.ods'"):
        check_table(Path("t.ods"), "removed")
    monkeypatch.setattr("flopcast.output.find_spec", lambda name: None)
    with pytest.raises(ParameterError, match=r"removed.*flopcast\[excel\]"):
        check_table(Path("t.xlsx"), "removed")


def test_a_sheet_holds_numbers_as_numbers_and_runs_no_text(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    texts = ["=1+1", "gemm\x1b", None]
    columns = {
        "name": texts,
        "us": [1.5, math.nan, math.inf],
        "ns": [2, 2**60, None],
        "ok": [True, False, None],
    }
    write_table(pa.table(columns), tmp_path / "t.xlsx", "{}")
    sheet = openpyxl.load_workbook(tmp_path / "t.xlsx")["table"]
    assert [[cell.value for cell in row] for row in sheet.rows] == [
        ["name", "us", "ns", "ok"],
        ["=1+1", 1.5, 2, True],
        ["gemm\\x1b", None, str(2**60), False],
        [None, "inf", None, None],
    ]
    assert sheet["A2"].data_type == "s"


def test_a_sheet_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openpyxl")
    monkeypatch.setattr("flopcast.output._SHEET_ROWS", 2)
    with pytest.raises(DataError, match=r"t\.xlsx"):
        write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "t.xlsx", "{}")
    assert names(tmp_path) == []


HOSTILE = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "'=1",
    "''@",
    "＝1",
    '=HYPERLINK("x")',
    "-",
    "\n=2",
]
HARMLESS = ["gemm", "'quoted'", "a=1", "", "m=1,n=2", "ck::kernel<-1>"]


def written(table: pa.Table, folder: Path) -> list[list[str]]:
    """Return the cells of a table, its header first, as a spreadsheet sees them; both ways to write it give them."""
    write_csv(table, folder / "a.csv")
    with whole_table(folder / "b.csv", table.schema, "{}") as writer:
        writer.write_table(table)
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    with (folder / "a.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_a_spreadsheet_runs_no_text_of_a_csv_and_every_text_comes_back(tmp_path: Path) -> None:
    texts = [*HOSTILE, *HARMLESS]
    table = pa.table(
        {"=name": texts, "kind": pa.array(texts).dictionary_encode(), "x": [-1.5] * len(texts)}
    )
    header, *rows = written(table, tmp_path)
    assert header == ["'=name", "kind", "x"]
    assert unguarded(header[0]) == "=name"
    for text, row in zip(texts, rows, strict=True):
        assert row[:2] == [f"'{text}" if text in HOSTILE else text] * 2
        assert float(row[2]) == -1.5
        assert unguarded(row[0]) == text


@given(st.lists(st.text("='+-@ \t\r\nab", max_size=6), min_size=1, max_size=20))
def test_guarding_is_undone_exactly(texts: list[str]) -> None:
    guarded = _guarded(pa.table({"a": texts}))["a"].to_pylist()
    assert [unguarded(text) for text in guarded] == texts
    assert not any(text.lstrip(" ").startswith(tuple("=+-@\t\r\n")) for text in guarded)


@pytest.mark.parametrize("name", ["answer.html", "answer.csv", "answer.JSON", "answer.txt"])
def test_a_new_folder_is_not_called_as_a_file_is(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"{name}: would be a folder"):
        check_output(tmp_path / name, ["a.json", "a.html"])
    (tmp_path / name).mkdir()
    check_output(tmp_path / name, ["a.json", "a.html"])
    check_output(tmp_path / "release-0.10", ["a.json", "a.html"])


def test_tables_of_one_command_are_checked_together_and_none_lies_in_a_run(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="another file than that of out"):
        check_tables({"out": tmp_path / "a.csv", "removed": tmp_path / "." / "a.csv"})
    run = tmp_path / "run"
    (run / "model").mkdir(parents=True)
    for name in ("metrics.json", "manifest.json"):
        (run / name).touch()
    with (
        pytest.raises(DataError, match="lies in a run"),
        whole_file(run / "model" / "new.csv") as path,
    ):
        path.touch()
    assert not (run / "model" / "new.csv").exists()


def test_a_workbook_that_a_disk_has_no_room_for_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    code = """
import resource, sys
from pathlib import Path
import pyarrow as pa
from flopcast.errors import DataError
from flopcast.output import write_table
unlimited = resource.RLIM_INFINITY
for rows, size in ((3, 1), (30, 1_500), (20_000, 1_000), (20_000, 100_000), (20_000, 300_000)):
    table = pa.table({"a": [str(number) * 9 for number in range(rows)]})
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, unlimited))
    try:
        write_table(table, Path(sys.argv[1]), "{}")
    except DataError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.xlsx")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.count("cannot be written") == 5
    assert list(tmp_path.iterdir()) == []
