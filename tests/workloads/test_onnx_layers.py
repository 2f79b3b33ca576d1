"""ONNX models as graphs of layers: what each node computes, what is no layer, and what waits for what."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flopcast.errors import DataError, FlopcastError, ParameterError
from flopcast.operators.operators import work_of
from flopcast.readers.onnx_model import OnnxModel, OnnxNode, Value, read_onnx
from flopcast.workloads import graph_files as module
from flopcast.workloads.forecasting import forecast
from flopcast.workloads.graph_files import onnx_layers
from flopcast.workloads.layer_graph import is_graph, read_layers


@pytest.fixture
def onnx() -> Any:
    """Return the package; skip where it is missing."""
    return pytest.importorskip("onnx", reason="onnx is not installed (pip install flopcast[onnx])")


def layer(
    op: str, inputs: list[tuple[int, ...]], output: tuple[int, ...], **attributes: Any
) -> dict[str, Any]:
    """Return the layer of one node on values of fp16."""
    names = [f"in{place}" for place in range(len(inputs))]
    values = {
        name: Value(dims, "fp16")
        for name, dims in zip([*names, "out"], [*inputs, output], strict=True)
    }
    node = OnnxNode(op, "", tuple(names), ("out",), attributes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            module, "read_onnx", lambda path, dims: OnnxModel((node,), values, frozenset())
        )
        (found,), _ = onnx_layers(Path("model.onnx"))
    assert found["dtype_a"] == "fp16"
    frame = pd.DataFrame([found]).drop(columns=["name", "after"]).assign(source="test")
    return {**found, "flops": float(work_of(frame).flops[0])}


@pytest.mark.parametrize(
    ("op", "inputs", "output", "attributes", "expected"),
    [
        ("MatMul", [(8, 128, 64), (64, 32)], (8, 128, 32), {}, {"op": "gemm", "m": 1024, "n": 32, "k": 64}),
        ("MatMul", [(8, 4, 16, 64), (8, 4, 64, 16)], (8, 4, 16, 16), {}, {"op": "batched_gemm", "batch": 32}),
        ("Gemm", [(64, 16), (32, 64), (32,)], (16, 32), {"transA": 1, "transB": 1}, {"m": 16, "n": 32, "k": 64}),
        ("Gemm", [(16, 64), (64, 32)], (16, 32), {}, {"m": 16, "n": 32, "k": 64, "flops": 65536}),
        (
            "Conv", [(2, 8, 20, 20), (16, 4, 3, 5)], (2, 16, 10, 20),
            {"strides": [2, 1], "pads": [1, 2, 1, 2], "group": 2},
            {"op": "conv", "fil_w": 5, "stride_h": 2, "pad_w": 2, "flops": 2 * 2 * 16 * 200 * 4 * 15},
        ),
        (
            "ConvTranspose", [(2, 16, 10, 10), (16, 8, 2, 2)], (2, 8, 20, 20), {"strides": [2, 2]},
            {"direction": "B", "in_channels": 8, "out_channels": 16, "in_h": 20, "flops": 2 * 2 * 16 * 100 * 8 * 4},
        ),
        (
            "Attention", [(2, 128, 256), (2, 128, 128), (2, 128, 128)], (2, 128, 256),
            {"q_num_heads": 8, "kv_num_heads": 4, "is_causal": 1},
            {"op": "attention", "heads": 8, "kv_heads": 4, "seq_q": 128, "head_dim": 32, "causal": 1},
        ),
        ("Attention", [(2, 8, 16, 32)] * 3, (2, 8, 16, 32), {}, {"batch": 2, "heads": 8, "seq_kv": 16}),
        ("LayerNormalization", [(2, 16, 32), (32,)], (2, 16, 32), {}, {"op": "layer_norm", "rows": 32, "cols": 32}),
        ("RMSNormalization", [(2, 4, 8), (32,)], (2, 4, 8), {"axis": 1}, {"op": "rms_norm", "rows": 2, "cols": 32}),
        ("BatchNormalization", [(2, 8, 5, 5)], (2, 8, 5, 5), {}, {"op": "batch_norm_inference", "rows": 8, "cols": 50}),
        ("InstanceNormalization", [(2, 8, 5, 5)], (2, 8, 5, 5), {}, {"op": "group_norm", "rows": 16, "cols": 25}),
        ("Softmax", [(2, 8, 16)], (2, 8, 16), {"axis": 1}, {"op": "softmax", "rows": 32, "cols": 8}),
        ("ReduceMean", [(2, 8, 16)], (2, 8, 1), {}, {"op": "reduction", "rows": 16, "cols": 16}),
        ("Add", [(2, 8, 16), (16,)], (2, 8, 16), {}, {"op": "elementwise", "elements_a": 256, "elements_b": 16}),
        ("Mul", [(2, 8), ()], (2, 8), {}, {"op": "elementwise", "inputs": 1, "elements_b": 0}),
        ("MaxPool", [(1, 8, 10, 10)], (1, 8, 5, 5), {}, {"op": "elementwise", "elements_a": 800, "rows": 40}),
        ("Transpose", [(2, 8)], (8, 2), {}, {"op": "copy", "rows": 8, "cols": 2}),
        ("Gather", [(1000, 64), (4, 16)], (4, 16, 64), {}, {"op": "gather", "rows": 64, "cols": 64}),
    ],
)  # fmt: skip
def test_nodes_are_operators(
    op: str, inputs: list[tuple[int, ...]], output: tuple[int, ...], attributes: Any, expected: Any
) -> None:
    found = layer(op, inputs, output, **attributes)
    assert {name: found[name] for name in expected} == expected


def test_layers_wait_for_the_values_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = (
        OnnxNode("Relu", "first", ("x",), ("a",)),
        OnnxNode("Reshape", "", ("a", "sizes"), ("b",)),
        OnnxNode("LSTM", "", ("b",), ("c",)),
        OnnxNode("Relu", "first", ("c",), ("d",)),
        OnnxNode("Relu", "", ("w",), ("v",)),
        OnnxNode("Add", "sum", ("d", "a"), ("e",)),
        OnnxNode("Relu", "", ("unknown",), ("f",)),
    )
    values = {name: Value((4, 8), "fp16") for name in "xabcdvwe"}
    monkeypatch.setattr(
        module, "read_onnx", lambda path, dims: OnnxModel(nodes, values, frozenset({"w", "sizes"}))
    )
    layers, (lost,) = onnx_layers(Path("x.onnx"))
    assert [(one["name"], one["after"]) for one in layers] == [
        ("first", []), ("Relu 4", ["first"]), ("sum", ["Relu 4", "first"]),
    ]  # fmt: skip
    assert (lost.values["calls"], lost.values["share"], lost.values["by"]) == (2, 0.4, "calls")
    monkeypatch.setattr(
        module, "read_onnx", lambda path, dims: OnnxModel(nodes[2:3], {}, frozenset())
    )
    with pytest.raises(DataError, match="no node"):
        onnx_layers(Path("x.onnx"))


def test_without_the_package_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    (tmp_path / "m.onnx").write_bytes(b"")
    with pytest.raises(FlopcastError, match="flopcast\\[onnx\\]"):
        forecast({"model": tmp_path / "m.onnx", "gpu": "MI300X"})


def test_sizes_are_for_onnx_and_whole(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("name,time_us\na,1\n", encoding="utf-8")
    for given in ("batch=8", {"batch": 8}, "batch=x", "batch"):
        with pytest.raises(ParameterError) as error:
            forecast({"model": tmp_path / "g.csv", "gpu": "MI300X", "dims": given})
        assert error.value.parameter == "dims"


def write_model(onnx: Any, folder: Path) -> Path:
    """Write a model whose batch is free and which computes a shape before it reshapes."""
    make, kind = onnx.helper, onnx.TensorProto
    half = onnx.helper.make_tensor("w", kind.FLOAT16, [16, 32], b"\0" * 1024, raw=True)
    parts = onnx.helper.make_tensor("parts", kind.INT64, [2], [4, 8])
    nodes = [
        make.make_node("MatMul", ["x", "w"], ["y"], name="product"),
        make.make_node("Shape", ["x"], ["shape"], end=1),
        make.make_node("Concat", ["shape", "parts"], ["wanted"], axis=0),
        make.make_node("Reshape", ["y", "wanted"], ["z"]),
        make.make_node("Transpose", ["z"], ["t"], perm=[0, 2, 1]),
        make.make_node("Own", ["t"], ["u"], domain="mine"),
        make.make_node("ConstantOfShape", ["huge"], ["zeros"]),  # nobody makes it
    ]
    given, made = (
        make.make_tensor_value_info(name, kind.FLOAT16, dims)
        for name, dims in (("x", ["batch", 16]), ("u", None))
    )
    huge = onnx.helper.make_tensor("huge", kind.INT64, [3], [2**20] * 3)
    graph = make.make_graph(nodes, "g", [given], [made], [half, parts, huge])
    path = folder / "model.onnx"
    onnx.save(
        make.make_model(
            graph, opset_imports=[make.make_opsetid("", 17), make.make_opsetid("mine", 1)]
        ),
        path,
    )
    return path


def test_a_model_with_a_free_size(onnx: Any, tmp_path: Path) -> None:
    path = write_model(onnx, tmp_path)
    assert is_graph(path)
    found = read_layers(path, {"batch": 6})
    assert [(one.name, one.op, one.after) for one in found.layers] == [
        ("product", "gemm", ()), ("Transpose 5", "copy", (0,)),
    ]  # fmt: skip
    assert [found.layers[0].sizes[name] for name in ("m", "n", "k", "dtype_a")] == [
        6,
        32,
        16,
        "fp16",
    ]
    assert [one.values["named"] for one in found.remarks] == [("1 Own",)]
    assert forecast({"model": path, "gpu": "MI300X", "dims": "batch=6"}).predicted > 0
    for wrong in ({}, {"batch": 6, "sequence": 3}):
        with pytest.raises(ParameterError, match="leaves free"):
            read_onnx(path, wrong)


def test_a_name_that_is_no_text(onnx: Any, tmp_path: Path) -> None:
    path = write_model(onnx, tmp_path)
    path.write_bytes(path.read_bytes().replace(b"Transpose", b"Trans\xffose"))
    found = read_layers(path, {"batch": 6})
    assert [one.name for one in found.layers] == ["product"]
    assert "Trans\ufffdose" in str(found.remarks[0])


def test_a_file_that_is_no_model(onnx: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"\xff" * 50)
    with pytest.raises(DataError, match="no ONNX model"):
        read_onnx(tmp_path / "bad.onnx")
