"""The critical path: the chain of work that the end of a trace had to wait for."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .binding import OTHER
from .graph import Graph
from .replay import Times

ACTIVITY, GAP, LATENCY, WORK, RETURN, DELAY, UNEXPLAINED = (
    "activity", "gap", "launch", "cpu", "return", "dependency", "unexplained",
)  # fmt: skip
"""Kinds of pieces: an activity ran; the queue's gap; a launch on its way; the CPU worked; a wait of the CPU came back;
one queue took note of another; a gap or launch that took longer than the trace explains."""

COLUMNS = ("kind", "row", "begin_ns", "end_ns")


def critical_path(graph: Graph, times: Times, sample: int = 0) -> pd.DataFrame:
    """Return what the last end of a replay had to wait for, back to the beginning.

    Parameters
    ----------
    graph : Graph
    times : Times
        Of a replay of it.
    sample : int, default=0

    Returns
    -------
    DataFrame
        In the order of time, without holes, from the first start of an activity on: `kind` (see `ACTIVITY` and the
        others); `row`, the activity (its place in the graph; of gaps, launches and delays the one that waited, -1 for
        the CPU's work and returns); `begin_ns`, `end_ns`. Of an activity that the next one overlaps only the part
        before that counts. Where two reasons held an activity back equally, the queue is named before the launch, and
        that before another queue.
    """
    path = _Path(graph, times, sample)
    path.walk()
    found = pd.DataFrame(path.pieces[::-1], columns=list(COLUMNS))
    found["begin_ns"] = found["begin_ns"].clip(lower=float(path.start.min()))
    return found[found["end_ns"] > found["begin_ns"]].reset_index(drop=True)


class _Path:
    """A walk from the last end back to the beginning; `pieces` are found latest first."""

    def __init__(self, graph: Graph, times: Times, sample: int) -> None:
        self.graph = graph
        self.start, self.end, self.run = times.start_ns[sample], times.end_ns[sample], times.run_ns[sample]
        self.call, self.cpu = times.call_ns(graph)[sample], float(times.cpu[sample])
        self.pieces: list[tuple[str, int, float, float]] = []

    def walk(self) -> None:
        """Find the pieces."""
        row = int(np.argmax(self.end))
        until = float(self.end[row])
        while row >= 0:
            begin = float(self.start[row])
            self.pieces.append((ACTIVITY, row, begin, until))
            row, until = self._held_by(row, begin)

    def _held_by(self, row: int, now: float) -> tuple[int, float]:
        """Return the activity that one waited for, -1 for none, and until when that counts."""
        graph = self.graph
        before, call, other = int(graph.before[row]), int(graph.call[row]), int(graph.other[row])
        reasons: list[tuple[float, str]] = []
        if before >= 0:
            passed = graph.passed[row] * (self.end[before] - self.start[before])
            reasons.append((float(self.start[before] + passed + graph.gap_ns[row]), GAP))
        if call >= 0:
            reasons.append((float(self._under_way(row) + graph.latency_ns[row]), LATENCY))
        if other >= 0:
            reasons.append((float(self.end[other] + graph.delay_ns[row]), DELAY))
        kind = max(reasons, key=lambda reason: reason[0])[1] if reasons else ""
        if kind == GAP:
            return before, self._piece(GAP, row, now - max(0.0, float(graph.gap_ns[row])), now)
        if kind == DELAY:
            return other, self._piece(DELAY, row, now - max(0.0, float(graph.delay_ns[row])), now)
        if kind == LATENCY:
            return self._worked(
                int(graph.calls.run[call]), self._piece(LATENCY, row, min(now, self._under_way(row)), now)
            )
        return -1, now

    def _under_way(self, row: int) -> float:
        """Return when the call that launched an activity had handed it over."""
        return float(self.call[self.graph.call[row]] + self.graph.pace_ns[row] * self.cpu)

    def _worked(self, run: int, until: float) -> tuple[int, float]:
        """Follow the CPU's work back to the activity it had waited for; return that one, -1 for none."""
        runs, calls = self.graph.runs, self.graph.calls
        while True:
            until = self._piece(WORK, -1, float(self.run[run]), until)
            wait, awaited = int(runs.wait[run]), int(runs.awaited[run])
            if wait < 0:
                return -1, until
            came_back = float(self.end[awaited] + runs.lag_ns[run])
            if came_back >= float(self.call[wait] + runs.base_ns[run] * self.cpu):
                return awaited, self._piece(RETURN, -1, min(until, float(self.end[awaited])), until)
            until = self._piece(WORK, -1, float(self.call[wait]), until)
            run = int(calls.run[wait])

    def _piece(self, kind: str, row: int, begin: float, end: float) -> float:
        strange = row >= 0 and kind in (GAP, LATENCY) and self.graph.cause[row] == OTHER
        self.pieces.append((UNEXPLAINED if strange else kind, row, begin, end))
        return begin
