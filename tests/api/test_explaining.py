"""Why one workload is predicted as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import flopcast as fc
from flopcast.tests.commands.running import call

GEMMS = {"m": (None, 64)}


@pytest.fixture
def run(additive: fc.Run) -> fc.Run:
    return additive


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    frame = fc.read(where=GEMMS).frame
    paired = frame[frame.duplicated(["m", "n", "k"], keep=False)]
    return paired[paired["device"] == "MI300X"].reset_index(drop=True)


def test_an_explanation_says_what_predict_says_and_its_parts_make_it(
    run: fc.Run, rows: pd.DataFrame
) -> None:
    predicted, found = run.predict(rows).iloc[2], run.explain(rows, row=3)
    answer = found.document().data
    for name in ("predicted", "lower", "upper"):
        assert answer[name] == pytest.approx(predicted[f"{name}_us"])
    assert sum(part.value for part in found.parts) == pytest.approx(found.found.alone)
    assert answer["laws"]["affine"] == pytest.approx(predicted["affine"])
    assert answer["host"] == rows["duration_us"].iloc[2]


def test_the_nearest_trained_row_of_a_trained_row_is_itself(
    run: fc.Run, rows: pd.DataFrame
) -> None:
    nearest = run.explain(rows, row=1).neighbours.iloc[0]
    assert nearest["apart"] == pytest.approx(1)
    assert nearest["group"] == "gemm {n:.0f}x{k:.0f}".format(**rows.iloc[0][["n", "k"]])


def test_what_lies_outside_stands_first_and_a_rule_answers_far_away(
    run: fc.Run, rows: pd.DataFrame
) -> None:
    far = rows.head(1).assign(m=rows["m"].max() * 64, duration_us=rows["duration_us"].max() * 64)
    found = run.explain(far)
    assert found.found.features["distance"].iloc[0] > 0
    assert found.found.answer["reasons"]
    assert found.found.features["distance"].is_monotonic_decreasing


def test_the_command_writes_a_page(run: fc.Run, rows: pd.DataFrame, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    rows.to_csv(tmp_path / "new.csv", index=False)
    asked = ["explain", str(tmp_path / "run"), str(tmp_path / "new.csv"), "--row"]
    done = call(*asked, "2", "--out", tmp_path / "why", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "why" / "explain.json").read_text(encoding="utf-8"))
    assert found == json.loads(done.stdout)
    assert found["predicted"] == pytest.approx(run.predict(rows)["predicted_us"].iloc[1])
    page = (tmp_path / "why" / "explain.html").read_text(encoding="utf-8")
    assert "--row 2" in page.partition("<footer>")[2]
    for wrong in (["0"], [str(len(rows) + 1)]):
        refused = call(*asked, *wrong)
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
