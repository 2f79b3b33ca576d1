"""Exact solutions of l1-penalised least squares along falling penalties, by an active set on the Gram matrix."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

PIVOT = 1e-10
"""A column whose squared distance from the span of the active ones is below this share of its squared length counts as
in the span: taking it in exchanges it for active columns until one of them reaches 0."""
_TIE, _DRIFT, _ROUNDING = 1e-9, 1e-9, 1e-13


class ActiveSet:
    """The minimum of ``u' G u / 2 - c' u + ridge |u|² / 2 + l1 |u|_1``, followed from one (l1, ridge) to the next.

    While the active columns A and their signs s are right, u_A = (G_AA + ridge I)^-1 (c_A - l1 s). `solve` moves u
    straight towards that point; a coefficient that reaches 0 on the way leaves the set, then the column that pulls most
    beyond l1 enters, until none does. The objective never rises, so no set of signs comes twice. The inverse is updated
    by bordering, O(k²) for k active columns; a step costs O(k p). Where so many steps as there are columns do not lower
    the objective beyond rounding error, as among columns that are nearly dependent, the search ends.

    G (p, p) is the Gram matrix, c (p,) are the products with the target, which may be set anew before `solve`; with
    ``positive`` u >= 0. ``pull = c - G u - ridge u`` is within ± l1 for inactive columns, l1 times the sign for active
    ones.

    References
    ----------
    M. R. Osborne, B. Presnell, B. A. Turlach, A new approach to variable selection in least squares problems, IMA J.
    Numerical Analysis 20 (2000) 389. H. Lee et al., Efficient sparse coding algorithms, NIPS 19 (2006).
    """

    def __init__(self, G: np.ndarray, c: np.ndarray, positive: bool) -> None:
        p = len(c)
        self.G, self.c, self.positive, self.ridge = G, c, positive, 0.0
        self.u, self.pull = np.zeros(p), c.copy()
        self.diagonal = G.diagonal().copy()
        self._active, self._sign, self._k = np.zeros(p, dtype=np.intp), np.zeros(p), 0
        self._rows, self._inverse = np.empty((p, p)), np.empty((p, p))  # leading k rows of G[A], k x k block in use
        self._floor = 0.0

    @property
    def active(self) -> np.ndarray:
        """Positions of the columns in use."""
        return self._active[: self._k]

    def solve(self, l1: float, ridge: float, tol: float, max_steps: int) -> tuple[int, bool]:
        """Move u to the minimum; return the number of steps, and whether no column pulls beyond l1 (1 + tol)."""
        if ridge != self.ridge:
            self.ridge = ridge
            self._factorise()
        self._floor = _ROUNDING * float(np.abs(self.c).max(initial=0.0))
        self.pull = self.c - self.u[self.active] @ self._rows[: self._k] - ridge * self.u
        steps, idle = self._settle(l1, tol, max_steps), 0
        least = self._objective(l1)
        while steps < max_steps and idle <= len(self.u):
            if (column := self._strongest(l1, tol)) is not None:
                steps += self._enter(column, l1)
                idle = 0 if (objective := self._objective(l1)) < least - _ROUNDING * abs(least) else idle + 1
                least = min(least, objective)
            elif more := self._settle(l1, tol, max_steps - steps):
                steps += more
            else:
                return steps, self._residual(l1)[1] <= max(tol * l1, self._floor)
        return steps, False

    def _objective(self, l1: float) -> float:
        """Return what is minimised, from u and its pull."""
        return float(l1 * np.abs(self.u).sum() - self.u @ (self.c + self.pull) / 2)

    def response(self, direction: np.ndarray) -> float:
        """Return ``direction' du`` where c moves by ``direction``, the active columns staying the same."""
        own = direction[self.active]
        return float(own @ self._solved(own))

    def _residual(self, l1: float) -> tuple[np.ndarray, float]:
        """Return how far the pull of each active column is from l1 times its sign, and the largest size of these."""
        residual = self.pull[self.active] - l1 * self._sign[: self._k]
        return residual, float(np.abs(residual).max(initial=0.0))

    def _strongest(self, l1: float, tol: float) -> int | None:
        """Return the inactive column that pulls most beyond l1, the first of equals; None when none does."""
        beyond = (self.pull if self.positive else np.abs(self.pull)) - l1
        beyond[self.active] = 0.0
        most = float(beyond.max())
        if most <= max(tol * l1, self._floor):
            return None
        return int(np.argmax(beyond >= most - _TIE * l1))

    def _settle(self, l1: float, tol: float, most: int) -> int:
        """Move the active coefficients to their minimum, dropping those that reach 0; return the number of steps.

        A move that ends short of the minimum without such a drop shows that the inverse has drifted: it is computed
        anew, and what is then left over is rounding error.
        """
        steps, last, reached, fresh = 0, np.inf, False, False
        limit = max(min(tol, _DRIFT) * l1, self._floor)
        while steps < most:
            residual, error = self._residual(l1)
            drifted = reached and error >= last / 2
            if error <= limit or (drifted and fresh):
                break
            if drifted:
                self._factorise()
                fresh = True
            last, steps = error, steps + 1
            reached = self._move(self._solved(residual), l1)[0]
        return steps

    def _solved(self, right: np.ndarray) -> np.ndarray:
        """Return the inverse of the active block times a vector; it is computed anew where it has overflowed."""
        solved = self._inverse[: self._k, : self._k] @ right
        if not np.isfinite(solved).all():
            self._factorise()
            solved = self._inverse[: self._k, : self._k] @ right
        return solved

    def _enter(self, column: int, l1: float) -> int:
        """Take a column in: raise it, the others following, until it pulls no more; return the number of steps."""
        sign, steps = (1.0 if self.pull[column] > 0 else -1.0), 0
        while True:
            steps += 1
            solved = self._solved(self.G[column][self.active])
            reached, curvature = self._move(-sign * solved, l1, column, sign)
            if reached:
                self._add(column, sign, solved, max(curvature, PIVOT * self.diagonal[column]))
                return steps

    def _move(
        self, direction: np.ndarray, l1: float, column: int | None = None, sign: float = 0.0
    ) -> tuple[bool, float]:
        """Move the active coefficients along a direction, to the minimum along it or to the first 0 on the way.

        ``column``, which is not active yet, moves by ``sign`` as they move by ``direction``. Returns whether the
        minimum was reached, otherwise the coefficient that is 0 has left the active set; and the objective's curvature.
        """
        k, active = self._k, self.active
        bent = direction @ self._rows[:k]
        slope = float(direction @ self._residual(l1)[0])
        flat = float(direction**2 @ self.diagonal[active])
        if column is not None:
            bent += sign * self.G[column]
            slope += sign * float(self.pull[column]) - l1
            flat += float(self.diagonal[column])
        curvature = float(direction @ bent[active]) + self.ridge * float(direction @ direction)
        curvature += 0.0 if column is None else sign * float(bent[column]) + self.ridge
        wanted = max(slope, 0.0) / max(curvature, PIVOT * flat) if flat > 0 else 0.0
        here = self.u[active]
        towards = here * direction < 0
        reach = np.full(k, np.inf)
        np.divide(-here, direction, out=reach, where=towards)
        first = int(np.argmin(reach)) if k else -1
        reached = k == 0 or reach[first] >= wanted
        length = wanted if reached else float(reach[first])
        step = length * direction
        self.u[active] += step
        self.pull -= length * bent
        self.pull[active] -= self.ridge * step
        if column is not None:
            self.u[column] += length * sign
            self.pull[column] -= self.ridge * length * sign
        if not reached:
            self.u[active[first]] = 0.0
            self._drop(first)
        return reached, curvature

    def _add(self, column: int, sign: float, solved: np.ndarray, pivot: float) -> None:
        """Border the inverse: [[B + v v' / d, -v / d], [-v' / d, 1 / d]] with v = B G_A,column and the pivot d."""
        k = self._k
        self._rows[k] = self.G[column]
        self._active[k], self._sign[k], self._k = column, sign, k + 1
        inverse = self._inverse
        inverse[:k, :k] += np.multiply.outer(solved / pivot, solved)
        inverse[k, :k] = inverse[:k, k] = -solved / pivot
        inverse[k, k] = 1.0 / pivot
        if not self._bounded():  # the next column would square the rounding errors
            self._factorise()

    def _drop(self, i: int) -> None:
        """Take the i-th active column out; the last one takes its place."""
        last, inverse = self._k - 1, self._inverse
        inverse[[i, last], : last + 1] = inverse[[last, i], : last + 1]
        inverse[: last + 1, [i, last]] = inverse[: last + 1, [last, i]]
        column = inverse[:last, last]
        inverse[:last, :last] -= np.multiply.outer(column / inverse[last, last], column)
        self._rows[i] = self._rows[last]
        self._active[i], self._sign[i], self._k = self._active[last], self._sign[last], last

    def _factorise(self) -> None:
        """Compute the inverse of the active block anew.

        Where columns are dependent up to rounding error, a ridge bounds it; further moves correct what that changes.
        """
        k = self._k
        block = self._rows[:k, self.active]
        block[np.diag_indices(k)] += self.ridge
        more = PIVOT * self.diagonal[self.active]
        while k:
            factor, failed = dpotrf(block)
            if not failed:
                upper = np.triu(dpotri(factor)[0])
                self._inverse[:k, :k] = upper + np.triu(upper, 1).T
                if self._bounded():
                    return
            block[np.diag_indices(k)] += more
            more *= 10

    def _bounded(self) -> bool:
        """Whether every active column is, by the inverse, further from the span of the others than `PIVOT`."""
        k = self._k
        shares = self._inverse[:k, :k].diagonal() * self.diagonal[self.active]
        return bool(((shares > 0) & (shares * PIVOT <= 1)).all())
