"""GPU scale-model simulation: from two small GPUs and a miss-rate curve to a large one, as published.

With scale models S < L of performance P_S, P_L the correction is C = (P_L / P_S) / (L / S). The published equations
and the program published with them differ; the printed errors are the program's.

References
----------
.. [1] H. SeyyedAghaei, M. Naderan-Tahan, L. Eeckhout, "GPU Scale-Model Simulation", HPCA 2024, and its artifact.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ...errors import DataError
from .base import Curve, ScalingLaw
from .cliffs import CliffPath
from .curve import STRONG, FloatArray, within


class ScaleModel(ScalingLaw):
    """What the scale models share: the two largest sizes, cliffs beyond them, and an interval by others' errors.

    Attributes
    ----------
    correction_ : float
        C, of the two largest sizes fitted: 1 where performance grows in proportion, less where it falls behind.
    path_ : CliffPath
        The cliffs between the largest size and those to predict.
    """

    def _fit(self, curve: Curve) -> None:
        (small, large), (p_small, p_large) = curve.sizes[-2:], curve.performance[-2:]
        self.correction_ = float((p_large / p_small) / (large / small))
        self.path_ = CliffPath(curve)
        self.notes += self.path_.notes
        if curve.scenario == STRONG and curve.mpki is None:
            self.notes.append("no miss rates: a cliff would not be seen")
        self._prepare(float(np.log2(large / small)))

    def _predict(self, sizes: FloatArray) -> FloatArray:
        largest, performance = self.curve_.sizes[-1], self.curve_.performance[-1]
        ratio = np.maximum(sizes / largest, 1.0)
        beyond = performance * ratio * self.path_.at(sizes).factor * self._bend(sizes, np.log2(ratio))
        return np.where(sizes > largest, beyond, within(self.curve_, sizes))

    def _open(self, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        jump = self.path_.at(sizes)
        return jump.low / jump.factor, jump.high / jump.factor

    def _prepare(self, doublings: float) -> None:
        """Derive more from the correction; the scale models lie ``doublings`` apart."""

    @abstractmethod
    def _bend(self, sizes: FloatArray, doublings: FloatArray) -> FloatArray:
        """Return what multiplies proportional growth over a number of doublings, ndarray of shape (n,)."""


class Equations(ScaleModel):
    """The published equations, to the letter: the correction counts once, however far the target.

    ========== =============================== ==============================================
    pre-cliff  P_T = P_L · T/L · C             also of weak scaling
    cliff      P_T = P_L · T/L / (1 - f_mem)   T the first size beyond it
    post-cliff P_T = P_K · T/K · C             K the first size beyond it, predicted as above
    ========== =============================== ==============================================
    """

    name = "scale model (equations)"

    def _bend(self, sizes: FloatArray, doublings: FloatArray) -> FloatArray:
        return np.where(self.path_.ends(sizes), 1.0, self.correction_)


class Program(ScaleModel):
    """The program published with the equations: doubling i multiplies performance by 2·cⁱ with c = 2 - 1 / C.

    The first doubling beyond a cliff is multiplied by 1 / (1 - f_mem) as well. Over n doublings that is
    2ⁿ · c^(n(n+1)/2), which also serves n that are not whole. This form, not the equations', gives the published
    errors. Where scale models do not lie one doubling apart, C is taken per doubling.

    Raises
    ------
    DataError
        In ``fit``, where C ≤ 1/2 (performance does not grow with size) makes c negative or zero.
    """

    name = "scale model (program)"

    def _prepare(self, doublings: float) -> None:
        per_doubling = self.correction_ ** (1 / doublings)
        self.factor_ = 2 - 1 / per_doubling
        if self.factor_ <= 0:
            raise DataError(
                f"{self.curve_.benchmark}: {self.name} has no prediction: performance does not grow from one scale "
                f"model to the next (C = {per_doubling:.3g}, and 2 - 1 / C must be above 0)"
            )

    def _bend(self, sizes: FloatArray, doublings: FloatArray) -> FloatArray:
        return self.factor_ ** (doublings * (doublings + 1) / 2)
