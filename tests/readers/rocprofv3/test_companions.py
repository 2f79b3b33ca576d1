"""Files that stand beside a kernel trace: every row of them is seen, and none is taken for an activity of the GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.readers.base import DataFile, Options
from flopcast.readers.rocprofv3_csv import CsvTable, Rocprofv3CsvReader

ROWS = {
    "csv_docs_gfx/hip_api_stats.csv": 17,
    "csv_docs_gfx/hip_compile_trace.csv": 5,
    "csv_docs_gfx/hip_domain_stats.csv": 1,
    "csv_docs_gfx/hip_runtime_trace.csv": 8,
    "csv_docs_gfx/hip_trace.csv": 17,
    "csv_docs_gfx/hsa_api_trace.csv": 10,
    "csv_docs_gfx/hsa_core_api_trace.csv": 32,
    "csv_docs_gfx/marker_api_trace.csv": 5,
    "csv_docs_gfx/memory_allocation_trace.csv": 4,
    "csv_docs_gfx/pc_sampling_host_trap.csv": 79,
    "csv_docs_gfx/rccl_trace.csv": 21,
    "csv_docs_gfx/rocpd-to-csv.csv": 13,
    "csv_docs_gfx/scratch_memory_trace.csv": 2,
    "csv_docs_2024_10/hip_api_stats.csv": 17,
    "csv_real_rdna35/decode_hip_api_trace.csv": 920,
}


@pytest.mark.parametrize(("name", "rows"), ROWS.items())
def test_companions_are_read_whole_and_hold_no_activity(
    shared_data: Path, name: str, rows: int
) -> None:
    path = shared_data / "profiles" / "rocprofv3" / name
    file = DataFile(path, path.name, True)
    assert len(CsvTable(file, Options()).lines) == rows
    trace = Rocprofv3CsvReader().trace([file], Options())
    assert trace.dispatches.empty
    assert trace.notes
