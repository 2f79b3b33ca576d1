"""Reports of trtllm-bench: engine, parallelism, requests and times of one run.

``trtllm-bench throughput`` and ``latency`` with ``--report_json`` (TensorRT-LLM 0.17 to 1.2): an
object with ``engine``, ``world_info``, ``request_info``, ``performance`` and, with ``--streaming``,
``streaming_metrics``. Times are in milliseconds. The throughput is of all GPUs. Without streaming
the time of the first token is not measured: the time of a request stands alone.

Source: https://github.com/NVIDIA/TensorRT-LLM (Apache-2.0), ``tensorrt_llm/bench/dataclasses/reporting.py``.
"""

from __future__ import annotations

from typing import Final

from .base import register
from .records import Row, contradiction, number, scaled
from .serving_benchmarks import Record, Runs, first_of, inner, speculation, users_of
from .words import vocabulary

_QUANTISED: Final = vocabulary("trtllm_quantised")
_PLAIN: Final = vocabulary("trtllm_plain")


@register
class TrtllmBenchReader(Runs):
    """Reports of trtllm-bench, a run each."""

    name = "trtllm-bench JSON"
    marks = (b"world_info", b"request_info", b"performance")

    def columns(self, record: Record) -> Row:
        """Return the run."""
        engine = inner(record, "engine")
        world = inner(record, "world_info")
        requests = inner(record, "request_info")
        times = inner(record, "performance")
        streamed = inner(record, "streaming_metrics")
        drafts = inner(record, "decoding_stats")
        drafted = drafts and str(drafts.get("mode") or "speculative").lower()
        answer = number(requests.get("avg_output_length"))
        tokens = number(times.get("system_output_throughput_tok_s"))
        derived = answer and scaled(times.get("request_throughput_req_s"), answer)
        return {
            "model": first_of(engine, "model", "model_path"),
            "engine": "trtllm",
            "engine_version": engine.get("version"),
            "client": "trtllm-bench",
            "variant": drafted or speculation(record),
            "dtype_a": _format(engine),
            "dtype_b": _format(engine),
            "dtype_kv": _QUANTISED.get(str(engine.get("kv_cache_dtype")).upper()),
            "tp": number(world.get("tp_size")),
            "pp": number(world.get("pp_size")),
            "ep": number(world.get("ep_size")),
            "running_limit": number(world.get("max_batch_size")),
            "input_len": requests.get("avg_input_length"),
            "output_len": answer,
            "concurrency": users_of(number(requests.get("avg_num_concurrent_requests"))),
            "ttft_ms": streamed.get("avg_ttft_ms"),
            "tpot_ms": streamed.get("avg_tpot_ms"),
            "latency_ms": times.get("avg_request_latency_ms"),
            "output_tokens_per_s": tokens,
            **contradiction("output tokens/s", tokens, derived),
        }


def _format(engine: Record) -> str | None:
    """Return the number format of the weights: how they are quantised, else the type of the model."""
    quantised = engine.get("quantization")
    if quantised not in (None, "", "None"):
        return _QUANTISED.get(str(quantised).upper()) or None
    return _PLAIN.get(str(engine.get("dtype")))
