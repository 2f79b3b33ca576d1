"""What held each activity of a trace back: its queue, its launch, another queue, or none that the trace shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .calls import Calls, Runs

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

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
    """Measured times of activities in the order of their start.

    Attributes
    ----------
    start, duration : ndarray of float64 of shape (n,)
        ns.
    queue, device : ndarray of int64 of shape (n,)
        Numbers of its queue and its device.
    collective : ndarray of bool of shape (n,)
    call : ndarray of int64 of shape (n,)
        The call that launched it, -1 for none.
    """

    start: FloatArray
    duration: FloatArray
    queue: IntArray
    device: IntArray
    collective: BoolArray
    call: IntArray

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
