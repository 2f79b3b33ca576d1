"""What a model is fitted to instead of the time itself, and the columns it sees.

A time spans five orders of magnitude, and what counts is its relative error. So a regressor is
fitted with weights 1 / y² (`RelativeError`) or to log y (`LogTarget`). Both wrap any regressor;
`Columns` chooses what that one sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from ..errors import few
from .base import PositiveRegressor, check_positive_target, check_target, check_weights, fit
from .linear.least_squares import OLS

LARGEST_LOG = float(np.log(np.finfo(np.float64).max)) - 1.0
"""Predicted logarithms are held within ± this, so that their exponential is a finite, positive number."""


def settled(values: np.ndarray, decimals: int = 6) -> np.ndarray:
    """Return values rounded, for what chooses between equals.

    Last digits depend on the processor: the order of its sums, its logarithm. A tree that finds two
    splits equally good would choose by them, and then predict times that differ by percents.
    """
    return np.round(values, decimals)


class _Wrapper(PositiveRegressor):
    """A regressor fitted to something else than y itself: positive targets only."""

    regressor: Any
    regressor_: Any

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the positive target and the weights (None if not given); X is left to the regressor."""
        y = check_positive_target(self, check_target(self, X, y))
        if sample_weight is None:
            return y, None
        return y, check_weights(sample_weight, len(y))

    def _fit_inner(
        self, X: Any, y: np.ndarray, groups: Any, sample_weight: np.ndarray | None, memo: Any
    ) -> None:
        """Fit a clone of the regressor (`OLS` by default) and take over what it says of the columns."""
        if self.regressor is None:
            inner = OLS()
        else:
            inner = clone(self.regressor)
        self.regressor_ = fit(inner, X, y, groups=groups, sample_weight=sample_weight, memo=memo)
        validate_data(self, X, skip_check_array=True)

    def _predict_inner(self, X: Any) -> np.ndarray:
        """Return what the fitted regressor predicts; it checks X itself."""
        check_is_fitted(self, "regressor_")
        return np.asarray(self.regressor_.predict(X), dtype=np.float64)

    def __sklearn_tags__(self) -> Tags:
        """Say whether the regressor takes NaN."""
        tags = super().__sklearn_tags__()
        inner = self.regressor
        if inner is None:
            inner = OLS()
        tags.input_tags.allow_nan = get_tags(inner).input_tags.allow_nan
        return tags


class RelativeError(_Wrapper):
    """Fit a regressor to relative error: rows weighted by 1 / y².

    For least squares the weighted squared error ``sum_i ((y_i - f(x_i)) / y_i)²`` is the sum of
    squared relative errors itself, so an additive model of time stays additive.

    Parameters
    ----------
    regressor : regressor or pipeline, default=None
        Its ``fit`` must take ``sample_weight``; `OLS` where None.
    floor : float, optional
        Predictions below ``floor`` times the smallest training y are raised to it. None: they are
        left as they are, below zero if need be.

    Attributes
    ----------
    regressor_ : regressor
        The fitted clone.
    smallest_ : float
        The least prediction given; -inf without ``floor``.

    Examples
    --------
    >>> model = RelativeError(floor=0.5).fit([[1.0], [2.0], [3.0]], [10.0, 20.0, 30.0])
    >>> model.predict([[-9.0], [4.0]]).round(6).tolist()
    [5.0, 40.0]
    """

    def __init__(self, regressor: Any = None, *, floor: float | None = None) -> None:
        self.regressor = regressor
        self.floor = floor

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, memo: Any = None
    ) -> Self:
        """Fit to positive y of shape (n_samples,); ``sample_weight`` multiplies 1 / y², ``groups`` go to the regressor.

        So does ``memo`` (see `base.Memo`).

        Raises
        ------
        ValueError
            For a target that is not positive, and a regressor that cannot weight its rows.
        """
        y, weights = self._fit_rows(X, y, sample_weight)
        relative = (y.min() / y) ** 2  # 1 / y², in units that cannot overflow
        if weights is not None:
            relative = relative * weights
        self._fit_inner(X, y, groups, relative, memo)
        if self.floor is None:
            self.smallest_ = -np.inf
        else:
            self.smallest_ = self.floor * float(y.min())
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions in the unit of y, none below ``smallest_``."""
        return np.maximum(self._predict_inner(X), self.smallest_)


class LogTarget(_Wrapper):
    """Fit a regressor to log y and return the exponential of what it predicts.

    That is the conditional median of y where errors of log y are symmetric. ``smearing`` multiplies
    by the mean of ``exp(log y - prediction)`` over the training rows instead, for the conditional
    mean (Duan 1983). Predictions are positive and finite: logarithms are held within the range of
    float64.

    Parameters
    ----------
    regressor : regressor or pipeline, default=None
        `OLS` where None.
    smearing : bool, default=False
        Predict the mean rather than the median.

    Attributes
    ----------
    regressor_ : regressor
        The fitted clone.
    smearing_ : float
        The factor applied; 1 without ``smearing``.

    References
    ----------
    N. Duan, Smearing estimate: a nonparametric retransformation method, JASA 78 (1983) 605.

    Examples
    --------
    >>> LogTarget().fit([[0.0], [1.0], [2.0]], [1.0, 10.0, 100.0]).predict([[3.0]]).round(6).tolist()
    [1000.0]
    """

    def __init__(self, regressor: Any = None, *, smearing: bool = False) -> None:
        self.regressor = regressor
        self.smearing = smearing

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, memo: Any = None
    ) -> Self:
        """Fit to positive y of shape (n_samples,); ``sample_weight``, ``groups`` and ``memo`` go to the regressor.

        Raises
        ------
        ValueError
            For a target that is not positive, and for weights the regressor cannot take.
        """
        y, weights = self._fit_rows(X, y, sample_weight)
        self._fit_inner(X, settled(np.log(y), 9), groups, weights, memo)
        self.smearing_ = 1.0
        if self.smearing:
            residual = np.log(y) - self._predict_inner(X)
            factors = np.exp(np.minimum(residual, LARGEST_LOG))
            self.smearing_ = float(np.average(factors, weights=weights))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions in the unit of y, all positive."""
        return np.exp(np.clip(self._predict_inner(X), -LARGEST_LOG, LARGEST_LOG)) * self.smearing_


class Columns(TransformerMixin, BaseEstimator):
    """Pass on some columns of a DataFrame, by name; all of them where no name is given or X has no names.

    Columns passed on must be finite; the others may hold NaN.

    Parameters
    ----------
    names : sequence of str, optional
        A column each, in the order of X in the end; ``"dtype=*"`` stands for every column whose
        name begins with ``"dtype="`` (possibly none).

    Attributes
    ----------
    columns_ : list of int
        The positions of the columns passed on.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"host_us": [1.0], "m": [64.0], "dtype=fp8": [1.0]})
    >>> list(Columns(["dtype=*", "host_us"]).fit_transform(X).columns)
    ['host_us', 'dtype=fp8']
    """

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self.names = names

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the columns.

        Raises
        ------
        ValueError
            For names X does not have, when nothing is left, and for NaN or infinite values in the
            columns.
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Find the columns and return them, as `fit` and then `transform` do; they are looked at once."""
        X = validate_data(self, X, skip_check_array=hasattr(X, "iloc"))
        self.columns_ = list(range(self.n_features_in_))
        if self.names is not None and hasattr(self, "feature_names_in_"):
            self.columns_ = _matching(list(self.feature_names_in_), self.names)
        return self._passed_on(X)

    def transform(self, X: Any) -> Any:
        """Return the columns: a DataFrame of a DataFrame, an array of anything else."""
        check_is_fitted(self, "columns_")
        if hasattr(X, "iloc"):
            if list(X.columns) != list(getattr(self, "feature_names_in_", ())):
                validate_data(self, X, skip_check_array=True, reset=False)
            return self._passed_on(X)
        return self._passed_on(validate_data(self, X, reset=False))

    def _passed_on(self, X: Any) -> Any:
        """Return the columns after a check that they are finite numbers, naming those that are not."""
        if not hasattr(X, "iloc"):
            return np.asarray(X)[:, self.columns_]
        chosen = X.iloc[:, self.columns_]
        # plain: a frame takes longer to check
        values = chosen.to_numpy(dtype=np.float64, na_value=np.nan)
        finite = np.isfinite(values).all(axis=0)
        if not finite.all():
            bad = few(map(str, chosen.columns[~finite]))
            raise ValueError(f"X holds NaN or infinity in {bad}: leave out the rows or the columns")
        return chosen

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns passed on."""
        check_is_fitted(self, "columns_")
        names = input_features
        if names is None:
            numbered = [f"x{j}" for j in range(self.n_features_in_)]
            names = getattr(self, "feature_names_in_", numbered)
        return np.asarray(names, dtype=object)[self.columns_]


def _matching(seen: list[str], wanted: Sequence[str]) -> list[int]:
    """Return the positions in ``seen`` of the wanted names and of what the wanted prefixes begin."""
    exact = [name for name in wanted if not name.endswith("*")]
    prefixes = tuple(name[:-1] for name in wanted if name.endswith("*"))
    missing = [name for name in exact if name not in seen]
    if missing:
        raise ValueError(f"X has no column {few(missing)}")
    matching = [j for j, name in enumerate(seen) if name in exact or name.startswith(prefixes)]
    if not matching:
        raise ValueError(f"no column of X matches {', '.join(wanted) or 'an empty list of names'}")
    return matching
