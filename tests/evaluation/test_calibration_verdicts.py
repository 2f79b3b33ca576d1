"""False alarms and power of the verdicts, a small part of `make calibration`."""

from __future__ import annotations

import pytest
from scipy import stats

from flopcast.benchmarks.calibration_verdicts import check_verdicts, scaling_verdicts, significant_features


def most(share: float, sets: int) -> float:
    """Return what a true share of so many sets exceeds once in a thousand times."""
    return float(stats.binom.ppf(0.999, sets, share)) / sets


@pytest.mark.long
def test_true_laws_rarely_fail_and_false_ones_are_found() -> None:
    for cell, share, count in scaling_verdicts(5, 1, ("16 groups of 25",)):
        if cell.endswith("any fails"):
            assert share <= most(0.07, count), cell
        else:
            assert 1 - share <= most(0.20, count), cell


@pytest.mark.long
def test_a_shifted_run_is_rarely_called_valid() -> None:
    for cell, share, count in check_verdicts(10, 1, ("16 unequal groups, 8 new",)):
        if cell.endswith(("10%: still valid", "alarm")):
            assert share <= most(0.05, count), cell
        else:
            assert share >= 0.5, cell


def test_noise_that_a_search_lists_is_rarely_significant_and_what_is_true_is() -> None:
    for cell, share, count in significant_features(8, 1, ("16 groups of 25",)):
        if cell.endswith("noise features listed that are significant"):
            assert count > 5
            assert share <= most(0.07, count), cell
        else:
            assert share == 1, cell
