"""Traces of JAX: streams of GPUs, what repeats them, grids, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.readers import read
from flopcast.readers.base import DataFile, Options
from flopcast.readers.jax_trace import JaxTraceReader

DETAILS = "regs:16 static_shared:32 dynamic_shared:96 grid:64,2,1 block:128,1,1 occ_pct:100"


def named(kind: str, name: str, pid: int, tid: int | None = None) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": f"{kind}_name", "args": {"name": name}}


def event(name: str, pid: int, tid: int, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name, "args": args}


def document(kernel: str = "gemm_fusion_dot") -> dict[str, Any]:
    events = [
        named("process", "/host:CPU", 701),
        named("process", "/device:GPU:0", 1),
        named("process", "/device:GPU:1", 2),
        named("thread", "Stream #14(Compute,MemcpyD2D)", 1, 14),
        named("thread", "Stream #15(Compute)", 2, 15),
        named("thread", "XLA Ops", 1, 99),
        event(kernel, 1, 14, 10.125, 2.5, correlation_id="23", tf_op="jit(f)/dot_general", kernel_details=DETAILS),
        event("MemcpyD2D", 1, 14, 20.0, 1.25, memcpy_details="kind_src:device kind_dst:device size:4096 dest:0 async:1"),
        event("loop_add_fusion", 2, 15, 11.0, 3.0, correlation_id="24", kernel_details=DETAILS),
        event(kernel, 1, 99, 10.125, 2.5, hlo_op="gemm_fusion_dot"),
        event("PjitFunction(f)", 701, 5, 1.0, 90.0),
        event("broken", 1, 14, "x", 1.0),  # type: ignore[arg-type]
        {},
    ]  # fmt: skip
    return {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": events}


def written(folder: Path, content: Any) -> Path:
    path = folder / "host.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    return path


def traced(path: Path) -> pd.DataFrame:
    return JaxTraceReader().trace([DataFile(path, path.name, True)], Options()).dispatches


def test_streams_are_read_and_their_repetitions_passed_over(tmp_path: Path) -> None:
    table = traced(written(tmp_path, document()))
    assert table["name"].tolist() == ["gemm_fusion_dot", "loop_add_fusion", "DtoD"]
    assert table["start_ns"].tolist() == [10_125, 11_000, 20_000]
    assert table["duration_ns"].tolist() == [2_500, 3_000, 1_250]
    assert table["gpu"].tolist() == [0, 1, 0]
    assert table["stream"].tolist() == [14, 15, 14]
    assert table.loc[0, ["grid_x", "grid_y", "block_x", "lds_bytes", "vgpr"]].tolist() == [
        64,
        2,
        128,
        128,
        16,
    ]
    assert table["op_name"].tolist()[0] == "jit(f)/dot_general"
    assert table["bytes"].tolist()[2] == 4096
    assert table["source"].tolist()[0] == "host.trace.json.gz:7"


def test_grids_of_amd_have_no_known_unit(tmp_path: Path) -> None:
    table = traced(written(tmp_path, document("Cijk_Ailk_Bljk_BBS_BH_MT64")))
    assert table["grid_x"].isna().all()


def test_kernels_become_rows(tmp_path: Path) -> None:
    found = read([written(tmp_path, document())], defaults={"device": "H100"})
    assert sorted(found.frame["duration_us"]) == [1.25, 2.5, 3.0]


def test_a_trace_without_a_gpu_is_refused(tmp_path: Path) -> None:
    content = document()
    content["traceEvents"][1:3] = [named("process", "/device:TPU:0", 1)]
    with pytest.raises(DataError, match="TPUs are not read"):
        read([written(tmp_path, content)])
