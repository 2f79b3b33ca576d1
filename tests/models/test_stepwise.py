"""Stepwise selection against R's step(), and against a slow search that fits every candidate anew."""

from __future__ import annotations

from itertools import pairwise
from math import inf, log

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.optimize import nnls

from flopcast.models.stepwise import Criterion, Stepwise

# R 4.2.2, waves() below as d, w = 1 + i %% 5:
#   null <- lm(y ~ 1, d, weights = w); full <- lm(y ~ ., d, weights = w)
#   step(null, scope = formula(full), direction = "forward", k = 2)$anova, k = log(120) for BIC
#   step(full, direction = "backward", k = 2)$anova
STEP_OF_R = {
    ("forward", "aic", False): (
        "x0 x3 x6 x8",
        "170.801227 79.784916 -49.289613 -102.005503 -109.846109",
    ),
    ("backward", "aic", False): (
        "x7 x1 x2 x11 x10 x5 x4 x9",
        "-95.178541 -97.152116 -99.103840 -101.040586 -102.935113 -104.801383 -106.615933 -108.349025 -109.846109",
    ),
    ("forward", "aic", True): (
        "x0 x3 x6 x8",
        "298.428989 205.849312 81.933017 29.907878 19.838272",
    ),
    ("backward", "aic", True): (
        "x7 x10 x5 x2 x11 x9 x1 x4",
        "33.072785 31.081730 29.205024 27.367504 25.531620 23.911087 22.258634 20.658582 19.838272",
    ),
    ("forward", "bic", False): (
        "x0 x3 x6 x8",
        "173.588718 85.359899 -40.927138 -90.855536 -95.908650",
    ),
    ("backward", "bic", False): (
        "x7 x1 x2 x11 x10 x5 x4 x9",
        "-58.941148 -63.702216 -68.441431 -73.165668 -77.847687 -82.501449 -87.103491 -91.624075 -95.908650",
    ),
    ("forward", "bic", True): (
        "x0 x3 x6 x8",
        "301.216481 211.424295 90.295492 41.057845 33.775730",
    ),
    ("backward", "bic", True): (
        "x7 x10 x5 x2 x11 x9 x1 x4",
        "69.310178 64.531631 59.867433 55.242422 50.619046 46.211021 41.771076 37.383532 33.775730",
    ),
}


def waves() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y and weights by a formula that any language can repeat."""
    i = np.arange(1, 121)
    X = np.column_stack([np.sin(i * np.sqrt(j) * 1.7) + 0.3 * np.sin(i * 0.9) for j in range(1, 13)])
    y = 3 + 2 * X[:, 0] - 1.5 * X[:, 3] + 0.8 * X[:, 6] + 0.2 * X[:, 8] + 0.9 * np.sin(0.37 * i**2)
    return X, y, 1.0 + i % 5


@pytest.mark.parametrize(("direction", "criterion", "weighted"), STEP_OF_R)
def test_sequence_and_criterion_equal_r(direction: str, criterion: str, weighted: bool) -> None:
    X, y, w = waves()
    model = Stepwise(direction=direction, criterion=criterion).fit(X, y, sample_weight=w if weighted else None)
    order, values = STEP_OF_R[direction, criterion, weighted]
    sign = "+" if direction == "forward" else "-"
    assert model.steps_ == [f"{sign} {name}" for name in order.split()]
    np.testing.assert_allclose(model.criterion_path_, [float(value) for value in values.split()], atol=1e-6)
    assert model.selected_features_ == ["x0", "x3", "x6", "x8"]


def slow_rss(X: np.ndarray, y: np.ndarray, w: np.ndarray, columns: list[int], base: str) -> tuple[float, int]:
    """Return the RSS and degrees of freedom of a fit made from nothing."""
    root = np.sqrt(w)
    A, b = root[:, None] * np.column_stack([np.ones(len(y)), X[:, columns]]), root * y
    if base == "nnls":
        t, norm = nnls(A, b)
        return norm**2, int(np.sum(t > 0))
    t = np.linalg.lstsq(A, b, rcond=None)[0]
    return float(np.sum((b - A @ t) ** 2)), len(columns) + 1


def slow_search(
    X: np.ndarray, y: np.ndarray, w: np.ndarray, base: str, direction: str, k: float
) -> tuple[list[int], list[float]]:
    """Return the moves and criterion values of the plainest stepwise search: the oracle of the fast one."""

    def value(columns: list[int]) -> float:
        rss, edf = slow_rss(X, y, w, columns, base)
        return inf if edf >= len(y) else len(y) * log(rss / len(y)) + k * edf

    p = X.shape[1]
    columns = [] if direction == "forward" else list(range(p))
    moves, values = [], [value(columns)]
    while True:
        if direction == "forward":
            trials = {j: sorted([*columns, j]) for j in range(p) if j not in columns}
        else:
            trials = {j: [c for c in columns if c != j] for j in columns}
        if not trials:
            return moves, values
        best = min(trials, key=lambda j: value(trials[j]))
        if value(trials[best]) >= values[-1] - 1e-9:
            return moves, values
        columns = trials[best]
        moves.append(best)
        values.append(value(columns))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("criterion", ["aic", "bic"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("base", ["ols", "nnls"])
def test_fast_search_equals_slow_search(base: str, direction: str, criterion: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(40, 9))
    X[:, 8] = X[:, :2].sum(axis=1) + 0.1 * X[:, 8]
    X *= 10.0 ** rng.integers(-3, 4, size=9)
    y = 2 + (X / X.std(axis=0)) @ rng.normal(0.5, 1, size=9) + rng.normal(size=40)
    w = rng.uniform(0.2, 3, size=40)
    moves, values = slow_search(X, y, w, base, direction, 2 if criterion == "aic" else log(40))
    model = Stepwise(base=base, direction=direction, criterion=criterion).fit(X, y, sample_weight=w)
    assert [int(step[3:]) for step in model.steps_] == moves
    np.testing.assert_allclose(model.criterion_path_, values, rtol=1e-8, atol=1e-8)


def test_chosen_model_is_weighted_least_squares_on_the_chosen_columns() -> None:
    X, y, w = waves()
    model = Stepwise(criterion="bic").fit(X, y, sample_weight=w)
    chosen = [0, 3, 6, 8]
    reference = sm.WLS(y, sm.add_constant(X[:, chosen]), weights=w).fit()
    np.testing.assert_allclose([model.intercept_, *model.coef_[chosen]], reference.params)
    np.testing.assert_allclose(model.p_values_[chosen], reference.pvalues[1:])
    assert np.isnan(np.delete(model.p_values_, chosen)).all()
    assert not np.delete(model.coef_, chosen).any()


def wide(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return 15 rows of 40 columns."""
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(15, 40)), rng.uniform(1, 9, size=15)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("base", ["ols", "nnls"])
def test_more_columns_than_rows_leaves_a_residual_degree_of_freedom(base: str, direction: str) -> None:
    X, y = wide()
    model = Stepwise(base=base, direction=direction).fit(X, y)
    assert 0 < len(model.selected_features_) <= 13
    assert np.isfinite(model.criterion_path_).all()
    assert np.mean((model.predict(X) - y) ** 2) > 0


def test_backward_begins_where_one_residual_degree_of_freedom_is_left() -> None:
    model = Stepwise(direction="backward").fit(*wide())
    assert len(model.selected_features_) + len(model.steps_) == 13  # 15 rows, less intercept, less one
    assert np.isfinite(Criterion(15, 2.0)(1.0, 14))
    assert Criterion(15, 2.0)(1.0, 15) == inf


@pytest.mark.parametrize("base", ["ols", "nnls"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_criterion_falls_and_max_features_caps(base: str, direction: str) -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(60, 8))
    y = X @ [0.2, 0.3, 0.2, 0.3, 0.2, 5, 6, 7] + 0.05 * rng.normal(size=60)
    model = Stepwise(base=base, direction=direction).fit(X, y)
    assert all(later < earlier for earlier, later in pairwise(model.criterion_path_))
    assert len(model.selected_features_) == 8
    capped = Stepwise(base=base, direction=direction, max_features=3).fit(X, y)
    assert capped.selected_features_ == ["x5", "x6", "x7"]


def test_copies_of_rows_are_no_new_evidence() -> None:
    X, y, _ = waves()
    thrice = Stepwise(criterion="bic").fit(np.tile(X, (3, 1)), np.tile(y, 3))
    weighted = Stepwise(criterion="bic").fit(X, y, sample_weight=np.full(120, 3.0))
    np.testing.assert_allclose(thrice.criterion_path_, weighted.criterion_path_)
    assert thrice.selected_features_ == Stepwise(criterion="bic").fit(X, y).selected_features_


def test_collinear_copies_are_chosen_once() -> None:
    X, y, _ = waves()
    doubled = np.column_stack([X, 3 * X, X[:, :1] - X[:, 3:4], np.ones(120)])
    for direction in ("forward", "backward"):
        model = Stepwise(direction=direction).fit(doubled, y)
        np.testing.assert_allclose(model.predict(doubled), Stepwise(direction=direction).fit(X, y).predict(X))
        assert len(model.selected_features_) == 4


def test_non_negative_selection_drops_what_others_replace() -> None:
    """The sum of two columns enters first, and is held at zero once both of them are in."""
    rng = np.random.default_rng(7)
    a, b = rng.uniform(size=(2, 80))
    error = 0.01 * rng.normal(size=80)
    X = pd.DataFrame({"sum": a + b + error, "a": a, "b": b})
    model = Stepwise(base="nnls", criterion="bic").fit(X, a + 1.1 * b - 0.5 * error)
    assert model.steps_[0] == "+ sum"
    assert model.selected_features_ == ["a", "b"]


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("base", ["ols", "nnls"])
@pytest.mark.parametrize(("slope", "level"), [(4.0, 1.0), (0.0, 0.0), (0.0, 1.0)])
def test_perfect_and_constant_targets(base: str, direction: str, slope: float, level: float) -> None:
    X = np.random.default_rng(8).uniform(size=(30, 4))
    y = slope * X[:, 1] + level
    model = Stepwise(base=base, direction=direction).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-12)
    if y.std() > 0:
        assert model.selected_features_ == ["x1"]


@pytest.mark.parametrize("parameters", [{"base": "ridge"}, {"direction": "both"}, {"criterion": "cp"}])
def test_unknown_options_are_refused(parameters: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"must be .* got .*{next(iter(parameters.values()))}"):
        Stepwise(**parameters).fit([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0])
