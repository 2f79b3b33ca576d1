from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import ExtraTreesRegressor

from flopcast.models.baselines import AdditiveTime
from flopcast.models.ensembles import LogResidual


def _wavy(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"work": rng.uniform(5, 100, n), "kind": rng.integers(0, 3, n).astype(float)})
    return frame, (2 + 0.5 * frame["work"].to_numpy()) * np.array([0.8, 1.0, 1.3])[frame["kind"].astype(int)]


def test_a_learner_of_nothing_leaves_the_base() -> None:
    X, y = _wavy(60, 0)
    base = AdditiveTime(["work"])
    model = LogResidual(base, DummyRegressor(strategy="constant", constant=0.0)).fit(X, y)
    assert model.predict(X) == pytest.approx(base.fit(X, y).predict(X))


def test_the_residual_is_learnt() -> None:
    X, y = _wavy(300, 0)
    new, truth = _wavy(100, 1)
    model = LogResidual(AdditiveTime(["work"]), ExtraTreesRegressor(50, random_state=0)).fit(X, y)
    base_error = np.mean(np.abs(AdditiveTime(["work"]).fit(X, y).predict(new) / truth - 1))
    assert np.mean(np.abs(model.predict(new) / truth - 1)) < base_error / 5


def test_it_does_not_saturate_beyond_the_trained_range() -> None:
    X, y = _wavy(300, 0)
    model = LogResidual(AdditiveTime(["work"]), ExtraTreesRegressor(50, random_state=0)).fit(X, y)
    far = pd.DataFrame({"work": [1000.0], "kind": [1.0]})
    assert model.predict(far)[0] == pytest.approx(502, rel=0.3)
    forest = ExtraTreesRegressor(50, random_state=0).fit(X, y)
    assert forest.predict(far)[0] < 70


def test_a_ratio_column_enters_as_logarithm_over_the_base() -> None:
    X, y = _wavy(300, 0)
    X["other_us"] = y * 1.01
    with_ratio = LogResidual(
        AdditiveTime(["work"]), ExtraTreesRegressor(50, random_state=0), columns=["work"], ratios=["other_us"]
    )
    new, truth = _wavy(100, 1)
    new["other_us"] = truth * 1.01
    assert np.mean(np.abs(with_ratio.fit(X, y).predict(new) / truth - 1)) < 0.02
