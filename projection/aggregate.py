"""From durations of activities to one time: a plain sum, a sum that counts overlap once, and a replay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .graph import Graph
from .replay import Times

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

SUM, OVERLAP, REPLAY = "sum", "overlap", "replay"
AGGREGATIONS = (SUM, OVERLAP, REPLAY)
"""Ways to add up a trace:

- sum: all durations, and the time in which nothing ran. Overlap counts twice.
- overlap: every moment of the measured timeline counts once, for the activity that it is put down to (computation
  before communication before copies, then the one that began first), and is stretched as that one is.
- replay: the trace's own dependencies played again (`replay`).
"""


def own_time(start: FloatArray, duration: FloatArray, rank: NDArray[np.int64]) -> FloatArray:
    """Return for each activity the moments that are put down to it: the sum is the time anything ran.

    Parameters
    ----------
    start, duration : ndarray of float64 of shape (n,)
        Any unit.
    rank : ndarray of int64 of shape (n,)
        Activities of lower rank hide those of higher; among equals the one that begins first.

    Returns
    -------
    ndarray of float64 of shape (n,)
    """
    own = np.zeros(len(start))
    hidden: tuple[FloatArray, FloatArray] = (np.empty(0), np.empty(0))
    for level in np.unique(rank).tolist():
        rows = np.flatnonzero(rank == level)
        rows = rows[np.argsort(start[rows], kind="stable")]
        end = start[rows] + duration[rows]
        begin = np.maximum(start[rows], np.maximum.accumulate(np.r_[-np.inf, end[:-1]]))
        end = np.maximum(end, begin)
        own[rows] = end - begin - (_covered(hidden, end) - _covered(hidden, begin))
        used = end > begin
        hidden = _union(np.r_[hidden[0], begin[used]], np.r_[hidden[1], end[used]])
    return own


def _union(begin: FloatArray, end: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the disjoint intervals that cover what the given ones cover, in order."""
    if not len(begin):
        return begin, end
    order = np.argsort(begin, kind="stable")
    begin, reach = begin[order], np.maximum.accumulate(end[order])
    first = np.r_[True, begin[1:] > reach[:-1]]
    return begin[first], reach[np.r_[np.flatnonzero(first)[1:] - 1, len(begin) - 1]]


def _covered(intervals: tuple[FloatArray, FloatArray], at: FloatArray) -> FloatArray:
    """Return how much of the disjoint intervals lies before each moment."""
    begin, end = intervals
    if not len(begin):
        return np.zeros(len(at))
    length = np.r_[0.0, np.cumsum(end - begin)]
    place = np.searchsorted(begin, at, side="right") - 1
    inside = np.where(place >= 0, np.minimum(at, end[place]) - begin[place], 0.0)
    return np.where(place >= 0, length[place] + inside, 0.0)


def totals_us(
    graph: Graph, projected_ns: FloatArray, own_ns: FloatArray, counted: BoolArray, times: Times, *, idle: float = 1.0
) -> dict[str, float]:
    """Return the projected end-to-end time by each way of adding up.

    Parameters
    ----------
    graph : Graph
        Of the measured trace.
    projected_ns : ndarray of shape (n,)
        Durations in the order of the graph.
    own_ns : ndarray of shape (n_counted,)
        What of the measured time is put down to each activity that counts (`own_time`).
    counted : ndarray of bool of shape (n,)
        Activities that make the end-to-end time; others (launched before the trace) only hold them up.
    times : Times
        The replay on the target.
    idle : float, default=1
        Time in which nothing runs, relative to the measured; for sums.

    Returns
    -------
    dict of str to float
        `AGGREGATIONS` in µs.
    """
    start, duration = graph.start_ns[counted], graph.duration_ns[counted]
    span = (start + duration).max() - start.min()
    still = (span - own_ns.sum()) * idle
    stretched = np.divide(projected_ns[counted], duration, out=np.ones_like(own_ns), where=duration > 0)
    return {
        SUM: float(projected_ns[counted].sum() + still) / 1000.0,
        OVERLAP: float((own_ns * stretched).sum() + still) / 1000.0,
        REPLAY: float(times.span_us(counted)[0]),
    }
