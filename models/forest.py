"""A random forest whose number of trees is chosen by the out-of-bag error of its own prefixes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils.validation import check_is_fitted, validate_data

from .base import check_rows, feature_names


class Forest(RegressorMixin, BaseEstimator):
    """Random forest of 2, 4, 8, ... or 1024 trees, as many as minimise the out-of-bag error.

    One forest is grown; its first 2, 4, 8, ... trees are the candidates, so the choice costs no further fit. The
    out-of-bag error is the mean squared error over the rows that at least one of the trees has not seen. A prediction
    is a mean of training targets: it never leaves their range, whatever the query.

    Parameters
    ----------
    max_trees : int, default=1024
        The largest candidate (the largest power of two up to it).
    max_work : int or None, default=2_097_152
        At most this many rows times trees are grown, to bound the time: 1024 trees up to 2048 rows, 128 trees with
        13 000 rows. None: no bound.
    max_features : float, int or None, default=1/3
        The share of features each split looks at (Breiman's p / 3 for regression).
    min_samples_leaf : int, default=1
        The fewest rows in a leaf.
    random_state : int, default=0
        The seed of bootstrap samples and splits.

    Attributes
    ----------
    n_trees_ : int
        The number of trees chosen.
    oob_path_ : dict of int to float
        The out-of-bag mean squared error of each number of trees; NaN where every row was seen.
    feature_importances_ : ndarray of shape (n_features,)
        The decrease of the residual sum of squares over all splits on a feature, averaged over the trees, as a share of
        the total (all 0 when no tree splits).
    selected_features_ : list of str
        The features that some tree splits on.
    forest_ : RandomForestRegressor

    References
    ----------
    L. Breiman, Random forests, Machine Learning 45 (2001) 5.
    """

    def __init__(
        self,
        *,
        max_trees: int = 1024,
        max_work: int | None = 2**21,
        max_features: float | int | None = 1 / 3,
        min_samples_leaf: int = 1,
        random_state: int | None = 0,
    ) -> None:
        self.max_trees, self.max_work, self.max_features = max_trees, max_work, max_features
        self.min_samples_leaf, self.random_state = min_samples_leaf, random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Grow and choose on X of shape (n_samples, n_features) and y of shape (n_samples,)."""
        X, y, _ = check_rows(self, X, y)
        self.forest_ = RandomForestRegressor(
            n_estimators=self._most_trees(len(y)),
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            n_jobs=1,
            random_state=self.random_state,
        ).fit(X, y)
        self.oob_path_ = _oob_path(self.forest_, X, y)
        known = {trees: error for trees, error in self.oob_path_.items() if np.isfinite(error)}
        self.n_trees_ = min(known, key=known.__getitem__) if known else max(self.oob_path_)
        self.forest_.estimators_ = self.forest_.estimators_[: self.n_trees_]
        self.forest_.set_params(n_estimators=self.n_trees_)
        decrease = sum(tree.tree_.compute_feature_importances(normalize=False) for tree in self.forest_.estimators_)
        self.feature_importances_ = decrease / decrease.sum() if decrease.sum() > 0 else decrease
        self.selected_features_ = [
            name for name, share in zip(feature_names(self), self.feature_importances_, strict=True) if share > 0
        ]
        return self

    def _most_trees(self, n_rows: int) -> int:
        """Return the largest power of two within ``max_trees`` and ``max_work``, at least 2."""
        if self.max_trees < 2:
            raise ValueError(f"parameter max_trees of Forest must be at least 2, got {self.max_trees}")
        most = self.max_trees if self.max_work is None else min(self.max_trees, self.max_work // n_rows)
        return max(2, 1 << (int(most).bit_length() - 1)) if most >= 2 else 2

    def predict(self, X: Any) -> np.ndarray:
        """Return the mean over the trees, shape (n_samples,)."""
        check_is_fitted(self, "forest_")
        return self.forest_.predict(validate_data(self, X, dtype=np.float64, reset=False))


def _oob_path(forest: RandomForestRegressor, X: np.ndarray, y: np.ndarray) -> dict[int, float]:
    """Return the out-of-bag mean squared error of the first 2, 4, 8, ... trees."""
    rows = X.astype(np.float32)
    total, votes, path = np.zeros(len(y)), np.zeros(len(y)), {}
    for count, (tree, seen) in enumerate(zip(forest.estimators_, forest.estimators_samples_, strict=True), start=1):
        unseen = np.ones(len(y), dtype=bool)
        unseen[seen] = False
        if unseen.any():
            total[unseen] += tree.tree_.predict(rows[unseen])[:, 0]
            votes[unseen] += 1
        if count >= 2 and count & (count - 1) == 0:
            voted = votes > 0
            path[count] = float(np.mean((total[voted] / votes[voted] - y[voted]) ** 2)) if voted.any() else float("nan")
    return path
