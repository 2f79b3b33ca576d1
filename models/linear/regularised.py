"""Lasso and elastic net whose penalty is chosen by inner cross-validation, with a free or a non-negative intercept."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from sklearn.exceptions import ConvergenceWarning

from ..base import one_blas_thread, weighted_folds
from .least_squares import LinearRegressor

_ROOTS = 60
_CLOSE = 1e-11
"""The most trials of a mean residual, and how close to its value the search ends, in units of the target's mean."""


@dataclass(frozen=True)
class PenaltyPath:
    """Solutions along falling penalties. ``coef`` has the shape (n_features, n_alphas), the others (n_alphas,)."""

    coef: np.ndarray
    intercept: np.ndarray
    n_iter: np.ndarray
    converged: np.ndarray


@dataclass(frozen=True)
class Standardised:
    """Rows in the units of the penalty: columns and target of weighted variance 1 (or 0), as a Gram matrix.

    The weighted mean squared error over the target's variance is ``u' gram u - 2 pull' u`` plus a
    constant, with ``u = coef / unit``. All arrays have the shape (n_features,) but for ``gram``.
    """

    gram: np.ndarray  # weighted mean products of the columns
    pull: np.ndarray  # weighted mean products with the target
    unit: np.ndarray
    mean: np.ndarray  # what was subtracted
    target_mean: float
    offset: np.ndarray  # the columns' means in these units, 0 for columns that do not vary
    target_unit: float  # the target's standard deviation; 1 where it does not vary

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> Self:
        """Standardise with the weighted means and standard deviations."""
        mean = np.average(X, axis=0, weights=w)
        y_mean = float(np.average(y, weights=w))
        scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
        constant = scale <= len(y) * np.finfo(np.float64).eps * np.abs(mean)
        scale[constant] = 1.0
        y_scale = float(np.sqrt(np.average((y - y_mean) ** 2, weights=w)))
        level = y_scale <= len(y) * np.finfo(np.float64).eps * abs(y_mean)
        root = np.sqrt(w / w.sum())
        M = root[:, None] * ((X - mean) / scale)
        v = root * (y - y_mean)
        M[:, constant] = 0.0
        if level:  # what is left of the target is rounding error
            y_scale = 1.0
            v = np.zeros_like(v)
        offset = np.where(constant, 0.0, mean / scale)
        return cls(M.T @ M, M.T @ v / y_scale, y_scale / scale, mean, y_mean, offset, y_scale)

    def path(
        self, alphas: np.ndarray, mix: float, positive: bool, tol: float, max_iter: int
    ) -> PenaltyPath:
        """Minimise ``mse / 2 + alpha (mix |u|_1 + (1 - mix) |u|² / 2)`` for each of the falling alphas."""
        solver = ActiveSet(self.gram, self.pull, positive)
        u = np.zeros((len(self.pull), len(alphas)))
        n_iter = []
        converged = []
        for k, alpha in enumerate(alphas):
            steps, settled = solver.solve(alpha * mix, alpha * (1 - mix), tol, max_iter)
            n_iter.append(steps)
            converged.append(settled)
            u[:, k] = solver.u
        coef = u * self.unit[:, None]
        return PenaltyPath(
            coef, self.target_mean - self.mean @ coef, np.array(n_iter), np.array(converged)
        )

    def path_through_origin(
        self, alphas: np.ndarray, intercepts: np.ndarray, mix: float, tol: float, max_iter: int
    ) -> PenaltyPath:
        """Return non-negative solutions with an intercept of 0, where `path` has ``intercepts`` below 0.

        The mean residual ``r = offset_y - offset' u``, 0 with a free intercept, adds r²/2 to the
        objective, and so ``r offset`` to the pull: u is the solution u(r) with that pull, r the
        root of ``offset_y - offset' u(r) - r``, which falls as r rises, in pieces of straight line.
        Newton's method finds it between the free intercept (there the root would be 0) and 0. (The
        Gram matrix of columns that are not centred would lose all that is small against their
        means.)
        """
        solver = ActiveSet(self.gram, self.pull, positive=True)
        r = 0.0
        target = self.target_mean / self.target_unit
        u = np.zeros((len(self.pull), len(alphas)))
        n_iter = []
        converged = []
        close = _CLOSE * max(1.0, abs(target))
        for k, alpha in enumerate(alphas):
            low = float(intercepts[k]) / self.target_unit
            high = 0.0
            steps = 0
            settled = True
            gap = np.inf
            r = min(max(r, low), high)
            for _ in range(_ROOTS):
                solver.c = self.pull + r * self.offset
                more, settled = solver.solve(alpha * mix, alpha * (1 - mix), tol, max_iter)
                steps += more
                gap = target - float(self.offset @ solver.u) - r
                if abs(gap) <= close:
                    break
                low, high = (r, high) if gap > 0 else (low, r)
                r += gap / (1.0 + solver.response(self.offset))
                if not low < r < high:
                    r = (low + high) / 2
            n_iter.append(steps)
            converged.append(settled and abs(gap) <= close)
            u[:, k] = solver.u
        return PenaltyPath(
            u * self.unit[:, None], np.zeros(len(alphas)), np.array(n_iter), np.array(converged)
        )


class _Penalised(LinearRegressor):
    """The search shared by `Lasso` and `ElasticNet`."""

    def __init__(
        self,
        *,
        positive: bool = False,
        cv: Any = 5,
        n_alphas: int = 60,
        eps: float = 1e-4,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        random_state: int | None = 0,
    ) -> None:
        self.positive = positive
        self.cv = cv
        self.n_alphas = n_alphas
        self.eps = eps
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _mixes(self) -> list[float]:
        """Return the mixes of l1 and l2 to search."""
        raise NotImplementedError

    def _path(self, rows: Standardised, alphas: np.ndarray, mix: float) -> PenaltyPath:
        """Return the solutions for falling ``alphas``, their intercept kept non-negative with ``positive``.

        The problem is convex: where the optimum with a free intercept has it below 0, the bounded
        one has it at 0.
        """
        path = rows.path(alphas, mix, self.positive, self.tol, self.max_iter)
        if not self.positive or not (bounded := path.intercept < 0).any():
            return path
        at_zero = rows.path_through_origin(
            alphas[bounded], path.intercept[bounded], mix, self.tol, self.max_iter
        )
        for name in ("coef", "intercept", "n_iter", "converged"):
            getattr(path, name)[..., bounded] = getattr(at_zero, name)
        return path

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Search the penalty and fit on X of shape (n_samples, n_features), y of shape (n_samples,).

        ``groups`` of shape (n_samples,), where given, are never split by the inner folds.
        """
        X, y, w = self._training_rows(X, y, sample_weight)
        w = w / w.mean()
        whole = Standardised.of(X, y, w)
        mixes = self._mixes()
        grids = [self._alphas(whole, mix) for mix in mixes]
        errors = [np.zeros(len(alphas)) for alphas in grids]
        weight = 0.0
        for train, valid in weighted_folds(
            self.cv, sample_weight, len(y), groups, self.random_state
        ):
            rows = Standardised.of(X[train], y[train], w[train])
            weight = weight + w[valid].sum()
            for mix, alphas, error in zip(mixes, grids, errors, strict=True):
                path = self._path(rows, alphas, mix)
                error += w[valid] @ (y[valid, None] - X[valid] @ path.coef - path.intercept) ** 2
        best = min(range(len(mixes)), key=lambda i: errors[i].min())
        least = int(np.argmin(errors[best]))
        self.l1_ratio_ = mixes[best]
        self.alphas_ = grids[best]
        self.cv_error_path_ = errors[best] / weight
        self.alpha_ = float(self.alphas_[least])
        path = self._path(whole, self.alphas_[: least + 1], self.l1_ratio_)
        self.n_iter_ = int(path.n_iter[-1])
        self.converged_ = bool(path.converged[-1])
        if not self.converged_:
            name = type(self).__name__
            steps = self.n_iter_
            warnings.warn(
                f"{name} did not settle within {steps} steps", ConvergenceWarning, stacklevel=3
            )
        return self._set(path.coef[:, -1], path.intercept[-1])

    def _alphas(self, rows: Standardised, mix: float) -> np.ndarray:
        """Return the penalties to try, falling."""
        if not 0 < mix <= 1:
            raise ValueError(
                f"parameter l1_ratio of {type(self).__name__} must be in (0, 1], got {mix}"
            )
        # the smallest that leaves every coefficient at 0
        largest = float(np.max(np.abs(rows.pull))) / mix
        if largest == 0:  # no column moves with y: every penalty gives the mean
            return np.array([1.0])
        return largest * np.geomspace(1, self.eps, self.n_alphas)


class Lasso(_Penalised):
    """Least squares with an l1 penalty on standardised coefficients, its weight chosen by inner cross-validation.

    Minimises ``sum_i w_i (y_i - b0 - x_i' b)² / (2 s² sum_i w_i) + alpha sum_j |u_j|`` with ``u_j =
    b_j s_j / s``; s_j and s are the weighted standard deviations of column j and of y in the
    training rows, so that neither the units of the columns nor that of y matter. With ``positive``
    (Lasso/NNLS) every coefficient and the intercept are >= 0. alpha is the one of ``n_alphas``
    values, geometric from the smallest that selects nothing down to ``eps`` of it, with the least
    weighted squared error over the inner folds. Predictions are not clipped. Of equal columns the
    first is selected; where combinations of columns are equal the fit is one of several with the
    same predictions.

    Parameters
    ----------
    positive : bool, default=False
        Keep coefficients and intercept non-negative.
    cv : int, splitter or iterable, default=5
        The inner folds; whole groups are held out where `fit` gets at least two groups (see
        `inner_folds`).
    n_alphas : int, default=60
    eps : float, default=1e-4
    tol : float, default=1e-6
        The solver (see `ActiveSet`) ends when no column pulls beyond its penalty by more than this
        share. The duality gap is then below ``tol`` in units of the weighted sum of squares of y,
        coordinate descent's usual measure.
    max_iter : int, default=10000
        The most steps per alpha, each taking a column in or out.
    random_state : int, default=0
        The seed of the shuffled inner folds.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    alpha_ : float
    alphas_, cv_error_path_ : ndarray of shape (n_alphas,)
        The penalties tried, falling, and the weighted mean squared error of each over the inner
        folds.
    l1_ratio_ : float
        1.
    n_iter_ : int
        Steps at the last alpha.
    converged_ : bool
        Whether the final fit reached ``tol`` within ``max_iter`` steps; a ConvergenceWarning tells
        where it did not.
    selected_features_, dropped_features_ : list of str
        The columns with a coefficient other than 0; constant columns and copies of others, left out
        from the start.

    References
    ----------
    R. Tibshirani, Regression shrinkage and selection via the lasso, JRSS B 58 (1996) 267.
    """

    def _mixes(self) -> list[float]:
        return [1.0]


class ElasticNet(_Penalised):
    """Least squares with a mix of l1 and l2 penalties, weight (and mix) chosen by inner cross-validation.

    As `Lasso` with the penalty ``alpha sum_j (rho |u_j| + (1 - rho) u_j² / 2)``.

    Parameters
    ----------
    positive : bool, default=False
        Keep coefficients and intercept non-negative (ElasticNet/NNLS).
    l1_ratio : float or sequence of floats in (0, 1], default=0.5
        The mix rho, 0.5 in the literature; the best of a sequence is searched together with alpha.
    cv, n_alphas, eps, tol, max_iter, random_state
        As for `Lasso`.

    Attributes
    ----------
    l1_ratio_ : float
        The mix chosen; the others as for `Lasso`.

    References
    ----------
    H. Zou and T. Hastie, Regularization and variable selection via the elastic net, JRSS B 67
    (2005) 301.
    """

    def __init__(
        self,
        *,
        positive: bool = False,
        l1_ratio: float | Sequence[float] = 0.5,
        cv: Any = 5,
        n_alphas: int = 60,
        eps: float = 1e-4,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        random_state: int | None = 0,
    ) -> None:
        shared: dict[str, Any] = {
            "cv": cv,
            "n_alphas": n_alphas,
            "eps": eps,
            "tol": tol,
            "max_iter": max_iter,
        }
        super().__init__(positive=positive, random_state=random_state, **shared)
        self.l1_ratio = l1_ratio

    def _mixes(self) -> list[float]:
        return [float(mix) for mix in np.atleast_1d(self.l1_ratio)]


PIVOT = 1e-10
"""A column whose squared distance from the span of the active ones is below this share of its
squared length counts as in the span: taking it in exchanges it for active columns until one of them
reaches 0."""
_TIE = 1e-9
_DRIFT = 1e-9
_ROUNDING = 1e-13


class ActiveSet:
    """The minimum of ``u' G u / 2 - c' u + ridge |u|² / 2 + l1 |u|_1``, followed from one (l1, ridge) to the next.

    While the active columns A and their signs s are right, u_A = (G_AA + ridge I)^-1 (c_A - l1 s).
    `solve` moves u straight towards that point; a coefficient that reaches 0 on the way leaves the
    set, then the column that pulls most beyond l1 enters, until none does. The objective never
    rises, so no set of signs comes twice. The inverse is updated by bordering, O(k²) for k active
    columns; a step costs O(k p). Where so many steps as there are columns do not lower the
    objective beyond rounding error, as among columns that are nearly dependent, the search ends.

    G (p, p) is the Gram matrix, c (p,) are the products with the target, which may be set anew
    before `solve`; with ``positive`` u >= 0. ``pull = c - G u - ridge u`` is within ± l1 for
    inactive columns, l1 times the sign for active ones.

    References
    ----------
    M. R. Osborne, B. Presnell, B. A. Turlach, A new approach to variable selection in least squares
    problems, IMA J. Numerical Analysis 20 (2000) 389. H. Lee et al., Efficient sparse coding
    algorithms, NIPS 19 (2006).
    """

    def __init__(self, G: np.ndarray, c: np.ndarray, positive: bool) -> None:
        p = len(c)
        self.G = G
        self.c = c
        self.positive = positive
        self.ridge = 0.0
        self.u = np.zeros(p)
        self.pull = c.copy()
        self.diagonal = G.diagonal().copy()
        self._active = np.zeros(p, dtype=np.intp)
        self._sign = np.zeros(p)
        self._k = 0
        # leading k rows of G[A], k x k block in use
        self._rows = np.empty((p, p))
        self._inverse = np.empty((p, p))
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
        steps = self._settle(l1, tol, max_steps)
        idle = 0
        least = self._objective(l1)
        while steps < max_steps and idle <= len(self.u):
            column = self._strongest(l1, tol)
            if column is not None:
                steps += self._enter(column, l1)
                objective = self._objective(l1)
                if objective < least - _ROUNDING * abs(least):
                    idle = 0
                else:
                    idle = idle + 1
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
        active = direction[self.active]
        return float(active @ self._solved(active))

    def _residual(self, l1: float) -> tuple[np.ndarray, float]:
        """Return how far the pull of each active column is from l1 times its sign, and the largest size of these."""
        residual = self.pull[self.active] - l1 * self._sign[: self._k]
        return residual, float(np.abs(residual).max(initial=0.0))

    def _strongest(self, l1: float, tol: float) -> int | None:
        """Return the inactive column that pulls most beyond l1, the first of equals; None when none does."""
        beyond = (self.pull if self.positive else np.abs(self.pull)) - l1
        beyond[self.active] = 0.0
        strongest = float(beyond.max())
        if strongest <= max(tol * l1, self._floor):
            return None
        return int(np.argmax(beyond >= strongest - _TIE * l1))

    def _settle(self, l1: float, tol: float, most_steps: int) -> int:
        """Move the active coefficients to their minimum, dropping those that reach 0; return the number of steps.

        A move that ends short of the minimum without such a drop shows that the inverse has
        drifted: it is computed anew, and what is then left over is rounding error.
        """
        steps = 0
        last = np.inf
        reached = False
        fresh = False
        limit = max(min(tol, _DRIFT) * l1, self._floor)
        while steps < most_steps:
            residual, error = self._residual(l1)
            drifted = reached and error >= last / 2
            if error <= limit or (drifted and fresh):
                break
            if drifted:
                self._factorise()
                fresh = True
            last = error
            steps = steps + 1
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
        sign = -1.0
        if self.pull[column] > 0:
            sign = 1.0
        steps = 0
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

        ``column``, which is not active yet, moves by ``sign`` as they move by ``direction``.
        Returns whether the minimum was reached, otherwise the coefficient that is 0 has left the
        active set; and the objective's curvature.
        """
        k = self._k
        active = self.active
        bent = direction @ self._rows[:k]
        slope = float(direction @ self._residual(l1)[0])
        flat = float(direction**2 @ self.diagonal[active])
        if column is not None:
            bent += sign * self.G[column]
            slope += sign * float(self.pull[column]) - l1
            flat += float(self.diagonal[column])
        curvature = float(direction @ bent[active]) + self.ridge * float(direction @ direction)
        if column is None:
            curvature += 0.0
        else:
            curvature += sign * float(bent[column]) + self.ridge
        if flat > 0:
            wanted = max(slope, 0.0) / max(curvature, PIVOT * flat)
        else:
            wanted = 0.0
        here = self.u[active]
        towards = here * direction < 0
        reach = np.full(k, np.inf)
        np.divide(-here, direction, out=reach, where=towards)
        first = -1
        if k:
            first = int(np.argmin(reach))
        reached = k == 0 or reach[first] >= wanted
        length = wanted
        if not reached:
            length = float(reach[first])
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
        self._active[k] = column
        self._sign[k] = sign
        self._k = k + 1
        inverse = self._inverse
        inverse[:k, :k] += np.multiply.outer(solved / pivot, solved)
        inverse[k, :k] = inverse[:k, k] = -solved / pivot
        inverse[k, k] = 1.0 / pivot
        if not self._bounded():  # the next column would square the rounding errors
            self._factorise()

    def _drop(self, i: int) -> None:
        """Take the i-th active column out; the last one takes its place."""
        last = self._k - 1
        inverse = self._inverse
        inverse[[i, last], : last + 1] = inverse[[last, i], : last + 1]
        inverse[: last + 1, [i, last]] = inverse[: last + 1, [last, i]]
        column = inverse[:last, last]
        inverse[:last, :last] -= np.multiply.outer(column / inverse[last, last], column)
        self._rows[i] = self._rows[last]
        self._active[i], self._sign[i], self._k = self._active[last], self._sign[last], last

    def _factorise(self) -> None:
        """Compute the inverse of the active block anew.

        Where columns are dependent up to rounding error, a ridge bounds it; further moves correct
        what that changes.
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
