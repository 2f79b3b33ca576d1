"""MLPerf's summary of a run of inference: ``mlperf_log_summary.txt`` of its load generator.

::

    MLPerf Results Summary
    SUT name : PySUT
    Scenario : Server
    Mode     : PerformanceOnly
    Completed samples per second    : 264.90
    Completed tokens per second                 : 74638.54
    Mean latency (ns)               : 17499356575
    Mean First Token latency (ns)               : 200849949
    Mean Time per Output Token (ns)               : 61403731

LoadGen 4.0 to 5.1, with tokens; the time of a token was "Time to Output Token" before 5.0. The unit
stands in the parentheses. Tokens of an answer are tokens a second by samples a second; the requests
under way are samples a second by their latency. Model and tokens of a prompt are not in it:
`Options.defaults` states ``model`` and ``input_len``. A run for accuracy is refused.

Source: https://github.com/mlcommons/inference (Apache-2.0), ``loadgen/results.cc``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from .base import register
from .records import Row, number, refused, scaled
from .serving_benchmarks import Record, Runs, first_of, milliseconds, under_way

_TITLE: Final = b"MLPerf Results Summary"
_LINE: Final = re.compile(
    r"^\s*+(?P<name>[A-Za-z][^:()]*+)(?:\((?P<unit>\w++)\)\s*+)?:\s*+(?P<value>\S.*)$"
)
_SAMPLES: Final = ("completed samples per second", "samples per second")
_TOKENS: Final = ("completed tokens per second", "tokens per second")
_FIRST: Final = ("mean first token latency",)
_FURTHER: Final = ("mean time per output token", "mean time to output token")
_LATENCY: Final = ("mean latency",)


@register
class MlperfSummaryReader(Runs):
    """Summaries of MLPerf's load generator, a run each."""

    name = "MLPerf summary"
    taken = frozenset({*_SAMPLES, *_TOKENS, *_FIRST, *_FURTHER, *_LATENCY})

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the title, and the scenario."""
        return _TITLE in head[:4096] and b"Scenario" in head

    def records(self, words: str, source: str) -> Iterator[tuple[int, Any]]:
        """Yield the line and the figures of each summary, times in ms."""
        record = dict[str, Any]()
        begin = 0
        for line_number, line in enumerate(words.split("\n"), start=1):
            if _TITLE.decode() in line:
                if begin:
                    yield begin, record
                begin = line_number
                record = {}
            elif begin and (match := _LINE.match(line)):
                value: Any = match["value"].strip()
                factor = milliseconds(match["unit"])
                if factor:
                    value = scaled(value, factor)
                record.setdefault(match["name"].strip().lower(), value)
        if begin:
            yield begin, record

    def columns(self, record: Record) -> Row:
        """Return the run."""
        samples = number(first_of(record, *_SAMPLES))
        tokens = number(first_of(record, *_TOKENS))
        latency = number(first_of(record, *_LATENCY))
        run: Row = {
            "client": f"mlperf {str(record.get('scenario', '')).lower()}".strip(),
            "output_len": samples and scaled(tokens, 1 / samples),
            "concurrency": under_way({"request_throughput": samples}, None, latency),
            "ttft_ms": first_of(record, *_FIRST),
            "tpot_ms": first_of(record, *_FURTHER),
            "latency_ms": latency,
            "output_tokens_per_s": tokens,
        }
        if str(record.get("mode", "")).lower().startswith("accuracy"):
            run |= refused("not-a-run", f"mode {record['mode']}")
        return run
