"""Forward selection and backward elimination of features by AIC or BIC, for least squares with and without signs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from .base import feature_names, one_blas_thread
from .least_squares import ALIASED, LinearRegressor, Triangular, centred, non_negative, with_intercept


@dataclass(frozen=True)
class Criterion:
    """``n log(RSS / n) + k edf``: -2 log-likelihood of a Gaussian model, up to a constant, plus its penalty.

    Attributes
    ----------
    n : int
        The number of observations.
    k : float
        The penalty per effective degree of freedom: 2 for AIC, log(n) for BIC.
    """

    n: int
    k: float

    def __call__(self, rss: float, edf: int) -> float:
        """Return the criterion; infinite where no residual degree of freedom would be left."""
        if edf >= self.n:
            return inf
        return self.n * log(rss / self.n) + self.k * edf if rss > 0 else -inf


@dataclass(frozen=True)
class Walk:
    """A stepwise search: the columns added or removed, the criterion before and after each, and where it ended."""

    moves: list[int]
    values: list[float]
    columns: np.ndarray


class Stepwise(LinearRegressor):
    """Stepwise regression: columns join or leave one at a time while the criterion falls.

    The criterion is that of R's ``extractAIC``: ``n log(RSS / n) + k edf`` with k = 2 (AIC) or k = log(n) (BIC), the
    Gaussian log-likelihood at its maximum over sigma², times -2, without the constant ``n (1 + log 2 pi)`` and without
    counting sigma². With weights w_i, taken as inverse variances, RSS is the weighted sum and the term
    ``-sum log w_i``, the same for every model, is left out too. For plain designs the sequence is that of R's ``step``.

    - ``n`` counts distinct rows of positive weight: an exact copy of a row is no new evidence.
    - ``edf`` for ``base="ols"`` is the number of columns plus 1 for the intercept. For ``base="nnls"`` it is the number
      of coefficients, intercept included, that are above zero (the dimension of the face of the cone that the fit lies
      on, Meyer and Woodroofe 2000).
    - No model with ``edf >= n`` is looked at. Where all columns together would leave no residual degree of freedom,
      backward elimination begins from the longest model on the forward path that leaves one.
    - Columns within 1e-7 of the span of those before them (R's tolerance) never enter; backward elimination begins
      from the columns that are not, in their order. R instead keeps such columns without a coefficient.
    - In a non-negative fit, columns held at zero by their sign stay in reserve: they return when the removal of others
      lets them.

    Parameters
    ----------
    base : {"ols", "nnls"}, default="ols"
        The fit of each model; see `OLS` and `NNLS`.
    direction : {"forward", "backward"}, default="forward"
        From the intercept alone upwards, or from all columns downwards.
    criterion : {"aic", "bic"}, default="aic"
        What must fall with each step.
    max_features : int, optional
        The most columns the model may have. Backward elimination goes on, criterion rising if need be, until then.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        0 for the columns left out.
    intercept_ : float
    selected_features_ : list of str
    steps_ : list of str
        ``"+ name"`` or ``"- name"`` of each step taken.
    criterion_path_ : ndarray of shape (len(steps_) + 1,)
        The criterion of the first model and after each step.
    p_values_ : ndarray of shape (n_features,)
        For ``base="ols"`` only: see `OLS`; NaN for the columns left out. Chosen by the same data, hence optimistic.

    References
    ----------
    W. N. Venables and B. D. Ripley, Modern Applied Statistics with S (2002), section 6.8.
    M. Meyer and M. Woodroofe, On the degrees of freedom in shape-restricted regression, Ann. Stat. 28 (2000) 1083.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> Stepwise(criterion="bic").fit(X, 3 * X[:, 2] + X[:, 0]).selected_features_
    ['x0', 'x2']
    """

    def __init__(
        self,
        *,
        base: Literal["ols", "nnls"] = "ols",
        direction: Literal["forward", "backward"] = "forward",
        criterion: Literal["aic", "bic"] = "aic",
        max_features: int | None = None,
    ) -> None:
        self.base, self.direction, self.criterion, self.max_features = base, direction, criterion, max_features

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Search and fit on X of shape (n_samples, n_features) and y of shape (n_samples,)."""
        if (walk := _WALKS.get((self.base, self.direction))) is None:
            raise ValueError(
                "parameters base and direction of Stepwise must be 'ols' or 'nnls' and 'forward' or 'backward', "
                f"got {self.base!r} and {self.direction!r}"
            )
        if self.criterion not in ("aic", "bic"):
            raise ValueError(f"parameter criterion of Stepwise must be 'aic' or 'bic', got {self.criterion!r}")
        X, y, w = self._training_rows(X, y, sample_weight)
        n = _distinct_rows(X, y)
        criterion = Criterion(n, 2.0 if self.criterion == "aic" else log(n))
        cap = X.shape[1] if self.max_features is None else self.max_features
        problem = centred(X, y, w) if self.base == "ols" else with_intercept(X, y, w)
        found = walk(problem, criterion, cap)
        names, sign = feature_names(self), "+" if self.direction == "forward" else "-"
        if self.base == "ols":
            self._set_free(problem, X, y, w, found.columns)
        else:
            allowed = np.zeros(X.shape[1] + 1, dtype=bool)
            allowed[[0, *(found.columns + 1)]] = True
            self._set_bounded(problem, non_negative(problem, allowed))
        self.steps_ = [f"{sign} {names[j]}" for j in found.moves]
        self.criterion_path_ = np.array(found.values)
        return self


def _distinct_rows(X: np.ndarray, y: np.ndarray) -> int:
    """Return how many rows of (X, y) there are, exact copies counted once."""
    return int((~pd.DataFrame(np.column_stack([y, X])).duplicated()).sum())


def _orthogonal_steps(problem: Triangular) -> tuple[list[int], list[float]]:
    """Return the order in which forward selection takes the columns, and the RSS before the first and after each.

    Gram-Schmidt: Z (k x p) are the columns, r (k) the target, both orthogonal to those taken, so that the RSS falls by
    (z_j' r)² / (z_j' z_j) when column j joins. Each step costs one degree of freedom: AIC and BIC share the order.
    """
    Z, r = problem.A.copy(), problem.b.copy()
    order: list[int] = []
    rss = [max(float(r @ r), problem.floor)]
    while True:
        lengths = np.einsum("kj,kj->j", Z, Z)
        usable = lengths > ALIASED**2
        usable[order] = False
        if not usable.any():
            return order, rss
        gains = np.where(usable, (Z.T @ r) ** 2 / np.where(usable, lengths, 1.0), -1.0)
        best = int(np.argmax(gains))
        q = Z[:, best] / np.sqrt(lengths[best])
        Z -= np.outer(q, q @ Z)
        r -= q * (q @ r)
        order.append(best)
        rss.append(max(float(r @ r), problem.floor))


def _ols_forward(problem: Triangular, criterion: Criterion, cap: int) -> Walk:
    """Add the column that lowers the RSS most while the criterion falls."""
    order, rss = _orthogonal_steps(problem)
    values = [criterion(rss[0], 1)]
    for size in range(1, min(len(order), cap) + 1):
        value = criterion(rss[size], size + 1)
        if value >= values[-1]:
            break
        values.append(value)
    taken = order[: len(values) - 1]
    return Walk(taken, values, np.array(sorted(taken), dtype=int))


def _independent(A: np.ndarray) -> np.ndarray:
    """Return the columns, in their order, that are not combinations of those before them."""
    Z, kept = A.copy(), []
    for j in range(A.shape[1]):
        if (length := float(np.linalg.norm(Z[:, j]))) > ALIASED:
            q = Z[:, j] / length
            Z[:, j + 1 :] -= np.outer(q, q @ Z[:, j + 1 :])
            kept.append(j)
    return np.array(kept, dtype=int)


def _ols_backward(problem: Triangular, criterion: Criterion, cap: int) -> Walk:
    """Remove the column that raises the RSS least while the criterion falls.

    With A = QR on the columns left, column j's removal raises the RSS by t_j² / (R^-1 R^-T)_jj.
    """
    columns = _independent(problem.A)
    if len(columns) + 1 >= criterion.n:
        columns = np.sort(_orthogonal_steps(problem)[0][: max(criterion.n - 2, 0)]).astype(int)
    moves: list[int] = []
    values: list[float] = []
    while True:
        Q, R = np.linalg.qr(problem.A[:, columns])
        inverse = np.linalg.solve(R, np.eye(len(columns)))
        t = inverse @ (Q.T @ problem.b)
        residual = problem.b - problem.A[:, columns] @ t
        rss = float(residual @ residual)
        if not values:
            values.append(criterion(max(rss, problem.floor), len(columns) + 1))
        if len(columns) == 0:
            return Walk(moves, values, columns)
        rises = t**2 / np.einsum("jk,jk->j", inverse, inverse)
        least = int(np.argmin(rises))
        value = criterion(max(rss + float(rises[least]), problem.floor), len(columns))
        if value >= values[-1] and len(columns) <= cap:
            return Walk(moves, values, columns)
        moves.append(int(columns[least]))
        values.append(value)
        columns = np.delete(columns, least)


def _positive(t: np.ndarray) -> int:
    """Return the effective degrees of freedom of a non-negative fit."""
    return int(np.count_nonzero(t))


def _nnls_forward(problem: Triangular, criterion: Criterion, cap: int) -> Walk:
    """Add the column whose non-negative fit has the lowest criterion while it falls.

    Only columns with a positive gradient at the current fit can lower its RSS: the problem is convex.
    """
    allowed = np.arange(problem.A.shape[1]) == 0
    t = non_negative(problem, allowed)
    values, moves = [criterion(problem.rss(t), _positive(t))], list[int]()
    while True:
        best, best_value, best_t = -1, values[-1], t
        gradient = problem.A.T @ (problem.b - problem.A @ t)
        for j in np.flatnonzero((gradient > 0) & ~allowed):
            allowed[j] = True
            trial = non_negative(problem, allowed, t, settled=True)
            allowed[j] = False
            value = criterion(problem.rss(trial), _positive(trial))
            if value < best_value and np.count_nonzero(trial[1:]) <= cap:
                best, best_value, best_t = int(j), value, trial
        if best < 0:
            return Walk(moves, values, np.flatnonzero(t[1:]))
        allowed[best], t = True, best_t
        moves.append(best - 1)
        values.append(best_value)


def _nnls_backward(problem: Triangular, criterion: Criterion, cap: int) -> Walk:
    """Remove the positive column whose absence leaves the lowest criterion while it falls."""
    allowed = np.ones(problem.A.shape[1], dtype=bool)
    t = non_negative(problem, allowed)
    if _positive(t) >= criterion.n:
        allowed = _nnls_start(problem, criterion)
        t = non_negative(problem, allowed)
    values, moves = [criterion(problem.rss(t), _positive(t))], list[int]()
    while positive := np.flatnonzero(t[1:]).tolist():
        trials = [_without(problem, allowed, t, j + 1) for j in positive]
        trial_values = [criterion(problem.rss(trial), _positive(trial)) for trial in trials]
        least = int(np.argmin(trial_values))
        if trial_values[least] >= values[-1] and len(positive) <= cap:
            break
        t = trials[least]
        allowed[positive[least] + 1] = False
        moves.append(positive[least])
        values.append(trial_values[least])
    return Walk(moves, values, np.flatnonzero(t[1:]))


def _without(problem: Triangular, allowed: np.ndarray, t: np.ndarray, column: int) -> np.ndarray:
    """Return the non-negative fit without one column."""
    start, fewer = t.copy(), allowed.copy()
    start[column], fewer[column] = 0.0, False
    return non_negative(problem, fewer, start)


def _nnls_start(problem: Triangular, criterion: Criterion) -> np.ndarray:
    """Return the columns of the longest forward path (no penalty) that leaves a residual degree of freedom."""
    allowed = np.zeros(problem.A.shape[1], dtype=bool)
    forward = _nnls_forward(problem, Criterion(criterion.n, 0.0), problem.A.shape[1])
    allowed[[0, *(forward.columns + 1)]] = True
    return allowed


_WALKS: dict[tuple[str, str], Callable[[Triangular, Criterion, int], Walk]] = {
    ("ols", "forward"): _ols_forward,
    ("ols", "backward"): _ols_backward,
    ("nnls", "forward"): _nnls_forward,
    ("nnls", "backward"): _nnls_backward,
}
