"""The columns of the dispatch table from the events of a PyTorch trace and their links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...operators.dtypes import canonical_dtypes
from ...operators.work import BITS
from ...traces.dispatches import KERNEL, MEMCPY, MEMSET, range_table
from ..rocpd import IN_WORK_ITEMS
from .decode import Document, Events, IntArray, inputs_of, op_id_of, records_of
from .format import MISSING, Category
from .link import Links

_KINDS = {Category.KERNEL: KERNEL, Category.MEMCPY: MEMCPY, Category.MEMSET: MEMSET}
_COPY = re.compile(r"Memcpy (\w+) \(.*\)")


def columns_of(document: Document, links: Links, rocm: bool) -> dict[str, Any]:
    """Return the columns that an event or its launch gives: all but the device, the operator, the step, the source."""
    gpu = document.gpu
    return {
        "kind": _words([_KINDS[category] for category in gpu.categories]),
        "rank": integers(np.full(len(gpu), document.rank, dtype=np.int64)),
        "process": _process(document, links),
        "gpu": integers(gpu.integers["device"]),
        "stream": integers(gpu.integers["stream"]),
        "name": _names(gpu),
        "start_ns": gpu.start_ns + document.base_ns,
        "duration_ns": gpu.duration_ns,
        **_sizes(document, links, rocm),
        "lds_bytes": integers(gpu.integers["shared_memory"]),
        "vgpr": integers(gpu.integers["registers"]),
        "bytes": _bytes(document, links),
        "correlation": integers(gpu.integers["correlation"]),
        "linked": links.launch >= 0,
        **_collectives(gpu),
    }


def operator_columns(document: Document, links: Links) -> dict[str, Any]:
    """Return name, number, stack and inputs of the operator of each activity; made once for each call.

    The number is that of the call in an execution trace ("Record function id") where an observer recorded one for every
    call, else the profiler's own ("External id"), which is given out to threads in blocks.
    """
    operators = document.operators
    calls, call = np.unique(links.operator, return_inverse=True)
    there = calls >= 0
    names = operators.names
    records = records_of(operators.raw[place] for place in calls[there])
    observed = len(records) > 0 and bool((records > 0).all()) and len(np.unique(records)) == len(records)
    own = np.where(there, np.r_[np.zeros((~there).sum(), dtype=np.int64), records], MISSING)[call]
    return {
        "op_name": _words(["" if place < 0 else names[place] for place in calls]).take(call),
        "op_id": integers(own if observed else links.op_id),
        "op_stack": links.nesting.stacks(calls, names).take(call),
        "op_inputs": _words(
            ([] if there.all() else [""]) + inputs_of(operators.raw[place] for place in calls[there])
        ).take(call),
    }


def integers(values: IntArray) -> pd.arrays.IntegerArray:
    """Return whole numbers, <NA> for `MISSING`."""
    return pd.arrays.IntegerArray(values, values == MISSING)


def _words(words: Sequence[str]) -> pd.Categorical:
    codes, levels = pd.factorize(np.array(words, dtype=object))
    return pd.Categorical.from_codes(codes, categories=pd.Index(levels))


def _names(gpu: Events) -> pd.Categorical:
    """Return the names of kernels, and of copies the direction: "Memcpy HtoD (Pageable -> Device)" is HtoD."""
    every = _words(gpu.names)
    short = _words([match[1] if (match := _COPY.fullmatch(name)) else name for name in every.categories])
    return short.take(every.codes)


def _process(document: Document, links: Links) -> pd.arrays.IntegerArray:
    """Return the process that made each launch; that of all launches, where a launch is not in the file."""
    of_launch = document.processes(document.launches)
    distinct = np.unique(of_launch)
    return integers(np.r_[of_launch, distinct[0] if len(distinct) == 1 else MISSING][links.launch])


def _sizes(document: Document, links: Links, rocm: bool) -> dict[str, Any]:
    """Return grid, in workgroups, and block; from the launch where the kernel has none (before ROCm 6.3)."""
    grid, block = _size(document, links, "grid"), _size(document, links, "block")
    unit_unknown = in_unknown_unit(document, links, rocm)
    grid[unit_unknown] = MISSING
    work_items = (in_work_items(document, links) & ~unit_unknown)[:, None] & (grid != MISSING) & (block > 0)
    grid[work_items] = -(-grid[work_items] // block[work_items])
    return {
        f"{name}_{axis}": integers(values[:, place])
        for name, values in (("grid", grid), ("block", block))
        for place, axis in enumerate("xyz")
    }


def in_work_items(document: Document, links: Links) -> NDArray[np.bool_]:
    """Return which activities were launched by a call whose grid is in work-items."""
    calls = [name in IN_WORK_ITEMS for name in document.launches.names]
    return np.array([*calls, False], dtype=bool)[links.launch]


def in_unknown_unit(document: Document, links: Links, rocm: bool) -> NDArray[np.bool_]:
    """Return which activities have a grid in a unit that only the launch, which is not there, would tell."""
    return rocm & (links.launch < 0) & (document.gpu.sizes["grid"][:, 0] != MISSING)


def _size(document: Document, links: Links, name: str) -> IntArray:
    own, of_launch = document.gpu.sizes[name], document.launches.sizes[name]
    other = np.vstack([of_launch, np.full((1, 3), MISSING)])[links.launch]
    return np.where(own == MISSING, other, own)


def _bytes(document: Document, links: Links) -> pd.arrays.IntegerArray:
    """Return the bytes of copies and fills; from the launch where the activity does not say."""
    values = document.gpu.integers["bytes"]
    for name in ("bytes", "size"):
        of_launch = np.r_[document.launches.integers[name], MISSING][links.launch]
        values = np.where(values == MISSING, of_launch, values)
    kernels = np.array([category is Category.KERNEL for category in document.gpu.categories], dtype=bool)
    return integers(np.where(kernels, MISSING, values))


def _collectives(gpu: Events) -> dict[str, Any]:
    """Return name, message and ranks of collectives; the file counts elements."""
    elements = np.maximum(gpu.integers["elements_in"], gpu.integers["elements_out"])
    dtypes = canonical_dtypes(pd.Series(gpu.words["dtype"], dtype=object))
    bits = dtypes.map(BITS).fillna(0).to_numpy(dtype=np.int64)
    known = (bits > 0) & (elements >= 0) & (elements < 2**56)
    return {
        "collective": _words(gpu.words["collective"]),
        "collective_bytes": integers(np.where(known, elements * np.where(known, bits, 1) // 8, MISSING)),
        "group_size": integers(gpu.integers["group_size"]),
    }


# The user's ranges as the GPU went through them: what the file says of them, or what was launched inside them.

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
