"""The dispatch table: one row is one activity of a GPU (kernel, copy, fill) as a profiler recorded it.

Every trace reader returns a :class:`Trace` whose table has exactly these columns, whatever the producer; what a
producer does not record is missing (<NA>, or "" for words), never zero.

=================  ===================================================================================================
column             meaning
=================  ===================================================================================================
kind               "kernel", "memcpy" or "memset"
device             canonical GPU name ("MI300X"); the file's word where the catalogue has none
rank, process      rank in the distributed job; process id
gpu                the producer's number of the device (HSA node on ROCm, ordinal on CUDA)
stream             stream or queue
name               kernel name, demangled where possible; of a copy its direction ("HtoD", "DtoH", "DtoD")
start_ns           start on the producer's clock, integer nanoseconds
duration_ns        end - start, integer nanoseconds
grid_x/y/z         size of the grid in WORKGROUPS (blocks), whatever unit the producer writes
block_x/y/z        size of a workgroup in work-items (threads)
lds_bytes          local (shared) memory per workgroup
scratch_bytes      private memory per work-item
vgpr, accum_vgpr   vector registers per work-item (CUDA: registers per thread), accumulation registers
sgpr               scalar registers per wavefront
bytes              bytes copied or filled
dispatch_id        number of the dispatch in its process, where the producer counts them
correlation        number that links the activity to its launch
linked             the file has the launch of this activity
op_name            innermost framework operator that launched it ("aten::addmm"), "" where there is none
op_id              number of that call, equal for all activities of one call
op_stack           enclosing operators, outermost first, the innermost included, joined by ";"
op_inputs          the call's arguments as JSON: {"dims": [...], "types": [...], "strides": [...], "values": [...]}
collective         name of the collective ("allreduce"), "" for everything else
collective_bytes   bytes of the message of one rank (the larger of input and output)
group_size         ranks that take part
group_name         name of the group of ranks ("0"), "" where the producer writes none
group_ranks        ranks of the group, ascending, joined by ",", "" where the producer does not say
group_number       number of the collective in its group, where the producer counts them
step               number of the profiler's step in which it was launched
source             file and place in it, "trace.json.gz:1234" (1-based event, row or line)
=================  ===================================================================================================

Hardware counters follow as float columns ``counter.NAME``. A trace may have two more tables: the user's ranges
(`range_table`) and the CPU's calls (`call_table`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from ..arrays import BoolArray, IntArray
from ..remarks import Remark, remark
from ..table.measurements import COUNTER

# The range table: the user's annotations of a run (`record_function`, markers) as the GPU went
# through them.
#
# ===========
# =========================================================================================================
# column       meaning ===========
# =========================================================================================================
# name         what the user called it start_ns     start of the first activity inside, on the clock
# of the dispatch table, integer nanoseconds duration_ns  from there to the end of the last activity
# inside ===========
# =========================================================================================================


def range_table(name: Sequence[str], start_ns: IntArray, end_ns: IntArray) -> pd.DataFrame:
    """Return a range table in the order of `start_ns`, of equal starts the longer first; RangeIndex."""
    words = pd.Categorical(np.array(name, dtype=object))
    table = pd.DataFrame({"name": words, "start_ns": start_ns, "duration_ns": end_ns - start_ns})
    return table.sort_values(
        ["start_ns", "duration_ns", "name"], ascending=[True, False, True], ignore_index=True
    )


def empty_ranges() -> pd.DataFrame:
    """Return a table of no ranges."""
    return range_table([], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


# The call table: what the CPU asked of the runtime and driver, as a profiler recorded it.
#
# ===========
# =========================================================================================================
# column       meaning ===========
# =========================================================================================================
# name         function ("hipLaunchKernel", "cudaStreamSynchronize") start_ns     start on the clock
# of the dispatch table, integer nanoseconds duration_ns  end - start: how long the CPU was in the
# call, waiting included process      process id, missing where the file has a word thread
# number of the thread within the trace correlation  number that links the call to the activities it
# launched, missing where there is none ===========
# =========================================================================================================

CALL_COLUMNS = ("name", "start_ns", "duration_ns", "process", "thread", "correlation")


def call_table(columns: dict[str, Any]) -> pd.DataFrame:
    """Return a call table in the order of `start_ns` (ties as given) from every one of its columns.

    `name` is categorical, the times are int64, other numbers Int64; RangeIndex.
    """
    table = pd.DataFrame(
        {
            "name": pd.Categorical(columns["name"]),
            "start_ns": pd.array(columns["start_ns"], dtype="int64"),
            "duration_ns": pd.array(columns["duration_ns"], dtype="int64"),
            **{name: pd.array(columns[name], dtype="Int64") for name in CALL_COLUMNS[3:]},
        }
    )
    return table.sort_values("start_ns", kind="stable", ignore_index=True)


def empty_calls() -> pd.DataFrame:
    """Return a table of no calls."""
    return call_table({name: [] for name in CALL_COLUMNS})


Severity = Literal["info", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")  # the gravest first
KERNEL = "kernel"
MEMCPY = "memcpy"
MEMSET = "memset"
TEXT = (
    "kind",
    "device",
    "name",
    "op_name",
    "op_stack",
    "op_inputs",
    "collective",
    "group_name",
    "group_ranks",
    "source",
)
NANOSECONDS = ("start_ns", "duration_ns")
COLUMNS = (
    "kind",
    "device",
    "rank",
    "process",
    "gpu",
    "stream",
    "name",
    "start_ns",
    "duration_ns",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "lds_bytes",
    "scratch_bytes",
    "vgpr",
    "accum_vgpr",
    "sgpr",
    "bytes",
    "dispatch_id",
    "correlation",
    "linked",
    "op_name",
    "op_id",
    "op_stack",
    "op_inputs",
    "collective",
    "collective_bytes",
    "group_size",
    "group_name",
    "group_ranks",
    "group_number",
    "step",
    "source",
)
"""Every column, in order."""


@dataclass(frozen=True)
class Finding:
    """A finding on a trace that matters before training on it.

    Readers that notice the same thing in different ways share the remark's code and differ in its
    values. Severity ``error``: the times concerned must not be trusted; a strict reading refuses
    the file. `count` is how many activities (or files, counters: the code says) are concerned,
    `share` their part of the GPU time of the trace, 0 to 1, None where time says nothing about it;
    `source` the file, or file and place of the first case.
    """

    remark: Remark
    severity: Severity
    count: int
    share: float | None = None
    source: str = ""

    @property
    def code(self) -> str:
        """Stable name, e.g. "zero-duration"."""
        return self.remark.code


def findings_on(
    count: int,
    code: str,
    text: str,
    severity: Severity = "warning",
    source: str = "",
    share: float | None = None,
    /,
    **values: Hashable,
) -> list[Finding]:
    """Return a finding on so many activities; nothing where there is none.

    >>> findings_on(0, "no-time", "have no start"), findings_on(2, "no-time", "have no start")[0].count
    ([], 2)
    """
    if not count:
        return []
    return [
        Finding(
            remark(code, text, **values),
            severity,
            count,
            share,
            source,
        )
    ]


def findings_at(
    rows: BoolArray,
    label: str,
    places: IntArray,
    code: str,
    text: str,
    severity: Severity = "warning",
    /,
    **values: Hashable,
) -> list[Finding]:
    """Return a finding on the marked rows of a file, at the place of the first; nothing where none is marked.

    ``places`` are the lines or records of the rows.
    """
    if not rows.any():
        return []
    source = f"{label}:{places[int(rows.argmax())]}"
    return findings_on(int(rows.sum()), code, text, severity, source, **values)


LAST = np.iinfo(np.int64).max
FIRST = np.iinfo(np.int64).min
"""The ends of what the dispatch table can hold: a time beyond is held there, and reported."""


def durations(start: IntArray, end: IntArray) -> IntArray:
    """Return end - start; a difference that 64 bits cannot hold is the largest of its sign."""
    with np.errstate(over="ignore"):
        difference = end - start
    wrapped = ((end ^ start) & (end ^ difference)) < 0
    return np.where(wrapped, np.where(end > start, LAST, FIRST), difference)


@dataclass(frozen=True)
class Trace:
    """The recording of a profiler."""

    dispatches: pd.DataFrame  # the dispatch table, in the order of `start_ns` within the file
    # the profiler's steps as the CPU saw them: `step` (number), `start_ns`, `duration_ns`; empty if
    # none
    steps: pd.DataFrame = field(default_factory=lambda: empty_steps())
    # what the reader itself noticed (a spoiled column, a link that is missing); `quality` adds what
    # the table shows
    findings: Sequence[Finding] = ()
    # assumptions made; a value `file` names the file a remark is about
    notes: Sequence[Remark] = ()
    # what the CPU asked of the runtime (`calls`); empty where it was not recorded or not asked for
    calls: pd.DataFrame = field(default_factory=empty_calls)
    # the user's annotations (`ranges`); empty where there are none or they were not asked for
    ranges: pd.DataFrame = field(default_factory=empty_ranges)


def empty_steps() -> pd.DataFrame:
    """Return a table of no steps."""
    return pd.DataFrame({name: np.array([], dtype=np.int64) for name in ("step", *NANOSECONDS)})


def columns_of(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of rows that the dispatch table has, counters among them."""
    names = [str(name) for name in rows]
    return {name: rows[name] for name in names if name in COLUMNS or name.startswith(COUNTER)}


def dispatch_table(columns: Mapping[str, Any], rows: int | None = None) -> pd.DataFrame:
    """Return a dispatch table with every column, typed, from those a producer has.

    Columns come under their names, `kind`, `name`, `start_ns` and `duration_ns` at least, and
    ``counter.*``. Scalars stand for every row (`rows` says how many where all are scalars). Words
    may be categoricals, which they stay; missing integers may be None, NaN or <NA>.

    What leaves are `COLUMNS`, then counters in the order given; RangeIndex. `start_ns` and
    `duration_ns` are int64, `linked` is bool (False where absent), other numbers Int64, counters
    float64, words str or categories of str. Raises ValueError for a column that is not of the
    table.
    """
    unknown = [name for name in columns if name not in COLUMNS and not name.startswith(COUNTER)]
    if unknown:
        raise ValueError(f"the dispatch table has no column {unknown[0]!r}")
    count = rows
    if rows is None:
        count = len(columns["start_ns"])
    index = pd.RangeIndex(count)
    counters = [name for name in columns if name.startswith(COUNTER)]
    blank = _words("", index)
    table = {
        name: _typed(name, columns.get(name), index, blank).array for name in (*COLUMNS, *counters)
    }
    return pd.DataFrame(table, index=index)  # of arrays: series would be aligned, each anew


def in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows in the order of their start, ties in the order given, renumbered."""
    order = np.argsort(table["start_ns"].to_numpy(), kind="stable")
    return table.iloc[order].reset_index(drop=True)


def counters_of(table: pd.DataFrame) -> list[str]:
    """Return the names of the counter columns."""
    return [str(name) for name in table.columns if str(name).startswith(COUNTER)]


def _typed(name: str, values: Any, index: pd.RangeIndex, blank: pd.Series) -> pd.Series:
    """Return one column in its type; a missing column is None, of words ``blank``.

    Rows go by position: the index of a Series given (filtered, sorted) means nothing here.
    """
    if isinstance(values, pd.Series):
        values = values.array
    if name in TEXT:
        if values is None:
            return blank
        return _words(values, index)
    if name in NANOSECONDS:
        return pd.Series(values, index=index, dtype=np.int64)
    if name == "linked":
        return pd.Series(False if values is None else values, index=index, dtype=bool)
    if name.startswith(COUNTER):
        return pd.Series(values, index=index, dtype=np.float64)
    if values is None:
        missing = pd.arrays.IntegerArray(
            np.ones(len(index), dtype=np.int64), np.ones(len(index), dtype=bool)
        )
        return pd.Series(missing, index=index)
    return pd.Series(values, index=index).astype("Int64")


def _words(values: Any, index: pd.RangeIndex) -> pd.Series:
    if isinstance(values, pd.Categorical):
        words = pd.Series(values, index=index)
        if values.isna().any():
            if "" in words.cat.categories:
                filled = words
            else:
                filled = words.cat.add_categories([""])
            words = filled.fillna("")
        return words
    words = pd.Series(values, index=index, dtype="str")
    if words.hasnans:
        return words.fillna("")
    return words
