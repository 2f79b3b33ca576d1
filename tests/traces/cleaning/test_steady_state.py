from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.remarks import remark
from flopcast.traces.cleaning.steady_state import PROTOCOL, select_steps, warm_up

Table = Callable[..., pd.DataFrame]


def run(kernels: Table, lengths: list[int], slow: int = -1) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return steps of so many kernels of about 10 us, those of step `slow` of 30 us, after two launched outside."""
    step = np.repeat(np.arange(len(lengths)), lengths)
    usual = 10.0 + 0.01 * (step % 3)
    table = kernels(
        np.r_[10.0, 10.0, np.where(step == slow, 30.0, usual)], step=[pd.NA, pd.NA, *step]
    )
    steps = pd.DataFrame({"step": np.arange(len(lengths)), "start_ns": 0, "duration_ns": 1})
    return table, steps


def test_first_last_partial_and_outlying_steps_are_left_out(kernels: Table) -> None:
    table, steps = run(kernels, [10, 10, 10, 8, 10, 10, 10, 10, 10, 10], slow=6)
    found = select_steps(table, steps)
    assert found.steps["reason"].tolist() == [
        "first-step", "", "", "partial-step", "", "", "outlying-step", "", "", "last-step",
    ]  # fmt: skip
    assert found.steps["activities"].tolist()[3] == 8
    assert found.steps["span_us"].tolist()[1] == pytest.approx(10 * 10.01 + 9)
    counts = pd.Series(found.reason).value_counts().to_dict()
    assert counts == {"": 60, "first-step": 10, "last-step": 10, "outlying-step": 10, "partial-step": 8,
                      "outside-steps": 2}  # fmt: skip
    assert found.notes == (remark("few-steps-kept", steps=6, wanted=PROTOCOL),)


def test_enough_steps_need_no_word(kernels: Table) -> None:
    table, steps = run(kernels, [3] * (PROTOCOL + 2))
    assert select_steps(table, steps).notes == ()


def test_of_few_steps_the_first_and_the_last_stay(kernels: Table) -> None:
    found = select_steps(*run(kernels, [10, 10, 5]))
    assert found.steps["reason"].tolist() == ["", "", "partial-step"]
    assert remark("too-few-steps-to-trim", steps=3) in found.notes


def test_all_keeps_what_lies_outside_of_the_steps_too(kernels: Table) -> None:
    found = select_steps(*run(kernels, [10, 10, 10, 2, 10, 10]), "all")
    assert set(found.reason) == {""}


@pytest.mark.parametrize(
    ("rule", "kept"), [("1:2", [1, 2]), ("4:", [4, 5]), (":0", [0]), ("3:3", [3])]
)
def test_a_range_keeps_its_steps_both_ends_included(
    kernels: Table, rule: str, kept: list[int]
) -> None:
    table, steps = run(kernels, [10] * 6)
    found = select_steps(table, steps, rule)
    assert table["step"][found.reason == ""].unique().tolist() == kept
    assert set(found.reason) == {"", "step-not-asked-for", "outside-steps"}


@pytest.mark.parametrize("rule", ["some", "3:1", "a:b", "1-2", ""])
def test_other_rules_are_refused(kernels: Table, rule: str) -> None:
    with pytest.raises(DataError, match=r"^steps"):
        select_steps(*run(kernels, [10]), rule)


def test_steps_that_are_not_there_are_refused(kernels: Table) -> None:
    table, steps = run(kernels, [10, 10])
    with pytest.raises(DataError, match="0 to 1"):
        select_steps(table, steps, "5:9")
    with pytest.raises(DataError, match="no steps"):
        select_steps(table, steps.iloc[:0], "0:1")


def test_without_steps_everything_is_kept(kernels: Table) -> None:
    table, steps = run(kernels, [10, 10])
    found = select_steps(table, steps.iloc[:0])
    assert (set(found.reason), found.notes) == ({""}, ())
    outside = table.assign(step=pd.NA)
    assert set(select_steps(outside, steps).reason) == {""}
    assert select_steps(outside, steps).notes == (remark("no-activity-in-steps"),)


def settling(rng: np.random.Generator, count: int, slow: int, outliers: float = 0.0) -> np.ndarray:
    """Return times of 10 us +- 2 %, the first of them falling from 20 us."""
    values = rng.normal(10.0, 0.2, count)
    values[:slow] += 10.0 * np.linspace(1.0, 0.2, slow)
    return np.where(rng.random(count) < outliers, 3.0 * values, values)


@pytest.mark.parametrize("outliers", [0.0, 0.05])
def test_the_slow_beginning_is_found_whatever_outliers_there_are(outliers: float) -> None:
    rng = np.random.default_rng(0)
    found = [warm_up(settling(rng, 200, 30, outliers)) for _ in range(50)]
    counts = [one.count for one in found]
    assert all(one.settled for one in found)
    assert min(counts) >= 25
    assert np.mean([25 <= count <= 40 for count in counts]) >= 0.9


@pytest.mark.no_cover
@pytest.mark.parametrize("count", [20, 50, 300])
def test_a_stationary_series_keeps_everything(count: int) -> None:
    rng = np.random.default_rng(count)
    cut = [warm_up(rng.lognormal(0.0, 0.2, count)).count > 0 for _ in range(60)]
    assert np.mean(cut) < 0.02


def test_a_series_that_changes_in_its_second_half_has_not_settled() -> None:
    values = np.random.default_rng(0).normal(10.0, 0.1, 100) + np.repeat([0.0, 2.0], [70, 30])
    found = warm_up(values)
    assert (found.count, found.settled) == (0, False)


def test_faster_at_first_is_warm_up_too() -> None:
    values = np.random.default_rng(0).normal(10.0, 0.1, 100) - np.repeat([2.0, 0.0], [20, 80])
    assert warm_up(values).count == 20


def test_less_than_a_tick_or_than_two_percent_is_no_warm_up() -> None:
    values = np.repeat([10.4, 10.0], [20, 80])
    assert warm_up(values, floor=0.3).count == 20
    assert warm_up(values, floor=0.5).count == 0
    assert warm_up(np.repeat([10.19, 10.0], [20, 80])).count == 0


def test_short_series_and_single_slow_calls_are_left_to_the_outlier_filter() -> None:
    assert warm_up([100.0] * 5 + [10.0] * 14).count == 0
    assert warm_up([100.0, *np.random.default_rng(0).normal(10.0, 0.1, 99)]).count == 0


def test_enough_is_kept() -> None:
    values = np.r_[np.linspace(30, 20, 10), np.full(10, 10.0) + np.arange(10) % 2]
    assert warm_up(values).count <= 10
    assert warm_up(values, least_kept=11).count == 0
