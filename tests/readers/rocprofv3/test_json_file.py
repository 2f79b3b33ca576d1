"""JSON of rocprofv3: names, agents, copies, counters, launches, the real sample, damaged files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.readers.base import DataFile, Options
from flopcast.readers.files import content, head
from flopcast.readers.rocprofv3_json import Rocprofv3JsonReader, read_document
from flopcast.remarks import remark
from flopcast.traces.dispatches import COLUMNS, Trace
from flopcast.traces.quality import span_ns

READER = Rocprofv3JsonReader()

AGENTS = [
    {"id": {"handle": 900}, "type": 1, "name": "EPYC", "node_id": 0, "logical_node_id": 0, "cu_count": 64},
    {
        "id": {"handle": 901}, "type": 2, "name": "gfx950", "product_name": "AMD Instinct MI350X", "cu_count": 256,
        "gfx_target_version": 90500, "node_id": 4, "logical_node_id": 2,
    },
    {"id": {"handle": 902}, "type": 2, "cu_count": 304, "gfx_target_version": 90402, "node_id": 5},
]  # fmt: skip
SYMBOLS = [
    {"kernel_id": 0, "kernel_name": 0, "formatted_kernel_name": 0, "demangled_kernel_name": 0, "sgpr_count": 0},
    {
        "kernel_id": 7, "kernel_name": "_Z3addPf.kd", "formatted_kernel_name": "add(float*)", "sgpr_count": 16,
        "demangled_kernel_name": "add(float*) [clone .kd]", "arch_vgpr_count": 8, "accum_vgpr_count": 4,
    },
    {"kernel_id": 8, "kernel_name": "Cijk_1.kd", "formatted_kernel_name": "0", "demangled_kernel_name": "Cijk_1.kd"},
]  # fmt: skip
STRINGS = {
    "buffer_records": [
        {"kind": "NONE", "operations": []},
        {
            "kind": "MEMORY_COPY",
            "operations": [
                "MEMORY_COPY_NONE",
                "MEMORY_COPY_HOST_TO_DEVICE",
                "MEMORY_COPY_DEVICE_TO_HOST",
            ],
        },
    ]
}


def info(number: int, kernel: int = 7, agent: int = 901, queue: int = 1) -> dict[str, Any]:
    return {
        "agent_id": {"handle": agent}, "queue_id": {"handle": queue}, "kernel_id": kernel, "dispatch_id": number,
        "private_segment_size": 16, "group_segment_size": 512,
        "workgroup_size": {"x": 64, "y": 2, "z": 1}, "grid_size": {"x": 130, "y": 4, "z": 3},
    }  # fmt: skip


def dispatch(
    number: int, start: int, end: int, *, stream: int = 3, correlation: int = 0, **of: int
) -> dict[str, Any]:
    return {
        "size": 184, "kind": 11, "operation": 2, "thread_id": 1, "stream_id": {"handle": stream},
        "correlation_id": {"internal": correlation or number, "external": 0},
        "start_timestamp": start, "end_timestamp": end, "dispatch_info": info(number, **of),
    }  # fmt: skip


def copy(
    operation: int, start: int, end: int, source: int, target: int, **more: int
) -> dict[str, Any]:
    return {
        "kind": 1, "operation": operation, "start_timestamp": start, "end_timestamp": end, "stream_id": {"handle": 3},
        "correlation_id": {"internal": 0, "external": 0},
        "src_agent_id": {"handle": source}, "dst_agent_id": {"handle": target}, **more,
    }  # fmt: skip


def counted(
    number: int, values: list[tuple[int, float]], times: tuple[int, int] | None = None
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "dispatch_info": info(number),
        "correlation_id": {"internal": number, "external": 0},
    }
    if times:
        data |= {"start_timestamp": times[0], "end_timestamp": times[1]}
    records = [{"counter_id": {"handle": handle}, "value": value} for handle, value in values]
    return {"thread_id": 1, "dispatch_data": data, "records": records}


def process(
    dispatches: list[Any] | None = None,
    *,
    pid: int = 70,
    counters: list[Any] | None = None,
    **records: Any,
) -> Any:
    return {
        "metadata": {"pid": pid, "node": {"id": 0}}, "agents": AGENTS, "strings": STRINGS, "kernel_symbols": SYMBOLS,
        "counters": [{"id": {"handle": 5}, "name": "SQ_WAVES"}, {"id": {"handle": 6}, "name": "FETCH_SIZE"}],
        "callback_records": {"counter_collection": counters or []},
        "buffer_records": {"kernel_dispatch": dispatches or [], "hip_api": [], "memory_copy": [], **records},
    }  # fmt: skip


def read(folder: Path, *processes: Any) -> Trace:
    file = folder / "70_results.json"
    file.write_text(json.dumps({"rocprofiler-sdk-tool": processes}), encoding="utf-8")
    assert READER.sniff(file, head(file))
    return READER.trace([DataFile(file, file.name, True)], Options())


def values(trace: Trace, **expected: Any) -> None:
    """Check columns of the dispatch table; None stands for a missing value."""
    for name, column in expected.items():
        found = [None if pd.isna(value) else value for value in trace.dispatches[name]]
        assert found == column, name


def codes(trace: Trace) -> dict[str, tuple[int, str]]:
    return {finding.code: (finding.count, finding.source) for finding in trace.findings}


def test_dispatches(tmp_path: Path) -> None:
    calls = [
        {
            "correlation_id": {"internal": 2, "external": 0},
            "operation": 3,
            "start_timestamp": 1,
            "end_timestamp": 2,
        }
    ]
    trace = read(
        tmp_path,
        process([dispatch(2, 2000, 2600, kernel=8), dispatch(1, 1000, 1500)], hip_api=calls),
    )
    assert list(trace.dispatches.columns) == list(COLUMNS)
    values(
        trace, kind=["kernel"] * 2, name=["add(float*)", "Cijk_1"], device=["MI350X"] * 2, process=[70] * 2,
        gpu=[2, 2], stream=[3, 3], start_ns=[1000, 2000], duration_ns=[500, 600],
        grid_x=[3, 3], grid_y=[2, 2], grid_z=[3, 3], block_x=[64] * 2, block_y=[2] * 2, block_z=[1] * 2,
        lds_bytes=[512] * 2, scratch_bytes=[16] * 2, vgpr=[8, None], accum_vgpr=[4, None], sgpr=[16, None],
        bytes=[None] * 2, dispatch_id=[1, 2], correlation=[1, 2], linked=[False, True],
        source=["70_results.json:2", "70_results.json:1"],
    )  # fmt: skip
    assert trace.findings == []
    assert trace.notes == []


def test_without_calls_nothing_is_linked(tmp_path: Path) -> None:
    trace = read(tmp_path, process([dispatch(1, 1000, 1500)]))
    values(trace, linked=[False])
    assert remark("no-api-calls", by="rocprofv3") in trace.notes


def test_agents_by_what_they_say_of_themselves(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        process(
            [dispatch(n, n, n + 1, agent=agent) for n, agent in ((1, 901), (2, 902), (3, 999))]
        ),
    )
    values(trace, gpu=[2, 5, 999], device=["MI350X", "MI300X", ""])
    assert [
        "MI325X" in note.values["same"] for note in trace.notes if note.code == "device-by-gfx"
    ] == [True]
    assert remark("device-not-recorded", by="rocprofv3") in trace.notes


def test_copies(tmp_path: Path) -> None:
    copies = [
        copy(1, 10, 20, 900, 901, bytes=4096), copy(2, 30, 40, 901, 900), copy(9, 50, 60, 900, 900),
    ]  # fmt: skip
    trace = read(tmp_path, process([dispatch(1, 100, 200)], memory_copy=copies))
    values(
        trace, kind=["memcpy"] * 3 + ["kernel"], name=["HtoD", "DtoH", "", "add(float*)"],
        bytes=[4096, None, None, None],
        device=["MI350X", "MI350X", "", "MI350X"], gpu=[2, 2, None, 2], stream=[3] * 4,
        correlation=[None, None, None, 1], source=[f"70_results.json:{n}" for n in (2, 3, 4, 1)],
    )  # fmt: skip


def test_queues_where_no_streams_were_recorded(tmp_path: Path) -> None:
    kernels = [dispatch(n, n, n + 1, stream=0, queue=n) for n in (1, 2)]
    trace = read(tmp_path, process(kernels, memory_copy=[copy(1, 10, 20, 900, 901)]))
    values(trace, stream=[1, 2, None])


def test_processes_are_numbered_on(tmp_path: Path) -> None:
    trace = read(tmp_path, process([dispatch(1, 10, 20)]), process([dispatch(1, 5, 9)], pid=71))
    values(trace, process=[71, 70], source=["70_results.json:2", "70_results.json:1"])


def test_counters_are_summed_over_instances(tmp_path: Path) -> None:
    records = [counted(2, [(5, 1.0), (6, 2.5), (5, 3.0)]), counted(9, [(5, 1.0), (6, 1.0)])]
    trace = read(tmp_path, process([dispatch(1, 10, 20), dispatch(2, 30, 40)], counters=records))
    values(trace, **{"counter.SQ_WAVES": [None, 4.0], "counter.FETCH_SIZE": [None, 2.5]})
    assert codes(trace)["unmatched-pass"][0] == 2


def test_counters_with_times_give_rows_themselves(tmp_path: Path) -> None:
    trace = read(
        tmp_path, process(counters=[counted(1, [(5, 4.0)], (10, 25)), counted(2, [(7, 1.0)])])
    )
    values(trace, duration_ns=[15], name=["add(float*)"], **{"counter.SQ_WAVES": [4.0]})
    assert codes(trace)["counters-without-times"] == (1, "70_results.json:2")
    assert remark("no-kernel-trace") in trace.notes


def test_a_kernel_that_is_not_described_has_no_name(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        process(
            [dispatch(1, 10, 20), dispatch(2, 30, 40, kernel=0), dispatch(3, 50, 60, kernel=99)]
        ),
    )
    values(trace, name=["add(float*)", "", ""])
    assert codes(trace)["unnamed-kernel"] == (2, "70_results.json:2")


def test_impossible_times_stay(tmp_path: Path) -> None:
    trace = read(tmp_path, process([dispatch(1, 20, 10), dispatch(2, 30, 2**64 - 1)]))
    values(trace, duration_ns=[-10, 2**63 - 1 - 30])
    assert codes(trace) == {"clipped-time": (1, "70_results.json:2")}


def test_missing_lists_are_empty(tmp_path: Path) -> None:
    for processes in ([], [{}], [{"metadata": {}, "buffer_records": {"kernel_dispatch": []}}]):
        trace = read(tmp_path, *processes)
        assert trace.dispatches.empty
        assert list(trace.dispatches.columns) == list(COLUMNS)
        assert len(trace.notes) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start_timestamp": "12"}, "start_timestamp"), ({"end_timestamp": [1]}, "end_timestamp"),
        ({"end_timestamp": float("nan")}, "cannot be read"), ({"start_timestamp": 1.5}, "start_timestamp"),
        ({"dispatch_info": None}, "dispatch_info"), ({"start_timestamp": None}, "start_timestamp"),
    ],
)  # fmt: skip
def test_a_field_of_another_type_is_named(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=rf"^70_results\.json: .*{message}"):
        read(tmp_path, process([dispatch(1, 10, 20) | change]))


@pytest.mark.parametrize(
    ("text", "claimed"),
    [
        (b'{"rocprofiler-sdk-tool":[{}]}', True), (b'\xef\xbb\xbf {\n "rocprofiler-sdk-tool" : [', True),
        (b'{"traceEvents":[],"rocprofiler-sdk-tool":[]}', False), (b"[]", False), (b"", False), (b"\x00\xff", False),
    ],
)  # fmt: skip
def test_what_is_claimed(text: bytes, claimed: bool) -> None:
    assert READER.sniff(Path("x.json"), text) == claimed


def test_reference_numbers(shared_data: Path) -> None:
    """Computed from the file by an independent script."""
    file = shared_data / "profiles" / "rocprofv3" / "json" / "908_results.json.gz"
    trace = READER.trace([DataFile(file, file.name, True)], Options())
    table = trace.dispatches
    assert len(table) == 43915
    assert int(table["duration_ns"].sum()) == 4441741378
    assert span_ns(table) == 15122023494
    assert table["name"].nunique() == 80  # of 80 kernel ids; the names of all are different
    assert table["gpu"].unique().tolist() == [2]
    assert table["device"].unique().tolist() == ["MI350X"]
    assert not table["name"].eq("").any()
    start, end = table["start_ns"].to_numpy(), (table["start_ns"] + table["duration_ns"]).to_numpy()
    order = np.lexsort((end, start))
    assert int((start[order][1:] == end[order][:-1]).sum()) == 12079
    assert trace.findings == []


def test_reference_numbers_of_the_lists(shared_data: Path) -> None:
    file = shared_data / "profiles" / "rocprofv3" / "json" / "908_results.json.gz"
    [document] = read_document(DataFile(file, file.name, True), Options()).processes
    assert len(document.kernel_symbols) == 9889
    assert (
        len({record.dispatch_info.kernel_id for record in document.buffer_records.kernel_dispatch})
        == 80
    )
    assert sum(agent.type == 2 for agent in document.agents) == 8


def test_the_real_sample_is_claimed(shared_data: Path) -> None:
    file = shared_data / "profiles" / "rocprofv3" / "json" / "908_results.json.gz"
    assert READER.sniff(file, content(file, 4096))
