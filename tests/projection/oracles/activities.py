"""Activities of operators whose work can be counted by hand, and two GPUs with round figures."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from flopcast.hardware import GPU
from flopcast.traces.dispatches import Trace, dispatch_table
from flopcast.traces.summary import annotate

HOST = GPU(
    name="Roundchip", vendor="AMD", cus=64, boost_mhz=2000.0, memory_bw_gbs=4000.0, pcie_gen=5,
    peaks={"bf16_matrix": 1000.0, "fp32_matrix": 200.0, "tf32_matrix": 400.0, "fp32_vector": 100.0},
)  # fmt: skip
TARGET = GPU(
    name="Halfchip", vendor="NVIDIA", cus=32, boost_mhz=1000.0, memory_bw_gbs=1000.0, pcie_gen=4,
    peaks={"bf16_matrix": 500.0, "fp32_vector": 20.0},
)  # fmt: skip
"""Half the peak, a quarter of the bandwidth, half the clock; no TF32 and no matrix unit for fp32."""

_TYPES = {"bf16": "c10::BFloat16", "fp32": "float", "fp64": "double"}


def gemm(
    m: int, n: int, k: int, *, us: float = 100.0, dtype: str = "bf16", **columns: Any
) -> dict[str, Any]:
    """Return a kernel of ``aten::mm`` on (m, k) and (k, n)."""
    return _call("aten::mm", [[m, k], [k, n]], dtype, us, **columns)


def relu(*shape: int, us: float = 100.0, dtype: str = "bf16", **columns: Any) -> dict[str, Any]:
    """Return a kernel of ``aten::relu``."""
    return _call("aten::relu", [list(shape)], dtype, us, **columns)


def softmax(*shape: int, us: float = 100.0, **columns: Any) -> dict[str, Any]:
    """Return a kernel of ``aten::_softmax`` along the last dimension."""
    return _call(
        "aten::_softmax", [list(shape), [], []], "bf16", us, ["", "-1", "False"], **columns
    )


def kernel(name: str = "who_knows", us: float = 100.0, **columns: Any) -> dict[str, Any]:
    """Return a kernel of no known operator."""
    return {"name": name, "duration_ns": round(1000 * us)} | columns


def copy(direction: str, size: int = 10**6, us: float = 100.0) -> dict[str, Any]:
    """Return a copy by the runtime."""
    return kernel(direction, us, kind="memcpy", bytes=size)


def activities(*rows: dict[str, Any]) -> pd.DataFrame:
    """Return an annotated dispatch table; each row its own call, 1 ms after the one before unless it says when."""
    plain = {
        "kind": "kernel",
        "device": HOST.name,
        "process": 1,
        "gpu": 0,
        "stream": 7,
        "linked": True,
    }
    filled = [
        {**plain, "start_ns": 10**6 * place, "op_id": place, "source": f"trace.json:{place}"} | row
        for place, row in enumerate(rows, start=1)
    ]
    names = dict.fromkeys(name for row in filled for name in row)
    columns = {name: [row.get(name) for row in filled] for name in names}
    return annotate(Trace(dispatch_table(columns))).dispatches


def _call(
    op: str,
    dims: list[list[int]],
    dtype: str,
    us: float,
    values: list[str] | None = None,
    **columns: Any,
) -> dict[str, Any]:
    types = [_TYPES[dtype] if size else "Scalar" for size in dims]
    inputs = {
        "dims": dims,
        "types": types,
        "strides": [[]] * len(dims),
        "values": values or [""] * len(dims),
    }
    plain = {"name": "k", "duration_ns": round(1000 * us), "op_name": op, "op_stack": op}
    return plain | {"op_inputs": json.dumps(inputs)} | columns
