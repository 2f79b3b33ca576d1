"""Tables of AIPerf and GenAI-Perf: a line for each metric, its mean and percentiles beside it.

::

    Metric,avg,min,max,p99,p95,p90,p75,p50,p25
    Time To First Token (ms),"1,146.31",249.48,"3,485.23",...
    Request Latency (ms),"6,406.20",...
    Inter Token Latency (ms),30.35,...
    Output Sequence Length (tokens),174.45,...

    Metric,Value
    Output Token Throughput (per sec),261.25
    Request Throughput (per sec),1.50

``profile_export_genai_perf.csv`` (GenAI-Perf 0.0.8 to 0.0.16) and ``profile_export_aiperf.csv``
(AIPerf 0.1 to 0.8). The unit stands behind the name; numbers may have commas between thousands. The
table names no model: `Options.defaults` states it, and the requests under way follow from their rate
and time where it does not.

Source: https://github.com/ai-dynamo/aiperf and https://github.com/triton-inference-server/perf_analyzer
(Apache-2.0), their exporters of CSV.
"""

from __future__ import annotations

import csv
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ..errors import DataError
from .base import register
from .serving_benchmarks import AiperfReader

_METRIC: Final = re.compile(r"^\s*+(?P<name>[A-Za-z][\w \t]*+)(?:\((?P<unit>[^()]*+)\))?\s*+$")
_THOUSANDS: Final = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")


@register
class AiperfCsvReader(AiperfReader):
    """Tables of AIPerf and of GenAI-Perf, a run each."""

    name = "AIPerf CSV"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header, and the time to the first token among the metrics."""
        first = head.removeprefix(BOM_UTF8).lstrip().partition(b"\n")[0].lower()
        names = [name.strip().strip(b'"') for name in first.split(b",")]
        return (
            names[:1] == [b"metric"] and b"avg" in names and b"time to first token" in head.lower()
        )

    def records(self, words: str, source: str) -> Iterator[tuple[int, Any]]:
        """Yield the run: the mean of each metric, with its unit."""
        record = dict[str, Any]()
        column = 1
        try:
            for cells in csv.reader(words.splitlines()):
                names = [cell.strip().lower() for cell in cells]
                if names[:1] == ["metric"]:
                    column = 1
                    if "avg" in names:
                        column = names.index("avg")
                    continue
                match = None
                if len(cells) > column:
                    match = _METRIC.match(cells[0])
                if match is None:
                    continue
                value = cells[column].strip()
                if _THOUSANDS.fullmatch(value):
                    value = value.replace(",", "")
                name = match["name"].strip().lower().replace(" ", "_")
                record.setdefault(name, {"avg": value, "unit": match["unit"] or ""})
        except csv.Error as error:
            raise DataError(f"is no table of CSV ({error})", source=source) from None
        yield 1, record
