"""What every activity of a trace has to wait for: its launch, the activity before it on its queue, another queue.

`build` gives the `Graph` that `replay` plays; `gap_table` says from it why the queues were idle.

Profilers record times, not dependencies. They are inferred as follows, so that a replay with the
measured durations gives the measured times exactly, and a replay with others moves what would move:

- An activity starts when it has been launched (the call's end plus a latency; the start, of calls
  that wait for their copy), when the activity before it on its queue is over (plus a gap), and
  when one on another queue is over, where it was seen to wait for that.
- With the usual gap and the usual latency, queue and launch would have let it start at two times.
  The later one held it back. Where that is the *queue*, its gap is kept as measured, and the
  latency of its launch is the usual one or less; where it is the *launch*, the latency is kept as
  measured, and the gap is the usual one or less. Usual are the medians of the trace: of the latency
  on idle queues, of the gap on busy ones.
- Where it started later than both explain, and an activity of another queue of its device had just
  ended, it waited for that one (*dependency*). A collective on a separate queue also waits for
  what its process launched before it on other queues: frameworks make the communication stream wait
  for the stream that fills the buffer.
- The first activity of a queue whose launch is not recorded follows what ended last before it on
  its device.
- Activities of one queue that overlap (a replayed graph, a slot freed early) keep the share of the
  first that had passed when the second began.

Of the CPU only calls that launched an activity or waited for one matter to the GPU. The time
between two of them is the CPU's work: it follows the CPU's speed, whatever the GPU does. So all
calls between two waits keep their distances, and form one *run*, which begins a fixed time into the
trace or when a wait is over. A pause of a thread in which another thread made calls is a wait for
that thread (the backward pass of PyTorch): its calls go on in the run of the other.

All times are float64 nanoseconds from the first activity on (exact up to 104 days).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..table.problems import codes_of
from ..traces.dispatches import MEMCPY
from ..traces.quality import queue_codes
from .split import COMMUNICATION, categories

FIRST = "first"
QUEUE = "queue"
LAUNCH = "launch"
DEPENDENCY = "dependency"
OTHER = "other"
"""What held an activity back: nothing before it is recorded; the queue; its launch; another queue; none of these."""
_LATE_NS = 5_000  # what an activity must be later than expected before another reason is looked for
_JUST_NS = 60_000  # how long before it starts an activity of another queue may have ended that it waited for
# what an activity must be later than expected before that counts as unexplained
_STRANGE_NS = 50_000
_GAP_NS = 1_300.0  # gap between kernels of a busy queue where the trace has none to learn it from
_LATENCY_NS = 5_000.0  # latency of a launch, from the call's end on, where the trace has none to learn it from
_MOST_GAP_NS = 10_000.0
_MOST_LATENCY_NS = 60_000.0
"""No device takes longer by itself: longer ones have another reason, however usual they are in a trace."""
_SYNC = r"Synchronize|^(?:cuda|hip|cu)(?:Mem)?Free"
_COPY = r"Mem(?:cpy|set)"
_SKEW_NS = 10_000
"""How much later than the call's return a copy it waited for may seem to end: the error between the two clocks."""
_CALL_NS = 5_000  # what a waiting call costs the CPU where there is nothing left to wait for


@dataclass(frozen=True)
class Calls:
    """Calls that launched an activity or waited for one, in the order of their start; arrays of shape (n_calls,)."""

    names: list[str]
    start_ns: FloatArray  # measured, from the graph's origin on
    duration_ns: FloatArray
    process: IntArray
    thread: IntArray
    correlation: IntArray  # -1 where there is none
    run: IntArray  # of each call
    offset_ns: FloatArray  # CPU time from the beginning of the run to the call

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True)
class Runs:
    """Stretches of CPU work; those that begin with the end of a wait have the call that waited. Shape (n_runs,).

    `earliest_ns` is when a replay can know the beginning: not before what it waited for has ended, and
    not before the run in which the call was made is known. Clocks that disagree may put that after
    the beginning.
    """

    begin_ns: FloatArray  # measured
    wait: IntArray  # call whose end is the beginning, -1 where the beginning is fixed
    awaited: IntArray  # activity the call waited for, -1 for none
    base_ns: FloatArray  # what the call takes of the CPU's time at least
    lag_ns: FloatArray  # from the end of the activity to the return of the call
    earliest_ns: FloatArray

    def __len__(self) -> int:
        return len(self.begin_ns)


@dataclass(frozen=True)
class Graph:
    """Activities in the order of their start, and the causes that each waits for; arrays of shape (n,), times in ns."""

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
        linked = (self.before >= 0) & ~np.isnan(gap_ns)
        return replace(self, gap_ns=np.where(linked, gap_ns, self.gap_ns))

    def stretched(self, factor: float) -> Graph:
        """Return the graph with all gaps, latencies and delays times a factor, and the CPU's beginnings with them."""
        runs = replace(
            self.runs, begin_ns=self.runs.begin_ns * factor, lag_ns=self.runs.lag_ns * factor
        )
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

    ``activities`` are rows of a dispatch table, at least one; negative durations count as none.
    Without ``calls`` of the CPU every gap is kept.
    """
    order = np.argsort(activities["start_ns"].to_numpy(), kind="stable")
    table = activities.iloc[order]
    origin = int(table["start_ns"].iloc[0])
    start = (table["start_ns"].to_numpy() - origin).astype(float)
    duration = np.maximum(table["duration_ns"].to_numpy(), 0).astype(float)
    end = start + duration
    queue = queue_codes(table)
    device = codes_of(table[name] for name in ("device", "process", "gpu"))

    correlation = table["correlation"].fillna(-1).to_numpy(dtype=np.int64)
    of_calls = calls["correlation"].fillna(-1).to_numpy(dtype=np.int64)
    launched = np.isin(of_calls, correlation) & (of_calls >= 0)
    chosen = calls[launched | _named(calls, _SYNC) | _named(calls, _COPY)].reset_index(drop=True)
    of_calls = chosen["correlation"].fillna(-2).to_numpy(dtype=np.int64)
    call = np.where(
        table["linked"].to_numpy(dtype=bool), _places(of_calls, correlation, "first"), -1
    )
    kind, name = (table[column].astype(object).to_numpy() for column in ("kind", "name"))
    copied = (kind == MEMCPY) & (name != "DtoD")
    waits, waited = _waits_of(
        chosen, origin, start, end, _places(correlation, of_calls, "last"), call, copied
    )
    cpu, runs = _runs_of(chosen, origin, waits, waited, start, end)
    if len(cpu):  # none where clocks disagree so far that the call seems to come later
        call = np.where(
            (call >= 0) & (np.maximum(cpu.start_ns, runs.earliest_ns[cpu.run])[call] <= start),
            call,
            -1,
        )

    by_queue = np.argsort(queue, kind="stable")
    same = np.r_[False, queue[by_queue][1:] == queue[by_queue][:-1]]
    before = np.full(len(table), -1, dtype=np.int64)
    before[by_queue[same]] = by_queue[:-1][same[1:]]
    has_before = before >= 0
    has_call = call >= 0
    length = np.where(has_before, duration[before], 0.0)
    since = np.where(has_before, start - start[before], np.inf)
    passed = np.where(since < length, since / np.maximum(length, 1.0), 1.0)
    gap = np.where(has_before, since - passed * length, 0.0)
    call_waits = np.zeros(len(cpu) + 1, dtype=bool)  # one place more for no call
    call_waits[runs.wait[runs.wait >= 0]] = True
    in_wait = call_waits[call] & has_call
    called = np.r_[cpu.start_ns, 0.0][call]
    pace = np.where(has_call & ~in_wait, np.r_[cpu.duration_ns, 0.0][call], 0.0)
    latency = np.where(has_call, start - called - pace, 0.0)
    # the queue was idle when the call began
    idle = has_call & has_before & ~in_wait & (gap > start - called)
    usual_latency = min(_median(latency[idle], _LATENCY_NS), _MOST_LATENCY_NS)
    busy = has_before & (passed >= 1) & (~has_call | (latency - gap > 2 * abs(usual_latency)))
    usual_gap = min(_median(gap[busy], _GAP_NS), _MOST_GAP_NS)

    held = has_before & (~has_call | (gap - usual_gap <= latency - usual_latency))
    cause = np.where(held, QUEUE, np.where(has_call, LAUNCH, FIRST)).astype("U10")
    excess = np.where(held, gap - usual_gap, np.where(has_call, latency - usual_latency, 0.0))
    staged = has_call & ~held & in_wait  # the CPU itself prepares what a waiting call copies
    late = np.flatnonzero(excess > np.where(staged, _STRANGE_NS, _LATE_NS))
    other = _ended_before(start, end, queue, device, late, _JUST_NS)
    seen = other >= 0
    cause[(excess > _STRANGE_NS) & ~staged] = OTHER
    cause[seen] = DEPENDENCY
    first = _ended_before(
        start, end, queue, device, np.flatnonzero(~has_before & ~has_call), np.inf
    )
    # a collective waits for the last activity that its process had launched before it on another
    # queue, if that one is over when it starts: another order of events contradicts the trace
    asked = (categories(table) == COMMUNICATION).to_numpy(dtype=bool) & ~seen & has_call
    filled = np.full(len(table), -1, dtype=np.int64)
    for number in np.unique(device[asked]).tolist():
        launches = np.flatnonzero(has_call & (device == number))
        launches = launches[np.argsort(cpu.start_ns[call[launches]], kind="stable")]
        # the one before is of another queue
        changes = np.r_[False, queue[launches][1:] != queue[launches][:-1]]
        place = np.maximum.accumulate(np.where(changes, np.arange(len(launches)) - 1, -1))
        filled[launches] = np.where(place >= 0, launches[place], -1)
    is_before = (end[filled] <= start) & (start[filled] < start)
    filled[~(asked & (filled >= 0) & is_before)] = -1
    other = np.where(seen, other, np.where(first >= 0, first, filled))
    since_other = np.where(other >= 0, start - end[other], 0.0)
    return Graph(
        rows=order,
        origin_ns=origin,
        start_ns=start,
        duration_ns=duration,
        queue=queue,
        before=before,
        passed=passed,
        gap_ns=np.where(has_before & (seen | ~held), np.minimum(gap, usual_gap), gap),
        call=call,
        pace_ns=pace,
        latency_ns=np.where(has_call & (seen | held), np.minimum(latency, usual_latency), latency),
        other=other,
        delay_ns=np.where(seen | (first >= 0), since_other, np.minimum(since_other, _GAP_NS)),
        cause=cause,
        calls=cpu,
        runs=runs,
        usual_gap_ns=usual_gap,
        usual_latency_ns=usual_latency,
    )


def _median(values: FloatArray, default: float) -> float:
    if len(values):
        return float(np.median(values))
    return default


def _ended_before(
    start: FloatArray,
    end: FloatArray,
    queue: IntArray,
    device: IntArray,
    rows: IntArray,
    within_ns: float,
) -> IntArray:
    """Return for each of the rows the activity of another queue of its device that had ended last, not too long before.

    One that began at the same moment is none: which came first is unknown.
    """
    before = np.full(len(start), -1, dtype=np.int64)
    if not len(rows) or len(np.unique(queue)) < 2:
        return before
    for number in np.unique(device[rows]).tolist():
        members = np.flatnonzero(device == number)
        ends = end[members]
        order = np.argsort(ends, kind="stable")
        members = members[order]
        ends = ends[order]
        for row in rows[device[rows] == number].tolist():
            begin = start[row]
            place = int(np.searchsorted(ends, begin, side="right")) - 1
            while place >= 0 and ends[place] >= begin - within_ns:
                candidate = members[place]
                if queue[candidate] != queue[row] and start[candidate] < begin:
                    before[row] = candidate
                    break
                place -= 1
    return before


def _places(numbers: IntArray, wanted: IntArray, keep: Literal["first", "last"]) -> IntArray:
    """Return where each number wanted stands among the numbers, -1 for none and for negative ones."""
    place = pd.Series(np.arange(len(numbers)), index=numbers)
    place = place[(place.index >= 0) & ~place.index.duplicated(keep=keep)]
    return place.reindex(wanted).fillna(-1).to_numpy(dtype=np.int64)


def _waits_of(
    calls: pd.DataFrame,
    origin_ns: int,
    start_ns: FloatArray,
    end_ns: FloatArray,
    activity_of: IntArray,
    launch: IntArray,
    staged: BoolArray,
) -> tuple[IntArray, BoolArray]:
    """Return which activity each call waits for, -1 for none, and whether it was seen to wait; shape (n_calls,).

    - A copy that had begun before its call returned, and ended by then, was waited for. Of
      asynchronous calls only copies between CPU and GPU count (``staged``): memory that is not
      pinned makes them wait. Others end in time by chance.
    - A synchronisation waited for the last activity that ended while it lasted, among those
      launched before it by its process, or before the trace: the file does not say for which stream
      or event it was.
    - One of a device or stream that found all done was not seen to wait. It still waits for what
      was launched last before it, by its process or its thread: on a slower GPU that takes longer.

    The calls are in the order of their start; ``activity_of`` (n_calls,) is the last activity that each
    itself launched, ``launch`` (n_activities,) the call that launched each activity, -1 for none.
    Times are from ``origin_ns`` on.
    """
    begin = (calls["start_ns"].to_numpy() - origin_ns).astype(float)
    finish = begin + calls["duration_ns"].to_numpy()
    sync, copy, event, device = (
        _named(calls, pattern) for pattern in (_SYNC, _COPY, r"Event|Free", r"Device")
    )
    activity = np.full(len(calls), -1, dtype=np.int64)
    last = np.r_[end_ns, np.inf][activity_of]
    copied = (
        copy
        & (activity_of >= 0)
        & (np.r_[start_ns, np.inf][activity_of] <= finish)
        & (last <= finish + _SKEW_NS)
        & (last > begin)
    )
    copied &= ~_named(calls, r"Async") | np.r_[staged, False][activity_of]
    activity[copied] = activity_of[copied]
    process = calls["process"].fillna(-1).to_numpy(dtype=np.int64)
    thread = calls["thread"].fillna(-1).to_numpy(dtype=np.int64)
    of_process = np.r_[process, -1][launch]
    waited = copied.copy()
    order = np.argsort(end_ns, kind="stable")
    before = {
        True: _launched_before(activity_of, process),
        False: _launched_before(activity_of, thread),
    }
    ends = end_ns[order]
    for call in np.flatnonzero(sync & ~copied).tolist():
        place = int(np.searchsorted(ends, finish[call], side="right")) - 1
        while place >= 0 and ends[place] > begin[call]:
            ended = order[place]
            if launch[ended] < call and (launch[ended] < 0 or of_process[ended] == process[call]):
                activity[call] = ended
                waited[call] = True
                break
            place -= 1
        last_launched = int(before[bool(device[call])][call])
        if (
            not waited[call]
            and not event[call]
            and last_launched >= 0
            and end_ns[last_launched] <= finish[call]
        ):
            activity[call] = last_launched
    return activity, waited


def _launched_before(activity: IntArray, group: IntArray) -> IntArray:
    """Return the activity that a call of the same group launched last before each call, -1 for none."""
    launched = pd.Series(np.where(activity >= 0, activity, np.nan))
    before = launched.groupby(group).ffill().groupby(group).shift()
    return np.asarray(before.fillna(-1), dtype=np.int64)


def _runs_of(
    calls: pd.DataFrame,
    origin_ns: int,
    waits: IntArray,
    waited: BoolArray,
    start_ns: FloatArray,
    end_ns: FloatArray,
) -> tuple[Calls, Runs]:
    """Return the calls with the run of each, and the runs.

    ``calls``, ``waits`` and ``waited`` are as for `_waits_of` and as it returns them; ``start_ns``
    and ``end_ns`` those of the activities, of shape (n_activities,), with zero at ``origin_ns``.
    """
    start = (calls["start_ns"].to_numpy() - origin_ns).astype(float)
    duration = np.maximum(calls["duration_ns"].to_numpy().astype(float), 0.0)
    process = calls["process"].fillna(-1).to_numpy(dtype=np.int64)
    thread = calls["thread"].fillna(-1).to_numpy(dtype=np.int64)
    run, begin, wait = _assign(start, start + duration, process, thread, waits >= 0)
    activity = np.r_[waits, -1][wait]
    lag = np.where(activity >= 0, begin - np.r_[end_ns, 0.0][activity], 0.0)
    seen = np.r_[waited, False][wait]
    usual = _CALL_NS
    if seen.any():
        usual = float(np.median(lag[seen]))
    lasted = np.r_[duration, 0.0][wait]
    ended = np.where(activity >= 0, begin - lag, begin)
    began = np.r_[start_ns, 0.0][activity]
    reached = np.where(
        wait >= 0, np.maximum(np.maximum(begin, ended), np.nextafter(began, np.inf)), begin
    )
    for number in np.flatnonzero(wait >= 0).tolist():
        reached[number] = max(reached[number], reached[run[wait[number]]])
    runs = Runs(
        begin_ns=begin,
        wait=wait,
        awaited=activity,
        base_ns=np.where(seen, np.minimum(lasted, _CALL_NS), lasted),
        lag_ns=np.where(seen, lag, np.minimum(lag, usual)),
        earliest_ns=reached,
    )
    return Calls(
        names=calls["name"].astype(str).tolist(),
        start_ns=start,
        duration_ns=duration,
        process=process,
        thread=thread,
        correlation=calls["correlation"].fillna(-1).to_numpy(dtype=np.int64),
        run=run,
        offset_ns=start - begin[run] if len(run) else start,
    ), runs


def _assign(
    start: FloatArray, end: FloatArray, process: IntArray, thread: IntArray, waits_for: BoolArray
) -> tuple[IntArray, FloatArray, IntArray]:
    """Return the run of every call, and of every run its measured beginning and the call whose end that is (or -1)."""
    starts = start.tolist()
    ends = end.tolist()
    waits = waits_for.tolist()
    run = np.empty(len(starts), dtype=np.int64)
    begin: list[float] = []
    by: list[int] = []
    # thread -> run after its last call, that end, run before
    state: dict[tuple[int, int], tuple[int, float, int]] = {}
    # process -> thread of its last call, start of that
    latest: dict[int, tuple[tuple[int, int], float]] = {}
    for number, key in enumerate(zip(process.tolist(), thread.tolist(), strict=True)):
        now = starts[number]
        last, called = latest.get(key[0], (key, now))
        paused = key not in state or called >= state[key][1]  # for the thread that called last
        candidates = []
        for one in dict.fromkeys((key, last if paused else key)):
            if one in state:
                after, free, before = state[one]
                candidates.append(after if free <= now else before)
        if candidates:
            current = max(candidates, key=begin.__getitem__)
        else:
            current = len(begin)
            begin.append(now)
            by.append(-1)
        run[number] = current
        following = current
        if waits[number]:
            following = len(begin)
            begin.append(ends[number])
            by.append(number)
        state[key] = (following, ends[number], current)
        latest[key[0]] = (key, now)
    return run, np.array(begin, dtype=float), np.array(by, dtype=np.int64)


def _named(calls: pd.DataFrame, pattern: str) -> BoolArray:
    names = calls["name"].astype("category").cat
    matches = np.array(
        [re.search(pattern, str(name)) is not None for name in names.categories], dtype=bool
    )
    if len(matches):
        return matches[names.codes.to_numpy()]
    return np.zeros(len(calls), dtype=bool)


DISPATCH = "dispatch"
LAUNCH_BOUND = "launch-bound"
SYNCHRONISATION = "synchronisation"
UNEXPLAINED = "unexplained"
CAUSES = (DISPATCH, LAUNCH_BOUND, SYNCHRONISATION, DEPENDENCY, UNEXPLAINED)
"""Causes of a gap, as users see them:

- dispatch: the next activity was waiting already; the GPU took that long to begin it. On AMD GPUs
  this time is part of the durations instead, and the gaps are 0.
- launch-bound: the queue was empty, and the CPU had not launched the next activity yet.
- synchronisation: as before, and the CPU came from waiting for the GPU itself.
- dependency: the activity waited for one on another queue.
- unexplained: longer than its queue and its launch account for (the first call loads code, the
  clock was changed, ...).
"""


def gap_table(graph: Graph) -> pd.DataFrame:
    """Return every gap between two activities of a queue, with its cause.

    The columns are `row` (place in the graph of the activity after the gap), `queue`, `begin_ns`,
    `gap_ns` (> 0), and `cause` (one of `CAUSES`).
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
        {
            "row": rows,
            "queue": graph.queue[rows],
            "begin_ns": begin,
            "gap_ns": gap[rows],
            "cause": cause,
        }
    )
