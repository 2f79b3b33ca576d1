"""Channels summarised, replay passes brought together."""

from __future__ import annotations

import numpy as np
import pytest

from flopcast.table.counters import (
    channel_of,
    channels_of,
    counts_time,
    imbalance,
    merge_passes,
    summarise,
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "channel"),
    [
        ("TCC_HIT[3]", ("TCC_HIT", 3)),
        ("TCC_HIT[127]", ("TCC_HIT", 127)),
        ("TCC_HIT_sum", None),
        ("A[]", None),
    ],
)
def test_a_channel_is_a_number_in_brackets(name: str, channel: tuple[str, int] | None) -> None:
    assert channel_of(name) == channel


def test_channels_are_listed_by_counter() -> None:
    assert channels_of(["B[1]", "A", "C[0]", "B[0]"]) == {"B": [1, 0], "C": [0]}


def test_channels_become_sum_maximum_and_imbalance() -> None:
    values = {"X": np.array([7.0, 8.0]), "A[0]": np.array([1.0, 0.0]), "A[1]": np.array([3.0, 0.0])}
    summary = summarise(values)
    assert list(summary) == ["X", "A.sum", "A.max", "A.imbalance"]
    assert {name: own.tolist() for name, own in summary.items()} == {
        "X": [7.0, 8.0],
        "A.sum": [4.0, 0.0],
        "A.max": [3.0, 0.0],
        "A.imbalance": [1.5, 1.0],
    }


def test_channels_are_kept_on_request() -> None:
    values = {"A[0]": np.array([1.0]), "A[1]": np.array([3.0])}
    assert list(summarise(values, keep_channels=True)) == ["A[0]", "A[1]"]


def test_channels_that_are_not_recorded_do_not_count_as_zero() -> None:
    summary = summarise({"A[0]": np.array([NAN, 2.0]), "A[1]": np.array([NAN, NAN])})
    assert np.isnan([summary[f"A.{name}"][0] for name in ("sum", "max", "imbalance")]).all()
    assert [summary[f"A.{name}"][1] for name in ("sum", "max", "imbalance")] == [2.0, 2.0, 1.0]


def test_imbalance_is_one_where_even_and_the_number_of_channels_where_one_has_all() -> None:
    channels = np.array([[5.0, 8.0, 0.0, NAN], [5.0, 0.0, 0.0, NAN]])
    assert imbalance(channels).tolist()[:3] == [1.0, 2.0, 1.0]
    assert np.isnan(imbalance(channels)[3])


def test_the_first_recorded_value_counts_and_the_spread_is_the_worst_dispatch() -> None:
    merged = merge_passes(
        [
            ("A", np.array([10.0, NAN, 4.0])),
            ("B", np.array([1.0, 2.0, 3.0])),
            ("A", np.array([8.0, 5.0, 4.0])),
            ("C", np.array([0.0, 0.0, NAN])),
            ("C", np.array([0.0, 0.0, 9.0])),
        ]
    )
    assert {name: own.tolist() for name, own in merged.columns.items()} == {
        "A": [10.0, 5.0, 4.0],
        "B": [1.0, 2.0, 3.0],
        "C": [0.0, 0.0, 9.0],
    }
    assert merged.spread == {"A": pytest.approx(0.2), "C": 0.0}


def test_mean_and_variance_over_the_passes_are_known_where_these_recorded_a_dispatch() -> None:
    passes = ([10.0, NAN, NAN, 1.0], [14.0, 5.0, NAN, 1.0], [12.0, NAN, NAN, 1.0])
    merged = merge_passes([*(("A", np.array(values)) for values in passes), ("B", np.ones(4))])
    assert list(merged.mean) == list(merged.variance) == ["A"]
    np.testing.assert_allclose(merged.mean["A"], [12.0, 5.0, NAN, 1.0])
    np.testing.assert_allclose(merged.variance["A"], [4.0, NAN, NAN, 0.0])


def test_passes_that_share_no_dispatch_have_no_spread() -> None:
    assert merge_passes([("A", np.array([1.0, NAN])), ("A", np.array([NAN, 2.0]))]).spread == {
        "A": 0.0
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GRBM_COUNT", True),
        ("GRBM_GUI_ACTIVE", True),
        ("SQ_BUSY_CU_CYCLES", True),
        ("TCC_BUSY.sum", True),
        ("SQ_WAIT_INST_ANY", True),
        ("sm__cycles_elapsed.max", True),
        ("dram__bytes.sum.per_second", True),
        ("SQ_INSTS_VALU", False),
        ("TCC_HIT.sum", False),
        ("SQ_WAVES", False),
        ("TCP_TOTAL_ACCESSES.imbalance", False),
        ("MeanRuntimes", False),
    ],
)
def test_counters_of_the_clock_are_told_from_counters_of_events(name: str, expected: bool) -> None:
    assert counts_time(name) is expected
