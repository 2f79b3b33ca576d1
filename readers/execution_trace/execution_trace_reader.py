"""Execution traces: JSON of PyTorch's ExecutionTraceObserver, and Chakra's protobuf made of it.

An execution trace has what a profiler's trace may lack (arguments of every operator, collectives), and no times of the
GPU: `join` brings it to the profiler's trace of the same run.

The JSON is an object with `schema`, `pid`, `time`, `start_ts`, `nodes` and `finish_ts`. In schema 1.0.1 (2023)
a node is flat: `id`, `rf_id`, `parent`, `name`, `inputs`, `input_shapes`, `input_types`, and more. From
1.0.2-chakra.0.0.4 on (2024) it has `id`, `name`, `ctrl_deps` (the parent), `inputs` as `{"values", "shapes",
"types"}` (with "strides" since 1.1.1) and `attrs`, a list of `{"name", "type", "value"}`: `rf_id` always; on
`record_param_comms` since 1.1.0 the collective; `kernel_backend` and `kernel_file` where Inductor compiled the kernel.
Schemas 1.0.1, 1.0.2, 1.0.3, 1.1.0 and 1.1.1 were seen. The other file is described in `chakra`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pandas as pd

from ...errors import DataError
from ...remarks import Remark, remark
from ...table.measurements import as_text
from ...traces.dispatches import KERNEL, Finding, Trace
from ..base import TRACE_BYTES
from ..files import content
from .chakra import is_chakra, read_chakra
from .nodes import ExecutionTrace, NodeColumns, int64, op_inputs, storages, trace_of

__all__ = ["ExecutionTrace", "JoinReport", "is_execution_trace", "join", "read_execution_trace"]

_SCHEMA = re.compile(rb'\s*+\{.{0,4096}?"schema"\s*+:\s*+"\d++\.\d++\.\d[^"\s]*+"', re.DOTALL)
_NODES = re.compile(rb'"nodes"\s*:\s*\[\s*\{')
_BOM = b"\xef\xbb\xbf"
#: Numbers that are none, as older observers write them outside of quotes.
_BARE = re.compile(rb"(?<=[\[,:\s])-?(?:inf|nan)(?=\s*[,\]}])")
_DAMAGE = (msgspec.MsgspecError, UnicodeError, RecursionError)
_Id = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_NOTHING = msgspec.Raw(b"[]")


class _Attribute(msgspec.Struct, gc=False):
    name: str
    value: Any = None


class _Node(msgspec.Struct, gc=False):
    """A node of either layout; its arguments stay bytes until they are asked for."""

    id: _Id
    name: str
    rf_id: _Id | None = None
    parent: _Id | None = None
    ctrl_deps: _Id | None = None
    inputs: msgspec.Raw = _NOTHING
    input_shapes: msgspec.Raw = _NOTHING
    input_types: msgspec.Raw = _NOTHING
    attrs: list[_Attribute] = []


class _Arguments(msgspec.Struct, gc=False):
    values: list[Any] = []
    shapes: list[Any] = []
    types: list[Any] = []
    strides: list[Any] = []


class _Document(msgspec.Struct):
    schema: str
    nodes: list[_Node]
    pid: _Id | None = None
    time: str = ""


_DOCUMENT = msgspec.json.Decoder(_Document)
_LIST = msgspec.json.Decoder(list[Any])
_ARGUMENTS = msgspec.json.Decoder(_Arguments)


def is_execution_trace(head: bytes) -> bool:
    """Return whether the beginning of a file's content is that of an execution trace, JSON or Chakra's protobuf."""
    if is_chakra(head):
        return True
    text = head.removeprefix(_BOM)
    return bool(_SCHEMA.match(text)) and bool(_NODES.search(text)) and b'"rf_id"' in text


def read_execution_trace(path: Path, *, max_bytes: int = TRACE_BYTES) -> ExecutionTrace:
    """Return what an execution trace holds, its nodes in the order of the file.

    The file is ExecutionTraceObserver's JSON or a Chakra `.et`, plain or compressed (gzip, bzip2). Raises DataError
    where it cannot be opened, has more than `max_bytes` once decompressed, is cut short, or is not an execution trace.
    """
    data = content(path, max_bytes=max_bytes)
    if is_chakra(data):
        return read_chakra(data, str(path))
    document = _decoded(data.removeprefix(_BOM), str(path))
    columns = NodeColumns()
    for number, node in enumerate(document.nodes, 1):
        try:
            _add(columns, node)
        except _DAMAGE as error:
            raise DataError(
                f"node {number} of the execution trace cannot be read ({error})", source=str(path)
            ) from error
    return trace_of(document.schema, document.pid, document.time, columns, str(path))


def _decoded(data: bytes, source: str) -> _Document:
    try:
        return _DOCUMENT.decode(data)
    except _DAMAGE as error:
        quoted, bare = _BARE.subn(rb'"\g<0>"', data)
        if bare:
            return _decoded(quoted, source)
        advice = "stop the observer before the program ends, or record it again"
        raise DataError(f"not a whole execution trace ({error}): {advice}", source=source) from error


def _add(columns: NodeColumns, node: _Node) -> None:
    """Add a node of either layout."""
    known = {attribute.name: attribute.value for attribute in node.attrs}
    columns.id.append(node.id)
    columns.rf_id.append(int64(known.get("rf_id")) if node.rf_id is None else node.rf_id)
    columns.parent.append(node.ctrl_deps if node.parent is None else node.parent)
    columns.name.append(node.name)
    inputs, memory = _inputs(node)
    columns.inputs.append(inputs)
    columns.storages.append(memory)
    columns.waits.append(())
    columns.collective.append(_word(known.get("collective_name")))
    columns.collective_bytes.append(None)
    sides = [side for name in ("in_msg_nelems", "out_msg_nelems") if (side := int64(known.get(name))) is not None]
    columns.elements.append(max(sides, default=None))
    columns.dtype.append(_word(known.get("dtype")))
    columns.group_size.append(int64(known.get("pg_size")))
    columns.kernel_backend.append(_word(known.get("kernel_backend")))
    columns.kernel_file.append(_word(known.get("kernel_file")))
    columns.duration_us.append(None)
    columns.on_cpu.append(None)


def _inputs(node: _Node) -> tuple[str | None, tuple[int, ...]]:
    """Return the arguments as the dispatch table has them, and what memory they lie in."""
    if bytes(memoryview(node.inputs)[:1]) == b"{":
        given = _ARGUMENTS.decode(node.inputs)
        return op_inputs(given.values, given.shapes, given.types, given.strides), storages(given.values, given.types)
    values, shapes, types = (_LIST.decode(side) for side in (node.inputs, node.input_shapes, node.input_types))
    return op_inputs(values, shapes, types), storages(values, types)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


# The operators of a profiler's trace with the arguments that the execution trace of the same run has.

SAME_RUN = 0.95
"""Share of the calls found in both, by number, that must bear the same name: 1 where the numbers correspond; up to 0.24
was seen where they do not, as networks repeat their layers."""
OTHER_RUN = "execution-trace-other-run"
#: Kernels of NCCL and RCCL ("ncclDevKernel_Generic", "ncclKernel_AllReduce_RING", "mscclKernel_Sum"): copies that an
#: operator makes beside its collective have none of its bytes.
_COLLECTIVE_KERNEL = r"(?i)(?:nccl|rccl|msccl)"


@dataclass(frozen=True)
class JoinReport:
    """How a trace and an execution trace fit each other, and whether they were `joined` as of one run.

    `calls` are the operator calls found in both by their number, `agreeing` those that have the same name in both,
    `filled` the activities of the GPU that got arguments or a collective. `same_process` is None where one of the files
    does not say; `finding` says why they were not joined.
    """

    joined: bool
    calls: int
    agreeing: int
    filled: int
    same_process: bool | None
    finding: Finding | None = None


def join(trace: Trace, other: ExecutionTrace) -> tuple[Trace, JoinReport]:
    """Return the trace with what the execution trace knows of its operator calls, and how the two fit.

    Calls are the same where `op_id` equals `rf_id` and the operator has the same name. The profiler writes that number
    as "Record function id" (seen in 2024, not in 2023). Its "External id" equals it only in short runs, up to 512 calls
    of the first thread: these ids are given out to threads in blocks. A pair that has no more than them, and is longer,
    is not joined.

    `op_inputs`, `collective`, `collective_bytes` and `group_size` are filled where they were missing, nothing is
    replaced, and a note is added. The dispatches stay the same, with the finding `execution-trace-other-run`, if the
    process is another one or less than `SAME_RUN` of the calls found in both agree.
    """
    table = trace.dispatches
    calls = _calls(other.nodes)
    same_process = _same_process(table["process"], other.pid)
    place = _places(table, calls, other.pid)
    agrees = (place >= 0) & (_taken(calls["name"], place) == as_text(table["op_name"]).to_numpy(dtype=object))
    shared, agreeing = (table["op_id"][rows].nunique() for rows in (place >= 0, agrees))
    problem = _problem(same_process, shared, agreeing)
    if problem:
        finding = Finding(problem, "warning", 1, source=other.source)
        report = JoinReport(False, shared, agreeing, 0, same_process, finding)
        return replace(trace, findings=(*trace.findings, finding)), report
    place[~agrees] = -1
    columns, filled = _filled(table, calls, place)
    note = remark(
        "execution-trace-joined",
        f"{other.source}: arguments of operators taken from this execution trace for {filled} "
        f"activities ({agreeing} of {shared} calls agree)",
        trace=other.source,
        filled=filled,
        agreeing=agreeing,
        calls=shared,
    )
    joined = replace(trace, dispatches=table.assign(**columns), notes=(*trace.notes, *other.notes, note))
    return joined, JoinReport(True, shared, agreeing, filled, same_process)


def _calls(nodes: pd.DataFrame) -> pd.DataFrame:
    """Return one row per number of a call; a number under which there are different operators is left out."""
    named = nodes[nodes["rf_id"].notna()].drop_duplicates(["rf_id", "name"])
    single = named[~named["rf_id"].duplicated(keep=False)]
    return single.set_index(single["rf_id"].astype(np.int64))


def _same_process(processes: pd.Series, pid: int | None) -> bool | None:
    known = processes.dropna()
    return None if pid is None or known.empty else bool((known == pid).any())


def _places(table: pd.DataFrame, calls: pd.DataFrame, pid: int | None) -> np.ndarray:
    """Return the position among the calls of the one that each activity belongs to, -1 where there is none."""
    place = calls.index.get_indexer(pd.Index(table["op_id"].fillna(0).to_numpy(dtype=np.int64)))
    if pid is not None:
        place[(table["process"] != pid).fillna(False).to_numpy(dtype=bool)] = -1
    return place


def _taken(column: pd.Series, place: np.ndarray) -> np.ndarray:
    """Return the value at each place, None at -1."""
    return np.array([*column, None], dtype=object)[place]


def _problem(same_process: bool | None, shared: int, agreeing: int) -> Remark | None:
    """Return why the two are not of one run, None if they are."""
    give = "give the execution trace recorded with this trace"
    if same_process is False:
        return remark(OTHER_RUN, f"the execution trace is of another process and was not used: {give}", why="process")
    if not shared:
        text = f"the execution trace has none of this trace's operator calls and was not used: {give}"
        return remark(OTHER_RUN, text, why="no calls")
    if agreeing < SAME_RUN * shared:
        text = (
            f"only {agreeing} of {shared} operator calls have the same name in the execution trace, and it was not "
            f"used: it is of another run, or the profiler wrote no 'Record function id' (seen in 2023); {give}"
        )
        return remark(OTHER_RUN, text, why="names", agreeing=agreeing, calls=shared)
    return None


def _filled(table: pd.DataFrame, calls: pd.DataFrame, place: np.ndarray) -> tuple[dict[str, pd.Series], int]:
    """Return the columns with what was missing in them, and in how many rows something was."""
    inputs, got = _words(table["op_inputs"], _taken(calls["inputs"], place))
    kernels = (table["kind"] == KERNEL) & as_text(table["name"]).str.contains(_COLLECTIVE_KERNEL)
    there = np.where(kernels.to_numpy(dtype=bool), place, -1)
    names, named = _words(table["collective"], _taken(calls["collective"], there))
    there = np.where(as_text(names).to_numpy(dtype=object) == _taken(calls["collective"], there), there, -1)
    columns, touched = {"op_inputs": inputs, "collective": names}, got | named
    for name in ("collective_bytes", "group_size"):
        known = pd.Series(_taken(calls[name], there), index=table.index).astype("Int64")
        touched |= (table[name].isna() & known.notna()).to_numpy(dtype=bool)
        columns[name] = table[name].fillna(known)
    return columns, int(touched.sum())


def _words(column: pd.Series, found: np.ndarray) -> tuple[pd.Series, np.ndarray]:
    """Return the column with the words found where it had none, and where that was."""
    own = as_text(column)
    missing = (own == "").to_numpy(dtype=bool) & np.array([bool(word) for word in found], dtype=bool)
    words = own.mask(missing, pd.Series(found, index=own.index).astype("str"))
    return (words.astype("category") if isinstance(column.dtype, pd.CategoricalDtype) else words), missing
