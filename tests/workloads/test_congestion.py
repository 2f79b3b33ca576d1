"""Messages that meet on a link: schedules whose end follows by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flopcast.errors import DataError, ParameterError
from flopcast.workloads.congestion import FAIR, NONE, Port, fair_shares
from flopcast.workloads.forecasting import Forecast, forecast
from flopcast.workloads.layer_graph import read_layers

LARGE = 100_000_000_000  # bytes: latency is less than 1e-4 of what they take
SWITCH = "H100 SXM"
MESH = "MI300X"


def message(sender: int, receiver: int, size: float, after: str = "") -> dict[str, Any]:
    name = f"{sender} to {receiver}"
    layer = {"name": name, "rank": sender, "peer": receiver, "after": [after] if after else []}
    return layer | {"collective": "send_recv", "message_bytes": size}


def sent(layers: list[dict[str, Any]], gpu: str, congestion: str, **fields: Any) -> Forecast:
    given = {"model": {"layers": layers}, "gpu": gpu, "gpus": 8, "congestion": congestion}
    return forecast(given | fields)


def ends(layers: list[dict[str, Any]], gpu: str = SWITCH, **fields: Any) -> dict[str, float]:
    """Return when each layer ends, in units of what the first takes alone."""
    alone = sent(layers, gpu, NONE, **fields).layers
    unit = {one.name: one.message_s for one in alone}[layers[0]["name"]]
    together = sent(layers, gpu, FAIR, **fields).layers
    return {one.name: pytest.approx(one.end_s / unit, rel=1e-3) for one in together}


def test_two_senders_into_one_receiver_take_twice_as_long() -> None:
    layers = [message(0, 2, LARGE), message(1, 2, LARGE)]
    assert ends(layers) == {"0 to 2": 2, "1 to 2": 2}
    told = [one for one in sent(layers, SWITCH, FAIR).remarks if one.code == "links-shared"]
    assert told[0].values["slower"] == 2


def test_on_a_mesh_each_pair_has_its_link() -> None:
    assert ends([message(0, 2, LARGE), message(1, 2, LARGE)], MESH) == {"0 to 2": 1, "1 to 2": 1}


def test_a_ring_exchange_takes_no_longer() -> None:
    layers = [message(rank, (rank + 1) % 4, LARGE) for rank in range(4)]
    assert list(ends(layers).values()) == [1] * 4


def test_one_sender_shares_its_port_among_two_receivers() -> None:
    layers = [message(0, 1, LARGE), message(0, 2, LARGE)]
    assert list(ends(layers).values()) == [2, 2]


def test_what_a_shorter_message_leaves_the_longer_takes() -> None:
    """Of 2 and 1 units both get a half until the shorter ends after 2; then 1 is left of the longer."""
    layers = [message(1, 2, LARGE), message(0, 2, 2 * LARGE)]
    assert ends(layers) == {"1 to 2": 2, "0 to 2": 3}


def test_a_message_that_begins_later_meets_what_is_left() -> None:
    """After 1 unit of 2 alone, the second of 1 unit begins: both have 1 left, and half the rate."""
    layers = [message(3, 4, LARGE), message(0, 2, 2 * LARGE), message(1, 2, LARGE, after="3 to 4")]
    assert ends(layers) == {"3 to 4": 1, "0 to 2": 3, "1 to 2": 3}


def test_a_bottleneck_elsewhere_leaves_its_share_to_others() -> None:
    """Three into rank 3 have a third each, so the other message of rank 0 has two thirds of its port."""
    layers = [message(sender, 3, LARGE) for sender in (0, 1, 2)] + [message(0, 4, 2 * LARGE)]
    assert ends(layers) == {"0 to 3": 3, "1 to 3": 3, "2 to 3": 3, "0 to 4": 3}


def test_between_nodes_adapters_are_shared_and_the_network_counts() -> None:
    layers = [message(0, 2, LARGE), message(1, 2, LARGE)]
    assert list(ends(layers, MESH, node_gpus=1).values()) == [2, 2]
    apart = sent([message(0, 9, 0.5 * LARGE)], MESH, NONE, gpus=16, network_gbs=50.0)
    assert apart.layers[0].message_s == pytest.approx(1, rel=1e-3)
    assert any(one.code == "network-stated" for one in apart.remarks)


def test_ranks_of_an_mpi_program_share_links(tmp_path: Path) -> None:
    """The receiver waits until both messages, begun together, have come at half their rate."""
    text = (
        f"0 init\n1 init\n2 init\n0 send 2 0 {LARGE}\n1 send 2 0 {LARGE}\n2 recv 0 0\n2 recv 1 0\n"
    )
    (tmp_path / "two.trace").write_text(text, encoding="utf-8")
    given = {"model": tmp_path / "two.trace", "gpu": SWITCH, "gpus": 3, "time_unit": "1Gf"}
    alone, together = (forecast({**given, "congestion": one}) for one in (NONE, FAIR))
    assert forecast(given).predicted == alone.predicted
    assert together.predicted == pytest.approx(2 * alone.predicted, rel=1e-3)
    assert together.upper / together.predicted == pytest.approx(alone.upper / alone.predicted)
    assert [one.messages_s for one in together.ranks] == pytest.approx(
        [2 * one.messages_s for one in alone.ranks], rel=1e-3
    )


def test_shares_are_fair_at_the_most_and_the_least() -> None:
    """No port carries more than it can, and each message is at full rate or at a full port where none gets more."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        capacity: dict[Port, float] = {}
        for rank in range(5):
            capacity["out", rank, rank] = float(rng.uniform(0.5, 3))
            capacity["into", rank, rank] = float(rng.uniform(0.5, 3))
        messages: dict[int, list[Port]] = {}
        for number in range(8):
            sender, receiver = rng.integers(5, size=2).tolist()
            messages[number] = [("out", sender, sender), ("into", receiver, receiver)]
        rates = fair_shares(messages, capacity)
        carried: Counter[Port] = Counter()
        largest: dict[Port, float] = {}
        for number, ports in messages.items():
            for port in ports:
                carried[port] += rates[number]
                largest[port] = max(largest.get(port, 0.0), rates[number])
        for port, rate in carried.items():
            assert rate <= capacity[port] + 1e-9
        for number, ports in messages.items():
            full = [port for port in ports if carried[port] >= capacity[port] - 1e-9]
            held_back = any(rates[number] >= largest[port] - 1e-9 for port in full)
            assert held_back or rates[number] == pytest.approx(1)


@pytest.mark.parametrize("congestion", ["much", 1, FAIR])
def test_congestion_needs_a_word_and_messages_between_ranks(congestion: object) -> None:
    with pytest.raises(ParameterError, match="congestion"):
        forecast({"model": {"layers": [{"time_us": 5}]}, "gpu": MESH, "congestion": congestion})


def test_a_peer_is_of_a_message_between_two() -> None:
    with pytest.raises(DataError, match="peer"):
        read_layers({"layers": [message(0, 1, LARGE) | {"collective": "all_reduce"}]})
    with pytest.raises(DataError, match="collective"):
        read_layers({"layers": [{"time_us": 5, "peer": 1}]})
