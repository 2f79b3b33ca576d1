"""What every activity of a trace has to wait for: its launch, the activity before it on its queue, another queue.

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

from ..features.codes import codes_of
from ..features.dispatches.table import MEMCPY
from ..features.dispatches.timeline import queue_codes
from .binding import Bindings, Measured, bind
from .calls import Calls, Runs, relevant, runs_of, waits_of
from .split import COMMUNICATION, categories

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Graph:
    """Activities in the order of their start, and what each waits for.

    Attributes
    ----------
    rows : ndarray of int64 of shape (n,)
        Position of each activity in the table given.
    origin_ns : int
        Zero of all times, on the table's clock.
    start_ns, duration_ns : ndarray of float64 of shape (n,)
        Measured.
    queue : ndarray of int64 of shape (n,)
        Number of its queue.
    before : ndarray of int64 of shape (n,)
        The activity before it on its queue, -1 for none.
    passed : ndarray of float64 of shape (n,)
        Share of that one's duration that must have passed: 1 but where they overlapped.
    gap_ns : ndarray of float64 of shape (n,)
        Then from there to the start.
    call : ndarray of int64 of shape (n,)
        The call that launched it, -1 for none.
    pace_ns : ndarray of float64 of shape (n,)
        CPU time from the start of that call until it is under way: the call's duration, 0 where it waits itself.
    latency_ns : ndarray of float64 of shape (n,)
        Then from there to the start; may be negative.
    other : ndarray of int64 of shape (n,)
        The activity of another queue it waits for, -1 for none.
    delay_ns : ndarray of float64 of shape (n,)
        From the end of that one to the start.
    cause : ndarray of str of shape (n,)
        What held it back: one of those of `binding`.
    calls : Calls
    runs : Runs
    usual_gap_ns, usual_latency_ns : float
        Medians of the trace.
    """

    rows: IntArray
    origin_ns: int
    start_ns: FloatArray
    duration_ns: FloatArray
    queue: IntArray
    before: IntArray
    passed: FloatArray
    gap_ns: FloatArray
    call: IntArray
    pace_ns: FloatArray
    latency_ns: FloatArray
    other: IntArray
    delay_ns: FloatArray
    cause: NDArray[np.str_]
    calls: Calls
    runs: Runs
    usual_gap_ns: float
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

    Parameters
    ----------
    activities : DataFrame
        Rows of a dispatch table (`features.dispatches.table`), at least one. Negative durations count as none.
    calls : DataFrame
        The CPU's calls (`features.dispatches.calls`); may be empty: every gap is then kept.
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
