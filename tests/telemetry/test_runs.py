from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.telemetry.runs import OTHER_TIME, TOO_FEW, fullest_bin, fullest_bins, golden_runs, group_runs


def executions(times_us: list[list[float]], *, gap_us: float = 1, pause_us: float = 5000) -> pd.DataFrame:
    """Runs of executions of the given times."""
    rows, at = [], 0.0
    for run in times_us:
        for time in run:
            rows.append((round(1e3 * at), round(1e3 * (at + time)), "gemm"))
            at += time + gap_us
        at += pause_us
    return pd.DataFrame(rows, columns=["start_ns", "end_ns", "kernel"])


def test_runs_are_told_by_the_gaps() -> None:
    rows = group_runs(executions([[100, 100, 100], [100, 100], [100]]))
    assert rows["run"].tolist() == [0, 0, 0, 1, 1, 2]
    assert rows["execution"].tolist() == [1, 2, 3, 1, 2, 1]
    assert rows["run_start_ns"].nunique() == 3
    assert (rows["run_start_ns"] == rows.groupby("run")["start_ns"].transform("min")).all()


def test_a_pause_may_be_stated() -> None:
    rows = executions([[100, 100], [100, 100]], gap_us=50, pause_us=100)
    assert group_runs(rows, pause_us=60)["run"].tolist() == [0, 0, 1, 1]
    with pytest.raises(DataError, match="runs cannot be told apart by the gaps"):
        group_runs(executions([[100, 100, 100]]))


def test_runs_and_numbers_given_are_kept() -> None:
    rows = group_runs(executions([[100, 100], [100]]).assign(run=["b", "b", "a"], execution=[4, 5, 4]))
    assert (rows["run"].tolist(), rows["execution"].tolist()) == (["b", "b", "a"], [4, 5, 4])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"run": ["a", "b", "a"]}, "run a comes back after another run"),
        ({"run": ["a", "a", None]}, "an execution has no run"),
        ({"run": "a", "execution": [1, 2, 2]}, "execution 2 of gemm does not follow the one before in its run"),
    ],
)
def test_runs_that_cannot_be(columns: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        group_runs(executions([[100, 100, 100]]).assign(**columns))


def test_kernels_are_numbered_apart() -> None:
    rows = executions([[100] * 4] * 2).assign(kernel=["a", "b"] * 4)
    assert group_runs(rows)["execution"].tolist() == [1, 1, 2, 2] * 2


def test_golden_runs_are_counted_and_the_others_listed() -> None:
    warm = [130.0, 110, 103]
    rows = group_runs(executions([[*warm, 100]] * 6 + [[*warm, 150], [*warm, 99], warm]))
    found = golden_runs(rows)
    assert found.kept.tolist() == [0, 1, 2, 3, 4, 5, 7]
    assert found.removed == {OTHER_TIME: 1, TOO_FEW: 1}
    assert found.table.loc[6].to_dict() == {"run": 6, "time_us": 150.0, "golden": False, "reason": OTHER_TIME}
    assert (found.margin, found.kernel_us) == (0.05, 100)
    everything = golden_runs(rows, margin=math.inf)
    assert (len(everything.kept), everything.removed) == (8, {TOO_FEW: 1})


def test_no_run_reaches_the_execution_of_interest() -> None:
    with pytest.raises(DataError, match="no run has execution 4 of the kernel, the runs have 3"):
        golden_runs(group_runs(executions([[100] * 3] * 2)))


def test_the_fullest_bin_is_as_full_as_any() -> None:
    rng = np.random.default_rng(0)
    for margin in (0.02, 0.05):
        times = np.exp(rng.normal(0, 0.05, 100)) * np.where(rng.random(100) < 0.2, 1.5, 1)
        low, high = fullest_bin(times, margin)
        assert high / low == pytest.approx((1 + margin) / (1 - margin))
        most = max(((times >= t) & (times <= t * high / low)).sum() for t in times)
        assert ((times >= low) & (times <= high)).sum() >= most - math.sqrt(2 * most)


def test_the_middle_of_equally_full_bins_is_taken() -> None:
    times = np.linspace(90, 110, 101)
    low, high = fullest_bin(times, 0.02)
    assert (low + high) / 2 == pytest.approx(100, abs=1)


def test_weights_are_repeats() -> None:
    times = np.array([1.0, 1.01, 2.0, 2.01, 2.02])
    weights = np.array([[1, 1, 1, 1, 1], [5, 5, 0, 0, 1], [0, 0, 3, 0, 0]])
    low, _ = fullest_bins(times, weights, 0.05)
    repeated = [fullest_bin(np.repeat(times, one), 0.05)[0] for one in weights]
    assert low.tolist()[:2] == repeated[:2] == [2.0, 1.0]
    assert low[2] <= 2.0 <= low[2] * 1.05 / 0.95
