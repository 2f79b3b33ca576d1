"""What every activity of a trace has to wait for: its launch, the activity before it on its queue, another queue.

`build` gives the `Graph` that `replay` plays; `gap_table` says from it why the queues were idle.

Profilers record times, not dependencies. They are inferred as follows, so that a replay with the measured durations
gives the measured times exactly, and a replay with others moves what would move:

- An activity starts when it has been launched (the call's end plus a latency; the start, of calls that wait for their
  own copy), when the activity before it on its queue is over (plus a gap), and when one on another queue is over, where
  it was seen to wait for that.
- With the usual gap and the usual latency, queue and launch would have let it start at two times. The later one held it
  back. Where that is the *queue*, its gap is kept as measured, and the latency of its launch is the usual one or less;
  where it is the *launch*, the latency is kept as measured, and the gap is the usual one or less. Usual are the medians
  of the trace: of the latency on idle queues, of the gap on busy ones.
- Where it started later than both explain, and an activity of another queue of its device had just ended, it waited
  for that one (*dependency*). A collective on a queue of its own also waits for what its process launched before it on
  other queues: frameworks make the communication stream wait for the stream that fills the buffer.
- The first activity of a queue whose launch is not recorded follows what ended last before it on its device.
- Activities of one queue that overlap (a replayed graph, a slot freed early) keep the share of the first that had
  passed when the second began.

All times are float64 nanoseconds from the first activity on (exact up to 104 days).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..table.problems import codes_of
from ..traces.dispatches import MEMCPY
from ..traces.quality import queue_codes
from .host_calls import Calls, Runs, relevant, runs_of, waits_of
from .split import COMMUNICATION, categories

FIRST, QUEUE, LAUNCH, DEPENDENCY, OTHER = "first", "queue", "launch", "dependency", "other"
"""What held an activity back: nothing before it is known; the queue; its launch; another queue; none of these."""

_LATE_NS = 5_000
"""What an activity must be later than expected before another reason is looked for."""
_JUST_NS = 60_000
"""How long before it starts an activity of another queue may have ended that it waited for."""
_STRANGE_NS = 50_000
"""What an activity must be later than expected before that counts as unexplained."""
_GAP_NS = 1_300.0
"""Gap between kernels of a busy queue where the trace has none to learn it from."""
_LATENCY_NS = 5_000.0
"""Latency of a launch, from the call's end on, where the trace has none to learn it from."""
_MOST_GAP_NS, _MOST_LATENCY_NS = 10_000.0, 60_000.0
"""No device takes longer by itself: longer ones have another reason, however usual they are in a trace."""


@dataclass(frozen=True)
class Measured:
    """Measured times of activities in the order of their start; arrays of shape (n,)."""

    start: FloatArray  # ns
    duration: FloatArray
    queue: IntArray  # number of its queue
    device: IntArray  # number of its device
    collective: BoolArray
    call: IntArray  # the call that launched it, -1 for none

    def before(self) -> IntArray:
        """Return the activity before each on its queue, -1 for the first; shape (n,)."""
        order = np.argsort(self.queue, kind="stable")
        same = np.r_[False, self.queue[order][1:] == self.queue[order][:-1]]
        found = np.full(len(order), -1, dtype=np.int64)
        found[order[same]] = order[:-1][same[1:]]
        return found


@dataclass(frozen=True)
class Bindings:
    """What activities wait for and for how long; the attributes are those of `graph.Graph` under the same names."""

    before: IntArray
    passed: FloatArray
    gap_ns: FloatArray
    pace_ns: FloatArray
    latency_ns: FloatArray
    other: IntArray
    delay_ns: FloatArray
    cause: NDArray[np.str_]
    usual_gap_ns: float
    usual_latency_ns: float


def bind(measured: Measured, calls: Calls, runs: Runs) -> Bindings:
    """Return what held every activity back, by the rules that `graph` states."""
    start, duration, call = measured.start, measured.duration, measured.call
    before = measured.before()
    has_before, has_call = before >= 0, call >= 0
    length = np.where(has_before, duration[before], 0.0)
    since = np.where(has_before, start - start[before], np.inf)
    passed = np.where(since < length, since / np.maximum(length, 1.0), 1.0)
    gap = np.where(has_before, since - passed * length, 0.0)
    waits = _waiting(calls, runs)[call] & has_call
    called = np.r_[calls.start_ns, 0.0][call]
    pace = np.where(has_call & ~waits, np.r_[calls.duration_ns, 0.0][call], 0.0)
    latency = np.where(has_call, start - called - pace, 0.0)
    idle = has_call & has_before & ~waits & (gap > start - called)  # the queue was idle when the call began
    usual_latency = min(_median(latency[idle], _LATENCY_NS), _MOST_LATENCY_NS)
    busy = has_before & (passed >= 1) & (~has_call | (latency - gap > 2 * abs(usual_latency)))
    usual_gap = min(_median(gap[busy], _GAP_NS), _MOST_GAP_NS)
    held = has_before & (~has_call | (gap - usual_gap <= latency - usual_latency))
    cause = np.where(held, QUEUE, np.where(has_call, LAUNCH, FIRST)).astype("U10")
    excess = np.where(held, gap - usual_gap, np.where(has_call, latency - usual_latency, 0.0))
    staged = has_call & ~held & waits  # the CPU itself prepares what a waiting call copies
    other = _ended_before(measured, np.flatnonzero(excess > np.where(staged, _STRANGE_NS, _LATE_NS)), _JUST_NS)
    seen = other >= 0
    cause[(excess > _STRANGE_NS) & ~staged] = OTHER
    cause[seen] = DEPENDENCY
    first = _ended_before(measured, np.flatnonzero(~has_before & ~has_call), np.inf)
    filled = _filled_before(measured, calls, measured.collective & ~seen)
    other = np.where(seen, other, np.where(first >= 0, first, filled))
    since_other = np.where(other >= 0, start - (start + duration)[other], 0.0)
    delay = np.where(seen | (first >= 0), since_other, np.minimum(since_other, _GAP_NS))
    return Bindings(
        before=before,
        passed=passed,
        gap_ns=np.where(has_before & (seen | ~held), np.minimum(gap, usual_gap), gap),
        pace_ns=pace,
        latency_ns=np.where(has_call & (seen | held), np.minimum(latency, usual_latency), latency),
        other=other,
        delay_ns=delay,
        cause=cause,
        usual_gap_ns=usual_gap,
        usual_latency_ns=usual_latency,
    )


def _median(values: FloatArray, default: float) -> float:
    return float(np.median(values)) if len(values) else default


def _waiting(calls: Calls, runs: Runs) -> BoolArray:
    """Return which calls wait for an activity; one place more for no call."""
    waits = np.zeros(len(calls) + 1, dtype=bool)
    waits[runs.wait[runs.wait >= 0]] = True
    return waits


def _ended_before(times: Measured, rows: IntArray, within_ns: float) -> IntArray:
    """Return for each of the rows the activity of another queue of its device that had ended last, not too long before.

    One that began at the same moment is none: which came first cannot be told.
    """
    found = np.full(len(times.start), -1, dtype=np.int64)
    if not len(rows) or len(np.unique(times.queue)) < 2:
        return found
    for number in np.unique(times.device[rows]).tolist():
        members = np.flatnonzero(times.device == number)
        ends = (times.start + times.duration)[members]
        order = np.argsort(ends, kind="stable")
        members, ends = members[order], ends[order]
        for row in rows[times.device[rows] == number].tolist():
            begin = times.start[row]
            place = int(np.searchsorted(ends, begin, side="right")) - 1
            while place >= 0 and ends[place] >= begin - within_ns:
                candidate = members[place]
                if times.queue[candidate] != times.queue[row] and times.start[candidate] < begin:
                    found[row] = candidate
                    break
                place -= 1
    return found


def _filled_before(times: Measured, calls: Calls, collective: BoolArray) -> IntArray:
    """Return for each collective the last activity that its process had launched before it on another queue.

    Only one that is over when the collective starts: another order of events contradicts the trace.
    """
    found = np.full(len(times.start), -1, dtype=np.int64)
    asked = collective & (times.call >= 0)
    for number in np.unique(times.device[asked]).tolist():
        launched = np.flatnonzero((times.call >= 0) & (times.device == number))
        launched = launched[np.argsort(calls.start_ns[times.call[launched]], kind="stable")]
        queue = times.queue[launched]
        changes = np.r_[False, queue[1:] != queue[:-1]]  # the one before is of another queue
        place = np.maximum.accumulate(np.where(changes, np.arange(len(launched)) - 1, -1))
        found[launched] = np.where(place >= 0, launched[place], -1)
    end = times.start + times.duration
    fits = asked & (found >= 0) & (end[found] <= times.start) & (times.start[found] < times.start)
    return np.where(fits, found, -1)


@dataclass(frozen=True)
class Graph:
    """Activities in the order of their start, and what each waits for; arrays of shape (n,), times in ns."""

    rows: IntArray  # position of each activity in the table given
    origin_ns: int  # zero of all times, on the table's clock
    start_ns: FloatArray  # measured, and so the durations
    duration_ns: FloatArray
    queue: IntArray  # number of its queue
    before: IntArray  # the activity before it on its queue, -1 for none
    passed: FloatArray  # share of that one's duration that must have passed: 1 but where they overlapped
    gap_ns: FloatArray  # then from there to the start
    call: IntArray  # the call that launched it, -1 for none
    pace_ns: FloatArray  # from the start of that call until it is under way: its duration, 0 where it waits
    latency_ns: FloatArray  # then from there to the start; may be negative
    other: IntArray  # the activity of another queue it waits for, -1 for none
    delay_ns: FloatArray  # from the end of that one to the start
    cause: NDArray[np.str_]  # what held it back: `FIRST`, `QUEUE`, ...
    calls: Calls
    runs: Runs
    usual_gap_ns: float  # medians of the trace
    usual_latency_ns: float

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def end_ns(self) -> FloatArray:
        """Measured ends, shape (n,)."""
        return self.start_ns + self.duration_ns

    def with_gaps(self, gap_ns: FloatArray) -> Graph:
        """Return the graph with other gaps, shape (n,): NaN where they stay, and where an activity is the first."""
        own = (self.before >= 0) & ~np.isnan(gap_ns)
        return replace(self, gap_ns=np.where(own, gap_ns, self.gap_ns))

    def stretched(self, factor: float) -> Graph:
        """Return the graph with all gaps, latencies and delays times a factor, and the CPU's beginnings with them."""
        runs = replace(self.runs, begin_ns=self.runs.begin_ns * factor, lag_ns=self.runs.lag_ns * factor)
        return replace(
            self,
            runs=runs,
            gap_ns=self.gap_ns * factor,
            latency_ns=self.latency_ns * factor,
            delay_ns=self.delay_ns * factor,
            usual_gap_ns=self.usual_gap_ns * factor,
            usual_latency_ns=self.usual_latency_ns * factor,
        )


def build(activities: pd.DataFrame, calls: pd.DataFrame) -> Graph:
    """Return the dependencies of the activities of one trace.

    ``activities`` are rows of a dispatch table, at least one; negative durations count as none. Without ``calls`` of
    the CPU every gap is kept.
    """
    order = np.argsort(activities["start_ns"].to_numpy(), kind="stable")
    table = activities.iloc[order]
    origin = int(table["start_ns"].iloc[0])
    start = (table["start_ns"].to_numpy() - origin).astype(float)
    duration = np.maximum(table["duration_ns"].to_numpy(), 0).astype(float)
    correlation = table["correlation"].fillna(-1).to_numpy(dtype=np.int64)
    chosen = relevant(calls, correlation)
    of_calls = chosen["correlation"].fillna(-2).to_numpy(dtype=np.int64)
    call = np.where(table["linked"].to_numpy(dtype=bool), _places(of_calls, correlation, "first"), -1)
    own = _places(correlation, of_calls, "last")
    kind, name = (table[column].astype(object).to_numpy() for column in ("kind", "name"))
    staged = (kind == MEMCPY) & (name != "DtoD")
    waits = waits_of(chosen, origin, start, start + duration, own, call, staged)
    cpu, runs = runs_of(chosen, origin, waits, start, start + duration)
    call = _plausible(call, cpu, runs, start)
    measured = Measured(
        start=start,
        duration=duration,
        queue=queue_codes(table),
        device=codes_of(table[name] for name in ("device", "process", "gpu")),
        collective=(categories(table) == COMMUNICATION).to_numpy(dtype=bool),
        call=call,
    )
    bound = bind(measured, cpu, runs)
    return Graph(
        rows=order,
        origin_ns=origin,
        start_ns=start,
        duration_ns=duration,
        queue=measured.queue,
        call=call,
        calls=cpu,
        runs=runs,
        **{item.name: getattr(bound, item.name) for item in fields(Bindings)},
    )


def _places(numbers: IntArray, wanted: IntArray, keep: Literal["first", "last"]) -> IntArray:
    """Return where each number wanted stands among the numbers, -1 for none and for negative ones."""
    place = pd.Series(np.arange(len(numbers)), index=numbers)
    place = place[(place.index >= 0) & ~place.index.duplicated(keep=keep)]
    return place.reindex(wanted).fillna(-1).to_numpy(dtype=np.int64)


def _plausible(call: IntArray, calls: Calls, runs: Runs, start: FloatArray) -> IntArray:
    """Return the call of each activity; none where clocks disagree so far that the call seems to come later."""
    if not len(calls):
        return call
    known = np.maximum(calls.start_ns, runs.known_ns[calls.run])
    return np.where((call >= 0) & (known[call] <= start), call, -1)


DISPATCH, LAUNCH_BOUND, SYNCHRONISATION, UNEXPLAINED = "dispatch", "launch-bound", "synchronisation", "unexplained"
CAUSES = (DISPATCH, LAUNCH_BOUND, SYNCHRONISATION, DEPENDENCY, UNEXPLAINED)
"""Causes of a gap, as users see them:

- dispatch: the next activity was waiting already; the GPU took that long to begin it. On AMD GPUs this time is part of
  the durations instead, and the gaps are 0.
- launch-bound: the queue was empty, and the CPU had not launched the next activity yet.
- synchronisation: as before, and the CPU came from waiting for the GPU itself.
- dependency: the activity waited for one on another queue.
- unexplained: longer than its queue and its launch account for (the first call loads code, the clock was changed, ...).
"""


def gap_table(graph: Graph) -> pd.DataFrame:
    """Return every gap between two activities of a queue, with its cause.

    The columns are `row` (place in the graph of the activity after the gap), `queue`, `begin_ns`, `gap_ns` (> 0), and
    `cause` (one of `CAUSES`).
    """
    over = pd.Series(graph.end_ns).groupby(graph.queue).cummax().to_numpy()[graph.before]
    gap = np.where(graph.before >= 0, graph.start_ns - over, 0.0)
    rows = np.flatnonzero(gap > 0)
    begin = over[rows]
    cause = np.full(len(rows), UNEXPLAINED, dtype=object)
    held = graph.cause[rows]
    cause[held == QUEUE] = DISPATCH
    cause[held == DEPENDENCY] = DEPENDENCY
    launched = held == LAUNCH
    cause[launched] = LAUNCH_BOUND
    call = graph.call[rows]
    if len(graph.runs):
        run = np.r_[graph.calls.run, 0][call]
        came_back = (graph.runs.wait[run] >= 0) & (graph.runs.begin_ns[run] >= begin)
        cause[launched & came_back] = SYNCHRONISATION
    return pd.DataFrame(
        {"row": rows, "queue": graph.queue[rows], "begin_ns": begin, "gap_ns": gap[rows], "cause": cause}
    )
