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
from flopcast.readers.rpd import RpdReader
from flopcast.remarks import remark
from flopcast.traces.dispatches import COLUMNS, Trace

STRINGS = [
    "", "hipLaunchKernel", "hipExtModuleLaunchKernel", "hipGraphLaunch", "hipMemcpyWithStream", "hipMemsetAsync",
    "KernelExecution", "Task", "CopyHostToDevice", "FillBuffer", "Marker", "relu", "Cijk_MT64x64", "softmax",
    "UserMarker", "aten::mm", "aten::linear",
]  # fmt: skip
SCHEMA = """
CREATE TABLE "rocpd_metadata" ("id" integer PRIMARY KEY, "tag" varchar(4096), "value" varchar(4096));
CREATE TABLE "rocpd_string" ("id" integer PRIMARY KEY, "string" varchar(4096));
CREATE TABLE "rocpd_op" ("id" integer PRIMARY KEY, "gpuId" integer, "queueId" integer, "sequenceId" integer,
  "start" integer, "end" integer, "description_id" integer, "opType_id" integer);
CREATE TABLE "rocpd_api" ("id" integer PRIMARY KEY, "pid" integer, "tid" integer, "start" integer, "end" integer,
  "apiName_id" integer, "args_id" integer);
CREATE TABLE "rocpd_api_ops" ("id" integer PRIMARY KEY, "api_id" integer, "op_id" integer);
CREATE TABLE "rocpd_kernelapi" ("api_ptr_id" integer PRIMARY KEY, "gridX" integer, "gridY" integer, "gridZ" integer,
  "workgroupX" integer, "workgroupY" integer, "workgroupZ" integer, "groupSegmentSize" integer,
  "privateSegmentSize" integer, "kernelName_id" integer);
CREATE TABLE "rocpd_copyapi" ("api_ptr_id" integer PRIMARY KEY, "size" integer);
"""
OPERATORS = """
CREATE TABLE "ext_autogradapi" ("api_ptr_id" integer PRIMARY KEY, "autogradName_id" integer);
CREATE TABLE "ext_callstack" ("id" integer PRIMARY KEY, "parent_id" integer, "child_id" integer, "depth" integer);
"""


def word(text: str) -> int:
    return STRINGS.index(text) + 1


def make(path: Path, *, version: str = "2", operators: bool = False, extra: str = "") -> DataFile:
    """Write a database of one process: three kernels launched, two replayed by one graph, a copy, a fill, a marker."""
    calls = {
        1: "hipLaunchKernel", 2: "hipExtModuleLaunchKernel", 3: "hipGraphLaunch", 4: "hipMemcpyWithStream",
        5: "hipMemsetAsync", 6: "hipLaunchKernel",
    }  # fmt: skip
    ops = [  # id, start, end, description, type, call
        (10, 100, 150, "relu", "KernelExecution", 1),
        (11, 150, 400, "Cijk_MT64x64", "KernelExecution", 2),
        (12, 500, 510, "softmax", "Task", 3),
        (13, 510, 530, "relu", "Task", 3),
        (14, 20, 90, "", "CopyHostToDevice", 4),
        (15, 90, 95, "", "FillBuffer", 5),
        (16, 96, 96, "", "Marker", 0),
        (17, 600, 590, "", "KernelExecution", 6),
    ]
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA synchronous = OFF")
        db.executescript(SCHEMA + (OPERATORS if operators else ""))
        db.execute("INSERT INTO rocpd_metadata VALUES (1, 'schema_version', ?)", (version,))
        db.executemany("INSERT INTO rocpd_string VALUES (?, ?)", enumerate(STRINGS, 1))
        for op, start, end, name, kind, call in ops:
            row = (op, 2, 0, 0, start, end, word(name), word(kind))
            db.execute("INSERT INTO rocpd_op VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            if call:
                db.execute("INSERT INTO rocpd_api_ops (api_id, op_id) VALUES (?, ?)", (call, op))
        for call, name in calls.items():
            db.execute("INSERT INTO rocpd_api VALUES (?, 77, 78, 1, 2, ?, 1)", (call, word(name)))
        db.execute(
            "INSERT INTO rocpd_kernelapi VALUES (1, 3, 2, 1, 64, 1, 1, 0, 0, ?)", (word("relu"),)
        )
        db.execute(
            "INSERT INTO rocpd_kernelapi VALUES (2, 1792, 782, 1, 256, 1, 1, 0, 0, ?)",
            (word("Cijk_MT64x64"),),
        )
        db.execute(
            "INSERT INTO rocpd_kernelapi VALUES (6, 0, 1, 1, 0, 1, 1, 0, 0, ?)", (word("softmax"),)
        )
        db.execute("INSERT INTO rocpd_copyapi VALUES (4, 4096)")
        if operators:
            db.executemany(
                "INSERT INTO rocpd_api VALUES (?, 77, 78, 1, 2, ?, ?)", [(8, 15, 16), (9, 15, 17)]
            )
            db.executemany(
                "INSERT INTO ext_autogradapi VALUES (?, ?)",
                [(8, word("aten::mm")), (9, word("aten::linear"))],
            )
            stack = [
                (2, 2, 0),
                (9, 2, 2),
                (8, 2, 1),
                (9, 1, 1),
                (9, None, 1),
                (None, 3, 1),
                (9, 3, None),
            ]
            db.executemany(
                "INSERT INTO ext_callstack (parent_id, child_id, depth) VALUES (?, ?, ?)", stack
            )
        db.executescript(extra)
    return DataFile(path, path.name, True)


def read(*files: DataFile) -> Trace:
    reader = RpdReader()
    for file in files:
        assert reader.sniff(file.path, head(file.path))
    [group] = reader.gather(files)
    return reader.trace(group, Options())


@pytest.fixture
def table(tmp_path: Path) -> pd.DataFrame:
    return read(make(tmp_path / "a.rpd")).dispatches


def test_every_operation_is_a_row_in_the_order_of_time(table: pd.DataFrame) -> None:
    assert table["kind"].tolist() == [
        "memcpy",
        "memset",
        "kernel",
        "kernel",
        "kernel",
        "kernel",
        "kernel",
    ]
    assert table["name"].tolist() == [
        "HtoD",
        "memset",
        "relu",
        "Cijk_MT64x64",
        "softmax",
        "relu",
        "softmax",
    ]
    assert table["duration_ns"].tolist() == [70, 5, 50, 250, 10, 20, -10]
    assert table["source"].tolist() == [f"a.rpd:{row}" for row in (5, 6, 1, 2, 3, 4, 8)]
    assert table["bytes"].dropna().tolist() == [4096]
    assert table["gpu"].unique().tolist() == [2]
    assert table["process"].unique().tolist() == [77]
    assert table["lds_bytes"].isna().all()
    assert tuple(table) == COLUMNS


def test_grids_are_workgroups_whatever_the_call_takes(table: pd.DataFrame) -> None:
    launched = table[table["name"].isin(["relu", "Cijk_MT64x64"]) & table["grid_x"].notna()]
    assert launched[["grid_x", "grid_y", "grid_z"]].to_numpy().tolist() == [[3, 2, 1], [7, 782, 1]]
    assert launched[["block_x", "block_y", "block_z"]].to_numpy().tolist() == [
        [64, 1, 1],
        [256, 1, 1],
    ]


def test_a_size_of_zero_is_not_recorded_and_a_nameless_kernel_is_named_by_its_launch(
    table: pd.DataFrame,
) -> None:
    last = table.iloc[-1]
    assert last["name"] == "softmax"
    assert pd.isna(last["grid_x"])
    assert pd.isna(last["block_x"])


def test_kernels_of_a_graph_are_kept_and_linked_to_its_launch(table: pd.DataFrame) -> None:
    replayed = table[table["correlation"] == 3]
    assert replayed["name"].tolist() == ["softmax", "relu"]
    assert replayed["linked"].all()
    assert replayed["grid_x"].isna().all()


def test_markers_are_left_out_and_the_missing_device_and_grids_are_said(tmp_path: Path) -> None:
    trace = read(make(tmp_path / "a.rpd"))
    assert remark("markers-left-out", operations=1) in trace.notes
    assert remark("device-not-recorded", by="rpd") in trace.notes
    assert remark("kernels-without-grid", kernels=3) in trace.notes
    assert list(trace.findings) == []


def test_an_operation_without_a_recorded_call_is_not_linked(tmp_path: Path) -> None:
    gone = "DELETE FROM rocpd_api_ops WHERE op_id = 10; DELETE FROM rocpd_api WHERE id = 2;"
    table = read(make(tmp_path / "a.rpd", extra=gone)).dispatches
    assert table.set_index("source").loc[["a.rpd:1", "a.rpd:2", "a.rpd:3"], "linked"].tolist() == [
        False,
        False,
        True,
    ]
    assert len(table) == 7


def test_a_link_written_twice_does_not_double_an_operation(tmp_path: Path) -> None:
    again = "INSERT INTO rocpd_api_ops (api_id, op_id) SELECT api_id, op_id FROM rocpd_api_ops"
    assert len(read(make(tmp_path / "a.rpd", extra=again)).dispatches) == 7


def test_the_operators_around_a_launch_are_taken_from_the_extensions(tmp_path: Path) -> None:
    table = read(make(tmp_path / "a.rpd", operators=True)).dispatches.set_index("source")
    assert table.loc["a.rpd:2", ["op_name", "op_id", "op_stack"]].tolist() == [
        "aten::mm",
        8,
        "aten::linear;aten::mm",
    ]
    assert table.loc["a.rpd:1", ["op_name", "op_id", "op_stack"]].tolist() == [
        "aten::linear",
        9,
        "aten::linear",
    ]
    assert table.loc["a.rpd:3", "op_name"] == ""


def test_an_interrupted_operation_is_a_finding(tmp_path: Path) -> None:
    trace = read(make(tmp_path / "a.rpd", extra='UPDATE rocpd_op SET "end" = NULL WHERE id = 10'))
    assert len(trace.dispatches) == 6
    assert [finding.code for finding in trace.findings] == ["no-time"]


def test_a_database_without_operations_is_an_empty_table_and_a_note(tmp_path: Path) -> None:
    trace = read(make(tmp_path / "a.rpd", extra="DELETE FROM rocpd_op"))
    assert trace.dispatches.empty
    assert tuple(trace.dispatches) == COLUMNS
    assert trace.notes == [remark("no-activities", by="rpd")]


def test_the_exported_chrome_trace_is_claimed_but_not_read_twice(tmp_path: Path) -> None:
    database = make(tmp_path / "run.rpd")
    packed = tmp_path / "run.rpd.gz"
    packed.write_bytes(gzip.compress(database.path.read_bytes()))
    export = tmp_path / "run.json"
    export.write_text(
        '[ {}\n,{"name": "process_name", "ph": "M", "pid":"2","args":{"name":"GPU2"}}\n'
        ',{"pid":"2","tid":"0","name":"relu","ts":"1","dur":"2","ph":"X","args":{"desc":"KernelExecution"}}\n]\n',
        encoding="utf-8",
    )
    file = DataFile(export, export.name, False)
    trace = read(DataFile(packed, packed.name, True), file)
    assert len(trace.dispatches) == 7
    assert remark("exported-trace", trace="run.json") in trace.notes
    alone = read(file)
    assert alone.dispatches.empty
    assert len(alone.notes) == 1
    assert [
        len(group) for group in RpdReader().gather([file, database, DataFile(packed, "p", True)])
    ] == [2, 1]


@pytest.mark.parametrize(
    "content",
    [
        b'{"traceEvents": [{"ph": "X", "cat": "kernel", "args": {"name": "GPU0"}}]}',
        b'{ "traceEvents":[{}\n,{"args":{"name":"GPU0"},"ph":"M","pid":6,"name":"process_name","sort_index":6}',
        b"[]",
        b"rocpd_op,rocpd_api",
        b"",
    ],
)
def test_other_files_are_not_claimed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.json").write_bytes(content)
    assert not RpdReader().sniff(tmp_path / "x.json", content)


def test_schema_3_is_not_claimed(tmp_path: Path) -> None:
    file = make(tmp_path / "a.rpd", version="3")
    assert not RpdReader().sniff(file.path, head(file.path))


def test_a_table_without_its_columns_is_refused(tmp_path: Path) -> None:
    file = make(
        tmp_path / "a.rpd",
        extra='DROP TABLE rocpd_op; CREATE TABLE rocpd_op ("id" integer, "start" integer)',
    )
    with pytest.raises(DataError, match=r"a\.rpd.*rocpd_op.*'end'"):
        read(file)


def test_the_published_example_has_its_kernels_copies_and_grids(shared_data: Path) -> None:
    path = shared_data / "profiles" / "rpd_legacy" / "matmul_result.rpd"
    table = read(DataFile(path, path.name, True)).dispatches
    ends = table["start_ns"] + table["duration_ns"]
    assert (len(table), table["duration_ns"].sum()) == (85, 183918056)
    assert ends.max() - table["start_ns"].min() == 2964070817
    kernels = table[table["kind"].eq("kernel") & table["grid_x"].notna()]
    assert (len(kernels), kernels["duration_ns"].sum()) == (29, 26399795)
    gemm = kernels[kernels["name"].str.startswith("Cijk")].iloc[0]
    assert gemm[["grid_x", "grid_y", "grid_z", "block_x"]].tolist() == [7, 782, 1, 256]
    assert table.loc[table["name"].eq("HtoD"), "bytes"].tolist() == [2000000000, 32000000]
    assert table["linked"].all()


def test_the_example_with_graphs_keeps_what_its_view_drops(shared_data: Path) -> None:
    path = shared_data / "profiles" / "rpd_legacy" / "mytrace.rpd.gz"
    table = read(DataFile(path, path.name, True)).dispatches
    ends = table["start_ns"] + table["duration_ns"]
    assert (len(table), table["duration_ns"].sum()) == (10124, 416625081)
    assert ends.max() - table["start_ns"].min() == 452967953
    kernels = table[table["kind"] == "kernel"]
    viewed = kernels[kernels["grid_x"].notna()]
    assert (len(viewed), viewed["duration_ns"].sum()) == (1228, 316231882)
    assert len(kernels) - len(viewed) == 7720
    assert (viewed["op_name"] == "aten::_scaled_mm").sum() == 256
    assert viewed.loc[viewed["name"].str.startswith("Cijk"), "grid_x"].unique().tolist() == [
        888,
        592,
        4144,
    ]


def test_the_examples_export_is_recognised(shared_data: Path) -> None:
    folder = shared_data / "profiles" / "rpd_legacy"
    trace = read(
        *(
            DataFile(folder / name, name, False)
            for name in ("matmul_result.json", "matmul_result.rpd")
        )
    )
    assert len(trace.dispatches) == 85
