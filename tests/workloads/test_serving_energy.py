"""Power and energy of serving: limits of the law, what follows from it for ways to serve, what is not known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.hardware import GPU, find
from flopcast.workloads import model_catalogue
from flopcast.workloads.deployments import Question, choose
from flopcast.workloads.quantities import Electricity
from flopcast.workloads.serving_energy import IDLE, Work, board_share, power_spread, power_w
from flopcast.workloads.serving_model import Served

MI355X, H200 = find("MI355X"), find("H200")


def times(rows: pd.DataFrame, gpu: GPU) -> Served:
    """Return times that are the same however many requests are under way."""
    same = np.ones(len(rows))
    return Served(100.0 * same, 10.0 * same, 1e-9 * same, 1e-9 * same)


def ways(gpu: GPU = MI355X, **fields: object) -> pd.DataFrame:
    asked = {"counts": (1, 2), "output_len": 101, "dtypes": ("bf16",), **fields}
    question = Question(model=model_catalogue.find("llama-3.1-8b"), gpus=(gpu,), **asked)  # type: ignore[arg-type]
    return choose(question, times).ways


def test_a_gpu_at_rest_draws_its_idle_share_and_none_more_than_its_board_power() -> None:
    memory, products = np.array([0.0, 0.1, 0.5, 1e3]), np.array([0.0, 0.01, 0.05, 1e3])
    share = board_share(memory, products, 1.0)
    assert share[0] == pytest.approx(IDLE)
    assert share[-1] == pytest.approx(1.0)
    assert (np.diff(share) > 0).all()


def test_shares_of_the_time_are_those_of_the_steps_that_the_tokens_take() -> None:
    step = Work(np.array([2.0]), np.array([1.0]), np.array([8.0]))
    # 800 tokens a second of 8 sequences are 100 steps, one every 10 ms
    memory, products = step.shares(np.array([800.0]))
    assert (memory[0], products[0]) == pytest.approx((0.2, 0.1))
    watts = power_w(step, np.array([800.0]), replace(MI355X, arch="unmeasured", tdp_w=1000.0))
    assert watts[0] == pytest.approx(1000.0 * board_share(memory, products, 1.0)[0])


def test_work_lies_between_that_of_the_numbers_of_requests_that_were_computed() -> None:
    step = Work(np.array([1.0, 3.0]), np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    between = step.at(np.array([1.0, 4.0]), np.array([0.5, 2.0, 4.0, 9.0]))
    assert between.memory_ms.tolist() == [1.0, 2.0, 3.0, 3.0]
    assert between.running.tolist() == [1.0, 2.5, 4.0, 4.0]


@pytest.mark.parametrize("rate", [None, 4.0])
def test_joules_of_a_token_are_power_over_tokens_and_cost_what_electricity_does(
    rate: float | None,
) -> None:
    found = ways(rate=rate, electricity=Electricity(0.36, "$"))
    joules = (found["power_w"] / found["tokens_per_s_per_gpu"]).to_numpy()
    assert found["joules_per_token"].to_numpy() == pytest.approx(joules, rel=0.02)
    # a kilowatt hour is 3.6 MJ: a million tokens of a joule each take 10/36 of one
    cost = 0.1 * found["joules_per_token"].to_numpy()
    assert found["electricity_per_million"].to_numpy() == pytest.approx(cost)
    for name in ("power_w", "joules_per_token", "electricity_per_million"):
        assert (found[f"{name}_lower"] < found[name]).all()
        # none is above what the board allows, where both are the same
        at_limit = found["power_w"].ge(0.99 * found["power_w"].max())
        assert (found[name] <= found[f"{name}_upper"]).all()
        assert (found[name] < found[f"{name}_upper"])[~at_limit].all()
    assert ways(rate=rate)["electricity_per_million"].isna().all()


def test_more_requests_draw_more_power_and_fewer_joules_a_token() -> None:
    found = ways(tp=(1,), counts=(1,)).set_index("concurrency")
    few, many = found.loc[1], found.loc[256]
    assert few["power_w"] < many["power_w"] <= 1400.0
    assert few["joules_per_token"] > many["joules_per_token"]


def test_hardly_any_requests_leave_the_gpus_at_rest() -> None:
    found = ways(rate=1e-3)
    assert found["power_w"].to_numpy() == pytest.approx(IDLE * 1400.0, rel=0.02)


def test_the_interval_of_power_ends_at_the_board_power_and_is_wider_where_none_was_measured() -> (
    None
):
    hot = ways(replace(H200, tdp_w=10.0), concurrency=(1024,))
    assert (hot["power_w_upper"] <= 10.0).all()
    assert power_spread(MI355X) < power_spread(find("MI300X"))
    assert power_spread(H200) < power_spread(find("A100 80GB SXM4")) < power_spread(find("MI300X"))


def test_power_is_not_known_where_the_board_power_is_not_published() -> None:
    found = ways(replace(MI355X, tdp_w=None))
    assert found[["power_w", "joules_per_token_upper"]].isna().all(axis=None)
    assert found["tokens_per_s_per_gpu"].notna().all()
