"""One batch that starts together: SGLang's ``bench_one_batch`` and ``vllm bench latency``.

``python -m sglang.bench_one_batch --result-filename FILE.jsonl`` (0.4 to 0.5) writes an object a line
with ``batch_size``, ``input_len``, ``output_len``, ``prefill_latency``, ``median_decode_latency`` and
``total_latency``, in seconds; ``bench_one_batch_server`` has ``latency`` and ``last_ttft`` in their
place. ``vllm bench latency --output-json FILE`` (0.5 to 0.19) writes ``avg_latency``, ``latencies`` and
``percentiles``, in seconds, and no setting: `Options.defaults` states ``model``, ``input_len``,
``output_len`` and ``concurrency`` (its batch).

All requests of a batch start at once and none follows: no server's scheduler is at work, so that the
variant is "one batch". A latency of all steps that is not their sum is refused.

Source: https://github.com/sgl-project/sglang ``python/sglang/bench_one_batch.py``,
https://github.com/vllm-project/vllm ``vllm/benchmarks/latency.py`` (both Apache-2.0).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from .base import register
from .records import Row, contradiction, number, scaled
from .serving_benchmarks import Record, Runs, first_of, speculation
from .words import vocabulary

_ONE_BATCH: Final = "one batch"


@register
class OneBatchReader(Runs):
    """Results of SGLang's ``bench_one_batch`` and ``bench_one_batch_server``."""

    name = "SGLang bench_one_batch JSONL"
    marks = (b"batch_size", b"input_len", b"output_len", b"overall_throughput")
    taken = frozenset(vocabulary("keys")["one_batch"])

    def columns(self, record: Record) -> Row:
        """Return the run; tokens a second are those of the whole batch by its latency."""
        batch, prompt, answer = (
            number(record.get(name)) for name in ("batch_size", "input_len", "output_len")
        )
        seconds = number(first_of(record, "total_latency", "latency"))
        rate = tokens = None
        if seconds and batch is not None and answer is not None:
            tokens = batch * answer / seconds
            rate = None
            if prompt is not None:
                rate = batch * (prompt + answer) / seconds
        return {
            "model": first_of(record, "model", "model_path"),
            "engine": "sglang",
            "client": "sglang bench_one_batch",
            "variant": speculation({"accept_length": record.get("acc_length")}) or _ONE_BATCH,
            "input_len": prompt,
            "output_len": answer,
            "concurrency": batch,
            "ttft_ms": scaled(
                first_of(
                    record,
                    "prefill_latency",
                    "last_ttft",
                    "ttft",
                ),
                1e3,
            ),
            "latency_ms": scaled(seconds, 1e3),
            "output_tokens_per_s": tokens,
            **contradiction("tokens/s", number(record.get("overall_throughput")), rate),
        }


@register
class VllmLatencyReader(Runs):
    """Results of ``vllm bench latency``: the time of a batch."""

    name = "vllm bench latency JSON"
    marks = (b"avg_latency", b"latencies", b"percentiles")
    taken = frozenset({"avg_latency"})
    _SHORT = re.compile(rb'"avg_latency"\s*:')

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the time of a batch, and those of its repeats, which may be long."""
        return (
            head.lstrip()[:1] == b"{"
            and self._SHORT.search(head) is not None
            and b'"latencies"' in head
        )

    def columns(self, record: Record) -> Row:
        """Return the run; its setting has to be stated by the user."""
        seconds = number(record.get("avg_latency"))
        latencies = record.get("latencies")
        if not isinstance(latencies, list):
            latencies = []
        finite = [value for value in map(number, latencies) if value is not None]
        mean = None
        if finite and len(finite) == len(latencies):
            mean = sum(finite) / len(finite)
        return {
            "model": record.get("model"),
            "engine": "vllm",
            "client": "vllm bench latency",
            "variant": _ONE_BATCH,
            "latency_ms": scaled(seconds, 1e3),
            "repeats": len(latencies) or None,
            **contradiction("mean latency in s", seconds, mean),
        }
