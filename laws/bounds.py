"""What each row would take by its compute and its memory alone, and what of the two, or its launch, bounds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import FloatArray, ObjectArray
from ..errors import NotPublishedError
from ..hardware import GPU
from ..hardware.constants import constant
from ..operators.operators import Work
from .base import COMPUTE, MEMORY, Rows, Scaled
from .rates import by_kind, chosen, given, memory_us, peaks, runnable, where_published

LAUNCH_FLOOR_US: Final = constant("launch.before_work").value
"""Rows whose roofline time is below this are launch-bound."""


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


def bound(work: Work, gpu: GPU, *, floor_us: float = LAUNCH_FLOOR_US) -> np.ndarray:
    """Return what bounds each row on a GPU by the roofline: ``launch``, ``memory`` or ``compute``.

    Rows with a roofline time below `floor_us` (microseconds) are launch-bound; ``unknown`` where the needed figure is
    not published.
    """
    try:
        memory = memory_us(work, gpu)
    except NotPublishedError:
        memory = np.full(len(work), np.nan)
    compute = work.flops / (where_published(work, lambda part: peaks(part, gpu))[0] * 1e6)
    limit = np.maximum(memory, compute)
    cases = [np.isnan(limit), limit < floor_us, memory >= compute]
    return np.select(cases, ["unknown", "launch", "memory"], "compute").astype(object)
