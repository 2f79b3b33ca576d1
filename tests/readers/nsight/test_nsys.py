from __future__ import annotations

import contextlib
import gzip
import sqlite3
from pathlib import Path

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.readers.base import DataFile, Options
from flopcast.readers.files import head
from flopcast.readers.nsys import NsysReader
from flopcast.remarks import remark
from flopcast.traces.dispatches import COLUMNS, Trace

STRINGS = [
    "void saxpy<float>(int)",
    "saxpy",
    "_Z5saxpyIfEvi",
    "cudaLaunchKernel",
    "cudaLaunchKernel_v7000",
    "cudaMemcpy",
]
SAXPY, SHORT, MANGLED, LAUNCH, LAUNCH_V7, MEMCPY = range(1, 7)
BASE = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER NOT NULL, name TEXT, cuDevice INTEGER, smCount INTEGER);
CREATE TABLE {metadata} (name TEXT NOT NULL, value TEXT);
INSERT INTO {metadata} VALUES ('EXPORT_SCHEMA_VERSION', '3.13.2');
INSERT INTO TARGET_INFO_GPU VALUES (1, 0, 'NVIDIA H100 80GB HBM3', 0, 132);
"""
WHERE = "start INTEGER NOT NULL, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER"
ACTIVITIES = f"""
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({WHERE}, globalPid INTEGER, demangledName INTEGER, shortName INTEGER,
  mangledName INTEGER, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER,
  blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER,
  localMemoryPerThread INTEGER, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY ({WHERE}, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET ({WHERE}, globalPid INTEGER, value INTEGER, bytes INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
  correlationId INTEGER, nameId INTEGER);
"""
HOST = 1 << 48


def of_process(pid: int, thread: int = 0) -> int:
    return HOST | pid << 24 | thread


def make(
    path: Path, *, metadata: str = "META_DATA_EXPORT", activities: bool = True, extra: str = ""
) -> DataFile:
    """Write an export of two processes whose correlation ids coincide."""
    kernel = (
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES "
        "(?, ?, 0, 1, 7, ?, ?, ?, ?, ?, 40, 8, 4, 2, 128, 2, 1, 100, 24, 16, NULL)"
    )
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA synchronous = OFF")
        db.executescript(BASE.format(metadata=metadata))
        db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(STRINGS, 1))
        if activities:
            db.executescript(ACTIVITIES)
            db.execute(kernel, (100, 150, 11, of_process(501), SAXPY, SHORT, MANGLED))
            db.execute(kernel, (150, 210, 12, of_process(501), 99, SHORT, MANGLED))
            db.execute(kernel, (220, 230, 11, of_process(502), 99, 99, None))
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (10, 30, 0, 1, 7, 9, ?, 4096, 1)",
                (of_process(501),),
            )
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (40, 45, 0, 1, 7, 8, ?, 64, 77)",
                (of_process(501),),
            )
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (50, 60, 0, 1, 7, 10, ?, 0, 256)",
                (of_process(501),),
            )
            calls = [(11, LAUNCH), (11, LAUNCH_V7), (12, LAUNCH), (9, MEMCPY)]
            db.executemany(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 0, ?, ?, ?)",
                [(of_process(501, 501), correlation, name) for correlation, name in calls],
            )
        db.executescript(extra)
    return DataFile(path, path.name, True)


def read(file: DataFile) -> Trace:
    reader = NsysReader()
    assert reader.sniff(file.path, head(file.path))
    [group] = reader.gather([file])
    return reader.trace(group, Options())


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    return read(make(tmp_path / "a.sqlite")).dispatches


def test_every_activity_is_one_row_though_calls_are_recorded_twice(table: pd.DataFrame) -> None:
    assert table["kind"].tolist() == ["memcpy", "memcpy", "memset", "kernel", "kernel", "kernel"]
    assert table["start_ns"].tolist() == [10, 40, 50, 100, 150, 220]
    assert table["duration_ns"].tolist() == [20, 5, 10, 50, 60, 10]
    assert table["source"].tolist() == [f"a.sqlite:{row}" for row in (1, 2, 1, 1, 2, 3)]
    assert tuple(table) == COLUMNS


def test_names_are_demangled_where_the_export_has_it(table: pd.DataFrame) -> None:
    assert table["name"].tolist() == [
        "HtoD",
        "unknown",
        "memset",
        "void saxpy<float>(int)",
        "saxpy",
        "",
    ]


def test_sizes_are_taken_as_they_are(table: pd.DataFrame) -> None:
    kernel = table.iloc[3]
    names = [
        "grid_x",
        "grid_y",
        "grid_z",
        "block_x",
        "block_y",
        "block_z",
        "lds_bytes",
        "scratch_bytes",
        "vgpr",
    ]
    assert kernel[names].tolist() == [8, 4, 2, 128, 2, 1, 124, 16, 40]
    assert table["bytes"].tolist() == [4096, 64, 256, pd.NA, pd.NA, pd.NA]
    assert table["device"].unique().tolist() == ["H100 SXM5"]
    assert table["stream"].unique().tolist() == [7]


def test_launches_are_linked_within_their_process(table: pd.DataFrame) -> None:
    assert table["process"].tolist() == [501, 501, 501, 501, 501, 502]
    assert table["linked"].tolist() == [True, False, False, True, True, False]


def test_without_process_ids_the_correlation_decides(tmp_path: Path) -> None:
    drop = "".join(
        f"ALTER TABLE CUPTI_ACTIVITY_KIND_{kind} DROP COLUMN globalPid;"
        for kind in ("KERNEL", "MEMCPY", "MEMSET")
    )
    table = read(make(tmp_path / "a.sqlite", extra=drop)).dispatches
    assert table["linked"].tolist() == [True, False, False, True, True, True]
    assert table["process"].isna().all()


@pytest.mark.parametrize("metadata", ["EXPORT_META_DATA", "META_DATA_EXPORT"])
def test_an_export_without_activity_is_an_empty_table_and_a_note(
    tmp_path: Path, metadata: str
) -> None:
    trace = read(make(tmp_path / "a.sqlite", metadata=metadata, activities=False))
    assert trace.dispatches.empty
    assert tuple(trace.dispatches) == COLUMNS
    assert trace.notes == [remark("no-activities", by="nsys")]


@pytest.mark.parametrize(("dropped", "left"), [("KERNEL", 3), ("MEMCPY", 4), ("MEMSET", 5)])
def test_any_table_may_be_missing(tmp_path: Path, dropped: str, left: int) -> None:
    trace = read(make(tmp_path / "a.sqlite", extra=f"DROP TABLE CUPTI_ACTIVITY_KIND_{dropped}"))
    assert len(trace.dispatches) == left
    assert trace.dispatches["grid_x"].notna().sum() == (0 if dropped == "KERNEL" else 3)


def test_without_calls_and_gpus_the_notes_say_so(tmp_path: Path) -> None:
    extra = "DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME; DROP TABLE TARGET_INFO_GPU"
    trace = read(make(tmp_path / "a.sqlite", extra=extra))
    assert not trace.dispatches["linked"].any()
    assert trace.dispatches["device"].eq("").all()
    assert trace.notes == [remark("no-api-calls", by="nsys"), remark("unnamed-gpus")]


def test_graphs_traced_as_a_whole_are_a_finding_with_their_share(tmp_path: Path) -> None:
    graph = """CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, id INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (300, 400, 0, 1), (400, 445, 0, 1);"""
    trace = read(make(tmp_path / "a.sqlite", extra=graph))
    [finding] = trace.findings
    assert (finding.code, finding.severity, finding.count) == ("graph-as-a-whole", "warning", 2)
    assert finding.share == pytest.approx(145 / (145 + 155))
    assert len(trace.dispatches) == 6


def test_gpus_of_two_names_numbered_in_two_ways_are_a_finding(tmp_path: Path) -> None:
    second = "UPDATE TARGET_INFO_GPU SET cuDevice = 1; INSERT INTO TARGET_INFO_GPU VALUES (1, 1, 'Mystery GPU', 0, 1);"
    trace = read(make(tmp_path / "a.sqlite", extra=second))
    assert trace.dispatches["device"].unique().tolist() == ["H100 SXM5"]
    assert [finding.code for finding in trace.findings] == ["device-order"]
    same = second.replace("Mystery GPU", "NVIDIA H100 80GB HBM3")
    assert list(read(make(tmp_path / "b.sqlite", extra=same)).findings) == []


def test_an_unknown_gpu_keeps_its_name(tmp_path: Path) -> None:
    trace = read(
        make(tmp_path / "a.sqlite", extra="UPDATE TARGET_INFO_GPU SET name = 'Mystery GPU'")
    )
    assert trace.dispatches["device"].unique().tolist() == ["Mystery GPU"]
    assert trace.notes == [remark("unknown-device", device="Mystery GPU")]


def test_an_interrupted_kernel_is_a_finding(tmp_path: Path) -> None:
    trace = read(
        make(
            tmp_path / "a.sqlite",
            extra="UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = NULL WHERE start = 100",
        )
    )
    assert len(trace.dispatches) == 5
    assert trace.dispatches["device"].eq("H100 SXM5").all()
    assert [finding.code for finding in trace.findings] == ["no-time"]


def test_a_compressed_export_reads_the_same(tmp_path: Path, table: pd.DataFrame) -> None:
    packed = tmp_path / "a.sqlite.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.sqlite").read_bytes()))
    again = read(DataFile(packed, "a.sqlite", True)).dispatches
    pd.testing.assert_frame_equal(again, table)


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE StringTable (id, value); CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (a)",  # nvprof
        "CREATE TABLE rocpd_string (id, string); CREATE TABLE rocpd_op (id)",
        "CREATE TABLE StringIds (id, value)",
    ],
)
def test_other_databases_are_not_claimed(tmp_path: Path, schema: str) -> None:
    path = tmp_path / "x.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.executescript(schema)
    assert not NsysReader().sniff(path, path.read_bytes())
    assert not NsysReader().sniff(path, b"StringIds CUPTI_ACTIVITY_KIND_KERNEL")


def test_a_kernel_table_without_its_columns_is_refused(tmp_path: Path) -> None:
    extra = "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN demangledName TO name"
    with pytest.raises(DataError, match=r"a\.sqlite.*CUPTI_ACTIVITY_KIND_KERNEL.*'demangledName'"):
        read(make(tmp_path / "a.sqlite", extra=extra))


@pytest.mark.parametrize(
    ("name", "kernels", "total", "span", "device"),
    [
        ("perlmutter-cloverleaf-cuda.sqlite", 1312, 294404540, 342340707, "A100 80GB SXM4"),
        ("saxpy-mpi-cuda_nsys_perlmutter0.sqlite", 5, 88573480, 1040574391, "A100 40GB SXM4"),
    ],
)
def test_the_published_exports_have_their_kernels(
    shared_data: Path, name: str, kernels: int, total: int, span: int, device: str
) -> None:
    path = shared_data / "profiles" / "nsys" / name
    trace = read(DataFile(path, name, True))
    table = trace.dispatches[trace.dispatches["kind"] == "kernel"]
    ends = table["start_ns"] + table["duration_ns"]
    assert (len(table), table["duration_ns"].sum()) == (kernels, total)
    assert ends.max() - table["start_ns"].min() == span
    assert table["device"].unique().tolist() == [device]
    assert table["linked"].all()
    assert (list(trace.findings), list(trace.notes)) == ([], [])


def test_a_part_of_a_gpu_is_another_device(tmp_path: Path) -> None:
    trace = read(make(tmp_path / "a.sqlite", extra="UPDATE TARGET_INFO_GPU SET smCount = 16"))
    assert set(trace.dispatches["device"]) == {"H100 SXM5 (16 SMs)"}
