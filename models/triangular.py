"""Weighted least-squares problems with columns of length 1, reduced to few rows, and their solution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgeqrf, dtrtri, dtrtrs

ALIASED = 1e-7
"""A column closer than this (relative to its length) to the span of others adds nothing, as in R's ``lm``."""
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Triangular:
    """A weighted least-squares problem reduced by QR: ``|A t - b|²`` is the weighted RSS of scaled coefficients ``t``.

    Attributes
    ----------
    A : ndarray of shape (k, q), columns contiguous
        The design with columns of length 1 (0 for a column without variation); k = min(n, q + 1) where it was reduced,
        else n. In the centred form q = p and the intercept is implied; in the non-negative form column 0 is the
        intercept and q = p + 1.
    b : ndarray of shape (k,)
    scale : ndarray of shape (q,)
        The length of each column of the weighted design: coefficient = t / scale.
    floor : float
        An RSS below this is rounding error of a perfect fit.
    """

    A: np.ndarray
    b: np.ndarray
    scale: np.ndarray
    floor: float

    def rss(self, t: np.ndarray) -> float:
        """Return the weighted residual sum of squares of scaled coefficients, never below `floor`."""
        residual = self.b - self.A @ t
        return max(float(residual @ residual), self.floor)


def upper_triangle(M: np.ndarray, *, overwrite: bool = False) -> np.ndarray:
    """Return the factor R of M = QR, of shape (min(n, q), q); M, columns contiguous, may be overwritten."""
    if 0 in M.shape:
        return np.zeros((0, M.shape[1]))
    factored = dgeqrf(M, lwork=64 * M.shape[1], overwrite_a=overwrite)[0]
    return np.triu(factored[: M.shape[1]])


def _triangular(rows: np.ndarray, length: float, reduce: float) -> Triangular:
    """Scale |M beta - v|² given [M v]' (q + 1 x n, one row a column), and reduce it where n > reduce (q + 1)."""
    columns, n = rows[:-1], rows.shape[1]
    scale = np.sqrt(np.einsum("jn,jn->j", columns, columns))
    scale[scale == 0] = 1.0
    columns /= scale[:, None]
    floor = (n * _EPS * length) ** 2
    if n <= reduce * len(rows):
        return Triangular(columns.T, rows[-1], scale, floor)
    R = upper_triangle(rows.T, overwrite=True)
    return Triangular(R[:, :-1], R[:, -1].copy(), scale, floor)


def centred(X: np.ndarray, y: np.ndarray, w: np.ndarray, reduce: float = 1.0) -> Triangular:
    """Return the problem with a free intercept: columns and target less their weighted means.

    It is reduced where there are more than ``reduce`` times p + 1 rows.
    """
    root, mean = np.sqrt(w), w @ X / w.sum()
    rows = np.empty((X.shape[1] + 1, len(y)))  # p + 1 x n: the columns of X, then y
    columns = rows[:-1]
    np.subtract(X.T, mean[:, None], out=columns)
    rows[-1] = y - np.average(y, weights=w)
    rows *= root
    spread = np.einsum("jn,jn->j", columns, columns)
    length = np.sqrt(spread + w.sum() * mean**2)  # of the columns before centring
    columns[np.sqrt(spread) <= len(y) * _EPS * length] = 0.0
    return _triangular(rows, float(np.linalg.norm(root * y)), reduce)


def with_intercept(X: np.ndarray, y: np.ndarray, w: np.ndarray, reduce: float = 1.0) -> Triangular:
    """Return the problem whose intercept is a coefficient like the others (column 0), so that it can be bounded.

    It is reduced where there are more than ``reduce`` times p + 2 rows.
    """
    rows = np.empty((X.shape[1] + 2, len(y)))  # p + 2 x n: ones, the columns of X, then y
    rows[0], rows[1:-1], rows[-1] = 1.0, X.T, y
    rows *= np.sqrt(w)
    return _triangular(rows, float(np.linalg.norm(rows[-1])), reduce)


def minimum_norm(
    problem: Triangular, columns: np.ndarray, *, independent: bool = False
) -> tuple[np.ndarray, np.ndarray, int]:
    """Solve for some columns of a `centred` problem: by QR where they are clearly independent, else by SVD.

    Parameters
    ----------
    problem : Triangular
    columns : ndarray of int
    independent : bool, default=False
        They are known to be independent, however close to each other: QR unless it breaks down.

    Returns
    -------
    t : ndarray of shape (len(columns),)
        The solution of least norm; singular values below 1e-7 of the largest count as zero.
    spread : ndarray of shape (len(columns),)
        Diagonal of (A'A)^-1, so var(t) = sigma² spread; NaN where collinear columns leave a coefficient undetermined.
    rank : int
    """
    A, m = problem.A[:, columns], len(columns)
    if 0 < m <= len(A):
        R = upper_triangle(np.column_stack([A, problem.b]))[:m]
        inverse, singular = dtrtri(R[:, :m])
        clear = independent or np.linalg.norm(R[:, :m]) * np.linalg.norm(inverse) * ALIASED < 1  # >= s_max / s_min
        if clear and not singular:
            return dtrtrs(R[:, :m], R[:, m])[0], np.sum(inverse**2, axis=1), m
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    kept = s > ALIASED * s.max(initial=0.0)
    U, s, Vt = U[:, kept], s[kept], Vt[kept]
    t = Vt.T @ ((U.T @ problem.b) / s)
    spread = np.sum((Vt / s[:, None]) ** 2, axis=0)
    determined = np.sum(Vt**2, axis=0) > 1 - ALIASED
    return t, np.where(determined, spread, np.nan), len(s)
