"""What a collective is called: one name for what PyTorch, NCCL, RCCL and Chakra write differently."""

from __future__ import annotations

import re
from typing import Final

import pandas as pd

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL = "all_reduce", "all_gather", "reduce_scatter", "all_to_all"
BROADCAST, REDUCE, SCATTER, GATHER, SEND_RECV = "broadcast", "reduce", "scatter", "gather", "send_recv"

COLLECTIVES: Final = (
    *(ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, BROADCAST, REDUCE, SCATTER, GATHER, SEND_RECV),
)
"""Every collective that has cost terms. A barrier is an all-reduce of one element."""

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
    """Return the collective of every activity, "" where neither its arguments nor the kernel's name say it.

    Parameters
    ----------
    activities : DataFrame
        Rows of the dispatch table: `collective`, `name`.
    """
    stated = activities["collective"].astype(object)
    words = stated.where(stated != "", activities["name"].astype(object))
    known = {word: collective_of(word) for word in words.unique()}
    return words.map(known).astype(object)
