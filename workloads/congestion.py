"""Messages that cross a link at the same time, and the share of its bandwidth that each gets.

Which ports a message crosses follows from its ends (`ports_of`): within a node it leaves one GPU
and enters another, and goes over the links between the two; between nodes it leaves one GPU's
adapter and enters another's. A port carries a number of messages at their full rate. Between a
pair, and at an adapter, that is one; at a GPU it is the ratio of all its links to those of a pair:
one behind a switch that gives a single peer all links, seven on a mesh of eight.

What is shared is shared max-min fairly (Bertsekas and Gallager, "Data Networks", section 6.5.2), as
SimGrid's flow model does without its terms of TCP: the bandwidth of the port that gives its
messages the least is divided evenly among them, and so on with what is left. Latency is not shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from ..hardware import GPU

FAIR, NONE = CONGESTIONS = ("fair", "none")
Port = tuple[str, int, int]
"""The kind of a port, and the rank or the pair of ranks that it belongs to."""
_LEFT: Final = 1e-12  # of a message: rounding


def fair_shares(
    messages: Mapping[int, Sequence[Port]], capacity: Mapping[Port, float]
) -> dict[int, float]:
    """Return the rate of each message, of that which it has alone, by the ports that it crosses.

    >>> out, into = ("out", 0, 0), ("into", 2, 2)
    >>> fair_shares({1: [out, into], 2: [into], 3: [out]}, {out: 2.0, into: 1.0})
    {1: 0.5, 2: 0.5, 3: 1.0}
    """
    left = dict(capacity)
    waiting = dict(messages)
    rates: dict[int, float] = {}
    while waiting:
        crossing: Counter[Port] = Counter()
        for ports in waiting.values():
            crossing.update(ports)
        shares = {port: left[port] / count for port, count in crossing.items()}
        least = min([1.0, *shares.values()])
        for message, ports in list(waiting.items()):
            full = least == 1.0 or any(shares[port] <= least * (1 + _LEFT) for port in ports)
            if full:
                rates[message] = least
                del waiting[message]
                for port in ports:
                    left[port] = max(left[port] - least, 0.0)
    return {message: rates[message] for message in messages}


class SharedLinks:
    """Messages under way, each with the seconds that it still takes alone."""

    def __init__(self, capacity: Mapping[Port, float]) -> None:
        self._capacity = capacity
        self._ports: dict[int, Sequence[Port]] = {}
        self._left_s: dict[int, float] = {}
        self._rates: dict[int, float] = {}
        self._now = 0.0

    def begin(self, message: int, ports: Sequence[Port], seconds: float, now: float) -> None:
        """Let a message begin that would take so many seconds alone."""
        self._advance(now)
        self._ports[message] = ports
        self._left_s[message] = seconds
        self._rates = fair_shares(self._ports, self._capacity)

    def next_end(self) -> float:
        """Return when the next message ends if none begins before; infinite where none is under way."""
        ends = [self._now + left / self._rates[one] for one, left in self._left_s.items()]
        return min(ends, default=float("inf"))

    def ended(self, now: float) -> list[int]:
        """Return the messages that end at a time which `next_end` gave, and let them go."""
        first = self.next_end()
        over = []
        for one, left in self._left_s.items():
            if self._now + left / self._rates[one] <= first * (1 + _LEFT):
                over.append(one)
        self._advance(now)
        for one in over:
            del self._ports[one], self._left_s[one]
        self._rates = fair_shares(self._ports, self._capacity)
        return over

    def _advance(self, now: float) -> None:
        for one in self._left_s:
            sent = self._rates[one] * (now - self._now)
            self._left_s[one] = max(self._left_s[one] - sent, 0.0)
        self._now = now


def ports_of(gpu: GPU, sender: int, receiver: int, *, between_nodes: bool) -> dict[Port, float]:
    """Return the ports that a message crosses, with the messages that each carries at full rate.

    Raises NotPublishedError: the figures of the GPU's links are not published.
    """
    if between_nodes:
        adapters = ("out of the node", sender, sender), ("into the node", receiver, receiver)
        return dict.fromkeys(adapters, 1.0)
    links = gpu.require("link_bw_gbs") / gpu.require("p2p_uni_gbs")
    ends = ("out", sender, sender), ("into", receiver, receiver)
    return dict.fromkeys(ends, max(links, 1.0)) | {("pair", sender, receiver): 1.0}
