"""When a GPU was busy: unions of intervals, gaps, the grid of the clock. All times are integer nanoseconds."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..codes import codes_of

IntArray = NDArray[np.int64]

QUEUE = ("device", "process", "gpu", "stream")
"""Columns that make a queue: activities of one queue run one after the other."""
_OFTEN = 6
"""Values from which only two different ones among them are no accident."""


def busy_ns(table: pd.DataFrame) -> int:
    """Return how long at least one activity was running: the length of the union of all intervals.

    Parameters
    ----------
    table : DataFrame
        Dispatch table, or any rows with `start_ns` and `duration_ns`. Negative durations count as none.
    """
    starts, ends = _sorted(table)
    if not len(starts):
        return 0
    before = np.r_[starts[0], np.maximum.accumulate(ends)[:-1]]
    return int(np.maximum(ends - np.maximum(starts, before), 0).sum())


def span_ns(table: pd.DataFrame) -> int:
    """Return the time from the first start to the last end."""
    starts, ends = _sorted(table)
    return int(ends.max() - starts.min()) if len(starts) else 0


def queue_codes(table: pd.DataFrame) -> IntArray:
    """Return a number per queue (`QUEUE`) for every row, missing values equal to each other."""
    return codes_of(table[name] for name in QUEUE)


def gaps_ns(table: pd.DataFrame) -> pd.Series:
    """Return how long the queue was idle before each row: <NA> for its first, negative where the row overlaps.

    Parameters
    ----------
    table : DataFrame
        Dispatch table.

    Returns
    -------
    Series of Int64, index as in the table
    """
    order = np.argsort(table["start_ns"].to_numpy(), kind="stable")
    codes = queue_codes(table)[order]
    starts = table["start_ns"].to_numpy()[order]
    ends = pd.Series(starts + np.maximum(table["duration_ns"].to_numpy()[order], 0))
    running = ends.groupby(codes).cummax().astype("Int64")  # as float64, absolute nanoseconds lose 256 ns
    before = running.groupby(codes).shift()
    gaps = pd.Series(starts, dtype="Int64") - before
    return pd.Series(gaps.array, index=table.index[order]).reindex(table.index)


def resolution_ns(values: IntArray) -> int:
    """Return the step of a clock: the greatest common divisor of the differences between the values it has given.

    Differences, not values: some producers subtract a nanosecond from every duration (MI300X under Kineto: 40 k - 1).
    Two different values have one difference, which may be many steps; seen often enough (`_OFTEN`) they are told by a
    coarse clock, and the step is what divides both, with or without that nanosecond. Returns 0 where the
    values say nothing about the clock: there is one, or there are two that were not seen that often.
    """
    every = np.asarray(values, dtype=np.int64)
    distinct = np.unique(every)
    if len(distinct) == 2 and len(every) >= _OFTEN:
        return int(max(np.gcd.reduce(distinct), np.gcd.reduce(distinct + 1)))
    return int(np.gcd.reduce(np.diff(distinct))) if len(distinct) >= 3 else 0


def _sorted(table: pd.DataFrame) -> tuple[IntArray, IntArray]:
    starts = table["start_ns"].to_numpy(dtype=np.int64)
    order = np.argsort(starts, kind="stable")
    return starts[order], starts[order] + np.maximum(table["duration_ns"].to_numpy(dtype=np.int64)[order], 0)
