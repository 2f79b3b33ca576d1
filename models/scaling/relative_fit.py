"""Least squares of relative errors for laws that are linear in their parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.optimize import nnls

from .curve import FloatArray

ROUNDING = 1e-12
"""Residuals below are those of arithmetic: the fit is exact."""


@dataclass(frozen=True)
class RelativeFit:
    """A fitted vector of parameters and what its residuals say of its uncertainty.

    Attributes
    ----------
    coefficients : ndarray of shape (p,)
        Estimates.
    covariance : ndarray of shape (p, p)
        (A'A)^-1 of the parameters that are not held at 0; 0 for those that are.
    noise : float
        Root of the residual variance, NaN without degrees of freedom.
    freedom : int
        Rows less free parameters.
    """

    coefficients: FloatArray
    covariance: FloatArray
    noise: float
    freedom: int

    def spread(self, rows: FloatArray, scale: FloatArray) -> FloatArray:
        """Return the standard deviation of a new observation at each row, its noise multiplied by ``scale``.

        sd² = noise² (a' (A'A)^-1 a + scale²)
        """
        of_mean = np.einsum("ij,jk,ik->i", rows, self.covariance, rows)
        return self.noise * np.sqrt(of_mean + scale**2)

    def reach(self, level: float) -> float:
        """Return how many standard deviations an interval of the level spans to either side: Student's t."""
        return float(stats.t.ppf((1 + level) / 2, self.freedom))


def relative_fit(design: FloatArray, target: FloatArray, *, bounded: bool = False) -> RelativeFit:
    """Minimise ``|design · b - target|²``, with b ≥ 0 where ``bounded``.

    Parameters
    ----------
    design : ndarray of shape (k, p)
        Rows scaled so that a residual is a relative error.
    target : ndarray of shape (k,)
        Ones, or logarithms.
    bounded : bool
        Whether parameters must not be negative.
    """
    b = nnls(design, target)[0] if bounded else np.linalg.lstsq(design, target, rcond=None)[0]
    free = b > 0 if bounded else np.ones(len(b), dtype=bool)
    covariance = np.zeros((len(b), len(b)))
    covariance[np.ix_(free, free)] = np.linalg.pinv(design[:, free].T @ design[:, free])
    freedom = len(target) - int(free.sum())
    residual = target - design @ b
    residual = np.where(np.abs(residual) < ROUNDING, 0.0, residual)
    noise = float(np.sqrt(residual @ residual / freedom)) if freedom else float("nan")
    return RelativeFit(np.asarray(b, dtype=np.float64), covariance, noise, freedom)
