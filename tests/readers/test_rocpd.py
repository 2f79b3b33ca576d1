from __future__ import annotations

import contextlib
import gzip
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.readers.base import DataFile, Options
from flopcast.readers.files import head
from flopcast.readers.rocpd import RocpdReader
from flopcast.readers.rpd import RpdReader
from flopcast.remarks import remark
from flopcast.traces.dispatches import COLUMNS, Trace

GUIDS = ("00003fdc-92cb-7f34-8d4a-000000000001", "00003fdd-92cb-7f34-8d4a-000000000002")

#: The columns of rocprofiler-sdk's schema 3 that matter here, each table once for each process.
TABLES = {
    "metadata": "id INTEGER PRIMARY KEY, tag TEXT, value TEXT",
    "string": "id INTEGER PRIMARY KEY, guid TEXT, string TEXT",
    "info_process": "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, command TEXT",
    "info_thread": "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER",
    "info_agent": "id INTEGER PRIMARY KEY, guid TEXT, type TEXT, absolute_index INTEGER, logical_index INTEGER, "
    "name TEXT, model_name TEXT, product_name TEXT, extdata JSONB",
    "info_kernel_symbol": "id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name TEXT, sgpr_count INTEGER, "
    "arch_vgpr_count INTEGER, accum_vgpr_count INTEGER",
    "info_pmc": "id INTEGER PRIMARY KEY, guid TEXT, agent_id INTEGER, name TEXT, symbol TEXT",
    "event": "id INTEGER PRIMARY KEY, guid TEXT, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER",
    "pmc_event": "id INTEGER PRIMARY KEY, guid TEXT, event_id INTEGER, pmc_id INTEGER, value REAL",
    "region": "id INTEGER PRIMARY KEY, guid TEXT, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT, name_id INTEGER, "
    "event_id INTEGER",
    "kernel_dispatch": "id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, "
    "kernel_id INTEGER, dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT, end BIGINT, "
    "private_segment_size INTEGER, group_segment_size INTEGER, workgroup_size_x INTEGER, workgroup_size_y INTEGER, "
    "workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, region_name_id INTEGER, "
    "event_id INTEGER",
    "memory_copy": "id INTEGER PRIMARY KEY, guid TEXT, pid INTEGER, tid INTEGER, start BIGINT, end BIGINT, "
    "name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, "
    "event_id INTEGER",
}
KERNELS_VIEW = """CREATE VIEW kernels AS SELECT K.id, K.guid, S.display_name AS name, K.start, K.end
FROM rocpd_kernel_dispatch K
INNER JOIN rocpd_info_kernel_symbol S ON S.id = K.kernel_id AND S.guid = K.guid
INNER JOIN rocpd_info_thread T ON T.id = K.tid AND T.guid = K.guid
INNER JOIN rocpd_string R ON R.id = K.region_name_id AND R.guid = K.guid"""
STRINGS = ["", "hipLaunchKernel", "MEMORY_COPY_HOST_TO_DEVICE"]


@dataclass(frozen=True)
class Process:
    """A process whose ids start at 1, like those of any other; `offset` shifts its times."""

    guid: str
    pid: int
    gfx: str
    cus: int
    product: str
    kernel: str
    offset: int = 0


MI300X = Process(GUIDS[0], 4242, "gfx942", 304, "AMD Instinct MI300X", "gemm")
MI355X = Process(GUIDS[1], 4343, "gfx950", 256, "AMD Instinct MI355X", "softmax", 5000)


def rows(process: Process) -> dict[str, list[tuple[Any, ...]]]:
    """Return what one process recorded: three dispatches (the last without thread or region), one copy to the GPU."""
    g, t = process.guid, process.offset
    gpu = json.dumps({"cu_count": process.cus, "gfx_target_version": 90402})
    dispatch = (g, 1, 1, 1, 2)
    return {
        "metadata": [(1, "schema_version", "3"), (2, "guid", g)],
        "string": [(i, g, text) for i, text in enumerate(STRINGS, 1)],
        "info_process": [(1, g, 1, process.pid, "./a.out")],
        "info_thread": [(1, g, 1, 1, process.pid)],
        "info_agent": [
            (1, g, "CPU", 0, 0, "AMD EPYC", "", "AMD EPYC 9654", "{}"),
            (2, g, "GPU", 4, 1, process.gfx, "", process.product, gpu),
        ],
        "info_kernel_symbol": [
            (7, g, f"_Z{process.kernel}v.kd", f"{process.kernel}()", 96, 128, 4), (8, g, "_Z5plainv.kd", "", 16, 24, 0)
        ],
        "info_pmc": [(1, g, 2, "SQ_WAVES", "SQ_WAVES"), (2, g, 2, "TCC_HIT", "")],
        "event": [(event, g, stack, 0, 0) for event, stack in enumerate((11, 12, 13, 14, 11, 14), 1)],
        "pmc_event": [(1, g, 1, 1, 64.0), (2, g, 1, 2, 10.0), (3, g, 2, 1, 32.0)],
        "region": [(1, g, 1, 1, t, t + 5, 2, 5), (2, g, 1, 1, t + 6, t + 8, 2, 6)],
        "kernel_dispatch": [
            (1, *dispatch, 7, 1, 3, 9, t + 100, t + 150, 32, 4096, 256, 1, 1, 73728, 1, 1, 1, 1),
            (2, *dispatch, 7, 2, 3, 9, t + 150, t + 250, 0, 0, 64, 4, 1, 100, 8, 3, 1, 2),
            (3, g, 1, 1, None, 2, 8, 3, 3, 9, t + 250, t + 280, 0, 0, 0, 0, 0, 64, 1, 1, None, 3),
        ],
        "memory_copy": [(1, g, 1, 1, t + 10, t + 90, 3, 2, 1, 1 << 20, None, 9, 4)],
    }  # fmt: skip


def make(path: Path, *processes: Process, suffixed: bool = True, extra: str = "") -> DataFile:
    """Write a database: tables with the guid in their names, views of the plain names over all of them."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA synchronous = OFF")
        for process in processes:
            suffix = "_" + process.guid.replace("-", "_") if suffixed else ""
            filled = rows(process)
            for name, columns in TABLES.items():
                db.execute(f'CREATE TABLE IF NOT EXISTS "rocpd_{name}{suffix}" ({columns})')
                marks = ", ".join("?" * len(columns.split(", ")))
                db.executemany(f'INSERT INTO "rocpd_{name}{suffix}" VALUES ({marks})', filled[name])
        if suffixed:
            for name in TABLES:
                parts = [
                    f'SELECT * FROM "rocpd_{name}_{p.guid.replace("-", "_")}"' for p in processes
                ]
                db.execute(f"CREATE VIEW rocpd_{name} AS {' UNION ALL '.join(parts)}")
        db.execute(KERNELS_VIEW)
        db.executescript(extra.replace("@", "_" + GUIDS[0].replace("-", "_") if suffixed else ""))
    return DataFile(path, path.name, True)


def read(file: DataFile) -> Trace:
    reader = RocpdReader()
    assert reader.sniff(file.path, head(file.path))
    assert not RpdReader().sniff(file.path, head(file.path))
    [group] = reader.gather([file])
    return reader.trace(group, Options())


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return read(make(tmp_path / "a.db", MI300X))


def test_every_dispatch_and_copy_is_a_row(trace: Trace) -> None:
    table = trace.dispatches
    assert table["kind"].tolist() == ["memcpy", "kernel", "kernel", "kernel"]
    assert table["name"].tolist() == ["HtoD", "gemm()", "gemm()", "_Z5plainv.kd"]
    assert table["start_ns"].tolist() == [10, 100, 150, 250]
    assert table["duration_ns"].tolist() == [80, 50, 100, 30]
    assert table["source"].tolist() == ["a.db:1", "a.db:1", "a.db:2", "a.db:3"]
    assert table["bytes"].tolist() == [1 << 20, pd.NA, pd.NA, pd.NA]
    assert table["dispatch_id"].tolist() == [pd.NA, 1, 2, 3]
    assert table["process"].unique().tolist() == [4242]
    assert tuple(table)[: len(COLUMNS)] == COLUMNS


def test_grids_become_workgroups_rounded_up(trace: Trace) -> None:
    table = trace.dispatches[["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]]
    assert table.iloc[1].tolist() == [288, 1, 1, 256, 1, 1]
    assert table.iloc[2].tolist() == [2, 2, 3, 64, 4, 1]
    assert table.iloc[3].isna().all()


def test_resources_come_from_the_symbol_and_the_dispatch(trace: Trace) -> None:
    names = ["lds_bytes", "scratch_bytes", "vgpr", "accum_vgpr", "sgpr"]
    assert trace.dispatches.loc[1, names].tolist() == [4096, 32, 128, 4, 96]
    assert trace.dispatches.loc[3, names].tolist() == [0, 0, 24, 0, 16]


def test_launches_are_found_by_stack_id(trace: Trace) -> None:
    assert trace.dispatches["linked"].tolist() == [True, True, False, False]
    assert trace.dispatches["correlation"].tolist() == [14, 11, 12, 13]


def test_the_device_and_its_number_come_from_the_agent(trace: Trace) -> None:
    assert trace.dispatches["device"].unique().tolist() == ["MI300X"]
    assert trace.dispatches["gpu"].unique().tolist() == [4]
    assert trace.dispatches["stream"].tolist() == [9, 9, 9, 9]


def test_dispatches_that_the_view_drops_are_kept_and_reported(tmp_path: Path, trace: Trace) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as db:
        assert db.execute("SELECT COUNT(*) FROM kernels").fetchone() == (2,)
    [finding] = trace.findings
    assert (finding.code, finding.severity, finding.count) == ("dropped-by-view", "info", 1)
    assert finding.share == pytest.approx(30 / 180)


def test_counters_are_columns_of_their_dispatch(trace: Trace) -> None:
    counters = trace.dispatches[["counter.SQ_WAVES", "counter.TCC_HIT"]]
    assert counters.fillna(-1).to_numpy().tolist() == [[-1, -1], [64, 10], [32, -1], [-1, -1]]


def test_values_of_several_instances_are_summed_and_reported_and_samples_left_out(
    tmp_path: Path,
) -> None:
    extra = f"""INSERT INTO "rocpd_pmc_event@" VALUES (9, '{GUIDS[0]}', 1, 2, 5.0), (10, '{GUIDS[0]}', 77, 1, 300.0)"""
    trace = read(make(tmp_path / "a.db", MI300X, extra=extra))
    assert trace.dispatches.loc[1, "counter.TCC_HIT"] == 15
    assert [(f.code, f.count) for f in trace.findings if f.code != "dropped-by-view"] == [
        ("counter-instances", 1)
    ]
    assert trace.notes == [remark("values-of-no-dispatch", values=1)]


def test_processes_with_the_same_ids_are_kept_apart(tmp_path: Path) -> None:
    table = read(make(tmp_path / "a.db", MI300X, MI355X)).dispatches
    assert len(table) == 8
    kernels = table[table["name"].isin(["gemm()", "softmax()"])]
    found = kernels[["process", "name", "device", "start_ns"]].to_numpy().tolist()
    assert found == [
        [4242, "gemm()", "MI300X", 100],
        [4242, "gemm()", "MI300X", 150],
        [4343, "softmax()", "MI355X", 5100],
        [4343, "softmax()", "MI355X", 5150],
    ]
    assert kernels["linked"].tolist() == [True, False, True, False]
    assert kernels["counter.SQ_WAVES"].tolist() == [64, 32, 64, 32]
    assert kernels["source"].tolist() == ["a.db:1", "a.db:2", "a.db:4", "a.db:5"]


def test_a_launch_of_another_process_links_nothing(tmp_path: Path) -> None:
    table = read(
        make(tmp_path / "a.db", MI300X, MI355X, extra='DELETE FROM "rocpd_region@"')
    ).dispatches
    assert table.groupby("process")["linked"].sum().tolist() == [0, 2]


def test_views_that_cover_one_process_only_lose_nothing(tmp_path: Path) -> None:
    narrow = 'DROP VIEW rocpd_kernel_dispatch; CREATE VIEW rocpd_kernel_dispatch AS SELECT * FROM "rocpd_kernel_dispatch@"'
    assert len(read(make(tmp_path / "a.db", MI300X, MI355X, extra=narrow)).dispatches) == 8


def test_rows_without_a_guid_are_told_by_their_table(tmp_path: Path) -> None:
    table = read(
        make(tmp_path / "a.db", MI300X, MI355X, extra='UPDATE "rocpd_event@" SET guid = NULL')
    ).dispatches
    assert table.groupby("process")["linked"].sum().tolist() == [2, 2]


def test_tables_without_a_suffix_are_read_as_well(tmp_path: Path, trace: Trace) -> None:
    plain = read(make(tmp_path / "plain.db", MI300X, suffixed=False)).dispatches
    pd.testing.assert_frame_equal(
        plain.drop(columns="source"), trace.dispatches.drop(columns="source")
    )


@pytest.mark.parametrize("streams", ["NULL", "0"])
def test_where_no_streams_were_recorded_the_queue_tells_dispatches_apart(
    tmp_path: Path, streams: str
) -> None:
    extra = f"""UPDATE "rocpd_kernel_dispatch@" SET stream_id = {streams};
    UPDATE "rocpd_kernel_dispatch@" SET queue_id = 4 WHERE id = 2"""
    trace = read(make(tmp_path / "a.db", MI300X, extra=extra))
    assert trace.dispatches["stream"].tolist() == [pd.NA, 3, 4, 3]
    assert trace.notes == [remark("stream-is-queue")]


def test_without_api_calls_nothing_is_linked_and_the_note_says_how_to_record_them(
    tmp_path: Path,
) -> None:
    trace = read(make(tmp_path / "a.db", MI300X, extra='DELETE FROM "rocpd_region@"'))
    assert not trace.dispatches["linked"].any()
    assert trace.notes == [remark("no-api-calls", by="rocpd")]


def test_a_database_of_api_calls_only_is_an_empty_table(tmp_path: Path) -> None:
    empty = 'DELETE FROM "rocpd_kernel_dispatch@"; DELETE FROM "rocpd_memory_copy@"; DELETE FROM "rocpd_pmc_event@"'
    trace = read(make(tmp_path / "a.db", MI300X, extra=empty))
    assert trace.dispatches.empty
    assert tuple(trace.dispatches) == COLUMNS
    assert trace.notes == [remark("no-activities", by="rocpd")]


def test_copies_alone_and_a_copy_to_the_host(tmp_path: Path) -> None:
    extra = """DELETE FROM "rocpd_kernel_dispatch@"; DELETE FROM "rocpd_pmc_event@";
    UPDATE "rocpd_memory_copy@" SET dst_agent_id = 1, src_agent_id = 2;
    UPDATE "rocpd_string@" SET string = 'MEMORY_COPY_DEVICE_TO_HOST' WHERE id = 3"""
    table = read(make(tmp_path / "a.db", MI300X, extra=extra)).dispatches
    assert table[["kind", "name", "device", "gpu"]].to_numpy().tolist() == [
        ["memcpy", "DtoH", "MI300X", 4]
    ]


@pytest.mark.parametrize(
    "extdata", ["", "[]", "not json", '{"cu_count": "many"}', "[" * 100000, "null"]
)
def test_an_agent_without_readable_details_is_named_by_its_product(
    tmp_path: Path, extdata: str
) -> None:
    file = make(tmp_path / "a.db", MI300X)
    with contextlib.closing(sqlite3.connect(file.path)) as db, db:
        db.execute(
            f'UPDATE "rocpd_info_agent_{GUIDS[0].replace("-", "_")}" SET extdata = ?', (extdata,)
        )
    assert read(file).dispatches["device"].unique().tolist() == ["MI300X"]


def test_a_compressed_database_is_recognised_and_reads_the_same(
    tmp_path: Path, trace: Trace
) -> None:
    packed = tmp_path / "a.db.gz"
    packed.write_bytes(gzip.compress((tmp_path / "a.db").read_bytes()))
    pd.testing.assert_frame_equal(read(DataFile(packed, "a.db", True)).dispatches, trace.dispatches)


def test_the_stated_schema_decides(tmp_path: Path) -> None:
    file = make(tmp_path / "a.db", MI300X, extra="""UPDATE "rocpd_metadata@" SET value = '2'""")
    assert not RocpdReader().sniff(file.path, head(file.path))


def test_a_dispatch_table_without_its_columns_is_refused(tmp_path: Path) -> None:
    extra = 'DROP VIEW kernels; DROP VIEW rocpd_kernel_dispatch; ALTER TABLE "rocpd_kernel_dispatch@" DROP COLUMN "end"'
    file = make(tmp_path / "a.db", MI300X, extra=extra)
    with pytest.raises(DataError, match=r"a\.db.*rocpd_kernel_dispatch_\w+.*'end'"):
        read(file)
