"""Fits that give up columns, against a decomposition of the columns left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.models.linear import rfecv as deflation
from flopcast.models.linear.rfecv import eliminate_free
from flopcast.models.linear.triangular import centred
from flopcast.tests.models.linear.oracles.problems import wild_counters

CUT_OFF = 1e-7


@pytest.mark.parametrize("noise", [1e-3, 1e-5, 1e-8, 1e-13])
def test_nearly_equal_columns_are_followed_through(noise: float) -> None:
    """Their coefficients start huge; when one has gone no rounding error of that size may be left."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 12))
    X[:, 6:] = X[:, :6] + noise * rng.normal(size=(50, 6))
    problem = centred(X, X[:, :6] @ np.arange(1.0, 7) + rng.normal(size=50), np.ones(50))
    path = eliminate_free(problem, 1)
    for fit in path.t:
        left = np.flatnonzero(fit)
        expected = np.linalg.lstsq(problem.A[:, left], problem.b, rcond=CUT_OFF)[0]
        np.testing.assert_allclose(fit[left], expected, rtol=1e-5)


def test_factorises_only_where_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    factorise = deflation._factorise
    monkeypatch.setattr(
        deflation, "_factorise", lambda A, b: calls.append(A.shape) or factorise(A, b)
    )
    X, y, w = wild_counters(5, 60, 30, extras=False)
    eliminate_free(centred(X, y, w), 1)
    assert len(calls) == 1
    # once for all columns, once where they become independent
    eliminate_free(centred(X[:20], y[:20], w[:20]), 1)
    assert [shape[1] for shape in calls[1:]] == [30, 19]


@settings(deadline=None, derandomize=True, max_examples=20)
@given(st.integers(0, 10_000), st.integers(4, 12), st.booleans())
def test_wide_and_narrow_fits_agree(seed: int, n: int, extras: bool) -> None:
    X, y, w = wild_counters(seed, n, 5 * n, extras)
    problem, every = centred(X, y, w), np.arange(X.shape[1])
    wide, narrow = deflation.WideFit.of(problem, every), deflation.NarrowFit.of(problem, every)
    for j in np.random.default_rng(seed).permutation(X.shape[1])[:-1]:
        wide, narrow = (
            fit.without(int(np.flatnonzero(fit.columns == j)[0])) for fit in (wide, narrow)
        )
        expected = np.linalg.lstsq(
            problem.A[:, narrow.columns[narrow.alive]], problem.b, rcond=CUT_OFF
        )[0]
        for fit in (wide, narrow):
            np.testing.assert_allclose(
                fit.t[fit.alive], expected, atol=1e-7 * np.abs(expected).max() + 1e-12
            )


@pytest.mark.parametrize(
    "limits",
    [
        {"_SHRUNK": 2.0, "_CHECK": 1},
        {"_GROWN": 0.0},
        {"_FREE": 2.0},
        {"_DEPENDENT": 2.0, "_INDEPENDENT": 0.0},
    ],
)
def test_factorising_more_often_changes_nothing(
    limits: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, w = wild_counters(9, 12, 40, extras=False)
    problem = centred(X, y, w)
    expected = eliminate_free(problem, 1)
    for name, value in limits.items():
        monkeypatch.setattr(deflation, name, value)
    np.testing.assert_allclose(eliminate_free(problem, 1).t, expected.t, atol=1e-9)
