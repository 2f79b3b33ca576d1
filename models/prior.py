"""A model of what was measured elsewhere, corrected by a few parameters that are learnt here.

The prior is a run over many devices (`evaluation.trained_model`): its prediction is a column of X.
Where the rows to learn from are few, the prior knows how time changes with shape, and they say by
which factor it is off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .base import (
    PositiveRegressor,
    check_positive_target,
    check_table,
    check_target,
    feature_names,
    rows_to_predict,
    weighted_sums,
)
from .ensembles import GeometricStack
from .target_space import LARGEST_LOG

PRIOR = "prior.target_us"  # the feature that holds the prediction of a prior
VARIES = ("log2.m", "log2.n", "log2.k", "log2.ridge.target", "log2.tiles_per_cu.target")
"""Features that the factor on it may change with."""


class Corrected(PositiveRegressor):
    """``log t = log p + b_0 + sum_j b_j z_j``: a prediction p times a factor that changes slowly with the row.

    The z are columns, standardised on the training rows; b minimises the sum of squared residuals
    plus ``penalty sum_j b_j²`` (Hoerl & Kennard, Technometrics 12 (1970) 55).

    Parameters
    ----------
    column : str or int, default=0
        The column with the prediction p, > 0, by name (X a DataFrame) or by position.
    columns : sequence of str, default=()
        Columns that the factor may depend on; those that do not vary have no say.
    penalty : float, default=3.0
        How many rows' worth of evidence a standard deviation of a column needs.

    Attributes
    ----------
    coef_ : ndarray of shape (n_columns + 1,)
        b, offset first.
    centre_, scale_ : ndarray of shape (n_columns,)
        Mean and standard deviation of the columns.
    selected_features_ : list of str
        The columns used.

    Examples
    --------
    >>> model = Corrected().fit([[1.0], [2.0], [4.0]] * 20, [2.0, 4.0, 8.0] * 20)
    >>> model.predict([[10.0]]).round(1).tolist()
    [20.0]
    """

    def __init__(
        self, column: str | int = 0, columns: Sequence[str] = (), *, penalty: float = 3.0
    ) -> None:
        self.column = column
        self.columns = columns
        self.penalty = penalty

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X of shape (n_samples, n_features) and positive y of shape (n_samples,)."""
        X = check_table(self, X, reset=True)
        y = check_positive_target(self, check_target(self, X, y))
        names = feature_names(self)
        if isinstance(self.column, str):
            self.place_ = names.index(self.column)
        else:
            self.place_ = self.column
        self.places_ = [names.index(name) for name in self.columns]
        logs, values = self._parts(X)
        self.centre_ = values.mean(axis=0)
        spread = values.std(axis=0)
        self.scale_ = np.where(spread > 1e-12, spread, np.inf)
        standard = (values - self.centre_) / self.scale_
        Z = np.column_stack([np.ones(len(y)), standard])  # n x (p + 1)
        penalties = np.full(values.shape[1], float(self.penalty))
        shrunk = np.diag([0.0, *penalties])
        residuals = np.log(y) - logs
        self.coef_ = np.linalg.solve(Z.T @ Z + shrunk, Z.T @ residuals)
        self.selected_features_ = [names[place] for place in (self.place_, *self.places_)]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions in the unit of y, shape (n_samples,), all positive."""
        check_is_fitted(self, "coef_")
        logs, values = self._parts(check_table(self, X, reset=False))
        standard = (values - self.centre_) / self.scale_
        logs = logs + self.coef_[0] + weighted_sums(standard, self.coef_[1:])
        return np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG))

    def _parts(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithm of the prediction, (n_samples,), and the columns, (n_samples, n_columns)."""
        values = np.asarray(X, dtype=np.float64)
        p = values[:, self.place_]
        return np.log(np.maximum(p, np.finfo(float).tiny)), values[:, self.places_]


class Smooth(RegressorMixin, BaseEstimator):
    """A Gaussian process over a few columns on a logarithmic scale, for the logarithm that a base leaves over.

    Its covariance is ``s² (4 + exp(-d² / 2 l²) + r z·z')``, d the distance and z the columns less
    their mean, with noise of standard deviation e; l, r, s and e are of a grid the points of
    largest marginal likelihood times a prior: log-normal about a length of 6 (octaves), s = 0.3 and
    e = 0.07 (Rasmussen & Williams, Gaussian Processes for Machine Learning, 2006, sections 2.7 and
    5.4.1). It has n² numbers and takes n³ steps: it is for few rows.

    Attributes
    ----------
    rows_ : ndarray of shape (n_samples, n_features)
        The columns less their mean ``centre_``.
    coef_ : ndarray of shape (n_samples,)
        What each row weighs.
    offset_, length_, slope_ : float
        Median of y, l and r.

    Examples
    --------
    >>> model = Smooth().fit([[0.0], [2.0], [4.0], [6.0]], [0.0, 0.2, 0.4, 0.6])
    >>> model.predict([[3.0]]).round(2).tolist()
    [0.3]
    """

    LENGTHS = (2.0, 4.0, 8.0, 16.0)
    SLOPES = (0.0, 0.04)
    SPREADS = np.array([0.02, 0.06, 0.15, 0.3, 0.6])
    NOISES = np.array([0.02, 0.05, 0.1, 0.2])

    def __sklearn_tags__(self) -> Tags:
        """Say that the scale of y is that of logarithms of ratios, whatever a test may have."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X of shape (n_samples, n_features) and y of shape (n_samples,)."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self.centre_ = X.mean(axis=0)
        self.offset_ = float(np.median(y))
        self.rows_ = X - self.centre_
        best = -np.inf
        spread_grid, noise_grid = np.meshgrid(self.SPREADS, self.NOISES)
        spreads = spread_grid.ravel()[:, None] ** 2
        noises = noise_grid.ravel()[:, None] ** 2
        spread_off = np.log(spreads / 0.3**2) / 1.6
        noise_off = np.log(noises / 0.07**2) / 1.4
        log_prior = -(spread_off**2 + noise_off**2)[:, 0] / 2
        for length in self.LENGTHS:
            for slope in self.SLOPES:
                covariance = self._covariance(self.rows_, length, slope)
                values, vectors = np.linalg.eigh(covariance)
                turned = vectors.T @ (y - self.offset_)
                # (n_spreads * n_noises) x n_samples
                variances = spreads * np.maximum(values, 0.0) + noises
                misfit = turned**2 / variances + np.log(variances)
                evidence = -misfit.sum(axis=1) / 2 + log_prior
                evidence -= (np.log(length / 6.0) / 0.7) ** 2 / 2
                at = int(np.argmax(evidence))
                if evidence[at] > best:
                    best = evidence[at]
                    self.length_ = length
                    self.slope_ = slope
                    self.coef_ = spreads[at] * (vectors @ (turned / variances[at]))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the mean of the process, shape (n_samples,); far from all rows it is their offset."""
        check_is_fitted(self, "coef_")
        Z = rows_to_predict(self, X) - self.centre_
        return self.offset_ + self._covariance(Z, self.length_, self.slope_) @ self.coef_

    def _covariance(self, Z: np.ndarray, length: float, slope: float) -> np.ndarray:
        """Return the covariance with the trained rows over s², shape (n_samples, n_trained)."""
        products = Z @ self.rows_.T
        norms = (Z**2).sum(axis=1)[:, None]
        squares = norms + (self.rows_**2).sum(axis=1) - 2 * products
        smooth = np.exp(-np.maximum(squares, 0.0) / (2 * length**2))
        return 4.0 + smooth + slope * products


class Pooled(GeometricStack):
    """``log t = sum_j w_j log t_j`` with weights that lean on held-out errors as far as their number allows.

    The weight of a model is ``v_j^(-n/4)`` over the sum of all, with v its mean absolute
    logarithmic error on n rows held out and, beside them, 6 rows of 0.1: equal where there are no
    rows, and the better model alone where there are many (pseudo-Bayesian averaging, Yao, Vehtari,
    Simpson & Gelman, Bayesian Analysis 13 (2018) 917, with Laplace's likelihood, tempered as errors
    of neighbours are not independent). Parameters and attributes are those of `GeometricStack`.
    """

    ROWS = 6
    ERROR = 0.1
    POWER = 0.25

    def _learnt(self, logs: np.ndarray, log_y: np.ndarray) -> np.ndarray:
        count = len(log_y)
        errors = np.abs(logs - log_y[:, None]).sum(axis=0)
        mean_error = (self.ROWS * self.ERROR + errors) / (self.ROWS + count)
        evidence = -self.POWER * count * np.log(mean_error)
        weights = np.exp(evidence - evidence.max())
        return weights / weights.sum()
