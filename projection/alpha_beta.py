"""The alpha-beta model of collectives: steps and bytes of the algorithms, latency and bandwidth of the links.

Steps and bytes are counted as Thakur, Rabenseifner and Gropp do [1]_.

The time of a message is that of its steps and of its bytes (Hockney [2]_):

    t = alpha · steps(n) + bytes · volume(n) / bandwidth

`bytes` is the message of one rank, the larger of its input and output (what it ends with in an all-gather, what it
starts from in a reduce-scatter), n the ranks, and the bandwidth what one rank can send to all its peers at once. The
arithmetic of a reduction is not counted: GPUs reduce faster than links deliver.

==============  =====================  =========================  =========================
collective      ring                   tree                       direct
==============  =====================  =========================  =========================
all_reduce      2(n-1), 2(n-1)/n       2 log n, 2(n-1)/n          2, 2(n-1)/n
all_gather      n-1, (n-1)/n           log n, (n-1)/n             1, (n-1)/n
reduce_scatter  n-1, (n-1)/n           log n, (n-1)/n             1, (n-1)/n
all_to_all      n-1, (n-1)/n           log n, log n / 2           1, (n-1)/n
gather          n-1, (n-1)/n           log n, (n-1)/n             1, (n-1)/n
scatter         n-1, (n-1)/n           log n, (n-1)/n             1, (n-1)/n
broadcast       n-1, 1                 log n, log n               2, 2(n-1)/n
reduce          n-1, 1                 log n, log n               2, 2(n-1)/n
send_recv       1, 1                   1, 1                       1, 1
==============  =====================  =========================  =========================

ring
    Neighbours only, messages in n parts; broadcast and reduction as a pipeline.
tree
    Recursive halving and doubling (Rabenseifner's all-reduce), binomial trees, Bruck's all-to-all; log is to base 2 and
    rounded up.
direct
    Every pair has a link of its own, and a rank sends to all peers at once; an all-reduce is a reduce-scatter and an
    all-gather, a broadcast a scatter and an all-gather (van de Geijn), a reduction the reverse.

Within one protocol of the library the time is that line over the terms of the algorithm, with the part of the published
bandwidth that is reached (`Protocol`):

    t = base_us + step_us · steps(n) + bytes · volume(n) / (efficiency · bandwidth)

NCCL and RCCL send short messages with a protocol of low latency and low bandwidth (LL, LL128) and long ones with
another (Simple): the lines hold from `from_bytes` on. Where the next line begins below the end of the one before, the
time stays there until the line has caught up, so a longer message never takes less. The fitted figures are in
links.toml.

References
----------
.. [1] R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH",
   International Journal of High Performance Computing Applications 19(1), 2005.
.. [2] R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20(3),
   1994.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..arrays import FloatArray

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL = "all_reduce", "all_gather", "reduce_scatter", "all_to_all"
BROADCAST, REDUCE, SCATTER, GATHER, SEND_RECV = "broadcast", "reduce", "scatter", "gather", "send_recv"

COLLECTIVES: Final = (
    *(ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BROADCAST, REDUCE, SCATTER, GATHER, SEND_RECV),
)
"""Every collective that has cost terms, one name for what PyTorch, NCCL, RCCL and Chakra write differently. A barrier
is an all-reduce of one element."""

_WORDS: Final = (
    (r"allreduce|barrier", ALL_REDUCE),
    (r"reducescatter", REDUCE_SCATTER),
    (r"allgather", ALL_GATHER),
    (r"alltoall", ALL_TO_ALL),
    (r"sendrecv|^i?send$|^i?recv(anysource)?$", SEND_RECV),
    (r"broadcast", BROADCAST),
    (r"gather", GATHER),
    (r"scatter", SCATTER),
    (r"reduce", REDUCE),
)
"""Searched in this order in the name without case and separators: "_reduce_scatter_base", "ncclDevKernel_AllGather"."""


def collective_of(name: str) -> str:
    """Return which of `COLLECTIVES` a collective's or a kernel's name means, "" for none.

    Examples
    --------
    >>> collective_of("_allgather_base"), collective_of("ncclDevKernel_SendRecv(ncclDevComm*)")
    ('all_gather', 'send_recv')
    >>> collective_of("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)")
    ''
    """
    plain = re.sub(r"[^a-z0-9]", "", name.split("(")[0].casefold())
    return next((collective for pattern, collective in _WORDS if re.search(pattern, plain)), "")


def collectives_of(activities: pd.DataFrame) -> pd.Series:
    """Return the collective of each activity, "" where neither its arguments nor the kernel's name say it."""
    stated = activities["collective"].astype(object)
    words = stated.where(stated != "", activities["name"].astype(object))
    known = {word: collective_of(word) for word in words.unique()}
    return words.map(known).astype(object)


Terms = tuple[FloatArray, FloatArray]

RING, TREE, DIRECT = ALGORITHMS = ("ring", "tree", "direct")

_PARTS: Final = (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER)
"""Collectives in which a rank sends or receives every part of the message but its own."""


def cost_terms(algorithm: str, collective: str, ranks: ArrayLike) -> Terms:
    """Return the steps, and the bytes sent per byte of the message, as the module's table says.

    Both are of shape (n_messages,); ``ranks`` take part, at least 1 in each message. A ValueError names an algorithm or
    collective that is not in the table.

    Examples
    --------
    >>> [terms.tolist() for terms in cost_terms("ring", "all_reduce", [2, 8])]
    [[2.0, 14.0], [1.0, 1.75]]
    """
    n = np.asarray(ranks, dtype=np.float64)
    if algorithm not in _TERMS:
        raise ValueError(f"parameter algorithm of cost_terms must be one of {', '.join(ALGORITHMS)}, got {algorithm!r}")
    if collective == SEND_RECV:
        return np.ones_like(n), np.ones_like(n)
    terms = _TERMS[algorithm].get(collective)
    if terms is None:
        raise ValueError(f"parameter collective of cost_terms must be one that is known, got {collective!r}")
    return terms(n)


def _rounds(n: FloatArray) -> FloatArray:
    return np.ceil(np.log2(n))


def _parts(n: FloatArray) -> FloatArray:
    return (n - 1) / n


def _both(n: FloatArray) -> Terms:
    """Return the terms of a scatter (or reduce-scatter) and an all-gather, each one step to all peers."""
    return np.full_like(n, 2.0), 2 * _parts(n)


def _pipeline(n: FloatArray) -> Terms:
    return n - 1, np.ones_like(n)


def _binomial(n: FloatArray) -> Terms:
    return _rounds(n), _rounds(n)


_TERMS: Final[dict[str, dict[str, Callable[[FloatArray], Terms]]]] = {
    RING: {
        ALL_REDUCE: lambda n: (2 * (n - 1), 2 * _parts(n)),
        **dict.fromkeys(_PARTS, lambda n: (n - 1, _parts(n))),
        **dict.fromkeys((BROADCAST, REDUCE), _pipeline),
    },
    TREE: {
        ALL_REDUCE: lambda n: (2 * _rounds(n), 2 * _parts(n)),
        **dict.fromkeys(_PARTS, lambda n: (_rounds(n), _parts(n))),
        ALL_TO_ALL: lambda n: (_rounds(n), _rounds(n) / 2),
        **dict.fromkeys((BROADCAST, REDUCE), _binomial),
    },
    DIRECT: {
        **dict.fromkeys((ALL_REDUCE, BROADCAST, REDUCE), _both),
        **dict.fromkeys(_PARTS, lambda n: (np.ones_like(n), _parts(n))),
    },
}


@dataclass(frozen=True)
class LawErrors:
    """Root mean square of ln(projected / measured) over the pairs of GPUs measured, in both directions."""

    alpha_beta: float  # of the ratio of two measured models
    one_sided: float  # of the alpha-beta model where one of the two GPUs is taken as unmeasured
    bandwidth: float  # of the ratio of published bandwidths


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
    """One line of the model."""

    from_bytes: float  # messages longer than this are sent with it
    base_us: float  # latency of the whole collective, at least 0
    step_us: float  # and of each of its steps
    efficiency: float  # part of the published bandwidth reached; infinite where bytes take no time

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

    The errors are the mean relative ones of messages left out of the fit: every fourth octave of sizes, a decade of
    sizes, or a number of ranks at a time; NaN where there was one number only.
    """

    gpus: tuple[str, ...]  # canonical names; the first was measured, the others have the same links
    collective: str  # what was measured
    algorithm: str  # how its steps and bytes are counted
    protocols: tuple[Protocol, ...]  # in order of `Protocol.from_bytes`, the first from 0
    ranks: tuple[int, ...] = ()  # sizes of group that were measured
    error_octaves: float = float("nan")
    error_decades: float = float("nan")
    error_ranks: float = float("nan")
    source: str = ""  # where the measurements are from

    def with_latency(self, step_us: float) -> Link:
        """Return the model with so much latency for each step, whatever was measured."""
        return replace(self, protocols=tuple(replace(line, base_us=0.0, step_us=step_us) for line in self.protocols))

    def latency_us(self, collective: str, message_bytes: ArrayLike, ranks: ArrayLike) -> FloatArray:
        """Return the part of the time that no bandwidth shortens, shape (n_messages,)."""
        steps, _ = cost_terms(self.algorithm, collective, ranks)
        return np.choose(self._protocol(message_bytes), [line.latency_us(steps) for line in self.protocols])

    def time_us(
        self, collective: str, message_bytes: ArrayLike, ranks: ArrayLike, bandwidth_gbs: ArrayLike
    ) -> FloatArray:
        """Return the time of messages, shape (n_messages,): above 0 where the latency is.

        A collective other than the measured one is reckoned from its own cost terms. ``message_bytes`` are those of one
        rank, ``bandwidth_gbs`` what the ranks have as published (`collective_laws.link_bandwidth_gbs`).
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
