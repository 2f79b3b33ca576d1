"""Statistics of rows over their visits: by hand, and how often the interval covers the truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.measuring.protocol import FloatArray, Rule, half_widths, row_statistics

TRUTH_US = 100.0


def three(middles_us: list[float], *, count: int = 400) -> list[FloatArray]:
    """Return visits about the given medians, each with a deviation of 0.1 %."""
    rng = np.random.default_rng(0)
    return [middle * (1 + 1e-3 * rng.standard_normal(count)) for middle in middles_us]


def simulated(between: float, rows: int, *, visits: int = 3, seed: int = 0) -> tuple[list[FloatArray], FloatArray]:
    """Return samples whose visits deviate by so much from a truth of 100 us, and their rows."""
    rng = np.random.default_rng(seed)
    middles = TRUTH_US * np.exp(between * rng.standard_normal(rows * visits))
    samples = list(middles[:, None] * (1 + 0.01 * rng.standard_normal((rows * visits, 200))))
    return samples, np.repeat(np.arange(rows), visits)


def test_visits_that_differ_widen_the_interval() -> None:
    (row,) = row_statistics(three([90.0, 100.0, 110.0]), [0, 0, 0], level=0.95, threshold=7.0).to_dict("records")
    assert row["duration_us"] == pytest.approx(100.0, rel=1e-3)
    assert row["interval_low_us"] < 85
    assert row["interval_high_us"] > 115


def test_visits_that_agree_have_the_interval_of_their_samples() -> None:
    found = row_statistics([TRUTH_US + np.arange(-9.0, 10.0)] * 3, [0, 0, 0], level=0.95, threshold=7.0)
    # 57 samples: the 21st and the 37th smallest enclose the median with 95 %; each value stands three times
    assert found[["duration_us", "interval_low_us", "interval_high_us"]].to_numpy().tolist() == [[100.0, 97.0, 103.0]]


def test_a_visit_unlike_the_others_is_no_outlier() -> None:
    (row,) = row_statistics(three([100.0, 100.1, 130.0]), [0, 0, 0], level=0.95, threshold=7.0).to_dict("records")
    assert (row["repeats"], row["outliers"]) == (1200, 0)
    assert row["duration_us"] == pytest.approx(100.1, rel=1e-3)
    assert row["interval_high_us"] > 130


def test_outliers_are_told_within_each_visit() -> None:
    quiet, loud = [10.0, 10.1, 10.2, 10.3, 10.4, 12.0], [20.0, 21.0, 22.0, 23.0, 24.0, 22.0]
    found = row_statistics([quiet, loud], [0, 0], level=0.95, threshold=7.0)
    assert (found["outliers"].tolist(), found["repeats"].tolist()) == ([1], [11])


def test_a_visit_of_many_samples_counts_once() -> None:
    found = row_statistics([[1.0] * 9, [2.0] * 9, [3.0] * 500], [4, 4, 4], level=0.95, threshold=7.0)
    assert found["duration_us"].to_dict() == {4: 2.0}


def test_a_single_visit_has_the_interval_of_its_samples_and_few_samples_none() -> None:
    found = row_statistics([np.arange(1.0, 7.0), np.arange(1.0, 6.0)], [0, 1], level=0.95, threshold=7.0)
    assert found["interval_low_us"].iloc[0] == 1.0
    assert found["interval_high_us"].iloc[0] == 6.0
    assert found[["interval_low_us", "interval_high_us"]].iloc[1].isna().all()


@pytest.mark.parametrize("samples", [[[0.0] * 9], [[0.0] * 9, [1.0] * 9]])
def test_a_median_of_zero_has_no_interval(samples: list[list[float]]) -> None:
    found = row_statistics(samples, [0] * len(samples), level=0.95, threshold=7.0)
    assert found[["interval_low_us", "interval_high_us"]].isna().to_numpy().all()


@pytest.mark.parametrize("between", [0.0, 0.002, 0.02])
def test_the_interval_covers_the_truth_as_often_as_it_says(between: float) -> None:
    rule = Rule()
    found = row_statistics(*simulated(between, 500), level=rule.level, threshold=rule.threshold)
    covered = found["interval_low_us"].le(TRUTH_US) & found["interval_high_us"].ge(TRUTH_US)
    assert covered.mean() >= 0.93  # 95 % and two standard errors of 500 rows


def test_visits_of_two_percent_are_rarely_known_to_one() -> None:
    found = row_statistics(*simulated(0.02, 500), level=0.95, threshold=7.0)
    width = (found["interval_high_us"] - found["interval_low_us"]) / 2 / found["duration_us"]
    assert (width <= 0.01).mean() < 0.05


def test_the_wider_half_of_the_interval_counts() -> None:
    rows = {"duration_us": [100, 200, 9.5], "interval_low_us": [99, 190, 9.5], "interval_high_us": [102, 204, 9.5]}
    assert half_widths(pd.DataFrame(rows)).tolist() == pytest.approx([0.02, 0.05, 0.0])
