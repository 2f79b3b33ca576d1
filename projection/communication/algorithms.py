"""What a collective costs: steps and bytes of the algorithms, as Thakur, Rabenseifner and Gropp count them [1]_.

The time of a message is that of its steps and of its bytes (Hockney [2]_):

    t = alpha · steps(n) + bytes · volume(n) / bandwidth

`bytes` is the message of one rank, the larger of its input and output (what it ends with in an all-gather, what it
starts from in a reduce-scatter), n the ranks, and the bandwidth what one rank can send to all its peers at once. The
arithmetic of a reduction is not counted: GPUs reduce faster than links deliver.

=============  =====================  =========================  =========================
collective     ring                   tree                       direct
=============  =====================  =========================  =========================
all_reduce     2(n-1), 2(n-1)/n       2 log n, 2(n-1)/n          2, 2(n-1)/n
all_gather     n-1, (n-1)/n           log n, (n-1)/n             1, (n-1)/n
reduce_scatter n-1, (n-1)/n           log n, (n-1)/n             1, (n-1)/n
all_to_all     n-1, (n-1)/n           log n, log n / 2           1, (n-1)/n
gather         n-1, (n-1)/n           log n, (n-1)/n             1, (n-1)/n
scatter        n-1, (n-1)/n           log n, (n-1)/n             1, (n-1)/n
broadcast      n-1, 1                 log n, log n               2, 2(n-1)/n
reduce         n-1, 1                 log n, log n               2, 2(n-1)/n
send_recv      1, 1                   1, 1                       1, 1
=============  =====================  =========================  =========================

ring
    Neighbours only, messages in n parts; broadcast and reduction as a pipeline.
tree
    Recursive halving and doubling (Rabenseifner's all-reduce), binomial trees, Bruck's all-to-all; log is to base 2 and
    rounded up.
direct
    Every pair has a link of its own, and a rank sends to all peers at once; an all-reduce is a reduce-scatter and an
    all-gather, a broadcast a scatter and an all-gather (van de Geijn), a reduction the reverse.

References
----------
.. [1] R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH",
   International Journal of High Performance Computing Applications 19(1), 2005.
.. [2] R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20(3),
   1994.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

# What a collective is called: one name for what PyTorch, NCCL, RCCL and Chakra write differently.

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


FloatArray = NDArray[np.float64]
Terms = tuple[FloatArray, FloatArray]

RING, TREE, DIRECT = ALGORITHMS = ("ring", "tree", "direct")

_PARTS: Final = (ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER)
"""Collectives in which a rank sends or receives every part of the message but its own."""


def cost_terms(algorithm: str, collective: str, ranks: ArrayLike) -> Terms:
    """Return the steps, and the bytes sent per byte of the message, as the module's table says.

    Parameters
    ----------
    algorithm : {"ring", "tree", "direct"}
        How the ranks exchange.
    collective : str
        One of `collectives.COLLECTIVES`.
    ranks : array-like of shape (n_messages,)
        Ranks that take part, at least 1.

    Returns
    -------
    steps, volume : ndarray of shape (n_messages,)
        The two factors of the cost.

    Raises
    ------
    ValueError
        If the algorithm or the collective is not one of the table.

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
