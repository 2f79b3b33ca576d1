"""Work of activities that are known by their launch or message alone: collectives, and kernels of no known operator."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .columns import numbers, texts

#: Collectives by what a rank's memory sees of a message (the larger of input and output), as share of it: names of
#: torch.distributed (2.8) in lower case without underscores.
_GATHERED = ("allgather", "reducescatter")
_ONE_WAY = ("broadcast", "send", "recv", "gather", "scatter", "reduce")


def collective_flops(frame: pd.DataFrame) -> np.ndarray:
    """Return zeros: sums on the way are not counted."""
    return np.zeros(len(frame))


def collective_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return the compulsory traffic of one rank's own memory: its input read once and its output written once.

    With a message of s bytes among n ranks: all-reduce and all-to-all 2 s; all-gather and reduce-scatter, one side of
    which is n times the other, ``(1 + 1/n) s``; broadcast, send, receive, gather, scatter and reduce s. What algorithms
    stage in buffers, and the links, are not counted.
    """
    message, ranks = numbers(frame, "message_bytes", "ranks")
    codes, words = pd.factorize(texts(frame, "variant"))
    plain = [str(word).lower().replace("_", "") for word in words]
    gathered = np.array([word.startswith(_GATHERED) for word in plain], dtype=bool)[codes]
    one_way = np.array([word.startswith(_ONE_WAY) for word in plain], dtype=bool)[codes]
    return message * np.select([gathered, one_way], [1 + 1 / ranks, 1.0], 2.0)


def collective_view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return batch = ranks, n = the message in bytes, m = k = 1."""
    message, ranks = numbers(frame, "message_bytes", "ranks")
    one = np.ones(len(frame))
    return pd.DataFrame({"batch": ranks, "m": one, "n": message, "k": one})


def unknown(frame: pd.DataFrame) -> np.ndarray:
    """Return NaN: nobody knows what the kernel computes or moves."""
    return np.full(len(frame), np.nan)


def kernel_view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return m = workgroups, n = threads of a workgroup, batch = k = 1."""
    workgroups, threads = numbers(frame, "workgroups", "threads")
    one = np.ones(len(frame))
    return pd.DataFrame({"batch": one, "m": workgroups, "n": threads, "k": one})
