"""What a CSV file of rocprofv3 holds, by its header, and which files are of one run, by their names.

A process writes ``<host>/<pid>_kernel_trace.csv``, ``<host>/<pid>_agent_info.csv`` and so on; with ``-o NAME`` the
prefix is NAME, and in documentation it is missing. An input file with several lines of counters runs the program once
for each, into folders ``pass_1``, ``pass_2``, ... (``pmc_1``, ... in later versions).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ..base import DataFile
from ..files import csv_header


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

    Attributes
    ----------
    home : Path
        The folder, without that of the pass.
    replay : str
        The folder of the pass, "" outside of any.
    prefix : str
        What the names of all files of a process begin with; the whole name where it is not one of rocprofv3's.
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


def in_order_of_number(words: Iterable[str]) -> list[str]:
    """Return words with numbers in them in the order of the numbers: pass_2 before pass_10."""
    return sorted(words, key=_pieces)


def _pieces(word: str) -> list[str | int]:
    """Return the text before the first number, the number, the text behind it, and so on."""
    pieces = re.split(r"([0-9]{1,18})", word)
    return [int(piece) if place % 2 else piece for place, piece in enumerate(pieces)]


def _matched(passes: dict[str, dict[str, list[DataFile]]]) -> Iterator[list[DataFile]]:
    """Yield the files of each process, those of all passes together where it can be told which they are."""
    of_pass = list(passes.values())
    if all(processes.keys() == of_pass[0].keys() for processes in of_pass):
        for prefix in of_pass[0]:
            yield [file for processes in of_pass for file in processes[prefix]]
    elif len({len(processes) for processes in of_pass}) == 1:
        ordered = [in_order_of_number(processes) for processes in of_pass]
        for prefixes in zip(*ordered, strict=True):
            yield [file for processes, prefix in zip(of_pass, prefixes, strict=True) for file in processes[prefix]]
    else:
        for processes in of_pass:
            yield from processes.values()
