from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.power.runs import covered_share, group_runs, readings_of_interest


def executions() -> pd.DataFrame:
    rows = pd.DataFrame({"start_ns": [1000, 2000, 9000], "end_ns": [1800, 3000, 9500], "kernel": "a", "run": [0, 0, 1]})
    return group_runs(rows)


def test_readings_fall_into_executions() -> None:
    found = readings_of_interest(np.array([0, 1000, 1900, 2250, 9500, 9501]), executions())
    assert found["reading"].tolist() == [1, 3, 4]
    assert found["execution"].tolist() == [1, 2, 1]
    assert found["run"].tolist() == [0, 0, 1]
    assert found["time_us"].tolist() == [0, 0.25, 0.5]
    assert found["phase"].tolist() == [0, 0.25, 1]
    assert found["since_run_us"].tolist() == [0, 1.25, 0.5]
    assert found["execution_start_us"].tolist() == [0, 1, 0]


def test_the_share_of_a_window_that_is_covered() -> None:
    shares = covered_share(np.array([1000, 1400, 3000, 4000, 20_000]), executions(), 2000)
    assert shares == pytest.approx([0, 0.2, 0.9, 0.5, 0])
    assert covered_share(np.array([1000]), executions().head(0), 2000).tolist() == [0]


def test_shares_agree_with_counting() -> None:
    rng = np.random.default_rng(0)
    edges = np.sort(rng.choice(5000, 20, replace=False)).reshape(-1, 2)
    rows = pd.DataFrame(edges, columns=["start_ns", "end_ns"])
    running = np.zeros(5000)
    for start, end in edges:
        running[start:end] = 1
    times = rng.integers(700, 5000, 50)
    expected = [running[time - 700 : time].mean() for time in times]
    assert covered_share(times, rows, 700) == pytest.approx(expected)
