"""The roofline: the larger of the time of the arithmetic and of the memory traffic, and which of the two it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import FloatArray, ObjectArray
from ..errors import NotPublishedError
from ..hardware import GPU
from ..hardware.constants import constant
from ..operators.operators import Work
from .base import COMPUTE, MEMORY, DeviceLaw, Pair, Rows, Scaled
from .rates import by_kind, chosen, compute_us, given, memory_us, peaks, runnable, where_published

LAUNCH_FLOOR_US: Final = constant("launch.before_work").value
"""Rows whose roofline time is below this are launch-bound."""


class Roofline(DeviceLaw):
    """``max(flops / peak, bytes / bandwidth)``: a lower bound, as no kernel computes or moves faster."""

    name, title, alone, scales = "roofline", "roofline", True, True
    needs = ("peak_tflops", "memory_bw_gbs")
    source = 'S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009'

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return ``max(compute, memory)``."""
        return np.maximum(compute_us(work, gpu), memory_us(work, gpu))

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return the ratio of the rooflines; what has no FLOPs needs no peak."""
        return bounded(rows, bounds(rows.work, pair.host), bounds(rows.work, pair.target))


ROOFLINE = Roofline()


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
    rates, missing = by_kind(runnable(work, gpu), lambda part: peaks(part, gpu))
    moved, bandwidth = by_kind(work, lambda part: memory_us(part, gpu))
    compute = np.where(work.flops == 0, 0.0, work.flops / (rates * 1e6 * matrix))
    lacks = chosen([given(bandwidth), work.flops == 0], [bandwidth, None], missing)
    return Bounds(compute, moved / memory, lacks)


def bounded(rows: Rows, own: Bounds, others: Bounds) -> Scaled:
    """Return the ratio of two rooflines."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = others.roofline_us / own.roofline_us
    works = rows.known & np.isfinite(ratio)
    bound = np.where(works, others.names, "").astype(object)
    why = chosen([~rows.known, given(own.missing)], [rows.unknown, own.missing], others.missing)
    return Scaled(np.where(works, ratio, np.nan), bound, why)


def size(measure: str, work: Work, gpu: GPU) -> FloatArray:
    """Return what stands for the size of each row where there is no time to scale.

    That is the ``roofline``; ``memory``, the time of the traffic, which needs no peak; ``work-items``: ``batch m n``,
    for kernels known by their launch alone; or 1 (``constant``), for what does not grow with the work.
    """
    if measure == "work-items":
        return work.batch * work.m * work.n
    if measure == "constant":
        return np.ones(len(work))
    return memory_us(work, gpu) if measure == "memory" else ROOFLINE(work, gpu)


def bound(work: Work, gpu: GPU, *, floor_us: float = LAUNCH_FLOOR_US) -> np.ndarray:
    """Return what bounds each row on a GPU by the roofline: ``launch``, ``memory`` or ``compute``.

    Rows with a roofline time below `floor_us` (microseconds) are launch-bound; ``unknown`` where the needed figure is
    not published.
    """
    memory = _or_nan(lambda: memory_us(work, gpu), len(work))
    compute = work.flops / (where_published(work, lambda part: peaks(part, gpu))[0] * 1e6)
    limit = np.maximum(memory, compute)
    cases = [np.isnan(limit), limit < floor_us, memory >= compute]
    return np.select(cases, ["unknown", "launch", "memory"], "compute").astype(object)


def _or_nan(formula: Callable[[], FloatArray], rows: int) -> FloatArray:
    try:
        return formula()
    except NotPublishedError:
        return np.full(rows, np.nan)
