from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.traces.cleaning.steps import PROTOCOL, select_steps

Table = Callable[..., pd.DataFrame]


def run(kernels: Table, lengths: list[int], slow: int = -1) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return steps of so many kernels of about 10 us, those of step `slow` of 30 us, after two launched outside."""
    step = np.repeat(np.arange(len(lengths)), lengths)
    usual = 10.0 + 0.01 * (step % 3)
    table = kernels(np.r_[10.0, 10.0, np.where(step == slow, 30.0, usual)], step=[pd.NA, pd.NA, *step])
    steps = pd.DataFrame({"step": np.arange(len(lengths)), "start_ns": 0, "duration_ns": 1})
    return table, steps


def test_first_last_partial_and_outlying_steps_are_left_out(kernels: Table) -> None:
    table, steps = run(kernels, [10, 10, 10, 8, 10, 10, 10, 10, 10, 10], slow=6)
    found = select_steps(table, steps)
    assert found.steps["reason"].tolist() == [
        "first step", "", "", "partial step", "", "", "outlying step", "", "", "last step",
    ]  # fmt: skip
    assert found.steps["activities"].tolist()[3] == 8
    assert found.steps["span_us"].tolist()[1] == pytest.approx(10 * 10.01 + 9)
    counts = pd.Series(found.reason).value_counts().to_dict()
    assert counts == {"": 60, "first step": 10, "last step": 10, "outlying step": 10, "partial step": 8,
                      "outside the steps": 2}  # fmt: skip
    assert found.notes == ("6 steps kept: repeat the run for 50 or more",)


def test_enough_steps_need_no_word(kernels: Table) -> None:
    table, steps = run(kernels, [3] * (PROTOCOL + 2))
    assert select_steps(table, steps).notes == ()


def test_of_few_steps_the_first_and_the_last_stay(kernels: Table) -> None:
    found = select_steps(*run(kernels, [10, 10, 5]))
    assert found.steps["reason"].tolist() == ["", "", "partial step"]
    assert "3 steps: too few to leave out the first and the last" in found.notes


def test_all_keeps_what_lies_outside_of_the_steps_too(kernels: Table) -> None:
    found = select_steps(*run(kernels, [10, 10, 10, 2, 10, 10]), "all")
    assert set(found.reason) == {""}


@pytest.mark.parametrize(("rule", "kept"), [("1:2", [1, 2]), ("4:", [4, 5]), (":0", [0]), ("3:3", [3])])
def test_a_range_keeps_its_steps_both_ends_included(kernels: Table, rule: str, kept: list[int]) -> None:
    table, steps = run(kernels, [10] * 6)
    found = select_steps(table, steps, rule)
    assert table["step"][found.reason == ""].unique().tolist() == kept
    assert set(found.reason) == {"", "step not asked for", "outside the steps"}


@pytest.mark.parametrize("rule", ["some", "3:1", "a:b", "1-2", ""])
def test_other_rules_are_refused(kernels: Table, rule: str) -> None:
    with pytest.raises(DataError, match="--steps must be stable, all or A:B"):
        select_steps(*run(kernels, [10]), rule)


def test_steps_that_are_not_there_are_refused(kernels: Table) -> None:
    table, steps = run(kernels, [10, 10])
    with pytest.raises(DataError, match="it has 0 to 1"):
        select_steps(table, steps, "5:9")
    with pytest.raises(DataError, match="no steps are recorded"):
        select_steps(table, steps.iloc[:0], "0:1")


def test_without_steps_everything_is_kept(kernels: Table) -> None:
    table, steps = run(kernels, [10, 10])
    found = select_steps(table, steps.iloc[:0])
    assert (set(found.reason), found.notes) == ({""}, ())
    outside = table.assign(step=pd.NA)
    assert set(select_steps(outside, steps).reason) == {""}
    assert select_steps(outside, steps).notes == ("no activity was launched in a recorded step: all are kept",)
