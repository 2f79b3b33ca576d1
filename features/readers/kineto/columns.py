"""The columns of the dispatch table from the events of a PyTorch trace and their links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...dispatches.table import KERNEL, MEMCPY, MEMSET
from ...dtypes import canonical_dtypes
from ...work.columns import BITS
from ..rocm import IN_WORK_ITEMS
from .decode import Document, Events, IntArray, inputs_of, records_of
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
