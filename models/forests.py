"""Forests of scikit-learn, asked tree by tree."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from ..arrays import FloatArray

FORESTS: Final = (ExtraTreesRegressor, RandomForestRegressor)


def predicted_by(learner: Any, X: FloatArray) -> FloatArray:
    """Return ``learner.predict(X)``, of a forest one tree after the other.

    The mean of the trees is that of scikit-learn to the last bit. joblib, which scikit-learn hands
    each tree to, takes longer than a small tree.

    Parameters
    ----------
    learner : estimator
        Fitted, with one target.
    X : ndarray of shape (n_samples, n_features)
        What it was fitted on, float64.

    Returns
    -------
    ndarray of shape (n_samples,)

    Raises
    ------
    ValueError
        What the learner raises of X.

    Examples
    --------
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> forest = ExtraTreesRegressor(4, random_state=0).fit(X, [1.0, 2.0, 4.0])
    >>> predicted_by(forest, X).tolist()
    [1.0, 2.0, 4.0]
    """
    if not isinstance(learner, FORESTS):
        return learner.predict(X)
    with np.errstate(over="ignore"):
        rows = np.asarray(X, dtype=np.float32)  # as trees compare them
    if rows.shape[1:] != (learner.n_features_in_,) or not np.isfinite(rows).all():
        return learner.predict(X)  # which says what is wrong, or knows missing values
    total = np.zeros(len(rows))
    for tree in learner.estimators_:
        total += tree.predict(rows, check_input=False)
    return total / len(learner.estimators_)
