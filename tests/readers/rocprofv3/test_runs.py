"""Which CSV files of rocprofv3 hold what, and which are of one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.readers.base import DataFile
from flopcast.readers.rocprofv3_csv import Content, content_of, place_of, runs

API = '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"'
COUNTERS = (
    "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Kernel_Name,Counter_Name,Counter_Value"
)


@pytest.mark.parametrize(
    ("header", "content"),
    [
        (
            '"Kind","Agent_Id","Queue_Id","Dispatch_Id","Kernel_Name","Start_Timestamp","End_Timestamp"',
            Content.KERNELS,
        ),
        (
            "Guid,Kind,Agent_Id,Dispatch_Id,Kernel_Name,Start_Timestamp,End_Timestamp,Lds_Block_Size",
            Content.KERNELS,
        ),
        (COUNTERS, Content.COUNTERS),
        (COUNTERS + ",Start_Timestamp,End_Timestamp", Content.COUNTERS),
        (
            "Kind,Direction,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp",
            Content.COPIES,
        ),
        (
            "Node_Id,Logical_Node_Id,Agent_Type,Cu_Count,Gfx_Target_Version,Name,Product_Name",
            Content.AGENTS,
        ),
        (API, Content.API),
        ('"Guid",' + API, Content.API),
        ("Name,Calls,TotalDurationNs,AverageNs,Percentage,MinNs,MaxNs,StdDev", Content.STATISTICS),
        (
            "Kind,Operation,Agent_Id,Allocation_Size,Address,Correlation_Id,Start_Timestamp,End_Timestamp",
            Content.ALLOCATIONS,
        ),
        (
            "Kind,Operation,Agent_Id,Queue_Id,Thread_Id,Alloc_Flags,Start_Timestamp,End_Timestamp",
            Content.SCRATCH,
        ),
        (
            "Sample_Timestamp,Exec_Mask,Dispatch_Id,Instruction,Instruction_Comment,Correlation_Id",
            Content.SAMPLES,
        ),
        ("Name,Calls,TotalDurationNs,AverageNs,Percentage", None),  # rocprof v1
        ("Index,KernelName,gpu-id,grd,wgr,DispatchNs,BeginNs,EndNs,CompleteNs,DurationNs", None),
        ("Dispatch_ID,GPU_ID,Grid_Size,Kernel_Name,Start_Timestamp,End_Timestamp,SQ_WAVES", None),
        (
            "Dispatch_ID,GPU_ID,Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp",
            None,
        ),
        ("gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName", None),
        ("device,m,n,k,time_us", None),
        ("", None),
    ],
)
def test_the_header_tells_what_a_file_holds(header: str, content: Content | None) -> None:
    assert content_of(f"{header}\n1,2,3\n".encode()) is content


@pytest.mark.parametrize("head", [b"\x00\xff\x1f", b"a\rb,c\r\r\nd", b'"' * 300, b"\xff\xfe"])
def test_anything_may_be_sniffed(head: bytes) -> None:
    assert content_of(head) is None


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("123_kernel_trace.csv", "123"), ("kernel_trace.csv.gz", ""), ("123_counter_collection.csv", "123"),
        ("run_hip_api_trace.csv", "run"), ("run_hip_runtime_api_trace.csv", "run"), ("hip_domain_stats.csv", ""),
        ("run_domain_stats.csv", "run"), ("hip_test_kernel_trace.csv", "hip_test"), ("run_agent_info.csv", "run"),
        ("pc_sampling_host_trap.csv", ""), ("kernel_trace_of_monday.csv", "kernel_trace_of_monday"),
    ],
)  # fmt: skip
def test_the_prefix_of_a_name(name: str, prefix: str) -> None:
    assert place_of(Path("out/host") / name).prefix == prefix


def grouped(*names: str) -> list[list[str]]:
    groups = runs([DataFile(Path("/out") / name, name, False) for name in names])
    return [[file.label for file in group] for group in groups]


def test_files_of_a_process_belong_together() -> None:
    assert grouped(
        "h/1_kernel_trace.csv", "h/2_kernel_trace.csv", "h/1_agent_info.csv", "g/1_agent_info.csv"
    ) == [
        ["h/1_kernel_trace.csv", "h/1_agent_info.csv"],
        ["h/2_kernel_trace.csv"],
        ["g/1_agent_info.csv"],
    ]


def test_files_without_a_prefix_belong_together() -> None:
    assert grouped("kernel_trace.csv", "counter_collection.csv") == [
        ["kernel_trace.csv", "counter_collection.csv"]
    ]


def test_passes_with_one_process_belong_together() -> None:
    names = (
        "h/9_kernel_trace.csv",
        "pmc_1/h/10_counter_collection.csv",
        "pmc_2/h/11_counter_collection.csv",
    )
    assert grouped(*names) == [list(names)]


def test_passes_with_a_name_are_joined_by_it() -> None:
    names = [f"pass_{n}/{name}_counter_collection.csv" for n in (1, 2) for name in ("b", "a")]
    assert grouped(*names, "a_kernel_trace.csv", "b_kernel_trace.csv") == [
        [names[0], names[2], "b_kernel_trace.csv"],
        [names[1], names[3], "a_kernel_trace.csv"],
    ]


def test_processes_of_passes_are_joined_in_the_order_of_their_ids() -> None:
    assert grouped(
        *("pass_1/h/9_counter_collection.csv", "pass_1/h/10_counter_collection.csv"),
        *("pass_2/h/21_counter_collection.csv", "pass_2/h/20_counter_collection.csv"),
    ) == [
        ["pass_1/h/9_counter_collection.csv", "pass_2/h/20_counter_collection.csv"],
        ["pass_1/h/10_counter_collection.csv", "pass_2/h/21_counter_collection.csv"],
    ]


def test_passes_that_cannot_be_matched_stay_apart() -> None:
    names = [f"pass_{n}/h/{pid}_counter_collection.csv" for n, pid in ((1, 1), (1, 2), (2, 3))]
    assert grouped(*names) == [[name] for name in names]
