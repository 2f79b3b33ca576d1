from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.neighbors import KNeighborsRegressor

from flopcast.models.baselines import AdditiveTime, AnalyticLaw
from flopcast.models.ensembles import CrossFitted, GeometricStack, LogResidual, simplex_weights


def test_weights_of_hand_made_predictions() -> None:
    log_y = np.log(np.linspace(1, 50, 60))
    off = np.where(np.arange(60) % 2, 0.3, -0.3)
    logs = np.column_stack([log_y + off, log_y - off, log_y + 5])
    assert simplex_weights(logs, log_y) == pytest.approx([0.5, 0.5, 0.0], abs=1e-6)


def test_weights_are_on_the_simplex_whatever_the_predictions() -> None:
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(40, 4)) * [1, 10, 1e-9, 1e6]
    weights = simplex_weights(logs, rng.normal(size=40))
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)


def test_equal_weights_give_the_geometric_mean() -> None:
    X, y = np.array([[1.0, 4.0], [4.0, 9.0], [3.0, 27.0]]), np.array([1.0, 2.0, 3.0])
    model = GeometricStack([("a", AnalyticLaw(0)), ("b", AnalyticLaw(1))], learn_weights=False).fit(X, y)
    assert model.predict(X) == pytest.approx([2.0, 6.0, 9.0])


def test_groups_take_weight_from_a_learner_that_only_knows_their_rows() -> None:
    """A nearest neighbour knows each group's factor, so it wins under shuffled inner folds and loses under grouped."""
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(20), 10)
    work = rng.uniform(5, 50, 200)
    y = work * np.exp(0.5 * rng.normal(size=20))[groups]
    X = np.column_stack([work, 1000.0 * groups])
    neighbour = LogResidual(AnalyticLaw(0), KNeighborsRegressor(3))
    stack = GeometricStack([("law", AnalyticLaw(0)), ("neighbour", neighbour)])
    shuffled, grouped = stack.fit(X, y).weights_["neighbour"], stack.fit(X, y, groups=groups).weights_["neighbour"]
    assert shuffled > 0.9
    assert grouped < 0.5


def test_models_without_weight_are_dropped() -> None:
    y = np.linspace(1, 60, 60)
    X = np.column_stack([y * 1.01, y + 3000])
    model = GeometricStack([("good", AnalyticLaw(0)), ("bad", AnalyticLaw(1))]).fit(X, y)
    assert len(model.parts_) == 1
    assert model.weights_["bad"] == 0


def test_cross_fitted_values_come_from_the_member_that_has_not_seen_the_row() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.uniform(1, 9, (60, 2)), rng.lognormal(size=60)
    trees = LogResidual(AdditiveTime(), ExtraTreesRegressor(20, bootstrap=False, random_state=0))
    model = CrossFitted(trees, cv=4)
    left_out = model.fit_out_of_fold(X, y)
    assert len(model.members_) == 4
    seen = np.abs(np.log(model.predict(X) / y)).mean()
    unseen = np.abs(np.log(left_out / y)).mean()
    assert unseen > 1.5 * seen  # members that knew the row would reproduce it


def test_cross_fitted_folds_keep_groups_together() -> None:
    groups = np.repeat([0, 1, 2, 3], 10)
    X = groups[:, None].astype(float)
    y = np.array([1.0, 10.0, 100.0, 1000.0])[groups]
    neighbour = LogResidual(AnalyticLaw(0), KNeighborsRegressor(1))
    left_out = CrossFitted(neighbour, cv=4).fit_out_of_fold(X + 1, y, groups)
    assert (np.abs(np.log(left_out / y)) > 0.5).all()
