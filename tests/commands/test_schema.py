"""``flopcast schema``: every operator with its columns, and templates that our own reader reads back."""

from __future__ import annotations

import json
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.laws.computation import ROOFLINE
from flopcast.laws.rates import where_published
from flopcast.operators.operators import OPS, example_of, work_of
from flopcast.tests.commands import running

run = partial(running.call, "schema")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> fc.Measurements:
    """Return what is read of the template of every operator."""
    path = tmp_path_factory.mktemp("schema") / "all.csv"
    assert run("--out", path).exit_code == 0
    return fc.read(path)


def test_a_template_of_every_operator_is_read_back_as_it_was_meant(found: fc.Measurements) -> None:
    assert found.frame["op"].tolist() == list(OPS)
    assert found.rejected.empty
    for row in found.frame.to_dict("records"):
        example = example_of(OPS[row["op"]])
        assert {name: row[name] for name in example} == example


@pytest.mark.parametrize("name", ["gemm.csv", "gemm.parquet"])
def test_a_template_of_one_operator_has_its_columns(tmp_path: Path, name: str) -> None:
    assert run("aten::mm", "-o", tmp_path / name).exit_code == 0
    read = pd.read_csv if name.endswith("csv") else pd.read_parquet
    assert read(tmp_path / name).columns.tolist() == fc.schema("gemm").index.tolist()
    assert len(fc.read(tmp_path / name).frame) == 1


def test_a_template_is_printed_as_it_is_written(tmp_path: Path) -> None:
    told = run("serving", "--template")
    assert run("serving", "--out", tmp_path / "runs.csv").exit_code == 0
    pd.testing.assert_frame_equal(
        pd.read_csv(StringIO(told.stdout)), pd.read_csv(tmp_path / "runs.csv")
    )
    assert run("serving", "--template", "--json").exit_code == 2


def test_the_examples_are_possible(found: fc.Measurements) -> None:
    frame = found.frame
    floor, _ = where_published(work_of(frame), partial(ROOFLINE, gpu=fc.gpu("MI300X")))
    assert len(frame) == len(OPS)
    assert (np.nan_to_num(floor) < frame["duration_us"]).all()


def test_machines_get_every_column_and_people_every_operator() -> None:
    found = json.loads(run("--json").stdout)["operators"]
    assert [one["op"] for one in found] == list(OPS)
    for one in found:
        assert [column["column"] for column in one["columns"]] == fc.schema(
            one["op"]
        ).index.tolist()
    shown = run().stdout
    assert all(name in shown for name in OPS)
    assert json.loads(run("gemm", "--json").stdout)["operators"] == found[:1]
    said = run("gem")
    assert (said.exit_code, said.stderr.count("\n")) == (2, 1)
