"""The analytic laws of time, power and energy, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.hardware import GPU
from flopcast.laws.applied import OF_ONE, SCALING, laws_of_one, scaling_laws
from flopcast.operators.operators import work_of

PEAKS = {"bf16_matrix": 100.0, "fp32_vector": 10.0}
UNITS: dict[str, Any] = {"cus": 10, "boost_mhz": 1000}
SLOW = GPU(name="slow", peaks=PEAKS, memory_bw_gbs=1000.0, tdp_w=500.0, **UNITS)
FAST = GPU(
    name="fast",
    peaks={"bf16_matrix": 400.0, "fp32_vector": 20.0},
    memory_bw_gbs=3000.0,
    tdp_w=700.0,
    **UNITS,
)
WORK = work_of(
    pd.DataFrame({"op": ["gemm", "add"], "dtype_a": "bf16", "rows": 1000.0, "cols": 1000.0}).assign(
        m=1000.0, n=1000.0, k=1000.0
    )
)
HOST = np.array([100.0, 30.0])


def test_times_by_hand() -> None:
    laws, notes = scaling_laws("duration_us", WORK, HOST, SLOW, FAST)
    assert laws["FLOPS scaling"].tolist() == pytest.approx([25, 15])
    assert laws["bandwidth scaling"].tolist() == pytest.approx([100 / 3, 10])
    assert laws["roofline scaling"].tolist() == pytest.approx([100 * 5 / 20, 30 * 2 / 6])
    assert notes == {}


def test_power_scales_by_the_ratio_of_the_board_powers() -> None:
    laws, notes = scaling_laws("power_w", WORK, HOST, SLOW, FAST)
    assert laws.to_dict("list") == {"TDP scaling": pytest.approx([140, 42])}
    assert notes == {}


def test_energy_is_scaled_power_times_scaled_time() -> None:
    power_w, time_us = np.array([400.0, 250.0]), np.array([100.0, 30.0])
    energy, _ = scaling_laws("energy_j", WORK, power_w * time_us * 1e-6, SLOW, FAST)
    power, _ = scaling_laws("power_w", WORK, power_w, SLOW, FAST)
    times, _ = scaling_laws("duration_us", WORK, time_us, SLOW, FAST)
    assert list(energy) == [f"TDP x {law}" for law in times]
    for law in times:
        assert energy[f"TDP x {law}"].tolist() == pytest.approx(
            (power["TDP scaling"] * times[law] * 1e-6).tolist()
        )


@pytest.mark.parametrize("metric", SCALING)
def test_laws_to_the_same_device_return_what_was_measured(metric: str) -> None:
    laws, _ = scaling_laws(metric, WORK, HOST, SLOW, SLOW)
    for name in laws:
        assert laws[name].tolist() == pytest.approx(HOST.tolist())


def test_one_device_by_hand() -> None:
    assert laws_of_one("duration_us", WORK, SLOW)[0]["roofline"].tolist() == pytest.approx([20, 6])
    assert laws_of_one("power_w", WORK, SLOW)[0]["TDP"].tolist() == [500, 500]
    assert laws_of_one("energy_j", WORK, SLOW)[0]["TDP x roofline"].tolist() == pytest.approx(
        [0.01, 0.003]
    )
    assert SCALING.keys() == OF_ONE.keys()


def test_a_metric_without_laws_has_no_column() -> None:
    for laws, notes in (
        scaling_laws("x_mhz", WORK, HOST, SLOW, FAST),
        laws_of_one("x_mhz", WORK, FAST),
    ):
        assert laws.shape == (2, 0)
        assert notes == {}


def test_a_law_without_its_figure_is_missing_not_zero_and_says_why() -> None:
    vector_only = GPU(name="vector", peaks={"fp32_vector": 10.0}, memory_bw_gbs=1000.0)
    laws, notes = scaling_laws("duration_us", WORK, HOST, vector_only, FAST)
    assert np.isnan(laws["FLOPS scaling"][0])
    assert laws["FLOPS scaling"][1] == pytest.approx(15)
    assert laws["bandwidth scaling"].tolist() == pytest.approx([100 / 3, 10])
    assert set(notes) >= {"FLOPS scaling", "roofline scaling"}
    assert "bf16_matrix" in notes["FLOPS scaling"]
    assert "vector" in notes["FLOPS scaling"]
    why = "tdp_w (board power) of vector is not published"
    for metric in ("power_w", "energy_j"):
        for found, reasons in (
            scaling_laws(metric, WORK, HOST, SLOW, vector_only),
            laws_of_one(metric, WORK, vector_only),
        ):
            assert found.isna().all(axis=None)
            assert reasons == dict.fromkeys(found, why)
