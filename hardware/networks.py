"""Networks: what joins the GPUs of a job beyond their links, and how many of them share a node.

In a network of two levels the GPUs of a node share links, and nodes are joined by adapters; in a
flat one every GPU reaches every other over its links. `read_networks` reads a user's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ..errors import DataError, ParameterError, nearest
from .lookup import read_toml
from .spec import Figure

NODE_GPUS: Final = 8  # GPUs of a node, where the user says nothing else


@dataclass(frozen=True)
class Network:
    """What joins the nodes, and how many GPUs a node has."""

    # bandwidth per GPU between nodes, one way, GB/s; latency of a message, µs
    gbs: float = 50.0
    step_us: float = 10.0
    # GPUs that share links within a node; None where all do (a flat network)
    node_gpus: int | None = NODE_GPUS
    # latency of one step of a collective over the links within a node, µs; by default what was
    # measured
    link_latency_us: float | None = None

    def nodes(self, ranks: float) -> int:
        """Return the nodes over which so many GPUs lie, the fewest.

        >>> Network().nodes(64), Network(node_gpus=None).nodes(64)
        (8, 1)
        """
        if self.node_gpus is None:
            return 1
        return -(-int(ranks) // self.node_gpus)

    def own(self, figure: str) -> float | None:
        """Return one of `NETWORK_FIGURES`, None where it is not stated or the network has no such level."""
        value: float | None = getattr(self, _FIELDS[figure])
        if self.node_gpus is None and figure != "link_latency_us":
            return None
        return value

    def changed(self, figure: str, value: float) -> Network:
        """Return the network with one of `NETWORK_FIGURES` changed."""
        fields: dict[str, Any] = {_FIELDS[figure]: value}
        return replace(self, **fields)


NETWORK_FIGURES: Final = {
    figure.key: figure
    for figure in (
        Figure("network_gbs", "one GPU to other nodes, one way", "GB/s"),
        Figure("network_us", "latency between nodes", "µs"),
        Figure("link_latency_us", "latency of a step over the links of a node", "µs"),
    )
}
"""What a sweep may change of a network, by key."""
_FIELDS: Final = {
    "network_gbs": "gbs",
    "network_us": "step_us",
    "link_latency_us": "link_latency_us",
}
_KEYS: Final = (*_FIELDS, "node_gpus")


def read_networks(path: Path) -> tuple[Network, Network]:
    """Read the networks of the host and of the target from a TOML file.

    The keys are those of `NETWORK_FIGURES` and ``node_gpus``; without that one the network is flat,
    and one with two levels needs ``network_gbs``. A table ``[host]`` has the same keys for where
    the trace was made; without it that has the target's network. What the links of a node carry is
    the GPU's ``link_bw_gbs``::

        node_gpus = 8
        network_gbs = 50
        network_us = 10

    Raises DataError: the file cannot be read or states nothing, or a key is unknown, missing or no number from 1e-6
    to 1e15.
    """
    table = read_toml(path)
    if not table:
        keys = ", ".join(_KEYS)
        raise DataError(f"states nothing of a network: give some of {keys}", source=str(path))
    of_host = table.pop("host", None)
    if not isinstance(of_host, Mapping | None):
        raise DataError("host must be a table [host]", source=str(path))
    target = _network(table, str(path))
    return (target if of_host is None else _network(of_host, f"{path}: [host]")), target


def _network(table: Mapping[str, Any], where: str) -> Network:
    for key, value in table.items():
        if key not in _KEYS:
            raise DataError(f"unknown key {key}: {nearest(key, _KEYS)}", source=where)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 1e-6 <= value < 1e15
        ):
            raise DataError(
                f"{key} must be a number from 1e-6 up to 1e15, got {value!r:.40}", source=where
            )
    nodes = table.get("node_gpus")
    between = {"network_gbs", "network_us"} & table.keys()
    if nodes is None and between:
        raise DataError(f"{min(between)} needs node_gpus: how many GPUs share a node", source=where)
    if nodes is not None and ("network_gbs" not in table or nodes != int(nodes)):
        raise DataError("node_gpus must be a whole number, and needs network_gbs", source=where)
    sizes = {_FIELDS[key]: float(value) for key, value in table.items() if key in _FIELDS}
    return Network(node_gpus=None if nodes is None else int(nodes), **sizes)


def check_figure(figure: str, value: float) -> None:
    """Raise a ParameterError unless a swept figure of a network is above 0 and finite."""
    if not 0 < value < float("inf"):
        raise ParameterError("sweep", f"of {figure} must be above 0 and finite, got {value:g}")


def parse_network(text: str) -> tuple[float, float] | Path:
    """Return the bandwidths of ``HOST:TARGET``, in GB/s, or the path of a TOML file.

    Raises ParameterError: it is not two numbers.

    >>> parse_network("50:400")
    (50.0, 400.0)
    """
    if text.casefold().endswith(".toml"):
        return Path(text)
    try:
        host, target = (float(part) for part in text.split(":"))
    except ValueError:
        raise ParameterError(
            "network",
            "must be HOST:TARGET in GB/s, such as 50:400, or a file that ends in .toml, "
            f"got {text!r}",
        ) from None
    return host, target
