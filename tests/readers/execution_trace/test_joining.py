"""Execution traces beside profiler's traces: what is filled, what is never touched, and when not at all."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flopcast.readers.execution_trace import (
    OTHER_RUN,
    ExecutionTrace,
    join,
    read_execution_trace,
)
from flopcast.remarks import remark
from flopcast.traces.dispatches import Trace, dispatch_table


def kernels(**columns: Any) -> Trace:
    """Return a trace of kernels, one per operator call."""
    count = len(columns["op_id"])
    given = {
        "kind": "kernel",
        "name": "k",
        "start_ns": range(count),
        "duration_ns": [5] * count,
        **columns,
    }
    return Trace(dispatch_table(given), notes=[remark("before")])


def recorded(pid: int | None = 7, **columns: Any) -> ExecutionTrace:
    """Return an execution trace of calls."""
    count = len(columns["rf_id"])
    given = {
        "id": range(count),
        "parent": [0] * count,
        "inputs": [f"i{n}" for n in columns["rf_id"]],
        **columns,
    }
    nodes = pd.DataFrame({name: pd.Series(values) for name, values in given.items()})
    for name in ("rf_id", "collective_bytes", "group_size"):
        nodes[name] = (
            nodes[name] if name in nodes else pd.Series(pd.NA, index=nodes.index)
        ).astype("Int64")
    nodes["collective"] = nodes.get("collective", "")
    return ExecutionTrace("1.0.1", pid, "", nodes, "et.json", (remark("left-out"),))


def test_arguments_come_from_the_call_of_the_same_number_and_name() -> None:
    trace = kernels(op_id=[3, 1, 3, None, 9, 0], op_name=["b", "a", "b", "", "far", ""])
    found, report = join(trace, recorded(rf_id=[1, 2, 3, None], name=["a", "x", "b", "thread"]))
    assert found.dispatches["op_inputs"].tolist() == ["i3", "i1", "i3", "", "", ""]
    assert (report.joined, report.calls, report.agreeing, report.filled) == (True, 2, 2, 3)
    assert report.finding is None
    assert list(found.notes) == [
        remark("before"),
        remark("left-out"),
        remark("execution-trace-joined", trace="et.json", filled=3, agreeing=2, calls=2),
    ]
    pd.testing.assert_frame_equal(
        found.dispatches.drop(columns="op_inputs"), trace.dispatches.drop(columns="op_inputs")
    )


def test_what_the_profiler_wrote_stays() -> None:
    own = pd.Categorical(["mine", None, "mine"])
    found, report = join(
        kernels(op_id=[1, 2, 3], op_name="a", op_inputs=own),
        recorded(rf_id=[1, 2, 3], name=["a"] * 3),
    )
    assert found.dispatches["op_inputs"].tolist() == ["mine", "i2", "mine"]
    assert isinstance(found.dispatches["op_inputs"].dtype, pd.CategoricalDtype)
    assert report.filled == 1


def test_a_call_with_another_name_gets_nothing() -> None:
    ids = list(range(1, 41))
    names = ["a"] * 39 + ["b"]
    found, report = join(kernels(op_id=ids, op_name=names), recorded(rf_id=ids, name=["a"] * 40))
    assert (report.joined, report.calls, report.agreeing, report.filled) == (True, 40, 39, 39)
    assert found.dispatches["op_inputs"].tolist()[-2:] == ["i39", ""]


def test_a_number_of_two_operators_is_nobodys() -> None:
    calls = recorded(rf_id=[1, 2, 2, 3, 3], name=["a", "a", "b", "a", "a"])
    found, report = join(kernels(op_id=[1, 2, 3], op_name="a"), calls)
    assert found.dispatches["op_inputs"].tolist() == ["i1", "", "i3"]
    assert report.calls == 2


def test_collectives_are_for_the_kernels_of_the_library() -> None:
    trace = kernels(
        op_id=[1, 1, 1, 2, 3],
        op_name=["nccl:all_reduce"] * 3 + ["nccl:broadcast", "aten::add"],
        kind=["kernel", "kernel", "memcpy", "kernel", "kernel"],
        name=["ncclDevKernel_Generic", "add", "ncclCopy", "ncclDevKernel_Generic", "mscclKernel"],
        collective=["", "", "", "send", ""],
        group_size=[None, None, None, None, 4],
    )
    other = recorded(
        rf_id=[1, 2, 3], name=["nccl:all_reduce", "nccl:broadcast", "aten::add"],
        collective=["allreduce", "broadcast", ""], collective_bytes=[64, 32, None], group_size=[8, 8, None],
        inputs=["", "", ""],
    )  # fmt: skip
    found, report = join(trace, other)
    assert found.dispatches["collective"].tolist() == ["allreduce", "", "", "send", ""]
    assert found.dispatches["collective_bytes"].fillna(-1).tolist() == [64, -1, -1, -1, -1]
    assert found.dispatches["group_size"].fillna(-1).tolist() == [8, -1, -1, -1, 4]
    assert report.filled == 1


def test_bytes_are_added_to_a_collective_of_the_same_name() -> None:
    trace = kernels(
        op_id=[1], op_name="nccl:all_reduce", name="ncclKernel_AllReduce", collective="allreduce"
    )
    other = recorded(
        rf_id=[1], name=["nccl:all_reduce"], collective=["allreduce"], collective_bytes=[64]
    )
    assert join(trace, other)[0].dispatches["collective_bytes"].tolist() == [64]


@pytest.mark.parametrize(
    ("pid", "ids", "names", "values"),
    [
        (8, [1, 2], ["a", "a"], {"why": "process"}),
        (7, [11, 12], ["a", "a"], {"why": "no calls"}),
        (7, [1, 2], ["a", "b"], {"why": "names", "agreeing": 1, "calls": 2}),
        (None, [1, 2], ["b", "b"], {"why": "names", "agreeing": 0, "calls": 2}),
        (7, [], [], {"why": "no calls"}),
    ],
)
def test_another_run_changes_nothing_but_is_reported(
    pid: int | None, ids: list[int], names: list[str], values: dict[str, object]
) -> None:
    trace = kernels(op_id=[1, 2], op_name="a", process=7)
    found, report = join(trace, recorded(pid, rf_id=ids, name=names))
    assert found.dispatches is trace.dispatches
    assert found.notes == trace.notes
    assert list(found.findings) == [report.finding]
    assert report.finding is not None
    assert (report.finding.code, report.finding.severity, report.finding.source) == (
        OTHER_RUN,
        "warning",
        "et.json",
    )
    assert report.finding.remark.values == values
    assert not report.joined
    assert report.same_process == {7: True, 8: False, None: None}[pid]


def test_of_several_processes_only_the_one_recorded_is_filled() -> None:
    trace = kernels(op_id=[1, 1, 1], op_name="a", process=[7, 8, None])
    found, report = join(trace, recorded(rf_id=[1], name=["a"]))
    assert found.dispatches["op_inputs"].tolist() == ["i1", "", "i1"]
    assert report.same_process


def test_parents_in_a_circle_do_no_harm() -> None:
    found, _ = join(
        kernels(op_id=[1, 2], op_name="a"),
        recorded(rf_id=[1, 2], name=["a", "a"], id=[5, 6], parent=[6, 5]),
    )
    assert found.dispatches["op_inputs"].tolist() == ["i1", "i2"]


def test_a_trace_without_activities() -> None:
    found, report = join(kernels(op_id=[], op_name=[]), recorded(rf_id=[1], name=["a"]))
    assert found.dispatches.empty
    assert not report.joined


def load(folder: Path, name: str) -> list[dict[str, Any]]:
    with gzip.open(folder / "profiles" / "chakra" / name) as file:
        return json.load(file)["traceEvents"]


def operators(folder: Path, name: str, *, process: bool = True) -> Trace:
    """Return a table with one row for each operator of a real trace, under its external id."""
    calls = [event for event in load(folder, name) if event.get("cat") == "cpu_op"]
    columns = {
        "op_id": [call["args"]["External id"] for call in calls],
        "op_name": [call["name"] for call in calls],
    }
    return kernels(**columns, process=calls[0]["pid"] if process else None)


def test_a_real_pair(shared_data: Path) -> None:
    other = read_execution_trace(
        shared_data / "profiles/chakra/hta_benchmark_simple_add_et.json.gz"
    )
    found, report = join(operators(shared_data, "hta_benchmark_simple_add_trace.json.gz"), other)
    assert (report.joined, report.calls, report.agreeing, report.filled) == (True, 28, 28, 28)
    assert report.same_process
    adds = found.dispatches[found.dispatches["op_name"] == "aten::add"]
    assert [json.loads(call)["dims"][:2] for call in adds["op_inputs"]] == [
        [[256, 256], [256, 256]]
    ] * 2


def test_the_kernels_of_a_real_pair(shared_data: Path) -> None:
    """The launch lies within its operator; the kernels' own external ids are no operators' in a trace of 2023."""
    events = load(shared_data, "hta_benchmark_simple_add_trace.json.gz")
    launches = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime"}
    calls = sorted((e for e in events if e.get("cat") == "cpu_op"), key=lambda e: e["ts"])
    around = []
    for kernel in (e for e in events if e.get("cat") == "kernel"):
        launch = launches[kernel["args"]["correlation"]]
        around.append(
            [
                e
                for e in calls
                if e["ts"] <= launch["ts"] < e["ts"] + e["dur"] and e["tid"] == launch["tid"]
            ][-1]
        )
    columns = {
        "op_id": [e["args"]["External id"] for e in around],
        "op_name": [e["name"] for e in around],
    }
    other = read_execution_trace(
        shared_data / "profiles/chakra/hta_benchmark_simple_add_et.json.gz"
    )
    found, report = join(kernels(**columns, process=calls[0]["pid"]), other)
    assert found.dispatches["op_name"].tolist() == ["aten::uniform_"] * 2 + ["aten::add"] * 2
    assert (report.calls, report.filled) == (4, 4)
    assert {json.loads(call)["types"][0] for call in found.dispatches["op_inputs"]} == {"float"}


@pytest.mark.parametrize(
    ("execution", "kineto", "process", "why"),
    [
        ("param_resnet_et.json.gz", "param_resnet_kineto.json.gz", True, "process"),
        ("param_linear_et.json.gz", "param_linear_kineto.json.gz", True, "names"),
    ],
)
def test_real_files_whose_numbers_do_not_correspond(
    shared_data: Path, execution: str, kineto: str, process: bool, why: str
) -> None:
    trace = operators(shared_data, kineto, process=process)
    found, report = join(
        trace, read_execution_trace(shared_data / "profiles" / "chakra" / execution)
    )
    assert found.dispatches is trace.dispatches
    assert report.agreeing <= 0.25 * report.calls
    assert report.finding is not None
    assert report.finding.remark.values["why"] == why
