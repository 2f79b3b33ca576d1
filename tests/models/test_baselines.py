"""Analytic laws, a constant ratio, a line, and the sum of terms."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.model_selection import KFold, cross_val_predict

from flopcast.models import baselines
from flopcast.models.base import selected_features
from flopcast.models.baselines import (
    AdditiveTime,
    Affine,
    AnalyticLaw,
    ConstantRatio,
    fit_terms,
    weighted_median,
)

TIMES = pd.DataFrame(
    {"size": [1.0, 2.0, 3.0], "host_us": [10.0, 20.0, 40.0], "law": [5.0, 9.0, 21.0]}
)


def test_law_is_its_column() -> None:
    for column in ("law", 2, -1):
        model = AnalyticLaw(column).fit(TIMES, [1.0, 2.0, 3.0])
        assert model.predict(TIMES).tolist() == [5.0, 9.0, 21.0]
        assert selected_features(model) == ["law"]


@pytest.mark.parametrize("column", ["roofline", 3])
def test_missing_column_is_named(column: str | int) -> None:
    with pytest.raises(
        ValueError,
        match=f"no column {column!r}, which ConstantRatio reads: it has size, host_us, law",
    ):
        ConstantRatio(column).fit(TIMES, [1.0, 2.0, 3.0])


def test_other_columns_may_be_missing() -> None:
    X = TIMES.assign(size=np.nan)
    assert ConstantRatio("host_us").fit(X, [5.0, 10.0, 20.0]).predict(X).tolist() == [
        5.0,
        10.0,
        20.0,
    ]
    with pytest.raises(ValueError, match=r"'size'.*NaN"):
        ConstantRatio("size").fit(X, [1.0, 2.0, 3.0])


def relative_l1(y: np.ndarray, prediction: np.ndarray) -> float:
    return float(np.sum(np.abs(y - prediction) / y))


@pytest.mark.parametrize("seed", range(5))
def test_ratio_and_line_are_optimal(seed: int) -> None:
    """Some optimal line passes through two points, or through one with a = 0 or b = 0."""
    rng = np.random.default_rng(seed)
    x = rng.lognormal(2, 1, size=25)
    y = rng.choice([3.0, 0.0, -1.0]) + x * rng.lognormal(0, 0.5, size=25)
    y = np.maximum(y, 0.1)
    ratio = ConstantRatio().fit(x[:, None], y)
    assert relative_l1(y, ratio.predict(x[:, None])) == pytest.approx(
        min(relative_l1(y, r * x) for r in y / x)
    )
    lines = [(0.0, r) for r in y / x] + [(a, 0.0) for a in y]
    for i, j in combinations(range(25), 2):
        slope = (y[j] - y[i]) / (x[j] - x[i])
        lines.append((y[i] - slope * x[i], slope))
    best = min(relative_l1(y, a + b * x) for a, b in lines if a >= -1e-12 and b >= 0)
    line = Affine().fit(x[:, None], y)
    assert line.intercept_ >= 0
    assert line.ratio_ >= 0
    assert relative_l1(y, line.predict(x[:, None])) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("repeated", [False, True])
def test_the_line_of_many_rows_is_that_of_the_whole_program(
    repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    x = rng.lognormal(3, 2, 9000)
    y = 3 + 2 * x * rng.lognormal(0, 0.4, 9000)
    if repeated:  # many rows on one point, and all of them on few
        x, y = np.repeat(x[:90], 100), np.repeat(y[:90].round(1) + 0.1, 100)
    monkeypatch.setattr(baselines, "WHOLE", 500)
    part = Affine().fit(x[:, None], y)
    monkeypatch.setattr(baselines, "WHOLE", len(y))
    whole = Affine().fit(x[:, None], y)
    assert part.ratio_ == pytest.approx(whole.ratio_, rel=1e-9)
    assert part.intercept_ == pytest.approx(whole.intercept_, rel=1e-9)


def test_line_ignores_one_wild_row() -> None:
    x = np.arange(1.0, 12.0)
    y = 2 + 0.5 * x
    y[4] = 900
    model = Affine().fit(x[:, None], y)
    assert (model.intercept_, model.ratio_) == (pytest.approx(2), pytest.approx(0.5))


def test_column_of_zeros_has_ratio_zero() -> None:
    assert ConstantRatio().fit(np.zeros((3, 1)), [1.0, 2.0, 3.0]).ratio_ == 0
    assert Affine().fit(np.zeros((3, 1)), [1.0, 1.0, 3.0]).predict([[0.0]]) == pytest.approx(1)


@pytest.mark.parametrize("model", [ConstantRatio(), Affine()])
def test_zero_targets_are_refused(model: ConstantRatio | Affine) -> None:
    with pytest.raises(ValueError, match="2 of 3"):
        model.fit([[1.0], [2.0], [3.0]], [1.0, 0.0, -1.0])


def test_line_on_amd_pairs_is_within_ten_percent(shared_data: Path) -> None:
    """MI300X to MI355X, FP8 block-scale GEMM: a two-parameter line beats FLOPS scaling (about 30 %)."""
    files = [shared_data / "aiter" / "a8w8_blockscale_tuned_gemm.csv"]
    files += sorted(
        (shared_data / "aiter" / "model_configs").glob("a8w8_blockscale_tuned_gemm_*.csv")
    )
    rows = pd.concat([pd.read_csv(file) for file in files]).query("us > 0")
    shape = ["M", "N", "K"]
    host = rows[(rows["gfx"] == "gfx942") & (rows["cu_num"] == 304)].groupby(shape)["us"].median()
    target = rows[(rows["gfx"] == "gfx950") & (rows["cu_num"] == 256)].groupby(shape)["us"].median()
    pairs = pd.concat({"host_us": host, "target_us": target}, axis=1, join="inner")
    y = pairs["target_us"].to_numpy()
    folds = KFold(10, shuffle=True, random_state=0)
    error = {
        type(model).__name__: 100
        * relative_l1(y, cross_val_predict(model, pairs[["host_us"]], y, cv=folds))
        / len(y)
        for model in (ConstantRatio(), Affine())
    }
    assert error["Affine"] < 10.2
    assert error["Affine"] < error["ConstantRatio"] < 20


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(0.1, 3)), min_size=1, max_size=20),
    st.floats(-6, 6),
)
def test_the_weighted_median_minimises_absolute_deviations(
    pairs: list[tuple[float, float]], other: float
) -> None:
    values, weights = np.array(pairs).T
    middle = weighted_median(values, weights)
    assert (
        np.sum(weights * np.abs(values - middle)) <= np.sum(weights * np.abs(values - other)) + 1e-9
    )


def test_hand_solved_line_with_an_outlier_keeps_the_line() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    y = 3 + 2 * x
    y[2] = 90.0
    model = AdditiveTime().fit(x[:, None], y)
    assert model.coef_[0] == pytest.approx([3, 2], rel=1e-3)


def test_close_to_the_exact_linear_program() -> None:
    rng = np.random.default_rng(3)
    terms = np.column_stack([np.ones(80), rng.lognormal(size=(80, 3))])
    y = terms @ [1.0, 0.5, 0.0, 2.0] * np.exp(0.2 * rng.normal(size=80))
    relative = terms / y[:, None]
    cost = np.r_[np.zeros(4), np.ones(160)]
    exact = linprog(
        cost, A_eq=np.hstack([relative, np.eye(80), -np.eye(80)]), b_eq=np.ones(80), method="highs"
    )
    found = np.abs(relative @ fit_terms(terms, y) - 1).sum()
    assert exact.fun <= found + 1e-9
    assert found == pytest.approx(exact.fun, rel=2e-3)


def test_coefficients_are_never_negative_and_predictions_positive() -> None:
    x = np.linspace(1, 9, 30)[:, None]
    model = AdditiveTime().fit(x, 10 - x[:, 0])
    assert (model.coef_ >= 0).all()
    assert (model.predict([[-5.0], [1e9]]) > 0).all()


def test_a_prediction_is_at_least_a_tenth_of_the_least_time_seen() -> None:
    x = np.arange(1.0, 9.0)[:, None]
    assert AdditiveTime().fit(x, 5 * x[:, 0]).predict([[0.0], [4.0]]) == pytest.approx(
        [0.5, 20.0], rel=1e-3
    )


def test_known_law_is_extrapolated_ten_times_beyond_the_data() -> None:
    rng = np.random.default_rng(0)
    work = pd.DataFrame(
        {"compute.target_us": rng.uniform(1, 50, 200), "memory.target_us": rng.uniform(1, 50, 200)}
    )
    truth = 4 + 1.5 * work["compute.target_us"] + 0.7 * work["memory.target_us"]
    model = AdditiveTime(["compute.target_us", "memory.target_us"]).fit(
        work, truth * np.exp(0.05 * rng.normal(size=200))
    )
    far = pd.DataFrame({"compute.target_us": [500.0], "memory.target_us": [500.0]})
    assert model.predict(far)[0] == pytest.approx(4 + 1.5 * 500 + 0.7 * 500, rel=0.05)


def test_classes_have_their_own_coefficients_from_min_rows_on() -> None:
    x = np.linspace(1, 10, 40)
    frame = pd.DataFrame({"x": np.r_[x, x, x[:5]], "op=a": 0.0, "op=b": 0.0, "op=rare": 0.0})
    frame.loc[:39, "op=a"], frame.loc[40:79, "op=b"], frame.loc[80:, "op=rare"] = 1.0, 1.0, 1.0
    y = np.r_[2 * x, 5 * x, 2 * x[:5]]
    model = AdditiveTime(["x"], by="op=").fit(frame, y)
    assert [frame.columns[j] for j in model.class_columns_] == ["op=a", "op=b"]
    assert model.predict(frame)[:80] == pytest.approx(y[:80], rel=1e-2)
    assert model.selected_features_ == ["x"]


def test_nan_in_a_term_is_refused_and_elsewhere_ignored() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "other": [np.nan, 1.0, 2.0]})
    AdditiveTime(["x"]).fit(frame, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="in other"):
        AdditiveTime(["other"]).fit(frame, [1.0, 2.0, 3.0])


def test_negative_targets_are_refused() -> None:
    with pytest.raises(ValueError, match="1 of 3"):
        AdditiveTime().fit([[1.0], [2.0], [3.0]], [1.0, -2.0, 3.0])
