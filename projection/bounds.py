"""What each row would take on a GPU by its compute and its memory alone, and what of the two bounds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import DataError, NotPublishedError
from ..features import roofline
from ..features.quantisation import best_tile, quantise
from ..hardware import GPU
from ..operators.operators import Work

FloatArray = NDArray[np.float64]
ObjectArray = NDArray[np.object_]

COMPUTE, MEMORY, LATENCY, LINK = "compute", "memory", "latency", "link"
FIXED_GRID = ("attention", "attention_backward")
"""Operators whose prefill kernels give one workgroup a block of queries of one head, whatever the GPU: few of them
leave most of a larger GPU idle. Libraries of matrix products choose tile and split of k to fill it."""
QUERIES = 128
"""Queries of such a block (FlashAttention-2, arXiv:2307.08691, section 3.3); fewer queries are split along the keys."""


@dataclass(frozen=True)
class Bounds:
    """Times of the rows on one GPU, microseconds; NaN where the work or a figure is not known.

    Attributes
    ----------
    compute_us, memory_us : ndarray of float of shape (n_rows,)
        The arithmetic alone, the memory traffic alone.
    missing : ndarray of str of shape (n_rows,)
        Which figure is not published; "" where none is missing.
    """

    compute_us: FloatArray
    memory_us: FloatArray
    missing: ObjectArray

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

    Parameters
    ----------
    work : Work
        The rows.
    gpu : GPU
        The device.
    matrix : ndarray of shape (n_rows,) or float, default=1.0
        Part of the peak that each row can reach.
    memory : float, default=1.0
        Part of the memory bandwidth.
    """
    peaks, missing = by_kind(runnable(work, gpu), lambda part: roofline.peaks(part, gpu))
    moved, bandwidth = by_kind(work, lambda part: roofline.memory_us(part, gpu))
    compute_us = np.where(work.flops == 0, 0.0, work.flops / (peaks * 1e6 * matrix))
    lacks = np.where(bandwidth == "", np.where(work.flops == 0, "", missing), bandwidth).astype(object)
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

    See `features.quantisation`: the best tile and split of k; for prefill attention, blocks of 128 queries (see
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
    values, missing = np.full(len(work), np.nan), np.full(len(work), "", dtype=object)
    codes, kinds = work.kinds()
    for code, (dtype, _) in enumerate(kinds):
        rows = np.flatnonzero(codes == code)
        if not dtype:  # unknown work
            continue
        try:
            values[rows] = formula(work.take(rows))
        except NotPublishedError as error:
            missing[rows] = f"{error.figure} of {error.gpu} is not published"
        except DataError as error:  # products of integers that no GPU has a unit for
            missing[rows] = str(error)
    return values, missing
