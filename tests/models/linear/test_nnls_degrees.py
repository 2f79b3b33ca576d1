"""Stepwise NNLS counts the columns in the model as degrees of freedom, those held at zero included."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from scipy.optimize import nnls

from flopcast.models.linear.stepwise import Stepwise


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("criterion", ["aic", "bic"])
def test_the_criterion_counts_columns_not_positive_coefficients(
    direction: Literal["forward", "backward"], criterion: Literal["aic", "bic"]
) -> None:
    n, k = 80, 2.0 if criterion == "aic" else math.log(80)
    rng = np.random.default_rng(7)
    a, b, c, error = *rng.uniform(size=(3, n)), 0.01 * rng.normal(size=n)
    X = np.column_stack([a + b + error, a, b, c])  # the first enters, and is at zero beside the next two
    y = a + 1.1 * b - 0.01 * c - 0.5 * error + 2
    model = Stepwise(base="nnls", direction=direction, criterion=criterion).fit(X, y)
    moved = [int(step[3:]) for step in model.steps_]
    zeros = []
    for steps, value in enumerate(model.criterion_path_):
        chosen = [j for j in range(4) if (j in moved[:steps]) == (direction == "forward")]
        t, norm = nnls(np.column_stack([np.ones(n), X[:, chosen]]), y)
        zeros.append(int(np.sum(t[1:] == 0)))
        assert model.edf_path_[steps] == len(chosen) + 1
        assert value == pytest.approx(n * math.log(norm**2 / n) + k * (len(chosen) + 1))
    assert max(zeros) > 0


def test_a_column_at_zero_is_removed_first_as_it_costs_a_degree_of_freedom() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(40, 4))
    y = X @ [1.0, -1.0, 2.0, 3.0] + 1 + 0.01 * rng.normal(size=40)
    model = Stepwise(base="nnls", direction="backward").fit(X, y)
    assert model.steps_ == ["- x1"]
    assert np.diff(model.criterion_path_).tolist() == [pytest.approx(-2.0)]
