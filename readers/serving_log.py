"""What benchmarks of serving print: the block "Serving Benchmark Result" of vLLM and of SGLang.

::

    ============ Serving Benchmark Result ============
    Successful requests:                     100
    Maximum request concurrency:             32
    Benchmark duration (s):                  52.76
    Total input tokens:                      102400
    Total generated tokens:                  102400
    Output token throughput (tok/s):         1940.79
    Mean TTFT (ms):                          1228.72
    Mean TPOT (ms):                          12.22
    ==================================================

``vllm bench serve`` and ``benchmark_serving.py`` before it (vLLM 0.5 to 0.19), and SGLang's
``bench_serving`` (0.4 to 0.5), print it, in a log with other lines around; a log may hold many.
Lines are recognised by their words, in any order, behind any prefix; times are in the unit in the
parentheses. The model stands in the arguments that the client prints before (``Namespace(...,
model='...')``, ``--model NAME``), else `Options.defaults` states it. Where tokens a second are not
the generated tokens by the duration, the run is refused.

Source: the printing of ``vllm/benchmarks/serve.py`` and ``sglang/bench_serving.py``, both
Apache-2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from .base import HEAD_BYTES, register
from .files import content
from .records import Row, contradiction, number, scaled
from .serving_benchmarks import (
    Record,
    Runs,
    engine_of,
    lengths_of,
    milliseconds,
    request_ms,
    speculation,
    token_ms,
    under_way,
)
from .words import vocabulary

_BEGIN: Final = re.compile(r"(?<!=)=====++ Serving Benchmark Result =====+")
_SNIFF: Final = re.compile(rb"(?<!=)=====++ Serving Benchmark Result =====+")
_END: Final = re.compile(r"(?<!=)={40,}+\s*+$")
_BEFORE: Final = re.compile(rb"(?i)vllm|sglang|benchmark")
_LOG_BYTES: Final = 2**24  # of a log before its first block
_LONGEST_LINE: Final = 300  # letters: a prefix, a label and its value
_WORDS: Final = vocabulary("serving_log")
_LINE: Final = re.compile(
    r"(?i)^(?:.*[\]):|>-])?\s*+(?P<what>"
    + "|".join(f"(?P<{name}>{line})" for name, line in _WORDS.items())
    + r")\s*+(?:\((?P<unit>[\w/%]++)\)\s*+)?:\s*+(?P<value>\S++)\s*+$"
)
_MODEL: Final = re.compile(
    r"""(?:\bmodel\s*=\s*['"]|--model(?:[= ]\s*|['"],\s*['"]))(?P<model>[\w./:@+-]+)"""
)
_BACKEND: Final = re.compile(
    r"""(?:\bbackend\s*=\s*['"]|--backend(?:[= ]\s*|['"],\s*['"]))(?P<backend>[\w-]+)"""
)
_SETTINGS: Final = re.compile(r"bench|Namespace\(")


@register
class ServingLogReader(Runs):
    """Logs with what a benchmark of serving printed, a run for each block."""

    name = "log of vllm bench serve or SGLang bench_serving"
    taken = frozenset({*_WORDS, "model"})

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the title of a block, which may stand behind the log of a server."""
        if head.lstrip()[:1] == b"{" or b"\0" in head:
            return False
        if _SNIFF.search(head):
            return True
        if len(head) < HEAD_BYTES or not _BEFORE.search(head) or head.lstrip()[:1] == b"[":
            return False
        return _SNIFF.search(content(path, _LOG_BYTES)) is not None

    def records(self, words: str, source: str) -> Iterator[tuple[int, Any]]:
        """Yield the line and the figures of each block, with the arguments printed before it."""
        settings = dict[str, Any]()
        record = dict[str, Any]()
        begin = 0
        for line_number, line in enumerate(words.split("\n"), start=1):
            if _BEGIN.search(line):
                if begin:
                    yield begin, record
                begin = line_number
                record = dict(settings)
            elif begin and _END.search(line):
                yield begin, record
                begin = 0
                settings = {}
            elif begin:
                record |= self._figure(line)
            else:
                settings |= self._setting(line)
        if begin:
            yield begin, record

    def _figure(self, line: str) -> Row:
        """Return what a line of a block states, times in ms, and those of the whole run in s."""
        match = None
        if len(line) <= _LONGEST_LINE:
            match = _LINE.match(line)
        if match is None:
            return {}
        name = next(one for one in _WORDS if match[one])
        value: Any = match["value"]
        if name.endswith("_ms"):
            value = scaled(value, milliseconds(match["unit"]) or 1.0)
        if name == "duration_s":
            value = scaled(value, (milliseconds(match["unit"]) or 1e3) / 1e3)
        return {name: value}

    def _setting(self, line: str) -> Row:
        """Return model, backend and rate of requests that a line outside of blocks states."""
        stated = self._figure(line)
        settings = {
            name: stated[name]
            for name in ("request_rate", "max_concurrency", "backend")
            if name in stated
        }
        if not _SETTINGS.search(line):
            return settings
        for pattern in (_MODEL, _BACKEND):
            match = pattern.search(line)
            if match:
                settings |= match.groupdict()
        return settings

    def columns(self, record: Record) -> Row:
        """Return the run."""
        prompt, answer = lengths_of(record)
        ttft = record.get("mean_ttft_ms")
        latency = record.get("mean_e2el_ms")
        drafts = speculation(record)
        tpot = record.get("mean_tpot_ms")
        if tpot is None:
            tpot = token_ms(latency, ttft, answer)
        if tpot is None and not drafts:
            tpot = record.get("mean_itl_ms")
        latency = request_ms(latency, ttft, tpot, answer)
        tokens = number(record.get("output_throughput"))
        seconds = record.get("duration_s")
        rate = seconds and scaled(record.get("total_output_tokens"), 1 / seconds)
        return {
            "model": record.get("model"),
            "engine": engine_of(record.get("backend")),
            "client": "serving log",
            "variant": drafts,
            "input_len": prompt,
            "output_len": answer,
            "concurrency": under_way(record, record.get("max_concurrency"), latency),
            "ttft_ms": ttft,
            "tpot_ms": tpot,
            "output_tokens_per_s": tokens,
            "failed": record.get("failed"),
            **contradiction("output tokens/s", tokens, rate),
        }
