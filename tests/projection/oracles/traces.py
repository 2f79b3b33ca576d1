"""Small traces with operators, as a reader returns them: products of matrices, element-wise kernels, a collective."""

from __future__ import annotations

import json

import pandas as pd

from flopcast.traces.dispatches import Trace, call_table, dispatch_table, empty_calls
from flopcast.traces.summary import Annotated, annotate

US = 1000


def trace(
    rows: list[dict[str, object]],
    *,
    device: str = "MI300X",
    launched: bool = True,
    steps: pd.DataFrame | None = None,
) -> Annotated:
    """Return an annotated trace; `start` and `duration` are in µs, launches take 2 µs and 5 µs more to take effect."""
    count = len(rows)
    table = dispatch_table(
        {
            "kind": [row.get("kind", "kernel") for row in rows],
            "device": device,
            "process": 1,
            "gpu": 0,
            "stream": [row.get("stream", 0) for row in rows],
            "name": [row.get("name", "kernel") for row in rows],
            "start_ns": [round(float(str(row["start"])) * US) for row in rows],
            "duration_ns": [round(float(str(row["duration"])) * US) for row in rows],
            "bytes": [row.get("bytes") for row in rows],
            "correlation": range(count),
            "linked": [row.get("linked", launched) for row in rows],
            "op_name": [row.get("op", "") for row in rows],
            "op_id": range(count),
            "op_inputs": [json.dumps(row["inputs"]) if "inputs" in row else "" for row in rows],
            "collective": [row.get("collective", "") for row in rows],
            "collective_bytes": [row.get("message") for row in rows],
            "group_size": [row.get("ranks") for row in rows],
            "step": [row.get("step") for row in rows],
        }
    )
    calls = call_table(
        {
            "name": ["hipLaunchKernel"] * count,
            "start_ns": [
                round(float(str(row.get("called", float(str(row["start"])) - 7))) * US)
                for row in rows
            ],
            "duration_ns": [2 * US] * count,
            "process": [1] * count,
            "thread": [0] * count,
            "correlation": range(count),
        }
    )
    found = Trace(table, calls=calls if launched else empty_calls())
    return annotate(found if steps is None else Trace(table, steps, calls=found.calls))


def gemm(start: float, duration: float, size: int = 4096, **more: object) -> dict[str, object]:
    """Return a product of square bf16 matrices."""
    inputs = {"dims": [[size, size], [size, size]], "types": ["c10::BFloat16", "c10::BFloat16"]}
    return {
        "start": start,
        "duration": duration,
        "op": "aten::mm",
        "inputs": inputs,
        "name": "Cijk_Ailk_BBS",
        **more,
    }


def add(start: float, duration: float, size: int = 10_000_000, **more: object) -> dict[str, object]:
    """Return the sum of two bf16 vectors."""
    inputs = {"dims": [[size], [size]], "types": ["c10::BFloat16", "c10::BFloat16"]}
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>"
    return {
        "start": start,
        "duration": duration,
        "op": "aten::add",
        "inputs": inputs,
        "name": name,
        **more,
    }


def all_reduce(
    start: float, duration: float, message: int = 2**26, **more: object
) -> dict[str, object]:
    """Return an all-reduce of eight ranks."""
    return {
        "start": start, "duration": duration, "name": "ncclDevKernel_Generic", "collective": "allreduce",
        "message": message, "ranks": 8, **more,
    }  # fmt: skip


def busy(count: int = 20) -> Annotated:
    """Return a queue that is never idle: products and sums by turns, launched long before."""
    rows, now = [], 1000.0
    for number in range(count):
        duration = 300.0 if number % 2 == 0 else 20.0
        make = gemm if number % 2 == 0 else add
        rows.append(make(now, duration, called=10.0 * number))
        now += duration
    return trace(rows)


def idle(count: int = 20) -> Annotated:
    """Return small kernels, each launched long after the one before has ended."""
    return trace([add(100.0 * number, 5.0, size=1000) for number in range(count)])
