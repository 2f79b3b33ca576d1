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
    Every pair has a link of its own, and a rank sends to all peers at once; an all-reduce is a reduce-scatter and an
    all-gather, a broadcast a scatter and an all-gather (van de Geijn), a reduction the reverse.

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
    The ratio of the two GPUs' fitted models (`Link`) for the message, applied to the measured time. Where
    only one of the two was measured, both take its latency and efficiency, each with its own published bandwidth;
    between the GPUs that were measured that errs more than the ratio of bandwidths (`LawErrors`), because
    the latency is not the same on all of them either.
kept
    The measured time.

A collective's measured time includes the waiting for peers that are not there yet (kernels of all ranks end together,
whenever they began); in a trace of one rank nothing tells the two apart, and the factor is applied to both. With
`keep_waiting` the least time among equal messages is taken as the transfer, which alone is projected; the rest stays.

The published bandwidth is that of all links of the GPU, of those to its peers, of one pair, or of the network:

=====================  ===================================================================
send and receive       the links between the pair (`p2p_uni_gbs`)
collective, n ranks    the links to n - 1 peers, at most all of them (`link_bw_gbs`)
n beyond one node      what the user states of the network between the nodes
=====================  ===================================================================

On a switch one peer can be sent to with all links (`p2p_uni_gbs` equals `link_bw_gbs`), so n does not matter; a mesh
(MI300X) has one link per peer. Where only `link_bw_gbs` is published the links are taken to be switched.

In another world, of more or fewer ranks and on a network of one level or two, the factor is the ratio of what the model
of the links says of the collective there and where it was measured (`world_factors`). What a rank holds stays the same,
as where every rank keeps its batch:

- an all-reduce keeps its bytes;
- an all-gather and a reduce-scatter keep the whole, of which each rank's shard changes;
- an all-to-all keeps what a rank sends in all, of which each peer's part changes;
- a message between two ranks stays as it is.

So ``collective_bytes``, the larger of a rank's input and output, stays, and the number of ranks changes. Which groups
grow with the ranks of the job is known of groups of all ranks; of others (a tensor-parallel group inside a
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from ..hardware import GPU, Network, read_networks
from ..hardware.networks import NODE_GPUS
from ..remarks import Remark, remark

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
    DIRECT: {
        **dict.fromkeys((ALL_REDUCE, BROADCAST, REDUCE), lambda n: (np.full_like(n, 2.0), 2 * _parts(n))),
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
    links = []
    for table in _data()["link"]:
        lines = tuple(Protocol(**line) for line in table["protocols"])
        lists: dict[str, Any] = {"gpus": tuple(table["gpus"]), "ranks": tuple(table["ranks"]), "protocols": lines}
        links.append(Link(**(table | lists)))
    return tuple(links)


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

    def latency_us(self, collective: str, message_bytes: ArrayLike, ranks: ArrayLike) -> FloatArray:
        """Return the part of the time that no bandwidth shortens, shape (n_messages,)."""
        steps, _ = cost_terms(self.algorithm, collective, ranks)
        return np.choose(self._protocol(message_bytes), [line.latency_us(steps) for line in self.protocols])

    def time_us(
        self, collective: str, message_bytes: ArrayLike, ranks: ArrayLike, bandwidth_gbs: ArrayLike
    ) -> FloatArray:
        """Return the time of messages, shape (n_messages,): above 0 where the latency is.

        A collective other than the measured one is reckoned from its own cost terms. ``message_bytes`` are those of one
        rank, ``bandwidth_gbs`` what the ranks have as published (`link_bandwidth_gbs`).
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


CommunicationLaw = Literal["alpha-beta", "bandwidth", "kept"]
ALPHA_BETA, BANDWIDTH, KEPT = LAWS = get_args(CommunicationLaw)
LATENCY, LINK, UNKNOWN = "latency", "link", ""  # bounds of a collective
LEAST_BYTES = 1.0  # a barrier has no message, and sends one all the same


@dataclass(frozen=True)
class NodeBandwidths:
    """What joins the nodes, as the user states it: the bandwidth out of one node, all its adapters, one way, GB/s."""

    host_gbs: float | None = None  # where the trace was made
    target_gbs: float | None = None  # of the target
    ranks_per_node: int = NODE_GPUS  # GPUs of a node, one rank each; larger groups cross the network

    def __post_init__(self) -> None:
        for side, gbs in (("host", self.host_gbs), ("target", self.target_gbs)):
            if gbs is not None and not (np.isfinite(gbs) and gbs > 0):
                raise ParameterError("network", f"must be above 0 GB/s and finite on the {side}, got {gbs}")
        if self.ranks_per_node < 1:
            raise ParameterError("ranks_per_node", f"must be at least 1, got {self.ranks_per_node}")


def link_bandwidth_gbs(gpu: GPU, collective: str, ranks: float) -> float:
    """Return what one GPU can send within its node, one way, GB/s.

    ``collective`` is one of `COLLECTIVES`, or "" where it is not known; where ``ranks`` are NaN all links count. Raises
    NotPublishedError for the figure it takes; DataError: the GPU's links join two GPUs only, and the group is larger.

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

    Of communication rows of a dispatch table `collective`, `name`, `collective_bytes`, `group_size` and `duration_ns`
    are read. ``links`` are by default those of links.toml; without a ``network`` 8 ranks are in a node, and nothing is
    known of what joins nodes. With ``keep_waiting`` the time above the least among equal messages (collective, bytes,
    ranks) is waiting, and stays.

    The columns are `factor`, projected / measured time, above 0; `law`, the law used; `why`, a tuple of `Remark`: why
    it is not the one asked for, else (); `bound`, "latency" or "link" on the target, "" where unknown; `sigma`, the
    root mean square of ln(projected / measured) of the law on messages left out, NaN where unknown, 0 where host and
    target are the same.
    """
    check_law(law)
    links, network = measured_links() if links is None else links, network or NodeBandwidths()
    table = messages_of(activities)
    kinds: dict[str, Any] = {"factor": float, "law": object, "why": object, "bound": object, "sigma": float}
    columns = {name: np.empty(len(table), dtype=kind) for name, kind in kinds.items()}
    by = ["collective", "ranks", table["bytes"].isna()]
    for _, messages in table.groupby(by, dropna=False, sort=False):
        collective, ranks = messages[["collective", "ranks"]].iloc[0]
        answer = _answer(host, target, law, network, links, str(collective), float(ranks), messages["bytes"].to_numpy())
        for name, value in zip(columns, answer, strict=True):
            columns[name][messages.index] = value
    if host == target:  # nothing changes
        columns["sigma"][columns["factor"] == 1.0] = 0.0
    columns["why"] = np.fromiter(((why,) if why else () for why in columns["why"]), dtype=object, count=len(table))
    if keep_waiting:
        columns["factor"] = without_waiting(columns["factor"], table)
    return pd.DataFrame(columns, index=activities.index)


def check_law(law: str) -> None:
    """Raise a ParameterError, with the nearest names, if no law of communication is called so."""
    if law not in LAWS:
        raise ParameterError("comm_law", f"must be a law of communication, got {law!r}: {nearest(law, LAWS)}")


def messages_of(activities: pd.DataFrame) -> pd.DataFrame:
    """Return the collective, bytes and ranks (NaN where unknown) and time of every activity, index 0, 1, ..."""
    numbers = {
        name: activities[column].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
        for name, column in (("bytes", "collective_bytes"), ("ranks", "group_size"), ("time", "duration_ns"))
    }
    return pd.DataFrame({"collective": collectives_of(activities).to_numpy(), **numbers})


ONE_RANK = remark("one-rank", "a group of one rank sends nothing")


def unknown_of(collective: str, ranks: float, size_bytes: FloatArray) -> Remark | None:
    """Return what the model needs and the trace does not say, None where nothing lacks."""
    lacks = {"collective": not collective, "group": bool(np.isnan(ranks)), "message": bool(np.isnan(size_bytes).any())}
    missing = tuple(name for name, is_missing in lacks.items() if is_missing)
    return remark("message-unknown", f"{' and '.join(missing)} not recorded", missing=missing) if missing else None


_Answer = tuple[FloatArray | float, str, Remark | None, ObjectArray | str, float]


def _kept(why: Remark | None) -> _Answer:
    return 1.0, KEPT, why, UNKNOWN, np.nan


def _answer(
    host: GPU, target: GPU, law: str, network: NodeBandwidths, links: Sequence[Link], collective: str, ranks: float,
    sizes: FloatArray,
) -> _Answer:  # fmt: skip
    """Return factor, law, why, bound and sigma of messages of one collective and group, bytes all known or all NaN.

    The law is the one asked for, or the next that the data allow: of the fitted models the ratio of both, that of the
    one measured where the other was not, of bandwidths without any.
    """
    if law == KEPT or ranks <= 1:
        return _kept(ONE_RANK if law != KEPT else None)
    if ranks > network.ranks_per_node:
        one_node = law == ALPHA_BETA  # as the fitted models are
        values = {"ranks": ranks, "per_node": network.ranks_per_node, "law_of_one_node": one_node}
        spans = f"a group of {ranks:g} spans nodes of {network.ranks_per_node}"
        if network.host_gbs is None or network.target_gbs is None:
            text = f"{spans}: state the network's bandwidth of host and target"
            return _kept(remark("group-spans-nodes", text, **values, stated=False))
        text = f"{spans}, and the model is of one node"
        why = remark("group-spans-nodes", text, **values, stated=True) if one_node else None
        return network.host_gbs / network.target_gbs, BANDWIDTH, why, LINK, np.nan
    try:
        rates = [link_bandwidth_gbs(gpu, collective, ranks) for gpu in (host, target)]
    except NotPublishedError as error:
        return _kept(error.remark)
    except DataError as error:  # more ranks than the links join
        return _kept(remark("no-link", str(error), problem=str(error)))
    why = unknown_of(collective, ranks, sizes) if law == ALPHA_BETA else None
    fitted = [find_link(links, gpu.measured_name, collective) for gpu in (host, target)]
    used_host, used_target = fitted[0] or fitted[1], fitted[1] or fitted[0]
    if law == ALPHA_BETA and not why and (used_host is None or used_target is None):
        gpus = tuple(dict.fromkeys((host.name, target.name)))
        why = remark("links-not-measured", f"links of {' and '.join(gpus)} not measured", gpus=gpus)
    if law == BANDWIDTH or why or used_host is None or used_target is None:
        return rates[0] / rates[1], BANDWIDTH, why, LINK, law_errors().bandwidth
    sizes = np.maximum(sizes, LEAST_BYTES)
    before = used_host.time_us(collective, sizes, ranks, rates[0])
    after = used_target.time_us(collective, sizes, ranks, rates[1])
    latency = used_target.latency_us(collective, sizes, ranks)
    bound = np.where(2 * latency >= after, LATENCY, LINK).astype(object)
    if None in fitted:
        other, used = (host, used_target) if fitted[0] is None else (target, used_host)
        text = f"links of {other.name} not measured: latency of {used.gpus[0]}, bandwidth by the published figures"
        why = remark("links-of-another", text, unmeasured=other.name, measured=used.gpus[0])
    # the errors of messages left out of the fit are those of such messages too
    covered = not why and all(
        link.collective == collective and (len(link.ranks) > 1 or ranks in link.ranks or collective == SEND_RECV)
        for link in (used_host, used_target)
    )
    sigma = law_errors().alpha_beta if covered else law_errors().one_sided
    return after / before, ALPHA_BETA, why, bound, sigma


def without_waiting(factor: FloatArray, table: pd.DataFrame) -> FloatArray:
    """Return the factors of whole times where only the least time among equal messages is projected."""
    known = table["bytes"].notna() & table["ranks"].notna() & (table["time"] > 0)
    time = table["time"].where(known)
    least = time.groupby([table["collective"], table["bytes"], table["ranks"]]).transform("min")
    share = (least / time).fillna(1.0).to_numpy()
    return np.asarray(share * factor + (1.0 - share), dtype=np.float64)


STAND_IN: Final = "MI300X"  # whose links stand for those that were not measured, at the other GPU's bandwidth
_BOTH_WAYS: Final = ("all_reduce", "broadcast", "reduce")
"""Collectives that go there and back over the network: a reduction and its distribution, or their like."""
ONE_NODE: Final = Network()


def collective_us(
    gpu: GPU, collective: str, message_bytes: ArrayLike, ranks: int, network: Network = ONE_NODE
) -> FloatArray:
    """Return the times of collectives, one per message; 0 for one rank.

    Within a node by the model of its links (where those of this GPU were not measured, those of MI300X stand in, at
    this GPU's bandwidth). Beyond it in two levels: within every node, and between the GPUs that have the same place in
    their nodes, each with its part of the message, at the network's bandwidth; of an all-to-all, what is meant for
    other nodes. Two levels were measured on no machine at hand.

    >>> from flopcast.hardware import find
    >>> [round(float(collective_us(find("MI300X"), "all_reduce", 64e6, n))) for n in (8, 64)]
    [411, 751]
    """
    size = np.asarray(message_bytes, dtype=np.float64)
    if ranks < 2:
        return np.zeros_like(size)
    nodes = network.nodes(ranks)
    if nodes == 1:
        return _within_us(gpu, collective, size, ranks, network)
    inside = -(-ranks // nodes)
    if collective == "send_recv":
        return network.step_us + size / (network.gbs * 1e3)
    if collective == "all_to_all":
        away = size * (ranks - inside) / ranks / (network.gbs * 1e3) + (nodes - 1) * network.step_us
        return away + _within_us(gpu, collective, size * inside / ranks, inside, network)
    ways = 2.0 if collective in _BOTH_WAYS else 1.0
    sent = ways * (nodes - 1) / nodes * size / inside / (network.gbs * 1e3)
    within = _within_us(gpu, collective, size, inside, network)
    return within + sent + ways * np.ceil(np.log2(nodes)) * network.step_us


def _within_us(gpu: GPU, collective: str, size: FloatArray, ranks: int, network: Network) -> FloatArray:
    if ranks < 2:
        return np.zeros_like(size)
    link = find_link(measured_links(), gpu.measured_name, collective) or find_link(
        measured_links(), STAND_IN, collective
    )
    if link is None:
        raise DataError(f"no model of {collective}")
    if network.link_latency_us is not None:
        step_us = network.link_latency_us  # instead of whatever was measured
        link = replace(link, protocols=tuple(replace(one, base_us=0.0, step_us=step_us) for one in link.protocols))
    return link.time_us(collective, size, float(ranks), link_bandwidth_gbs(gpu, collective, ranks))


@dataclass(frozen=True)
class World:
    """What a trace's collectives are projected to."""

    # where the trace was made, and of the target
    host: Network = ONE_NODE
    target: Network = ONE_NODE
    # of the job on the target, and as measured; None where the ranks stay, and where the largest group of the trace has
    # all of them
    ranks: int | None = None
    measured_ranks: int | None = None
    # groups whose ranks change with those of the job, by name or by number of ranks; groups of all ranks always do
    grows: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for count in (self.ranks, self.measured_ranks):
            if count is not None and count < 2:
                raise ParameterError("ranks", f"must be at least 2, got {count}")
        if self.grows and self.ranks is None:
            raise ParameterError("grows", "needs the ranks of the target's job")

    def ranks_of(self, activities: pd.DataFrame) -> FloatArray:
        """Return the ranks of each activity's group on the target, NaN where the trace does not say how many it has.

        Raises ParameterError: the ranks change, and no group of the trace is known to change with them; a group that is
        named is not in the trace; or a group would have a part of a rank.
        """
        stated = activities["group_size"].astype("Float64")
        size = np.asarray(stated.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)
        if self.ranks is None or np.isnan(size).all():
            return size
        named = activities["group_name"].astype(object).to_numpy()
        before = self.measured_ranks or int(np.nanmax(size))
        if before < np.nanmax(size):
            raise ParameterError("ranks", f"must be of {np.nanmax(size):g} ranks, as the largest group, got {before}")
        asked = np.isin(named, self.grows) | np.isin([f"{one:g}" for one in size], self.grows)
        known = {*named[named != ""], *(f"{one:g}" for one in size[~np.isnan(size)])}
        if missing := [name for name in self.grows if name not in known]:
            raise ParameterError("grows", f"must name a group of the trace ({few(sorted(known))}), got {missing[0]}")
        grows = asked | (size == before)
        if not grows.any():
            raise ParameterError("grows", f"must say which group changes with the {before} ranks: {few(sorted(known))}")
        after = np.asarray(np.where(grows, size * self.ranks / before, size), dtype=np.float64)
        if (odd := after[grows & (after != np.floor(after))]).size or (after[grows] < 1).any():
            raise ParameterError("ranks", f"must leave whole groups, got {self.ranks} for {before}: one has {odd[0]:g}")
        return after


def world_of(file: Path | None, per_node: int, ranks: int | str | None, grows: Sequence[str]) -> World | None:
    """Return what collectives are projected to; None where neither other ranks nor a network's file are given.

    ``ranks`` is ``64`` or ``"16:64"``, as measured and on the target; without a ``file`` nodes have ``per_node`` GPUs.
    A ParameterError or DataError says that one of them cannot be read.
    """
    if file is None and ranks is None and not grows:
        return None
    host, target = (Network(node_gpus=per_node),) * 2 if file is None else read_networks(file)
    try:
        *before, after = (int(part) for part in str(ranks).split(":")) if ranks is not None else (None,)
        (measured,) = before or (None,)
    except ValueError:
        raise ParameterError("ranks", f"must be a number such as 64, or MEASURED:NEW, got {ranks!r}") from None
    return World(host, target, after, measured, tuple(grows))


def world_factors(
    activities: pd.DataFrame, host: GPU, target: GPU, world: World, *, keep_waiting: bool = False
) -> pd.DataFrame:
    """Return by what factor every collective's time changes in another world.

    What enters and leaves is that of `communication_factors`; the law is alpha-beta, or the time is
    kept, for a reason. With ``keep_waiting`` the time above what the model says of the host is waiting, and stays. A
    ParameterError as for `World.ranks_of`.
    """
    table = placed_messages(activities).assign(after=world.ranks_of(activities))
    keys = ["collective", "stride", "ranks", "after", "bytes"]
    kinds = table[keys].drop_duplicates()
    answers = []
    for name, stride, *ranks, size in zip(*(kinds[key].tolist() for key in keys), strict=True):
        placed = replace(world, host=strided(world.host, stride), target=strided(world.target, stride))
        answers.append(
            _answer_of_world(host, target, placed, str(name), (float(ranks[0]), float(ranks[1])), float(size))
        )
    columns = ["factor", "law", "why", "bound", "sigma"]
    which = table.groupby(keys, dropna=False, sort=False).ngroup()
    result = pd.DataFrame(answers, columns=columns).iloc[which]
    if keep_waiting:
        time = table["time"].to_numpy(dtype=float) / 1e3
        share = np.divide(model_us(table, host, world.host), time, out=np.ones(len(table)), where=time > 0)
        share = np.minimum(np.nan_to_num(share, nan=1.0), 1.0)
        result["factor"] = share * result["factor"].to_numpy(dtype=float) + (1.0 - share)
    return result.set_axis(activities.index)


def placed_messages(activities: pd.DataFrame) -> pd.DataFrame:
    """Return the messages of collectives (`messages_of`) with the `stride` of their group's ranks.

    It is 1 where the trace does not say who they are: they are taken to follow each other.
    """
    members = activities["group_ranks"].astype(object)
    known = {text: stride_of(str(text)) for text in members.unique()}
    return messages_of(activities).assign(stride=members.map(known).to_numpy(dtype=np.int64))


def stride_of(members: str) -> int:
    """Return how far apart the ranks of a group are, written "0,8,16"; 1 where they are not written."""
    ranks = [int(rank) for rank in members.split(",")] if "," in members else []
    return max(1, min((after - before for before, after in pairwise(ranks)), default=1))


def strided(network: Network, stride: int) -> Network:
    """Return the network as a group sees it of which every so many-th rank is a member: fewer share a node."""
    if network.node_gpus is None:
        return network
    return replace(network, node_gpus=max(network.node_gpus // stride, 1))


def model_us(table: pd.DataFrame, gpu: GPU, network: Network = ONE_NODE) -> FloatArray:
    """Return what the model says of messages, shape (n_messages,), NaN where it says nothing or the trace too little.

    ``table`` has the columns `collective`, `bytes`, `ranks` and `stride` (`placed_messages`).
    """
    found = np.full(len(table), np.nan)
    keys = ["collective", "ranks", "stride"]
    said = table.reset_index(drop=True)
    said = said[said["collective"] != ""]
    for _, rows in said.groupby(keys, sort=False)[[*keys, "bytes"]]:
        name, ranks, stride = rows[keys].iloc[0].tolist()
        try:
            seen = strided(network, int(stride))
            found[rows.index] = collective_us(gpu, str(name), rows["bytes"].to_numpy(), int(ranks), seen)
        except DataError:  # no such collective, a figure that is not published, or more ranks than the links join
            continue
    return found


def _answer_of_world(
    host: GPU, target: GPU, world: World, collective: str, ranks: tuple[float, float], size: float
) -> dict[str, object]:
    """Return the columns of `world_factors` for one kind of message."""
    kept: dict[str, object] = {"factor": 1.0, "law": KEPT, "bound": UNKNOWN, "sigma": np.nan}
    if unknown := unknown_of(collective, ranks[0], np.array([size])):
        return kept | {"why": (unknown,)}
    before, after = (int(count) for count in ranks)
    if before < 2:
        return kept | {"why": (ONE_RANK,)}
    sent, networks = max(size, LEAST_BYTES), (world.host, world.target)
    try:
        was, now, least = (
            float(collective_us(gpu, collective, message, count, network))
            for gpu, message, count, network in (
                (host, sent, before, networks[0]), (target, sent, after, networks[1]),
                (target, LEAST_BYTES, after, networks[1]),
            )
        )  # fmt: skip
    except NotPublishedError as error:
        return kept | {"why": (error.remark,)}
    except DataError as error:  # more ranks than the links join
        return kept | {"why": (remark("no-link", str(error), problem=str(error)),)}
    nodes = tuple(network.nodes(count) for network, count in zip(networks, (before, after), strict=True))
    if host == target and before == after and networks[0] == networks[1]:
        sigma = 0.0
    elif max(nodes) > 1:  # errors between nodes were not measured
        sigma = np.nan
    else:
        measured = all(find_link(measured_links(), gpu.measured_name, collective) for gpu in (host, target))
        sigma = law_errors().alpha_beta if measured else law_errors().one_sided
    levels = "; messages of two levels were measured on no machine at hand" if max(nodes) > 1 else ""
    text = f"{before} → {after} ranks, {nodes[0]} → {nodes[1]} nodes{levels}"
    other = remark("other-world", text, ranks=(before, after), nodes=nodes)
    why = () if before == after and max(nodes) == 1 else (other,)
    return {
        "factor": now / was, "law": ALPHA_BETA, "why": why, "bound": LATENCY if 2 * least >= now else LINK,
        "sigma": sigma,
    }  # fmt: skip
