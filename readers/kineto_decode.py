"""The JSON of a PyTorch trace: what its events look like, and from its bytes to their columns.

Only the fields that the dispatch table needs are named; the decoder passes over all others. An
integer that an event does not have is `MISSING`. The file is gone through once. The arguments of an
event stay bytes of the file until they are asked for, because those of most events (Python frames,
flows, memory) never are.
"""

from __future__ import annotations

import gc
import json
import math
from codecs import BOM_UTF8
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Union

import msgspec
import numpy as np

from ..arrays import FloatArray, IntArray
from ..errors import DataError
from .mending import cut, mended

MISSING = int(np.iinfo(np.int64).min)  # an integer that the file does not have
NO_SIZE = (MISSING, MISSING, MISSING)  # a grid or block that the file does not have
ABSENT = msgspec.Raw(b"null")  # bytes of a field that the file does not have


class Group(IntEnum):
    """What events are looked at for."""

    NONE = 0
    GPU = 1
    LAUNCH = 2
    OPERATOR = 3
    ANNOTATION = 4
    GPU_ANNOTATION = 5


_GROUP_OF = {
    "kernel": Group.GPU,
    "gpu_memcpy": Group.GPU,
    "gpu_memset": Group.GPU,
    "cuda_runtime": Group.LAUNCH,
    "cuda_driver": Group.LAUNCH,
    "cpu_op": Group.OPERATOR,
    "user_annotation": Group.ANNOTATION,
    "gpu_user_annotation": Group.GPU_ANNOTATION,
}


class Category(Enum):
    """What an event is, by its `cat`, and what its events are looked at for (`group`).

    Those of no use are named too, so that the decoder finds them in its table.
    """

    KERNEL = "kernel"
    MEMCPY = "gpu_memcpy"
    MEMSET = "gpu_memset"
    RUNTIME = "cuda_runtime"  # of ROCm too
    DRIVER = "cuda_driver"
    OPERATOR = "cpu_op"
    ANNOTATION = "user_annotation"
    PYTHON = "python_function"
    GPU_ANNOTATION = "gpu_user_annotation"
    OVERHEAD = "overhead"
    OTHER = ""

    group: Group

    def __init__(self, word: str) -> None:
        self.group = _GROUP_OF.get(word, Group.NONE)

    @classmethod
    def _missing_(cls, value: object) -> Category:
        """Return the category under its name of PyTorch 1.8 to 1.11, or the one of no interest."""
        return _OLD_NAMES.get(str(value).lower(), cls.OTHER)


_OLD_NAMES = {
    "kernel": Category.KERNEL,
    "memcpy": Category.MEMCPY,
    "memset": Category.MEMSET,
    "runtime": Category.RUNTIME,
    "operator": Category.OPERATOR,
}


class Event(msgspec.Struct, gc=False, tag_field="ph", tag="X"):
    """An event with a duration; `ts` and `dur` are in microseconds, `args` are the bytes of its arguments."""

    cat: Category = Category.OTHER
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: float = float("nan")
    dur: float = float("nan")
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _OtherEvent(msgspec.Struct, gc=False, tag_field="ph"):
    """An event of another phase: no field of it is looked at."""

    cat: ClassVar[Category] = Category.OTHER


#: The other phases of the Chrome trace format: begin, end, instant, sample, counter, asynchronous, flow, object,
#: metadata, memory dump, mark, clock, context. Most events of a trace may be of these.
_PHASES = "BEiIPCbneSTpFstfNODMVvRc(),"
if TYPE_CHECKING:
    AnyEvent = Event | _OtherEvent
else:
    AnyEvent = Union[
        Event,
        *(
            msgspec.defstruct(f"_Phase{ord(phase)}", [], bases=(_OtherEvent,), tag=phase, gc=False)
            for phase in _PHASES
        ),
    ]


class GpuArguments(msgspec.Struct, gc=False):
    """Arguments of a kernel, copy or fill."""

    op_id: int = msgspec.field(name="External id", default=MISSING)
    device: int = MISSING
    stream: int = MISSING
    correlation: int = MISSING
    grid: tuple[int, int, int] = NO_SIZE
    block: tuple[int, int, int] = NO_SIZE
    bytes: int = MISSING
    registers: int = msgspec.field(name="registers per thread", default=MISSING)
    shared_memory: int = msgspec.field(name="shared memory", default=MISSING)
    collective: str = msgspec.field(name="Collective name", default="")
    elements_in: int = msgspec.field(name="In msg nelems", default=MISSING)
    elements_out: int = msgspec.field(name="Out msg nelems", default=MISSING)
    group_size: int = msgspec.field(name="Group size", default=MISSING)
    group_name: str = msgspec.field(name="Process Group Name", default="")
    group_ranks: str = msgspec.field(name="Process Group Ranks", default="")
    first_rank: int = msgspec.field(name="Global rank start", default=MISSING)
    rank_stride: int = msgspec.field(name="Global rank stride", default=MISSING)
    number: int = msgspec.field(name="Seq", default=MISSING)
    dtype: str = ""


class LaunchArguments(msgspec.Struct, gc=False):
    """Arguments of a call of the CUDA or HIP runtime or driver; the bytes of a copy are `size` up to ROCm 6.2."""

    op_id: int = msgspec.field(name="External id", default=MISSING)
    correlation: int = MISSING
    grid: tuple[int, int, int] = NO_SIZE
    block: tuple[int, int, int] = NO_SIZE
    bytes: int = MISSING
    size: int = MISSING


class OperatorArguments(msgspec.Struct, gc=False):
    """The number of a call of an operator; ranges of the user are numbered with them."""

    op_id: int = msgspec.field(name="External id", default=MISSING)


class OperatorRecord(msgspec.Struct, gc=False):
    """The number of a call in an execution trace of the same run; 0 where no observer ran."""

    number: int = msgspec.field(name="Record function id", default=0)


class OperatorInputs(msgspec.Struct, gc=False):
    """The inputs of a call of an operator, as bytes of the file."""

    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=ABSENT)
    types: msgspec.Raw = msgspec.field(name="Input type", default=ABSENT)
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=ABSENT)
    values: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=ABSENT)


class DeviceProperties(msgspec.Struct, rename="camel"):
    """What the driver says of a GPU; on ROCm `name` may be empty or that of any GPU."""

    id: int = MISSING
    name: str = ""
    total_global_mem: int = 0
    compute_major: int = 0
    compute_minor: int = 0
    warp_size: int = 0
    num_sms: int = 0


class Distributed(msgspec.Struct):
    """The process's place in a distributed job."""

    rank: int = MISSING
    world_size: int | None = None
    pg_count: int | None = None

    @property
    def world(self) -> int:
        """The number of ranks, `MISSING` where they are in several groups, or nobody says."""
        if self.world_size is None or (self.pg_count or 1) > 1:
            return MISSING
        return self.world_size


class File(msgspec.Struct):
    """The whole file, where it is an object."""

    events: list[AnyEvent] = msgspec.field(name="traceEvents", default_factory=list)
    devices: msgspec.Raw = msgspec.field(name="deviceProperties", default=ABSENT)
    distributed: msgspec.Raw = msgspec.field(name="distributedInfo", default=ABSENT)
    base_ns: msgspec.Raw = msgspec.field(name="baseTimeNanoseconds", default=ABSENT)


# What one odd value costs: itself. PyTorch's own files have some that are no JSON (`repaired`), and
# values of another type than the field's.

S = TypeVar("S", bound=msgspec.Struct)
_LONGEST_WHOLE = 30  # digits: no number of a trace has more


def values_of(raw: msgspec.Raw | bytes) -> Any:
    """Return JSON as Python has it; a number beyond what a float holds (1e400), which msgspec refuses, is infinite."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.ValidationError:
        pass
    try:
        return json.loads(bytes(raw), parse_int=_whole)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error


def _whole(digits: str) -> int | float:
    if len(digits) <= _LONGEST_WHOLE:
        return int(digits)
    return float(digits)


class Forgiving(Generic[S]):
    """Decodes one object; a field of another type than it should be is as if it were not there, and is counted."""

    def __init__(self, shape: type[S]) -> None:
        self._shape = shape
        self._decoder = msgspec.json.Decoder(shape, strict=False)
        self.odd = 0

    def decode(self, raw: msgspec.Raw | bytes) -> S:
        """Return the object with the fields that can be used."""
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError:
            return self.field_by_field(values_of(raw))

    def field_by_field(self, values: Any) -> S:
        """Return the object of values as JSON has them."""
        usable = {}
        for field_info in msgspec.structs.fields(self._shape):
            if not isinstance(values, dict) or field_info.encode_name not in values:
                continue
            given = values[field_info.encode_name]
            try:
                value = msgspec.convert(given, field_info.type, strict=False)
            except msgspec.ValidationError:
                self.odd += 1
                continue
            if isinstance(value, float) and not math.isfinite(value):
                self.odd += 1
            else:
                usable[field_info.name] = value
        self.odd += not isinstance(values, dict)
        return self._shape(**usable)


# From the bytes to events in columns, one table for each group.

Thread = tuple[int | str, int | str]
#: A float of microseconds resolves nanoseconds up to here. Since 2024 times are distances from a base at most three
#: months before, which is less; before, they were whole microseconds since 1970, which are exact too.
_EXACT_US = 2.0**43
_OPERATOR = Forgiving(OperatorArguments)
_GROUPS = (Group.GPU, Group.LAUNCH, Group.OPERATOR, Group.ANNOTATION, Group.GPU_ANNOTATION)
_FARTHEST_NS = 2**62
_FARTHEST_US = 2.0**52


@dataclass(frozen=True)
class Events:
    """Events of some categories in the order of the file, in columns of int64 unless they are words.

    `numbers` are 1-based places in the file, `threads` places in `Document.threads`; times count
    from the file's base on. `integers` are arguments by the name of their field, `MISSING` where an
    event does not have one, `sizes` grid and block, of shape (n, 3). `raw` has all arguments, as
    bytes of the file, of events whose arguments are not in columns.
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
    raw: list[msgspec.Raw] = field(default_factory=list)

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
    """Turn what the decoder says of damaged content into an error that names the file."""
    try:
        yield
    except (msgspec.MsgspecError, OverflowError, RecursionError, UnicodeError) as error:
        raise DataError(
            f"is no whole PyTorch trace ({error}): record or copy it anew", source=source
        ) from error


@contextmanager
def uncollected() -> Generator[None]:
    """Keep the garbage collector from looking through millions of new objects, none of which are in cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def decode(content: bytes | memoryview) -> Document:
    """Return the parts of a trace that the dispatch table is made of.

    The content, decompressed, is a JSON object with `traceEvents`, or a bare list of events. Raises
    msgspec.MsgspecError or OverflowError where it is no JSON or is cut off; see `refusing`. An odd
    value costs itself, an event without a time that event.
    """
    file, lost, mended_events = _file(content)
    of_device, of_job = Forgiving(DeviceProperties), Forgiving(Distributed)
    described = values_of(file.devices)
    if isinstance(described, list):
        devices = [of_device.field_by_field(one) for one in described]
    else:
        devices = []
    job = of_job.decode(file.distributed if file.distributed != ABSENT else b"{}")
    base_ns = values_of(file.base_ns) or 0
    if not isinstance(base_ns, int) or abs(base_ns) > _FARTHEST_NS:
        raise OverflowError("baseTimeNanoseconds is not a time")
    count = len(file.events)
    groups = np.fromiter(map(attrgetter("cat.group"), file.events), np.int64, count)
    gpu, launches, operators, annotations, on_gpu = (
        _Group(file.events, np.flatnonzero(groups == group)) for group in _GROUPS
    )
    file.events.clear()
    coarse, clipped = gpu.coarse(), gpu.clipped()
    threads: dict[Thread, int] = {}
    activities = gpu.columns(GpuArguments, threads)
    calls = launches.columns(LaunchArguments, threads)
    return Document(
        gpu=activities,
        launches=calls,
        operators=operators.columns(None, threads),
        annotations=annotations.columns(None, threads),
        gpu_annotations=on_gpu.columns(None, threads),
        threads=list(threads),
        devices=devices,
        rank=job.rank,
        world=job.world,
        base_ns=base_ns,
        count=count,
        coarse=coarse,
        clipped=clipped,
        odd=of_device.odd + of_job.odd + gpu.odd + launches.odd,
        lost=sorted([*lost, *gpu.untimed]),
        untimed=len(gpu.untimed),
        mended=mended_events,
    )


def op_id_of(arguments: msgspec.Raw) -> int:
    """Return the number of the call of an operator, `MISSING` where it has none."""
    return _OPERATOR.decode(arguments).op_id


def inputs_of(arguments: Iterable[msgspec.Raw]) -> list[str]:
    """Return the inputs of operators as JSON: those of "dims", "types", "strides", "values" that the file has."""
    decoder = Forgiving(OperatorInputs)
    known: dict[tuple[bytes, ...], str] = {}
    texts: list[str] = []
    for raw in arguments:
        fields = decoder.decode(raw)
        key = (bytes(fields.dims), bytes(fields.types), bytes(fields.strides), bytes(fields.values))
        text = known.get(key)
        if text is None:
            named = zip(OperatorInputs.__struct_fields__, key, strict=True)
            values = {name: values_of(raw) for name, raw in named if raw != b"null"}
            text = known[key] = msgspec.json.encode(values).decode() if values else ""
        texts.append(text)
    return texts


def records_of(arguments: Iterable[msgspec.Raw]) -> IntArray:
    """Return the numbers of calls in an execution trace of the same run, 0 where there is none."""
    decoder = Forgiving(OperatorRecord)
    return np.array([decoder.decode(raw).number for raw in arguments], dtype=np.int64)


def _file(content: bytes | memoryview) -> tuple[File, list[int], int]:
    """Return the file, the places of the events that are no events, and how many are read that are no JSON."""
    whole = memoryview(content)
    body = whole[len(BOM_UTF8) if whole[: len(BOM_UTF8)] == BOM_UTF8 else 0 :]
    try:
        if bytes(body[:64]).lstrip().startswith(b"["):
            return (
                File(events=msgspec.json.Decoder(list[AnyEvent], strict=False).decode(body)),
                [],
                0,
            )
        return msgspec.json.Decoder(File, strict=False).decode(body), [], 0
    except (msgspec.MsgspecError, UnicodeError):
        pieces = cut(bytes(body))
        if pieces is None:
            raise
    file = msgspec.json.Decoder(File, strict=False).decode(pieces.around)
    decoder = msgspec.json.Decoder(AnyEvent, strict=False)
    lost: list[int] = []
    mended_events = 0
    for number, text in enumerate(pieces.events, start=1):
        event = _event(decoder, text)
        if event is None and (written := mended(text)) is not None:
            event = _event(decoder, written)
            mended_events += event is not None
        if event is None:
            lost.append(number)
        file.events.append(event or _OtherEvent())
    return file, lost, mended_events


def _event(decoder: msgspec.json.Decoder[AnyEvent], text: bytes) -> AnyEvent | None:
    """Return an event, None if it is no JSON or of no phase; a field of another type is as if it were not there."""
    try:
        return decoder.decode(text)
    except (msgspec.ValidationError, UnicodeError):
        pass
    except msgspec.DecodeError:
        return None
    try:
        values = values_of(text)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    if not isinstance(values, dict) or values.get("ph") != "X":
        return None
    arguments = msgspec.Raw(msgspec.json.encode(values.pop("args", {})))
    return msgspec.structs.replace(Forgiving(Event).field_by_field(values), args=arguments)


class _Group:
    """Events of some categories, to be turned into columns."""

    def __init__(self, events: list[Any], places: IntArray) -> None:
        every: list[Event] = [events[place] for place in places.tolist()]
        ts = np.fromiter(map(attrgetter("ts"), every), np.float64, len(places))
        dur = np.fromiter(map(attrgetter("dur"), every), np.float64, len(places))
        timed = ~np.isnan(ts) & ~np.isnan(dur)
        self._numbers = places[timed] + 1
        self._events = [event for event, use in zip(every, timed.tolist(), strict=True) if use]
        self._ts, self._dur = ts[timed], dur[timed]
        self.untimed = (places[~timed] + 1).tolist()
        self.odd = 0

    def coarse(self) -> int:
        """Return how many starts are no whole nanoseconds apart for want of digits."""
        return int(((np.abs(self._ts) >= _EXACT_US) & (self._ts != np.floor(self._ts))).sum())

    def clipped(self) -> int:
        """Return how many have a time that no integer holds."""
        return int(((np.abs(self._ts) > _FARTHEST_US) | (np.abs(self._dur) > _FARTHEST_US)).sum())

    def columns(self, shape: type[msgspec.Struct] | None, threads: dict[Thread, int]) -> Events:
        """Return the events in columns and forget them; threads not met before are added to `threads`.

        Their arguments become columns by the types of the fields of `shape`; without one they stay
        bytes.
        """
        events, self._events = self._events, []
        places = [threads.setdefault((event.pid, event.tid), len(threads)) for event in events]
        fields: dict[type, dict[str, Any]] = {int: {}, tuple: {}, str: {}}
        if shape is not None:
            decoder = Forgiving(shape)
            arguments = [decoder.decode(event.args) for event in events]
            self.odd = decoder.odd
            for name, absent in zip(
                shape.__struct_fields__, msgspec.structs.astuple(shape()), strict=True
            ):
                values = map(attrgetter(name), arguments)
                fields[type(absent)][name] = _TO_COLUMN[type(absent)](values, len(events))
        return Events(
            numbers=self._numbers,
            categories=[event.cat for event in events],
            names=[event.name for event in events],
            threads=np.array(places, dtype=np.int64),
            start_ns=_nanoseconds(self._ts),
            duration_ns=_nanoseconds(self._dur),
            integers=fields[int],
            sizes=fields[tuple],
            words=fields[str],
            raw=[] if shape else [event.args for event in events],
        )


_TO_COLUMN: dict[type, Callable[[Any, int], Any]] = {
    int: lambda values, count: np.fromiter(values, np.int64, count),
    tuple: lambda values, count: np.fromiter(
        chain.from_iterable(values), np.int64, 3 * count
    ).reshape(count, 3),
    str: lambda values, count: list(values),
}


def _nanoseconds(times: FloatArray) -> IntArray:
    """Return microseconds as whole nanoseconds; each is rounded by itself, so that differences of them are exact."""
    within = np.clip(times, -_FARTHEST_US, _FARTHEST_US)
    whole = np.floor(within)
    return whole.astype(np.int64) * 1000 + np.rint((within - whole) * 1000).astype(np.int64)
