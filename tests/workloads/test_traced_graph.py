"""Execution traces as workloads: which calls count, what waits for what, and what is told of the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import flopcast as fc
from flopcast.errors import DataError, ParameterError
from flopcast.tests.commands import running
from flopcast.workloads.forecasting import forecast
from flopcast.workloads.layer_graph import LayerGraph, is_graph, read_layers


def call(
    number: int, name: str, *shapes: list[int], parent: int = 1, memory: int = 0, **tags: Any
) -> dict[str, Any]:
    """Return a call on fp16 tensors of these shapes, all in one storage."""
    tensor = [number, memory or number, 0, 1, 2, "cuda:0"]
    inputs = {
        "values": [tensor for _ in shapes],
        "shapes": shapes,
        "types": ["Tensor(c10::Half)" for _ in shapes],
    }
    attrs = [
        {"name": key, "type": "", "value": value}
        for key, value in {"rf_id": number, **tags}.items()
    ]
    return {
        "id": number,
        "name": name,
        "ctrl_deps": parent,
        "inputs": inputs,
        "outputs": {},
        "attrs": attrs,
    }


def message(number: int, elements: int, memory: int = 0) -> dict[str, Any]:
    size = {"in_msg_nelems": elements, "out_msg_nelems": elements, "dtype": "Half", "pg_size": 8}
    return call(
        number, "record_param_comms", [elements], memory=memory, collective_name="allreduce", **size
    )


def written(folder: Path, *nodes: dict[str, Any]) -> Path:
    root = {
        "id": 1,
        "name": "[pytorch|profiler|execution_trace|process]",
        "ctrl_deps": 1,
        "inputs": {},
        "attrs": [],
    }
    path = folder / "et.json"
    text = {"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": [root, *nodes]}
    path.write_text(json.dumps(text), encoding="utf-8")
    return path


def graph(folder: Path, *nodes: dict[str, Any]) -> LayerGraph:
    return read_layers(written(folder, *nodes))


def test_of_nested_calls_the_outermost_that_is_known_counts(tmp_path: Path) -> None:
    found = graph(
        tmp_path,
        call(2, "aten::linear", [64, 32], [16, 32]),
        call(3, "aten::t", [16, 32], parent=2),
        call(4, "aten::mm", [64, 32], [32, 16], parent=2),
        call(5, "aten::contiguous", [64, 16]),
        call(6, "autograd::engine::evaluate_function: ReluBackward0"),
        call(7, "aten::relu", [64, 16], parent=6),
    )
    assert [(one.op, one.phase, one.after) for one in found.layers] == [
        ("gemm", "forward", ()),
        ("relu", "backward", (0,)),
    ]
    sizes = found.layers[0].sizes
    assert (sizes["m"], sizes["n"], sizes["k"], sizes["dtype_a"]) == (64, 16, 32, "fp16")
    assert found.remarks == ()


def test_a_message_is_waited_for_by_what_has_its_tensor(tmp_path: Path) -> None:
    nodes = [
        call(2, "aten::relu", [1024, 1024], memory=5),
        message(3, 2**26, memory=5),
        call(4, "aten::relu", [1024, 1024], memory=6),
        call(5, "aten::relu", [1024, 1024], memory=5),
    ]
    found = graph(tmp_path, *nodes)
    assert [one.after for one in found.layers] == [(), (0,), (0,), (1, 2)]
    assert (found.layers[1].collective, found.layers[1].message_bytes, found.layers[1].ranks) == (
        "all_reduce", 2**27, 8,
    )  # fmt: skip
    answer = forecast({"model": tmp_path / "et.json", "gpu": "MI300X"})
    told = {one.name.partition(" ")[2]: one for one in answer.layers}
    assert told["3"].end_s < told["2"].end_s <= told["4"].start_s
    assert answer.details["overlapped_s"] == pytest.approx(told["3"].compute_s)


def test_what_is_left_out_is_told_with_its_share(tmp_path: Path) -> None:
    unsized = call(5, "nccl:all_reduce", [8])
    found = graph(
        tmp_path,
        call(2, "aten::relu", [64, 64]),
        call(3, "aten::fft_r2c", [64, 64]),
        call(4, "triton_poi_fused_0", [64, 64], kernel_backend="triton"),
        unsized,
        call(6, "aten::fft_r2c", [64, 64]),
    )
    assert len(found.layers) == 1
    lost, messages = found.remarks
    assert (lost.code, lost.values["calls"], lost.values["share"], lost.values["by"]) == (
        "operators-without-law", 3, 0.75, "calls",
    )  # fmt: skip
    assert lost.values["named"][0] == "2 aten::fft_r2c"
    assert (messages.code, messages.values["messages"]) == ("messages-without-size", 1)


def test_a_trace_is_a_graph_and_one_without_work_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, call(2, "aten::view", [64, 64]))
    assert is_graph(path)
    with pytest.raises(DataError, match="nothing to forecast") as error:
        forecast({"model": path, "gpu": "MI300X"})
    assert error.value.source == str(path)


def test_a_forecast_goes_out_as_chakra_and_comes_back(tmp_path: Path) -> None:
    sent = {"collective": "all_gather", "message_bytes": 1e8}
    layers = [
        {"name": "a", "time_us": 100, **sent},
        {"name": "b", "time_us": 50, "after": ["a"]},
        {"name": "c", "time_us": 70, "after": []},
    ]
    found = fc.forecast({"layers": layers}, gpu="MI300X", gpus=8)
    found.save_chakra(tmp_path / "out")
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == [
        f"chakra.{rank}.et" for rank in range(8)
    ]
    back = fc.forecast(tmp_path / "out" / "chakra.7.et", gpu="MI300X", gpus=8)
    assert back.answers[0].predicted == pytest.approx(found.answers[0].predicted, rel=1e-3)
    assert [one.code for one in back.answers[0].remarks] == ["times-of-trace", "layers-by-source"]


def test_the_interval_of_a_forecast_goes_out_and_comes_back(tmp_path: Path) -> None:
    moved = {"layers": [{"name": "a", "time_us": 10_000}, {"name": "b", "time_us": 50_000}]}
    found = fc.forecast(moved, gpu="MI355X", measured_on="MI300X")
    found.save_chakra(tmp_path / "out")
    (before,), (after,) = (
        found.answers,
        fc.forecast(tmp_path / "out" / "chakra.0.et", gpu="MI355X").answers,
    )
    assert before.half_width > 0.3
    assert (after.lower, after.upper) == pytest.approx((before.lower, before.upper), rel=0.02)


def test_the_command_writes_chakra_and_names_its_options(tmp_path: Path) -> None:
    path = written(tmp_path, call(2, "aten::relu", [64, 64]))
    done = running.call("forecast", path, "--gpu", "MI300X", "--chakra", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "chakra.0.et").is_file()
    refused = running.call("forecast", path, "--gpu", "MI300X", "--dims", "batch=8")
    assert (refused.exit_code, "--dims" in refused.output) == (2, True)
    refused = running.call(
        "forecast", path, "--gpu", "MI300X,MI355X", "--chakra", tmp_path / "other"
    )
    assert (refused.exit_code, "--chakra must be" in refused.output) == (2, True)


def test_only_one_graph_goes_out_as_chakra(tmp_path: Path) -> None:
    found = fc.forecast("llama-3.1-8b", gpu="MI300X", batch=1, input_len=8, output_len=8)
    with pytest.raises(ParameterError, match="one graph"):
        found.save_chakra(tmp_path)


@pytest.mark.parametrize(
    ("name", "layers", "codes"),
    [
        ("param_linear_et.json.gz", 216, set()),
        ("param_resnet_2gpu_et.json.gz", 2715, {"operators-without-law"}),
    ],
)
def test_real_traces(shared_data: Path, name: str, layers: int, codes: set[str]) -> None:
    found = read_layers(shared_data / "profiles" / "chakra" / name)
    assert len(found.layers) == layers
    assert {one.code for one in found.remarks} == codes
