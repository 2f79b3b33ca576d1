"""Sums of kernels as text and CSV of nsys and as CSV of rocprof: means by hand, and which files they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.errors import DataError
from flopcast.readers import Measurements, Options, read
from flopcast.table.counters import counts_time

NSYS = """Processing [run.sqlite] with [/opt/nsys/reports/cuda_gpu_kern_sum.py]...

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
80.0,52001,10,5200.1,5200.0,5000,5600,120.5,"axpy(int, float *)"
20.0,13000,4,3250.0,3200.0,3000,3500,210.1,gemm

"""
PRINTED = """
 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)         Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ------------------
     80.0           52,001         10   5,200.1   5,200.0     5,000     5,600        120.5  axpy(int, float *)
     20.0           13,000          4   3,250.0   3,200.0     3,000     3,500        210.1  gemm

Processing [run.sqlite] with [/opt/nsys/reports/cuda_gpu_mem_time_sum.py]...

 Time (%)  Total Time (ns)  Count  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)           Operation
 --------  ---------------  -----  --------  --------  --------  --------  -----------  ----------------------------
    100.0            64800      1   64800.0   64800.0     64800     64800          0.0  [CUDA memcpy Host-to-Device]
"""
OLD = """Time(%),Total Time (usec),Instances,Average,Minimum,Maximum,Name
80.0,52.001,10,5.2,5.0,5.6,"axpy(int, float *)"
20.0,13.0,4,3.25,3.0,3.5,gemm
"""
ROCPROFV3 = """"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"
"axpy(int, float *)",10,52001,5200.1,80.0,5000,5600,120.5
"gemm",4,13000,3250.0,20.0,3000,3500,210.1
"""
ROCPROF = """"Name","Calls","TotalDurationNs","AverageNs","Percentage"
"axpy(int, float *) [clone .kd]",10,52001,5200,80.0
"gemm.kd",4,13000,3250,20.0
"""
TRACE = """Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),\
Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
1100000,2368,137,4096,2,1,256,1,1,16,0.001,0.049,,,,,NVIDIA H100 80GB HBM3 (0),1,,13,gemm
""".replace("\\\n", "")
OPTIONS = Options(defaults={"device": "MI300X"})


def read_one(folder: Path, name: str, text: str) -> Measurements:
    (folder / name).write_text(text, encoding="utf-8")
    return read([folder / name], options=OPTIONS)


@pytest.mark.parametrize(
    ("name", "text", "spreads"),
    [
        ("run_cuda_gpu_kern_sum.csv", NSYS, [0.1205, 0.2101]),
        ("out.txt", PRINTED, [0.1205, 0.2101]),
        ("run_gpukernsum.csv", OLD, None),
        ("host/12_kernel_stats.csv", ROCPROFV3, [0.1205, 0.2101]),
        ("results.stats.csv", ROCPROF, None),
    ],
)
def test_a_row_is_the_mean_of_a_kernels_launches(
    tmp_path: Path, name: str, text: str, spreads: list[float] | None
) -> None:
    (tmp_path / "host").mkdir()
    found = read_one(tmp_path, name, text)
    rows = found.frame
    assert rows["op"].tolist() == ["kernel_mean"] * 2
    assert rows["variant"].tolist() == rows["kernel"].tolist() == ["axpy(int, float *)", "gemm"]
    assert rows["duration_us"].tolist() == pytest.approx([5.2001, 3.25])
    assert rows["repeats"].tolist() == [10, 4]
    assert rows["counter.total_us"].tolist() == pytest.approx([52.001, 13.0])
    assert counts_time("counter.total_us")
    if spreads is not None:
        assert rows["spread_us"].tolist() == pytest.approx(spreads)
    assert "no-dispatches" in [note.code for note in found.notes]
    assert not found.traces


def test_a_trace_of_the_same_recording_takes_the_place_of_its_sums(tmp_path: Path) -> None:
    (tmp_path / "run_cuda_gpu_kern_sum.csv").write_text(NSYS)
    (tmp_path / "run_cuda_gpu_trace.csv").write_text(TRACE)
    found = read([tmp_path])
    assert found.frame["op"].tolist() == ["kernel"]
    assert len(found.traces) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("results.hip_stats.csv", ROCPROF),
        ("1_hip_api_stats.csv", ROCPROFV3),
        ("sum.csv", NSYS.replace("Instances", "Num Calls")),
        ("sum.txt", PRINTED.replace("Instances", "Num Calls")),
    ],
)
def test_sums_of_calls_of_the_host_are_none_of_kernels(
    tmp_path: Path, name: str, text: str
) -> None:
    with pytest.raises(DataError, match="sums"):
        read_one(tmp_path, name, text)


def test_a_kernel_without_launches_or_time_is_refused_with_its_line(tmp_path: Path) -> None:
    odd = NSYS.replace("13000,4,", "13000,0,") + "\n"
    found = read_one(tmp_path, "run_cuda_gpu_kern_sum.csv", odd)
    assert found.frame["variant"].tolist() == ["axpy(int, float *)"]
    assert found.rejected["source"].tolist() == ["run_cuda_gpu_kern_sum.csv:5"]
