"""What to measure next: the command chooses a batch, writes it, and says what it cannot do."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

import flopcast as fc
from flopcast.api.checking import needed
from flopcast.errors import ParameterError
from flopcast.tests.commands import running

call = partial(running.call, "advise")


def host_rows(widths: range) -> pd.DataFrame:
    """Return products that the host has measured, of so many weight shapes."""
    shapes = pd.DataFrame(
        [(16 * m, 512 * n) for n in widths for m in (1, 4, 16, 64)], columns=["m", "n"]
    )
    shapes = shapes.assign(k=2048, op="gemm", dtype_a="bf16", device="MI300X")
    return shapes.assign(duration_us=10 + shapes[["m", "n", "k"]].prod(axis=1) / 2e7)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "few"
    host = host_rows(range(1, 8))
    noise = 1 + 0.02 * ((host.index % 5) - 2)
    target = host.assign(device="MI355X", duration_us=(5 + 0.6 * host["duration_us"]) * noise)
    pairs = pd.concat([host, target], ignore_index=True)
    fc.train(pairs, host="MI300X", target="MI355X", models=["Additive"], jobs=1).save(folder)
    return folder


@pytest.fixture
def candidates(tmp_path: Path) -> Path:
    host_rows(range(8, 20)).to_csv(tmp_path / "host.csv", index=False)
    return tmp_path / "host.csv"


def test_a_batch_of_new_groups_is_chosen_and_written(
    run: Path, candidates: Path, tmp_path: Path
) -> None:
    code, out, _ = call(run, candidates, "--rows", 5, "--json", "--out", tmp_path / "batch.csv")
    found, batch = json.loads(out), pd.read_csv(tmp_path / "batch.csv")
    assert code == 0
    assert found["candidates"] == 48
    assert len(batch) == 5
    assert batch["n"].nunique() >= 4  # groups before sizes of one
    again = call(run, candidates, "--rows", 5, "--json")[1]
    assert {**json.loads(again), "out": None} == {**found, "out": None}


def test_minutes_buy_as_many_rows_as_their_cost_allows(
    run: Path, candidates: Path, tmp_path: Path
) -> None:
    code, out, _ = call(
        run, candidates, "--budget", "1m", "--row-seconds", 20, "--out", tmp_path / "batch.csv"
    )
    assert (code, "--out" in out) == (0, False)
    assert len(pd.read_csv(tmp_path / "batch.csv")) == 3


def test_what_is_needed_is_reached_or_what_would_reach_it_is_said(
    run: Path, candidates: Path
) -> None:
    now = needed(run, 1e-6).now
    assert needed(run, 2 * now).told.code == "need-reached"
    parts = fc.load(run).selected["parts"]
    new_groups = parts.get("within") or parts["every"]
    # of the saved model's question, not of the easiest
    assert now == pytest.approx(new_groups["e_out"] / 100)
    [(rows, after)] = needed(run, 0.9 * now).ways
    trained = fc.load(run).metrics["data"]["n"]
    assert f"about {math.ceil(trained * (0.9 ** (-1 / 0.15) - 1)):,} rows" in rows
    assert after == 0.9 * now
    assert needed(run, 0.1 * now).ways == ()  # more than ten times the rows
    of_rows = fc.predict(run, candidates).half_width()
    short = needed(run, 0.9 * of_rows, candidates)
    assert (short.reached, short.told.code) == (False, "need-not-reached")
    assert short.now == of_rows
    assert all(after < of_rows for _, after in short.ways)
    assert needed(run, 1.1 * of_rows, candidates).reached
    code, out, _ = running.call("predict", run, candidates, "--need", "0.001", "--json")
    told = json.loads(out)["need"]
    assert (code, told["code"], told["need"]) == (0, "need-not-reached", 0.001)
    assert told["now"] == needed(run, 0.001, candidates).now  # one meaning in both doors
    with pytest.raises(ParameterError):
        needed(run, 0.0)


def test_without_a_host_it_is_chosen_of_shapes_alone(tmp_path: Path) -> None:
    alone = fc.train(host_rows(range(1, 8)), target="MI300X", models=["Additive"], jobs=1)
    shapes = host_rows(range(8, 10)).drop(columns=["duration_us", "device"])
    found = fc.advise(alone, pd.concat([shapes, shapes]), rows=100)
    assert len(found.batch) == len(shapes)
    assert "duration_us" not in found.batch
    assert fc.needed(alone, 1e-9, shapes).told.code == "need-not-reached"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [([], "--rows"), (["--rows", 0], "--rows"), (["--rows", 3, "--weight", "calls"], "--weight")],
)
def test_what_cannot_be_is_one_line(
    run: Path, candidates: Path, wrong: list[object], named: str
) -> None:
    code, _, errors = call(run, candidates, *wrong)
    assert code == 2
    assert named in errors
    assert "Traceback" not in errors


def test_candidates_that_cannot_be_predicted_say_why(run: Path, tmp_path: Path) -> None:
    host_rows(range(8, 10)).assign(dtype_a="int8").to_csv(tmp_path / "other.csv", index=False)
    code, _, errors = call(run, tmp_path / "other.csv", "--rows", 2)
    assert code == 2
    assert "int8" in errors


def test_candidates_that_are_all_measured_say_so(run: Path, tmp_path: Path) -> None:
    host = host_rows(range(8, 10))
    pd.concat([host, host.assign(device="MI355X")]).to_csv(tmp_path / "both.csv", index=False)
    code, _, errors = call(run, tmp_path / "both.csv", "--rows", 2)
    assert code == 2
    assert "all 8" in errors
    assert "MI355X" in errors


def test_repeats_among_the_shapes_of_a_run_without_a_host_are_one_candidate() -> None:
    rows = host_rows(range(1, 6)).assign(device="MI355X")
    alone = fc.train(rows, target="MI355X", models=["Additive"], jobs=1)
    others = host_rows(range(6, 8)).assign(device="MI355X")
    advice = fc.advise(alone, pd.concat([others, others], ignore_index=True), rows=3)
    assert len(advice.batch) == 3
    assert advice.summary["candidates"] == len(others)
    with pytest.raises(fc.FlopcastError, match="all 20 candidates are measured"):
        fc.advise(alone, rows, rows=3)  # which it was trained on


def test_workloads_that_the_run_was_trained_on_are_measured_already(run: Path) -> None:
    advice = fc.advise(run, host_rows(range(5, 10)), rows=4)
    assert advice.summary["measured_already"] == 12  # of widths 5, 6 and 7
    assert advice.summary["candidates"] == 8
    assert set(advice.table["n"]) <= {512 * 8, 512 * 9}
