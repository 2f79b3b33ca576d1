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

The memory of a GPU (`inference_memory`) is counted in GiB as its maker means it: the 192 GB of an MI300X are 8 stacks
of 24 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import FloatArray
from ..errors import DataError
from ..operators.work import BITS
from .architecture import Matrix, cached_bytes, layer, read_bytes
from .kernel_times import LAUNCH_US, Sources
from .releases import CONSTANTS
from .setting import Setting

BLOCKS: Final = 256  # into how many stretches of equal steps the longest output is cut, at most


@dataclass(frozen=True)
class Schedule:
    """Steps of one replica."""

    # stretches: how many steps, sequences that run in each, tokens in the cache on average; shape
    # (n,)
    steps: FloatArray
    running: FloatArray
    cached: FloatArray
    # tokens read in each round of admissions, and the mean length of their sequences; shape (k,)
    prompts: FloatArray
    lengths: FloatArray
    fullest: float  # most tokens in the cache

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


def serve(
    requests: int, prompt: int, output: int, *, most_at_once: int, cache_tokens: float
) -> Schedule:
    """Return the schedule of requests that wait for a place among ``most_at_once`` and for room among ``cache_tokens``.

    Raises DataError: not one whole request has room in the cache.

    >>> from flopcast.workloads.inference import serve
    >>> serve(4, 100, 50, most_at_once=2, cache_tokens=1e6).running
    array([2., 2.])
    """
    if cache_tokens < prompt + output:
        room = max(cache_tokens, 0)
        raise DataError(
            f"the cache has room for {room:.0f} tokens, one request takes {prompt + output}"
        )
    left = np.full(requests, float(output))
    length = np.full(requests, float(prompt))
    running = np.empty(0, dtype=int)
    waiting = np.arange(requests)
    stretch = max(1, -(-output // BLOCKS))
    stretches: list[tuple[float, float, float]] = []
    fullest = 0.0
    read: list[tuple[float, float]] = []
    while running.size or waiting.size:
        room = cache_tokens - length[running].sum() - running.size * stretch
        admitted = int(
            np.searchsorted(np.cumsum(length[waiting[:most_at_once]] + stretch), room, side="right")
        )
        admitted = min(admitted, most_at_once - running.size)
        if not running.size:
            admitted = max(admitted, 1)
        if admitted > 0:
            new = waiting[:admitted]
            waiting = waiting[admitted:]
            read.append((length[new].sum(), length[new].mean()))
            running = np.concatenate([running, new])
        # until one ends or the cache overflows; at most a stretch where one more may come
        ends = float(left[running].min())
        free = (cache_tokens - float(length[running].sum())) / running.size
        alone = not waiting.size or running.size >= most_at_once
        if alone and free > ends:
            steps = ends
        else:
            steps = min(float(stretch), ends)
        stretches.append(
            (steps, running.size, length[running].sum() + running.size * (steps + 1) / 2)
        )
        left[running] -= steps
        length[running] += steps
        fullest = max(fullest, float(length[running].sum()))
        running = running[left[running] > 0]
        over = length[running].sum() + running.size * stretch - cache_tokens
        if over > 0 and running.size > 1:
            back = min(
                int(np.searchsorted(np.cumsum(length[running][::-1]), over)) + 1, running.size - 1
            )
            waiting = np.concatenate([running[-back:], waiting])
            running = running[:-back]
    counts, at_once, cached = (
        np.array(column, dtype=np.float64) for column in zip(*stretches, strict=True)
    )
    prompts, lengths = (np.array(column, dtype=np.float64) for column in zip(*read, strict=True))
    return Schedule(counts, at_once, cached, prompts, lengths, fullest)


US = 1e-6
MS = 1e-3
# of an element of what is not quantised: embeddings, output matrix, activations
WIDE_BYTES: Final = 2.0
PER_SEQUENCES: Final = 0.75
"""Power of the number of sequences in what they cost: a line fitted up to a hundred is far too much at thousands."""
KERNELS_PER_LAYER: Final = 12.0  # that are launched one by one where no graph replays them
_OVER_LAW: Final = {name: CONSTANTS[name].value for name in ("attention", "cache", "collectives")}
"""What kernels take over their laws, by which every part is multiplied: times of sources are divided by it."""


def inference_parts(setting: Setting, schedule: Schedule, sources: Sources) -> dict[str, float]:
    """Return the seconds of each part of a schedule on a replica of tp · pp GPUs, at the constants' medians.

    In a pipeline the sequences go round in pp parts, one per stage, so that a step of all of them
    takes as long as one part through all layers, and the messages between the stages. Prompts that
    are in a prefix cache are not read; ``eager`` launches every kernel; ``sources`` give
    times of kernels.
    """
    steps = step_parts(setting, schedule, sources)
    prompts = prompt_parts(setting, schedule, sources)
    return {name: seconds + prompts[name] for name, seconds in steps.items()}


def step_parts(setting: Setting, schedule: Schedule, sources: Sources) -> dict[str, float]:
    """Return the seconds of the steps that give each running sequence a token, as `inference_parts` does."""
    model = setting.model
    gpu = setting.gpu
    pp = setting.pp
    parts = dict.fromkeys(CONSTANTS, 0.0)
    steps = schedule.steps
    running = np.maximum(schedule.running / pp, 1.0)
    products, collectives = _tokens(setting, sources, running)
    # the output matrix for the last token of every sequence, in 16 bits: on one stage, for each of
    # the parts
    head = pp * sources(gpu, "bf16").time_us(model.vocab / setting.tp, running, model.hidden)
    parts["products"] = float(np.sum(steps * (products + head))) * US
    parts["collectives"] = float(np.sum(steps * collectives)) * US
    length = schedule.cached / schedule.running
    read = (
        running
        * read_bytes(model, setting.tp, length, BITS[setting.kv_dtype])
        / gpu.require("memory_bw_gbs")
        / 1e3
    )
    attention = sources.decoding(gpu, model, running, length, setting.tp, setting.kv_dtype)
    parts["cache"] = float(np.sum(steps * sources.pick(attention, read, _OVER_LAW["cache"]))) * US
    parts["layers"] = float(steps.sum()) * model.depth * US
    parts["steps"] = float(steps.sum()) * MS
    parts["sequences"] = float(np.sum(steps * running**PER_SEQUENCES)) * model.layers * US
    scaled = {name: seconds * CONSTANTS[name].value for name, seconds in parts.items()}
    if setting.eager:
        scaled["layers"] += eager_seconds(setting, schedule, sum(scaled.values()) - scaled["steps"])
    return scaled


def eager_seconds(setting: Setting, schedule: Schedule, seconds: float) -> float:
    """Return the extra seconds of steps whose kernels the CPU launches one by one.

    Launches run ahead of the GPU: a step takes what its kernels take, or what launching them takes
    if that is more.
    """
    launching = (
        float(schedule.steps.sum()) * setting.model.depth * KERNELS_PER_LAYER * LAUNCH_US * US
    )
    return max(launching - seconds, 0.0)


def prompt_parts(setting: Setting, schedule: Schedule, sources: Sources) -> dict[str, float]:
    """Return the seconds of reading the prompts, as `inference_parts` does."""
    model = setting.model
    gpu = setting.gpu
    pp = setting.pp
    parts = dict.fromkeys(CONSTANTS, 0.0)
    if setting.prefix_cache or not schedule.prompts.any():
        return parts
    # in chunks of the largest step, one behind the other through the stages
    chunk = np.minimum(schedule.prompts, setting.max_batched_tokens)
    chunks = schedule.prompts / chunk
    waited = (np.ceil(chunks) + pp - 1.0) / np.ceil(chunks) / pp  # of the time of all layers
    products, collectives = _tokens(setting, sources, chunk)
    together = np.maximum(chunk / schedule.lengths, 1.0)  # sequences of one kernel
    over = _OVER_LAW["attention"]
    kernels = sources.attention_us(gpu, model, together, schedule.lengths, setting.tp, over=over)
    kernels = kernels * schedule.prompts / schedule.lengths / together
    parts["products"] = float(np.sum(chunks * waited * products)) * US
    parts["collectives"] = float(np.sum(chunks * waited * collectives)) * US
    parts["attention"] = float(np.sum(kernels * waited)) * model.layers * US
    parts["layers"] = float(np.sum(chunks * waited)) * model.depth * US
    return {name: seconds * CONSTANTS[name].value for name, seconds in parts.items()}


def _tokens(
    setting: Setting, sources: Sources, tokens: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the µs of products, and of messages, for so many tokens through all layers, one value each."""
    model = setting.model
    gpu = setting.gpu
    tp = setting.tp
    pp = setting.pp
    ep = setting.ep
    one = layer(model, tp, ep)

    def time_us(matrix: Matrix, tokens: FloatArray, copies: ArrayLike = 1.0) -> FloatArray:
        weights, products = setting.precision(matrix.part)
        return sources(gpu, products, weights).time_us(
            matrix.outputs, tokens, matrix.inputs, copies
        )

    products = np.zeros_like(tokens)
    for matrix in one.matrices:
        products += matrix.share * time_us(matrix, tokens)

    def collective_us(kind: str, message: FloatArray, ranks: int) -> FloatArray:
        over = _OVER_LAW["collectives"]
        return sources.collective_us(
            gpu, kind, message, ranks, setting.network, over=over, engine=True
        )

    message = tokens * model.hidden * WIDE_BYTES
    collectives = model.sums * collective_us("all_reduce", message, tp)
    if one.experts:
        visits = one.experts.visits(tokens)
        touched = one.experts.touched(tokens)
        by_law = np.sum(
            [time_us(matrix, visits, touched) for matrix in one.experts.matrices], axis=0
        )
        weights, computed = setting.precision("experts")
        experts = sources.experts(gpu, model, tokens, (tp, ep), (computed, weights))
        products += one.experts.share * sources.pick(experts, by_law)
        if ep > 1:
            sent = message * one.experts.visited / tp
            collectives += 2.0 * one.experts.share * collective_us("all_to_all", sent, ep)
    if pp > 1:
        stages = pp * collective_us("send_recv", message, tp * pp)
    else:
        stages = 0.0
    return products * model.layers, collectives * model.layers + stages


def stored_bits(dtype: str) -> float:
    """Return the bits of a stored weight: of 4-bit formats with the scale of their block (OCP MX: 8 bits for 32)."""
    return BITS[dtype] + (8.0 / 32 if BITS[dtype] == 4 else 0.0)


GIB: Final = 2.0**30
# what the runtime, its graphs and its communication keep for themselves on every GPU
RESERVED_GIB: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class InferenceMemory:
    """Memory of one GPU while it serves, in GiB."""

    # weights of its part of the model; activations of the largest batch of tokens, and what the
    # runtime keeps
    weights: float
    activations: float
    available: float  # memory of the GPU times the part that may be used
    cache_per_token: float  # cache of one token

    @property
    def tokens(self) -> float:
        """Tokens that fit into the cache; negative if even the weights do not fit."""
        return (self.available - self.weights - self.activations) / self.cache_per_token

    def needed(self, tokens: float) -> float:
        """Return the total memory with so many cached tokens."""
        return sum(self.held(tokens).values())

    def held(self, tokens: float) -> dict[str, float]:
        """Return the parts of the memory with so many cached tokens."""
        parts = {
            "weights": self.weights,
            "activations": self.activations - RESERVED_GIB,
            "reserved": RESERVED_GIB,
        }
        return parts | {"cache": tokens * self.cache_per_token}


def inference_memory(setting: Setting) -> InferenceMemory:
    """Return what one GPU holds while it serves.

    The weights of the layers are in the formats of their parts, with the scales of 4-bit blocks,
    embedding and output matrix in 16 bits. What windows keep, and recurrent states, is spread over
    the tokens of a sequence. The activations of the largest batch are the inputs and results of the
    feed-forward part and eight residual streams, in 16 bits or less: ``max_batched_tokens`` · (6 ·
    width / tp + 8 · hidden) bytes, as measured peaks say. Raises NotPublishedError: the memory of
    the GPU is not published.
    """
    model = setting.model
    tp = setting.tp
    pp = setting.pp
    parts = layer(model, tp, setting.ep).weights_by_part()
    layers = sum(
        count * stored_bits(setting.precision(part)[0]) / 8 for part, count in parts.items()
    )
    weights = layers * model.layers / pp + model.embedding_parameters / tp * WIDE_BYTES
    batch = setting.max_batched_tokens * (6.0 * model.met_width / tp + 8.0 * model.hidden)
    length = max(setting.input_len + setting.output_len, 1)
    per_token = float(cached_bytes(model, tp, length, BITS[setting.kv_dtype])) / length / pp
    return InferenceMemory(
        weights=weights / GIB,
        activations=batch / GIB + RESERVED_GIB,
        available=setting.gpu.require("memory_gb") * setting.memory_utilisation,
        cache_per_token=per_token / GIB,
    )
