"""Tables of rocprof: lines, names, counters, joins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.readers.base import HEAD_BYTES, DataFile, Options
from flopcast.readers.rocprof import (
    DispatchTable,
    counters,
    header_of,
    is_counter,
    positions,
    read_table,
)


def table_of(folder: Path, text: str | bytes) -> DispatchTable:
    path = folder / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(DataFile(path, "t.csv", True), Options())


def test_lines_are_those_of_the_file_past_empty_and_broken_ones(tmp_path: Path) -> None:
    table = table_of(tmp_path, 'Index,KernelName\n0,"f(int, int)"\n\n1\n2,g\n\n')
    assert table.lines.tolist() == [2, 5]
    assert table.names().tolist() == ["f(int, int)", "g"]
    [finding] = table.findings
    assert (finding.code, finding.count, finding.source) == ("broken-lines", 1, "t.csv:4")


def test_a_header_alone_is_an_empty_table(tmp_path: Path) -> None:
    table = table_of(tmp_path, "Index,KernelName\n")
    assert (len(table), table.names().tolist(), table.integers("dispatch_id").tolist()) == (
        0,
        [],
        [],
    )


@pytest.mark.parametrize(
    "written",
    ["f(int) [clone .kd]", "f(int) (.kd)", "f(int).kd", "f(int)", '""f(int).kd""', " f(int) "],
)
def test_the_ending_of_a_kernel_descriptor_is_removed(tmp_path: Path, written: str) -> None:
    assert table_of(tmp_path, f'KernelName,Index\n"{written}",0\n').names().tolist() == ["f(int)"]


def test_names_that_differ_in_the_ending_alone_are_one(tmp_path: Path) -> None:
    names = table_of(tmp_path, "KernelName,Index\nf.kd,0\nf,1\n").names()
    assert (names.tolist(), names.categories.tolist()) == (["f", "f"], ["f"])


def test_foreign_bytes_stay_visible(tmp_path: Path) -> None:
    assert table_of(tmp_path, b"KernelName,Index\nf\xff,0\n").names().tolist() == ["f\\xff"]


def test_numbers_that_are_none_are_missing(tmp_path: Path) -> None:
    values = table_of(tmp_path, "KernelName,PID,GPU_ID\nf,12,x\ng,7.5,2\nh,8.0,\n")
    assert values.integers("process").isna().tolist() == [False, True, False]
    assert values.integers("process").iloc[[0, 2]].tolist() == [12, 8]
    assert values.integers("gpu").isna().tolist() == [True, False, True]
    assert values.integers("stream").isna().all()


@pytest.mark.parametrize(
    "name",
    ["Wave_Size_17", "Correlation_ID", "Correlation_ID_1", "Kernel_ID_12", "XCC_Index", "XCC_Index_5", "obj_3",
     "wave_size_1", "Dispatch_ID", "grd", "DispatchNs", "Start_Timestamp", "Unnamed: 0", ""],
)  # fmt: skip
def test_what_describes_a_dispatch_is_no_counter(name: str) -> None:
    assert not is_counter(name)


@pytest.mark.parametrize(
    "name", ["SQ_WAVES", "SQC_DCACHE_REQ_READ_16", "TCC_HIT[0]", "FETCH_SIZE", "GRBM_COUNT"]
)
def test_everything_else_is(name: str) -> None:
    assert is_counter(name)


def test_repeated_counters_keep_their_name_and_accumulators_get_one(tmp_path: Path) -> None:
    header = (
        "Index,SQ_WAVES,SQ_IFETCH_LEVEL,SQ_ACCUM_PREV_HIRES,REQ_READ_8,obj_1,SQ_WAVES_1,SQ_LEVEL_WAVES,"
        "SQ_ACCUM_PREV_HIRES_1,SQ_WAVES"
    )
    found, words = counters(table_of(tmp_path, f"{header}\n0,1,2,3,4,0x1,5,6,7,8\n"))
    assert [(name, float(values[0])) for name, values in found] == [
        ("SQ_WAVES", 1.0),
        ("SQ_IFETCH_LEVEL", 2.0),
        ("SQ_IFETCH_LEVEL_ACCUM", 3.0),
        ("REQ_READ_8", 4.0),
        ("SQ_WAVES", 5.0),
        ("SQ_LEVEL_WAVES", 6.0),
        ("SQ_LEVEL_WAVES_ACCUM", 7.0),
        ("SQ_WAVES", 8.0),
    ]
    assert words == []


def test_columns_of_words_are_no_counters_and_cells_of_words_are_missing(tmp_path: Path) -> None:
    found, words = counters(table_of(tmp_path, "Index,Host,A,B\n0,node1,1,x\n1,node2,,2.5\n"))
    assert words == ["Host"]
    assert {name: np.isnan(values).tolist() for name, values in found} == {
        "A": [False, True],
        "B": [True, False],
    }


def test_a_header_longer_than_the_beginning_lacks_its_last_names_only() -> None:
    names = [f"COUNTER_{i:05d}" for i in range(6000)]
    line = ",".join(["Dispatch_ID", *names]).encode()
    assert len(line) > HEAD_BYTES
    found = header_of(line[:HEAD_BYTES])
    assert found[0] == "Dispatch_ID"
    assert found[1:] == names[: len(found) - 1]
    assert len(found) > 4000


@pytest.mark.parametrize("beginning", [b"", b"\x00\x01,a\n", b"a\rb,c\n"])
def test_what_is_no_text_has_no_header(beginning: bytes) -> None:
    assert header_of(beginning) == []


def test_the_nth_of_equal_rows_is_the_nth() -> None:
    left = pd.DataFrame({"name": ["f", "g", "f", "h"], "grid": [1, 1, 1, None]})
    right = pd.DataFrame({"name": ["h", "f", "f", "f", "g"], "grid": [None, 1, 1, 1, 2]})
    assert positions(left, right).tolist() == [1, -1, 2, 0]


def test_nothing_is_nowhere() -> None:
    some = pd.DataFrame({"name": ["f"]})
    assert positions(some, some.iloc[:0]).tolist() == [-1]
    assert positions(some.iloc[:0], some).tolist() == []


def test_a_file_larger_than_allowed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("Index\n1\n2\n", encoding="utf-8")
    with pytest.raises(DataError, match="raise the limit"):
        read_table(DataFile(path, "t.csv", True), Options(max_bytes=4))
