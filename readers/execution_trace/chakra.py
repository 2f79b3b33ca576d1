r"""Chakra execution traces (github.com/mlcommons/chakra, `.et`): protobuf messages, each preceded by its length.

The first message is the `GlobalMetadata`, every other a `Node` (`schema/protobuf/et_def.proto`). Those made from a
PyTorch run by `chakra_converter` repeat the observer's header as attributes of the metadata, have its arguments as
Python literals, and whole microseconds: a kernel of 3.7 us lasts 3. Operators are cut into pieces around the kernels
they launch, "aten::cat(0)", "aten::cat(1)"; the number is dropped here, and `rf_id` is that of the call. Kernels are
nodes of their own, with `is_cpu_op` false, no `rf_id`, and the piece that launched them as parent; those of collectives
have the attributes `comm_type` and `comm_size` (bytes of the input of a rank: of an all-gather the message is as many
times that as there are ranks, `pg_size` where it is stated). One file of the converter of 2024 was seen; the wire
format is decoded as far as the fields used, without protobuf's library, and unknown fields are passed over.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from ...errors import DataError
from .nodes import ExecutionTrace, NodeColumns, int64, op_inputs, storages, trace_of

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
#: Fields of `Node`.
_ID, _NAME, _TYPE, _PARENTS, _WAITS, _DURATION, _INPUTS, _ATTRIBUTE = 1, 2, 3, 4, 5, 7, 8, 10
#: `NodeType`: point-to-point messages have no `comm_type`.
_POINT_TO_POINT = {5: "send", 6: "recv"}
#: `CollectiveCommType`, under the names that PyTorch gives the same collectives.
_COLLECTIVES = {
    0: "allreduce", 1: "reduce", 2: "allgather", 3: "gather", 4: "scatter", 5: "broadcast", 6: "all_to_all",
    7: "reduce_scatter", 8: "reduce_scatter", 9: "barrier",
}  # fmt: skip
#: Fields of `AttributeProto` with one whole number; those with "zigzag" encoding apart.
_INTEGERS, _ZIGZAG, _BOOL, _STRING = frozenset({7, 9, 11, 13}), frozenset({15, 17}), 27, 29
_FIXED = {19: "<I", 21: "<Q", 23: "<i", 25: "<q"}
_SIZES = ("comm_size", "pg_size")
_PIECE = re.compile(r"\(\d+\)$")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_TOKEN = re.compile(
    r"'((?:[^'\\]|\\.)*+)(?:'|\\?\Z)|\"((?:[^\"\\]|\\.)*+)(?:\"|\\?\Z)|\b(?:True|False|None)\b|[()]|-?\b(?:inf|nan)\b"
)
_JSON = {"True": "true", "False": "false", "None": "null", "(": "[", ")": "]"}
#: What JSON would want escaped.
_UNSAFE = re.compile(r'["\\\x00-\x1f]')
_LIST = msgspec.json.Decoder(list[object])
_LONGEST_VARINT = 10


class _WireError(ValueError):
    """The bytes are no message."""


def is_chakra(head: bytes) -> bool:
    """Return whether the beginning of a file's content is that of a Chakra trace.

    The metadata must be whole, hold nothing but a version and attributes, of which one is the version or the `schema`,
    and be followed by a node.
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
    """Return what a Chakra trace (see :func:`is_chakra`) holds; a DataError if a message is cut short or damaged."""
    columns = NodeColumns()
    version, header = "", dict[str, object]()
    number = 0
    try:
        for number, message in enumerate(_messages(data), 1):
            if number == 1:
                version, header = _metadata(message)
            else:
                _add(columns, message)
    except (_WireError, UnicodeDecodeError) as error:
        raise DataError(
            f"message {number} of the Chakra trace or the next is damaged ({error})", source=source
        ) from error
    schema, time = (value if isinstance(value, str) else "" for value in (header.get("schema"), header.get("time")))
    return trace_of(schema or version, int64(header.get("pid")), time, columns, source)


def _messages(data: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(data):
        size, place = _varint(data, place)
        if place + size > len(data):
            raise _WireError(f"the file ends {place + size - len(data)} bytes too early")
        yield data[place : place + size]
        place += size


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message."""
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
    version, attributes = "", dict[str, object]()
    for field, value in _fields(message):
        if field not in (1, 2) or not isinstance(value, bytes):
            raise _WireError(f"field {field} in the metadata")
        if field == 1:
            version = value.decode()
        else:
            attributes |= [_attribute(value)]
    return version, attributes


def _attribute(message: bytes) -> tuple[str, object]:
    """Return name and value of an attribute; None for lists and other values of no use here."""
    name = ""
    found: object = None
    for field, value in _fields(message):
        if field == 1 and isinstance(value, bytes):
            name = value.decode()
        elif field == _STRING and isinstance(value, bytes):
            found = value.decode()
        elif field in _FIXED and isinstance(value, bytes) and len(value) == struct.calcsize(_FIXED[field]):
            found = struct.unpack(_FIXED[field], value)[0]
        elif isinstance(value, int):
            found = _whole_number(field, value)
    return name, found


def _whole_number(field: int, value: int) -> int | bool | None:
    if field == _BOOL:
        return bool(value)
    if field in _ZIGZAG:
        return (value >> 1) ^ -(value & 1)
    return value - 2**64 if field in _INTEGERS and value >= 2**63 else value if field in _INTEGERS else None


def _add(columns: NodeColumns, message: bytes) -> None:
    """Add a node."""
    fields: dict[int, int | bytes] = {}
    attributes: dict[str, object] = {}
    waits: list[int] = []
    for field, value in _fields(message):
        if field == _ATTRIBUTE and isinstance(value, bytes):
            attributes |= [_attribute(value)]
        elif field == _WAITS:
            waits += _repeated(value)
        else:
            fields.setdefault(field, value)
    on_cpu = attributes.get("is_cpu_op")
    columns.id.append(int64(fields.get(_ID, 0)))
    columns.rf_id.append(int64(attributes.get("rf_id")))
    columns.parent.append(next(iter(_repeated(fields.get(_PARENTS, b""))), None))
    columns.name.append(_PIECE.sub("", _text(fields.get(_NAME))) if on_cpu is not False else _text(fields.get(_NAME)))
    inputs, memory = _inputs(fields.get(_INPUTS))
    columns.inputs.append(inputs)
    columns.storages.append(memory)
    columns.waits.append(tuple(waits))
    collective, size, ranks = _collective(fields.get(_TYPE), attributes), *map(int64, map(attributes.get, _SIZES))
    columns.collective.append(collective)
    columns.collective_bytes.append(size * ranks if collective == "allgather" and size and ranks else size)
    columns.elements.append(None)
    columns.dtype.append("")
    columns.group_size.append(ranks)
    columns.kernel_backend.append("")
    columns.kernel_file.append("")
    columns.duration_us.append(int64(fields.get(_DURATION)))
    columns.on_cpu.append(on_cpu if isinstance(on_cpu, bool) else None)


def _text(value: int | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else ""


def _repeated(value: int | bytes) -> list[int]:
    """Return repeated numbers, packed into bytes or one."""
    found, place = [], 0
    if not isinstance(value, bytes):
        return [value] if int64(value) is not None else []
    while place < len(value):
        number, place = _varint(value, place)
        if int64(number) is not None:
            found.append(number)
    return found


def _collective(kind: int | bytes | None, attributes: dict[str, object]) -> str:
    stated = int64(attributes.get("comm_type"))
    if stated is not None:
        return _COLLECTIVES.get(stated, f"collective {stated}")
    return _POINT_TO_POINT.get(kind, "") if isinstance(kind, int) else ""


def _inputs(message: int | bytes | None) -> tuple[str | None, tuple[int, ...]]:
    """Return the arguments of an `IOInfo`, and what memory they lie in."""
    if not isinstance(message, bytes):
        return "", ()
    texts = {field: value.decode() for field, value in _fields(message) if isinstance(value, bytes)}
    return _arguments(*(texts.get(field, "[]") for field in (1, 2, 3)))


@lru_cache(maxsize=64)
def _arguments(values: str, shapes: str, types: str) -> tuple[str | None, tuple[int, ...]]:
    """Return arguments written as Python literals; the pieces of one call, which follow each other, share them."""
    try:
        lists = [_LIST.decode(_TOKEN.sub(_as_json, side)) for side in (values, shapes, types)]
        return op_inputs(*lists), storages(lists[0], lists[2])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None, ()


def _as_json(token: re.Match[str]) -> str:
    """Return a word of a Python literal in JSON; what quotes and backslashes stand for is of no use."""
    quoted = token[1] if token[1] is not None else token[2]
    if quoted is not None:
        return f'"{_UNSAFE.sub("", quoted)}"'
    return _JSON.get(token[0], f'"{token[0]}"')
