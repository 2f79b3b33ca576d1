"""Summaries of LLMPerf: a flat object for each run, its times in seconds.

``token_benchmark_ray.py`` writes ``MODEL_INPUT_OUTPUT_summary.json`` (version 2023-08-31, unchanged
to 2025). ``results_inter_token_latency_s`` is the time of a whole request by its tokens, so that the
first token is in it: the time of a further token is computed from those of a request and of its
first token.

Source: https://github.com/ray-project/llmperf (Apache-2.0), ``token_benchmark_ray.py``.
"""

from __future__ import annotations

from .base import register
from .records import Row, scaled
from .serving_benchmarks import Record, Runs, first_of
from .words import vocabulary


@register
class LlmperfReader(Runs):
    """Summaries of LLMPerf, a run each."""

    name = "LLMPerf JSON"
    marks = (b"results_ttft_s_mean", b"results_end_to_end_latency_s_mean")
    taken = frozenset(vocabulary("keys")["llmperf"])

    def columns(self, record: Record) -> Row:
        """Return the run, with measured lengths, else the requested ones."""
        sent, answered = (
            first_of(record, f"results_number_{side}_tokens_mean", f"mean_{side}_tokens")
            for side in ("input", "output")
        )
        return {
            "model": record.get("model"),
            "client": "llmperf",
            "input_len": sent,
            "output_len": answered,
            "concurrency": record.get("num_concurrent_requests"),
            "ttft_ms": scaled(record.get("results_ttft_s_mean"), 1e3),
            "latency_ms": scaled(record.get("results_end_to_end_latency_s_mean"), 1e3),
            "output_tokens_per_s": record.get("results_mean_output_throughput_token_per_s"),
            "failed": record.get("results_number_errors"),
        }
