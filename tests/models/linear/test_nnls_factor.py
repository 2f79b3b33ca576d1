"""The factor of the chosen columns against what it stands for, computed anew."""

from __future__ import annotations

import numpy as np
import pytest

from flopcast.models.linear.nnls_forward import ChosenFactor
from flopcast.models.linear.triangular import Triangular, with_intercept


def problem(n: int, p: int, own: float = 1.0, seed: int = 0) -> Triangular:
    """Return columns of which each is a common part and ``own`` times noise."""
    rng = np.random.default_rng(seed)
    X = rng.lognormal(size=(n, 1)) + own * rng.normal(size=(n, p))
    return with_intercept(X, rng.normal(2, 1, size=n), np.ones(n))


def check(factor: ChosenFactor, of: Triangular, used: list[int], idle: list[int]) -> None:
    """Compare every attribute with its definition, by least squares from nothing."""
    A, b, chosen = of.A, of.b, [*used, *idle]
    assert factor.columns[: factor.used] == used
    assert factor.idle == idle

    def off(M: np.ndarray, columns: list[int]) -> np.ndarray:
        return M - A[:, columns] @ np.linalg.lstsq(A[:, columns], M)[0]

    others = np.setdiff1d(np.arange(A.shape[1]), chosen)
    np.testing.assert_allclose(factor.t, np.linalg.lstsq(A[:, used], b)[0], rtol=1e-6)
    np.testing.assert_allclose(factor.free, np.linalg.lstsq(A[:, factor.columns], b)[0], rtol=1e-6)
    np.testing.assert_allclose(factor.residual(), off(b, used), atol=1e-8)
    np.testing.assert_allclose(factor.gradient, A.T @ off(b, used), atol=1e-8)
    np.testing.assert_allclose(factor.gradient_beyond, A.T @ off(b, chosen), atol=1e-8)
    np.testing.assert_allclose(factor.lengths[others], np.sum(off(A, used) ** 2, axis=0)[others], atol=1e-10)
    np.testing.assert_allclose(factor.lengths_beyond[others], np.sum(off(A, chosen) ** 2, axis=0)[others], atol=1e-10)
    assert np.isinf(factor.lengths[chosen]).all()
    assert factor.rss == pytest.approx(float(np.sum(off(b, used) ** 2)), rel=1e-9)
    gram = factor.inverse @ factor.inverse.T
    np.testing.assert_allclose(gram @ A[:, factor.columns].T @ A[:, factor.columns], np.eye(len(gram)), atol=1e-6)
    for column in others:
        np.testing.assert_allclose(
            factor.beyond_idle(column), off(A, used)[:, factor.columns[factor.used :]].T @ A[:, column], atol=1e-8
        )
    np.testing.assert_allclose(factor.orthogonal(others, factor.used).T, off(A, used)[:, others], atol=1e-8)


@pytest.mark.parametrize("own", [1.0, 0.1, 1e-3])
def test_columns_come_into_use_and_are_held_at_zero(own: float) -> None:
    of = problem(40, 12, own)
    factor = ChosenFactor(of, [0], [])
    check(factor, of, [0], [])
    factor.use(3, [0, 3])
    factor.use(7, [0, 3, 7])
    check(factor, of, [0, 3, 7], [])
    factor.use(5, [0, 7, 5])  # 3 goes to zero
    check(factor, of, [0, 7, 5], [3])
    factor.use(1, [7, 1])  # 0 and 5 too
    check(factor, of, [7, 1], [0, 5, 3])
    factor.use(2, [7, 1, 3, 2])  # 3 comes back
    check(factor, of, [7, 1, 3, 2], [0, 5])


def test_it_grows_beyond_its_first_rows() -> None:
    of = problem(80, 60)
    factor = ChosenFactor(of, [0], [])
    for column in range(1, 50):
        factor.use(column, list(range(column + 1)))
    check(factor, of, list(range(50)), [])


def test_a_combination_of_chosen_columns_is_parked() -> None:
    X = np.random.default_rng(1).uniform(size=(20, 4))
    of = with_intercept(np.column_stack([X, X[:, 0] + X[:, 1]]), X[:, 2] + 1, np.ones(20))
    factor = ChosenFactor(of, [0, 1, 5], [2])
    assert (factor.columns, factor.parked, factor.idle) == ([0, 1, 5], [2], [2])
    factor.use(3, [0, 1, 5, 3])
    assert (factor.columns, factor.parked) == ([0, 1, 5, 3], [2])
    other = ChosenFactor(of, [0, 1], [2])
    other.use(5, [0, 1, 5])  # 2 stands in the way of 5, and makes room
    assert (other.columns, other.used, other.parked) == ([0, 1, 5], 3, [2])
    assert np.isinf(other.lengths[[0, 1, 2, 5]]).all()


def test_no_more_columns_than_rows() -> None:
    of = problem(5, 9)
    factor = ChosenFactor(of, [0, 1, 2, 3, 4], [5])
    assert factor.parked == [5]
    assert factor.rss == pytest.approx(0.0, abs=1e-20)


def test_independence_is_what_is_left_of_a_column() -> None:
    of = problem(30, 3, own=1e-4)
    a, b = of.A[:, 1], of.A[:, 2]
    assert ChosenFactor(of, [1, 2], []).independence() == pytest.approx(1 - (a @ b) ** 2, rel=1e-6)
    assert ChosenFactor(of, [], []).independence() == 1.0
