"""Collectives: the alpha-beta model of their time, and what that becomes on other GPUs, with other ranks or links.

The time of a message is that of its steps and of its bytes (Hockney [2]_), which are counted as Thakur, Rabenseifner
and Gropp do [1]_:

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
    Every pair has a separate link, and a rank sends to all peers at once; an all-reduce is a reduce-scatter and an
    all-gather, a broadcast a scatter and an all-gather (van de Geijn), a reduction the reverse.
mesh
    Every pair has a separate link, and RCCL lays a ring over each: n - 1 rings at once, with the bytes of a ring.
    Below `WHOLE_MESH` ranks they take the steps of a ring, all GPUs of a node together those of `direct`.

RCCL has such rings for 2, 4 and 8 GPUs only. Other numbers of ranks have fewer (`Link.rings`: two of 3 GPUs, one of 5,
6 and 7), and each of them carries less than a tuned one (`Link.untuned`): on MI355X the bus bandwidth of an all-reduce
is 60, 93, 170, 48, 48, 48 and 397 GB/s on 2 to 8 GPUs.

On a switch that adds (NVLS), an all-reduce of many ranks can be left to it: every rank sends its message once, and
receives the sum once (`Nvls`). The library takes it where it is faster than the ring, which is so above some 32 MB on
eight H100.

Within one protocol of the library the time is that line over the terms of the algorithm, with the part of the published
bandwidth that is reached (`Protocol`):

    t = base_us + step_us · steps(n) + bytes · volume(n) / (efficiency · bandwidth)

NCCL and RCCL send short messages with a protocol of low latency and low bandwidth (LL, LL128) and long ones with
another (Simple): the lines hold from `from_bytes` on. Where the next line begins below the end of the one before, the
time stays there until the line has caught up, so a longer message never takes less. The fitted figures are in
links.toml.

A law says what the measured time of each collective is multiplied by on another GPU (`communication_factors`), the one
that is asked for or the next that the data allow:

bandwidth
    The published baseline: ``latency' = bandwidth_host / bandwidth_target · latency``, with the bandwidth that the
    collective's group has (`link_bandwidth_gbs`).
alpha-beta
    Of the measured time, the part that the bytes explain changes by the ratio of what they take by the two models
    (`Link`); latency and waiting stay. That part is what the host's model says, at most the measured time. Where one
    GPU was not measured, both take the model of the other, each with its published bandwidth; where neither was,
    that of `STAND_IN`.
kept
    The measured time.

A collective's measured time includes the waiting for peers that are not there yet (kernels of all ranks end together,
whenever they began), which no link shortens: what lies above the model is taken for it. With `keep_waiting` the
transfer is also at most the least time among equal messages.

Latency stays because it is not the links': launches, the release of the library and how ranks meet make it, and stay
with the trace. `LawErrors` has what that costs between the GPUs that were measured.

The published bandwidth is that of all links of the GPU, of those to its peers, of one pair, or of the network:

=====================  ===================================================================
send and receive       the links between the pair (`p2p_uni_gbs`)
collective, n ranks    the links to n - 1 peers, at most all of them (`link_bw_gbs`)
n beyond one node      what the user states of the network between the nodes
=====================  ===================================================================

On a switch one peer can be sent to with all links (`p2p_uni_gbs` equals `link_bw_gbs`), so n does not matter; a mesh
(MI300X) has one link per peer. Where only `link_bw_gbs` is published the links are taken to be switched.

In another world, of more or fewer ranks and on a network of one level or two, the bytes take what the target's model
says there, and the latency grows as that of the target's model does from world to world (`world_factors`); what lies
above the model is waiting, and stays. What a rank holds stays the same, as where every rank keeps its batch:

- an all-reduce keeps its bytes;
- an all-gather and a reduce-scatter keep the whole, of which each rank's shard changes;
- an all-to-all keeps what a rank sends in all, of which each peer's part changes;
- a message between two ranks stays as it is.

So ``collective_bytes``, the larger of a rank's input and output, stays, and the number of ranks changes. Which groups
grow with the ranks of the job is certain for groups of all ranks; of others (a tensor-parallel group inside a
data-parallel one) the user says it. Between nodes collectives take two levels (`collective_us`); how many ranks of a
group share a node follows from its members, where the trace names them (every eighth rank: one a node of eight).

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..arrays import FloatArray, ObjectArray
from ..errors import DataError, NotPublishedError, ParameterError, few, nearest
from ..hardware import GPU, Network, find, read_networks
from ..hardware.networks import NODE_GPUS
from ..operators.work import as_numbers
from ..remarks import Remark, remark

(
    ALL_REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    BROADCAST,
    REDUCE,
    SCATTER,
    GATHER,
    SEND_RECV,
) = COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "scatter",
    "gather",
    "send_recv",
)
"""Every collective that has cost terms, one name for what PyTorch, NCCL, RCCL and Chakra write
differently. A barrier is an all-reduce of one element."""
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
    collective_by_word = {word: collective_of(word) for word in words.unique()}
    return words.map(collective_by_word).astype(object)


Terms = tuple[FloatArray, FloatArray]
RING, TREE, DIRECT, MESH = ALGORITHMS = ("ring", "tree", "direct", "mesh")
WHOLE_MESH: Final = 8  # ranks from which on a mesh exchanges directly: all GPUs of a node
_PARTS: Final = (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER)
"""Collectives in which a rank sends or receives every part of the message but its own."""


def cost_terms(algorithm: str, collective: str, ranks: ArrayLike) -> Terms:
    """Return the steps, and the bytes sent per byte of the message, by the module's table.

    Both are of shape (n_messages,); ``ranks`` take part, at least 1 in each message. A ValueError
    names an algorithm or collective that is not in the table.

    >>> [terms.tolist() for terms in cost_terms("ring", "all_reduce", [2, 8])]
    [[2.0, 14.0], [1.0, 1.75]]
    """
    n = np.asarray(ranks, dtype=np.float64)
    if algorithm not in _TERMS:
        raise ValueError(
            f"parameter algorithm of cost_terms must be one of {', '.join(ALGORITHMS)}, got "
            f"{algorithm!r}"
        )
    if collective == SEND_RECV:
        return np.ones_like(n), np.ones_like(n)
    terms = _TERMS[algorithm].get(collective)
    if terms is None:
        raise ValueError(
            f"parameter collective of cost_terms must be one that is known, got {collective!r}"
        )
    return terms(n)


def _rounds(n: FloatArray) -> FloatArray:
    return np.ceil(np.log2(n))


def _parts(n: FloatArray) -> FloatArray:
    return (n - 1) / n


def _mesh_steps(n: FloatArray) -> FloatArray:
    return np.where(n < WHOLE_MESH, n - 1, 1.0)


_TERMS: Final[dict[str, dict[str, Callable[[FloatArray], Terms]]]] = {
    RING: {
        ALL_REDUCE: lambda n: (2 * (n - 1), 2 * _parts(n)),
        **dict.fromkeys(_PARTS, lambda n: (n - 1, _parts(n))),
        **dict.fromkeys((BROADCAST, REDUCE), lambda n: (n - 1, np.ones_like(n))),
    },
    TREE: {
        ALL_REDUCE: lambda n: (2 * _rounds(n), 2 * _parts(n)),
        **dict.fromkeys(_PARTS, lambda n: (_rounds(n), _parts(n))),
        ALL_TO_ALL: lambda n: (_rounds(n), _rounds(n) / 2),
        **dict.fromkeys((BROADCAST, REDUCE), lambda n: (_rounds(n), _rounds(n))),
    },
    MESH: {
        ALL_REDUCE: lambda n: (np.where(n < WHOLE_MESH, 2 * (n - 1), 2.0), 2 * _parts(n)),
        **dict.fromkeys(_PARTS, lambda n: (_mesh_steps(n), _parts(n))),
        **dict.fromkeys((BROADCAST, REDUCE), lambda n: (_mesh_steps(n), np.ones_like(n))),
    },
    DIRECT: {
        **dict.fromkeys(
            (ALL_REDUCE, BROADCAST, REDUCE), lambda n: (np.full_like(n, 2.0), 2 * _parts(n))
        ),
        **dict.fromkeys(_PARTS, lambda n: (np.ones_like(n), _parts(n))),
    },
}


@dataclass(frozen=True)
class LawErrors:
    """Root mean square of ln(projected / measured) over the pairs of GPUs measured, in both directions."""

    # of messages whose bytes take most of the time
    alpha_beta: float  # of two measured models
    one_sided: float  # of the alpha-beta model where one of the two GPUs is taken as unmeasured, or both are
    bandwidth: float  # of the ratio of published bandwidths
    latency: float  # of keeping the latency: of all other messages
    waiting: float  # of keeping what peers are waited for: a judgement

    @property
    def widest(self) -> float:
        """The largest of them: that of a time that has no stated cause."""
        return max(self.alpha_beta, self.one_sided, self.bandwidth, self.latency, self.waiting)


@cache
def measured_links() -> tuple[Link, ...]:
    """Return the models of links.toml."""
    links: list[Link] = []
    for table in _data()["link"]:
        fields: dict[str, Any] = dict(table)
        for name in ("gpus", "ranks"):
            fields[name] = tuple(table[name])
        if "rings" in table:
            fields["rings"] = {int(ranks): rings for ranks, rings in table["rings"].items()}
        if "nvls" in table:
            fields["nvls"] = Nvls(**table["nvls"])
        if "of_all_reduce" in table:
            base = find_link(links, fields["gpus"][0], ALL_REDUCE)
            if base is None:
                raise ValueError(
                    f"links.toml: {fields['gpus'][0]} has no all_reduce before "
                    f"{table['collective']}"
                )
            links.append(
                replace(base.at_share(fields["of_all_reduce"]), **(_NOT_OF_ALL_REDUCE | fields))
            )
            continue
        fields["protocols"] = tuple(Protocol(**line) for line in table["protocols"])
        links.append(Link(**fields))
    return tuple(links)


_NOT_OF_ALL_REDUCE: Final[dict[str, Any]] = {
    "nvls": None,
    "error_octaves": np.nan,
    "error_decades": np.nan,
    "error_ranks": np.nan,
}
"""What another collective of a GPU does not take over from its all-reduce."""


@cache
def law_errors() -> LawErrors:
    """Return the errors of links.toml."""
    return LawErrors(**_data()["law_errors"])


def find_link(links: Sequence[Link], gpu: str, collective: str) -> Link | None:
    """Return the model of a GPU for a collective: fitted to it, else to the all-reduce; None where there is neither."""
    of_gpu = {link.collective: link for link in links if gpu in link.gpus}
    return of_gpu.get(collective) or of_gpu.get(ALL_REDUCE)


def lent_link(links: Sequence[Link], lender: str, gpu: GPU, collective: str) -> Link | None:
    """Return the model of another GPU as it holds for one whose links were not measured.

    The switch of the lender does not add for it. It takes over the rings of a mesh where it has one
    of as many links.
    """
    link = find_link(links, lender, collective)
    if link is None:
        return None
    if link.rings and gpu.links != find(link.gpus[0]).links:
        return replace(link, rings={}, nvls=None)
    return replace(link, nvls=None)


@cache
def _data() -> dict[str, Any]:
    text = resources.files("flopcast.projection").joinpath("links.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


BYTES_PER_US = 1e3  # of 1 GB/s


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
            raise ValueError(
                f"a Protocol takes time, and none of its figures is negative, got {self}"
            )

    def latency_us(self, steps: FloatArray) -> FloatArray:
        """Return the time of a message without bytes."""
        return self.base_us + self.step_us * steps

    def time_us(
        self, steps: FloatArray, sent_bytes: FloatArray, bandwidth_gbs: FloatArray
    ) -> FloatArray:
        """Return the time of messages that send so many bytes in so many steps."""
        return self.latency_us(steps) + sent_bytes / (
            self.efficiency * bandwidth_gbs * BYTES_PER_US
        )


@dataclass(frozen=True)
class Nvls:
    """An all-reduce that the switch adds up: each rank sends its message once and receives the sum once.

    NVIDIA calls it NVLink SHARP. The time is ``base_us + bytes / (efficiency · bandwidth)``,
    whatever the ranks.
    """

    from_ranks: int  # least ranks at which the library takes it
    base_us: float  # latency of the whole collective
    efficiency: float  # part of the published bandwidth reached
    source: str = ""  # where the measurements are from

    def time_us(self, message_bytes: FloatArray, bandwidth_gbs: FloatArray) -> FloatArray:
        """Return the time of messages of so many bytes."""
        return self.base_us + message_bytes / (self.efficiency * bandwidth_gbs * BYTES_PER_US)


@dataclass(frozen=True)
class Link:
    """A fitted model of the time of messages between GPUs over their links.

    The errors are the mean relative ones of messages left out of the fit: every fourth octave of
    sizes, a decade of sizes, or a number of ranks at a time; NaN where there was one number only.
    """

    gpus: tuple[str, ...]  # canonical names; the first was measured, the others have the same links
    collective: str  # what was measured
    algorithm: str  # how its steps and bytes are counted
    protocols: tuple[Protocol, ...]  # in order of `Protocol.from_bytes`, the first from 0
    ranks: tuple[int, ...] = ()  # sizes of group that were measured
    # rings over a mesh at numbers of ranks for which the library has no tuned ones; n - 1 at all
    # others
    rings: Mapping[int, int] = field(default_factory=dict)
    untuned: float = 1.0  # what one of those rings carries, of a tuned one
    carried_from: str = ""  # the GPU where `rings` and `untuned` were measured, "" for this one
    nvls: Nvls | None = None  # where the switch adds, of an all-reduce
    # efficiencies over those of the all-reduce, where only these were fitted
    of_all_reduce: float | None = None
    error_octaves: float = float("nan")
    error_decades: float = float("nan")
    error_ranks: float = float("nan")
    source: str = ""  # where the measurements are from

    def time_us(
        self, collective: str, message_bytes: ArrayLike, ranks: ArrayLike, bandwidth_gbs: ArrayLike
    ) -> FloatArray:
        """Return the time of messages, shape (n_messages,): above 0 where the latency is.

        A collective other than the measured one is reckoned from its cost terms.
        ``message_bytes`` are those of one rank, ``bandwidth_gbs`` what the ranks have as published
        (`link_bandwidth_gbs`).
        """
        latency, transfer = self.parts_us(collective, message_bytes, ranks, bandwidth_gbs)
        return latency + transfer

    def parts_us(
        self, collective: str, message_bytes: ArrayLike, ranks: ArrayLike, bandwidth_gbs: ArrayLike
    ) -> tuple[FloatArray, FloatArray]:
        """Return latency, which no bandwidth shortens, and transfer, the time of the bytes; each (n_messages,), in µs.

        Their sum is `time_us`. Where a line begins below the end of the one before, what the time
        waits there counts as transfer.
        """
        steps, volume = cost_terms(self.algorithm, collective, ranks)
        size = np.asarray(message_bytes, dtype=np.float64)
        published = np.asarray(bandwidth_gbs, dtype=np.float64)
        rate = published
        if collective != SEND_RECV:
            rate = published * self.reach(ranks)
        which = self._protocol(size)
        time = self.protocols[0].time_us(steps, size * volume, rate)
        latency = self.protocols[0].latency_us(steps)
        end = np.zeros_like(time)
        for place, (before, line) in enumerate(pairwise(self.protocols), start=1):
            end = np.maximum(end, before.time_us(steps, line.from_bytes * volume, rate))
            time = np.where(
                which >= place, np.maximum(line.time_us(steps, size * volume, rate), end), time
            )
            latency = np.where(which >= place, line.latency_us(steps), latency)
        if self.nvls is not None and collective == ALL_REDUCE:
            summed = self.nvls.time_us(size, published)
            faster = (np.asarray(ranks) >= self.nvls.from_ranks) & (summed < time)
            time = np.where(faster, summed, time)
            latency = np.where(faster, self.nvls.base_us, latency)
        return latency + np.zeros_like(time), time - latency

    def reach(self, ranks: ArrayLike) -> FloatArray:
        """Return the part of the group's links that its rings use, of what tuned rings do; 1 but for `rings`."""
        count = np.asarray(ranks, dtype=np.float64)
        part = np.ones_like(count)
        for odd, rings in self.rings.items():
            part = np.where(count == odd, self.untuned * rings / (odd - 1), part)
        return part

    def at_share(self, share: float) -> Link:
        """Return the model with every efficiency multiplied by a share."""
        lines = tuple(replace(line, efficiency=line.efficiency * share) for line in self.protocols)
        return replace(self, protocols=lines)

    def covers(self, collective: str, ranks: float) -> bool:
        """Return whether the errors of messages left out of the fit are those of such messages too."""
        if collective == SEND_RECV:
            return self.collective == SEND_RECV
        if ranks in self.ranks:
            return self.collective == collective
        return (
            self.collective == collective and len(self.ranks) > 1 and int(ranks) not in self.rings
        )

    def _protocol(self, message_bytes: ArrayLike) -> np.ndarray:
        """Return the position of the protocol that sends each message."""
        return np.searchsorted(
            [line.from_bytes for line in self.protocols[1:]], message_bytes, side="left"
        )


CommunicationLaw = Literal["alpha-beta", "bandwidth", "kept"]
ALPHA_BETA, BANDWIDTH, KEPT = LAWS = get_args(CommunicationLaw)
# bounds of a collective
LATENCY = "latency"
LINK = "link"
UNKNOWN = ""
LEAST_BYTES = 1.0  # a barrier has no message, and sends one all the same


@dataclass(frozen=True)
class NodeBandwidths:
    """What joins the nodes, as the user states it: the bandwidth out of one node, all its adapters, one way, GB/s."""

    host_gbs: float | None = None  # where the trace was made
    target_gbs: float | None = None  # of the target
    # GPUs of a node, one rank each; larger groups cross the network
    ranks_per_node: int = NODE_GPUS

    def __post_init__(self) -> None:
        for side, gbs in (("host", self.host_gbs), ("target", self.target_gbs)):
            if gbs is not None and not (np.isfinite(gbs) and gbs > 0):
                raise ParameterError(
                    "network", f"must be above 0 GB/s and finite on the {side}, got {gbs}"
                )
        if self.ranks_per_node < 1:
            raise ParameterError("ranks_per_node", f"must be at least 1, got {self.ranks_per_node}")


def link_bandwidth_gbs(gpu: GPU, collective: str, ranks: float) -> float:
    """Return the bandwidth of one GPU within its node, one way, GB/s.

    ``collective`` is one of `COLLECTIVES`, or "" without one; where ``ranks`` are NaN all
    links count. Raises NotPublishedError for the figure it takes; DataError: the GPU's links join
    two GPUs only, and the group is larger.

    >>> from flopcast.hardware import find
    >>> [link_bandwidth_gbs(find("MI300X"), "all_reduce", n) for n in (2, 4, 8)]
    [64.0, 192.0, 448.0]
    """
    if collective == SEND_RECV:
        return gpu.require("p2p_uni_gbs")
    if ranks > 2 and gpu.joins_two:
        raise DataError(f"the links of {gpu.name} join 2 GPUs, the group has {ranks:g}")
    every = gpu.require("link_bw_gbs")
    if np.isnan(ranks) or gpu.p2p_uni_gbs is None:
        return every
    return min(every, (ranks - 1) * gpu.p2p_uni_gbs)


def communication_factors(
    activities: pd.DataFrame,
    host: GPU,
    target: GPU,
    law: CommunicationLaw = ALPHA_BETA,
    *,
    links: Sequence[Link] | None = None,
    network: NodeBandwidths | None = None,
    keep_waiting: bool = False,
) -> pd.DataFrame:
    """Return by what factor every collective's time changes, and by which law (see the module).

    Of communication rows of a dispatch table `collective`, `name`, `collective_bytes`, `group_size`
    and `duration_ns` are read. ``links`` are by default those of links.toml; without a ``network``
    8 ranks are in a node, and what joins nodes is not stated. With ``keep_waiting`` the time
    above the least among equal messages (collective, bytes, ranks) is waiting, and stays.

    The columns are `factor`, projected / measured time, above 0; `law`, the law used; `why`, a
    tuple of `Remark`: why it is not the one asked for, else (); `bound`, what takes the longer part
    of the projected time, "link" or "latency" (with it the waiting), "" where unknown; `sigma`, the
    root mean square of ln(projected / measured) of the law on messages left out, NaN where unknown,
    0 where host and target are the same.
    """
    check_law(law)
    if links is None:
        links = measured_links()
    network = network or NodeBandwidths()
    table = messages_of(activities)
    if keep_waiting:
        table["transfer_us"] = least_us(table)
    kinds: dict[str, Any] = {
        "factor": float,
        "law": object,
        "why": object,
        "bound": object,
        "sigma": float,
    }
    columns = {name: np.empty(len(table), dtype=kind) for name, kind in kinds.items()}
    by = ["collective", "ranks", table["bytes"].isna()]
    for _, messages in table.groupby(by, dropna=False, sort=False):
        answer = _answer(host, target, law, network, links, messages)
        for name, value in zip(columns, answer, strict=True):
            columns[name][messages.index] = value
    if host == target:  # nothing changes
        columns["sigma"][columns["factor"] == 1.0] = 0.0
    columns["why"] = np.fromiter(
        ((why,) if why else () for why in columns["why"]), dtype=object, count=len(table)
    )
    if keep_waiting:
        by_ratio = columns["law"] == BANDWIDTH
        columns["factor"] = np.where(
            by_ratio, without_waiting(columns["factor"], table), columns["factor"]
        )
    return pd.DataFrame(columns, index=activities.index)


def check_law(law: str) -> None:
    """Raise a ParameterError, with the nearest names, if no law of communication is called so."""
    if law not in LAWS:
        raise ParameterError(
            "comm_law", f"must be a law of communication, got {law!r}: {nearest(law, LAWS)}"
        )


def messages_of(activities: pd.DataFrame) -> pd.DataFrame:
    """Return the collective, bytes and ranks (NaN where unknown) and time of every activity, index 0, 1, ..."""
    return pd.DataFrame(
        {
            "collective": collectives_of(activities).to_numpy(),
            "bytes": as_numbers(activities, "collective_bytes"),
            "ranks": as_numbers(activities, "group_size"),
            "time": as_numbers(activities, "duration_ns"),
        }
    )


ONE_RANK = remark("one-rank", "a group of one rank sends nothing")


def unknown_of(collective: str, ranks: float, size_bytes: FloatArray) -> Remark | None:
    """Return a remark on the inputs of the model that the trace lacks; None if it lacks none."""
    lacks = {
        "collective": not collective,
        "group": bool(np.isnan(ranks)),
        "message": bool(np.isnan(size_bytes).any()),
    }
    missing = tuple(name for name, is_missing in lacks.items() if is_missing)
    if missing:
        return remark("message-unknown", f"{' and '.join(missing)} not recorded", missing=missing)
    return None


_Answer = tuple[FloatArray | float, str, Remark | None, ObjectArray | str, FloatArray | float]


def _kept(why: Remark | None) -> _Answer:
    return 1.0, KEPT, why, UNKNOWN, np.nan


def _answer(
    host: GPU,
    target: GPU,
    law: str,
    network: NodeBandwidths,
    links: Sequence[Link],
    messages: pd.DataFrame,
) -> _Answer:
    """Return factor, law, why, bound and sigma of messages of one collective and group, bytes all finite or all NaN.

    The law is the one asked for, or the next that the data allow: of the fitted models both, that
    of the one measured where the other was not, that of `STAND_IN` where neither was, of bandwidths
    without any.
    """
    collective = str(messages["collective"].iloc[0])
    ranks = float(messages["ranks"].iloc[0])
    sizes = messages["bytes"].to_numpy()
    if law == KEPT or ranks <= 1:
        return _kept(ONE_RANK if law != KEPT else None)
    if ranks > network.ranks_per_node:
        one_node = law == ALPHA_BETA  # as the fitted models are
        values = {"ranks": ranks, "per_node": network.ranks_per_node, "law_of_one_node": one_node}
        spans = f"a group of {ranks:g} spans nodes of {network.ranks_per_node}"
        if network.host_gbs is None or network.target_gbs is None:
            text = f"{spans}: state the network's bandwidth of host and target"
            return _kept(remark("group-spans-nodes", text, **values, stated=False))
        ratio = network.host_gbs / network.target_gbs
        if not one_node:
            return ratio, BANDWIDTH, None, LINK, np.nan
        why = remark(
            "group-spans-nodes", f"{spans}, and the model is of one node", **values, stated=True
        )
        if not collective or np.isnan(sizes).any():
            return ratio, BANDWIDTH, why, LINK, _unexplained(ratio)
        return _answer_between_nodes(network.host_gbs, ratio, why, messages)
    try:
        rates = [link_bandwidth_gbs(gpu, collective, ranks) for gpu in (host, target)]
    except NotPublishedError as error:
        return _kept(error.remark)
    except DataError as error:  # more ranks than the links join
        return _kept(remark("no-link", str(error), problem=str(error)))
    ratio = rates[0] / rates[1]
    if law == BANDWIDTH:
        return ratio, BANDWIDTH, None, LINK, law_errors().bandwidth
    why = unknown_of(collective, ranks, sizes)
    if why is not None:
        return ratio, BANDWIDTH, why, LINK, _unexplained(ratio)
    used_host, used_target, why = _used_links(host, target, links, collective, ranks)
    if used_host is None or used_target is None:
        return ratio, BANDWIDTH, why, LINK, _unexplained(ratio)
    sizes = np.maximum(sizes, LEAST_BYTES)
    latency, before = used_host.parts_us(collective, sizes, ranks, rates[0])
    _, after = used_target.parts_us(collective, sizes, ranks, rates[1])
    model_us = latency + before
    if "transfer_us" in messages:
        model_us = np.fmin(model_us, messages["transfer_us"].to_numpy())
    time_us = messages["time"].to_numpy() / NS_PER_US
    factor = factor_of_measured((latency + after) / (latency + before), model_us, time_us)
    explained = explained_part(model_us, time_us)
    of_bytes = explained * after / (latency + before) / factor
    waiting = (1.0 - explained) / factor
    bound = np.where(of_bytes >= 0.5, LINK, LATENCY).astype(object)
    covered = (
        not why and used_host.covers(collective, ranks) and used_target.covers(collective, ranks)
    )
    return factor, ALPHA_BETA, why, bound, sigma_of_parts(of_bytes, waiting, covered)


def _answer_between_nodes(
    host_gbs: float, ratio: float, why: Remark, messages: pd.DataFrame
) -> _Answer:
    """Return the answer for messages of one collective and group that crosses nodes, of which the bandwidth is stated.

    What their bytes take at it changes by the ratio of the bandwidths; latency and waiting, not
    told apart, stay.
    """
    collective = str(messages["collective"].iloc[0])
    ranks = float(messages["ranks"].iloc[0])
    _, volume = cost_terms(RING, collective, ranks)
    transfer_us = messages["bytes"].to_numpy() * volume / (host_gbs * BYTES_PER_US)
    if "transfer_us" in messages:
        transfer_us = np.fmin(transfer_us, messages["transfer_us"].to_numpy())
    explained = explained_part(transfer_us, messages["time"].to_numpy() / NS_PER_US)
    factor = 1.0 + explained * (ratio - 1.0)
    of_bytes = explained * ratio / factor
    bound = np.where(of_bytes >= 0.5, LINK, LATENCY).astype(object)
    return factor, BANDWIDTH, why, bound, sigma_of_parts(of_bytes, np.zeros_like(of_bytes), False)


def _used_links(
    host: GPU, target: GPU, links: Sequence[Link], collective: str, ranks: float
) -> tuple[Link | None, Link | None, Remark | None]:
    """Return the models of host and target, and why they are not their own."""
    of_host = find_link(links, host.measured_name, collective)
    of_target = find_link(links, target.measured_name, collective)
    if of_host is None and of_target is None:
        gpus = tuple(dict.fromkeys((host.name, target.name)))
        lent = [lent_link(links, STAND_IN, gpu, collective) for gpu in (host, target)]
        text = f"links of {' and '.join(gpus)} not measured"
        if lent[0] is not None:
            text = f"{text}: model of {STAND_IN}, bandwidth by the published figures"
        return lent[0], lent[1], remark("links-not-measured", text, gpus=gpus)
    if of_host is None or of_target is None:
        if of_host is None:
            other = host
            lender = of_target
        else:
            other = target
            lender = of_host
        name = ""
        if lender is not None:
            name = lender.gpus[0]
        text = (
            f"links of {other.name} not measured: model of {name}, bandwidth by the published "
            "figures"
        )
        why = remark("links-of-another", text, unmeasured=other.name, measured=name)
        lent_to_other = lent_link(links, name, other, collective)
        return of_host or lent_to_other, of_target or lent_to_other, why
    carried = _carried(host, of_host, ranks) or _carried(target, of_target, ranks)
    return of_host, of_target, carried


def _carried(gpu: GPU, link: Link | None, ranks: float) -> Remark | None:
    """Return that the rings of so many ranks were measured on another GPU; None where they were not."""
    if link is None or not link.carried_from or ranks not in link.rings:
        return None
    text = (
        f"{ranks:g} ranks of {gpu.name} were not measured: the fall in bandwidth of "
        f"{link.carried_from}, which has the "
        "same mesh and library"
    )
    return remark(
        "rings-of-another", text, gpu=gpu.name, measured=link.carried_from, ranks=float(ranks)
    )


def sigma_of_parts(of_bytes: FloatArray, waiting: FloatArray, covered: bool) -> FloatArray:
    """Return the sigma of times of which bytes and waiting for peers take parts, and latency the rest.

    ``covered`` where the models of both GPUs were measured on such messages.
    """
    errors = law_errors()
    if covered:
        of_links = errors.alpha_beta
    else:
        of_links = max(errors.one_sided, errors.alpha_beta)
    latency = np.maximum(1.0 - of_bytes - waiting, 0.0)
    squares = of_bytes * of_links**2 + waiting * errors.waiting**2 + latency * errors.latency**2
    return np.asarray(np.sqrt(squares), dtype=np.float64)


def _unexplained(ratio: float) -> float:
    """Return the sigma of a ratio of bandwidths where the share of the time that the bytes take was not measured.

    An interval of 90 % then holds the measured time too.
    """
    return float(np.hypot(law_errors().widest, np.log(ratio) / 1.645))


def explained_part(model_us: FloatArray, time_us: FloatArray) -> FloatArray:
    """Return the part of measured times that a model explains, at most 1; 1 where no time was measured."""
    part = np.divide(model_us, time_us, out=np.ones_like(model_us), where=time_us > 0)
    return np.minimum(part, 1.0)


def factor_of_measured(ratio: FloatArray, model_us: FloatArray, time_us: FloatArray) -> FloatArray:
    """Return by what measured times change where the part that a model explains changes by a ratio, all else stays."""
    return np.asarray(1.0 + explained_part(model_us, time_us) * (ratio - 1.0), dtype=np.float64)


def least_us(table: pd.DataFrame) -> FloatArray:
    """Return the least time among messages equal to each, in µs; NaN without a message or its time."""
    complete = table["bytes"].notna() & table["ranks"].notna() & (table["time"] > 0)
    time = table["time"].where(complete)
    least = time.groupby([table["collective"], table["bytes"], table["ranks"]]).transform("min")
    return np.asarray(least.to_numpy(dtype=np.float64) / NS_PER_US, dtype=np.float64)


def without_waiting(factor: FloatArray, table: pd.DataFrame) -> FloatArray:
    """Return the factors of whole times where only the least time among equal messages is projected."""
    time_us = table["time"].to_numpy() / NS_PER_US
    share = explained_part(np.nan_to_num(least_us(table), nan=np.inf), time_us)
    return np.asarray(share * factor + (1.0 - share), dtype=np.float64)


NS_PER_US: Final = 1e3
# whose links stand for those that were not measured, at the other GPU's bandwidth
STAND_IN: Final = "MI300X"
_BOTH_WAYS: Final = ("all_reduce", "broadcast", "reduce")
"""Collectives that go there and back over the network: a reduction and its distribution, or their like."""
ONE_NODE: Final = Network()


def collective_us(
    gpu: GPU, collective: str, message_bytes: ArrayLike, ranks: int, network: Network = ONE_NODE
) -> FloatArray:
    """Return the times of collectives, one per message; 0 for one rank.

    Within a node by the model of its links (where those of this GPU were not measured, those of
    MI300X stand in, at this GPU's bandwidth). Beyond it in two levels: within every node, and
    between the GPUs that have the same place in their nodes, each with its part of the message, at
    the network's bandwidth; of an all-to-all, what is meant for other nodes. Two levels were
    measured on no machine at hand.

    >>> from flopcast.hardware import find
    >>> [round(float(collective_us(find("MI300X"), "all_reduce", 64e6, n))) for n in (8, 64)]
    [411, 751]
    """
    latency, transfer = collective_parts_us(gpu, collective, message_bytes, ranks, network)
    return latency + transfer


def lent_us(gpu: GPU, collective: str, message_bytes: ArrayLike, ranks: int) -> FloatArray:
    """Return the times of collectives within a node by the links of MI300X at this GPU's bandwidth, in µs."""
    size = np.asarray(message_bytes, dtype=np.float64)
    link = lent_link(measured_links(), STAND_IN, gpu, collective)
    if link is None or ranks < 2:
        return np.zeros_like(size)
    latency, transfer = link.parts_us(
        collective, size, float(ranks), link_bandwidth_gbs(gpu, collective, ranks)
    )
    return latency + transfer


def collective_parts_us(
    gpu: GPU, collective: str, message_bytes: ArrayLike, ranks: int, network: Network = ONE_NODE
) -> tuple[FloatArray, FloatArray]:
    """Return latency and transfer of collectives, one per message, in µs: their sum is `collective_us`."""
    size = np.asarray(message_bytes, dtype=np.float64)
    if ranks < 2:
        return np.zeros_like(size), np.zeros_like(size)
    nodes = network.nodes(ranks)
    if nodes == 1:
        return _within_us(gpu, collective, size, ranks, network)
    inside = -(-ranks // nodes)
    if collective == SEND_RECV:
        return network.step_us + np.zeros_like(size), size / (network.gbs * BYTES_PER_US)
    if collective == ALL_TO_ALL:
        latency, transfer = _within_us(gpu, collective, size * inside / ranks, inside, network)
        away = size * (ranks - inside) / ranks / (network.gbs * BYTES_PER_US)
        return latency + (nodes - 1) * network.step_us, transfer + away
    ways = 1.0
    if collective in _BOTH_WAYS:
        ways = 2.0
    sent = ways * (nodes - 1) / nodes * size / inside / (network.gbs * BYTES_PER_US)
    latency, transfer = _within_us(gpu, collective, size, inside, network)
    return latency + ways * np.ceil(np.log2(nodes)) * network.step_us, transfer + sent


def _within_us(
    gpu: GPU, collective: str, size: FloatArray, ranks: int, network: Network
) -> tuple[FloatArray, FloatArray]:
    if ranks < 2:
        return np.zeros_like(size), np.zeros_like(size)
    link = find_link(measured_links(), gpu.measured_name, collective)
    if link is None:
        link = lent_link(measured_links(), STAND_IN, gpu, collective)
    if link is None:
        raise DataError(f"no model of {collective}")
    if network.link_latency_us is not None:
        step_us = network.link_latency_us  # instead of whatever was measured
        link = replace(
            link,
            protocols=tuple(replace(one, base_us=0.0, step_us=step_us) for one in link.protocols),
        )
    return link.parts_us(collective, size, float(ranks), link_bandwidth_gbs(gpu, collective, ranks))


@dataclass(frozen=True)
class World:
    """What a trace's collectives are projected to."""

    # where the trace was made, and of the target
    host: Network = ONE_NODE
    target: Network = ONE_NODE
    # of the job on the target, and as measured; None where the ranks stay, and where the largest
    # group of the trace has all of them
    ranks: int | None = None
    measured_ranks: int | None = None
    # groups whose ranks change with those of the job, by name or by number of ranks; groups of all
    # ranks always do
    grows: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for count in (self.ranks, self.measured_ranks):
            if count is not None and count < 2:
                raise ParameterError("ranks", f"must be at least 2, got {count}")
        if self.grows and self.ranks is None:
            raise ParameterError("grows", "needs the ranks of the target's job")

    def ranks_of(self, activities: pd.DataFrame) -> FloatArray:
        """Return the ranks of each activity's group on the target, NaN where the trace does not say how many it has.

        Raises ParameterError: the ranks change, and no group of the trace is said to change with
        them; a group that is named is not in the trace; or a group would have a part of a rank.
        """
        stated = activities["group_size"].astype("Float64")
        size = np.asarray(stated.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
        if self.ranks is None or np.isnan(size).all():
            return size
        named = activities["group_name"].astype(object).to_numpy()
        before = self.measured_ranks or int(np.nanmax(size))
        if before < np.nanmax(size):
            raise ParameterError(
                "ranks", f"must be of {np.nanmax(size):g} ranks, as the largest group, got {before}"
            )
        asked = np.isin(named, self.grows) | np.isin([f"{one:g}" for one in size], self.grows)
        groups = {*named[named != ""], *(f"{one:g}" for one in size[~np.isnan(size)])}
        missing = [name for name in self.grows if name not in groups]
        if missing:
            raise ParameterError(
                "grows", f"must name a group of the trace ({few(sorted(groups))}), got {missing[0]}"
            )
        grows = asked | (size == before)
        if not grows.any():
            raise ParameterError(
                "grows",
                f"must say which group changes with the {before} ranks: {few(sorted(groups))}",
            )
        after = np.asarray(np.where(grows, size * self.ranks / before, size), dtype=np.float64)
        if (odd := after[grows & (after != np.floor(after))]).size or (after[grows] < 1).any():
            raise ParameterError(
                "ranks",
                f"must leave whole groups, got {self.ranks} for {before}: one has {odd[0]:g}",
            )
        return after


def world_of(
    file: Path | None, per_node: int, ranks: int | str | None, grows: Sequence[str]
) -> World | None:
    """Return the world that collectives are projected to; None without other ranks and without a network's file.

    ``ranks`` is ``64`` or ``"16:64"``, as measured and on the target; without a ``file`` nodes have
    ``per_node`` GPUs. A ParameterError or DataError says that one of them cannot be read.
    """
    if file is None and ranks is None and not grows:
        return None
    if file is None:
        host, target = (Network(node_gpus=per_node),) * 2
    else:
        host, target = read_networks(file)
    try:
        if ranks is not None:
            *before, after = (int(part) for part in str(ranks).split(":"))
        else:
            *before, after = (None,)
        (measured,) = before or (None,)
    except ValueError:
        raise ParameterError(
            "ranks", f"must be a number such as 64, or MEASURED:NEW, got {ranks!r}"
        ) from None
    return World(host, target, after, measured, tuple(grows))


def world_factors(activities: pd.DataFrame, host: GPU, target: GPU, world: World) -> pd.DataFrame:
    """Return by what factor every collective's time changes in another world.

    What enters and leaves is that of `communication_factors`; the law is alpha-beta, or the time is
    kept, for a reason. The time above what the model says of the host is waiting, and stays. A
    ParameterError as for `World.ranks_of`.
    """
    table = placed_messages(activities).assign(after=world.ranks_of(activities))
    keys = ["collective", "stride", "ranks", "after", "bytes"]
    kinds = table[keys].drop_duplicates()
    answers = []
    for name, stride, *ranks, size in zip(*(kinds[key].tolist() for key in keys), strict=True):
        placed = replace(
            world, host=strided(world.host, stride), target=strided(world.target, stride)
        )
        answers.append(
            _answer_of_world(
                host, target, placed, str(name), (float(ranks[0]), float(ranks[1])), float(size)
            )
        )
    which = table.groupby(keys, dropna=False, sort=False).ngroup()
    result = pd.DataFrame(answers).reindex(columns=_OF_WORLD).iloc[which].reset_index(drop=True)
    explained = explained_part(
        result["model_us"].to_numpy(dtype=float), table["time"].to_numpy() / NS_PER_US
    )
    ratio = result["ratio"].to_numpy(dtype=float)
    factor = 1.0 + explained * (ratio - 1.0)
    of_bytes = explained * ratio * result["of_bytes"].to_numpy(dtype=float) / factor
    waiting = (1.0 - explained) / factor
    covered = result["covered"].to_numpy(dtype=bool)
    modelled = (result["law"] == ALPHA_BETA).to_numpy()
    bound = np.where(of_bytes >= 0.5, LINK, LATENCY).astype(object)
    uncovered = sigma_of_parts(of_bytes, waiting, False)
    sigma = np.where(covered, sigma_of_parts(of_bytes, waiting, True), uncovered)
    stated = result["sigma"].to_numpy(dtype=float)
    between_nodes = np.where(
        modelled & np.isnan(stated), np.maximum(uncovered, law_errors().one_sided), stated
    )
    return pd.DataFrame(
        {
            "factor": factor,
            "law": result["law"],
            "why": result["why"],
            "bound": np.where(modelled, bound, UNKNOWN),
            "sigma": np.where(result["measured"].to_numpy(dtype=bool), sigma, between_nodes),
        }
    ).set_axis(activities.index)


_OF_WORLD: Final = ["law", "why", "ratio", "model_us", "of_bytes", "covered", "measured", "sigma"]


def placed_messages(activities: pd.DataFrame) -> pd.DataFrame:
    """Return the messages of collectives (`messages_of`) with the `stride` of their group's ranks.

    It is 1 where the trace does not say who they are: they are taken to follow each other.
    """
    members = activities["group_ranks"].astype(object)
    strides = {text: stride_of(str(text)) for text in members.unique()}
    return messages_of(activities).assign(stride=members.map(strides).to_numpy(dtype=np.int64))


def stride_of(members: str) -> int:
    """Return how far apart the ranks of a group are, written "0,8,16"; 1 where they are not written."""
    ranks = []
    if "," in members:
        ranks = [int(rank) for rank in members.split(",")]
    return max(1, min((after - before for before, after in pairwise(ranks)), default=1))


def strided(network: Network, stride: int) -> Network:
    """Return the network as a group sees it of which every so many-th rank is a member: fewer share a node."""
    if network.node_gpus is None:
        return network
    return replace(network, node_gpus=max(network.node_gpus // stride, 1))


def model_us(table: pd.DataFrame, gpu: GPU, network: Network = ONE_NODE) -> FloatArray:
    """Return the model's time of messages, shape (n_messages,), NaN where the model or the trace has too little.

    ``table`` has the columns `collective`, `bytes`, `ranks` and `stride` (`placed_messages`).
    """
    times_us = np.full(len(table), np.nan)
    keys = ["collective", "ranks", "stride"]
    said = table.reset_index(drop=True)
    said = said[said["collective"] != ""]
    for _, rows in said.groupby(keys, sort=False)[[*keys, "bytes"]]:
        name, ranks, stride = rows[keys].iloc[0].tolist()
        try:
            seen = strided(network, int(stride))
            times_us[rows.index] = collective_us(
                gpu, str(name), rows["bytes"].to_numpy(), int(ranks), seen
            )
        except (
            DataError
        ):  # no such collective, a figure that is not published, or more ranks than the links join
            continue
    return times_us


def _answer_of_world(
    host: GPU, target: GPU, world: World, collective: str, ranks: tuple[float, float], size: float
) -> dict[str, object]:
    """Return the columns that `world_factors` needs of one kind of message (`_OF_WORLD`).

    `model_us` is what the model says of the host, `ratio` by what that changes, `of_bytes` the part
    of it that bytes take on the target. `sigma` stands where the errors were not `measured`: NaN,
    or 0 where nothing changes.
    """
    kept: dict[str, object] = {
        "law": KEPT,
        "ratio": 1.0,
        "model_us": 0.0,
        "of_bytes": 0.0,
        "covered": False,
        "measured": False,
        "sigma": np.nan,
    }
    unknown = unknown_of(collective, ranks[0], np.array([size]))
    if unknown:
        return kept | {"why": (unknown,)}
    before, after = (int(count) for count in ranks)
    if before < 2:
        return kept | {"why": (ONE_RANK,)}
    sent = max(size, LEAST_BYTES)
    networks = (world.host, world.target)
    try:
        latency, transfer = collective_parts_us(host, collective, sent, before, networks[0])
        moved_latency, _ = collective_parts_us(target, collective, sent, before, networks[0])
        new_latency, new_transfer = collective_parts_us(
            target, collective, sent, after, networks[1]
        )
    except NotPublishedError as error:
        return kept | {"why": (error.remark,)}
    except DataError as error:  # more ranks than the links join
        return kept | {"why": (remark("no-link", str(error), problem=str(error)),)}
    # the latency is that of the host, and grows with the steps and levels as the target's does
    if moved_latency > 0:
        new_latency = latency * new_latency / moved_latency
    was = float(latency + transfer)
    now = float(new_latency + new_transfer)
    nodes = tuple(
        network.nodes(count) for network, count in zip(networks, (before, after), strict=True)
    )
    links = [find_link(measured_links(), gpu.measured_name, collective) for gpu in (host, target)]
    sides = list(zip((host, target), links, (before, after), strict=True))
    same = host == target and before == after and networks[0] == networks[1]
    levels = ""
    if max(nodes) > 1:
        levels = "; messages of two levels were measured on no machine at hand"
    text = f"{before} → {after} ranks, {nodes[0]} → {nodes[1]} nodes{levels}"
    other = remark("other-world", text, ranks=(before, after), nodes=nodes)
    if before == after and max(nodes) == 1:
        why = []
    else:
        why = [other]
    why += [carried for side in sides if not same and (carried := _carried(*side)) is not None]
    return {
        "law": ALPHA_BETA,
        "why": tuple(dict.fromkeys(why)),
        "ratio": now / was,
        "model_us": was,
        "of_bytes": float(new_transfer / now),
        "covered": all(
            link is not None and link.covers(collective, count) for _, link, count in sides
        ),
        "measured": max(nodes) == 1 and not same,  # errors between nodes were not measured
        "sigma": 0.0 if same else np.nan,
    }
