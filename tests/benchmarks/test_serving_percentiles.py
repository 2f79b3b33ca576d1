"""Percentiles learnt from runs: coefficients come back, and the shipped constants are those of the data."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.serving_percentiles import learnt, percentile_of, stated, without_each
from flopcast.evaluation.metrics import NINETY_PERCENT
from flopcast.workloads.serving_model import TIMES
from flopcast.workloads.serving_percentiles import AMD_STATES, LEARNT, PERCENTILES


def test_coefficients_come_back_where_one_run_in_ten_is_far_off() -> None:
    rng = np.random.default_rng(0)
    traits = np.column_stack([np.ones(400), rng.uniform(0, 8, 400)])
    logs = traits @ [0.5, 0.25] + rng.normal(0, 0.05, 400)
    logs[::10] += 3.0
    assert learnt(traits, logs, np.ones(400)) == pytest.approx([0.5, 0.25], abs=0.03)


def test_what_is_left_out_is_not_learnt() -> None:
    traits = np.ones((4, 1))
    runs = pd.DataFrame({"model": ["a", "a", "b", "b"]})
    missed = without_each(runs, traits, np.array([0.0, 0.0, 1.0, 1.0]), np.ones(4), "model")
    assert missed == pytest.approx([-1.0, -1.0, 1.0, 1.0], abs=1e-3)


@pytest.mark.parametrize(("time", "percentile"), [*itertools.product(TIMES, PERCENTILES)])
def test_the_shipped_constants_are_those_of_the_data(
    time: str, percentile: str, shared_data: Path
) -> None:
    found = percentile_of(stated(shared_data), time, percentile)
    shipped = LEARNT[time, percentile]
    slopes = [shipped.start, shipped.requests, shipped.prompt, shipped.answer, shipped.amd]
    count = 4 if percentile == AMD_STATES else 5
    assert found.constants == pytest.approx(slopes[:count], abs=0.002)
    assert found.limit / NINETY_PERCENT == pytest.approx(shipped.spread, abs=0.002)
    for missed in found.missed.values():
        assert 0.85 <= np.mean(np.abs(missed) <= found.limit) <= 0.95
