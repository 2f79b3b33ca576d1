"""rocprof v1: timing runs, counter runs, databases, what accompanies them."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from flopcast.api.comparing import compare
from flopcast.api.ingesting import ingest
from flopcast.errors import DataError
from flopcast.readers.base import DataFile, Options
from flopcast.readers.files import find_files, head
from flopcast.readers.rocprof import RocprofReader
from flopcast.remarks import remark
from flopcast.traces.dispatches import Trace, counters_of

READER = RocprofReader()
PLACE = "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size,sig,obj"
TIMED = PLACE + ",DispatchNs,BeginNs,EndNs,CompleteNs,DurationNs"
STATISTICS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"f",2,30,15,100\n'


def place(index: int, name: str, grid: int = 1024, pid: int = 11) -> str:
    return f'{index},"{name}",8,1,{index},{pid},{pid},{grid},256,512,16,24,4,32,64,0x0,0x7f0'


def timed(index: int, name: str, begin: int, end: int, **more: int) -> str:
    return f"{place(index, name, **more)},{begin - 9},{begin},{end},{end + 9},{end - begin}"


def write(path: Path, header: str, *rows: str) -> DataFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    return DataFile(path, path.name, True)


def results(path: Path, **more: int) -> DataFile:
    rows = [timed(1, "g(int) [clone .kd]", 200, 230, **more), timed(0, "f.kd", 100, 110, **more)]
    return write(path, TIMED, *rows)


def _value(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def database(path: Path) -> DataFile:
    """Write the same dispatches; names keep their quotation marks, as rocprof stores them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = TIMED.split(",")
    one, two = timed(1, "g(int) [clone .kd]", 200, 230), timed(0, "f.kd", 100, 110)
    made = [
        [part if part.startswith('"') else _value(part) for part in row.split(",")]
        for row in (one, two)
    ]
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE KERN ({})".format(", ".join(f'"{name}"' for name in names)))
    connection.executemany(f"INSERT INTO KERN VALUES ({','.join('?' * len(names))})", made)
    connection.commit()
    connection.close()
    return DataFile(path, path.name, True)


def read(*files: DataFile, options: Options | None = None) -> Trace:
    return READER.trace(files, options or Options())


def groups(*paths: Path) -> list[list[str]]:
    files = [file for file in find_files(paths) if READER.sniff(file.path, head(file.path))]
    return [[file.label for file in group] for group in READER.gather(files)]


def test_dispatches_have_their_times_registers_and_workgroups(tmp_path: Path) -> None:
    trace = read(results(tmp_path / "results.csv"))
    table = trace.dispatches
    assert table["name"].tolist() == ["f", "g(int)"]
    wanted = {
        "kind": "kernel", "device": "", "process": 11, "gpu": 8, "stream": 1, "start_ns": 100, "duration_ns": 10,
        "grid_x": 4, "block_x": 256, "lds_bytes": 512, "scratch_bytes": 16, "vgpr": 24, "accum_vgpr": 4, "sgpr": 32,
        "dispatch_id": 0, "linked": False, "source": "results.csv:3",
    }  # fmt: skip
    assert table.loc[0, list(wanted)].to_dict() == wanted
    assert table[["grid_y", "grid_z", "block_y", "block_z", "bytes", "rank"]].isna().all(axis=None)
    assert trace.findings == []
    assert trace.notes == [remark("device-not-recorded", file="results.csv", by="rocprof")]
    assert (
        read(results(tmp_path / "results.csv"), options=Options(defaults={"device": "MI210"})).notes
        == []
    )


def test_counter_runs_are_joined_by_index_and_name(tmp_path: Path) -> None:
    run = results(tmp_path / "results.csv")
    write(
        tmp_path / "moved.csv",
        f"{PLACE},FETCH_SIZE,HIT[0],HIT[1]",
        f"{place(0, 'f')},1.5,1,3",
        f"{place(1, 'g(int)')},2.5,0,0",
    )
    assert groups(tmp_path) == [["results.csv", "moved.csv"]]
    trace = read(run, DataFile(tmp_path / "moved.csv", "moved.csv", False))
    assert trace.dispatches["counter.FETCH_SIZE"].tolist() == [1.5, 2.5]
    assert trace.dispatches["counter.HIT.sum"].tolist() == [4.0, 0.0]
    assert trace.dispatches["counter.HIT.imbalance"].tolist() == [1.5, 1.0]
    assert trace.findings == []
    assert remark("counters-of-other-runs", file="results.csv", runs=("moved.csv",)) in trace.notes
    kept = read(
        run, DataFile(tmp_path / "moved.csv", "moved.csv", False), options=Options(channels=True)
    )
    assert counters_of(kept.dispatches) == [
        "counter.FETCH_SIZE",
        "counter.HIT[0]",
        "counter.HIT[1]",
    ]


def test_dispatches_that_a_counter_run_lacks_or_adds_are_found(tmp_path: Path) -> None:
    counted = write(
        tmp_path / "c.csv",
        f"{PLACE},A",
        f"{place(0, 'f')},1",
        f"{place(1, 'other')},2",
        f"{place(2, 'z')},3",
    )
    trace = read(results(tmp_path / "results.csv"), counted)
    assert np.isnan(trace.dispatches["counter.A"]).tolist() == [False, True]
    [finding] = trace.findings
    assert (finding.code, finding.count, finding.source) == ("unmatched-pass", 3, "c.csv")
    assert finding.remark == remark("unmatched-pass", why="not shared", missing=1, only_here=2)


def test_a_counter_that_two_runs_counted_differently_is_found(tmp_path: Path) -> None:
    files = [
        write(tmp_path / f"{own}.csv", f"{PLACE},A", f"{place(0, 'f')},{own}") for own in (8, 10)
    ]
    [*_, finding] = read(results(tmp_path / "results.csv"), *files).findings
    assert (finding.code, finding.severity, finding.count) == ("replay-spread", "warning", 1)
    assert dict(finding.remark.values["spreads"]) == {"A": pytest.approx(0.2)}


def test_a_counter_run_alone_gives_no_rows(tmp_path: Path) -> None:
    trace = read(write(tmp_path / "c.csv", f"{PLACE},A", f"{place(0, 'f')},1"))
    assert len(trace.dispatches) == 0
    [finding] = trace.findings
    assert (finding.code, finding.count) == ("counters-without-times", 1)


def test_runs_of_a_folder_are_traces_of_their_own_each_with_its_counters(tmp_path: Path) -> None:
    results(tmp_path / "a_results.csv")
    write(tmp_path / "b_results.csv", TIMED, timed(0, "f", 7, 9), timed(1, "g(int)", 10, 12))
    write(tmp_path / "c_results.csv", TIMED, timed(0, "x", 7, 9))
    for own in ("a", "b"):
        write(
            tmp_path / f"{own}_counted.csv",
            f"{PLACE},A",
            f"{place(0, 'f')},1",
            f"{place(1, 'g(int)')},1",
        )
    write(tmp_path / "c_counted.csv", f"{PLACE},A", f"{place(0, 'unknown')},1")
    (tmp_path / "b_results.stats.csv").write_text(STATISTICS, encoding="utf-8")
    assert groups(tmp_path) == [
        ["a_results.csv", "a_counted.csv"],
        ["b_results.csv", "b_counted.csv", "b_results.stats.csv"],
        ["c_results.csv"],
        ["c_counted.csv"],
    ]


def test_a_database_gives_the_same_rows_as_the_table(tmp_path: Path) -> None:
    of_table = read(results(tmp_path / "results.csv")).dispatches
    of_database = read(database(tmp_path / "results.db")).dispatches
    assert of_database["source"].tolist() == ["results.db:2", "results.db:1"]
    assert (
        of_table.drop(columns="source")
        .astype(str)
        .equals(of_database.drop(columns="source").astype(str))
    )


def test_table_and_database_of_one_run_are_read_once(tmp_path: Path) -> None:
    files = (results(tmp_path / "results.csv"), database(tmp_path / "results.db"))
    assert groups(tmp_path) == [["results.csv", "results.db"]]
    trace = read(*files)
    assert len(trace.dispatches) == 2
    assert remark("same-dispatches", file="results.db", other="results.csv") in trace.notes


def test_two_runs_are_not_read_as_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"b\.csv.*a\.csv"):
        read(results(tmp_path / "a.csv"), write(tmp_path / "b.csv", TIMED, timed(0, "f", 7, 9)))


def test_statistics_hold_no_dispatches(tmp_path: Path) -> None:
    path = tmp_path / "results.stats.csv"
    path.write_text(STATISTICS, encoding="utf-8")
    assert READER.sniff(path, head(path))
    trace = read(DataFile(path, path.name, True))
    assert len(trace.dispatches) == 0
    assert trace.notes == [remark("sums-only", file="results.stats.csv")]


def test_statistics_under_the_names_of_later_tools_are_not_claimed() -> None:
    assert not READER.sniff(Path("17_kernel_stats.csv"), STATISTICS.encode())


EVENT = '{"args":{"name":"COPY"},"ph":"M","pid":1,"name":"process_name","sort_index":0}\n'


def test_a_trace_that_was_never_written_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text("," + EVENT, encoding="utf-8")
    results(tmp_path / "results.csv")
    assert groups(tmp_path) == [["results.csv"], ["results.json"]]
    with pytest.raises(DataError, match=r"^results.json: is no JSON.*give results.csv"):
        read(DataFile(path, path.name, True))


def test_a_written_trace_repeats_the_table(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text('{ "traceEvents":[{}\n,' + EVENT + "]}", encoding="utf-8")
    assert READER.sniff(path, head(path))
    with pytest.raises(DataError, match=r"results.json: has no operation of a GPU"):
        read(DataFile(path, path.name, True))
    results(tmp_path / "results.csv")
    [files] = READER.gather(find_files([tmp_path]))
    trace = read(*files)
    assert len(trace.dispatches) == 2
    assert remark("picture-of-results", file="results.json") in trace.notes


OPS = '"BeginNs","EndNs","dev-id","queue-id","Name","pid","tid","Data","__section","DurationNs"'
OPERATIONS = [
    (1000, 4000, 4, 0, "add(float*)", 1, 1, "", 0, 3000),
    (5000, 9000, 4, 0, "CopyDeviceToHost", 1, 1, "", 0, 4000),
    (9500, 9600, 4, 0, "Marker", 1, 1, "", 0, 100),
]


def traced(
    folder: Path, operations: Sequence[tuple[int | str, ...]] = OPERATIONS
) -> tuple[DataFile, DataFile]:
    """Write what --hip-trace does: times in table OPS, and in the arguments of events."""
    with contextlib.closing(sqlite3.connect(folder / "results.db")) as connection, connection:
        connection.execute(f"CREATE TABLE OPS ({OPS})")
        connection.executemany(f"INSERT INTO OPS VALUES ({','.join('?' * 10)})", operations)
        connection.execute('CREATE TABLE KERN ("Index" INTEGER, "KernelName" TEXT)')
    names = OPS.replace('"', "").split(",")
    api = {
        "ph": "X",
        "name": "hipMalloc",
        "args": {"BeginNs": "1", "EndNs": "2", "Name": "hipMalloc"},
    }
    events = [{"ph": "M", "args": {"name": "1 GPU4"}}, api]
    for operation in operations:
        given = {name: str(value) for name, value in zip(names, operation, strict=True)}
        events.append({"ph": "X", "name": given["Name"], "args": given})
    (folder / "results.json").write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    database_file, trace_file = (
        DataFile(folder / name, name, True) for name in ("results.db", "results.json")
    )
    return database_file, trace_file


def test_the_times_of_a_trace_of_hip_are_in_operations(tmp_path: Path) -> None:
    files = traced(tmp_path)
    assert groups(tmp_path) == [["results.db", "results.json"]]
    for group in ([files[0]], [files[1]], [*files]):
        table = read(*group).dispatches
        assert table["kind"].astype(str).tolist() == ["kernel", "memcpy"]
        assert table["name"].astype(str).tolist() == ["add(float*)", "DtoH"]
        assert table["duration_ns"].tolist() == [3000, 4000]
        assert table["gpu"].tolist() == [4, 4]
    assert read(files[1]).dispatches["source"].tolist() == ["results.json:3", "results.json:4"]


def test_stamps_from_a_spreadsheet_are_an_error_finding(tmp_path: Path) -> None:
    row = f"{place(0, 'f')},1.9E+15,1.9E+15,1.9E+15,1.9E+15,4"
    findings = read(write(tmp_path / "r.csv", TIMED, row)).findings
    assert [(own.code, own.severity, own.source) for own in findings] == [
        ("spoiled-timestamps", "error", "r.csv:2"),
        ("duration-mismatch", "warning", "r.csv:2"),
    ]


def test_rows_without_times_are_left_out_and_impossible_ones_stay(tmp_path: Path) -> None:
    rows = [f"{place(0, 'f')},1,,3,4,5", timed(1, "g", 10, 4), timed(2, "h", 20, 20)]
    trace = read(write(tmp_path / "r.csv", TIMED, *rows))
    assert trace.dispatches["duration_ns"].tolist() == [-6, 0]
    assert [(own.code, own.count, own.source) for own in trace.findings] == [
        ("unreadable-times", 1, "r.csv:2")
    ]


def test_columns_of_a_database_that_are_missing_are_named(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE KERN (a)")
    connection.close()
    assert READER.sniff(path, head(path))
    with pytest.raises(DataError, match=r"results.db: neither table KERN nor OPS has names"):
        read(DataFile(path, "results.db", True))


@pytest.mark.parametrize(
    "beginning",
    [
        "op,m,n,k,us\ngemm,1,2,3,4\n",
        '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n',
        "KernelName,BeginNs,EndNs\n",
        '{"traceEvents": [{"ph": "X"}]}',
        "",
    ],
)
def test_other_files_are_not_claimed(beginning: str) -> None:
    assert not READER.sniff(Path("results.csv"), beginning.encode())


def test_reference_numbers(shared_data: Path) -> None:
    folder = shared_data / "profiles" / "rocprof_v1v2"
    files = [file for file in find_files([folder]) if READER.sniff(file.path, head(file.path))]
    found = {
        group[0].label: READER.trace(group, Options())
        for group in READER.gather(files)
        if group[0].path.suffix != ".json"
    }
    assert {
        label: (len(trace.dispatches), int(trace.dispatches["duration_ns"].sum()))
        for label, trace in found.items()
    } == {
        "finite-difference/results.csv": (1004, 2610787312),
        "finite-difference/kernel1_results.db": (1004, 2648556655),
        "seismic-stencils/13-12-2023_results.csv": (1024, 1554596726),
    }
    # no DurationNs differs from EndNs - BeginNs
    assert all(trace.findings == [] for trace in found.values())
    stencils = found["seismic-stencils/13-12-2023_results.csv"].dispatches
    assert len(counters_of(stencils)) == 7
    assert stencils[counters_of(stencils)].notna().all(axis=None)
    assert not stencils["name"].str.contains(".kd", regex=False).any()


def test_hidden_files_that_the_user_names_join_their_run(shared_data: Path) -> None:
    folder = shared_data / "profiles" / "rocprof_v1v2" / "finite-difference"
    paths = [
        *sorted(folder.glob(".xr_*.csv")),
        folder / "kernel1_results.db",
        folder / "results.csv",
    ]
    assert [len(group) for group in groups(*paths)] == [3, 1]


def test_an_unfinished_trace_of_a_real_run_is_an_error(shared_data: Path) -> None:
    path = shared_data / "profiles" / "rocprof_v1v2" / "finite-difference" / "kernel1_results.json"
    assert READER.sniff(path, head(path))
    with pytest.raises(DataError, match="is no JSON"):
        read(DataFile(path, path.name, True))


VECTOR_ADD = [
    (
        begin,
        begin + 3_431_611,
        4,
        0,
        "vector_add(float*, float*, float*, int)",
        1,
        1,
        "",
        0,
        3_431_611,
    )
    for begin in (622_109_244_416_840, 622_109_249_416_840, 622_109_254_416_840)
]


def test_kernels_known_by_name_alone_are_shown_and_compared(tmp_path: Path) -> None:
    traced(tmp_path, VECTOR_ADD)
    found = ingest(tmp_path)
    [trace] = found.traces
    assert (found.rows, found.rejected) == (0, {"launch-not-recorded": 3})
    assert trace.activities == {"kernel": 3}
    assert trace.kernel_us == pytest.approx(3 * 3431.611)
    [finding] = trace.findings
    assert (finding.code, finding.severity, finding.count) == ("grid-not-recorded", "warning", 3)
    found_again = compare(tmp_path, tmp_path)
    assert found_again.table["time_us"].tolist() == pytest.approx([3 * 3431.611])


@pytest.mark.parametrize("place", ["table.csv", "folder"])
def test_a_table_without_a_row_is_not_written(tmp_path: Path, place: str) -> None:
    traced(tmp_path, VECTOR_ADD)
    with pytest.raises(DataError, match=r"launch-not-recorded: 3.*--stats"):
        ingest(tmp_path / "results.db", out=tmp_path / place)
    assert not (tmp_path / place).exists()
