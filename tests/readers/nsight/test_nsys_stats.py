"""`nsys stats`: the GPU trace in its spellings, companions, and reports that hold no launch."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.readers.base import DataFile, Options
from flopcast.readers.nsys import NsysStatsReader
from flopcast.remarks import remark
from flopcast.traces.dispatches import Trace

BEFORE = (
    "Generating SQLite file run.sqlite from run.nsys-rep\n"
    "Processing [run.sqlite] with [/opt/nsys/reports/cuda_gpu_trace.py]... \n"
    "\n"
)
HEADER = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
    "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n"
)
H100 = "NVIDIA H100 80GB HBM3"
COPY = f"1000500,64800,120,,,,,,,,,,4.194,64728.395,Pageable,Device,{H100} (0),1,,7,[CUDA memcpy Host-to-Device]\n"
KERNEL = (
    f'1100000,2368,137,4096,2,1,256,1,1,16,0.001,0.049,,,,,{H100} (1),1,,13,"axpy(int, float *)"\n'
)
FILL = f"1090000,1200,130,,,,,,,,,,0.000,1.0,Device,,{H100} (0),1,,7,[CUDA memset]\n"
SUMMARY = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    "100.0,2368,1,2368.0,2368.0,2368,2368,0.0,axpy\n"
)
API = "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n1,2,cudaMalloc,0,1,2,3,0,app\n"


def files_of(folder: Path, **texts: str) -> list[DataFile]:
    files = []
    for name, text in texts.items():
        path = folder / f"{name}.csv"
        path.write_text(text, encoding="utf-8")
        assert NsysStatsReader().sniff(path, path.read_bytes())
        files.append(DataFile(path, path.name, False))
    return files


def trace_of(folder: Path, text: str, max_bytes: int = 2**30) -> Trace:
    return NsysStatsReader().trace(
        files_of(folder, run_cuda_gpu_trace=text), Options(max_bytes=max_bytes)
    )


def test_kernels_copies_and_fills(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, BEFORE + HEADER + COPY + KERNEL + FILL)
    table = trace.dispatches
    assert table["kind"].tolist() == ["memcpy", "memset", "kernel"]
    assert table["name"].tolist() == ["HtoD", "", "axpy(int, float *)"]
    assert table["start_ns"].tolist() == [1000500, 1090000, 1100000]
    assert table["duration_ns"].tolist() == [64800, 1200, 2368]
    assert table["device"].tolist() == ["H100 SXM5"] * 3
    assert table[["gpu", "stream", "correlation"]].to_numpy().tolist() == [
        [0, 7, 120],
        [0, 7, 130],
        [1, 13, 137],
    ]
    assert table.loc[2, ["grid_x", "grid_y", "grid_z", "block_x", "vgpr"]].tolist() == [
        4096,
        2,
        1,
        256,
        16,
    ]
    assert table["grid_x"].isna().tolist() == [True, True, False]
    assert table["bytes"].tolist() == [4_194_000, pd.NA, pd.NA]  # 0.000 MB is not known
    assert table["lds_bytes"].isna().all()  # 0.049 MB are not 49 152 bytes
    assert table["source"].tolist() == [f"run_cuda_gpu_trace.csv:{number}" for number in (5, 7, 6)]
    assert not trace.findings


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        (
            HEADER.replace("(ns)", "(us)"),
            KERNEL.replace("1100000,2368", "1100.0,2.368"),
            (1_100_000, 2368),
        ),
        (HEADER.replace(" (ns)", "(nsec)"), KERNEL, (1_100_000, 2368)),
        (HEADER, KERNEL.replace("1100000", "123456789012345677"), (123_456_789_012_345_677, 2368)),
        (HEADER, KERNEL.replace("2368", "-8"), (1_100_000, -8)),
    ],
)
def test_units_of_time(tmp_path: Path, header: str, row: str, expected: tuple[int, int]) -> None:
    table = trace_of(tmp_path, header + row).dispatches
    assert (table["start_ns"].tolist()[0], table["duration_ns"].tolist()[0]) == expected


def test_memory_in_bytes_is_exact(tmp_path: Path) -> None:
    table = trace_of(
        tmp_path, HEADER.replace("(MB)", "(B)") + KERNEL.replace("0.001,0.049", "1024,49152")
    ).dispatches
    assert table["lds_bytes"].tolist() == [50176]


def test_other_reports_behind_it_are_left_alone(tmp_path: Path) -> None:
    after = (
        f"\nProcessing [run.sqlite] with [/opt/nsys/reports/cuda_gpu_kern_sum.py]... \n\n{SUMMARY}"
    )
    assert len(trace_of(tmp_path, SUMMARY + "\n" + HEADER + COPY + KERNEL + after).dispatches) == 2


def test_lines_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    odd = (
        KERNEL.replace("1100000,2368", "soon,2368")
        + KERNEL.replace("1100000,2368", "1e400,1")
        + "1,2,"
        + KERNEL
    )
    trace = trace_of(tmp_path, HEADER + odd + COPY)
    assert len(trace.dispatches) == 1
    assert [(finding.code, finding.count) for finding in trace.findings] == [
        ("unreadable-lines", 3)
    ]


def test_a_trace_without_rows_is_empty(tmp_path: Path) -> None:
    assert trace_of(tmp_path, BEFORE + HEADER).dispatches.empty


def test_reports_of_one_recording_belong_together(tmp_path: Path) -> None:
    texts = {
        "run_cuda_gpu_trace": HEADER + KERNEL,
        "run_cuda_gpu_kern_sum": SUMMARY,
        "run_cuda_api_trace": API,
    }
    files = files_of(tmp_path, **texts, other_cuda_gpu_kern_sum=SUMMARY)
    groups = NsysStatsReader().gather(files)
    assert [[file.label for file in group] for group in groups] == [
        ["run_cuda_gpu_trace.csv", "run_cuda_gpu_kern_sum.csv", "run_cuda_api_trace.csv"],
        ["other_cuda_gpu_kern_sum.csv"],
    ]
    trace = NsysStatsReader().trace(groups[0], Options())
    assert len(trace.dispatches) == 1
    assert trace.notes == [
        remark("report-without-launches", report=f"run_cuda_{name}.csv")
        for name in ("gpu_kern_sum", "api_trace")
    ]


def test_recordings_that_are_named_alike_stay_apart(tmp_path: Path) -> None:
    files = files_of(tmp_path, my_gpu_run=HEADER + KERNEL, my_gpu_trace2=HEADER + KERNEL)
    assert len(NsysStatsReader().gather(files)) == 2


@pytest.mark.parametrize(
    "text", [SUMMARY, API, "Time(%),Total Time (ns),Instances,Average,Name\n1,2,3,4,x\n"]
)
def test_sums_are_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    with pytest.raises(
        DataError, match=r"^run_cuda_gpu_trace\.csv.*--report.*cuda_gpu_trace.*--format"
    ):
        trace_of(tmp_path, text)


@pytest.mark.parametrize(
    "text", [HEADER.replace(",Name", ",Title") + KERNEL, HEADER + '"' + "x" * 200_000 + '"\n']
)
def test_what_cannot_be_read(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"^run_cuda_gpu_trace\.csv.*('Name'|field larger)"):
        trace_of(tmp_path, text)


def test_a_file_above_the_limit(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="raise the limit"):
        trace_of(tmp_path, HEADER + KERNEL, max_bytes=100)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"op,m,n,k,us\n",
        b"Start,Duration,Name\n",
        b"Start_Timestamp,End_Timestamp\n",
        b"\x00Start (ns)",
    ],
)
def test_others_are_declined(content: bytes) -> None:
    assert not NsysStatsReader().sniff(Path("run_cuda_gpu_trace.csv"), content)


def test_each_column_has_its_own_unit(tmp_path: Path) -> None:
    header = HEADER.replace("Start (ns)", "Start (s)").replace("Duration (ns)", "Duration (us)")
    rows = KERNEL.replace("1100000,2368", "1.100000,50.0") + KERNEL.replace(
        "1100000,2368", "1.100060,2.5"
    )
    [file] = files_of(tmp_path, run_cuda_gpu_trace=header + rows)
    table = NsysStatsReader().trace([file], Options()).dispatches
    assert table["duration_ns"].tolist() == [50_000, 2500]
    assert table["start_ns"].tolist() == [1_100_000_000, 1_100_060_000]
