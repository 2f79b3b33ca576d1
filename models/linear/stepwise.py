"""Forward selection and backward elimination of features by AIC, AICc or BIC.

`Stepwise` is the estimator: it walks along a path (which column moves next, and the RSS after each
step, whatever the criterion) while a `Criterion` of Gaussian models falls. A path starts from a
reduced problem (`Triangular`: A of shape k × p, b of shape (k,)). Least squares goes both ways by
one orthogonalisation (`GreedyPath`); non-negative least squares goes backwards here
(`NonNegativeBackward`), forwards in `nnls_forward`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dtrtri, dtrtrs

from ..base import Memo, feature_names, one_blas_thread
from .least_squares import LinearRegressor
from .nnls_forward import NonNegativeForward
from .triangular import (
    ALIASED,
    TIES,
    Triangular,
    centred,
    non_negative,
    optimal_limit,
    upper_triangle,
    with_intercept,
)

CriterionName = Literal["aic", "aicc", "bic"]
CRITERIA: tuple[CriterionName, ...] = get_args(CriterionName)


@dataclass(frozen=True)
class Criterion:
    """``n log(RSS / n)`` plus a penalty: -2 log-likelihood of a Gaussian model of n observations, up to a constant.

    The likelihood is at its maximum over sigma² (RSS / n); the constant ``n (1 + log 2 pi)`` and
    the parameter sigma², the same for every model, are left out, as in R's ``extractAIC``.

    - AIC and BIC: ``k edf`` with k = 2 and k = log(n).
    - AICc, where ``corrected``: ``2 n (edf + 1) / (n - edf - 2) - 2``, which is ``n (n + edf) / (n
      - edf - 2)`` of Hurvich and Tsai less n + 2, so that it tends to AIC where n is large.

    References
    ----------
    C. M. Hurvich and C.-L. Tsai, Regression and time series model selection in small samples,
    Biometrika 76 (1989) 297.
    """

    n: int
    k: float
    corrected: bool = False

    @classmethod
    def named(cls, name: CriterionName, n: int) -> Self:
        """Return ``"aic"``, ``"aicc"`` or ``"bic"`` for n observations."""
        return cls(n, log(n) if name == "bic" else 2.0, corrected=name == "aicc")

    @property
    def largest(self) -> int:
        """The most degrees of freedom with a value: one must be left for the residuals, three for AICc."""
        if self.corrected:
            return self.n - 3
        return self.n - 1

    def __call__(self, rss: float, edf: int) -> float:
        """Return the criterion; infinite where too few residual degrees of freedom would be left."""
        if edf > self.largest:
            return inf
        if self.corrected:
            penalty = 2.0 * self.n * (edf + 1) / (self.n - edf - 2) - 2.0
        else:
            penalty = self.k * edf
        if rss > 0:
            return self.n * log(rss / self.n) + penalty
        return -inf


def distinct_rows(X: np.ndarray, y: np.ndarray) -> int:
    """Return how many rows of (X, y) there are, exact copies counted once."""
    ordered = np.sort(y)
    if (ordered[1:] != ordered[:-1]).all():
        return len(y)
    _, of_row, counts = np.unique(y, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(counts[of_row] > 1)  # a row with a distinct target has no copy
    rows = {(float(y[i]), (X[i] + 0.0).tobytes()) for i in shared}  # + 0.0: -0 is 0
    return int(np.sum(counts == 1)) + len(rows)


BASES = ("ols", "nnls")
DIRECTIONS = ("forward", "backward")
# from so many times as many rows as columns on, forward selection reduces the rows first
_TALL = 4.0


class Path(Protocol):
    """A stepwise search whatever ends it: the columns it begins with, those moved, the RSS before and after each.

    A step changes the degrees of freedom by one whichever column it moves, so all criteria share
    the path.
    """

    columns: np.ndarray
    order: list[int]
    rss: list[float]

    def reaches(self, steps: int) -> bool:
        """Go on until that many steps are taken; return False where the path ends before."""
        ...


class Stepwise(LinearRegressor):
    """Stepwise regression: columns join or leave one at a time while the criterion falls.

    Each step takes the column that leaves the least residual sum of squares (the first of equals,
    up to 1e-10). The criterion is that of R's ``extractAIC``: ``n log(RSS / n) + k edf`` with k = 2
    (AIC) or k = log(n) (BIC), the Gaussian log-likelihood at its maximum over sigma², times -2,
    without the constant ``n (1 + log 2 pi)`` and without counting sigma²; or AICc (see
    `Criterion`). With weights w_i, taken as inverse variances, RSS is the weighted sum and the term
    ``-sum log w_i``, the same for every model, is left out too. For plain designs the sequence is
    that of R's ``step``.

    - ``n`` counts distinct rows of positive weight: an exact copy of a row is no new evidence.
    - ``edf`` is the number of columns in the model plus 1 for the intercept. For ``base="nnls"`` it
      counts columns held at zero by their sign as well: they cost a degree of freedom and lower
      nothing, so backward elimination drops them first, whenever there are any. (Counted by
      positive coefficients, a column at zero would be free; it would then come back for each one
      removed, and the elimination stop far from the criterion's minimum.)
    - No model with ``edf >= n`` is looked at, for AICc ``edf >= n - 2``. Where all columns together
      would leave too few residual degrees of freedom, also among the distinct rows of X alone
      (repeats have one each), backward elimination begins from the longest model on the forward
      path that leaves enough. Within a few residual degrees of freedom AIC and BIC are noise, and
      with more columns than rows forward AIC does not stop before: take AICc, or set
      ``max_features`` (a tenth of the rows, say).
    - Columns within 1e-7 of the span of those before them (R's tolerance) never enter; backward
      elimination begins from the columns that are not, in their order. R instead keeps such columns
      without a coefficient.

    Parameters
    ----------
    base : {"ols", "nnls"}, default="ols"
        The fit of each model; see `OLS` and `NNLS`.
    direction : {"forward", "backward"}, default="forward"
        From the intercept alone upwards, or from all columns downwards.
    criterion : {"aic", "aicc", "bic"}, default="aic"
        What must fall with each step.
    max_features : int, optional
        The most columns the model may have. Backward elimination goes on, criterion rising if need
        be, until then.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        0 for the columns left out.
    intercept_ : float
    selected_features_ : list of str
    steps_ : list of str
        ``"+ name"`` or ``"- name"`` of each step taken.
    criterion_path_ : ndarray of shape (n_steps + 1,)
        The criterion of the first model and after each step.
    rss_path_ : ndarray of shape (n_steps + 1,)
        The (weighted) residual sum of squares of the same models.
    edf_path_ : ndarray of shape (n_steps + 1,)
        Their degrees of freedom.
    dropped_features_ : list of str
        Constant columns and copies of others, left out from the start.
    p_values_ : ndarray of shape (n_features,)
        For ``base="ols"`` only: see `OLS`; NaN for the columns left out. Chosen by the same data,
        hence optimistic.

    References
    ----------
    W. N. Venables and B. D. Ripley, Modern Applied Statistics with S (2002), section 6.8.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> Stepwise(criterion="bic").fit(X, 3 * X[:, 2] + X[:, 0]).selected_features_
    ['x0', 'x2']
    """

    def __init__(
        self,
        *,
        base: Literal["ols", "nnls"] = "ols",
        direction: Literal["forward", "backward"] = "forward",
        criterion: CriterionName = "aic",
        max_features: int | None = None,
    ) -> None:
        self.base = base
        self.direction = direction
        self.criterion = criterion
        self.max_features = max_features

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None, memo: Memo | None = None) -> Self:
        """Search and fit on X of shape (n_samples, n_features) and y of shape (n_samples,).

        ``memo``, where given, has the path of an earlier fit on the same rows by another criterion,
        or keeps this one.
        """
        self._check_parameters()
        X, y, w = self._training_rows(X, y, sample_weight)
        criterion = Criterion.named(self.criterion, distinct_rows(X, y))
        limit = _most(X, criterion.largest, self.direction)
        if self.max_features is None:
            cap = X.shape[1]
        else:
            cap = self.max_features
        kind = (self.base, self.direction, limit if self.direction == "backward" else None)
        rows = (y, w, X)
        path = (memo or Memo()).of(
            kind, rows, lambda: new_path(X, y, w, self.base, self.direction, limit)
        )
        sizes, values = walk(path, self.direction, criterion, cap)
        columns = columns_after(path, self.direction, sizes.stop - 1)
        names = feature_names(self)
        sign = "-"
        if self.direction == "forward":
            sign = "+"
        self.steps_ = [f"{sign} {names[j]}" for j in path.order[sizes.start : sizes.stop - 1]]
        self.criterion_path_ = np.array(values)
        self.rss_path_ = np.array(path.rss[sizes.start : sizes.stop])
        self.edf_path_ = np.array([degrees(path, self.direction, step) for step in sizes])
        if self.base == "ols":
            return self._set_free(centred(X[:, columns], y, w), X, y, w, columns, independent=True)
        problem = with_intercept(X[:, columns], y, w)
        coef = np.zeros(X.shape[1])
        scaled = non_negative(problem) / problem.scale
        coef[columns] = scaled[1:]
        return self._set(coef, scaled[0])

    def _check_parameters(self) -> None:
        for name, choices in (("base", BASES), ("direction", DIRECTIONS), ("criterion", CRITERIA)):
            value = getattr(self, name)
            if value not in choices:
                listed = ", ".join(repr(choice) for choice in choices)
                raise ValueError(
                    f"parameter {name} of Stepwise must be one of {listed}, got {value!r}"
                )


def _most(X: np.ndarray, largest: int, direction: str) -> int:
    """Return the most columns a model may have, given the most degrees of freedom the criterion is defined for.

    Backward elimination begins there, and models with a column for each distinct row all fit the
    same means.
    """
    if direction == "backward":
        largest = min(largest, distinct_rows(X, np.zeros(len(X))) - 1)
    return max(largest - 1, 0)


def new_path(
    X: np.ndarray, y: np.ndarray, w: np.ndarray, base: str, direction: str, limit: int
) -> Path:
    """Return the path of a search before its first step; backward search keeps at most ``limit`` columns."""
    if base == "ols" and direction == "forward":
        return forward_path(centred(X, y, w, _TALL))
    if base == "ols":
        return backward_path(centred(X, y, w), limit)
    if direction == "forward":
        return NonNegativeForward(with_intercept(X, y, w, _TALL))
    return NonNegativeBackward(with_intercept(X, y, w), limit)


def degrees(path: Path, direction: str, steps: int) -> int:
    """Return the degrees of freedom after some steps of a path: the columns in the model and the intercept."""
    return 1 + (steps if direction == "forward" else len(path.columns) - steps)


def columns_after(path: Path, direction: str, steps: int) -> np.ndarray:
    """Return the columns in the model after some steps of a path, in their order."""
    moved = np.array(path.order[:steps], dtype=int)
    if direction == "forward":
        return np.sort(moved)
    return np.setdiff1d(path.columns, moved)


def walk(path: Path, direction: str, criterion: Criterion, cap: int) -> tuple[range, list[float]]:
    """Go along a path while the criterion falls; return the numbers of steps at which there was a model, and its value.

    ``cap`` is the most columns: forwards it ends the walk, backwards the walk goes on until there.
    Backwards, what the path has before the criterion is defined is passed over.
    """
    if direction == "backward":
        beyond = degrees(path, direction, 0) - criterion.largest
    else:
        beyond = 0
    first = min(max(beyond, 0), len(path.columns))
    path.reaches(first)
    values = [criterion(path.rss[first], degrees(path, direction, first))]
    while path.reaches(step := first + len(values)):
        edf = degrees(path, direction, step)
        value = criterion(path.rss[step], edf)
        if direction == "forward":
            if edf - 1 > cap or value >= values[-1]:
                break
        elif value >= values[-1] and edf <= cap:
            break
        values.append(value)
    return range(first, first + len(values)), values


_LOSS = 1e-6  # a squared length is computed anew once this is left of it: its downdates have cost six digits then
# a direction is orthogonalised twice where less than this is left of its squared length
_FRESH = 0.1
_BLOCK = 32  # directions taken out of the columns left at once (a matrix product instead of as many passes over them)
_AT_ONCE = 16  # trials looked at together, in the order of their bounds


class GreedyPath:
    """Vectors taken one by one, each for its share of a target, and orthogonalised (Gram-Schmidt, in blocks).

    The share of vector j is ``(z_j' r)² / z_j' z_j``, z_j and the target r being orthogonal to
    those taken. A step costs one product of the vectors left with the new direction q: lengths and
    products with r follow by ``z_j' z_j - (z_j' q)²`` and ``z_j' r - (z_j' q)(q' r)``. The vectors
    are orthogonalised themselves, and both are computed anew, every 32 steps, and earlier where a
    squared length has fallen to 1e-6 of what it was.

    Forward selection takes the columns of the design with the largest share of the target: that is
    by how much the RSS falls. Backward elimination takes the rows of the pseudo-inverse with the
    least share of the fitted coefficients: with A = QR and U = R^-1 (its rows u_j), t = U Q'b and
    (A'A)^-1 = UU', so that t_j² / (A'A)^-1_jj, by which the RSS rises without column j, is the
    share of u_j in Q'b; and what is orthogonal to u_j is the pseudo-inverse without j.

    ``vectors`` (p, d), C-contiguous, are overwritten; ``columns`` (p,) are what they are called, in
    ascending order, and then those of the model that the path begins with: none, or all. The vector
    with the largest share is next, or that with the least; ``order`` are the columns taken so far,
    ``rss`` the residual sums of squares before the first and after each step, of which ``floor`` is
    the least there is.
    """

    def __init__(
        self,
        vectors: np.ndarray,
        target: np.ndarray,
        columns: np.ndarray,
        *,
        largest: bool,
        rss: float,
        floor: float,
    ) -> None:
        if largest:
            self.columns = columns[:0]
        else:
            self.columns = columns
        self.order = list[int]()
        self.rss = [max(rss, floor)]
        self._largest = largest
        self._floor = floor
        self._left = columns
        self._Z = vectors
        self._r = target.copy()
        # the directions taken since the vectors were orthogonalised
        self._Q = np.empty((_BLOCK, vectors.shape[1]))
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
            Q = self._Q[: self._size]
            W = self._W[: self._size, : len(self._left)]
            self._Z = dgemm(-1.0, Q.T, W, beta=1.0, c=self._Z.T, overwrite_c=True).T
        lengths = np.einsum("jd,jd->j", self._Z, self._Z)
        kept = (lengths > ALIASED**2) & ~self._taken
        if not kept.all():
            self._Z = self._Z[kept]
            self._left = self._left[kept]
            lengths = lengths[kept]
        self._taken = np.zeros(len(lengths), dtype=bool)
        self._lengths = lengths
        self._whole = lengths.copy()
        self._least = np.maximum(_LOSS * lengths, ALIASED**2)
        self._products = self._Z @ self._r
        self._size = 0

    def _step(self) -> None:
        shares = self._products**2 / self._lengths
        if self._largest:
            best = int(np.argmax(shares >= (1 - TIES) * shares.max()))
        else:
            best = int(np.argmax(shares <= (1 + TIES) * shares.min()))
        k = self._size
        Q = self._Q
        W = self._W[:, : len(shares)]
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
        if self._largest:
            rss = float(self._r @ self._r)
        else:
            rss = self.rss[-1] + share**2
        self.rss.append(max(rss, self._floor))
        # A share of -1 or infinity is never the one that is looked for.
        if self._largest:
            self._lengths[best] = -1.0
            self._products[best] = 1.0
        else:
            self._lengths[best] = 1.0
            self._products[best] = np.inf
        self._taken[best] = True
        self._least[best] = -np.inf
        self._size = k + 1
        if self._size == _BLOCK or (self._lengths < self._least).any():
            self._orthogonalise()


def forward_path(problem: Triangular) -> GreedyPath:
    """Return the path of forward selection on a `centred` problem: AIC and BIC of every size are read off it."""
    rss = float(problem.b @ problem.b)
    columns = np.arange(problem.A.shape[1])
    return GreedyPath(
        problem.A.T.copy(), problem.b, columns, largest=True, rss=rss, floor=problem.floor
    )


def backward_path(problem: Triangular, limit: int) -> GreedyPath:
    """Return the path of backward elimination on a `centred` problem, from ``limit`` columns at most.

    It begins from the columns that are no combination of those before them; where there are more
    than ``limit``, from the first ``limit`` that forward selection takes.
    """
    columns = independent(problem.A, limit)
    if columns is None:
        forward = forward_path(problem)
        forward.reaches(limit)
        columns = np.sort(np.array(forward.order[:limit], dtype=int))
    m = len(columns)
    # [R z; 0 rest] of A = QR, z = Q'b
    R = upper_triangle(np.column_stack([problem.A[:, columns], problem.b]))
    if m:
        U = np.ascontiguousarray(dtrtri(R[:m, :m])[0])
    else:
        U = np.zeros((0, 0))
    rest = R[m:, m]
    return GreedyPath(
        U, R[:m, m], columns, largest=False, rss=float(rest @ rest), floor=problem.floor
    )


def independent(A: np.ndarray, limit: int) -> np.ndarray | None:
    """Return the columns, in their order, that are no combination of those before them; None if more than ``limit``."""
    first = min(limit + 1, *A.shape)
    # of each column from the span of those before
    distances = np.abs(np.diagonal(upper_triangle(A[:, :first])))
    if (distances > ALIASED).all():
        if first > limit:
            return None
        if first == A.shape[1]:
            return np.arange(first)
    # p x k
    Z = A.T.copy()
    kept = list[int]()
    for j in range(len(Z)):
        length = float(np.linalg.norm(Z[j]))
        if length > ALIASED:
            q = Z[j] / length
            Z[j + 1 :] -= np.outer(Z[j + 1 :] @ q, q)
            kept.append(j)
            if len(kept) > limit:
                return None
    return np.array(kept, dtype=int)


class NonNegativeBackward:
    """Columns removed one by one, each time the one whose absence raises the RSS least.

    Columns at zero are removed first: they raise nothing. Let t > 0 be the coefficients of those
    left. Without column j the others move by ``-t_j V_j / V_jj``, ``V = (A_P'A_P)^-1``, and the RSS
    rises by ``t_j² / V_jj``. That is the fit where no coefficient becomes negative by it and an
    intercept at zero stays there. Elsewhere it bounds the rise from below (with the intercept among
    the columns of V): such columns are fitted in the order of their bounds while these can win.

    The ``problem`` is from `with_intercept`. The path begins with all ``columns`` (features) that
    are not zero; where more than ``most`` have a coefficient, with the first ``most`` that forward
    selection takes. ``order`` and ``rss`` are as for `GreedyPath`.
    """

    def __init__(self, problem: Triangular, limit: int) -> None:
        t = non_negative(problem)
        self.columns = np.flatnonzero(problem.A[:, 1:].any(axis=0))
        if np.count_nonzero(t[1:]) > limit:
            forward = NonNegativeForward(problem)
            forward.reaches(limit)
            self.columns = np.sort(np.array(forward.order[:limit], dtype=int))
            allowed = np.isin(np.arange(len(t)), [0, *(self.columns + 1)])
            t = non_negative(problem, allowed)
        self.order = list[int]()
        self.rss = [problem.rss(t)]
        self._limit = optimal_limit(problem)
        self._floor = problem.floor
        self._left = self.columns  # features, in their order
        kept = np.append(self.columns + 1, 0)
        self._drop_idle(np.column_stack([problem.A[:, kept], problem.b]), t[kept])

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
        self._left = np.delete(self._left, idle)
        self._t = np.delete(t, idle)
        self._R = upper_triangle(np.delete(M, idle, axis=1))  # m + 2 x m + 2

    @property
    def _used(self) -> int:
        """The number of columns in use: the features left and, after them, the intercept unless it is at zero."""
        return len(self._left) + int(self._t[-1] > 0)

    def _remove(self, position: int) -> None:
        """Remove a feature, given by position."""
        self.order.append(int(self._left[position]))
        self._left, self._t = np.delete(self._left, position), np.delete(self._t, position)
        self._R = upper_triangle(np.delete(self._R, position, axis=1))
        m = len(self._left)
        used = self._used
        if used:
            goal = dtrtrs(self._R[:used, :used], self._R[:used, -1])[0]
        else:
            goal = np.zeros(0)
        if (goal > 0).all() and (used > m or self._gradient_of_intercept() <= self._limit):
            self._t = np.append(goal, np.zeros(m + 1 - used))
            rest = self._R[used:, -1]
            self.rss.append(max(float(rest @ rest), self._floor))
        else:
            problem = self._problem()
            t = non_negative(problem, start=self._t)
            self.rss.append(problem.rss(t))
            self._drop_idle(self._R, t)

    def _gradient_of_intercept(self) -> float:
        """Return the gradient of an intercept at zero, all features being in use."""
        m = len(self._left)
        return float(self._R[m, m] * self._R[m, m + 1])

    def _problem(self) -> Triangular:
        A = self._R[:, :-1]
        b = self._R[:, -1]
        return Triangular(A, b, np.ones(len(self._t)), self._floor)

    def _least(self) -> int:
        """Return the position of the feature whose absence raises the RSS least, the first of equals."""
        m = len(self._left)
        used = self._used
        t = self._t[:used]
        inverse = dtrtri(self._R[:used, :used])[0]
        V = inverse @ inverse.T
        spread = np.diagonal(V)
        moved = t[:, None] - V * (t / spread)  # column j: without column j
        np.fill_diagonal(moved, 0.0)
        settled = (moved >= 0).all(axis=0)
        if used == m:
            d = inverse @ self._R[:m, m]
            length = max(self._R[m, m] ** 2, ALIASED**2)
            settled &= self._gradient_of_intercept() + d * t / spread <= self._limit
            spread = np.where(settled, spread, spread + d**2 / length)
        bounds = (t**2 / spread)[:m]
        rises = np.where(settled[:m], bounds, np.nan)
        return first_of_least(bounds, lambda positions: rises[positions], self._rise_without)

    def _rise_without(self, position: int) -> float:
        """Return the RSS without a feature, given by position, less that with it."""
        start = self._t.copy()
        allowed = np.ones(len(self._t), dtype=bool)
        start[position] = 0.0
        allowed[position] = False
        problem = self._problem()
        return problem.rss(non_negative(problem, allowed, start)) - self.rss[-1]


def first_of_least(
    bounds: np.ndarray, settled: Callable[[np.ndarray], np.ndarray], fitted: Callable[[int], float]
) -> int:
    """Return the index of the least value, the first of equals.

    No value is below its bound, ``bounds`` (g,). ``settled`` returns the values at some indices,
    NaN where they need a fit; ``fitted`` returns the value at one index by a fit, and is not called
    where the bound says it is not the least.
    """
    values = np.full(len(bounds), np.inf)
    least = np.inf
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
