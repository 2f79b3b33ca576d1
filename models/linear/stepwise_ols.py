"""The paths of stepwise least squares: columns taken greedily by one orthogonalisation, forwards and backwards."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dtrtri

from .triangular import ALIASED, Triangular, upper_triangle

TIES = 1e-10
"""Gains closer than this, relatively, are equal: the first column wins, whatever the last bits say."""
_LOSS = 1e-6
"""A squared length is computed anew once this is left of it: its downdates have cost six digits then."""
_FRESH = 0.1
"""A direction is orthogonalised twice where less than this is left of its squared length."""
_BLOCK = 32
"""Directions taken out of the columns left at once (a matrix product instead of as many passes over them)."""


class GreedyPath:
    """Vectors taken one by one, each for its share of a target, and orthogonalised (Gram-Schmidt, in blocks).

    The share of vector j is ``(z_j' r)² / z_j' z_j``, z_j and the target r being orthogonal to those taken. A step
    costs one product of the vectors left with the new direction q: lengths and products with r follow by
    ``z_j' z_j - (z_j' q)²`` and ``z_j' r - (z_j' q)(q' r)``. The vectors are orthogonalised themselves, and both are
    computed anew, every 32 steps, and earlier where a squared length has fallen to 1e-6 of what it was.

    Forward selection takes the columns of the design with the largest share of the target: that is by how much the RSS
    falls. Backward elimination takes the rows of the pseudo-inverse with the least share of the fitted coefficients:
    with A = QR and U = R^-1 (its rows u_j), t = U Q'b and (A'A)^-1 = UU', so that t_j² / (A'A)^-1_jj, by which the RSS
    rises without column j, is the share of u_j in Q'b; and what is orthogonal to u_j is the pseudo-inverse without j.

    Parameters
    ----------
    vectors : ndarray of shape (p, d), C-contiguous
        Overwritten.
    target : ndarray of shape (d,)
    columns : ndarray of shape (p,)
        What the vectors are called, in ascending order.
    largest : bool
        Whether the vector with the largest share is next, or that with the least.
    rss, floor : float
        The residual sum of squares before the first step, and the least there is.

    Attributes
    ----------
    columns : ndarray of shape (0,) or (p,)
        The columns of the model that the path begins with.
    order : list of int
        The columns taken so far.
    rss : list of float
        The residual sum of squares before the first and after each step.
    """

    def __init__(
        self, vectors: np.ndarray, target: np.ndarray, columns: np.ndarray, *, largest: bool, rss: float, floor: float
    ) -> None:
        self.columns = columns[:0] if largest else columns
        self.order, self.rss = list[int](), [max(rss, floor)]
        self._largest, self._floor = largest, floor
        self._left, self._Z, self._r = columns, vectors, target.copy()
        self._Q = np.empty((_BLOCK, vectors.shape[1]))  # the directions taken since the vectors were orthogonalised
        self._W = np.empty((_BLOCK, len(vectors)))  # W = Q Z'
        self._taken = np.zeros(len(vectors), dtype=bool)
        self._size = 0
        self._orthogonalise()

    def reaches(self, steps: int) -> bool:
        """Go on until that many steps are taken; return False where the vectors end before."""
        while len(self.order) < steps:
            if len(self._left) == self._size:
                return False
            self._step()
        return True

    def _orthogonalise(self) -> None:
        """Take the directions of the block out of the vectors left; forget those taken and those that are nothing."""
        if self._size:
            Q, W = self._Q[: self._size], self._W[: self._size, : len(self._left)]
            self._Z = dgemm(-1.0, Q.T, W, beta=1.0, c=self._Z.T, overwrite_c=True).T
        lengths = np.einsum("jd,jd->j", self._Z, self._Z)
        kept = (lengths > ALIASED**2) & ~self._taken
        if not kept.all():
            self._Z, self._left, lengths = self._Z[kept], self._left[kept], lengths[kept]
        self._taken = np.zeros(len(lengths), dtype=bool)
        self._lengths, self._whole, self._least = lengths, lengths.copy(), np.maximum(_LOSS * lengths, ALIASED**2)
        self._products = self._Z @ self._r
        self._size = 0

    def _step(self) -> None:
        shares = self._products**2 / self._lengths
        if self._largest:
            best = int(np.argmax(shares >= (1 - TIES) * shares.max()))
        else:
            best = int(np.argmax(shares <= (1 + TIES) * shares.min()))
        k, Q, W = self._size, self._Q, self._W[:, : len(shares)]
        q = self._Z[best] - W[:k, best] @ Q[:k]
        if self._lengths[best] < _FRESH * self._whole[best]:
            q -= (Q[:k] @ q) @ Q[:k]
        q /= np.sqrt(q @ q)
        share = float(q @ self._r)
        self._r -= share * q
        Q[k] = q
        c = np.dot(self._Z, q, out=W[k])
        self._lengths -= c * c
        self._products -= share * c
        self.order.append(int(self._left[best]))
        rss = float(self._r @ self._r) if self._largest else self.rss[-1] + share**2
        self.rss.append(max(rss, self._floor))
        # A share of -1 or infinity is never the one that is looked for.
        self._lengths[best], self._products[best] = (-1.0, 1.0) if self._largest else (1.0, np.inf)
        self._taken[best], self._least[best], self._size = True, -np.inf, k + 1
        if self._size == _BLOCK or (self._lengths < self._least).any():
            self._orthogonalise()


def forward_path(problem: Triangular) -> GreedyPath:
    """Return the path of forward selection on a `centred` problem: AIC and BIC of every size are read off it."""
    rss = float(problem.b @ problem.b)
    columns = np.arange(problem.A.shape[1])
    return GreedyPath(problem.A.T.copy(), problem.b, columns, largest=True, rss=rss, floor=problem.floor)


def backward_path(problem: Triangular, most: int) -> GreedyPath:
    """Return the path of backward elimination on a `centred` problem, from ``most`` columns at most.

    It begins from the columns that are no combination of those before them; where there are more than ``most``, from
    the first ``most`` that forward selection takes.
    """
    if (columns := independent(problem.A, most)) is None:
        forward = forward_path(problem)
        forward.reaches(most)
        columns = np.sort(np.array(forward.order[:most], dtype=int))
    m = len(columns)
    R = upper_triangle(np.column_stack([problem.A[:, columns], problem.b]))  # [R z; 0 rest] of A = QR, z = Q'b
    U = np.ascontiguousarray(dtrtri(R[:m, :m])[0]) if m else np.zeros((0, 0))
    rest = R[m:, m]
    return GreedyPath(U, R[:m, m], columns, largest=False, rss=float(rest @ rest), floor=problem.floor)


def independent(A: np.ndarray, most: int) -> np.ndarray | None:
    """Return the columns, in their order, that are no combination of those before them; None if more than ``most``."""
    first = min(most + 1, *A.shape)
    distances = np.abs(np.diagonal(upper_triangle(A[:, :first])))  # of each column from the span of those before
    if (distances > ALIASED).all():
        if first > most:
            return None
        if first == A.shape[1]:
            return np.arange(first)
    Z, kept = A.T.copy(), list[int]()  # p x k
    for j in range(len(Z)):
        if (length := float(np.linalg.norm(Z[j]))) > ALIASED:
            q = Z[j] / length
            Z[j + 1 :] -= np.outer(Z[j + 1 :] @ q, q)
            kept.append(j)
            if len(kept) > most:
                return None
    return np.array(kept, dtype=int)
