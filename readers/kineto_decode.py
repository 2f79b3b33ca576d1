"""From the bytes of a PyTorch trace to columns of its events, a table for each group of them."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..errors import DataError
from .kineto_events import (
    ABSENT,
    MISSING,
    Category,
    DeviceProperties,
    Distributed,
    Event,
    File,
    Forgiving,
    GpuArguments,
    Group,
    LaunchArguments,
    OperatorArguments,
    OperatorInputs,
    OperatorRecord,
    values_of,
)
from .kineto_pieces import Piece, pieces, whole

Thread = tuple[int | str, int | str]
#: A float of microseconds resolves nanoseconds up to here. Since 2024 times are distances from a base at most three
#: months before, which is less; before, they were whole microseconds since 1970, which are exact too.
_EXACT_US = 2.0**43
_OPERATOR = Forgiving(OperatorArguments)
_GROUPS: Final[dict[Group, type[msgspec.Struct] | None]] = {
    Group.GPU: GpuArguments,
    Group.LAUNCH: LaunchArguments,
    Group.OPERATOR: None,
    Group.ANNOTATION: None,
    Group.GPU_ANNOTATION: None,
}
_FARTHEST_NS = 2**62
_FARTHEST_US = 2.0**52


@dataclass(frozen=True)
class Events:
    """Events of some categories in the order of the file, in columns of int64 unless they are words.

    `numbers` are 1-based places in the file, `threads` places in `Document.threads`; times count
    from the file's base on. `integers` are arguments by the name of their field, `MISSING` where an
    event does not have one, `sizes` grid and block, of shape (n, 3). `raw` has all arguments, as
    bytes of the file, of events whose arguments are not in columns; these have no `numbers` and
    `categories`. A name of many events is one object.
    """

    numbers: IntArray
    categories: list[Category]
    names: list[str]
    threads: IntArray
    start_ns: IntArray
    duration_ns: IntArray
    integers: dict[str, IntArray] = field(default_factory=dict)
    sizes: dict[str, IntArray] = field(default_factory=dict)
    words: dict[str, list[str]] = field(default_factory=dict)
    raw: Texts = field(default_factory=lambda: Texts())

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Document:
    """A decoded file: activities of the GPU, calls of the runtime and driver, operators, and the user's ranges.

    `annotations` are the ranges as the CPU went through them, `gpu_annotations` as the GPU did;
    `threads` has process and thread behind each number in `Events.threads`. `rank` is `MISSING`
    where the job is not distributed, `world` its number of ranks, `MISSING` too where they are in
    several groups; `base_ns` is what to add to times to have nanoseconds since 1970, `count` the
    number of events of every kind in the file. `coarse` and `clipped` count GPU activities whose
    start the file's floats do not resolve to the nanosecond, and whose time is too far away for an
    integer, so that it is cut off there; `odd` what could not be used: arguments of another type
    than they should have. `lost` are the places in the file of events that are no JSON, and of
    activities of the GPU without a time, which are `untimed`. `mended` events are read although
    they are no JSON as the file has them (`mending.mended`).
    """

    gpu: Events
    launches: Events
    operators: Events
    annotations: Events
    gpu_annotations: Events
    threads: list[Thread]
    devices: list[DeviceProperties]
    rank: int
    world: int
    base_ns: int
    count: int
    coarse: int
    clipped: int
    odd: int
    lost: list[int]
    untimed: int
    mended: int

    def processes(self, events: Events) -> IntArray:
        """Return the process of each event, `MISSING` where the file has a word."""
        whole = [process if isinstance(process, int) else MISSING for process, _ in self.threads]
        return np.array(whole, dtype=np.int64)[events.threads]


@contextmanager
def refusing(source: str) -> Generator[None]:
    """Turn the decoder's complaint about damaged content into an error that names the file."""
    try:
        yield
    except (msgspec.MsgspecError, OverflowError, RecursionError, UnicodeError) as error:
        raise DataError(
            f"is no whole PyTorch trace ({error}): record or copy it anew", source=source
        ) from error


@contextmanager
def uncollected() -> Generator[None]:
    """Pause the garbage collector: it would scan millions of new objects, none of them in cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def decode(chunks: Iterable[bytes]) -> Document:
    """Return the parts of a trace that the dispatch table is made of, given its text in chunks.

    The text, decompressed, is a JSON object with `traceEvents`, or a bare list of events. Raises
    msgspec.MsgspecError or OverflowError where it is no JSON or is cut off (see `refusing`), and
    `UncutError` where it has to be decoded by `decode_whole`. An odd value costs itself, an event
    without a time that event.
    """
    return _document(pieces(chunks))


def decode_whole(content: bytes | memoryview) -> Document:
    """Return what `decode` does, given all of the text; this takes the most memory and reads any trace."""
    return _document([whole(content)])


def _document(parts: Iterable[Piece]) -> Document:
    words: dict[str, str] = {}
    threads: dict[Thread, int] = {}
    groups = {group: _Group(shape, threads, words) for group, shape in _GROUPS.items()}
    lost: list[int] = []
    count = mended = 0
    file = File()
    for piece in parts:
        file = piece.file
        lost += [count + place + 1 for place in piece.lost]
        mended += piece.mended
        kinds = np.fromiter(map(attrgetter("cat.group"), file.events), np.int64, len(file.events))
        for kind, group in groups.items():
            group.add(file.events, np.flatnonzero(kinds == kind), count)
        count += len(file.events)
        file.events.clear()
    of_device = Forgiving(DeviceProperties)
    of_job = Forgiving(Distributed)
    described = values_of(file.devices)
    if isinstance(described, list):
        devices = [of_device.field_by_field(one) for one in described]
    else:
        devices = []
    job = of_job.decode(file.distributed if file.distributed != ABSENT else b"{}")
    base_ns = values_of(file.base_ns) or 0
    if not isinstance(base_ns, int) or abs(base_ns) > _FARTHEST_NS:
        raise OverflowError("baseTimeNanoseconds is not a time")
    gpu = groups[Group.GPU]
    launches = groups[Group.LAUNCH]
    tables = {kind: group.events() for kind, group in groups.items()}
    # Threads are numbered in the order in which the groups name them, however the file was cut.
    given = np.concatenate([table.threads for table in tables.values()])
    order = pd.unique(given)
    numbered = np.empty(len(threads), dtype=np.int64)
    numbered[order] = np.arange(len(order))
    tables = {
        kind: replace(table, threads=numbered[table.threads]) for kind, table in tables.items()
    }
    every = list(threads)
    return Document(
        gpu=tables[Group.GPU],
        launches=tables[Group.LAUNCH],
        operators=tables[Group.OPERATOR],
        annotations=tables[Group.ANNOTATION],
        gpu_annotations=tables[Group.GPU_ANNOTATION],
        threads=[every[place] for place in order.tolist()],
        devices=devices,
        rank=job.rank,
        world=job.world,
        base_ns=base_ns,
        count=count,
        coarse=gpu.coarse,
        clipped=gpu.clipped,
        odd=of_device.odd + of_job.odd + gpu.odd + launches.odd,
        lost=sorted([*lost, *gpu.untimed]),
        untimed=len(gpu.untimed),
        mended=mended,
    )


def op_ids_of(arguments: Sequence[bytes]) -> IntArray:
    """Return the numbers of calls of operators, `MISSING` where there is none."""
    numbers = [called.op_id for called in _OPERATOR.decode_each(arguments)]
    return np.array(numbers, dtype=np.int64)


def inputs_of(arguments: Sequence[bytes]) -> list[str]:
    """Return the inputs of operators as JSON: those of "dims", "types", "strides", "values" that the file has."""
    decoder = Forgiving(OperatorInputs)
    text_of: dict[tuple[bytes, ...], str] = {}
    texts: list[str] = []
    for fields in decoder.decode_each(arguments):
        key = (bytes(fields.dims), bytes(fields.types), bytes(fields.strides), bytes(fields.values))
        text = text_of.get(key)
        if text is None:
            named = zip(OperatorInputs.__struct_fields__, key, strict=True)
            values = {name: values_of(raw) for name, raw in named if raw != b"null"}
            text = text_of[key] = msgspec.json.encode(values).decode() if values else ""
        texts.append(text)
    return texts


def records_of(arguments: Sequence[bytes]) -> IntArray:
    """Return the numbers of calls in an execution trace of the same run, 0 where there is none."""
    decoder = Forgiving(OperatorRecord)
    return np.array([one.number for one in decoder.decode_each(arguments)], dtype=np.int64)


class _Group:
    """Events of some categories in columns, gathered piece by piece.

    Their arguments become columns by the types of the fields of `shape`; without one they stay
    bytes. Threads not met before are added to `threads`, and names to `words`.
    """

    def __init__(
        self,
        shape: type[msgspec.Struct] | None,
        threads: dict[Thread, int],
        words: dict[str, str],
    ) -> None:
        self._threads = threads
        self._words = words
        self._decoder: Forgiving[Any] | None = None
        if shape is not None:
            self._decoder = Forgiving(shape)
        self._absent: dict[str, Any] = {}
        if shape is not None:
            values = msgspec.structs.astuple(shape())
            self._absent = dict(zip(shape.__struct_fields__, values, strict=True))
        self._names: list[str] = []
        self._categories: list[Category] = []
        self._numbers = Growing()
        self._places = Growing()
        self._start_ns = Growing()
        self._duration_ns = Growing()
        self._columns: dict[str, Growing | list[str]] = {}
        for name, absent in self._absent.items():
            if isinstance(absent, str):
                self._columns[name] = []
            elif isinstance(absent, tuple):
                self._columns[name] = Growing(len(absent))
            else:
                self._columns[name] = Growing()
        self._raw = Texts()
        self.untimed: list[int] = []
        self.coarse = self.clipped = 0

    @property
    def odd(self) -> int:
        """How many arguments have an unexpected type."""
        if self._decoder is None:
            return 0
        return self._decoder.odd

    def add(self, events: list[Any], places: IntArray, before: int) -> None:
        """Add the events at these positions of a piece; the file has so many before it."""
        if not len(places):
            return
        every: list[Event] = [events[place] for place in places.tolist()]
        ts = np.fromiter(map(attrgetter("ts"), every), np.float64, len(places))
        dur = np.fromiter(map(attrgetter("dur"), every), np.float64, len(places))
        timed = ~np.isnan(ts) & ~np.isnan(dur)
        numbers = places + before + 1
        self.untimed += numbers[~timed].tolist()
        if not timed.all():
            every = [event for event, use in zip(every, timed.tolist(), strict=True) if use]
            ts = ts[timed]
            dur = dur[timed]
            numbers = numbers[timed]
        far = (np.abs(ts) > _FARTHEST_US) | (np.abs(dur) > _FARTHEST_US)
        self.clipped += int(far.sum())
        self.coarse += int(((np.abs(ts) >= _EXACT_US) & (ts != np.floor(ts))).sum())
        self._start_ns.add(_nanoseconds(ts))
        self._duration_ns.add(_nanoseconds(dur))
        self._add(every, numbers)

    def events(self) -> Events:
        """Return all events."""
        columns: dict[str, Any] = {"integers": {}, "sizes": {}, "words": {}}
        for name, column in self._columns.items():
            if isinstance(column, list):
                columns["words"][name] = column
            elif column.width > 1:
                columns["sizes"][name] = column.values
            else:
                columns["integers"][name] = column.values
        return Events(
            numbers=self._numbers.values,
            categories=self._categories,
            names=self._names,
            threads=self._places.values,
            start_ns=self._start_ns.values,
            duration_ns=self._duration_ns.values,
            raw=self._raw,
            **columns,
        )

    def _add(self, events: list[Event], numbers: IntArray) -> None:
        threads = list(map(attrgetter("pid", "tid"), events))
        for thread in dict.fromkeys(threads):
            self._threads.setdefault(thread, len(self._threads))
        places = map(self._threads.__getitem__, threads)
        self._places.add(np.fromiter(places, np.int64, len(events)))
        self._names += self._once(list(map(attrgetter("name"), events)))
        if self._decoder is None:
            self._raw.add([event.args for event in events])
            return
        self._numbers.add(numbers)
        self._categories += map(attrgetter("cat"), events)
        arguments = self._decoder.decode_each([event.args for event in events])
        for name, column in self._columns.items():
            values = map(attrgetter(name), arguments)
            if isinstance(column, list):
                column += self._once(list(values))
                continue
            if column.width > 1:
                values = chain.from_iterable(values)
            column.add(np.fromiter(values, np.int64, len(events) * column.width))

    def _once(self, words: list[str]) -> Iterable[str]:
        """Return the words, those that are equal as one object."""
        if words.count("") == len(words):  # what most events do not state
            return words
        for word in dict.fromkeys(words):
            self._words.setdefault(word, word)
        return map(self._words.__getitem__, words)


class Growing:
    """A column of int64 that grows at its end; unused capacity takes no memory."""

    def __init__(self, width: int = 1) -> None:
        self.width = width
        self._values = np.empty(2**12, dtype=np.int64)
        self._filled = 0

    @property
    def values(self) -> IntArray:
        """The values, (n,), or (n, width) where width exceeds one."""
        values = self._values[: self._filled]
        if self.width > 1:
            return values.reshape(-1, self.width)
        return values

    def add(self, values: IntArray) -> None:
        """Append values."""
        filled = self._filled + len(values)
        if filled > len(self._values):
            longer = np.empty(2 * filled, dtype=np.int64)
            longer[: self._filled] = self._values[: self._filled]
            self._values = longer
        self._values[self._filled : filled] = values
        self._filled = filled


class Texts:
    """Many short texts, the bytes of some thousands of them in one object."""

    def __init__(self) -> None:
        self._texts: list[bytes] = []
        self._ends: list[IntArray] = []  # where each text ends among those that were added with it
        self._begins = [0]

    def add(self, texts: Sequence[msgspec.Raw]) -> None:
        """Append copies of texts."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        self._texts.append(b"".join(texts))
        self._ends.append(np.cumsum(lengths, dtype=np.int64))
        self._begins.append(self._begins[-1] + len(texts))

    def __len__(self) -> int:
        return self._begins[-1]

    def take(self, places: IntArray) -> list[bytes]:
        """Return the texts at these places, which ascend."""
        taken: list[bytes] = []
        bounds = np.searchsorted(places, self._begins)
        for part, text in enumerate(self._texts):
            local = places[bounds[part] : bounds[part + 1]] - self._begins[part]
            ends = self._ends[part]
            begins = np.r_[0, ends[:-1]][local].tolist()
            bounds_of = zip(begins, ends[local].tolist(), strict=True)
            taken += [text[begin:end] for begin, end in bounds_of]
        return taken


def _nanoseconds(times: FloatArray) -> IntArray:
    """Return microseconds as whole nanoseconds, each rounded alone, so that differences are exact."""
    within = np.clip(times, -_FARTHEST_US, _FARTHEST_US)
    whole = np.floor(within)
    return whole.astype(np.int64) * 1000 + np.rint((within - whole) * 1000).astype(np.int64)
