"""Which features matter to a model: by what shuffling them costs on rows held out, by p-values, by the RSS.

Beside what shuffling costs stands which way the prediction goes as the feature rises, and in how
many folds the model chose it. All of it is a hint, not a cause: features that say the same share
their importance and trade their signs.

Rows that have chosen the features of a model cannot test them: of features of pure noise that a
stepwise search lists, its t-tests call 38 to 100 % significant. So half of the groups choose,
and the other half tests what was chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from ..arrays import FloatArray, IntArray
from ..models.base import Candidate, nested, selected_features
from ..models.suite import RELATIVE
from ..workers import one_thread
from .campaigns import Campaigns
from .competition import fit_all, hub_of
from .folds import LearningData, drawn, hosts_of, learnable, make_folds
from .metrics import ape, finite

P_VALUE: Final = "p-value"
RSS: Final = "RSS decrease (%)"
PERMUTATION: Final = "permutation importance (points of error)"
SIGNIFICANT: Final = 0.05  # features with a larger p-value are not told from noise
LEAST_GROUPS: Final = 8  # fewer leave too few for either half to choose or to test by
FOLDS: Final = 3  # of groups, for what shuffling costs: each is predicted by a fit to the other two
REPEATS: Final = 3
MOST_ROWS: Final = 1000  # rows shuffled, of all folds together
MOST_TRAINED: Final = 25_000
"""Rows that a fit without a fold is made to, and asked about: which features matter does not change from there on."""
MOST_RISEN: Final = 50  # rows of which the prediction is looked at as a feature rises
_ROWS_AT_ONCE: Final = 30_000  # rows predicted at once, of shuffled copies


def ranking(
    dataset: LearningData, model: Candidate, scheme: str, seed: int
) -> list[dict[str, Any]]:
    """Rank a model's features by the cost of shuffling them, or by p-values, the most important first; fit for JSON.

    Each has ``feature``, ``measure``, ``value``, ``significant`` (p <= `SIGNIFICANT`; None for
    other measures) and ``model``; of shuffling also ``selected`` (None where the model cannot say)
    of ``folds``, and ``sign``: ``+`` or ``-`` where the prediction rises or falls with it in all
    folds, ``±`` where in some, ``""`` where it does not look at it. There are p-values of least
    squares on selected columns alone: in a fit to all columns each is the worth of a column beside
    every other, and near copies take it from one another.
    """
    if model.selects_features and model.tests_features:
        values = split_p_values(dataset, model, scheme, seed)
        return _table(P_VALUE, f"{P_VALUE} on groups that did not choose", model, values)
    importance, facts = held_out_importance(dataset, model, scheme, seed)
    return _table(PERMUTATION, f"{PERMUTATION}, groups left out", model, importance, facts)


def ranking_by_rss(fitted: Any, model: Candidate) -> list[dict[str, Any]]:
    """Rank the features of a fitted forest by `rss_decrease`, as `ranking` does; empty for other models."""
    return _table(RSS, RSS, model, rss_decrease(fitted))


def held_out_importance(
    dataset: LearningData, model: Candidate, scheme: str, seed: int
) -> tuple[dict[str, float], dict[str, dict[str, Any]]]:
    """Return the cost of shuffling each feature on rows that the fit has not seen, in percentage points of the MAPE.

    Beside it ``selected``, ``folds`` and ``sign`` of each, as `ranking` gives them. Groups are left
    out in `FOLDS` folds (rows, where there is one group), and `permutation_importance` of each fold
    is weighted by its rows.
    """
    groups = dataset.groups.astype(str)
    n = len(dataset.y)
    several = len(np.unique(groups)) > 1 and hub_of(groups, hosts_of(dataset)) is None
    folds = make_folds("grouped" if several else "kfold", groups, n, folds=min(FOLDS, n), seed=seed)
    shares: dict[str, float] = {}
    chosen = Counter[str]()
    ways = list[dict[str, float]]()
    selects = False
    with one_thread():
        for fold in np.unique(folds):
            left_out = folds == fold
            fitted = _fitted_without(
                dataset, model, scheme, left_out, groups if several else None, MOST_TRAINED
            )
            share = float(left_out.mean())
            max_rows = max(int(MOST_ROWS * left_out.mean()), 1)
            asked = drawn(left_out, MOST_TRAINED)
            X = dataset.X[asked]
            y = dataset.y[asked]
            one = permutation_importance(
                fitted, X, y, repeats=REPEATS, seed=seed, max_rows=max_rows
            )
            shares = {name: shares.get(name, 0.0) + share * value for name, value in one.items()}
            names = selected_features(fitted)
            selects = names is not None
            chosen.update(names or ())
            ways.append(rises(fitted, X))
    facts = {}
    for name in shares:
        signs = {np.sign(way[name]) for way in ways}
        if signs == {0.0}:
            sign = ""
        elif signs <= {1.0, 0.0}:
            sign = "+"
        elif signs <= {-1.0, 0.0}:
            sign = "-"
        else:
            sign = "±"
        facts[name] = {
            "selected": chosen[name] if selects else None,
            "folds": len(ways),
            "sign": sign,
        }
    return shares, facts


def rises(fitted: Any, X: pd.DataFrame) -> dict[str, float]:
    """Return by how much the mean prediction rises from a low to a high value of each feature, the others as they are.

    Low and high are the quartiles of the rows, least and greatest where these are equal;
    `MOST_RISEN` rows at most.
    """
    values = X.to_numpy(dtype=np.float64)
    rows = values[np.linspace(0, len(values) - 1, min(MOST_RISEN, len(values))).astype(int)]
    lower, upper = np.quantile(values, [0.25, 0.75], axis=0)
    differ = upper > lower
    low = np.where(differ, lower, values.min(axis=0))
    high = np.where(differ, upper, values.max(axis=0))
    at_once = max(_ROWS_AT_ONCE // (2 * len(rows)), 1)
    change = np.zeros(X.shape[1])
    for first in range(0, X.shape[1], at_once):
        columns = range(first, min(first + at_once, X.shape[1]))
        copies = np.tile(rows, (2 * len(columns), 1))
        moved = copies.reshape(len(columns), 2, len(rows), X.shape[1])
        for block, column in enumerate(columns):
            moved[block, 0, :, column] = low[column]
            moved[block, 1, :, column] = high[column]
        predicted = np.asarray(
            fitted.predict(pd.DataFrame(moved.reshape(-1, X.shape[1]), columns=X.columns))
        )
        means = predicted.reshape(len(columns), 2, len(rows)).mean(axis=2)
        rise = means[:, 1] - means[:, 0]
        change[first : first + len(rise)] = np.where(
            np.abs(rise) > 1e-9 * np.abs(means).max(), rise, 0.0
        )
    return dict(zip(map(str, X.columns), change.tolist(), strict=True))


def _fitted_without(
    dataset: LearningData,
    model: Candidate,
    scheme: str,
    left_out: np.ndarray,
    groups: np.ndarray | None,
    max_rows: int | None = None,
    *,
    of_unpaired: np.ndarray | None = None,
) -> Any:
    """Return the model fitted to the others, or so many of them; what else is of groups left out is left out too.

    ``of_unpaired`` are the groups of unpaired rows, by default theirs.
    """
    unpaired: Any = slice(None)
    if groups is not None and dataset.unpaired is not None:
        if of_unpaired is None:
            of_unpaired = dataset.unpaired.groups.astype(str)
        unpaired = ~np.isin(of_unpaired, groups[left_out])
    if groups is None:
        others = ~left_out
    else:
        others = learnable(left_out, groups, hosts_of(dataset))
    return fit_all(dataset, model, scheme, drawn(others, max_rows or len(left_out)), unpaired)


def split_p_values(
    dataset: LearningData, model: Candidate, scheme: str, seed: int
) -> dict[str, float]:
    """Return p-values of the features that one half of the groups chooses, tested on the other half.

    Empty with fewer than `LEAST_GROUPS` groups; NaN where a coefficient cannot be estimated without
    each of the groups that test. Where groups come in campaigns, these are the groups of the test:
    a feature that is constant within a campaign is a guess at what campaigns differ by.

    Notes
    -----
    Sample splitting [1]_ with the weights of the model's fit. Rows of one group err together,
    so standard errors are those of the cluster jackknife (CV3) with Student's t of the testing
    groups less one, as in [2]_.

    References
    ----------
    .. [1] D. R. Cox, "A note on data-splitting for the evaluation of significance levels", Biometrika 62(2), 1975.
    .. [2] J. G. MacKinnon, M. Ø. Nielsen, M. D. Webb, "Fast and reliable jackknife and bootstrap methods for
       cluster-robust inference", Journal of Applied Econometrics 38(5), 2023.
    """
    groups = dataset.groups.astype(str)
    unpaired = None
    if dataset.unpaired is not None:
        unpaired = dataset.unpaired.groups.astype(str)
    families = Campaigns.of_data(dataset)
    if families is not None and hosts_of(dataset) is None:
        groups, unpaired = families[1]
    if len(np.unique(groups)) < LEAST_GROUPS:
        return {}
    tests = make_folds("grouped", groups, len(groups), folds=2, seed=seed) == 1
    fitted = _fitted_without(dataset, model, scheme, tests, groups, of_unpaired=unpaired)
    names = selected_features(fitted) or []
    if not names:
        return {}
    y = dataset.y[tests]
    if model.space == RELATIVE:
        weights = (y.min() / y) ** 2
    else:
        weights = np.ones(len(y))
    codes = np.unique(groups[tests], return_inverse=True)[1]
    values = _jackknife_p_values(
        dataset.X.loc[tests, names].to_numpy(dtype=np.float64), y, weights, codes
    )
    return dict(zip(names, values.tolist(), strict=True))


def _jackknife_p_values(
    X: FloatArray, y: FloatArray, weights: FloatArray, codes: IntArray
) -> FloatArray:
    """Return two-sided p-values of the columns of X beside a constant, by leaving out one group after the other."""
    middle = np.average(X, axis=0, weights=weights)
    scale = np.sqrt(np.average((X - middle) ** 2, axis=0, weights=weights))
    scaled = np.divide(X, scale, out=np.zeros_like(X), where=scale > 0)
    design = np.column_stack([np.ones(len(X)), scaled])
    design = design * np.sqrt(weights)[:, None]
    target = y * np.sqrt(weights)
    count = int(codes.max()) + 1
    coefficients = []
    estimable = np.ones(design.shape[1], dtype=bool)
    for rows in (np.ones(len(y), dtype=bool), *(codes != group for group in range(count))):
        left, values, right = np.linalg.svd(design[rows], full_matrices=False)
        kept = values > 1e-9 * values[0]
        turned = (left[:, kept].T @ target[rows]) / values[kept]
        coefficients.append(right[kept].T @ turned)
        # else the rows do not tell this coefficient from others
        estimable &= np.sum(right[kept] ** 2, axis=0) > 1 - 1e-6
    whole = coefficients[0]
    without = np.array(coefficients[1:])
    error = np.sqrt((count - 1) / count * np.sum((without - whole) ** 2, axis=0))
    t = np.divide(np.abs(whole), error, out=np.full_like(whole, np.inf), where=error > 0)
    p_values = 2 * np.asarray(stats.t.sf(t, count - 1))
    return np.where(estimable, p_values, np.nan)[1:]


def permutation_importance(
    fitted: Any,
    X: pd.DataFrame,
    y: ArrayLike,
    *,
    repeats: int = 5,
    seed: int = 0,
    max_rows: int = 2000,
) -> dict[str, float]:
    """Mean increase of the MAPE, in percentage points, when a feature's values are shuffled among the rows.

    Features that say the same share their importance (Breiman 2001, Machine Learning 45:5, section
    10): a small value does not mean that a feature is useless on its own.

    Each feature is shuffled ``repeats`` times; its values do not depend on the other features'
    shuffles. Of more than ``max_rows`` rows a sample of so many is used.
    """
    target = np.asarray(y, dtype=np.float64)
    if len(target) > max_rows:
        kept = np.sort(np.random.default_rng(seed).choice(len(target), max_rows, replace=False))
        X = X.iloc[kept]
        target = target[kept]
    baseline = ape(target, fitted.predict(X)).mean()
    values = X.to_numpy(dtype=np.float64)
    rows = repeats * len(X)
    at_once = max(_ROWS_AT_ONCE // rows, 1)
    increase = {}
    # many columns in one prediction: each has its price
    for first in range(0, X.shape[1], at_once):
        columns = range(first, min(first + at_once, X.shape[1]))
        shuffled = np.tile(values, (repeats * len(columns), 1))
        for block, column in enumerate(columns):
            rng = np.random.default_rng([seed, column])
            mixed = [rng.permutation(values[:, column]) for _ in range(repeats)]
            shuffled[block * rows : (block + 1) * rows, column] = np.concatenate(mixed)
        predicted = np.asarray(fitted.predict(pd.DataFrame(shuffled, columns=X.columns)))
        for column, answers in zip(columns, predicted.reshape(len(columns), rows), strict=True):
            more = float(ape(np.tile(target, repeats), answers).mean() - baseline)
            # 0 where the model does not look at it
            increase[str(X.columns[column])] = round(more, 9) + 0.0
    return increase


def rss_decrease(fitted: Any) -> dict[str, float]:
    """Share of a forest's decrease of the residual sum of squares that splits on each feature bring, in percent.

    The mean decrease in impurity of regression trees (Breiman et al. 1984), scikit-learn's
    ``feature_importances_``, which sum to 1; empty for a model that has none. Columns on which no
    tree splits have 0. Where the columns that the forest was given have no names, they are x0, x1,
    ...
    """
    handed_on: list[list[str]] = []  # what the layers outside may have handed on, the nearest last
    for layer in nested(fitted):
        given, selected = (
            _words(getattr(layer, name, None))
            for name in ("feature_names_in_", "selected_features_")
        )
        values = getattr(layer, "feature_importances_", None)
        if values is not None:
            fitting = [names for names in (*handed_on, given) if len(names) == len(values)]
            if fitting:
                names = fitting[-1]
            else:
                names = [f"x{column}" for column in range(len(values))]
            return {name: 100.0 * float(value) for name, value in zip(names, values, strict=True)}
        handed_on += [given, selected]
    return {}


def _words(names: Any) -> list[str]:
    if names is None:
        return []
    return [str(name) for name in names]


def _table(
    measure: str,
    said: str,
    model: Candidate,
    values: dict[str, float],
    facts: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Return rows of one measure, the most important first (a small p-value, or a large decrease or increase)."""
    ascending = measure == P_VALUE
    ordered = sorted(
        values.items(),
        key=lambda item: (np.isnan(item[1]), item[1] if ascending else -item[1], item[0]),
    )
    return [
        {
            "feature": name,
            "measure": f"{said}, {model.name}",
            "value": finite(value),
            "significant": bool(value <= SIGNIFICANT) if ascending else None,
            "model": model.name,
            **(facts or {}).get(name, {}),
        }
        for name, value in ordered
    ]
