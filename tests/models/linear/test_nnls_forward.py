"""Forward selection with non-negative coefficients: few causes, and the trials that rounding or dependence spoil."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flopcast.benchmarks.made_up_counters import counters
from flopcast.models.linear import nnls_forward
from flopcast.models.linear.nnls_forward import NonNegativeForward
from flopcast.models.linear.triangular import Triangular, with_intercept
from flopcast.tests.models.linear.oracles.slow_stepwise import parts_at, slow_path


def whole(X: np.ndarray, y: np.ndarray) -> NonNegativeForward:
    path = NonNegativeForward(with_intercept(X, y, np.ones(len(y))))
    path.reaches(X.shape[1])
    return path


@pytest.fixture
def refits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the number of columns of each fit that is left to the active-set method."""
    sizes, fit = list[int](), nnls_forward.non_negative

    def noted(problem: Triangular, *more: Any, **named: Any) -> np.ndarray:
        sizes.append(problem.A.shape[1])
        return fit(problem, *more, **named)

    monkeypatch.setattr(nnls_forward, "non_negative", noted)
    return sizes


@pytest.mark.parametrize(("n", "p", "seed"), [(90, 40, 0), (60, 30, 1), (40, 60, 2)])
def test_counters_of_few_causes_are_selected_as_by_the_plain_search(
    n: int, p: int, seed: int, refits: list[int]
) -> None:
    data = counters(n, p, seed)
    X, w = data.X.to_numpy(), np.ones(n)
    path, slow = whole(X, data.y), slow_path(X, data.y, w, "nnls", "forward", 0)
    assert parts_at(path.order, slow, 1e-8, 1e-13 * float(data.y @ data.y)) == len(slow.order) > 4
    np.testing.assert_allclose(path.rss, slow.rss, rtol=1e-9)
    assert refits == []


def test_nearly_equal_columns_are_left_to_the_active_set(refits: list[int]) -> None:
    rng = np.random.default_rng(0)
    base = rng.uniform(size=(30, 3))
    X = np.column_stack([base, base @ rng.uniform(-1, 1, size=(3, 5)) + 1e-6 * rng.normal(size=(30, 5))])
    y = X @ rng.normal(1, 1, size=8) + 1e-3 * rng.normal(size=30)
    path, slow = whole(X, y), slow_path(X, y, np.ones(30), "nnls", "forward", 0)
    parts_at(path.order, slow, 1e-8, 1e-13 * float(y @ y))
    assert 1 < min(refits) < 9


def test_columns_in_use_that_prove_wrong_are_left_to_the_active_set(refits: list[int]) -> None:
    """As after rounding: a coefficient that is not positive, or a column held at zero that is missed."""
    X = np.random.default_rng(1).uniform(1, 2, size=(30, 2))
    for y, used in ((X[:, 0] - 0.5, [0, 1]), (X[:, 0] + 0.5, [1])):
        path, right = (NonNegativeForward(with_intercept(X, y, np.ones(30))) for _ in range(2))
        path._add(1, used)
        assert right.reaches(1)
        assert path._chosen.columns == right._chosen.columns
        assert path._chosen.used == right._chosen.used
        assert path._chosen.rss == pytest.approx(right._chosen.rss)
    assert refits == [3, 3]


def test_an_intercept_below_zero_is_held_there() -> None:
    X = np.random.default_rng(1).uniform(1, 2, size=(30, 3))
    y = X @ [1.0, -3.0, 1.0]
    path = whole(X, y)
    assert path.rss[0] == pytest.approx(float(y @ y))
    assert path.order == []
