"""The choice among bounded trials: the first of the least, with no fit more than needed."""

from __future__ import annotations

import numpy as np

from flopcast.models.linear.stepwise_paths import first_of_least


def choose(values: list[float], bounds: list[float], known: list[bool]) -> tuple[int, list[int]]:
    """Return the choice and the trials that were fitted."""
    fitted: list[int] = []

    def fit(index: int) -> float:
        fitted.append(index)
        return values[index]

    def settled(which: np.ndarray) -> np.ndarray:
        return np.where(np.array(known)[which], np.array(values)[which], np.nan)

    return first_of_least(np.array(bounds), settled, fit), fitted


def test_only_trials_whose_bound_can_win_are_fitted() -> None:
    assert choose([-1.0, -5.0, -2.0, -3.0], [-4.0, -6.0, -9.0, -3.0], [False, True, False, True]) == (1, [2])


def test_a_fit_that_wins() -> None:
    assert choose([-1.0, -5.0, -7.0], [-1.0, -5.0, -8.0], [True, True, False]) == (2, [2])


def test_the_first_of_equals_up_to_rounding() -> None:
    assert choose([-1.0, -2.0, -2.0 - 1e-12], [-1.0, -2.0, -2.0 - 1e-12], [True] * 3) == (1, [])


def test_more_trials_than_are_looked_at_together() -> None:
    values = [-float(i % 37) for i in range(100)]
    assert choose(values, [value - 0.5 for value in values], [False] * 100)[0] == 36
