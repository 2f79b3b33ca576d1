"""Networks of a user's file: two levels or one, and what is no network."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.errors import DataError
from flopcast.hardware import NETWORK_FIGURES, Network, read_networks


def written(folder: Path, text: str) -> Path:
    path = folder / "network.toml"
    path.write_text(text)
    return path


def test_two_levels_one_level_and_another_host(tmp_path: Path) -> None:
    two = "node_gpus = 4\nnetwork_gbs = 25\nnetwork_us = 3\n"
    assert read_networks(written(tmp_path, two)) == (Network(25, 3, 4),) * 2
    assert (
        read_networks(written(tmp_path, "link_latency_us = 2"))
        == (Network(node_gpus=None, link_latency_us=2),) * 2
    )
    host, target = read_networks(
        written(tmp_path, two + "[host]\nnode_gpus = 8\nnetwork_gbs = 50\n")
    )
    assert (host, target) == (Network(50), Network(25, 3, 4))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("node_gpus = 8", "needs network_gbs"),
        ("node_gpus = 1.5\nnetwork_gbs = 1", "whole number"),
        ("network_gbs = 50", "needs node_gpus"),
        ("node_gpus = 8\nnetwork_gbs = -1", "network_gbs must be a number from"),
        ("network_gb = 50", "did you mean network_gbs"),
        ("host = 1", "table"),
        ("", "states nothing of a network: give some of"),
        ("[host]\nnetwork_gbs = true", "host.*network_gbs"),
        ("x = ", "not valid TOML"),
    ],
)
def test_what_is_no_network_is_one_line(text: str, word: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=word):
        read_networks(written(tmp_path, text))


@pytest.mark.parametrize("figure", NETWORK_FIGURES)
def test_a_figure_is_changed_alone(figure: str) -> None:
    changed = Network().changed(figure, 7.5)
    assert changed.own(figure) == 7.5
    assert all(
        changed.own(other) == Network().own(other) for other in NETWORK_FIGURES if other != figure
    )
    assert (Network(node_gpus=None).own(figure) is None) or figure == "link_latency_us"
