"""What serving is made of, by formula: the steps that write an answer, the prompts that share them, and the queue.

So many users each have one request under way (``concurrency``), of which as many run as the cache has room for. A step
gives every running sequence one token; meanwhile the prompts of the others are read, ``input / output`` tokens of
prompt for each token of their answers. `parts` are milliseconds at the published peaks, and launches at `LAYER_US`;
what their sum misses is learnt from measured runs (`features.catalogue`). Per token of an answer (``tpot``):

===========  ==========================================================================================
weights      weights that every token meets, read once a step: attention on each of ``tp``, others on all GPUs
experts      of the experts those that the sequences of a step are expected to visit
cache        keys and values of all running sequences, half of the answer written
products     products of the tokens of the step
prompts      products of the prompts that share the step; of experts apart (``prompt_experts``)
scores       attention of these prompts to themselves
messages     two sums a layer over the GPUs, of all tokens of the step
layers       launches and small kernels of every layer
waits        of these, those that wait for other GPUs
routes       of these, those that hand tokens to experts
sequences    work per sequence and layer, growing as the power 3/4 of their number
===========  ==========================================================================================

Time to the first token (``ttft``) is that of one prompt (``weights``, ``products``, ``experts``, ``scores``,
``messages``, ``layers``, ``waits``), of the prompts of all users that come at once (``crowd``, ``crowd_experts``,
``crowd_messages``), of the step that is under way (``step``), of those until the server looks for new requests, half of
``receive_interval`` (``polls``), and, of requests that find no room, the queue: as many answers as wait for each place
(``queue_*``). Products of experts are apart: they reach less of the peak. A pipeline,
other GPUs for the prompts, and cached prefixes are not modelled.

Where kernels were measured on a GPU with an engine, the parts take so much longer as these reach less of the peak than
elsewhere (`SLOWED`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..hardware import GPU, all_gpus
from ..hardware.constants import constant
from ..operators.kinds.serving_run import gpus as gpus_of
from ..operators.kinds.serving_run import together
from ..operators.work import BITS, as_numbers, canonical_dtypes, distinct, numbers, texts

LAYER_US: Final = constant("launch.layer").value
"""Launches and small kernels of a layer, per step: vLLM on MI300X."""
# per sequence to the power `_POWER`, on one GPU
_PER_SEQUENCE_US: Final = constant("launch.sequence").value
_POWER: Final = 0.75
_SCALED_BITS: Final = 4.5  # of a weight of 4 bits with a scale of 8 bits for every 16 (NVFP4)
_KEPT: Final = 3e9  # bytes of a GPU that the runtime keeps for itself
_USED: Final = 0.92
"""Share of the memory that an engine fills where no row says: their default (vLLM: 0.9, the others about that)."""
_SMOOTH: Final = 16.0  # how sharply the number of running sequences bends where the cache is full
_NUMBERED = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,3})(?:\.([0-9]{1,3}))?")
_WIDE: Final = 2.0  # bytes of an element that is not quantised
TPOT_PARTS: Final = {
    "weights": "reading the weights that every token meets",
    "experts": "reading the experts that the sequences of a step are expected to visit",
    "cache": "reading the cache of all running sequences",
    "products": "products of the tokens of a step",
    "prompts": "products of the prompts that share the step, without experts",
    "prompt_experts": "products of their experts",
    "scores": "attention of these prompts",
    "messages": "sums over the GPUs, two a layer",
    "layers": "launches and small kernels of every layer",
    "waits": "of these, those that wait for other GPUs",
    "routes": "of these, those that hand tokens to experts",
    "sequences": "work per sequence and layer",
}
TTFT_PARTS: Final = {
    "weights": "reading the weights for one prompt",
    "products": "products of one prompt, without experts",
    "experts": "products of the experts of one prompt",
    "scores": "attention of one prompt",
    "messages": "sums over the GPUs of one prompt",
    "layers": "launches and small kernels of every layer",
    "waits": "of these, those that wait for other GPUs",
    "crowd": "the same products and attention of the prompts of all that run, half of which come first",
    "crowd_experts": "products of their experts",
    "crowd_messages": "their sums over the GPUs",
    "step": "the step under way",
    "polls": "steps until the server looks for new requests",
    "queue_weights": "answers ahead in the queue: reading weights",
    "queue_cache": "answers ahead in the queue: reading the cache",
    "queue_products": "answers ahead in the queue: products",
    "queue_layers": "answers ahead in the queue: launches",
}
SLOWED: Final = {
    "few": "products of few rows",
    "many": "products of many rows",
    "prompt attention": "attention of prompts",
    "cache": "attention that reads the cache",
    "experts": "products of few rows by each expert",
}
"""Kernels whose share of the peak differs from GPU to GPU and from engine to engine."""
TRAITS: Final = {
    "log2.concurrency": "log2(requests under way)",
    "log2.running": "log2(sequences that run)",
    "log2.input_len": "log2(tokens of a prompt)",
    "log2.output_len": "log2(tokens of an answer)",
    "log2.gpus": "log2(GPUs)",
    "log2.tp": "log2(tp)",
    "log2.dp": "log2(dp)",
    "log2.ep": "log2(ep)",
    "log2.step_tokens": "log2(tokens of a step, prompts included)",
    "log2.input_per_output": "log2(prompt / answer)",
    "log2.pressure": "log2(requests / sequences whose cache has room)",
    "log2.tokens_per_expert": "log2(tokens of a step for each expert)",
    "log2.width_per_gpu": "log2(width / tp)",
    "log2.ridge": "log2(FLOP per byte at which the GPU is balanced)",
    "log2.active": "log2(weights that a token meets)",
    "log2.layers": "log2(layers)",
    "log2.width": "log2(width of the residual stream)",
    "log2.step": "log2(sum of the parts of a step)",
    "log2.prompt": "log2(parts of one prompt)",
    "log2.crowd_per_step": "log2((ttft.crowd + ttft.crowd_experts) / step)",
    "log2.answer": "log2(step x tokens of an answer)",
    "log2.weight_bits": "log2(bits of a weight)",
    "log2.bandwidth": "log2(memory bandwidth of the GPU)",
    "visited_share": "visited / routed experts",
    "latent": "latent attention",
    "apart": "other GPUs read the prompts",
    "prompt_share": "share of prompts in a step",
    "release": "release of the engine as a number: 0.19.1 is 1901; 0 where it is none",
}


@dataclass(frozen=True)
class Steps:
    """Parts of serving, row by row."""

    # parts of the time per token and of the time to the first one, milliseconds; shape (n_rows,)
    tpot: dict[str, FloatArray]
    ttft: dict[str, FloatArray]
    running: FloatArray  # sequences that run at once; shape (n_rows,)
    room: FloatArray  # sequences whose cache would have room; shape (n_rows,)
    # what else tells settings apart: logarithms to base 2, shares, flags; shape (n_rows,)
    traits: dict[str, FloatArray]

    def law(self, metric: str, answer: FloatArray) -> FloatArray | None:
        """Return the metric of answers so long from the sum of the parts, in its unit; None for another metric."""
        tpot = np.sum([*self.tpot.values()], axis=0)
        ttft = np.sum([*self.ttft.values()], axis=0)
        whole = ttft + (answer - 1.0) * tpot
        users = np.exp2(self.traits["log2.concurrency"])
        values = {"tpot_ms": tpot, "ttft_ms": ttft, "duration_us": whole * 1e3}
        return (values | {"output_tokens_per_s": users * answer / whole * 1e3}).get(metric)


def steps(
    frame: pd.DataFrame, user_gpu: GPU | None = None, slower: Mapping[str, FloatArray] | None = None
) -> Steps:
    """Return the parts of every run; NaN where the model's figures, or those of the GPU, are unknown.

    Rows are complete, of the operator ``serving``, with the figures of their models; ``user_gpu`` is a
    GPU that the catalogue does not have, or has otherwise; ``slower`` by `SLOWED` how many times
    longer such kernels take than their peak says, against others, (n_rows,); 1 where left out.
    """
    few, many, scoring, caching, visiting = (
        np.asarray((slower or {}).get(name, 1.0)) for name in SLOWED
    )
    names = ("input_len", "output_len", "concurrency", "tp", "dp", "ep", "receive_interval")
    prompt, answer, users, tp, dp, ep, interval = numbers(frame, *names)
    count = gpus_of(frame)
    (
        total,
        active,
        routed,
        attention,
        embedding,
        layers,
        width,
        experts,
        visited,
        cached,
        heads,
        span,
    ) = (
        as_numbers(frame, name)
        for name in (
            "parameters",
            "active_parameters",
            "routed_parameters",
            "attention_parameters",
            "embedding_parameters",
            "layers",
            "width",
            "routed_experts",
            "visited_experts",
            "cached_elements",
            "cache_heads",
            "attention_width",
        )
    )
    mixture = routed > 0
    bits = np.array(
        [_SCALED_BITS if BITS.get(w) == 4 else BITS.get(w, np.nan) for w in texts(frame, "dtype_b")]
    )
    size = bits / 8.0
    # a checkpoint of 4 bits keeps the attention of mixtures wide
    plain = np.where((bits < 8) & mixture, _WIDE, size)
    kept = np.array(
        [BITS.get(word, 0) / 8.0 for word in canonical_dtypes(pd.Series(texts(frame, "dtype_kv")))]
    )
    kept = np.where(kept > 0, kept, np.where(bits <= 8, 1.0, _WIDE))
    bandwidth, memory, link, rate, wide = _rates(frame, user_gpu)
    others = total - routed - attention - embedding  # dense and shared feed-forward parts
    # sequences that run: as many as have room in the cache
    held = attention * plain / tp + (others * size + routed * size + embedding * _WIDE) / count
    per_token = cached * kept / (dp * np.minimum(tp, np.maximum(heads, 1.0)))
    used = as_numbers(frame, "memory_percent") / 100.0
    used = np.where(np.isnan(used), _USED, np.where(used <= 1.0, used, np.nan))
    room = np.maximum(memory * used - held - _KEPT, _KEPT) / (per_token * (prompt + answer / 2))
    running = (users**-_SMOOTH + np.maximum(room, 0.5) ** -_SMOOTH) ** (-1 / _SMOOTH)
    running = np.fmin(running, as_numbers(frame, "running_limit"))
    # whose prompts are read while one answer is written
    others_run = np.maximum(running - 1.0, 0.0)
    apart = ~together(frame)
    shared = np.where(apart, 0.0, prompt / answer)  # tokens of prompts for each token of an answer
    # seconds a step
    idle = 1.0 - visited / experts
    output = embedding / 2.0
    per_token_s = 2.0 * (active - embedding) / (count * rate)
    expert_s = (
        per_token_s
        * np.where(mixture, np.clip(active - total + routed, 0.0, None), 0.0)
        / (active - embedding)
    )
    dense_s = (per_token_s - expert_s) * many
    pair_s = span / (count * wide) * scoring
    sent = np.where(
        count > 1, 4.0 * layers * width * _WIDE / 2.0 * ((count - 1) / count) / link, 0.0
    )
    read = (
        attention * plain / (tp * bandwidth)
        + (others * size + output * _WIDE) / (count * bandwidth)
    ) * few
    chosen = np.where(mixture, routed * size / (count * bandwidth), 0.0) * visiting
    launched = layers * LAYER_US * 1e-6
    tpot = {
        "weights": read,
        "experts": chosen * (1.0 - idle**running),
        "cache": running * (prompt + answer / 2) * per_token / bandwidth * caching,
        "products": running * (dense_s + expert_s + 2.0 * output / (count * wide) * many),
        "prompts": others_run * shared * dense_s,
        "prompt_experts": others_run * shared * expert_s,
        "scores": others_run * shared * prompt * pair_s,
        "messages": (running + others_run * shared) * sent,
        "layers": launched,
        "waits": np.where(count > 1, launched, 0.0),
        "routes": np.where(mixture, launched, 0.0),
        "sequences": running**_POWER * layers * _PER_SEQUENCE_US * 1e-6 / np.sqrt(count),
    }
    plain_s = prompt * dense_s + prompt**2 * pair_s
    crowd = np.where(apart, 1.0, running)
    waiting = np.maximum(users / running - 1.0, 0.0) * answer
    ttft = {
        "weights": read + chosen * (1.0 - idle**prompt),
        "products": prompt * dense_s,
        "experts": prompt * expert_s,
        "scores": prompt**2 * pair_s,
        "messages": prompt * sent,
        "layers": launched,
        "waits": tpot["waits"],
        "crowd": crowd * plain_s / 2.0,
        "crowd_experts": crowd * prompt * expert_s / 2.0,
        "crowd_messages": crowd * prompt * sent / 2.0,
        "step": tpot["weights"] + tpot["experts"] + tpot["cache"] + tpot["products"],
        "polls": (interval - 1.0) / 2.0 * np.sum([*tpot.values()], axis=0),
        "queue_weights": waiting * (tpot["weights"] + tpot["experts"]),
        "queue_cache": waiting * tpot["cache"],
        "queue_products": waiting
        * (tpot["products"] + tpot["prompts"] + tpot["prompt_experts"] + tpot["scores"]),
        "queue_layers": waiting * launched,
    }
    tpot = {name: 1e3 * values for name, values in tpot.items()}
    ttft = {name: 1e3 * values for name, values in ttft.items()}
    step = np.sum([*tpot.values()], axis=0)
    one = ttft["weights"] + ttft["products"] + ttft["experts"] + ttft["scores"] + ttft["messages"]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = {
            "concurrency": users,
            "running": running,
            "input_len": prompt,
            "output_len": answer,
            "gpus": count,
            "tp": tp,
            "dp": dp,
            "ep": ep,
            "step_tokens": running + others_run * shared,
            "input_per_output": prompt / answer,
            "pressure": users / room,
            "width_per_gpu": width / tp,
            "tokens_per_expert": running * visited / experts,
            "ridge": rate / bandwidth,
            "active": active,
            "layers": layers,
            "width": width,
            "step": step,
            "prompt": one,
            "crowd_per_step": (ttft["crowd"] + ttft["crowd_experts"]) / step,
            "answer": step * answer,
            "weight_bits": bits,
            "bandwidth": bandwidth,
        }
        traits = {f"log2.{name}": np.log2(values) for name, values in logs.items()}
    traits["visited_share"] = visited / experts
    traits["latent"] = (heads == 1).astype(float)
    traits["apart"] = apart.astype(float)
    traits["prompt_share"] = (tpot["prompts"] + tpot["prompt_experts"] + tpot["scores"]) / step
    codes, words = pd.factorize(texts(frame, "engine_version"))
    traits["release"] = np.array([_release(str(word)) for word in words], dtype=np.float64)[codes]
    return Steps(tpot, ttft, running, room, traits)


def _release(word: str) -> float:
    """Return a release as a number that grows with it.

    >>> _release("1.2.0rc6"), _release("v0.19"), _release("nightly")
    (10200.0, 1900.0, 0.0)
    """
    match = _NUMBERED.match(word)
    if match:
        return float(
            sum(
                int(part or 0) * 100**place
                for part, place in zip(match.groups(), (2, 1, 0), strict=True)
            )
        )
    return 0.0


def _rates(frame: pd.DataFrame, user_gpu: GPU | None) -> tuple[FloatArray, ...]:
    """Return of each row's GPU bandwidth (B/s), memory (bytes), links (B/s), and rates of products and of 16 bits."""
    devices = texts(frame, "device")
    formats = texts(frame, "dtype_a")
    weights = texts(frame, "dtype_b")
    codes, levels = distinct(devices, formats, weights)
    figures = np.array(
        [_figures(str(d), str(a), str(b), user_gpu) for d, a, b in levels], dtype=np.float64
    ).reshape(-1, 5)
    return tuple(figures[codes].T)


def _figures(device: str, a: str, b: str, user_gpu: GPU | None) -> tuple[float, ...]:
    if user_gpu is not None and user_gpu.name == device:
        gpu = user_gpu
    else:
        gpu = _catalogue().get(device)
    if gpu is None:
        return (np.nan,) * 5
    computed = b
    if BITS.get(a, 0) >= BITS.get(b, 0):
        computed = a
    wide = gpu.peaks.get("bf16_matrix", gpu.peaks.get("fp16_matrix", np.nan))
    # a GPU without such a unit widens what it reads
    rate = gpu.peaks.get(f"{computed}_matrix", wide)
    gib = (gpu.memory_gb or np.nan) * 2.0**30
    return (
        (gpu.memory_bw_gbs or np.nan) * 1e9,
        gib,
        (gpu.link_bw_gbs or np.nan) * 1e9,
        rate * 1e12,
        wide * 1e12,
    )


@cache
def _catalogue() -> dict[str, GPU]:
    return {gpu.name: gpu for gpu in all_gpus()}
