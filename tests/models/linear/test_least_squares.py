"""OLS and NNLS against hand-solved cases, statsmodels, scipy and the optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls
from statsmodels.regression import linear_model
from statsmodels.tools import add_constant

from flopcast.models.linear.least_squares import NNLS, OLS


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5)) * [1, 1e6, 1e-6, 3, 50] + [0, 4e6, 0, -2, 1]
    y = 5 + X @ [1, 2e-6, 0, -1, 0.01] + rng.normal(size=60)
    return X, y, rng.uniform(0.1, 3, size=60)


@pytest.mark.parametrize("weighted", [False, True])
def test_ols_equals_statsmodels(rows: tuple, weighted: bool) -> None:
    X, y, w = rows
    model = OLS().fit(X, y, sample_weight=w if weighted else None)
    reference = linear_model.WLS(y, add_constant(X), weights=w if weighted else 1.0).fit()
    np.testing.assert_allclose([model.intercept_, *model.coef_], reference.params, rtol=1e-7)
    np.testing.assert_allclose(model.p_values_, reference.pvalues[1:], rtol=1e-6)
    assert (model.df_resid_, model.rank_) == (reference.df_resid, 5)


def test_collinear_columns_share_the_effect_and_have_no_p_value() -> None:
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=(2, 30))
    model = OLS().fit(
        np.column_stack([x, 1000 * x, z, np.zeros(30)]), 4 * x + z + 0.1 * rng.normal(size=30)
    )
    # least norm in units of each column's length
    assert model.coef_[0] == pytest.approx(1000 * model.coef_[1])
    assert np.isnan(model.p_values_).tolist() == [True, True, False, True]
    assert model.coef_[3] == 0
    assert model.rank_ == 2
    assert model.selected_features_ == ["x0", "x1", "x2"]


def test_more_columns_than_rows_interpolates_and_predicts_negative_times() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.lognormal(size=(12, 40)), rng.lognormal(size=12)
    model = OLS().fit(X, y)
    np.testing.assert_allclose(model.predict(X), y)
    assert np.isnan(model.p_values_).all()
    assert model.predict(rng.lognormal(sigma=2, size=(50, 40))).min() < 0


def test_perfect_fit_has_p_value_zero() -> None:
    model = OLS().fit([[0.0], [1.0], [2.0], [4.0]], [0.0, 1.0, 2.0, 4.0])
    assert model.p_values_[0] < 1e-20


def test_zero_weight_is_absence(rows: tuple) -> None:
    X, y, w = rows
    w[::3] = 0
    some = OLS().fit(X, y, sample_weight=w)
    few = OLS().fit(X[w > 0], y[w > 0], sample_weight=w[w > 0])
    np.testing.assert_allclose(some.p_values_, few.p_values_)
    assert some.df_resid_ == few.df_resid_ == 34


def test_nnls_bounds_the_intercept_too() -> None:
    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 3.0, 5.0])  # y = 2 x - 1
    model = NNLS().fit(X, y)
    assert model.intercept_ == 0
    assert model.coef_[0] == pytest.approx(22 / 14)  # sum x y / sum x²


def test_nnls_equals_ols_where_ols_is_non_negative() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(size=(50, 3))
    y = 2 + X @ [1, 2, 3] + 0.1 * rng.normal(size=50)
    ols, bounded = OLS().fit(X, y), NNLS().fit(X, y)
    np.testing.assert_allclose(bounded.coef_, ols.coef_)
    assert bounded.intercept_ == pytest.approx(ols.intercept_)


@pytest.mark.parametrize("shape", [(80, 12), (10, 30)])
@pytest.mark.parametrize("seed", range(3))
def test_nnls_equals_scipy(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y, w = rng.normal(size=shape), rng.normal(size=shape[0]) + 1, rng.uniform(size=shape[0])
    model = NNLS().fit(X, y, sample_weight=w)
    root = np.sqrt(w)
    A = root[:, None] * np.column_stack([np.ones(len(y)), X])
    _, norm = nnls(A, root * y)
    assert np.linalg.norm(root * (y - model.predict(X))) == pytest.approx(norm, abs=1e-9)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0, -1.0, 1.0], "non-negative"),
        ([0.0, 0.0, 0.0], "not all zero"),
        ([1.0, 1.0], r"shape \(3,\)"),
    ],
)
def test_bad_weights_are_refused(weight: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OLS().fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 4.0], sample_weight=weight)
