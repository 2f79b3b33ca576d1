"""Stamps as whole numbers and fractions, spoiled ones, missing ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.readers.base import DataFile, Options
from flopcast.readers.rocprof import Times, dispatch_columns, read_table, times_of


def times(folder: Path, *stamps: str) -> Times:
    path = folder / "t.csv"
    path.write_text(
        "\n".join(
            ["Kernel_Name,Start_Timestamp,End_Timestamp", *(f"k,{own}" for own in stamps), ""]
        )
    )
    found = times_of(read_table(DataFile(path, "t.csv", True), Options()))
    assert found is not None
    return found


def test_whole_stamps_are_exact(tmp_path: Path) -> None:
    found = times(tmp_path, "13386742234691895,13386742234700548", "9,4")
    assert found.start_ns.tolist() == [13386742234691895, 9]
    assert found.duration_ns.tolist() == [8653, -5]
    assert (found.sound, found.rounded_ns) == (True, 0.0)


def test_fractions_are_taken_into_the_difference_and_rounded_once(tmp_path: Path) -> None:
    found = times(tmp_path, "13386742234691895.25,13386742234691900.0", "10.5,12.25", "7,8")
    assert found.duration_ns.tolist() == [5, 2, 1]
    assert found.start_ns.tolist() == [13386742234691895, 10, 7]
    assert found.rounded_ns == pytest.approx(0.25)
    assert found.sound


def test_stamps_with_an_exponent_are_spoiled_and_stay_as_they_are(tmp_path: Path) -> None:
    found = times(tmp_path, "8.1E+14,8.1E+14", "5,6")
    assert found.spoiled.tolist() == [True, False]
    assert found.duration_ns.tolist() == [0, 1]
    assert found.start_ns.tolist() == [810_000_000_000_000, 5]
    assert not found.sound


def test_stamps_that_are_no_numbers_are_not_known(tmp_path: Path) -> None:
    found = times(tmp_path, "x,5", ",5", "1,nan", "1,inf", "1,3")
    assert found.readable.tolist() == [False, False, False, False, True]
    assert found.duration_ns.tolist() == [0, 0, 0, 0, 2]


def test_stamps_beyond_64_bits_do_not_wrap_around(tmp_path: Path) -> None:
    found = times(
        tmp_path,
        "5,18446744073709551615",
        "18446744073709551615,5",
        "-9000000000000000000,9000000000000000000",
    )
    assert found.readable.all()
    assert found.duration_ns.tolist()[0] > 10**18
    assert found.duration_ns.tolist()[1] < -(10**18)
    assert found.duration_ns.tolist()[2] > 10**18


def test_grids_are_products_in_workgroups_and_what_cannot_be_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    header = "Kernel_Name,Grid_Size,Workgroup_Size,Correlation_ID,Start_Timestamp,End_Timestamp"
    path.write_text(
        f"{header}\nf,1024,256,0,1,2\ng,1000,256,0,1,2\nh,64,0,0,1,2\n", encoding="utf-8"
    )
    table = read_table(DataFile(path, "t.csv", True), Options())
    found = times_of(table)
    assert found is not None
    columns = dispatch_columns(table, found)
    assert columns["grid_x"].fillna(-1).tolist() == [4, 4, -1]
    assert columns["block_x"].fillna(-1).tolist() == [256, 256, -1]
    assert columns["correlation"] is None
    assert columns["source"].tolist() == ["t.csv:2", "t.csv:3", "t.csv:4"]
