"""Feature ranking: the features that matter come first, through pipelines and wrappers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flopcast.evaluation.deployment import P_VALUE, PERMUTATION, RSS, permutation_importance, rank, rss_decrease
from flopcast.models import Forest, LogTarget


class WithPValues(LinearRegression):
    """A linear model that reports p-values as the least-squares models do."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> WithPValues:
        super().fit(X, y, sample_weight)
        self.p_values_ = np.array([0.05, 0.2, np.nan, 0.001])
        self.selected_features_ = ["a", "b", "c", "noise"]
        return self


@pytest.fixture
def data() -> tuple[pd.DataFrame, np.ndarray]:
    X = pd.DataFrame(np.random.default_rng(0).uniform(1, 2, (120, 4)), columns=["a", "b", "c", "noise"])
    return X, (10 * X["a"] + 3 * X["b"] + X["c"]).to_numpy()


def values(table: list[dict[str, Any]], measure: str) -> dict[str, float]:
    return {row["feature"]: row["value"] for row in table if row["measure"] == measure}


def test_permutation_finds_the_order_and_nothing_in_noise(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = data
    found = values(rank(LinearRegression().fit(X, y), X, y), PERMUTATION)
    assert list(found) == ["a", "b", "c", "noise"]
    assert found["noise"] == pytest.approx(0, abs=1e-9)


def test_permutation_is_the_increase_of_the_mape_in_points(data: tuple[pd.DataFrame, np.ndarray]) -> None:
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


def test_forests_show_the_rss_decrease_through_wrappers(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = data
    forest = RandomForestRegressor(20, random_state=0)
    scaled = make_pipeline(StandardScaler().set_output(transform="pandas"), forest)
    model = TransformedTargetRegressor(scaled, func=np.log, inverse_func=np.exp).fit(X, y)
    found = values(rank(model, X, y, repeats=1), RSS)
    assert list(found)[:2] == ["a", "b"]
    assert sum(found.values()) == pytest.approx(100)
    plain = make_pipeline(StandardScaler(), RandomForestRegressor(2, random_state=0)).fit(X, y)
    assert set(values(rank(plain, X, y, repeats=1), RSS)) == set(X.columns)


def test_columns_that_no_tree_splits_on_have_no_share_and_the_others_keep_theirs() -> None:
    X = pd.DataFrame(np.random.default_rng(0).uniform(1, 2, (60, 3)), columns=["a", "b", "c"]).assign(flat=1.0)
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


def test_p_values_with_their_threshold(data: tuple[pd.DataFrame, np.ndarray]) -> None:
    X, y = data
    table = rank(WithPValues().fit(X, y), X, y)
    rows = [row for row in table if row["measure"] == P_VALUE]
    assert [(row["feature"], row["value"], row["significant"]) for row in rows] == [
        ("noise", 0.001, True),
        ("a", 0.05, True),
        ("b", 0.2, False),
        ("c", None, False),
    ]
    assert {row["significant"] for row in table if row["measure"] == PERMUTATION} == {None}
    assert not values(table, RSS)
    json.dumps(table, allow_nan=False)
