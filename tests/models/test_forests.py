"""Forests asked tree by tree."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression

from flopcast.models.forests import predicted_by

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(200, 5)), RNG.normal(size=(500, 5))
Y = np.exp(X[:, 0]) + X[:, 1] ** 2


@pytest.mark.parametrize("forest", [ExtraTreesRegressor, RandomForestRegressor])
def test_the_mean_of_the_trees_is_that_of_scikit_learn_to_the_last_bit(forest: type) -> None:
    fitted = forest(13, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(predicted_by(fitted, NEW), fitted.predict(NEW))
    of_columns = np.asfortranarray(NEW)
    np.testing.assert_array_equal(predicted_by(fitted, of_columns), fitted.predict(NEW))


def test_missing_values_are_answered_or_refused_as_scikit_learn_does() -> None:
    gaps = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
    knows_gaps = RandomForestRegressor(3, random_state=0).fit(gaps, Y)
    missing = np.where(np.arange(5) == 2, np.nan, NEW)
    expected = knows_gaps.predict(missing)
    np.testing.assert_array_equal(predicted_by(knows_gaps, missing), expected)
    with pytest.raises(ValueError, match="4 features"):
        predicted_by(knows_gaps, NEW[:, 1:])


def test_other_learners_answer_themselves() -> None:
    line = LinearRegression().fit(X, Y)
    np.testing.assert_array_equal(predicted_by(line, NEW), line.predict(NEW))
