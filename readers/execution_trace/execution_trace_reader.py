"""Execution traces: JSON of PyTorch's ExecutionTraceObserver, and Chakra's protobuf made of it.

An execution trace has what a profiler's trace may lack (arguments of every operator, collectives), and no times of the
GPU: it is joined to the profiler's trace of the same run.

The JSON is an object with `schema`, `pid`, `time`, `start_ts`, `nodes` and `finish_ts`. In schema 1.0.1 (2023)
a node is flat: `id`, `rf_id`, `parent`, `name`, `inputs`, `input_shapes`, `input_types`, and more. From
1.0.2-chakra.0.0.4 on (2024) it has `id`, `name`, `ctrl_deps` (the parent), `inputs` as `{"values", "shapes",
"types"}` (with "strides" since 1.1.1) and `attrs`, a list of `{"name", "type", "value"}`: `rf_id` always; on
`record_param_comms` since 1.1.0 the collective; `kernel_backend` and `kernel_file` where Inductor compiled the kernel.
Schemas 1.0.1, 1.0.2, 1.0.3, 1.1.0 and 1.1.1 were seen. The other file is described in `chakra`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ...errors import DataError
from ..base import MAX_BYTES
from ..files import content
from .chakra import is_chakra, read_chakra
from .joining import JoinReport, join
from .nodes import ExecutionTrace, NodeColumns, int64, op_inputs, trace_of

__all__ = ["ExecutionTrace", "JoinReport", "is_execution_trace", "join", "read_execution_trace"]

_SCHEMA = re.compile(rb'\s*\{.{0,4096}?"schema"\s*:\s*"\d+\.\d+\.\d+[^"\s]*"', re.DOTALL)
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


def read_execution_trace(path: Path, *, max_bytes: int = MAX_BYTES) -> ExecutionTrace:
    """Return what an execution trace holds.

    Parameters
    ----------
    path : Path
        ExecutionTraceObserver's JSON or a Chakra `.et`, plain or compressed (gzip, bzip2).
    max_bytes : int
        Limit of the decompressed size.

    Returns
    -------
    ExecutionTrace
        Its nodes, in the order of the file.

    Raises
    ------
    DataError
        The file cannot be opened, is larger, is cut short, or is not an execution trace.
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
    columns.inputs.append(_inputs(node))
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


def _inputs(node: _Node) -> str | None:
    if bytes(memoryview(node.inputs)[:1]) == b"{":
        given = _ARGUMENTS.decode(node.inputs)
        return op_inputs(given.values, given.shapes, given.types, given.strides)
    values, shapes, types = (_LIST.decode(side) for side in (node.inputs, node.input_shapes, node.input_types))
    return op_inputs(values, shapes, types)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
