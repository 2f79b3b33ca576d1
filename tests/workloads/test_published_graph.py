"""Inputs of planners as graphs of layers: times as they are stated, what waits for what, and files that are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flopcast.errors import DataError, FlopcastError, ParameterError
from flopcast.hardware import find
from flopcast.workloads.forecasting import forecast
from flopcast.workloads.graph_files import published_layers
from flopcast.workloads.layer_graph import is_graph, read_layers


def _placement(**changes: Any) -> dict[str, Any]:
    """Return a graph for device placement: two towers of 2 and 3 that meet in one of 5, which only the CPU can run."""
    nodes = [
        {
            "id": 7,
            "name": "left",
            "supportedOnFpga": 1,
            "cpuLatency": 20.0,
            "fpgaLatency": 2.0,
            "isBackwardNode": 0,
        },
        {"id": 3, "name": "right", "supportedOnFpga": True, "cpuLatency": 30.0, "fpgaLatency": 3.0},
        {
            "id": 5,
            "name": "end",
            "supportedOnFpga": 0,
            "cpuLatency": 5.0,
            "fpgaLatency": 0.1,
            "isBackwardNode": True,
        },
    ]
    edges = [
        {"sourceId": 7, "destId": 5, "cost": 1.0},
        {"sourceId": 3, "destId": 5, "cost": 1.0, "size": 64.0},
    ]
    return {
        "maxSizePerFPGA": 1e9,
        "maxFPGAs": 2,
        "maxCPUs": 1,
        "nodes": nodes,
        "edges": edges,
        **changes,
    }


def _parallel() -> dict[str, Any]:
    def times(**by_degree: list[float]) -> dict[str, Any]:
        return {
            degree[1:]: [{"timePerSample": time} for time in found]
            for degree, found in by_degree.items()
        }

    nodes = [
        {"id": 0, "name": "tensor", "TMPCs": times(t1=[0.0, 0.0], t2=[0.0])},
        {"id": 1, "name": "tensor", "TMPCs": times(t1=[0.030, 0.041], t2=[0.018])},
    ]
    return {
        "maxDevices": 10,
        "nodes": nodes,
        "edges": [{"sourceId": 0, "destId": 1, "communicationCost": 8192.0}],
    }


def test_a_placement_takes_the_times_of_the_device_that_can_run_a_node(tmp_path: Path) -> None:
    file = tmp_path / "towers.json"
    file.write_text(json.dumps(_placement()), encoding="utf-8")
    assert is_graph(file)
    found = forecast({"model": file, "gpu": "MI300X", "time_unit": "ms"})
    assert found.predicted == pytest.approx(10e-3)
    assert [(one.name, one.after, one.phase) for one in read_layers(file, None, "ms").layers] == [
        ("left", (), ""),
        ("right", (), ""),
        ("end", (0, 1), "backward"),
    ]
    notes = {one.code: one.values for one in found.remarks}
    assert notes["times-of-graph"] == {"layers": 3, "unit": "ms"}
    assert notes["layers-of-cpu"] == {"layers": 1}


@pytest.mark.parametrize(("tp", "seconds"), [(1, 0.030), (2, 0.018)])
def test_a_node_runs_as_the_fastest_of_the_degree_that_is_asked_for(
    tp: int, seconds: float
) -> None:
    found = forecast({"model": _parallel(), "gpu": "MI300X", "time_unit": "s", "tp": tp})
    assert found.predicted == pytest.approx(seconds)
    assert [one.name for one in found.layers] == ["tensor 0", "tensor 1"]


def test_the_unit_and_the_degree_are_never_guessed() -> None:
    for fields in ({}, {"time_unit": "h"}, {"time_unit": "s", "tp": 4}):
        with pytest.raises(ParameterError) as caught:
            forecast({"model": _parallel(), "gpu": "MI300X", **fields})
        assert caught.value.parameter == ("tp" if "tp" in fields else "time_unit")
    with pytest.raises(ParameterError):
        forecast({"model": _placement(), "gpu": "MI300X", "time_unit": "s", "tp": 2})
    plain = {"layers": [{"name": "a", "time_us": 5}]}
    with pytest.raises(ParameterError):
        forecast({"model": plain, "gpu": "MI300X", "time_unit": "s"})


def _node(**fields: Any) -> dict[str, Any]:
    return {"id": 1, "fpgaLatency": 1.0, **fields}


@pytest.mark.parametrize(
    "changes",
    [
        {"edges": None},
        {"edges": [5]},
        {"edges": [{"sourceId": 7, "destId": 99}]},
        {"edges": [{"sourceId": [7], "destId": 3}]},
        {"edges": [{"sourceId": 7, "destId": 3}, {"sourceId": 3, "destId": 7}]},
        {"nodes": [_node(), _node()]},
        {"nodes": [_node(), {"id": 2}], "edges": []},
        {"nodes": [_node(id="a")], "edges": []},
        {"nodes": [_node(id=[1])], "edges": []},
        {"nodes": [_node(fpgaLatency=-1.0)], "edges": []},
        {"nodes": [_node(fpgaLatency="soon")], "edges": []},
        {"nodes": [_node(fpgaLatency=float("nan"))], "edges": []},
        {"nodes": [_node(), 7], "edges": []},
        {"nodes": [{"id": 1, "TMPCs": {"1": []}}], "edges": []},
        {"nodes": [{"id": 1, "TMPCs": {"1": [3]}}], "edges": []},
        {"nodes": [{"id": 1, "TMPCs": [3]}], "edges": []},
        {"nodes": [{"id": 1, "TMPCs": {"1": [{"timePerSample": None}]}}], "edges": []},
    ],
)
def test_a_damaged_graph_is_one_error(changes: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        read_layers(_placement(**changes), None, "ms")


def test_names_that_repeat_have_their_number_and_hostile_ones_are_inert() -> None:
    graph = {"nodes": [_node(id=place, name="x\x1b[31m") for place in (1, 2)], "edges": []}
    layers, _ = published_layers(graph, "us")
    assert len({layer["name"] for layer in layers}) == 2
    assert not any("\x1b" in layer["name"] for layer in layers)


def test_a_graph_without_nodes_is_none() -> None:
    assert not is_graph({"nodes": [], "edges": []})
    assert not is_graph({"nodes": {"fpgaLatency": 1}})
    with pytest.raises(FlopcastError):
        forecast({"model": {"nodes": []}, "gpu": "MI300X"})


def test_times_of_another_gpu_go_between_the_ratios_of_peaks_and_of_memories() -> None:
    given = {"model": _placement(), "time_unit": "ms", "gpu": "MI355X", "dtype": "bf16"}
    plain, moved, same = (
        forecast({**given, "measured_on": host}) for host in (None, "MI300X", "MI355X")
    )
    host, target = find("MI300X"), find("MI355X")
    peaks = host.peak_tflops("bf16") / target.peak_tflops("bf16")
    memories = host.require("memory_bw_gbs") / target.require("memory_bw_gbs")
    assert moved.predicted == pytest.approx(plain.predicted * (peaks * memories) ** 0.5, rel=0.02)
    assert moved.lower < plain.predicted * peaks < plain.predicted * memories < moved.upper
    assert (same.predicted, same.lower, same.upper) == (plain.predicted, plain.lower, plain.upper)
    assert [one.code for one in moved.remarks].count("times-moved") == 1
    with pytest.raises(FlopcastError):
        forecast({**given, "measured_on": "MI3000"})
