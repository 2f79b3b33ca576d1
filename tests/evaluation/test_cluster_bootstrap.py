from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from flopcast.evaluation.cluster_bootstrap import (
    bootstrap,
    bootstrapped_medians,
    effective_groups,
    percentile_interval,
    resample_clusters,
)

GROUPS = np.array(["b", "a", "b", "c", "a", "b"])


def test_samples_are_made_of_whole_groups() -> None:
    for rows in resample_clusters(GROUPS, 50, seed=3):
        drawn = {name: np.bincount(rows, minlength=6)[name == GROUPS] for name in "abc"}
        # every row of a group as often as the others
        assert all(np.ptp(times) == 0 for times in drawn.values())
        assert sum(times[0] for times in drawn.values()) == 3
        assert len(rows) == sum(times.sum() for times in drawn.values())


def test_every_group_is_drawn_equally_often() -> None:
    rows = np.concatenate(list(resample_clusters(np.arange(4), 4000, seed=0)))
    np.testing.assert_allclose(np.bincount(rows), 4000, rtol=0.05)


def test_a_seed_gives_the_same_samples_and_another_seed_gives_others() -> None:
    one, same, other = (list(resample_clusters(GROUPS, 5, seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_the_spread_of_a_mean_is_that_of_the_group_means() -> None:
    # five rows alike in each of 40 groups: the error is that of 40 values, not of 200
    values = np.repeat(np.random.default_rng(0).normal(size=40), 5)
    groups = np.repeat(np.arange(40), 5)
    draws = bootstrap(lambda rows: values[rows].mean(), groups, replicates=4000)
    assert draws.std() == pytest.approx(values.std() / np.sqrt(40), rel=0.05)


def test_medians_are_those_of_the_samples() -> None:
    random = np.random.default_rng(2)
    values, groups = random.normal(size=61).round(1), random.integers(0, 7, 61)
    drawn = bootstrap(lambda rows: np.median(values[rows]), groups, replicates=200, seed=5)
    np.testing.assert_array_equal(
        bootstrapped_medians(values, groups, replicates=200, seed=5), drawn
    )


def test_statistics_may_be_vectors() -> None:
    table = np.arange(12.0).reshape(6, 2)
    assert bootstrap(lambda rows: table[rows].mean(axis=0), GROUPS, replicates=7).shape == (7, 2)


def test_interval_is_expanded_to_that_of_student() -> None:
    # with normal draws of variance (G-1)/G · s²/G the interval must be mean ± t_{G-1} · s/√G
    groups, level = 8, 0.90
    spread = np.sqrt((groups - 1) / groups)
    draws = spread * stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    lower, upper = percentile_interval(draws, groups, level=level)
    assert upper == pytest.approx(stats.t.ppf(0.95, groups - 1), rel=1e-3)
    assert lower == pytest.approx(-upper)


def test_interval_of_a_logarithm_is_the_logarithm_of_the_interval() -> None:
    draws = np.exp(np.random.default_rng(0).normal(size=2001))
    np.testing.assert_allclose(
        np.log(percentile_interval(draws, 9)), percentile_interval(np.log(draws), 9), atol=5e-3
    )


@pytest.mark.parametrize("groups", [np.array([]), np.zeros((2, 2))])
def test_no_groups_is_an_error(groups: np.ndarray) -> None:
    with pytest.raises(ValueError, match="groups"):
        next(resample_clusters(groups, 1, seed=0))


def test_unequal_groups_count_for_fewer() -> None:
    assert effective_groups(np.repeat(["a", "b", "c"], 7)) == pytest.approx(3)
    assert effective_groups(GROUPS) == pytest.approx(36 / 14)


def test_one_group_has_no_interval() -> None:
    with pytest.raises(ValueError, match="groups, got 1"):
        percentile_interval(np.ones(10), 1)


def middle(values: np.ndarray) -> np.floating:
    """Return the upper median, five times as fast as numpy's."""
    half = len(values) // 2
    return np.partition(values, half)[half]


@pytest.mark.long
@pytest.mark.parametrize("sizes", [[8] * 5, [5] * 10 + [60] * 6])
def test_interval_of_the_median_covers_as_often_as_it_says(sizes: list[int]) -> None:
    rng, trials = np.random.default_rng(0), 100
    groups = np.repeat(np.arange(len(sizes)), sizes)
    covered = 0
    for trial in range(trials):
        values = np.exp(rng.normal(0, 0.15, len(sizes))[groups] + rng.normal(0, 0.10, len(groups)))
        draws = bootstrap(
            lambda rows, v=values: middle(v[rows]), groups, replicates=150, seed=trial
        )
        lower, upper = percentile_interval(draws, effective_groups(groups))
        covered += lower <= 1 <= upper
    # 90 % asked for; a plain percentile interval covers 0.83 to 0.88
    assert 0.86 <= covered / trials <= 0.96
