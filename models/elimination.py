"""Recursive elimination: the fits from all columns down to a few."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .deflation import start
from .least_squares import Triangular, non_negative

_TIE, _NOISE = 1e-9, 1e-14


@dataclass(frozen=True)
class Path:
    """The fits of an elimination.

    Attributes
    ----------
    t : ndarray of shape (n_fits, q)
        Scaled coefficients of the problem's columns, 0 for those eliminated; the first fit has all columns.
    columns : ndarray of int
        The features left in the last fit, rising.
    """

    t: np.ndarray
    columns: np.ndarray


def weakest(size: np.ndarray) -> int:
    """Return the position of the smallest size; of those equal but for rounding error the last."""
    smallest = size.min()
    largest = size[np.isfinite(size)].max()
    return int(np.flatnonzero(size <= smallest * (1 + _TIE) + largest * _NOISE)[-1])


def eliminate_free(problem: Triangular, least: int) -> Path:
    """Drop the column of the smallest |t| of a `centred` problem, again and again, until ``least`` are left.

    Each fit is the least-squares solution of least norm (singular values below 1e-7 of the largest count as zero, as in
    `least_squares.minimum_norm`). All come from one factorisation, see `deflation`.
    """
    p, varied = problem.A.shape[1], problem.A.any(axis=0)
    t, idle = np.zeros((p - least + 1, p)), np.flatnonzero(~varied)
    gone = min(len(idle), p - least)  # columns of zeros go first, the last of them before the others
    if not varied.any():
        return Path(t, idle[:least])
    fit = start(problem, np.flatnonzero(varied))
    t[: gone + 1, fit.columns] = fit.t
    for step in range(gone + 1, len(t)):
        fit = fit.without(weakest(np.where(fit.alive, np.abs(fit.t), np.inf)))
        t[step, fit.columns] = fit.t
    return Path(t, np.union1d(fit.columns[fit.alive], idle[: len(idle) - gone]))


def eliminate_bounded(problem: Triangular, unit: np.ndarray, least: int) -> Path:
    """Drop the column with the smallest ``t * unit`` of a `with_intercept` problem, until ``least`` are left.

    Column 0, the intercept, always stays. A column at 0 leaves without a new fit, for the solution is the same; the
    others leave one by one, each time with the active-set method started from the solution before.

    Parameters
    ----------
    problem : Triangular
    unit : ndarray of shape (q - 1,)
        What t of each column is multiplied with to compare sizes.
    least : int
    """
    columns = np.arange(1, problem.A.shape[1])
    fits = [non_negative(problem)]
    while len(columns) > least:
        t = fits[-1]
        drop = weakest(t[columns] * unit[columns - 1])
        column, columns = columns[drop], np.delete(columns, drop)
        fits.append(t if t[column] == 0 else _bounded(problem, np.append(0, columns), t))
    return Path(np.array(fits), columns - 1)


def _bounded(problem: Triangular, columns: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the solution on some columns, 0 elsewhere."""
    t = np.zeros_like(start)
    part = replace(problem, A=problem.A[:, columns], scale=problem.scale[columns])
    t[columns] = non_negative(part, start=start[columns])
    return t
