from __future__ import annotations

import numpy as np
import pytest

from flopcast.traces.cleaning.steps import warm_up


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


@pytest.mark.parametrize("count", [20, 50, 300])
def test_a_stationary_series_keeps_everything(count: int) -> None:
    rng = np.random.default_rng(count)
    cut = [warm_up(rng.lognormal(0.0, 0.2, count)).count > 0 for _ in range(300)]
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
