"""Inputs of Extra-P as curves, in each of its formats, against medians by hand."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from flopcast.errors import DataError
from flopcast.scaling.curves import read_curves

TEXT = """# runs of a solver
PARAMETER p
POINTS ( 8 )
POINTS ( 16 ) ( 32 )

REGION main->solve
METRIC time
DATA 4.0 5.0 4.5
DATA 2.5 2.0
DATA 1.25
METRIC visits
DATA 1
DATA 1
DATA 1
"""
TWO = """PARAMETER n
PARAMETER nodes
POINTS ((100) (1)) ((100) (2)) ((200) (1)) ((200) (2))
REGION solve
METRIC runtime
DATA 8
DATA 4
DATA 16
DATA 8
"""
NEW = {
    "parameters": ["p"],
    "measurements": {
        "solve": {
            "time": [{"point": [16], "values": [2.0, 2.5]}, {"point": [8], "values": [4.5]}],
            "bytes": [{"point": [8], "values": [1]}],
        }
    },
}
OLD: dict[str, Any] = {
    "callpaths": [{"id": 1, "name": "solve"}],
    "metrics": [{"id": 1, "name": "time"}],
    "parameters": [{"id": 1, "name": "p"}],
    "coordinates": [
        {"id": 1, "parameter_value_pairs": [{"parameter_id": 1, "parameter_value": 8}]},
        {"id": 2, "parameter_value_pairs": [{"parameter_id": 1, "parameter_value": 16}]},
    ],
    "measurements": [
        {"id": 1, "callpath_id": 1, "coordinate_id": 1, "metric_id": 1, "value": 4.0},
        {"id": 2, "callpath_id": 1, "coordinate_id": 1, "metric_id": 1, "value": 5.0},
        {"id": 3, "callpath_id": 1, "coordinate_id": 2, "metric_id": 1, "value": 2.25},
    ],
}
LINES = """{"params": {"p": 8}, "value": [4.0, 5.0], "callpath": "solve", "metric": "time"}
{"params": {"p": 16}, "value": 2.25, "callpath": "solve", "metric": "time"}
"""
TALPAS = """{"parameters":{"p":8};"metric":"time";"callpath":"solve";"value":4.5}
{"parameters":{"p":16};"metric":"time";"callpath":"solve";"value":2.25}
"""
SAVED = {
    "Extra-P": "4.2.5",
    "parameters": ["p"],
    "measurements": {
        "solve": {
            "time": [{"coordinate": [8], "median": 4.5}, {"coordinate": [16], "median": 2.25}]
        }
    },
}


def written(folder: Path, content: str) -> Path:
    path = folder / "input.txt"
    path.write_text(content)
    return path


def test_the_text_format(tmp_path: Path) -> None:
    table = read_curves(written(tmp_path, TEXT))
    (curve,) = table.curves
    assert (curve.benchmark, curve.unit, curve.scenario) == ("main->solve", "p", "strong")
    assert curve.sizes.tolist() == [8, 16, 32]
    assert curve.performance.tolist() == pytest.approx([1 / 4.5, 1 / 2.25, 1 / 1.25])
    codes = {note.code: note.values for note in table.notes}
    assert codes["extrap-metrics-left-out"]["metrics"] == ("visits",)
    assert "extrap-performance-of-times" in codes


def test_words_of_the_text_format_may_be_parted_by_tabs(tmp_path: Path) -> None:
    tabs = TEXT.replace("PARAMETER p", "PARAMETER\tp").replace("POINTS (", "POINTS\t(")
    (curve,) = read_curves(written(tmp_path, tabs.replace("DATA ", "DATA\t"))).curves
    assert (curve.unit, curve.sizes.tolist()) == ("p", [8, 16, 32])


def test_in_weak_scaling_the_work_grows_with_the_size(tmp_path: Path) -> None:
    (curve,) = read_curves(written(tmp_path, TEXT), scenario="weak").curves
    assert curve.performance.tolist() == pytest.approx([8 / 4.5, 16 / 2.25, 32 / 1.25])


def test_other_parameters_are_part_of_the_benchmark(tmp_path: Path) -> None:
    curves = {one.benchmark: one for one in read_curves(written(tmp_path, TWO)).curves}
    assert sorted(curves) == ["solve, n=100", "solve, n=200"]
    assert curves["solve, n=200"].performance.tolist() == [1 / 16, 1 / 8]
    path = written(tmp_path, TWO.replace("nodes", "q"))
    with pytest.raises(DataError, match="which of the parameters n, q is the size"):
        read_curves(path)
    renamed = {one.benchmark: one for one in read_curves(path, rename={"n": "size"}).curves}
    assert renamed["solve, q=2"].sizes.tolist() == [100, 200]


@pytest.mark.parametrize("content", [json.dumps(NEW), json.dumps(OLD), LINES, TALPAS])
def test_formats_of_json(tmp_path: Path, content: str) -> None:
    (curve,) = read_curves(written(tmp_path, content)).curves
    assert (curve.benchmark, curve.sizes.tolist()) == ("solve", [8, 16])
    assert curve.performance.tolist() == pytest.approx([1 / 4.5, 1 / 2.25])


def test_a_saved_experiment(tmp_path: Path) -> None:
    path = tmp_path / "run.extra-p"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("experiment.json", json.dumps(SAVED))
    (curve,) = read_curves(path).curves
    assert curve.performance.tolist() == pytest.approx([1 / 4.5, 1 / 2.25])


def test_a_metric_of_another_name_is_said_to_be_a_time(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT.replace("METRIC time", "METRIC metr"))
    with pytest.raises(DataError, match=r"no metric is a time.*rename metr=time"):
        read_curves(path)
    (curve,) = read_curves(path, rename={"metr": "time"}).curves
    assert curve.performance.tolist()[2] == 1 / 1.25
    (curve,) = read_curves(path, rename={"metr": "performance"}).curves
    assert curve.performance.tolist()[2] == 1.25


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (TEXT.replace("DATA 1.25\n", "DATA 1.25\nDATA 9\n"), "input.txt:11: a line of data for no"),
        ("PARAMETER p\nPOINTS 8 16\n", "holds no measurement"),
        (json.dumps({"parameters": ["p"], "measurements": {"a": {"time": [{"point": [1, 2]}]}}}), "is no input"),
        (LINES.replace('"value": 2.25', '"value": "x"'), "input.txt:2"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_line(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        read_curves(written(tmp_path, content))
    assert problem in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
