"""Reports of inference-perf: a run, or a stage of one, with statistics of the requests that succeeded.

``summary_lifecycle_metrics.json`` and ``stage_N_lifecycle_metrics.json`` (inference-perf 0.1 to
0.4): an object with ``load_summary``, ``successes`` and ``failures``. Times are in seconds. The time
of a token is ``time_per_output_token``, which excludes the first;
``normalized_time_per_output_token`` has it in it and is not read. The model stands in the
configuration beside the report: `Options.defaults` states it.

Source: https://github.com/kubernetes-sigs/inference-perf (Apache-2.0), ``inference_perf/reportgen``.
"""

from __future__ import annotations

from .base import register
from .records import Row, number, scaled
from .serving_benchmarks import Record, Runs, inner, speculation, under_way


@register
class InferencePerfReader(Runs):
    """Reports of inference-perf, a run each."""

    name = "inference-perf JSON"
    marks = (b"load_summary", b"successes", b"failures")

    def columns(self, record: Record) -> Row:
        """Return the run."""
        done = inner(record, "successes")
        latencies = inner(done, "latency")
        rates = inner(done, "throughput")
        latency = scaled(_mean(latencies, "request_latency"), 1e3)
        load = inner(record, "load_summary")
        rate = {"request_throughput": rates.get("requests_per_sec")}
        return {
            "client": "inference-perf",
            "variant": speculation(record),
            "input_len": _mean(done, "prompt_len"),
            "output_len": _mean(done, "output_len"),
            "concurrency": under_way(rate, load.get("concurrency"), latency),
            "ttft_ms": scaled(_mean(latencies, "time_to_first_token"), 1e3),
            "tpot_ms": scaled(_mean(latencies, "time_per_output_token"), 1e3),
            "latency_ms": latency,
            "output_tokens_per_s": rates.get("output_tokens_per_sec"),
            "failed": inner(record, "failures").get("count"),
        }


def _mean(statistics: Record, name: str) -> float | None:
    """Return the mean of a statistic."""
    return number(inner(statistics, name).get("mean"))
