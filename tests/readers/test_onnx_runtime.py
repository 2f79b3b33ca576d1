"""Profiles of ONNX Runtime: products with the sum of their kernels' times; others are refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import flopcast as fc
from flopcast.errors import DataError


def node(operator: str, *shapes: list[int], kind: str = "float16") -> dict[str, Any]:
    """Return an event of a node."""
    inputs = [{kind: shape} for shape in shapes]
    arguments = {
        "op_name": operator,
        "provider": "ROCMExecutionProvider",
        "input_type_shape": inputs,
    }
    event = {"cat": "Node", "pid": 1, "tid": 1, "dur": 70, "ts": 1, "ph": "X"}
    return event | {"name": f"{operator}_0_kernel_time", "args": arguments}


def kernel(name: str, microseconds: float) -> dict[str, Any]:
    """Return an event of a kernel."""
    event = {"cat": "Kernel", "pid": 1, "tid": 2, "dur": microseconds, "ts": 2, "ph": "X"}
    return event | {"name": name, "args": {"stream": "0x1"}}


EVENTS = [
    {"cat": "Session", "pid": 1, "tid": 1, "dur": 5, "ts": 0, "ph": "X", "name": "model_loading"},
    node("MatMul", [1024, 512], [512, 256]),
    kernel("Cijk_x", 50),
    kernel("Cijk_reduce", 5),
    node("MatMul", [2, 8, 64, 32], [2, 8, 32, 64], kind="float"),
    kernel("bmm_x", 7),
    node("Gemm", [16, 512], [256, 512], [256]),
    kernel("gemv_x", 9),
    node("Softmax", [16, 512]),
    kernel("softmax_x", 3),
    node("MatMul", [64, 64], [64, 64]),
]


def test_a_product_takes_the_sum_of_its_kernels(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(EVENTS))
    table = fc.read(file, default={"device": "MI300X"})
    frame = table.frame.sort_values("duration_us")
    assert frame["duration_us"].tolist() == [7.0, 9.0, 55.0]
    assert frame["op"].tolist() == ["batched_gemm", "gemm", "gemm"]
    assert frame["m"].tolist() == [64, 16, 1024]
    assert frame["n"].tolist() == [64, 256, 256]
    assert frame["k"].tolist() == [32, 512, 512]
    assert frame["dtype_a"].tolist() == ["fp32", "fp16", "fp16"]
    assert sorted(table.rejected["reason"]) == ["no-duration", "not-a-gemm"]


def test_a_profile_without_a_node_is_said(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(EVENTS[:1]))
    with pytest.raises(DataError, match="no node ran"):
        fc.read(file)
