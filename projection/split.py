"""Where the time of a trace goes: computation, communication, copies, and the gaps between them.

Activities overlap, and a moment counts once: for computation if anything computes; else for exposed
communication if anything communicates; else for exposed copies if anything copies; else as idle.
With U the length of a union of intervals, that is

    computation = U(compute)                       exposed communication = U(compute, communication)
    - U(compute) busy = U(all)                                  exposed copies = U(all) - U(compute,
    communication) idle = total - busy                            total = last end - first start

which is how TraceLens defines its table ``gpu_timeline.csv`` (github.com/AMD-AGI/TraceLens).
TraceLens looks at linked activities only and counts fills (memset) as computation; `linked_only`
and `fills` say so here. Holistic Trace Analysis counts fills as memory operations, as this module
does unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from ..arrays import BoolArray, IntArray
from ..errors import DataError
from ..table.problems import codes_of
from ..traces.classes import COMPUTE, KERNEL_CLASS, classify
from ..traces.dispatches import MEMSET
from ..traces.quality import QUEUE

COMMUNICATION = "communication"
COPY = "copy"
CATEGORIES = (COMPUTE, COMMUNICATION, COPY)
DEVICE = ("device", "rank", "gpu")  # columns that make a GPU; processes may share it
STEP = (*DEVICE, "step")  # columns that make the part of a step that one GPU has
STREAM = QUEUE  # columns that make a stream or queue
MEASURES = (
    "computation_us",
    "exposed_communication_us",
    "exposed_copy_us",
    "busy_us",
    "idle_us",
    "total_us",
    "communication_us",
    "copy_us",
    "overlapped_communication_us",
)
"""Columns of a split, in order."""


def categories(
    activities: pd.DataFrame, *, fills: Literal["copy", "compute"] = "copy"
) -> pd.Series:
    """Return the category of each activity in the time split, a Series with the index of the table.

    "communication" for collectives and other exchange between GPUs, "copy" for copies and fills by
    the runtime (by a copy engine or by one of the runtime's kernels), "compute" for everything
    else. ``fills`` is what activities of kind memset count as. The dispatch table is classified
    here where it has no `kernel_class` yet.
    """
    classes = activities
    if KERNEL_CLASS not in activities:
        classes = classify(activities)
    kernel_class = classes[KERNEL_CLASS]
    kinds = kernel_class.where(kernel_class.isin([COMMUNICATION, COPY]), COMPUTE)
    if fills == COMPUTE:
        kinds = kinds.mask(activities["kind"] == MEMSET, COMPUTE)
    return kinds.rename("category")


def time_split(
    activities: pd.DataFrame,
    by: Sequence[str] = (),
    *,
    linked_only: bool = False,
    fills: Literal["copy", "compute"] = "copy",
) -> pd.DataFrame:
    """Return where the time goes, for the whole trace or for each part of it, sorted; no row without activities.

    Each part is looked at alone: what a stream's row calls exposed may be hidden by another stream,
    and several GPUs looked at together hide each other's communication; ``by=DEVICE`` gives a row
    per GPU. Missing values of the columns ``by`` equal each other, so that what was launched
    outside all steps is a part too. With ``linked_only`` activities whose launch is not in the file
    (they may have been launched before the trace began) are left out; a DataError says that it has
    none. ``fills`` is that of `categories`.

    `MEASURES` are microseconds. `total_us` is the time from the first start to the last end of the
    part; `communication_us` and `copy_us` are how long anything communicated or copied, hidden or
    not; `overlapped_communication_us` is the communication during computation. Computation and both
    exposed times add up to busy, busy and idle to total. Negative durations, and those that end
    beyond 63 bits, count as none.
    """
    rows = activities
    if linked_only and not activities["linked"].all():
        rows = activities[activities["linked"].to_numpy(dtype=bool)]
        if rows.empty and len(activities):
            raise DataError(
                "no activity of the trace has its launch in the file: split the time of all "
                "activities"
            )
    if rows.empty:
        return pd.DataFrame({name: pd.Series(dtype=float) for name in (*by, *MEASURES)})
    if by:
        codes = codes_of(rows[name] for name in by)
    else:
        codes = np.zeros(len(rows), dtype=np.int64)
    starts = rows["start_ns"].to_numpy(dtype=np.int64)
    order = np.lexsort((starts, codes))
    part = codes[order]
    starts = starts[order]
    firsts = np.flatnonzero(np.r_[True, np.diff(part) > 0])
    durations = np.maximum(rows["duration_ns"].to_numpy(dtype=np.int64)[order], 0)
    # a sum beyond 63 bits wraps around to a negative number
    ends = np.maximum(starts + durations, starts)
    category = categories(rows, fills=fills)
    compute, communication, copy = (
        category.eq(name).to_numpy(dtype=bool)[order] for name in CATEGORIES
    )
    computation = _union_ns(starts, ends, part, compute)
    communicating = _union_ns(starts, ends, part, compute | communication)
    busy = _union_ns(starts, ends, part, compute | communication | copy)
    exposed = communicating - computation
    whole = _union_ns(starts, ends, part, communication)
    total = np.maximum.reduceat(ends, firsts) - starts[firsts]
    copying = _union_ns(starts, ends, part, copy)
    values = (
        computation,
        exposed,
        busy - communicating,
        busy,
        total - busy,
        total,
        whole,
        copying,
        whole - exposed,
    )
    split = rows[list(by)].iloc[order[firsts]].reset_index(drop=True)
    split = split.astype(
        {name: "str" for name in by if isinstance(rows[name].dtype, pd.CategoricalDtype)}
    )
    split = pd.concat(
        [split, pd.DataFrame({n: v / 1e3 for n, v in zip(MEASURES, values, strict=True)})], axis=1
    )
    if by:
        return split.sort_values(list(by), kind="stable", ignore_index=True)
    return split


def _union_ns(starts: IntArray, ends: IntArray, part: IntArray, chosen: BoolArray) -> IntArray:
    """Return the length of the union of the chosen intervals of each part; rows are sorted by part, then by start.

    The others stay as intervals without length, which cover nothing of what starts later.
    """
    till = np.where(chosen, ends, starts)
    covered = pd.Series(till).groupby(part).cummax().to_numpy(dtype=np.int64)
    firsts = np.flatnonzero(np.r_[True, np.diff(part) > 0])
    before = np.r_[starts[0], covered[:-1]]
    before[firsts] = starts[firsts]
    return np.add.reduceat(np.maximum(till - np.maximum(starts, before), 0), firsts)


def longest_first(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return a table by falling values of a column, whose ties stay in order."""
    return table.sort_values(column, ascending=False, kind="stable", ignore_index=True)
