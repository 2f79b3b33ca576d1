"""The range table."""

from __future__ import annotations

import numpy as np

from flopcast.traces.dispatches import empty_ranges, range_table


def test_ranges_are_in_the_order_of_their_start_and_an_outer_one_before_an_inner() -> None:
    found = range_table(
        ["b", "c", "a", "d"], np.array([20, 20, 10, 20]), np.array([20, 25, 40, 20])
    )
    assert found["name"].tolist() == ["a", "c", "b", "d"]
    assert found["start_ns"].tolist() == [10, 20, 20, 20]
    assert found["duration_ns"].tolist() == [30, 5, 0, 0]


def test_no_ranges_have_the_same_columns() -> None:
    assert empty_ranges().empty
    assert empty_ranges().dtypes["start_ns"] == np.int64
    assert list(empty_ranges()) == ["name", "start_ns", "duration_ns"]
