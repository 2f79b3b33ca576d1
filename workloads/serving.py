"""Serving as steps: which sequences run together, when they are admitted, what waits for memory.

All requests are there from the start. A step gives every running sequence one token; a sequence is admitted when its
tokens have room in the cache and a place among the running ones, and the last admitted is put back, to be read again
later, when the cache overflows (the recomputation of vLLM: Kwon et al., SOSP 2023, section 4.5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError

FloatArray = NDArray[np.float64]

BLOCKS: Final = 256
"""Into how many stretches of equal steps the longest output is cut, at most."""


@dataclass(frozen=True)
class Schedule:
    """Steps of one replica.

    Attributes
    ----------
    steps, running, cached : ndarray, shape (n,)
        Stretches: how many steps, sequences that run in each, tokens in the cache on average.
    prompts, longest : ndarray, shape (k,)
        Tokens read in each round of admissions, and the mean length of their sequences.
    """

    steps: FloatArray
    running: FloatArray
    cached: FloatArray
    prompts: FloatArray
    lengths: FloatArray

    @property
    def most(self) -> float:
        """Most sequences that ran at once."""
        return float(self.running.max())


def batch(size: int, prompt: int, output: int) -> Schedule:
    """Return the schedule of one batch that starts together and ends together."""
    return Schedule(
        steps=np.array([float(output)]),
        running=np.array([float(size)]),
        cached=np.array([size * (prompt + (output + 1) / 2)]),
        prompts=np.array([float(size * prompt)]),
        lengths=np.array([float(prompt)]),
    )


def serve(requests: int, prompt: int, output: int, *, most: int, cache_tokens: float) -> Schedule:
    """Return the schedule of requests that wait for a place among ``most`` and for room among ``cache_tokens``.

    Raises
    ------
    DataError
        Not one whole request has room in the cache.

    Examples
    --------
    >>> from flopcast.workloads.serving import serve
    >>> serve(4, 100, 50, most=2, cache_tokens=1e6).running
    array([2., 2.])
    """
    if cache_tokens < prompt + output:
        room = max(cache_tokens, 0)
        raise DataError(f"the cache has room for {room:.0f} tokens, one request takes {prompt + output}")
    left, length = np.full(requests, float(output)), np.full(requests, float(prompt))
    running, waiting = np.empty(0, dtype=int), np.arange(requests)
    stretch = max(1, -(-output // BLOCKS))
    stretches: list[tuple[float, float, float]] = []
    read: list[tuple[float, float]] = []
    while running.size or waiting.size:
        room = cache_tokens - length[running].sum() - running.size * stretch
        admitted = int(np.searchsorted(np.cumsum(length[waiting[:most]] + stretch), room, side="right"))
        admitted = min(admitted, most - running.size)
        if not running.size:
            admitted = max(admitted, 1)
        if admitted > 0:
            new, waiting = waiting[:admitted], waiting[admitted:]
            read.append((length[new].sum(), length[new].mean()))
            running = np.concatenate([running, new])
        open_ = bool(waiting.size) and running.size < most
        steps = _to_the_next(stretch, left[running], length[running], cache_tokens, open_)
        stretches.append((steps, running.size, length[running].sum() + running.size * (steps + 1) / 2))
        left[running] -= steps
        length[running] += steps
        running = running[left[running] > 0]
        over = length[running].sum() + running.size * stretch - cache_tokens
        if over > 0 and running.size > 1:
            back = min(int(np.searchsorted(np.cumsum(length[running][::-1]), over)) + 1, running.size - 1)
            waiting, running = np.concatenate([running[-back:], waiting]), running[:-back]
    return _joined(stretches, read)


def _to_the_next(stretch: int, left: FloatArray, length: FloatArray, room: float, admits: bool) -> float:
    """Return the steps until a sequence ends or the cache overflows; at most a stretch where one more may come."""
    ends = float(left.min())
    free = (room - float(length.sum())) / len(left)
    if not admits and free > ends:
        return ends
    return min(float(stretch), ends)


def _joined(stretches: list[tuple[float, float, float]], read: list[tuple[float, float]]) -> Schedule:
    steps, running, cached = (np.array(column, dtype=np.float64) for column in zip(*stretches, strict=True))
    prompts, lengths = (np.array(column, dtype=np.float64) for column in zip(*read, strict=True))
    return Schedule(steps, running, cached, prompts, lengths)
