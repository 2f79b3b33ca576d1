from __future__ import annotations

import numpy as np
import pytest

from flopcast.errors import DataError
from flopcast.traces.cleaning.outliers import mad_filter


def test_what_lies_beyond_seven_mad_of_the_median_is_removed() -> None:
    values = [10.0, 11.0, 12.0, 13.0, 13.0, 14.0, 19.0, 20.0, 27.1]  # median 13, distances 3 2 1 0 0 1 6 7 14.1: MAD 2
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
    with pytest.raises(DataError, match="must be positive, got 0: 7 is usual"):
        mad_filter([1.0], 0.0)
