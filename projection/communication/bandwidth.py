"""Which published bandwidth a collective runs at: all links of the GPU, those to its peers, one pair, or the network.

=====================  ===================================================================
send and receive       the links between the pair (`p2p_uni_gbs`)
collective, n ranks    the links to n - 1 peers, at most all of them (`link_bw_gbs`)
n beyond one node      what the user states of the network between the nodes
=====================  ===================================================================

On a switch one peer can be sent to with all links (`p2p_uni_gbs` equals `link_bw_gbs`), so n does not matter; a mesh
(MI300X) has one link per peer. Where only `link_bw_gbs` is published the links are taken to be switched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import DataError
from ...hardware import GPU
from .algorithms import SEND_RECV

NODE_RANKS = 8
"""GPUs of a node, where the user says nothing else."""


@dataclass(frozen=True)
class Network:
    """What joins the nodes, as the user states it.

    Attributes
    ----------
    host_gbs, target_gbs : float or None
        Bandwidth out of one node, all its adapters, one way, GB/s: where the trace was made, and of the target.
    ranks_per_node : int
        GPUs of a node, one rank each; larger groups cross the network.
    """

    host_gbs: float | None = None
    target_gbs: float | None = None
    ranks_per_node: int = NODE_RANKS

    def __post_init__(self) -> None:
        for side, gbs in (("host", self.host_gbs), ("target", self.target_gbs)):
            if gbs is not None and not (np.isfinite(gbs) and gbs > 0):
                raise DataError(f"--network: the bandwidth of the {side} must be above 0 GB/s and finite, got {gbs}")
        if self.ranks_per_node < 1:
            raise DataError(f"--ranks-per-node must be at least 1, got {self.ranks_per_node}")


def link_bandwidth_gbs(gpu: GPU, collective: str, ranks: float) -> float:
    """Return what one GPU can send within its node, one way, GB/s.

    Parameters
    ----------
    gpu : GPU
        Published figures.
    collective : str
        One of `collectives.COLLECTIVES`, or "" where it is not known.
    ranks : float
        Ranks that take part; NaN where it is not known: then all links count.

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
    if ranks > 2 and _joins_two(gpu):
        raise DataError(f"the links of {gpu.name} join 2 GPUs, the group has {ranks:g}")
    every = gpu.require("link_bw_gbs")
    if np.isnan(ranks) or gpu.p2p_uni_gbs is None:
        return every
    return min(every, (ranks - 1) * gpu.p2p_uni_gbs)


def _joins_two(gpu: GPU) -> bool:
    return "(2 GPUs)" in gpu.link_name
