"""The alpha-beta model of a message: latency per step, bytes per bandwidth, one pair of figures per protocol.

Within one protocol of the library the time is Hockney's line over the cost terms of the algorithm (`algorithms`):

    t = base_us + step_us · steps(n) + bytes · volume(n) / (efficiency · bandwidth)

NCCL and RCCL send short messages with a protocol of low latency and low bandwidth (LL, LL128) and long ones with
another (Simple): the lines hold from `from_bytes` on. Where the next line begins below the end of the one before, the
time stays there until the line has caught up, so a longer message never takes less.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .algorithms import ALL_REDUCE, FloatArray, cost_terms

# The fitted models that come with flopcast (links.toml), and the errors of the laws.


@dataclass(frozen=True)
class LawErrors:
    """Root mean square of ln(projected / measured) over the pairs of GPUs measured, in both directions.

    Attributes
    ----------
    alpha_beta : float
        Of the ratio of two measured models.
    one_sided : float
        Of the alpha-beta model where one of the two GPUs is taken as unmeasured.
    bandwidth : float
        Of the ratio of published bandwidths.
    """

    alpha_beta: float
    one_sided: float
    bandwidth: float


@cache
def measured_links() -> tuple[Link, ...]:
    """Return the models of links.toml."""
    return tuple(_link(table) for table in _data()["link"])


@cache
def law_errors() -> LawErrors:
    """Return the errors of links.toml."""
    return LawErrors(**_data()["law_errors"])


def find_link(links: Sequence[Link], gpu: str, collective: str) -> Link | None:
    """Return the model of a GPU for a collective: fitted to it, else to the all-reduce; None where there is neither."""
    of_gpu = {link.collective: link for link in links if gpu in link.gpus}
    return of_gpu.get(collective) or of_gpu.get(ALL_REDUCE)


@cache
def _data() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("links.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _link(table: dict[str, Any]) -> Link:
    lines = tuple(Protocol(**line) for line in table["protocols"])
    listed = {key: tuple(table[key]) for key in ("gpus", "ranks")}
    return Link(**{**table, **listed, "protocols": lines})


BYTES_PER_US = 1e3
"""Of 1 GB/s."""


@dataclass(frozen=True)
class Protocol:
    """One line of the model.

    Attributes
    ----------
    from_bytes : float
        Messages longer than this are sent with it.
    base_us, step_us : float
        Latency of the whole collective, and of each of its steps, at least 0.
    efficiency : float
        Part of the published bandwidth reached, above 0; infinite where the time does not depend on the bytes.
    """

    from_bytes: float
    base_us: float
    step_us: float
    efficiency: float

    def __post_init__(self) -> None:
        takes_time = self.base_us + self.step_us > 0 or np.isfinite(self.efficiency)
        if not (self.base_us >= 0 and self.step_us >= 0 and self.efficiency > 0 and takes_time):
            raise ValueError(f"a Protocol takes time, and none of its figures is negative, got {self}")

    def latency_us(self, steps: FloatArray) -> FloatArray:
        """Return the time of a message without bytes."""
        return self.base_us + self.step_us * steps

    def time_us(self, steps: FloatArray, sent_bytes: FloatArray, bandwidth_gbs: FloatArray) -> FloatArray:
        """Return the time of messages that send so many bytes in so many steps."""
        return self.latency_us(steps) + sent_bytes / (self.efficiency * bandwidth_gbs * BYTES_PER_US)


@dataclass(frozen=True)
class Link:
    """A fitted model: what messages between GPUs take over their links.

    Attributes
    ----------
    gpus : tuple of str
        Canonical names; the first was measured, the others have the same links.
    collective, algorithm : str
        What was measured, and how its steps and bytes are counted.
    protocols : tuple of Protocol
        In order of `Protocol.from_bytes`, the first from 0.
    ranks : tuple of int
        Sizes of group that were measured.
    error_octaves, error_decades, error_ranks : float
        Mean relative error of messages left out of the fit: every fourth octave of sizes, a decade of sizes, or a
        number of ranks at a time; NaN where there was one number only.
    source : str
        Where the measurements are from.
    """

    gpus: tuple[str, ...]
    collective: str
    algorithm: str
    protocols: tuple[Protocol, ...]
    ranks: tuple[int, ...] = ()
    error_octaves: float = float("nan")
    error_decades: float = float("nan")
    error_ranks: float = float("nan")
    source: str = ""

    def latency_us(self, collective: str, message_bytes: ArrayLike, ranks: ArrayLike) -> FloatArray:
        """Return the part of the time that no bandwidth shortens, shape (n_messages,)."""
        steps, _ = cost_terms(self.algorithm, collective, ranks)
        return np.choose(self._protocol(message_bytes), [line.latency_us(steps) for line in self.protocols])

    def time_us(
        self, collective: str, message_bytes: ArrayLike, ranks: ArrayLike, bandwidth_gbs: ArrayLike
    ) -> FloatArray:
        """Return the time of messages.

        Parameters
        ----------
        collective : str
            One of `collectives.COLLECTIVES`; another than the measured one is reckoned from its own cost terms.
        message_bytes, ranks, bandwidth_gbs : array-like of shape (n_messages,)
            Message of one rank, ranks that take part, and the published bandwidth they have
            (`bandwidth.link_bandwidth_gbs`).

        Returns
        -------
        ndarray of shape (n_messages,)
            Microseconds, above 0 where the latency is.
        """
        steps, volume = cost_terms(self.algorithm, collective, ranks)
        size, rate = np.asarray(message_bytes, dtype=np.float64), np.asarray(bandwidth_gbs, dtype=np.float64)
        which = self._protocol(size)
        time = self.protocols[0].time_us(steps, size * volume, rate)
        end = np.zeros_like(time)
        for place, (before, line) in enumerate(pairwise(self.protocols), start=1):
            end = np.maximum(end, before.time_us(steps, line.from_bytes * volume, rate))
            time = np.where(which >= place, np.maximum(line.time_us(steps, size * volume, rate), end), time)
        return time

    def _protocol(self, message_bytes: ArrayLike) -> np.ndarray:
        """Return the position of the protocol that sends each message."""
        return np.searchsorted([line.from_bytes for line in self.protocols[1:]], message_bytes, side="left")
