"""Two own runs of a stack: what they leave of its other runs, solved by hand."""

from __future__ import annotations

import numpy as np
import pytest

from flopcast.benchmarks.serving_stack import Stack, chosen, narrowest


def stack(model: str, missed: list[float]) -> Stack:
    """Return a stack whose runs have nothing in common but what a level and a slope add."""
    octaves = np.array([0.0, 8.0, 4.0, 6.0])
    return Stack(model, np.array(missed), 1e-6 * np.eye(4), octaves, (0, 1))


def test_two_runs_say_nothing_of_others_that_share_nothing() -> None:
    assert stack("a", [0.3, 0.3, 0.2, 0.1]).left(0.0, 0.0) == pytest.approx([0.2, 0.1])


def test_a_level_is_carried_over_to_all_others() -> None:
    assert stack("a", [0.3, 0.3, 0.3, 0.2]).left(1.0, 0.0) == pytest.approx([0.0, -0.1], abs=1e-4)


def test_a_slope_is_carried_over_by_the_octaves() -> None:
    left = stack("a", [0.1, 0.5, 0.3, 0.4]).left(1.0, 1.0)
    assert left == pytest.approx([0.0, 0.0], abs=1e-4)


def test_one_factor_is_the_mean_of_both() -> None:
    assert stack("a", [0.1, 0.5, 0.3, 0.4]).factor() == pytest.approx([0.0, 0.1])


def test_the_sizes_are_those_of_the_other_models() -> None:
    shifted = [0.3, 0.3, 0.3, 0.3]
    nothing = [0.3, 0.3, 0.0, 0.0]
    left = chosen([stack("a", shifted), stack("b", shifted), stack("c", nothing)])
    assert left[2] == pytest.approx([-0.3, -0.3], abs=0.01)
    left = chosen([stack("a", nothing), stack("b", nothing), stack("c", shifted)])
    assert left[2] == pytest.approx([0.3, 0.3])


def test_the_two_that_narrow_most_are_those_that_share_most_with_the_others() -> None:
    shares = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    pair = Stack("a", np.zeros(3), shares + 1e-3 * np.eye(3), np.zeros(3), (0, 1))
    assert narrowest(pair).given in {(0, 2), (1, 2)}
