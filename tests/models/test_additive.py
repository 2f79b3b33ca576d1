from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from flopcast.models.baselines import AdditiveTime, fit_terms


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
    exact = linprog(cost, A_eq=np.hstack([relative, np.eye(80), -np.eye(80)]), b_eq=np.ones(80), method="highs")
    found = np.abs(relative @ fit_terms(terms, y) - 1).sum()
    assert exact.fun <= found + 1e-9
    assert found == pytest.approx(exact.fun, rel=2e-3)


def test_coefficients_are_never_negative_and_predictions_positive() -> None:
    x = np.linspace(1, 9, 30)[:, None]
    model = AdditiveTime().fit(x, 10 - x[:, 0])
    assert (model.coef_ >= 0).all()
    assert (model.predict([[-5.0], [1e9]]) > 0).all()


def test_known_law_is_extrapolated_ten_times_beyond_the_data() -> None:
    rng = np.random.default_rng(0)
    work = pd.DataFrame({"compute.target_us": rng.uniform(1, 50, 200), "memory.target_us": rng.uniform(1, 50, 200)})
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
    with pytest.raises(ValueError, match="NaN or infinity in other"):
        AdditiveTime(["other"]).fit(frame, [1.0, 2.0, 3.0])


def test_negative_targets_are_refused() -> None:
    with pytest.raises(ValueError, match="needs positive targets: 1 of 3"):
        AdditiveTime().fit([[1.0], [2.0], [3.0]], [1.0, -2.0, 3.0])
