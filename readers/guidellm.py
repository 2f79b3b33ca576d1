"""Reports of GuideLLM: a run for each rate of requests, with the statistics of each metric.

``guidellm benchmark --output-path FILE.json`` (0.2 to 0.6) writes an object with ``benchmarks``, a
list. Each has ``metrics``, of which each has statistics of the requests that succeeded, of those
that failed, and of all: those of the first are read. ``request_latency`` is in seconds, metrics
that end in ``_ms`` in milliseconds. The time of a token is ``inter_token_latency_ms``, as
``time_per_output_token_ms`` has the first token in it. The model stands in the arguments, or in what
is said of the backend.

Source: https://github.com/vllm-project/guidellm (Apache-2.0), ``guidellm/benchmark``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .base import register
from .records import Row, json_records, number, scaled
from .serving_benchmarks import Record, Runs, first_of, inner, speculation, under_way, users_of


@register
class GuidellmReader(Runs):
    """Reports of GuideLLM, a run for each of its benchmarks."""

    name = "GuideLLM JSON"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise a list of benchmarks with keys that only GuideLLM writes."""
        if head.lstrip()[:1] != b"{" or b'"benchmarks"' not in head:
            return False
        marks = (
            b"guidellm",
            b'"request_loader"',
            b'"requests_per_second"',
            b'"request_concurrency"',
        )
        return any(word in head for word in marks)

    def records(self, words: str, source: str) -> Iterator[tuple[int, Any]]:
        """Yield the place and content of each benchmark, with the arguments of the report."""
        for _, report in json_records(words, source):
            listed = None
            if isinstance(report, Mapping):
                listed = report.get("benchmarks")
            if not isinstance(listed, list):
                yield 1, report
                continue
            arguments = inner(report, "args")
            for place, run in enumerate(listed, start=1):
                if isinstance(run, Mapping):
                    run = {"args": arguments, **run, "report": arguments}
                yield place, run

    def columns(self, record: Record) -> Row:
        """Return the run."""
        latency = scaled(_mean(record, "request_latency"), 1e3)
        under = _mean(record, "request_concurrency")
        if under is None:
            rate = {"request_throughput": _mean(record, "requests_per_second")}
            under = under_way(rate, None, latency)
        totals = inner(inner(record, "metrics"), "request_totals")
        return {
            "model": _model(record),
            "client": "guidellm",
            "variant": speculation(record),
            "input_len": _mean(record, "prompt_token_count"),
            "output_len": _mean(record, "output_token_count"),
            "concurrency": users_of(under),
            "ttft_ms": _mean(record, "time_to_first_token_ms"),
            "tpot_ms": _mean(record, "inter_token_latency_ms"),
            "latency_ms": latency,
            "output_tokens_per_s": _mean(record, "output_tokens_per_second"),
            "failed": totals.get("errored"),
        }


def _mean(record: Record, name: str) -> float | None:
    """Return the mean of a metric, of the requests that succeeded."""
    statistics = inner(inner(record, "metrics"), name)
    return number(inner(statistics, "successful").get("mean", statistics.get("mean")))


def _model(record: Record) -> Any:
    """Return the model that the arguments name, else the one that the backend answered with."""
    config = inner(record, "config")
    places = (
        inner(record, "report"),
        inner(record, "args"),
        config,
        inner(config, "backend"),
        inner(record, "backend"),
    )
    for place in places:
        named = place.get("model")
        if isinstance(named, str) and named:
            return named
    return first_of(inner(record, "worker"), "backend_model")
