"""Finding files, decompressing them by content, cutting CSV text."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.readers import files
from flopcast.readers.files import (
    by_number,
    campaign_of,
    content,
    csv_header,
    find_files,
    head,
    parse_csv,
    plain_rows,
    read_plain_table,
    text,
    view,
    with_overlong,
)


def touch(path: Path, content: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def test_folders_are_searched_in_a_fixed_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.csv", "a/z.csv", "a/b/c.csv", ".hidden", ".git/config", "a.csv"):
        touch(tmp_path / name)
    assert [file.label for file in find_files([tmp_path])] == [
        "a/b/c.csv",
        "a/z.csv",
        "a.csv",
        "b.csv",
    ]


def test_installed_software_is_not_searched_unless_it_is_named(tmp_path: Path) -> None:
    software = (
        "env/pyvenv.cfg",
        "env/lib/x.csv",
        "conda/conda-meta/x.json",
        "web/node_modules/x.csv",
    )
    for name in ("mine.csv", *software):
        touch(tmp_path / name)
    assert [file.label for file in find_files([tmp_path])] == ["mine.csv"]
    assert "lib/x.csv" in [file.label for file in find_files([tmp_path / "env"])]


def test_a_file_is_read_once_and_counts_as_named_if_it_was_named(tmp_path: Path) -> None:
    touch(tmp_path / "a.csv")
    files = find_files([tmp_path, tmp_path / "a.csv", str(tmp_path / "." / "a.csv")])
    assert [(file.label, file.named) for file in files] == [("a.csv", True)]
    assert [file.named for file in find_files([tmp_path / "a.csv", tmp_path])] == [True]


def test_files_of_one_name_are_told_apart_by_their_path(tmp_path: Path) -> None:
    one, two = touch(tmp_path / "1" / "a.csv"), touch(tmp_path / "2" / "a.csv")
    assert [file.label for file in find_files([one, two])] == [one.as_posix(), two.as_posix()]


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such file"):
        find_files([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("name", "campaign"),
    [
        ("a8w8_tuned_gemm_glm5.2.csv", "a8w8_tuned_gemm_glm5.2"),
        ("ops.csv.gz", "ops"),
        ("gfx942130.HIP.fdb.txt.bz2", "gfx942130.HIP.fdb"),
    ],
)
def test_the_campaign_is_the_name_without_extension(name: str, campaign: str) -> None:
    assert campaign_of(Path(name)) == campaign


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress])
def test_compression_is_seen_in_the_content_not_the_name(tmp_path: Path, compress: object) -> None:
    file = tmp_path / "data.csv"
    file.write_bytes(compress("\ufeffop,µ\n".encode() * 10))  # type: ignore[operator]
    assert head(file).startswith(b"\xef\xbb\xbfop")
    assert text(file).startswith("op,µ\n")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_damaged_compression_is_an_error_with_the_file(tmp_path: Path, compress: object) -> None:
    file = tmp_path / "data.csv"
    file.write_bytes(compress(bytes(range(256)) * 100)[:-20])  # type: ignore[operator]
    with pytest.raises(DataError, match=r"data\.csv: cannot be read"):
        text(file)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress])
def test_content_is_limited_once_decompressed(tmp_path: Path, compress: object) -> None:
    file = tmp_path / "data.json"
    file.write_bytes(compress(b" " * 3_000_000))  # type: ignore[operator]
    assert len(content(file, max_bytes=3_000_000)) == len(view(file)) == 3_000_000
    for read in (content, view):
        with pytest.raises(DataError, match=r"data\.json.*GiB"):
            read(file, max_bytes=2_999_999)


def test_an_empty_file_has_no_content(tmp_path: Path) -> None:
    assert content(touch(tmp_path / "empty", "")) == view(tmp_path / "empty") == b""


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters(delimiter: str) -> None:
    table = parse_csv(f"a{delimiter} b \n1{delimiter}2\n", "x.csv")
    assert {name: values.tolist() for name, values in table.columns.items()} == {
        "a": ["1"],
        "b": ["2"],
    }
    assert csv_header(f"a{delimiter} b \n1".encode()) == ["a", "b"]


def test_lines_keep_their_numbers_through_blanks_quotes_and_bad_lines() -> None:
    table = parse_csv('a,b\n1,2\n\n"x,\ny",4\n5\n6,7,8\n9,10,\n,,\n11,12', "x.csv")
    assert table.columns["a"].tolist() == ["1", "x,\ny", "5", "9", "11"]
    assert table.columns["b"].tolist() == ["2", "4", "", "10", "12"]
    assert table.lines.tolist() == [2, 4, 6, 8, 10]
    assert table.overlong == [(7, "6,7,8")]


def test_overlong_lines_become_refused_rows() -> None:
    table = parse_csv("a\n1\n2,3\n", "x.csv")
    rows = with_overlong(pd.DataFrame({"a": table.columns["a"], "file_line": table.lines}), table)
    assert rows["file_line"].tolist() == [2, 3]
    assert rows["_defect"].tolist()[1] == "line-unlike-header"
    assert rows["_defect_detail"].tolist()[1] == "2,3"


def test_a_plain_table_keeps_its_text_and_the_line_of_each_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"a,,b\n01,x,2\n\n3\n"))
    rows = read_plain_table(path)
    assert rows.to_dict("list") == {"a": ["01", "3"], "b": ["2", ""], "file_line": [2, 4]}
    rows.to_parquet(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(read_plain_table(tmp_path / "a.parquet"), rows, check_dtype=False)


def test_a_plain_table_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv: no such file"):
        read_plain_table(tmp_path / "none.csv")
    broken = touch(tmp_path / "broken.parquet", "PAR1 and nothing else")
    with pytest.raises(DataError, match=r"broken\.parquet: is not readable Parquet"):
        read_plain_table(broken)
    with pytest.raises(DataError, match="log:3"):
        plain_rows("a\n1\n2,3\n", "log")


def test_what_is_not_text_has_no_header() -> None:
    assert csv_header(b"PAR1\x00\x00,a\n") == []
    assert csv_header(b"") == []
    assert csv_header(b"a,b\rc,d\n1,2\n") == ["a", "b"]


def test_the_order_of_numbers() -> None:
    assert sorted(["pass_10", "pass_2", "", "12", "9", "x\u0663"], key=by_number) == [
        "",
        "9",
        "12",
        "pass_2",
        "pass_10",
        "x\u0663",
    ]


@pytest.mark.parametrize(
    "body",
    [
        "1,2\n3,4\n",
        '"1","a, b"\r\n"",""\r\n3,\r\n',
        "1,2,\n3\n\n5,6",
        'a"b,2\n"c ""d""",4\n',
        '"two\nlines",2\n3,4\n',
        "1,2\r3,4\n",
        ",\n,2\n",
    ],
)
def test_the_fast_way_cuts_as_the_slow_one(body):
    fast, slow = parse_csv("x,y\n" + body, "f"), files._uneven_csv("x,y\n" + body, ",", "f", 0)
    assert fast.cells.to_pydict() == slow.cells.to_pydict()
    assert (fast.lines.tolist(), fast.overlong) == (slow.lines.tolist(), slow.overlong)
