"""The roofline at what real kernels reach."""

from __future__ import annotations

from ..base import Law, Pair, Rows, Scaled
from ..bounds import achieved, bounded


class RooflineAchieved(Law):
    """The ratio of the rooflines at the part of the figures that the best kernels reach (`bounds.achieved`).

    The arithmetic of matrix operators runs in whole tiles and waves (`bounds.stretch`).
    """

    name = "roofline-achieved"
    needs = ("peak_tflops", "memory_bw_gbs")
    source = "hardware/measured.csv"

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return the ratio."""
        return bounded(rows, *achieved(rows, pair))


LAW = RooflineAchieved()
