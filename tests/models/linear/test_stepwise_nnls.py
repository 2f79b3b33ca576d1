"""The paths of stepwise non-negative least squares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from flopcast.models.linear.nnls_forward import NonNegativeForward
from flopcast.models.linear.stepwise import NonNegativeBackward, first_of_least
from flopcast.models.linear.triangular import with_intercept
from flopcast.tests.models.linear.oracles.problems import Problem, counters, factor_counters
from flopcast.tests.models.linear.oracles.slow_stepwise import parts_at, slow_path

ANY = settings(max_examples=15, deadline=None, database=None, derandomize=True)


def whole(problem: Problem, direction: str, most: int) -> NonNegativeForward | NonNegativeBackward:
    reduced = with_intercept(*problem)
    path = (
        NonNegativeForward(reduced)
        if direction == "forward"
        else NonNegativeBackward(reduced, most)
    )
    while path.reaches(len(path.order) + 1):
        pass
    return path


def compare(problem: Problem, direction: str, most: int) -> int:
    """Check a whole path against the slow one, up to ties; return the number of steps compared."""
    X, y, w = problem
    path, slow = whole(problem, direction, most), slow_path(X, y, w, "nnls", direction, most)
    rounding = 1e-13 * float(np.sum(w * y**2))
    assert path.columns.tolist() == slow.start
    steps = parts_at(path.order, slow, 1e-8, rounding)
    np.testing.assert_allclose(
        path.rss[: steps + 1], slow.rss[: steps + 1], rtol=1e-8, atol=rounding
    )
    return steps


@ANY
@given(problem=counters(rows=35, columns=25))
def test_forward_is_the_plain_search(problem: Problem) -> None:
    compare(problem, "forward", 0)


@ANY
@given(problem=counters(rows=35, columns=25))
def test_backward_is_the_plain_search(problem: Problem) -> None:
    compare(problem, "backward", len(problem[1]) - 2)


@ANY
@given(seed=st.integers(0, 10**6), level=st.sampled_from([-1.0, 0.0, 2.0]))
def test_columns_and_an_intercept_that_change_places(seed: int, level: float) -> None:
    """Sums and differences of columns, signs of both kinds, and an intercept that zero bounds or not."""
    rng = np.random.default_rng(seed)
    base = rng.uniform(size=(30, 6))
    X = np.column_stack(
        [base, base @ rng.uniform(-1, 1, size=(6, 6)) + 0.05 * rng.normal(size=(30, 6))]
    )
    y = base @ rng.normal(0.3, 1, size=6) + 0.1 * rng.normal(size=30) + level
    for direction in ("forward", "backward"):
        compare((X, y, np.ones(30)), direction, 28)


def test_every_model_is_the_fit_of_scipy() -> None:
    problem = factor_counters(60, 30, 0.3, 0)
    X, y, _ = problem
    M = np.column_stack([np.ones(60), X / X.std(axis=0)])
    forward, backward = whole(problem, "forward", 0), whole(problem, "backward", 58)
    for path in (forward, backward):
        for steps, rss in enumerate(path.rss):
            moved = path.order[:steps]
            columns = sorted(moved) if path is forward else [j for j in range(30) if j not in moved]
            assert nnls(M[:, [0, *(j + 1 for j in columns)]], y)[1] ** 2 == pytest.approx(rss)


def test_columns_at_zero_are_removed_first_in_their_order() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(40, 5))
    path = whole((X, X @ [1, -1, 2, -1, 3] + 1, np.ones(40)), "backward", 38)
    assert path.order[:2] == [1, 3]
    assert path.rss[0] == path.rss[1] == path.rss[2] < path.rss[3]


def test_backward_begins_with_forward_where_too_many_are_positive() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.uniform(size=(12, 40)), rng.uniform(1, 9, size=12)
    forward, backward = (
        whole((X, y, np.ones(12)), "forward", 0),
        whole((X, y, np.ones(12)), "backward", 3),
    )
    assert backward.columns.tolist() == sorted(forward.order[:3])


def test_neither_units_nor_the_order_of_columns_matter() -> None:
    X, y, w = factor_counters(80, 60, 0.1, 3)
    rng = np.random.default_rng(4)
    order, units = rng.permutation(60), 2.0 ** rng.integers(-20, 20, size=60)
    for direction in ("forward", "backward"):
        path = whole((X, y, w), direction, 78)
        scaled = whole((X * units, y, w), direction, 78)
        assert (scaled.order, scaled.rss) == (path.order, path.rss)
        shuffled = whole((X[:, order], y, w), direction, 78)
        np.testing.assert_allclose(shuffled.rss, path.rss)
        moved, other = path.order, order[shuffled.order].tolist()
        if direction == "backward":  # columns at zero leave in their order
            idle = sum(
                after == before for before, after in zip(path.rss, path.rss[1:], strict=False)
            )
            first = next(step for step, rss in enumerate(path.rss) if rss > path.rss[0]) - 1
            assert idle >= first
            assert set(moved[:first]) == set(other[:first])
        else:
            assert moved == other


def choose(values: list[float], bounds: list[float], known: list[bool]) -> tuple[int, list[int]]:
    """Return the choice and the trials that were fitted."""
    fitted: list[int] = []

    def fit(index: int) -> float:
        fitted.append(index)
        return values[index]

    def settled(which: np.ndarray) -> np.ndarray:
        return np.where(np.array(known)[which], np.array(values)[which], np.nan)

    return first_of_least(np.array(bounds), settled, fit), fitted


def test_only_trials_whose_bound_can_win_are_fitted() -> None:
    assert choose(
        [-1.0, -5.0, -2.0, -3.0], [-4.0, -6.0, -9.0, -3.0], [False, True, False, True]
    ) == (1, [2])


def test_a_fit_that_wins() -> None:
    assert choose([-1.0, -5.0, -7.0], [-1.0, -5.0, -8.0], [True, True, False]) == (2, [2])


def test_the_first_of_equals_up_to_rounding() -> None:
    assert choose([-1.0, -2.0, -2.0 - 1e-12], [-1.0, -2.0, -2.0 - 1e-12], [True] * 3) == (1, [])


def test_more_trials_than_are_looked_at_together() -> None:
    values = [-float(i % 37) for i in range(100)]
    assert choose(values, [value - 0.5 for value in values], [False] * 100)[0] == 36
