"""Weighted least-squares problems with columns of length 1, reduced to few rows, and their solution.

X (n × p), y and weights (n) enter; `centred` (the intercept implied) and `with_intercept` (column
0) make a `Triangular` problem of them: A of shape (k, q) and b (k), with ``|A t - b|²`` the
weighted RSS and coefficient = t / scale. `minimum_norm` solves it freely, `non_negative` for t >= 0
by the active-set method of Lawson and Hanson, from a cold start or a warm one.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgeqrf, dposv, dtrtri, dtrtrs
from sklearn.exceptions import ConvergenceWarning

TIES = 1e-10  # gains closer than this, relatively, are equal: the first column wins, whatever the last bits say
ALIASED = 1e-7
"""A column closer than this (relative to its length) to the span of others adds nothing, as in R's ``lm``."""
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Triangular:
    """A weighted least-squares problem reduced by QR: ``|A t - b|²`` is the weighted RSS of scaled coefficients ``t``.

    A (k, q), columns contiguous, is the design with columns of length 1 (0 for a column without
    variation); k = min(n, q + 1) where it was reduced, else n. In the centred form q = p and the
    intercept is implied; in the non-negative form column 0 is the intercept and q = p + 1.
    ``scale`` (q,) is the length of each column of the weighted design: coefficient = t / scale. An
    RSS below ``floor`` is rounding error of a perfect fit.
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
    columns = rows[:-1]
    n = rows.shape[1]
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
    root = np.sqrt(w)
    mean = w @ X / w.sum()
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
    rows[0] = 1.0
    rows[1:-1] = X.T
    rows[-1] = y
    rows *= np.sqrt(w)
    return _triangular(rows, float(np.linalg.norm(rows[-1])), reduce)


def minimum_norm(
    problem: Triangular, columns: np.ndarray, *, independent: bool = False
) -> tuple[np.ndarray, np.ndarray, int]:
    """Solve for some columns of a `centred` problem: by QR where they are clearly independent, else by SVD.

    With ``independent`` they are known to be so, however close to each other: QR unless it breaks
    down. Returned are the solution t of least norm (singular values below 1e-7 of the largest count
    as zero); the diagonal of (A'A)^-1, so that var(t) is sigma² times it, NaN where collinear
    columns leave a coefficient undetermined; and the rank.
    """
    A = problem.A[:, columns]
    m = len(columns)
    if 0 < m <= len(A):
        R = upper_triangle(np.column_stack([A, problem.b]))[:m]
        inverse, singular = dtrtri(R[:, :m])
        # >= s_max / s_min
        clear = independent or np.linalg.norm(R[:, :m]) * np.linalg.norm(inverse) * ALIASED < 1
        if clear and not singular:
            t = dtrtrs(R[:, :m], R[:, m])[0]
            return t, np.sum(inverse**2, axis=1), m
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    kept = s > ALIASED * s.max(initial=0.0)
    U = U[:, kept]
    s = s[kept]
    Vt = Vt[kept]
    t = Vt.T @ ((U.T @ problem.b) / s)
    spread = np.sum((Vt / s[:, None]) ** 2, axis=0)
    determined = np.sum(Vt**2, axis=0) > 1 - ALIASED
    return t, np.where(determined, spread, np.nan), len(s)


OPTIMAL = 1e-12  # a column enters a non-negative fit when its cosine with the residual, in units of |b|, is above this
_EXCHANGES = 30  # exchanges of the cold start's search for the columns in use, before the active-set method takes over


class Face:
    """The columns P in use, in the order they came, and the factors of A_P = QR (k x m, m x m), grown one by one."""

    def __init__(self, problem: Triangular, columns: Sequence[int] = ()) -> None:
        k, q = problem.A.shape
        self._problem = problem
        self._Q = np.empty((k, min(k, q)), order="F")
        self._R = np.zeros((min(k, q), min(k, q)), order="F")
        self._z = np.empty(min(k, q))  # Q'b
        self._start(columns)

    def _start(self, columns: Sequence[int]) -> None:
        """Begin anew with some columns, passing over those that are combinations of others."""
        self.columns: list[int] = []
        self._residual: np.ndarray | None = None
        self._gradient: np.ndarray | None = None
        if 0 < (m := len(columns)) <= len(self._z):
            Q, R = np.linalg.qr(self._problem.A[:, list(columns)])
            if (np.abs(np.diagonal(R)) > ALIASED).all():
                self._Q[:, :m] = Q
                self._R[:m, :m] = R
                self.columns = list(columns)
                self._z[:m] = Q.T @ self._problem.b
                return
        for column in columns:
            self.add(column)

    def add(self, column: int) -> bool:
        """Take a column in; return False, and do not, where it is a combination of those in use."""
        m = len(self.columns)
        if m == len(self._z):
            return False
        Q = self._Q[:, :m]
        v = self._problem.A[:, column]
        h = v @ Q
        v = v - Q @ h
        again = v @ Q
        v -= Q @ again
        length = float(np.sqrt(v @ v))
        if length <= ALIASED:
            return False
        self._Q[:, m] = v / length
        self._R[:m, m] = h + again
        self._R[m, m] = length
        self._z[m] = self._Q[:, m] @ self._problem.b
        self.columns.append(column)
        self._residual = self._gradient = None
        return True

    def keep(self, which: np.ndarray) -> None:
        """Keep some of the columns, given as a mask over them.

        From the first column dropped on, R of those kept is G R' with R' triangular, and Q becomes
        QG.
        """
        m = len(self.columns)
        columns = [column for column, kept in zip(self.columns, which, strict=True) if kept]
        left = len(columns)
        first = int(np.argmin(which))
        G, R = np.linalg.qr(self._R[first:m, np.flatnonzero(which)[first:]])
        if left > first and np.abs(np.diagonal(R)).min() <= ALIASED:
            self._start(columns)
            return
        self._R[:first, first:left] = self._R[:first, np.flatnonzero(which)[first:]]
        self._R[first:left, first:left] = R
        self._Q[:, first:left] = self._Q[:, first:m] @ G
        self._z[first:left] = G.T @ self._z[first:m]
        self.columns = columns
        self._residual = self._gradient = None

    def goal(self) -> np.ndarray:
        """Return the least-squares coefficients of the columns in use, in their order, whatever their sign."""
        m = len(self.columns)
        if m:
            return dtrtrs(self._R[:m, :m], self._z[:m])[0]
        return np.zeros(0)

    def residual(self) -> np.ndarray:
        """Return the target less its projection on the columns in use, of shape (k,)."""
        if self._residual is None:
            m = len(self.columns)
            self._residual = self._problem.b - self._Q[:, :m] @ self._z[:m]
        return self._residual

    def gradient(self) -> np.ndarray:
        """Return the products of all columns with the residual, of shape (q,)."""
        if self._gradient is None:
            self._gradient = self._problem.A.T @ self.residual()
        return self._gradient


def non_negative(
    problem: Triangular, allowed: np.ndarray | None = None, start: np.ndarray | None = None
) -> np.ndarray:
    """Minimise ``|A t - b|²`` over t >= 0 by the active-set method of Lawson and Hanson, from a warm start.

    Only columns that are ``allowed`` (q,) are used; the others stay 0. By default columns are
    exchanged by the signs of coefficients and gradients (Portugal et al.) until few are wrong, and
    not from ``start`` (q,). The result fulfils the Karush-Kuhn-Tucker conditions up to 1e-12 |b|.

    References
    ----------
    C. L. Lawson and R. J. Hanson, Solving Least Squares Problems (1974), chapter 23.
    L. F. Portugal, J. J. Júdice and L. N. Vicente, A comparison of block pivoting and
    interior-point algorithms for linear least squares problems with nonnegative variables, Math.
    Comp. 63 (1994) 625.
    """
    if allowed is None:
        free = np.ones(problem.A.shape[1], dtype=bool)
    else:
        free = allowed
    if start is None:
        t = _guess(problem, free)
    else:
        t = start.copy()
    face = Face(problem, np.flatnonzero(t > 0).tolist())
    t = settle(face, t)
    limit = optimal_limit(problem)
    rejected = np.zeros(len(t), dtype=bool)
    for _ in range(10 * len(t) + 10):
        gradient = np.where(free & (t == 0) & ~rejected, face.gradient(), 0.0)
        best = int(np.argmax(gradient))
        if gradient[best] <= limit:
            return t
        before = list(face.columns)
        if face.add(best):
            trial = settle(face, t)
            if trial[best] > 0:
                t = trial
                rejected = np.zeros_like(rejected)
                continue
            face = Face(problem, before)
        rejected[best] = True
    warnings.warn(
        "the active set of the non-negative fit did not settle", ConvergenceWarning, stacklevel=2
    )
    return t


def optimal_limit(problem: Triangular) -> float:
    """Return the gradient up to which a column at zero stays there."""
    return OPTIMAL * float(np.sqrt(problem.b @ problem.b))


def settle(face: Face, t: np.ndarray) -> np.ndarray:
    """Move ``t`` to the least-squares point of the face, dropping the columns that reach zero on the way."""
    while face.columns:
        goal = face.goal()
        here = t[face.columns]
        t = np.zeros_like(t)
        if goal.min() > 0:
            t[face.columns] = goal
            return t
        steps = np.where(goal > 0, np.inf, 0.0)
        np.divide(here, here - goal, out=steps, where=(goal <= 0) & (here > 0))
        first = int(np.argmin(steps))
        moved = np.maximum(here + steps[first] * (goal - here), 0.0)
        moved[first] = 0.0
        t[face.columns] = moved
        face.keep(moved > 0)
    return np.zeros_like(t)


def _guess(problem: Triangular, free: np.ndarray) -> np.ndarray:
    """Return a point whose positive columns are most of those in use at the optimum.

    Columns with a positive gradient enter (those with the largest, half as many at most as rows are
    left over) and those with a negative coefficient leave, all at once, on the Gram matrix; in the
    end they only leave.
    """
    columns = np.flatnonzero(free)
    A = problem.A[:, columns]
    gram = A.T @ A
    products = A.T @ problem.b
    used = np.zeros(len(products), dtype=bool)
    x = np.zeros(0)
    gradient = products
    limit = optimal_limit(problem)
    t = np.zeros(problem.A.shape[1])
    for exchange in itertools.count():
        inside = np.flatnonzero(used)
        negative = x < 0
        outside = np.where(used, 0.0, gradient)
        if exchange < _EXCHANGES:
            room = min((len(A) - len(inside)) // 2, np.count_nonzero(outside > limit))
        else:
            room = 0
        if room == 0 and not negative.any():
            break
        used[inside[negative]] = False
        if room:
            used[np.argsort(-outside, kind="stable")[:room]] = True
        inside = np.flatnonzero(used)
        if len(inside):
            x, singular = dposv(gram[inside[:, None], inside], products[inside])[1:]
        else:
            x = np.zeros(0)
            singular = 0
        if singular:
            return t
        gradient = products - gram[:, inside] @ x
    t[columns[np.flatnonzero(used)]] = x
    return t
