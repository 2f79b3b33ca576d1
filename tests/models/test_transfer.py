from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from flopcast.models.baselines import AdditiveTime
from flopcast.models.ensembles import SHAPE_TIME, CrossFitted, LogResidual, Transfer


def _rows(n: int, paired: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Target time depends on the shape alone, in a way that the host does not show."""
    rng = np.random.default_rng(seed)
    work, step = rng.uniform(5, 50, n), rng.integers(0, 5, n).astype(float)
    y = work * np.array([0.5, 0.8, 1.0, 1.5, 2.0])[step.astype(int)]
    host = np.where(np.arange(n) < paired, work, np.nan)
    return pd.DataFrame({"host_us": host, "work": work, "step": step}), y


def _model() -> Transfer:
    shape = CrossFitted(LogResidual(AdditiveTime(["work"]), ExtraTreesRegressor(10, random_state=0)), cv=3)
    second = LogResidual(
        AdditiveTime(["host_us"]), ExtraTreesRegressor(20, random_state=0), columns=["host_us"], ratios=[SHAPE_TIME]
    )
    return Transfer(shape, second, shape_columns=["work", "step"])


def test_unpaired_rows_teach_what_pairs_cannot() -> None:
    X, y = _rows(400, 30, 0)
    new, truth = _rows(100, 100, 1)
    taught = np.mean(np.abs(_model().fit(X, y).predict(new) / truth - 1))
    alone = np.mean(np.abs(_model().fit(X[:30], y[:30]).predict(new) / truth - 1))
    assert taught < 0.5 * alone


def test_shape_time_of_training_rows_is_out_of_fold() -> None:
    """Were it not, noise in y would pass for knowledge and the second model would repeat it."""
    rng = np.random.default_rng(0)
    X, _ = _rows(120, 60, 0)
    y = np.exp(rng.normal(size=120))
    model = _model().fit(X, y)
    assert np.mean(np.abs(np.log(model.shape_model_.predict(X[["work", "step"]]) / y))) < 0.6
    new, _ = _rows(60, 60, 5)
    assert np.abs(np.log(model.predict(new))).mean() < 1.2


def test_rows_to_predict_need_a_host_time_and_some_rows_must_be_paired() -> None:
    X, y = _rows(40, 20, 0)
    model = _model().fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(X)
    with pytest.raises(ValueError, match="needs rows without NaN"):
        _model().fit(X[20:], y[20:])


def test_nan_is_refused_where_no_column_is_said_to_be_shape() -> None:
    X, y = _rows(40, 20, 0)
    with pytest.raises(ValueError, match="NaN"):
        Transfer().fit(X, y)
