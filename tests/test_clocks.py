"""No test's outcome depends on how fast the machine is: tests read no clock and end nothing that is merely slow."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_cover  # the source is read
TESTS = Path(__file__).parent
READS = re.compile(
    r"\btime\.(?:time|monotonic|perf_counter|process_time|thread_time)|\bfrom time import|getrusage"
)
RUNNERS = {"kills.py", "fuzz/__main__.py", "fuzz/worker.py"}
"""`make kill` and `make fuzz` run for as long as they are told."""
LEAST_TIMEOUT = 3600
"""Seconds: what a hang may be ended by."""


def brief_timeouts(code: ast.AST) -> list[int]:
    """Return the lines of calls that end what takes a few seconds, or minutes."""
    given = [
        (node.lineno, word)
        for node in ast.walk(code)
        if isinstance(node, ast.Call)
        for word in node.keywords
    ]
    found = [
        (line, word.value.value)
        for line, word in given
        if word.arg == "timeout" and isinstance(word.value, ast.Constant)
    ]
    return [line for line, seconds in found if seconds is not None and seconds < LEAST_TIMEOUT]


def test_no_test_reads_a_clock_or_ends_what_is_slow() -> None:
    found = {}
    for path in sorted({*TESTS.rglob("*.py")} - {Path(__file__)}):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(TESTS).as_posix()
        brief = brief_timeouts(ast.parse(text)) if "timeout" in text else []
        if name not in RUNNERS and (wrong := [*READS.findall(text), *brief]):
            found[name] = wrong
    assert found == {}


@pytest.mark.parametrize(
    "line", ["time.perf_counter_ns()", "import time; a = time.time()", "resource.getrusage(0)"]
)
def test_clocks_are_found(line: str) -> None:
    assert READS.search(line)


def test_brief_timeouts_are_found() -> None:
    code = ast.parse(
        "run(line, timeout=60)\nrun(line, timeout=3600)\nrun(line, timeout=None)\nwait(event, timeout=HANGS)"
    )
    assert brief_timeouts(code) == [1]
