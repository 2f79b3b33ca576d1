from __future__ import annotations

import numpy as np
import pytest

from flopcast.features.cleaning.median import LEAST, drift_of_medians, median_intervals
from flopcast.tests.features.cleaning.oracles.halves import LEAST_COMPARED, difference_of_medians


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
