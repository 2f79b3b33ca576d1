"""The workloads of the embedded measurements: operators with their dimensions.

The shapes are those of small models (hidden sizes, head sizes, image sizes), spread so that every operator has
launch-bound, memory-bound and compute-bound members on a two-core CPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

Shape = dict[str, Any]

DTYPES = ("fp32", "bf16")


def shapes() -> Iterator[Shape]:
    """Yield every workload of the suite: operator, dtype and the operator's dimensions."""
    for dtype in DTYPES:
        for make in (_gemm, _batched_gemm, _conv, _attention, _row_wise, _element_wise):
            for shape in make():
                yield {"dtype_a": dtype, **shape}


def _gemm() -> Iterator[Shape]:
    weights = [(256, 256), (768, 768), (1024, 4096), (2304, 768), (3072, 768), (512, 2048), (4096, 1024), (1000, 1280)]
    for (n, k), m in itertools.product(weights, (1, 4, 16, 50, 64, 128, 200, 512)):
        yield {"op": "gemm", "m": m, "n": n, "k": k}


def _batched_gemm() -> Iterator[Shape]:
    sides = [
        (64, 64, 64),
        (128, 128, 64),
        (128, 64, 128),
        (197, 197, 64),
        (256, 256, 32),
        (384, 384, 64),
        (512, 64, 512),
    ]
    for (m, n, k), batch in itertools.product(sides, (2, 8, 12, 48)):
        yield {"op": "batched_gemm", "batch": batch, "m": m, "n": n, "k": k}


def _conv() -> Iterator[Shape]:
    layers = [  # in_channels, out_channels, image side, filter side, stride, groups
        (3, 32, 112, 3, 2, 1),
        (3, 64, 64, 7, 2, 1),
        (64, 64, 28, 1, 1, 1),
        (64, 64, 28, 3, 1, 1),
        (64, 128, 28, 3, 2, 1),
        (128, 128, 14, 3, 1, 1),
        (128, 512, 14, 1, 1, 1),
        (256, 256, 14, 3, 1, 1),
        (512, 512, 7, 3, 1, 1),
        (96, 96, 28, 3, 1, 96),
    ]
    for (c_in, c_out, side, filter_side, stride, groups), batch in itertools.product(layers, (1, 4, 8)):
        pad = filter_side // 2
        out = (side + 2 * pad - filter_side) // stride + 1
        yield {
            "op": "conv", "direction": "F", "layout": "NCHW", "batch": batch, "groups": groups,
            "in_channels": c_in, "in_d": 1, "in_h": side, "in_w": side,
            "out_channels": c_out, "out_d": 1, "out_h": out, "out_w": out,
            "fil_d": 1, "fil_h": filter_side, "fil_w": filter_side,
            "pad_d": 0, "pad_h": pad, "pad_w": pad,
            "stride_d": 1, "stride_h": stride, "stride_w": stride,
            "dil_d": 1, "dil_h": 1, "dil_w": 1,
        }  # fmt: skip


def _attention() -> Iterator[Shape]:
    for heads, head_dim in ((4, 64), (12, 64), (16, 128)):
        for batch, seq_q, seq_kv in (
            (1, 64, 64),
            (1, 197, 197),
            (1, 512, 512),
            (4, 128, 128),
            (8, 1, 256),
            (8, 1, 1024),
        ):
            yield {
                "op": "attention", "batch": batch, "heads": heads, "kv_heads": heads, "seq_q": seq_q,
                "seq_kv": seq_kv, "head_dim": head_dim, "causal": False,
            }  # fmt: skip


def _row_wise() -> Iterator[Shape]:
    for op in ("softmax", "layer_norm", "reduction"):
        for cols, rows in itertools.product((128, 768, 1024, 4096), (16, 128, 512, 1000, 3152)):
            yield {"op": op, "rows": rows, "cols": cols}


def _element_wise() -> Iterator[Shape]:
    for op in ("add", "gelu", "copy"):
        for cols, rows in itertools.product((256, 768, 3072, 4096), (16, 128, 512, 1000, 3152)):
            yield {"op": op, "rows": rows, "cols": cols}
