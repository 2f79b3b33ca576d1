"""Chakra's protobuf: the wire format, nodes, arguments, and damage."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.errors import DataError
from flopcast.readers.execution_trace import (
    ExecutionTrace,
    is_chakra,
    is_execution_trace,
    read_chakra,
    read_execution_trace,
)
from flopcast.remarks import remark

INT64, BOOL, STRING, UINT64 = 9, 27, 29, 13


def varint(value: int) -> bytes:
    value %= 2**64
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name: str, kind: int, value: int | str | bytes) -> bytes:
    return field(1, name) + field(kind, value)


def node(number: int, name: str, *more: bytes, kind: int = 4) -> bytes:
    return field(1, number) + field(2, name) + field(3, kind) + b"".join(more)


def operator(number: int, name: str, rf_id: int, *more: bytes) -> bytes:
    tags = [
        attribute("is_cpu_op", BOOL, 1),
        attribute("rf_id", INT64, rf_id),
        attribute("seq_id", INT64, -1),
    ]
    return node(number, name, *more, *(field(10, tag) for tag in tags))


def kernel(number: int, name: str, parent: int, *tags: bytes) -> bytes:
    launched = [field(4, varint(parent)), field(7, 28), field(10, attribute("is_cpu_op", BOOL, 0))]
    return node(number, name, *launched, *(field(10, tag) for tag in tags), kind=7)


METADATA = (
    field(2, attribute("schema", STRING, "1.0.1"))
    + field(2, attribute("pid", UINT64, 4711))
    + field(2, attribute("time", STRING, "2023-12-14 11:55:01"))
)
ARGUMENTS = (
    field(1, "[[6, 7, 0, 32, 4, 'cuda:0'], \"it's\", True, None, (1, 2), -inf]")
    + field(2, "[[4, 8], [], [], [], [[], []], []]")
    + field(3, "['Tensor(float)', 'String', 'Bool', 'None', 'GenericList[Int,Int]', 'Double']")
)


def delimited(*messages: bytes) -> bytes:
    return b"".join(varint(len(message)) + message for message in messages)


def read_nodes(*nodes: bytes) -> ExecutionTrace:
    return read_chakra(delimited(METADATA, *nodes), "x.et")


def test_nodes_and_header(tmp_path: Path) -> None:
    message = operator(
        216, "aten::mul(1)", 110, field(4, varint(3)), field(7, 318), field(8, ARGUMENTS)
    )
    (tmp_path / "x.et").write_bytes(delimited(METADATA, message))
    trace = read_execution_trace(tmp_path / "x.et")
    assert (trace.schema, trace.pid, trace.time) == ("1.0.1", 4711, "2023-12-14 11:55:01")
    row = trace.nodes.iloc[0]
    assert (row["id"], row["rf_id"], row["parent"], row["name"]) == (216, 110, 3, "aten::mul")
    assert (row["duration_us"], row["on_cpu"]) == (318, True)
    assert json.loads(row["inputs"]) == {
        "dims": [[4, 8], [], [], [], [], []],
        "types": ["float", "", "Scalar", "", "ScalarList", "Scalar"],
        "strides": [],
        "values": ["", "", "True", "", "[1, 2]", "-inf"],
    }


def test_kernels_keep_their_name_and_carry_the_collective() -> None:
    comm = [attribute("comm_type", INT64, 5), attribute("comm_size", INT64, 212480)]
    table = read_nodes(kernel(435, "ncclKernel(int)(3)", 434, *comm), kernel(436, "add", 1)).nodes
    assert table["name"].tolist() == ["ncclKernel(int)(3)", "add"]
    assert table["rf_id"].isna().all()
    assert table["collective"].tolist() == ["broadcast", ""]
    assert table["collective_bytes"].fillna(-1).tolist() == [212480, -1]
    assert table["parent"].tolist() == [434, 1]
    assert table["on_cpu"].tolist() == [False, False]


@pytest.mark.parametrize(
    ("kind", "stated", "word"),
    [(7, 0, "allreduce"), (7, 2, "allgather"), (7, 7, "reduce_scatter"), (7, 99, "collective 99"), (5, None, "send"),
     (6, None, "recv"), (4, None, "")],
)  # fmt: skip
def test_words_of_collectives(kind: int, stated: int | None, word: str) -> None:
    tags = [field(10, attribute("comm_type", INT64, stated))] if stated is not None else []
    assert read_nodes(node(1, "k", *tags, kind=kind)).nodes["collective"].tolist() == [word]


@pytest.mark.parametrize(
    ("tag", "size"),
    [
        (field(INT64, 64), 64),
        (field(7, 64), 64),
        (field(17, 128), 64),
        (varint(21 << 3 | 1) + struct.pack("<Q", 64), 64),
        (varint(19 << 3 | 5) + struct.pack("<I", 64), 64),
        (field(STRING, "64"), -1),
        (varint(3 << 3 | 1) + struct.pack("<d", 64.0), -1),
    ],
)
def test_whole_numbers_of_every_kind(tag: bytes, size: int) -> None:
    table = read_nodes(node(1, "k", field(10, field(1, "comm_size") + tag))).nodes
    assert table["collective_bytes"].fillna(-1).tolist() == [size]


def test_unknown_fields_are_passed_over_and_absent_ones_missing() -> None:
    odd = (
        field(77, 5)
        + varint(78 << 3 | 5)
        + b"1234"
        + varint(79 << 3 | 1)
        + b"12345678"
        + field(80, b"\xff\xff")
    )
    row = read_nodes(field(2, "bare") + odd).nodes.iloc[0]
    assert (row["id"], row["name"], row["inputs"]) == (0, "bare", "")
    assert row[["rf_id", "parent", "duration_us", "on_cpu", "collective_bytes"]].isna().all()


def test_arguments_that_are_no_literals_are_left_out_with_a_note() -> None:
    texts = field(1, "[1, 2") + field(2, "[[]]") + field(3, "['Int']")
    trace = read_nodes(node(1, "a", field(8, texts)), node(2, "b"))
    assert trace.nodes["inputs"].tolist() == ["", ""]
    assert trace.notes == (remark("arguments-left-out", trace="x.et", nodes=1),)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (delimited(METADATA, node(1, "a"))[:-3], r"message 1 .*3 bytes"),
        (
            delimited(METADATA, node(1, "a")) + b"\x05\x0c\x00\x00\x00\x00",
            "message 3 .*wire type 4",
        ),
        (delimited(METADATA, field(1, 1) + b"\x12\x7fa"), r"message 2 .*longer"),
        (delimited(METADATA, field(2, b"\xff\xfe")), "message 2 .*utf-8"),
        (delimited(METADATA) + b"\xff" * 12, "message 1 .*does not end"),
        (delimited(METADATA, varint(4 << 3 | 2) + b"\x01\xff"), "message 2 .*does not end"),
    ],
)
def test_damage_names_the_message(data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_chakra(data, "x.et")
    assert caught.value.source == "x.et"


def test_the_beginning_tells() -> None:
    versioned = delimited(field(1, "0.0.4"), field(2, "no id"))
    assert is_chakra(versioned)
    assert read_chakra(versioned, "x.et").schema == "0.0.4"
    assert is_execution_trace(delimited(METADATA, node(1, "a"))[:120])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"SQLite format 3\x00" + bytes(200),
        b"\x1f\x8b\x08\x00" + bytes(50),
        b'{"schema": "1.0.1"}',
        b"op,m,n,k,us\ngemm,1,2,3,4\n",
        METADATA,
        delimited(METADATA),
        delimited(METADATA)[:40],
        delimited(field(2, attribute("other", STRING, "1.0.1")), node(1, "a")),
        delimited(field(1, "any"), node(1, "a")),
        delimited(METADATA, field(3, 1)),
    ],
)
def test_other_files_are_not_chakra(data: bytes) -> None:
    assert not is_chakra(data)


@settings(max_examples=40, deadline=None)
@given(place=st.integers(0, 10**6), change=st.binary(max_size=3), cut=st.integers(0, 3))
def test_any_damage_is_a_data_error_or_nothing(place: int, change: bytes, cut: int) -> None:
    whole = delimited(METADATA, operator(5, "a(0)", 2, field(8, ARGUMENTS)), kernel(6, "k", 5))
    place %= len(whole)
    damaged = whole[:place] + change + whole[place + cut :]
    is_chakra(damaged)
    with suppress(DataError):
        assert len(read_chakra(damaged, "x.et").nodes) <= 3


def test_a_real_file(shared_data: Path, tmp_path: Path) -> None:
    packed = io.BytesIO(
        (shared_data / "profiles" / "chakra" / "feeder_tests_trace.tar.gz").read_bytes()
    )
    with tarfile.open(fileobj=packed) as archived:
        member = next(entry for entry in archived if entry.name.endswith(".et"))
        found = archived.extractfile(member)
        assert found is not None
        (tmp_path / "chakra.0.et").write_bytes(found.read())
    assert is_execution_trace((tmp_path / "chakra.0.et").read_bytes()[:65536])
    trace = read_execution_trace(tmp_path / "chakra.0.et")
    assert (trace.schema, trace.pid, len(trace.nodes) + 1) == ("1.0.1", 114598, 3665)
    table = trace.nodes
    assert (table["id"].nunique(), int(table["duration_us"].sum()), table["rf_id"].nunique()) == (
        3664,
        381795,
        1232,
    )
    assert table["collective"].value_counts().to_dict() == {
        "": 3657,
        "allreduce": 5,
        "broadcast": 2,
    }
    assert table.loc[table["collective"] != "", "collective_bytes"].tolist()[:2] == [
        53120 * 4,
        53 * 8,
    ]
    assert int(table["inputs"].ne("").sum()) == 3664
    assert trace.notes == ()
