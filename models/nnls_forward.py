"""Forward selection with non-negative coefficients: all trials of a step from one factorisation."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dposv

from .active_set import non_negative, optimal_limit
from .nnls_factor import ChosenFactor
from .stepwise_ols import TIES
from .triangular import ALIASED, Triangular

_EXCHANGES = 8
"""Exchanges by signs before a trial is left to the active-set method."""
_SHORT = 1e-6
"""A squared length below this, less a projection, is computed from the column itself."""
_DEPENDENT = 1e-8
"""The inverse Gram matrix is not used below this squared length: rounding would cost eight digits."""


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
        intercept = [0]
        positive = problem.A[:, 0] @ problem.b > 0
        self._chosen = ChosenFactor(problem, intercept if positive else [], [] if positive else intercept)
        self.rss = [max(self._chosen.rss, problem.floor)]

    def reaches(self, steps: int) -> bool:
        """Go on until that many columns are added; return False where no more lower the RSS."""
        while len(self.order) < steps:
            trials = _Trials(self._problem, self._chosen, self._limit)
            if (best := trials.best()) is None:
                return False
            self._add(best, trials.used_with(best))
            self.order.append(best - 1)
            self.rss.append(max(self._chosen.rss, self._problem.floor))
        return True

    def _add(self, column: int, used: list[int]) -> None:
        """Choose a column and use these; where rounding leaves that not optimal, those of the active-set method."""
        chosen = self._chosen
        chosen.use(column, used)
        idle = chosen.idle
        if (len(chosen.t) and chosen.t.min() <= 0) or (idle and chosen.gradient[idle].max() > self._limit):
            columns, start = [*chosen.columns, *chosen.parked], np.zeros(self._problem.A.shape[1])
            start[chosen.columns[: chosen.used]] = np.maximum(chosen.t, 0.0)
            t = non_negative(self._problem, np.isin(np.arange(len(start)), columns), start)
            chosen.start(np.flatnonzero(t).tolist(), [j for j in columns if t[j] == 0])


class _Trials:
    """The fits with one more column, as changes of the present fit.

    Parameters
    ----------
    problem : Triangular
    chosen : ChosenFactor
        Of the present fit.
    limit : float
        The gradient up to which a column at zero stays there.
    """

    def __init__(self, problem: Triangular, chosen: ChosenFactor, limit: float) -> None:
        self._problem, self._chosen, self._limit = problem, chosen, limit
        self._used: dict[int, list[int]] = {}  # the columns in use beside a column, where signs were wrong at first
        self._up = np.where(chosen.gradient > limit, chosen.gradient, 0.0)
        self._lengths, self._beyond = chosen.lengths, chosen.lengths_beyond
        self._gradient_beyond = chosen.gradient_beyond
        if self._beyond.min() < _SHORT:
            self._measure_short()

    def best(self) -> int | None:
        """Return the column that lowers the RSS most, the first of equals; None where none does.

        Columns are looked at in the order of their bounds while these are not below the largest fall.
        """
        bounds, falls, largest = self._up * self._up / self._beyond, dict[int, float](), 0.0
        while (bound := float(bounds[column := int(bounds.argmax())])) > 0 and bound >= largest * (1 - TIES):
            falls[column] = self._fall(column)
            largest, bounds[column] = max(largest, falls[column]), 0.0
        return min((column for column, fall in falls.items() if fall >= largest * (1 - TIES)), default=None)

    def used_with(self, column: int) -> list[int]:
        """Return the columns in use once this one, found best, is chosen."""
        return self._used.get(column) or [*self._chosen.columns[: self._chosen.used], column]

    def _measure_short(self) -> None:
        """Compute small squared lengths, and the gradients there, from what is left of the columns."""
        chosen = self._chosen
        short = np.flatnonzero((self._beyond < _SHORT) & (self._up > 0))
        self._lengths, self._beyond = self._lengths.copy(), np.maximum(self._beyond, ALIASED**2)
        self._gradient_beyond = self._gradient_beyond.copy()
        off = chosen.orthogonal(short, chosen.used)
        self._lengths[short] = np.einsum("ck,ck->c", off, off)
        self._up[short] = np.where(self._lengths[short] > ALIASED**2, np.maximum(off @ chosen.residual(), 0.0), 0.0)
        off = chosen.orthogonal(short, len(chosen.columns))
        self._beyond[short] = np.maximum(np.einsum("ck,ck->c", off, off), ALIASED**2)
        self._gradient_beyond[short] = off @ self._problem.b

    def _fall(self, column: int) -> float:
        """Return by how much the RSS falls with a column: at once where no sign is wrong, else by a fit."""
        chosen, m = self._chosen, self._chosen.used
        x = float(self._up[column]) / float(self._lengths[column])
        coefficients = chosen.t - x * (chosen.inverse[:m, :m] @ chosen.cross[:m, column])
        right = m == 0 or coefficients.min() >= 0
        if right and (idle := chosen.columns[m:]):
            right = (chosen.gradient[idle] - x * chosen.beyond_idle(column)).max() <= self._limit
        if chosen.parked or not right:
            return self._fit(column, coefficients < 0)
        return float(self._up[column]) * x

    def _fit(self, column: int, negative: np.ndarray) -> float:
        """Return by how much the RSS falls with a column where signs are wrong at first: those of some of P (m,).

        Columns are held at zero, and let go, by their signs until these are right: with V the inverse Gram matrix of
        those chosen (S) and the new one, and s their coefficients whatever their signs, the gradients mu of those held
        (K) solve ``V_KK mu = s_K``, and the RSS is above the least one for any signs by ``mu' s_K``. If the signs do
        not settle, or columns are nearly dependent, the active-set method takes over.
        """
        chosen, length, m = self._chosen, float(self._beyond[column]), self._chosen.used
        if chosen.parked or length < _DEPENDENT or self._dependent:
            return self._refit(column)
        d = chosen.inverse @ chosen.cross[:, column]  # A_S^+ a_j
        x = float(self._gradient_beyond[column]) / length
        s = chosen.free - x * d
        held = np.ones(len(s), dtype=bool)
        held[:m] = negative
        for _ in range(_EXCHANGES):
            K = np.flatnonzero(held)
            V, share = self._inverse_gram[:, K], d[K] / length
            mu, singular = s[K], 0
            if len(K):
                mu, singular = dposv(V[K] + np.multiply.outer(d[K], share), mu)[1:]
            if singular:
                return self._refit(column)
            more = float(share @ mu)
            wrong = s - V @ mu - more * d < 0
            wrong[K] = mu > self._limit
            if not wrong.any():
                break
            held ^= wrong
        else:
            return self._refit(column)
        if x + more <= 0:
            return self._refit(column)
        self._used[column] = [j for j, out in zip(chosen.columns, held.tolist(), strict=True) if not out] + [column]
        z = chosen.target[m:]
        return float(z @ z + self._gradient_beyond[column] * x - mu @ s[K])

    @cached_property
    def _inverse_gram(self) -> np.ndarray:
        """The inverse Gram matrix of S, of shape (s, s)."""
        return self._chosen.inverse @ self._chosen.inverse.T

    @cached_property
    def _dependent(self) -> bool:
        """Whether the inverse Gram matrix of S is not to be relied on."""
        return self._chosen.independence() < _DEPENDENT

    def _refit(self, column: int) -> float:
        """Return by how much the RSS falls with a column by the active-set method, on the factor of S and the new one.

        A column that is a combination of S adds no row to it.
        """
        chosen, s, z = self._chosen, len(self._chosen.columns), self._chosen.target[self._chosen.used :]
        columns = [*chosen.columns, *chosen.parked, column]
        A, b = np.zeros((s + 1, len(columns)), order="F"), np.zeros(s + 1)
        A[:s, :s], A[:s, s:], b[:s] = chosen.factor, chosen.cross[:, columns[s:]], chosen.target
        if self._beyond[column] > ALIASED**2:
            A[s, -1] = self._beyond[column] ** 0.5
            b[s] = self._gradient_beyond[column] / A[s, -1]
        start = np.zeros(len(columns))
        start[: chosen.used] = np.maximum(chosen.t, 0.0)
        t = non_negative(Triangular(A, b, np.ones(len(columns)), 0.0), start=start)
        self._used[column] = [columns[i] for i in np.flatnonzero(t)]
        residual = b - A @ t
        return float(z @ z + b[s] ** 2 - residual @ residual)
