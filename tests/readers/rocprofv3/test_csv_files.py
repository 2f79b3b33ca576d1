"""Runs of rocprofv3 in CSV: every generation of columns, joins, companions, the real samples, damaged files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flopcast.readers.base import DataFile, Options
from flopcast.readers.files import find_files, head
from flopcast.readers.rocprofv3_csv import Rocprofv3CsvReader
from flopcast.remarks import remark
from flopcast.traces.dispatches import COLUMNS, Trace
from flopcast.traces.quality import span_ns

READER = Rocprofv3CsvReader()

TRACE = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"'
)
ROWS = (
    '"KERNEL_DISPATCH","Agent 4",1,2,77,3,11,"void mul<2>(float*, int)",13,2000,2600,512,16,32,4,48,64,2,1,130,4,3',
    '"KERNEL_DISPATCH","Agent 4",1,2,77,1,10,"add(float*)",11,1000,1500,0,0,8,0,16,256,1,1,1024,1,1',
)
OLD = (
    "Kind,Agent_Id,Queue_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp,"
    "Private_Segment_Size,Group_Segment_Size,Workgroup_Size_X,Workgroup_Size_Y,Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,"
    "Grid_Size_Z\nKERNEL_DISPATCH,1,5,69,1,16,add(float*),0,100,140,16,512,64,1,1,1000,1,1\n"
)
CONVERTED = (
    "Guid,Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,"
    "End_Timestamp,Lds_Block_Size,Scratch_Size,Vgpr_Count,Accum_Vgpr_Count,Sgpr_Count,Workgroup_Size_X,Workgroup_Size_Y,"
    "Workgroup_Size_Z,Grid_Size_X,Grid_Size_Y,Grid_Size_Z"
    "\naa,KERNEL_DISPATCH,Agent 1,1,3,9,1,10,add(float*),5,1000,1500,64,0,8,0,16,256,1,1,512,1,1"
    "\nbb,KERNEL_DISPATCH,Agent 2,1,3,9,1,10,add(float*),5,1000,1700,64,0,8,0,16,256,1,1,512,1,1\n"
)
COUNTERS = (
    "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Id,Kernel_Name,Workgroup_Size,"
    "LDS_Block_Size,Scratch_Size,VGPR_Count,Accum_VGPR_Count,SGPR_Count,Counter_Name,Counter_Value"
)
COPIES = (
    "Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n"
    "MEMORY_COPY,MEMORY_COPY_HOST_TO_DEVICE,2,Agent 0,Agent 4,9,100,150\n"
    "MEMORY_COPY,MEMORY_COPY_DEVICE_TO_HOST,2,Agent 4,Agent 0,0,3000,3100\n"
    "MEMORY_COPY,MEMORY_COPY_DEVICE_TO_DEVICE,2,Agent 4,Agent 5,0,3200,3300\n"
    "MEMORY_COPY,MEMORY_COPY_HOST_TO_HOST,2,Agent 0,Agent 0,0,3400,3500\n"
)
API = (
    "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n"
    "HIP_RUNTIME_API_EXT,hipLaunchKernel,70,77,11,900,990\n"
)
AGENTS = (
    "Node_Id,Logical_Node_Id,Agent_Type,Cu_Count,Gfx_Target_Version,Name,Product_Name\n"
    "0,0,CPU,64,0,EPYC,EPYC\n4,4,GPU,304,90402,gfx942,AMD Instinct MI300X\n"
)


def trace_text(*rows: str) -> str:
    return "\n".join([TRACE, *(rows or ROWS), ""])


def counted(
    dispatch: int, kernel: str, counter: str, value: float, times: str = "", grid: int = 1024
) -> str:
    return f'1,{dispatch},Agent 4,1,71,71,{grid},10,"{kernel}",256,0,0,8,0,16,{counter},{value:.6f}{times}'


def read(folder: Path, files: dict[str, str | bytes]) -> list[Trace]:
    """Write the files, detect and group them, and read every group."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    found = [file for file in find_files([folder]) if READER.sniff(file.path, head(file.path))]
    assert len(found) == len(files)
    return [READER.trace(group, Options()) for group in READER.gather(found)]


def read_one(folder: Path, files: dict[str, str | bytes]) -> Trace:
    [trace] = read(folder, files)
    return trace


def values(trace: Trace, **expected: Any) -> None:
    """Check columns of the dispatch table; None stands for a missing value."""
    for name, column in expected.items():
        found = [None if pd.isna(value) else value for value in trace.dispatches[name]]
        assert found == column, name


def codes(trace: Trace) -> dict[str, int]:
    return {finding.code: finding.count for finding in trace.findings}


def test_a_kernel_trace(tmp_path: Path) -> None:
    trace = read_one(tmp_path, {"70_kernel_trace.csv": trace_text()})
    assert list(trace.dispatches.columns) == list(COLUMNS)
    values(
        trace,
        kind=["kernel"] * 2, name=["add(float*)", "void mul<2>(float*, int)"], device=["", ""],
        process=[70, 70], gpu=[4, 4], stream=[2, 2], start_ns=[1000, 2000], duration_ns=[500, 600],
        grid_x=[4, 3], grid_y=[1, 2], grid_z=[1, 3],  # 130 work-items are three workgroups of 64
        block_x=[256, 64], block_y=[1, 2], block_z=[1, 1],
        lds_bytes=[0, 512], scratch_bytes=[0, 16], vgpr=[8, 32], accum_vgpr=[0, 4], sgpr=[16, 48], bytes=[None] * 2,
        dispatch_id=[1, 3], correlation=[11, 13], linked=[False, False],
        source=["70_kernel_trace.csv:3", "70_kernel_trace.csv:2"],
    )  # fmt: skip
    assert trace.findings == []
    assert [note.code for note in trace.notes] == ["device-not-recorded", "no-api-calls"]


def test_every_field_quoted_is_the_same(tmp_path: Path) -> None:
    rows = [
        '"' + row.replace('"', "").replace(", ", "~").replace(",", '","').replace("~", ", ") + '"'
        for row in ROWS
    ]
    plain = read_one(tmp_path / "a", {"70_kernel_trace.csv": trace_text()})
    quoted = read_one(tmp_path / "b", {"70_kernel_trace.csv": trace_text(*rows)})
    assert quoted.dispatches.equals(plain.dispatches)


def test_columns_of_2024(tmp_path: Path) -> None:
    trace = read_one(tmp_path, {"kernel_trace.csv": OLD})
    values(
        trace, gpu=[1], stream=[5], grid_x=[16], lds_bytes=[512], scratch_bytes=[16], vgpr=[None], sgpr=[None],
        correlation=[None], process=[None],
    )  # fmt: skip
    assert remark("stream-is-queue") in trace.notes


def test_columns_of_rocpd_convert_keep_processes_apart(tmp_path: Path) -> None:
    api = (
        "Guid," + API.splitlines()[0] + "\nbb,HIP_RUNTIME_API_EXT,hipLaunchKernel,70,77,5,900,990\n"
    )
    trace = read_one(tmp_path, {"out_kernel_trace.csv": CONVERTED, "out_hip_api_trace.csv": api})
    values(
        trace, duration_ns=[500, 700], gpu=[1, 2], stream=[3, 3], vgpr=[8, 8], lds_bytes=[64, 64], sgpr=[16, 16],
        linked=[False, True], process=[None, 70],
    )  # fmt: skip


def test_what_stands_beside_a_kernel_trace(tmp_path: Path) -> None:
    trace = read_one(
        tmp_path,
        {
            "h/70_kernel_trace.csv": trace_text(),
            "h/70_memory_copy_trace.csv": COPIES,
            "h/70_agent_info.csv": AGENTS,
            "h/70_hip_api_trace.csv": API,
            "h/70_kernel_stats.csv": "Name,Calls,TotalDurationNs,AverageNs,Percentage,MinNs,MaxNs,StdDev\n",
        },
    )
    values(
        trace,
        kind=["memcpy", "kernel", "kernel", "memcpy", "memcpy", "memcpy"],
        device=["MI300X"] * 4 + ["MI300X", ""],  # the only kind of GPU there is; none for a copy within the host
        gpu=[4, 4, 4, 4, 5, None], stream=[2] * 6, bytes=[None] * 6, process=[70] * 6,
        linked=[False, True, False, False, False, False], correlation=[9, 11, 13, None, None, None],
    )  # fmt: skip
    assert [name for name in trace.dispatches["name"] if "to" in name] == [
        "HtoD",
        "DtoH",
        "DtoD",
        "HtoH",
    ]
    assert trace.notes == []


def test_copies_alone(tmp_path: Path) -> None:
    values(
        read_one(tmp_path, {"memory_copy_trace.csv": COPIES}),
        name=["HtoD", "DtoH", "DtoD", "HtoH"],
        stream=[2] * 4,
    )


def test_copies_have_no_queue(tmp_path: Path) -> None:
    files = {"1_kernel_trace.csv": OLD, "1_memory_copy_trace.csv": COPIES}
    values(read_one(tmp_path, files), stream=[5, None, None, None, None])


def test_counters_are_joined_with_the_trace(tmp_path: Path) -> None:
    rows = [counted(1, "add(float*)", "SQ_WAVES", 16), counted(1, "add(float*)", "FETCH_SIZE", 2.5)]
    trace = read_one(
        tmp_path,
        {
            "70_kernel_trace.csv": trace_text(),
            "70_counter_collection.csv": "\n".join([COUNTERS, *rows]),
        },
    )
    values(trace, **{"counter.FETCH_SIZE": [2.5, None], "counter.SQ_WAVES": [16.0, None]})
    assert trace.findings == []


def test_passes_are_joined_by_kernel_and_order(tmp_path: Path) -> None:
    second = ROWS[1].replace(",1,10,", ",4,10,").replace("1000,1500", "5000,5900")
    passes = {
        f"pmc_{number}/h/{pid}_counter_collection.csv": "\n".join([COUNTERS, *rows])
        for number, pid, rows in [
            (1, 81, [counted(31, "add(float*)", "A", 1), counted(7, "add(float*)", "A", 2)]),
            (
                2,
                82,
                [
                    counted(1, "add(float*)", "A", 4),
                    counted(4, "add(float*)", "A", 1),
                    counted(1, "add(float*)", "B", 9),
                ],
            ),
            (3, 83, [counted(1, "other()", "C", 9)]),
        ]
    }
    trace = read_one(tmp_path, {"h/70_kernel_trace.csv": trace_text(*ROWS, second), **passes})
    values(
        trace,
        **{"counter.A": [3.0, None, 1.0], "counter.B": [9.0, None, None]},
        dispatch_id=[1, 3, 4],
    )
    assert codes(trace) == {"replay-spread": 1, "unmatched-pass": 1}
    assert "counter.C" not in trace.dispatches
    assert remark("kernel-passes-joined", passes=4) in trace.notes


def test_traces_of_several_passes_are_counted_once(tmp_path: Path) -> None:
    trace = read_one(tmp_path, {f"pass_{n}/{n}_kernel_trace.csv": trace_text() for n in (1, 2, 3)})
    assert trace.dispatches["duration_ns"].sum() == 1100
    assert trace.dispatches["source"].str.startswith("pass_1/").all()
    assert [
        note.values["traces"] for note in trace.notes if note.code == "kernel-traces-repeat"
    ] == [2]


def test_counters_with_times_give_rows_themselves(tmp_path: Path) -> None:
    header = COUNTERS + ",Start_Timestamp,End_Timestamp"
    rows = [
        counted(2, "g()", "A", 1, ",3000,3700", grid=1000),
        counted(1, "f()", "A", 5, ",1000,"),
        counted(1, "f()", "B", 6, ",1000,1400"),  # one row with times is enough
    ]
    trace = read_one(tmp_path, {"80_counter_collection.csv": "\n".join([header, *rows])})
    values(
        trace, name=["f()", "g()"], duration_ns=[400, 700], process=[71, 71], stream=[1, 1], vgpr=[8, 8],
        grid_x=[4, 4], grid_y=[None] * 2, block_x=[256] * 2, block_y=[None] * 2, dispatch_id=[1, 2],
        source=["80_counter_collection.csv:4", "80_counter_collection.csv:2"],
        **{"counter.A": [5.0, 1.0], "counter.B": [6.0, None]},
    )  # fmt: skip
    assert remark("no-kernel-trace", grids="total only") in trace.notes


def test_counters_without_times_are_no_activities(tmp_path: Path) -> None:
    trace = read_one(
        tmp_path, {"counter_collection.csv": "\n".join([COUNTERS, counted(1, "f()", "A", 5)])}
    )
    assert trace.dispatches.empty
    assert list(trace.dispatches.columns) == list(COLUMNS)
    assert codes(trace) == {"counters-without-times": 1}
    assert not trace.notes


def test_counters_of_no_dispatch_are_reported(tmp_path: Path) -> None:
    rows = [
        counted(1, "add(float*)", "A", 5),
        counted(1, "add(float*)", "B", 5).replace("1,1,", "1,,", 1),
    ]
    trace = read_one(
        tmp_path,
        {
            "1_kernel_trace.csv": trace_text(),
            "1_counter_collection.csv": "\n".join([COUNTERS, *rows]),
        },
    )
    assert codes(trace) == {"unmatched-pass": 1}
    values(trace, **{"counter.A": [5.0, None]})


@pytest.mark.parametrize(
    "text",
    [
        API,
        AGENTS,
        TRACE + "\n",
        "Name,Calls,TotalDurationNs,AverageNs,Percentage,MinNs,MaxNs,StdDev\nhipFree,1,2,2.0,100,2,2,0\n",
        "Sample_Timestamp,Exec_Mask,Dispatch_Id,Instruction,Instruction_Comment,Correlation_Id\n1,2,3,s_endpgm,,1\n",
        "Kind,Operation,Agent_Id,Queue_Id,Thread_Id,Alloc_Flags,Start_Timestamp,End_Timestamp\n",
    ],
)
def test_files_without_activity_are_empty_and_noted(tmp_path: Path, text: str) -> None:
    trace = read_one(tmp_path, {"some_name.csv": text})
    assert trace.dispatches.empty
    assert len(trace.notes) == 1


def test_impossible_times_stay_and_unreadable_ones_go(tmp_path: Path) -> None:
    backwards = ROWS[0].replace("2000,2600", "2600,2000")
    endless = ROWS[0].replace("2000,2600", "2000,18446744073709551615")
    trace = read_one(
        tmp_path,
        {
            "kernel_trace.csv": trace_text(
                backwards, endless, ROWS[0].replace("2000,2600", "2000,"), "cut,off"
            )
        },
    )
    assert trace.dispatches["duration_ns"].tolist() == [2**63 - 1 - 2000, -600]
    assert codes(trace) == {"clipped-time": 1, "unreadable-times": 1, "broken-lines": 1}


def test_a_workgroup_of_nothing_has_no_grid(tmp_path: Path) -> None:
    row = ROWS[1].replace("256,1,1,1024", "0,1,1,1024")
    values(
        read_one(tmp_path, {"kernel_trace.csv": trace_text(row)}),
        grid_x=[None],
        block_x=[None],
        grid_y=[1],
    )


# The real samples: rows, sum and span of the durations computed from the files by an independent script.


def real(shared_data: Path, name: str) -> Trace:
    file = shared_data / "profiles" / "rocprofv3" / name
    assert READER.sniff(file, head(file))
    return READER.trace([DataFile(file, name, True)], Options())


@pytest.mark.parametrize(
    ("name", "rows", "total", "span"),
    [
        ("csv_docs_2024_10/kernel_trace.csv", 7, 795453, 301795),
        ("csv_docs_gfx/kernel_trace.csv", 9, 96160, 144400),
        ("csv_docs_gfx/kernel_trace_truncated.csv", 4, 44840, 60840),
        ("csv_real_rdna35/decode_kernel_trace.csv", 144, 1857381, 180266420),
        ("csv_real_rdna35/prefill_kernel_trace.csv", 1128, 66066571, 69879339),
    ],
)
def test_reference_numbers_of_kernel_traces(
    shared_data: Path, name: str, rows: int, total: int, span: int
) -> None:
    trace = real(shared_data, name)
    table = trace.dispatches
    assert (len(table), int(table["duration_ns"].sum()), span_ns(table)) == (rows, total, span)
    assert table["dispatch_id"].nunique() == rows
    assert trace.findings == []


@pytest.mark.parametrize(
    ("name", "dispatches", "values_read"),
    [
        ("csv_docs_gfx/counter_collection.csv", 4, 4),
        ("csv_real_rdna35/decode_fetch_counter_collection.csv", 34, 34),
        ("csv_real_rdna35/decode_stall_counter_collection.csv", 34, 340),
        ("csv_real_rdna35/prefill_fetch_counter_collection.csv", 54, 54),
    ],
)
def test_reference_numbers_of_counters(
    shared_data: Path, name: str, dispatches: int, values_read: int
) -> None:
    table = real(shared_data, name).dispatches
    assert len(table) == dispatches
    assert (
        table[[column for column in table if column.startswith("counter.")]]
        .notna()
        .to_numpy()
        .sum()
        == values_read
    )


@pytest.mark.parametrize(
    ("name", "rows"),
    [("csv_docs_2024_10/counter_collection.csv", 7), ("csv_docs_gfx/kernel_names.csv", 4)],
)
def test_real_counters_without_times(shared_data: Path, name: str, rows: int) -> None:
    trace = real(shared_data, name)
    assert trace.dispatches.empty
    assert codes(trace) == {"counters-without-times": rows}


@pytest.mark.parametrize(("name", "rows"), [("csv_docs_gfx", 4), ("csv_docs_2024_10", 2)])
def test_real_copies(shared_data: Path, name: str, rows: int) -> None:
    assert (
        real(shared_data, f"{name}/memory_copy_trace.csv").dispatches["kind"].tolist()
        == ["memcpy"] * rows
    )


def test_every_real_file_is_claimed_and_grouped(shared_data: Path) -> None:
    found = find_files([shared_data / "profiles" / "rocprofv3"])
    files = [file for file in found if file.path.suffix == ".csv"]
    assert all(READER.sniff(file.path, head(file.path)) for file in files)
    groups = {group[0].label: READER.trace(group, Options()) for group in READER.gather(files)}
    old = groups["csv_docs_2024_10/counter_collection.csv"].dispatches
    assert old["kind"].value_counts().to_dict() == {"kernel": 7, "memcpy": 2}
    assert old["counter.SQ_WAVES"].value_counts().to_dict() == {16384.0: 7}
    decode = groups["csv_real_rdna35/decode_hip_api_trace.csv"].dispatches
    assert decode["linked"].sum() == 27
    assert decode["process"].unique().tolist() == [2684120]
    assert (
        sum(len(trace.dispatches) for trace in groups.values())
        == 7 + 2 + 9 + 4 + 4 + 34 + 144 + 34 + 54 + 1128
    )


def test_the_files_of_others_are_not_claimed(shared_data: Path) -> None:
    files = [
        file for file in find_files([shared_data]) if file.path.suffix in (".csv", ".txt", ".json")
    ]
    claimed = [file.label for file in files if READER.sniff(file.path, head(file.path))]
    assert claimed
    assert [label for label in claimed if "/rocprofv3/" not in label] == []


# Whatever the bytes are, there is a trace or one DataError.
