"""The one-column baselines against brute force, hand-solved cases and AMD's own pairs."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold, cross_val_predict

from flopcast.models.base import selected_features
from flopcast.models.baselines import Affine, AnalyticLaw, ConstantRatio, weighted_median

TIMES = pd.DataFrame({"size": [1.0, 2.0, 3.0], "host_us": [10.0, 20.0, 40.0], "law": [5.0, 9.0, 21.0]})


def test_law_is_its_column() -> None:
    for column in ("law", 2, -1):
        model = AnalyticLaw(column).fit(TIMES, [1.0, 2.0, 3.0])
        assert model.predict(TIMES).tolist() == [5.0, 9.0, 21.0]
        assert selected_features(model) == ["law"]


@pytest.mark.parametrize("column", ["roofline", 3])
def test_missing_column_is_named(column: str | int) -> None:
    with pytest.raises(ValueError, match=f"no column {column!r}, which ConstantRatio reads: it has size, host_us, law"):
        ConstantRatio(column).fit(TIMES, [1.0, 2.0, 3.0])


def test_other_columns_may_be_missing() -> None:
    X = TIMES.assign(size=np.nan)
    assert ConstantRatio("host_us").fit(X, [5.0, 10.0, 20.0]).predict(X).tolist() == [5.0, 10.0, 20.0]
    with pytest.raises(ValueError, match="Input column 'size' of X contains NaN"):
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
    assert relative_l1(y, ratio.predict(x[:, None])) == pytest.approx(min(relative_l1(y, r * x) for r in y / x))
    lines = [(0.0, r) for r in y / x] + [(a, 0.0) for a in y]
    for i, j in combinations(range(25), 2):
        slope = (y[j] - y[i]) / (x[j] - x[i])
        lines.append((y[i] - slope * x[i], slope))
    best = min(relative_l1(y, a + b * x) for a, b in lines if a >= -1e-12 and b >= 0)
    line = Affine().fit(x[:, None], y)
    assert line.intercept_ >= 0
    assert line.ratio_ >= 0
    assert relative_l1(y, line.predict(x[:, None])) == pytest.approx(best, rel=1e-9)


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
    with pytest.raises(ValueError, match="needs positive targets: 2 of 3 are zero or negative"):
        model.fit([[1.0], [2.0], [3.0]], [1.0, 0.0, -1.0])


def test_line_on_amd_pairs_is_within_ten_percent(shared_data: Path) -> None:
    """MI300X to MI355X, FP8 block-scale GEMM: a two-parameter line beats FLOPS scaling (about 30 %)."""
    files = [shared_data / "aiter" / "a8w8_blockscale_tuned_gemm.csv"]
    files += sorted((shared_data / "aiter" / "model_configs").glob("a8w8_blockscale_tuned_gemm_*.csv"))
    rows = pd.concat([pd.read_csv(file) for file in files]).query("us > 0")
    shape = ["M", "N", "K"]
    host = rows[(rows["gfx"] == "gfx942") & (rows["cu_num"] == 304)].groupby(shape)["us"].median()
    target = rows[(rows["gfx"] == "gfx950") & (rows["cu_num"] == 256)].groupby(shape)["us"].median()
    pairs = pd.concat({"host_us": host, "target_us": target}, axis=1, join="inner")
    y = pairs["target_us"].to_numpy()
    folds = KFold(10, shuffle=True, random_state=0)
    error = {
        type(model).__name__: 100 * relative_l1(y, cross_val_predict(model, pairs[["host_us"]], y, cv=folds)) / len(y)
        for model in (ConstantRatio(), Affine())
    }
    assert error["Affine"] < 10.2
    assert error["Affine"] < error["ConstantRatio"] < 20


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0.1, 3)), min_size=1, max_size=20), st.floats(-6, 6))
def test_the_weighted_median_minimises_absolute_deviations(pairs: list[tuple[float, float]], other: float) -> None:
    values, weights = np.array(pairs).T
    middle = weighted_median(values, weights)
    assert np.sum(weights * np.abs(values - middle)) <= np.sum(weights * np.abs(values - other)) + 1e-9
