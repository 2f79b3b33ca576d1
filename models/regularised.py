"""Lasso and elastic net whose penalty is chosen by inner cross-validation, with a free or a non-negative intercept."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import enet_path

from .base import check_rows, inner_folds, one_blas_thread
from .least_squares import LinearRegressor, upper_triangle


@dataclass(frozen=True)
class PenaltyPath:
    """Solutions along falling penalties: coefficients (n_features, n_alphas), intercepts (n_alphas,), iterations."""

    coef: np.ndarray
    intercept: np.ndarray
    n_iter: np.ndarray


@dataclass(frozen=True)
class Standardised:
    """Rows in the units of the penalty: columns and target of weighted variance 1 (or 0), reduced by QR.

    ``|A u - b|²`` is the weighted RSS of ``u = coef / unit`` over the target's variance; ``total`` sums the weights.
    """

    A: np.ndarray
    b: np.ndarray
    unit: np.ndarray
    total: float

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray, w: np.ndarray, *, centre: bool) -> Self:
        """Standardise with the weighted standard deviations; subtract the weighted means only with ``centre``."""
        mean = np.average(X, axis=0, weights=w)
        scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
        constant = scale <= len(y) * np.finfo(np.float64).eps * np.abs(mean)
        scale[constant] = 1.0
        origin = mean if centre else np.zeros_like(mean)
        M = np.where(constant, 0.0, (X - origin) / scale)
        y_mean = np.average(y, weights=w)
        y_scale = float(np.sqrt(np.average((y - y_mean) ** 2, weights=w))) or 1.0
        v = (y - y_mean if centre else y) / y_scale
        R = upper_triangle(np.sqrt(w)[:, None] * np.column_stack([M, v]))
        return cls(np.asfortranarray(R[:, :-1]), R[:, -1].copy(), y_scale / scale, float(w.sum()))

    def largest_alpha(self, mix: float) -> float:
        """Return the smallest penalty that leaves every coefficient at 0."""
        return float(np.max(np.abs(self.A.T @ self.b))) / (self.total * mix)

    def path(self, alphas: np.ndarray, mix: float, positive: bool, tol: float, max_iter: int) -> PenaltyPath:
        """Minimise ``|A u - b|² / (2 total) + alpha (mix |u|_1 + (1 - mix) |u|² / 2)`` for each alpha, warm-started."""
        share = self.total / len(self.b)  # enet_path divides by the number of rows it sees
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # reported as `converged_` instead
            _, u, _, n_iter = enet_path(
                self.A,
                self.b,
                l1_ratio=mix,
                alphas=alphas * share,
                precompute=self.A.T @ self.A,
                Xy=self.A.T @ self.b,
                positive=positive,
                return_n_iter=True,
                tol=tol,
                max_iter=max_iter,
            )
        return PenaltyPath(u * self.unit[:, None], np.zeros(len(alphas)), np.asarray(n_iter))


class _Penalised(LinearRegressor):
    """The search shared by `Lasso` and `ElasticNet`."""

    positive: bool
    cv: Any
    n_alphas: int
    eps: float
    tol: float
    max_iter: int
    random_state: int | None

    def _mixes(self) -> list[float]:
        """Return the mixes of l1 and l2 to search."""
        raise NotImplementedError

    def _path(self, X: np.ndarray, y: np.ndarray, w: np.ndarray, alphas: np.ndarray, mix: float) -> PenaltyPath:
        """Return the solutions for falling ``alphas``, their intercept kept non-negative with ``positive``.

        The problem is convex: where the optimum with a free intercept has it below 0, the bounded one has it at 0.
        """
        centred = Standardised.of(X, y, w, centre=True)
        path = centred.path(alphas, mix, self.positive, self.tol, self.max_iter)
        mean, y_mean = np.average(X, axis=0, weights=w), np.average(y, weights=w)
        path = PenaltyPath(path.coef, y_mean - mean @ path.coef, path.n_iter)
        if not self.positive or not (bounded := path.intercept < 0).any():
            return path
        at_zero = Standardised.of(X, y, w, centre=False).path(alphas, mix, True, self.tol, self.max_iter)
        return PenaltyPath(
            np.where(bounded, at_zero.coef, path.coef),
            np.where(bounded, 0.0, path.intercept),
            np.maximum(path.n_iter, np.where(bounded, at_zero.n_iter, 0)),
        )

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Search the penalty and fit on X of shape (n_samples, n_features), y of shape (n_samples,).

        ``groups`` of shape (n_samples,), where given, are never split by the inner folds.
        """
        X, y, w = check_rows(self, X, y, sample_weight)
        w = w / w.mean()
        folds = inner_folds(self.cv, len(y), groups, self.random_state)
        whole = Standardised.of(X, y, w, centre=True)
        best_score = np.inf
        for mix in self._mixes():
            if not 0 < mix <= 1:
                raise ValueError(f"parameter l1_ratio of {type(self).__name__} must be in (0, 1], got {mix}")
            alphas = whole.largest_alpha(mix) * np.geomspace(1, self.eps, self.n_alphas)
            if alphas[0] == 0:  # no column moves with y: every penalty gives the mean
                alphas = np.array([1.0])
            scores = sum(self._fold_error(X, y, w, alphas, mix, *fold) for fold in folds) / w.sum()
            least = int(np.argmin(scores))
            if scores[least] < best_score:
                best_score, best = scores[least], least
                self.l1_ratio_, self.alphas_, self.cv_error_path_ = mix, alphas, scores
        self.alpha_ = float(self.alphas_[best])
        path = self._path(X, y, w, self.alphas_[: best + 1], self.l1_ratio_)
        self.n_iter_ = int(path.n_iter[-1])
        self.converged_ = self.n_iter_ < self.max_iter
        return self._set(path.coef[:, -1], path.intercept[-1])

    def _fold_error(
        self,
        X: np.ndarray,
        y: np.ndarray,
        w: np.ndarray,
        alphas: np.ndarray,
        mix: float,
        train: np.ndarray,
        valid: np.ndarray,
    ) -> np.ndarray:
        """Return the weighted sum of squared errors on the validation rows, one per alpha."""
        path = self._path(X[train], y[train], w[train], alphas, mix)
        return w[valid] @ (y[valid, None] - X[valid] @ path.coef - path.intercept) ** 2


class Lasso(_Penalised):
    """Least squares with an l1 penalty on standardised coefficients, its weight chosen by inner cross-validation.

    Minimises ``sum_i w_i (y_i - b0 - x_i' b)² / (2 s² sum_i w_i) + alpha sum_j |u_j|`` with ``u_j = b_j s_j / s``;
    s_j and s are the weighted standard deviations of column j and of y in the training rows, so that neither the units
    of the columns nor that of y matter. With ``positive`` (Lasso/NNLS) every coefficient and the intercept are >= 0.
    alpha is the one of ``n_alphas`` values, geometric from
    the smallest that selects nothing down to ``eps`` of it, with the least weighted squared error over the inner folds.
    Predictions are not clipped.

    Parameters
    ----------
    positive : bool, default=False
        Keep coefficients and intercept non-negative.
    cv : int, splitter or iterable, default=5
        The inner folds; whole groups are held out where `fit` gets at least two groups (see `inner_folds`).
    n_alphas : int, default=60
    eps : float, default=1e-4
    tol : float, default=1e-6
        Duality gap at which coordinate descent stops, in units of the weighted sum of squares of y.
    max_iter : int, default=10000
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
    converged_ : bool
        Whether the final fit reached ``tol`` within ``max_iter`` passes.
    selected_features_ : list of str

    References
    ----------
    R. Tibshirani, Regression shrinkage and selection via the lasso, JRSS B 58 (1996) 267.
    """

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
        self.positive, self.l1_ratio, self.cv, self.n_alphas, self.eps = positive, l1_ratio, cv, n_alphas, eps
        self.tol, self.max_iter, self.random_state = tol, max_iter, random_state

    def _mixes(self) -> list[float]:
        return [float(mix) for mix in np.atleast_1d(self.l1_ratio)]
