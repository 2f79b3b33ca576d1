"""Recursive feature elimination, the number of features chosen by inner cross-validation."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from .base import one_blas_thread
from .elimination import eliminate_bounded, eliminate_free
from .least_squares import LinearRegressor, centred, with_intercept
from .weighted_folds import weighted_folds


class RFECV(LinearRegressor):
    """Least squares on the features that survive recursive elimination.

    From all columns, the fit drops the column whose coefficient, in units of its standard deviation, is the smallest in
    size (the last of those equal within 1e-9), and is repeated on those left. Collinear columns, as there are with more
    columns than rows, get the coefficients of least norm, singular values below 1e-7 of the largest taken as zero: the
    order of elimination depends on that cut-off. All fits of a path are updates of one factorisation (see `deflation`).

    One such path per inner fold gives the weighted squared error on its validation rows for every number of columns;
    the number with the least total (the smaller of equals) ends the path on all training rows. Standard deviations are
    those of the training rows at hand.

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
    dropped_features_ : list of str
        Constant columns and copies of others, left out from the start.
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
        X, y, w = self._training_rows(X, y, sample_weight)
        w = w / w.mean()
        least = min(max(self.min_features, 1), X.shape[1])
        errors, weight = np.zeros(X.shape[1] - least + 1), 0.0
        for train, valid in weighted_folds(self.cv, sample_weight, len(y), groups, self.random_state):
            _, coef, intercept = self._eliminate(X[train], y[train], w[train], least)
            errors += w[valid] @ (y[valid, None] - X[valid] @ coef - intercept) ** 2
            weight += w[valid].sum()
        self.cv_error_path_ = errors / weight
        steps = len(errors) - 1 - int(np.argmin(errors[::-1]))
        columns, coef, intercept = self._eliminate(X, y, w, X.shape[1] - steps)
        if self.base == "ols":
            return self._set_free(centred(X, y, w), X, y, w, columns)
        return self._set(coef[:, -1], intercept[-1])

    def _eliminate(
        self, X: np.ndarray, y: np.ndarray, w: np.ndarray, least: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the columns left in the end, the coefficients (n_features, n_fits) and the intercepts (n_fits,)."""
        mean = np.average(X, axis=0, weights=w)
        if self.base == "ols":
            problem = centred(X, y, w)
            path = eliminate_free(problem, least)
            coef = path.t.T / problem.scale[:, None]
            return path.columns, coef, np.average(y, weights=w) - mean @ coef
        problem = with_intercept(X, y, w)
        spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
        path = eliminate_bounded(problem, spread / problem.scale[1:], least)
        scaled = path.t.T / problem.scale[:, None]
        return path.columns, scaled[1:], scaled[0]
