"""JSON files of rocprofv3 (``--output-format json``): {"rocprofiler-sdk-tool": [one object per process]}.

An object has ``metadata``, ``agents``, ``counters``, ``strings``, ``kernel_symbols``, and the
records: ``buffer_records.kernel_dispatch``, ``.memory_copy``, ``.hip_api``, ``.hsa_api`` and
``callback_records.counter_collection``. Kernels, agents and counters are named by number there and
described in the lists; what kind of copy it was is an index into ``strings.buffer_records``. Times
are integer nanoseconds, grids in work-items. A counter has one record per instance of its block,
which are summed, as in the CSV files of the producer. Seen: rocprofv3 of ROCm 7 on MI350X; the
first kernel symbol stands for none (its names are 0 or "0").
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from msgspec import Struct, field

from ..errors import DataError
from ..remarks import Remark, remark
from ..table.measurements import COUNTER
from ..traces.dispatches import (
    FIRST,
    KERNEL,
    LAST,
    MEMCPY,
    Finding,
    Trace,
    columns_of,
    dispatch_table,
    durations,
    findings_at,
    in_order,
)
from .base import DataFile, Options, TraceReader, register
from .files import content
from .rocpd import direction, launch_size
from .rocprofv3 import (
    BEYOND_CLOCK,
    NO_ACTIVITY,
    NO_DEVICE,
    UNLINKED,
    agent_device,
    held,
    stacked,
    streams,
)

# The fields of rocprofv3's JSON files that are used, with their types; everything else is skipped
# unread.
#
# Names are the producer's. A field with a default may be missing, in versions that do not write it.


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


_SNIFFED = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:')
_GPU = 2  # agents[].type


@register
class Rocprofv3JsonReader(TraceReader):
    """Results of rocprofv3: dispatches and copies of one or several processes, with their counters."""

    name = "rocprofv3 JSON"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the name of the first key."""
        return _SNIFFED.match(head) is not None

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the dispatches and copies of every process.

        `source` numbers the records: the dispatches of a process, then its copies, one process
        after the other. `gpu` is the agent's logical node id, as in "Agent 4" of the CSV files (the
        node id or the handle where it has none); `stream` is the HIP stream, or the queue where no
        streams were recorded. `linked`: a HIP or HSA call has the row's correlation id.
        """
        [file] = files
        reading = _Reading(file)
        processes = read_document(file, options).processes
        parts = list(chain.from_iterable(map(reading.activities, processes)))
        if not any(map(len, parts)):
            reading.note(NO_ACTIVITY)
            return Trace(dispatch_table({"start_ns": [], "duration_ns": []}), notes=reading.notes)
        rows = stacked(parts)
        source = pd.Series(np.arange(1, len(rows) + 1)).astype("str").radd(f"{file.label}:")
        return Trace(
            in_order(dispatch_table(columns_of(rows) | {"source": source})),
            findings=reading.findings,
            notes=reading.notes,
        )


def read_document(file: DataFile, options: Options) -> Document:
    """Return the fields of a file that are used.

    Raises DataError where it is not JSON, is cut off, or a field is of another type; the message
    says which.
    """
    raw = content(file.path, max_bytes=options.trace_bytes).removeprefix(BOM_UTF8)
    try:
        return msgspec.json.decode(raw, type=Document)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(
            f"cannot be read as JSON of rocprofv3 ({reason})", source=file.label
        ) from error


class _Reading:
    """What is learned on the way through a file: remarks, findings, how many records there were."""

    def __init__(self, file: DataFile) -> None:
        self.notes: list[Remark] = []
        self.findings: list[Finding] = []
        self._file = file
        self._records = 0

    def note(self, what: Remark) -> None:
        """Remark on the file, once."""
        if what not in self.notes:
            self.notes.append(what)

    def find(self, rows: np.ndarray, /, *what: Any, **values: str) -> None:
        """Report the records of the part being read that `rows` marks (`findings_at`)."""
        places = self._records + np.arange(1, len(rows) + 1)
        self.findings += findings_at(
            rows,
            self._file.label,
            places,
            *what,
            **values,
        )

    def activities(self, process: Process) -> list[pd.DataFrame]:
        """Return the dispatches and the copies of a process."""
        agents = _Agents(process.agents, self)
        kernels, streamed = self._kernels(process, agents)
        self._records += len(kernels)
        copies = self._copies(process, agents)
        self._records += len(copies)
        parts = [kernels, copies if streamed or not len(kernels) else copies.drop(columns="stream")]
        calls = _correlations(
            (*process.buffer_records.hip_api, *process.buffer_records.hsa_api)
        ).dropna()
        if calls.empty and any(map(len, parts)):
            self.note(UNLINKED)
        return [
            part.assign(
                process=_integers([process.metadata.pid] * len(part)),
                linked=part["correlation"].isin(calls),
            )
            for part in parts
        ]

    def _kernels(self, process: Process, agents: _Agents) -> tuple[pd.DataFrame, bool]:
        """Return the dispatches, and whether `stream` is the stream (else the queue)."""
        counted = process.callback_records.counter_collection
        records: Sequence[Dispatch | DispatchData] = process.buffer_records.kernel_dispatch
        if counted and not records:
            timed = np.array([_has_times(record) for record in counted])
            records = [counted[place].dispatch_data for place in np.flatnonzero(timed)]
            text = (
                "no kernel trace: times were taken while counters were collected, one kernel at a "
                "time"
            )
            self.note(remark("no-kernel-trace", text))
            text = (
                "dispatches with counters but no times: left out; add the kernel trace "
                "(--kernel-trace) of the run"
            )
            lacking = {"lacking": "kernel trace", "counted": "dispatches"}
            self.find(~timed, "counters-without-times", text, **lacking)
        info = [record.dispatch_info for record in records]
        symbols = _symbols(process.kernel_symbols, [item.kernel_id for item in info])
        queue = _handles(item.queue_id for item in info)
        stream, streamed = streams(_handles(one.stream_id for one in records), queue, self.notes)
        rows = self._timed(records).assign(
            kind=KERNEL,
            stream=stream,
            dispatch_id=_integers(item.dispatch_id for item in info),
            lds_bytes=_integers(item.group_segment_size for item in info),
            scratch_bytes=_integers(item.private_segment_size for item in info),
            **symbols,
            **agents.columns([item.agent_id.handle for item in info]),
        )
        for axis in "xyz":
            items = _integers(getattr(item.grid_size, axis) for item in info)
            group = _integers(getattr(item.workgroup_size, axis) for item in info)
            rows = rows.assign(**launch_size(axis, items, group))
        text = "dispatches of a kernel that the file does not name"
        self.find(rows["name"].eq("").to_numpy(), "unnamed-kernel", text)
        return pd.concat([rows, self._counters(process, rows["dispatch_id"])], axis=1), streamed

    def _copies(self, process: Process, agents: _Agents) -> pd.DataFrame:
        """Return the memory copies; their agent is the GPU they end on, else the one they start from."""
        records = process.buffer_records.memory_copy
        kinds = [kind.operations for kind in process.strings.buffer_records]
        names = pd.Series([_operation(kinds, record) for record in records], dtype="str")
        return self._timed(records).assign(
            kind=MEMCPY,
            name=pd.Categorical(direction(names)),
            stream=_handles(record.stream_id for record in records),
            bytes=_integers(record.bytes for record in records),
            **agents.columns([agents.of_copy(record) for record in records]),
        )

    def _timed(self, records: Sequence[Dispatch | DispatchData | Copy]) -> pd.DataFrame:
        start, early = held(record.start_timestamp or 0 for record in records)
        end, late = held(record.end_timestamp or 0 for record in records)
        self.find(early | late, *BEYOND_CLOCK, clipped="activities")
        times = {"start_ns": start, "duration_ns": durations(start, end)}
        return pd.DataFrame(times | {"correlation": _correlations(records)})

    def _counters(self, process: Process, dispatch_ids: pd.Series) -> pd.DataFrame:
        """Return the counters of each dispatch, matched by its number, a column each."""
        counted = process.callback_records.counter_collection
        names = {counter.id.handle: counter.name for counter in process.counters}
        listed = list[tuple[int, str, float]]()
        for record in counted:
            number = record.dispatch_data.dispatch_info.dispatch_id
            for value in record.records:
                handle = value.counter_id.handle
                listed.append((number, names.get(handle, f"id_{handle}"), value.value))
        values = pd.DataFrame(listed, columns=["dispatch_id", "counter", "value"])
        values["dispatch_id"] = _integers(values["dispatch_id"])
        if values.empty:
            return pd.DataFrame(index=dispatch_ids.index)
        first = pd.Series(dispatch_ids.index, index=dispatch_ids)
        first = first[~first.index.duplicated() & first.index.notna()]
        values["row"] = values["dispatch_id"].map(first)
        lost = values["row"].isna().to_numpy()
        text = "counter values of dispatches that are not among those timed: left out"
        self.find(lost, "unmatched-pass", text, why="values not timed")
        sums = values[~lost].groupby(["row", "counter"], sort=True)["value"].sum(min_count=1)
        wide = sums.unstack("counter").reindex(dispatch_ids.index)  # noqa: PD010 (one value per cell)
        return wide.rename(columns=lambda name: f"{COUNTER}{name}")


class _Agents:
    """The agents of a node by their handles."""

    def __init__(self, agents: Sequence[Agent], reading: _Reading) -> None:
        self._reading = reading
        self._gpus = {agent.id.handle: agent for agent in agents if agent.type == _GPU}

    def columns(self, handles: Sequence[int | None]) -> dict[str, Any]:
        """Return `gpu` and `device` of the rows with these handles."""
        codes, unique = pd.factorize(np.array(handles, dtype=object))
        described: list[tuple[int | None, str]] = [self._described(int(one)) for one in unique]
        described.append((None, ""))  # of copies within the host
        numbers, devices = zip(*described, strict=True)
        return {
            "gpu": _integers(numbers).take(codes).reset_index(drop=True),
            "device": pd.Categorical(np.array(devices, dtype=object)[codes]),
        }

    def _described(self, handle: int) -> tuple[int, str]:
        agent = self._gpus.get(handle)
        if agent is None:
            self._reading.note(NO_DEVICE)
            return handle, ""
        device, assumption = agent_device(
            agent.product_name, agent.name, agent.gfx_target_version, agent.cu_count
        )
        if assumption or not device:
            self._reading.note(assumption or NO_DEVICE)
        numbers = (agent.logical_node_id, agent.node_id, handle)
        return next(number for number in numbers if number is not None), device

    def of_copy(self, record: Copy) -> int | None:
        """Return the handle of the GPU that a copy ends on, else starts from; None for copies within the host."""
        for end in (record.dst_agent_id, record.src_agent_id):
            if end is not None and end.handle in self._gpus:
                return end.handle
        return None


def _symbols(symbols: Sequence[Symbol], kernel_ids: Sequence[int]) -> dict[str, Any]:
    """Return `name` and the registers of the kernels with these numbers."""
    by_id = {symbol.kernel_id: symbol for symbol in symbols}
    codes, used = pd.factorize(np.array(kernel_ids, dtype=object))
    symbols_used = [by_id.get(number) for number in used]
    names = np.array([_name(symbol) for symbol in symbols_used], dtype=object)
    counts = {}
    for name, count in (("vgpr", "arch_vgpr"), ("accum_vgpr", "accum_vgpr"), ("sgpr", "sgpr")):
        registers = _integers(getattr(symbol, f"{count}_count", None) for symbol in symbols_used)
        counts[name] = registers.take(codes).reset_index(drop=True)
    return {"name": pd.Categorical(names[codes]), **counts}


def _name(symbol: Symbol | None) -> str:
    """Return the kernel's name, demangled where there is one; "" if there is none."""
    if symbol is None:
        return ""
    names = (symbol.formatted_kernel_name, symbol.demangled_kernel_name, symbol.kernel_name)
    name = next((name for name in names if isinstance(name, str) and name not in ("", "0")), "")
    return name.removesuffix(" [clone .kd]").removesuffix(".kd")


def _operation(kinds: Sequence[Sequence[str]], record: Copy) -> str:
    """Return what the file calls the direction of a copy."""
    if 0 <= record.kind < len(kinds) and 0 <= record.operation < len(kinds[record.kind]):
        return kinds[record.kind][record.operation]
    return ""


def _has_times(record: Counted) -> bool:
    data = record.dispatch_data
    return data.start_timestamp is not None and data.end_timestamp is not None


def _handles(given: Iterable[Handle | None]) -> pd.Series:
    return _integers(getattr(one, "handle", None) for one in given)


def _correlations(records: Iterable[Any]) -> pd.Series:
    """Return the correlation ids, missing where they are 0."""
    numbers = _integers(record.correlation_id.internal for record in records)
    return numbers.where(numbers > 0)


def _integers(values: Iterable[int | None]) -> pd.Series:
    """Return numbers as Int64, missing where None or beyond 64 bits."""
    numbers = list(values)
    try:
        return pd.Series(np.array(numbers, dtype=np.int64)).astype("Int64")
    except (TypeError, OverflowError):
        fit = [
            number if number is not None and FIRST <= number <= LAST else pd.NA
            for number in numbers
        ]
        return pd.Series(fit, dtype="Int64")
