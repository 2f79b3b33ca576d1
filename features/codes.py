"""Rows that agree in several columns, as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd


def codes_of(keys: Iterable[Any]) -> np.ndarray:
    """Return a number for each distinct combination of values, in order of appearance; missing values equal each other.

    Parameters
    ----------
    keys : iterable of array-like of shape (n_rows,)
        At least one column.

    Returns
    -------
    ndarray of int64 of shape (n_rows,)

    Examples
    --------
    >>> codes_of([["a", "b", "a"], [1, 1, 2]]).tolist()
    [0, 1, 2]
    """
    numbers: np.ndarray | None = None
    for key in keys:
        codes, levels = pd.factorize(_factorizable(key), use_na_sentinel=False)
        if numbers is None:
            numbers = codes.astype(np.int64)
        elif len(levels) > 1:
            numbers = pd.factorize(numbers * len(levels) + codes)[0].astype(np.int64)
    assert numbers is not None
    return numbers


def _factorizable(key: Any) -> Any:
    return np.asarray(key, dtype=object) if isinstance(key, list) else key
