"""Summaries of LLMPerf: a flat object for each run, its times in seconds.

``token_benchmark_ray.py`` writes ``MODEL_INPUT_OUTPUT_summary.json`` (version 2023-08-31, unchanged
to 2025). ``results_inter_token_latency_s`` is the time of a whole request by its tokens, so that the
first token is in it: the time of a further token is computed from those of a request and of its
first token.

Source: https://github.com/ray-project/llmperf (Apache-2.0), ``token_benchmark_ray.py``.
"""

from __future__ import annotations

from typing import Any

from .base import register
from .serving_benchmarks import Record, Runs, first_of, number, times_of, token_ms, whole


@register
class LlmperfReader(Runs):
    """Summaries of LLMPerf, a run each."""

    name = "LLMPerf JSON"
    marks = (b"results_ttft_s_mean", b"results_end_to_end_latency_s_mean")
    taken = frozenset(
        {
            "model",
            "version",
            "name",
            "num_concurrent_requests",
            "mean_input_tokens",
            "mean_output_tokens",
            "results_number_input_tokens_mean",
            "results_number_output_tokens_mean",
            "results_ttft_s_mean",
            "results_end_to_end_latency_s_mean",
            "results_mean_output_throughput_token_per_s",
            "results_number_errors",
        }
    )

    def columns(self, record: Record) -> dict[str, Any]:
        """Return the run, with measured lengths, else the requested ones."""
        sent, answered = (
            number(
                first_of(record, f"results_number_{side}_tokens_mean", f"mean_{side}_tokens"),
            )
            for side in ("input", "output")
        )
        latency = times_of(number(record.get("results_end_to_end_latency_s_mean")), 1e3)
        ttft = times_of(number(record.get("results_ttft_s_mean")), 1e3)
        return {
            "model": record.get("model"),
            "client": "llmperf",
            "input_len": whole(sent),
            "output_len": whole(answered),
            "concurrency": number(record.get("num_concurrent_requests")),
            "ttft_ms": ttft,
            "tpot_ms": token_ms(latency, ttft, answered),
            "duration_us": times_of(latency, 1e3),
            "output_tokens_per_s": number(record.get("results_mean_output_throughput_token_per_s")),
            "failed": number(record.get("results_number_errors")),
        }
