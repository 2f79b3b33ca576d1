"""What rocprofv3's CSV and JSON output have in common: agents, the ends of the clock, what became of the queue.

Grids are in work-items throughout, times in nanoseconds of the monotonic clock. An agent is a CPU or a GPU of the node;
CSV files name it by its number ("Agent 4"), JSON files by a handle.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from ...arrays import BoolArray, IntArray
from ...remarks import Remark, remark
from ...table.measurements import COUNTER
from ...traces.dispatches import Finding
from ..base import DataFile
from ..files import by_number, csv_header
from ..rocpd import STREAM_IS_QUEUE, device_named, streams_recorded

LAST, FIRST = np.iinfo(np.int64).max, np.iinfo(np.int64).min
"""The ends of what the dispatch table can hold: a time beyond is held there, and reported."""
NO_ACTIVITY = remark("no-activities", "no kernel dispatches and no memory copies were recorded", by="rocprofv3")
UNLINKED = remark(
    "no-api-calls",
    "no HIP or HSA API calls were recorded (--hip-trace records them): no activity is linked to its launch",
    by="rocprofv3",
)
NO_DEVICE = remark(
    "device-not-recorded",
    "the files do not say on which device this ran: set device=NAME",
    by="rocprofv3",
)


@dataclass(frozen=True)
class Agent:
    """A GPU as the producer numbers it: among all agents, among those visible, and among the visible GPUs."""

    node: int | None
    logical: int | None
    of_type: int | None
    device: str


class Agents:
    """The GPUs of a node, found by how a CSV file names them; none if there is no list of agents."""

    def __init__(self, gpus: Sequence[Agent] = ()) -> None:
        self._gpus = tuple(gpus)

    def device(self, word: str) -> str:
        """Return the device of "Agent 4" (number among all agents), "GPU 0" (among GPUs) or "4"; "" if unknown.

        ``--agent-index`` decides which number it is, and no file says which was chosen: the number among the visible
        agents (the default) is tried before the number of the node. Where all GPUs are alike it does not matter.
        """
        number = agent_number(word)
        if number is None:
            return ""
        of_type = word.strip().casefold().startswith("gpu")
        for known in ("of_type",) if of_type else ("logical", "node"):
            for gpu in self._gpus:
                if getattr(gpu, known) == number:
                    return gpu.device
        alike = {gpu.device for gpu in self._gpus}
        return alike.pop() if len(alike) == 1 else ""


def agent_number(word: str) -> int | None:
    """Return the number at the end of an agent's name, None where there is none."""
    found = re.search(r"(?<![0-9])([0-9]{1,18})\s*$", word)
    return int(found[1]) if found else None


def agent_device(product: str, name: str, version: int | None, cus: int | None) -> tuple[str, Remark | None]:
    """Return the device of an agent under the catalogue's name, and a remark.

    Of "AMD Instinct MI350X" and "gfx950" ("" where the file does not say), 90500 for gfx950, and the compute units.
    """
    gfx = name if name.startswith("gfx") else gfx_of(version)
    return device_named(product, gfx, cus or None)


def gfx_of(version: int | None) -> str:
    """Return the gfx id of an architecture's number: 90402 is gfx942, 90010 gfx90a, 110501 gfx1151; "" of none."""
    if version is None or version <= 0:
        return ""
    major, minor, stepping = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def held(values: Iterable[int]) -> tuple[IntArray, BoolArray]:
    """Return whole numbers as int64, those beyond it at its ends, and which ones those are."""
    numbers = list(values)
    try:
        return np.array(numbers, dtype=np.int64), np.zeros(len(numbers), dtype=bool)
    except OverflowError:
        inside = [min(max(number, FIRST), LAST) for number in numbers]
        beyond = [a != b for a, b in zip(numbers, inside, strict=True)]
        return np.array(inside, dtype=np.int64), np.array(beyond, dtype=bool)


def durations(start: IntArray, end: IntArray) -> IntArray:
    """Return end - start; a difference that 64 bits cannot hold is the largest of its sign."""
    with np.errstate(over="ignore"):
        difference = end - start
    wrapped = ((end ^ start) & (end ^ difference)) < 0
    return np.where(wrapped, np.where(end > start, LAST, FIRST), difference)


def beyond_clock(count: int, source: str) -> Finding:
    """Return the finding for timestamps that do not fit."""
    text = "activities whose timestamps do not fit 63 bits: kept at the last one possible, rows of no use"
    return Finding(remark("clipped-time", text, clipped="activities"), "error", count, source=source)


def streams(stream: pd.Series, queue: pd.Series, notes: list[Remark]) -> tuple[pd.Series, bool]:
    """Return what orders the kernels, and whether it is the HIP stream (else the hardware queue).

    Streams share queues, and copies have a stream only, so the stream is taken where it was recorded.
    """
    if streams_recorded(stream, queue):
        return stream, True
    notes.append(STREAM_IS_QUEUE)
    return queue, False


def stacked(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return rows of several kinds one below the other, missing where a kind has no such column."""
    filled = [part for part in parts if len(part)] or parts[:1]
    names = dict.fromkeys(name for part in filled for name in part.columns)
    return pd.DataFrame({name: _stacked_column([_column(part, name) for part in filled]) for name in names})


def _column(part: pd.DataFrame, name: str) -> pd.Series:
    if name in part:
        return part[name]
    return pd.Series(np.nan, index=part.index, dtype="float64" if name.startswith(COUNTER) else "Int64")


def _stacked_column(columns: Sequence[pd.Series]) -> Any:
    if isinstance(columns[0].dtype, pd.CategoricalDtype):
        return union_categoricals([column.array for column in columns])
    return pd.concat(columns, ignore_index=True)


# Files: what a CSV file holds, by its header, and which files are of one run, by their names.
#
# A process writes ``<host>/<pid>_kernel_trace.csv``, ``<host>/<pid>_agent_info.csv`` and so on; with ``-o NAME`` the
# prefix is NAME, and in documentation it is missing. An input file with several lines of counters runs the program once
# for each, into folders ``pass_1``, ``pass_2``, ... (``pmc_1``, ... in later versions).


class Content(Enum):
    """What a file holds; the value is the columns that tell, in lower case."""

    KERNELS = frozenset({"kind", "agent_id", "dispatch_id", "kernel_name", "start_timestamp", "end_timestamp"})
    COUNTERS = frozenset({"agent_id", "dispatch_id", "kernel_name", "counter_name", "counter_value"})
    COPIES = frozenset({"direction", "source_agent_id", "destination_agent_id", "start_timestamp", "end_timestamp"})
    AGENTS = frozenset({"agent_type", "cu_count", "gfx_target_version"})
    API = frozenset({"domain", "function", "correlation_id", "start_timestamp", "end_timestamp"})
    STATISTICS = frozenset({"name", "calls", "totaldurationns", "minns", "stddev"})  # rocprof v1 has no minns
    ALLOCATIONS = frozenset({"kind", "operation", "allocation_size", "address"})
    SCRATCH = frozenset({"kind", "operation", "alloc_flags", "start_timestamp"})
    SAMPLES = frozenset({"sample_timestamp", "dispatch_id", "instruction"})


_API = r"(?:hip|hsa|marker|rccl|ompt|rocdecode|rocjpeg|kfd)"
_PART = r"(?:api|runtime|compile|compiler|core|amd|ext|image|finalize|finalizer|control|name|range|domain)"
_TIMED = rf"(?:kernel|memory_copy|memory_allocation|scratch_memory|domain|{_API}(?:_{_PART})*)"
_FILE_NAME = re.compile(
    rf"(?:(?P<prefix>.+?)_)??(?:{_TIMED}_(?:trace|stats)|counter_collection|agent_info|pc_sampling_[a-z_]+)",
    re.IGNORECASE,
)
_PASS = re.compile(r"(?:pass|pmc)_([0-9]+)", re.IGNORECASE)
_SUFFIXES = (".gz", ".bz2", ".csv")


@dataclass(frozen=True)
class Place:
    """Where in the output of a run a file stands.

    `home` is the folder without that of the pass, `replay` that folder, "" outside of any;
    `prefix` is what the names of all files of a process begin with; the whole name where it is not one of rocprofv3's.
    """

    home: Path
    replay: str
    prefix: str


def content_of(head: bytes) -> Content | None:
    """Return what a file with this beginning holds, None if it is not of rocprofv3."""
    try:
        names = frozenset(name.lower() for name in csv_header(head))
    except csv.Error:
        return None
    return next((content for content in Content if content.value <= names), None)


def place_of(path: Path) -> Place:
    """Return where a file stands."""
    parts = path.parent.parts
    passes = [place for place, part in enumerate(parts) if _PASS.fullmatch(part)]
    home, replay = path.parent, ""
    if passes:
        home, replay = Path(*parts[: passes[-1]], *parts[passes[-1] + 1 :]), parts[passes[-1]]
    stem = path.name
    for suffix in _SUFFIXES:
        stem = stem[: -len(suffix)] if stem.lower().endswith(suffix) else stem
    named = _FILE_NAME.fullmatch(stem)
    return Place(home, replay, (named["prefix"] or "") if named else stem)


def runs(files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
    """Return the files of each run, in the order of its first file.

    Files of one folder with one prefix belong together. So do passes: their processes by the prefix where all passes
    have the same, else (prefixes are process ids) first with first in the order of the ids, if there are equally many.
    """
    homes: dict[Path, dict[str, dict[str, list[DataFile]]]] = {}
    for file in files:
        place = place_of(file.path)
        homes.setdefault(place.home, {}).setdefault(place.replay, {}).setdefault(place.prefix, []).append(file)
    number = {file: position for position, file in enumerate(files)}
    groups = [sorted(group, key=number.__getitem__) for passes in homes.values() for group in _matched(passes)]
    return [tuple(group) for group in sorted(groups, key=lambda group: number[group[0]])]


def _matched(passes: dict[str, dict[str, list[DataFile]]]) -> Iterator[list[DataFile]]:
    """Yield the files of each process, those of all passes together where it can be told which they are."""
    of_pass = list(passes.values())
    if all(processes.keys() == of_pass[0].keys() for processes in of_pass):
        for prefix in of_pass[0]:
            yield [file for processes in of_pass for file in processes[prefix]]
    elif len({len(processes) for processes in of_pass}) == 1:
        ordered = [sorted(processes, key=by_number) for processes in of_pass]
        for prefixes in zip(*ordered, strict=True):
            yield [file for processes, prefix in zip(of_pass, prefixes, strict=True) for file in processes[prefix]]
    else:
        for processes in of_pass:
            yield from processes.values()
