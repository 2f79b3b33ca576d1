"""The active set against the optimality conditions and coordinate descent, on collinear columns in wild units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import enet_path

from flopcast.models.linear.regularised import ActiveSet

ALPHAS = np.geomspace(1, 1e-4, 20)


def counters(seed: int, n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised counters of a few latent factors, with a copy, a sum and a constant, and standardised y."""
    rng = np.random.default_rng(seed)
    factors = rng.lognormal(size=(n, 4))
    X = factors @ rng.gamma(0.5, size=(4, p)) * rng.lognormal(0, 0.1, size=(n, p))
    X = np.column_stack([X, X[:, 0], X[:, 0] + X[:, 1], np.ones(n)])[:, rng.permutation(p + 3)]
    scale = X.std(axis=0)
    y = factors @ rng.normal(size=4) + rng.normal(size=n)
    return (X - X.mean(axis=0)) / np.where(scale < 1e-12, 1.0, scale), (y - y.mean()) / y.std()


def slow_path(
    X: np.ndarray, y: np.ndarray, alphas: np.ndarray, mix: float, positive: bool
) -> np.ndarray:
    """Return the solutions of scikit-learn's coordinate descent, stopped early or not."""
    return enet_path(X, y, l1_ratio=mix, alphas=alphas, positive=positive, tol=1e-6, max_iter=300)[
        1
    ]


def objective(G: np.ndarray, c: np.ndarray, u: np.ndarray, alpha: float, mix: float) -> float:
    return u @ G @ u / 2 - c @ u + alpha * (mix * np.abs(u).sum() + (1 - mix) / 2 * u @ u)


@pytest.mark.filterwarnings("ignore:Objective did not converge")
@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.integers(0, 10_000),
    st.integers(5, 40),
    st.integers(2, 40),
    st.sampled_from([1.0, 0.5, 0.1]),
    st.booleans(),
)
def test_every_penalty_is_solved(seed: int, n: int, p: int, mix: float, positive: bool) -> None:
    X, y = counters(seed, n, p)
    G, c = X.T @ X / n, X.T @ y / n
    largest = float(np.abs(c).max()) / mix
    solver = ActiveSet(G, c, positive)
    slow = slow_path(X, y, largest * ALPHAS, mix, positive)
    for alpha, reference in zip(largest * ALPHAS, slow.T, strict=True):
        _, converged = solver.solve(alpha * mix, alpha * (1 - mix), tol=1e-6, max_steps=1000)
        assert converged
        u, inside = solver.u, solver.u != 0
        pull = c - G @ u - alpha * (1 - mix) * u
        np.testing.assert_allclose(pull[inside], alpha * mix * np.sign(u[inside]), rtol=2e-6)
        assert np.max((pull if positive else np.abs(pull))[~inside], initial=0.0) <= alpha * mix * (
            1 + 2e-6
        )
        assert u.min() >= 0 or not positive
        assert objective(G, c, u, alpha, mix) <= objective(G, c, reference, alpha, mix) + 1e-10


def test_by_hand() -> None:
    """On orthogonal columns the lasso is soft thresholding; of two equal ones the first is taken."""
    solver = ActiveSet(np.eye(3), np.array([3.0, -2.0, 0.5]), positive=False)
    assert solver.solve(1.0, 0.0, 1e-9, 100) == (2, True)
    np.testing.assert_allclose(solver.u, [2.0, -1.0, 0.0])
    solver.solve(0.25, 1.0, 1e-9, 100)
    np.testing.assert_allclose(solver.u, [2.75 / 2, -1.75 / 2, 0.25 / 2])
    bounded = ActiveSet(np.eye(3), np.array([3.0, -2.0, 0.5]), positive=True)
    bounded.solve(1.0, 0.0, 1e-9, 100)
    np.testing.assert_allclose(bounded.u, [2.0, 0.0, 0.0])
    twins = ActiveSet(np.ones((2, 2)), np.ones(2), positive=False)
    twins.solve(0.5, 0.0, 1e-9, 100)
    np.testing.assert_allclose(twins.u, [0.5, 0.0])


def test_equal_columns_that_a_ridge_let_in_are_kept_apart_without_it() -> None:
    twins = ActiveSet(np.ones((2, 2)), np.ones(2), positive=False)
    twins.solve(0.5, 1.0, 1e-9, 100)
    np.testing.assert_allclose(twins.u, [1 / 6, 1 / 6])
    assert twins.solve(0.25, 0.0, 1e-9, 100)[1]
    assert twins.u.sum() == pytest.approx(0.75)


def test_a_drifted_inverse_is_computed_anew() -> None:
    X, y = counters(1, 40, 10)
    G, c = X.T @ X / 40, X.T @ y / 40
    first, second = ActiveSet(G, c, positive=False), ActiveSet(G, c, positive=False)
    first.solve(0.05, 0.0, 1e-6, 1000)
    second.solve(0.05, 0.0, 1e-6, 1000)
    second._inverse[:] *= 1.9
    for solver in (first, second):
        assert solver.solve(0.03, 0.0, 1e-6, 1000)[1]
    np.testing.assert_allclose(second.u, first.u, atol=1e-8)


def test_too_few_steps_are_told() -> None:
    X, y = counters(2, 40, 10)
    assert ActiveSet(X.T @ X / 40, X.T @ y / 40, positive=False).solve(1e-4, 0.0, 1e-6, 2) == (
        2,
        False,
    )
