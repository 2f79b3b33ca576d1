from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVR

from flopcast.models.persistence import misfits

rng = np.random.default_rng(0)
X = rng.uniform(1, 9, (60, 4))
y = X[:, 0] + X[:, 1] * X[:, 2]

MODELS: dict[str, BaseEstimator] = {
    "forest": ExtraTreesRegressor(3, random_state=0),
    "gradient boosting": GradientBoostingRegressor(n_estimators=3, random_state=0),
    "histogram boosting": HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=5, random_state=0),
    "bag of trees on some features": BaggingRegressor(n_estimators=3, max_features=2, random_state=0),
    "ada": AdaBoostRegressor(n_estimators=3, random_state=0),
    "trees behind more features": make_pipeline(PolynomialFeatures(2), ExtraTreesRegressor(3, random_state=0)),
    "support vectors": TransformedTargetRegressor(
        make_pipeline(StandardScaler(), SVR()), func=np.log, inverse_func=np.exp
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_fitted_models_fit_themselves(name):
    assert list(misfits(MODELS[name].fit(X, y))) == []


def test_a_feature_beyond_the_width_of_the_ensemble_is_found():
    forest = copy.deepcopy(MODELS["forest"].fit(X, y))
    forest.n_features_in_ = 1
    assert "a tree points outside itself" in set(misfits({"model": [forest]}))


@pytest.mark.parametrize(("field", "value"), [("left", 10**6), ("right", 0), ("feature_idx", 4), ("is_categorical", 1)])
def test_a_boosted_tree_with_a_wild_index_is_found(field, value):
    model = copy.deepcopy(MODELS["histogram boosting"].fit(X, y))
    model._predictors[1][0].nodes[field][0] = value
    assert list(misfits(model)) == ["a boosted tree points outside itself"]


def test_a_tree_with_a_wild_child_is_found():
    forest = copy.deepcopy(MODELS["forest"].fit(X, y))
    tree = forest.estimators_[0].tree_
    state = tree.__getstate__()
    state["nodes"]["left_child"][0] = 10**6
    tree.__setstate__(state)
    assert list(misfits(forest)) == ["a tree points outside itself"]


def test_too_few_support_vectors_are_found():
    machine = SVR().fit(X, y)
    machine.support_vectors_ = machine.support_vectors_[:5]
    assert list(misfits(machine)) == ["support vectors and their coefficients differ in number"]
