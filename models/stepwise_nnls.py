"""The paths of stepwise non-negative least squares: all trials of a step from one factorisation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dtrtri, dtrtrs

from .active_set import Face, non_negative, optimal_limit, optimise, settle
from .stepwise_ols import TIES
from .triangular import ALIASED, Triangular, upper_triangle

_AT_ONCE = 16
"""Trials looked at together, in the order of their bounds."""
_EXCHANGES = 8
"""Exchanges by signs before a trial is left to the active-set method."""
_SHORT = 1e-6
"""A squared length below this, less a projection, is computed from the column itself."""


class NonNegativeForward:
    """Columns added one by one, each time the one whose non-negative fit with those before has the least RSS.

    With A_P = QR the columns in use and t their coefficients, let z_j be column j less its projection on them. It gets
    the coefficient ``x_j = z_j'r / z_j'z_j``, those in use move by ``-x_j A_P^+ a_j``, and the RSS falls by
    ``x_j z_j'r``, for all j at once. That is the fit where no coefficient becomes negative by it and no gradient of a
    column that was added earlier and is held at zero (Z) becomes positive. Elsewhere it bounds the fall, z_j being
    taken less the projection on Z too: such columns are fitted in the order of their bounds while these can win.

    Only columns with a positive gradient are tried: the problem is convex, no other can lower the RSS.

    Parameters
    ----------
    problem : Triangular
        From `with_intercept`.

    Attributes
    ----------
    columns : ndarray of shape (0,)
        What the path begins with: the intercept alone.
    order : list of int
        The features (columns of X) added so far.
    rss : list of float
        The residual sum of squares before the first and after each step.
    """

    def __init__(self, problem: Triangular) -> None:
        self.columns, self.order = np.zeros(0, dtype=int), list[int]()
        self._problem, self._limit = problem, optimal_limit(problem)
        self._allowed = np.arange(problem.A.shape[1]) == 0
        self._t = non_negative(problem, self._allowed)
        self._face = Face(problem, np.flatnonzero(self._t).tolist())
        self.rss = [problem.rss(self._t)]

    def reaches(self, steps: int) -> bool:
        """Go on until that many columns are added; return False where no more lower the RSS."""
        while len(self.order) < steps:
            if (best := self._best()) is None:
                return False
            self._allowed[best] = True
            if self._face.add(best):
                self._t = settle(self._face, self._t)
            self._t, self._face = optimise(self._problem, self._allowed, self._face, self._t)
            self.order.append(best - 1)
            residual = self._face.residual()
            self.rss.append(max(float(residual @ residual), self._problem.floor))
        return True

    def _best(self) -> int | None:
        """Return the column that lowers the RSS most, the first of equals; None where none does."""
        added = _Added(self._problem, self._face, self._t, self._allowed, self._limit)
        if len(added.columns) == 0:
            return None
        return int(added.columns[first_of_least(added.bounds, added.settled, added.fitted)])


class _Added:
    """The fits with one more column, as changes of the present fit.

    Attributes
    ----------
    columns : ndarray of shape (c,)
        The columns C that can lower the RSS.
    bounds : ndarray of shape (c,)
        What the RSS rises by (a negative number) at least.
    """

    def __init__(self, problem: Triangular, face: Face, t: np.ndarray, allowed: np.ndarray, limit: float) -> None:
        self._problem, self._face, self._t, self._allowed, self._limit = problem, face, t, allowed, limit
        C = np.flatnonzero(~allowed & (face.gradient() > limit))
        W, g = face.cross()[:, C], face.gradient()[C]  # Q'A_C: m x c
        lengths = 1.0 - np.einsum("mc,mc->c", W, W)
        if len(short := np.flatnonzero(lengths < _SHORT)):
            off = face.orthogonal(C[short])
            lengths[short], g[short] = np.einsum("ck,ck->c", off, off), off @ face.residual()
        if not (usable := lengths > ALIASED**2).all():
            C, W, g, lengths = C[usable], W[:, usable], g[usable], lengths[usable]
        self.columns, self._W, self._g, self._lengths, self._x = C, W, g, lengths, g / lengths
        self._Z = np.flatnonzero(allowed & (t == 0))
        self.bounds = -(g**2) / (self._beyond_idle() if len(self._Z) else lengths)

    def _beyond_idle(self) -> np.ndarray:
        """Return the squared lengths of C less the projections on P and on the columns at zero (Z).

        The RSS falls by no more than if the columns of Z could take any sign.
        """
        off = self._face.orthogonal(self._Z)  # z x k
        basis = np.linalg.qr(off.T)[0].T  # z x k
        both = np.vstack([off, basis]) @ self._problem.A[:, self.columns]
        self._products, further = both[: len(off)], both[len(off) :]
        return np.maximum(self._lengths - np.einsum("zc,zc->c", further, further), ALIASED**2)

    def _beside(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return A_P^+ A_C (m x w), and the coefficients of P (m x w) and gradients of Z (z x w) beside some of C."""
        face, x = self._face, self._x[which]
        d = _solved(face.factor(), self._W[:, which])
        if len(self._Z) == 0:
            return d, self._t[face.columns, None] - d * x, np.zeros((0, len(which)))
        return d, self._t[face.columns, None] - d * x, face.gradient()[self._Z, None] - self._products[:, which] * x

    def settled(self, which: np.ndarray) -> np.ndarray:
        """Return the rises with some of C where no sign is wrong, NaN elsewhere."""
        _, coefficients, gradients = self._beside(which)
        right = (coefficients >= 0).all(axis=0) & (gradients <= self._limit).all(axis=0)
        return np.where(right, -self._g[which] * self._x[which], np.nan)

    def fitted(self, which: int) -> float:
        """Return the rise with one of C where signs are wrong at first.

        Columns of P are held at zero, and let go, by their signs until these are right: with V the inverse Gram matrix
        of P and the new column, forces mu on those held (K) solve ``V_KK mu = s_K``, s being the coefficients without
        forces, and the RSS rises by ``mu' s_K``. If a column of Z then has a positive gradient, or the signs do not
        settle, the active-set method takes over.
        """
        d, s, gradient = (part[:, 0] for part in self._beside(np.array([which])))
        length, inverse = self._lengths[which], self._inverse_factor
        V, held = inverse @ inverse.T + np.outer(d, d) / length, s < 0
        for _ in range(_EXCHANGES):
            K = np.flatnonzero(held)
            mu = np.linalg.solve(V[np.ix_(K, K)], s[K])
            wrong = s - V[:, K] @ mu < 0
            wrong[K] = mu > 0
            if not wrong.any():
                break
            held ^= wrong
        else:
            return self._refitted(which)
        if len(self._Z):
            D = inverse @ self._face.cross()[:, self._Z]  # A_P^+ A_Z: m x z
            gradient = gradient + (D - np.outer(d, self._products[:, which]) / length)[K].T @ mu
        if self._x[which] + d[K] @ mu / length <= 0 or (gradient > self._limit).any():
            return self._refitted(which)
        return float(mu @ s[K] - self._g[which] * self._x[which])

    @cached_property
    def _inverse_factor(self) -> np.ndarray:
        """R^-1, of shape (m, m)."""
        return dtrtri(self._face.factor())[0] if self._face.columns else np.zeros((0, 0))

    def _refitted(self, which: int) -> float:
        """Return the rise with one of C by the active-set method."""
        column, face, allowed = int(self.columns[which]), self._face.copy(), self._allowed.copy()
        allowed[column] = True
        face.add(column)
        _, face = optimise(self._problem, allowed, face, settle(face, self._t))
        before, after = self._face.residual(), face.residual()
        return float(after @ after - before @ before)


class NonNegativeBackward:
    """Columns removed one by one, each time the one whose absence raises the RSS least.

    Columns at zero are removed first: they raise nothing. Let t > 0 be the coefficients of those left. Without column
    j the others move by ``-t_j V_j / V_jj``, ``V = (A_P'A_P)^-1``, and the RSS rises by ``t_j² / V_jj``. That is the
    fit where no coefficient becomes negative by it and an intercept at zero stays there. Elsewhere it bounds the rise
    from below (with the intercept among the columns of V): such columns are fitted in the order of their bounds while
    these can win.

    Parameters
    ----------
    problem : Triangular
        From `with_intercept`.
    most : int
        The path begins with all columns that are not zero; where more than ``most`` have a coefficient, with the first
        ``most`` that forward selection takes.

    Attributes
    ----------
    columns : ndarray of shape (p,)
        The features the path begins with.
    order : list of int
        The features (columns of X) removed so far.
    rss : list of float
        The residual sum of squares before the first and after each step.
    """

    def __init__(self, problem: Triangular, most: int) -> None:
        t = non_negative(problem)
        self.columns = np.flatnonzero(problem.A[:, 1:].any(axis=0))
        if np.count_nonzero(t[1:]) > most:
            forward = NonNegativeForward(problem)
            forward.reaches(most)
            self.columns = np.sort(np.array(forward.order[:most], dtype=int))
            t = non_negative(problem, np.isin(np.arange(len(t)), [0, *(self.columns + 1)]))
        self.order, self.rss = list[int](), [problem.rss(t)]
        self._limit, self._floor = optimal_limit(problem), problem.floor
        self._left = self.columns  # features, in their order
        self._drop_idle(
            np.column_stack([problem.A[:, [*(self.columns + 1), 0]], problem.b]), t[[*(self.columns + 1), 0]]
        )

    def reaches(self, steps: int) -> bool:
        """Go on until that many columns are removed; return False where none is left before."""
        while len(self.order) < steps:
            if len(self._left) == 0:
                return False
            self._remove(self._least())
        return True

    def _drop_idle(self, M: np.ndarray, t: np.ndarray) -> None:
        """Remove the features at zero and reduce M, the columns of the features, the intercept and the target."""
        idle = np.flatnonzero(t[:-1] == 0)
        self.order += self._left[idle].tolist()
        self.rss += [self.rss[-1]] * len(idle)
        self._left, self._t = np.delete(self._left, idle), np.delete(t, idle)
        self._R = upper_triangle(np.delete(M, idle, axis=1))  # m + 2 x m + 2

    @property
    def _used(self) -> int:
        """The number of columns in use: the features left and, after them, the intercept unless it is at zero."""
        return len(self._left) + int(self._t[-1] > 0)

    def _remove(self, position: int) -> None:
        """Remove a feature, given by position."""
        self.order.append(int(self._left[position]))
        self._left, start = np.delete(self._left, position), np.delete(self._t, position)
        self._t = start
        self._R = upper_triangle(np.delete(self._R, position, axis=1))
        m, used = len(self._left), self._used
        goal = _solved(self._R[:used, :used], self._R[:used, -1])
        if (goal > 0).all() and (used > m or self._gradient_of_intercept() <= self._limit):
            self._t = np.append(goal, np.zeros(m + 1 - used))
            self.rss.append(max(float(self._R[used:, -1] @ self._R[used:, -1]), self._floor))
        else:
            problem = self._problem()
            t = non_negative(problem, start=start)
            self.rss.append(problem.rss(t))
            self._drop_idle(self._R, t)

    def _gradient_of_intercept(self) -> float:
        """Return the gradient of an intercept at zero, all features being in use."""
        m = len(self._left)
        return float(self._R[m, m] * self._R[m, m + 1])

    def _problem(self) -> Triangular:
        return Triangular(self._R[:, :-1], self._R[:, -1], np.ones(len(self._t)), self._floor)

    def _least(self) -> int:
        """Return the position of the feature whose absence raises the RSS least, the first of equals."""
        m, used = len(self._left), self._used
        t, inverse = self._t[:used], dtrtri(self._R[:used, :used])[0]
        V = inverse @ inverse.T
        spread = np.diagonal(V)
        moved = t[:, None] - V * (t / spread)  # column j: without column j
        np.fill_diagonal(moved, 0.0)
        settled = (moved >= 0).all(axis=0)
        if used == m:
            d, length = inverse @ self._R[:m, m], max(self._R[m, m] ** 2, ALIASED**2)
            settled &= self._gradient_of_intercept() + d * t / spread <= self._limit
            spread = np.where(settled, spread, spread + d**2 / length)
        bounds = (t**2 / spread)[:m]
        rises = np.where(settled[:m], bounds, np.nan)
        return first_of_least(bounds, lambda positions: rises[positions], self._rise_without)

    def _rise_without(self, position: int) -> float:
        """Return the RSS without a feature, given by position, less that with it."""
        start, allowed = self._t.copy(), np.ones(len(self._t), dtype=bool)
        start[position], allowed[position] = 0.0, False
        problem = self._problem()
        return problem.rss(non_negative(problem, allowed, start)) - self.rss[-1]


def first_of_least(
    bounds: np.ndarray, settled: Callable[[np.ndarray], np.ndarray], fitted: Callable[[int], float]
) -> int:
    """Return the index of the least value, the first of equals.

    Parameters
    ----------
    bounds : ndarray of shape (g,)
        No value is below its bound.
    settled : callable
        Returns the values at some indices, NaN where they need a fit.
    fitted : callable
        Returns the value at one index by a fit; not called where the bound shows that it is not the least.
    """
    values, least = np.full(len(bounds), np.inf), np.inf
    order = np.argsort(bounds, kind="stable")
    for first in range(0, len(order), _AT_ONCE):
        chunk = order[first : first + _AT_ONCE]
        if bounds[chunk[0]] > _close_to(least):
            break
        values[chunk] = settled(chunk)
        open_ones = chunk[np.isnan(values[chunk])]
        values[open_ones] = np.inf
        least = float(min(least, values[chunk].min()))
        for index in open_ones.tolist():
            if bounds[index] <= _close_to(least):
                values[index] = fitted(index)
                least = min(least, float(values[index]))
    return int(np.argmax(values <= _close_to(least)))


def _close_to(least: float) -> float:
    return least + TIES * abs(least)


def _solved(R: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return R^-1 right."""
    return dtrtrs(R, right)[0] if len(R) else right
