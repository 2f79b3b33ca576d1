"""Non-negative least squares by the active-set method of Lawson and Hanson, from cold and warm starts."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence

import numpy as np
from scipy.linalg.lapack import dposv, dtrtrs
from sklearn.exceptions import ConvergenceWarning

from .triangular import ALIASED, Triangular

OPTIMAL = 1e-12
"""A column enters a non-negative fit when its cosine with the residual, in units of |b|, is above this."""
_EXCHANGES = 30
"""Exchanges of the cold start's search for the columns in use, before the active-set method takes over."""


class Face:
    """The columns in use and the factors of A_P = QR (k x m, m x m), grown a column at a time.

    Attributes
    ----------
    columns : list of int
        The columns P, in the order of the factors.
    """

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
                self._Q[:, :m], self._R[:m, :m], self.columns = Q, R, list(columns)
                self._z[:m] = Q.T @ self._problem.b
                return
        for column in columns:
            self.add(column)

    def add(self, column: int) -> bool:
        """Take a column in; return False, and do not, where it is a combination of those in use."""
        m = len(self.columns)
        if m == len(self._z):
            return False
        Q, v = self._Q[:, :m], self._problem.A[:, column]
        h = v @ Q
        v = v - Q @ h
        again = v @ Q
        v -= Q @ again
        if (length := float(np.sqrt(v @ v))) <= ALIASED:
            return False
        self._Q[:, m] = v / length
        self._R[:m, m], self._R[m, m] = h + again, length
        self._z[m] = self._Q[:, m] @ self._problem.b
        self.columns.append(column)
        self._residual = self._gradient = None
        return True

    def keep(self, which: np.ndarray) -> None:
        """Keep some of the columns, given as a mask over them.

        From the first column dropped on, R of those kept is G R' with R' triangular, and Q becomes QG.
        """
        m, columns = len(self.columns), [column for column, kept in zip(self.columns, which, strict=True) if kept]
        left, first = len(columns), int(np.argmin(which))
        G, R = np.linalg.qr(self._R[first:m, np.flatnonzero(which)[first:]])
        if left > first and np.abs(np.diagonal(R)).min() <= ALIASED:
            self._start(columns)
            return
        self._R[:first, first:left] = self._R[:first, np.flatnonzero(which)[first:]]
        self._R[first:left, first:left] = R
        self._Q[:, first:left], self._z[first:left] = self._Q[:, first:m] @ G, G.T @ self._z[first:m]
        self.columns = columns
        self._residual = self._gradient = None

    def goal(self) -> np.ndarray:
        """Return the least-squares coefficients of the columns in use, in their order, whatever their sign."""
        m = len(self.columns)
        return dtrtrs(self._R[:m, :m], self._z[:m])[0] if m else np.zeros(0)

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
    problem: Triangular, allowed: np.ndarray | None = None, start: np.ndarray | None = None, settled: bool = False
) -> np.ndarray:
    """Minimise ``|A t - b|²`` over t >= 0 by the active-set method of Lawson and Hanson, from a warm start.

    Parameters
    ----------
    problem : Triangular
        Usually `with_intercept`.
    allowed : ndarray of bool of shape (q,), optional
        The columns that may be used; all by default. The others stay 0.
    start : ndarray of shape (q,), optional
        A non-negative point to start from; by default columns are exchanged by the signs of coefficients and gradients
        (Portugal et al.) until few are wrong.
    settled : bool, default=False
        Whether ``start`` is already optimal for its own positive columns.

    Returns
    -------
    t : ndarray of shape (q,)
        It fulfils the Karush-Kuhn-Tucker conditions up to 1e-12 |b|.

    References
    ----------
    C. L. Lawson and R. J. Hanson, Solving Least Squares Problems (1974), chapter 23.
    L. F. Portugal, J. J. Júdice and L. N. Vicente, A comparison of block pivoting and interior-point algorithms for
    linear least squares problems with nonnegative variables, Math. Comp. 63 (1994) 625.
    """
    free = np.ones(problem.A.shape[1], dtype=bool) if allowed is None else allowed
    t = _guess(problem, free) if start is None else start.copy()
    face = Face(problem, np.flatnonzero(t > 0).tolist())
    if not settled or start is None or len(face.columns) < np.count_nonzero(t):
        t = settle(face, t)
    return optimise(problem, free, face, t)[0]


def optimal_limit(problem: Triangular) -> float:
    """Return the gradient up to which a column at zero stays there."""
    return OPTIMAL * float(np.sqrt(problem.b @ problem.b))


def optimise(problem: Triangular, free: np.ndarray, face: Face, t: np.ndarray) -> tuple[np.ndarray, Face]:
    """Go on from t, optimal for the columns of the face, until it is optimal for the free ones; return t and its face.

    The face given is used up.
    """
    limit, rejected = optimal_limit(problem), np.zeros(len(t), dtype=bool)
    for _ in range(10 * len(t) + 10):
        gradient = np.where(free & (t == 0) & ~rejected, face.gradient(), 0.0)
        best = int(np.argmax(gradient))
        if gradient[best] <= limit:
            return t, face
        before = list(face.columns)
        if face.add(best):
            trial = settle(face, t)
            if trial[best] > 0:
                t, rejected = trial, np.zeros_like(rejected)
                continue
            face = Face(problem, before)
        rejected[best] = True
    warnings.warn("the active set of the non-negative fit did not settle", ConvergenceWarning, stacklevel=2)
    return t, face


def settle(face: Face, t: np.ndarray) -> np.ndarray:
    """Move ``t`` to the least-squares point of the face, dropping the columns that reach zero on the way."""
    while face.columns:
        goal, here = face.goal(), t[face.columns]
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

    Columns with a positive gradient enter (those with the largest, half as many at most as rows are left over) and
    those with a negative coefficient leave, all at once, on the Gram matrix; in the end they only leave.
    """
    columns = np.flatnonzero(free)
    A = problem.A[:, columns]
    gram, products = A.T @ A, A.T @ problem.b
    used, x, gradient = np.zeros(len(products), dtype=bool), np.zeros(0), products
    limit, t = optimal_limit(problem), np.zeros(problem.A.shape[1])
    for exchange in itertools.count():
        inside, negative = np.flatnonzero(used), x < 0
        outside = np.where(used, 0.0, gradient)
        room = min((len(A) - len(inside)) // 2, np.count_nonzero(outside > limit)) if exchange < _EXCHANGES else 0
        if room == 0 and not negative.any():
            break
        used[inside[negative]] = False
        if room:
            used[np.argsort(-outside, kind="stable")[:room]] = True
        inside = np.flatnonzero(used)
        x, singular = dposv(gram[inside[:, None], inside], products[inside])[1:] if len(inside) else (np.zeros(0), 0)
        if singular:
            return t
        gradient = products - gram[:, inside] @ x
    t[columns[np.flatnonzero(used)]] = x
    return t
