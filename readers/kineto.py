"""Traces of the PyTorch profiler (Kineto, `export_chrome_trace`): JSON or JSON.gz, CUDA and ROCm.

The file is an object with `traceEvents` beside `deviceProperties` and `distributedInfo`, or a bare
list of events. Times are microseconds with three decimals from `baseTimeNanoseconds` on; before
2024, whole microseconds since 1970. A kernel, copy or fill (`cat` "kernel", "gpu_memcpy",
"gpu_memset") carries the `correlation` of the call that launched it ("cuda_runtime", on ROCm too,
or "cuda_driver"), and `External id`, the number of the operator ("cpu_op") which that call was made
in.

Seen: recordings of 2023 to 2026 (the files do not give PyTorch's version) on CUDA 12.0, 12.4 and
older ones that do not say, and on ROCm 6.2 to 7.1. The traps that are taken care of:

* ROCm writes the grid in work-items for `hipExtModuleLaunchKernel` and in workgroups for every
  other call; up to ROCm 6.2 it stands on the launch only.
* Activities launched before the recording have no launch in the file ("orphans").
* Kernels of a replayed graph share the one call that launched the graph.
* In 2023 `External id` is often the correlation, which may be the number of another operator: it is
  believed only if the launch lies within that operator on its thread, else the operator that was
  running there is taken.
* `start_ns` counts from 1970 where the file says so (`baseTimeNanoseconds`, or times since 1970),
  else from the recording process's zero.
* ROCm writes no registers, and of local memory only what is asked for at the launch: both stay
  missing there.
* "gpu_user_annotation" begins before its first activity and ends after its last, by 1 ns or, in
  early 2024, by 1 us and 500 ns; see `ranges`.
* PyTorch writes tokens that are no JSON (inf, backslashes, quotes): they cost themselves
  (`mending`), as do arguments of another type than they should have.
* Ranks may have been put into one file: numbers of launches are then distinguished by process
  (`launches_of`).
* Some kernel names (Composable Kernel, AITER, cuDNN) are mangled, and are kept so: cutting off
  their template arguments would merge kernels that differ.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import DataError
from ..hardware import GPU, all_gpus
from ..operators.work import BITS, canonical_dtypes
from ..remarks import Remark, remark
from ..traces.dispatches import (
    KERNEL,
    MEMCPY,
    MEMSET,
    Finding,
    Severity,
    Trace,
    call_table,
    dispatch_table,
    empty_calls,
    empty_ranges,
    in_order,
    range_table,
)
from ..workers import release_memory
from .base import MOST_RANKS, DataFile, Options, TraceReader, of_file, register
from .files import chunks, view
from .kineto_decode import (
    Document,
    Events,
    decode,
    decode_whole,
    inputs_of,
    op_ids_of,
    records_of,
    refusing,
    uncollected,
)
from .kineto_events import MISSING, Category, DeviceProperties
from .kineto_pieces import UncutError
from .labels import device_named, gpu_of_word
from .rocpd import IN_WORK_ITEMS

# What launched an activity, in which operator and step. Events are given by their index among the
# document's; -1 stands for none. `link` finds what belongs together, then `columns_of`,
# `operator_columns` and `ranges_of` make the columns of the tables from the events and their links.


class Nesting:
    """The operators of a trace, nested by time on each thread; nothing here loops over them one by one.

    Operators of equal start (traces of before 2024 have whole microseconds) are taken in the order
    given, which is that of their calls in the file. `parent` is the operator around each: the last
    one started before it on its thread that still runs. One more value, of index -1, says that
    there is none around none.
    """

    def __init__(self, thread: IntArray, start_ns: IntArray, end_ns: IntArray) -> None:
        order = np.lexsort((start_ns, thread))
        self._order = order
        self._end_ns = np.r_[end_ns, np.iinfo(np.int64).max]
        self._thread = thread[order]
        self._start_ns = start_ns[order]
        self.parent = np.full(len(order) + 1, -1, dtype=np.int64)
        # At first each points to the one before it; one that is over by then is passed over to
        # where it points itself, all at once. Whatever lies between was over even before, so the
        # pointers double their reach in every round.
        ends_ns = end_ns[order]
        around = np.arange(-1, len(order) - 1)
        around[np.flatnonzero(np.diff(self._thread, prepend=-1))] = -1
        rest = np.flatnonzero(around >= 0)
        while (
            rest := rest[(around[rest] >= 0) & (ends_ns[around[rest]] <= self._start_ns[rest])]
        ).size:
            around[rest] = around[around[rest]]
        self.parent[order] = np.r_[order, -1][around]

    def running(self, thread: IntArray, time_ns: IntArray) -> IntArray:
        """Return the innermost operator that ran on each thread at each time."""
        # Begin with the operator that started last.
        running = np.full(len(thread), -1, dtype=np.int64)
        for number in np.unique(thread):
            first, end = np.searchsorted(self._thread, [number, number + 1])
            asked = np.flatnonzero(thread == number)
            place = np.searchsorted(self._start_ns[first:end], time_ns[asked], side="right") - 1
            if end > first:
                running[asked] = np.where(place >= 0, self._order[first + place], -1)
            else:
                running[asked] = -1
        while (over := np.flatnonzero(self._end_ns[running] <= time_ns)).size:
            running[over] = self.parent[running[over]]
        return running

    def stacks(self, operators: IntArray, names: Sequence[str]) -> pd.Categorical:
        """Return the names of each operator and of those around it, outermost first, joined by ";"."""
        codes, levels = pd.factorize(np.array(names, dtype=object))
        path = np.zeros(len(operators), dtype=np.int64)
        texts = [""]
        # the operators, those around them, those around these, until all are -1
        around = [operators]
        while (outer := self.parent[around[-1]]).max(initial=-1) >= 0:
            around.append(outer)
        for ancestor in reversed(around):
            linked = np.flatnonzero(ancestor >= 0)
            steps, path_of = np.unique(
                path[linked] * len(levels) + codes[ancestor[linked]], return_inverse=True
            )
            path[linked] = len(texts) + path_of
            inner = [
                (texts[step // len(levels)], levels[step % len(levels)]) for step in steps.tolist()
            ]
            texts += [f"{before};{name}" if before else str(name) for before, name in inner]
        return _words(texts).take(path)


_STEP = re.compile(r"ProfilerStep#(\d{1,18})")


@dataclass(frozen=True)
class Links:
    """The launch of each activity of the GPU, and the innermost operator around it.

    `op_id` is the number of that operator, `MISSING` where there is none. It is taken `by_time`, as
    the one that was running at the launch, where the file names another operator, or none.
    `nesting` is that of all operators; `merged` are the activities whose number the launches of
    several processes have (`launches_of`).
    """

    launch: IntArray
    operator: IntArray
    op_id: IntArray
    by_time: BoolArray
    nesting: Nesting
    merged: BoolArray


def link(document: Document) -> Links:
    """Return the launch and the operator of every activity of the GPU.

    The file names the operator by `External id`; that is believed if the launch lies within that
    operator on its thread. (Traces of 2023 give launches outside of operators, and some inside, the
    number of their correlation.)
    """
    gpu = document.gpu
    launches = document.launches
    operators = document.operators
    launch, merged = launches_of(document)
    op_end_ns = operators.start_ns + operators.duration_ns
    nesting = Nesting(operators.threads, operators.start_ns, op_end_ns)
    operator = np.full(len(gpu), -1, dtype=np.int64)
    linked = np.flatnonzero(launch >= 0)
    at = launch[linked]
    operator[linked] = nesting.running(launches.threads[at], launches.start_ns[at])

    # Without a launch to check it by, a number that equals the correlation is taken for that.
    event_id = document.gpu.integers["op_id"]
    correlation = document.gpu.integers["correlation"]
    event_id = np.where((launch < 0) & (event_id == correlation), MISSING, event_id)
    of_launch = np.r_[document.launches.integers["op_id"], MISSING][launch]
    named = np.where(event_id != MISSING, event_id, of_launch)
    op_id = _ids(document, operator)
    disputed = np.flatnonzero((named != MISSING) & (named != op_id))
    if disputed.size:
        other = first_with(named[disputed], _ids(document, np.arange(len(operators))))
        right = np.flatnonzero(_around(document, other, launch[disputed]))
        operator[disputed[right]] = other[right]
        op_id[disputed[right]] = named[disputed[right]]
    return Links(launch, operator, op_id, (operator >= 0) & (op_id != named), nesting, merged)


def launches_of(document: Document) -> tuple[IntArray, BoolArray]:
    """Return the launch of every activity of the GPU, -1 for none, and which activities are of merged ranks.

    Numbers of launches are given out by each process. Where launches of several processes have one
    number, the files of several ranks were put into one, one after the other: the activities with
    that number are shared out among the processes in the order of the file. Where the launches of
    the processes are mixed, nothing tells whose an activity is, and it has none.
    """
    gpu = document.gpu
    launches = document.launches
    wanted = gpu.integers["correlation"]
    numbers = launches.integers["correlation"]
    launch = first_with(wanted, numbers)
    processes = np.array([process for process, _ in document.threads], dtype=object)
    rank = pd.factorize(processes)[0][launches.threads]
    if (rank == rank[:1]).all():
        return launch, np.zeros(len(wanted), dtype=bool)
    rank, _ = pd.factorize(rank)  # in the order of the file
    given = pd.DataFrame({"number": numbers, "rank": rank}).drop_duplicates()
    again = given.loc[given["number"].duplicated() & given["number"].ne(MISSING), "number"]
    merged = np.isin(wanted, again)
    if not merged.any():
        return launch, merged
    launch[merged] = -1
    concerned = np.flatnonzero(np.isin(numbers, again))
    if (np.diff(rank[concerned]) < 0).any():
        return launch, merged
    rows = np.flatnonzero(merged)
    same_number = pd.Series(rows).groupby(wanted[rows])
    occurrence = same_number.cumcount().to_numpy()
    activities = same_number.transform("size").to_numpy()
    ranks = pd.Series(rank[concerned]).groupby(numbers[concerned]).nunique()
    sharers = ranks.reindex(wanted[rows]).to_numpy()
    even = activities % sharers == 0
    share = np.maximum(activities // sharers, 1)
    by_number: dict[int, dict[int, int]] = {}
    for place in concerned.tolist():
        by_number.setdefault(int(numbers[place]), {}).setdefault(int(rank[place]), place)
    begins: dict[int, int] = {}  # the first activity of each rank, by its place in the file
    for row, part in zip(rows[even].tolist(), (occurrence // share)[even].tolist(), strict=True):
        owner, place = list(by_number[int(wanted[row])].items())[part]
        launch[row] = place
        begins[owner] = min(begins.get(owner, row), row)
    # Of the others, some activities were lost: their neighbours show whose they are.
    owners = sorted(begins, key=lambda owner: begins[owner])
    for row in rows[~even].tolist():
        before = [owner for owner in owners if begins[owner] <= row]
        if before:
            launch[row] = by_number[int(wanted[row])].get(before[-1], -1)
    return launch, merged


def _ids(document: Document, operators: IntArray) -> IntArray:
    """Return the numbers of operators, `MISSING` for -1; they are read from the file on demand."""
    distinct, place = np.unique(operators, return_inverse=True)
    ids = np.full(len(distinct), MISSING)
    called = distinct >= 0
    ids[called] = op_ids_of(document.operators.raw.take(distinct[called]))
    return ids[place]


def _around(document: Document, operator: IntArray, launch: IntArray) -> BoolArray:
    """Return whether each operator ran when it launched; without a launch to check, it is believed."""
    operators = document.operators
    launches = document.launches
    around = operator >= 0
    launched = np.flatnonzero(around & (launch >= 0))
    which = operator[launched]
    call = launch[launched]
    start_ns = operators.start_ns[which]
    at_ns = launches.start_ns[call]
    same_thread = operators.threads[which] == launches.threads[call]
    around[launched] = (
        same_thread & (start_ns <= at_ns) & (at_ns <= start_ns + operators.duration_ns[which])
    )
    return around


def steps_of(document: Document) -> pd.DataFrame:
    """Return the profiler's steps, in the order of their start: `step`, `start_ns`, `duration_ns`."""
    annotations = document.annotations
    steps = [
        (place, match)
        for place, name in enumerate(annotations.names)
        if (match := _STEP.fullmatch(name))
    ]
    places = np.array([place for place, _ in steps], dtype=np.int64)
    table = pd.DataFrame(
        {
            "step": np.array([int(match[1]) for _, match in steps], dtype=np.int64),
            "start_ns": annotations.start_ns[places] + document.base_ns,
            "duration_ns": annotations.duration_ns[places],
        }
    )
    return table.sort_values("start_ns", kind="stable", ignore_index=True)


def step_at(steps: pd.DataFrame, time_ns: IntArray) -> IntArray:
    """Return the step that each time falls into, `MISSING` where it falls into none."""
    if not len(steps):
        return np.full(len(time_ns), MISSING, dtype=np.int64)
    starts = steps["start_ns"].to_numpy()
    lengths = steps["duration_ns"].to_numpy()
    last = np.searchsorted(starts, time_ns, side="right") - 1
    inside = (last >= 0) & (time_ns < starts[last] + lengths[last])
    return np.where(inside, steps["step"].to_numpy()[last], MISSING)


def first_with(wanted: IntArray, numbers: IntArray) -> IntArray:
    """Return the first position of each wanted number, -1 where it is absent or `MISSING`."""
    if not len(numbers):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(numbers, kind="stable")
    place = order[np.minimum(np.searchsorted(numbers[order], wanted), len(numbers) - 1)]
    return np.where((numbers[place] == wanted) & (wanted != MISSING), place, -1)


# The columns of the dispatch table from the events and their links.

_KINDS = {"kernel": KERNEL, "gpu_memcpy": MEMCPY, "gpu_memset": MEMSET}
_OF_LIBRARY = re.compile("ncclDevKernel|ncclKernel_|mscclKernel")
_CALL = re.compile(r"\bc10d::_?(\w+?)_?(?=;|$)")
_COPY = re.compile(r"Memcpy (\w+) \(.*\)")


def columns_of(document: Document, links: Links, rocm: bool) -> dict[str, Any]:
    """Return the columns that an event or its launch gives: all but device, operator, step and source."""
    gpu = document.gpu
    # the names of kernels, and of copies the direction: "Memcpy HtoD (Pageable -> Device)" is HtoD
    every = _words(gpu.names)
    short = _words(
        [match[1] if (match := _COPY.fullmatch(name)) else name for name in every.categories]
    )
    # name, message and ranks of collectives; the file counts elements
    elements = np.maximum(gpu.integers["elements_in"], gpu.integers["elements_out"])
    dtypes = canonical_dtypes(pd.Series(gpu.words["dtype"], dtype=object))
    bits = dtypes.map(BITS).fillna(0).to_numpy(dtype=np.int64)
    is_countable = (bits > 0) & (elements >= 0) & (elements < 2**56)
    return {
        "kind": _words([_KINDS[category.word] for category in gpu.categories]),
        "rank": integers(np.full(len(gpu), document.rank, dtype=np.int64)),
        "process": _process(document, links),
        "gpu": integers(gpu.integers["device"]),
        "stream": integers(gpu.integers["stream"]),
        "name": short.take(every.codes),
        "start_ns": gpu.start_ns + document.base_ns,
        "duration_ns": gpu.duration_ns,
        **_sizes(document, links, rocm),
        "lds_bytes": integers(gpu.integers["shared_memory"]),
        "vgpr": integers(gpu.integers["registers"]),
        "bytes": _bytes(document, links),
        "correlation": integers(gpu.integers["correlation"]),
        "linked": links.launch >= 0,
        "collective": _words(gpu.words["collective"]),
        "collective_bytes": integers(
            np.where(is_countable, elements * np.where(is_countable, bits, 1) // 8, MISSING)
        ),
        "group_size": integers(gpu.integers["group_size"]),
        "group_name": _words(gpu.words["group_name"]),
        "group_ranks": _group_ranks(gpu),
        "group_number": integers(gpu.integers["number"]),
    }


def described(table: pd.DataFrame, world: int) -> tuple[pd.DataFrame, int]:
    """Return the table with the details of collectives filled in (traces of 2023, kernels without a launch).

    The call of c10d around one says which it is; its group is that of all ``world`` ranks, where
    the job has no other. The number is that of the kernels whose group was taken for that.
    """
    levels = [_OF_LIBRARY.match(str(name)) is not None for name in table["name"].cat.categories]
    rows = np.flatnonzero(np.array([*levels, False], dtype=bool)[table["name"].cat.codes])
    if not len(rows):
        return table, 0
    stated = table["collective"].astype(object)
    size = table["group_size"].copy()
    unsaid = rows[stated.iloc[rows] == ""]
    stated.iloc[unsaid] = [
        ["", *_CALL.findall(str(stack))][-1] for stack in table["op_stack"].iloc[unsaid]
    ]
    if 0 < world <= MOST_RANKS:
        alone = rows[size.iloc[rows].isna()]
    else:
        alone = rows[:0]
    size.iloc[alone] = world
    return table.assign(collective=_words(stated.tolist()), group_size=size), len(alone)


def operator_columns(document: Document, links: Links) -> dict[str, Any]:
    """Return name, number, stack and inputs of the operator of each activity, computed once per call.

    The number is that of the call in an execution trace ("Record function id") where an observer
    recorded one for every call, else the profiler's number ("External id"), which is given out to
    threads in blocks.
    """
    operators = document.operators
    calls, call = np.unique(links.operator, return_inverse=True)
    called = calls >= 0
    names = operators.names
    arguments = operators.raw.take(calls[called])
    records = records_of(arguments)
    observed = (
        len(records) > 0 and bool((records > 0).all()) and len(np.unique(records)) == len(records)
    )
    record_id = np.where(
        called, np.r_[np.zeros((~called).sum(), dtype=np.int64), records], MISSING
    )[call]
    return {
        "op_name": _words(["" if place < 0 else names[place] for place in calls]).take(call),
        "op_id": integers(record_id if observed else links.op_id),
        "op_stack": links.nesting.stacks(calls, names).take(call),
        "op_inputs": _words([""] * int((~called).sum()) + inputs_of(arguments)).take(call),
    }


def integers(values: IntArray) -> pd.arrays.IntegerArray:
    """Return whole numbers, <NA> for `MISSING`."""
    return pd.arrays.IntegerArray(values, values == MISSING)


def _words(words: Sequence[str]) -> pd.Categorical:
    codes, levels = pd.factorize(np.array(words, dtype=object))
    return pd.Categorical.from_codes(codes, categories=pd.Index(levels))  # pyrefly: ignore[no-matching-overload]


def _process(document: Document, links: Links) -> pd.arrays.IntegerArray:
    """Return the process of each launch; the only process of all launches where a launch is missing."""
    of_launch = document.processes(document.launches)
    distinct = np.unique(of_launch)
    return integers(np.r_[of_launch, distinct[0] if len(distinct) == 1 else MISSING][links.launch])


def _sizes(document: Document, links: Links, rocm: bool) -> dict[str, Any]:
    """Return grid, in workgroups, and block; from the launch where the kernel has none (before ROCm 6.3)."""
    grid = _size(document, links, "grid")
    block = _size(document, links, "block")
    unit_unknown = in_unknown_unit(document, links, rocm)
    grid[unit_unknown] = MISSING
    calls = [name in IN_WORK_ITEMS for name in document.launches.names]
    in_work_items = np.array([*calls, False], dtype=bool)[links.launch]
    work_items = (in_work_items & ~unit_unknown)[:, None] & (grid != MISSING) & (block > 0)
    grid[work_items] = -(-grid[work_items] // block[work_items])
    result = {}
    for name, values in (("grid", grid), ("block", block)):
        for place, axis in enumerate("xyz"):
            result[(f"{name}_{axis}")] = integers(values[:, place])
    return result


def in_unknown_unit(document: Document, links: Links, rocm: bool) -> BoolArray:
    """Return which activities have a grid whose unit only a missing launch would give."""
    return rocm & (links.launch < 0) & (document.gpu.sizes["grid"][:, 0] != MISSING)


def _size(document: Document, links: Links, name: str) -> IntArray:
    size = document.gpu.sizes[name]
    of_launch = document.launches.sizes[name]
    other = np.vstack([of_launch, np.full((1, 3), MISSING)])[links.launch]
    return np.where(size == MISSING, other, size)


def _bytes(document: Document, links: Links) -> pd.arrays.IntegerArray:
    """Return the bytes of copies and fills, from the launch where the activity lacks them."""
    values = document.gpu.integers["bytes"]
    for name in ("bytes", "size"):
        of_launch = np.r_[document.launches.integers[name], MISSING][links.launch]
        values = np.where(values == MISSING, of_launch, values)
    kernels = np.array(
        [category is Category.KERNEL for category in document.gpu.categories], dtype=bool
    )
    return integers(np.where(kernels, MISSING, values))


def _group_ranks(gpu: Events) -> pd.Categorical:
    """Return the ranks of each group: as written, or, where the list is shortened, first, stride and number."""
    numbers = (gpu.integers[name].tolist() for name in ("first_rank", "rank_stride", "group_size"))
    cases = list(zip(gpu.words["group_ranks"], *numbers, strict=True))
    ranks_of = {case: _ranks(*case) for case in set(cases)}
    return _words([ranks_of[case] for case in cases])


def _ranks(text: str, first: int, stride: int, count: int) -> str:
    written = text.strip("[] ")
    if written and re.fullmatch(r"\d+(?:\s*,\s*\d+)*", written):
        return ",".join(map(str, sorted(int(rank) for rank in written.split(","))))
    if first >= 0 and stride > 0 and 0 < count <= MOST_RANKS:
        return ",".join(str(first + stride * place) for place in range(count))
    return ""


# The user's ranges as the GPU went through them: what the file says of them, or what was launched
# inside them.

_STRETCHES_NS = ((1, 1), (1000, 500))
"""By how much the profiler lets a range of the GPU begin before its first activity and end after
its last, so that viewers draw it around them: since 2024, and in recordings of before. Activities
follow each other without a gap, so the next one would seem to begin inside."""


def ranges_of(document: Document, links: Links) -> pd.DataFrame:
    """Return the range table of a trace.

    A range counts from its first activity on any stream to the end of its last. Its activities are
    those that the GPU's side of the file gives it ("gpu_user_annotation", one for each stream), and
    those launched by its thread between begin and end on the CPU ("user_annotation"): the profiler
    leaves out what ran in another range inside, which for one around a whole step may be nearly
    all. A range without any activity is left out.
    """
    parts = pd.concat(
        [_on_gpu(document.gpu_annotations, document.gpu.start_ns), _launched(document, links)]
    )
    unnumbered = (parts["call"] <= 0).to_numpy()
    parts.loc[unnumbered, "call"] = -np.arange(1, unnumbered.sum() + 1)  # each is a separate call
    calls = (
        parts.groupby(["name", "call"], sort=False)
        .agg({"start_ns": "min", "end_ns": "max"})
        .reset_index()
    )
    start_ns, end_ns = (
        calls[name].to_numpy(dtype=np.int64) + document.base_ns for name in ("start_ns", "end_ns")
    )
    return range_table(calls["name"].tolist(), start_ns, end_ns)


def _on_gpu(events: Events, activities_ns: IntArray) -> pd.DataFrame:
    """Return first start and last end of the activities that the file gives each range on each stream.

    Of the recorded stretches that one is taken off with which most ranges begin where an activity
    does.
    """
    hits = [
        int(np.isin(events.start_ns + early, activities_ns).sum()) for early, _ in _STRETCHES_NS
    ]
    early, late = _STRETCHES_NS[int(np.argmax(hits))]
    start_ns = events.start_ns + early
    end_ns = np.maximum(events.start_ns + events.duration_ns - late, start_ns)
    return _table(events, np.arange(len(events)), start_ns, end_ns)


def _launched(document: Document, links: Links) -> pd.DataFrame:
    """Return first start and last end of the launches inside each CPU range that has any."""
    annotations = document.annotations
    launches = document.launches
    gpu = document.gpu
    linked = np.flatnonzero(links.launch >= 0)
    call = links.launch[linked]
    order = np.lexsort((launches.start_ns[call], launches.threads[call]))
    thread = launches.threads[call][order]
    at_ns = launches.start_ns[call][order]
    begin, end = (
        _place(thread, at_ns, annotations.threads, time_ns)
        for time_ns in (annotations.start_ns, annotations.start_ns + annotations.duration_ns)
    )
    filled = np.flatnonzero(begin < end)
    # reduceat: every other piece is between two ranges
    pieces = np.column_stack([begin, end])[filled].ravel()
    start_ns = gpu.start_ns[linked][order]
    end_ns = start_ns + gpu.duration_ns[linked][order]
    if filled.size:
        start_ns = np.minimum.reduceat(np.r_[start_ns, 0], pieces)[::2]
        end_ns = np.maximum.reduceat(np.r_[end_ns, 0], pieces)[::2]
    return _table(annotations, filled, start_ns[: len(filled)], end_ns[: len(filled)])


def _table(events: Events, places: IntArray, start_ns: IntArray, end_ns: IntArray) -> pd.DataFrame:
    """Return name, number of the call, and times of the ranges at these places."""
    calls = op_ids_of(events.raw.take(places))
    names = np.array([events.names[place] for place in places], dtype=object)
    return pd.DataFrame({"name": names, "call": calls, "start_ns": start_ns, "end_ns": end_ns})


def _place(thread: IntArray, at_ns: IntArray, of_thread: IntArray, time_ns: IntArray) -> IntArray:
    """Return the position of each time among the sorted times of the same thread."""
    place = np.zeros(len(time_ns), dtype=np.int64)
    for number in np.unique(of_thread):
        first, end = np.searchsorted(thread, [number, number + 1])
        asked = np.flatnonzero(of_thread == number)
        place[asked] = first + np.searchsorted(at_ns[first:end], time_ns[asked], side="left")
    return place


# The GPU behind the number that a PyTorch trace gives it.
#
# CUDA numbers devices as `deviceProperties` does. ROCm gives activities the number of the HSA node,
# which counts the CPUs too (2 for the first GPU of a machine with two sockets), while
# `deviceProperties` starts at 0. On ROCm the name may also be empty (containers) or "AMD Radeon
# Graphics" (MI250, ROCm 6.2); the figures beside it are right.

_WAVE64 = 64
_GIB = 2**30
#: Memory that the driver keeps for itself, as a share: 79.2 of 80 GiB on an H100.
_MEMORY_TOLERANCE = 0.1


@dataclass(frozen=True)
class Named:
    """A device's name in the catalogue, or the file's; and the assumption made to identify it, None for none."""

    name: str
    assumption: Remark | None = None


def is_rocm(devices: Sequence[DeviceProperties]) -> bool:
    """Return whether the devices are AMD's (of those PyTorch supports by wavefronts of 64, or by name)."""
    return any(device.warp_size == _WAVE64 or "AMD" in device.name for device in devices)


def devices_of(numbers: Sequence[int], devices: Sequence[DeviceProperties]) -> dict[int, Named]:
    """Return the device of each number of an active GPU; the name is "" where it is unknown."""
    if not is_rocm(devices):
        by_id = {device.id: device for device in devices}
        return {
            number: _named(by_id[number]) if number in by_id else Named("") for number in numbers
        }
    named = [_named(device) for device in devices]
    if len({one.name for one in named}) == 1:
        return dict.fromkeys(numbers, named[0])
    if len(numbers) == len(named):
        return dict(zip(sorted(numbers), named, strict=True))
    return dict.fromkeys(numbers, Named(""))


def _named(device: DeviceProperties) -> Named:
    gpu = gpu_of_word(device.name)
    if gpu is None:
        # Found by its architecture, compute units and memory.
        same = sorted(
            (gpu for gpu in all_gpus() if _fits(gpu, device)), key=lambda gpu: bool(gpu.same_id_as)
        )
        if not same:
            return Named(device.name)
        name = same[0].name
        alike = tuple(gpu.name for gpu in same[1:])
        count = device.num_sms
        memory_gib = device.total_global_mem / _GIB
        others = "".join(f"; {other} would look the same" for other in alike)
        text = (
            f"device {device.name!r}, {count} compute units, {memory_gib:.0f} GiB is read as "
            f"{name}{others}"
        )
        figures = {"units": count, "memory_gib": memory_gib}
        return Named(
            name,
            remark("device-by-figures", text, word=device.name, **figures, device=name, same=alike),
        )
    return Named(*device_named(device.name, "", device.num_sms or None))


def _fits(gpu: GPU, device: DeviceProperties) -> bool:
    architecture = f"{device.compute_major}.{device.compute_minor}"
    if is_rocm([device]):  # gfx942 is 9.4: the stepping is not given
        alike = gpu.gfx.startswith("gfx") and gpu.gfx[3:-1] == architecture.replace(".", "")
    else:
        alike = gpu.gfx == architecture
    if not alike or device.num_sms != (gpu.reported_cus or gpu.cus) or gpu.memory_gb is None:
        return False
    return abs(device.total_global_mem / _GIB / gpu.memory_gb - 1) < _MEMORY_TOLERANCE


# The remarks on a PyTorch trace.

_GRAPH = ("hipGraphLaunch", "cudaGraphLaunch", "cuGraphLaunch")


def findings_of(
    document: Document, links: Links, table: pd.DataFrame, rocm: bool, label: str
) -> tuple[Finding, ...]:
    """Return what is missing or odd in a trace whose dispatch table is in the order of the file."""
    linked = links.launch >= 0
    calls = [name in _GRAPH for name in document.launches.names]
    replayed = np.array([*calls, False], dtype=bool)[links.launch]
    without = linked & (links.operator < 0)
    orphan = (
        "activities launched before the recording began: no operator, no step; leave them out of "
        "totals"
    )
    replay = (
        "kernels of replayed graphs: their operator, if any, is the one that launched the whole "
        "graph; their own "
        "operators and shapes are in a trace of the capture"
    )
    nobody = "activities launched outside of any operator that the file has: no shapes"
    by_time = (
        "activities whose operator the file does not name correctly: the one running at their "
        "launch is taken"
    )
    unnamed = "activities of a GPU that the file does not name: give default device=NAME"
    grid = (
        "activities whose grid may be in workgroups or in work-items, which only their launch "
        "would tell: left out"
    )
    ranks = (
        "activities whose launch has a number that launches of other processes have too: files of "
        "several ranks were "
        "put into one; give each by itself"
    )
    cases: list[tuple[Remark, Severity, BoolArray]] = [
        (remark("ranks-merged", ranks), "warning", links.merged),
        (remark("orphan", orphan, launched="before the recording"), "warning", ~linked),
        (remark("graph-replay", replay), "info", replayed),
        (remark("no-operator", nobody), "info", without & ~replayed),
        (remark("operator-by-time", by_time), "info", links.by_time & ~replayed),
        (
            remark("unresolved-device", unnamed),
            "warning",
            table["device"].eq("").to_numpy(dtype=bool),
        ),
        (remark("grid-unit", grid), "info", in_unknown_unit(document, links, rocm)),
    ]
    durations = table["duration_ns"].clip(lower=0).to_numpy(dtype=np.float64)
    findings = [_finding(*case, table, durations) for case in cases if case[2].any()]
    if document.lost:
        text = "events that cannot be read, or activities without a start or a duration: left out"
        place = f"{label}:{document.lost[0]}"
        findings.append(
            Finding(remark("events-left-out", text), "error", len(document.lost), source=place)
        )
    if document.mended:
        text = (
            "events that are no JSON as the file has them (numbers such as inf, backslashes, "
            "quotes): read without the "
            "value or with it escaped"
        )
        findings.append(
            Finding(remark("events-mended", text), "info", document.mended, source=label)
        )
    if document.odd:
        text = "arguments that are not of the type they should be: read as if they were not there"
        findings.append(
            Finding(remark("odd-arguments", text), "warning", document.odd, source=label)
        )
    if document.coarse:
        text = "starts that the file's numbers do not resolve to the nanosecond: gaps are not exact"
        findings.append(
            Finding(remark("coarse-start", text), "warning", document.coarse, source=label)
        )
    if document.clipped:
        text = "times beyond what an integer holds, cut off there: damaged timestamps"
        findings.append(
            Finding(
                remark("clipped-time", text, clipped="times"),
                "error",
                document.clipped,
                source=label,
            )
        )
    return tuple(findings)


def _finding(
    what: Remark, severity: Severity, rows: BoolArray, table: pd.DataFrame, durations: FloatArray
) -> Finding:
    total = durations.sum()
    if total:
        share = float(durations[rows].sum() / total)
    else:
        share = None
    return Finding(
        what, severity, int(rows.sum()), share, str(table["source"].iloc[int(rows.argmax())])
    )


_CATEGORIES = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|cuda_runtime|cuda_driver|kernel|gpu_memcpy|gpu_memset|python_function'
    rb'|cpu_instant_event|gpu_user_annotation|ac2g|fwdbwd|Operator|Runtime|Kernel|Memcpy|Memset)"'
)
_MANGLED = "_Z"
# ONNX Runtime's, whose kernels are "Kernel" too
_OF_ONNX = re.compile(rb'"cat"\s*:\s*"(?:Node|Session|Api)"')


@register
class KinetoReader(TraceReader):
    """Chrome traces written by PyTorch's profiler, one process and rank a file."""

    name = "PyTorch trace"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise what Kineto alone writes: its categories of events, or its schema beside device properties."""
        start = head.removeprefix(BOM_UTF8).lstrip()[:1]
        if _OF_ONNX.search(head):
            return False
        if start == b"[":
            return bool(_CATEGORIES.search(head))
        if start != b"{" or b'"rocprofiler-sdk-tool"' in head:
            return False
        if b'"schemaVersion"' in head and (
            b'"deviceProperties"' in head or b'"traceEvents"' in head
        ):
            return True
        return b'"traceEvents"' in head and bool(_CATEGORIES.search(head))

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return what one file has recorded; see the module for what each column is made of."""
        (file,) = files
        with refusing(str(file.path)), uncollected():
            try:
                document = decode(chunks(file.path, max_bytes=options.trace_bytes))
            except UncutError:
                document = decode_whole(view(file.path, max_bytes=options.trace_bytes))
            release_memory()
            steps = steps_of(document)
            if options.calls:
                calls = _calls(document)
            else:
                calls = empty_calls()
            if not len(document.gpu):
                if document.untimed:
                    text = (
                        f"none of its {document.untimed} activities of a GPU has a start and a "
                        "duration"
                    )
                    raise DataError(text, source=str(file.path))
                text = f"no activity of a GPU among its {document.count} events"
                note = of_file(file.label, remark("no-gpu-activity", text, events=document.count))
                return Trace(
                    dispatch_table({"start_ns": [], "duration_ns": []}),
                    steps,
                    notes=(note,),
                    calls=calls,
                )
            rocm = is_rocm(document.devices) or any(
                name.startswith("hip") for name in set(document.launches.names)
            )
            links = link(document)
            numbers, place = np.unique(document.gpu.integers["device"], return_inverse=True)
            named = devices_of(numbers.tolist(), document.devices)
            devices = np.array([named[number].name for number in numbers.tolist()], dtype=object)
            of_launch = step_at(steps, document.launches.start_ns + document.base_ns)
            table = dispatch_table(
                {
                    **columns_of(document, links, rocm),
                    **operator_columns(document, links),
                    "device": pd.Categorical(devices[place]),
                    "step": integers(np.r_[of_launch, MISSING][links.launch]),
                    "source": [
                        f"{file.label}:{number}" for number in document.gpu.numbers.tolist()
                    ],
                }
            )
            table, assumed = described(table, document.world)
            findings = findings_of(document, links, table, rocm, file.label)
            if options.ranges:
                ranges = ranges_of(document, links)
            else:
                ranges = empty_ranges()
            return Trace(
                in_order(table),
                steps,
                findings,
                tuple(_notes(document, named, assumed)),
                calls,
                ranges,
            )


def _calls(document: Document) -> pd.DataFrame:
    calls = document.launches
    return call_table(
        {
            "name": calls.names,
            "start_ns": calls.start_ns + document.base_ns,
            "duration_ns": calls.duration_ns,
            "process": integers(document.processes(calls)),
            "thread": calls.threads,
            "correlation": integers(calls.integers["correlation"]),
        }
    )


def _notes(document: Document, named: dict[int, Named], assumed: int) -> list[Remark]:
    notes = list(dict.fromkeys(device.assumption for device in named.values() if device.assumption))
    mangled = sum(name.startswith(_MANGLED) for name in set(document.gpu.names))
    if mangled:
        text = f"mangled kernel names are kept as they are in the file: {mangled} of them"
        notes.append(remark("mangled-names", text, names=mangled))
    if assumed:
        text = (
            f"{assumed} collectives do not state their group: assumed to be all {document.world} "
            "ranks of the job"
        )
        notes.append(remark("groups-of-world", text, count=assumed, ranks=document.world))
    return notes
