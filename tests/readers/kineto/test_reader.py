"""PyTorch traces, made up by hand in Kineto's format: each trap of the format by itself."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flopcast.errors import DataError
from flopcast.readers.base import DataFile, Options
from flopcast.readers.kineto import KinetoReader
from flopcast.remarks import remark
from flopcast.tests.readers.kineto.made_up import (
    H100,
    MI300X,
    Event,
    event,
    kernel,
    launch,
    op,
    product,
    write,
)
from flopcast.traces.dispatches import COLUMNS, Trace

READER = KinetoReader()


def trace(folder: Path, events: Sequence[Event], *devices: Event, **top: Any) -> Trace:
    return read(folder, write(folder / "trace.json", events, *devices, **top).read_bytes())


def read(folder: Path, content: bytes, **options: Any) -> Trace:
    file = folder / "trace.json"
    file.write_bytes(content)
    return READER.trace([DataFile(file, file.name, True)], Options(**options))


def codes(found: Trace) -> dict[str, int]:
    return {finding.code: finding.count for finding in found.findings}


def test_a_kernel_with_its_launch_operator_and_step(tmp_path: Path) -> None:
    events = [
        event("user_annotation", "ProfilerStep#12", 0.0, 100.0, **{"External id": 1}),
        op("aten::linear", 10.0, 50.0, 2),
        op("aten::addmm", 12.0, 40.0, 3, **{
            "Input Dims": [[4], [2, 8], [8, 4], []], "Input type": ["float", "float", "float", "Scalar"],
            "Input Strides": [[1], [8, 1], [1, 8], []], "Concrete Inputs": ["", "", "", "1"],
        }),
        launch(20.001, 77, **{"External id": 3}),
        {"ph": "s", "id": 77, "pid": 5, "tid": 7, "ts": 20.001, "cat": "ac2g", "name": "ac2g"},
        kernel(30.25, 77, **{"External id": 3, "grid": [16, 2, 1], "block": [256, 1, 1]}),
    ]  # fmt: skip
    found = trace(
        tmp_path,
        events,
        baseTimeNanoseconds=1_000_000_000,
        distributedInfo={"rank": 4, "world_size": 8},
    )
    row = found.dispatches.iloc[0]
    expected = {
        "kind": "kernel", "device": "MI300X", "rank": 4, "process": 5, "gpu": 0, "stream": 3, "name": "knl",
        "start_ns": 1_000_030_250, "duration_ns": 1500, "grid_x": 16, "grid_y": 2, "grid_z": 1,
        "block_x": 256, "correlation": 77, "linked": True, "op_name": "aten::addmm", "op_id": 3,
        "op_stack": "aten::linear;aten::addmm", "step": 12, "source": "trace.json:6", "collective": "",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert json.loads(row["op_inputs"]) == {
        "dims": [[4], [2, 8], [8, 4], []],
        "types": ["float", "float", "float", "Scalar"],
        "strides": [[1], [8, 1], [1, 8], []],
        "values": ["", "", "", "1"],
    }
    assert row[["lds_bytes", "vgpr", "bytes", "collective_bytes", "dispatch_id"]].isna().all()
    assert found.steps.to_dict("list") == {
        "step": [12],
        "start_ns": [1_000_000_000],
        "duration_ns": [100_000],
    }
    assert tuple(found.dispatches.columns) == COLUMNS
    assert (found.findings, found.notes) == ((), ())


@pytest.mark.parametrize(
    ("api", "grid"), [("hipExtModuleLaunchKernel", 288), ("hipModuleLaunchKernel", 73728)]
)
@pytest.mark.parametrize("where", ["kernel", "launch"])
def test_the_grid_is_in_work_items_for_one_call_only(
    tmp_path: Path, api: str, grid: int, where: str
) -> None:
    size = {"grid": [73728, 1, 1], "block": [256, 1, 1]}
    events = [
        launch(1.0, 9, api, **(size if where == "launch" else {})),
        kernel(5.0, 9, **(size if where == "kernel" else {})),
    ]
    row = trace(tmp_path, events).dispatches.iloc[0]
    assert (row["grid_x"], row["grid_y"], row["block_x"]) == (grid, 1, 256)


def test_a_grid_whose_unit_nothing_tells_is_missing(tmp_path: Path) -> None:
    events = [kernel(5.0, 9, grid=[512, 1, 1], block=[256, 1, 1])]
    on_rocm, on_cuda = trace(tmp_path, events), trace(tmp_path, events, H100)
    assert on_rocm.dispatches["grid_x"].isna().all()
    assert codes(on_rocm) == {"orphan": 1, "grid-unit": 1}
    assert on_cuda.dispatches["grid_x"].tolist() == [512]
    assert codes(on_cuda) == {"orphan": 1}


def test_orphans_stay_without_operator_and_step(tmp_path: Path) -> None:
    events = [
        event("user_annotation", "ProfilerStep#1", 0.0, 100.0),
        op("aten::mul", 10.0, 20.0, 1),
        launch(12.0, 50, **{"External id": 1}),
        kernel(11.0, 3, dur=3.0),
        kernel(15.0, 50, dur=1.0, **{"External id": 1}),
    ]
    found = trace(tmp_path, events)
    rows = found.dispatches
    assert rows["linked"].tolist() == [False, True]
    assert rows["op_name"].tolist() == ["", "aten::mul"]
    assert rows["step"].isna().tolist() == [True, False]
    assert rows["process"].tolist() == [5, 5]
    (orphan,) = found.findings
    assert (orphan.code, orphan.count, orphan.share, orphan.source) == (
        "orphan",
        1,
        0.75,
        "trace.json:4",
    )


def test_a_number_that_is_the_correlation_is_not_taken_for_an_operator(tmp_path: Path) -> None:
    events = [
        op("aten::right", 10.0, 20.0, 1),
        op("aten::wrong", 100.0, 20.0, 50),
        launch(12.0, 50, "cudaLaunchKernel", **{"External id": 50}),
        launch(60.0, 51, "cudaLaunchKernel", **{"External id": 51}),
        kernel(15.0, 50, **{"External id": 50}),
        kernel(62.0, 51, **{"External id": 51}),
    ]
    found = trace(tmp_path, events, H100)
    assert found.dispatches["op_name"].tolist() == ["aten::right", ""]
    assert found.dispatches["op_id"].fillna(-1).tolist() == [1, -1]
    assert codes(found) == {"operator-by-time": 1, "no-operator": 1}


def test_an_operator_named_by_its_number_is_kept_where_another_runs_inside(tmp_path: Path) -> None:
    events = [
        op("outer", 10.0, 30.0, 1),
        op("inner", 12.0, 10.0, 2),
        launch(14.0, 5, **{"External id": 1}),
        kernel(20.0, 5, **{"External id": 1}),
    ]
    found = trace(tmp_path, events)
    assert found.dispatches["op_name"].tolist() == ["outer"]
    assert not found.findings


def test_the_operator_around_the_launch_where_the_file_names_none(tmp_path: Path) -> None:
    events = [
        op("aten::a", 10.0, 20.0, 1),
        op("aten::b", 40.0, 20.0, 2),
        op("other thread", 40.0, 90.0, 3, tid=8),
        launch(45.0, 5),
        launch(70.0, 6),
        kernel(50.0, 5),
        kernel(71.0, 6),
    ]
    found = trace(tmp_path, events)
    assert found.dispatches["op_name"].tolist() == ["aten::b", ""]
    assert codes(found) == {"no-operator": 1, "operator-by-time": 1}


def test_kernels_of_a_replayed_graph_share_its_launch(tmp_path: Path) -> None:
    events = [
        op("Torch-Compiled Region", 0.0, 20.0, 1),
        launch(2.0, 5, "hipGraphLaunch"),
        *(kernel(10.0 + at, 5, kind="Dispatch Task") for at in range(3)),
    ]
    found = trace(tmp_path, events)
    assert found.dispatches["linked"].tolist() == [True] * 3
    assert found.dispatches["op_name"].tolist() == ["Torch-Compiled Region"] * 3
    assert found.dispatches["grid_x"].isna().all()
    assert codes(found) == {"graph-replay": 3}


def test_collectives_count_bytes_and_not_elements(tmp_path: Path) -> None:
    gather = {
        "Collective name": "_allgather_base",
        "In msg nelems": 100,
        "Out msg nelems": 800,
        "Group size": 8,
    }
    events = [
        launch(1.0, 1),
        kernel(2.0, 1, dtype="BFloat16", **gather),
        launch(3.0, 2),
        kernel(4.0, 2, dtype="Long", **gather),
        launch(5.0, 3),
        kernel(6.0, 3, dtype="a new type", **gather),
    ]
    rows = trace(tmp_path, events).dispatches
    assert rows["collective"].tolist() == ["_allgather_base"] * 3
    assert rows["collective_bytes"].fillna(-1).tolist() == [1600, 6400, -1]
    assert rows["group_size"].tolist() == [8] * 3


@pytest.mark.parametrize(
    ("job", "size"),
    [
        ({"world_size": 128}, 128),
        ({"world_size": 8, "pg_count": 1}, 8),
        ({"world_size": 8, "pg_count": 3}, 0),
        ({}, 0),
        ({"world_size": None, "pg_count": None}, 0),
        ({"world_size": 10**12}, 0),
        ({"world_size": -3}, 0),
    ],
)
def test_a_collective_that_says_nothing_is_the_call_around_it_among_all_ranks(
    tmp_path: Path, job: dict[str, int], size: int
) -> None:
    name = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"
    events = [
        op("c10d::alltoall_base_", 0.0, 5.0, 1),
        op("record_param_comms", 0.5, 4.0, 2),
        launch(1.0, 1),
        kernel(2.0, 1, name=name),
        launch(6.0, 2),
        kernel(7.0, 2, name=name, **{"Collective name": "send", "Group size": 2}),
        launch(8.0, 3),
        kernel(9.0, 3),
    ]
    found = trace(tmp_path, events, distributedInfo={"rank": 0, **job})
    assert found.dispatches["collective"].tolist() == ["alltoall_base", "send", ""]
    assert found.dispatches["group_size"].fillna(0).tolist() == [size, 2, 0]
    said = (remark("groups-of-world", count=1, ranks=size),)
    assert found.notes == (said if size else ())


def test_copies_and_fills(tmp_path: Path) -> None:
    copy = "Memcpy HtoD (Pageable -> Device)"
    events = [
        launch(1.0, 1, "hipMemcpyWithStream", size="2560", kind="1"),
        event("gpu_memcpy", copy, 4.0, 2.0, 0, 0, device=0, stream=0, correlation=1, kind="HtoD"),
        launch(2.0, 2, "cudaMemsetAsync"),
        event(
            "gpu_memset",
            "Memset (Device)",
            8.0,
            2.0,
            0,
            0,
            device=0,
            stream=0,
            correlation=2,
            bytes=64,
        ),
    ]
    rows = trace(tmp_path, events).dispatches
    assert rows[["kind", "name", "bytes"]].to_numpy().tolist() == [
        ["memcpy", "HtoD", 2560],
        ["memset", "Memset (Device)", 64],
    ]


def test_cuda_kernels_carry_registers_and_shared_memory(tmp_path: Path) -> None:
    events = [
        launch(1.0, 1),
        kernel(2.0, 1, **{"registers per thread": 40, "shared memory": 0, "grid": [7, 1, 1]}),
    ]
    row = trace(tmp_path, events, H100).dispatches.iloc[0]
    assert (row["device"], row["vgpr"], row["lds_bytes"], row["grid_x"]) == ("H100 SXM5", 40, 0, 7)


def test_activities_come_in_the_order_of_their_start_from_a_bare_list_too(tmp_path: Path) -> None:
    events = [
        kernel(9.0, 1),
        kernel(3.0, 2),
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "x"}},
    ]
    found = read(tmp_path, b"\xef\xbb\xbf " + json.dumps(events).encode())
    assert found.dispatches["source"].tolist() == ["trace.json:2", "trace.json:1"]
    assert found.dispatches["device"].tolist() == ["", ""]
    assert codes(found) == {"orphan": 2, "unresolved-device": 2}


def test_the_names_of_categories_before_pytorch_1_12(tmp_path: Path) -> None:
    events = [
        event("Operator", "aten::add", 0.0, 9.0, **{"External id": 1}),
        event("Runtime", "cudaLaunchKernel", 1.0, 1.0, correlation=4),
        event("Kernel", "knl", 3.0, 1.0, 7, 0, device=0, stream=7, correlation=4),
    ]
    rows = trace(tmp_path, events, H100).dispatches
    assert rows[["op_name", "linked"]].to_numpy().tolist() == [["aten::add", True]]


def test_mangled_names_are_kept_and_noted(tmp_path: Path) -> None:
    found = trace(tmp_path, [kernel(1.0, 1, name="_ZN5aiter3fooILi64EEvPf")])
    assert found.dispatches["name"].tolist() == ["_ZN5aiter3fooILi64EEvPf"]
    assert found.notes == (remark("mangled-names", names=1),)


def test_a_file_of_metadata_alone_is_empty_with_a_note(tmp_path: Path) -> None:
    found = trace(
        tmp_path,
        [op("aten::mul", 1.0, 1.0, 1), event("user_annotation", "ProfilerStep#3", 0.0, 5.0)],
    )
    assert found.dispatches.empty
    assert found.steps["step"].tolist() == [3]
    assert found.notes == (remark("no-gpu-activity", file="trace.json", events=2),)


def test_damaged_times_are_reported_and_kept(tmp_path: Path) -> None:
    events = [
        kernel(1.7e15 + 0.25, 1),
        kernel(5.0, 2, dur=1.8446744073709552e16),
        kernel(6.0, 3, dur=-2.0),
    ]
    found = trace(tmp_path, events)
    assert found.dispatches["duration_ns"].tolist() == [2**52 * 1000, -2000, 1500]
    assert codes(found) == {"orphan": 3, "coarse-start": 1, "clipped-time": 1}


def test_calls_of_the_runtime_as_the_cpu_saw_them(tmp_path: Path) -> None:
    file = tmp_path / "trace.json.gz"
    events = [
        launch(3.0, 2),
        launch(1.0, 1, tid=8),
        launch(5.0, 9, "hipDeviceSynchronize"),
        kernel(9.0, 1),
        kernel(11.0, 2),
    ]
    file.write_bytes(
        gzip.compress(json.dumps({"baseTimeNanoseconds": 10, "traceEvents": events}).encode())
    )
    assert KinetoReader().trace([DataFile(file, "x", True)], Options()).calls.empty
    found = KinetoReader().trace([DataFile(file, "x", True)], Options(calls=True)).calls
    assert found.to_dict("list") == {
        "name": ["hipLaunchKernel", "hipLaunchKernel", "hipDeviceSynchronize"],
        "start_ns": [1010, 3010, 5010],
        "duration_ns": [2000] * 3,
        "process": [5] * 3,
        "thread": [2, 1, 1],
        "correlation": [1, 2, 9],
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel"', "truncated"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": nan, "dur": 1}', "malformed"),
        (b'{"traceEvents": [], "baseTimeNanoseconds": 9e18}', "baseTimeNanoseconds"),
        (b'{"traceEvents": 5}', r"Expected `array`, got `int`"),
        (b'{"x": ' + b"[" * 100_000, "recursion"),
        (b"", "truncated"),
    ],
)  # fmt: skip
def test_damaged_content_is_one_error_with_the_file(
    tmp_path: Path, content: bytes, says: str
) -> None:
    with pytest.raises(DataError, match=rf"trace\.json: is no whole PyTorch trace \((?s:.)*{says}"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    "times", [b'"ts": 1', b'"ts": 1, "dur": [2]', b'"ts": null, "dur": 2', b'"ts": nan, "dur": 2']
)
def test_activities_without_a_time_are_left_out(tmp_path: Path, times: bytes) -> None:
    event = b'{"ph": "X", "cat": "kernel", ' + times + b"}"
    with pytest.raises(
        DataError, match="none of its 1 activities of a GPU has a start and a duration"
    ):
        read(tmp_path, b'{"traceEvents": [' + event + b"]}")
    good = json.dumps(kernel(5, 1)).encode()
    found = read(tmp_path, b'{"traceEvents": [' + event + b",\n" + good + b"]}")
    assert found.dispatches["source"].tolist() == ["trace.json:2"]
    assert codes(found)["events-left-out"] == 1


GOOD = b", ".join(
    json.dumps(one).encode() for number in (1, 2) for one in product(number, 50, 100.0 * number)
)
BAD_TOKENS = {
    "number": b'"args": {"memory bandwidth (GB/s)": inf, "a": -nan, "b": N/A, "c": [NaN, Infinity], "d": , "e": 1}',
    "backslash": rb'"args": {"path": "C:\new\cuda\_init.py"}',
    "quote": b'"args": {"Call stack": "a "b", {"c": "d"}(12): run"}',
    "control": b'"args": {"doc": "one\ntwo\x01\tthree"}',
    "encoding": b'"args": {"word": "\xff"}',
    "list": b'"args": {"Concrete Inputs": ["say "yes"", "[1, 2]", ""], "x": []}',
}
DEVICES = b'"deviceProperties": ' + json.dumps([MI300X]).encode()
FORMS = {
    "object": b"{" + DEVICES + b', "traceEvents": %b, "x": 1}',
    "list": b"%b",
    "events last": b"{" + DEVICES + b', "traceEvents": %b}',
    "footer": b'{"traceEvents": %b, ' + DEVICES + rb', "traceName": "D:\x\u.json", "y": inf}',
}


@pytest.mark.parametrize("bad", BAD_TOKENS.values(), ids=BAD_TOKENS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_pytorch_writes_that_is_no_json_costs_no_trace(
    tmp_path: Path, bad: bytes, form: bytes
) -> None:
    event = (
        b'{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "ts": 5, "dur": 1, '
        + bad
        + b"}"
    )
    found = read(tmp_path, form % (b"[\n" + event + b",\n" + GOOD + b"," + event + b"\n]"))
    table = found.dispatches
    assert table.loc[table["kind"].eq("kernel"), "duration_ns"].tolist() == [50_000, 50_000]
    assert table["kind"].eq("memcpy").sum() == 2
    assert table["linked"].sum() == 2
    assert "events-left-out" not in codes(found)


def test_one_odd_argument_costs_that_argument(tmp_path: Path) -> None:
    odd = kernel(
        30, 2, 50, grid="[64,1,1]", block=[64, 1, 1], **{"External id": 9e30, "Collective name": 5}
    )
    more = kernel(130, 3, 60)
    more["args"] = "none"
    found = trace(
        tmp_path, [kernel(5, 1, grid=[4, 1, 1]), odd, more], {**H100, "totalGlobalMem": None}
    )
    table = found.dispatches
    assert table["grid_x"].isna().tolist() == [False, True, True]
    assert table["block_x"].tolist()[1] == 64
    assert table["duration_ns"].tolist() == [1500, 50_000, 60_000]
    assert table["device"].astype(str).tolist() == ["H100 SXM5", "H100 SXM5", ""]
    assert codes(found)["odd-arguments"] == 5


@pytest.mark.parametrize(
    ("number", "value", "code"),
    [
        (b'"ts": 5', b'"ts": 1e400', "events-left-out"),
        (b'"ts": 5', b'"ts": -1e400', "events-left-out"),
        (b'"dur": 50', b'"dur": 1e400', "events-left-out"),
        (b'"stream": 3', b'"stream": 9e30', "odd-arguments"),
        (b'"stream": 3', b'"stream": 1e400', "odd-arguments"),
        (b'"device": 0', b'"device": 9e30', "odd-arguments"),
        (b'"correlation": 1', b'"correlation": 9e30', "odd-arguments"),
    ],
)
def test_a_number_beyond_what_can_be_held_is_counted(
    tmp_path: Path, number: bytes, value: bytes, code: str
) -> None:
    text = json.dumps(
        {"deviceProperties": [MI300X], "traceEvents": [kernel(5, 1, 50), kernel(100, 2, 50)]}
    ).encode()
    found = read(tmp_path, text.replace(number, value, 1))
    assert codes(found)[code] == 1
    assert found.dispatches["duration_ns"].tolist()[-1] == 50_000


def test_an_infinite_number_of_a_device_or_an_operator_costs_itself(tmp_path: Path) -> None:
    events = product(1, 50, 0)
    text = json.dumps({"deviceProperties": [MI300X], "traceEvents": events}).encode()
    for number, value in ((b'"warpSize": 64', b'"warpSize": 1e400'), (b"[16, 64]", b"[1e400, 64]")):
        found = read(tmp_path, text.replace(number, value, 1))
        assert found.dispatches["duration_ns"].tolist() == [50_000]
        assert found.dispatches["device"].tolist() == ["MI300X"]


def test_an_event_of_no_phase_costs_that_event(tmp_path: Path) -> None:
    found = trace(tmp_path, [{"ph": "?"}, kernel(5, 1), {**kernel(9, 2), "name": 7}])
    assert found.dispatches["source"].tolist() == ["trace.json:2", "trace.json:3"]
    assert codes(found)["events-left-out"] == 1


def test_an_archive_larger_than_allowed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="raise the limit"):
        read(tmp_path, gzip.compress(b'{"traceEvents": []}' + b" " * 100_000), max_bytes=50_000)


@pytest.mark.parametrize(
    ("head", "own"),
    [
        (b'\n{\n "schemaVersion": 1,\n "deviceProperties": [', True),
        (b'{"metadata": {}, "traceEvents": [{"ph": "X", "cat": "cpu_op"', True),
        (b'[{"ph": "X", "cat": "kernel", "name"', True),
        # rocprof and its successor rpd
        (b'[ {}\n,{"name": "process_name", "ph": "M", "pid":"2"', False),
        (b'{"rocprofiler-sdk-tool":[{"metadata"', False),
        (b'{"traceEvents": [{"ph": "X", "cat": "blink"', False),  # a browser
        (b'{"schema": "1.0.1", "nodes": [', False),  # an execution trace
        (b"op,m,n,k\n", False),
        (b"\x00\xff", False),
    ],
)
def test_what_is_claimed(head: bytes, own: bool) -> None:
    assert READER.sniff(Path("x.json"), head) is own


_SAMPLE = json.dumps(
    {
        "deviceProperties": [MI300X],
        "distributedInfo": {"rank": 0},
        "baseTimeNanoseconds": 1,
        "traceEvents": [
            event("user_annotation", "ProfilerStep#1", 0.0, 99.0),
            op(
                "aten::mm",
                1.5,
                9.0,
                3,
                **{"Input Dims": [[2, 3], [3, 4]], "Concrete Inputs": ["", "1"]},
            ),
            launch(2.0, 7, **{"External id": 3, "grid": [4, 1, 1], "block": [64, 1, 1]}),
            kernel(
                5.125,
                7,
                **{
                    "External id": 3,
                    "Collective name": "allreduce",
                    "dtype": "Half",
                    "Group size": 2,
                },
            ),
            {"ph": "i", "name": "x", "ts": 1},
        ],
    }
).encode()


@settings(max_examples=25, deadline=None, suppress_health_check=[*HealthCheck])
@given(st.data())
def test_mutations_raise_nothing_but_the_projects_error(
    tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray(_SAMPLE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        what = data.draw(
            st.sampled_from(
                [b"", b"0", b'"', b"-", b"9999999999999999999", b"null", b"[", b"}", b"\xff", b"e9"]
            )
        )
        content[at : at + data.draw(st.integers(0, 3))] = what
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    READER.sniff(Path("x"), bytes(content))
    with contextlib.suppress(DataError):
        assert tuple(read(tmp_path, bytes(content)).dispatches.columns) == COLUMNS


@pytest.mark.parametrize(
    ("records", "expected"), [([41, 40], [41, 40]), ([41, 0], [2, 3]), ([0, 0], [2, 3])]
)
def test_calls_bear_the_number_of_the_execution_trace_where_an_observer_ran(
    tmp_path: Path, records: list[int], expected: list[int]
) -> None:
    events = [
        *(
            op("aten::mm", 10.0 * i, 5.0, 2 + i, **{"Record function id": record})
            for i, record in enumerate(records)
        ),
        *(launch(10.0 * i + 1, 77 + i, **{"External id": 2 + i}) for i in range(2)),
        *(kernel(30.0 + 10 * i, 77 + i, **{"External id": 2 + i}) for i in range(2)),
    ]
    assert trace(tmp_path, events).dispatches["op_id"].tolist() == expected


def of_rank(pid: int, us: float, calls: int = 4) -> list[Event]:
    """Return the events of a rank, whose numbers every rank has."""
    events = []
    for number in range(1, calls + 1):
        for one in product(number, us, 100.0 * number):
            on_cpu = one["cat"] != "kernel"
            events.append({**one, "pid": pid, "tid": pid} if on_cpu else one)
    return events


def test_ranks_put_into_one_file_are_told_apart(tmp_path: Path) -> None:
    first, second = of_rank(100, 50), of_rank(200, 80)
    merged = trace(tmp_path, [*first, *second])
    table = merged.dispatches
    assert table.groupby("process")["duration_ns"].unique().map(list).to_dict() == {
        100: [50_000],
        200: [80_000],
    }
    assert table["linked"].all()
    assert codes(merged)["ranks-merged"] == 8
    # each file may have all its launches before its kernels, and lack some of these
    by_kind = [sorted(events, key=lambda one: one["cat"] == "kernel") for events in (first, second)]
    lost = [one for events in by_kind for one in events]
    lost.remove(
        next(one for one in lost if one["cat"] == "kernel" and one["args"]["correlation"] == 3)
    )
    table = trace(tmp_path, lost).dispatches
    assert table.groupby("process")["duration_ns"].agg(["size", "max"]).to_numpy().tolist() == [
        [3, 50_000],
        [4, 80_000],
    ]


def test_ranks_whose_launches_are_mixed_have_none(tmp_path: Path) -> None:
    mixed = [one for pair in zip(of_rank(100, 50), of_rank(200, 80), strict=True) for one in pair]
    table = trace(tmp_path, mixed).dispatches
    assert not table["linked"].any()
    assert table["op_name"].eq("").all()
