"""Traces of profilers among the files: which belong together, joined with execution traces, and looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pandas as pd

from ..errors import DataError
from ..remarks import remark
from ..table.measurements import LONGEST_TEXT, as_text
from ..traces.dispatches import Finding, Trace
from ..traces.quality import share_of_time
from ..traces.summary import Annotated, annotate
from ..workers import Jobs, pool
from .base import DataFile, Options, Reader, TraceReader, detect
from .execution_trace.execution_trace_reader import is_execution_trace, join, read_execution_trace
from .files import head
from .labels import canonical_device

T = TypeVar("T")
_PARALLEL_BYTES = 64 * 2**20  # compressed or not, less is read faster than processes start


@dataclass(frozen=True)
class Source:
    """Files that are read as one: a table, or the files of one trace.

    `companions` are execution traces beside them, in the same folder, that may be of the same run.
    """

    reader: Reader | TraceReader
    files: tuple[DataFile, ...]
    companions: tuple[DataFile, ...] = ()

    @property
    def label(self) -> str:
        """How messages call it."""
        return self.files[0].label

    @property
    def named(self) -> bool:
        """Whether the user named one of the files, rather than a folder that holds them."""
        return any(file.named for file in self.files)


@dataclass(frozen=True)
class Sorted:
    """Files by what can be done with them; unreadable is one whose beginning cannot be read."""

    sources: list[Source]
    skipped: list[DataFile]
    unreadable: list[tuple[DataFile, DataError]]


@dataclass(frozen=True)
class TraceFailure:
    """Why a source cannot be read."""

    error: DataError


def sort_files(files: Sequence[DataFile]) -> Sorted:
    """Return which reader takes which files, sources in the order of their first file."""
    taken: dict[int, tuple[Reader | TraceReader, list[DataFile]]] = {}
    companions: list[DataFile] = []
    skipped: list[DataFile] = []
    unreadable: list[tuple[DataFile, DataError]] = []
    for file in files:
        try:
            beginning = head(file.path)
            reader = detect(file.path, beginning)
        except DataError as error:
            unreadable.append((file, error))
            continue
        if reader is not None:
            taken.setdefault(id(reader), (reader, []))[1].append(file)
        else:
            (companions if is_execution_trace(beginning) else skipped).append(file)
    place = {file: number for number, file in enumerate(files)}
    sources = [source for reader, own in taken.values() for source in _sources(reader, own, tuple(companions))]
    sources.sort(key=lambda source: min(place[file] for file in source.files))
    if companions and not any(isinstance(source.reader, TraceReader) for source in sources):
        skipped += companions
    return Sorted(sources, skipped, unreadable)


def _sources(
    reader: Reader | TraceReader, files: Sequence[DataFile], companions: tuple[DataFile, ...]
) -> Iterator[Source]:
    if isinstance(reader, TraceReader):
        for group in reader.gather(files):
            folders = {file.path.parent for file in group}
            yield Source(reader, tuple(group), tuple(file for file in companions if file.path.parent in folders))
    else:
        for file in files:
            yield Source(reader, (file,))


def read_trace(source: Source, options: Options) -> Annotated:
    """Return the trace of a source, devices under the catalogue's names, joined with its execution trace, annotated.

    Raises DataError where a file of it cannot be read.
    """
    assert isinstance(source.reader, TraceReader)
    trace = _with_device(source.reader.trace(source.files, options), options.defaults.get("device", ""))
    return annotate(_joined(_without_long_names(trace), source.companions, options))


def _without_long_names(trace: Trace) -> Trace:
    """Return the trace without activities of names that no profiler writes: each is held against hundreds of patterns.

    They are a finding of their own. Raises DataError where nothing else is left.
    """
    table = trace.dispatches
    rows, letters = np.zeros(len(table), dtype=bool), 0
    for column in ("name", "op_name"):
        names = table[column].astype("category")
        lengths = names.cat.categories.astype("str").str.len()
        long = lengths > LONGEST_TEXT
        if long.any():
            rows |= names.isin(names.cat.categories[long]).to_numpy()
            letters = max(letters, int(lengths.max()))
    if not rows.any():
        return trace
    first, share = str(table["source"].iloc[int(rows.argmax())]), share_of_time(table, rows)
    if rows.all():
        raise DataError(f"a name of {letters} letters: not as a profiler writes it", source=first)
    told = Finding(
        remark(
            "long-name",
            f"activities with a name as no profiler writes it (up to {letters:,} letters): left out",
            letters=letters,
        ),
        "error",
        int(rows.sum()),
        share,
        first,
    )
    kept = table[~rows].reset_index(drop=True)
    kept = kept.assign(**{name: kept[name].astype("str") for name in ("name", "op_name")})
    return replace(trace, dispatches=kept, findings=(*trace.findings, told))


def _joined(trace: Trace, companions: Sequence[DataFile], options: Options) -> Trace:
    """Return the trace with the arguments that an execution trace of the same run has.

    Of several execution traces (one per rank) those of other processes are expected not to fit; that is worth a word
    only where none does.
    """
    refusals: list[Finding] = []
    for file in companions:
        try:
            joined, report = join(trace, read_execution_trace(file.path, max_bytes=options.trace_bytes))
        except DataError as error:
            unreadable = remark("unreadable-execution-trace", str(error), problem=str(error))
            refusals.append(Finding(unreadable, "error", 1, source=file.label))
            continue
        if report.joined:
            return joined
        if report.finding is not None:
            refusals.append(report.finding)
    return replace(trace, findings=(*trace.findings, *refusals[:1]))


_ASKING = ("device-not-recorded", "device-ambiguous", "unresolved-device")
"""Codes of notes and findings that ask for the device: done, once it is stated."""


def _with_device(trace: Trace, default: str) -> Trace:
    """Return the trace with every device under the catalogue's name, `default` where the files do not say."""
    words = as_text(trace.dispatches["device"])
    names = {word: canonical_device(word or default) for word in words.unique()}
    devices = words.map({word: name for word, (name, _) in names.items()}).astype("str")
    unknown = [remark for _, remark in names.values() if remark]
    table = trace.dispatches.assign(device=pd.Categorical(devices))
    notes = [note for note in trace.notes if not (default and note.code in _ASKING)]
    findings = [finding for finding in trace.findings if not (default and finding.code in _ASKING)]
    return replace(trace, dispatches=table, findings=tuple(findings), notes=(*notes, *unknown))


def look(
    sources: Sequence[Source], task: Callable[[Source], T], jobs: Jobs
) -> Iterator[tuple[Source, T | TraceFailure]]:
    """Yield what a task makes of each source, in order; in processes of their own where that pays.

    Its `DataError` becomes a `TraceFailure`, as does a lack of memory. `jobs` is the number of processes, -1 for one
    per core (small files are then read in this process: starting others takes a second), or the workers of a cluster.
    """
    size = sum(file.path.stat().st_size for source in sources for file in source.files)
    alone = isinstance(jobs, int) and (len(sources) < 2 or size < _PARALLEL_BYTES)
    with pool(1 if alone else jobs, ordered=True) as each:
        yield from zip(sources, each.map(_attempt, sources, task), strict=True)


def _attempt(source: Source, task: Callable[[Source], T]) -> T | TraceFailure:
    try:
        return task(source)
    except DataError as error:
        return TraceFailure(error)
    except (MemoryError, RecursionError) as error:
        needs = "needs more memory than there is" if isinstance(error, MemoryError) else "is nested too deeply"
        return TraceFailure(DataError(f"cannot be read: {needs}", source=str(source.files[0].path)))
