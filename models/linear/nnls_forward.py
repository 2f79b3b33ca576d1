"""Forward selection with non-negative coefficients: all trials of a step from one factorisation.

A problem ``min |A t - b|², t >= 0`` enters (A: k × q, columns of length 1, column 0 the intercept;
b: k), a path of columns leaves (`NonNegativeForward`). `ChosenFactor` holds ``A_S = Q R`` of the s
columns chosen so far (R: s × s, Q not kept) and all columns as seen by them, ``W = Q'A`` (s × q).
`_Trials` reads off how far the RSS falls with each of the other columns, and fits those where a
sign would be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dgeqrf, dorgqr, dposv, dtrtri

from .triangular import ALIASED, TIES, Triangular, non_negative, optimal_limit

_ROOM = 32  # rows made room for at first
_LONG = 1e-3
"""From this squared length on, less the projection on others, a column enters by the products of the columns alone."""

# the RSS is computed from the residuals once this is left of it: subtraction has cost three digits
_LOSS = 1e-3


class ChosenFactor:
    """``A_S = QR`` of the chosen columns S, first those in use (P), then those held at zero (Z); Q is not kept.

    All there is to know of the columns not chosen are their products with Q. Column j with ``w =
    Q'a_j`` and ``l² = 1 - w'w`` adds the row ``(A'a_j - W'w) / l`` to ``W = Q'A``: one product with
    A. Where l is small the new direction q is computed itself, orthogonalised twice, and the row is
    ``A'q``. What changes between P and Z turns the rows from the first one concerned.

    The ``problem`` is from `with_intercept`, the columns in use are independent. Of the s
    ``columns`` S ``used`` are in use, m; ``parked`` are chosen columns at zero that are
    combinations of S, not in the factor. ``cross`` (s, q) is W, ``target`` (s,) Q'b, ``factor`` and
    ``inverse`` are R and R^-1; ``free`` (s,) are the coefficients of S whatever their signs, ``t``
    (m,) those of P without Z. Of all columns (q,), less their projection on P, or on S
    (``*_beyond``), ``gradient`` has the products with the target less its own, ``lengths`` the
    squared lengths, infinite for chosen ones; ``rss`` is the squared length of the target less its
    projection on P.
    """

    def __init__(self, problem: Triangular, used: Sequence[int], idle: Sequence[int]) -> None:
        self._problem = problem
        q = problem.A.shape[1]
        self._At = problem.A.T
        self._products = problem.A.T @ problem.b
        self._total = float(problem.b @ problem.b)
        self._rows = np.empty((_ROOM, q))
        self._z = np.empty(_ROOM)
        self._R = np.zeros((_ROOM, _ROOM))
        self._inverse = np.zeros((_ROOM, _ROOM))
        self.start(used, idle)

    def start(self, used: Sequence[int], idle: Sequence[int]) -> None:
        """Begin anew with some columns in use, which are independent, and some held at zero."""
        self.columns = list[int]()
        self.parked = list[int]()
        self._look(0)
        self.gradient_beyond = self._products.copy()
        self.lengths_beyond = np.ones(len(self._products))
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
            kept = [j for j in self.columns if j in used]
            held = [j for j in self.columns if j not in used]
            self._arrange(kept + held)
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
        chosen = self._At[self.columns[:size]]
        inverse = self._inverse[:size, :size]
        off = self._At[columns]
        for _ in range(3):  # a pass leaves the rounding error of the one before times that of R^-1
            coefficients = ((off @ chosen.T) @ inverse) @ inverse.T
            off = off - coefficients @ chosen
        return off

    def _enter(self, column: int) -> bool:
        """Take a column in as the last of S; return False, and do not, where it is a combination of the others."""
        s = len(self.columns)
        if s >= len(self._problem.b):
            return False
        self._make_room(s + 1)
        w = self.cross[:, column].copy()
        squared = float(self.lengths_beyond[column])
        row = self._rows[s]
        if squared >= _LONG:
            length = squared**0.5
            np.dot(self._At, self._At[column], out=row)
            row -= w @ self.cross
            row /= length
            self._z[s] = self.gradient_beyond[column] / length
        else:
            (v,) = self.orthogonal([column], s)
            length = float(v @ v) ** 0.5
            if length <= ALIASED:
                return False
            v /= length
            np.dot(self._At, v, out=row)
            self._z[s] = v @ self._problem.b
        self._R[:s, s] = w
        self._R[s, :s] = 0.0
        self._R[s, s] = length
        self._inverse[:s, s] = self.inverse @ w / -length
        self._inverse[s, :s] = 0.0
        self._inverse[s, s] = 1 / length
        self.columns.append(column)
        self._look(s + 1)
        self.gradient_beyond = self.gradient_beyond - self._z[s] * row
        self.lengths_beyond = self.lengths_beyond - row * row
        self.lengths_beyond[column] = np.inf
        return True

    def _look(self, s: int) -> None:
        """Let the attributes show the first s rows."""
        self.cross = self._rows[:s]
        self.target = self._z[:s]
        self.factor = self._R[:s, :s]
        self.inverse = self._inverse[:s, :s]

    def _make_room(self, size: int) -> None:
        room = len(self._z)
        if size > room:
            rows = self._rows
            z = self._z
            R = self._R
            inverse = self._inverse
            self._rows = np.empty((2 * room, rows.shape[1]))
            self._z = np.empty(2 * room)
            self._R = np.zeros((2 * room, 2 * room))
            self._inverse = np.zeros((2 * room, 2 * room))
            self._rows[:room] = rows
            self._z[:room] = z
            self._R[:room, :room] = R
            self._inverse[:room, :room] = inverse
            self._look(len(self.columns))

    def _arrange(self, columns: list[int]) -> None:
        """Put S in this order. From the first column that moves on, R of the new order is G R', and Q becomes QG."""
        s = len(columns)
        first = next(i for i, column in enumerate(columns) if column != self.columns[i])
        order = [self.columns.index(column) for column in columns[first:]]
        factored, tau, _, _ = dgeqrf(self._R[first:s, order])
        G = dorgqr(factored, tau)[0]
        self._R[first:s, first:s] = G.T @ self._R[first:s, order]
        self._R[:first, first:s] = self._R[:first, order]
        self._rows[first:s] = G.T @ self._rows[first:s]
        self._z[first:s] = G.T @ self._z[first:s]
        self._inverse[:s, :s] = dtrtri(self._R[:s, :s])[0]
        self.columns = columns

    def _measure(self) -> None:
        """Work out what depends on the columns in use."""
        m = self.used
        z = self.target
        self.free = self.t = self.inverse @ z
        self.gradient = self.gradient_beyond
        self.lengths = self.lengths_beyond
        if m < len(z):
            Z = self.cross[m:]
            self.t = self.inverse[:m, :m] @ z[:m]
            self.gradient = self.gradient + z[m:] @ Z
            self.lengths = self.lengths + np.einsum("zq,zq->q", Z, Z)
        rss = self._total - float(z[:m] @ z[:m])
        if rss < _LOSS * self._total:
            residual = self.residual()
            rss = float(residual @ residual)
        self.rss = rss


_EXCHANGES = 8  # exchanges by signs before a trial is left to the active-set method
_SHORT = 1e-6  # a squared length below this, less a projection, is computed from the column itself
_DEPENDENT = 1e-8  # the inverse Gram matrix is not used below this squared length: rounding would cost eight digits


class NonNegativeForward:
    """Columns added one by one, each time the one whose non-negative fit with those before has the least RSS.

    With A_P = QR the columns in use and t their coefficients, let z_j be column j less its
    projection on them. It gets the coefficient ``x_j = z_j'r / z_j'z_j``, those in use move by
    ``-x_j A_P^+ a_j``, and the RSS falls by ``x_j z_j'r``, for all j at once. That is the fit where
    no coefficient becomes negative by it and no gradient of a column that was added earlier and is
    held at zero (Z) becomes positive. Elsewhere it bounds the fall, z_j being taken less the
    projection on Z too: such columns are fitted in the order of their bounds while these can win.

    Only columns with a positive gradient are tried: the problem is convex, no other can lower the
    RSS.

    The ``problem`` is from `with_intercept`; ``columns``, what the path begins with, is empty (the
    intercept alone), ``order`` lists the features (columns of X) added so far, and ``rss`` the
    residual sum of squares before the first and after each step.
    """

    def __init__(self, problem: Triangular) -> None:
        self.columns = np.zeros(0, dtype=int)
        self.order = list[int]()
        self._problem = problem
        self._limit = optimal_limit(problem)
        if problem.A[:, 0] @ problem.b > 0:
            self._chosen = ChosenFactor(problem, used=[0], idle=[])
        else:
            self._chosen = ChosenFactor(problem, used=[], idle=[0])
        self.rss = [max(self._chosen.rss, problem.floor)]

    def reaches(self, steps: int) -> bool:
        """Go on until that many columns are added; return False where no more lower the RSS."""
        while len(self.order) < steps:
            trials = _Trials(self._problem, self._chosen, self._limit)
            best = trials.best()
            if best is None:
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
        wrong_sign = len(chosen.t) and chosen.t.min() <= 0
        wrong_zero = idle and chosen.gradient[idle].max() > self._limit
        if not wrong_sign and not wrong_zero:
            return
        columns = [*chosen.columns, *chosen.parked]
        start = np.zeros(self._problem.A.shape[1])
        start[chosen.columns[: chosen.used]] = np.maximum(chosen.t, 0.0)
        allowed = np.isin(np.arange(len(start)), columns)
        t = non_negative(self._problem, allowed, start)
        zero = [j for j in columns if t[j] == 0]
        chosen.start(np.flatnonzero(t).tolist(), zero)


class _Trials:
    """The fits with one more column, as changes of the present fit.

    The present fit is ``chosen``; a column at zero stays there up to the gradient ``limit``.
    """

    def __init__(self, problem: Triangular, chosen: ChosenFactor, limit: float) -> None:
        self._problem = problem
        self._chosen = chosen
        self._limit = limit
        # the columns in use beside a column, where signs were wrong at first
        self._used: dict[int, list[int]] = {}
        self._up = np.where(chosen.gradient > limit, chosen.gradient, 0.0)
        self._lengths = chosen.lengths
        self._beyond = chosen.lengths_beyond
        self._gradient_beyond = chosen.gradient_beyond
        if self._beyond.min() < _SHORT:
            self._measure_short()

    def best(self) -> int | None:
        """Return the column that lowers the RSS most, the first of equals; None where none does.

        Columns are looked at in the order of their bounds while these are not below the largest
        fall.
        """
        bounds = self._up * self._up / self._beyond
        falls = dict[int, float]()
        largest = 0.0
        while True:
            column = int(bounds.argmax())
            bound = float(bounds[column])
            if bound <= 0 or bound < largest * (1 - TIES):
                break
            falls[column] = self._fall(column)
            largest = max(largest, falls[column])
            bounds[column] = 0.0
        best = [column for column, fall in falls.items() if fall >= largest * (1 - TIES)]
        return min(best, default=None)

    def used_with(self, column: int) -> list[int]:
        """Return the columns in use once this best one is chosen."""
        return self._used.get(column) or [*self._chosen.columns[: self._chosen.used], column]

    def _measure_short(self) -> None:
        """Compute small squared lengths, and the gradients there, from what is left of the columns."""
        chosen = self._chosen
        short = np.flatnonzero((self._beyond < _SHORT) & (self._up > 0))
        self._lengths = self._lengths.copy()
        self._beyond = np.maximum(self._beyond, ALIASED**2)
        self._gradient_beyond = self._gradient_beyond.copy()
        off = chosen.orthogonal(short, chosen.used)
        self._lengths[short] = np.einsum("ck,ck->c", off, off)
        gradient = np.maximum(off @ chosen.residual(), 0.0)
        independent = self._lengths[short] > ALIASED**2
        self._up[short] = np.where(independent, gradient, 0.0)
        off = chosen.orthogonal(short, len(chosen.columns))
        squares = np.einsum("ck,ck->c", off, off)
        self._beyond[short] = np.maximum(squares, ALIASED**2)
        self._gradient_beyond[short] = off @ self._problem.b

    def _fall(self, column: int) -> float:
        """Return by how much the RSS falls with a column: at once where no sign is wrong, else by a fit."""
        chosen = self._chosen
        m = self._chosen.used
        x = float(self._up[column]) / float(self._lengths[column])
        moved = chosen.inverse[:m, :m] @ chosen.cross[:m, column]
        coefficients = chosen.t - x * moved
        right = m == 0 or coefficients.min() >= 0
        idle = chosen.columns[m:]
        if right and idle:
            gradient = chosen.gradient[idle] - x * chosen.beyond_idle(column)
            right = gradient.max() <= self._limit
        if chosen.parked or not right:
            return self._fit(column, coefficients < 0)
        return float(self._up[column]) * x

    def _fit(self, column: int, negative: np.ndarray) -> float:
        """Return by how much the RSS falls with a column where signs are wrong at first: those of some of P (m,).

        Columns are held at zero, and let go, by their signs until these are right: with V the
        inverse Gram matrix of those chosen (S) and the new one, and s their coefficients whatever
        their signs, the gradients mu of those held (K) solve ``V_KK mu = s_K``, and the RSS is
        above the least one for any signs by ``mu' s_K``. If the signs do not settle, or columns are
        nearly dependent, the active-set method takes over.
        """
        chosen = self._chosen
        length = float(self._beyond[column])
        m = self._chosen.used
        if chosen.parked or length < _DEPENDENT or self._dependent:
            return self._refit(column)
        d = chosen.inverse @ chosen.cross[:, column]  # A_S^+ a_j
        x = float(self._gradient_beyond[column]) / length
        s = chosen.free - x * d
        held = np.ones(len(s), dtype=bool)
        held[:m] = negative
        for _ in range(_EXCHANGES):
            K = np.flatnonzero(held)
            V = self._inverse_gram[:, K]
            share = d[K] / length
            mu = s[K]
            singular = 0
            if len(K):
                gram = V[K] + np.multiply.outer(d[K], share)
                mu, singular = dposv(gram, mu)[1:]
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
        used = []
        for chosen_column, is_held in zip(chosen.columns, held.tolist(), strict=True):
            if not is_held:
                used.append(chosen_column)
        self._used[column] = [*used, column]
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
        chosen = self._chosen
        s = len(self._chosen.columns)
        z = self._chosen.target[self._chosen.used :]
        columns = [*chosen.columns, *chosen.parked, column]
        A = np.zeros((s + 1, len(columns)), order="F")
        b = np.zeros(s + 1)
        A[:s, :s] = chosen.factor
        A[:s, s:] = chosen.cross[:, columns[s:]]
        b[:s] = chosen.target
        if self._beyond[column] > ALIASED**2:
            A[s, -1] = self._beyond[column] ** 0.5
            b[s] = self._gradient_beyond[column] / A[s, -1]
        start = np.zeros(len(columns))
        start[: chosen.used] = np.maximum(chosen.t, 0.0)
        t = non_negative(Triangular(A, b, np.ones(len(columns)), 0.0), start=start)
        self._used[column] = [columns[i] for i in np.flatnonzero(t)]
        residual = b - A @ t
        return float(z @ z + b[s] ** 2 - residual @ residual)
