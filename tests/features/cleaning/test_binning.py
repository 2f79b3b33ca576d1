from __future__ import annotations

import numpy as np
import pytest

from flopcast.errors import DataError
from flopcast.features.cleaning.binning import golden_runs, margin_of


@pytest.mark.parametrize(
    ("time_us", "margin"),
    [(24.9, None), (25, 0.05), (50, 0.05), (199.9, 0.05), (200, 0.02), (999, 0.02), (1000, 0.02), (1e5, 0.02)],
)
def test_margins_are_the_published_ones(time_us: float, margin: float | None) -> None:
    assert margin_of(time_us) == margin


def test_the_fullest_bin_is_kept_wherever_its_edges_lie() -> None:
    found = golden_runs([100.0, 104.0, 105.0, 105.1, 130.0, 131.0])
    assert found.kept.tolist() == [False, True, True, True, False, False]  # 104 to 105.1 is narrower than 100 to 105
    assert (found.lower, found.upper, found.margin, found.share) == (104.0, 105.1, 0.05, 0.5)


def test_outlier_runs_are_no_golden_runs() -> None:
    rng = np.random.default_rng(0)
    times = rng.normal(120.0, 1.0, 200)
    bad = rng.random(200) < 0.1
    found = golden_runs(np.where(bad, times * 1.3, times))
    assert not found.kept[bad].any()
    assert found.kept[~bad].mean() > 0.95
    assert (found.upper - found.lower) / found.lower <= 0.05


def test_of_equally_full_bins_the_narrower_then_the_faster_counts() -> None:
    assert golden_runs([100.0, 101.0, 200.0, 200.5]).kept.tolist() == [False, False, True, True]
    assert golden_runs([100.0, 100.0, 200.0, 200.0]).kept.tolist() == [True, True, False, False]


def test_a_margin_of_one_s_own() -> None:
    assert golden_runs([10.0, 10.9, 11.1], 0.1).kept.tolist() == [False, True, True]
    assert golden_runs([10.0, 10.0, 10.1], 0.0).kept.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("times", "margin", "said"),
    [
        ([], None, "needs positive times"),
        ([30.0, 0.0], None, "needs positive times"),
        ([30.0, np.nan], None, "needs positive times"),
        ([10.0], None, "no margin is published for kernels under 25 us"),
        ([30.0], -0.1, "must not be negative"),
    ],
)
def test_what_cannot_be_binned_is_refused(times: list[float], margin: float | None, said: str) -> None:
    with pytest.raises(DataError, match=said):
        golden_runs(times, margin)
