"""Reports of trtllm-bench: engine, parallelism, requests and times of one run.

``trtllm-bench throughput`` and ``latency`` with ``--report_json`` (TensorRT-LLM 0.17 to 1.2): an
object with ``engine``, ``world_info``, ``request_info``, ``performance`` and, with ``--streaming``,
``streaming_metrics``. Times are in milliseconds. The throughput is of all GPUs. Without streaming
the time of the first token is not measured: the time of a request stands alone.

Source: https://github.com/NVIDIA/TensorRT-LLM (Apache-2.0), ``tensorrt_llm/bench/dataclasses/reporting.py``.
"""

from __future__ import annotations

from typing import Any, Final

from .base import register
from .serving_benchmarks import (
    Record,
    Runs,
    contradiction,
    first_of,
    inner,
    number,
    speculation,
    times_of,
    whole,
)

_QUANTISED: Final = {
    "FP8": "fp8",
    "FP8_BLOCK_SCALES": "fp8",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "NVFP4": "fp4",
    "MXFP4": "fp4",
    "W4A8_AWQ": "",
    "INT8": "int8",
}
_PLAIN: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


@register
class TrtllmBenchReader(Runs):
    """Reports of trtllm-bench, a run each."""

    name = "trtllm-bench JSON"
    marks = (b"world_info", b"request_info", b"performance")

    def columns(self, record: Record) -> dict[str, Any]:
        """Return the run."""
        engine, world = inner(record, "engine"), inner(record, "world_info")
        requests, times = inner(record, "request_info"), inner(record, "performance")
        streamed, drafts = inner(record, "streaming_metrics"), inner(record, "decoding_stats")
        answer = number(requests.get("avg_output_length"))
        rate = number(times.get("request_throughput_req_s"))
        tokens = number(times.get("system_output_throughput_tok_s"))
        if rate is not None and answer is not None:
            derived = rate * answer
        else:
            derived = None
        return {
            "model": first_of(engine, "model", "model_path"),
            "engine": "trtllm",
            "engine_version": engine.get("version"),
            "client": "trtllm-bench",
            "variant": _drafted(drafts) or speculation(record),
            "dtype_a": _format(engine),
            "dtype_b": _format(engine),
            "dtype_kv": _QUANTISED.get(str(engine.get("kv_cache_dtype")).upper()),
            "tp": number(world.get("tp_size")),
            "pp": number(world.get("pp_size")),
            "ep": number(world.get("ep_size")),
            "running_limit": number(world.get("max_batch_size")),
            "input_len": whole(number(requests.get("avg_input_length"))),
            "output_len": whole(answer),
            "concurrency": _at_once(requests),
            "ttft_ms": number(streamed.get("avg_ttft_ms")),
            "tpot_ms": number(streamed.get("avg_tpot_ms")),
            "duration_us": times_of(number(times.get("avg_request_latency_ms")), 1e3),
            "output_tokens_per_s": tokens,
            **contradiction("output tokens/s", tokens, derived),
        }


def _format(engine: Record) -> str | None:
    """Return the number format of the weights: how they are quantised, else the type of the model."""
    quantised = engine.get("quantization")
    if quantised not in (None, "", "None"):
        return _QUANTISED.get(str(quantised).upper()) or None
    return _PLAIN.get(str(engine.get("dtype")))


def _drafted(drafts: Record) -> str | None:
    """Return how tokens were drafted; None where they were not."""
    if drafts:
        return str(drafts.get("mode") or "speculative").lower()
    return None


def _at_once(requests: Record) -> float | None:
    """Return the requests under way on average, at least one."""
    mean = number(requests.get("avg_num_concurrent_requests"))
    if mean is None:
        return None
    return max(1.0, float(round(mean)))
