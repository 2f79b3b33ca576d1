"""Recursive feature elimination, the number of features chosen by inner cross-validation."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from .base import check_rows, inner_folds, one_blas_thread
from .least_squares import LinearRegressor, centred, minimum_norm, non_negative, with_intercept


class RFECV(LinearRegressor):
    """Least squares on the features that survive recursive elimination.

    From all columns, the fit drops the column whose coefficient, in units of its standard deviation, is the smallest in
    size (the last of equals), and is repeated on those left. One such path per inner fold gives the weighted squared
    error on its validation rows for every number of columns; the number with the least total (the smaller of equals)
    ends the path on all training rows. Standard deviations are those of the training rows at hand.

    Parameters
    ----------
    base : {"ols", "nnls"}, default="ols"
        The fit of each model; see `OLS` and `NNLS`. Predictions are not clipped.
    cv : int, splitter or iterable, default=5
        The inner folds; whole groups are held out where `fit` gets at least two groups (see `inner_folds`).
    min_features : int, default=1
        The fewest columns to go down to.
    random_state : int, default=0
        The seed of the shuffled inner folds.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        0 for the columns eliminated.
    intercept_ : float
    selected_features_ : list of str
    cv_error_path_ : ndarray of shape (n_features - min_features + 1,)
        The weighted mean squared error over the inner folds with ``n_features``, ..., ``min_features`` columns.
    p_values_ : ndarray of shape (n_features,)
        For ``base="ols"`` only: see `OLS`; NaN for the columns left out. Chosen by the same data, hence optimistic.

    References
    ----------
    I. Guyon et al., Gene selection for cancer classification using support vector machines, Machine Learning 46
    (2002) 389.
    """

    def __init__(
        self,
        *,
        base: Literal["ols", "nnls"] = "ols",
        cv: Any = 5,
        min_features: int = 1,
        random_state: int | None = 0,
    ) -> None:
        self.base, self.cv, self.min_features, self.random_state = base, cv, min_features, random_state

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Search and fit on X of shape (n_samples, n_features) and y of shape (n_samples,).

        ``groups`` of shape (n_samples,), where given, are never split by the inner folds.
        """
        if self.base not in ("ols", "nnls"):
            raise ValueError(f"parameter base of RFECV must be 'ols' or 'nnls', got {self.base!r}")
        X, y, w = check_rows(self, X, y, sample_weight)
        w = w / w.mean()
        least = min(max(self.min_features, 1), X.shape[1])
        errors = np.zeros(X.shape[1] - least + 1)
        for train, valid in inner_folds(self.cv, len(y), groups, self.random_state):
            used = train[w[train] > 0]
            for step, (_, coef, intercept) in enumerate(self._eliminate(X[used], y[used], w[used], least)):
                errors[step] += w[valid] @ (y[valid] - X[valid] @ coef - intercept) ** 2
        self.cv_error_path_ = errors / w.sum()
        steps = len(errors) - 1 - int(np.argmin(errors[::-1]))
        used = np.flatnonzero(w > 0)
        X, y, w = X[used], y[used], w[used]
        columns, coef, intercept = self._eliminate(X, y, w, X.shape[1] - steps)[-1]
        if self.base == "ols":
            return self._set_free(centred(X, y, w), X, y, w, columns)
        return self._set(coef, intercept)

    def _eliminate(
        self, X: np.ndarray, y: np.ndarray, w: np.ndarray, least: int
    ) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """Return (columns left, coefficients of all columns, intercept) of each fit from all columns to ``least``."""
        problem = centred(X, y, w) if self.base == "ols" else with_intercept(X, y, w)
        mean, y_mean = np.average(X, axis=0, weights=w), float(np.average(y, weights=w))
        spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
        columns, path = np.arange(X.shape[1]), []
        t = np.zeros(problem.A.shape[1])
        while True:
            coef, intercept = np.zeros(X.shape[1]), 0.0
            if self.base == "ols":
                coef[columns] = minimum_norm(problem, columns)[0] / problem.scale[columns]
                intercept = y_mean - float(mean @ coef)
            else:
                allowed = np.isin(np.arange(len(t)), np.append(columns + 1, 0))
                t = non_negative(problem, allowed, np.where(allowed, t, 0.0))
                coef, intercept = t[1:] / problem.scale[1:], float(t[0] / problem.scale[0])
            path.append((columns, coef, intercept))
            if len(columns) <= least:
                return path
            size = np.abs(coef[columns]) * spread[columns]
            columns = np.delete(columns, len(columns) - 1 - int(np.argmin(size[::-1])))
