"""Roofline times, scaling laws and bound classes."""

from __future__ import annotations

import pandas as pd
import pytest

from flopcast.errors import NotPublishedError
from flopcast.hardware import GPU
from flopcast.laws import rates
from flopcast.laws.applied import size
from flopcast.laws.bounds import bound
from flopcast.laws.computation import ROOFLINE
from flopcast.operators.operators import work_of

SLOW = GPU(
    name="slow", cus=10, peaks={"bf16_matrix": 100.0, "fp32_vector": 10.0}, memory_bw_gbs=1000.0
)
FAST = GPU(
    name="fast", cus=20, peaks={"bf16_matrix": 400.0, "fp32_vector": 20.0}, memory_bw_gbs=3000.0
)
NO_PEAK = GPU(name="secret", memory_bw_gbs=1000.0)


def rows(**columns: object) -> pd.DataFrame:
    return pd.DataFrame(
        {"op": "gemm", "dtype_a": "bf16", "m": [1000.0], "n": 1000.0, "k": 1000.0} | columns
    )


MIXED = pd.concat(
    [rows(), pd.DataFrame({"op": ["add"], "dtype_a": "bf16", "rows": 1000.0, "cols": 1000.0})]
)


def test_times_are_in_microseconds():
    work = work_of(MIXED)
    assert rates.compute_us(work, SLOW) == pytest.approx([2e9 / 100e12 * 1e6, 1e6 / 10e12 * 1e6])
    assert rates.memory_us(work, SLOW) == pytest.approx([6e6 / 1000e9 * 1e6] * 2)
    assert ROOFLINE(work, SLOW) == pytest.approx([20, 6])


def test_a_missing_peak_is_an_error_with_advice_only_for_rows_that_need_it():
    with pytest.raises(NotPublishedError, match="secret"):
        rates.compute_us(work_of(rows()), NO_PEAK)
    vector_only = GPU(name="vector", peaks={"fp32_vector": 1.0}, memory_bw_gbs=10.0)
    assert len(rates.compute_us(work_of(MIXED.iloc[[1]]), vector_only)) == 1
    with pytest.raises(NotPublishedError, match="bf16_matrix"):
        rates.compute_us(work_of(MIXED), vector_only)


def test_what_stands_for_the_size_of_a_row():
    work = work_of(MIXED)
    assert size("roofline", work, SLOW).tolist() == ROOFLINE(work, SLOW).tolist()
    assert size("memory", work, NO_PEAK).tolist() == pytest.approx([6, 6])
    assert size("work-items", work, NO_PEAK).tolist() == [1e6, 1e6]
    assert size("constant", work, NO_PEAK).tolist() == [1, 1]


def test_bound_classes():
    frame = rows(m=[1000.0, 16.0, 1.0], n=[1000.0, 4000.0, 16.0], k=[1000.0, 4000.0, 16.0])
    work = work_of(frame)
    assert bound(work, SLOW).tolist() == ["compute", "memory", "launch"]
    assert bound(work, SLOW, floor_us=30).tolist() == ["launch", "memory", "launch"]
    assert bound(work, NO_PEAK).tolist() == ["unknown"] * 3


def test_weights_of_four_bits_run_at_the_rate_of_their_activations():
    work = work_of(rows(dtype_b="int4"))
    assert rates.peaks(work, SLOW).tolist() == [100]
