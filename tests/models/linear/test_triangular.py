"""Reduced problems, and the active-set method."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.models.linear.triangular import (
    Face,
    centred,
    minimum_norm,
    non_negative,
    upper_triangle,
    with_intercept,
)
from flopcast.tests.models.linear.oracles.problems import Problem, counters
from flopcast.tests.models.linear.oracles.slow_stepwise import lawson_hanson


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
    # as if singular
    monkeypatch.setattr("flopcast.models.linear.triangular.dtrtri", lambda R: (R, 1))
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


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 30),
    p=st.integers(1, 15),
    copies=st.integers(0, 3),
    noise=st.sampled_from([0.0, 1e-9, 1e-5, 1e-2]),
)
def test_it_is_optimal_on_any_design(seed: int, n: int, p: int, copies: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.2, 1, size=(n, p)) * 10.0 ** rng.integers(-6, 6, size=p)
    X = np.column_stack(
        [X, 2 * X[:, rng.integers(p, size=copies)] * (1 + noise * rng.normal(size=(n, copies)))]
    )
    y = rng.normal(size=n) + rng.uniform(-1, 2)
    problem = with_intercept(X, y, np.ones(n))
    t = non_negative(problem)
    gradient = problem.A.T @ (problem.b - problem.A @ t)
    scale = np.linalg.norm(problem.b)
    assert t.min() >= 0
    assert np.abs(gradient[t > 0]).max(initial=0) <= 1e-8 * scale
    # a column within 1e-7 of the span of the others may be left out
    assert gradient.max() <= 1e-6 * scale


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(problem=counters(rows=40, columns=60), seed=st.integers(0, 1000))
def test_all_starts_lead_to_the_same_fit(problem: Problem, seed: int) -> None:
    reduced = with_intercept(*problem)
    rng = np.random.default_rng(seed)
    q = reduced.A.shape[1]
    rounding = 1e-13 * float(reduced.b @ reduced.b)
    plain = reduced.rss(lawson_hanson(reduced.A, reduced.b))
    for start in (
        None,
        np.zeros(q),
        rng.uniform(size=q),
        np.where(rng.random(q) < 0.2, rng.uniform(size=q), 0.0),
    ):
        assert reduced.rss(non_negative(reduced, start=start)) == pytest.approx(
            plain, rel=1e-8, abs=rounding
        )


def test_warm_start_gives_the_same_fit() -> None:
    rng = np.random.default_rng(5)
    problem = with_intercept(rng.uniform(size=(40, 10)), rng.uniform(size=40), np.ones(40))
    cold = non_negative(problem)
    np.testing.assert_allclose(non_negative(problem, start=rng.uniform(size=11)), cold, atol=1e-10)
    np.testing.assert_allclose(non_negative(problem, start=cold), cold, atol=1e-12)


def test_columns_not_allowed_stay_out() -> None:
    X = np.random.default_rng(6).uniform(size=(20, 3))
    problem = with_intercept(X, X @ [1, 1, 1], np.ones(20))
    t = non_negative(problem, np.array([True, False, True, True]))
    assert t[1] == 0
    assert t[2] > 0


def test_a_face_knows_its_factors() -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 6))
    problem = with_intercept(
        np.column_stack([X, X[:, 0] + X[:, 1]]), rng.normal(size=30), np.ones(30)
    )
    face = Face(problem, [1, 2])
    assert face.add(4)
    assert not face.add(7)  # the sum of the first two
    assert face.columns == [1, 2, 4]
    A = problem.A[:, face.columns]
    np.testing.assert_allclose(face.goal(), np.linalg.lstsq(A, problem.b)[0])
    np.testing.assert_allclose(face.residual(), problem.b - A @ face.goal(), atol=1e-12)
    np.testing.assert_allclose(face.gradient(), problem.A.T @ face.residual(), atol=1e-12)
    face.keep(np.array([False, True, True]))
    assert face.columns == [2, 4]
    np.testing.assert_allclose(face.goal(), np.linalg.lstsq(problem.A[:, [2, 4]], problem.b)[0])
    assert Face(problem, [1, 2, 7, 4]).columns == [1, 2, 4]
