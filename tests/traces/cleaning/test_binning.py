from __future__ import annotations

import math

import numpy as np
import pytest

from flopcast.errors import DataError, ParameterError
from flopcast.traces.cleaning.binning import (
    MIDDLE,
    bin_ratio,
    fullest_bin,
    fullest_bins,
    golden_runs,
    margin_of,
)


@pytest.mark.parametrize(
    ("time_us", "margin"),
    [
        (24.9, None),
        (25, 0.05),
        (50, 0.05),
        (199.9, 0.05),
        (200, 0.02),
        (999, 0.02),
        (1000, 0.02),
        (1e5, 0.02),
    ],
)
def test_margins_are_the_published_ones(time_us: float, margin: float | None) -> None:
    assert margin_of(time_us) == margin


def test_the_fullest_bin_is_kept_wherever_its_edges_lie() -> None:
    times = [100.0, 108.0, 111.0, 113.0, 117.0, 130.0, 131.0]
    found = golden_runs(times)
    assert found.kept.tolist() == [False, True, True, True, False, False, False]  # 108 to 113.4
    assert found.lower <= 108 < 113 <= found.upper == pytest.approx(found.lower * 1.05)
    found = golden_runs(times, within=MIDDLE)
    assert found.kept.tolist() == [False, True, True, True, True, False, False]  # 108 to 119.4
    assert found.lower <= 108 < 117 <= found.upper == pytest.approx(found.lower * 1.05 / 0.95)


def test_the_published_bin_holds_times_within_the_margin_of_each_other() -> None:
    times = 120 * np.exp(np.random.default_rng(0).normal(0, 0.05, 200))
    published, wide = golden_runs(times), golden_runs(times, within=MIDDLE)
    assert times[published.kept].max() <= 1.05 * times[published.kept].min()
    assert wide.kept.sum() > 1.4 * published.kept.sum()
    assert (bin_ratio(0.05), bin_ratio(1, MIDDLE), bin_ratio(math.inf)) == (
        1.05,
        math.inf,
        math.inf,
    )
    with pytest.raises(ParameterError, match="within"):
        bin_ratio(0.05, "median")


def test_runs_of_another_bin_can_be_asked_for() -> None:
    times = [100.0, 130.0, 101.0, 131.0, 102.0, 160.0]
    kept = [golden_runs(times, rank=rank).kept.nonzero()[0].tolist() for rank in (1, 2, 3)]
    assert kept == [[0, 2, 4], [1, 3], [5]]
    assert golden_runs(times, rank=3).fuller.tolist() == [True] * 5 + [False]
    with pytest.raises(DataError, match="bin 4"):
        golden_runs(times, rank=4)
    with pytest.raises(ParameterError, match="rank"):
        golden_runs(times, rank=0)


@pytest.mark.parametrize("count", [1, 4, 10, 200])
def test_runs_that_differ_less_than_the_margin_are_all_kept(count: int) -> None:
    assert golden_runs(np.random.default_rng(0).uniform(99, 101, count)).kept.all()


def test_outlier_runs_are_no_golden_runs() -> None:
    rng = np.random.default_rng(0)
    times = rng.normal(120.0, 1.0, 200)
    bad = rng.random(200) < 0.1
    found = golden_runs(np.where(bad, times * 1.3, times))
    assert not found.kept[bad].any()
    assert found.kept[~bad].mean() > 0.95
    assert found.upper / found.lower == pytest.approx(found.ratio) == 1.05


def test_of_ways_of_running_that_are_as_frequent_the_fastest_counts() -> None:
    assert golden_runs([200.0, 100.0, 100.5, 200.5]).kept.tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("counts", "seed"), [((100, 92), 0), ((100, 92), 1), ((100, 92), 2), ((60, 55), 3)]
)
def test_of_two_ways_of_running_the_more_frequent_counts(
    counts: tuple[int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    times = np.r_[rng.normal(100, 0.6, counts[0]), rng.normal(115, 0.6, counts[1])]
    found = golden_runs(times)
    assert found.kept[: counts[0]].all()
    assert not found.kept[counts[0] :].any()


def test_a_margin_of_one_s_own() -> None:
    assert golden_runs([10.0, 12.0, 12.1], 0.21).kept.tolist() == [True, True, True]
    assert golden_runs([10.0, 12.0, 12.1], 0.05).kept.tolist() == [False, True, True]
    assert golden_runs([10.0, 10.0, 10.1], 0.0).kept.tolist() == [True, True, False]
    assert golden_runs([10.0, 90.0], math.inf).kept.all()


@pytest.mark.parametrize(
    ("times", "margin", "said"),
    [
        ([], None, "needs positive times"),
        ([30.0, 0.0], None, "needs positive times"),
        ([30.0, np.nan], None, "needs positive times"),
        ([10.0], None, "kernels under 25"),
        ([30.0], -0.1, "must not be negative"),
    ],
)
def test_what_cannot_be_binned_is_refused(
    times: list[float], margin: float | None, said: str
) -> None:
    with pytest.raises(DataError, match=said):
        golden_runs(times, margin)


def test_the_fullest_bin_is_as_full_as_any() -> None:
    rng = np.random.default_rng(0)
    for margin in (0.02, 0.05):
        times = np.exp(rng.normal(0, 0.05, 100)) * np.where(rng.random(100) < 0.2, 1.5, 1)
        low, high = fullest_bin(times, 1 + margin)
        assert high / low == pytest.approx(1 + margin)
        most = max(((times >= t) & (times <= t * high / low)).sum() for t in times)
        assert ((times >= low) & (times <= high)).sum() >= most - math.sqrt(2 * most)


def test_the_middle_of_equally_full_bins_is_taken() -> None:
    times = np.linspace(90, 110, 101)
    low, high = fullest_bin(times, 1.04)
    assert (low + high) / 2 == pytest.approx(100, abs=1)


def test_weights_are_repeats() -> None:
    times = np.array([1.0, 1.01, 2.0, 2.01, 2.02])
    weights = np.array([[1, 1, 1, 1, 1], [5, 5, 0, 0, 1], [0, 0, 3, 0, 0]])
    low, _ = fullest_bins(times, weights, 1.05)
    repeated = [fullest_bin(np.repeat(times, one), 1.05)[0] for one in weights]
    assert low.tolist()[:2] == repeated[:2]
    assert (low <= [2, 1, 2]).all()
    assert (low * 1.05 >= [2.02, 1.01, 2]).all()
