"""How many GPUs a log seems to be of that does not tell them apart: their readings share a stamp or come in bursts."""

from __future__ import annotations

from typing import Final

import numpy as np

MOST_GPUS: Final = 16
CLEAR: Final = 4.0
"""Gaps between bursts are so many times longer than those within them."""
SHARE: Final = 0.05
"""Of the gaps, that may be otherwise: a logger stalls now and then."""


def gpus_in_bursts(times_ns: np.ndarray) -> int:
    """Return the number of readings that come together again and again, 1 where they come one by one.

    Parameters
    ----------
    times_ns : ndarray of int64, shape (n,)
        Time stamps in the order of the log.

    Notes
    -----
    The gaps of one GPU may vary as they like: what tells is that every m-th gap is long and all others are short.
    """
    gaps = np.diff(times_ns)
    if len(gaps) and not gaps.any():
        return len(times_ns)
    for count in range(2, MOST_GPUS + 1):
        between = gaps[count - 1 :: count]
        within = np.delete(gaps, np.s_[count - 1 :: count])
        if len(between) < (2 if within.any() else 1):
            break
        if CLEAR * np.quantile(within, 1 - SHARE) < np.quantile(between, SHARE):
            return count
    return 1
