"""Collectives in another world: more or fewer ranks, on a network of one level or two.

The factor of a collective is the ratio of what the model of the links (`alpha_beta`) says of it there and where it was
measured. What a rank holds stays the same, as where every rank keeps its batch:

- an all-reduce keeps its bytes;
- an all-gather and a reduce-scatter keep the whole, of which each rank's shard changes;
- an all-to-all keeps what a rank sends in all, of which each peer's part changes;
- a message between two ranks stays as it is.

So ``collective_bytes``, the larger of a rank's input and output, stays, and the number of ranks changes. Which groups
grow with the ranks of the job is known of groups of all ranks; of others (a tensor-parallel group inside a
data-parallel one) the user says it. Between nodes collectives take two levels (`collective_us`); how many ranks of a
group share a node follows from its members, where the trace names them (every eighth rank: one a node of eight).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..arrays import FloatArray
from ..errors import DataError, NotPublishedError, ParameterError, few
from ..hardware import GPU, Network, read_networks
from ..remarks import remark
from .alpha_beta import Link, find_link, law_errors, measured_links
from .collective_laws import (
    ALPHA_BETA,
    KEPT,
    LATENCY,
    LEAST_BYTES,
    LINK,
    ONE_RANK,
    UNKNOWN,
    link_bandwidth_gbs,
    messages_of,
    unknown_of,
)

STAND_IN: Final = "MI300X"
"""Whose links stand for those that were not measured, at the other GPU's bandwidth."""
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

    Examples
    --------
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
        link = link.with_latency(network.link_latency_us)
    return link.time_us(collective, size, float(ranks), link_bandwidth_gbs(gpu, collective, ranks))


@dataclass(frozen=True)
class World:
    """What a trace's collectives are projected to.

    Attributes
    ----------
    host, target : Network
        Where the trace was made, and of the target.
    ranks, measured_ranks : int or None
        Of the job on the target, and as measured; None where the ranks stay, and where the largest group of the trace
        has all of them.
    grows : tuple of str
        Groups whose ranks change with those of the job, by name or by number of ranks; groups of all ranks always do.
    """

    host: Network = ONE_NODE
    target: Network = ONE_NODE
    ranks: int | None = None
    measured_ranks: int | None = None
    grows: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for count in (self.ranks, self.measured_ranks):
            if count is not None and count < 2:
                raise ParameterError("ranks", f"must be at least 2, got {count}")
        if self.grows and self.ranks is None:
            raise ParameterError("grows", "needs the ranks of the target's job")

    def ranks_of(self, activities: pd.DataFrame) -> FloatArray:
        """Return the ranks of each activity's group on the target, NaN where the trace does not say how many it has.

        Raises
        ------
        ParameterError
            The ranks change, and no group of the trace is known to change with them; a group that is named is not in
            the trace; or a group would have a part of a rank.
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

    What enters and leaves is that of `collective_laws.communication_factors`; the law is alpha-beta, or the time is
    kept, for a reason. With ``keep_waiting`` the time above what the model says of the host is waiting, and stays. A
    ParameterError as for `World.ranks_of`.
    """
    table = placed_messages(activities).assign(after=world.ranks_of(activities))
    keys = ["collective", "stride", "ranks", "after", "bytes"]
    kinds = table[keys].drop_duplicates()
    answers = []
    for name, stride, *ranks, size in zip(*(kinds[key].tolist() for key in keys), strict=True):
        placed = replace(world, host=strided(world.host, stride), target=strided(world.target, stride))
        answers.append(_answer(host, target, placed, str(name), (float(ranks[0]), float(ranks[1])), float(size)))
    columns = ["factor", "law", "why", "bound", "sigma"]
    which = table.groupby(keys, dropna=False, sort=False).ngroup()
    result = pd.DataFrame(answers, columns=columns).iloc[which]
    if keep_waiting:
        result["factor"] = _of_transfers(table, result["factor"].to_numpy(dtype=float), host, world.host)
    return result.set_axis(activities.index)


def placed_messages(activities: pd.DataFrame) -> pd.DataFrame:
    """Return the messages of collectives (`collective_laws.messages_of`) with the `stride` of their group's ranks.

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


def _of_transfers(table: pd.DataFrame, factor: FloatArray, host: GPU, network: Network) -> FloatArray:
    """Return the factors of whole times where only what the model says of them is transfer, and the rest stays."""
    time = table["time"].to_numpy(dtype=float) / 1e3
    share = np.divide(model_us(table, host, network), time, out=np.ones(len(table)), where=time > 0)
    share = np.minimum(np.nan_to_num(share, nan=1.0), 1.0)
    return np.asarray(share * factor + (1.0 - share), dtype=np.float64)


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


def _answer(
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
    same = host == target and before == after and networks[0] == networks[1]
    levels = "; messages of two levels were measured on no machine at hand" if max(nodes) > 1 else ""
    text = f"{before} → {after} ranks, {nodes[0]} → {nodes[1]} nodes{levels}"
    other = remark("other-world", text, ranks=(before, after), nodes=nodes)
    why = () if before == after and max(nodes) == 1 else (other,)
    return {
        "factor": now / was, "law": ALPHA_BETA, "why": why, "bound": LATENCY if 2 * least >= now else LINK,
        "sigma": 0.0 if same else _sigma((host, target), collective, nodes),
    }  # fmt: skip


def _sigma(gpus: Sequence[GPU], collective: str, nodes: Sequence[int]) -> float:
    """Return the error of the models within a node; between nodes none was measured."""
    if max(nodes) > 1:
        return float("nan")
    links: list[Link | None] = [find_link(measured_links(), gpu.measured_name, collective) for gpu in gpus]
    return law_errors().alpha_beta if all(links) else law_errors().one_sided
