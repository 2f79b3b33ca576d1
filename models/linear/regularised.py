"""Lasso and elastic net whose penalty is chosen by inner cross-validation, with a free or a non-negative intercept."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..base import one_blas_thread, weighted_folds
from .least_squares import LinearRegressor
from .penalty_path import ActiveSet

_ROOTS, _CLOSE = 60, 1e-11
"""The most trials of a mean residual, and how close to its own value the search ends, in units of the target's mean."""


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

    The weighted mean squared error over the target's variance is ``u' gram u - 2 pull' u`` plus a constant, with ``u =
    coef / unit``. All arrays have the shape (n_features,) but for ``gram``.
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
        mean, y_mean = np.average(X, axis=0, weights=w), float(np.average(y, weights=w))
        scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
        constant = scale <= len(y) * np.finfo(np.float64).eps * np.abs(mean)
        scale[constant] = 1.0
        y_scale = float(np.sqrt(np.average((y - y_mean) ** 2, weights=w)))
        level = y_scale <= len(y) * np.finfo(np.float64).eps * abs(y_mean)
        root = np.sqrt(w / w.sum())
        M, v = root[:, None] * ((X - mean) / scale), root * (y - y_mean)
        M[:, constant] = 0.0
        if level:  # what is left of the target is rounding error
            y_scale, v = 1.0, np.zeros_like(v)
        offset = np.where(constant, 0.0, mean / scale)
        return cls(M.T @ M, M.T @ v / y_scale, y_scale / scale, mean, y_mean, offset, y_scale)

    def path(self, alphas: np.ndarray, mix: float, positive: bool, tol: float, max_iter: int) -> PenaltyPath:
        """Minimise ``mse / 2 + alpha (mix |u|_1 + (1 - mix) |u|² / 2)`` for each of the falling alphas."""
        solver = ActiveSet(self.gram, self.pull, positive)
        u, n_iter, converged = np.zeros((len(self.pull), len(alphas))), [], []
        for k, alpha in enumerate(alphas):
            steps, settled = solver.solve(alpha * mix, alpha * (1 - mix), tol, max_iter)
            n_iter.append(steps)
            converged.append(settled)
            u[:, k] = solver.u
        coef = u * self.unit[:, None]
        return PenaltyPath(coef, self.target_mean - self.mean @ coef, np.array(n_iter), np.array(converged))

    def path_through_origin(
        self, alphas: np.ndarray, intercepts: np.ndarray, mix: float, tol: float, max_iter: int
    ) -> PenaltyPath:
        """Return non-negative solutions with an intercept of 0, where `path` has ``intercepts`` below 0.

        The mean residual ``r = offset_y - offset' u``, 0 with a free intercept, adds r²/2 to the objective, and so
        ``r offset`` to the pull: u is the solution u(r) with that pull, r the root of ``offset_y - offset' u(r) - r``,
        which falls as r rises, in pieces of straight line. Newton's method finds it between the free intercept
        (there the root would be 0) and 0. (The Gram matrix of columns that are not centred would lose all that is small
        against their means.)
        """
        solver, r, target = ActiveSet(self.gram, self.pull, positive=True), 0.0, self.target_mean / self.target_unit
        u, n_iter, converged = np.zeros((len(self.pull), len(alphas))), [], []
        close = _CLOSE * max(1.0, abs(target))
        for k, alpha in enumerate(alphas):
            low, high, steps, settled, gap = float(intercepts[k]) / self.target_unit, 0.0, 0, True, np.inf
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
                r = r if low < r < high else (low + high) / 2
            n_iter.append(steps)
            converged.append(settled and abs(gap) <= close)
            u[:, k] = solver.u
        return PenaltyPath(u * self.unit[:, None], np.zeros(len(alphas)), np.array(n_iter), np.array(converged))


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
        self.positive, self.cv, self.n_alphas, self.eps = positive, cv, n_alphas, eps
        self.tol, self.max_iter, self.random_state = tol, max_iter, random_state

    def _mixes(self) -> list[float]:
        """Return the mixes of l1 and l2 to search."""
        raise NotImplementedError

    def _path(self, rows: Standardised, alphas: np.ndarray, mix: float) -> PenaltyPath:
        """Return the solutions for falling ``alphas``, their intercept kept non-negative with ``positive``.

        The problem is convex: where the optimum with a free intercept has it below 0, the bounded one has it at 0.
        """
        path = rows.path(alphas, mix, self.positive, self.tol, self.max_iter)
        if not self.positive or not (bounded := path.intercept < 0).any():
            return path
        at_zero = rows.path_through_origin(alphas[bounded], path.intercept[bounded], mix, self.tol, self.max_iter)
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
        whole, mixes = Standardised.of(X, y, w), self._mixes()
        grids = [self._alphas(whole, mix) for mix in mixes]
        errors, weight = [np.zeros(len(alphas)) for alphas in grids], 0.0
        for train, valid in weighted_folds(self.cv, sample_weight, len(y), groups, self.random_state):
            rows, weight = Standardised.of(X[train], y[train], w[train]), weight + w[valid].sum()
            for mix, alphas, error in zip(mixes, grids, errors, strict=True):
                path = self._path(rows, alphas, mix)
                error += w[valid] @ (y[valid, None] - X[valid] @ path.coef - path.intercept) ** 2
        best = min(range(len(mixes)), key=lambda i: errors[i].min())
        least = int(np.argmin(errors[best]))
        self.l1_ratio_, self.alphas_, self.cv_error_path_ = mixes[best], grids[best], errors[best] / weight
        self.alpha_ = float(self.alphas_[least])
        path = self._path(whole, self.alphas_[: least + 1], self.l1_ratio_)
        self.n_iter_, self.converged_ = int(path.n_iter[-1]), bool(path.converged[-1])
        if not self.converged_:
            name, steps = type(self).__name__, self.n_iter_
            warnings.warn(f"{name} did not settle within {steps} steps", ConvergenceWarning, stacklevel=3)
        return self._set(path.coef[:, -1], path.intercept[-1])

    def _alphas(self, rows: Standardised, mix: float) -> np.ndarray:
        """Return the penalties to try, falling."""
        if not 0 < mix <= 1:
            raise ValueError(f"parameter l1_ratio of {type(self).__name__} must be in (0, 1], got {mix}")
        largest = float(np.max(np.abs(rows.pull))) / mix  # the smallest that leaves every coefficient at 0
        if largest == 0:  # no column moves with y: every penalty gives the mean
            return np.array([1.0])
        return largest * np.geomspace(1, self.eps, self.n_alphas)


class Lasso(_Penalised):
    """Least squares with an l1 penalty on standardised coefficients, its weight chosen by inner cross-validation.

    Minimises ``sum_i w_i (y_i - b0 - x_i' b)² / (2 s² sum_i w_i) + alpha sum_j |u_j|`` with ``u_j = b_j s_j / s``;
    s_j and s are the weighted standard deviations of column j and of y in the training rows, so that neither the units
    of the columns nor that of y matter. With ``positive`` (Lasso/NNLS) every coefficient and the intercept are >= 0.
    alpha is the one of ``n_alphas`` values, geometric from the smallest that selects nothing down to ``eps`` of it,
    with the least weighted squared error over the inner folds. Predictions are not clipped. Of equal columns the first
    is selected; where combinations of columns are equal the fit is one of several with the same predictions.

    Parameters
    ----------
    positive : bool, default=False
        Keep coefficients and intercept non-negative.
    cv : int, splitter or iterable, default=5
        The inner folds; whole groups are held out where `fit` gets at least two groups (see `inner_folds`).
    n_alphas : int, default=60
    eps : float, default=1e-4
    tol : float, default=1e-6
        The solver (see `penalty_path.ActiveSet`) ends when no column pulls beyond its penalty by more than this share.
        The duality gap is then below ``tol`` in units of the weighted sum of squares of y, coordinate descent's usual
        measure.
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
        The penalties tried, falling, and the weighted mean squared error of each over the inner folds.
    l1_ratio_ : float
        1.
    n_iter_ : int
        Steps at the last alpha.
    converged_ : bool
        Whether the final fit reached ``tol`` within ``max_iter`` steps; a ConvergenceWarning tells where it did not.
    selected_features_, dropped_features_ : list of str
        The columns with a coefficient other than 0; constant columns and copies of others, left out from the start.

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
    H. Zou and T. Hastie, Regularization and variable selection via the elastic net, JRSS B 67 (2005) 301.
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
        shared: dict[str, Any] = {"cv": cv, "n_alphas": n_alphas, "eps": eps, "tol": tol, "max_iter": max_iter}
        super().__init__(positive=positive, random_state=random_state, **shared)
        self.l1_ratio = l1_ratio

    def _mixes(self) -> list[float]:
        return [float(mix) for mix in np.atleast_1d(self.l1_ratio)]
