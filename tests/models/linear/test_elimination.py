"""The updated factorisation against one from scratch at every step, on collinear columns in units from 1 to 1e12."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from flopcast.models.linear.rfecv import eliminate_bounded, eliminate_free, weakest
from flopcast.models.linear.triangular import centred, with_intercept
from flopcast.tests.models.linear.oracles.problems import wild_counters

CUT_OFF = 1e-7


def frozen_weakest(size: np.ndarray) -> int:
    """Return the last of the smallest; a decision that rounding error could turn is no test."""
    smallest = np.flatnonzero(size <= size.min() * (1 + 1e-9) + size.max() * 1e-14)
    others = np.delete(size, smallest)
    assume(not len(others) or others.min() > size.min() * (1 + 1e-6) + size.max() * 1e-11)
    return int(smallest[-1])


def slow_free(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the coefficients, in standard deviations, of every fit from all columns to one: an SVD each."""
    M = np.sqrt(w)[:, None] * (X - np.average(X, axis=0, weights=w))
    length = np.linalg.norm(M, axis=0)
    flat = length <= len(y) * np.finfo(float).eps * np.linalg.norm(np.sqrt(w)[:, None] * X, axis=0)
    M[:, flat], length[flat] = 0.0, 1.0
    M, v = M / length, np.sqrt(w) * (y - np.average(y, weights=w))
    columns, path = np.arange(X.shape[1]), []
    while True:
        U, s, Vt = np.linalg.svd(M[:, columns], full_matrices=False)
        unclear = (s > 1e-10 * s.max()) & (s < 1e-4 * s.max())
        assume(not unclear.any())
        kept = s > CUT_OFF * s.max()
        path.append(np.zeros(X.shape[1]))
        path[-1][columns] = Vt[kept].T @ ((U.T @ v)[kept] / s[kept])
        if len(columns) == 1:
            return np.array(path)
        columns = np.delete(columns, frozen_weakest(np.abs(path[-1][columns])))


def slow_bounded(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return intercept and coefficients, in standard deviations, of every non-negative fit: an active set each."""
    spread = np.sqrt(np.average((X - np.average(X, axis=0, weights=w)) ** 2, axis=0, weights=w))
    M, v = np.sqrt(w)[:, None] * np.column_stack([np.ones(len(y)), X / spread]), np.sqrt(w) * y
    columns, path = np.arange(1, X.shape[1] + 1), []
    while True:
        path.append(np.zeros(X.shape[1] + 1))
        used = np.append(0, columns)
        path[-1][used] = nnls(M[:, used], v, maxiter=1000)[0]
        if len(columns) == 1:
            return np.array(path)
        columns = np.delete(columns, frozen_weakest(path[-1][columns]))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 10_000), st.integers(4, 30), st.integers(2, 30), st.booleans())
def test_free_path_is_that_of_a_decomposition_at_every_step(
    seed: int, n: int, p: int, extras: bool
) -> None:
    X, y, w = wild_counters(seed, n, p, extras)
    path = eliminate_free(centred(X, y, w), 1)
    slow = slow_free(X, y, w)
    np.testing.assert_allclose(path.t, slow, atol=1e-7 * np.abs(slow).max())
    np.testing.assert_array_equal(path.columns, np.flatnonzero(slow[-1]))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 10_000), st.integers(20, 40), st.integers(2, 15))
def test_bounded_path_is_that_of_an_active_set_at_every_step(seed: int, n: int, p: int) -> None:
    X, y, w = wild_counters(seed, n, p, extras=False)
    problem = with_intercept(X, y, w)
    spread = np.sqrt(np.average((X - np.average(X, axis=0, weights=w)) ** 2, axis=0, weights=w))
    path = eliminate_bounded(problem, spread / problem.scale[1:], 1)
    slow = slow_bounded(X, y, w)
    fast = path.t / problem.scale * np.append(1.0, spread)
    np.testing.assert_allclose(fast, slow, atol=1e-7 * np.abs(slow).max())


@settings(deadline=None, derandomize=True, max_examples=5)
@given(st.integers(0, 10_000))
def test_many_more_counters_than_workloads(seed: int) -> None:
    X, y, w = wild_counters(seed, 40, 90, extras=True)
    np.testing.assert_allclose(eliminate_free(centred(X, y, w), 1).t, slow_free(X, y, w), atol=1e-6)


def test_stops_at_the_number_of_columns_wanted() -> None:
    X, y, w = wild_counters(6, 40, 8, extras=False)
    every, some = eliminate_free(centred(X, y, w), 1), eliminate_free(centred(X, y, w), 3)
    np.testing.assert_array_equal(some.t, every.t[:6])
    np.testing.assert_array_equal(some.columns, np.flatnonzero(every.t[5]))
    bounded = eliminate_bounded(with_intercept(X, y, w), np.ones(8), 3)
    assert (len(bounded.columns), bounded.t.shape) == (3, (6, 9))


def test_columns_of_zeros_go_first() -> None:
    X, y, w = wild_counters(7, 40, 8, extras=False)
    X[:, [1, 4]] = 5.0
    path = eliminate_free(centred(X, y, w), 3)
    assert (path.t[:, [1, 4]] == 0).all()
    for step in (0, 1, 2):
        assert np.count_nonzero(path.t[step]) == 6
    assert eliminate_free(centred(X, y, w), 7).columns.tolist() == [0, 1, 2, 3, 5, 6, 7]


def test_the_last_of_equals_goes() -> None:
    assert weakest(np.array([1.0, 0.5, 2.0, 0.5 * (1 - 1e-12), 3.0])) == 3
    assert weakest(np.array([0.0, 1e-17, np.inf, 1.0])) == 1
    for p in (3, 20):
        assert eliminate_free(
            centred(np.ones((5, p)), np.arange(5.0), np.ones(5)), 1
        ).columns.tolist() == [0]
