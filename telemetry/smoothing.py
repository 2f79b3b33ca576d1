"""Curves through stitched readings: the published polynomial of degree 4, and a smoothing spline."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.interpolate import make_smoothing_spline

DEGREE: Final = 4
"""Of the published polynomial."""
RIDGE: Final = 0.05
"""Readings' worth of a prior that the curve is level. It holds the ends of the curve where readings leave part of the
kernel's time empty, and cannot be seen where they are as many as recommended."""
PHASES: Final = (np.arange(100) + 0.5) / 100
"""Where curves are evaluated: the middles of hundredths of the kernel's time."""

_CELLS: Final = 200
"""Readings of one cell of the kernel's time enter the spline as their mean."""
_LEAST_SPLINE: Final = 5
"""Points that a smoothing spline needs."""


def design(phase: np.ndarray, degree: int = DEGREE) -> np.ndarray:
    """Return the Legendre polynomials over [0, 1] at each phase, shape (n, degree + 1).

    They are orthogonal there and all but the first have mean 0, so the first coefficient is the curve's mean.
    """
    return np.polynomial.legendre.legvander(2 * np.asarray(phase) - 1, degree)


def polynomial(phase: np.ndarray, power_w: np.ndarray, at: np.ndarray = PHASES, degree: int = DEGREE) -> np.ndarray:
    """Return the least-squares polynomial through the readings, evaluated at the phases ``at``.

    Parameters
    ----------
    phase, power_w : ndarray of shape (n,)
        Position in the kernel's time, 0 to 1, and power. More readings than the degree.
    at : ndarray of shape (m,)
        Where to evaluate it.
    degree : int
        4 as published.

    Returns
    -------
    ndarray of shape (m,)
    """
    A = design(phase, degree)
    return design(at, degree) @ np.linalg.solve(A.T @ A + level_prior(degree), A.T @ power_w)


def level_prior(degree: int = DEGREE) -> np.ndarray:
    """Return the quadratic form of the prior, shape (degree + 1, degree + 1): all coefficients but the mean."""
    return RIDGE * np.diag(np.minimum(np.arange(degree + 1.0), 1))


def spline(phase: np.ndarray, power_w: np.ndarray, at: np.ndarray = PHASES) -> np.ndarray:
    """Return the cubic smoothing spline, its smoothness chosen by generalised cross-validation, at the phases ``at``.

    Beyond the first and the last reading the curve keeps its value there. Fewer than 5 distinct cells of readings give
    their mean.
    """
    cell = np.minimum((phase * _CELLS).astype(int), _CELLS - 1)
    count = np.bincount(cell, minlength=_CELLS)
    filled = count > 0
    x, y = (np.bincount(cell, values, _CELLS)[filled] / count[filled] for values in (phase, power_w))
    if filled.sum() < _LEAST_SPLINE:
        return np.full(len(at), float(np.mean(power_w)))
    scale = float(filled.sum())  # unit spacing keeps the equations well conditioned
    level = float(np.mean(y))
    curve = make_smoothing_spline(scale * x, y - level, w=count[filled].astype(float))
    return level + curve(scale * np.clip(at, x[0], x[-1]))
