"""The paths of stepwise least squares against plain searches that factorise every model anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.models.linear.stepwise import backward_path, forward_path, independent
from flopcast.models.linear.triangular import centred
from flopcast.tests.models.linear.oracles.problems import Problem, counters, factor_counters
from flopcast.tests.models.linear.oracles.slow_stepwise import design, parts_at, slow_path
from flopcast.tests.models.linear.oracles.slow_stepwise import independent as slow_independent

ANY = settings(max_examples=60, deadline=None, database=None, derandomize=True)


def compare(problem: Problem, direction: str, most: int, close: float = 1e-8) -> int:
    """Check a whole path against the slow one, up to ties; return the number of steps compared."""
    X, y, w = problem
    path = (
        forward_path(centred(X, y, w, 4.0))
        if direction == "forward"
        else backward_path(centred(X, y, w), most)
    )
    while path.reaches(len(path.order) + 1):
        pass
    slow, rounding = slow_path(X, y, w, "ols", direction, most), 1e-13 * float(np.sum(w * y**2))
    if path.columns.tolist() != slow.start:  # a tie on the forward path that it begins with
        assert len(path.columns) == len(slow.start)
        return 0
    steps = parts_at(path.order, slow, close, rounding)
    np.testing.assert_allclose(
        path.rss[: steps + 1], slow.rss[: steps + 1], rtol=close, atol=rounding
    )
    return steps


@ANY
@given(problem=counters())
def test_forward_is_the_plain_search(problem: Problem) -> None:
    compare(problem, "forward", 0)


@ANY
@given(problem=counters())
def test_backward_is_the_plain_search(problem: Problem) -> None:
    compare(problem, "backward", len(problem[1]) - 2)


@pytest.mark.parametrize("own", [0.3, 1e-3, 1e-5])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_paths_longer_than_a_block(direction: str, own: float) -> None:
    assert compare(factor_counters(150, 80, own, 0), direction, 148) == 80


def test_more_columns_than_rows() -> None:
    problem = factor_counters(60, 90, 0.3, 1)
    assert compare(problem, "forward", 0, close=1e-6) >= 57
    assert compare(problem, "backward", 58, close=1e-6) >= 57


def test_a_path_is_the_same_in_one_go_or_many() -> None:
    problem = centred(*factor_counters(80, 60, 0.1, 2))
    for make in (lambda: forward_path(problem), lambda: backward_path(problem, 70)):
        once, often = make(), make()
        once.reaches(60)
        assert all(often.reaches(steps) for steps in range(61))
        assert not often.reaches(61)
        assert (once.order, once.rss) == (often.order, often.rss)


@ANY
@given(problem=counters(), seed=st.integers(0, 1000))
def test_neither_units_nor_the_order_of_columns_matter(problem: Problem, seed: int) -> None:
    """Powers of two change nothing at all; another order changes ties, and then what follows."""
    X, y, w = problem
    rng = np.random.default_rng(seed)
    order = rng.permutation(X.shape[1])
    for make in (forward_path, lambda problem: backward_path(problem, len(y) - 2)):
        path, scaled, shuffled = (
            make(centred(matrix, y, w))
            for matrix in (X, X * 2.0 ** rng.integers(-20, 20, size=X.shape[1]), X[:, order])
        )
        while path.reaches(len(path.order) + 1):
            assert scaled.reaches(len(path.order))
        assert (scaled.order, scaled.rss) == (path.order, path.rss)
        shuffled.reaches(1)
        if path.columns.tolist() == sorted(order[shuffled.columns].tolist()) and len(path.rss) > 1:
            assert shuffled.rss[1] == pytest.approx(
                path.rss[1], rel=1e-7, abs=1e-12 * float(np.sum(w * y**2))
            )


@ANY
@given(problem=counters(), most=st.integers(0, 50))
def test_independent_columns_are_those_of_gram_schmidt(problem: Problem, most: int) -> None:
    A, _ = design(*problem, "ols")
    expected, found = slow_independent(A), independent(A, most)
    if len(expected) > most:
        assert found is None
    else:
        assert found is not None
        assert found.tolist() == expected


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_no_columns_no_steps(direction: str) -> None:
    problem = centred(np.zeros((5, 2)), np.arange(5.0), np.ones(5))
    path = forward_path(problem) if direction == "forward" else backward_path(problem, 3)
    assert not path.reaches(1)
    assert path.rss == [pytest.approx(10.0)]
    assert len(path.columns) == 0
