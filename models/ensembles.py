"""Models made of models, on the logarithmic scale: what a base leaves over, weighted means, learning without pairs.

`LogResidual` fits a learner to the logarithm of observed over an analytic base; `GeometricStack` is
a mean of models with learnt weights, `CrossFitted` one over folds; `Transfer` learns from target
rows that the host has not measured as well, `PrecisionTransfer` weighs what they say by its
variance. y is positive, and so is every prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from .base import (
    Memo,
    PositiveRegressor,
    all_selected,
    check_positive_target,
    check_table,
    check_target,
    feature_names,
    fit,
    inner_folds,
    rows_to_predict,
)
from .baselines import AdditiveTime
from .forests import predicted_by
from .target_space import LARGEST_LOG, Columns, settled

ENOUGH_ROWS = 3000
ENOUGH_GROUPS = 100
"""Held-out rows, and groups where they are given, that are enough to learn the weights of a stack from."""
_SUM_TO_ONE = 1e4
_TINY = np.finfo(np.float64).tiny


def rows_of(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of a DataFrame or array."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return np.asarray(X)[rows]


def log_predictions(model: Any, X: Any) -> np.ndarray:
    """Return the logarithm of a model's predictions; zero and negative ones count as the smallest positive number."""
    return np.log(np.maximum(np.asarray(model.predict(X), dtype=np.float64), _TINY))


def simplex_weights(logs: np.ndarray, log_y: np.ndarray) -> np.ndarray:
    """Return weights w >= 0 with sum 1 that minimise ``sum_i |sum_j w_j logs_ij - log_y_i|``, approximately.

    Iteratively reweighted least squares, as `baselines.fit_terms`; the sum is held by a heavy row.

    ``logs`` (n_samples, n_models) are the logarithms of out-of-fold predictions, ``log_y``
    (n_samples,) that of the target; all 50 rounds of reweighting are always run.
    """
    errors = logs - log_y[:, None]  # the weights sum to one, so errors mix as predictions do
    scale = max(float(np.abs(errors).mean()), 1e-12)
    errors = errors / scale
    count = errors.shape[1]
    weights = np.full(count, 1.0 / count)
    row_weights = np.ones(len(errors))
    for _ in range(50):
        gram = (errors * row_weights[:, None]).T @ errors / row_weights.sum() + 1e-9 * np.eye(count)
        root = np.linalg.cholesky(gram, upper=True)
        weights, _ = nnls(
            np.vstack([root, np.full(count, _SUM_TO_ONE)]), np.r_[np.zeros(count), _SUM_TO_ONE]
        )
        weights = weights / weights.sum()
        row_weights = 1.0 / np.maximum(np.abs(errors @ weights), 1e-3)
    return weights


class LogResidual(PositiveRegressor):
    """``log t = log base(x) + learner(x)``: the learner is fitted to the logarithm of observed over base.

    Beyond the trained range a tree's residual stays what it was at the edge while the base goes on
    growing, so the model does not saturate. The learner sees the columns, the logarithm of the
    base, and for each column of ``ratios`` the logarithm of that column over the base.

    Parameters
    ----------
    base : regressor, default=None
        A model with positive predictions; `AdditiveTime` of all columns where None.
    learner : regressor, default=None
        100 extremely randomised trees where None.
    columns : sequence of str, optional
        What the learner sees (see `Columns`); all columns by default.
    ratios : sequence of str, default=()
        Columns that are times themselves, predicted by other means.

    Attributes
    ----------
    base_, learner_ : regressor
        The fitted clones.
    selected_features_ : list of str
        What learner or base are given.

    Examples
    --------
    >>> import numpy as np
    >>> work = np.linspace(1, 50, 60)[:, None]
    >>> model = LogResidual().fit(work, 3 + 2 * work[:, 0])
    >>> model.predict([[500.0]]).round(-1).tolist()
    [1000.0]
    """

    def __init__(
        self,
        base: Any = None,
        learner: Any = None,
        *,
        columns: Sequence[str] | None = None,
        ratios: Sequence[str] = (),
    ) -> None:
        self.base = base
        self.learner = learner
        self.columns = columns
        self.ratios = ratios

    def fit(self, X: Any, y: Any, groups: Any = None, memo: Memo | None = None) -> Self:
        """Fit to X of shape (n_samples, n_features) and positive y of shape (n_samples,).

        ``memo``, where given, may have the base.

        Raises
        ------
        ValueError
            For a target that is not positive, and for NaN in a column that is used.
        """
        y = check_positive_target(self, check_target(self, X, y))
        if self.base is None:
            base = AdditiveTime()
        else:
            base = clone(self.base)
        if self.learner is None:
            learner = ExtraTreesRegressor(100, random_state=0)
        else:
            learner = clone(self.learner)
        self.base_ = fit(base, X, y, groups, memo=memo)
        validate_data(self, X, skip_check_array=True)
        self.columns_ = Columns(self.columns).fit(X)
        log_base = np.log(self.base_.predict(X))
        seen = set(self.columns_.get_feature_names_out()) | set(
            all_selected([self.base_], feature_names(self))
        )
        self.selected_features_ = [
            name for name in feature_names(self) if name in seen or name in self.ratios
        ]
        self.learner_ = fit(learner, self.seen(X, log_base), settled(np.log(y) - log_base), groups)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions in the unit of y, shape (n_samples,), all positive."""
        check_is_fitted(self, "learner_")
        log_base = np.log(self.base_.predict(X))
        logs = log_base + predicted_by(self.learner_, self.seen(X, log_base))
        return np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG))

    def seen(self, X: Any, log_base: np.ndarray) -> np.ndarray:
        """Return what the learner sees, shape (n_samples, n_columns + 1 + n_ratios)."""
        names = feature_names(self)
        ratios = [
            np.log(np.asarray(X.iloc[:, names.index(name)])) - log_base for name in self.ratios
        ]
        return np.column_stack(
            [np.asarray(self.columns_.transform(X), dtype=np.float64), log_base, *ratios]
        )


class GeometricStack(PositiveRegressor):
    """``log t = sum_j w_j log t_j``: models mixed with weights w >= 0, sum 1, learnt on inner out-of-fold predictions.

    The inner folds leave out whole groups where groups are given, so a learner that only
    interpolates between rows of a group gets weight where rows of known groups are predicted and
    little where new groups are.

    Parameters
    ----------
    parts : sequence of (str, regressor), optional
        Models with positive predictions. `AdditiveTime` and `LogResidual` where None.
    cv : int, default=5
        Inner folds (see `base.inner_folds`); as many are fitted as leave out `ENOUGH_ROWS` and
        `ENOUGH_GROUPS`.
    learn_weights : bool, default=True
        Otherwise the weights are equal and there are no inner folds: with few groups, learnt
        weights cost more than they gain.
    random_state : int, default=0
        Seed of shuffled inner folds.

    Attributes
    ----------
    parts_ : list of regressors
        Fitted to all rows; models without weight are dropped.
    weights_ : dict of str to float
        Weight of every model.
    selected_features_ : list of str
        What any of them uses.

    References
    ----------
    L. Breiman, Stacked regressions, Machine Learning 24 (1996) 49 (non-negative weights).
    """

    def __init__(
        self,
        parts: Sequence[tuple[str, Any]] | None = None,
        *,
        cv: int = 5,
        learn_weights: bool = True,
        random_state: int | None = 0,
    ) -> None:
        self.parts = parts
        self.cv = cv
        self.learn_weights = learn_weights
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None, memo: Memo | None = None) -> Self:
        """Fit to X of shape (n_samples, n_features) and positive y of shape (n_samples,); groups shape inner folds.

        ``memo``, where given, may have models fitted to these rows.

        Raises
        ------
        ValueError
            For a target that is not positive, and what the models raise.
        """
        X = check_table(self, X, reset=True)
        y = check_positive_target(self, check_target(self, X, y))
        if self.parts is None:
            parts = [("additive", AdditiveTime()), ("residual", LogResidual())]
        else:
            parts = self.parts
        weights = np.full(len(parts), 1 / len(parts))
        if self.learn_weights and len(y) > len(parts):
            held, logs = self._out_of_fold(parts, X, y, groups)
            weights = self._learnt(logs, np.log(y[held]))
        self.weights_ = {
            name: round(float(weight), 12) for (name, _), weight in zip(parts, weights, strict=True)
        }
        self.parts_ = [
            fit(clone(model), X, y, groups, memo=memo)
            for name, model in parts
            if self.weights_[name] > 0
        ]
        self.selected_features_ = all_selected(self.parts_, feature_names(self))
        return self

    def _learnt(self, logs: np.ndarray, log_y: np.ndarray) -> np.ndarray:
        """Return the weights (n_models,) for the logarithms of held-out predictions (n_samples, n_models) and of y."""
        return simplex_weights(logs, log_y)

    def _out_of_fold(
        self, parts: Sequence[tuple[str, Any]], X: Any, y: np.ndarray, groups: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows left out, (n_left_out,), and the logarithm of each model's predictions of them."""
        rows = np.empty(0, dtype=np.intp)
        logs = np.empty((0, len(parts)))
        labels = None
        if groups is not None:
            labels = np.asarray(groups)
        for train, held_out in inner_folds(self.cv, len(y), groups, self.random_state):
            X_train = rows_of(X, train)
            unknown = rows_of(X, held_out)
            memo = Memo()
            groups_here = None
            if labels is not None:
                groups_here = labels[train]
            fitted = [
                fit(clone(model), X_train, y[train], groups_here, memo=memo) for _, model in parts
            ]
            rows = np.r_[rows, held_out]
            logs = np.vstack(
                [logs, np.column_stack([log_predictions(model, unknown) for model in fitted])]
            )
            if len(rows) >= ENOUGH_ROWS and (
                labels is None or len(np.unique(labels[rows])) >= ENOUGH_GROUPS
            ):
                break
        order = np.argsort(rows)
        return rows[order], logs[order]

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions in the unit of y, shape (n_samples,), all positive."""
        check_is_fitted(self, "parts_")
        X = check_table(self, X, reset=False)
        weights = [weight for weight in self.weights_.values() if weight > 0]
        logs = [
            w * log_predictions(model, X) for w, model in zip(weights, self.parts_, strict=True)
        ]
        return np.exp(np.sum(logs, axis=0))


class CrossFitted(PositiveRegressor):
    """The geometric mean of one model fitted without each of several folds: an ensemble with honest training values.

    Every training row is left out by exactly one member, so `fit_out_of_fold` returns a prediction
    of each row by a model that has not seen it (nor, with groups, its group) for the price of
    fitting the ensemble once.

    Parameters
    ----------
    regressor : regressor, default=None
        `LogResidual` where None.
    cv : int, default=5
        Number of folds and members.
    random_state : int, default=0
        Seed of shuffled folds.

    Attributes
    ----------
    members_ : list of regressors
        One per fold.
    selected_features_ : list of str
        What any of them uses.
    """

    def __init__(self, regressor: Any = None, *, cv: int = 5, random_state: int | None = 0) -> None:
        self.regressor = regressor
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to X of shape (n_samples, n_features) and positive y of shape (n_samples,)."""
        self.fit_out_of_fold(X, y, groups)
        return self

    def fit_out_of_fold(self, X: Any, y: Any, groups: Any = None) -> np.ndarray:
        """Fit, and return for every training row the prediction of the member that has not seen it, (n_samples,)."""
        X = check_table(self, X, reset=True)
        y = check_positive_target(self, check_target(self, X, y))
        if self.regressor is None:
            model = LogResidual()
        else:
            model = self.regressor
        left_out = np.empty(len(y))
        self.members_ = []
        for train, held_out in inner_folds(self.cv, len(y), groups, self.random_state):
            groups_here = None
            if groups is not None:
                groups_here = groups[train]
            member = fit(clone(model), rows_of(X, train), y[train], groups_here)
            left_out[held_out] = np.exp(log_predictions(member, rows_of(X, held_out)))
            self.members_.append(member)
        self.selected_features_ = all_selected(self.members_, feature_names(self))
        return left_out

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions in the unit of y, shape (n_samples,), all positive."""
        return np.exp(self.log_members(X).mean(axis=0))

    def log_members(self, X: Any) -> np.ndarray:
        """Return the logarithm of each member's predictions, shape (n_members, n_samples)."""
        check_is_fitted(self, "members_")
        X = check_table(self, X, reset=False)
        return np.array([log_predictions(member, X) for member in self.members_])


SHAPE_TIME = "shape_us"  # the column added: the time the shape model predicts, in the unit of y
LEAST_SHARE = 0.01
HOST_CAMPAIGN = "host_campaign="
"""Campaigns with fewer of the paired rows than that share have no column; how the columns of the host's begin."""


class Transfer(PositiveRegressor):
    """A model of time that first learns shape -> time from all target rows, paired with a host time or not.

    With ``shape_columns`` given, rows with NaN in another column are unpaired: they train the shape
    model only. The shape model's prediction becomes the column ``shape_us`` of the paired rows (for
    training rows, that of the cross-fitted member that has not seen the row's fold), and the second
    model is fitted to the paired rows with it.

    Parameters
    ----------
    shape_model : CrossFitted, default=None
        shape -> time.
    regressor : regressor, default=None
        The second model; `GeometricStack` where None.
    shape_columns : sequence of str, optional
        What the shape model sees, by name. All columns where None or where X has no names; NaN is
        refused then.

    Attributes
    ----------
    shape_model_, regressor_ : regressor
        The fitted clones.
    shape_columns_ : list of int
        Positions of the columns the shape model sees.
    campaigns_ : list of str
        The tuning campaigns it sees as columns too; none where `fit` got none or one.
    campaign_models_ : list of ExtraTreesRegressor
        What says of a shape how like those of each campaign it is: rows to predict do not state
        theirs.
    host_campaigns_ : ndarray of shape (n_host_campaigns, n_campaigns)
        What says so where `fit` got groups: how many groups of each of the host's campaigns are of
        each campaign.
    selected_features_ : list of str
        Columns of X that either model uses.
    """

    _second: type[PositiveRegressor] = GeometricStack

    def __init__(
        self,
        shape_model: Any = None,
        regressor: Any = None,
        *,
        shape_columns: Sequence[str] | None = None,
    ) -> None:
        self.shape_model = shape_model
        self.regressor = regressor
        self.shape_columns = shape_columns

    def fit(
        self, X: Any, y: Any, groups: Any = None, memo: Memo | None = None, campaigns: Any = None
    ) -> Self:
        """Fit to X of shape (n_samples, n_features), NaN in unpaired rows, and positive y of shape (n_samples,).

        ``memo``, where given, may have the shape model, and what the second one needs.
        ``campaigns`` (n_samples,), where given, name the search for kernels that found each row's
        time: two find different times for one shape. The shape of a new group does not tell its
        campaign: where there are groups, that of most groups of the host's campaign is taken
        (columns ``host_campaign=``), and they play no part where X does not state it.

        Raises
        ------
        ValueError
            For a target that is not positive, and where no row is paired.
        """
        y = check_positive_target(self, check_target(self, X, y))
        nan = "allow-nan"
        if self.shape_columns is None:
            nan = True
        values = validate_data(
            self, X, dtype=np.float64, ensure_all_finite=nan, ensure_min_samples=2
        )
        names = feature_names(self)
        self.shape_columns_ = Columns(self.shape_columns).fit(X).columns_
        paired = np.isfinite(values).all(axis=1)
        if not paired.any():
            raise ValueError("Transfer needs rows without NaN to learn from: there is none")
        if self.shape_model is None:
            shape_model = CrossFitted()
        else:
            shape_model = clone(self.shape_model)
        shapes = self._fit_campaigns(values, paired, groups, campaigns)
        self.shape_model_, shape_time = (memo or Memo()).of_fit(
            shape_model,
            shapes,
            y,
            groups,
            lambda: (shape_model, shape_model.fit_out_of_fold(shapes, y, groups)),
        )
        groups_paired = None
        if groups is not None:
            groups_paired = np.asarray(groups)[paired]
        self._fit_regressor(
            self.with_shape(values[paired], shape_time[paired]), y[paired], groups_paired, memo
        )
        self.selected_features_ = all_selected([self.shape_model_, self.regressor_], names)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions in the unit of y, shape (n_samples,), all positive.

        Raises
        ------
        ValueError
            For NaN in X: rows to predict need a host time.
        """
        check_is_fitted(self, "regressor_")
        values = rows_to_predict(self, X)
        return self.regressor_.predict(
            self.with_shape(values, self.shape_model_.predict(self.shapes(values)))
        )

    def _fit_regressor(
        self, X: pd.DataFrame, y: np.ndarray, groups: Any, memo: Memo | None
    ) -> None:
        """Fit the second model to the paired rows with their shape time."""
        if self.regressor is None:
            regressor = self._second()
        else:
            regressor = clone(self.regressor)
        self.regressor_ = fit(regressor, X, y, groups, memo=memo)

    def _fit_campaigns(
        self, values: np.ndarray, paired: np.ndarray, groups: Any, campaigns: Any
    ) -> pd.DataFrame:
        """Learn from the paired rows which campaign a row is of; return what the shape model is fitted to."""
        self.campaigns_ = list[str]()
        self.campaign_models_ = list[ExtraTreesRegressor]()
        shape_values = values[:, self.shape_columns_]
        hosts = self._of_hosts(values)
        if campaigns is None:
            campaign_of_row = None
        else:
            campaign_of_row = np.asarray(campaigns, dtype=str)
        if (
            campaign_of_row is None
            or len(np.unique(campaign_of_row)) < 2
            or (groups is not None and not hosts.size)
        ):
            return self.shapes(values)
        levels, counts = np.unique(campaign_of_row[paired], return_counts=True)
        levels = levels[counts >= LEAST_SHARE * paired.sum()]
        of_level = (campaign_of_row[:, np.newaxis] == levels).astype(np.float64)
        self.campaigns_ = levels.tolist()
        if groups is None:
            trees = ExtraTreesRegressor(10, random_state=0)
            self.campaign_models_ = [
                clone(trees).fit(shape_values[paired], one) for one in of_level[paired].T
            ]
        else:
            _, group, sizes = np.unique(
                np.asarray(groups)[paired], return_inverse=True, return_counts=True
            )
            self.host_campaigns_ = (hosts[paired] / sizes[group, np.newaxis]).T @ of_level[paired]
        return self._named(np.column_stack([shape_values, of_level]))

    def _of_hosts(self, values: np.ndarray) -> np.ndarray:
        return values[:, [name.startswith(HOST_CAMPAIGN) for name in feature_names(self)]]

    def shapes(self, values: np.ndarray) -> pd.DataFrame:
        """Return what the shape model sees of X as an array, of the campaign that is the most likely for each row."""
        shape_values = values[:, self.shape_columns_]
        if not self.campaigns_:
            return self._named(shape_values)
        if self.campaign_models_:
            scores = np.transpose(
                [predicted_by(model, shape_values) for model in self.campaign_models_]
            )
        else:  # where the host's campaign decides nothing, that of most groups
            scores = self._of_hosts(
                values
            ) @ self.host_campaigns_ + 1e-3 * self.host_campaigns_.sum(axis=0)
        return self._named(
            np.c_[shape_values, np.eye(len(self.campaigns_))[settled(scores).argmax(axis=1)]]
        )

    def _named(self, shapes: np.ndarray) -> pd.DataFrame:
        columns = np.asarray(feature_names(self), dtype=object)[self.shape_columns_]
        extra = [f"campaign={name}" for name in self.campaigns_]
        return pd.DataFrame(shapes, columns=[*columns, *extra])

    def with_shape(self, values: np.ndarray, shape_time: np.ndarray) -> pd.DataFrame:
        """Return what the second model sees: X as an array, and what the shape model says."""
        return pd.DataFrame(
            np.column_stack([values, shape_time]), columns=[*feature_names(self), SHAPE_TIME]
        )

    def __sklearn_tags__(self) -> Tags:
        """Say that, with ``shape_columns``, NaN marks unpaired rows."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.shape_columns is not None
        return tags


class PrecisionTransfer(Transfer):
    """The mean of the shape model and a second one (a line in the host's time), each by the inverse of its variance.

    ``log t = w log t_shape + (1 - w) log t_second`` with ``w = L² / (L² + S² + J²)``: L and S are
    the errors on the paired rows of the second model and, out of fold, of the shape model (mean
    absolute residuals of the logarithm, as standard deviations; groups count alike): the second
    model must be one of few coefficients, whose error on the rows it is fitted to is its error.
    ``J² = (g - 1) · variance of the g members`` is the grouped jackknife's variance of the shape
    model at the row: far from what it has seen its members part, and the second model takes over.

    Parameters
    ----------
    shape_model : CrossFitted, default=None
        shape -> time.
    regressor : regressor, default=None
        The second model, of few coefficients; `AdditiveTime` where None.
    shape_columns : sequence of str, optional
        As `Transfer`'s.

    Attributes
    ----------
    variances_ : list of float
        L² and S².

    References
    ----------
    J. M. Bates and C. W. J. Granger, The combination of forecasts, Operational Research Quarterly
    20 (1969) 451. B. Efron, The Jackknife, the Bootstrap and Other Resampling Plans, SIAM (1982),
    section 2.
    """

    _second = AdditiveTime

    def _fit_regressor(
        self, X: pd.DataFrame, y: np.ndarray, groups: Any, memo: Memo | None
    ) -> None:
        super()._fit_regressor(X, y, groups, memo)
        logs_of_parts = log_predictions(self.regressor_, X), np.log(X[SHAPE_TIME].to_numpy())
        errors = pd.DataFrame(np.abs(np.column_stack(logs_of_parts) - np.log(y)[:, np.newaxis]))
        if groups is not None:  # a new group is like any of them, however many rows it has
            errors = errors.groupby(np.asarray(groups, dtype=str)).mean()
        self.variances_ = [float(np.pi / 2 * error**2) for error in errors.mean()]

    def predict(self, X: Any) -> np.ndarray:
        """Return predictions in the unit of y, shape (n_samples,), all positive.

        Raises
        ------
        ValueError
            For NaN in X: rows to predict need a host time.
        """
        weight, shape, second = self.mixed(X)
        return np.exp(weight * shape + (1.0 - weight) * second)

    def mixed(self, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the shape model's weight, and the logarithms of what it and the second one say, (n_samples,) each."""
        check_is_fitted(self, "regressor_")
        values = rows_to_predict(self, X)
        members = self.shape_model_.log_members(self.shapes(values))
        shape = members.mean(axis=0)
        second = log_predictions(self.regressor_, self.with_shape(values, np.exp(shape)))
        between, average = self.variances_
        unsure = average + (len(members) - 1) * members.var(axis=0)
        return between / np.maximum(between + unsure, _TINY), shape, second
