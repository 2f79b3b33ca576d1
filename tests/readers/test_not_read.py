"""Files that no reader reads are told for what they are."""

from __future__ import annotations

import io
import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

import flopcast as fc
from flopcast.errors import DataError

CHROME = {
    "displayTimeUnit": "ns",
    "traceEvents": [{"ph": "X", "pid": 1, "tid": 1, "ts": 1.0, "dur": 5.0, "name": "x"}],
}
SUMS = " Time (%)  Total Time (ns)  Instances   Avg (ns)   Name\n    100.0          500,000         10     50,000.0   vecAdd\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            json.dumps({"elapsed_time": 9.0, "num_requests": 9, "requests_per_second": 1.0}),
            "throughput",
        ),
        (json.dumps(CHROME), "neither torch.profiler nor rocprof"),
        (SUMS, "--report cuda_gpu_trace"),
        (
            json.dumps({"architectures": ["LlamaForCausalLM"], "hidden_size": 4096}),
            "configuration of a model",
        ),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 9\n", "git lfs pull"),
        ("==PROF== Connected to process 1\n==PROF== Disconnected\n", "ncu --csv"),
        ("\x00\x01\x02", "binary"),
        (" \n", "is empty"),
    ],
)
def test_a_known_producer_is_named(tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "data.txt"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=told):
        fc.read(file)


def test_an_archive_and_a_database_of_another_tool_are_named(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("trace.json")
        member.size = 2
        archive.addfile(member, io.BytesIO(b"{}"))
    with pytest.raises(DataError, match="tar archive"):
        fc.read(tmp_path / "a.tar.gz")
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute("CREATE TABLE other (a)")
    with pytest.raises(DataError, match="SQLite database without"):
        fc.read(tmp_path / "a.db")


@pytest.mark.parametrize(
    "header",
    [
        "device,op,m,n,k,duration_us\n",
        "Index,KernelName,gpu-id,queue-id,grd,wgr,BeginNs,EndNs\n",
        "Index,KernelName,gpu-id,queue-id,grd,wgr,SQ_WAVES\n",
        "Validator,PT_VERSION,2.4.0\n",
    ],
)
def test_a_header_alone_is_no_empty_file(tmp_path: Path, header: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text(header)
    with pytest.raises(DataError, match="have no rows"):
        fc.read(file)


def test_an_empty_folder_holds_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no file"):
        fc.read(tmp_path)
