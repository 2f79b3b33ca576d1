"""Recursive feature elimination: fits that give up one column after another, as many as inner folds find best.

`RFECV` is the estimator; an elimination (`eliminate_free`, `eliminate_bounded`) returns the fits
from all columns down to a few. Those of free coefficients come from one factorisation: all solve
``min |A t - b|`` (A: k × m, b: k) for the t of least norm, with singular values of A below 1e-7 of
the largest taken as zero. A step costs O(r m) for m columns of rank r: a `WideFit` (m > 2 r) keeps
a small inverse for the row space, a `NarrowFit` the null space, which shrinks to nothing, and the
pseudo-inverse. Non-negative fits start the active-set method from the solution before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from scipy.linalg.blas import dger
from scipy.linalg.lapack import dtrtri

from ..base import one_blas_thread, weighted_folds
from .least_squares import LinearRegressor
from .triangular import ALIASED, Triangular, centred, non_negative, upper_triangle, with_intercept

_DEPENDENT = 1e-5
_INDEPENDENT = 1e-9
"""A column is a combination of the others when its row of the null space is longer than the first,
none when it is shorter than the second; in between a new factorisation decides by the cut-off of
the singular values."""
_SHRUNK = 1e-4  # factorise anew when the pseudo-inverse has shrunk to this share: its rounding errors have not
_FREE = 0.01
_GROWN = 1e4
"""A `WideFit` gives up columns of which at least the first is not in the row space, as share of the
squared length, and factorises anew when the trace of its inverse, per row, is above the second."""
_CHECK = 16


def start(problem: Triangular, columns: np.ndarray) -> Fit:
    """Return the fit to some columns of a `centred` problem, ready to give up columns."""
    if len(columns) > 2 * len(problem.A):
        return WideFit.of(problem, columns)
    return NarrowFit.of(problem, columns)


@dataclass
class Fit(ABC):
    """The solution t (m,) of least norm for some columns, and what is needed to do without one of them.

    ``columns`` (m,) are positions in the problem; what follows belongs to them. Those given up
    since the last compaction are not ``alive`` (m,); whatever belongs to them is 0.
    """

    problem: Triangular
    columns: np.ndarray
    alive: np.ndarray
    t: np.ndarray

    @abstractmethod
    def without(self, j: int) -> Fit:
        """Return the fit without the column in position j: this one updated, or a new one where that is safer."""

    def _others(self, j: int) -> np.ndarray:
        left = self.alive.copy()
        left[j] = False
        return self.columns[left]

    def _sparse(self) -> bool:
        """Return whether so many columns are gone that leaving them out pays."""
        return 4 * int(self.alive.sum()) < 3 * len(self.alive)


@dataclass
class WideFit(Fit):
    """A fit with many more columns than rank: t = W' H beta, H = (W W')^-1 (r, r) and W (r, m), in Fortran order.

    The rows of A may be mixed by any invertible matrix while the equations can all be fulfilled, so
    they begin orthonormal: A = U diag(s) W, beta = U' b / s, H = I.
    """

    W: np.ndarray
    H: np.ndarray

    @classmethod
    def of(cls, problem: Triangular, columns: np.ndarray) -> Self:
        """Factorise."""
        Q, R = np.linalg.qr(problem.A[:, columns].T)
        U, s, Vt = np.linalg.svd(R.T)
        rank = int(np.sum(s > ALIASED * s.max(initial=0.0)))
        W = np.asfortranarray(Vt[:rank] @ Q.T)
        t = ((U[:, :rank].T @ problem.b) / s[:rank]) @ W
        return cls(
            problem, columns, np.ones(len(columns), dtype=bool), t, W, np.eye(rank, order="F")
        )

    def without(self, j: int) -> Fit:
        """Give up a column w of W: H + H w w' H / (1 - w' H w), and t moves by t_j / (1 - w' H w) along W' H w."""
        rank = len(self.H)
        image = self.H @ self.W[:, j]
        free = 1.0 - float(self.W[:, j] @ image)
        if free < _FREE or self.alive.sum() - 1 <= 2 * rank:
            fit = NarrowFit.of(self.problem, self.columns[self.alive])
            return fit.without(int(self.alive[:j].sum()))
        self.t += self.t[j] / free * (image @ self.W)
        self.H = _plus_outer(self.H, 1.0 / free, image, image)
        self.alive[j] = False
        self.t[j] = 0.0
        self.W[:, j] = 0.0
        if self.H.trace() > _GROWN * rank:
            return start(self.problem, self.columns[self.alive])
        if self._sparse():
            kept = self.alive
            self.columns = self.columns[kept]
            self.t = self.t[kept]
            self.W = np.asfortranarray(self.W[:, kept])
            self.alive = np.ones(len(self.columns), dtype=bool)
        return self


@dataclass
class NarrowFit(Fit):
    """A fit that keeps the null space of its columns and, from when it is needed, their pseudo-inverse: O(r m) a step.

    N (m, q) is an orthonormal basis of the null space of A[:, columns]: t is orthogonal to it. F
    (m, r), None until it is needed, is a factor of the pseudo-inverse of the Gram matrix: (A'A)^+ =
    F F'; ``largest`` its largest entry when it was computed, ``steps`` the columns dropped since.
    Both are in Fortran order.
    """

    N: np.ndarray
    F: np.ndarray | None
    largest: float = 0.0
    steps: int = 0

    @classmethod
    def of(cls, problem: Triangular, columns: np.ndarray, whole: bool = False) -> Self:
        """Factorise; F only with ``whole`` or when the columns are independent."""
        t, F, N = _factorise(problem.A[:, columns], problem.b)
        alive = np.ones(len(columns), dtype=bool)
        N = np.asfortranarray(N)
        if N.shape[1] and not whole:
            return cls(problem, columns, alive, t, N, None)
        largest = float(np.abs(F).max(initial=0.0))
        return cls(problem, columns, alive, t, N, np.asfortranarray(F), largest)

    def without(self, j: int) -> Fit:
        """Return the fit without the column in position j: this one updated, or a new one where that is safer."""
        length = float(np.linalg.norm(self.N[j]))
        if length > _DEPENDENT:
            self._exchange(j, length)
        elif length >= _INDEPENDENT:
            return NarrowFit.of(self.problem, self._others(j), self.F is not None)
        elif self.F is None:
            fit = NarrowFit.of(self.problem, self.columns[self.alive], True)
            return fit.without(int(self.alive[:j].sum()))
        else:
            self._project(j, self.F)
        self.alive[j] = False
        self.t[j] = 0.0
        self.N[j] = 0.0
        self.steps += 1
        if self.F is not None:
            self.F[j] = 0.0
            is_due = self.steps % _CHECK == 0
            if is_due and np.abs(self.F).max() < _SHRUNK * self.largest:
                return NarrowFit.of(self.problem, self.columns[self.alive], True)
        if self._sparse():
            self._compact()
        return self

    def _exchange(self, j: int, length: float) -> None:
        """Drop a combination of the others: the fitted values stay, t moves along the null space until t_j = 0.

        With m = N N_j' / |N_j|² (so that A m = 0 and m_j = 1), t - t_j m is the shortest of these
        solutions. The rank stays; a Householder reflection of the columns of N puts all of row j
        into the last one, which is dropped.
        """
        row = self.N[j].copy()
        m = self.N @ (row / length**2)
        self.t -= self.t[j] * m
        if self.F is not None:
            self.F = _plus_outer(self.F, -1.0, m, self.F[j].copy())
        pivot = np.copysign(length, row[-1])
        # reflect along w = row + pivot e_last, |w|² = 2 length (length + |row_last|): N - 2 (N w)
        # w' / |w|²
        image = m * length**2 + pivot * self.N[:, -1]  # N w
        factor = -1.0 / (length * (length + abs(row[-1])))
        self.N = _plus_outer(self.N[:, :-1], factor, image, row[:-1])

    def _project(self, j: int, F: np.ndarray) -> None:
        """Drop a column that is no combination of the others: F F' loses its row by projection, the rank falls.

        With f = F_j: t - t_j F f / |f|², and F (I - f f' / |f|²).
        """
        f = F[j].copy()
        square = float(f @ f)
        image = F @ f
        self.t -= self.t[j] / square * image
        self.F = _plus_outer(F, -1.0 / square, image, f)

    def _compact(self) -> None:
        """Leave out the rows of dropped columns."""
        kept = self.alive
        self.columns = self.columns[kept]
        self.t = self.t[kept]
        self.N = np.asfortranarray(self.N[kept])
        if self.F is not None:
            self.F = np.asfortranarray(self.F[kept])
        self.alive = np.ones(len(self.columns), dtype=bool)


def _plus_outer(M: np.ndarray, factor: float, column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Add ``factor * column row'`` to M, in place where M is in Fortran order."""
    if M.size:
        return dger(factor, column, row, a=M, overwrite_a=1)
    return M


def _factorise(A: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return t = A^+ b, F with (A'A)^+ = F F', and an orthonormal basis N of the null space of A (k x m).

    Where |R| |R^-1| certifies that no singular value is below the cut-off, QR is enough; otherwise
    the SVD decides.
    """
    k, m = A.shape
    if k >= m:
        triangle = upper_triangle(np.column_stack([A, b]))
        R = triangle[:m, :m]
        inverse, failed = dtrtri(R)
        with np.errstate(over="ignore", invalid="ignore"):
            condition = np.linalg.norm(inverse) * np.linalg.norm(R)
            certain = not failed and condition * ALIASED < 1
        if certain:
            return inverse @ triangle[:m, m], inverse, np.zeros((m, 0))
    U, s, V = _singular(A)
    rank = int(np.sum(s > ALIASED * s.max(initial=0.0)))
    F = V[:, :rank] / s[:rank]
    return F @ (U[:, :rank].T @ b), F, V[:, rank:]


def _singular(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return U, s and the whole V (m x m) of A = U diag(s) V[:, :len(s)]'."""
    k, m = A.shape
    if k >= m:
        U, s, Vt = np.linalg.svd(A, full_matrices=False)
        return U, s, Vt.T
    # A' = Q R (Q: m x m), and the SVD of the small R' (k x k)
    Q, R = np.linalg.qr(A.T, mode="complete")
    U, s, Vt = np.linalg.svd(R[:k].T)
    return U, s, np.hstack([Q[:, :k] @ Vt.T, Q[:, k:]])


_TIE = 1e-9
_NOISE = 1e-14


@dataclass(frozen=True)
class Path:
    """The fits of an elimination.

    The scaled coefficients ``t`` (n_fits, q) of the problem's columns are 0 for those eliminated;
    the first fit has all columns. ``columns`` are the features left in the last fit, rising.
    """

    t: np.ndarray
    columns: np.ndarray


def weakest(size: np.ndarray) -> int:
    """Return the position of the smallest size; of those equal but for rounding error the last."""
    smallest = size.min()
    largest = size[np.isfinite(size)].max()
    return int(np.flatnonzero(size <= smallest * (1 + _TIE) + largest * _NOISE)[-1])


def eliminate_free(problem: Triangular, least: int) -> Path:
    """Drop the column of the smallest |t| of a `centred` problem, again and again, until ``least`` are left.

    Each fit is the least-squares solution of least norm (singular values below 1e-7 of the largest
    count as zero, as in `triangular.minimum_norm`). All come from one factorisation (`WideFit`,
    `NarrowFit`).
    """
    p = problem.A.shape[1]
    varied = problem.A.any(axis=0)
    t = np.zeros((p - least + 1, p))
    idle = np.flatnonzero(~varied)
    # columns of zeros go first, the last of them before the others
    gone = min(len(idle), p - least)
    if not varied.any():
        return Path(t, idle[:least])
    fit = start(problem, np.flatnonzero(varied))
    t[: gone + 1, fit.columns] = fit.t
    for step in range(gone + 1, len(t)):
        fit = fit.without(weakest(np.where(fit.alive, np.abs(fit.t), np.inf)))
        t[step, fit.columns] = fit.t
    return Path(t, np.union1d(fit.columns[fit.alive], idle[: len(idle) - gone]))


def eliminate_bounded(problem: Triangular, unit: np.ndarray, least: int) -> Path:
    """Drop the column with the smallest ``t * unit`` of a `with_intercept` problem, until ``least`` are left.

    Column 0, the intercept, always stays. A column at 0 leaves without a new fit, for the solution
    is the same; the others leave one by one, each time with the active-set method started from the
    solution before.

    ``unit`` (q - 1,) is what t of each column is multiplied with to compare sizes.
    """
    columns = np.arange(1, problem.A.shape[1])
    fits = [non_negative(problem)]
    while len(columns) > least:
        t = fits[-1]
        drop = weakest(t[columns] * unit[columns - 1])
        column = columns[drop]
        columns = np.delete(columns, drop)
        if t[column] != 0:
            t = _bounded(problem, np.append(0, columns), t)
        fits.append(t)
    return Path(np.array(fits), columns - 1)


def _bounded(problem: Triangular, columns: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the solution on some columns, 0 elsewhere."""
    t = np.zeros_like(start)
    part = replace(problem, A=problem.A[:, columns], scale=problem.scale[columns])
    t[columns] = non_negative(part, start=start[columns])
    return t


class RFECV(LinearRegressor):
    """Least squares on the features that survive recursive elimination.

    From all columns, the fit drops the column whose coefficient, in units of its standard
    deviation, is the smallest in size (the last of those equal within 1e-9), and is repeated on
    those left. Collinear columns, as there are with more columns than rows, get the coefficients of
    least norm, singular values below 1e-7 of the largest taken as zero: the order of elimination
    depends on that cut-off. All fits of a path are updates of one factorisation.

    One such path per inner fold gives the weighted squared error on its validation rows for every
    number of columns; the number with the least total (the smaller of equals) ends the path on all
    training rows. Standard deviations are those of the training rows at hand.

    Parameters
    ----------
    base : {"ols", "nnls"}, default="ols"
        The fit of each model; see `OLS` and `NNLS`. Predictions are not clipped.
    cv : int, splitter or iterable, default=5
        The inner folds; whole groups are held out where `fit` gets at least two groups (see
        `inner_folds`).
    min_features : int, default=1
        The fewest columns to go down to.
    random_state : int, default=0
        The seed of the shuffled inner folds.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        0 for the columns eliminated.
    intercept_ : float
    selected_features_ : list of str
    dropped_features_ : list of str
        Constant columns and copies of others, left out from the start.
    cv_error_path_ : ndarray of shape (n_features - min_features + 1,)
        The weighted mean squared error over the inner folds with ``n_features``, ...,
        ``min_features`` columns.
    p_values_ : ndarray of shape (n_features,)
        For ``base="ols"`` only: see `OLS`; NaN for the columns left out. Chosen by the same data,
        hence optimistic.

    References
    ----------
    I. Guyon et al., Gene selection for cancer classification using support vector machines, Machine
    Learning 46 (2002) 389.
    """

    def __init__(
        self,
        *,
        base: Literal["ols", "nnls"] = "ols",
        cv: Any = 5,
        min_features: int = 1,
        random_state: int | None = 0,
    ) -> None:
        self.base = base
        self.cv = cv
        self.min_features = min_features
        self.random_state = random_state

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Search and fit on X of shape (n_samples, n_features) and y of shape (n_samples,).

        ``groups`` of shape (n_samples,), where given, are never split by the inner folds.
        """
        if self.base not in ("ols", "nnls"):
            raise ValueError(f"parameter base of RFECV must be 'ols' or 'nnls', got {self.base!r}")
        X, y, w = self._training_rows(X, y, sample_weight)
        w = w / w.mean()
        least = min(max(self.min_features, 1), X.shape[1])
        errors = np.zeros(X.shape[1] - least + 1)
        weight = 0.0
        folds = weighted_folds(self.cv, sample_weight, len(y), groups, self.random_state)
        for train, valid in folds:
            _, coef, intercept = self._eliminate(X[train], y[train], w[train], least)
            missed = y[valid, None] - X[valid] @ coef - intercept
            errors += w[valid] @ missed**2
            weight += w[valid].sum()
        self.cv_error_path_ = errors / weight
        steps = len(errors) - 1 - int(np.argmin(errors[::-1]))
        columns, coef, intercept = self._eliminate(X, y, w, X.shape[1] - steps)
        if self.base == "ols":
            return self._set_free(centred(X, y, w), X, y, w, columns)
        return self._set(coef[:, -1], intercept[-1])

    def _eliminate(
        self, X: np.ndarray, y: np.ndarray, w: np.ndarray, least: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the columns left in the end, the coefficients (n_features, n_fits) and the intercepts (n_fits,)."""
        mean = np.average(X, axis=0, weights=w)
        if self.base == "ols":
            problem = centred(X, y, w)
            path = eliminate_free(problem, least)
            coef = path.t.T / problem.scale[:, None]
            return path.columns, coef, np.average(y, weights=w) - mean @ coef
        problem = with_intercept(X, y, w)
        spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
        path = eliminate_bounded(problem, spread / problem.scale[1:], least)
        scaled = path.t.T / problem.scale[:, None]
        return path.columns, scaled[1:], scaled[0]
