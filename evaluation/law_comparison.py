"""Which simple law explains what the target measured best, out of sample: the analytic ones and two fitted ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.base import clone

from ..features.quantity import quantity
from ..models.analytic import Affine, ConstantRatio
from .cluster_bootstrap import bootstrap, effective_groups, percentile_interval
from .schemes import make_folds
from .verdicts import ALPHA, Interval

HOST = "host"
CONSTANT = "constant ratio"


@dataclass(frozen=True)
class Explanation:
    """How well one law explains a class out of sample.

    Attributes
    ----------
    law : str
        Its name: a column of ``Dataset.laws``, ``"constant ratio"`` or that of `affine`, ``"affine a + b·t_host"``.
    mape : Interval
        Mean absolute percentage error in percent, with its cluster-bootstrap interval.
    as_good_as_best : bool
        Whether the paired bootstrap cannot tell it from the law of lowest error; True for that law itself.
    parameters : dict of str to float
        Of the fit to all rows of the class: ``{"ratio": c}`` or ``{"a_us": a, "b": b}``, a in the unit of the metric
        (``a_j`` of energies); empty for analytic laws.
    """

    law: str
    mape: Interval
    as_good_as_best: bool
    parameters: dict[str, float]


def affine(metric: str) -> str:
    """Return the name of the line fitted to a metric, e.g. ``affine a + b·t_host``."""
    return f"affine a + b·{quantity(metric).symbol}_host"


def compare_laws(
    target: np.ndarray,
    host: np.ndarray,
    laws: pd.DataFrame,
    groups: np.ndarray,
    *,
    metric: str = "duration_us",
    folds: int = 10,
    replicates: int = 2000,
    seed: int = 0,
) -> tuple[Explanation, ...]:
    """Score every law on rows whose groups its fit has not seen, best first.

    Parameters
    ----------
    target, host : ndarray of shape (n,)
        What was measured on the target and the host, positive.
    laws : DataFrame of shape (n, laws)
        The target's values by the analytic laws, which fit nothing; positive.
    groups : ndarray of shape (n,)
        What must not be split between training and validation.
    metric : str, default="duration_us"
        What was measured; its unit is that of the values.
    folds : int, default=10
        Grouped folds of the two fitted laws; one group each where groups are fewer.
    replicates, seed : int
        Of the cluster bootstrap, and the seed of the folds.

    Returns
    -------
    tuple of Explanation
        In order of error. The errors are out of sample; that the first is the smallest of several is not corrected
        for, which is why `Explanation.as_good_as_best` marks its equals.
    """
    X = pd.DataFrame({HOST: host})
    fold = make_folds("grouped", groups, len(groups), folds=folds, seed=seed)
    predictions = {str(name): laws[name].to_numpy(dtype=float) for name in laws}
    parameters: dict[str, dict[str, float]] = {name: {} for name in predictions}
    for name, model in {CONSTANT: ConstantRatio(HOST), affine(metric): Affine(HOST)}.items():
        predictions[name] = _out_of_fold(model, X, target, fold)
        parameters[name] = _parameters(clone(model).fit(X, target), quantity(metric).suffix)
    names = list(predictions)
    ape = 100 * np.abs(np.column_stack([predictions[name] for name in names]) / target[:, None] - 1)
    mape = ape.mean(axis=0)
    draws = bootstrap(lambda rows: ape[rows].mean(axis=0), groups, replicates=replicates, seed=seed)
    best = int(np.argmin(mape))
    level, count = 1 - 2 * ALPHA, effective_groups(groups)
    lower, upper = percentile_interval(draws, count, level=level)
    worse_by, _ = percentile_interval(draws - draws[:, [best]], count, level=level)
    return tuple(
        Explanation(
            law=names[j],
            mape=Interval(float(mape[j]), float(lower[j]), float(upper[j]), level),
            as_good_as_best=bool(worse_by[j] <= 0),
            parameters=parameters[names[j]],
        )
        for j in np.argsort(mape, kind="stable")
    )


def _out_of_fold(model: ConstantRatio | Affine, X: pd.DataFrame, y: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Predict each fold by a fit to the others."""
    predicted = np.empty(len(y))
    for k in np.unique(fold):
        held_out = fold == k
        predicted[held_out] = clone(model).fit(X[~held_out], y[~held_out]).predict(X[held_out])
    return predicted


def _parameters(fitted: ConstantRatio | Affine, unit: str) -> dict[str, float]:
    """Return the coefficients of a fitted law by their names in validation.json."""
    if isinstance(fitted, Affine):
        return {f"a_{unit}": fitted.intercept_, "b": fitted.ratio_}
    return {"ratio": fitted.ratio_}
