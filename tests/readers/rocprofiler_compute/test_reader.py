"""Workload folders of rocprofiler-compute: every layout, every generation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flopcast.readers.base import Options
from flopcast.readers.files import find_files, head
from flopcast.readers.rocprof import header_of, is_counter
from flopcast.readers.rocprofiler_compute import RocprofilerComputeReader
from flopcast.remarks import remark
from flopcast.table.counters import channel_of
from flopcast.traces.dispatches import Trace, counters_of

READER = RocprofilerComputeReader()
PLACE = "Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,Wave_Size,Kernel_Name"
MERGED = f"Dispatch_ID,GPU_ID,{PLACE},Correlation_ID"
PASS = f"Dispatch_ID,GPU_ID,Queue_ID,PID,TID,{PLACE},Start_Timestamp,End_Timestamp,Correlation_ID"
SYSTEM = "workload_name,command,compute_partition,gpu_model,gpu_arch,cu_per_gpu,total_l2_chan"
AT = ((1000, 1040), (1100, 1130))
KERNEL = '1024,256,512,0,8,4,16,64,"k(int, int) (.kd)"'


def merged_row(number: int, counters: str, times: str) -> str:
    return f"{number},7,{KERNEL},0,{counters},{times}"


def pass_row(number: int, begin: object, end: object, counters: str = "") -> str:
    return f"{number},7,3,55,56,{KERNEL},{begin},{end},0{counters}"


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def workload(folder: Path, stamps: tuple[tuple[object, object], ...] = AT) -> Path:
    """Write what Omniperf 2 writes: two dispatches, counted in two joined passes and a level pass."""
    rows = [
        merged_row(i, f"{i + 5},64,0,{i},3,64,9", f"{own[0]},{own[1]}")
        for i, own in enumerate(stamps)
    ]
    names = "SQ_WAVES,Wave_Size_1,Correlation_ID_1,HIT[0],HIT[1],XCC_Index_1,GRBM_COUNT"
    write(folder / "pmc_perf.csv", f"{MERGED},{names},Start_Timestamp,End_Timestamp", *rows)
    level = [pass_row(i, *own, f",{i + 5},{i + 70},{i + 80}") for i, own in enumerate(stamps)]
    write(
        folder / "SQ_LEVEL_WAVES.csv", f"{PASS},SQ_WAVES,SQ_LEVEL_WAVES,SQ_ACCUM_PREV_HIRES", *level
    )
    write(folder / "timestamps.csv", PASS, *[pass_row(i + 1, *own) for i, own in enumerate(stamps)])
    write(folder / "sysinfo.csv", SYSTEM, 'w,"./a 1,2",SPX,MI300X_A1,gfx942,304,2')
    write(folder / "pmc_dispatch_info.csv", "Dispatch_ID,Kernel_Name,GPU_ID", "0,k,7")
    write(
        folder / "pmc_kernel_top.csv",
        "Kernel_Name,Count,Sum(ns),Mean(ns),Median(ns),Pct",
        "k,2,70,35,35,100",
    )
    write(folder / "roofline.csv", "device,HBMBw,HBMBwLow", "0,1,1")
    write(folder / "perfmon" / "pmc_perf_0.txt", "pmc: SQ_WAVES", "gpu:")
    return folder


def gathered(*paths: Path) -> list[list[str]]:
    files = [file for file in find_files(paths) if READER.sniff(file.path, head(file.path))]
    return [[file.label for file in group] for group in READER.gather(files)]


def read(*paths: Path, options: Options | None = None) -> Trace:
    files = [file for file in find_files(paths) if READER.sniff(file.path, head(file.path))]
    [group] = READER.gather(files)
    return READER.trace(group, options or Options())


def test_a_folder_is_one_run_and_all_its_files_are_claimed(tmp_path: Path) -> None:
    workload(tmp_path / "a" / "MI300X_A1")
    workload(tmp_path / "b" / "MI300X_A1")
    assert [len(group) for group in gathered(tmp_path)] == [8, 8]


def test_dispatches_have_device_place_times_and_counters(tmp_path: Path) -> None:
    trace = read(workload(tmp_path))
    table = trace.dispatches
    wanted = {
        "kind": "kernel", "device": "MI300X", "process": 55, "gpu": 7, "stream": 3, "name": "k(int, int)",
        "start_ns": 1000, "duration_ns": 40, "grid_x": 4, "block_x": 256, "lds_bytes": 512, "scratch_bytes": 0,
        "vgpr": 8, "accum_vgpr": 4, "sgpr": 16, "dispatch_id": 0, "source": "pmc_perf.csv:2",
        "counter.SQ_WAVES": 5.0, "counter.HIT.sum": 3.0, "counter.HIT.max": 3.0, "counter.HIT.imbalance": 2.0,
        "counter.GRBM_COUNT": 9.0, "counter.SQ_LEVEL_WAVES": 70.0, "counter.SQ_LEVEL_WAVES_ACCUM": 80.0,
    }  # fmt: skip
    assert table.loc[0, list(wanted)].to_dict() == wanted
    assert counters_of(table) == [name for name in wanted if name.startswith("counter.")]
    assert table[["grid_y", "block_z", "correlation", "rank"]].isna().all(axis=None)
    assert trace.findings == []
    assert trace.notes == [remark("counters-of-several-runs", file="pmc_perf.csv")]


def test_channels_are_kept_on_request(tmp_path: Path) -> None:
    names = counters_of(read(workload(tmp_path), options=Options(channels=True)).dispatches)
    assert names[1:3] == ["counter.HIT[0]", "counter.HIT[1]"]


def test_spoiled_stamps_everywhere_are_an_error_and_stay_as_they_are(tmp_path: Path) -> None:
    trace = read(workload(tmp_path, (("8.1E+14", "8.1E+14"), ("8.1E+14", "8.1E+14"))))
    assert trace.dispatches["duration_ns"].tolist() == [0, 0]
    [finding] = trace.findings
    assert (finding.code, finding.severity, finding.count, finding.source) == (
        "spoiled-timestamps", "error", 2, "pmc_perf.csv:2",
    )  # fmt: skip


def test_sound_timestamps_beside_spoiled_ones_are_used_and_said(tmp_path: Path) -> None:
    folder = workload(tmp_path, (("8.1E+14", "8.1E+14"), ("8.1E+14", "8.1E+14")))
    write(folder / "timestamps.csv", PASS, *[pass_row(i + 1, *own) for i, own in enumerate(AT)])
    trace = read(folder)
    assert trace.dispatches["duration_ns"].tolist() == [40, 30]
    assert trace.dispatches["process"].tolist() == [55, 55]
    [finding] = trace.findings
    assert (finding.code, finding.severity) == ("spoiled-timestamps", "warning")
    assert (finding.remark.values["remedy"], finding.remark.values["other"]) == (
        "other",
        "timestamps.csv",
    )


def test_a_merged_table_without_times_takes_those_of_the_passes(tmp_path: Path) -> None:
    write(tmp_path / "pmc_perf.csv", f"{MERGED},A", f"0,7,{KERNEL},0,1")
    assert [own.code for own in read(tmp_path).findings] == ["counters-without-times"]
    assert len(read(tmp_path).dispatches) == 0
    write(tmp_path / "SQ_X.csv", PASS, pass_row(4, 10, 15))
    trace = read(tmp_path)
    assert trace.dispatches[["start_ns", "duration_ns", "stream"]].to_numpy().tolist() == [
        [10, 5, 3]
    ]
    assert remark("times-of-other-file", file="pmc_perf.csv", other="SQ_X.csv") in trace.notes


def test_fractions_of_a_nanosecond_are_rounded_and_said(tmp_path: Path) -> None:
    header = f"{MERGED},A,Start_Timestamp,End_Timestamp"
    write(
        tmp_path / "pmc_perf.csv",
        header,
        merged_row(0, "1", "1248000000000000.5,1248000000000020.25"),
    )
    trace = read(tmp_path)
    assert trace.dispatches["duration_ns"].tolist() == [20]
    assert [
        note.values["rounded_ns"] for note in trace.notes if note.code == "times-are-means"
    ] == [0.25]


def test_passes_without_a_merged_table_are_joined(tmp_path: Path) -> None:
    for number, name in ((2, "B"), (10, "C"), (1, "A")):
        rows = [
            pass_row(i, 1000 * number + i, 1000 * number + i + 40, f",{number}") for i in range(2)
        ]
        write(tmp_path / f"pmc_perf_{number}.csv", f"{PASS},{name}", *rows)
    trace = read(tmp_path)
    assert trace.dispatches["start_ns"].tolist() == [1000, 1001]
    assert trace.dispatches["source"].tolist() == ["pmc_perf_1.csv:2", "pmc_perf_1.csv:3"]
    assert counters_of(trace.dispatches) == ["counter.A", "counter.B", "counter.C"]
    assert trace.dispatches["counter.C"].tolist() == [10.0, 10.0]


def test_timestamps_stand_before_passes_that_counted(tmp_path: Path) -> None:
    write(tmp_path / "pmc_perf_0.csv", f"{PASS},A", pass_row(0, 10, 30, ",1"))
    write(tmp_path / "timestamps.csv", PASS, pass_row(1, 50, 60))
    trace = read(tmp_path)
    assert trace.dispatches[["start_ns", "duration_ns", "counter.A"]].to_numpy().tolist() == [
        [50, 10, 1.0]
    ]
    assert dict(trace.findings[0].remark.values["spreads"]) == {"duration": pytest.approx(0.5)}


def test_the_long_layout_is_made_wide(tmp_path: Path) -> None:
    header = (
        "GPU_ID,Dispatch_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Kernel_Name,Start_Timestamp,End_Timestamp,"
        "Kernel_ID,Counter_Name,Counter_Value"
    )
    rows = [
        f'7,{i},1024,256,0,"k(int)",{100 * i},{100 * i + 9},3,{name},{i}'
        for i in (1, 2)
        for name in ("A", "B[0]")
    ]
    write(tmp_path / "pmc_perf.csv", header, *rows)
    trace = read(tmp_path)
    assert trace.dispatches["duration_ns"].tolist() == [9, 9]
    assert trace.dispatches["counter.A"].tolist() == [1.0, 2.0]
    assert trace.dispatches["counter.B.sum"].tolist() == [1.0, 2.0]
    assert trace.dispatches["source"].tolist() == ["pmc_perf.csv:2", "pmc_perf.csv:4"]


def test_tables_of_rocprof_v2_under_other_names_are_runs_of_their_own(tmp_path: Path) -> None:
    for name in ("results_1.csv", "results_2.csv"):
        write(tmp_path / name, f"{PASS},A", pass_row(0, 5, 9, ",1"))
    assert gathered(tmp_path) == [["results_1.csv"], ["results_2.csv"]]
    trace = read(tmp_path / "results_1.csv")
    assert trace.dispatches["counter.A"].tolist() == [1.0]
    assert (
        remark("device-not-recorded", file="results_1.csv", by="rocprofiler-compute") in trace.notes
    )


def test_a_folder_without_dispatches_is_empty_with_a_note(tmp_path: Path) -> None:
    write(tmp_path / "sysinfo.csv", SYSTEM, "w,c,SPX,MI300X_A1,gfx942,304,2")
    trace = read(tmp_path)
    assert len(trace.dispatches) == 0
    assert trace.notes == [remark("no-dispatches", file="sysinfo.csv")]


def test_an_analysis_database_is_recognised_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "rocprof_compute_1.db"
    path.write_bytes(
        b"SQLite format 3\x00 CREATE TABLE compute_workload; CREATE TABLE compute_metric_definition"
    )
    trace = read(path)
    assert len(trace.dispatches) == 0
    assert trace.notes[0].code == "derived-metrics-only"


@pytest.mark.parametrize(
    ("name", "beginning"),
    [
        (
            "counter_collection.csv",
            "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Grid_Size,Kernel_Name\n",
        ),
        ("results.csv", "Index,KernelName,gpu-id,grd,wgr,BeginNs,EndNs\n"),
        ("kernels.db", "SQLite format 3\x00 CREATE TABLE rocpd_op"),
        ("log.txt", "nothing of ours"),
        ("notes.txt", "pmc: SQ_WAVES"),
    ],
)
def test_other_files_are_not_claimed(name: str, beginning: str) -> None:
    assert not READER.sniff(Path(name), beginning.encode())


REFERENCE = json.loads("""{
    "rocm-systems/dispatch_0/MI300A_A1": [3, 2057, 1824, [7611, 6410, 6490], "MI300A"],
    "rocm-systems/dispatch_0/MI300X_A1": [3, 2665, 2432, [16160, 13680, 14160], "MI300X"],
    "rocm-systems/device_filter/MI300X_A1": [3, 2665, 2432, [16119, 13560, 13480], "MI300X"],
    "rocm-systems/ipblocks_SQ/MI300X_A1": [3, 100, 0, [42279, 13760, 13880], "MI300X"],
    "rocm-systems/vcopy/MI300X_A1": [3, 2665, 2432, [0, 0, 0], "MI300X"],
    "rocm-systems/vcopy/MI350": [3, 1021, 770, [21762, 16920, 16864], "MI350X"],
    "rocm-systems/vcopy/MI200": [3, 972, 736, [20480, 16320, 15520], "MI210"],
    "hpctraining_collapse_MI300A_A1": [6, 550, 304, [430646701, 629122, 1480125], "MI300A"]
}""")
"""Folder -> dispatches, counter columns and channel columns of pmc_perf.csv, first durations, device."""


@pytest.mark.parametrize("folder", list(REFERENCE))
def test_reference_numbers_of_wide_tables(shared_data: Path, folder: str) -> None:
    path = shared_data / "profiles" / "rocprofiler_compute" / folder
    with (path / "pmc_perf.csv").open("rb") as file:
        names = [name for name in header_of(file.readline()) if is_counter(name)]
    table = read(path).dispatches
    channels = [name for name in names if channel_of(name)]
    first = table["duration_ns"].head(3).tolist()
    assert [len(table), len(names), len(channels), first, table["device"].iloc[0]] == REFERENCE[
        folder
    ]
    assert len(table["device"].unique()) == 1


def test_reference_numbers_of_the_long_table(shared_data: Path) -> None:
    trace = read(
        shared_data
        / "profiles"
        / "rocprofiler_compute"
        / "rocm-systems"
        / "vcopy"
        / "MI300X_A1_rocpd"
    )
    table = trace.dispatches
    assert len(table) == 3
    assert table["start_ns"].iloc[0] == 13386742234691895
    # exact: as floating-point numbers, which at this size are even only, the stamps differ by 8652
    assert table["duration_ns"].iloc[0] == 13386742234700548 - 13386742234691895 == 8653
    # 2009 counters per dispatch, of which 14 x 128 are channels
    assert len(counters_of(table)) == 2009 - 14 * 128 + 14 * 3
    spreads = [
        finding.remark.values["spreads"]
        for finding in trace.findings
        if finding.code == "replay-spread"
    ]
    assert any("duration" in dict(found) for found in spreads)


def test_what_is_wrong_with_the_samples_is_found(shared_data: Path) -> None:
    root = shared_data / "profiles" / "rocprofiler_compute"
    codes = {
        folder: {finding.code for finding in read(root / folder).findings}
        for folder in (
            "rocm-systems/vcopy/MI300X_A1",
            "rocm-systems/vcopy/MI350",
            "hpctraining_collapse_MI300A_A1",
        )
    }
    assert "spoiled-timestamps" in codes["rocm-systems/vcopy/MI300X_A1"]
    assert "channels-missing" in codes["rocm-systems/vcopy/MI350"]
    assert "channels-missing" in codes["hpctraining_collapse_MI300A_A1"]
    assert "spoiled-timestamps" not in codes["rocm-systems/vcopy/MI350"]


def test_the_analysis_database_of_the_samples_is_recognised(shared_data: Path) -> None:
    [path] = (shared_data / "profiles" / "rocprofiler_compute").glob("rocprof_compute_*.db")
    assert read(path).notes[0].code == "derived-metrics-only"
