"""CSV of rocprofv3 by columns: any case, what is odd about lines, numbers and times."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.errors import DataError
from flopcast.readers.base import DataFile, Options
from flopcast.readers.rocprofv3_csv import CsvTable
from flopcast.traces.dispatches import LAST

HEADER = "Kernel_Name,Start_Timestamp,End_Timestamp,VGPR_Count"


def table(folder: Path, text: str | bytes, name: str = "run.csv") -> CsvTable:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return CsvTable(DataFile(file, name, True), Options())


def codes(found: CsvTable) -> dict[str, tuple[int, str]]:
    return {finding.code: (finding.count, finding.source) for finding in found.findings}


def test_columns_are_found_in_any_case_and_quoted_or_not(tmp_path: Path) -> None:
    found = table(tmp_path, 'KERNEL_name,"Vgpr_Count"\n"void f<1, 2>(float*)","16"\ng,8\n')
    assert list(found.words("kernel_name")) == ["void f<1, 2>(float*)", "g"]
    assert found.integers("arch_vgpr_count", "vgpr_count").tolist() == [16, 8]
    assert found.lines.tolist() == [2, 3]
    assert found.findings == []


def test_a_column_that_is_not_there_is_missing(tmp_path: Path) -> None:
    found = table(tmp_path, f"{HEADER}\nf,1,2,3\n")
    assert found.integers("sgpr_count").isna().all()
    assert list(found.words("guid")) == [""]
    assert not table(tmp_path, "Kernel_Name,Start_Timestamp\nf,1\n").timed


def test_other_delimiters_marks_and_empty_lines(tmp_path: Path) -> None:
    found = table(tmp_path, b"\xef\xbb\xbfKernel_Name;VGPR_Count\r\n\r\nf;1\r\n\r\ng;2\r\n")
    assert list(found.words("kernel_name")) == ["f", "g"]
    assert found.integers("vgpr_count").tolist() == [1, 2]
    assert found.lines.tolist() == [3, 5]


def test_lines_of_another_width_are_left_out_and_counted(tmp_path: Path) -> None:
    found = table(tmp_path, f"{HEADER}\nf,1,2,3\ng,1,2\nh,1,2,3,4\nk,5,6,7\nl,8")
    assert list(found.words("kernel_name")) == ["f", "k"]
    assert found.lines.tolist() == [2, 5]
    assert codes(found) == {"broken-lines": (3, "run.csv:3")}


def test_an_open_quote_costs_the_lines_it_swallows(tmp_path: Path) -> None:
    found = table(tmp_path, f'{HEADER}\nf,1,2,3\n"g,1,2,3\nh,1,2,3\n')
    assert list(found.words("kernel_name")) == ["f"]
    assert codes(found) == {"broken-lines": (2, "run.csv:3")}


def test_numbers_that_are_none_are_missing_and_reported(tmp_path: Path) -> None:
    found = table(tmp_path, f"{HEADER}\nf,1,2,x\ng,1,2,\nh,1,2,16.0\nk,1,2,99999999999999999999\n")
    assert found.integers("vgpr_count").isna().tolist() == [True, True, False, True]
    assert found.integers("vgpr_count").iloc[2] == 16
    assert codes(found)["unreadable-field"] == (2, "run.csv:2")  # an empty field is just not there


def test_real_numbers(tmp_path: Path) -> None:
    found = table(tmp_path, "A,B\n 1.5,1\n0.00000000e+00,\n,x\n")
    assert found.numbers("a").tolist()[:2] == [1.5, 0.0]
    assert found.findings == []
    assert found.numbers("b")[0] == 1.0
    assert codes(found) == {"unreadable-field": (1, "run.csv:4")}


def test_times_are_exact(tmp_path: Path) -> None:
    times = table(tmp_path, f"{HEADER}\nf,1550151853029637,1550151853042437,3\n").times()
    assert times.start.tolist() == [1550151853029637]
    assert times.end.tolist() == [1550151853042437]


def test_times_that_cannot_be_used_are_reported(tmp_path: Path) -> None:
    text = f"{HEADER}\nf,1,2,3\ng,,2,3\nh,8.1097E+14,8.1097E+14,3\nk,1,18446744073709551615,3\nl,1,nan,3\nm,1,1e400,3\n"
    found = table(tmp_path, text)
    times = found.times()
    assert times.readable.tolist() == [True, False, True, True, False, True]
    assert times.start[2] == times.end[2] == 810970000000000
    assert times.end[3] == LAST
    assert codes(found) == {
        "unreadable-times": (2, "run.csv:3"),
        "spoiled-timestamps": (2, "run.csv:4"),
        "clipped-time": (2, "run.csv:5"),
    }


def test_endless_digits(tmp_path: Path) -> None:
    found = table(tmp_path, f"{HEADER}\nf,{'9' * 5000},-{'9' * 5000},3\n")
    assert found.times().start.tolist() == [LAST]
    assert codes(found) == {"clipped-time": (1, "run.csv:2")}


def test_foreign_bytes_stay_visible(tmp_path: Path) -> None:
    assert list(table(tmp_path, b"Kernel_Name,A\nf\xff,1\n").words("kernel_name")) == ["f\\xff"]


@pytest.mark.parametrize("text", ["Kernel_Name,A", "Kernel_Name,A\n", "Kernel_Name,A\n\n\n"])
def test_a_header_alone_has_no_rows(tmp_path: Path, text: str) -> None:
    assert len(table(tmp_path, text)) == 0


@pytest.mark.parametrize("text", ["", "\n"])
def test_nothing_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"^run\.csv.*CSV"):
        table(tmp_path, text)
