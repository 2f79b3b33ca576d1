"""Recursive elimination against a slow one that fits anew at every step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import feature_selection
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels.regression import linear_model
from statsmodels.tools import add_constant

from flopcast.models.base import DroppedColumns
from flopcast.models.linear.least_squares import NNLS, OLS
from flopcast.models.linear.rfecv import RFECV


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    factors = rng.lognormal(size=(80, 5))
    X = (
        factors
        @ rng.gamma(0.5, size=(5, 20))
        * rng.lognormal(0, 0.2, size=(80, 20))
        * 10.0 ** rng.uniform(0, 9, 20)
    )
    return X, factors.sum(axis=1) * rng.lognormal(0, 0.1, size=80)


def slow_path(
    base: str, X: np.ndarray, y: np.ndarray, w: np.ndarray
) -> list[tuple[list[int], OLS | NNLS]]:
    """Return the columns and the fit of every step from all columns to one."""
    columns, path = list(range(X.shape[1])), []
    mean = np.average(X, axis=0, weights=w)
    spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
    while columns:
        model = (OLS() if base == "ols" else NNLS()).fit(X[:, columns], y, sample_weight=w)
        path.append((list(columns), model))
        size = np.abs(model.coef_) * spread[columns]
        columns.pop(max(j for j in range(len(size)) if size[j] == size.min()))
    return path


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("base", ["ols", "nnls"])
def test_equals_slow_elimination(base: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(50, 8)) * 10.0 ** rng.integers(-3, 4, size=8)
    w = rng.uniform(0.2, 2, size=50)
    y = 3 + (X / X.std(axis=0)) @ rng.normal(0.5, 1, size=8) + rng.normal(size=50)
    folds = list(KFold(4, shuffle=True, random_state=1).split(X))
    errors = np.zeros(8)
    for train, valid in folds:
        for step, (columns, model) in enumerate(slow_path(base, X[train], y[train], w[train])):
            errors[step] += w[valid] @ (y[valid] - model.predict(X[valid][:, columns])) ** 2
    model = RFECV(base=base, cv=folds).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(model.cv_error_path_, errors / w.sum())
    columns, reference = slow_path(base, X, y, w)[7 - int(np.argmin(errors[::-1]))]
    np.testing.assert_allclose(model.predict(X), reference.predict(X[:, columns]))
    assert set(model.selected_features_) <= {f"x{j}" for j in columns}


@pytest.mark.parametrize("base", ["ols", "nnls"])
def test_keeps_the_columns_that_matter(base: str) -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(size=(120, 12))
    y = 1 + 5 * X[:, 3] + 2 * X[:, 7] + 4 * X[:, 11] + 0.1 * rng.normal(size=120)
    model = RFECV(base=base).fit(X, y)
    assert {"x3", "x7", "x11"} <= set(model.selected_features_)
    assert len(model.selected_features_) < 12
    assert len(RFECV(base=base, min_features=10).fit(X, y).cv_error_path_) == 3


def test_p_values_are_those_of_the_final_fit() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 4))
    y = X[:, 0] + 2 * X[:, 2] + 0.5 * rng.normal(size=60)
    model = RFECV().fit(X, y)
    chosen = [int(name[1:]) for name in model.selected_features_]
    np.testing.assert_allclose(
        model.p_values_[chosen], linear_model.OLS(y, add_constant(X[:, chosen])).fit().pvalues[1:]
    )
    assert np.isnan(np.delete(model.p_values_, chosen)).all()


def test_more_columns_than_rows() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(20, 60))
    model = RFECV().fit(X, 10 * X[:, 9] + 0.1 * rng.normal(size=20))
    assert "x9" in model.selected_features_


def test_equals_scikit_learn(rows: tuple) -> None:
    """The same ranking on every fold, hence the same error for every number of columns."""
    X, y = rows
    folds = list(KFold(4, shuffle=True, random_state=1).split(X))
    peer = feature_selection.RFECV(
        make_pipeline(StandardScaler(), LinearRegression()),
        importance_getter="named_steps.linearregression.coef_",
        scoring=lambda model, X, y: -np.sum((y - model.predict(X)) ** 2),
        cv=folds,
    ).fit(X, y)
    model = RFECV(cv=folds).fit(X, y)
    np.testing.assert_allclose(
        model.cv_error_path_[::-1], -4 * peer.cv_results_["mean_test_score"] / len(y)
    )
    assert model.selected_features_ == [f"x{j}" for j in np.flatnonzero(peer.support_)]


@settings(deadline=None, derandomize=True, max_examples=10)
@given(st.integers(0, 10_000), st.sampled_from(["ols", "nnls"]))
def test_counters_may_come_in_any_unit_and_order(seed: int, base: str) -> None:
    rng = np.random.default_rng(seed)
    factors = rng.lognormal(size=(30, 4))
    X = factors @ rng.gamma(0.5, size=(4, 40)) * rng.lognormal(0, 0.05, size=(30, 40))
    y = (1 + factors @ [2, 1, 0.5, 0.1]) * rng.lognormal(0, 0.1, size=30)
    order, units = rng.permutation(40), 10.0 ** rng.uniform(0, 12, size=40)
    model = RFECV(base=base, cv=3).fit(X, y)
    other = RFECV(base=base, cv=3).fit((X * units)[:, order], y)
    np.testing.assert_allclose(other.cv_error_path_, model.cv_error_path_, rtol=1e-6)
    np.testing.assert_allclose(other.predict((X * units)[:, order]), model.predict(X), rtol=1e-6)
    assert other.selected_features_ == [
        f"x{j}" for j in range(40) if f"x{order[j]}" in model.selected_features_
    ]


@pytest.mark.parametrize("base", ["ols", "nnls"])
def test_constants_and_copies_are_left_out_by_name(base: str, rows: tuple) -> None:
    X, y = rows
    with pytest.warns(DroppedColumns, match=r"RFECV.*x20.*x21"):
        model = RFECV(base=base).fit(np.column_stack([X, np.full(80, 3.0), X[:, 4]]), y)
    np.testing.assert_allclose(model.coef_[:20], RFECV(base=base).fit(X, y).coef_, rtol=1e-6)
    assert model.dropped_features_ == ["x20", "x21"]


def test_groups_are_held_out_whole() -> None:
    rng = np.random.default_rng(7)
    groups = np.repeat(["a", "b", "c", "d"], 15)
    X = rng.normal(size=(60, 5))
    y = X[:, 0] + rng.normal(size=60)
    one_out = [(np.flatnonzero(groups != name), np.flatnonzero(groups == name)) for name in "abcd"]
    np.testing.assert_allclose(
        RFECV(cv=10).fit(X, y, groups=groups).cv_error_path_,
        RFECV(cv=one_out).fit(X, y).cv_error_path_,
    )


def test_unknown_base_is_refused() -> None:
    with pytest.raises(ValueError, match=r"RFECV.*'ols'.*'nnls'.*'svm'"):
        RFECV(base="svm").fit([[1.0], [2.0]], [1.0, 2.0])
