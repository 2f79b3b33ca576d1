"""Target spaces and column choice as parts of a model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flopcast.models.base import fit, selected_features
from flopcast.models.learners import MLP
from flopcast.models.linear.least_squares import NNLS, OLS
from flopcast.models.linear.regularised import Lasso
from flopcast.models.linear.stepwise import Stepwise
from flopcast.models.target_space import LARGEST_LOG, Columns, LogTarget, RelativeError


@pytest.fixture
def rows() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.lognormal(size=(80, 3)), columns=["host_us", "memory.target_us", "log_m"])
    return X, (2 + 3 * X["host_us"].to_numpy()) * rng.lognormal(0, 0.1, size=80)


def test_relative_error_weights_by_one_over_y_squared(rows: tuple) -> None:
    X, y = rows
    w = np.linspace(0, 2, 80)
    for given in (None, w):
        wrapped = RelativeError(OLS()).fit(X, y, sample_weight=given)
        plain = OLS().fit(X, y, sample_weight=(1 if given is None else given) / y**2)
        np.testing.assert_allclose(wrapped.predict(X), plain.predict(X))
    # sum of squared relative errors, intercept too
    relative = OLS().fit(X.div(y, axis=0).assign(one=1 / y), np.ones(80))
    assert relative.coef_.shape == (4,)
    free = RelativeError(OLS()).fit(X, y)
    assert np.mean(((y - free.predict(X)) / y) ** 2) < np.mean(
        ((y - OLS().fit(X, y).predict(X)) / y) ** 2
    )


def test_floor_is_a_share_of_the_smallest_time() -> None:
    X, y = [[1.0], [2.0], [3.0], [4.0]], [1.0, 11.0, 21.0, 31.0]
    assert RelativeError(OLS()).fit(X, y).predict([[-5.0]])[0] < 0
    assert RelativeError(OLS(), floor=0.25).fit(X, y).predict([[-5.0], [4.0]]) == pytest.approx(
        [0.25, 31]
    )


def test_log_target_is_the_median_and_smearing_the_mean() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(4000, 1))
    y = np.exp(1 + 2 * X[:, 0] + 0.8 * rng.normal(size=4000))
    at = np.array([[0.5]])
    assert LogTarget().fit(X, y).predict(at)[0] == pytest.approx(np.exp(2), rel=0.05)
    assert LogTarget(smearing=True).fit(X, y).predict(at)[0] == pytest.approx(
        np.exp(2 + 0.32), rel=0.05
    )


def test_log_target_stays_finite_and_positive() -> None:
    model = LogTarget().fit([[0.0], [1.0]], [1.0, 1e300])
    assert model.predict([[50.0], [-50.0]]) == pytest.approx(
        [np.exp(LARGEST_LOG), np.exp(-LARGEST_LOG)]
    )


@pytest.mark.parametrize("wrapper", [RelativeError, LogTarget])
def test_targets_must_be_positive(wrapper: type) -> None:
    with pytest.raises(ValueError, match=f"{wrapper.__name__} needs positive targets: 1 of 3"):
        wrapper().fit([[1.0], [2.0], [3.0]], [1.0, 0.0, 2.0])


def test_regressor_that_cannot_weight_is_refused(rows: tuple) -> None:
    with pytest.raises(ValueError, match="MLP"):
        RelativeError(MLP()).fit(*rows)


def test_names_weights_and_groups_travel_through_pipelines(rows: tuple) -> None:
    X, y = rows
    X = X.assign(log_m=np.nan)  # not among the columns chosen
    model = make_pipeline(
        Columns(["host_us", "memory.*"]), RelativeError(Stepwise(criterion="bic"))
    )
    fit(model, X, y)
    assert selected_features(model) == ["host_us"]
    inside = RelativeError(make_pipeline(Columns(["host_us"]), NNLS())).fit(X, y)
    assert selected_features(inside) == ["host_us"]
    np.testing.assert_allclose(
        inside.predict(X), RelativeError(NNLS()).fit(X[["host_us"]], y).predict(X[["host_us"]])
    )
    groups = np.repeat(np.arange(8), 10)
    grouped = fit(RelativeError(make_pipeline(Columns(["host_us"]), Lasso())), X, y, groups)
    direct = Lasso().fit(X[["host_us"]], y, sample_weight=1 / y**2, groups=groups)
    assert grouped.regressor_[-1].alpha_ * y.min() ** -2 > 0
    np.testing.assert_allclose(grouped.predict(X), direct.predict(X[["host_us"]]))


def test_missing_values_reach_a_regressor_that_takes_them(rows: tuple) -> None:
    X, y = rows
    X.iloc[::2, 0] = np.nan
    model = LogTarget(HistGradientBoostingRegressor(max_iter=5)).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(ValueError, match="NaN"):
        LogTarget(OLS()).fit(X, y)


def test_columns_by_name_and_prefix(rows: tuple) -> None:
    X, y = rows
    assert Columns(["log_m", "host_us"]).fit(X).get_feature_names_out().tolist() == [
        "host_us",
        "log_m",
    ]
    assert Columns(["host*", "dtype=*"]).fit_transform(X).columns.tolist() == ["host_us"]
    assert Columns().fit_transform(X).shape == (80, 3)
    # no names to choose by
    assert Columns(["host_us"]).fit_transform(X.to_numpy()).shape == (80, 3)
    scaled = make_pipeline(
        StandardScaler().set_output(transform="pandas"), Columns(["log_m"]), OLS()
    ).fit(X, y)
    assert selected_features(scaled) == ["log_m"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["host_us", "k", "j"], "k, j"),
        (list("abcdefg"), "a, b, c, d, e and 2"),
        (["dtype=*"], r"matches dtype=\*"),
        ([], "matches an empty list"),
    ],
)
def test_columns_that_are_not_there(rows: tuple, names: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Columns(names).fit(rows[0])


def test_columns_must_be_finite_at_fit_and_transform(rows: tuple) -> None:
    X = rows[0]
    holes = X.assign(host_us=np.nan, log_m=np.inf)
    chooser = Columns(["host_us", "log_m"])
    with pytest.raises(ValueError, match=r"NaN.*host_us.*log_m"):
        chooser.fit(holes)
    with pytest.raises(ValueError, match=r"NaN.*host_us.*log_m"):
        chooser.fit(X).transform(holes)
    with pytest.raises(ValueError, match="feature names"):
        chooser.transform(X[X.columns[::-1]])
