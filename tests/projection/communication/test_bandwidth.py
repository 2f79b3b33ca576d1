from __future__ import annotations

from dataclasses import replace

import pytest

from flopcast.errors import DataError, NotPublishedError
from flopcast.hardware import find
from flopcast.projection.communication import Network, link_bandwidth_gbs


@pytest.mark.parametrize(
    ("gpu", "collective", "ranks", "gbs"),
    [
        ("MI300X", "all_reduce", 8, 448),
        ("MI300X", "all_reduce", 4, 192),
        ("MI300X", "all_reduce", 2, 64),
        ("MI300X", "", 8, 448),
        ("MI300X", "all_gather", float("nan"), 448),
        ("MI300X", "send_recv", 8, 64),
        ("MI300X", "send_recv", float("nan"), 64),
        ("MI300A", "all_reduce", 4, 384),
        ("H100 SXM5", "all_reduce", 2, 450),
        ("H100 SXM5", "all_reduce", 8, 450),
        ("H100 SXM5", "send_recv", 2, 450),
        ("A100 80GB PCIe", "all_reduce", 2, 300),
        ("MI455X", "all_reduce", 4, 1800),
    ],
)
def test_the_links_a_group_has(gpu: str, collective: str, ranks: float, gbs: float) -> None:
    assert link_bandwidth_gbs(find(gpu), collective, ranks) == gbs


def test_a_bridge_joins_two() -> None:
    with pytest.raises(DataError, match="links of A100 80GB PCIe join 2 GPUs, the group has 4"):
        link_bandwidth_gbs(find("A100 80GB PCIe"), "all_reduce", 4)


@pytest.mark.parametrize(
    ("gpu", "collective", "figure"),
    [("L40S", "all_reduce", "link_bw_gbs"), ("MI455X", "send_recv", "p2p_uni_gbs")],
)
def test_what_is_not_published_is_not_guessed(gpu: str, collective: str, figure: str) -> None:
    with pytest.raises(NotPublishedError, match=figure):
        link_bandwidth_gbs(find(gpu), collective, 8)


def test_more_links_than_peers_do_not_add_up() -> None:
    """Two GPUs with several links between them share those of the pair only."""
    gpu = replace(find("MI300X"), p2p_uni_gbs=128.0)
    assert [link_bandwidth_gbs(gpu, "all_reduce", n) for n in (2, 4, 8)] == [128.0, 384.0, 448.0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"host_gbs": 0.0}, "bandwidth of the host must be above 0"),
        ({"target_gbs": float("inf")}, "bandwidth of the target must be above 0"),
        ({"ranks_per_node": 0}, "--ranks-per-node must be at least 1"),
    ],
)
def test_a_network_must_make_sense(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Network(**wrong)
