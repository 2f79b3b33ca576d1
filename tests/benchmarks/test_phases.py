"""Long traces made of one step, projected by phases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.phases import compared, long_trace, main, spread_of, summary
from flopcast.projection.phases import fold
from flopcast.tests.projection.oracles.traces import add, gemm, trace


def step() -> list[dict[str, object]]:
    rows = [
        add(24.0 * number, 20 + number % 3, size=1000 * (number % 2 + 1)) for number in range(8)
    ]
    return [gemm(-360, 350, called=-370), *rows]


def test_a_long_trace_is_its_step_over_and_over() -> None:
    one = trace(step())
    many = long_trace(one, 30, seed=3)
    assert len(many.dispatches) == 30 * 9
    assert len(many.calls) == 30 * 9
    assert not many.dispatches["correlation"].duplicated().any()
    begin = many.dispatches["start_ns"].to_numpy().reshape(30, 9)
    assert (begin[1:].min(axis=1) > begin[:-1].max(axis=1)).all()
    short = fold(many)
    assert short is not None
    assert [phase.repeats for phase in short.phases] == [30]
    pd.testing.assert_frame_equal(many.dispatches, long_trace(one, 30, seed=3).dispatches)


def test_durations_spread_as_those_of_one_kernel_do() -> None:
    assert spread_of(trace([gemm(0, 300)])) == 0
    one = trace(step())
    logs = np.log([20.0, 22.0, 21.0, 20.0]), np.log([21.0, 20.0, 22.0, 21.0])
    assert spread_of(one) == pytest.approx(np.median([values.std(ddof=1) for values in logs]))


def test_error_and_time_stand_beside_each_other() -> None:
    row = compared("made up, 30 steps", "MI300X", long_trace(trace(step()), 30))
    assert row["phases"] == 1
    assert abs(float(row["error %"])) < 1
    assert float(row["projected %"]) == pytest.approx(100 * 4 / 30)
    assert summary(pd.DataFrame([row])).startswith("1 of 1 traces have phases")


def test_without_the_data_nothing_is_measured(tmp_path: Path) -> None:
    assert main(["--data", str(tmp_path / "none")]) == 0
