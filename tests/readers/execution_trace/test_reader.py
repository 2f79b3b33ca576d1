"""Execution traces of PyTorch: both layouts, arguments in the profiler's words, what cannot be read."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.errors import DataError
from flopcast.readers.execution_trace import (
    ExecutionTrace,
    is_execution_trace,
    read_execution_trace,
)
from flopcast.remarks import remark

TENSOR = [[6, 7, 0, 32, 2, "cuda:0"], [8, 9, 0, 16, 2, "cuda:0"], 1.5, "<None>"]
SHAPES = [[4, 8], [16], [], []]
TYPES = ["Tensor(c10::BFloat16)", "Tensor(c10::BFloat16)", "Double", "None"]
CALL = {
    "dims": [[4, 8], [16], [], []],
    "types": ["c10::BFloat16", "c10::BFloat16", "Scalar", ""],
    "strides": [],
    "values": ["", "", "1.5", ""],
}


def flat(number: int, name: str = "aten::mul", **fields: Any) -> dict[str, Any]:
    """Return a node of schema 1.0.1."""
    inputs = {"inputs": TENSOR, "input_shapes": SHAPES, "input_types": TYPES}
    node = {
        "name": name,
        "id": number,
        "rf_id": number - 1,
        "parent": 1,
        "fw_parent": 0,
        "seq_id": -1,
        "scope": 0,
    }
    return {
        **node,
        "tid": 1,
        "op_schema": "",
        **inputs,
        "outputs": [],
        "output_shapes": [],
        **fields,
    }


def tagged(
    number: int, name: str = "aten::mul", inputs: Any = None, parent: int = 1, **tags: Any
) -> dict[str, Any]:
    """Return a node of schema 1.0.2 and later."""
    attributes = {"rf_id": number - 1, "seq_id": -1, "op_schema": "", **tags}
    attrs = [{"name": key, "type": "uint64", "value": value} for key, value in attributes.items()]
    given_inputs = (
        inputs if inputs is not None else {"values": TENSOR, "shapes": SHAPES, "types": TYPES}
    )
    nothing = {"values": [], "shapes": [], "types": []}
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": given_inputs,
        "outputs": nothing,
        "attrs": attrs,
    }


def document(*nodes: dict[str, Any], schema: str = "1.1.0-chakra.0.0.4") -> str:
    header = {"schema": schema, "pid": 4711, "time": "2024-04-29 16:23:47", "start_ts": 1}
    return json.dumps({**header, "nodes": list(nodes), "finish_ts": 2})


def read_text(folder: Path, text: str, name: str = "et.json") -> ExecutionTrace:
    (folder / name).write_text(text, encoding="utf-8")
    return read_execution_trace(folder / name)


def one_call(
    folder: Path, values: list[Any], shapes: list[Any], types: list[Any], **more: Any
) -> dict[str, Any]:
    """Return the arguments of one call as read."""
    node = tagged(2, inputs={"values": values, "shapes": shapes, "types": types, **more})
    return json.loads(read_text(folder, document(node)).nodes["inputs"][0])


@pytest.mark.parametrize(("schema", "make"), [("1.0.1", flat), ("1.0.3-chakra.0.0.4", tagged)])
def test_both_layouts_say_the_same(tmp_path: Path, schema: str, make: Any) -> None:
    trace = read_text(tmp_path, document(make(1, "process"), make(3), schema=schema))
    assert (trace.schema, trace.pid, trace.time) == (schema, 4711, "2024-04-29 16:23:47")
    assert trace.source == str(tmp_path / "et.json")
    assert trace.nodes[["id", "parent"]].to_numpy().tolist() == [[1, 1], [3, 1]]
    assert trace.nodes["rf_id"].isna().tolist() == [True, False]
    assert trace.nodes["rf_id"][1] == 2
    assert trace.nodes["name"].tolist() == ["process", "aten::mul"]
    assert json.loads(trace.nodes["inputs"][1]) == CALL
    assert trace.notes == ()


def test_numbers_and_lists_are_words_of_the_profiler(tmp_path: Path) -> None:
    values = [[1, -1], [True, False], 6, False, "<None>", "cuda:0", [], "inf", "text"]
    lists = ["GenericList[Int,Int]", "GenericList[Bool,Bool]"]
    types = [*lists, "Int", "Bool", "Int", "Device", "GenericList[]", "Double", "String"]
    call = one_call(tmp_path, values, [[[], []], [[], []], [], [], [], [], [], [], []], types)
    assert call["values"] == ["[1, -1]", "[True, False]", "6", "False", "", "", "[]", "inf", ""]
    assert call["types"] == [
        "ScalarList",
        "ScalarList",
        "Scalar",
        "Scalar",
        "Scalar",
        "",
        "ScalarList",
        "Scalar",
        "",
    ]
    assert call["dims"] == [[]] * 9


@pytest.mark.parametrize(
    ("kind", "shape", "word", "dims"),
    [
        ("GenericList[Tensor(float),Tensor(float)]", [[2, 3], [4]], "TensorList", [[2, 3], [4]]),
        ("GenericList[Tensor(long),None]", [[5], []], "TensorList", [[5], []]),
        (
            "GenericList[GenericList[Tensor(float),Tensor(float)]]",
            [[[1], [2, 2]]],
            "TensorList",
            [[1], [2, 2]],
        ),
        ("GenericList[Tensor(float)]", [[]], "TensorList", [[]]),
        ("Tensor(nullptr (uninitialized))", [0], "", []),
        ("Tensor(unsigned char)", [], "unsigned char", []),
        ("GenericList[String]", [[]], "", []),
        (["no", "word"], [], "", []),
    ],
)
def test_lists_of_tensors_and_tensors_that_are_none(
    tmp_path: Path, kind: Any, shape: list[Any], word: str, dims: list[Any]
) -> None:
    call = one_call(tmp_path, [[]], [shape], [kind])
    assert (call["types"], call["dims"], call["values"]) == ([word], [dims], [""])


def test_strides_are_kept_where_they_are_recorded(tmp_path: Path) -> None:
    types = ["Tensor(float)", "Int", "Int"]
    call = one_call(tmp_path, [[1], 2, 3], [[4, 8], [], []], types, strides=[[8, 1], []])
    assert call["strides"] == [[8, 1], [], []]


def test_arguments_that_do_not_fit_their_types_are_left_out_with_a_note(tmp_path: Path) -> None:
    nodes = [tagged(2, inputs={"values": [1], "shapes": [], "types": ["Int"]}), tagged(3)]
    trace = read_text(tmp_path, document(*nodes))
    assert trace.nodes["inputs"].eq("").tolist() == [True, False]
    assert trace.notes == (remark("arguments-left-out", trace=trace.source, nodes=1),)


def test_a_collective_is_on_its_record_and_on_what_it_launches(tmp_path: Path) -> None:
    tags = {
        "collective_name": "_allgather_base",
        "dtype": "BFloat16",
        "in_msg_nelems": 10,
        "out_msg_nelems": 80,
    }
    nodes = [
        tagged(5, "nccl:_all_gather_base", parent=4),
        tagged(6, "aten::copy_", parent=4),
        tagged(4, "record_param_comms", parent=3, pg_size=8, **tags),
        tagged(
            7,
            "record_param_comms",
            collective_name="allreduce",
            dtype="ComplexFloat",
            in_msg_nelems=10,
        ),
    ]
    table = read_text(tmp_path, document(*nodes)).nodes
    assert table["collective"].tolist() == ["_allgather_base", "", "_allgather_base", "allreduce"]
    assert table["collective_bytes"].fillna(-1).tolist() == [160, -1, 160, -1]
    assert table["group_size"].fillna(-1).tolist() == [8, -1, 8, -1]


def test_compiled_kernels_name_their_file(tmp_path: Path) -> None:
    node = tagged(
        9, "triton_poi_fused_add_0", kernel_backend="triton", kernel_file="cabc.py", pg_size="two"
    )
    row = read_text(tmp_path, document(node)).nodes.iloc[0]
    assert (row["kernel_backend"], row["kernel_file"]) == ("triton", "cabc.py")


def test_compressed_and_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "et.json.gz").write_bytes(
        gzip.compress(b"\xef\xbb\xbf" + document(tagged(2)).encode())
    )
    assert len(read_execution_trace(tmp_path / "et.json.gz").nodes) == 1
    with pytest.raises(DataError, match="raise the limit"):
        read_execution_trace(tmp_path / "et.json.gz", max_bytes=100)


def test_infinity_outside_of_quotes(tmp_path: Path) -> None:
    text = document(
        flat(2, inputs=[0, 0, "HERE", "HERE"], input_types=["Int", "Int", "Double", "Double"])
    )
    node = read_text(tmp_path, text.replace('"HERE", "HERE"', "-inf, nan")).nodes.iloc[0]
    assert json.loads(node["inputs"])["values"] == ["0", "0", "-inf", "nan"]


def test_a_file_without_nodes_is_empty(tmp_path: Path) -> None:
    assert read_text(tmp_path, document()).nodes.empty


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (document(tagged(2))[:-200], r"whole execution trace .*truncated.*record"),
        ("", "truncated"),
        ("[]", "Expected `object`"),
        (document({**tagged(2), "id": "two"}), r"nodes\[0\].id"),
        (document({**tagged(2), "id": 2**64}), r"nodes\[0\].id"),
        (document({**flat(2), "parent": 1.5}), r"nodes\[0\].parent"),
        (document({**tagged(2), "attrs": [3]}), "attrs"),
        (document({**tagged(2), "name": None}), "name"),
        (document(tagged(2), tagged(3, inputs="what")), "node 2"),
        (document(tagged(2, inputs={"values": 5})), "node 1"),
        (document(tagged(2)).replace("[4, 8]", "[" * 5000), "not a whole execution trace"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_text(tmp_path, text)
    assert caught.value.source == str(tmp_path / "et.json")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "schema", ["1.0.1", "1.0.2-chakra.0.0.4", "1.0.3-chakra.0.0.4", "1.1.0-chakra.0.0.4", "1.1.1"]
)
def test_the_beginning_tells(schema: str) -> None:
    text = document(tagged(2), schema=schema)
    assert is_execution_trace(text.encode())
    assert is_execution_trace(
        b"\xef\xbb\xbf \n" + json.dumps(json.loads(text), indent=1).encode()[:-40]
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [{"name": "rf_id", "args": {"schema": "1.0.1"}}]}',
        '{"schema": "1.0.1", "nodes": [{"id": 1}]}',
        '{"schema": "https://json-schema.org/1.0.1", "nodes": [{"rf_id": 1}]}',
        '{"schema": "1.0.1", "rf_id": [], "nodes": []}',
        "op,m,n,k,us\ngemm,1,2,3,4\n",
        "SQLite format 3\x00",
    ],
)
def test_other_files_are_not_execution_traces(text: str) -> None:
    assert not is_execution_trace(text.encode())


@settings(max_examples=40, deadline=None)
@given(place=st.integers(0, 10**6), byte=st.binary(max_size=3), cut=st.integers(0, 3))
def test_damage_is_a_data_error_or_nothing(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: bytes, cut: int
) -> None:
    whole = document(
        flat(1), tagged(3, "record_param_comms", collective_name="allreduce", dtype="Float")
    ).encode()
    place %= len(whole)
    damaged = whole[:place] + byte + whole[place + cut :]
    path = tmp_path_factory.mktemp("damage") / "et.json"
    path.write_bytes(damaged)
    is_execution_trace(damaged)
    with suppress(DataError):
        assert len(read_execution_trace(path).nodes) <= 2


@pytest.mark.parametrize(
    ("file", "schema", "pid", "nodes", "calls", "with_inputs"),
    [
        ("hta_benchmark_simple_add_et.json.gz", "1.0.1", 563677, 38, 36, 28),
        ("param_linear_et.json.gz", "1.0.1", 24248, 931, 928, 818),
        ("param_resnet_1gpu_et.json.gz", "1.0.3-chakra.0.0.4", 3233936, 14391, 14388, 13341),
        ("param_resnet_2gpu_et.json.gz", "1.1.0-chakra.0.0.4", 2254958, 14392, 14389, 13342),
        ("param_resnet_et.json.gz", "1.1.0-chakra.0.0.4", 1734239, 14392, 14389, 13342),
    ],
)
def test_real_traces(
    shared_data: Path, file: str, schema: str, pid: int, nodes: int, calls: int, with_inputs: int
) -> None:
    trace = read_execution_trace(shared_data / "profiles" / "chakra" / file)
    assert (trace.schema, trace.pid, len(trace.nodes)) == (schema, pid, nodes)
    assert trace.nodes["rf_id"].nunique() == calls
    assert int(trace.nodes["inputs"].ne("").sum()) == with_inputs
    assert trace.notes == ()


def test_real_collectives(shared_data: Path) -> None:
    table = read_execution_trace(
        shared_data / "profiles" / "chakra" / "param_resnet_2gpu_et.json.gz"
    ).nodes
    records = table[table["name"] == "record_param_comms"]
    assert records["collective"].value_counts().to_dict() == {
        "allreduce": 15,
        "broadcast": 6,
        "wait": 6,
    }
    launched = table[table["name"].isin(["nccl:all_reduce", "nccl:broadcast"])]
    moved = records[records["collective"] != "wait"]
    assert launched["collective_bytes"].tolist() == moved["collective_bytes"].tolist()
    assert launched["collective_bytes"].iloc[0] == 53120 * 4
    assert set(launched["group_size"]) == {2}


@pytest.mark.parametrize(
    ("archive", "member", "schema", "nodes"),
    [
        ("1.0.2-chakra.0.0.4.tgz", "1.0.2-chakra.0.0.4.json", "1.0.2-chakra.0.0.4", 263),
        ("param_pt2_et.json.tar.gz", "pt2_et.json", "1.1.1-chakra.0.0.4", 20),
    ],
)
def test_real_traces_that_come_packed(
    shared_data: Path, tmp_path: Path, archive: str, member: str, schema: str, nodes: int
) -> None:
    packed = io.BytesIO((shared_data / "profiles" / "chakra" / archive).read_bytes())
    with tarfile.open(fileobj=packed) as archived:
        found = archived.extractfile(member)
        assert found is not None
        trace = read_text(tmp_path, found.read().decode())
    assert is_execution_trace((tmp_path / "et.json").read_bytes()[:65536])
    assert (trace.schema, len(trace.nodes)) == (schema, nodes)
