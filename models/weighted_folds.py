"""Inner folds for models that learn from the rows of positive weight only."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from .base import Folds, check_weights, inner_folds


def weighted_folds(cv: Any, sample_weight: Any, n_used: int, groups: Any, random_state: int | None) -> Folds:
    """Return `base.inner_folds` of all rows, without the rows of weight 0, the others numbered anew.

    A fold left without a training or a validation row is left out.

    Parameters
    ----------
    cv, groups, random_state
        See `base.inner_folds`.
    sample_weight : array-like of shape (n_samples,), float or None
    n_used : int
        How many rows have a positive weight.

    Raises
    ------
    ValueError
        When no fold is left.
    """
    equal = sample_weight is None or isinstance(sample_weight, Real)
    n_rows = n_used if equal else len(np.asarray(sample_weight))
    used = check_weights(sample_weight, n_rows) > 0
    position = np.cumsum(used) - 1
    folds = inner_folds(cv, n_rows, groups, random_state)
    weighted = [(position[train[used[train]]], position[valid[used[valid]]]) for train, valid in folds]
    if not (left := [(train, valid) for train, valid in weighted if len(train) and len(valid)]):
        raise ValueError(
            f"sample_weight leaves none of the {len(folds)} inner folds a training and a validation row: give weight to"
            " rows of at least two groups, or other folds (cv)"
        )
    return left
