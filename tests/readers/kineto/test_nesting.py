"""Operators inside each other, checked against a stack kept by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flopcast.readers.kineto import Nesting

INTERVALS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(-1, 8)), max_size=25
)
POINTS = st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 20)), max_size=10)


def nesting(*intervals: tuple[int, int, int]) -> Nesting:
    """Return the nesting of (thread, start, duration)."""
    table = np.array(intervals, dtype=np.int64).reshape(-1, 3)
    return Nesting(table[:, 0], table[:, 1], table[:, 1] + table[:, 2])


def parents_by_stack(intervals: list[tuple[int, int, int]]) -> list[int]:
    """Return the parents by going through the operators one by one: slow, and plain to see."""
    parents = [-1] * len(intervals)
    stacks: dict[int, list[int]] = {}
    for place in sorted(range(len(intervals)), key=lambda place: intervals[place][1]):
        thread, start, _ = intervals[place]
        stack = stacks.setdefault(thread, [])
        while stack and intervals[stack[-1]][1] + intervals[stack[-1]][2] <= start:
            stack.pop()
        parents[place] = stack[-1] if stack else -1
        stack.append(place)
    return parents


def running_by_stack(intervals: list[tuple[int, int, int]], point: tuple[int, int]) -> int:
    """Return the operator around a point: that of an operator without children, started after all others."""
    return parents_by_stack([*(one for one in intervals if one[1] <= point[1]), (*point, 0)])[-1]


@given(INTERVALS)
def test_the_parent_is_the_last_started_that_still_runs(
    intervals: list[tuple[int, int, int]],
) -> None:
    assert nesting(*intervals).parent.tolist() == [*parents_by_stack(intervals), -1]


@given(INTERVALS, POINTS)
def test_what_runs_at_a_time(
    intervals: list[tuple[int, int, int]], points: list[tuple[int, int]]
) -> None:
    intervals.sort(key=lambda one: one[1])
    asked = np.array(points, dtype=np.int64).reshape(-1, 2)
    found = nesting(*intervals).running(asked[:, 0], asked[:, 1])
    assert found.tolist() == [running_by_stack(intervals, point) for point in points]


def test_many_operators_side_by_side() -> None:
    """The pointers must pass over all of the siblings to the one around them."""
    around = nesting((0, 0, 100_001), *((0, at, 1) for at in range(1, 100_001)))
    assert around.parent[:3].tolist() == [-1, 0, 0]
    assert (around.parent[1:-1] == 0).all()


def test_of_equal_times_the_first_in_the_file_is_outside() -> None:
    assert nesting((0, 5, 3), (0, 5, 3), (0, 5, 0), (0, 5, 2)).parent.tolist() == [-1, 0, 1, 1, -1]


def test_stacks_are_outermost_first() -> None:
    nested = nesting((0, 0, 10), (0, 1, 8), (0, 2, 3), (1, 2, 3), (0, 20, 5), (0, 21, 1))
    names = ["a", "b", "c", "d", "a", "b"]
    stacks = nested.stacks(np.array([2, -1, 3, 1, 5, 0]), names)
    assert list(stacks) == ["a;b;c", "", "d", "a;b", "a;b", "a"]
    assert stacks.categories.is_unique


def test_no_operators_at_all() -> None:
    none = nesting()
    assert none.running(np.array([0, 1]), np.array([5, 6])).tolist() == [-1, -1]
    assert list(none.stacks(np.array([-1, -1]), [])) == ["", ""]
