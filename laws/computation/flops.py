"""FLOPS scaling of each kernel: the ratio of the peaks."""

from __future__ import annotations

import numpy as np

from ...arrays import FloatArray
from ...hardware import GPU
from ...operators.operators import Work
from ...remarks import remark
from ..base import COMPUTE, MATRIX, DeviceLaw, Pair, Rows, Scaled, filled
from ..rates import by_kind, chosen, compute_us, given, peaks, runnable

WITH_FLOPS = ("softmax", "norm", "reduction", "loss")
"""Op classes of vector operators whose FLOPs count: they sum along their rows."""
NO_FLOPS = remark("no-flops", "no FLOPs that count: its elements are read and written")
"""Why the FLOPs of a row say nothing of its time: its elements are read and written."""


class Flops(DeviceLaw):
    """``flops / peak`` at the precision and unit that each row computes with; the ratio is ``peak_host / peak_target``.

    The constant hardware efficiency of the published methodology, per kernel. In traces copies, fills and element-wise
    operators have no FLOPs that count.
    """

    name, title, scales = "flops", "FLOPS", True
    needs = ("peak_tflops",)
    source = "constant hardware efficiency, per kernel"

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return `rates.compute_us`."""
        return compute_us(work, gpu)

    def ratio(self, work: Work, host: GPU, target: GPU) -> FloatArray:
        """Return ``peak_host / peak_target``, whatever the FLOPs: there may be none."""
        return peaks(work, host) / peaks(work, target)

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return the ratio where FLOPs count."""
        counts = rows.known & (np.nan_to_num(rows.work.flops) > 0)
        counts &= (rows.work.unit == MATRIX) | np.isin(rows.op_class, WITH_FLOPS)
        own, lacks = by_kind(runnable(rows.work, pair.host), lambda work: peaks(work, pair.host))
        others, lacks_too = by_kind(runnable(rows.work, pair.target), lambda work: peaks(work, pair.target))
        why = chosen([~rows.known, ~counts, given(lacks)], [rows.unknown, NO_FLOPS, lacks], lacks_too)
        return Scaled(np.where(counts, own / others, np.nan), filled(COMPUTE, rows), why)


LAW = Flops()
