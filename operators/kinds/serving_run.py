"""A model served to so many requests at once: what a benchmark of serving measured, a row for each run.

The dimensions are the setting (model, engine, parallelism, lengths, requests at once) and the
figures of the model, which follow from its name (`workloads.serving.described`) where a table does
not give them. A row's time is that of a request from its start to its last token; its other metrics
are `METRICS`. FLOPs and bytes are those of one GPU while one request is under way: as many others
are, so each of them is worked at once in that time.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from ..op import Dim, Op
from ..work import as_numbers, element_bytes, numbers, texts
from .launched import whole_view

SERVING: Final = "serving"
SPECULATION: Final = "speculation"
"""Column of a table that says how tokens were drafted; the table of measurements has it as ``variant``."""
_DRAFTS_OF_MTP: Final = re.compile(r"mtp|\w+_mtp|nextn|eagle|speculative")
"""What servers and clients write of drafts by the model's layers: SGLang calls it EAGLE, vLLM deepseek_mtp."""
LENGTHS = DRAWN, EQUAL = "drawn", "equal"
"""Lengths of a run's prompts and answers: drawn for each request around a mean, or all of them equal.

Where all are equal, requests begin and end together: in a closed loop they come in waves."""
_ENGINES: Final = {
    "vllm": "vllm",
    "sglang": "sglang",
    "atom": "atom",
    "trt": "trtllm",
    "trtllm": "trtllm",
    "tensorrt": "trtllm",
    "tensorrtllm": "trtllm",
}
"""How people write an engine, in lower case without hyphens, underscores and blanks -> its name."""
METRICS: Final = ("ttft_ms", "tpot_ms", "output_tokens_per_s")
"""What a run measured beside the time of a request: to the first token, per further token, of all GPUs together."""
FIGURES: Final = (
    Dim("parameters", "weights of the model", default=np.nan),
    Dim("active_parameters", "of these, weights that one token meets", default=np.nan),
    Dim(
        "routed_parameters",
        "of these, weights of experts that a router chooses among",
        default=np.nan,
        least=0,
    ),
    Dim("attention_parameters", "of these, weights of attention", default=np.nan),
    Dim("embedding_parameters", "of these, weights of embedding and output matrix", default=np.nan),
    Dim("layers", "layers", default=np.nan),
    Dim("width", "width of the residual stream", default=np.nan),
    Dim(
        "routed_experts",
        "experts of a layer that a router chooses among, 1 for a dense model",
        default=np.nan,
    ),
    Dim(
        "visited_experts",
        "experts that it chooses for a token, 1 for a dense model",
        default=np.nan,
    ),
    Dim(
        "cached_elements",
        "elements that a token leaves in the cache, of all layers that keep every token",
        default=np.nan,
    ),
    Dim(
        "cache_heads",
        "into how many parts the cache of a token can be cut, 1 for latent attention",
        default=np.nan,
    ),
    Dim(
        "attention_width",
        "query heads by width of head, of all layers that attend to every token",
        default=np.nan,
    ),
)
"""Of the model: they follow from its name, or its configuration."""


def drafts_as_mtp(word: str) -> bool:
    """Return whether a word for a run's drafts means the model's layers (multi-token prediction).

    >>> drafts_as_mtp("EAGLE"), drafts_as_mtp("deepseek_mtp"), drafts_as_mtp("ngram")
    (True, True, False)
    """
    return _DRAFTS_OF_MTP.fullmatch(word.strip().lower()) is not None


def engine_named(word: str) -> str:
    """Return the engine that a word names, whatever its case and hyphens; other words as they are.

    >>> engine_named("vLLM"), engine_named("TensorRT-LLM"), engine_named("TGI")
    ('vllm', 'trtllm', 'TGI')
    """
    return _ENGINES.get(re.sub("[-_ ]", "", word.lower()), word)


def gpus(frame: pd.DataFrame) -> np.ndarray:
    """Return the GPUs of each row: tp · pp · dp."""
    tp, pp, dp = numbers(frame, "tp", "pp", "dp")
    return tp * pp * dp


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return ``2 active (input + output) concurrency / GPUs``, NaN where the model is unknown.

    Kaplan et al., "Scaling Laws for Neural Language Models", arXiv:2001.08361, section 2.1: two
    operations a weight and token; attention is not counted. While a request is under way, each of
    the ``concurrency`` users has one done.
    """
    tokens, answer, users = numbers(frame, "input_len", "output_len", "concurrency")
    return 2.0 * as_numbers(frame, "active_parameters") * (tokens + answer) * users / gpus(frame)


def bytes_moved(frame: pd.DataFrame) -> np.ndarray:
    """Return the bytes of the weights that one token meets, read for each token of an answer, on one of the GPUs."""
    (answer,) = numbers(frame, "output_len")
    return (
        as_numbers(frame, "active_parameters")
        * element_bytes(frame, "dtype_b")
        * answer
        / gpus(frame)
    )


def request_us(frame: pd.DataFrame) -> np.ndarray:
    """Return the time of a request, ``ttft + (output - 1) tpot``; NaN where either is missing or cannot be."""
    ttft, tpot, answer = (as_numbers(frame, name) for name in ("ttft_ms", "tpot_ms", "output_len"))
    whole_us = (ttft + (answer - 1) * tpot) * 1e3
    return np.where((ttft > 0) & (tpot >= 0), whole_us, np.nan)


def held_request_us(frame: pd.DataFrame) -> np.ndarray:
    """Return the time of a request that throughput and requests under way give, NaN where one is missing.

    It is Little's law (`requests_under_way`) the other way round.
    """
    tokens, answer, users = (
        as_numbers(frame, name) for name in ("output_tokens_per_s", "output_len", "concurrency")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(tokens > 0, users * answer / tokens * 1e6, np.nan)


def requests_under_way(frame: pd.DataFrame) -> np.ndarray:
    """Return the requests at once that a run's throughput and times give, NaN where one of them is missing.

    Requests that end in a second by the seconds of each: Little, "A Proof for the Queuing Formula:
    L = lambda W", Operations Research 9 (1961).
    """
    tokens, answer = (as_numbers(frame, name) for name in ("output_tokens_per_s", "output_len"))
    return tokens / answer * request_us(frame) * 1e-6


def together(frame: pd.DataFrame) -> np.ndarray:
    """Return which rows have prompts read and answers written by the same GPUs."""
    return np.isin(texts(frame, "apart"), ["", "no", "0", "0.0", "false", "False"])


OPERATORS = (
    Op(
        SERVING,
        "matrix",
        (
            Dim("model", "name of the model, or of its config.json", "llama-3.1-8b", kind="word"),
            Dim("engine", "vllm, sglang, trtllm", "vllm", kind="word"),
            Dim("engine_version", "its release", default="", kind="word"),
            Dim(
                "client",
                "what measured, where it says: how requests come decides the time to the first "
                "token",
                default="",
                kind="word",
            ),
            Dim("input_len", "tokens of a prompt, on average", 1024),
            Dim("output_len", "tokens of an answer, on average", 1024),
            Dim("concurrency", "requests under way at once, on average", 64),
            Dim("tp", "GPUs that share the heads of a layer", default=1.0),
            Dim("pp", "stages of a pipeline", default=1.0),
            Dim(
                "dp",
                "copies of the attention, with the experts shared out among them (data-parallel "
                "attention)",
                default=1.0,
            ),
            Dim("ep", "GPUs that the experts are shared out among", default=1.0),
            Dim(
                "dtype_kv",
                "number format of the cache, by default fp8 where weights have 8 bits or fewer",
                default="",
                kind="word",
            ),
            Dim(
                "running_limit",
                "most requests that the server runs at once (--max-num-seqs, "
                "--max-running-requests); "
                "empty where only their cache limits them",
                default=np.nan,
            ),
            Dim(
                "memory_percent",
                "of a GPU's memory, for weights and cache (100 x --gpu-memory-utilization, "
                "100 x --mem-fraction-static)",
                default=np.nan,
            ),
            Dim(
                "receive_interval",
                "steps from one look for new requests to the next (--scheduler-recv-interval)",
                default=1.0,
            ),
            Dim(
                "apart",
                "yes where other GPUs read the prompts than write the answers",
                default="",
                kind="word",
            ),
            Dim(
                "lengths",
                "equal where all prompts are as long, and all answers; drawn where each has its "
                "own length; empty where nobody says",
                default="",
                kind="word",
            ),
            *FIGURES,
        ),
        ("model",),
        "serving {model}",
        flops,
        bytes_moved,
        whole_view,
        metrics=METRICS,
    ),
)
