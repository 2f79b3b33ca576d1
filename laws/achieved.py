"""What real kernels reach: the parts of the peaks that were measured, in whole tiles and waves.

Which part is read from hardware/measured.csv, as far as both devices were measured in the same way (`reached`,
`memory_shares`).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from ..arrays import FloatArray, ObjectArray
from ..errors import UnknownGPUError
from ..hardware import GPU, Ceiling, all_gpus, find, measured
from ..operators.operators import Work
from .base import Pair, Rows
from .bounds import Bounds, bounds
from .tiles import SIDES, best_tile, quantise

FIXED_GRID = ("attention", "attention_backward")
"""Operators whose prefill kernels give one workgroup a block of queries of one head, whatever the GPU: few of them
leave most of a larger GPU idle. Libraries of matrix products choose tile and split of k to fill it."""
QUERIES = 128
"""Queries of such a block (FlashAttention-2, arXiv:2307.08691, section 3.3); fewer queries are split along the keys."""


def achieved(rows: Rows, pair: Pair) -> tuple[Bounds, Bounds]:
    """Return the times on both devices at what real kernels reach, the arithmetic in whole tiles and waves."""
    memory = memory_shares(pair.host, pair.target)
    matrix = reached(rows.work, pair.host, pair.target)
    gpus = (pair.host, pair.target)
    found = []
    for gpu, share, part in zip(gpus, memory, matrix, strict=True):
        found.append(bounds(rows.work, gpu, matrix=part / stretch(rows.work, rows.op, gpu), memory=share))
    return found[0], found[1]


def stretch(work: Work, op: ObjectArray, gpu: GPU) -> FloatArray:
    """Return by how much whole tiles on whole waves of compute units lengthen the arithmetic of matrix operators.

    See `tiles`: the best tile and split of k; for prefill attention, blocks of 128 queries (see
    `FIXED_GRID`); for few queries, whole tiles of 16, split along the keys as often as it takes: what they load is the
    memory's. 1 for vector operators, rows of unknown work, and a GPU whose compute units are not published.
    """
    found = np.ones(len(work))
    rows = np.flatnonzero((work.unit == "matrix") & np.isfinite(work.flops))
    if gpu.cus is None or not len(rows):
        return found
    part = work.take(rows)
    attends = np.isin(op[rows], FIXED_GRID)
    blocks = attends & (part.m >= QUERIES)
    sides = pd.DataFrame({"batch": part.batch, "m": part.m, "n": part.n, "k": part.k, "blocks": blocks})
    code = sides.groupby(list(sides.columns), sort=False).ngroup().to_numpy()
    first = np.unique(code, return_index=True)[1]
    once = part.take(first)
    fixed, best = quantise(once, gpu.cus, (QUERIES, QUERIES)), best_tile(once, gpu.cus)
    found[rows] = np.where(blocks[first], fixed.stretch, best.stretch)[code]
    few = attends & ~blocks
    found[rows[few]] = np.ceil(part.m[few] / SIDES[0]) * SIDES[0] / part.m[few]
    return found


STREAMING = "hbm_copy"
"""The measurement that stands for memory bandwidth: a copy that streams (BabelStream)."""
MATRIX_PRODUCT = "gemm_bf16"
"""The measurement that stands for matrix peaks of a precision nobody has measured."""
LOW = "low"
"""Confidence of measurements that do not count."""
_SAME_RATE = {"fp16": "bf16", "bf16": "fp16"}
"""Precisions that stand in for each other: they run at one rate on every matrix unit."""


def memory_shares(host: GPU, target: GPU) -> tuple[float, float]:
    """Return the part of the memory bandwidth that a streaming copy reaches on each device (see `shares`)."""
    return shares(host, target, STREAMING) or (typical(STREAMING) or 1.0,) * 2


def matrix_shares(host: GPU, target: GPU, dtype: str) -> tuple[float, float]:
    """Return the part of the matrix peak that the best products of matrices reach on each device (see `shares`)."""
    own = f"gemm_{dtype}"
    found = shares(host, target, own) or shares(host, target, f"gemm_{_SAME_RATE.get(dtype, dtype)}")
    return found or (typical(own) or typical(MATRIX_PRODUCT) or 1.0,) * 2


def shares(host: GPU, target: GPU, metric: str) -> tuple[float, float] | None:
    """Return the part of a figure (``hbm_copy``, ...) reached on each device; None where neither was measured.

    Two figures measured in the same way (column `method` of hardware/measured.csv) count as they are. If only one
    device was measured, or each in another way, one share stands for both, the larger one of the host or else of the
    target: a ratio of two methods would measure the methods.
    """
    own, others = _by_method(host, metric), _by_method(target, metric)
    common = [method for method in own if method in others]
    if common:
        return own[common[0]], others[common[0]]
    either = own or others
    return (max(either.values()),) * 2 if either else None


@cache
def typical(metric: str) -> float | None:
    """Return the median share over all measurements of all GPUs; None where there is none."""
    found = [share for gpu in all_gpus() for row in _rows(gpu.name, metric) if (share := row.share(gpu))]
    return float(np.median(found)) if found else None


def reached(work: Work, host: GPU, target: GPU) -> tuple[FloatArray, FloatArray]:
    """Return the part of the peak of its unit and precision that each row can reach on each device.

    Vector operators count with the whole peak: nothing was measured, and they wait for memory.
    """
    codes, kinds = work.kinds()
    pairs = [matrix_shares(host, target, dtype) if unit == "matrix" else (1.0, 1.0) for dtype, unit in kinds]
    found = np.array(pairs, dtype=float).reshape(-1, 2)[codes]
    return found[:, 0], found[:, 1]


def ceiling_tflops(gpu: GPU, dtype: str) -> float:
    """Return the rate that the best products of a precision are measured to reach, or are reckoned to."""
    return gpu.peak_tflops(dtype) * matrix_shares(gpu, gpu, dtype)[0]


def streaming_gbs(gpu: GPU) -> float:
    """Return the bandwidth that a copy through the whole memory reaches, GB/s."""
    return gpu.require("memory_bw_gbs") * memory_shares(gpu, gpu)[0]


def _by_method(gpu: GPU, metric: str) -> dict[str, float]:
    """Return the shares of a device by method, the largest of each: its own, or of the one it is based on."""
    found: dict[str, float] = {}
    for row in _rows(gpu.measured_name, metric):
        share = row.share(find(row.gpu))
        if share and row.confidence != LOW:
            found[row.method] = max(share, found.get(row.method, 0.0))
    return found


def _rows(name: str, metric: str) -> list[Ceiling]:
    try:
        return measured(name, metric)
    except UnknownGPUError:  # the user's own, based on none
        return []
