"""The choice among trials of which some are known, and the others only bounded until they are fitted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .stepwise_ols import TIES

_AT_ONCE = 16
"""Trials looked at together, in the order of their bounds."""


def first_of_least(
    bounds: np.ndarray, settled: Callable[[np.ndarray], np.ndarray], fitted: Callable[[int], float]
) -> int:
    """Return the index of the least value, the first of equals.

    Parameters
    ----------
    bounds : ndarray of shape (g,)
        No value is below its bound.
    settled : callable
        Returns the values at some indices, NaN where they need a fit.
    fitted : callable
        Returns the value at one index by a fit; not called where the bound shows that it is not the least.
    """
    values, least = np.full(len(bounds), np.inf), np.inf
    order = np.argsort(bounds, kind="stable")
    for first in range(0, len(order), _AT_ONCE):
        chunk = order[first : first + _AT_ONCE]
        if bounds[chunk[0]] > close_to(least):
            break
        values[chunk] = settled(chunk)
        open_ones = chunk[np.isnan(values[chunk])]
        values[open_ones] = np.inf
        least = float(min(least, values[chunk].min()))
        for index in open_ones.tolist():
            if bounds[index] <= close_to(least):
                values[index] = fitted(index)
                least = min(least, float(values[index]))
    return int(np.argmax(values <= close_to(least)))


def close_to(least: float) -> float:
    """Return the largest value that counts as equal to the least."""
    return least + TIES * abs(least)
