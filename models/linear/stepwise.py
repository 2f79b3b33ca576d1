"""Forward selection and backward elimination of features by AIC, AICc or BIC.

`Stepwise` is the estimator: it walks along a path (`stepwise_paths`, `nnls_forward`: which column moves next, and the
RSS after each step, whatever the criterion) while a `Criterion` of Gaussian models falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np

from ..base import Memo, feature_names, one_blas_thread
from .least_squares import LinearRegressor
from .nnls_forward import NonNegativeForward
from .stepwise_paths import NonNegativeBackward, backward_path, forward_path
from .triangular import centred, non_negative, with_intercept

CriterionName = Literal["aic", "aicc", "bic"]
CRITERIA: tuple[CriterionName, ...] = get_args(CriterionName)


@dataclass(frozen=True)
class Criterion:
    """``n log(RSS / n)`` plus a penalty: -2 log-likelihood of a Gaussian model of n observations, up to a constant.

    The likelihood is at its maximum over sigma² (RSS / n); the constant ``n (1 + log 2 pi)`` and the parameter sigma²,
    the same for every model, are left out, as in R's ``extractAIC``.

    - AIC and BIC: ``k edf`` with k = 2 and k = log(n).
    - AICc, where ``corrected``: ``2 n (edf + 1) / (n - edf - 2) - 2``, which is ``n (n + edf) / (n - edf - 2)`` of
      Hurvich and Tsai less n + 2, so that it tends to AIC where n is large.

    References
    ----------
    C. M. Hurvich and C.-L. Tsai, Regression and time series model selection in small samples, Biometrika 76 (1989) 297.
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
        return self.n - 3 if self.corrected else self.n - 1

    def __call__(self, rss: float, edf: int) -> float:
        """Return the criterion; infinite where too few residual degrees of freedom would be left."""
        if edf > self.largest:
            return inf
        penalty = 2.0 * self.n * (edf + 1) / (self.n - edf - 2) - 2.0 if self.corrected else self.k * edf
        return self.n * log(rss / self.n) + penalty if rss > 0 else -inf


def distinct_rows(X: np.ndarray, y: np.ndarray) -> int:
    """Return how many rows of (X, y) there are, exact copies counted once."""
    ordered = np.sort(y)
    if (ordered[1:] != ordered[:-1]).all():
        return len(y)
    _, of_row, counts = np.unique(y, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(counts[of_row] > 1)  # a row with a target of its own has no copy
    rows = {(float(y[i]), (X[i] + 0.0).tobytes()) for i in shared}  # + 0.0: -0 is 0
    return int(np.sum(counts == 1)) + len(rows)


BASES, DIRECTIONS = ("ols", "nnls"), ("forward", "backward")
_TALL = 4.0  # from so many times as many rows as columns on, forward selection reduces the rows first


class Path(Protocol):
    """A stepwise search whatever ends it: the columns it begins with, those moved, the RSS before and after each.

    A step changes the degrees of freedom by one whichever column it moves, so all criteria share the path.
    """

    columns: np.ndarray
    order: list[int]
    rss: list[float]

    def reaches(self, steps: int) -> bool:
        """Go on until that many steps are taken; return False where the path ends before."""
        ...


class Stepwise(LinearRegressor):
    """Stepwise regression: columns join or leave one at a time while the criterion falls.

    Each step takes the column that leaves the least residual sum of squares (the first of equals, up to 1e-10). The
    criterion is that of R's ``extractAIC``: ``n log(RSS / n) + k edf`` with k = 2 (AIC) or k = log(n) (BIC), the
    Gaussian log-likelihood at its maximum over sigma², times -2, without the constant ``n (1 + log 2 pi)`` and without
    counting sigma²; or AICc (see `Criterion`). With weights w_i, taken as inverse variances, RSS is the weighted sum
    and the term ``-sum log w_i``, the same for every model, is left out too. For plain designs the sequence is that of
    R's ``step``.

    - ``n`` counts distinct rows of positive weight: an exact copy of a row is no new evidence.
    - ``edf`` is the number of columns in the model plus 1 for the intercept. For ``base="nnls"`` it counts columns
      held at zero by their sign as well: they cost a degree of freedom and lower nothing, so backward elimination drops
      them first, whenever there are any. (Counted by positive coefficients, a column at zero would be free; it
      would then come back for each one removed, and the elimination stop far from the criterion's minimum.)
    - No model with ``edf >= n`` is looked at, for AICc ``edf >= n - 2``. Where all columns together would leave too few
      residual degrees of freedom, also among the distinct rows of X alone (repeats have one each), backward elimination
      begins from the longest model on the forward path that leaves enough. Within a few residual degrees of freedom AIC
      and BIC are noise, and with more columns than rows forward AIC does not stop before: take AICc, or set
      ``max_features`` (a tenth of the rows, say).
    - Columns within 1e-7 of the span of those before them (R's tolerance) never enter; backward elimination begins
      from the columns that are not, in their order. R instead keeps such columns without a coefficient.

    Parameters
    ----------
    base : {"ols", "nnls"}, default="ols"
        The fit of each model; see `OLS` and `NNLS`.
    direction : {"forward", "backward"}, default="forward"
        From the intercept alone upwards, or from all columns downwards.
    criterion : {"aic", "aicc", "bic"}, default="aic"
        What must fall with each step.
    max_features : int, optional
        The most columns the model may have. Backward elimination goes on, criterion rising if need be, until then.

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
        For ``base="ols"`` only: see `OLS`; NaN for the columns left out. Chosen by the same data, hence optimistic.

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
        self.base, self.direction, self.criterion, self.max_features = base, direction, criterion, max_features

    @one_blas_thread
    def fit(self, X: Any, y: Any, sample_weight: Any = None, memo: Memo | None = None) -> Self:
        """Search and fit on X of shape (n_samples, n_features) and y of shape (n_samples,).

        ``memo``, where given, has the path of an earlier fit on the same rows by another criterion, or keeps this one.
        """
        self._check_parameters()
        X, y, w = self._training_rows(X, y, sample_weight)
        criterion = Criterion.named(self.criterion, distinct_rows(X, y))
        most = _most(X, criterion.largest, self.direction)
        cap = X.shape[1] if self.max_features is None else self.max_features
        kind, rows = (self.base, self.direction, most if self.direction == "backward" else None), (y, w, X)
        path = (memo or Memo()).of(kind, rows, lambda: new_path(X, y, w, self.base, self.direction, most))
        sizes, values = walk(path, self.direction, criterion, cap)
        columns = columns_after(path, self.direction, sizes.stop - 1)
        names, sign = feature_names(self), "+" if self.direction == "forward" else "-"
        self.steps_ = [f"{sign} {names[j]}" for j in path.order[sizes.start : sizes.stop - 1]]
        self.criterion_path_, self.rss_path_ = np.array(values), np.array(path.rss[sizes.start : sizes.stop])
        self.edf_path_ = np.array([degrees(path, self.direction, step) for step in sizes])
        if self.base == "ols":
            return self._set_free(centred(X[:, columns], y, w), X, y, w, columns, independent=True)
        problem, coef = with_intercept(X[:, columns], y, w), np.zeros(X.shape[1])
        scaled = non_negative(problem) / problem.scale
        coef[columns] = scaled[1:]
        return self._set(coef, scaled[0])

    def _check_parameters(self) -> None:
        for name, choices in (("base", BASES), ("direction", DIRECTIONS), ("criterion", CRITERIA)):
            if (value := getattr(self, name)) not in choices:
                listed = ", ".join(repr(choice) for choice in choices)
                raise ValueError(f"parameter {name} of Stepwise must be one of {listed}, got {value!r}")


def _most(X: np.ndarray, largest: int, direction: str) -> int:
    """Return the most columns a model may have, given the most degrees of freedom the criterion is defined for.

    Backward elimination begins there, and models with a column for each distinct row all fit the same means.
    """
    if direction == "backward":
        largest = min(largest, distinct_rows(X, np.zeros(len(X))) - 1)
    return max(largest - 1, 0)


def new_path(X: np.ndarray, y: np.ndarray, w: np.ndarray, base: str, direction: str, most: int) -> Path:
    """Return the path of a search, its first step still to be taken; ``most`` columns may be left backwards at most."""
    if base == "ols" and direction == "forward":
        return forward_path(centred(X, y, w, _TALL))
    if base == "ols":
        return backward_path(centred(X, y, w), most)
    if direction == "forward":
        return NonNegativeForward(with_intercept(X, y, w, _TALL))
    return NonNegativeBackward(with_intercept(X, y, w), most)


def degrees(path: Path, direction: str, steps: int) -> int:
    """Return the degrees of freedom after some steps of a path: the columns in the model and the intercept."""
    return 1 + (steps if direction == "forward" else len(path.columns) - steps)


def columns_after(path: Path, direction: str, steps: int) -> np.ndarray:
    """Return the columns in the model after some steps of a path, in their order."""
    moved = np.array(path.order[:steps], dtype=int)
    return np.sort(moved) if direction == "forward" else np.setdiff1d(path.columns, moved)


def walk(path: Path, direction: str, criterion: Criterion, cap: int) -> tuple[range, list[float]]:
    """Go along a path while the criterion falls; return the numbers of steps at which there was a model, and its value.

    ``cap`` is the most columns: forwards it ends the walk, backwards the walk goes on until there. Backwards, what the
    path has before the criterion is defined is passed over.
    """
    beyond = degrees(path, direction, 0) - criterion.largest if direction == "backward" else 0
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
