"""The laws people draw through a few sizes: straight lines, power laws, Amdahl, Gustafson, universal scalability.

Sizes are counted in units of the smallest one fitted, u = x / x₀, so a law does not depend on what a size is: a serial
share is that of the work done at x₀. Except for the proportional law all minimise squared relative errors; with two
sizes and two parameters they go through both points.

References
----------
.. [1] G. M. Amdahl, "Validity of the single processor approach to achieving large scale computing capabilities",
   AFIPS Spring Joint Computer Conference, 1967.
.. [2] J. L. Gustafson, "Reevaluating Amdahl's law", Communications of the ACM 31(5), 1988.
.. [3] N. J. Gunther, "Guerrilla Capacity Planning", Springer, 2007.
.. [4] H. SeyyedAghaei, M. Naderan-Tahan, L. Eeckhout, "GPU Scale-Model Simulation", HPCA 2024.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np

from .base import Curve, ScalingLaw
from .curve import FloatArray
from .relative_fit import relative_fit


class Proportional(ScalingLaw):
    """Performance in proportion to size, from the smallest size: P(x) = P₀ · x / x₀.

    The smallest, because that is how the published errors of "proportional scaling" follow from their data [4]_.
    """

    name = "proportional"

    def _fit(self, curve: Curve) -> None:
        self.slope_ = curve.performance[0] / curve.sizes[0]

    def _predict(self, sizes: FloatArray) -> FloatArray:
        return self.slope_ * sizes


class LinearInParameters(ScalingLaw):
    """A law η(u) = A(u) · b whose parameters least squares finds; performance is η, 1 / η or exp(η).

    Where sizes outnumber parameters, its interval holds both that of the residuals (Student's t of a new observation)
    and that of the law's errors on other benchmarks. Residuals alone tell how well the law fits the sizes it was
    fitted to, not how it fails beyond: on the published data 90 % intervals made of them hold 33 to 67 % of the
    performances two doublings beyond three sizes. Without sizes to spare it is that of the errors on others.

    Attributes
    ----------
    coefficients_ : ndarray of shape (p,)
        Parameters b, in the order of the columns of A.
    """

    link: ClassVar[Literal["identity", "inverse", "log"]] = "identity"
    bounded: ClassVar[bool] = False

    def _fit(self, curve: Curve) -> None:
        performance = curve.performance[:, None]
        design = self._rows(curve.sizes)
        if self.link == "log":
            self.result_ = relative_fit(design, np.log(curve.performance))
        else:
            scaled = design / performance if self.link == "identity" else design * performance
            self.result_ = relative_fit(scaled, np.ones(len(design)), bounded=self.bounded)
        self.coefficients_ = self.result_.coefficients
        self._remark()

    def _predict(self, sizes: FloatArray) -> FloatArray:
        eta = self._rows(sizes) @ self.coefficients_
        if self.link == "log":
            return np.exp(eta)
        return eta if self.link == "identity" else 1 / eta

    def _interval(self, sizes: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        lower, upper = super()._interval(sizes, level)
        if not self.result_.freedom:
            return lower, upper
        below, above = self._residual_interval(sizes, level)
        return np.minimum(lower, below), np.maximum(upper, above)

    def _residual_interval(self, sizes: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Return the t interval of a new observation at each size."""
        rows = self._rows(sizes)
        eta = rows @ self.coefficients_
        scale = np.ones(len(eta)) if self.link == "log" else np.abs(eta)
        reach = self.result_.reach(level) * self.result_.spread(rows, scale)
        lower, upper = eta - reach, eta + reach
        if self.link == "log":
            return np.exp(lower), np.exp(upper)
        if self.link == "inverse":
            return 1 / upper, np.divide(1.0, lower, out=np.full(len(eta), np.inf), where=lower > 0)
        return np.maximum(lower, 0), upper

    def _interval_notes(self) -> list[str]:
        notes = super()._interval_notes()
        if not self.result_.freedom:
            return notes
        return [f"{notes[0]}, and from the residuals of {len(self.curve_.sizes)} sizes ({self.result_.freedom} spare)"]

    def _rows(self, sizes: FloatArray) -> FloatArray:
        """Return A(u) of shape (n, p)."""
        return np.column_stack(np.broadcast_arrays(*self._columns(sizes / self.curve_.sizes[0])))

    def _remark(self) -> None:
        """Add notes on the parameters."""

    @abstractmethod
    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]: ...


class Linear(LinearInParameters):
    """P = a·u + b."""

    name = "linear"

    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]:
        return u, 1.0


class Power(LinearInParameters):
    """P = a·u^b, fitted to the logarithms."""

    name = "power law"
    link = "log"

    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]:
        return 1.0, np.log(u)


class Logarithmic(LinearInParameters):
    """P = a + b·log u."""

    name = "logarithmic"

    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]:
        return 1.0, np.log(u)


class Amdahl(LinearInParameters):
    """A part of the work does not speed up [1]_: 1 / P = s + p / u with s, p ≥ 0; the serial share is s / (s + p).

    Performance that grows faster than the size has no serial share: it is then proportional to the size.
    """

    name = "Amdahl"
    link = "inverse"
    bounded = True

    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]:
        return 1.0, 1 / u

    def _remark(self) -> None:
        self.serial_ = float(self.coefficients_[0] / self.coefficients_.sum())
        if self.serial_ == 0:
            self.notes.append("no serial share: performance grows at least in proportion to the size")


class Gustafson(LinearInParameters):
    """Work grows with the GPU except for a serial part [2]_: P = s + p·u with s, p ≥ 0; its share is s / (s + p).

    The straight line, barred from growing faster than in proportion.
    """

    name = "Gustafson"
    bounded = True

    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]:
        return 1.0, u

    def _remark(self) -> None:
        self.serial_ = float(self.coefficients_[0] / self.coefficients_.sum())
        if self.serial_ == 0:
            self.notes.append("no serial share: performance grows at least in proportion to the size")


class UniversalScalability(LinearInParameters):
    """Contention σ and coherence κ [3]_: P = λu / (1 + σ(u - 1) + κu(u - 1)), with λ > 0 and σ, κ ≥ 0.

    1 / P = (1/λ)·1/u + (σ/λ)·(u - 1)/u + (κ/λ)·(u - 1) is linear in its three parameters, so it takes three sizes.
    """

    name = "USL"
    link = "inverse"
    bounded = True
    needs = 3

    def _columns(self, u: FloatArray) -> tuple[FloatArray | float, ...]:
        return 1 / u, (u - 1) / u, u - 1

    def _remark(self) -> None:
        self.contention_, self.coherence_ = (float(b) for b in self.coefficients_[1:] / self.coefficients_[0])
        if self.coherence_ > 0 and self.contention_ < 1:
            peak = self.curve_.sizes[0] * np.sqrt((1 - self.contention_) / self.coherence_)
            self.notes.append(f"performance peaks at size {peak:.4g}")
