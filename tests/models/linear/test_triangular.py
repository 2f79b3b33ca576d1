"""Least-squares problems in reduced form, and their solution with and without collinear columns."""

from __future__ import annotations

import numpy as np
import pytest

from flopcast.models.linear.triangular import centred, minimum_norm, upper_triangle, with_intercept


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) * [1, 1e6, 1e-6, 50] + [0, 4e6, 0, 1]
    return X, rng.normal(size=30) + 3, rng.uniform(0.1, 3, size=30)


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (0, 2), (2, 0)])
def test_upper_triangle_has_the_products_of_the_columns(shape: tuple[int, int]) -> None:
    M = np.random.default_rng(1).normal(size=shape)
    R = upper_triangle(M)
    assert len(R) == min(shape)
    np.testing.assert_allclose(R.T @ R, M.T @ M, atol=1e-12)
    np.testing.assert_array_equal(R, np.triu(R))


def test_reduced_or_not_it_is_the_same_problem(rows: tuple) -> None:
    X, y, w = rows
    small, large = centred(X, y, w), centred(X, y, w, reduce=100.0)
    assert small.A.shape == (5, 4)
    assert large.A.shape == (30, 4)
    np.testing.assert_allclose(small.A.T @ small.A, large.A.T @ large.A, atol=1e-13)
    np.testing.assert_allclose(small.A.T @ small.b, large.A.T @ large.b)
    np.testing.assert_allclose(np.diagonal(large.A.T @ large.A), 1.0)
    np.testing.assert_array_equal(small.scale, large.scale)
    assert small.floor == large.floor


def test_rss_is_that_of_the_rows(rows: tuple) -> None:
    X, y, w = rows
    t = np.array([0.5, 1.0, -2.0, 0.1, 0.2])
    problem = with_intercept(X, y, w)
    coefficients = t / problem.scale
    expected = np.sum(w * (y - coefficients[0] - X @ coefficients[1:]) ** 2)
    assert problem.rss(t) == pytest.approx(expected)


def test_columns_that_do_not_vary_are_zero_when_centred() -> None:
    X = np.column_stack([np.full(20, 0.1), 1e12 + np.arange(20) * 1e-5, np.arange(20.0)])
    problem = centred(X, np.arange(20.0), np.ones(20))
    assert problem.A.any(axis=0).tolist() == [False, False, True]


def test_both_ways_to_solve_agree(rows: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = centred(*rows)
    columns = np.array([2, 0, 3])
    by_qr = minimum_norm(problem, columns)
    monkeypatch.setattr("flopcast.models.linear.triangular.dtrtri", lambda R: (R, 1))  # as if singular
    by_svd = minimum_norm(problem, columns)
    for a, b in zip(by_qr, by_svd, strict=True):
        np.testing.assert_allclose(a, b)


def test_collinear_columns_are_solved_for_the_least_norm(rows: tuple) -> None:
    X, y, w = rows
    problem = centred(np.column_stack([X, 3 * X[:, 0]]), y, w)
    t, spread, rank = minimum_norm(problem, np.arange(5))
    assert rank == 4
    assert t[0] == pytest.approx(t[4])
    assert np.isnan(spread).tolist() == [True, False, False, False, True]
