"""The simplest models: an analytic law as it stands, a constant ratio and a line of one column, and a sum of terms.

X of shape (n_samples, n_features) and positive y enter; coefficients are non-negative, so no
prediction is negative. `AnalyticLaw`, `ConstantRatio` and `Affine` are the baselines each model
competes with. `AdditiveTime` is time as a sum, overhead plus rates times work, fitted to relative
L1 error: the base that residuals are learnt over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.optimize import linprog, nnls
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from ..errors import few
from .base import (
    PositiveRegressor,
    check_positive_target,
    check_target,
    feature_names,
    one_blas_thread,
    weighted_sums,
)
from .target_space import Columns


class _OneColumn(RegressorMixin, BaseEstimator):
    """A model of one column of X, given by name or by position; other columns of a DataFrame may hold anything."""

    column: str | int

    def _column(self, X: Any, *, reset: bool) -> np.ndarray:
        """Return the values of the column, shape (n_samples,)."""
        if hasattr(X, "iloc"):
            if reset or list(X.columns) != list(getattr(self, "feature_names_in_", ())):
                validate_data(self, X, skip_check_array=True, reset=reset)
            j = self._position()
            name = feature_names(self)[j]
            # plain: a frame takes longer to check
            values = X.iloc[:, j].to_numpy(dtype=np.float64, na_value=np.nan)
            if not len(values) or not np.isfinite(values).all():
                check_array(values[:, np.newaxis], input_name=f"column {name!r} of X")
            return values
        return validate_data(self, X, dtype=np.float64, reset=reset)[:, self._position()]

    def _position(self) -> int:
        """Return where the column stands among those seen in `fit`."""
        names = feature_names(self)
        if isinstance(self.column, str):
            if self.column in names:
                return names.index(self.column)
        elif -len(names) <= self.column < len(names):
            return int(self.column) % len(names)
        raise ValueError(
            f"X has no column {self.column!r}, which {type(self).__name__} reads: it has "
            f"{few(names)}"
        )

    def _fit_rows(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the column and the target of the training rows; remember the column's name."""
        x = self._column(X, reset=True)
        self.selected_features_ = [feature_names(self)[self._position()]]
        return x, check_target(self, x, y)


class AnalyticLaw(_OneColumn):
    """Predict a column of X as it stands: the time an analytic law gives. Nothing is fitted.

    Parameters
    ----------
    column : str or int, default=0
        The column, by name (X a DataFrame) or by position.

    Attributes
    ----------
    selected_features_ : list of str
        The column.

    Examples
    --------
    >>> AnalyticLaw(column=1).fit([[1.0, 2.0]], [9.0]).predict([[3.0, 4.0]]).tolist()
    [4.0]
    """

    def __init__(self, column: str | int = 0) -> None:
        self.column = column

    def fit(self, X: Any, y: Any) -> Self:
        """Check X and y; learn nothing from them."""
        self._fit_rows(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the column, shape (n_samples,)."""
        check_is_fitted(self, "selected_features_")
        return self._column(X, reset=False).copy()

    def __sklearn_tags__(self) -> Tags:
        """Say that y plays no part, so the score may be poor."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class _RelativeL1(PositiveRegressor, _OneColumn):
    """A model of one column fitted to relative L1 error: it needs positive targets."""


class ConstantRatio(_RelativeL1):
    """``t = r x`` with the ratio r that minimises the relative L1 error ``sum_i |y_i - r x_i| / y_i``.

    The sum is ``sum_i (|x_i| / y_i) |y_i / x_i - r|``, so r is the median of y / x weighted by
    ``|x| / y``, exactly; the smallest one where an interval is optimal. Rows with x = 0 play no
    part; with nothing else r is 0.

    Parameters
    ----------
    column : str or int, default=0
        The column x, by name (X a DataFrame) or by position: the host's time in µs.

    Attributes
    ----------
    ratio_ : float
        Target time per host time.
    selected_features_ : list of str
        The column.

    Examples
    --------
    >>> ConstantRatio().fit([[1.0], [2.0], [4.0]], [2.0, 4.0, 80.0]).ratio_
    2.0
    """

    def __init__(self, column: str | int = 0) -> None:
        self.column = column

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X of shape (n_samples, n_features) and positive y of shape (n_samples,)."""
        x, y = self._fit_rows(X, y)
        check_positive_target(self, y)
        used = x != 0
        if used.any():
            self.ratio_ = weighted_median(y[used] / x[used], np.abs(x[used]) / y[used])
        else:
            self.ratio_ = 0.0
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return ``ratio_ * x``, shape (n_samples,)."""
        check_is_fitted(self, "ratio_")
        return self.ratio_ * self._column(X, reset=False)


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the smallest value with at least half of the weight at or below it: the minimum of Σ w·|value - m|.

    >>> weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 5.0]))
    2.0
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2)])


class Affine(_RelativeL1):
    """``t = a + b x``, a and b at least 0, minimising the relative L1 error ``sum_i |y_i - a - b x_i| / y_i``.

    a is the time a launch takes at least, b the ratio of rates; neither is ever negative, so nor is
    a prediction from a time. The minimum is exact: with r_i = (y_i - a - b x_i) / y_i the problem
    ``min sum_i |r_i|`` is a linear program, solved here in its dual form (two constraints, one
    bounded variable a row) by HiGHS' dual simplex: ``max sum_i d_i  subject to  sum_i d_i / y_i <=
    0,  sum_i d_i x_i / y_i <= 0,  -1 <= d_i <= 1``, where a and b are the multipliers of the two
    constraints. A simplex on all of many rows takes n^1.8 seconds. Of those that lie far from a
    line fitted to some, d_i is the sign of r_i: they are a constant of the program, which is solved
    for the rows near the line. Where the signs hold, the solution is that of all rows; a row whose
    sign does not joins the others, and it is solved again.

    Parameters
    ----------
    column : str or int, default=0
        The column x, by name (X a DataFrame) or by position: the host's time in µs.

    Attributes
    ----------
    intercept_ : float
        a, in the unit of y.
    ratio_ : float
        b.
    selected_features_ : list of str
        The column.

    References
    ----------
    S. Portnoy, R. Koenker, The Gaussian hare and the Laplacian tortoise, Statistical Science 12
    (1997) 279 (rows of given sign).

    Examples
    --------
    >>> model = Affine().fit([[1.0], [2.0], [3.0], [4.0]], [3.0, 5.0, 70.0, 9.0])
    >>> round(model.intercept_, 6), round(model.ratio_, 6)
    (1.0, 2.0)
    """

    def __init__(self, column: str | int = 0) -> None:
        self.column = column

    @one_blas_thread
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X of shape (n_samples, n_features) and positive y of shape (n_samples,)."""
        x, y = self._fit_rows(X, y)
        check_positive_target(self, y)
        y_unit = float(np.median(y))
        x_unit = float(np.mean(np.abs(x))) or 1.0
        a, b = _nearest_line(np.stack([y_unit / y, (x / x_unit) * (y_unit / y)]))
        self.intercept_ = float(a * y_unit)
        self.ratio_ = float(b * y_unit / x_unit)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return ``intercept_ + ratio_ * x``, shape (n_samples,)."""
        check_is_fitted(self, "ratio_")
        return self.intercept_ + self.ratio_ * self._column(X, reset=False)


WHOLE = 4096  # rows up to which the program of a line is solved with all of them, and to begin with of more


def _nearest_line(rows: np.ndarray) -> np.ndarray:
    """Return the a and b >= 0 that minimise ``sum_i |1 - a rows[0, i] - b rows[1, i]|``."""
    count = rows.shape[1]
    if count <= WHOLE:
        nearest = _line_of(rows, np.zeros(2))
        assert nearest is not None  # d = 0 meets every constraint
        return nearest
    # of rows sorted by their times: of all lengths
    some = np.linspace(0, count - 1, WHOLE).round().astype(int)
    start = _line_of(rows[:, np.argsort(rows[0], kind="stable")[some]], np.zeros(2))
    assert start is not None
    gaps = 1 - start @ rows
    free = np.zeros(count, dtype=bool)
    width = WHOLE
    while True:
        free[np.argpartition(np.abs(gaps), width - 1)[:width]] = True
        sign = np.where(free, 0.0, np.sign(gaps))
        line = _line_of(rows[:, free], -(rows @ sign))
        if line is not None:
            wrong = ~free & ((1 - line @ rows) * sign < 0)
            if not wrong.any():
                return line
            if wrong.sum() <= width:  # of more it is the line that is far off
                free |= wrong
        width = min(2 * width, count)


def _line_of(rows: np.ndarray, bounds: np.ndarray) -> np.ndarray | None:
    """Return the multipliers of ``max sum d, rows d <= bounds, |d| <= 1``; None where no d meets the constraints."""
    solution = linprog(
        -np.ones(rows.shape[1]), A_ub=rows, b_ub=bounds, bounds=(-1, 1), method="highs-ds"
    )
    if solution.status == _INFEASIBLE:
        return None
    if solution.status != 0:
        raise ArithmeticError(f"the linear program of Affine was not solved: {solution.message}")
    return np.maximum(-solution.ineqlin.marginals, 0.0)


_INFEASIBLE = 2  # status of `linprog`
ITERATIONS = 30
SMALLEST = 1e-3
_BITS = 24
"""Reweighting steps, the relative residual below which a row's weight stops growing, bits of a coefficient."""


def fit_terms(terms: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the non-negative coefficients c that minimise ``sum_i |y_i - (terms c)_i| / y_i``, approximately.

    Iteratively reweighted non-negative least squares (Schlossmacher 1973): each step weights the
    squared relative residual r_i² by 1 / max(|r_i|, 1e-3), so the sum tends to that of |r_i|;
    residuals below 0.1 % count as squares.

    ``terms`` (n_samples, n_terms) are non-negative, ``y`` (n_samples,) is positive. Coefficients
    are rounded to 24 bits: further ones depend on the order of the processor's sums.

    References
    ----------
    E. J. Schlossmacher, An iterative technique for absolute deviations curve fitting, JASA 68
    (1973) 857.
    """
    relative = terms / y[:, None]
    scale = relative.max(axis=0)
    used = scale > 0
    relative = relative[:, used] / scale[used]
    scale = scale[used]
    weights_of_terms = np.zeros(used.sum())
    weights = np.ones(len(y))
    for _ in range(ITERATIONS):
        # normal equations: (n_terms, n_terms) instead of (n_samples, n_terms)
        root = np.linalg.cholesky(
            (relative * weights[:, None]).T @ relative + 1e-12 * weights.sum() * np.eye(len(scale)),
            upper=True,
        )
        weights_of_terms, _ = nnls(
            root, np.linalg.solve(root.T, (relative * weights[:, None]).sum(axis=0))
        )
        weights = 1.0 / np.maximum(np.abs(relative @ weights_of_terms - 1.0), SMALLEST)
    coefficients = np.zeros(len(used))
    mantissa, exponent = np.frexp(weights_of_terms / scale)
    coefficients[used] = np.ldexp(np.round(np.ldexp(mantissa, _BITS)), exponent - _BITS)
    return coefficients


class AdditiveTime(PositiveRegressor):
    """``t = c_0 + sum_j c_j x_j`` with every c >= 0, minimising the relative L1 error (see `fit_terms`).

    c_0 is what a launch takes at least; with times and counts of work as columns the model
    extrapolates as time does: linearly. Negative values of a column count as zero. A prediction is
    at least a tenth of the smallest training y.

    Parameters
    ----------
    columns : sequence of str, optional
        The terms, by name; ``"waves*"`` stands for every column whose name begins with ``"waves"``.
        All columns where None or where X has no names.
    by : str, optional
        Prefix of 0/1 columns that divide the rows into classes (``"op="``): a class with at least
        ``min_rows`` training rows has separate coefficients, all others share those fitted to all
        rows.
    min_rows : int, default=30
        See ``by``.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes + 1, n_terms + 1)
        Coefficients, intercept first: the shared ones in row 0, then those of each class.
    class_columns_ : list of int
        Position of the 0/1 column of each class with separate coefficients.
    selected_features_ : list of str
        Columns with a positive coefficient somewhere.

    Examples
    --------
    >>> AdditiveTime().fit([[1.0], [2.0], [4.0]], [5.0, 7.0, 11.0]).predict([[10.0]]).round(3).tolist()
    [23.0]
    """

    def __init__(
        self, columns: Sequence[str] | None = None, *, by: str | None = None, min_rows: int = 30
    ) -> None:
        self.columns = columns
        self.by = by
        self.min_rows = min_rows

    @one_blas_thread
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X of shape (n_samples, n_features) and positive y of shape (n_samples,).

        Raises
        ------
        ValueError
            For a target that is not positive, a column X does not have, or NaN in a term.
        """
        values = self._values(X, reset=True)
        y = check_target(self, X, y)
        check_positive_target(self, y)
        names = feature_names(self)
        self.term_columns_ = Columns(self.columns).fit(X).columns_
        terms = self._terms(values)
        self.smallest_ = 0.1 * float(y.min())
        classes = [
            j for j, name in enumerate(names) if self.by is not None and name.startswith(self.by)
        ]
        self.class_columns_ = [j for j in classes if np.sum(values[:, j] > 0.5) >= self.min_rows]
        members = [values[:, j] > 0.5 for j in self.class_columns_]
        self.coef_ = np.array(
            [fit_terms(terms, y), *(fit_terms(terms[rows], y[rows]) for rows in members)]
        )
        used = np.max(self.coef_[:, 1:], axis=0, initial=0.0) > 0
        self.selected_features_ = [names[self.term_columns_[term]] for term in np.flatnonzero(used)]
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions in the unit of y, shape (n_samples,), all positive."""
        check_is_fitted(self, "coef_")
        values = self._values(X, reset=False)
        terms = self._terms(values)
        predicted = weighted_sums(terms, self.coef_[0])
        for j, coefficients in zip(self.class_columns_, self.coef_[1:], strict=True):
            rows = values[:, j] > 0.5
            predicted[rows] = weighted_sums(terms[rows], coefficients)
        return np.maximum(predicted, self.smallest_)

    def contributions(self, X: Any) -> tuple[list[str], np.ndarray]:
        """Return the names of the terms, "" for the intercept, and what each adds, shape (n_samples, n_terms + 1)."""
        values = self._values(X, reset=False)
        names = feature_names(self)
        parts = self._terms(values) * self.coef_[0]
        for j, coefficients in zip(self.class_columns_, self.coef_[1:], strict=True):
            rows = values[:, j] > 0.5
            parts[rows] = self._terms(values)[rows] * coefficients
        return ["", *(names[column] for column in self.term_columns_)], parts

    def _values(self, X: Any, *, reset: bool) -> np.ndarray:
        """Return X as an array; NaN is looked for in the terms alone."""
        nan = True
        if self.columns is not None:
            nan = "allow-nan"
        if not hasattr(X, "iloc"):
            return validate_data(self, X, dtype=np.float64, reset=reset, ensure_all_finite=nan)
        if reset or list(X.columns) != list(getattr(self, "feature_names_in_", ())):
            validate_data(self, X, skip_check_array=True, reset=reset)
        # plain: a frame takes longer to check
        values = X.to_numpy(dtype=np.float64, na_value=np.nan)
        return check_array(values, ensure_all_finite=nan, input_name="X")

    def _terms(self, values: np.ndarray) -> np.ndarray:
        """Return ones and the terms, shape (n_samples, n_terms + 1)."""
        terms = values[:, self.term_columns_]
        if not np.isfinite(terms).all():
            raise ValueError("a term of AdditiveTime holds NaN: leave out the rows or the column")
        return np.column_stack([np.ones(len(values)), np.maximum(terms, 0.0)])
