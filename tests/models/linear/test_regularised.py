"""Lasso and elastic net against scikit-learn, the optimality conditions and known coefficients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV
from sklearn.model_selection import GroupKFold, KFold

from flopcast.models.base import DroppedColumns
from flopcast.models.linear.least_squares import NNLS, OLS
from flopcast.models.linear.regularised import ElasticNet, Lasso


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(90, 10))
    return X, 4 + 3 * X[:, 2] + X[:, 5] + 0.2 * rng.normal(size=90)


def test_equals_scikit_learn_on_one_fold(rows: tuple) -> None:
    """With a single fold, X standardised by its training rows, both search the same problem."""
    X, y = rows
    train, valid = np.arange(60), np.arange(60, 90)
    model = Lasso(cv=[(train, valid)], n_alphas=20, eps=1e-3).fit(X, y)
    Z = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    alphas = model.alphas_ * y[train].std()
    reference = LassoCV(alphas=alphas, cv=[(train, valid)], tol=1e-8, max_iter=10**5).fit(Z, y)
    np.testing.assert_allclose(model.cv_error_path_, reference.mse_path_.ravel(), rtol=1e-4)
    assert model.alpha_ * y[train].std() == pytest.approx(reference.alpha_)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("mix", [1.0, 0.3])
def test_solution_fulfils_the_optimality_conditions(positive: bool, mix: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(50, 8)) * 10.0 ** rng.integers(-3, 4, size=8)
    w = rng.uniform(0.2, 2, size=50)
    y = (X / X.std(axis=0)) @ rng.normal(size=8) + rng.choice([-4, 4]) + rng.normal(size=50)
    model = ElasticNet(positive=positive, l1_ratio=mix, tol=1e-12, n_alphas=15, eps=1e-2).fit(
        X, y, sample_weight=w
    )
    scale = np.sqrt(np.average((X - np.average(X, axis=0, weights=w)) ** 2, axis=0, weights=w))
    unit = np.sqrt(np.average((y - np.average(y, weights=w)) ** 2, weights=w))
    u, residual = model.coef_ * scale / unit, (y - model.predict(X)) / unit
    pull = (X / scale).T @ (w * residual) / w.sum() - model.alpha_ * (1 - mix) * u
    limit, inside = model.alpha_ * mix, u != 0
    np.testing.assert_allclose(pull[inside], limit * np.sign(u[inside]), atol=1e-6)
    assert pull[~inside].max(initial=-np.inf) <= limit + 1e-6
    slope = np.average(residual, weights=w)  # the pull on the intercept
    if positive:
        assert u.min() >= 0
        assert model.intercept_ >= 0
        assert slope == pytest.approx(0, abs=1e-6) if model.intercept_ > 0 else slope <= 1e-6
    else:
        assert pull[~inside].min(initial=np.inf) >= -limit - 1e-6
        assert slope == pytest.approx(0, abs=1e-6)


def test_bounded_intercept_is_met_in_the_tests_above() -> None:
    X = np.random.default_rng(1).uniform(size=(60, 2))
    model = Lasso(positive=True).fit(X, 5 * X[:, 0] - 2)
    assert model.intercept_ == 0
    assert model.coef_[0] > 0


@pytest.mark.parametrize(
    "model", [Lasso(), Lasso(positive=True), ElasticNet(), ElasticNet(positive=True)]
)
def test_finds_the_columns_that_matter(model: Lasso | ElasticNet, rows: tuple) -> None:
    model.fit(*rows)
    assert {"x2", "x5"} <= set(model.selected_features_)
    np.testing.assert_allclose(model.coef_[[2, 5]], [3, 1], atol=0.3)
    assert model.converged_


def test_vanishing_penalty_is_least_squares(rows: tuple) -> None:
    X, y = rows
    for positive, limit in ((False, OLS()), (True, NNLS())):
        model = Lasso(positive=positive, n_alphas=2, eps=1e-9, tol=1e-12, cv=3).fit(X, y)
        assert model.alpha_ == model.alphas_[1]
        np.testing.assert_allclose(model.predict(X), limit.fit(X, y).predict(X), rtol=1e-5)


def counters(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return 30 rows of 60 counters driven by four latent factors, and times."""
    rng = np.random.default_rng(seed)
    factors = rng.lognormal(size=(30, 4))
    X = factors @ rng.gamma(0.5, size=(4, 60)) * rng.lognormal(0, 0.05, size=(30, 60))
    return X, (1 + factors @ [2, 1, 0.5, 0.1]) * rng.lognormal(0, 0.1, size=30)


@settings(deadline=None, derandomize=True, max_examples=10)
@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([1.0, 0.5]))
def test_counters_may_come_in_any_unit_and_order(seed: int, positive: bool, mix: float) -> None:
    X, y = counters(seed)
    rng = np.random.default_rng(seed)
    order, units = rng.permutation(60), 10.0 ** rng.uniform(0, 12, size=60)
    model = ElasticNet(positive=positive, l1_ratio=mix, cv=3, n_alphas=20)
    other, model = clone(model).fit((X * units)[:, order], y), model.fit(X, y)
    assert other.alpha_ == pytest.approx(model.alpha_)
    np.testing.assert_allclose(other.cv_error_path_, model.cv_error_path_, rtol=1e-6)
    np.testing.assert_allclose(other.predict((X * units)[:, order]), model.predict(X), rtol=1e-6)
    assert model.converged_


@pytest.mark.parametrize("positive", [False, True])
def test_copies_and_constants_change_nothing(positive: bool) -> None:
    X, y = counters(1)
    model = Lasso(positive=positive, cv=3).fit(X, y)
    with pytest.warns(DroppedColumns, match=r"x120.*x121"):
        twice = Lasso(positive=positive, cv=3).fit(
            np.hstack([X, 3 * X, np.ones((30, 1)), X[:, :1]]), y
        )
    np.testing.assert_allclose(twice.cv_error_path_, model.cv_error_path_, rtol=1e-6)
    assert twice.selected_features_ == model.selected_features_


def test_mix_is_searched(rows: tuple) -> None:
    X, y = rows
    single = {mix: ElasticNet(l1_ratio=mix).fit(X, y) for mix in (0.1, 0.5, 1.0)}
    searched = ElasticNet(l1_ratio=[0.1, 0.5, 1.0]).fit(X, y)
    best = min(single, key=lambda mix: single[mix].cv_error_path_.min())
    assert searched.l1_ratio_ == best
    assert searched.alpha_ == single[best].alpha_
    assert Lasso().fit(X, y).alpha_ == single[1.0].alpha_
    with pytest.raises(ValueError, match=r"l1_ratio.*ElasticNet.*1\].*0.0"):
        ElasticNet(l1_ratio=0).fit(X, y)


def test_groups_are_held_out_whole(rows: tuple) -> None:
    X, y = rows
    groups = np.repeat(np.arange(9), 10)
    explicit = list(GroupKFold(5).split(X, groups=groups))
    grouped = Lasso().fit(X, y, groups=groups)
    np.testing.assert_array_equal(
        grouped.cv_error_path_, Lasso(cv=explicit).fit(X, y).cv_error_path_
    )
    shuffled = Lasso(cv=KFold(5, shuffle=True, random_state=0)).fit(X, y)
    np.testing.assert_array_equal(shuffled.cv_error_path_, Lasso().fit(X, y).cv_error_path_)
    assert (grouped.cv_error_path_ != shuffled.cv_error_path_).any()


def test_no_relation_gives_the_mean_and_short_runs_say_so(rows: tuple) -> None:
    X, y = rows
    constant = Lasso().fit(X, np.full(90, 2.0))
    assert constant.selected_features_ == []
    np.testing.assert_allclose(constant.predict(X), 2)
    with pytest.warns(ConvergenceWarning, match="settle within 1 steps"):
        assert not Lasso(max_iter=1, eps=1e-6).fit(X, y).converged_


def test_the_errors_of_the_folds_are_means_over_the_rows_that_were_held_out(rows: tuple) -> None:
    """A fold that weights of 0 empty is left out, and so is its weight."""
    X, y = rows
    folds = [(np.arange(60), np.arange(60, 75)), (np.arange(60), np.arange(75, 90))]
    both = Lasso(cv=folds, n_alphas=5).fit(X, y).cv_error_path_
    each = [Lasso(cv=[fold], n_alphas=5).fit(X, y).cv_error_path_ for fold in folds]
    np.testing.assert_allclose(both, np.mean(each, axis=0))


@pytest.mark.parametrize("level", [0.1, 3.3, 1e6 / 7])
@pytest.mark.parametrize("positive", [False, True])
def test_a_target_that_does_not_vary_is_met_by_the_intercept(level: float, positive: bool) -> None:
    """What is left of it after centring is rounding error: it must not be taken for a signal."""
    for n in (10, 22, 37):
        X = np.random.default_rng(0).normal(size=(n, n + 5))
        model = ElasticNet(positive=positive).fit(X, np.full(n, level))
        assert not model.coef_.any()
        assert model.intercept_ == pytest.approx(level, rel=1e-12)


@pytest.mark.parametrize(("n", "powers"), [(60, 20), (100, 40)])
def test_columns_that_are_nearly_dependent_end_in_finite_steps(n: int, powers: int) -> None:
    x = np.linspace(0, 1, n)[:, None]
    y = np.random.default_rng(0).lognormal(size=n)
    model = Lasso(n_alphas=30).fit(x ** np.arange(1, powers + 1), y)
    assert np.isfinite(model.coef_).all()
    assert np.mean((y - model.predict(x ** np.arange(1, powers + 1))) ** 2) <= y.var() * (1 + 1e-12)


@pytest.mark.parametrize("offset", [1e3, 1e5, 1e6])
def test_a_bounded_intercept_does_not_mind_means_far_from_zero(offset: float) -> None:
    """NNLS' solution is feasible too, so the penalised one must not have the larger objective."""
    rng = np.random.default_rng(10)
    X = rng.normal(size=(60, 8)) + offset
    y = X @ (rng.random(8) * (rng.random(8) < 0.6)) - offset * rng.random() + rng.normal(size=60)
    model, other = Lasso(positive=True, cv=3).fit(X, y), NNLS().fit(X, y)
    assert model.converged_
    assert model.intercept_ == 0

    def objective(fitted: Lasso | NNLS) -> float:
        penalty = model.alpha_ * float(np.sum(fitted.coef_ * X.std(axis=0) / y.std()))
        return float(np.mean((y - fitted.predict(X)) ** 2)) / 2 / y.var() + penalty

    assert objective(model) <= objective(other) * (1 + 1e-9)
