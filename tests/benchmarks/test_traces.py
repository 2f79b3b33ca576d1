"""The trace of the benchmark: a real one repeated, with every number its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flopcast.benchmarks.traces import SAMPLE, different, peak_of, traces, write_repeated
from flopcast.readers.base import DataFile, Options
from flopcast.readers.kineto import KinetoReader
from flopcast.traces.dispatches import Trace

TRACE = {
    "schemaVersion": 1,
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10.25, "dur": 9.5,
         "args": {"External id": 3}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 12.0, "dur": 2.0,
         "args": {"External id": 3, "correlation": 8}},
        {"ph": "X", "cat": "kernel", "name": "knl", "pid": 0, "tid": 7, "ts": 14.5, "dur": 1.125,
         "args": {"External id": 3, "correlation": 8, "device": 0, "stream": 7}},
    ],
    "baseTimeNanoseconds": 5,
}  # fmt: skip


def read(path: Path) -> Trace:
    return KinetoReader().trace([DataFile(path, path.name, True)], Options())


@pytest.mark.parametrize("indent", [None, 2])
def test_a_repeated_trace_is_one_long_recording(tmp_path: Path, indent: int | None) -> None:
    once = json.dumps(TRACE, indent=indent).encode()
    events = len(json.dumps(TRACE["traceEvents"], indent=indent))
    path = tmp_path / "trace.json"
    size = write_repeated(once, path, 3 * events)
    assert size == path.stat().st_size
    rows = read(path).dispatches
    assert rows["start_ns"].tolist() == [14_505, 2_000_018_505, 4_000_022_505]
    assert rows["correlation"].tolist() == [8, 17, 26]
    assert rows["op_id"].tolist() == [3, 12, 21]
    assert set(rows["op_name"]) == {"aten::mm"}
    assert rows["linked"].all()
    assert json.loads(path.read_text())["baseTimeNanoseconds"] == 5


def test_another_number_of_activities_is_another_answer(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    write_repeated(json.dumps(TRACE).encode(), path, 1)
    assert different(read(path), json.loads(path.read_text())) == ""
    assert different(read(path), {"traceEvents": []}) == "1 activities, not 0"
    said = peak_of(path, path.stat().st_size)
    assert "resident memory" in said or not Path("/proc/self/status").is_file()


def test_without_the_sample_there_is_nothing_to_compare(tmp_path: Path, shared_data: Path) -> None:
    assert list(traces(tmp_path, 1)) == []
    assert (shared_data / SAMPLE).is_file()
