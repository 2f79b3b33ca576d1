"""The CPU's side of a trace: stretches of work between waits for the GPU.

Only calls that launched an activity or waited for one matter to the GPU. The time between two of them is the CPU's
work: it follows the CPU's speed, whatever the GPU does. So all calls between two waits keep their distances, and form
one *run*, which begins a fixed time into the trace or when a wait is over. A pause of a thread in which another thread
made calls is a wait for that thread (the backward pass of PyTorch): its calls go on in the run of the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray, IntArray

_SYNC = re.compile(r"Synchronize|^(?:cuda|hip|cu)(?:Mem)?Free")
_COPY = re.compile(r"Mem(?:cpy|set)")
_ASYNC = re.compile(r"Async")
_EVENT = re.compile(r"Event|Free")
_DEVICE = re.compile(r"Device")
_SKEW_NS = 10_000
"""How much later than the call's return a copy it waited for may seem to end: the error between the two clocks."""
_CALL_NS = 5_000
"""What a waiting call costs the CPU where there is nothing left to wait for."""


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

    `known_ns` is when a replay can know the beginning: not before what it waited for has ended, and not before the run
    in which the call was made is known. Clocks that disagree may put that after the beginning.
    """

    begin_ns: FloatArray  # measured
    wait: IntArray  # call whose end is the beginning, -1 where the beginning is fixed
    awaited: IntArray  # activity the call waited for, -1 for none
    base_ns: FloatArray  # what the call takes of the CPU's time at least
    lag_ns: FloatArray  # from the end of the activity to the return of the call
    known_ns: FloatArray

    def __len__(self) -> int:
        return len(self.begin_ns)


def relevant(calls: pd.DataFrame, launching: IntArray) -> pd.DataFrame:
    """Return the calls that launched an activity (their correlation is among `launching`) or may wait for one."""
    correlation = calls["correlation"].fillna(-1).to_numpy(dtype=np.int64)
    launched = np.isin(correlation, launching) & (correlation >= 0)
    return calls[launched | _named(calls, _SYNC) | _named(calls, _COPY)].reset_index(drop=True)


@dataclass(frozen=True)
class Waits:
    """What calls wait for; shape (n_calls,)."""

    activity: IntArray  # -1 for calls that wait for none
    waited: BoolArray  # whether the call was seen to wait; else the activity was over when it was called


def waits_of(
    calls: pd.DataFrame, origin_ns: int, start_ns: FloatArray, end_ns: FloatArray, own: IntArray, launch: IntArray,
    staged: BoolArray,
) -> Waits:  # fmt: skip
    """Return which activity each call waits for.

    - A copy that had begun before its call returned, and ended by then, was waited for. Of asynchronous calls only
      copies between CPU and GPU count: memory that is not pinned makes them wait. Others end in time by chance.
    - A synchronisation waited for the last activity that ended while it lasted, among those launched before it by its
      process, or before the trace: the file does not say for which stream or event it was.
    - One of a device or stream that found all done still waits for what was launched last before it, by its process or
      its thread: on a slower GPU that takes longer.

    Parameters
    ----------
    calls : DataFrame of n_calls rows
        As `relevant` gives them.
    origin_ns : int
        Zero of the activities' times.
    start_ns, end_ns : ndarray of float64 of shape (n_activities,)
    own : ndarray of int64 of shape (n_calls,)
        The last activity that the call itself launched, -1 for none.
    launch : ndarray of int64 of shape (n_activities,)
        The call that launched each activity, -1 for none.
    staged : ndarray of bool of shape (n_activities,)
        Copies between CPU and GPU.
    """
    begin = (calls["start_ns"].to_numpy() - origin_ns).astype(float)
    finish = begin + calls["duration_ns"].to_numpy()
    sync, copy, event = (_named(calls, pattern) for pattern in (_SYNC, _COPY, _EVENT))
    activity = np.full(len(calls), -1, dtype=np.int64)
    last = np.r_[end_ns, np.inf][own]
    copied = copy & (own >= 0) & (np.r_[start_ns, np.inf][own] <= finish) & (last <= finish + _SKEW_NS) & (last > begin)
    copied &= ~_named(calls, _ASYNC) | np.r_[staged, False][own]
    activity[copied] = own[copied]
    process = calls["process"].fillna(-1).to_numpy(dtype=np.int64)
    thread = calls["thread"].fillna(-1).to_numpy(dtype=np.int64)
    of_process = np.r_[process, -1][launch]
    waited = copied.copy()
    order = np.argsort(end_ns, kind="stable")
    before = {True: _launched_before(own, process), False: _launched_before(own, thread)}
    device = _named(calls, _DEVICE)
    ends = end_ns[order]
    for call in np.flatnonzero(sync & ~copied).tolist():
        place = int(np.searchsorted(ends, finish[call], side="right")) - 1
        while place >= 0 and ends[place] > begin[call]:
            ended = order[place]
            if launch[ended] < call and (launch[ended] < 0 or of_process[ended] == process[call]):
                activity[call], waited[call] = ended, True
                break
            place -= 1
        last_launched = int(before[bool(device[call])][call])
        if not waited[call] and not event[call] and last_launched >= 0 and end_ns[last_launched] <= finish[call]:
            activity[call] = last_launched
    return Waits(activity, waited)


def _launched_before(own: IntArray, group: IntArray) -> IntArray:
    """Return the activity that a call of the same group launched last before each call, -1 for none."""
    launched = pd.Series(np.where(own >= 0, own, np.nan))
    before = launched.groupby(group).ffill().groupby(group).shift()
    return np.asarray(before.fillna(-1), dtype=np.int64)


def runs_of(
    calls: pd.DataFrame, origin_ns: int, waits: Waits, start_ns: FloatArray, end_ns: FloatArray
) -> tuple[Calls, Runs]:
    """Return the calls with the run of each, and the runs.

    ``calls`` are as `relevant` gives them, in the order of their start; ``start_ns`` and ``end_ns`` those of the
    activities, of shape (n_activities,), with zero at ``origin_ns``.
    """
    start = (calls["start_ns"].to_numpy() - origin_ns).astype(float)
    duration = np.maximum(calls["duration_ns"].to_numpy().astype(float), 0.0)
    process = calls["process"].fillna(-1).to_numpy(dtype=np.int64)
    thread = calls["thread"].fillna(-1).to_numpy(dtype=np.int64)
    run, begin, wait = _assign(start, start + duration, process, thread, waits.activity)
    activity = np.r_[waits.activity, -1][wait]
    lag = np.where(activity >= 0, begin - np.r_[end_ns, 0.0][activity], 0.0)
    seen = np.r_[waits.waited, False][wait]
    usual = float(np.median(lag[seen])) if seen.any() else _CALL_NS
    own = np.r_[duration, 0.0][wait]
    runs = Runs(
        begin_ns=begin,
        wait=wait,
        awaited=activity,
        base_ns=np.where(seen, np.minimum(own, _CALL_NS), own),
        lag_ns=np.where(seen, lag, np.minimum(lag, usual)),
        known_ns=_known(begin, np.where(activity >= 0, begin - lag, begin), np.r_[start_ns, 0.0][activity], run, wait),
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


def _known(begin: FloatArray, ended: FloatArray, began: FloatArray, run: IntArray, wait: IntArray) -> FloatArray:
    """Return when each run is known, from its beginning and the measured end and start of what it waited for."""
    waits = wait >= 0
    known = np.where(waits, np.maximum(np.maximum(begin, ended), np.nextafter(began, np.inf)), begin)
    for number in np.flatnonzero(waits).tolist():
        known[number] = max(known[number], known[run[wait[number]]])
    return known


def _named(calls: pd.DataFrame, pattern: re.Pattern[str]) -> BoolArray:
    names = calls["name"].astype("category").cat
    found = np.array([bool(pattern.search(str(name))) for name in names.categories], dtype=bool)
    return found[names.codes.to_numpy()] if len(found) else np.zeros(len(calls), dtype=bool)


def _assign(
    start: FloatArray, end: FloatArray, process: IntArray, thread: IntArray, waits_for: IntArray
) -> tuple[IntArray, FloatArray, IntArray]:
    """Return the run of every call, and of every run its measured beginning and the call whose end that is (or -1)."""
    starts, ends, waits = start.tolist(), end.tolist(), (waits_for >= 0).tolist()
    run = np.empty(len(starts), dtype=np.int64)
    begin: list[float] = []
    by: list[int] = []
    state: dict[tuple[int, int], tuple[int, float, int]] = {}  # thread -> run after its last call, that end, run before
    latest: dict[int, tuple[tuple[int, int], float]] = {}  # process -> thread of its last call, start of that
    for number, key in enumerate(zip(process.tolist(), thread.tolist(), strict=True)):
        now = starts[number]
        last, called = latest.get(key[0], (key, now))
        paused = key not in state or called >= state[key][1]  # for the thread that called last
        candidates = [
            _current(state[one], now) for one in dict.fromkeys((key, last if paused else key)) if one in state
        ]
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


def _current(state: tuple[int, float, int], now: float) -> int:
    """Return the run that a thread is in: that before its last call while it lasts, then that after it."""
    after, free, before = state
    return after if free <= now else before
