"""The network learns a curve, stops by unseen rows, and is its plain arrays."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neural_network import MLPRegressor

from flopcast.models.learners import MLP, _forward


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(-2, 2, size=(300, 3)) * [1, 1e4, 1] + [0, 5e4, 0]
    return X, np.abs(X[:, 0]) + X[:, 1] / 1e4 + 100


def test_learns_a_curve_in_any_unit(rows: tuple) -> None:
    X, y = rows
    model = MLP(learning_rate=3e-3, batch_size=32).fit(X[:250], y[:250])
    assert np.sqrt(np.mean((model.predict(X[250:]) - y[250:]) ** 2)) < 0.15 * y.std()
    assert model.converged_
    assert model.n_iter_ == len(model.holdout_path_) < 300


def test_stops_patience_epochs_after_the_best(rows: tuple) -> None:
    model = MLP(patience=5, learning_rate=3e-2).fit(*rows)
    assert model.converged_
    assert int(np.argmin(model.holdout_path_)) == model.n_iter_ - 1 - 5


def test_stopping_at_the_last_epoch_is_reported_without_a_warning(rows: tuple) -> None:
    model = MLP(max_epochs=3).fit(*rows)
    assert not model.converged_
    assert model.n_iter_ == 3


def test_forward_pass_is_that_of_scikit_learn(rows: tuple) -> None:
    X, y = (rows[0] - rows[0].mean(axis=0)) / rows[0].std(axis=0), rows[1]
    network = MLPRegressor(hidden_layer_sizes=(8, 4), random_state=0).partial_fit(X, y)
    np.testing.assert_allclose(_forward(X, network.coefs_, network.intercepts_), network.predict(X))


def test_seed_decides_the_fit(rows: tuple) -> None:
    X, y = rows
    first, again, other = (
        MLP(max_epochs=3, random_state=seed).fit(X, y).predict(X) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_groups_are_held_out_whole() -> None:
    groups = np.repeat(np.arange(10), 20)
    train, valid = MLP()._split(200, groups)
    assert len(valid) == 20
    assert not set(groups[train]) & set(groups[valid])
    assert len(set(groups[MLP()._split(200, None)[1]])) > 1
    few_train, few_valid = MLP()._split(9, None)
    assert few_train.tolist() == few_valid.tolist() == list(range(9))


def test_constant_columns_and_targets(rows: tuple) -> None:
    X = np.column_stack([rows[0][:, 0], np.full(300, 7.1)])
    model = MLP(max_epochs=2).fit(X, rows[1])
    assert model.selected_features_ == ["x0"]
    assert np.isfinite(MLP(max_epochs=2).fit(X, np.full(300, 3.0)).predict(X)).all()


def test_no_epochs_is_refused(rows: tuple) -> None:
    with pytest.raises(ValueError, match=r"max_epochs.*MLP"):
        MLP(max_epochs=0).fit(*rows)
