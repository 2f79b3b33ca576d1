"""Inference as a schedule of steps, and what it takes on one GPU of a replica: sums of kernels, part by part.

All requests are there from the start. A step gives every running sequence one token; a sequence is admitted when its
tokens have room in the cache and a place among the running ones, and the last admitted is put back, to be read again
later, when the cache overflows (the recomputation of vLLM: Kwon et al., SOSP 2023, section 4.5).

Every part is the time at the median of its constant (`releases.CONSTANTS`), which a draw of the constants multiplies:

===========  ===========================================================================================
products     all matrix products, of prompts and of steps, by the law of the GPU
attention    scores and weighted sums of the prompts, by the law of fused attention
cache        reading the cached keys and values at every step, at a share of the bandwidth
collectives  two sums per layer over the GPUs that share it, and the exchange of tokens between experts
layers       launches and small kernels, per layer and step
steps        scheduling and sampling, per step
sequences    per sequence, layer and step
===========  ===========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..errors import DataError
from ..hardware import GPU, Network
from ..operators.work import BITS
from ..projection.worlds import ONE_NODE, collective_us
from .architecture import Architecture
from .kernel_times import LAUNCH_US, Sources
from .layers import cached_per_token, layer
from .memory import WIDE_BYTES
from .releases import CONSTANTS

BLOCKS: Final = 256
"""Into how many stretches of equal steps the longest output is cut, at most."""


@dataclass(frozen=True)
class Schedule:
    """Steps of one replica.

    Attributes
    ----------
    steps, running, cached : ndarray, shape (n,)
        Stretches: how many steps, sequences that run in each, tokens in the cache on average.
    prompts, lengths : ndarray, shape (k,)
        Tokens read in each round of admissions, and the mean length of their sequences.
    fullest : float
        Most tokens in the cache.
    """

    steps: FloatArray
    running: FloatArray
    cached: FloatArray
    prompts: FloatArray
    lengths: FloatArray
    fullest: float

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
        fullest=float(size * (prompt + output)),
    )


def serve(requests: int, prompt: int, output: int, *, most: int, cache_tokens: float) -> Schedule:
    """Return the schedule of requests that wait for a place among ``most`` and for room among ``cache_tokens``.

    Raises
    ------
    DataError
        Not one whole request has room in the cache.

    Examples
    --------
    >>> from flopcast.workloads.inference import serve
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
    fullest = 0.0
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
        fullest = max(fullest, float(length[running].sum()))
        running = running[left[running] > 0]
        over = length[running].sum() + running.size * stretch - cache_tokens
        if over > 0 and running.size > 1:
            back = min(int(np.searchsorted(np.cumsum(length[running][::-1]), over)) + 1, running.size - 1)
            waiting, running = np.concatenate([running[-back:], waiting]), running[:-back]
    return _joined(stretches, read, fullest)


def _to_the_next(stretch: int, left: FloatArray, length: FloatArray, room: float, admits: bool) -> float:
    """Return the steps until a sequence ends or the cache overflows; at most a stretch where one more may come."""
    ends = float(left.min())
    free = (room - float(length.sum())) / len(left)
    if not admits and free > ends:
        return ends
    return min(float(stretch), ends)


def _joined(stretches: list[tuple[float, float, float]], read: list[tuple[float, float]], fullest: float) -> Schedule:
    steps, running, cached = (np.array(column, dtype=np.float64) for column in zip(*stretches, strict=True))
    prompts, lengths = (np.array(column, dtype=np.float64) for column in zip(*read, strict=True))
    return Schedule(steps, running, cached, prompts, lengths, fullest)


US, MS = 1e-6, 1e-3
PER_SEQUENCES: Final = 0.75
"""Power of the number of sequences in what they cost: a line fitted up to a hundred is far too much at thousands."""
KERNELS_PER_LAYER: Final = 12.0
"""That are launched one by one where no graph replays them."""


def inference_parts(
    model: Architecture,
    gpu: GPU,
    schedule: Schedule,
    *,
    dtype: str,
    kv_dtype: str,
    tp: int,
    pp: int = 1,
    ep: int = 1,
    network: Network = ONE_NODE,
    batched_tokens: int,
    prefill: bool = True,
    eager: bool = False,
    sources: Sources | None = None,
) -> dict[str, float]:
    """Return the seconds of each part of a schedule on a replica of ``tp`` · ``pp`` GPUs, at the constants' medians.

    In a pipeline the sequences go round in ``pp`` parts, one per stage, so that a step of all of them takes as long as
    one part through all layers, and the messages between the stages. ``prefill`` is False where the prompts are found
    in a prefix cache; ``eager`` launches every kernel; ``sources`` give times of kernels, by default the laws do.
    """
    sources = sources or Sources()
    parts = dict.fromkeys(CONSTANTS, 0.0)
    steps, running = schedule.steps, np.maximum(schedule.running / pp, 1.0)
    cut = partial(_tokens, sources, model, gpu, dtype=dtype, tp=tp, pp=pp, ep=ep, network=network)
    products, collectives = cut(running)
    head = pp * _head_us(sources, model, gpu, running, tp)  # on one stage, for each of the parts
    parts["products"] = float(np.sum(steps * (products + head))) * US
    parts["collectives"] = float(np.sum(steps * collectives)) * US
    cached = cached_per_token(model, tp) * BITS[kv_dtype] / 8 * model.layers
    bandwidth = gpu.require("memory_bw_gbs") * 1e9
    parts["cache"] = float(np.sum(steps * schedule.cached * running / schedule.running)) * cached / bandwidth
    parts["layers"] = float(steps.sum()) * model.layers * US
    parts["steps"] = float(steps.sum()) * MS
    parts["sequences"] = float(np.sum(steps * running**PER_SEQUENCES)) * model.layers * US
    if prefill and schedule.prompts.any():
        _add_prompts(parts, sources, cut, model, gpu, schedule, tp=tp, pp=pp, batched_tokens=batched_tokens)
    scaled = {name: seconds * CONSTANTS[name].value for name, seconds in parts.items()}
    if eager:
        scaled["layers"] += float(steps.sum()) * model.layers * KERNELS_PER_LAYER * LAUNCH_US * US
    return scaled


def _add_prompts(
    parts: dict[str, float],
    sources: Sources,
    cut: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    model: Architecture,
    gpu: GPU,
    schedule: Schedule,
    *,
    tp: int,
    pp: int,
    batched_tokens: int,
) -> None:
    """Add the reading of the prompts, in chunks of at most so many tokens, one behind the other through the stages."""
    chunk = np.minimum(schedule.prompts, batched_tokens)
    chunks = schedule.prompts / chunk
    waited = (np.ceil(chunks) + pp - 1.0) / np.ceil(chunks) / pp  # of the time of all layers
    products, collectives = cut(chunk)
    sequences = schedule.prompts / schedule.lengths
    kernels = sources.attention_us(gpu, model, sequences, schedule.lengths, tp)
    parts["products"] += float(np.sum(chunks * waited * products)) * US
    parts["collectives"] += float(np.sum(chunks * waited * collectives)) * US
    parts["attention"] += float(np.sum(kernels * waited)) * model.layers * US
    parts["layers"] += float(np.sum(chunks * waited)) * model.layers * US


def _tokens(
    sources: Sources,
    model: Architecture,
    gpu: GPU,
    tokens: FloatArray,
    *,
    dtype: str,
    tp: int,
    pp: int,
    ep: int,
    network: Network,
) -> tuple[FloatArray, FloatArray]:
    """Return the µs of products, and of messages, for so many tokens through all layers, one value each."""
    law, one = sources(gpu, dtype), layer(model, tp, ep)
    products = np.zeros_like(tokens)
    for matrix in one.matrices:
        products += matrix.share * law.time_us(matrix.outputs, tokens, matrix.inputs)
    message = tokens * model.hidden * WIDE_BYTES
    collectives = 2.0 * collective_us(gpu, "all_reduce", message, tp, network)
    if one.experts:
        visits, touched = one.experts.visits(tokens), one.experts.touched(tokens)
        for matrix in one.experts.matrices:
            products += one.experts.share * law.time_us(matrix.outputs, visits, matrix.inputs, touched)
        if ep > 1:
            sent = message * one.experts.visited / tp
            collectives += 2.0 * one.experts.share * collective_us(gpu, "all_to_all", sent, ep, network)
    stages = pp * collective_us(gpu, "send_recv", message, tp * pp, network) if pp > 1 else 0.0
    return products * model.layers, collectives * model.layers + stages


def _head_us(sources: Sources, model: Architecture, gpu: GPU, sequences: FloatArray, tp: int) -> FloatArray:
    """Return the µs of the output matrix for the last token of every sequence, in 16 bits."""
    return sources(gpu, "bf16").time_us(model.vocab / tp, sequences, model.hidden)
