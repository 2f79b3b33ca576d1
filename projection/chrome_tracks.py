"""Rows of a timeline as a trace viewer shows them: which process and thread each event is drawn in, and their names.

Viewers draw one row for each thread and cannot draw two events of one row that overlap without one lying within the
other: Perfetto drops the second. Activities of one stream that overlap (concurrent kernels of a graph, or a profiler's
clock) are spread over as many rows as it takes.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..features.codes import codes_of

IntArray = NDArray[np.int64]


class Metadata(msgspec.Struct, tag_field="ph", tag="M"):
    """An event that names a process or thread, or says where to draw it."""

    name: str
    pid: int
    tid: int
    args: dict[str, str | int]


@dataclass(frozen=True)
class Tracks:
    """Where events are drawn.

    Attributes
    ----------
    pids, tids : ndarray of int64 of shape (n_events,)
        Numbers of process and thread; no number is used twice in a file.
    names : list of Metadata
        What the viewer calls them.
    """

    pids: IntArray
    tids: IntArray
    names: list[Metadata]


def gpu_tracks(activities: pd.DataFrame, starts: IntArray, ends: IntArray, target: str, host: str, used: int) -> Tracks:
    """Return a process for each rank and GPU, and a thread for each stream, with more for what overlaps.

    Parameters
    ----------
    activities : DataFrame
        Columns `rank`, `gpu` and `stream` of the dispatch table.
    starts, ends : ndarray of int64 of shape (n_activities,)
        Projected times, ns.
    target, host : str
        Names of the GPUs.
    used : int
        Numbers up to this one are taken.
    """
    keys = activities[["rank", "gpu", "stream"]].reset_index(drop=True)
    keys["lane"] = lanes(codes_of(keys[name] for name in keys), starts, ends)
    pids, processes = _numbered(keys[["rank", "gpu"]], used)
    tids, threads = _numbered(keys.assign(pid=pids)[["pid", "stream", "lane"]], used + len(processes))
    names = []
    for pid, rank, gpu in processes.itertuples():
        of_rank = "" if pd.isna(rank) else f", rank {rank}"
        names += _process(pid, f"{target} (projected), GPU {_word(gpu)}{of_rank}", f"projected from {host}")
    for tid, pid, stream, lane in threads.itertuples():
        row = f" ({lane + 1})" if lane else ""
        names += _thread(pid, tid, f"{target} (projected) stream {_word(stream)}{row}")
    return Tracks(pids, tids, names)


def cpu_tracks(calls: pd.DataFrame, host: str) -> Tracks:
    """Return a process and thread for those of each call, numbered from 1 on."""
    keys = calls[["process", "thread"]].reset_index(drop=True)
    pids, processes = _numbered(keys[["process"]], 0)
    tids, threads = _numbered(keys.assign(pid=pids)[["pid", "thread"]], len(processes))
    names = []
    for pid, process in processes.itertuples():
        names += _process(pid, f"CPU process {_word(process)} (projected)", f"projected from the host of {host}")
    for tid, pid, thread in threads.itertuples():
        names += _thread(pid, tid, f"CPU thread {_word(thread)}")
    return Tracks(pids, tids, names)


def lanes(queues: IntArray, starts: IntArray, ends: IntArray) -> IntArray:
    """Return a row within its queue for each event, such that no two events of one row overlap.

    Parameters
    ----------
    queues, starts, ends : ndarray of int64 of shape (n_events,)
        Number of the queue; times, ns.

    Returns
    -------
    ndarray of int64 of shape (n_events,)
        0 for all events of a queue without overlaps.
    """
    found = np.zeros(len(queues), dtype=np.int64)
    order = np.lexsort((ends, starts, queues))
    queue, start = queues[order], starts[order]
    running = pd.Series(ends[order]).groupby(queue).cummax().to_numpy()
    overlapping = (queue[1:] == queue[:-1]) & (start[1:] < running[:-1])
    for number in np.unique(queue[1:][overlapping]):
        rows = order[queue == number]
        found[rows] = _spread(starts[rows], ends[rows])
    return found


def _spread(starts: IntArray, ends: IntArray) -> list[int]:
    """Return rows for the events of one queue, in the order of their start, reusing the row that was free first."""
    rows, free = [], [(int(starts[0]), 0)]
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        row = heapq.heappop(free)[1] if free[0][0] <= start else len(free)
        heapq.heappush(free, (end, row))
        rows.append(row)
    return rows


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
    return "unknown" if number is pd.NA else str(number)
