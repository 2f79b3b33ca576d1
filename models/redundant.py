"""Columns that can add nothing to a linear model: those that do not vary, and exact copies of others."""

from __future__ import annotations

import numpy as np

_EPS = float(np.finfo(np.float64).eps)


def constant_columns(X: np.ndarray) -> np.ndarray:
    """Return the columns whose range is rounding error of their values (``n`` times the machine's precision)."""
    low, high = X.min(axis=0), X.max(axis=0)
    return np.flatnonzero(high - low <= len(X) * _EPS * np.maximum(np.abs(low), np.abs(high)))


def copied_columns(X: np.ndarray) -> np.ndarray:
    """Return the columns that equal an earlier one in every row.

    Only columns of equal sums are compared. (Multiples of others are left to the tolerance of the fit: with free
    coefficients they share an effect.)
    """
    sums = X.sum(axis=0)
    order = np.argsort(sums, kind="stable")
    equal = sums[order][1:] == sums[order][:-1]
    seen, copies = set[bytes](), list[int]()
    for j in np.sort(order[np.r_[False, equal] | np.r_[equal, False]]).tolist() if equal.any() else ():
        values = (X[:, j] + 0.0).tobytes()  # + 0.0: -0 is 0
        if values in seen:
            copies.append(j)
        seen.add(values)
    return np.array(copies, dtype=int)
