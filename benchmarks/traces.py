"""Reading a large PyTorch trace against JSON parsers that build everything, and against HolisticTraceAnalysis.

The file is a real trace repeated, times and numbers shifted, so that it is one long recording. Ours
goes all the way to the joined dispatch table; `msgspec.json.decode` and `orjson.loads` only parse;
HolisticTraceAnalysis parses to its table, without operators.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from ..readers.base import DataFile, Options
from ..readers.files import content
from ..readers.kineto import KinetoReader
from ..traces.dispatches import Trace
from .harness import Comparison, Contender

SAMPLE = Path("profiles") / "kineto" / "pairs_mi300" / "Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
#: What is shifted from one repetition to the next: the time, and every number that names something.
_NUMBERS = re.compile(
    rb'("(?:ts|correlation|External id|Ev Idx|Python id|Python parent id|Sequence number|id)": ?)(\d+)'
)
_PAUSE_US = 2_000_000
#: Reads a file in a separate process and prints by how many bytes that raised its peak. (`ru_maxrss` would begin at
#: the peak of the process that started it.)
_PEAK = """
import re, sys
from pathlib import Path
from flopcast.readers.base import DataFile, Options
from flopcast.readers.kineto import KinetoReader
peak = lambda: 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
before = peak()
KinetoReader().trace([DataFile(Path(sys.argv[1]), "trace", True)], Options())
print(peak() - before)
"""


def traces(data: Path, megabytes: int) -> Iterator[Comparison]:
    """Yield the reading of a trace of about that size, made of `SAMPLE` in ``data``; nothing where that is missing."""
    if not (data / SAMPLE).is_file():
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        size = write_repeated(content(data / SAMPLE), path, megabytes * 10**6)
        whole = path.read_bytes()
        file = DataFile(path, path.name, True)
        without = "" if importlib.util.find_spec("orjson") else "orjson is not installed"
        yield Comparison(
            task=f"PyTorch trace of {size / 1e6:.0f} MB{peak_of(path, size)}",
            ours=Contender(
                "flopcast, joined table", lambda: KinetoReader().trace([file], Options())
            ),
            peers=(
                Contender(
                    "msgspec.json.decode alone, no gc",
                    lambda: parsed(whole, "msgspec.json", "decode"),
                ),
                Contender(
                    "orjson.loads alone, no gc",
                    lambda: parsed(whole, "orjson", "loads"),
                    missing=without,
                ),
                *holistic(path),
            ),
            nothing=Contender("do nothing (bytes)", path.read_bytes),
            differs=different,
        )


def write_repeated(trace: bytes, path: Path, size: int) -> int:
    """Write a trace over and over as one, at least once, until it has about `size` bytes; return how many it has."""
    events = bytes(msgspec.json.decode(trace, type=dict[str, msgspec.Raw])["traceEvents"])
    start = trace.index(events)
    body = events.strip()[1:-1]
    parts = _NUMBERS.split(body)
    texts, keys, numbers = parts[0::3], parts[1::3], [int(number) for number in parts[2::3]]
    timed = [key.startswith(b'"ts"') for key in keys]
    times = [number for number, is_time in zip(numbers, timed, strict=True) if is_time]
    period = max(times) - min(times) + _PAUSE_US
    above = 1 + max(
        (number for number, is_time in zip(numbers, timed, strict=True) if not is_time), default=0
    )
    with path.open("wb") as file:
        file.write(trace[:start] + b"[")
        for repetition in range(max(1, round(size / len(body)))):
            shifts = (repetition * above, repetition * period)
            shifted = (
                b"%d" % (number + shifts[is_time])
                for number, is_time in zip(numbers, timed, strict=True)
            )
            pieces = zip(keys, shifted, texts[1:], strict=True)
            file.write(
                b"," * (repetition > 0)
                + texts[0]
                + b"".join(piece for three in pieces for piece in three)
            )
        file.write(b"]" + trace[start + len(events) :])
        return file.tell()


def peak_of(path: Path, size: int) -> str:
    """Return by how much reading the trace raises the resident memory of a process, in words; "" where Linux is not."""
    if not Path("/proc/self/status").is_file():
        return ""
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, str(path)], capture_output=True, text=True, check=True
    )
    return f" (resident memory: {int(done.stdout) / size:.2f} times the file)"


def parsed(whole: bytes, module: str, function: str) -> Any:
    """Return all of the JSON as Python objects, without the collector, which would double the time."""
    loads = getattr(importlib.import_module(module), function)
    gc.disable()
    try:
        return loads(whole)
    finally:
        gc.enable()


def holistic(path: Path) -> tuple[Contender, ...]:
    """Return HolisticTraceAnalysis' parser as a contender; where it is not installed, say so and return none."""
    if importlib.util.find_spec("hta") is None:
        print(
            "HolisticTraceAnalysis is not installed: not compared (pip install "
            "HolisticTraceAnalysis)",
            file=sys.stderr,
        )
        return ()
    parser = importlib.import_module("hta.common.trace_parser")
    settings = importlib.import_module("hta.configs.parser_config").ParserConfig.get_default_cfg()
    logging.getLogger("hta").setLevel(logging.ERROR)
    return (
        Contender(
            "HolisticTraceAnalysis, parse",
            lambda: parser.parse_trace_dataframe(str(path), settings),
        ),
    )


def different(trace: Trace, other: Any) -> str:
    """Return in what our activities differ in number from those that another parser has found."""
    if isinstance(other, dict):
        theirs = sum(event.get("cat") in _GPU for event in other["traceEvents"])
    else:
        _, table, symbols = other
        names = symbols.get_sym_id_map()
        theirs = int(table["cat"].isin([names[cat] for cat in _GPU if cat in names]).sum())
    ours = len(trace.dispatches)
    return "" if ours == theirs else f"{ours} activities, not {theirs}"
