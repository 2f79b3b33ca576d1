from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.projection.collective_laws import (
    ALGORITHMS,
    COLLECTIVES,
    Link,
    Nvls,
    Protocol,
    collective_of,
    collectives_of,
    cost_terms,
)

SHORT = Protocol(from_bytes=0.0, base_us=4.0, step_us=1.0, efficiency=0.5)
LONG = Protocol(from_bytes=1e6, base_us=10.0, step_us=2.0, efficiency=0.8)
LINK = Link(("G",), "all_reduce", "ring", (SHORT, LONG), ranks=(2, 8))


def test_a_message_by_hand() -> None:
    """Eight ranks, 100 GB/s = 1e5 bytes/us: 4 + 14 + 1.75e6 / 2 / 5e4 us; 10 + 28 + 1.75 · 4e6 / 8e4 us."""
    time = LINK.time_us("all_reduce", [0.5e6, 4e6], 8, 100.0)
    np.testing.assert_allclose(time, [18 + 17.5, 38 + 87.5])
    latency, transfer = LINK.parts_us("all_reduce", [0.5e6, 4e6], 8, 100.0)
    np.testing.assert_allclose(latency, [18, 38])
    np.testing.assert_allclose(transfer, [17.5, 87.5])


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
    assert link.time_us("all_reduce", [1e6, 2e6, 1e7], 2, 100.0).tolist() == pytest.approx(
        [150.0, 150.0, 150.0]
    )
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
    lines=st.lists(
        st.tuples(st.floats(0, 50), st.floats(0, 5), st.floats(0.01, 1)), min_size=1, max_size=3
    ),
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


@pytest.mark.parametrize(
    "figures", [(-1.0, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, 0.0), (0.0, 0.0, float("inf"))]
)
def test_a_protocol_takes_time(figures: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="Protocol"):
        Protocol(0.0, *figures)


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
        ("mesh", "all_reduce", 2, 14 / 8),
        ("mesh", "all_gather", 1, 7 / 8),
        ("mesh", "broadcast", 1, 1),
        ("ring", "send_recv", 1, 1),
        ("direct", "send_recv", 1, 1),
    ],
)
def test_terms_of_eight_ranks(algorithm: str, collective: str, steps: float, volume: float) -> None:
    assert [float(term) for term in cost_terms(algorithm, collective, 8)] == [steps, volume]


def test_a_mesh_takes_the_steps_of_a_ring_until_all_gpus_of_the_node_exchange_directly() -> None:
    assert cost_terms("mesh", "all_reduce", [2, 4, 7, 8])[0].tolist() == [2, 6, 12, 2]
    assert cost_terms("mesh", "all_to_all", [2, 4, 7, 8])[0].tolist() == [1, 3, 6, 1]


def test_untuned_numbers_of_ranks_have_fewer_rings_and_each_carries_less() -> None:
    """Six ranks on one ring of five links, with 0.8 of a tuned one: 4 us and 10 steps, then bytes at 0.5 of 80 GB/s."""
    link = Link(("G",), "all_reduce", "mesh", (SHORT,), rings={6: 1}, untuned=0.8)
    assert link.reach([4, 6, 8]).tolist() == pytest.approx([1.0, 0.8 / 5, 1.0])
    sent = 2 * 5 / 6 * 3e6
    assert link.time_us("all_reduce", 3e6, 6, 500.0) == pytest.approx(14 + sent / (0.5 * 80e3))
    assert link.time_us("send_recv", 3e6, 6, 100.0) == pytest.approx(4 + 1 + 3e6 / 50e3)


def test_a_switch_that_adds_takes_long_all_reduces_of_many_ranks() -> None:
    link = replace(LINK, nvls=Nvls(from_ranks=8, base_us=100.0, efficiency=0.9))
    ring = LINK.time_us("all_reduce", [1e6, 1e8], 8, 100.0)
    assert link.time_us("all_reduce", [1e6, 1e8], 8, 100.0).tolist() == pytest.approx(
        [ring[0], 100 + 1e8 / 90e3]
    )
    assert [
        float(part[1]) for part in link.parts_us("all_reduce", [1e6, 1e8], 8, 100.0)
    ] == pytest.approx([100, 1e8 / 90e3])
    for collective, ranks in (("all_reduce", 4), ("all_gather", 8)):
        assert link.time_us(collective, 1e8, ranks, 100.0) == LINK.time_us(
            collective, 1e8, ranks, 100.0
        )


def test_what_tree_rounds_and_bruck_come_to_by_hand() -> None:
    """Six ranks take three rounds of doubling; in each of Bruck's a rank sends half of what it has."""
    assert cost_terms("tree", "all_gather", [5, 6, 8, 9])[0].tolist() == [3, 3, 3, 4]
    assert cost_terms("tree", "all_to_all", [2, 4])[1].tolist() == [0.5, 1.0]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(algorithm: str) -> None:
    ranks = np.arange(2, 17)
    both = [
        cost_terms(algorithm, collective, ranks) for collective in ("reduce_scatter", "all_gather")
    ]
    for whole, first, second in zip(cost_terms(algorithm, "all_reduce", ranks), *both, strict=True):
        np.testing.assert_allclose(whole, first + second)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "mesh"])
@pytest.mark.parametrize("collective", COLLECTIVES)
@given(ranks=st.integers(2, 512))
def test_more_ranks_never_take_fewer_steps_or_bytes(
    algorithm: str, collective: str, ranks: int
) -> None:
    steps, volume = cost_terms(algorithm, collective, [ranks, ranks + 1])
    assert steps[0] >= 1
    assert volume[0] >= 0.5
    assert np.all(np.diff([steps, volume], axis=1) >= 0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_ranks_exchange_halves_once_whatever_the_algorithm(algorithm: str) -> None:
    assert [term.tolist() for term in cost_terms(algorithm, "all_gather", [2])] == [[1.0], [0.5]]


@pytest.mark.parametrize(
    ("algorithm", "collective"), [("torus", "all_reduce"), ("ring", "alltoallw")]
)
def test_unknown_names_are_refused(algorithm: str, collective: str) -> None:
    with pytest.raises(ValueError, match="cost_terms"):
        cost_terms(algorithm, collective, 4)


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("allreduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("barrier", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("all_gather_into_tensor", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("broadcast", "broadcast"),
        ("reduce", "reduce"),
        ("gather", "gather"),
        ("scatter", "scatter"),
        ("send", "send_recv"),
        ("recv", "send_recv"),
        ("irecvAnySource", "send_recv"),
        (
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
            "all_reduce",
        ),
        (
            "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "reduce_scatter",
        ),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", ""),
        ("resend_buffers", ""),
        ("", ""),
    ],
)
def test_names_of_frameworks_and_kernels(name: str, collective: str) -> None:
    assert collective_of(name) == collective


def test_a_canonical_name_stands_for_itself() -> None:
    assert [collective_of(name) for name in COLLECTIVES] == list(COLLECTIVES)


def test_the_arguments_come_before_the_kernels_name() -> None:
    table = pd.DataFrame(
        {"collective": ["broadcast", ""], "name": ["ncclDevKernel_AllGather_RING_LL()"] * 2}
    )
    assert collectives_of(table.set_axis([7, 3])).to_dict() == {7: "broadcast", 3: "all_gather"}
