from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from flopcast.errors import DataError
from flopcast.tests.traces.cleaning.oracles.halves import LEAST_COMPARED, difference_of_medians
from flopcast.traces.cleaning.robust import (
    drift_of_medians,
    mad_filter,
    median_intervals,
    part_intervals,
    repeat_intervals,
)

LEAST = 6
"""Values of which the smallest and the largest enclose the median with 95 %: 1 - 2 / 2^6 = 96.9 %."""


@pytest.mark.parametrize(
    ("count", "rank", "level"),
    [  # Hahn & Meeker: B(n, 1/2) by hand, e.g. 1 - 2 (1 + 10) / 2^10
        (6, 1, 1 - 2 / 2**6),
        (8, 1, 1 - 2 / 2**8),
        (9, 2, 1 - 2 * 10 / 2**9),
        (10, 2, 1 - 2 * 11 / 2**10),
    ],
)
def test_the_interval_is_that_of_the_binomial(count: int, rank: int, level: float) -> None:
    [row] = median_intervals(np.arange(count, dtype=float), np.zeros(count)).to_dict("records")
    assert (row["n"], row["lower"], row["upper"]) == (count, rank - 1, count - rank)
    assert row["level"] == pytest.approx(level)


def test_a_level_that_two_samples_have_exactly_is_reached_by_them() -> None:
    [row] = median_intervals([1.0, 2.0], [0, 0], 0.5).to_dict("records")
    assert (row["lower"], row["upper"], row["level"]) == (1.0, 2.0, 0.5)


def test_samples_too_small_for_the_level_have_no_interval() -> None:
    found = median_intervals(np.arange(11.0), [4] * (LEAST - 1) + [7] * LEAST)
    assert found.index.tolist() == [4, 7]
    assert found["median"].tolist() == [2.0, 7.5]
    assert found["mad"].tolist() == [1.0, 1.5]
    assert found["lower"].isna().tolist() == [True, False]


@pytest.mark.parametrize("count", [6, 13, 40])
def test_the_interval_holds_the_median_as_often_as_it_says(count: int) -> None:
    draws = 4000
    values = np.random.default_rng(count).lognormal(0.0, 1.0, (draws, count))
    found = median_intervals(values.ravel(), np.repeat(np.arange(draws), count))
    covered = ((found["lower"] <= 1.0) & (found["upper"] >= 1.0)).mean()
    assert covered == pytest.approx(found["level"].iloc[0], abs=0.015)
    assert found["level"].iloc[0] >= 0.95


def test_the_interval_over_parts_by_hand() -> None:
    # t(0.975, 2) = 4.302653; deviation of (-0.1, 0, 0.1) is 0.1: half-width 4.302653 x 0.1 / sqrt(3) = 0.248414
    found = part_intervals(np.exp([-0.1, 0.0, 0.1, 3.0]), [0, 0, 0, 1], 0.95)
    assert np.log(found["upper"].iloc[0]) == pytest.approx(0.248414, rel=1e-5)
    assert np.log(found["lower"].iloc[0]) == pytest.approx(-0.248414, rel=1e-5)
    assert found[["lower", "upper"]].iloc[1].isna().all()


def test_likeness_of_neighbours_stretches_the_interval_by_hand() -> None:
    # n = 7: ranks 1 and 7, three sigma on either side of the median
    rising = np.exp(np.arange(1.0, 8.0))
    found = repeat_intervals(
        np.r_[rising, rising[[0, 6, 1, 5, 2, 4, 3]]], *[np.repeat([3, 8], 7)] * 2, np.zeros(14)
    )
    # squares of the deviations 28, their products at lag one 6 + 2 + 0 + 0 + 2 + 6 = 16: r = 16/28 + (1 + 64/28) / 7,
    # more than (n - 1) / (n + 1) = 0.75, which stretches by sqrt(1.75 / 0.25) = sqrt(7)
    assert np.log(found["upper"]).tolist() == pytest.approx([4 + 3 * np.sqrt(7), 7.0])
    assert np.log(found["lower"]).tolist() == pytest.approx([4 - 3 * np.sqrt(7), 1.0])
    assert found["level"].tolist() == pytest.approx([1 - 2 / 2**7] * 2)


def test_values_that_are_all_alike_and_too_few_keep_their_interval() -> None:
    found = repeat_intervals([2.0] * 40 + [1.0, 2.0], *[[0] * 40 + [1, 1]] * 2, np.zeros(42))
    assert found.loc[0, ["median", "lower", "upper"]].tolist() == pytest.approx([2.0] * 3)
    assert found.loc[1, ["lower", "upper"]].isna().all()


@pytest.mark.long
@pytest.mark.parametrize(
    ("runs", "count", "between", "rho", "independent", "least"),
    [
        (1, 20, 0.0, 0.0, 0.96, 0.95),
        (1, 50, 0.0, 0.5, 0.84, 0.95),
        (1, 50, 0.0, 0.8, 0.60, 0.93),
        (3, 50, 0.01, 0.0, 0.55, 0.94),
        (5, 50, 0.02, 0.0, 0.35, 0.94),
        (3, 50, 0.01, 0.8, 0.43, 0.94),
    ],
)
def test_the_interval_covers_the_truth_where_runs_differ_and_neighbours_are_alike(
    runs: int, count: int, between: float, rho: float, independent: float, least: float
) -> None:
    """Repeats spread by 2 %, runs by `between`, autoregressive in a run: 2000 kernels, standard error 0.5 %.

    `independent` is the coverage of the interval that takes all repeats for independent draws.
    """
    draws, rng = 2000, np.random.default_rng(0)
    noise = rng.standard_normal((draws, runs, count + 100))
    within = lfilter([1.0], [1.0, -rho], noise)[..., 100:] * np.sqrt(1 - rho**2)
    values = np.exp(between * rng.standard_normal((draws, runs, 1)) + 0.02 * within).ravel()
    of_run = np.tile(np.repeat(np.arange(runs), count), draws)
    kernels = np.repeat(np.arange(draws), runs * count)
    covered = [
        float((found["lower"].le(1.0) & found["upper"].ge(1.0)).mean())
        for found in (
            median_intervals(values, kernels),
            repeat_intervals(values, kernels, kernels * runs + of_run, of_run),
        )
    ]
    assert covered[0] == pytest.approx(independent, abs=0.02)
    assert covered[1] >= least


@pytest.mark.parametrize("peaks", [1, 2])
def test_steady_series_seldom_drift_with_one_peak_and_with_two(peaks: int) -> None:
    rng = np.random.default_rng(peaks)
    steady = rng.normal(10.0, 0.1, (500, 40)) + 5.0 * (rng.random((500, 40)) < 0.5 * (peaks - 1))
    found = drift_of_medians(steady.ravel(), np.repeat(np.arange(500), 40))
    assert found["drifts"].mean() <= 0.05


@pytest.mark.parametrize("level", [0.0, 0.15, 1.0])
def test_drift_is_the_difference_of_the_halves_one_by_one(level: float) -> None:
    rng = np.random.default_rng(int(100 * level))
    sizes = rng.integers(2 * LEAST_COMPARED, 60, 100)
    series = [rng.normal(10.0, 0.1, size) + level * (2 * np.arange(size) >= size) for size in sizes]
    found = drift_of_medians(np.concatenate(series), np.repeat(np.arange(100), sizes))
    plain = [difference_of_medians(*np.array_split(own, 2)) for own in series]
    assert found["drift"].tolist() == [one.value for one in plain]
    assert found["drifts"].tolist() == [float(not one.agrees) for one in plain]


def test_drift_compares_the_halves_in_time() -> None:
    rng = np.random.default_rng(0)
    steady, rising = rng.normal(10, 0.1, 40), rng.normal(10, 0.1, 40) + np.repeat([0.0, 1.0], 20)
    found = drift_of_medians(np.r_[steady, rising, steady[:13]], np.repeat([0, 1, 5], [40, 40, 13]))
    assert found["drifts"].tolist()[:2] == [0.0, 1.0]
    assert found["drift"][1] == pytest.approx(1.0, abs=0.1)
    assert found.loc[5].isna().all()
    enough = drift_of_medians(steady[: 2 * LEAST_COMPARED], np.zeros(2 * LEAST_COMPARED))
    assert enough.notna().all(axis=None)


def test_what_lies_beyond_seven_mad_of_the_median_is_removed() -> None:
    # median 13, distances 3 2 1 0 0 1 6 7 14.1: MAD 2
    values = [10.0, 11.0, 12.0, 13.0, 13.0, 14.0, 19.0, 20.0, 27.1]
    found = mad_filter(values)
    assert (found.median[0], found.mad[0], found.limit[0]) == (13.0, 2.0, 14.0)
    assert found.removed.tolist() == [8]
    assert found.kept.tolist() == [True] * 8 + [False]
    assert mad_filter([*values[:-1], 27.0]).kept.all()
    assert mad_filter(values, 3.4).removed.tolist() == [7, 8]


def test_repeats_that_differ_by_one_tick_of_the_clock_are_no_outliers() -> None:
    ticks = np.array([400] * 60 + [440] * 20 + [360] * 19 + [720])
    assert mad_filter(ticks, floor=40).removed.tolist() == [99]
    assert mad_filter(ticks, floor=40).limit[0] == 280
    assert mad_filter(ticks, floor=1).kept.sum() == 60


def test_without_a_spread_and_a_clock_nothing_is_removed() -> None:
    assert mad_filter([5.0] * 9 + [100.0]).kept.all()


def test_groups_are_judged_apart_and_small_ones_not_at_all() -> None:
    values = [1.0, 1.1, 0.9, 1.0, 1.05, 9.0, 10.0, 10.1, 9.9, 10.2, 9.8, 50.0, 51.0, 90.0, 52.0]
    groups = [0] * 6 + [1] * 5 + [2] * 4
    assert mad_filter(values, groups=groups).removed.tolist() == [5]
    assert mad_filter(values, groups=groups, least=4).removed.tolist() == [5, 13]


def test_a_clean_normal_sample_stays_whole_and_gross_errors_go() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(100.0, 1.0, 10_000)
    assert mad_filter(values).kept.all()
    bad = rng.random(10_000) < 0.1
    found = mad_filter(np.where(bad, values * 1.5, values))
    assert np.array_equal(~found.kept, bad)


def test_a_threshold_that_is_not_positive_is_refused() -> None:
    with pytest.raises(DataError, match=r"threshold.*MAD.*0"):
        mad_filter([1.0], 0.0)
