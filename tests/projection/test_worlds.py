"""Collectives in another world: by hand, at the limits, and what the trace does not say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import ParameterError
from flopcast.hardware import Network, find
from flopcast.projection.collective_laws import (
    World,
    collective_us,
    communication_factors,
    find_link,
    law_errors,
    measured_links,
    model_us,
    placed_messages,
    world_factors,
)

MI300X, MI355X, H100 = (find(name) for name in ("MI300X", "MI355X", "H100 SXM5"))
SIZE = 64_000_000


def sent(*rows: tuple[str, int | None, int | None, str]) -> pd.DataFrame:
    table = pd.DataFrame(
        rows, columns=["collective", "collective_bytes", "group_size", "group_name"]
    )
    integers = dict.fromkeys(["collective_bytes", "group_size", "duration_ns"], "Int64")
    return table.assign(name="ncclDevKernel_Generic_1", duration_ns=1000, group_ranks="").astype(
        integers
    )


def test_nothing_changes_in_the_same_world() -> None:
    table = sent(("allreduce", SIZE, 8, "0"), ("_allgather_base", SIZE, 16, "1"))
    found = world_factors(table, MI300X, MI300X, World())
    assert found["factor"].tolist() == [1.0, 1.0]
    assert found["sigma"].tolist() == [0.0, 0.0]


def test_within_a_node_it_is_the_law_of_the_links() -> None:
    table = sent(("allreduce", SIZE, 8, "0"), ("allreduce", 1000, 4, "1"))
    other = communication_factors(table, MI300X, H100)
    assert world_factors(table, MI300X, H100, World())["factor"].tolist() == pytest.approx(
        other["factor"].tolist()
    )


def test_two_levels_by_hand() -> None:
    """16 GPUs in nodes of 8: within a node, then half of the eighth part there and back, and two messages."""
    network = Network(gbs=25.0, step_us=7.0)
    near = float(collective_us(MI300X, "all_reduce", SIZE, 8))
    by_hand = near + 2 * (SIZE / 8) / 2 / 25e3 + 2 * 7.0
    assert float(collective_us(MI300X, "all_reduce", SIZE, 16, network)) == pytest.approx(by_hand)
    # of three nodes two steps each way, as of four
    three = near + 2 * (SIZE / 8) * 2 / 3 / 25e3 + 2 * 2 * 7.0
    assert float(collective_us(MI300X, "all_reduce", SIZE, 24, network)) == pytest.approx(three)
    table = sent(("allreduce", SIZE, 8, "0"))
    found = world_factors(table, MI300X, MI300X, World(network, network, ranks=16))
    assert found["factor"].tolist() == pytest.approx([by_hand / near])
    assert (found["sigma"] >= law_errors().one_sided).all()  # two levels were measured nowhere


def test_a_flat_network_reaches_all_over_the_links() -> None:
    flat = Network(node_gpus=None)
    link = find_link(measured_links(), "MI300X", "all_reduce")
    assert link is not None
    assert float(collective_us(MI300X, "all_reduce", SIZE, 64, flat)) == pytest.approx(
        float(link.time_us("all_reduce", SIZE, 64, 448.0))
    )


def test_the_latency_of_a_step_is_stated() -> None:
    """A message without bytes takes the steps of its algorithm: two of an all-reduce between direct peers."""
    slow = Network(link_latency_us=50.0)
    assert float(collective_us(MI300X, "all_reduce", 0, 8, slow)) == pytest.approx(100.0)


def test_messages_keep_what_a_rank_holds() -> None:
    """On a flat network volumes grow as (n - 1) / n, so large messages take little longer at any number of ranks."""
    flat = Network(node_gpus=None, link_latency_us=0.001)
    table = sent(
        *(
            (name, 10**10, 8, "0")
            for name in ("allreduce", "_allgather_base", "_reduce_scatter_base")
        )
    )
    found = world_factors(table, MI300X, MI300X, World(flat, flat, ranks=64))
    assert found["factor"].tolist() == pytest.approx([(63 / 64) / (7 / 8)] * 3, rel=1e-3)


def test_groups_of_all_ranks_grow_and_others_where_they_are_named() -> None:
    table = sent(
        ("allreduce", SIZE, 16, "world"),
        ("allreduce", SIZE, 2, "data"),
        ("allreduce", SIZE, 8, "tensor"),
    )
    assert World(ranks=64).ranks_of(table).tolist() == [64, 2, 8]
    assert World(ranks=64, grows=("data",)).ranks_of(table).tolist() == [64, 8, 8]
    assert World(ranks=64, grows=("2",)).ranks_of(table).tolist() == [64, 8, 8]
    assert World(ranks=8).ranks_of(table).tolist() == [8, 2, 8]
    assert World().ranks_of(table).tolist() == [16, 2, 8]


@pytest.mark.parametrize(
    ("world", "name"),
    [
        ({"ranks": 64, "measured_ranks": 32}, "grows"),
        ({"ranks": 64, "grows": ("pipeline",)}, "grows"),
        ({"ranks": 20, "grows": ("data",)}, "ranks"),
        ({"ranks": 64, "measured_ranks": 4}, "ranks"),
        ({"ranks": 1}, "ranks"),
        ({"grows": ("data",)}, "grows"),
    ],
)
def test_what_cannot_be_known_is_asked(world: dict[str, object], name: str) -> None:
    table = sent(("allreduce", SIZE, 16, "world"), ("allreduce", SIZE, 2, "data"))
    with pytest.raises(ParameterError) as caught:
        World(**world).ranks_of(table)  # type: ignore[arg-type]
    assert caught.value.parameter == name


def test_what_the_trace_does_not_say_is_kept_with_a_reason() -> None:
    table = sent(
        ("allreduce", None, 8, ""),
        ("", 8, 8, ""),
        ("allreduce", 8, None, ""),
        ("allreduce", 8, 1, ""),
    )
    found = world_factors(table, MI300X, MI355X, World(ranks=16))
    assert found["law"].tolist() == ["kept"] * 4
    assert found["factor"].tolist() == [1.0] * 4
    assert [why[0].code for why in found["why"]] == ["message-unknown"] * 3 + ["one-rank"]


def test_no_collectives_no_rows() -> None:
    assert world_factors(sent(), MI300X, MI355X, World(ranks=16)).empty


def test_waiting_is_what_the_model_does_not_explain() -> None:
    table = sent(("allreduce", SIZE, 8, "0"), ("allreduce", SIZE, 8, "0"))
    network = Network(node_gpus=None)
    was, now = (
        float(collective_us(MI300X, "all_reduce", SIZE, ranks, network)) for ranks in (8, 64)
    )
    measured_us = np.array([10 * was, was / 2])
    table["duration_ns"] = pd.array((1e3 * measured_us).round(), dtype="Int64")
    world = World(network, network, ranks=64)
    found = world_factors(table, MI300X, MI300X, world)
    assert (found["factor"] * measured_us).tolist() == pytest.approx(
        [9 * was + now, now / 2], rel=1e-6
    )


def test_ranks_that_lie_apart_meet_over_the_network() -> None:
    """Every eighth of 16 ranks: two nodes, one rank in each, at the network's latency and bandwidth alone."""
    network = Network(gbs=25.0, step_us=7.0)
    table = sent(("allreduce", SIZE, 2, "data"), ("allreduce", SIZE, 8, "tensor"))
    table["group_ranks"] = ["0,8", "0,1,2,3,4,5,6,7"]
    by_hand = 2 * SIZE / 2 / 25e3 + 2 * 7.0
    within = float(collective_us(MI300X, "all_reduce", SIZE, 8))
    assert model_us(placed_messages(table), MI300X, network).tolist() == pytest.approx(
        [by_hand, within]
    )
    found = world_factors(
        table, MI300X, MI300X, World(network, network.changed("network_gbs", 50.0))
    )
    assert found["factor"].tolist() == pytest.approx([(SIZE / 50e3 + 14.0) / by_hand, 1.0])


def test_the_model_says_nothing_of_a_collective_of_unknown_kind() -> None:
    """Though its group and message are known."""
    table = sent(("allreduce", SIZE, 8, "0"), ("", SIZE, 8, "0"))
    modelled = model_us(placed_messages(table), MI300X)
    assert modelled[0] > 0
    assert np.isnan(modelled[1])
    found = world_factors(table, MI300X, MI300X, World(ranks=64))
    assert found["law"].tolist() == ["alpha-beta", "kept"]
    assert found["factor"].iloc[1] == 1.0


def test_waiting_in_another_world_is_no_time_of_links() -> None:
    table = sent(("allreduce", 424, 8, "0"), ("allreduce", 10**10, 8, "0"))
    table["duration_ns"] = pd.array([2_000_000, 10_000_000], dtype="Int64")
    found = world_factors(table, MI300X, MI355X, World())
    assert found["factor"].iloc[0] == pytest.approx(1.0, abs=1e-3)
    assert found["bound"].tolist() == ["latency", "link"]


def test_rings_carried_over_from_another_gpu_are_said_in_another_world_too() -> None:
    found = world_factors(sent(("allreduce", SIZE, 8, "0")), MI300X, MI300X, World(ranks=6))
    assert [why.code for why in found["why"].iloc[0]] == ["other-world", "rings-of-another"]
    assert found["factor"].iloc[0] > 3
    assert found["sigma"].iloc[0] > 0
    measured = world_factors(sent(("allreduce", SIZE, 8, "0")), MI355X, MI355X, World(ranks=6))
    assert [why.code for why in measured["why"].iloc[0]] == ["other-world"]
