"""The paths of stepwise non-negative least squares: forwards (its own module) and backwards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg.lapack import dtrtri, dtrtrs

from .nnls_forward import NonNegativeForward
from .stepwise_ols import TIES
from .triangular import ALIASED, Triangular, non_negative, optimal_limit, upper_triangle

# The choice among trials of which some are known, and the others only bounded until they are fitted.

_AT_ONCE = 16
"""Trials looked at together, in the order of their bounds."""


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
        if bounds[chunk[0]] > close_to(least):
            break
        values[chunk] = settled(chunk)
        open_ones = chunk[np.isnan(values[chunk])]
        values[open_ones] = np.inf
        least = float(min(least, values[chunk].min()))
        for index in open_ones.tolist():
            if bounds[index] <= close_to(least):
                values[index] = fitted(index)
                least = min(least, float(values[index]))
    return int(np.argmax(values <= close_to(least)))


def close_to(least: float) -> float:
    """Return the largest value that counts as equal to the least."""
    return least + TIES * abs(least)


__all__ = ["NonNegativeBackward", "NonNegativeForward"]


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


def _solved(R: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return R^-1 right."""
    return dtrtrs(R, right)[0] if len(R) else right
