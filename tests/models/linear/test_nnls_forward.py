"""Forward selection with non-negative coefficients."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
from scipy.optimize import nnls

from flopcast.benchmarks.made_up_counters import counters
from flopcast.models.linear import nnls_forward
from flopcast.models.linear.nnls_forward import ChosenFactor, NonNegativeForward
from flopcast.models.linear.stepwise import Stepwise
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


@pytest.mark.no_cover
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
    X = np.column_stack(
        [base, base @ rng.uniform(-1, 1, size=(3, 5)) + 1e-6 * rng.normal(size=(30, 5))]
    )
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


def problem(n: int, p: int, own: float = 1.0, seed: int = 0) -> Triangular:
    """Return columns of which each is a common part and ``own`` times noise."""
    rng = np.random.default_rng(seed)
    X = rng.lognormal(size=(n, 1)) + own * rng.normal(size=(n, p))
    return with_intercept(X, rng.normal(2, 1, size=n), np.ones(n))


def check(factor: ChosenFactor, of: Triangular, used: list[int], idle: list[int]) -> None:
    """Compare every attribute with its definition, by least squares from nothing."""
    A, b, chosen = of.A, of.b, [*used, *idle]
    assert factor.columns[: factor.used] == used
    assert factor.idle == idle

    def off(M: np.ndarray, columns: list[int]) -> np.ndarray:
        return M - A[:, columns] @ np.linalg.lstsq(A[:, columns], M)[0]

    others = np.setdiff1d(np.arange(A.shape[1]), chosen)
    np.testing.assert_allclose(factor.t, np.linalg.lstsq(A[:, used], b)[0], rtol=1e-6)
    np.testing.assert_allclose(factor.free, np.linalg.lstsq(A[:, factor.columns], b)[0], rtol=1e-6)
    np.testing.assert_allclose(factor.residual(), off(b, used), atol=1e-8)
    np.testing.assert_allclose(factor.gradient, A.T @ off(b, used), atol=1e-8)
    np.testing.assert_allclose(factor.gradient_beyond, A.T @ off(b, chosen), atol=1e-8)
    np.testing.assert_allclose(
        factor.lengths[others], np.sum(off(A, used) ** 2, axis=0)[others], atol=1e-10
    )
    np.testing.assert_allclose(
        factor.lengths_beyond[others], np.sum(off(A, chosen) ** 2, axis=0)[others], atol=1e-10
    )
    assert np.isinf(factor.lengths[chosen]).all()
    assert factor.rss == pytest.approx(float(np.sum(off(b, used) ** 2)), rel=1e-9)
    gram = factor.inverse @ factor.inverse.T
    np.testing.assert_allclose(
        gram @ A[:, factor.columns].T @ A[:, factor.columns], np.eye(len(gram)), atol=1e-6
    )
    for column in others:
        np.testing.assert_allclose(
            factor.beyond_idle(column),
            off(A, used)[:, factor.columns[factor.used :]].T @ A[:, column],
            atol=1e-8,
        )
    np.testing.assert_allclose(
        factor.orthogonal(others, factor.used).T, off(A, used)[:, others], atol=1e-8
    )


@pytest.mark.parametrize("own", [1.0, 0.1, 1e-3])
def test_columns_come_into_use_and_are_held_at_zero(own: float) -> None:
    of = problem(40, 12, own)
    factor = ChosenFactor(of, [0], [])
    check(factor, of, [0], [])
    factor.use(3, [0, 3])
    factor.use(7, [0, 3, 7])
    check(factor, of, [0, 3, 7], [])
    factor.use(5, [0, 7, 5])  # 3 goes to zero
    check(factor, of, [0, 7, 5], [3])
    factor.use(1, [7, 1])  # 0 and 5 too
    check(factor, of, [7, 1], [0, 5, 3])
    factor.use(2, [7, 1, 3, 2])  # 3 comes back
    check(factor, of, [7, 1, 3, 2], [0, 5])


def test_it_grows_beyond_its_first_rows() -> None:
    of = problem(80, 60)
    factor = ChosenFactor(of, [0], [])
    for column in range(1, 50):
        factor.use(column, list(range(column + 1)))
    check(factor, of, list(range(50)), [])


def test_a_combination_of_chosen_columns_is_parked() -> None:
    X = np.random.default_rng(1).uniform(size=(20, 4))
    of = with_intercept(np.column_stack([X, X[:, 0] + X[:, 1]]), X[:, 2] + 1, np.ones(20))
    factor = ChosenFactor(of, [0, 1, 5], [2])
    assert (factor.columns, factor.parked, factor.idle) == ([0, 1, 5], [2], [2])
    factor.use(3, [0, 1, 5, 3])
    assert (factor.columns, factor.parked) == ([0, 1, 5, 3], [2])
    other = ChosenFactor(of, [0, 1], [2])
    other.use(5, [0, 1, 5])  # 2 stands in the way of 5, and makes room
    assert (other.columns, other.used, other.parked) == ([0, 1, 5], 3, [2])
    assert np.isinf(other.lengths[[0, 1, 2, 5]]).all()


def test_no_more_columns_than_rows() -> None:
    of = problem(5, 9)
    factor = ChosenFactor(of, [0, 1, 2, 3, 4], [5])
    assert factor.parked == [5]
    assert factor.rss == pytest.approx(0.0, abs=1e-20)


def test_independence_is_what_is_left_of_a_column() -> None:
    of = problem(30, 3, own=1e-4)
    a, b = of.A[:, 1], of.A[:, 2]
    assert ChosenFactor(of, [1, 2], []).independence() == pytest.approx(1 - (a @ b) ** 2, rel=1e-6)
    assert ChosenFactor(of, [], []).independence() == 1.0


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("criterion", ["aic", "bic"])
def test_the_criterion_counts_columns_not_positive_coefficients(
    direction: Literal["forward", "backward"], criterion: Literal["aic", "bic"]
) -> None:
    n, k = 80, 2.0 if criterion == "aic" else math.log(80)
    rng = np.random.default_rng(7)
    a, b, c, error = *rng.uniform(size=(3, n)), 0.01 * rng.normal(size=n)
    # the first enters, and is at zero beside the next two
    X = np.column_stack([a + b + error, a, b, c])
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
