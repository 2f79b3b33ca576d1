"""Collectives among GPUs: identified by their message; measured by several processes together (`measuring.backend`)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..op import Dim, Op
from ..work import numbers, texts

#: Collectives by what a rank's memory sees of a message (the larger of input and output), as share of it: names of
#: torch.distributed (2.8) in lower case without underscores.
_GATHERED = ("allgather", "reducescatter")
_ONE_WAY = ("broadcast", "send", "recv", "gather", "scatter", "reduce")
#: Of a message: the share that crosses a rank's links, and the share of which the part of the other ranks does.
_SENT = {
    "allreduce": (0.0, 2.0),
    "allgather": (0.0, 1.0),
    "reducescatter": (0.0, 1.0),
    "alltoallv": (0.0, 0.0),
    "alltoall": (0.0, 1.0),
    "broadcast": (1.0, 0.0),
    "reduce": (1.0, 0.0),
    "send": (1.0, 0.0),
    "recv": (1.0, 0.0),
}


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return zeros: sums on the way are not counted."""
    return np.zeros(len(frame))


def bytes_moved(frame: pd.DataFrame) -> np.ndarray:
    """Return the compulsory traffic of one rank's memory: its input read once and its output written once.

    With a message of s bytes among n ranks: all-reduce and all-to-all 2 s; all-gather and
    reduce-scatter, one side of which is n times the other, ``(1 + 1/n) s``; broadcast, send,
    receive, gather, scatter and reduce s. What algorithms stage in buffers, and the links, are not
    counted.
    """
    message, ranks = numbers(frame, "message_bytes", "ranks")
    codes, words = pd.factorize(texts(frame, "variant"))
    plain = [str(word).lower().replace("_", "") for word in words]
    gathered = np.array([word.startswith(_GATHERED) for word in plain], dtype=bool)[codes]
    one_way = np.array([word.startswith(_ONE_WAY) for word in plain], dtype=bool)[codes]
    return message * np.select([gathered, one_way], [1 + 1 / ranks, 1.0], 2.0)


def least_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return `bytes_moved`, of one rank alone none: in place it has nothing to do."""
    (ranks,) = numbers(frame, "ranks")
    return np.where(ranks > 1, bytes_moved(frame), 0.0)


def sent_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return what the links of one rank carry one way, as nccl-tests counts it for its bus bandwidth.

    With a message of s bytes among n ranks: all-reduce ``2 (n - 1)/n s``; all-gather,
    reduce-scatter and all-to-all of equal parts ``(n - 1)/n s``; broadcast, reduce, send and
    receive s. Zero for all others, of which one rank may have next to nothing to carry.
    """
    message, ranks = numbers(frame, "message_bytes", "ranks")
    codes, words = pd.factorize(texts(frame, "variant"))
    plain = [str(word).lower().replace("_", "") for word in words]
    shares = []
    for name in plain:
        shares.append(
            next((share for word, share in _SENT.items() if name.startswith(word)), (0.0, 0.0))
        )
    whole, others = np.array([*shares, (0.0, 0.0)])[codes].T
    return message * np.where(ranks > 1, whole + others * (ranks - 1) / np.maximum(ranks, 1), 0.0)


def view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return batch = ranks, n = the message in bytes, m = k = 1."""
    message, ranks = numbers(frame, "message_bytes", "ranks")
    one = np.ones(len(frame))
    return pd.DataFrame({"batch": ranks, "m": one, "n": message, "k": one})


OPERATORS = (
    Op(
        "collective",
        "vector",
        (
            Dim("variant", "the collective, as in `all_reduce`", default="", kind="word"),
            Dim("message_bytes", "bytes of the message", 1048576),
            Dim("ranks", "GPUs that take part", 8),
        ),
        ("variant", "ranks"),
        "collective {variant} of {ranks}",
        flops,
        bytes_moved,
        view,
        needs_dtype=False,
        _least_bytes=least_bytes,
        _sent_bytes=sent_bytes,
    ),
)
