"""What is written for simulators, read by protobuf's own library under Chakra's published schema.

The messages are those of ``schema/protobuf/et_def.proto`` (github.com/mlcommons/chakra, November 2026)
that a reader of traces takes; each is behind its length, as Chakra's ``protolib`` reads it. Neither Chakra
nor ASTRA-sim is on the package index (29 November 2026).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from flopcast.projection.chakra_export import SPREAD, Task, write_chakra

pytest.importorskip("google.protobuf", reason="protobuf is not installed (pip install protobuf)")
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32  # what Chakra's protolib takes

_KINDS: Final = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "double": descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "NodeType": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,  # an enum is a varint too
}
_SCHEMA: Final = {
    "AttributeProto": {
        1: "string name",
        3: "double double_val",
        9: "int64 int64_val",
        13: "uint64 uint64_val",
        27: "bool bool_val",
        29: "string string_val",
    },
    "GlobalMetadata": {1: "string version", 2: "repeated AttributeProto attr"},
    "Node": {
        1: "uint64 id",
        2: "string name",
        3: "NodeType type",
        4: "repeated uint64 ctrl_deps",
        5: "repeated uint64 data_deps",
        6: "uint64 start_time_micros",
        7: "uint64 duration_micros",
        10: "repeated AttributeProto attr",
    },
}


def messages() -> dict[str, Any]:
    """Return the classes of the schema's messages."""
    file = descriptor_pb2.FileDescriptorProto(
        name="et_def.proto", package="ChakraProtoMsg", syntax="proto3"
    )
    for name, fields in _SCHEMA.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for number, declared in fields.items():
            kind, field = declared.removeprefix("repeated ").split()
            label = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
            if declared.startswith("repeated "):
                label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
            added = message.field.add(name=field, number=number, label=label)
            if field.endswith("_val"):
                added.oneof_index = 0
            if kind in _KINDS:
                added.type = _KINDS[kind]
            else:
                added.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
                added.type_name = f".ChakraProtoMsg.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = {}
    for name in _SCHEMA:
        descriptor = pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}")
        classes[name] = message_factory.GetMessageClass(descriptor)
    return classes


def parts(path: Path) -> Iterator[bytes]:
    """Yield the messages of a file, each without its length."""
    content, place = path.read_bytes(), 0
    while place < len(content):
        length, place = _DecodeVarint32(content, place)
        yield content[place : place + length]
        place += length


def values(attributes: Any) -> dict[str, Any]:
    named = {}
    for one in attributes:
        named[one.name] = getattr(one, one.WhichOneof("value"))
    return named


def test_protobufs_own_library_reads_nodes_and_the_interval(tmp_path: Path) -> None:
    tasks = [
        Task(name="gemm", start_us=0.0, end_us=300.4, flops=2e9, moved_bytes=3e6),
        Task(
            name="all", start_us=300.4, end_us=900.0, after=(0,),
            collective="all_gather", message_bytes=8e6, ranks=8,
        ),
        Task(name="cpu", start_us=900.0, end_us=905.0, after=(0, 1), on_cpu=True),
    ]  # fmt: skip
    write_chakra(tmp_path, {3: tasks}, {SPREAD: "0.125"})
    classes = messages()
    head, *rest = parts(tmp_path / "chakra.3.et")
    metadata = classes["GlobalMetadata"].FromString(head)
    assert metadata.version == "0.0.4"
    assert values(metadata.attr)[SPREAD] == "0.125"
    nodes = [classes["Node"].FromString(part) for part in rest]
    assert [(node.id, node.name, node.type) for node in nodes] == [
        (0, "gemm", 4), (1, "all", 7), (2, "cpu", 4),
    ]  # fmt: skip
    assert [node.start_time_micros for node in nodes] == [0, 300, 900]
    assert [node.duration_micros for node in nodes] == [300, 600, 5]
    assert [[*node.data_deps, *node.ctrl_deps] for node in nodes] == [[], [0], [0, 1]]
    assert values(nodes[1].attr) == {
        "is_cpu_op": False, "comm_type": 2, "comm_size": 1_000_000, "pg_size": 8,
    }  # fmt: skip
    assert values(nodes[0].attr)["num_ops"] == 2_000_000_000
