"""The critical path: the chain of work that the end of a trace had to wait for."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .graph import OTHER, Graph
from .replay import Times

ACTIVITY, GAP, LATENCY, WORK, RETURN, DELAY, UNEXPLAINED = (
    "activity", "gap", "launch", "cpu", "return", "dependency", "unexplained",
)  # fmt: skip
"""Kinds of pieces: an activity ran; the queue's gap; a launch on its way; the CPU worked; a wait of the CPU came back;
one queue took note of another; a gap or launch that took longer than the trace explains."""

COLUMNS = ("kind", "row", "begin_ns", "end_ns")


def critical_path(
    graph: Graph, times: Times, sample: int = 0, *, counted: NDArray[np.bool_] | slice = slice(None)
) -> pd.DataFrame:
    """Return what the last end of a replay had to wait for, back to the beginning.

    Parameters
    ----------
    graph : Graph
    times : Times
        Of a replay of it.
    sample : int, default=0
    counted : ndarray of bool of shape (n,), optional
        Activities whose first start is the beginning, and whose last end is the end.

    Returns
    -------
    DataFrame
        In the order of time, without holes, from the first start that counts on: `kind` (see `ACTIVITY` and the
        others); `row`, the activity (its place in the graph; of gaps, launches and delays the one that waited, -1 for
        the CPU's work and returns); `begin_ns`, `end_ns`. Of an activity that the next one overlaps only the part
        before that counts. Where two reasons held an activity back equally, the queue is named before the launch, and
        that before another queue. A path that ends at a beginning which nothing explains (the first call of a thread,
        the first activity of a device) goes on to the first start as the CPU's work, in a trace without calls as
        unexplained. Clocks of CPU and GPU that disagree do not show: a piece ends where the next one begins.
    """
    path = _Path(graph, times, sample)
    rows = np.arange(len(graph))[counted]
    first = float(times.start_ns[sample][rows].min())
    path.walk(int(rows[np.argmax(times.end_ns[sample][rows])]), first)
    found = pd.DataFrame(path.pieces, columns=list(COLUMNS))
    begin = np.maximum(np.minimum.accumulate(found["begin_ns"]), first)
    found = found.assign(begin_ns=begin, end_ns=np.r_[found["end_ns"].iloc[0], begin[:-1]])[::-1]
    return found[found["end_ns"] > found["begin_ns"]].reset_index(drop=True)


class _Path:
    """A walk from the last end back to the beginning; `pieces` are found latest first.

    It steps through single numbers, which lists give ten times as fast as arrays.
    """

    def __init__(self, graph: Graph, times: Times, sample: int) -> None:
        self.graph = graph
        self.start, self.end = times.start_ns[sample].tolist(), times.end_ns[sample].tolist()
        self.run, self.call = times.run_ns[sample].tolist(), times.call_ns(graph)[sample].tolist()
        self.cpu = float(times.cpu[sample])
        self.before, self.called, self.other = graph.before.tolist(), graph.call.tolist(), graph.other.tolist()
        self.gap, self.latency, self.delay = graph.gap_ns.tolist(), graph.latency_ns.tolist(), graph.delay_ns.tolist()
        self.passed, self.pace = graph.passed.tolist(), graph.pace_ns.tolist()
        self.strange = (graph.cause == OTHER).tolist()
        self.pieces: list[tuple[str, int, float, float]] = []

    def walk(self, row: int, first: float) -> None:
        """Find the pieces that end with an activity, back to the first start."""
        until = self.end[row]
        while row >= 0:
            begin = self.start[row]
            self.pieces.append((ACTIVITY, row, begin, until))
            row, until = self._held_by(row, begin)
        if until > first:
            self.pieces.append((WORK if len(self.graph.calls) else UNEXPLAINED, -1, first, until))

    def _held_by(self, row: int, now: float) -> tuple[int, float]:
        """Return the activity that one waited for, -1 for none, and until when that counts."""
        before, call, other = self.before[row], self.called[row], self.other[row]
        latest, kind = float("-inf"), ""
        if before >= 0:
            passed = self.passed[row] * (self.end[before] - self.start[before])
            latest, kind = self.start[before] + passed + self.gap[row], GAP
        if call >= 0 and (at := self._under_way(row) + self.latency[row]) > latest:
            latest, kind = at, LATENCY
        if other >= 0 and self.end[other] + self.delay[row] > latest:
            kind = DELAY
        if kind == GAP:
            return before, self._piece(GAP, row, now - max(0.0, self.gap[row]), now)
        if kind == DELAY:
            return other, self._piece(DELAY, row, now - max(0.0, self.delay[row]), now)
        if kind == LATENCY:
            begin = self._piece(LATENCY, row, min(now, self._under_way(row)), now)
            return self._worked(int(self.graph.calls.run[call]), begin)
        return -1, now

    def _under_way(self, row: int) -> float:
        """Return when the call that launched an activity had handed it over."""
        at: float = self.call[self.called[row]] + self.pace[row] * self.cpu
        return at

    def _worked(self, run: int, until: float) -> tuple[int, float]:
        """Follow the CPU's work back to the activity it had waited for; return that one, -1 for none."""
        runs, calls = self.graph.runs, self.graph.calls
        while True:
            until = self._piece(WORK, -1, self.run[run], until)
            wait, awaited = int(runs.wait[run]), int(runs.awaited[run])
            if wait < 0:
                return -1, until
            came_back = self.end[awaited] + float(runs.lag_ns[run])
            if came_back >= self.call[wait] + float(runs.base_ns[run]) * self.cpu:
                return awaited, self._piece(RETURN, -1, min(until, self.end[awaited]), until)
            until = self._piece(WORK, -1, self.call[wait], until)
            run = int(calls.run[wait])

    def _piece(self, kind: str, row: int, begin: float, end: float) -> float:
        strange = row >= 0 and kind in (GAP, LATENCY) and self.strange[row]
        self.pieces.append((UNEXPLAINED if strange else kind, row, begin, end))
        return begin
