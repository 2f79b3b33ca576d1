"""A small part of `make calibration`, with fixed seeds: bounds are quantiles of binomial distributions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from flopcast.benchmarks.calibration.more_rows import LAWS, falls, made_up
from flopcast.benchmarks.calibration.selection import equal_models, honest_interval
from flopcast.benchmarks.calibration.spread import new_groups
from flopcast.benchmarks.calibration.verdicts import (
    check_campaigns,
    check_verdicts,
    scaling_verdicts,
    significant_features,
)
from flopcast.benchmarks.calibration.whole_runs import (
    HOST,
    KEPT,
    MADE_UP,
    Delivered,
    figures,
    made_up_runs,
    table,
)


def most(share: float, sets: int) -> float:
    """Return what a true share of so many sets exceeds once in a thousand times."""
    return float(stats.binom.ppf(0.999, sets, share)) / sets


@pytest.mark.long
def test_true_laws_rarely_fail_and_false_ones_are_found() -> None:
    for cell, share, count, _ in scaling_verdicts(3, 1, ("16 unequal groups",)):
        if cell.endswith("any fails"):
            assert share <= most(0.07, count), cell
        else:
            assert 1 - share <= most(0.20, 8 * count), cell  # eight classes a table


@pytest.mark.long
def test_a_shifted_run_is_rarely_called_valid() -> None:
    for cell, share, count, _ in check_verdicts(4, 1, ("16 unequal groups, 8 new",)):
        if cell.endswith(("10%: still valid", "alarm")):
            assert share <= most(0.05, count), cell
        else:
            assert share >= 0.5, cell


def test_campaigns_that_differ_rarely_alarm_and_slower_ones_do() -> None:
    for cell, share, count, _ in check_campaigns(3, 1):
        if cell.endswith("unchanged: alarm"):
            assert share <= most(0.07, count), cell
        if cell.endswith("alike, shifted by 30%: alarm"):
            assert share == 1, cell


def test_noise_that_a_search_lists_is_rarely_significant_and_what_is_true_is() -> None:
    for cell, share, count, _ in significant_features(8, 1, ("16 groups of 25",)):
        if cell.endswith("noise features listed that are significant"):
            assert count > 5
            assert share <= most(0.07, count), cell
        else:
            assert share == 1, cell


def test_the_interval_of_the_honest_error_holds_and_equal_models_are_rarely_told_apart() -> None:
    groups = ("6 equal groups", "10 unequal groups")
    held = [row for row in honest_interval(20, 1, groups) if row.unit == "%"]
    lost = [row for row in equal_models(5, 1, groups) if row.name.startswith("equal")]
    assert len(held) == len(lost) == 2
    for row in held:
        assert 1 - row.figure <= most(0.10, row.count), row.name
    for row in lost:
        assert row.figure <= most(0.06, 20 * row.count), row.name  # twenty models a set


def test_intervals_of_few_unequal_groups_hold_what_they_say() -> None:
    for row in new_groups(12, 1, ("4 unequal groups", "6 equal groups")):
        if row.name.endswith("hold, mean"):
            assert 1 - row.figure <= most(0.13, 9 * row.count), row.name  # nine kinds of rows
        elif row.unit == "":
            assert 0.9 <= row.figure <= 1.4, row.name  # times the true width


@pytest.mark.long
def test_a_whole_run_delivers_what_it_states_of_known_and_of_new_groups() -> None:
    found = {row.name: row for row in made_up_runs(1, 1, ("roofline",))}
    for kind in ("known groups", "new groups"):
        assert 0.6 < found[f"roofline, {kind}: stated / delivered, median"].figure < 1.7
        assert found[f"roofline, {kind}: 90 % intervals hold"].figure > 0.8
    stratum = found["known groups of 11 to 25 trained rows: 90 % intervals hold"]
    assert stratum.count == found["roofline, known groups: 90 % intervals hold"].count
    assert stratum.count <= 16 * KEPT


def test_what_was_stated_and_delivered_is_shown_by_hand() -> None:
    rows = pd.DataFrame({"inside": [True, False], "width": 0.5, "trained": 12, "format": "fp8"})
    runs = Delivered(stated=[3.0, 4.0], true=[2.0, 4.0], held=[True, False], rows=[rows, rows])
    shown = [row.figure for row in figures("made up", "new groups", runs)]
    assert shown == [3.5, 3.0, 1.25, 0.5, 0.5, 50.0]


@pytest.mark.parametrize("name", MADE_UP)
def test_made_up_tables_keep_sizes_of_known_groups_and_whole_new_ones(name: str) -> None:
    kind = MADE_UP[name]
    rows = table(kind, np.random.default_rng(0))
    assert rows.loc[rows["new"], "kept"].all()
    trained = rows[~rows["kept"]].groupby("shape").size()
    assert trained.tolist() == list(kind.sizes)
    assert (rows[rows["kept"] & ~rows["new"]].groupby("shape").size() == KEPT).all()
    assert (rows["us"] > 0).all()


@pytest.mark.long
def test_further_rows_are_expected_to_lower_the_error_of_new_groups() -> None:
    expected, _ = falls(made_up(LAWS["split-K"], [1, 120, 0]), HOST, 120, 1)
    assert expected > 0.5  # points; learnt nothing of the curve, it was 0 where groups were known
