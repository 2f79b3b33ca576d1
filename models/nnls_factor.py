"""The columns that a non-negative search has chosen: their triangular factor, and all columns seen by them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg.lapack import dgeqrf, dorgqr, dtrtri

from .triangular import ALIASED, Triangular

_ROOM = 32
"""Rows made room for at first."""
_LONG = 1e-3
"""From this squared length on, less the projection on others, a column enters by the products of the columns alone."""

_LOSS = 1e-3
"""The RSS is computed from the residuals once this is left of it: subtraction has cost three digits then."""


class ChosenFactor:
    """``A_S = QR`` of the chosen columns S, first those in use (P), then those held at zero (Z); Q is not kept.

    All there is to know of the columns not chosen are their products with Q. Column j with ``w = Q'a_j`` and
    ``l² = 1 - w'w`` adds the row ``(A'a_j - W'w) / l`` to ``W = Q'A``: one product with A. Where l is small the new
    direction q is computed itself, orthogonalised twice, and the row is ``A'q``. What changes between P and Z turns the
    rows from the first one concerned.

    Parameters
    ----------
    problem : Triangular
        From `with_intercept`.
    used, idle : list of int
        The columns in use, which are independent, and those held at zero.

    Attributes
    ----------
    columns : list of int
        S, those in use first.
    used : int
        How many are in use, m of s.
    parked : list of int
        Chosen columns at zero that are combinations of S; not in the factor.
    cross : ndarray of shape (s, q)
        W.
    target : ndarray of shape (s,)
        Q'b.
    factor, inverse : ndarray of shape (s, s)
        R and R^-1.
    free : ndarray of shape (s,)
        The coefficients of S whatever their signs.
    t : ndarray of shape (m,)
        The coefficients of P without Z.
    gradient, gradient_beyond : ndarray of shape (q,)
        The products of all columns with the target less its projection on P, and on S.
    lengths, lengths_beyond : ndarray of shape (q,)
        The squared lengths of all columns less their projection on P, and on S; infinite for chosen ones.
    rss : float
        The squared length of the target less its projection on P.
    """

    def __init__(self, problem: Triangular, used: Sequence[int], idle: Sequence[int]) -> None:
        self._problem, q = problem, problem.A.shape[1]
        self._At, self._products, self._total = problem.A.T, problem.A.T @ problem.b, float(problem.b @ problem.b)
        self._rows, self._z = np.empty((_ROOM, q)), np.empty(_ROOM)
        self._R, self._inverse = np.zeros((_ROOM, _ROOM)), np.zeros((_ROOM, _ROOM))
        self.start(used, idle)

    def start(self, used: Sequence[int], idle: Sequence[int]) -> None:
        """Begin anew with some columns in use, which are independent, and some held at zero."""
        self.columns, self.parked = list[int](), list[int]()
        self._look(0)
        self.gradient_beyond, self.lengths_beyond = self._products.copy(), np.ones(len(self._products))
        self.parked += [column for column in used if not self._enter(column)]
        self.used = len(self.columns)
        self.parked += [column for column in idle if not self._enter(column)]
        self.lengths_beyond[self.parked] = np.inf
        self._measure()

    def use(self, column: int, used: Sequence[int]) -> None:
        """Take another column in; then use these of the chosen ones, and hold the others at zero."""
        if not self._enter(column) or any(j in self.parked for j in used):
            self.start(used, [j for j in (*self.columns, *self.parked) if j not in used])
            return
        if len(used) < len(self.columns):
            self._arrange([j for j in self.columns if j in used] + [j for j in self.columns if j not in used])
        self.used = len(used)
        self._measure()

    @property
    def idle(self) -> list[int]:
        """All chosen columns that are held at zero."""
        return self.columns[self.used :] + self.parked

    def independence(self) -> float:
        """Return the least squared length, among chosen columns, less the projection on those before."""
        return float(np.square(np.diagonal(self.factor)).min(initial=1.0))

    def residual(self) -> np.ndarray:
        """Return the target less its projection on P, of shape (k,)."""
        return self._problem.b - self.t @ self._At[self.columns[: self.used]]

    def beyond_idle(self, column: int) -> np.ndarray:
        """Return the products of Z with a column, all less their projections on P."""
        return self.factor[self.used :, self.used :].T @ self.cross[self.used :, column]

    def orthogonal(self, columns: Sequence[int] | np.ndarray, size: int) -> np.ndarray:
        """Return some columns of A less their projection on the first of S, one row each."""
        chosen, inverse, off = self._At[self.columns[:size]], self._inverse[:size, :size], self._At[columns]
        for _ in range(3):  # a pass leaves the rounding error of the one before times that of R^-1
            off = off - (((off @ chosen.T) @ inverse) @ inverse.T) @ chosen
        return off

    def _enter(self, column: int) -> bool:
        """Take a column in as the last of S; return False, and do not, where it is a combination of the others."""
        s = len(self.columns)
        if s >= len(self._problem.b):
            return False
        self._make_room(s + 1)
        w, squared, row = self.cross[:, column].copy(), float(self.lengths_beyond[column]), self._rows[s]
        if squared >= _LONG:
            length = squared**0.5
            np.dot(self._At, self._At[column], out=row)
            row -= w @ self.cross
            row /= length
            self._z[s] = self.gradient_beyond[column] / length
        else:
            (v,) = self.orthogonal([column], s)
            if (length := float(v @ v) ** 0.5) <= ALIASED:
                return False
            v /= length
            np.dot(self._At, v, out=row)
            self._z[s] = v @ self._problem.b
        self._R[:s, s], self._R[s, :s], self._R[s, s] = w, 0.0, length
        self._inverse[:s, s] = self.inverse @ w / -length
        self._inverse[s, :s], self._inverse[s, s] = 0.0, 1 / length
        self.columns.append(column)
        self._look(s + 1)
        self.gradient_beyond = self.gradient_beyond - self._z[s] * row
        self.lengths_beyond = self.lengths_beyond - row * row
        self.lengths_beyond[column] = np.inf
        return True

    def _look(self, s: int) -> None:
        """Let the attributes show the first s rows."""
        self.cross, self.target = self._rows[:s], self._z[:s]
        self.factor, self.inverse = self._R[:s, :s], self._inverse[:s, :s]

    def _make_room(self, size: int) -> None:
        if size > (room := len(self._z)):
            rows, z, R, inverse = self._rows, self._z, self._R, self._inverse
            self._rows, self._z = np.empty((2 * room, rows.shape[1])), np.empty(2 * room)
            self._R, self._inverse = np.zeros((2 * room, 2 * room)), np.zeros((2 * room, 2 * room))
            self._rows[:room], self._z[:room], self._R[:room, :room], self._inverse[:room, :room] = rows, z, R, inverse
            self._look(len(self.columns))

    def _arrange(self, columns: list[int]) -> None:
        """Put S in this order. From the first column that moves on, R of the new order is G R', and Q becomes QG."""
        s, first = len(columns), next(i for i, column in enumerate(columns) if column != self.columns[i])
        order = [self.columns.index(column) for column in columns[first:]]
        factored, tau, _, _ = dgeqrf(self._R[first:s, order])
        G = dorgqr(factored, tau)[0]
        self._R[first:s, first:s] = G.T @ self._R[first:s, order]
        self._R[:first, first:s] = self._R[:first, order]
        self._rows[first:s], self._z[first:s] = G.T @ self._rows[first:s], G.T @ self._z[first:s]
        self._inverse[:s, :s] = dtrtri(self._R[:s, :s])[0]
        self.columns = columns

    def _measure(self) -> None:
        """Work out what depends on the columns in use."""
        m, z = self.used, self.target
        self.free = self.t = self.inverse @ z
        self.gradient, self.lengths = self.gradient_beyond, self.lengths_beyond
        if m < len(z):
            Z = self.cross[m:]
            self.t = self.inverse[:m, :m] @ z[:m]
            self.gradient = self.gradient + z[m:] @ Z
            self.lengths = self.lengths + np.einsum("zq,zq->q", Z, Z)
        if (rss := self._total - float(z[:m] @ z[:m])) < _LOSS * self._total:
            residual = self.residual()
            rss = float(residual @ residual)
        self.rss = rss
