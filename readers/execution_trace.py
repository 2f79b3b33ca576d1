"""Execution traces: JSON of PyTorch's ExecutionTraceObserver, and Chakra's protobuf made of it.

An execution trace has what a profiler's trace may lack (arguments of every operator, collectives),
and no times of the GPU: `join` brings it to the profiler's trace of the same run.

The JSON is an object with `schema`, `pid`, `time`, `start_ts`, `nodes` and `finish_ts`. In schema
1.0.1 (2023) a node is flat: `id`, `rf_id`, `parent`, `name`, `inputs`, `input_shapes`,
`input_types`, and more. From 1.0.2-chakra.0.0.4 on (2024) it has `id`, `name`, `ctrl_deps` (the
parent), `inputs` as `{"values", "shapes", "types"}` (with "strides" since 1.1.1) and `attrs`, a
list of `{"name", "type", "value"}`: `rf_id` always; on `record_param_comms` since 1.1.0 the
collective; `kernel_backend` and `kernel_file` where Inductor compiled the kernel. Schemas 1.0.1,
1.0.2, 1.0.3, 1.1.0 and 1.1.1 were seen.

Chakra's files (github.com/mlcommons/chakra, `.et`) are protobuf messages, each preceded by its
length. The first is the `GlobalMetadata`, every other a `Node` (`schema/protobuf/et_def.proto`).
Those made from a PyTorch run by `chakra_converter` repeat the observer's header as attributes of
the metadata, have its arguments as Python literals, and whole microseconds: a kernel of 3.7 us
lasts 3. Operators are cut into pieces around the kernels they launch, "aten::cat(0)",
"aten::cat(1)"; the number is dropped here, and `rf_id` is that of the call. Kernels are nodes of
their own, with `is_cpu_op` false, no `rf_id`, and the piece that launched them as parent; those of
collectives have the attributes `comm_type` and `comm_size` (bytes of the input of a rank: of an
all-gather the message is as many times that as there are ranks, `pg_size` where it is stated). One
file of the converter of 2024 was seen; the wire format is decoded as far as the fields used,
without protobuf's library, and unknown fields are passed over.
"""

from __future__ import annotations

import re
import struct
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pandas as pd

from ..errors import DataError
from ..operators.work import BITS, canonical_dtypes
from ..remarks import Remark, remark
from ..table.measurements import as_text
from ..traces.dispatches import KERNEL, Finding, Trace
from .base import TRACE_BYTES
from .files import content
from .words import vocabulary

_RECORD = "record_param_comms"
LAUNCH = "nccl:"
_LIMIT = 2**63 - 1
_LIST = msgspec.json.Decoder(list[Any])


@dataclass(frozen=True)
class ExecutionTrace:
    """The operators one process ran, in the order in which they ended, as PyTorch's observer recorded them.

    `schema` is the version of the layout ("1.0.1", "1.1.0-chakra.0.0.4"), `time` when it was
    recorded, in the local time of that machine, `notes` what was left out. `nodes` has one row per
    node: `id`; `rf_id`, the number under which PyTorch counted the call (missing for threads, for
    the process and for kernels); `parent`, the `id` of the enclosing node (a root is its own
    parent; no promise is made that the links end); `name`; `inputs`, the JSON text of the dispatch
    table's `op_inputs`, "" where there are none; `collective`, `collective_bytes` and `group_size`
    as in the dispatch table; `kernel_backend` and `kernel_file` of a call of a compiled kernel
    ("triton"); `duration_us`, whole microseconds, and `on_cpu`, both missing except in Chakra
    files; `storages`, what tells apart the memory that the tensors among the arguments lie in, and
    `waits`, the `id` of nodes whose data it needs (Chakra): tuples of integers. `spread` is the
    standard deviation of the logarithm of times that are a forecast, which flopcast writes (else
    0).
    """

    schema: str
    pid: int | None
    time: str
    nodes: pd.DataFrame
    source: str
    notes: Sequence[Remark] = ()
    spread: float = 0.0


Node = dict[str, Any]
"""A node: its columns, of which those that it lacks are missing."""
_COUNTS = ("id", "rf_id", "parent", "group_size", "duration_us")
_TEXTS = ("name", "inputs", "collective", "kernel_backend", "kernel_file")
_LISTS = ("storages", "waits")
_STATED = ("collective_bytes", "elements", "dtype", "on_cpu")


def trace_of(
    schema: str,
    pid: int | None,
    time: str,
    nodes: Sequence[Node],
    source: str,
) -> ExecutionTrace:
    """Return the execution trace of these nodes.

    `inputs` is None where they cannot be read; `elements` with `dtype` may stand for
    `collective_bytes`.
    """
    given = pd.DataFrame(nodes, columns=[*_COUNTS, *_TEXTS, *_LISTS, *_STATED], dtype=object)
    table = given[[*_COUNTS]].astype("Int64")
    for name in _TEXTS:
        table[name] = as_text(given[name])
    table["rf_id"] = table["rf_id"].mask((table["rf_id"] <= 0).fillna(False))
    bits = canonical_dtypes(as_text(given["dtype"])).map(BITS).astype("Float64")
    sizes = given["elements"].astype("Float64") * bits / 8
    counted = pd.Series(np.ceil(sizes.to_numpy(dtype=float, na_value=np.nan)))
    stated = given["collective_bytes"].astype("Int64")
    table["collective_bytes"] = stated.fillna(counted.where(counted < 2.0**53).astype("Int64"))
    table["on_cpu"] = given["on_cpu"].astype("boolean")
    for name in _LISTS:
        table[name] = given[name]
    unread = sum(node["inputs"] is None for node in nodes)
    text = f"{source}: arguments that do not fit their types are left out (nodes: {unread})"
    notes = []
    if unread:
        notes.append(
            remark(
                "arguments-left-out",
                text,
                trace=source,
                nodes=unread,
            )
        )
    # PyTorch describes a collective on `record_param_comms` and launches it in that node's child
    # "nccl:...".
    described = table[
        (table["name"] == _RECORD) & (table["collective"] != "") & table["id"].notna()
    ]
    described = described.drop_duplicates("id").set_index("id")
    launches = (
        table["name"].str.startswith(LAUNCH) & (table["collective"] == "") & table["parent"].notna()
    )
    rows = launches & table["parent"].isin(described.index)
    parents = described.loc[table["parent"][rows].to_numpy(dtype=np.int64)]
    for name in ("collective", "collective_bytes", "group_size"):
        table.loc[rows, name] = parents[name].array
    return ExecutionTrace(
        schema,
        pid,
        time,
        table,
        source,
        tuple(notes),
    )


def int64(value: object) -> int | None:
    """Return an integer that a column can hold, None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LIMIT:
        return value
    return None


# Arguments: the observer names types by TorchScript ("Tensor(float)", "GenericList[Int,Int]",
# "None") and gives every argument a value: a tensor's is its identity `[tensor_id, storage_id,
# offset, numel, itemsize, device]`, None is "<None>". The profiler of the same PyTorch says the
# type of a tensor's elements, "Scalar", "ScalarList", "TensorList" or "", has sizes for tensors
# only, and values, as text, for numbers and lists of numbers only. The latter is what the dispatch
# table holds, so that one reader of operator calls serves both. The observer rounds floats to six
# decimals: an epsilon of 1e-12 is recorded as 0.

_TENSOR = re.compile(r"Tensor\((.*)\)")
_GENERIC_LIST = re.compile(r"GenericList\[(.*)\]", re.DOTALL)
_NUMBERS = frozenset({"Int", "Double", "Bool", "SymInt", "SymFloat", "SymBool", "Scalar"})
_UNDEFINED = "nullptr (uninitialized)"
_NONE = "<None>"


def op_inputs(
    values: Sequence[Any],
    shapes: Sequence[Any],
    types: Sequence[Any],
    strides: Sequence[Any] = (),
) -> str | None:
    """Return the JSON text of the dispatch table's `op_inputs`: lists "dims", "types", "strides" and "values".

    One entry per argument, as the observer writes them; strides since schema 1.1.1, before they are
    empty, and they may be shorter. "" for a call without arguments, None where the lists do not fit
    each other.
    """
    if not len(values) == len(shapes) == len(types):
        return None
    if not types:
        return ""
    kinds = [_kind(kind) if isinstance(kind, str) else "" for kind in types]
    if strides:
        padded = [*strides, *[[]] * (len(kinds) - len(strides))][: len(kinds)]
    else:
        padded = []
    call = {
        "dims": [_sizes(kind, shape) for kind, shape in zip(kinds, shapes, strict=True)],
        "types": kinds,
        "strides": [_sizes(kind, stride) for kind, stride in zip(kinds, padded, strict=False)],
        "values": [_value(kind, value) for kind, value in zip(kinds, values, strict=True)],
    }
    return msgspec.json.encode(call).decode()


def storages(values: Sequence[Any], types: Sequence[Any]) -> tuple[int, ...]:
    """Return the storage ids of the tensors among the arguments, including lists of tensors."""
    tensors = [
        value
        for value, kind in zip(values, types, strict=False)
        if isinstance(kind, str) and "Tensor(" in kind
    ]
    members: list[Any] = []
    for value in tensors:
        nested = isinstance(value, list) and any(isinstance(part, list) for part in value)
        members += _members(value) if nested else [value]
    identities = (one[1] for one in members if isinstance(one, list) and len(one) > 1)
    return tuple(dict.fromkeys(one for one in identities if int64(one) is not None))


@lru_cache(maxsize=4096)
def _kind(written: str) -> str:
    """Return the profiler's word for a type of the observer."""
    tensor = _TENSOR.fullmatch(written)
    if tensor:
        if tensor[1] == _UNDEFINED:
            return ""
        return tensor[1]
    if "Tensor(" in written:
        return "TensorList"
    members = _GENERIC_LIST.fullmatch(written)
    if members:
        if not members[1] or set(members[1].split(",")) <= _NUMBERS:
            return "ScalarList"
        return ""
    if written in _NUMBERS:
        return "Scalar"
    return ""


def _sizes(kind: str, shape: Any) -> list[Any]:
    """Return the sizes (or strides) of a tensor or of the tensors of a list; else nothing."""
    if kind in ("", "Scalar", "ScalarList") or not isinstance(shape, list):
        return []
    if kind == "TensorList":
        return _members(shape)
    return shape


def _members(shape: list[Any]) -> list[Any]:
    """Return one list per tensor; nested lists of tensors are flattened."""
    while True:
        inner = list(chain.from_iterable(member for member in shape if isinstance(member, list)))
        if not any(isinstance(size, list) for size in inner):
            return shape
        shape = inner


def _value(kind: str, value: Any) -> str:
    if kind == "ScalarList" and isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    if kind == "Scalar":
        return _scalar(value)
    return ""


def _scalar(value: Any) -> str:
    """Return a number as the profiler writes it; only special numbers ("inf") become text."""
    if value != _NONE and isinstance(value, bool | int | float | str):
        return str(value)
    return ""


# Chakra's protobuf.

_VARINT = 0
_EIGHT = 1
_BYTES = 2
_FOUR = 5
#: Fields of `Node`.
_ID = 1
_NAME = 2
_TYPE = 3
_PARENTS = 4
_WAITS = 5
_DURATION = 7
_INPUTS = 8
_ATTRIBUTE = 10
#: `NodeType`: point-to-point messages have no `comm_type`.
_POINT_TO_POINT = {5: "send", 6: "recv"}
#: `CollectiveCommType`, under the names that PyTorch gives the same collectives.
_COLLECTIVES = vocabulary("chakra_collectives")
#: Fields of `AttributeProto` with one whole number; those with "zigzag" encoding apart.
_INTEGERS = frozenset({7, 9, 11, 13})
_ZIGZAG = frozenset({15, 17})
_BOOL = 27
_STRING = 29
_FIXED = {
    19: "<I",
    21: "<Q",
    23: "<i",
    25: "<q",
}
_PIECE = re.compile(r"\(\d+\)$")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_TOKEN = re.compile(
    r"'((?:[^'\\]|\\.)*+)(?:'|\\?\Z)|\"((?:[^\"\\]|\\.)*+)(?:\"|\\?\Z)|\b(?:True|False|None)\b|[()]|-?\b(?:inf|nan)\b"
)
_JSON = {
    "True": "true",
    "False": "false",
    "None": "null",
    "(": "[",
    ")": "]",
}
#: What JSON would want escaped.
_UNSAFE = re.compile(r'["\\\x00-\x1f]')
_LONGEST_VARINT = 10


class _WireError(ValueError):
    """The bytes are not a valid message."""


def is_chakra(head: bytes) -> bool:
    """Return whether the beginning of a file's content is that of a Chakra trace.

    The metadata must be whole, hold nothing but a version and attributes, of which one is the
    version or the `schema`, and be followed by a node.
    """
    try:
        size, start = _varint(head, 0)
        metadata = head[start : start + size]
        if not size or len(metadata) < size:
            return False
        version, attributes = _metadata(metadata)
        following = _varint(head, start + size)[1]
    except (_WireError, UnicodeDecodeError):
        return False
    stated = bool(_VERSION.match(version)) or isinstance(attributes.get("schema"), str)
    return stated and head[following : following + 1] in (b"\x08", b"\x12")


def read_chakra(data: bytes, source: str) -> ExecutionTrace:
    """Return the contents of a Chakra trace (see :func:`is_chakra`); a DataError if a message is damaged."""
    nodes = list[Node]()
    version = ""
    header = dict[str, object]()
    number = 0
    try:
        place = 0
        while place < len(data):
            size, place = _varint(data, place)
            if place + size > len(data):
                raise _WireError(f"the file ends {place + size - len(data)} bytes too early")
            message = data[place : place + size]
            place = place + size
            number = number + 1
            if number == 1:
                version, header = _metadata(message)
            else:
                nodes.append(_node(message))
    except (_WireError, UnicodeDecodeError) as error:
        raise DataError(
            f"message {number} of the Chakra trace or the next is damaged ({error})", source=source
        ) from error
    schema = _word(header.get("schema"))
    time = _word(header.get("time"))
    try:
        spread = float(str(header.get("spread", 0.0)))
    except ValueError:
        spread = 0.0
    trace = trace_of(
        schema or version,
        int64(header.get("pid")),
        time,
        nodes,
        source,
    )
    return replace(trace, spread=spread if 0.0 <= spread < 10.0 else 0.0)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        wire = tag & 7
        if wire == _VARINT:
            value, place = _varint(message, place)
            yield tag >> 3, value
            continue
        size = {_EIGHT: 8, _FOUR: 4}.get(wire, 0)
        if wire == _BYTES:
            size, place = _varint(message, place)
        elif not size:
            raise _WireError(f"wire type {wire}")
        if place + size > len(message):
            raise _WireError("a field is longer than its message")
        yield tag >> 3, message[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place, seven bits a byte, the lowest first, and the place after it."""
    value = 0
    for offset, byte in enumerate(data[place : place + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * offset)
        if byte < 0x80:
            return value, place + offset + 1
    raise _WireError("a number does not end")


def _metadata(message: bytes) -> tuple[str, dict[str, object]]:
    """Return the version and the attributes of `GlobalMetadata`."""
    version = ""
    attributes = dict[str, object]()
    for key, value in _fields(message):
        if key not in (1, 2) or not isinstance(value, bytes):
            raise _WireError(f"field {key} in the metadata")
        if key == 1:
            version = value.decode()
        else:
            attributes |= [_attribute(value)]
    return version, attributes


def _attribute(message: bytes) -> tuple[str, object]:
    """Return name and value of an attribute; None for lists and other unused values."""
    name = ""
    decoded: object = None
    for key, value in _fields(message):
        if key == 1 and isinstance(value, bytes):
            name = value.decode()
        elif key == _STRING and isinstance(value, bytes):
            decoded = value.decode()
        elif (
            key in _FIXED
            and isinstance(value, bytes)
            and len(value) == struct.calcsize(_FIXED[key])
        ):
            decoded = struct.unpack(_FIXED[key], value)[0]
        elif isinstance(value, int):
            decoded = _whole_number(key, value)
    return name, decoded


def _whole_number(key: int, value: int) -> int | bool | None:
    if key == _BOOL:
        return bool(value)
    if key in _ZIGZAG:
        return (value >> 1) ^ -(value & 1)
    if key in _INTEGERS and value >= 2**63:
        return value - 2**64
    if key in _INTEGERS:
        return value
    return None


def _node(message: bytes) -> Node:
    """Return a node of a Chakra trace."""
    fields: dict[int, int | bytes] = {}
    attributes: dict[str, object] = {}
    waits: list[int] = []
    for key, value in _fields(message):
        if key == _ATTRIBUTE and isinstance(value, bytes):
            attributes |= [_attribute(value)]
        elif key == _WAITS:
            waits += _repeated(value)
        else:
            fields.setdefault(key, value)
    on_cpu = attributes.get("is_cpu_op")
    name = _text(fields.get(_NAME))
    described = fields.get(_INPUTS)
    texts = dict[int, str]()
    inputs: str | None = ""
    memory: tuple[int, ...] = ()
    if isinstance(described, bytes):
        for key, value in _fields(described):
            if isinstance(value, bytes):
                texts[key] = value.decode()
        inputs, memory = _arguments(*(texts.get(key, "[]") for key in (1, 2, 3)))
    if on_cpu is not False:
        name = _PIECE.sub("", name)
    kind = fields.get(_TYPE)
    stated = int64(attributes.get("comm_type"))
    collective = ""
    if isinstance(kind, int):
        collective = _POINT_TO_POINT.get(kind, "")
    if stated is not None:
        collective = _COLLECTIVES.get(str(stated), f"collective {stated}")
    size = int64(attributes.get("comm_size"))
    ranks = int64(attributes.get("pg_size"))
    if collective == "allgather" and size and ranks:
        size *= ranks
    return {
        "id": int64(fields.get(_ID, 0)),
        "rf_id": int64(attributes.get("rf_id")),
        "parent": next(iter(_repeated(fields.get(_PARENTS, b""))), None),
        "name": name,
        "inputs": inputs,
        "storages": memory,
        "waits": tuple(waits),
        "collective": collective,
        "collective_bytes": size,
        "group_size": ranks,
        "duration_us": int64(fields.get(_DURATION)),
        "on_cpu": on_cpu if isinstance(on_cpu, bool) else None,
    }


def _text(value: int | bytes | None) -> str:
    if isinstance(value, bytes):
        return value.decode()
    return ""


def _repeated(value: int | bytes) -> list[int]:
    """Return repeated numbers, packed or single."""
    numbers = []
    place = 0
    if not isinstance(value, bytes):
        if int64(value) is not None:
            return [value]
        return []
    while place < len(value):
        number, place = _varint(value, place)
        if int64(number) is not None:
            numbers.append(number)
    return numbers


@lru_cache(maxsize=64)
def _arguments(values: str, shapes: str, types: str) -> tuple[str | None, tuple[int, ...]]:
    """Return arguments written as Python literals; the nodes of one call, which are adjacent, share them."""
    try:
        lists = [_LIST.decode(_TOKEN.sub(_as_json, side)) for side in (values, shapes, types)]
        return op_inputs(*lists), storages(lists[0], lists[2])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None, ()


def _as_json(token: re.Match[str]) -> str:
    """Return a word of a Python literal in JSON; the content of quoted strings is not needed."""
    if token[1] is not None:
        quoted = token[1]
    else:
        quoted = token[2]
    if quoted is not None:
        return f'"{_UNSAFE.sub("", quoted)}"'
    return _JSON.get(token[0], f'"{token[0]}"')


# The observer's JSON.

_SCHEMA = re.compile(rb'\s*+\{.{0,4096}?"schema"\s*+:\s*+"\d++\.\d++\.\d[^"\s]*+"', re.DOTALL)
_NODES = re.compile(rb'"nodes"\s*:\s*\[\s*\{')
#: Numbers that are none, as older observers write them outside of quotes.
_BARE = re.compile(rb"(?<=[\[,:\s])-?(?:inf|nan)(?=\s*[,\]}])")
_DAMAGE = (msgspec.MsgspecError, UnicodeError, RecursionError)
_Id = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_NOTHING = msgspec.Raw(b"[]")


class _Attribute(msgspec.Struct, gc=False):
    name: str
    value: Any = None


class _Node(msgspec.Struct, gc=False):
    """A node of either layout; its arguments stay bytes until used."""

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
_ARGUMENTS = msgspec.json.Decoder(_Arguments)


def is_execution_trace(head: bytes) -> bool:
    """Return whether the beginning of a file's content is that of an execution trace, JSON or Chakra's protobuf."""
    if is_chakra(head):
        return True
    text = head.removeprefix(BOM_UTF8)
    return bool(_SCHEMA.match(text)) and bool(_NODES.search(text)) and b'"rf_id"' in text


def read_execution_trace(path: Path, *, max_bytes: int = TRACE_BYTES) -> ExecutionTrace:
    """Return what an execution trace holds, its nodes in the order of the file.

    The file is ExecutionTraceObserver's JSON or a Chakra `.et`, plain or compressed (gzip, bzip2).
    Raises DataError where it cannot be opened, has more than `max_bytes` once decompressed, is cut
    short, or is not an execution trace.
    """
    data = content(path, max_bytes=max_bytes)
    if is_chakra(data):
        return read_chakra(data, str(path))
    document = _decoded(data.removeprefix(BOM_UTF8), str(path))
    nodes = list[Node]()
    for number, node in enumerate(document.nodes, 1):
        try:
            nodes.append(_observed(node))
        except _DAMAGE as error:
            raise DataError(
                f"node {number} of the execution trace cannot be read ({error})", source=str(path)
            ) from error
    return trace_of(
        document.schema,
        document.pid,
        document.time,
        nodes,
        str(path),
    )


def _observed(node: _Node) -> Node:
    """Return a node of the observer; what it says of its arguments is decoded."""
    attributes = {attribute.name: attribute.value for attribute in node.attrs}
    if bytes(memoryview(node.inputs)[:1]) == b"{":
        given = _ARGUMENTS.decode(node.inputs)
    else:
        sides = (node.inputs, node.input_shapes, node.input_types)
        given = _Arguments(*map(_LIST.decode, sides))
    counts = [int64(attributes.get(f"{way}_msg_nelems")) for way in ("in", "out")]
    return {
        "id": node.id,
        "rf_id": int64(attributes.get("rf_id")) if node.rf_id is None else node.rf_id,
        "parent": node.ctrl_deps if node.parent is None else node.parent,
        "name": node.name,
        "inputs": op_inputs(
            given.values,
            given.shapes,
            given.types,
            given.strides,
        ),
        "storages": storages(given.values, given.types),
        "waits": (),
        "collective": _word(attributes.get("collective_name")),
        "elements": max((count for count in counts if count is not None), default=None),
        "dtype": _word(attributes.get("dtype")),
        "group_size": int64(attributes.get("pg_size")),
        "kernel_backend": _word(attributes.get("kernel_backend")),
        "kernel_file": _word(attributes.get("kernel_file")),
    }


def _decoded(data: bytes, source: str) -> _Document:
    try:
        return _DOCUMENT.decode(data)
    except _DAMAGE as error:
        quoted, bare = _BARE.subn(rb'"\g<0>"', data)
        if bare:
            return _decoded(quoted, source)
        advice = "stop the observer before the program ends, or record it again"
        raise DataError(
            f"not a whole execution trace ({error}): {advice}", source=source
        ) from error


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return ""


# The operators of a profiler's trace with the arguments that the execution trace of the same run
# has.

SAME_RUN = 0.95
"""Share of the calls in both, by number, that must bear the same name: 1 where the numbers
correspond; up to 0.24 was seen where they do not, as networks repeat their layers."""
OTHER_RUN = "execution-trace-other-run"
#: Kernels of NCCL and RCCL ("ncclDevKernel_Generic", "ncclKernel_AllReduce_RING", "mscclKernel_Sum"): copies that an
#: operator makes beside its collective have none of its bytes.
_COLLECTIVE_KERNEL = r"(?i)(?:nccl|rccl|msccl)"


@dataclass(frozen=True)
class JoinReport:
    """How a trace and an execution trace match, and whether they were `joined` as one run.

    `calls` are the operator calls in both by their number, `agreeing` those that have the
    same name in both, `filled` the activities of the GPU that got arguments or a collective.
    `same_process` is None where one of the files does not say; `finding` says why they were not
    joined.
    """

    joined: bool
    calls: int
    agreeing: int
    filled: int
    same_process: bool | None
    finding: Finding | None = None


def join(trace: Trace, other: ExecutionTrace) -> tuple[Trace, JoinReport]:
    """Return the trace with the operator calls of the execution trace added, and how well the two match.

    Calls are the same where `op_id` equals `rf_id` and the operator has the same name. The profiler
    writes that number as "Record function id" (seen in 2024, not in 2023). Its "External id" equals
    it only in short runs, up to 512 calls of the first thread: these ids are given out to threads
    in blocks. A pair that has no more than them, and is longer, is not joined.

    `op_inputs`, `collective`, `collective_bytes` and `group_size` are filled where they were
    missing, nothing is replaced, and a note is added. The dispatches stay the same, with the
    finding `execution-trace-other-run`, if the process is another one or less than `SAME_RUN` of
    the calls in both agree.
    """
    table = trace.dispatches
    named = other.nodes[other.nodes["rf_id"].notna()].drop_duplicates(["rf_id", "name"])
    single = named[~named["rf_id"].duplicated(keep=False)]
    calls = single.set_index(single["rf_id"].astype(np.int64))
    processes = table["process"].dropna()
    same_process = None
    if other.pid is not None and len(processes):
        same_process = bool((processes == other.pid).any())
    place = calls.index.get_indexer(pd.Index(table["op_id"].fillna(0).to_numpy(dtype=np.int64)))
    if other.pid is not None:
        place[(table["process"] != other.pid).fillna(False).to_numpy(dtype=bool)] = -1
    agrees = (place >= 0) & (
        _taken(calls["name"], place) == as_text(table["op_name"]).to_numpy(dtype=object)
    )
    shared, agreeing = (table["op_id"][rows].nunique() for rows in (place >= 0, agrees))
    problem = _problem(same_process, shared, agreeing)
    if problem:
        finding = Finding(
            problem,
            "warning",
            1,
            source=other.source,
        )
        report = JoinReport(
            False,
            shared,
            agreeing,
            0,
            same_process,
            finding,
        )
        return replace(trace, findings=(*trace.findings, finding)), report
    place[~agrees] = -1
    columns, filled = _filled(table, calls, place)
    text = (
        f"{other.source}: arguments of operators taken from this execution trace for {filled} "
        f"activities ({agreeing} of {shared} calls agree)"
    )
    note = remark(
        "execution-trace-joined",
        text,
        trace=other.source,
        filled=filled,
        agreeing=agreeing,
        calls=shared,
    )
    joined = replace(
        trace, dispatches=table.assign(**columns), notes=(*trace.notes, *other.notes, note)
    )
    return joined, JoinReport(True, shared, agreeing, filled, same_process)


def _taken(column: pd.Series, place: np.ndarray) -> np.ndarray:
    """Return the value at each place, None at -1."""
    return np.array([*column, None], dtype=object)[place]


def _problem(same_process: bool | None, shared: int, agreeing: int) -> Remark | None:
    """Return why the two are not of one run, None if they are."""
    give = "give the execution trace recorded with this trace"
    if same_process is False:
        text = f"the execution trace is of another process and was not used: {give}"
        return remark(OTHER_RUN, text, why="process")
    if not shared:
        text = (
            f"the execution trace has none of this trace's operator calls and was not used: {give}"
        )
        return remark(OTHER_RUN, text, why="no calls")
    if agreeing < SAME_RUN * shared:
        text = (
            f"only {agreeing} of {shared} operator calls have the same name in the execution "
            "trace, and it was not "
            "used: it is of another run, or the profiler wrote no 'Record function id' (seen in "
            f"2023); {give}"
        )
        return remark(
            OTHER_RUN,
            text,
            why="names",
            agreeing=agreeing,
            calls=shared,
        )
    return None


def _filled(
    table: pd.DataFrame, calls: pd.DataFrame, place: np.ndarray
) -> tuple[dict[str, pd.Series], int]:
    """Return the columns with missing values filled, and the number of rows filled."""
    inputs, got = _words(table["op_inputs"], _taken(calls["inputs"], place))
    kernels = (table["kind"] == KERNEL) & as_text(table["name"]).str.contains(_COLLECTIVE_KERNEL)
    matched = np.where(kernels.to_numpy(dtype=bool), place, -1)
    names, named = _words(table["collective"], _taken(calls["collective"], matched))
    matched = np.where(
        as_text(names).to_numpy(dtype=object) == _taken(calls["collective"], matched), matched, -1
    )
    columns = {"op_inputs": inputs, "collective": names}
    touched = got | named
    for name in ("collective_bytes", "group_size"):
        taken = pd.Series(_taken(calls[name], matched), index=table.index).astype("Int64")
        touched |= (table[name].isna() & taken.notna()).to_numpy(dtype=bool)
        columns[name] = table[name].fillna(taken)
    return columns, int(touched.sum())


def _words(column: pd.Series, taken: np.ndarray) -> tuple[pd.Series, np.ndarray]:
    """Return the column with its empty words filled, and which rows were filled."""
    words = as_text(column)
    missing = words.eq("").to_numpy(dtype=bool) & np.array([*map(bool, taken)], dtype=bool)
    words = words.mask(missing, pd.Series(taken, index=words.index).astype("str"))
    if isinstance(column.dtype, pd.CategoricalDtype):
        words = words.astype("category")
    return words, missing
