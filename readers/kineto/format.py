"""What the JSON of a PyTorch trace looks like: its events, their arguments, and what it says of the machine.

Only the fields that the dispatch table needs are named; the decoder passes over all others. An integer that an event
does not have is `MISSING`.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING, ClassVar, Union

import msgspec
import numpy as np

MISSING = int(np.iinfo(np.int64).min)
"""An integer that the file does not have."""
NO_SIZE = (MISSING, MISSING, MISSING)
"""A grid or block that the file does not have."""
ABSENT = msgspec.Raw(b"null")
"""Bytes of a field that the file does not have."""


class Group(IntEnum):
    """What events are looked at for."""

    NONE = 0
    GPU = 1
    LAUNCH = 2
    OPERATOR = 3
    ANNOTATION = 4
    GPU_ANNOTATION = 5


_GROUPS = {
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
    """What an event is, by its `cat`. Those of no use are named too, so that the decoder finds them in its table.

    Attributes
    ----------
    group : Group
        What its events are looked at for.
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
        self.group = _GROUPS.get(word, Group.NONE)

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
        *(msgspec.defstruct(f"_Phase{ord(phase)}", [], bases=(_OtherEvent,), tag=phase, gc=False) for phase in _PHASES),
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


class File(msgspec.Struct):
    """The whole file, where it is an object."""

    events: list[AnyEvent] = msgspec.field(name="traceEvents", default_factory=list)
    devices: list[DeviceProperties] = msgspec.field(name="deviceProperties", default_factory=list)
    distributed: Distributed = msgspec.field(name="distributedInfo", default_factory=Distributed)
    base_ns: int = msgspec.field(name="baseTimeNanoseconds", default=0)
