"""What each row would take on a GPU by its compute and its memory alone, and what of the two bounds it.

`bounds` gives the times at the published peaks or at a part of them. Which part real kernels reach is read from
hardware/measured.csv, as far as both devices were measured in the same way (`reached`, `memory_shares`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray, ObjectArray
from ..errors import DataError, NotPublishedError, UnknownGPUError
from ..features import roofline
from ..features.context import best_tile, quantise
from ..hardware import GPU, Ceiling, all_gpus, find, measured
from ..operators.operators import Work
from ..remarks import Remark, remark

COMPUTE, MEMORY, LATENCY, LINK = "compute", "memory", "latency", "link"
FIXED_GRID = ("attention", "attention_backward")
"""Operators whose prefill kernels give one workgroup a block of queries of one head, whatever the GPU: few of them
leave most of a larger GPU idle. Libraries of matrix products choose tile and split of k to fill it."""
QUERIES = 128
"""Queries of such a block (FlashAttention-2, arXiv:2307.08691, section 3.3); fewer queries are split along the keys."""


@dataclass(frozen=True)
class Bounds:
    """Times of the rows on one GPU, microseconds, shape (n_rows,); NaN where the work or a figure is not known."""

    compute_us: FloatArray  # the arithmetic alone
    memory_us: FloatArray  # the memory traffic alone
    missing: ObjectArray  # Remark or None: ``figure-not-published``, ``no-such-unit`` (does this arithmetic)

    @property
    def roofline_us(self) -> FloatArray:
        """The larger of the two."""
        return np.maximum(self.compute_us, self.memory_us)

    @property
    def names(self) -> ObjectArray:
        """Which of the two is the larger: "compute" or "memory"."""
        return np.where(self.compute_us > self.memory_us, COMPUTE, MEMORY).astype(object)


def bounds(work: Work, gpu: GPU, *, matrix: FloatArray | float = 1.0, memory: float = 1.0) -> Bounds:
    """Return the times at the published peaks, or at a part of them.

    ``matrix`` is the part of the peak that each row can reach, ``memory`` that of the memory bandwidth.
    """
    peaks, missing = by_kind(runnable(work, gpu), lambda part: roofline.peaks(part, gpu))
    moved, bandwidth = by_kind(work, lambda part: roofline.memory_us(part, gpu))
    compute_us = np.where(work.flops == 0, 0.0, work.flops / (peaks * 1e6 * matrix))
    lacks = chosen([given(bandwidth), work.flops == 0], [bandwidth, None], missing)
    return Bounds(compute_us, moved / memory, lacks)


def runnable(work: Work, gpu: GPU) -> Work:
    """Return the work at the precisions that the GPU runs (see `run_as`)."""
    if run_as("tf32", gpu) == "tf32" or "tf32" not in work.dtype:
        return work
    dtype = np.where(work.dtype == "tf32", run_as("tf32", gpu), work.dtype).astype(object)
    return Work(work.flops, work.bytes, work.batch, work.m, work.n, work.k, dtype, work.unit)


def run_as(dtype: str, gpu: GPU) -> str:
    """Return fp32 in place of TF32 where the GPU has no TF32, any other precision as it is: so do frameworks."""
    return "fp32" if dtype == "tf32" and "tf32_matrix" not in gpu.peaks else dtype


def stretch(work: Work, op: ObjectArray, gpu: GPU) -> FloatArray:
    """Return by how much whole tiles on whole waves of compute units lengthen the arithmetic of matrix operators.

    See `features.context`: the best tile and split of k; for prefill attention, blocks of 128 queries (see
    `FIXED_GRID`). 1 for vector operators, rows of unknown work, and a GPU whose compute units are not published.
    """
    found = np.ones(len(work))
    rows = np.flatnonzero((work.unit == "matrix") & np.isfinite(work.flops))
    if gpu.cus is None or not len(rows):
        return found
    part = work.take(rows)
    blocks = np.isin(op[rows], FIXED_GRID) & (part.m >= QUERIES)
    sides = pd.DataFrame({"batch": part.batch, "m": part.m, "n": part.n, "k": part.k, "blocks": blocks})
    code = sides.groupby(list(sides.columns), sort=False).ngroup().to_numpy()
    first = np.unique(code, return_index=True)[1]
    once = part.take(first)
    fixed, best = quantise(once, gpu.cus, (QUERIES, QUERIES)), best_tile(once, gpu.cus)
    found[rows] = np.where(blocks[first], fixed.stretch, best.stretch)[code]
    return found


def by_kind(work: Work, formula: Callable[[Work], FloatArray]) -> tuple[FloatArray, ObjectArray]:
    """Apply a formula to each kind of arithmetic in turn; return NaN, and which figure is missing, where one is."""
    values, missing = np.full(len(work), np.nan), np.full(len(work), None, dtype=object)
    codes, kinds = work.kinds()
    for code, (dtype, _) in enumerate(kinds):
        rows = np.flatnonzero(codes == code)
        if not dtype:  # unknown work
            continue
        try:
            values[rows] = formula(work.take(rows))
        except NotPublishedError as error:
            missing[rows] = not_published(error)
        except DataError as error:  # products of integers that no GPU has a unit for
            missing[rows] = no_unit(error)
    return values, missing


def given(reasons: ObjectArray) -> BoolArray:
    """Return where there is a reason: not None."""
    return np.array([reason is not None for reason in reasons], dtype=bool)


def chosen(
    conditions: Sequence[BoolArray], reasons: Sequence[ObjectArray | Remark | None],
    otherwise: ObjectArray | Remark | None = None,
) -> ObjectArray:  # fmt: skip
    """Return for each row the reason that goes with the first condition it meets (`numpy.select`)."""
    choices = [np.asarray(reason, dtype=object) for reason in reasons]
    return np.asarray(np.select(list(conditions), choices, np.asarray(otherwise, dtype=object)), dtype=object)


def not_published(error: NotPublishedError) -> Remark:
    """Return the remark on a figure that is not published."""
    return remark("figure-not-published", figure=error.figure, gpu=error.gpu)


def no_unit(error: DataError) -> Remark:
    """Return the remark on arithmetic that no GPU has a unit for."""
    return remark("no-such-unit", problem=str(error))


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
