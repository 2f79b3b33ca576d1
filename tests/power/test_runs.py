from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.power.runs import (
    OTHER_TIME,
    TOO_FEW,
    covered_share,
    golden_runs,
    group_runs,
    readings_of_interest,
)


def executions(
    times_us: list[list[float]], *, gap_us: float = 1, pause_us: float = 5000
) -> pd.DataFrame:
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


def test_one_run_alone_shows_no_pause() -> None:
    with pytest.raises(DataError, match="runs"):
        group_runs(executions([[100, 100, 100]]))


def test_runs_and_numbers_given_are_kept() -> None:
    rows = group_runs(
        executions([[100, 100], [100]]).assign(run=["b", "b", "a"], execution=[4, 5, 4])
    )
    assert (rows["run"].tolist(), rows["execution"].tolist()) == (["b", "b", "a"], [4, 5, 4])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"run": ["a", "b", "a"]}, "comes back after another"),
        ({"run": ["a", "a", None]}, "an execution has no run"),
        ({"run": "a", "execution": [1, 2, 2]}, "execution 2 of gemm"),
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
    assert found.table.loc[6].to_dict() == {
        "run": 6,
        "time_us": 150.0,
        "golden": False,
        "reason": OTHER_TIME,
    }
    assert (found.margin, found.kernel_us) == (0.05, 100)
    assert not found.margin_assumed
    everything = golden_runs(rows, margin=math.inf)
    assert (len(everything.kept), everything.removed) == (8, {TOO_FEW: 1})


def test_no_run_reaches_the_execution_of_interest() -> None:
    with pytest.raises(DataError, match="kernel, the runs"):
        golden_runs(group_runs(executions([[100] * 3] * 2)))


def test_below_the_published_table_the_margin_of_its_first_row_is_taken_and_told() -> None:
    rows = group_runs(executions([[10.0] * 4] * 5 + [[10.4] * 4] * 2 + [[12.0] * 4]))
    found = golden_runs(rows)
    assert (found.margin, found.margin_assumed, len(found.kept)) == (0.05, True, 7)
    assert not golden_runs(rows, margin=0.01).margin_assumed


def three_executions() -> pd.DataFrame:
    rows = pd.DataFrame(
        {
            "start_ns": [1000, 2000, 9000],
            "end_ns": [1800, 3000, 9500],
            "kernel": "a",
            "run": [0, 0, 1],
        }
    )
    return group_runs(rows)


def test_readings_fall_into_three_executions() -> None:
    found = readings_of_interest(np.array([0, 1000, 1900, 2250, 9500, 9501]), three_executions())
    assert found["reading"].tolist() == [1, 3, 4]
    assert found["execution"].tolist() == [1, 2, 1]
    assert found["run"].tolist() == [0, 0, 1]
    assert found["time_us"].tolist() == [0, 0.25, 0.5]
    assert found["phase"].tolist() == [0, 0.25, 1]
    assert found["since_run_us"].tolist() == [0, 1.25, 0.5]
    assert found["execution_start_us"].tolist() == [0, 1, 0]


def test_the_share_of_a_window_that_is_covered() -> None:
    shares = covered_share(np.array([1000, 1400, 3000, 4000, 20_000]), three_executions(), 2000)
    assert shares == pytest.approx([0, 0.2, 0.9, 0.5, 0])
    assert covered_share(np.array([1000]), three_executions().head(0), 2000).tolist() == [0]


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
