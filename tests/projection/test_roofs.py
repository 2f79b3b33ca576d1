"""Rates of kernels, shares of the roofs over time, energy: against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.hardware import find
from flopcast.laws.board_power import IDLE, MOVING, PRODUCTS
from flopcast.projection.roofs import Power, counters, energy_of, measured_power, rates_of, strips
from flopcast.projection.whole_trace import Laws, Projection, project_trace
from flopcast.tests.projection.oracles.traces import add, all_reduce, gemm, trace

HOST, TARGET = find("MI300X"), find("MI355X")
FLOPS, BYTES, SENT = 2 * 4096**3, 3 * 2 * 4096**2, 2 * 7 / 8 * 2**26


def projected(rows: list[dict[str, object]], laws: Laws | None = None) -> Projection:
    return project_trace(trace(rows), HOST, TARGET, laws)


def test_rates_are_work_over_time_and_shares_are_those_of_the_published_figures() -> None:
    kept = Laws(compute="kept", communication="kept", gaps="kept")
    rates = rates_of(projected([gemm(0, 300), add(400, 20), all_reduce(500, 700)], kept))
    product, vector, collective = rates.to_dict("records")
    for side, gpu in (("measured", HOST), ("projected", TARGET)):
        assert product[f"{side}_tflops"] == pytest.approx(FLOPS / 300e-6 / 1e12)
        assert product[f"{side}_gbs"] == pytest.approx(BYTES / 300e-6 / 1e9)
        assert product[f"{side}_efficiency"] == pytest.approx(
            FLOPS / 300e-6 / 1e12 / gpu.peak_tflops("bf16")
        )
        assert vector[f"{side}_memory_share"] == pytest.approx(
            6e7 / 20e-6 / 1e9 / gpu.require("memory_bw_gbs")
        )
        assert collective[f"{side}_gbs"] == pytest.approx(SENT / 700e-6 / 1e9)
        assert collective[f"{side}_link_share"] == pytest.approx(
            SENT / 700e-6 / 1e9 / gpu.require("link_bw_gbs")
        )
        assert np.isnan(collective[f"{side}_efficiency"])
        assert np.isnan(product[f"{side}_link_share"])


def test_what_is_unknown_has_no_rate() -> None:
    rates = rates_of(
        projected([gemm(0, 300), {"start": 400, "duration": 50, "name": "mystery"}, add(500, 0.0)])
    )
    assert rates.iloc[1:].isna().all(axis=None)


def test_a_strip_has_the_mean_share_of_each_bin() -> None:
    projection = projected([gemm(0, 300, called=-100), add(500, 100, called=-90)])
    rates = rates_of(projection)
    measured, target = strips(projection, rates, bins=6)
    efficiency, memory = rates["measured_efficiency"], rates["measured_memory_share"]
    assert measured.shares["compute"] == pytest.approx([efficiency[0]] * 3 + [0, 0, efficiency[1]])
    assert measured.shares["memory"] == pytest.approx([memory[0]] * 3 + [0, 0, memory[1]])
    assert (measured.gpu, target.gpu, measured.step) == ("MI300X", "MI355X", None)
    used = np.diff(target.edges_us) @ target.shares["compute"] / 1e6  # seconds at the full peak
    assert used * TARGET.peak_tflops("bf16") * 1e12 == pytest.approx(FLOPS, rel=0.02)


def test_the_cpus_share_is_the_time_it_does_not_wait() -> None:
    rows = [add(100.0 * number, 5.0, size=1000) for number in range(10)]
    (measured, _) = strips(projected(rows), rates_of(projected(rows)), bins=4)
    assert measured.shares["CPU"][:-1] == pytest.approx(1.0)  # its work goes on between launches


def test_of_several_steps_the_one_of_median_time_is_shown() -> None:
    rows = [gemm(1000.0 * step, 100.0 + 50 * step, step=step) for step in range(3)]
    steps = pd.DataFrame(
        {"step": range(3), "start_ns": np.arange(3) * 10**6, "duration_ns": 900_000}
    )
    projection = project_trace(trace(rows, steps=steps), HOST, TARGET)
    measured, _ = strips(projection, rates_of(projection))
    assert measured.step == 1
    assert measured.edges_us[-1] - measured.edges_us[0] == pytest.approx(150)
    tracks = {
        name: (times, values) for name, times, values in counters(projection, rates_of(projection))
    }
    times, values = tracks["compute, % of its roof"]
    assert len(times) == len(values)
    assert values[-1] == 0.0
    assert times[-1] / 1e3 == pytest.approx(projection.projected_us)


def test_energy_is_board_power_by_what_runs_and_measured_power_where_it_is_given() -> None:
    projection = projected([gemm(0, 300, called=-50), add(400, 100, called=-40)])
    judged = energy_of(projection, (projection.projected_us,) * 2, 0.9)
    watts = HOST.require("tdp_w") * (300 * PRODUCTS + 100 * MOVING + 100 * IDLE) / 500
    assert judged["power_w"][0] == pytest.approx(watts)
    assert judged["energy_j"][0] == pytest.approx(watts * 500e-6)
    assert (judged["lower_j"] < judged["energy_j"]).all()
    assert judged["measured_share"].tolist() == [0, 0]
    power = {("MI300X", "gemm"): Power(700.0, 0.0), ("MI355X", "gemm"): Power(1000.0, 0.0)}
    told = energy_of(projection, (projection.projected_us,) * 2, 0.9, power)
    assert told["power_w"][0] == pytest.approx(
        (300 * 700 + HOST.require("tdp_w") * (100 * MOVING + 100 * IDLE)) / 500
    )
    assert told["measured_share"][0] == pytest.approx(0.75)
    one = energy_of(
        projection, (projection.projected_us,) * 2, 0.9, {("MI300X", "gemm"): Power(750.0, 0.0)}
    )
    # the same share of the board power on the other GPU
    assert one["power_w"][1] > judged["power_w"][1]


def test_power_is_the_median_of_a_class() -> None:
    rows = {"device": "MI300X", "op": "gemm", "duration_us": 100.0}
    table = pd.DataFrame(
        [rows | {"power_w": 600.0}, rows | {"energy_j": 0.07}, rows | {"power_w": 650.0}, rows]
    )
    assert measured_power(table)["MI300X", "gemm"].watts == pytest.approx(650)
    with pytest.raises(DataError, match="power_w"):
        measured_power(pd.DataFrame([rows]))
