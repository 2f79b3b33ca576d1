from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.projection.communication import Link, Protocol

SHORT = Protocol(from_bytes=0.0, base_us=4.0, step_us=1.0, efficiency=0.5)
LONG = Protocol(from_bytes=1e6, base_us=10.0, step_us=2.0, efficiency=0.8)
LINK = Link(("G",), "all_reduce", "ring", (SHORT, LONG), ranks=(2, 8))


def test_a_message_by_hand() -> None:
    """Eight ranks, 100 GB/s = 1e5 bytes/us: 4 + 14 + 1.75e6 / 2 / 5e4 us; 10 + 28 + 1.75 · 4e6 / 8e4 us."""
    time = LINK.time_us("all_reduce", [0.5e6, 4e6], 8, 100.0)
    np.testing.assert_allclose(time, [18 + 17.5, 38 + 87.5])
    np.testing.assert_allclose(LINK.latency_us("all_reduce", [0.5e6, 4e6], 8), [18, 38])


def test_other_collectives_have_their_own_terms() -> None:
    assert LINK.time_us("all_gather", 0.5e6, 8, 100.0) == pytest.approx(4 + 7 + 0.875 * 10)
    assert LINK.time_us("send_recv", 0.5e6, 8, 100.0) == pytest.approx(4 + 1 + 10)


def test_without_bytes_only_the_latency_is_left() -> None:
    assert LINK.time_us("all_reduce", 0, [2, 8], 100.0).tolist() == [6.0, 18.0]


def test_long_messages_take_their_bytes_by_the_bandwidth() -> None:
    time = LINK.time_us("all_reduce", 1e15, 2, [100.0, 400.0])
    assert time[0] / time[1] == pytest.approx(4.0)
    assert time[0] == pytest.approx(1e15 / (0.8 * 100 * 1e3))


def test_the_limit_belongs_to_the_shorter_protocol() -> None:
    at, beyond = LINK.time_us("all_reduce", [1e6, np.nextafter(1e6, 2e6)], 2, 100.0)
    assert at == pytest.approx(6 + 20)
    assert beyond == pytest.approx(14 + 12.5)


def test_the_time_waits_until_the_next_line_has_caught_up() -> None:
    slow = Protocol(from_bytes=0.0, base_us=50.0, step_us=0.0, efficiency=0.1)
    link = Link(("G",), "all_reduce", "ring", (slow, LONG), ranks=(2,))
    assert link.time_us("all_reduce", [1e6, 2e6, 1e7], 2, 100.0).tolist() == pytest.approx([150.0, 150.0, 150.0])
    assert link.time_us("all_reduce", 2e7, 2, 100.0) == pytest.approx(14 + 250)


def test_three_protocols_keep_their_order() -> None:
    far = Protocol(from_bytes=2e6, base_us=0.0, step_us=0.0, efficiency=1.0)
    link = Link(("G",), "all_reduce", "ring", (SHORT, LONG, far), ranks=(2,))
    assert link.time_us("all_reduce", [5e5, 1.5e6, 2.5e6, 1e7], 2, 100.0).tolist() == pytest.approx(
        [6 + 10, 14 + 18.75, 14 + 25, 100]
    )


def test_an_infinite_efficiency_means_bytes_cost_nothing() -> None:
    flat = Link(("G",), "all_reduce", "ring", (Protocol(0.0, 3.0, 1.0, float("inf")),))
    assert flat.time_us("all_reduce", [1, 1e9], 2, 100.0).tolist() == [5.0, 5.0]


@given(
    size=st.floats(1, 1e10),
    more=st.floats(1, 100),
    ranks=st.integers(2, 64),
    lines=st.lists(st.tuples(st.floats(0, 50), st.floats(0, 5), st.floats(0.01, 1)), min_size=1, max_size=3),
)
def test_larger_messages_and_groups_never_take_less_time(
    size: float, more: float, ranks: int, lines: list[tuple[float, float, float]]
) -> None:
    """On a switch, where the bandwidth does not depend on the ranks; within one protocol for the ranks."""
    protocols = tuple(Protocol(1e4 * 100.0**i if i else 0.0, *line) for i, line in enumerate(lines))
    link = Link(("G",), "all_reduce", "ring", protocols)
    least = link.time_us("all_reduce", size, ranks, 300.0)
    assert link.time_us("all_reduce", size * more, ranks, 300.0) >= least * (1 - 1e-12)
    assert link.time_us("all_reduce", size, ranks + 1, 300.0) >= least * (1 - 1e-12)


@pytest.mark.parametrize("figures", [(-1.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, 0.0), (0.0, 0.0, float("inf"))])
def test_a_protocol_takes_time(figures: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="a Protocol takes time"):
        Protocol(0.0, *figures)
