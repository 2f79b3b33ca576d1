"""A learner of what an analytic base leaves over: trees know the wiggles, the base knows how time grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .base import all_selected, check_positive_target, check_target, feature_names, fit
from .baselines import AdditiveTime
from .target_space import LARGEST_LOG, Columns


class LogResidual(RegressorMixin, BaseEstimator):
    """``log t = log base(x) + learner(x)``: the learner is fitted to the logarithm of observed over base.

    Beyond the trained range a tree's residual stays what it was at the edge while the base goes on growing, so the
    model does not saturate. The learner sees the columns, the logarithm of the base, and for each column of ``ratios``
    the logarithm of that column over the base.

    Parameters
    ----------
    base : regressor, default=None
        A model with positive predictions; `AdditiveTime` of all columns where None.
    learner : regressor, default=None
        100 extremely randomised trees where None.
    columns : sequence of str, optional
        What the learner sees (see `target_space.Columns`); all columns by default.
    ratios : sequence of str, default=()
        Columns that are times themselves, predicted by other means.

    Attributes
    ----------
    base_, learner_ : regressor
        The fitted clones.
    selected_features_ : list of str
        What learner or base are given.

    Examples
    --------
    >>> import numpy as np
    >>> work = np.linspace(1, 50, 60)[:, None]
    >>> model = LogResidual().fit(work, 3 + 2 * work[:, 0])
    >>> model.predict([[500.0]]).round(-1).tolist()
    [1000.0]
    """

    def __init__(
        self,
        base: Any = None,
        learner: Any = None,
        *,
        columns: Sequence[str] | None = None,
        ratios: Sequence[str] = (),
    ) -> None:
        self.base, self.learner, self.columns, self.ratios = base, learner, columns, ratios

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to X of shape (n_samples, n_features) and positive y of shape (n_samples,).

        Raises
        ------
        ValueError
            For a target that is not positive, and for NaN in a column that is used.
        """
        y = check_positive_target(self, check_target(self, X, y))
        base = AdditiveTime() if self.base is None else clone(self.base)
        learner = ExtraTreesRegressor(100, random_state=0) if self.learner is None else clone(self.learner)
        self.base_ = fit(base, X, y, groups)
        validate_data(self, X, skip_check_array=True)
        self.columns_ = Columns(self.columns).fit(X)
        log_base = np.log(self.base_.predict(X))
        seen = set(self.columns_.get_feature_names_out()) | set(all_selected([self.base_], feature_names(self)))
        self.selected_features_ = [name for name in feature_names(self) if name in seen or name in self.ratios]
        self.learner_ = fit(learner, self._seen(X, log_base), np.log(y) - log_base, groups)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions in the unit of y, shape (n_samples,), all positive."""
        check_is_fitted(self, "learner_")
        log_base = np.log(self.base_.predict(X))
        logs = log_base + self.learner_.predict(self._seen(X, log_base))
        return np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG))

    def _seen(self, X: Any, log_base: np.ndarray) -> np.ndarray:
        """Return what the learner sees, shape (n_samples, n_columns + 1 + n_ratios)."""
        names = feature_names(self)
        ratios = [np.log(np.asarray(X.iloc[:, names.index(name)])) - log_base for name in self.ratios]
        return np.column_stack([np.asarray(self.columns_.transform(X), dtype=np.float64), log_base, *ratios])

    def __sklearn_tags__(self) -> Tags:
        """Say that targets must be positive."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags
