"""The user's ranges as the GPU went through them: what the file says of them, or what was launched inside them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...dispatches.ranges import range_table
from .decode import Document, Events, IntArray, op_id_of
from .link import Links

_STRETCHES_NS = ((1, 1), (1000, 500))
"""By how much the profiler lets a range of the GPU begin before its first activity and end after its last, so that
viewers draw it around them: since 2024, and in recordings of before. Activities follow each other without a gap, so the
next one would seem to begin inside."""


def ranges_of(document: Document, links: Links) -> pd.DataFrame:
    """Return the range table of a trace.

    A range counts from its first activity on any stream to the end of its last. Its activities are those that the GPU's
    side of the file gives it ("gpu_user_annotation", one for each stream), and those launched by its thread between
    begin and end on the CPU ("user_annotation"): the profiler leaves out what ran in another range inside, which for
    one around a whole step may be nearly all. A range without any activity is left out.

    Parameters
    ----------
    document : Document
    links : Links
        What launched each activity.
    """
    parts = pd.concat([_on_gpu(document.gpu_annotations, document.gpu.start_ns), _launched(document, links)])
    unnumbered = (parts["call"] <= 0).to_numpy()
    parts.loc[unnumbered, "call"] = -np.arange(1, unnumbered.sum() + 1)  # each is a call of its own
    calls = parts.groupby(["name", "call"], sort=False).agg({"start_ns": "min", "end_ns": "max"}).reset_index()
    start_ns, end_ns = (calls[name].to_numpy(dtype=np.int64) + document.base_ns for name in ("start_ns", "end_ns"))
    return range_table(calls["name"].tolist(), start_ns, end_ns)


def _on_gpu(events: Events, activities_ns: IntArray) -> pd.DataFrame:
    """Return first start and last end of the activities that the file gives each range on each stream.

    Of the known stretches that one is taken off with which most ranges begin where an activity does.
    """
    hits = [int(np.isin(events.start_ns + early, activities_ns).sum()) for early, _ in _STRETCHES_NS]
    early, late = _STRETCHES_NS[int(np.argmax(hits))]
    start_ns = events.start_ns + early
    end_ns = np.maximum(events.start_ns + events.duration_ns - late, start_ns)
    return _table(events, np.arange(len(events)), start_ns, end_ns)


def _launched(document: Document, links: Links) -> pd.DataFrame:
    """Return first start and last end of what was launched inside each range of the CPU inside which something was."""
    annotations, launches, gpu = document.annotations, document.launches, document.gpu
    linked = np.flatnonzero(links.launch >= 0)
    call = links.launch[linked]
    order = np.lexsort((launches.start_ns[call], launches.threads[call]))
    thread, at_ns = launches.threads[call][order], launches.start_ns[call][order]
    begin, end = (
        _place(thread, at_ns, annotations.threads, time_ns)
        for time_ns in (annotations.start_ns, annotations.start_ns + annotations.duration_ns)
    )
    filled = np.flatnonzero(begin < end)
    pieces = np.column_stack([begin, end])[filled].ravel()  # reduceat: every other piece is between two ranges
    start_ns = gpu.start_ns[linked][order]
    end_ns = start_ns + gpu.duration_ns[linked][order]
    if filled.size:
        start_ns = np.minimum.reduceat(np.r_[start_ns, 0], pieces)[::2]
        end_ns = np.maximum.reduceat(np.r_[end_ns, 0], pieces)[::2]
    return _table(annotations, filled, start_ns[: len(filled)], end_ns[: len(filled)])


def _table(events: Events, places: IntArray, start_ns: IntArray, end_ns: IntArray) -> pd.DataFrame:
    """Return name, number of the call, and times of the ranges at these places."""
    calls = np.array([op_id_of(events.raw[place]) for place in places], dtype=np.int64)
    names = np.array([events.names[place] for place in places], dtype=object)
    return pd.DataFrame({"name": names, "call": calls, "start_ns": start_ns, "end_ns": end_ns})


def _place(thread: IntArray, at_ns: IntArray, of_thread: IntArray, time_ns: IntArray) -> IntArray:
    """Return where each time of a thread stands among those, which are in order, of the same thread."""
    place = np.zeros(len(time_ns), dtype=np.int64)
    for number in np.unique(of_thread):
        first, end = np.searchsorted(thread, [number, number + 1])
        asked = np.flatnonzero(of_thread == number)
        place[asked] = first + np.searchsorted(at_ns[first:end], time_ns[asked], side="left")
    return place
