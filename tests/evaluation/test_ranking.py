"""Feature ranking: the features that matter come first, on rows that the fit has not seen."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flopcast.evaluation.ranking import permutation_importance, ranking, rises, rss_decrease
from flopcast.models import Forest, LogTarget, RelativeError, Stepwise
from flopcast.models.base import Candidate


@pytest.fixture
def data() -> tuple[pd.DataFrame, np.ndarray]:
    X = pd.DataFrame(
        np.random.default_rng(0).uniform(1, 2, (120, 4)), columns=["a", "b", "c", "noise"]
    )
    return X, (10 * X["a"] + 3 * X["b"] + X["c"]).to_numpy()


def test_permutation_finds_the_order_and_nothing_in_noise(
    data: tuple[pd.DataFrame, np.ndarray],
) -> None:
    X, y = data
    found = permutation_importance(LinearRegression().fit(X, y), X, y)
    assert sorted(found, key=lambda name: -found[name]) == ["a", "b", "c", "noise"]
    assert found["noise"] == pytest.approx(0, abs=1e-9)


def test_permutation_is_the_increase_of_the_mape_in_points(
    data: tuple[pd.DataFrame, np.ndarray],
) -> None:
    X, y = data
    model = LinearRegression().fit(X, y)
    rng = np.random.default_rng([7, 1])
    expected = []
    for _ in range(3):
        shuffled = X.assign(b=rng.permutation(X["b"].to_numpy()))
        expected.append(np.mean(100 * np.abs(model.predict(shuffled) - y) / y))
    found = permutation_importance(model, X, y, repeats=3, seed=7)
    assert found["b"] == pytest.approx(np.mean(expected), abs=1e-9)
    assert permutation_importance(model, X, y, repeats=3, seed=7) == found
    assert permutation_importance(model, X, y, repeats=3, seed=8) != found


def test_the_way_of_a_prediction_as_a_feature_rises(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = data
    X = X.assign(flat=1.0)
    found = rises(LinearRegression().fit(X, y - 5 * X["c"]), X)
    quartiles = X.quantile([0.25, 0.75])
    assert found["a"] == pytest.approx(10 * (quartiles["a"].iloc[1] - quartiles["a"].iloc[0]))
    assert found["c"] == pytest.approx(-4 * (quartiles["c"].iloc[1] - quartiles["c"].iloc[0]))
    assert (found["noise"], found["flat"]) == (0, 0)


def test_large_tables_are_sampled(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = data
    seen: list[int] = []

    class Counting(LinearRegression):
        def predict(self, X: Any) -> np.ndarray:
            seen.append(len(X))
            return super().predict(X)

    permutation_importance(Counting().fit(X, y), X, y, max_rows=50)
    assert {rows % 50 for rows in seen} == {0}
    assert sum(seen) == 50 * (1 + 5 * X.shape[1])


def test_forests_show_the_rss_decrease_through_wrappers(
    data: tuple[pd.DataFrame, np.ndarray],
) -> None:
    X, y = data
    forest = RandomForestRegressor(20, random_state=0)
    scaled = make_pipeline(StandardScaler().set_output(transform="pandas"), forest)
    model = TransformedTargetRegressor(scaled, func=np.log, inverse_func=np.exp).fit(X, y)
    found = rss_decrease(model)
    assert sorted(found, key=lambda name: -found[name])[:2] == ["a", "b"]
    assert sum(found.values()) == pytest.approx(100)
    plain = make_pipeline(StandardScaler(), RandomForestRegressor(2, random_state=0)).fit(X, y)
    assert set(rss_decrease(plain)) == set(X.columns)


def test_columns_that_no_tree_splits_on_have_no_share_and_the_others_keep_theirs() -> None:
    X = pd.DataFrame(
        np.random.default_rng(0).uniform(1, 2, (60, 3)), columns=["a", "b", "c"]
    ).assign(flat=1.0)
    y = (10 * X["a"] + X["b"] + X["c"]).to_numpy()
    forest = Forest(max_trees=8).fit(X, y)
    assert "flat" not in forest.selected_features_
    for model in (forest, LogTarget(Forest(max_trees=8)).fit(X, y)):
        found = rss_decrease(model)
        assert list(found) == ["a", "b", "c", "flat"]
        assert found["flat"] == 0
        assert sum(found.values()) == pytest.approx(100)
    assert set(rss_decrease(Forest(max_trees=8).fit(X.to_numpy(), y))) == {"x0", "x1", "x2", "x3"}
    assert rss_decrease(LinearRegression().fit(X, y)) == {}


@dataclass(frozen=True)
class Rows:
    X: pd.DataFrame
    y: np.ndarray
    groups: np.ndarray
    rows: pd.DataFrame
    unpaired: None = None


class Memory(RegressorMixin, BaseEstimator):
    """Knows the rows it was fitted to by heart, and says 1 of any other."""

    def fit(self, X: Any, y: Any) -> Memory:
        self.known_ = {
            tuple(row): value for row, value in zip(np.asarray(X).tolist(), y, strict=True)
        }
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.array([self.known_.get(tuple(row), 1.0) for row in np.asarray(X).tolist()])


def test_what_is_known_by_heart_matters_to_no_row_that_is_held_out(
    data: tuple[pd.DataFrame, np.ndarray],
) -> None:
    X, y = data
    rows = Rows(X, y, np.repeat(np.arange(12), 10).astype(str), pd.DataFrame(index=X.index))
    assert min(permutation_importance(Memory().fit(X, y), X, y).values()) > 50
    assert ranking(rows, Candidate("memory", Memory(), "measured time"), "grouped", 0) == [
        {"feature": name, "measure": "permutation importance (points of error), groups left out, memory", "value": 0.0,
         "significant": None, "model": "memory", "selected": None, "folds": 3, "sign": ""}
        for name in X
    ]  # fmt: skip
    table = ranking(rows, Candidate("line", LinearRegression(), "measured time"), "grouped", 0)
    assert [row["feature"] for row in table] == ["a", "b", "c", "noise"]
    assert [row["sign"] for row in table] == ["+", "+", "+", ""]


def test_what_shuffling_costs_counts_each_held_out_row_once() -> None:
    X = pd.DataFrame(np.random.default_rng(0).uniform(1, 2, (120, 2)), columns=["a", "b"])
    groups = np.repeat(["small", "middle", "large"], [10, 20, 90])
    y = (np.where(groups == "large", 1.0, 10.0) * X["a"] + X["b"]).to_numpy()
    expected = {"a": 0.0, "b": 0.0}
    for group in np.unique(groups):
        own = groups == group
        fitted = LinearRegression().fit(X[~own], y[~own])
        costs = permutation_importance(fitted, X[own], y[own], repeats=3, seed=0)
        expected = {name: value + costs[name] * own.sum() / 120 for name, value in expected.items()}
    table = ranking(
        Rows(X, y, groups, pd.DataFrame(index=X.index)),
        Candidate("line", LinearRegression(), "measured time"),
        "grouped",
        0,
    )
    assert {row["feature"]: row["value"] for row in table} == pytest.approx(expected)


def test_features_chosen_by_half_of_the_groups_are_tested_by_the_other(
    data: tuple[pd.DataFrame, np.ndarray],
) -> None:
    X, y = data
    noisy = y * np.exp(np.random.default_rng(1).normal(0, 0.02, len(y)))
    model = Candidate("OLS/Forward/AIC", RelativeError(Stepwise()), "relative error", selects_features=True,
                      tests_features=True)  # fmt: skip
    groups = np.repeat(np.arange(12), 10).astype(str)
    table = ranking(Rows(X, noisy, groups, pd.DataFrame(index=X.index)), model, "grouped", 0)
    assert {row["feature"] for row in table if row["significant"]} == {"a", "b", "c"}
    assert table[0]["feature"] == "a"
    few = Rows(X, noisy, np.repeat(np.arange(6), 20).astype(str), pd.DataFrame(index=X.index))
    assert ranking(few, model, "grouped", 0) == []
    json.dumps(table, allow_nan=False)
