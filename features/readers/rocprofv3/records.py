"""The fields of rocprofv3's JSON files that are used, with their types; everything else is skipped unread.

Names are the producer's. A field with a default may be missing, in versions that do not write it.
"""

from __future__ import annotations

from msgspec import Struct, field


class Handle(Struct, gc=False):
    """A number that stands for an agent, a queue, a stream or a counter."""

    handle: int


class Size(Struct, gc=False):
    """Three dimensions."""

    x: int
    y: int
    z: int


class Correlation(Struct, gc=False, frozen=True):
    """What links an activity to the API call that launched it."""

    internal: int = 0


class DispatchInfo(Struct, gc=False):
    """What was launched; `grid_size` is in work-items."""

    agent_id: Handle
    kernel_id: int
    dispatch_id: int
    workgroup_size: Size
    grid_size: Size
    queue_id: Handle | None = None
    private_segment_size: int | None = None
    group_segment_size: int | None = None


class Dispatch(Struct, gc=False):
    """One activity of ``kernel_dispatch``."""

    start_timestamp: int
    end_timestamp: int
    dispatch_info: DispatchInfo
    correlation_id: Correlation = Correlation()
    stream_id: Handle | None = None


class Copy(Struct, gc=False):
    """One activity of ``memory_copy``; newer versions write `bytes`."""

    kind: int
    operation: int
    start_timestamp: int
    end_timestamp: int
    src_agent_id: Handle | None = None
    dst_agent_id: Handle | None = None
    correlation_id: Correlation = Correlation()
    stream_id: Handle | None = None
    bytes: int | None = None


class Call(Struct, gc=False):
    """One call of an API."""

    correlation_id: Correlation = Correlation()


class Value(Struct, gc=False):
    """One counter of one instance of its block."""

    counter_id: Handle
    value: float


class DispatchData(Struct, gc=False):
    """The dispatch that counters were collected in; older versions write no times."""

    dispatch_info: DispatchInfo
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    correlation_id: Correlation = Correlation()
    stream_id: Handle | None = None


class Counted(Struct, gc=False):
    """The counters of one dispatch."""

    dispatch_data: DispatchData
    records: list[Value] = []


class Symbol(Struct, gc=False):
    """A kernel; the names of the first, which stands for none, are integers in older versions."""

    kernel_id: int
    formatted_kernel_name: str | int = ""
    demangled_kernel_name: str | int = ""
    kernel_name: str | int = ""
    arch_vgpr_count: int | None = None
    accum_vgpr_count: int | None = None
    sgpr_count: int | None = None


class Agent(Struct, gc=False):
    """A CPU (`type` 1) or a GPU (2)."""

    id: Handle
    type: int
    name: str = ""
    product_name: str = ""
    node_id: int | None = None
    logical_node_id: int | None = None
    gfx_target_version: int | None = None
    cu_count: int | None = None


class Counter(Struct, gc=False):
    """What a counter is called."""

    id: Handle
    name: str


class Kind(Struct, gc=False):
    """The operations of one kind of record."""

    kind: str
    operations: list[str] = []


class Strings(Struct, gc=False):
    """Words that records refer to by number."""

    buffer_records: list[Kind] = []


class Metadata(Struct, gc=False):
    """What is said of the process."""

    pid: int | None = None


class Records(Struct, gc=False):
    """Activities and API calls."""

    kernel_dispatch: list[Dispatch] = []
    memory_copy: list[Copy] = []
    hip_api: list[Call] = []
    hsa_api: list[Call] = []


class Callbacks(Struct, gc=False):
    """Counters."""

    counter_collection: list[Counted] = []


class Process(Struct, gc=False):
    """What one process has recorded."""

    metadata: Metadata = field(default_factory=Metadata)
    agents: list[Agent] = []
    counters: list[Counter] = []
    strings: Strings = field(default_factory=Strings)
    kernel_symbols: list[Symbol] = []
    callback_records: Callbacks = field(default_factory=Callbacks)
    buffer_records: Records = field(default_factory=Records)


class Document(Struct, gc=False):
    """A file."""

    processes: list[Process] = field(name="rocprofiler-sdk-tool")
