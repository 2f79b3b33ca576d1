"""Stepwise selection by AIC against loops over the peers' fits: all make the same decisions, at their own speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import statsmodels.api as sm
from scipy.optimize import nnls
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LinearRegression

from ..models.stepwise import Stepwise
from .harness import Comparison, Contender

Criterion = Callable[[list[int]], float]
ROUNDING = 1e-9
"""A criterion that falls by less has not fallen."""


def selection(n: int, p: int, seed: int = 0) -> Iterator[Comparison]:
    """Yield forward selection of free and of non-negative coefficients on a synthetic problem.

    Parameters
    ----------
    n, p : int
        Rows and columns; every fourth column has a coefficient (from 1 down to 0.1), the noise has deviation 1.
    seed : int, default=0
    """
    X, y = problem(n, p, seed)
    nothing = Contender("do nothing (no column)", list)
    yield Comparison(
        task=f"forward AIC, OLS, {n} x {p}",
        ours=Contender("flopcast Stepwise", lambda: ours(X, y, "ols")),
        peers=(
            Contender("statsmodels OLS in a loop", lambda: forward(p, _statsmodels_aic(X, y))),
            Contender("sklearn SequentialFeatureSelector", lambda: _sequential(X, y)),
        ),
        nothing=nothing,
        differs=different_columns,
    )
    yield Comparison(
        task=f"forward AIC, NNLS, {n} x {p}",
        ours=Contender("flopcast Stepwise", lambda: ours(X, y, "nnls")),
        peers=(Contender("scipy.optimize.nnls in a loop", lambda: forward(p, _nnls_aic(X, y))),),
        nothing=nothing,
        differs=different_columns,
    )


def problem(n: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X of shape (n, p), positive and correlated as features of kernels are, and y of shape (n,)."""
    rng = np.random.default_rng(seed)
    X = np.exp(0.5 * rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 1)))
    coefficients = np.zeros(p)
    coefficients[::4] = np.linspace(1.0, 0.1, len(coefficients[::4]))
    return X, 2.0 + X @ coefficients + rng.normal(size=n)


def ours(X: np.ndarray, y: np.ndarray, base: Any) -> list[int]:
    """Return the columns that flopcast selects."""
    return np.flatnonzero(Stepwise(base=base).fit(X, y).coef_).tolist()


def forward(p: int, criterion: Criterion) -> list[int]:
    """Return the columns that forward selection over p columns ends with: the textbook loop."""
    chosen: list[int] = []
    value = criterion(chosen)
    while len(chosen) < p:
        trials = [(criterion([*chosen, j]), j) for j in range(p) if j not in chosen]
        best, column = min(trials)
        if best >= value - ROUNDING:
            break
        value = best
        chosen.append(column)
    return sorted(chosen)


def _statsmodels_aic(X: np.ndarray, y: np.ndarray) -> Criterion:
    ones = np.ones((len(y), 1))
    return lambda columns: float(sm.OLS(y, np.hstack([ones, X[:, columns]])).fit().aic)


def _nnls_aic(X: np.ndarray, y: np.ndarray) -> Criterion:
    n, ones = len(y), np.ones((len(y), 1))

    def criterion(columns: list[int]) -> float:
        coefficients, norm = nnls(np.hstack([ones, X[:, columns]]), y)
        return float(n * np.log(norm**2 / n) + 2 * np.count_nonzero(coefficients))

    return criterion


def _sequential(X: np.ndarray, y: np.ndarray) -> list[int]:
    """Select by AIC on all rows: the one fold trains and scores on everything."""

    def score(model: LinearRegression, X: np.ndarray, y: np.ndarray) -> float:
        rss = float(((y - model.predict(X)) ** 2).sum())
        return -(len(y) * np.log(rss / len(y)) + 2 * (len(model.coef_) + 1))

    everything = np.arange(len(y))
    search = SequentialFeatureSelector(
        LinearRegression(), n_features_to_select="auto", tol=ROUNDING, scoring=score, cv=[(everything, everything)]
    )
    return np.flatnonzero(search.fit(X, y).get_support()).tolist()


def different_columns(a: list[int], b: list[int]) -> str:
    """Return which columns only one of two selections has."""
    return "" if a == b else f"columns {sorted(set(a) ^ set(b))} in one only"
