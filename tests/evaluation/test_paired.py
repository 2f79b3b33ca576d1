"""The paired comparison, against cases counted by hand and its own guarantee."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from flopcast.errors import DataError
from flopcast.evaluation.paired import (
    Estimate,
    estimated_difference,
    paired_difference,
    same_workloads,
)


def test_test_and_interval_are_scipy_s_where_groups_are_rows() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.gamma(2, 3, 11), rng.gamma(2, 2, 11)
    found = paired_difference(first, second, np.arange(11))
    assert found.difference < 0
    assert found.p_value == pytest.approx(stats.wilcoxon(np.log(first / second)).pvalue)
    interval = stats.ttest_1samp(second - first, 0).confidence_interval(0.95)
    assert (found.lower, found.upper) == pytest.approx((interval.low, interval.high))


def test_a_run_that_errs_more_in_every_group_is_told_apart_though_one_row_hides_it_in_the_mean() -> (
    None
):
    groups = np.repeat(np.arange(16), [156] + 15 * [18])
    first = np.random.default_rng(0).gamma(4, 2, len(groups))
    second = 1.5 * first
    second[-1] += 2e4
    found = paired_difference(first, second, groups)
    assert found.lower is not None
    assert found.lower < 0
    assert found.apart


def test_groups_that_contradict_the_mean_do_not_tell_runs_apart() -> None:
    groups = np.repeat(np.arange(16), [300] + 15 * [2])
    found = paired_difference(np.full(330, 10.0), np.where(groups == 0, 20.0, 9.0), groups)
    assert (found.difference > 0, found.apart) == (True, False)


def test_groups_too_few_for_ranks_are_held_to_the_t_of_their_logarithms() -> None:
    first, second = np.array([10.0, 12.0, 9.0, 11.0]), np.array([14.0, 18.0, 12.0, 17.0])
    found = paired_difference(first, second, np.arange(4))
    assert found.p_value == pytest.approx(stats.ttest_1samp(np.log(second / first), 0).pvalue)
    assert found.apart


def test_equal_errors_are_not_told_apart_and_a_clear_gain_is() -> None:
    rng = np.random.default_rng(1)
    groups, first = np.repeat(np.arange(20), 10), rng.gamma(4, 2, 200)
    same = paired_difference(first, first, groups)
    assert (same.difference, same.p_value, same.apart) == (0.0, 1.0, False)
    less = paired_difference(first, 0.6 * first, groups)
    assert less.apart
    assert less.upper is not None
    assert less.upper < 0


def test_rows_of_one_group_say_nothing_of_luck() -> None:
    found = paired_difference([1.0, 2.0], [0.0, 0.0], ["a", "a"])
    assert (found.lower, found.p_value, found.apart) == (None, None, False)


def test_the_test_keeps_its_level() -> None:
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(9), 5)
    shared = rng.normal(0, 2, (300, 9)).repeat(5, axis=1)  # rows of a group err together
    rejected = [
        paired_difference(10 + one, np.full(45, 10.0), groups).p_value < 0.05 for one in shared
    ]
    assert 0.01 < np.mean(rejected) < 0.09


def test_errors_that_two_estimates_make_alike_cancel_in_their_ratio() -> None:
    one, other = (
        Estimate(100.0, {"gemm": 0.2, "cpu": 0.03}),
        Estimate(50.0, {"gemm": 0.2, "cpu": 0.03}),
    )
    alike = estimated_difference(one, other, {"gemm", "cpu"}, 0.9)
    assert (alike.ratio_lower, alike.ratio_upper, alike.shared) == (0.5, 0.5, 1.0)
    assert alike.apart
    assert alike.upper - alike.difference == pytest.approx(
        1.6449 * 50 * np.hypot(0.2, 0.03), rel=1e-4
    )
    apart = estimated_difference(one, other, (), 0.9)
    assert np.log(apart.ratio_upper / apart.ratio) == pytest.approx(
        1.6449 * np.hypot(0.2, 0.03) * 2**0.5, rel=1e-4
    )
    assert apart.shared == 0
    half = estimated_difference(one, Estimate(50.0, {"gemm": 0.3}), {"gemm"}, 0.9)
    assert np.log(half.ratio / half.ratio_lower) == pytest.approx(
        1.6449 * np.hypot(0.1, 0.03), rel=1e-4
    )


def predicted(m: list[object], us: list[float], **more: object) -> pd.DataFrame:
    """Return a table of predictions of products."""
    return pd.DataFrame({"op": "gemm", "m": m, "target": "MI355X", "predicted_us": us} | more)


def pairs(first: pd.DataFrame, second: pd.DataFrame) -> list[tuple[float, float]]:
    sides = same_workloads(first, second, "predicted_us", ())
    return list(zip(*(side["predicted_us"] for side in sides), strict=True))


def test_rows_of_one_workload_are_paired_in_their_order_whatever_a_file_made_of_numbers() -> None:
    first = predicted([64, 128, 64, 256, 512], [1.0, 2.0, 3.0, 4.0, np.nan])
    second = predicted(["128.0", "64", "7", "6.4e1"], [20.0, 10.0, 70.0, 30.0])
    assert pairs(first, second) == [(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]
    assert pairs(second, first) == [(20.0, 2.0), (10.0, 1.0), (30.0, 3.0)]


def test_rows_are_paired_by_their_source_unless_that_pairs_none() -> None:
    first = predicted([64, 64], [1.0, 2.0], source=["a.csv:2", "a.csv:3"])
    turned = first.iloc[::-1]
    assert pairs(first, turned) == [(1.0, 1.0), (2.0, 2.0)]
    assert pairs(first, turned.assign(source="b.csv:9")) == [(1.0, 2.0), (2.0, 1.0)]
    with pytest.raises(DataError, match="no workload is predicted in both"):
        pairs(first, turned.assign(m=7))


def test_a_missing_word_is_the_same_however_it_is_missing() -> None:
    first = predicted([64, 64], [1.0, 2.0], kernel=["", "knl"])
    second = predicted([64, 64], [10.0, 20.0], kernel=[None, "knl"])
    assert pairs(first, second) == [(1.0, 10.0), (2.0, 20.0)]


def test_a_workload_that_is_predicted_more_often_in_one_table_is_refused() -> None:
    first = predicted([7, 64, 64], [1.0, 2.0, 3.0])
    with pytest.raises(DataError, match="row 2 of the first table is predicted 2 and 1 times"):
        pairs(first, predicted([64, 7], [1.0, 2.0]))
