"""Stepwise selection: criteria, paths and what is shared."""

from __future__ import annotations

from itertools import pairwise
from math import inf, log

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from statsmodels.regression import linear_model
from statsmodels.tools import add_constant

from flopcast.models.base import DroppedColumns, Memo, fit
from flopcast.models.linear import stepwise
from flopcast.models.linear.stepwise import CRITERIA, Criterion, Stepwise, distinct_rows, new_path
from flopcast.models.target_space import RelativeError

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


# R 4.2.2, waves(200, 40): step(null, ..., k = 2)$anova forwards, step(full, ..., k = log(200))$anova backwards
LONG_STEP_OF_R = {
    ("forward", "aic"): (
        "x0 x3 x6 x8 x4 x13 x28 x14 x26",
        "276.342339 129.048003 -67.667382 -170.113788 -178.974348 -179.878271 -180.362376 -181.081234 -181.386950 "
        "-181.566167",
    ),
    ("backward", "bic"): (
        "x7 x25 x33 x12 x20 x35 x32 x39 x31 x10 x11 x1 x23 x22 x29 x37 x16 x24 x17 x15 x2 x36 x18 x27 x30 x19 x9 x38 "
        "x21 x5 x34 x26 x14 x28 x13 x4",
        "-4.197456 -9.462371 -14.717687 -19.949076 -25.170285 -30.388195 -35.520419 -40.638765 -45.740398 -50.824617 "
        "-55.931784 -60.979468 -66.013995 -71.006865 -75.970703 -80.941849 -85.831709 -90.707587 -95.546291 "
        "-100.394583 -105.127352 -109.799209 -114.461213 -119.001505 -123.189587 -127.266917 -131.249518 -134.959572 "
        "-138.586172 -141.983890 -145.261203 -148.582993 -151.702094 -154.694695 -157.274154 -160.088367 -162.482761",
    ),
}


def waves(n: int = 120, p: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y and weights by a formula that any language can repeat."""
    i = np.arange(1, n + 1)
    X = np.column_stack(
        [np.sin(i * np.sqrt(j) * 1.7) + 0.3 * np.sin(i * 0.9) for j in range(1, p + 1)]
    )
    y = 3 + 2 * X[:, 0] - 1.5 * X[:, 3] + 0.8 * X[:, 6] + 0.2 * X[:, 8] + 0.9 * np.sin(0.37 * i**2)
    return X, y, 1.0 + i % 5


@pytest.mark.parametrize(("direction", "criterion", "weighted"), STEP_OF_R)
def test_sequence_and_criterion_equal_r(direction: str, criterion: str, weighted: bool) -> None:
    X, y, w = waves()
    model = Stepwise(direction=direction, criterion=criterion).fit(
        X, y, sample_weight=w if weighted else None
    )
    order, values = STEP_OF_R[direction, criterion, weighted]
    sign = "+" if direction == "forward" else "-"
    assert model.steps_ == [f"{sign} {name}" for name in order.split()]
    np.testing.assert_allclose(
        model.criterion_path_, [float(value) for value in values.split()], atol=1e-6
    )
    assert model.selected_features_ == ["x0", "x3", "x6", "x8"]


@pytest.mark.parametrize(("direction", "criterion"), LONG_STEP_OF_R)
def test_a_long_sequence_equals_r(direction: str, criterion: str) -> None:
    X, y, _ = waves(200, 40)
    model = Stepwise(direction=direction, criterion=criterion).fit(X, y)
    order, values = LONG_STEP_OF_R[direction, criterion]
    assert [step[2:] for step in model.steps_] == order.split()
    np.testing.assert_allclose(
        model.criterion_path_, [float(value) for value in values.split()], atol=1e-6
    )


def slow_rss(X: np.ndarray, y: np.ndarray, w: np.ndarray, columns: list[int], base: str) -> float:
    """Return the RSS of a fit made from nothing."""
    root = np.sqrt(w)
    A, b = root[:, None] * np.column_stack([np.ones(len(y)), X[:, columns]]), root * y
    if base == "nnls":
        return float(nnls(A, b)[1] ** 2)
    t = np.linalg.lstsq(A, b, rcond=None)[0]
    return float(np.sum((b - A @ t) ** 2))


def slow_search(
    X: np.ndarray, y: np.ndarray, w: np.ndarray, base: str, direction: str, k: float
) -> tuple[list[int], list[float]]:
    """Return the moves and criterion values of the plainest stepwise search: the oracle of the fast one."""

    def value(columns: list[int]) -> float:
        edf = len(columns) + 1
        return (
            inf
            if edf >= len(y)
            else len(y) * log(slow_rss(X, y, w, columns, base) / len(y)) + k * edf
        )

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
        found = {j: value(columns) for j, columns in trials.items()}
        best = next(j for j, trial in found.items() if trial <= min(found.values()) + 1e-9)
        if found[best] >= values[-1] - 1e-9:
            return moves, values
        columns = trials[best]
        moves.append(best)
        values.append(value(columns))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("criterion", ["aic", "bic"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("base", ["ols", "nnls"])
def test_fast_search_equals_slow_search(
    base: str, direction: str, criterion: str, seed: int
) -> None:
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
    reference = linear_model.WLS(y, add_constant(X[:, chosen]), weights=w).fit()
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
def test_more_columns_than_rows_leaves_a_residual_degree_of_freedom(
    base: str, direction: str
) -> None:
    X, y = wide()
    model = Stepwise(base=base, direction=direction).fit(X, y)
    assert 0 < len(model.selected_features_) <= 13
    assert np.isfinite(model.criterion_path_).all()
    assert np.mean((model.predict(X) - y) ** 2) > 0


def test_backward_begins_where_one_residual_degree_of_freedom_is_left() -> None:
    model = Stepwise(direction="backward").fit(*wide())
    # 15 rows, less intercept, less one
    assert len(model.selected_features_) + len(model.steps_) == 13
    assert model.edf_path_[0] == 14
    corrected = Stepwise(direction="backward", criterion="aicc").fit(*wide())
    # AICc has no value before
    assert len(corrected.selected_features_) + len(corrected.steps_) == 11
    assert corrected.edf_path_[0] == 12
    assert np.isfinite(corrected.criterion_path_).all()


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("base", ["ols", "nnls"])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_two_or_three_rows_are_enough(base: str, direction: str, criterion: str) -> None:
    model = Stepwise(base=base, direction=direction, criterion=criterion)
    for n in (2, 3):
        X, y = wide()
        assert np.isfinite(model.fit(X[:n], y[:n]).predict(X)).all()
        assert len(model.selected_features_) <= 1


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("base", ["ols", "nnls"])
def test_the_paths_are_those_of_the_criterion(base: str, direction: str) -> None:
    X, y, w = waves()
    model = Stepwise(base=base, direction=direction, criterion="aicc").fit(X, y, sample_weight=w)
    n, edf, rss = 120, model.edf_path_, model.rss_path_
    expected = n * np.log(rss / n) + 2 * n * (edf + 1) / (n - edf - 2) - 2
    np.testing.assert_allclose(model.criterion_path_, expected)
    assert len(edf) == len(model.steps_) + 1
    assert abs(np.diff(edf)).tolist() == [1] * len(model.steps_)
    residual = y - model.predict(X)
    assert rss[-1] == pytest.approx(np.sum(w * residual**2))


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("base", ["ols", "nnls"])
def test_one_path_serves_all_criteria(
    base: str, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of the criteria to stop leaves a path that the next one continues: to the same bits as a new one."""
    X, y, w = waves()
    alone = {}
    for name in ("aic", "bic"):
        alone[name] = Stepwise(base=base, direction=direction, criterion=name).fit(X, y, w)
    made: list[str] = []
    monkeypatch.setattr(stepwise, "new_path", lambda *rest: made.append(rest[3]) or new_path(*rest))
    for names in (("bic", "aic", "aic"), ("aic", "bic", "aic")):
        made.clear()
        paths = Memo()
        for name in names:
            shared = clone(alone[name]).fit(X.copy(), y, w, memo=paths)
            for attribute in ("coef_", "criterion_path_", "rss_path_"):
                np.testing.assert_array_equal(
                    getattr(shared, attribute), getattr(alone[name], attribute)
                )
        assert made == [base]
    Stepwise(base=base, direction=direction).fit(X, 2 * y, w, memo=paths)
    assert made == [base, base]


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
        with pytest.warns(DroppedColumns, match="x25"):
            model = Stepwise(direction=direction).fit(doubled, y)
        np.testing.assert_allclose(
            model.predict(doubled), Stepwise(direction=direction).fit(X, y).predict(X)
        )
        assert len(model.selected_features_) == 4


def test_non_negative_selection_drops_what_others_replace() -> None:
    """The sum of two columns enters first, and is held at zero once both of them are in."""
    rng = np.random.default_rng(7)
    a, b = rng.uniform(size=(2, 80))
    error = 0.01 * rng.normal(size=80)
    X = pd.DataFrame({"sum": a + b + error, "a": a, "b": b})
    model = Stepwise(base="nnls", criterion="bic").fit(X, a + 1.1 * b - 0.5 * error)
    assert model.steps_ == ["+ sum", "+ b", "+ a"]
    assert model.selected_features_ == ["a", "b"]
    assert model.edf_path_.tolist() == [1, 2, 3, 4]  # the column held at zero counts


def test_backward_elimination_does_not_stop_at_columns_that_could_stand_in() -> None:
    """Columns at zero go first, and do not come back for those removed."""
    rng = np.random.default_rng(9)
    factors = rng.lognormal(size=(80, 6))
    X = factors @ rng.gamma(0.5, 1.0, size=(6, 40)) * rng.lognormal(0, 0.2, size=(80, 40))
    y = X[:, :5].sum(axis=1) + rng.normal(size=80)
    model = Stepwise(base="nnls", direction="backward", criterion="bic").fit(X, y)
    assert all(later < earlier for earlier, later in pairwise(model.criterion_path_))
    assert len(model.selected_features_) <= 12
    idle = np.sum(np.diff(model.rss_path_) == 0)
    assert idle >= 10
    assert not np.diff(model.rss_path_)[:idle].any()


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("base", ["ols", "nnls"])
@pytest.mark.parametrize(("slope", "level"), [(4.0, 1.0), (0.0, 0.0), (0.0, 1.0)])
def test_perfect_and_constant_targets(
    base: str, direction: str, slope: float, level: float
) -> None:
    X = np.random.default_rng(8).uniform(size=(30, 4))
    y = slope * X[:, 1] + level
    model = Stepwise(base=base, direction=direction).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-12)
    if y.std() > 0:
        assert model.selected_features_ == ["x1"]


@pytest.mark.parametrize(
    "parameters", [{"base": "ridge"}, {"direction": "both"}, {"criterion": "cp"}]
)
def test_unknown_options_are_refused(parameters: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"must be .* got .*{next(iter(parameters.values()))}"):
        Stepwise(**parameters).fit([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("apart", [2e-7, 1e-5])
def test_the_model_is_the_one_that_the_path_selected(direction: str, apart: float) -> None:
    """Columns that the path's tolerance tells apart are not merged by that of the fit."""
    rng = np.random.default_rng(1)
    z, e = rng.normal(size=(2, 60))
    X, y = np.column_stack([z, z + apart * e]), e + z + 0.1 * rng.normal(size=60)
    model = Stepwise(direction=direction).fit(X, y)
    assert model.selected_features_ == ["x0", "x1"]
    assert np.sum((y - model.predict(X)) ** 2) == pytest.approx(model.rss_path_[-1], rel=1e-6)
    assert model.rank_ == 2


def test_backward_elimination_of_repeats_does_not_depend_on_the_order_of_columns() -> None:
    """More columns than distinct rows: whichever come first must not be those that it begins with."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(20, 40)), 4, axis=0)
    y = 3 * X[:, 30] + 2 * X[:, 39] + 0.1 * rng.normal(size=80)
    here, there = (
        Stepwise(direction="backward", criterion="bic").fit(A, y) for A in (X, X[:, ::-1])
    )
    assert here.criterion_path_[-1] == pytest.approx(there.criterion_path_[-1])
    assert {"x30", "x39"} < set(here.selected_features_)


def test_aic_and_bic_by_hand() -> None:
    assert Criterion.named("aic", 50)(100.0, 4) == pytest.approx(50 * log(2.0) + 8)
    assert Criterion.named("bic", 50)(100.0, 4) == pytest.approx(50 * log(2.0) + 4 * log(50))


def test_aicc_is_that_of_hurvich_and_tsai_less_what_all_models_share() -> None:
    n, edf, rss = 30, 5, 12.0
    published = n * log(rss / n) + n * (1 + edf / n) / (1 - (edf + 2) / n)  # equation 4, m = edf
    assert Criterion.named("aicc", n)(rss, edf) == pytest.approx(published - n - 2)


def test_aicc_tends_to_aic_and_is_above_it() -> None:
    many, few = (
        Criterion.named("aicc", n)(1.0, 6) - Criterion.named("aic", n)(1.0, 6) for n in (10**6, 20)
    )
    assert 0 < many < 1e-3
    assert few > 5


@pytest.mark.parametrize(("name", "largest"), [("aic", 14), ("bic", 14), ("aicc", 12)])
def test_no_value_without_residual_degrees_of_freedom(name: str, largest: int) -> None:
    criterion = Criterion.named(name, 15)
    assert criterion.largest == largest
    assert np.isfinite(criterion(1.0, largest))
    assert criterion(1.0, largest + 1) == inf
    assert criterion(0.0, 1) == -inf


def test_rows_that_are_copies_count_once() -> None:
    X = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0], [0.0, 3.0], [-0.0, 3.0]])
    assert distinct_rows(X, np.array([5.0, 5.0, 5.0, 5.0, 5.0])) == 3
    assert distinct_rows(X, np.array([5.0, 6.0, 5.0, 5.0, 7.0])) == 5


def test_equal_rows_have_the_same_path_and_others_another() -> None:
    paths = Memo()
    rows = (np.arange(3.0), np.eye(3))
    path = paths.of("kind", rows, list)
    assert paths.of("kind", (np.arange(3.0), np.eye(3)), list) is path
    assert paths.of("other", rows, list) is not path
    assert paths.of("kind", (np.arange(3.0) + 1, np.eye(3)), list) is not path
    assert paths.of("kind", (np.arange(4.0), np.eye(3)), list) is not path
    assert Memo().of("kind", rows, list) is not path


def test_paths_reach_the_search_through_wrappers_and_pipelines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = np.random.default_rng(0).uniform(1, 2, (30, 4))
    y, made, paths = X[:, 0] + 2 * X[:, 1], list[str](), Memo()
    monkeypatch.setattr(stepwise, "new_path", lambda *rest: made.append(rest[3]) or new_path(*rest))
    for criterion in ("aic", "bic"):
        fit(RelativeError(make_pipeline(Stepwise(criterion=criterion))), X, y, memo=paths)
    assert made == ["ols"]
    fit(RelativeError(make_pipeline(Stepwise())), X, y)
    assert made == ["ols", "ols"]
