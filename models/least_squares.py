"""Ordinary and non-negative least squares, and the triangular form of a weighted problem that both are solved in."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import stdtr
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from .base import check_rows, feature_names, one_blas_thread

ALIASED = 1e-7
"""A column closer than this (relative to its length) to the span of others adds nothing, as in R's ``lm``."""
_OPTIMAL = 1e-12
"""A column enters a non-negative fit when its cosine with the residual, in units of |b|, is above this."""
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Triangular:
    """A weighted least-squares problem reduced by QR: ``|A t - b|²`` is the weighted RSS of scaled coefficients ``t``.

    Attributes
    ----------
    A : ndarray of shape (k, q), k = min(n, q + 1)
        The design with columns of length 1 (0 for a column without variation). In the centred form q = p and the
        intercept is implied; in the non-negative form column 0 is the intercept and q = p + 1.
    b : ndarray of shape (k,)
    scale : ndarray of shape (q,)
        The length of each column of the weighted design: coefficient = t / scale.
    floor : float
        An RSS below this is rounding error of a perfect fit.
    """

    A: np.ndarray
    b: np.ndarray
    scale: np.ndarray
    floor: float

    def rss(self, t: np.ndarray) -> float:
        """Return the weighted residual sum of squares of scaled coefficients, never below `floor`."""
        residual = self.b - self.A @ t
        return max(float(residual @ residual), self.floor)


def upper_triangle(M: np.ndarray) -> np.ndarray:
    """Return the factor R of M = QR, of shape (min(n, q), q)."""
    return np.asarray(np.linalg.qr(M, mode="r"))


def _triangular(M: np.ndarray, v: np.ndarray, length: float) -> Triangular:
    """Reduce |M beta - v|² (M: n x q), a column shorter than rounding error of its data being zero."""
    scale = np.linalg.norm(M, axis=0)
    scale[scale == 0] = 1.0
    R = upper_triangle(np.column_stack([M / scale, v]))
    return Triangular(R[:, :-1], R[:, -1], scale, (len(v) * _EPS * length) ** 2)


def centred(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> Triangular:
    """Return the problem with a free intercept: columns and target less their weighted means."""
    root = np.sqrt(w)[:, None]
    length = np.linalg.norm(root * X, axis=0)
    M = root * (X - np.average(X, axis=0, weights=w))
    M[:, np.linalg.norm(M, axis=0) <= len(y) * _EPS * length] = 0.0
    v = root[:, 0] * (y - np.average(y, weights=w))
    return _triangular(M, v, float(np.linalg.norm(root[:, 0] * y)))


def with_intercept(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> Triangular:
    """Return the problem whose intercept is a coefficient like the others (column 0), so that it can be bounded."""
    root = np.sqrt(w)
    M = root[:, None] * np.column_stack([np.ones(len(y)), X])
    v = root * y
    return _triangular(M, v, float(np.linalg.norm(v)))


def minimum_norm(problem: Triangular, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Solve for some columns of a `centred` problem by SVD.

    Returns
    -------
    t : ndarray of shape (len(columns),)
        The solution of least norm; singular values below 1e-7 of the largest count as zero.
    spread : ndarray of shape (len(columns),)
        Diagonal of (A'A)^-1, so var(t) = sigma² spread; NaN where collinear columns leave a coefficient undetermined.
    rank : int
    """
    U, s, Vt = np.linalg.svd(problem.A[:, columns], full_matrices=False)
    kept = s > ALIASED * s.max(initial=0.0)
    U, s, Vt = U[:, kept], s[kept], Vt[kept]
    t = Vt.T @ ((U.T @ problem.b) / s)
    spread = np.sum((Vt / s[:, None]) ** 2, axis=0)
    determined = np.sum(Vt**2, axis=0) > 1 - ALIASED
    return t, np.where(determined, spread, np.nan), len(s)


def t_test(t: np.ndarray, spread: np.ndarray, rss: float, df: int) -> np.ndarray:
    """Return two-sided p-values of coefficients ``t`` with variance ``rss / df * spread``; NaN without df."""
    if df < 1:
        return np.full(len(t), np.nan)
    return 2 * stdtr(df, -np.abs(t) / np.sqrt(rss / df * spread)) if rss > 0 else np.where(t == 0, np.nan, 0.0)


def non_negative(
    problem: Triangular, allowed: np.ndarray | None = None, start: np.ndarray | None = None, settled: bool = False
) -> np.ndarray:
    """Minimise ``|A t - b|²`` over t >= 0 by the active-set method of Lawson and Hanson, from a warm start.

    Parameters
    ----------
    problem : Triangular
        Usually `with_intercept`.
    allowed : ndarray of bool of shape (q,), optional
        The columns that may be used; all by default. The others stay 0.
    start : ndarray of shape (q,), optional
        A non-negative point to start from; 0 by default.
    settled : bool, default=False
        Whether ``start`` is already optimal for its own positive columns.

    Returns
    -------
    t : ndarray of shape (q,)
        It fulfils the Karush-Kuhn-Tucker conditions up to 1e-12 |b|.

    References
    ----------
    C. L. Lawson and R. J. Hanson, Solving Least Squares Problems (1974), chapter 23.
    """
    A, b = problem.A, problem.b
    free = np.ones(A.shape[1], dtype=bool) if allowed is None else allowed
    t = np.zeros(A.shape[1]) if start is None else start.copy()
    if not settled:
        t = _settle(A, b, t, np.flatnonzero(t > 0))
    limit, rejected = _OPTIMAL * float(np.linalg.norm(b)), np.zeros(A.shape[1], dtype=bool)
    for _ in range(10 * A.shape[1] + 10):
        gradient = np.where(free & (t == 0) & ~rejected, A.T @ (b - A @ t), 0.0)
        best = int(np.argmax(gradient))
        if gradient[best] <= limit:
            return t
        trial = _settle(A, b, t, np.append(np.flatnonzero(t > 0), best), entering=True)
        if trial[best] > 0:
            t, rejected = trial, np.zeros_like(rejected)
        else:
            rejected[best] = True
    warnings.warn("the active set of the non-negative fit did not settle", ConvergenceWarning, stacklevel=2)
    return t


def _settle(A: np.ndarray, b: np.ndarray, t: np.ndarray, passive: np.ndarray, entering: bool = False) -> np.ndarray:
    """Move ``t`` to the least-squares point of its passive columns, dropping those that reach zero on the way.

    With ``entering`` the last passive column is new: it stays out when it is a combination of the others.
    """
    while len(passive):
        Q, R = np.linalg.qr(A[:, passive])
        if entering and (R.shape[0] < R.shape[1] or abs(R[-1, -1]) <= ALIASED):
            return t
        goal, here, entering = solve_triangular(R, Q.T @ b, check_finite=False), t[passive], False
        t = np.zeros_like(t)
        if goal.min() > 0:
            t[passive] = goal
            return t
        steps = np.where(goal > 0, np.inf, 0.0)
        np.divide(here, here - goal, out=steps, where=(goal <= 0) & (here > 0))
        first = int(np.argmin(steps))
        moved = np.maximum(here + steps[first] * (goal - here), 0.0)
        moved[first] = 0.0
        t[passive] = moved
        passive = passive[t[passive] > 0]
    return t


class LinearRegressor(RegressorMixin, BaseEstimator):
    """What the linear models share: ``coef_``, ``intercept_``, and a prediction that is never clipped."""

    coef_: np.ndarray
    intercept_: float
    selected_features_: list[str]

    @one_blas_thread
    def predict(self, X: Any) -> np.ndarray:
        """Return ``intercept_ + X @ coef_``, one prediction per row, shape (n_samples,)."""
        check_is_fitted(self, "coef_")
        return validate_data(self, X, dtype=np.float64, reset=False) @ self.coef_ + self.intercept_

    def _training_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the validated rows of positive weight, and their weights."""
        X, y, w = check_rows(self, X, y, sample_weight)
        used = w > 0
        return X[used], y[used], w[used]

    def _set(self, coef: np.ndarray, intercept: float) -> Self:
        """Store the coefficients; the features selected are those whose coefficient is not zero."""
        self.coef_, self.intercept_ = np.ascontiguousarray(coef), float(intercept)
        self.selected_features_ = [name for name, c in zip(feature_names(self), coef, strict=True) if c != 0]
        return self

    def _set_free(
        self, problem: Triangular, X: np.ndarray, y: np.ndarray, w: np.ndarray, columns: Sequence[int] | np.ndarray
    ) -> Self:
        """Store the least-squares fit on some columns of a `centred` problem, with the p-values of its t-tests."""
        chosen = np.asarray(columns, dtype=int)
        t, spread, rank = minimum_norm(problem, chosen)
        residual = problem.b - problem.A[:, chosen] @ t
        coef, p_values = np.zeros(X.shape[1]), np.full(X.shape[1], np.nan)
        coef[chosen] = t / problem.scale[chosen]
        self.df_resid_ = len(y) - rank - 1
        p_values[chosen] = t_test(t, spread, float(residual @ residual), self.df_resid_)
        self.p_values_, self.rank_ = p_values, rank
        return self._set(coef, float(np.average(y - X @ coef, weights=w)))

    def _set_bounded(self, problem: Triangular, t: np.ndarray) -> Self:
        """Store a non-negative solution of a `with_intercept` problem."""
        scaled = t / problem.scale
        return self._set(scaled[1:], scaled[0])


class OLS(LinearRegressor):
    """Ordinary (or weighted) least squares with a free intercept.

    Minimises ``sum_i w_i (y_i - b0 - x_i' b)²``. Columns are centred and scaled to length 1 inside, so the result does
    not depend on their scale; where they are collinear the scaled coefficients of least norm are taken (singular values
    below 1e-7 of the largest count as zero, the tolerance of R's ``lm``). Predictions are not clipped: with more
    columns than rows the model interpolates its training rows, and times it predicts elsewhere may be negative.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    p_values_ : ndarray of shape (n_features,)
        Two-sided t-test of each coefficient against 0, weights taken as inverse variances (as ``statsmodels`` WLS);
        NaN where collinearity leaves a coefficient undetermined or no residual degrees of freedom are left.
    rank_ : int
        Rank of the centred design.
    df_resid_ : int
        Rows of positive weight, less ``rank_``, less 1.
    selected_features_ : list of str
        The columns with a coefficient other than 0.

    Examples
    --------
    >>> import numpy as np
    >>> model = OLS().fit(np.array([[1.0], [2.0], [3.0]]), np.array([3.0, 5.0, 7.0]))
    >>> round(model.intercept_, 6), model.coef_.round(6).tolist()
    (1.0, [2.0])
    """

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X of shape (n_samples, n_features) and y of shape (n_samples,)."""
        X, y, w = self._training_rows(X, y, sample_weight)
        return self._set_free(centred(X, y, w), X, y, w, np.arange(X.shape[1]))


class NNLS(LinearRegressor):
    """Least squares with every coefficient *and the intercept* at least 0.

    Minimises ``sum_i w_i (y_i - b0 - x_i' b)²`` subject to ``b0 >= 0`` and ``b >= 0``, so a prediction on non-negative
    features is never negative (``LinearRegression(positive=True)`` of scikit-learn leaves the intercept free). X may
    hold any sign; a column of negative numbers that lowers the time cannot be used, a log size below zero can.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    selected_features_ : list of str
        The columns with a positive coefficient.

    Examples
    --------
    >>> import numpy as np
    >>> model = NNLS().fit(np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 3.0, 5.0]))
    >>> model.intercept_, model.coef_.round(6).tolist()
    (0.0, [1.571429])
    """

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X of shape (n_samples, n_features) and y of shape (n_samples,)."""
        X, y, w = self._training_rows(X, y, sample_weight)
        problem = with_intercept(X, y, w)
        return self._set_bounded(problem, non_negative(problem))
