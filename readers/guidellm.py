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
from .serving_benchmarks import (
    Record,
    Runs,
    first_of,
    inner,
    json_records,
    number,
    speculation,
    times_of,
    token_ms,
    under_way,
    whole,
)


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
            if isinstance(report, Mapping):
                listed = report.get("benchmarks")
            else:
                listed = None
            if not isinstance(listed, list):
                yield 1, report
                continue
            for place, one in enumerate(listed, start=1):
                if isinstance(one, Mapping):
                    yield (
                        place,
                        {"args": inner(report, "args"), **one, "report": inner(report, "args")},
                    )
                else:
                    yield place, one

    def columns(self, record: Record) -> dict[str, Any]:
        """Return the run."""
        prompt, answer = (_mean(record, f"{side}_token_count") for side in ("prompt", "output"))
        latency = times_of(_mean(record, "request_latency"), 1e3)
        ttft = _mean(record, "time_to_first_token_ms")
        tpot = _mean(record, "inter_token_latency_ms")
        if tpot is None:
            tpot = token_ms(latency, ttft, answer)
        under = _mean(record, "request_concurrency")
        if under is None:
            rate = {"request_throughput": _mean(record, "requests_per_second")}
            under = under_way(rate, None, latency)
        totals = inner(inner(record, "metrics"), "request_totals")
        if under is None:
            concurrency = whole(under)
        else:
            concurrency = max(1.0, float(round(under)))
        return {
            "model": _model(record),
            "client": "guidellm",
            "variant": speculation(record),
            "input_len": whole(prompt),
            "output_len": whole(answer),
            "concurrency": concurrency,
            "ttft_ms": ttft,
            "tpot_ms": tpot,
            "duration_us": times_of(latency, 1e3),
            "output_tokens_per_s": _mean(record, "output_tokens_per_second"),
            "failed": number(totals.get("errored")),
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
