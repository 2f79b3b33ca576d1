"""Roofline times, scaling laws and bound classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import NotPublishedError
from flopcast.features import roofline
from flopcast.features.ops import work_of
from flopcast.hardware import GPU

SLOW = GPU(name="slow", cus=10, peaks={"bf16_matrix": 100.0, "fp32_vector": 10.0}, memory_bw_gbs=1000.0)
FAST = GPU(name="fast", cus=20, peaks={"bf16_matrix": 400.0, "fp32_vector": 20.0}, memory_bw_gbs=3000.0)
NO_PEAK = GPU(name="secret", memory_bw_gbs=1000.0)


def rows(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"op": "gemm", "dtype_a": "bf16", "m": [1000.0], "n": 1000.0, "k": 1000.0} | columns)


MIXED = pd.concat([rows(), pd.DataFrame({"op": ["add"], "dtype_a": "bf16", "rows": 1000.0, "cols": 1000.0})])


def test_times_are_in_microseconds():
    work = work_of(MIXED)
    assert roofline.compute_us(work, SLOW) == pytest.approx([2e9 / 100e12 * 1e6, 1e6 / 10e12 * 1e6])
    assert roofline.memory_us(work, SLOW) == pytest.approx([6e6 / 1000e9 * 1e6] * 2)
    assert roofline.roofline_us(work, SLOW) == pytest.approx([20, 6])
    measured = np.array([40.0, 12.0])
    assert roofline.hardware_efficiency(work, measured, SLOW) == pytest.approx([0.5, 0.1 / 12])
    assert roofline.bandwidth_efficiency(work, measured, SLOW) == pytest.approx([6 / 40, 0.5])


def test_laws_by_hand():
    laws, notes = roofline.laws(work_of(MIXED), np.array([100.0, 30.0]), SLOW, FAST)
    assert laws["FLOPS scaling"].tolist() == pytest.approx([25, 15])
    assert laws["bandwidth scaling"].tolist() == pytest.approx([100 / 3, 10])
    assert laws["roofline scaling"].tolist() == pytest.approx([100 * 5 / 20, 30 * 2 / 6])
    assert notes == {}


def test_laws_to_the_same_device_return_the_time():
    laws, _ = roofline.laws(work_of(MIXED), np.array([7.0, 3.0]), SLOW, SLOW)
    assert np.allclose(laws, [[7.0] * 3, [3.0] * 3])


def test_a_missing_peak_is_an_error_with_advice_only_for_rows_that_need_it():
    with pytest.raises(NotPublishedError, match="of secret is not published: give it in a TOML file"):
        roofline.compute_us(work_of(rows()), NO_PEAK)
    vector_only = GPU(name="vector", peaks={"fp32_vector": 1.0}, memory_bw_gbs=10.0)
    assert len(roofline.compute_us(work_of(MIXED.iloc[[1]]), vector_only)) == 1
    with pytest.raises(NotPublishedError, match="bf16_matrix"):
        roofline.compute_us(work_of(MIXED), vector_only)


def test_a_law_without_its_figure_is_missing_not_zero_and_says_why():
    vector_only = GPU(name="vector", peaks={"fp32_vector": 10.0}, memory_bw_gbs=1000.0)
    laws, notes = roofline.laws(work_of(MIXED), np.array([100.0, 30.0]), vector_only, FAST)
    assert np.isnan(laws["FLOPS scaling"][0])
    assert laws["FLOPS scaling"][1] == pytest.approx(15)
    assert laws["bandwidth scaling"].tolist() == pytest.approx([100 / 3, 10])
    assert set(notes) == {"FLOPS scaling", "roofline scaling"}
    assert "bf16_matrix" in notes["FLOPS scaling"]
    assert "vector" in notes["FLOPS scaling"]


def test_bound_classes():
    frame = rows(m=[1000.0, 16.0, 1.0], n=[1000.0, 4000.0, 16.0], k=[1000.0, 4000.0, 16.0])
    work = work_of(frame)
    assert roofline.bound(work, SLOW).tolist() == ["compute", "memory", "launch"]
    assert roofline.bound(work, SLOW, floor_us=30).tolist() == ["launch", "memory", "launch"]
    assert roofline.bound(work, NO_PEAK).tolist() == ["unknown"] * 3


def test_weights_of_four_bits_run_at_the_rate_of_their_activations():
    work = work_of(rows(dtype_b="int4"))
    assert roofline.peaks(work, SLOW).tolist() == [100]
