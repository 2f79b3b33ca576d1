"""Speed-ups: the target's cost over host run, counters and the model's share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.datasets import DEFAULT_HOST, DEFAULT_TARGET
from flopcast.errors import ParameterError
from flopcast.evaluation.counter_choice import passes_of
from flopcast.evaluation.metrics import COST, accounting, speedup, with_target_cost
from flopcast.report.predictions import predictions_document
from flopcast.report.training import speedup_parts


def test_costs_solved_by_hand() -> None:
    times, told = accounting([120.0, 30.0, np.nan], [1e6, 2e6, 3e6], passes=2, model_s=6.0)
    assert times == pytest.approx([120 / (1 + 2 + 2), 30 / (2 + 4 + 2), np.nan], nan_ok=True)
    assert {name: told[name] for name in ("n", "without_cost", "passes")} == {
        "n": 2,
        "without_cost": 1,
        "passes": 2,
    }
    assert [told[name] for name in ("mean", "least", "most")] == [(24 + 3.75) / 2, 3.75, 24]
    assert [told[name] for name in ("target_s", "host_s", "counters_s", "model_s")] == [
        150,
        3,
        6,
        4,
    ]


def test_a_run_pays_from_as_many_predictions_as_training_costs_over_what_one_saves() -> None:
    told = accounting([120.0, 30.0], [1e6, 2e6], passes=2, model_s=6.0)[1]
    assert told["training_s"] == 150 + 3 + 6 + 6
    assert told["break_even"] == 3  # 165 s over (150 - 9) / 2
    slow = accounting([120.0, 30.0], [1e6, 2e6], passes=2, model_s=100.0)[1]
    # 259 s over (150 - 9) / 2: the training is paid once, not for each prediction
    assert slow["break_even"] == 4
    later = accounting([60.0, 60.0], None, passes=0, model_s=20.0, training_s=1000.0)[1]
    assert (later["training_s"], later["break_even"]) == (1000, 20)
    assert accounting([1.0], [2e6], passes=0, model_s=0.0)[1]["break_even"] is None
    (said, _) = speedup_parts({"speedup": later})
    assert "20 predictions" in str(said)


def test_without_a_host_nothing_is_run() -> None:
    times, told = accounting([10.0, 20.0], None, passes=3, model_s=10.0)
    assert times.tolist() == [2, 4]
    assert (told["host_s"], told["counters_s"], told["passes"]) == (0, 0, 0)
    assert speedup(12.0, 3.0) == 4


def test_passes_are_those_of_the_counters_used() -> None:
    assert passes_of(["log2.m", "host_us"]) == 0
    assert passes_of(["log2.m", "counter.SQ_WAVES"]) == 1
    assert passes_of([f"counter.SQ_{i}" for i in range(40)]) > 1


def test_the_cost_of_a_whole_workload_is_no_feature() -> None:
    rows = with_target_cost(
        pd.DataFrame({"op": "frame", "counter.sim_s": ["3.5", "", "-1"]}), "sim_s"
    )
    assert rows[COST].to_numpy() == pytest.approx([3.5, np.nan, np.nan], nan_ok=True)
    size = np.arange(1.0, 25.0)
    frames = pd.DataFrame(
        {"op": "frame", "device": "MI300X", "dtype_a": "fp32", "name": "a", "index": size}
    )
    frames = frames.assign(duration_us=100 * size, sim_s=size, triangles=size * 1000)
    run = fc.train(
        frames,
        target="MI300X",
        models=["OLS"],
        jobs=1,
        target_cost="sim_s",
        scheme="kfold",
        group="index",
    )
    assert run.metrics["speedup"]["n"] == len(frames)
    assert list(run.trained.recipe.columns) == ["counter.triangles"]


@pytest.mark.parametrize(
    ("column", "units", "seconds"),
    [
        ("duration_us", {}, 2e-6),
        ("sim_ms", {}, 2e-3),
        ("sim_s", {}, 2.0),
        ("sim", {}, 2.0),
        ("sim", {"sim": "ms"}, 2e-3),
    ],
)
def test_a_cost_has_the_unit_of_its_column(
    column: str, units: dict[str, str], seconds: float
) -> None:
    rows = with_target_cost(pd.DataFrame({"op": ["gemm"], column: [2.0]}), column, units)
    assert rows[COST].tolist() == pytest.approx([seconds])


def test_the_times_of_a_target_are_no_seconds() -> None:
    rows = fc.read(where={"m": (None, 64)}).frame
    devices = {"host": DEFAULT_HOST, "target": DEFAULT_TARGET}
    run = fc.train(rows, **devices, models=["OLS"], jobs=1, target_cost="duration_us")
    on_target = run.predictions.drop_duplicates("row")["observed"]
    assert run.metrics["speedup"]["target_s"] == pytest.approx(on_target.sum() / 1e6)
    found = fc.predict(run, rows, target_cost="duration_us")
    asked = rows[rows["device"].eq(DEFAULT_HOST)]
    assert found.summary["speedup"]["target_s"] == pytest.approx(asked["duration_us"].sum() / 1e6)


def test_an_energy_is_no_cost_in_time() -> None:
    with pytest.raises(ParameterError, match="target_cost"):
        with_target_cost(pd.DataFrame({"op": ["gemm"], "energy_j": [1.0]}), "energy_j")


@pytest.mark.parametrize("column", ["simulated", "op"])
def test_a_column_without_seconds_is_refused(column: str) -> None:
    with pytest.raises(ParameterError) as refused:
        with_target_cost(pd.DataFrame({"op": ["gemm"], "sim_s": [1.0]}), column)
    assert refused.value.parameter == "target_cost"


def test_nothing_is_said_where_no_cost_is_known() -> None:
    told = accounting([np.nan], [1.0], passes=0, model_s=1.0)[1]
    assert told == {"n": 0, "without_cost": 1}
    assert len(speedup_parts({"speedup": told})) == 1
    assert speedup_parts({}) == []


def test_train_and_predict_account_for_the_target(tmp_path: Path) -> None:
    rows = fc.read(where={"m": (None, 64)}).frame
    rows = rows.assign(sim_s=rows["duration_us"])
    devices = {"host": DEFAULT_HOST, "target": DEFAULT_TARGET}
    run = fc.train(rows, **devices, models=["OLS"], jobs=1, target_cost="sim_s")
    of_one = run.predictions.drop_duplicates("row")["speedup"]
    assert run.metrics["speedup"]["n"] == len(of_one)
    assert run.metrics["speedup"]["mean"] == pytest.approx(of_one.mean())
    assert not any("sim_s" in name for name in run.trained.recipe.columns)
    found = fc.predict(run, rows, target_cost="sim_s", out=tmp_path / "out.parquet")
    assert found.frame["speedup"].agg(["mean", "min", "max"]).tolist() == pytest.approx(
        [found.summary["speedup"][name] for name in ("mean", "least", "most")]
    )
    assert "speedup" in pd.read_parquet(tmp_path / "out.parquet")
    assert predictions_document(found.frame, found.summary).data["speedup"]["n"] == len(found.frame)
