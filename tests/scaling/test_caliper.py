"""Folders of Caliper's profiles as curves: the slowest rank of each region, against sums by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flopcast.errors import DataError
from flopcast.scaling.curves import read_curves


def profile(ranks: int, times: list[list[Any]]) -> dict[str, Any]:
    return {
        "data": times,
        "columns": ["path", "time", "rank"],
        "column_metadata": [{"is_value": False}, {"is_value": True}, {"is_value": True}],
        "nodes": [
            {"label": "main", "column": "path"},
            {"label": "solve", "column": "path", "parent": 0},
        ],
        "mpi.world.size": str(ranks),
        "cali.version": "2.11",
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    profiles = {
        8: [[0, 1.0, 0], [1, 4.0, 0], [1, 4.5, 1], [None, 9.0, 0]],
        16: [[1, 2.25, 0], [1, 2.0, 1], [0, 0.5, 0]],
    }
    for ranks, times in profiles.items():
        (tmp_path / f"run{ranks}.json").write_text(json.dumps(profile(ranks, times)))
    (tmp_path / "notes.txt").write_text("nothing")
    return tmp_path


def test_each_region_is_a_benchmark_and_its_slowest_rank_counts(folder: Path) -> None:
    curves = {one.benchmark: one for one in read_curves(folder).curves}
    assert sorted(curves) == ["all", "main", "main/solve"]
    assert curves["main/solve"].sizes.tolist() == [8, 16]
    assert curves["main/solve"].performance.tolist() == [1 / 4.5, 1 / 2.25]
    assert curves["main"].performance.tolist() == [1.0, 2.0]
    assert curves["main"].unit == "mpi.world.size"


def test_the_user_says_which_value_is_the_size(folder: Path) -> None:
    for path in folder.glob("*.json"):
        path.write_text(path.read_text().replace("mpi.world.size", "sockets"))
    with pytest.raises(DataError, match="give rename NAME=size"):
        read_curves(folder)
    curve = read_curves(folder, rename={"sockets": "size"}).curves[0]
    assert curve.unit == "sockets"


def test_a_folder_without_profiles_and_a_damaged_one_are_one_line(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "run16.json").write_text((folder / "run16.json").read_text()[:-9])
    with pytest.raises(DataError, match=r"run16\.json: is no whole profile"):
        read_curves(folder)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="cali-query"):
        read_curves(empty)
