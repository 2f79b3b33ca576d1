"""Stepwise selection against peers that come to the same columns: loops over fits, selectors, R's step and leaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.optimize import nnls
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LinearRegression
from statsmodels.regression import linear_model

from ..models.linear.least_squares import NNLS
from ..models.linear.stepwise import Stepwise, new_path
from .harness import Comparison, Contender
from .made_up_counters import counters as caused
from .r_session import RSession, r_lacks

Criterion = Callable[[list[int]], float]
ROUNDING = 1e-9
"""A criterion that falls by less has not fallen."""
MANY, FEW = "many columns enter", "few causes"
NOTHING = Contender("do nothing (no column)", list)
_STEP = """
task <- function() {{
  d <<- data.frame(y, X)
  names(d) <<- c("y", paste0("x", seq_len(ncol(X)) - 1))
  null <- lm(y ~ 1, d)
  full <- lm(y ~ ., d)
  found <- step({start}, scope = list(lower = null, upper = full), direction = "{direction}", k = 2, trace = 0)
  sort(as.numeric(sub("x", "", attr(terms(found), "term.labels"))))
}}
"""
_NNLS = """
suppressPackageStartupMessages(library(nnls))
task <- function() nnls(cbind(1, X), y)$x
"""
_LEAPS = """
suppressPackageStartupMessages(library(leaps))
task <- function() {
  most <- min(ncol(X), nrow(X) - 2)
  path <- regsubsets(X, y, nbest = 1, nvmax = most, method = "forward", really.big = TRUE)
  path$ress[seq_len(most + 1), 1]
}
"""


def selection(quick: bool = False, full: bool = False) -> Iterator[Comparison]:
    """Yield the comparisons: ``quick`` on the smallest sizes, ``full`` also with peers that take a minute and more."""
    sizes = [(60, 8)] * 3 if quick else [(300, 577), (369, 174), (3941, 75)]
    wide, middle, long = (counters(n, p) for n, p in sizes)
    small = counters(*((60, 8) if quick else (300, 60)))
    yield from whole_path(*wide)
    if not quick:
        yield from whole_path(*long)
    yield ten_columns(*wide, 3 if quick else 10)
    yield loops(*small, "ols")
    for direction in ("forward", "backward"):
        yield from step_of_r(
            *middle, direction, slow=direction == "backward" and not (quick or full)
        )
    for n, p in sizes[1:2] if quick else (sizes[1], sizes[0]):
        yield loops(*counters(n, p), "nnls", MANY)
        yield loops(*few_causes(n, p), "nnls", FEW)
    for data in (wide,) if quick else (wide, long):
        yield from bounded_fit(*data)
    for data, kind in ((middle, MANY), (few_causes(*sizes[1]), FEW)):
        yield elimination(*data, kind)


def counters(n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return X of shape (n, p) and y of shape (n,): counters of 12 kinds of work, and times, with 10 % noise.

    Half of a counter is its own; every fourth adds to the time, by weights that fall from 1 to 0.1.
    Counters are in units of their standard deviation, so that no peer stumbles over units.
    """
    rng = np.random.default_rng(seed)
    X = (
        rng.lognormal(size=(n, 12))
        @ rng.gamma(0.5, size=(12, p))
        * rng.lognormal(0, 0.5, size=(n, p))
    )
    X /= X.std(axis=0)
    weights = np.zeros(p)
    weights[::4] = np.linspace(1.0, 0.1, len(weights[::4]))
    return X, X @ weights * (1 + 0.1 * rng.normal(size=n))


def few_causes(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X of shape (n, p), in units of standard deviations, and y: the counters that the suite is timed on.

    All of a counter is caused by 12 kinds of work, but for 5 % noise: a dozen columns enter a
    selection. Fits are small then, and a loop over them is quick.
    """
    data = caused(n, p)
    X = data.X.to_numpy()
    return X / X.std(axis=0), data.y


def whole_path(X: np.ndarray, y: np.ndarray) -> Iterator[Comparison]:
    """Yield the whole path of forward selection: the RSS of every size, and with it every criterion."""
    n, p = X.shape
    longest = min(p, n - 2)

    def ours() -> np.ndarray:
        path = new_path(X, y, np.ones(n), "ols", "forward", longest)
        path.reaches(longest)
        return np.array(path.rss)

    comparison = Comparison(
        task=f"forward path of all sizes, OLS, {n} x {p}",
        ours=Contender("flopcast new_path", ours),
        peers=(
            Contender(
                "R leaps, regsubsets (Fortran)",
                lambda: None,
                missing=r_lacks("leaps"),
                elsewhere=True,
            ),
        ),
        nothing=NOTHING,
        differs=different_rss,
    )
    yield from _with_r(comparison, _LEAPS, X, y)


def ten_columns(X: np.ndarray, y: np.ndarray, size: int) -> Comparison:
    """Return the first columns of forward selection, against the selectors for any model."""
    n, p = X.shape
    everything = np.arange(n)

    def sklearn() -> list[int]:
        search = SequentialFeatureSelector(
            LinearRegression(),
            n_features_to_select=size,
            scoring="neg_mean_squared_error",
            cv=[(everything, everything)],
        )
        return np.flatnonzero(search.fit(X, y).get_support()).tolist()

    def mlxtend() -> list[int]:
        selector = import_module("mlxtend.feature_selection").SequentialFeatureSelector
        search = selector(
            LinearRegression(), k_features=size, scoring="neg_mean_squared_error", cv=0
        )
        return sorted(search.fit(X, y).k_feature_idx_)

    without = "" if find_spec("mlxtend") else "mlxtend is not installed"
    return Comparison(
        task=f"{size} columns forward, OLS, {n} x {p}",
        ours=Contender("flopcast Stepwise", lambda: ours(X, y, max_features=size)),
        peers=(
            Contender("sklearn SequentialFeatureSelector", sklearn, once=True),
            Contender("mlxtend SequentialFeatureSelector", mlxtend, once=True, missing=without),
        ),
        nothing=NOTHING,
        differs=different_columns,
    )


def step_of_r(X: np.ndarray, y: np.ndarray, direction: str, slow: bool) -> Iterator[Comparison]:
    """Yield selection by AIC against R's step; ``slow`` leaves R out."""
    missing = "takes more than a minute (--full)" if slow else r_lacks("stats")
    comparison = Comparison(
        task=f"step {direction} by AIC, OLS, {X.shape[0]} x {X.shape[1]}",
        ours=Contender("flopcast Stepwise", lambda: ours(X, y, direction=direction)),
        peers=(Contender("R step", lambda: None, once=True, missing=missing, elsewhere=True),),
        nothing=NOTHING,
        differs=different_columns,
    )
    code = _STEP.format(start="null" if direction == "forward" else "full", direction=direction)
    yield from _with_r(comparison, code, X, y)


def loops(X: np.ndarray, y: np.ndarray, base: str, kind: str = MANY) -> Comparison:
    """Return forward selection by AIC against a loop over fits of every model one column larger.

    Both stop where AIC does not fall, and count the columns in the model as degrees of freedom.
    """
    n, p = X.shape
    peers: tuple[Contender, ...]
    if base == "ols":
        peers = (
            Contender(
                "statsmodels OLS in a loop", lambda: forward(p, statsmodels_aic(X, y)), once=True
            ),
            Contender("sklearn SequentialFeatureSelector", lambda: _sequential(X, y), once=True),
        )
    else:
        peers = (
            Contender(
                "scipy.optimize.nnls in a loop",
                lambda: forward(p, nnls_aic(X, y)),
                once=kind == MANY,
            ),
        )
    return Comparison(
        task=f"forward AIC, {base.upper()}, {n} x {p}, {kind}",
        ours=Contender("flopcast Stepwise", lambda: ours(X, y, base=base)),
        peers=peers,
        nothing=NOTHING,
        differs=different_columns,
    )


def elimination(X: np.ndarray, y: np.ndarray, kind: str) -> Comparison:
    """Return backward elimination by AIC with non-negative coefficients, against a loop over fits."""
    n, p = X.shape
    return Comparison(
        task=f"backward AIC, NNLS, {n} x {p}, {kind}",
        ours=Contender("flopcast Stepwise", lambda: ours(X, y, base="nnls", direction="backward")),
        peers=(
            Contender(
                "scipy.optimize.nnls in a loop", lambda: backward(p, nnls_aic(X, y)), once=True
            ),
        ),
        nothing=NOTHING,
        differs=different_columns,
    )


def ours(X: np.ndarray, y: np.ndarray, direction: Any = "forward", **parameters: Any) -> list[int]:
    """Return the columns that flopcast selects, those held at zero by their sign included."""
    moved = {int(step[3:]) for step in Stepwise(direction=direction, **parameters).fit(X, y).steps_}
    return [j for j in range(X.shape[1]) if (j in moved) == (direction == "forward")]


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


def backward(p: int, criterion: Criterion) -> list[int]:
    """Return the columns that backward elimination over p columns ends with: the textbook loop."""
    left = list(range(p))
    value = criterion(left)
    while left:
        best, column = min((criterion([c for c in left if c != j]), j) for j in left)
        if best >= value - ROUNDING:
            break
        value = best
        left.remove(column)
    return left


def bounded_fit(X: np.ndarray, y: np.ndarray) -> Iterator[Comparison]:
    """Yield one non-negative fit of all columns; the answer is the intercept and the coefficients.

    A selection in R would be a loop over such fits.
    """

    def ours() -> np.ndarray:
        model = NNLS().fit(X, y)
        return np.r_[model.intercept_, model.coef_]

    with_ones = np.hstack([np.ones((len(y), 1)), X])

    def differs(a: np.ndarray, b: np.ndarray) -> str:
        if min(a.min(), b.min()) < 0:
            return "negative coefficients"
        one, other = (float(np.linalg.norm(y - with_ones @ t)) for t in (a, b))
        return (
            ""
            if abs(other - one) <= 1e-9 * one
            else f"residual of length {other:.10g} instead of {one:.10g}"
        )

    comparison = Comparison(
        task=f"one fit, NNLS, {X.shape[0]} x {X.shape[1]}",
        ours=Contender("flopcast NNLS", ours),
        peers=(
            Contender("scipy.optimize.nnls", lambda: nnls(with_ones, y)[0]),
            Contender("R nnls (Fortran)", lambda: None, missing=r_lacks("nnls"), elsewhere=True),
        ),
        nothing=Contender("do nothing (no column)", lambda: np.zeros(X.shape[1] + 1)),
        differs=differs,
        says=lambda t: f"residual {np.linalg.norm(y - with_ones @ t):.4g}",
    )
    yield from _with_r(comparison, _NNLS, X, y)


def _with_r(
    comparison: Comparison, code: str, X: np.ndarray, y: np.ndarray
) -> Iterator[Comparison]:
    """Yield the comparison with its last peer, which is in R, ready to run."""
    *others, peer = comparison.peers
    if peer.missing:
        yield comparison
        return
    with RSession(code, X, y) as session:
        yield replace(comparison, peers=(*others, replace(peer, call=lambda: _numbers(session()))))


def _numbers(answer: np.ndarray) -> Any:
    """Return columns as a list, anything else as it is."""
    return answer.astype(int).tolist() if (answer == answer.astype(int)).all() else answer


def statsmodels_aic(X: np.ndarray, y: np.ndarray) -> Criterion:
    ones = np.ones((len(y), 1))
    return lambda columns: float(linear_model.OLS(y, np.hstack([ones, X[:, columns]])).fit().aic)


def nnls_aic(X: np.ndarray, y: np.ndarray) -> Criterion:
    n, ones = len(y), np.ones((len(y), 1))

    def criterion(columns: list[int]) -> float:
        _, norm = nnls(np.hstack([ones, X[:, columns]]), y)
        return float(n * np.log(norm**2 / n) + 2 * (len(columns) + 1))

    return criterion


def _sequential(X: np.ndarray, y: np.ndarray) -> list[int]:
    """Select by AIC on all rows: the one fold trains and scores on everything."""

    def score(model: LinearRegression, X: np.ndarray, y: np.ndarray) -> float:
        rss = float(((y - model.predict(X)) ** 2).sum())
        return -(len(y) * np.log(rss / len(y)) + 2 * (len(model.coef_) + 1))

    everything = np.arange(len(y))
    search = SequentialFeatureSelector(
        LinearRegression(),
        n_features_to_select="auto",
        tol=ROUNDING,
        scoring=score,
        cv=[(everything, everything)],
    )
    return np.flatnonzero(search.fit(X, y).get_support()).tolist()


def different_rss(a: np.ndarray, b: np.ndarray) -> str:
    """Return at how many sizes two paths have another RSS, to 1e-6 of it."""
    if a.shape != b.shape:
        return f"RSS of {b.size} sizes instead of {a.size}"
    other = int(np.sum(~np.isclose(a, b, rtol=1e-6)))
    return f"RSS of {other} sizes" if other else ""


def different_columns(a: list[int], b: list[int]) -> str:
    """Return which columns only one of two selections has."""
    return "" if a == b else f"columns {sorted(set(a) ^ set(b))} in one only"
