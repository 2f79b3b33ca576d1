"""Power of serving learnt from measured joules: constants come back, and the shipped ones are those of the data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.instinct_runs import TABLE, energies
from flopcast.benchmarks.serving_energy import Learnt, learn, left_out, measured, with_times
from flopcast.tests.benchmarks.test_instinct_runs import RUN, written
from flopcast.workloads.serving_energy import IDLE, MEMORY, PRODUCTS, REACH

ENERGY = RUN | {
    "engine_version": "0.1.0",
    "kv_precision": "fp8",
    "energy_j_per_output_token": 1.0,
    "total_tok_s_per_gpu": 1000.0,
}
TRUTH = Learnt(0.2, 2.0, 15.0, {"CDNA3": 1.25, "CDNA4": 0.8})


def made_up(seed: int = 0) -> pd.DataFrame:
    """Return settings that draw power by the law, one in twenty of them far more."""
    rng = np.random.default_rng(seed)
    memory = rng.uniform(0.02, 0.6, 200)
    products = rng.uniform(0.0, 0.1, 200)
    rows = pd.DataFrame(
        {
            "arch": np.repeat(["CDNA3", "CDNA4"], 100),
            "model": np.tile(["a", "b", "c", "d"], 50),
            "memory_measured": memory,
            "products_measured": products,
            "memory_forecast": memory,
            "products_forecast": products,
            "served_measured": 100.0,
            "served_forecast": 80.0,
            "trusted": True,
        }
    )
    noise = np.exp(rng.normal(0.0, 0.02, 200))
    share = TRUTH.share(rows, "measured") * noise
    return rows.assign(share=np.where(np.arange(200) % 20 == 0, 2.0 * share, share))


def test_the_constants_of_the_law_come_back() -> None:
    learnt = learn(made_up())
    assert learnt.idle == pytest.approx(TRUTH.idle, rel=0.15)
    assert learnt.products / learnt.memory == pytest.approx(7.5, rel=0.1)
    reaches = learnt.reach["CDNA3"] / learnt.reach["CDNA4"]
    assert reaches == pytest.approx(1.25 / 0.8, rel=0.05)


def test_what_is_forecast_of_a_model_left_out_holds_the_error_of_the_throughput() -> None:
    missed = left_out(made_up(), "model")
    assert np.abs(missed["power"]).median() < 0.03
    # a fourth fewer tokens a second at the same power are a fourth more joules a token
    assert (missed["joules"] - missed["power"]).to_numpy() == pytest.approx(np.log(1.25))


def test_power_is_joules_times_the_tokens_of_answers(tmp_path: Path) -> None:
    row = ENERGY | {"energy_j_per_output_token": 2.0, "total_tok_s_per_gpu": 900.0}
    row |= {"input_len": 2048, "output_len": 1024}
    drafted = row | {"speculative": "mtp"}
    unmeasured = row | {"energy_j_per_output_token": np.nan}
    written(tmp_path, TABLE, [row, drafted, unmeasured])
    (found,) = energies(tmp_path).to_dict("records")
    assert found["tokens_per_s_per_gpu"] == pytest.approx(300.0)
    assert found["power_w"] == pytest.approx(600.0)


def test_a_campaign_mostly_above_the_board_power_is_not_trusted(tmp_path: Path) -> None:
    hot = ENERGY | {"model": "gptoss120b", "energy_j_per_output_token": 4.0}
    cool = hot | {"energy_j_per_output_token": 1.0}
    written(tmp_path, TABLE, [ENERGY, hot, hot | {"concurrency": 32}, cool])
    found = measured(tmp_path)
    assert found["above"].tolist() == [False, True, True, False]
    assert found["trusted"].tolist() == [True, False, False, False]


def test_shipped_constants_are_those_of_the_measured_joules(shared_data: Path) -> None:
    if not (shared_data / TABLE).is_file():
        pytest.skip(f"{TABLE} is not there")
    rows = with_times(measured(shared_data))
    learnt = learn(rows[rows["trusted"]])
    shipped = (IDLE, MEMORY, PRODUCTS)
    assert (learnt.idle, learnt.memory, learnt.products) == pytest.approx(shipped, rel=5e-3)
    assert learnt.reach == pytest.approx(dict(REACH.by), rel=5e-3)
    missed = left_out(rows, "model")
    assert np.abs(np.expm1(missed["power"])).mean() < 0.15
    assert np.abs(np.expm1(missed.loc[rows["trusted"], "joules"])).mean() < 0.18
