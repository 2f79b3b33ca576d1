"""Ingesting many ranks: CPU time and peak memory of the process, in parts and at once, against their number.

The ranks are traces as Kineto writes them, made up: calls of a matrix product of one of many
shapes, each with its launch and its kernel. ``python -m flopcast.benchmarks.ranks --ranks 10,50,200
--megabytes 20``
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from .harness import Row

_DIFFERENT = 4  # ranks that are not one file under several names
_EVENTS = 2**12
_GPU = {
    "id": 0,
    "name": "AMD Instinct MI300X",
    "computeMajor": 9,
    "computeMinor": 4,
    "numSms": 304,
    "warpSize": 64,
}
#: Ingests a folder, each call a row, or merges them, in a separate process; prints seconds of CPU and its peak beyond
#: the imports.
_INGEST = """
import re, sys, time
from pathlib import Path
from flopcast.api.ingesting import ingest
from flopcast.api.tables import read
peak = lambda: int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024 / 1e6
before, folder, out, how = peak(), *sys.argv[1:]
start = time.process_time()
found = read(out) if how == "read" else ingest(folder, out=out, each=True, parts=how == "parts", jobs=1)
rows = len(found.frame) if how == "read" else found.rows
print(time.process_time() - start, peak() - before, rows)
"""


def ranks(counts: Sequence[int], megabytes: float) -> Iterator[Row]:
    """Yield, for each number of ranks, ingesting them in parts, reading these back to one table, and ingesting at once.

    The memory is that beyond the imports. A row is a call of an operator; read back, repeats are
    merged.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        size = max(
            write_rank(folder / f"made{i}.json", megabytes * 1e6, seed=i) for i in range(_DIFFERENT)
        )
        for count in counts:
            links = folder / str(count)
            links.mkdir()
            for rank in range(count):
                os.link(folder / f"made{rank % _DIFFERENT}.json", links / f"rank{rank:04}.json")
            task = f"{count} ranks of {size / 1e6:.3g} MB"
            for how, out in (("parts", "dataset"), ("read", "dataset"), ("at once", "at_once")):
                label = {
                    "parts": "ingest in parts",
                    "read": "read the parts",
                    "at once": "ingest at once",
                }[how]
                yield _measured(task, label, [str(links), str(folder / f"{out}{count}"), how])


def _measured(task: str, label: str, arguments: Sequence[str]) -> Row:
    done = subprocess.run(
        [sys.executable, "-c", _INGEST, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return Row(task, label, note=f"failed: {done.stderr.strip().splitlines()[-1]}")
    seconds, peak, rows = map(float, done.stdout.split())
    return Row(task, label, seconds, peak_mb=peak, note=f"CPU seconds, {rows:.0f} rows")


def write_rank(path: Path, size: float, seed: int = 0) -> int:
    """Write a made-up trace of about that many bytes; return how many it has."""
    rng = np.random.default_rng(seed)
    start = 0
    with path.open("w", encoding="ascii") as file:
        file.write(
            json.dumps({"schemaVersion": 1, "deviceProperties": [_GPU]})[:-1]
            + ', "traceEvents": [\n'
        )
        while file.tell() < size:
            m = 16 * rng.integers(1, 256, _EVENTS)
            us = 3 + m / 50 * rng.uniform(0.9, 1.1, _EVENTS)
            events = (
                event
                for i in range(_EVENTS)
                for event in _call(start + i + 1, int(m[i]), float(us[i]))
            )
            file.write((",\n" if start else "") + ",\n".join(map(json.dumps, events)))
            start += _EVENTS
        file.write("\n]}")
        return file.tell()


def _call(number: int, m: int, us: float) -> Iterator[dict[str, object]]:
    """Yield an operator, the launch in it and the kernel it launched."""
    start, both = 1000.0 * number, {"External id": number, "correlation": number}
    shapes = {
        "Input Dims": [[m, 4096], [4096, 1024]],
        "Input type": ["c10::BFloat16"] * 2,
        "Concrete Inputs": ["", ""],
    }
    cpu = {"ph": "X", "pid": 1, "tid": 1}
    where = {"device": 0, "stream": 0, "grid": [m // 16, 8, 1], "block": [256, 1, 1]}
    arguments = {"External id": number, **shapes}
    yield {"cat": "cpu_op", "name": "aten::mm", "ts": start, "dur": 5, "args": arguments, **cpu}
    yield {
        "cat": "cuda_runtime",
        "name": "hipLaunchKernel",
        "ts": start + 1,
        "dur": 1,
        "args": both,
        **cpu,
    }
    kernel = {
        "cat": "kernel",
        "name": "Cijk_Alik_Bljk_MT256x256x64",
        "ts": start + 10,
        "dur": round(us, 3),
    }
    yield {"ph": "X", "pid": 0, "tid": 0, **kernel, "args": both | where}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a line each."""
    parser = argparse.ArgumentParser(
        prog="python -m flopcast.benchmarks.ranks", description=__doc__
    )
    parser.add_argument("--ranks", default="10,50,200", help="numbers of ranks")
    parser.add_argument("--megabytes", type=float, default=20.0, help="size of each")
    options = parser.parse_args(arguments)
    for row in ranks([int(count) for count in options.ranks.split(",")], options.megabytes):
        peak = "" if row.peak_mb is None else f"{row.peak_mb:7.0f} MB"
        print(
            f"{row.task:28} {row.name:16} {row.seconds or 0:7.1f} s {peak}  {row.note}", flush=True
        )


if __name__ == "__main__":
    main()
