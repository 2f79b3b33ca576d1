"""Ordinary and non-negative least squares, and what all linear models of the package have in common.

X of shape (n_samples, n_features), y and weights enter. `LinearRegressor` checks them, leaves out
the columns that can add nothing (those that do not vary, exact copies of others), and predicts ``X
b + b0``; a subclass finds b by an algorithm of `triangular` on columns of length 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.special import stdtr
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..base import (
    DroppedColumns,
    check_rows,
    feature_names,
    one_blas_thread,
    rows_to_predict,
    weighted_sums,
)
from .triangular import Triangular, centred, minimum_norm, non_negative, with_intercept

_EPS = float(np.finfo(np.float64).eps)


def constant_columns(X: np.ndarray) -> np.ndarray:
    """Return the columns whose range is rounding error of their values (``n`` times the machine's precision)."""
    low = X.min(axis=0)
    high = X.max(axis=0)
    largest = np.maximum(np.abs(low), np.abs(high))
    return np.flatnonzero(high - low <= len(X) * _EPS * largest)


def copied_columns(X: np.ndarray) -> np.ndarray:
    """Return the columns that equal an earlier one in every row.

    Only columns of equal sums are compared. (Multiples of others are left to the tolerance of the
    fit: with free coefficients they share an effect.)
    """
    sums = X.sum(axis=0)
    order = np.argsort(sums, kind="stable")
    equal = sums[order][1:] == sums[order][:-1]
    if not equal.any():
        return np.zeros(0, dtype=int)
    of_equal_sums = np.r_[False, equal] | np.r_[equal, False]
    seen = set[bytes]()
    copies = list[int]()
    for j in np.sort(order[of_equal_sums]).tolist():
        values = (X[:, j] + 0.0).tobytes()  # + 0.0: -0 is 0
        if values in seen:
            copies.append(j)
        seen.add(values)
    return np.array(copies, dtype=int)


def t_test(t: np.ndarray, spread: np.ndarray, rss: float, df: int) -> np.ndarray:
    """Return two-sided p-values of coefficients ``t`` with variance ``rss / df * spread``; NaN without df."""
    if df < 1:
        return np.full(len(t), np.nan)
    if rss > 0:
        return 2 * stdtr(df, -np.abs(t) / np.sqrt(rss / df * spread))
    return np.where(t == 0, np.nan, 0.0)


class LinearRegressor(RegressorMixin, BaseEstimator):
    """What the linear models share: ``coef_``, ``intercept_``, and a prediction that is never clipped."""

    coef_: np.ndarray
    intercept_: float
    selected_features_: list[str]
    dropped_features_: list[str]

    def predict(self, X: Any) -> np.ndarray:
        """Return ``intercept_ + X @ coef_``, one prediction per row, shape (n_samples,)."""
        check_is_fitted(self, "coef_")
        return weighted_sums(rows_to_predict(self, X), self.coef_) + self.intercept_

    def _training_rows(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the validated rows of positive weight, and their weights; columns that add nothing are set to 0.

        Warns
        -----
        DroppedColumns
            For columns that are constant, but not 0, or a copy of an earlier one.
        """
        X, y, w = check_rows(self, X, y, sample_weight)
        used = w > 0
        X = X[used]
        y = y[used]
        w = w[used]
        constant = constant_columns(X)
        copies = np.setdiff1d(copied_columns(X), constant)
        dropped = np.union1d(constant, copies)
        self.dropped_features_ = list[str]()
        if not len(dropped):
            return X, y, w
        names = feature_names(self)
        self.dropped_features_ += [names[j] for j in dropped]
        constants = [names[j] for j in constant if X[:, j].any()]
        if constants or len(copies):
            warnings.warn(
                DroppedColumns(type(self).__name__, constants, [names[j] for j in copies]),
                stacklevel=4,
            )
        X[:, dropped] = 0.0
        return X, y, w

    def _set(self, coef: np.ndarray, intercept: float) -> Self:
        """Store the coefficients; the features selected are those whose coefficient is not zero."""
        self.coef_ = np.ascontiguousarray(coef)
        self.intercept_ = float(intercept)
        names = feature_names(self)
        self.selected_features_ = [names[j] for j in np.flatnonzero(coef)]
        return self

    def _set_free(
        self,
        problem: Triangular,
        X: np.ndarray,
        y: np.ndarray,
        w: np.ndarray,
        columns: Sequence[int] | np.ndarray,
        *,
        independent: bool = False,
    ) -> Self:
        """Store the least-squares fit on some columns, with the p-values of its t-tests.

        ``problem`` is `centred` on all columns or on these alone; ``independent`` as for
        `minimum_norm`.
        """
        chosen = np.asarray(columns, dtype=int)
        if len(chosen) == problem.A.shape[1]:
            free = np.arange(len(chosen))
        else:
            free = chosen
        t, spread, rank = minimum_norm(problem, free, independent=independent)
        residual = problem.b - problem.A[:, free] @ t
        coef = np.zeros(X.shape[1])
        p_values = np.full(X.shape[1], np.nan)
        coef[chosen] = t / problem.scale[free]
        self.df_resid_ = len(y) - rank - 1
        p_values[chosen] = t_test(t, spread, float(residual @ residual), self.df_resid_)
        self.p_values_ = p_values
        self.rank_ = rank
        return self._set(coef, float(np.average(y - X @ coef, weights=w)))


class OLS(LinearRegressor):
    """Ordinary (or weighted) least squares with a free intercept.

    Minimises ``sum_i w_i (y_i - b0 - x_i' b)²``. Columns are centred and scaled to length 1 inside,
    so the result does not depend on their scale; where they are collinear the scaled coefficients
    of least norm are taken (singular values below 1e-7 of the largest count as zero, the tolerance
    of R's ``lm``). Predictions are not clipped: with more columns than rows the model interpolates
    its training rows, and times it predicts elsewhere may be negative.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    p_values_ : ndarray of shape (n_features,)
        Two-sided t-test of each coefficient against 0, weights taken as inverse variances (as
        ``statsmodels`` WLS); NaN where collinearity leaves a coefficient undetermined or no
        residual degrees of freedom are left.
    rank_ : int
        Rank of the centred design.
    df_resid_ : int
        Rows of positive weight, less ``rank_``, less 1.
    selected_features_ : list of str
        The columns with a coefficient other than 0.
    dropped_features_ : list of str
        Constant columns and copies of others, left out from the start.

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
        problem = centred(X, y, w)
        return self._set_free(problem, X, y, w, np.flatnonzero(problem.A.any(axis=0)))


class NNLS(LinearRegressor):
    """Least squares with every coefficient *and the intercept* at least 0.

    Minimises ``sum_i w_i (y_i - b0 - x_i' b)²`` subject to ``b0 >= 0`` and ``b >= 0``, so a
    prediction on non-negative features is never negative (``LinearRegression(positive=True)`` of
    scikit-learn leaves the intercept free). X may hold any sign; a column of negative numbers that
    lowers the time cannot be used, a log size below zero can.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    selected_features_ : list of str
        The columns with a positive coefficient.
    dropped_features_ : list of str
        Constant columns and copies of others, left out from the start.

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
        scaled = non_negative(problem) / problem.scale
        return self._set(scaled[1:], scaled[0])
