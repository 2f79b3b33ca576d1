"""The roofline: the larger of the time of the arithmetic and of the memory traffic."""

from __future__ import annotations

import numpy as np

from ...arrays import FloatArray
from ...hardware import GPU
from ...operators.operators import Work
from ..base import DeviceLaw, Pair, Rows, Scaled
from ..bounds import bounded, bounds
from ..rates import compute_us, memory_us


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


LAW = Roofline()
