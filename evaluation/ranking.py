"""Which features matter to a fitted model: p-values, decrease of the RSS, permutation importance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..models.base import p_values
from .metrics import ape, finite

P_VALUE: Final = "p-value"
RSS: Final = "RSS decrease (%)"
PERMUTATION: Final = "permutation (points of MAPE)"
SIGNIFICANT: Final = 0.05
"""Features with a larger p-value are not told from noise."""

_WRAPPED = ("regressor_", "estimator_", "best_estimator_")

FloatArray = NDArray[np.float64]


def rank(
    fitted: Any, X: pd.DataFrame, y: ArrayLike, *, repeats: int = 5, seed: int = 0, max_rows: int = 2000
) -> list[dict[str, Any]]:
    """Rank the features of a fitted model by every measure that the model allows.

    Parameters
    ----------
    fitted : fitted regressor
        Looked into through pipelines and wrappers.
    X : DataFrame of shape (n, p)
        Rows to permute features in.
    y : array-like of shape (n,)
        Measured values, > 0.
    repeats, seed, max_rows : int
        Of the permutation importance.

    Returns
    -------
    list of dict
        JSON-ready rows ``feature``, ``measure``, ``value``, ``significant`` (p <= 0.05; None for other measures); the
        measures one after the other, the most important feature of each first.
    """
    return [
        *_table(P_VALUE, p_values(fitted) or {}),
        *_table(RSS, rss_decrease(fitted)),
        *_table(PERMUTATION, permutation_importance(fitted, X, y, repeats=repeats, seed=seed, max_rows=max_rows)),
    ]


def permutation_importance(
    fitted: Any, X: pd.DataFrame, y: ArrayLike, *, repeats: int = 5, seed: int = 0, max_rows: int = 2000
) -> dict[str, float]:
    """Mean increase of the MAPE, in percentage points, when a feature's values are shuffled among the rows.

    Features that say the same share their importance (Breiman 2001, Machine Learning 45:5, section 10): a small value
    does not mean that a feature is useless on its own.

    Parameters
    ----------
    fitted : fitted regressor
        Predicts from a DataFrame.
    X, y
        Rows and their measured values, > 0.
    repeats, seed : int
        Shuffles per feature, and their seed; the values of a feature do not depend on the other features' shuffles.
    max_rows : int
        Of more rows a sample of this many is used.
    """
    target = np.asarray(y, dtype=np.float64)
    if len(target) > max_rows:
        kept = np.sort(np.random.default_rng(seed).choice(len(target), max_rows, replace=False))
        X, target = X.iloc[kept], target[kept]
    baseline = ape(target, fitted.predict(X)).mean()
    columns = list(X.columns)
    increase = {}
    for number, column in enumerate(columns):
        rng = np.random.default_rng([seed, number])
        shuffled = X.copy()
        values = X[column].to_numpy()
        errors = []
        for _ in range(repeats):
            shuffled[column] = rng.permutation(values)
            errors.append(ape(target, fitted.predict(shuffled)).mean())
        increase[str(column)] = float(np.mean(errors) - baseline)
    return increase


def rss_decrease(fitted: Any) -> dict[str, float]:
    """Share of a forest's decrease of the residual sum of squares that splits on each feature bring, in percent.

    The mean decrease in impurity of regression trees (Breiman et al. 1984), scikit-learn's ``feature_importances_``,
    which sum to 1; empty for a model that has none. Columns on which no tree splits have 0. Where the columns that the
    forest was given have no names, they are x0, x1, ...
    """
    handed_on: list[list[str]] = []  # what the layers outside may have handed on, the nearest last
    for layer in _layers(fitted):
        given, selected = (_words(getattr(layer, name, None)) for name in ("feature_names_in_", "selected_features_"))
        values = getattr(layer, "feature_importances_", None)
        if values is not None:
            fitting = [names for names in (*handed_on, given) if len(names) == len(values)]
            names = fitting[-1] if fitting else [f"x{column}" for column in range(len(values))]
            return {name: 100.0 * float(value) for name, value in zip(names, values, strict=True)}
        handed_on += [given, selected]
    return {}


def _layers(fitted: Any) -> Iterator[Any]:
    """Yield an estimator and what it wraps, from the outside in."""
    seen: set[int] = set()
    while fitted is not None and id(fitted) not in seen:
        seen.add(id(fitted))
        yield fitted
        steps = getattr(fitted, "steps", None)
        inner = [getattr(fitted, name, None) for name in _WRAPPED]
        fitted = steps[-1][1] if steps else next((found for found in inner if found is not None), None)


def _words(names: Any) -> list[str]:
    return [] if names is None else [str(name) for name in names]


def _table(measure: str, values: dict[str, float]) -> list[dict[str, Any]]:
    """Return rows of one measure, the most important first (a small p-value, or a large decrease or increase)."""
    ascending = measure == P_VALUE
    ordered = sorted(values.items(), key=lambda item: (np.isnan(item[1]), item[1] if ascending else -item[1], item[0]))
    return [
        {
            "feature": name,
            "measure": measure,
            "value": finite(value),
            "significant": bool(value <= SIGNIFICANT) if measure == P_VALUE else None,
        }
        for name, value in ordered
    ]
