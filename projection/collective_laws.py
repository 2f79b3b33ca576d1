"""Projected over measured time of every collective, by the law that is asked for and the data that are there.

bandwidth
    The published baseline: ``latency' = bandwidth_host / bandwidth_target · latency``, with the bandwidth that the
    collective's group has (`link_bandwidth_gbs`).
alpha-beta
    The ratio of the two GPUs' fitted models (`alpha_beta.Link`) for the message, applied to the measured time. Where
    only one of the two was measured, both take its latency and efficiency, each with its own published bandwidth;
    between the GPUs that were measured that errs more than the ratio of bandwidths (`alpha_beta.LawErrors`), because
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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import FloatArray, ObjectArray
from ..errors import DataError, NotPublishedError, ParameterError, nearest
from ..hardware import GPU
from ..hardware.networks import NODE_GPUS
from ..remarks import Remark, remark
from .alpha_beta import SEND_RECV, Link, collectives_of, find_link, law_errors, measured_links

CommunicationLaw = Literal["alpha-beta", "bandwidth", "kept"]
ALPHA_BETA, BANDWIDTH, KEPT = LAWS = get_args(CommunicationLaw)

LATENCY, LINK, UNKNOWN = "latency", "link", ""
"""Bounds of a collective."""

LEAST_BYTES = 1.0
"""A barrier has no message, and sends one all the same."""


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

    ``collective`` is one of `alpha_beta.COLLECTIVES`, or "" where it is not known; where ``ranks`` are NaN all links
    count.

    Raises
    ------
    NotPublishedError
        If the figure it takes is not published.
    DataError
        If the GPU's links join two GPUs only, and the group is larger.

    Examples
    --------
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


_COLUMNS: Final = {"factor": np.float64, "law": object, "why": object, "bound": object, "sigma": np.float64}


class _Answer(NamedTuple):
    """The columns of `communication_factors` for some messages of one collective and group."""

    factor: FloatArray | float
    law: str
    why: Remark | None
    bound: ObjectArray | str
    sigma: float


class _Messages(NamedTuple):
    """Messages of one collective ("" where unknown) and number of ranks (NaN where unknown); bytes all known or NaN."""

    collective: str
    ranks: float
    size_bytes: FloatArray


class _Projection(NamedTuple):
    """What is the same for all messages."""

    host: GPU
    target: GPU
    law: str
    network: NodeBandwidths
    links: Sequence[Link]


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
    """Return by what factor every collective's time changes, and by which law.

    Parameters
    ----------
    activities : DataFrame
        Rows of the dispatch table, communication only; of its columns `collective`, `name`, `collective_bytes`,
        `group_size` and `duration_ns` are read.
    host, target : GPU
        Where the trace was made, and what it is projected to.
    law : {"alpha-beta", "bandwidth", "kept"}
        See the module.
    links : sequence of Link, optional
        Fitted models; by default those of links.toml.
    network : NodeBandwidths, optional
        By default 8 ranks in a node, and nothing is known of what joins nodes.
    keep_waiting : bool
        Whether the time above the least among equal messages (collective, bytes, ranks) is waiting, and stays.

    Returns
    -------
    DataFrame
        Index as in `activities`. `factor`, projected / measured time, above 0; `law`, the law used; `why`, a tuple of
        `Remark`: why it is not the one asked for, else (); `bound`, "latency" or "link" on the target, "" where
        unknown; `sigma`, the root mean square of ln(projected / measured) of the law on messages left out, NaN where
        unknown, 0 where host and target are the same.
    """
    check_law(law)
    given = measured_links() if links is None else links
    projection = _Projection(host, target, law, network or NodeBandwidths(), given)
    table = messages_of(activities)
    columns = {name: np.empty(len(table), dtype=dtype) for name, dtype in _COLUMNS.items()}
    for rows, messages in _groups(table):
        for name, value in _answer(projection, messages)._asdict().items():
            columns[name][rows] = value
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


def _groups(table: pd.DataFrame) -> Iterator[tuple[NDArray[np.intp], _Messages]]:
    """Yield the rows that one answer serves, and their messages."""
    collective, ranks, size_bytes = (table[name].to_numpy() for name in ("collective", "ranks", "bytes"))
    for _, group in table.groupby(["collective", "ranks", np.isnan(size_bytes)], dropna=False, sort=False):
        rows = group.index.to_numpy()
        yield rows, _Messages(str(collective[rows[0]]), float(ranks[rows[0]]), size_bytes[rows])


def _answer(projection: _Projection, messages: _Messages) -> _Answer:
    """Return the answer of the law asked for, or of the next one that the data allow."""
    if projection.law == KEPT:
        return _kept(projection, None)
    if messages.ranks <= 1:
        return _kept(projection, ONE_RANK)
    if messages.ranks > projection.network.ranks_per_node:
        return _between_nodes(projection, messages.ranks)
    try:
        rates = [link_bandwidth_gbs(gpu, *messages[:2]) for gpu in (projection.host, projection.target)]
    except NotPublishedError as error:
        return _kept(projection, error.remark)
    except DataError as error:  # more ranks than the links join
        return _kept(projection, remark("no-link", str(error), problem=str(error)))
    unknown = unknown_of(*messages)
    if projection.law == BANDWIDTH or unknown:
        return _by_bandwidth(projection, rates, unknown if projection.law == ALPHA_BETA else None)
    return _by_model(projection, messages, rates)


ONE_RANK = remark("one-rank", "a group of one rank sends nothing")


def unknown_of(collective: str, ranks: float, size_bytes: FloatArray) -> Remark | None:
    """Return what the model needs and the trace does not say, None where nothing lacks."""
    lacks = {
        "collective": not collective,
        "group": bool(np.isnan(ranks)),
        "message": bool(np.isnan(size_bytes).any()),
    }
    missing = tuple(name for name, is_missing in lacks.items() if is_missing)
    return remark("message-unknown", f"{' and '.join(missing)} not recorded", missing=missing) if missing else None


def _kept(projection: _Projection, why: Remark | None) -> _Answer:
    return _Answer(1.0, KEPT, why, UNKNOWN, _unless_same(projection, float("nan")))


def _by_bandwidth(projection: _Projection, rates: Sequence[float], why: Remark | None) -> _Answer:
    sigma = _unless_same(projection, law_errors().bandwidth)
    return _Answer(rates[0] / rates[1], BANDWIDTH, why, LINK, sigma)


def _between_nodes(projection: _Projection, ranks: float) -> _Answer:
    network = projection.network
    one_node = projection.law == ALPHA_BETA  # as the fitted models are
    values = {"ranks": ranks, "per_node": network.ranks_per_node, "law_of_one_node": one_node}
    spans = f"a group of {ranks:g} spans nodes of {network.ranks_per_node}"
    if network.host_gbs is None or network.target_gbs is None:
        text = f"{spans}: state the network's bandwidth of host and target"
        return _kept(projection, remark("group-spans-nodes", text, **values, stated=False))
    text = f"{spans}, and the model is of one node"
    why = remark("group-spans-nodes", text, **values, stated=True) if one_node else None
    sigma = float("nan") if network.host_gbs != network.target_gbs else _unless_same(projection, float("nan"))
    return _Answer(network.host_gbs / network.target_gbs, BANDWIDTH, why, LINK, sigma)


def _by_model(projection: _Projection, messages: _Messages, rates: Sequence[float]) -> _Answer:
    """Return the ratio of the models; that of the one measured where the other was not, of bandwidths without any."""
    host, target, _, _, links = projection
    of_host, of_target = (find_link(links, gpu.measured_name, messages.collective) for gpu in (host, target))
    used_host, used_target = of_host or of_target, of_target or of_host
    if used_host is None or used_target is None:
        gpus = tuple(dict.fromkeys((host.name, target.name)))
        unmeasured = remark("links-not-measured", f"links of {' and '.join(gpus)} not measured", gpus=gpus)
        return _by_bandwidth(projection, rates, unmeasured)
    collective, ranks, size = messages.collective, messages.ranks, np.maximum(messages.size_bytes, LEAST_BYTES)
    before = used_host.time_us(collective, size, ranks, rates[0])
    after = used_target.time_us(collective, size, ranks, rates[1])
    latency = used_target.latency_us(collective, size, ranks)
    bound = np.where(2 * latency >= after, LATENCY, LINK).astype(object)
    measured = all(link is not None and _covers(link, messages) for link in (of_host, of_target))
    sigma = law_errors().alpha_beta if measured else law_errors().one_sided
    why = None
    if of_host is None or of_target is None:
        other, used = (host, used_target) if of_host is None else (target, used_host)
        why = remark(
            "links-of-another",
            f"links of {other.name} not measured: latency of {used.gpus[0]}, bandwidth by the published figures",
            unmeasured=other.name,
            measured=used.gpus[0],
        )
    return _Answer(after / before, ALPHA_BETA, why, bound, _unless_same(projection, sigma))


def _covers(link: Link, messages: _Messages) -> bool:
    """Say whether the errors of messages left out of the fit are those of such messages too."""
    ranks_too = len(link.ranks) > 1 or messages.ranks in link.ranks or link.collective == SEND_RECV
    return link.collective == messages.collective and ranks_too


def _unless_same(projection: _Projection, sigma: float) -> float:
    """Return the error of a law: none where nothing changes."""
    return 0.0 if projection.host == projection.target else sigma


def without_waiting(factor: FloatArray, table: pd.DataFrame) -> FloatArray:
    """Return the factors of whole times where only the least time among equal messages is projected."""
    known = table["bytes"].notna() & table["ranks"].notna() & (table["time"] > 0)
    time = table["time"].where(known)
    least = time.groupby([table["collective"], table["bytes"], table["ranks"]]).transform("min")
    share = (least / time).fillna(1.0).to_numpy()
    return np.asarray(share * factor + (1.0 - share), dtype=np.float64)
