"""PyTorch traces made up by hand, in Kineto's format."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

Event = dict[str, Any]
MI300X = {
    "id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206141652992, "computeMajor": 9, "computeMinor": 4,
    "warpSize": 64, "numSms": 304,
}  # fmt: skip
H100 = {
    "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936, "computeMajor": 9, "computeMinor": 0,
    "warpSize": 32, "numSms": 132,
}  # fmt: skip
GEMM = {
    "Input Dims": [[4096, 4096], [4096, 4096]],
    "Input type": ["c10::BFloat16", "c10::BFloat16"],
}


def event(
    cat: str, name: str, ts: float, dur: float, tid: int = 7, pid: int = 5, **args: Any
) -> Event:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def op(name: str, ts: float, dur: float, number: int, tid: int = 7, **args: Any) -> Event:
    return event("cpu_op", name, ts, dur, tid, **{"External id": number}, **args)


def launch(
    ts: float, correlation: int, name: str = "hipLaunchKernel", tid: int = 7, **args: Any
) -> Event:
    return event("cuda_runtime", name, ts, 2.0, tid, correlation=correlation, **args)


def kernel(ts: float, correlation: int, dur: float = 1.5, name: str = "knl", **args: Any) -> Event:
    return event("kernel", name, ts, dur, 0, 0, device=0, stream=3, correlation=correlation, **args)


def product(
    number: int, us: float, start: float, name: str = "Cijk_A", height: int = 16
) -> list[Event]:
    """Return an operator, the launch in it and the kernel it launched."""
    shapes = {
        "Input Dims": [[height, 64], [64, 32]],
        "Input type": ["float", "float"],
        "Concrete Inputs": ["", ""],
    }
    told = {"External id": number}
    return [
        op("aten::mm", start, 5, number, **shapes),
        launch(start + 1, number, **told),
        kernel(start + 10, number, us, name, grid=[8, 1, 1], block=[256, 1, 1], **told),
    ]


def write(path: Path, events: Sequence[Event], *devices: Event, **top: Any) -> Path:
    """Write a trace, packed where its name says so; without devices it is of an MI300X."""
    text = json.dumps(
        {"deviceProperties": devices or (MI300X,), **top, "traceEvents": events}
    ).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def write_trace(
    path: Path, kernels: int = 30, duration: float = 300.0, device: str = "AMD Instinct MI300X"
) -> Path:
    """Write a trace of products of matrices that keep the queue busy, then a wait of the CPU."""
    end, cpu = 20 + duration * kernels, partial(event, tid=1, pid=7)
    events = [cpu("user_annotation", "ProfilerStep#1", 0, 1000 + kernels * duration)]
    for number in range(1, kernels + 1):
        at, told = 10.0 * (number - 1), {"External id": number}
        begun, where = 20 + duration * (number - 1), {"device": 2, "stream": 0}
        events += [
            cpu("cpu_op", "aten::mm", at, 8, **GEMM, **told),
            cpu("cuda_runtime", "hipExtModuleLaunchKernel", at + 1, 5, correlation=number, **told),
            event(
                "kernel",
                "Cijk_Ailk_Bljk_BBS",
                begun,
                duration,
                0,
                2,
                correlation=number,
                **where,
                **told,
            ),
        ]
    wait = 10.0 * kernels
    events.append(
        cpu("cuda_runtime", "hipDeviceSynchronize", wait, end + 5 - wait, correlation=10_000)
    )
    return write(path, events, {"id": 2, "name": device}, schemaVersion=1)
