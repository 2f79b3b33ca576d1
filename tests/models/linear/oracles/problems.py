"""Random regression problems of the kinds that break selections."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

Problem = tuple[np.ndarray, np.ndarray, np.ndarray]


@st.composite
def counters(draw: st.DrawFn, rows: int = 45, columns: int = 40) -> Problem:
    """Draw X, y and weights: columns driven by a dozen factors at most, in units from 1 to 1e12, some multiples.

    The part of a column that is its own is 1e-5 to 1 of it, or nothing; there may be more columns than rows.
    """
    n, p = draw(st.integers(4, rows)), draw(st.integers(1, columns))
    factors, multiples = draw(st.integers(1, 12)), draw(st.integers(0, 3))
    own = draw(st.sampled_from([0.0, 1e-5, 1e-3, 0.1, 0.3, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = (
        rng.lognormal(size=(n, factors))
        @ rng.gamma(0.5, 1.0, size=(factors, p))
        * (1 + own * rng.normal(size=(n, p)))
    )
    X = np.column_stack(
        [X, X[:, rng.integers(p, size=multiples)] * rng.uniform(0.5, 3, size=multiples)]
    )
    X = X[:, rng.permutation(X.shape[1])] * 10.0 ** rng.uniform(0, 12, size=X.shape[1])
    used = np.where(rng.random(X.shape[1]) < 0.4, rng.normal(0.5, 1, size=X.shape[1]), 0.0)
    noise = draw(st.sampled_from([1e-3, 0.1, 1.0])) * rng.normal(size=n)
    y = X / X.std(axis=0) @ used + noise + draw(st.sampled_from([-1.0, 0.0, 3.0]))
    return X, y, rng.uniform(0.2, 3, size=n) if draw(st.booleans()) else np.ones(n)


def factor_counters(n: int, p: int, own: float, seed: int) -> Problem:
    """Return one such problem of a given size, unweighted."""
    rng = np.random.default_rng(seed)
    X = (
        rng.lognormal(size=(n, 12))
        @ rng.gamma(0.5, 1.0, size=(12, p))
        * (1 + own * rng.normal(size=(n, p)))
    )
    X *= 10.0 ** rng.uniform(0, 12, size=p)
    y = (X / X.std(axis=0))[:, ::9].sum(axis=1)
    return X, y + 0.1 * y.std() * rng.normal(size=n), np.ones(n)


def wild_counters(seed: int, n: int, p: int, extras: bool) -> Problem:
    """Return X driven by a few latent factors in wild units, y and weights; with ``extras`` exact collinearity too."""
    rng = np.random.default_rng(seed)
    factors = rng.lognormal(size=(n, 4))
    X = factors @ rng.gamma(0.5, size=(4, p)) * rng.lognormal(0, 0.2, size=(n, p))
    if extras:
        X = np.column_stack([X, X[:, 0], X[:, :2].sum(axis=1), 3 * X[:, 1] + 2, np.full(n, 7.0)])
        X = X[:, rng.permutation(X.shape[1])]
    X *= 10.0 ** rng.uniform(0, 12, size=X.shape[1])
    return (
        X,
        (1 + factors @ [2, 1, 0.5, 0.1]) * rng.lognormal(0, 0.1, size=n),
        rng.uniform(0.1, 1, size=n),
    )
