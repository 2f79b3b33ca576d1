"""The trace played again with other durations: every activity starts when what it waits for is over.

`replay` is one way from durations to an end-to-end time; `totals_us` gives two sums beside it, of
which one counts overlap once. `critical_path` is the chain of work that the end of a replay had to
wait for.

A queue and a thread are chains, so the starts of a stretch of a queue have a closed form: with C
the running sum of what must pass between one start and the next, and R when each has been launched,
``S_i = C_i + max(S_before, max_{j <= i} (R_j - C_j))``. Only waits (of the CPU for the GPU, of a
queue for another) cut chains into stretches, which are played in the order they were measured in:
what waits was measured after what it waits for, so that order serves for all durations. Each
stretch is played for all samples at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray, IntArray
from .graph import OTHER, Graph

_AT_ONCE = 4_000_000  # numbers of one array: more samples are played one after the other


@dataclass(frozen=True)
class Times:
    """When everything happened in a replay of n_samples samples."""

    start_ns: FloatArray  # of the activities, in the order of the graph, from its origin on; shape (n_samples, n)
    end_ns: FloatArray
    run_ns: FloatArray  # beginnings of the stretches of CPU work, shape (n_samples, n_runs)
    cpu: FloatArray  # time the CPU took for its work, relative to the measured, shape (n_samples,)

    def call_ns(self, graph: Graph) -> FloatArray:
        """Return the starts of the graph's calls, shape (n_samples, n_calls)."""
        return self.run_ns[:, graph.calls.run] + graph.calls.offset_ns * self.cpu[:, None]

    def span_us(self, counted: BoolArray | slice = slice(None)) -> FloatArray:
        """Return the time from the first start to the last end of the activities that count, shape (n_samples,), µs."""
        return (
            self.end_ns[:, counted].max(axis=1) - self.start_ns[:, counted].min(axis=1)
        ) / 1000.0


@dataclass(frozen=True)
class Pace:
    """Time before activities whose cause the trace does not say: it is drawn, the same factor for all of a sample.

    The arrays (n,) are in the order of the graph, ns: what of the time from start to start on a
    queue, of a launch under way, and of the wait for another queue is of unknown cause.
    """

    gap_ns: FloatArray
    latency_ns: FloatArray
    delay_ns: FloatArray

    def __bool__(self) -> bool:
        return bool(self.gap_ns.any() or self.latency_ns.any() or self.delay_ns.any())


def replay(
    graph: Graph,
    duration_ns: FloatArray,
    cpu: FloatArray | float = 1.0,
    pace: Pace | None = None,
    paces: FloatArray | float = 1.0,
) -> Times:
    """Return when everything happens with other durations.

    ``duration_ns``, of shape (n,) or (n_samples, n), are those of the activities in the order of
    the graph; ``cpu``, of shape (n_samples,) or one for all, the time the CPU takes for its work,
    relative to the measured; ``paces``, of the same shape, multiply the time of ``pace``. A
    ValueError says that a shape does not fit, or a duration is negative or not a number.
    """
    durations = np.atleast_2d(np.asarray(duration_ns, dtype=float))
    if durations.shape[1] != len(graph):
        raise ValueError(f"{durations.shape[1]} durations for {len(graph)} activities")
    if not (durations >= 0).all():
        raise ValueError("a duration is negative or not a number")
    ratio = np.broadcast_to(np.asarray(cpu, dtype=float), (len(durations),))
    drawn = np.broadcast_to(np.asarray(paces, dtype=float), (len(durations),))
    return Player(graph, durations, ratio[:, None], pace, drawn[:, None]).play()


def spans_us(
    graph: Graph,
    duration_ns: FloatArray,
    factors: FloatArray,
    groups: IntArray,
    cpu: FloatArray,
    span: Callable[[Times], FloatArray],
    pace: Pace | None = None,
    paces: FloatArray | None = None,
) -> FloatArray:
    """Return the span of each sample (µs), a few samples at a time so that memory stays bounded.

    The durations of the activities, of shape (n,) in the order of the graph, are multiplied by what
    ``factors``, of shape (n_samples, n_groups), have for the group of each; ``cpu``, ``pace`` and
    ``paces`` are as for `replay`. ``span`` says what the span of each sample of a replay is.
    """
    at_once = max(1, _AT_ONCE // max(len(graph), 1))
    parts = []
    for first in range(0, len(factors), at_once):
        some = slice(first, first + at_once)
        drawn = 1.0
        if paces is not None:
            drawn = paces[some]
        durations = factors[some][:, groups] * duration_ns
        parts.append(span(replay(graph, durations, cpu[some], pace, drawn)))
    if parts:
        return np.concatenate(parts)
    return np.empty(0)


class Player:
    """A replay under way: a trace of one process, played stretch by stretch in the order it was measured in."""

    def __init__(
        self,
        graph: Graph,
        durations: FloatArray,
        cpu: FloatArray,
        pace: Pace | None = None,
        paces: FloatArray | None = None,
    ) -> None:
        self.graph = graph
        self.durations = durations
        self.cpu = cpu
        self.pace = pace
        # of the time of `pace`, shape (n_samples, 1)
        self.more: FloatArray | None = None
        if paces is not None:
            self.more = paces - 1.0
        samples = len(durations)
        self.start = np.full((samples, len(graph)), np.nan)
        self.end = np.full((samples, len(graph)), np.nan)
        self.run = np.full((samples, len(graph.runs)), np.nan)
        fixed = graph.runs.wait < 0
        self.run[:, fixed] = graph.runs.begin_ns[fixed]
        order = np.argsort(graph.queue, kind="stable")
        self.members = np.split(order, np.flatnonzero(np.diff(graph.queue[order])) + 1)
        self.queue_of = dict[int, int]()
        self.place = np.empty(len(graph), dtype=np.int64)
        for number, rows in enumerate(self.members):
            self.queue_of[int(graph.queue[rows[0]])] = number
            self.place[rows] = np.arange(len(rows))
        self.done = [0] * len(self.members)

    def play(self) -> Times:
        """Play all stretches."""
        for _, kind, number in sorted(self.cuts()):
            self.cut(kind, number)
        return self.finish()

    def finish(self) -> Times:
        """Play the rest after the last cut."""
        for queue, rows in enumerate(self.members):
            self._stretch(queue, len(rows))
        return Times(self.start, self.end, self.run, self.cpu[:, 0])

    def cuts(self) -> list[tuple[float, int, int]]:
        """Return what cuts chains: when it was measured, whether an activity waits (else the CPU), activity or run."""
        graph = self.graph
        runs = self.graph.runs
        cuts = []
        for run in np.flatnonzero(runs.wait >= 0).tolist():
            cuts.append((float(runs.earliest_ns[run]), 0, run))
        for row in np.flatnonzero(graph.other >= 0).tolist():
            cuts.append((float(graph.start_ns[row]), 1, row))
        return cuts

    def cut(self, kind: int, number: int) -> None:
        """Play all that one of `cuts` needs, in their order."""
        if kind == 0:  # a wait of the CPU ends: its next stretch of work begins
            runs = self.graph.runs
            calls = self.graph.calls
            wait = int(runs.wait[number])
            awaited = int(runs.awaited[number])
            self.through(awaited)
            worked = (calls.offset_ns[wait] + runs.base_ns[number]) * self.cpu[:, 0]
            asked = self.run[:, calls.run[wait]] + worked
            over = self.end[:, awaited] + runs.lag_ns[number]
            self.run[:, number] = np.maximum(asked, over)
        else:
            self.through(int(self.graph.other[number]))
            self._stretch(self.queue_of[int(self.graph.queue[number])], int(self.place[number]))

    def through(self, row: int) -> None:
        """Play the queue of an activity up to and with it."""
        self._stretch(self.queue_of[int(self.graph.queue[row])], int(self.place[row]) + 1)

    def _stretch(self, queue: int, stop: int) -> None:
        """Play a queue from where it stands on; of its activities at most the first waits for another queue."""
        first = self.done[queue]
        if first >= stop:
            return
        self.done[queue] = stop
        graph = self.graph
        calls = self.graph.calls
        rows = self.members[queue][first:stop]
        durations = self.durations[:, rows]
        # when activities have been launched and, the first, what it waits for on another queue is
        # over
        ready = np.full(durations.shape, -np.inf)
        launched = graph.call[rows] >= 0
        which = graph.call[rows[launched]]
        of = rows[launched]
        if len(which):
            worked = (calls.offset_ns[which] + graph.pace_ns[of]) * self.cpu
            at = self.run[:, calls.run[which]] + worked
            ready[:, launched] = at + self._latency(of)
        fixed = ~launched & (graph.before[rows] < 0) & (graph.other[rows] < 0)
        ready[:, fixed] = graph.start_ns[rows[fixed]]
        other = int(graph.other[rows[0]])
        if other >= 0:
            over = self.end[:, other] + self._delay(rows[:1])[..., 0]
            ready[:, 0] = np.maximum(ready[:, 0], over)
        between = np.empty_like(durations)
        gap = self._gap(rows)
        between[:, 1:] = graph.passed[rows[1:]] * durations[:, :-1] + gap[..., 1:]
        before = int(graph.before[rows[0]])
        if before >= 0:
            passed = graph.passed[rows[0]] * self.durations[:, before] + gap[..., 0]
            ready[:, 0] = np.maximum(ready[:, 0], self.start[:, before] + passed)
        between[:, 0] = 0.0
        total = np.cumsum(between, axis=1)
        start = total + np.maximum.accumulate(ready - total, axis=1)
        self.start[:, rows] = start
        self.end[:, rows] = start + durations

    def _gap(self, rows: IntArray) -> FloatArray:
        gap = self.graph.gap_ns[rows]
        if self.pace is None or self.more is None:
            return gap
        return np.asarray(gap + self.more * self.pace.gap_ns[rows])

    def _latency(self, rows: IntArray) -> FloatArray:
        latency = self.graph.latency_ns[rows]
        if self.pace is None or self.more is None:
            return latency
        return np.asarray(latency + self.more * self.pace.latency_ns[rows])

    def _delay(self, rows: IntArray) -> FloatArray:
        delay = self.graph.delay_ns[rows]
        if self.pace is None or self.more is None:
            return delay
        return np.asarray(delay + self.more * self.pace.delay_ns[rows])


SUM = "sum"
OVERLAP = "overlap"
REPLAY = "replay"
AGGREGATIONS = (SUM, OVERLAP, REPLAY)
"""Ways to add up a trace:

- sum: all durations, and the time in which nothing ran. Overlap counts twice.
- overlap: every moment of the measured timeline counts once, for the activity that it is put down
  to (computation before communication before copies, then the one that began first), and is
  stretched as that one is.
- replay: the trace's dependencies played again (`replay`).
"""


def attributed_time(start: FloatArray, duration: FloatArray, rank: IntArray) -> FloatArray:
    """Return for each activity the moments that are put down to it: the sum is the time anything ran.

    Activities of lower ``rank`` hide those of higher; among equals the one that begins first. All
    of shape (n,), times in any unit.
    """
    alone_ns = np.zeros(len(start))
    hidden: tuple[FloatArray, FloatArray] = (np.empty(0), np.empty(0))
    for level in np.unique(rank).tolist():
        rows = np.flatnonzero(rank == level)
        rows = rows[np.argsort(start[rows], kind="stable")]
        end = start[rows] + duration[rows]
        busy_until = np.maximum.accumulate(np.r_[-np.inf, end[:-1]])
        begin = np.maximum(start[rows], busy_until)
        end = np.maximum(end, begin)
        alone_ns[rows] = end - begin - (covered(hidden, end) - covered(hidden, begin))
        # of what is hidden the disjoint intervals, in order
        used = end > begin
        starts = np.r_[hidden[0], begin[used]]
        ends = np.r_[hidden[1], end[used]]
        order = np.argsort(starts, kind="stable")
        starts = starts[order]
        reach = np.maximum.accumulate(ends[order])
        first = np.r_[True, starts[1:] > reach[:-1]][: len(starts)]
        hidden = starts[first], reach[np.r_[first[1:], True][: len(starts)]]
    return alone_ns


def covered(intervals: tuple[FloatArray, FloatArray], at: FloatArray) -> FloatArray:
    """Return how much of the disjoint intervals lies before each moment."""
    begin, end = intervals
    if not len(begin):
        return np.zeros(len(at))
    length = np.r_[0.0, np.cumsum(end - begin)]
    place = np.searchsorted(begin, at, side="right") - 1
    inside = np.where(place >= 0, np.minimum(at, end[place]) - begin[place], 0.0)
    return np.where(place >= 0, length[place] + inside, 0.0)


def totals_us(
    duration_ns: FloatArray,
    projected_ns: FloatArray,
    alone_ns: FloatArray,
    weights: FloatArray,
    measured_us: float,
    replayed_us: float,
    *,
    idle: float = 1.0,
) -> dict[str, float]:
    """Return the projected end-to-end time by each way of adding up (`AGGREGATIONS`), µs.

    The arrays (n_counted,) are of the activities that make the end-to-end time: measured and
    projected, what of the measured time is put down to each (`attributed_time`), and how many times each
    counts. Sums take ``idle`` for the time in which nothing runs, relative to the measured.
    """
    still = max(1000.0 * measured_us - float((alone_ns * weights).sum()), 0.0) * idle
    stretched = np.divide(
        projected_ns, duration_ns, out=np.ones_like(alone_ns), where=duration_ns > 0
    )
    return {
        SUM: float((projected_ns * weights).sum() + still) / 1000.0,
        OVERLAP: float((alone_ns * stretched * weights).sum() + still) / 1000.0,
        REPLAY: replayed_us,
    }


ACTIVITY = "activity"
GAP = "gap"
LATENCY = "launch"
WORK = "cpu"
RETURN = "return"
DELAY = "dependency"
UNEXPLAINED = "unexplained"
"""Kinds of pieces: an activity ran; the queue's gap; a launch on its way; the CPU worked; a wait of
the CPU came back; one queue took note of another; a gap or launch that took longer than the trace
explains."""


def critical_path(
    graph: Graph, times: Times, sample: int = 0, *, counted: BoolArray | slice = slice(None)
) -> pd.DataFrame:
    """Return the critical path of a replay, from its beginning to its last end.

    It leads from the first start to the last end of the ``counted`` activities (n,), in the order
    of time, without holes: `kind` (see `ACTIVITY` and the others); `row`, the activity (its place
    in the graph; of gaps, launches and delays the one that waited, -1 for the CPU's work and
    returns); `begin_ns`, `end_ns`. Of an activity that the next one overlaps only the part before
    that counts. Where two reasons held an activity back equally, the queue is named before the
    launch, and that before another queue. A path that ends at a beginning which nothing explains
    (the first call of a thread, the first activity of a device) goes on to the first start as the
    CPU's work, in a trace without calls as unexplained. Clocks of CPU and GPU that disagree do not
    show: a piece ends where the next one begins.
    """
    path = _Path(graph, times, sample)
    rows = np.arange(len(graph))[counted]
    first = float(times.start_ns[sample][rows].min())
    path.walk(int(rows[np.argmax(times.end_ns[sample][rows])]), first)
    steps = pd.DataFrame(path.pieces, columns=["kind", "row", "begin_ns", "end_ns"])
    begin = np.maximum(np.minimum.accumulate(steps["begin_ns"]), first)
    end = np.r_[steps["end_ns"].iloc[0], begin[:-1]]
    steps = steps.assign(begin_ns=begin, end_ns=end)[::-1]
    return steps[steps["end_ns"] > steps["begin_ns"]].reset_index(drop=True)


class _Path:
    """A walk from the last end back to the beginning; `pieces` are found latest first.

    It steps through single numbers, which lists give ten times as fast as arrays.
    """

    def __init__(self, graph: Graph, times: Times, sample: int) -> None:
        self.graph = graph
        self.start = times.start_ns[sample].tolist()
        self.end = times.end_ns[sample].tolist()
        self.run = times.run_ns[sample].tolist()
        self.call = times.call_ns(graph)[sample].tolist()
        self.cpu = float(times.cpu[sample])
        self.before = graph.before.tolist()
        self.called = graph.call.tolist()
        self.other = graph.other.tolist()
        self.gap = graph.gap_ns.tolist()
        self.latency = graph.latency_ns.tolist()
        self.delay = graph.delay_ns.tolist()
        self.passed = graph.passed.tolist()
        self.pace = graph.pace_ns.tolist()
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
        before = self.before[row]
        call = self.called[row]
        other = self.other[row]
        latest = float("-inf")
        kind = ""
        if before >= 0:
            passed = self.passed[row] * (self.end[before] - self.start[before])
            latest = self.start[before] + passed + self.gap[row]
            kind = GAP
        if call >= 0 and (at := self._under_way(row) + self.latency[row]) > latest:
            latest = at
            kind = LATENCY
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
        runs = self.graph.runs
        calls = self.graph.calls
        while True:
            until = self._piece(WORK, -1, self.run[run], until)
            wait = int(runs.wait[run])
            awaited = int(runs.awaited[run])
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
