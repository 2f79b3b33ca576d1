from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.projection.communication.algorithms import ALGORITHMS, COLLECTIVES, cost_terms


@pytest.mark.parametrize(
    ("algorithm", "collective", "steps", "volume"),
    [
        ("ring", "all_reduce", 14, 14 / 8),
        ("ring", "all_gather", 7, 7 / 8),
        ("ring", "reduce_scatter", 7, 7 / 8),
        ("ring", "all_to_all", 7, 7 / 8),
        ("ring", "broadcast", 7, 1),
        ("ring", "reduce", 7, 1),
        ("tree", "all_reduce", 6, 14 / 8),
        ("tree", "all_gather", 3, 7 / 8),
        ("tree", "all_to_all", 3, 12 / 8),
        ("tree", "broadcast", 3, 3),
        ("direct", "all_reduce", 2, 14 / 8),
        ("direct", "reduce_scatter", 1, 7 / 8),
        ("direct", "broadcast", 2, 14 / 8),
        ("direct", "scatter", 1, 7 / 8),
        ("ring", "send_recv", 1, 1),
        ("direct", "send_recv", 1, 1),
    ],
)
def test_terms_of_eight_ranks(algorithm: str, collective: str, steps: float, volume: float) -> None:
    assert [float(term) for term in cost_terms(algorithm, collective, 8)] == [steps, volume]


def test_what_tree_rounds_and_bruck_come_to_by_hand() -> None:
    """Six ranks take three rounds of doubling; in each of Bruck's a rank sends half of what it has."""
    assert cost_terms("tree", "all_gather", [5, 6, 8, 9])[0].tolist() == [3, 3, 3, 4]
    assert cost_terms("tree", "all_to_all", [2, 4])[1].tolist() == [0.5, 1.0]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(algorithm: str) -> None:
    ranks = np.arange(2, 17)
    both = [cost_terms(algorithm, collective, ranks) for collective in ("reduce_scatter", "all_gather")]
    for whole, first, second in zip(cost_terms(algorithm, "all_reduce", ranks), *both, strict=True):
        np.testing.assert_allclose(whole, first + second)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("collective", COLLECTIVES)
@given(ranks=st.integers(2, 512))
def test_more_ranks_never_take_fewer_steps_or_bytes(algorithm: str, collective: str, ranks: int) -> None:
    steps, volume = cost_terms(algorithm, collective, [ranks, ranks + 1])
    assert steps[0] >= 1
    assert volume[0] >= 0.5
    assert np.all(np.diff([steps, volume], axis=1) >= 0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_ranks_exchange_halves_once_whatever_the_algorithm(algorithm: str) -> None:
    assert [term.tolist() for term in cost_terms(algorithm, "all_gather", [2])] == [[1.0], [0.5]]


@pytest.mark.parametrize(("algorithm", "collective"), [("torus", "all_reduce"), ("ring", "alltoallw")])
def test_unknown_names_are_refused(algorithm: str, collective: str) -> None:
    with pytest.raises(ValueError, match="of cost_terms must be"):
        cost_terms(algorithm, collective, 4)
