"""The projected trace as Chrome JSON, which Perfetto and chrome://tracing open beside the measured one.

Times are microseconds with three decimals from `baseTimeNanoseconds` on, as PyTorch writes them.
The categories are "projected kernel", "projected memcpy", ..., and none that a profiler writes:
nothing shall take a projection for a measurement.

Viewers draw one row for each thread and cannot draw two events of one row that overlap without one
lying within the other: Perfetto drops the second. Activities of one stream that overlap (concurrent
kernels of a graph, or a profiler's clock) are spread over as many rows as it takes (`lanes`).
Shares of the roofs over time are counter tracks.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec
import numpy as np
import pandas as pd
from isal import igzip

from .. import __version__
from ..arrays import FloatArray, IntArray
from ..errors import DataError
from ..output import whole_file
from ..table.problems import codes_of
from ..traces.dispatches import empty_calls

TEXTS: Final = ("law", "why", "bound", "op", "op_class", "op_name")
"""Columns of words that become arguments of an activity where the table has them and they are not empty."""
CHUNK: Final = 20_000  # events that are made and encoded at a time
_ENCODER: Final = msgspec.json.Encoder()


class _Arguments(msgspec.Struct, omit_defaults=True, gc=False):
    """Arguments of an activity: its measured figures, and how it was projected."""

    measured_start_us: float
    measured_duration_us: float
    factor: float | None = None
    correlation: int | None = None
    law: str = ""
    why: str = ""
    bound: str = ""
    op: str = ""
    op_class: str = ""
    op_name: str = ""


class _CallArguments(msgspec.Struct, omit_defaults=True, gc=False):
    correlation: int | None = None


class _Slice(msgspec.Struct, tag_field="ph", tag="X", gc=False):
    """An event with a duration; times in us."""

    name: str
    cat: str
    pid: int
    tid: int
    ts: float
    dur: float
    args: _Arguments | _CallArguments


class _Flow(msgspec.Struct, gc=False):
    """An arrow."""

    id: int
    pid: int
    tid: int
    ts: float
    name: str = "ac2g"
    cat: str = "ac2g"


class _FlowStart(_Flow, tag_field="ph", tag="s", gc=False):
    """The beginning of an arrow, on a call."""


class _FlowEnd(_Flow, tag_field="ph", tag="f", gc=False):
    """The end of an arrow, on the activity that begins there."""

    bp: str = "e"


class _Counter(msgspec.Struct, tag_field="ph", tag="C", gc=False):
    """A value of a track that holds until its next one."""

    name: str
    pid: int
    ts: float
    args: dict[str, float]


def write_chrome(
    path: Path,
    activities: pd.DataFrame,
    start_ns: IntArray,
    duration_ns: IntArray,
    calls: pd.DataFrame | None = None,
    *,
    host: str,
    target: str,
    notes: Sequence[str] = (),
    counters: Sequence[tuple[str, FloatArray, FloatArray]] = (),
) -> None:
    """Write a projected trace to a ``.json`` or ``.json.gz``, whole or not at all.

    The columns `factor` and `TEXTS` of the dispatch table as measured become arguments where it has
    them; ``start_ns`` and ``duration_ns`` (n_activities,) are its rows' projected, on the table's
    clock. Arrows lead from each of the ``calls``, with their projected times, to the activities
    that share its process and `correlation`. ``notes`` become `otherData`; ``counters`` are tracks
    of the target: name, times in ns on that clock, values that hold until the next.

    Raises DataError: the path has another suffix or cannot be written; ValueError: times are no
    integers, negative durations, or not one per activity.
    """
    if not path.name.endswith((".json", ".json.gz")):
        raise DataError("must end in .json or .json.gz", source=str(path))
    for name, values in (("start_ns", start_ns), ("duration_ns", duration_ns)):
        if values.shape != (len(activities),) or not np.issubdtype(values.dtype, np.integer):
            raise ValueError(
                f"{name} must be {len(activities)} integers, got {values.dtype} of shape "
                f"{values.shape}"
            )
    if (duration_ns < 0).any():
        raise ValueError("a projected duration is negative")
    if calls is None:
        call_table = empty_calls()
    else:
        call_table = calls
    starts = (start_ns, activities["start_ns"].to_numpy(), call_table["start_ns"].to_numpy())
    base_ns = min((int(values.min()) for values in starts if len(values)), default=0)
    header = {
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base_ns,
        "traceName": path.name,
        "otherData": {
            "what": f"projection from {host} to {target}, not a measurement",
            "host": host,
            "target": target,
            "flopcast": __version__,
            "notes": list(notes),
        },
    }
    timeline = _Timeline(
        activities, start_ns - base_ns, duration_ns, call_table, base_ns, host, target, counters
    )
    with whole_file(path) as unfinished, _opened(unfinished, path.suffix == ".gz") as out:
        out.write(msgspec.json.encode(header)[:-1] + b',"traceEvents":[')
        separator = b"\n"
        for events in timeline.events():
            out.write(separator + _ENCODER.encode(events)[1:-1])
            separator = b",\n"
        out.write(b"\n]}\n")


_PROFILED: Final = {
    "projected kernel": "kernel",
    "projected memcpy": "gpu_memcpy",
    "projected memset": "gpu_memset",
}
"""Categories of the activities that are written here, and what PyTorch's profiler calls those it measures."""


def is_projected(head: bytes) -> bool:
    """Whether a file that begins so is a trace that `write_chrome` wrote."""
    return b'"otherData":{"what":"projection from ' in head


def as_profiled(content: bytes) -> tuple[bytes, str]:
    """Return the activities of a projected trace as PyTorch would have profiled them on the target, and the target.

    Only who knows that it is a projection may ask for that. Raises DataError: it is cut or damaged.
    """
    try:
        written = msgspec.json.decode(content)
        target = str(written["otherData"]["target"])
        events = []
        for event in written["traceEvents"]:
            category = _PROFILED.get(event.get("cat"))
            if category is not None:
                where = {"device": event["pid"], "stream": event["tid"]}
                events.append({**event, "cat": category, "args": where})
    except (msgspec.MsgspecError, LookupError, TypeError, AttributeError) as error:
        raise DataError("is no whole projected trace: project once more") from error
    return msgspec.json.encode({"traceEvents": events}), target


@contextmanager
def _opened(path: Path, compressed: bool) -> Generator[IO[bytes]]:
    """Give a file to write, compressed without a time or name in it: the same trace gives the same bytes."""
    with path.open("wb") as file:
        if not compressed:
            yield file
            return
        with igzip.IGzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
            yield cast(IO[bytes], stream)


@dataclass(frozen=True)
class _Timeline:
    """What is written; times are ns after `base_ns`, those of `activities` and `calls` absolute."""

    activities: pd.DataFrame
    start_ns: IntArray
    duration_ns: IntArray
    calls: pd.DataFrame
    base_ns: int
    host: str
    target: str
    counters: Sequence[tuple[str, FloatArray, FloatArray]] = ()

    def events(self) -> Iterator[Sequence[msgspec.Struct]]:
        """Yield the events, some at a time: names, activities, calls, arrows, counters, each in time order."""
        cpu = cpu_tracks(self.calls, self.host)
        ends = self.start_ns + self.duration_ns
        gpu = gpu_tracks(
            self.activities,
            self.start_ns,
            ends,
            self.target,
            self.host,
            used=int(cpu.tids.max(initial=0)),
        )
        yield cpu.names + gpu.names
        yield from self._slices(gpu)
        yield from self._calls(cpu)
        yield from self._arrows(cpu, gpu)
        tracks = int(max(cpu.tids.max(initial=0), gpu.tids.max(initial=0))) + 1
        if self.counters:
            yield _process(
                tracks,
                f"{self.target} (projected), share of the roofs",
                f"projected from {self.host}",
            )
        for name, times, values in self.counters:
            at = _us(np.round(times).astype(np.int64) - self.base_ns)
            percent = np.round(values, 2).tolist()
            yield [
                _Counter(name, tracks, moment, {"%": value})
                for moment, value in zip(at, percent, strict=True)
            ]

    def _slices(self, tracks: Tracks) -> Iterator[list[_Slice]]:
        given = [name for name in ("factor", *TEXTS) if name in self.activities]
        table = self.activities[["kind", "name", "start_ns", "duration_ns", "correlation", *given]]
        for rows in _chunks(self.start_ns):
            part = table.iloc[rows]
            measured = (
                _us(part["start_ns"].to_numpy() - self.base_ns),
                _us(part["duration_ns"].to_numpy()),
            )
            if "factor" in part:
                factors = _cells(part["factor"])
            else:
                factors = repeat(None)
            texts = (_cells(part[name], "") if name in part else repeat("") for name in TEXTS)
            arguments = map(_Arguments, *measured, factors, _cells(part["correlation"]), *texts)
            categories = [f"projected {kind}" for kind in part["kind"]]
            where = tracks.pids[rows].tolist(), tracks.tids[rows].tolist()
            times = _us(self.start_ns[rows]), _us(self.duration_ns[rows])
            yield list(map(_Slice, _cells(part["name"]), categories, *where, *times, arguments))

    def _calls(self, tracks: Tracks) -> Iterator[list[_Slice]]:
        """Yield the calls; of calls that begin together the longest, which encloses the others, first."""
        starts, durations = (self.calls[name].to_numpy() for name in ("start_ns", "duration_ns"))
        for rows in _chunks(starts, -durations):
            part = self.calls.iloc[rows]
            arguments = map(_CallArguments, _cells(part["correlation"]))
            where = tracks.pids[rows].tolist(), tracks.tids[rows].tolist()
            times = _us(starts[rows] - self.base_ns), _us(durations[rows])
            yield list(
                map(
                    _Slice,
                    _cells(part["name"]),
                    repeat("projected call"),
                    *where,
                    *times,
                    arguments,
                )
            )

    def _arrows(self, cpu: Tracks, gpu: Tracks) -> Iterator[Sequence[_Flow]]:
        """Yield an arrow from its call to each activity that has one: all beginnings, then all ends."""
        activity, call = launches(self.activities, self.calls)
        numbers = np.arange(1, len(call) + 1)
        starts = self.calls["start_ns"].to_numpy()[call] - self.base_ns
        for rows in _chunks(starts):
            places = (values[call[rows]].tolist() for values in (cpu.pids, cpu.tids))
            yield list(map(_FlowStart, numbers[rows].tolist(), *places, _us(starts[rows])))
        starts = self.start_ns[activity]
        for rows in _chunks(starts):
            places = (values[activity[rows]].tolist() for values in (gpu.pids, gpu.tids))
            yield list(map(_FlowEnd, numbers[rows].tolist(), *places, _us(starts[rows])))


def launches(activities: pd.DataFrame, calls: pd.DataFrame) -> tuple[IntArray, IntArray]:
    """Return the rows of the activities that a call launched, and the row of that call for each.

    Calls and activities belong together where process (missing ones equal each other) and
    correlation agree; of calls that share both the first counts.
    """
    keys = ["process", "correlation"]
    left, right = (
        table[keys]
        .astype("Int64")
        .reset_index(drop=True)
        .rename_axis("row")
        .reset_index()
        .dropna(subset="correlation")
        for table in (activities, calls)
    )
    pairs = left.merge(right.drop_duplicates(keys), on=keys, suffixes=("_activity", "_call"))
    return pairs["row_activity"].to_numpy(dtype=np.int64), pairs["row_call"].to_numpy(
        dtype=np.int64
    )


def _chunks(starts: IntArray, *ties: IntArray) -> Iterator[IntArray]:
    """Yield rows in the order of their start, some at a time."""
    order = np.lexsort((*ties, starts))
    for place in range(0, len(order), CHUNK):
        yield order[place : place + CHUNK]


def _us(times_ns: IntArray) -> list[float]:
    """Return us; the shortest number that gives a double back has three decimals at most, up to 10^15 ns."""
    return (times_ns / 1e3).tolist()


def _cells(column: pd.Series, missing: object = None) -> list[Any]:
    """Return the values as Python's own, `missing` where there is none."""
    values = np.array(column, dtype=object)
    values[column.isna().to_numpy()] = missing
    return values.tolist()


class Metadata(msgspec.Struct, tag_field="ph", tag="M"):
    """An event that names a process or thread, or says where to draw it."""

    name: str
    pid: int
    tid: int
    args: dict[str, str | int]


@dataclass(frozen=True)
class Tracks:
    """Where events are drawn: process and thread, shape (n_events,), no number twice in a file, and their names."""

    pids: IntArray
    tids: IntArray
    names: list[Metadata]


def gpu_tracks(
    activities: pd.DataFrame, starts: IntArray, ends: IntArray, target: str, host: str, used: int
) -> Tracks:
    """Return a process for each rank and GPU, and a thread for each stream, with more for what overlaps.

    ``starts`` and ``ends`` are the projected times of the activities, ns; numbers up to ``used``
    are taken.
    """
    keys = activities[["rank", "gpu", "stream"]].reset_index(drop=True)
    keys["lane"] = lanes(codes_of(keys[name] for name in keys), starts, ends)
    pids, processes = _numbered(keys[["rank", "gpu"]], used)
    tids, threads = _numbered(
        keys.assign(pid=pids)[["pid", "stream", "lane"]], used + len(processes)
    )
    names = []
    for pid, rank, gpu in processes.itertuples():
        of_rank = ""
        if not pd.isna(rank):
            of_rank = f", rank {rank}"
        names += _process(
            pid, f"{target} (projected), GPU {_word(gpu)}{of_rank}", f"projected from {host}"
        )
    for tid, pid, stream, lane in threads.itertuples():
        row = ""
        if lane:
            row = f" ({lane + 1})"
        names += _thread(pid, tid, f"{target} (projected) stream {_word(stream)}{row}")
    return Tracks(pids, tids, names)


def cpu_tracks(calls: pd.DataFrame, host: str) -> Tracks:
    """Return a process and thread for those of each call, numbered from 1 on."""
    keys = calls[["process", "thread"]].reset_index(drop=True)
    pids, processes = _numbered(keys[["process"]], 0)
    tids, threads = _numbered(keys.assign(pid=pids)[["pid", "thread"]], len(processes))
    names = []
    for pid, process in processes.itertuples():
        names += _process(
            pid, f"CPU process {_word(process)} (projected)", f"projected from the host of {host}"
        )
    for tid, pid, thread in threads.itertuples():
        names += _thread(pid, tid, f"CPU thread {_word(thread)}")
    return Tracks(pids, tids, names)


def lanes(queues: IntArray, starts: IntArray, ends: IntArray) -> IntArray:
    """Return a row within its queue for each event, such that no two events of one row overlap.

    All arrays have the shape (n_events,), times are ns. The row is 0 for all events of a queue
    without overlaps.
    """
    lane = np.zeros(len(queues), dtype=np.int64)
    order = np.lexsort((ends, starts, queues))
    queue = queues[order]
    start = starts[order]
    running = pd.Series(ends[order]).groupby(queue).cummax().to_numpy()
    overlapping = (queue[1:] == queue[:-1]) & (start[1:] < running[:-1])
    for number in np.unique(queue[1:][overlapping]):
        rows = order[queue == number]
        # when each row is free, the one that was free first at the top
        free = [(int(starts[rows[0]]), 0)]
        for event, begin, end in zip(
            rows.tolist(), starts[rows].tolist(), ends[rows].tolist(), strict=True
        ):
            if free[0][0] <= begin:
                lane[event] = heapq.heappop(free)[1]
            else:
                lane[event] = len(free)
            heapq.heappush(free, (end, int(lane[event])))
    return lane


def _numbered(keys: pd.DataFrame, used: int) -> tuple[IntArray, pd.DataFrame]:
    """Return a number above `used` for each row, and the distinct keys in their order with the numbers as index."""
    codes = codes_of(keys[name] for name in keys)
    distinct = keys.iloc[np.unique(codes, return_index=True)[1]].reset_index(drop=True)
    distinct = distinct.sort_values(list(keys.columns))
    numbers = np.argsort(distinct.index.to_numpy()) + used + 1
    distinct.index = pd.RangeIndex(used + 1, used + 1 + len(distinct))
    return numbers[codes], distinct


def _process(pid: int, name: str, labels: str) -> list[Metadata]:
    return [
        Metadata("process_name", pid, 0, {"name": name}),
        Metadata("process_labels", pid, 0, {"labels": labels}),
        Metadata("process_sort_index", pid, 0, {"sort_index": pid}),
    ]


def _thread(pid: int, tid: int, name: str) -> list[Metadata]:
    return [
        Metadata("thread_name", pid, tid, {"name": name}),
        Metadata("thread_sort_index", pid, tid, {"sort_index": tid}),
    ]


def _word(number: object) -> str:
    if number is pd.NA:
        return "unknown"
    return str(number)
