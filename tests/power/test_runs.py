from __future__ import annotations

import math

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.power.runs import OTHER_TIME, TOO_FEW, golden_runs, group_runs


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
    assert not found.margin_assumed
    everything = golden_runs(rows, margin=math.inf)
    assert (len(everything.kept), everything.removed) == (8, {TOO_FEW: 1})


def test_no_run_reaches_the_execution_of_interest() -> None:
    with pytest.raises(DataError, match="no run has execution 4 of the kernel, the runs have 3"):
        golden_runs(group_runs(executions([[100] * 3] * 2)))


def test_below_the_published_table_the_margin_of_its_first_row_is_taken_and_told() -> None:
    rows = group_runs(executions([[10.0] * 4] * 5 + [[10.4] * 4] * 2 + [[12.0] * 4]))
    found = golden_runs(rows)
    assert (found.margin, found.margin_assumed, len(found.kept)) == (0.05, True, 7)
    assert not golden_runs(rows, margin=0.01).margin_assumed
