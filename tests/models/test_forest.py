"""The forest's out-of-bag choice against scikit-learn's own forests of each size."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor

from flopcast.models.learners import Forest


@pytest.fixture
def rows() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(150, 4)), columns=["work", "noise", "bytes", "constant"])
    X["constant"] = 1.0
    return X, np.exp(3 * X["work"]) + X["bytes"] + 0.1 * rng.normal(size=150)


def test_prefix_errors_are_those_of_forests_of_that_size(rows: tuple) -> None:
    X, y = rows
    model = Forest(max_trees=64, random_state=3).fit(X, y)
    assert list(model.oob_path_) == [2, 4, 8, 16, 32, 64]
    assert model.n_trees_ == min(model.oob_path_, key=model.oob_path_.__getitem__)
    for size in (32, 64):
        forest = RandomForestRegressor(
            size, max_features=1 / 3, oob_score=True, random_state=3
        ).fit(X, y)
        assert model.oob_path_[size] == pytest.approx(np.mean((forest.oob_prediction_ - y) ** 2))
    chosen = RandomForestRegressor(model.n_trees_, max_features=1 / 3, random_state=3).fit(X, y)
    np.testing.assert_allclose(model.predict(X), chosen.predict(X))


def test_fewer_trees_are_kept_where_more_err_more() -> None:
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        model = Forest(max_trees=16).fit(rng.uniform(size=(12, 2)), rng.normal(size=12))
        assert (
            model.n_trees_
            == min(model.oob_path_, key=model.oob_path_.__getitem__)
            == len(model.forest_.estimators_)
        )
        found.append(model.n_trees_)
    assert min(found) < max(found) == 16


def test_work_bounds_the_number_of_trees(rows: tuple) -> None:
    X, y = rows
    assert max(Forest(max_work=150 * 20).fit(X, y).oob_path_) == 16
    assert max(Forest(max_work=1).fit(X, y).oob_path_) == 2
    assert max(Forest(max_trees=8, max_work=None).fit(X, y).oob_path_) == 8
    assert Forest()._most_trees(429) == 1024
    assert Forest()._most_trees(13_000) == 128
    with pytest.raises(ValueError, match=r"max_trees.*Forest.*1"):
        Forest(max_trees=1).fit(X, y)


def test_importances_are_shares_of_the_rss_decrease(rows: tuple) -> None:
    X, y = rows
    model = Forest(max_trees=16, max_features=None).fit(X, y)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_.argmax() == 0
    assert model.selected_features_ == ["work", "noise", "bytes"]
    single = Forest(max_trees=2, min_samples_leaf=20, max_features=None).fit(X[["work"]], y)
    assert single.feature_importances_.tolist() == [1.0]


def test_a_tree_that_cannot_split_has_no_importances() -> None:
    model = Forest(max_trees=4).fit(np.ones((6, 2)), np.arange(6.0))
    assert model.feature_importances_.tolist() == [0, 0]
    assert model.selected_features_ == []


def test_predictions_stay_within_the_training_targets(rows: tuple) -> None:
    X, y = rows
    predicted = Forest(max_trees=8).fit(X, y).predict(10 * X)
    assert y.min() <= predicted.min()
    assert predicted.max() <= y.max()
