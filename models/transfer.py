"""Learning from target rows that the host has not measured: what a shape takes on the target, as one more column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .base import all_selected, check_positive_target, check_target, feature_names, fit
from .geometric import CrossFitted, GeometricStack
from .target_space import Columns

SHAPE_TIME = "shape_us"
"""The column added: the time the shape model predicts, in the unit of y."""


class Transfer(RegressorMixin, BaseEstimator):
    """A model of time that first learns shape -> time from all target rows, paired with a host time or not.

    With ``shape_columns`` given, rows with NaN in another column are unpaired: they train the shape model only. The
    shape model's prediction becomes the column ``shape_us`` of the paired rows (for training rows, that of the
    cross-fitted member that has not seen the row's fold), and the second model is fitted to the paired rows with it.

    Parameters
    ----------
    shape_model : CrossFitted, default=None
        shape -> time.
    regressor : regressor, default=None
        The second model; `GeometricStack` where None.
    shape_columns : sequence of str, optional
        What the shape model sees, by name. All columns where None or where X has no names; NaN is refused then.

    Attributes
    ----------
    shape_model_, regressor_ : regressor
        The fitted clones.
    shape_columns_ : list of int
        Positions of the columns the shape model sees.
    selected_features_ : list of str
        Columns of X that either model uses.
    """

    def __init__(
        self, shape_model: Any = None, regressor: Any = None, *, shape_columns: Sequence[str] | None = None
    ) -> None:
        self.shape_model, self.regressor, self.shape_columns = shape_model, regressor, shape_columns

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to X of shape (n_samples, n_features), NaN in unpaired rows, and positive y of shape (n_samples,).

        Raises
        ------
        ValueError
            For a target that is not positive, and where no row is paired.
        """
        y = check_positive_target(self, check_target(self, X, y))
        nan = True if self.shape_columns is None else "allow-nan"
        values = validate_data(self, X, dtype=np.float64, ensure_all_finite=nan, ensure_min_samples=2)
        names = feature_names(self)
        self.shape_columns_ = Columns(self.shape_columns).fit(X).columns_
        paired = np.isfinite(values).all(axis=1)
        if not paired.any():
            raise ValueError("Transfer needs rows without NaN to learn from: there is none")
        shape_model = CrossFitted() if self.shape_model is None else clone(self.shape_model)
        self.shape_model_ = shape_model
        shape_time = shape_model.fit_out_of_fold(self._shapes(values), y, groups)
        regressor = GeometricStack() if self.regressor is None else clone(self.regressor)
        told = None if groups is None else np.asarray(groups)[paired]
        self.regressor_ = fit(regressor, self._with_shape(values[paired], shape_time[paired]), y[paired], told)
        self.selected_features_ = all_selected([self.shape_model_, self.regressor_], names)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions in the unit of y, shape (n_samples,), all positive.

        Raises
        ------
        ValueError
            For NaN in X: rows to predict need a host time.
        """
        check_is_fitted(self, "regressor_")
        values = validate_data(self, X, dtype=np.float64, reset=False)
        return self.regressor_.predict(self._with_shape(values, self.shape_model_.predict(self._shapes(values))))

    def _shapes(self, values: np.ndarray) -> pd.DataFrame:
        names = feature_names(self)
        return pd.DataFrame(values[:, self.shape_columns_], columns=[names[j] for j in self.shape_columns_])

    def _with_shape(self, values: np.ndarray, shape_time: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame(np.column_stack([values, shape_time]), columns=[*feature_names(self), SHAPE_TIME])

    def __sklearn_tags__(self) -> Tags:
        """Say that targets must be positive and that, with ``shape_columns``, NaN marks unpaired rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.shape_columns is not None
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags
