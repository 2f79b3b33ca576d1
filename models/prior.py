"""A model of what was measured elsewhere, corrected by a few parameters that are learnt here.

The prior is a run over many devices (`evaluation.trained_model`): its prediction is a column of X. Where the rows to
learn from are few, the prior knows how time changes with shape, and they say by which factor it is off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .base import PositiveRegressor, check_positive_target, check_table, check_target, feature_names
from .target_space import LARGEST_LOG

PRIOR = "prior.target_us"
"""The feature that holds the prediction of a prior."""
VARIES = ("log2.m", "log2.n", "log2.k", "log2.ridge.target", "log2.tiles_per_cu.target")
"""Features that the factor on it may change with."""


class Corrected(PositiveRegressor):
    """``log t = log p + b_0 + sum_j b_j z_j``: a prediction p times a factor that changes slowly with the row.

    The z are columns, standardised on the training rows; b minimises the sum of squared residuals plus
    ``penalty sum_j b_j²`` (Hoerl & Kennard, Technometrics 12 (1970) 55).

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

    def __init__(self, column: str | int = 0, columns: Sequence[str] = (), *, penalty: float = 3.0) -> None:
        self.column, self.columns, self.penalty = column, columns, penalty

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X of shape (n_samples, n_features) and positive y of shape (n_samples,)."""
        X = check_table(self, X, reset=True)
        y = check_positive_target(self, check_target(self, X, y))
        names = feature_names(self)
        self.place_ = names.index(self.column) if isinstance(self.column, str) else self.column
        self.places_ = [names.index(name) for name in self.columns]
        logs, values = self._parts(X)
        self.centre_ = values.mean(axis=0)
        self.scale_ = np.where((spread := values.std(axis=0)) > 1e-12, spread, np.inf)
        Z = np.column_stack([np.ones(len(y)), (values - self.centre_) / self.scale_])  # n x (p + 1)
        shrunk = np.diag([0.0, *np.full(values.shape[1], float(self.penalty))])
        self.coef_ = np.linalg.solve(Z.T @ Z + shrunk, Z.T @ (np.log(y) - logs))
        self.selected_features_ = [names[place] for place in (self.place_, *self.places_)]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions in the unit of y, shape (n_samples,), all positive."""
        check_is_fitted(self, "coef_")
        logs, values = self._parts(check_table(self, X, reset=False))
        logs = logs + self.coef_[0] + ((values - self.centre_) / self.scale_) @ self.coef_[1:]
        return np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG))

    def _parts(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithm of the prediction, (n_samples,), and the columns, (n_samples, n_columns)."""
        values = np.asarray(X, dtype=np.float64)
        p = values[:, self.place_]
        return np.log(np.maximum(p, np.finfo(float).tiny)), values[:, self.places_]
