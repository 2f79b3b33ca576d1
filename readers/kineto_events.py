"""What the events of a PyTorch trace look like in JSON.

Only the fields that the dispatch table needs are named; the decoder passes over all others. An
integer that an event does not have is `MISSING`. The arguments of an event stay bytes until they
are asked for, because those of most events (Python frames, flows, memory) never are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, Union

import msgspec
import numpy as np

MISSING = int(np.iinfo(np.int64).min)  # an integer that the file does not have
NO_SIZE = (MISSING, MISSING, MISSING)  # a grid or block that the file does not have
ABSENT = msgspec.Raw(b"null")  # bytes of a field that the file does not have


class Group(IntEnum):
    """The purpose for which events are read."""

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
    """An event's meaning by its `cat`, and the `group` that reads it.

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

    word: str
    group: Group

    def __init__(self, word: str) -> None:
        self.word = word  # as `value`, which takes longer to ask for
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


class OtherEvent(msgspec.Struct, gc=False, tag_field="ph"):
    """An event of another phase; none of its fields is used."""

    cat: ClassVar[Category] = Category.OTHER


#: The other phases of the Chrome trace format: begin, end, instant, sample, counter, asynchronous, flow, object,
#: metadata, memory dump, mark, clock, context. Most events of a trace may be of these.
_PHASES = "BEiIPCbneSTpFstfNODMVvRc(),"
if TYPE_CHECKING:
    AnyEvent = Event | OtherEvent
else:
    AnyEvent = Union[
        Event,
        *(
            msgspec.defstruct(f"_Phase{ord(phase)}", [], bases=(OtherEvent,), tag=phase, gc=False)
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
    """The driver's description of a GPU; on ROCm `name` may be empty or wrong."""

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
        """The number of ranks, `MISSING` where it is not stated or they are in several groups."""
        if self.world_size is None or (self.pg_count or 1) > 1:
            return MISSING
        return self.world_size


class File(msgspec.Struct):
    """The whole file, where it is an object."""

    events: list[AnyEvent] = msgspec.field(name="traceEvents", default_factory=list)
    devices: msgspec.Raw = msgspec.field(name="deviceProperties", default=ABSENT)
    distributed: msgspec.Raw = msgspec.field(name="distributedInfo", default=ABSENT)
    base_ns: msgspec.Raw = msgspec.field(name="baseTimeNanoseconds", default=ABSENT)


# What one odd value costs: itself. PyTorch's files have some that are invalid JSON (`repaired`), and
# values of another type than the field's.

S = TypeVar("S", bound=msgspec.Struct)
_LONGEST_WHOLE = 30  # digits: no number of a trace has more


def values_of(raw: msgspec.Raw | bytes | memoryview) -> Any:
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
    """Decodes one object; a field of an unexpected type counts as missing, and is counted."""

    def __init__(self, shape: type[S]) -> None:
        self._shape = shape
        self._decoder = msgspec.json.Decoder(shape, strict=False)
        self.odd = 0

    def decode(self, raw: msgspec.Raw | bytes | memoryview) -> S:
        """Return the object with its usable fields."""
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError:
            return self.field_by_field(values_of(raw))

    def decode_each(self, raws: Sequence[msgspec.Raw | bytes]) -> list[S]:
        """Return the objects with their usable fields."""
        try:
            return list(map(self._decoder.decode, raws))
        except msgspec.ValidationError:
            return [self.decode(raw) for raw in raws]

    def field_by_field(self, values: Any) -> S:
        """Return the object from generic JSON values."""
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
