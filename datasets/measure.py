"""Measure the embedded data set: ``python -m flopcast.datasets.measure OUT.parquet`` (needs torch).

Protocol, per workload and device (a device here is this CPU with a number of threads): at least `WARMUP` calls and
`WARMUP_SECONDS` before the clock counts; then at least `REPEATS` timed calls and `MIN_SECONDS`, at most `MAX_REPEATS`
for the sake of the latter; samples more than `MAD_LIMIT` median absolute deviations from the median are removed
(O'Neal et al., 2018); the median of the rest is ``duration_us``, their median absolute deviation
``spread_us``. Every workload is timed on all devices before the next one, so that a slow drift of the machine hits host
and target alike. Two passes over the whole suite show what a repeat of the measurement changes.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError, FlopcastError
from .kernels import Shape, build, import_torch, shapes

WARMUP, WARMUP_SECONDS = 5, 0.02
REPEATS, MIN_SECONDS, MAX_REPEATS = 50, 0.06, 2_000
MAD_LIMIT = 7.0
DEVICES = {"CPU-1T": 1, "CPU-2T": 2}
"""Threads of each device."""
MEASURED = ("duration_us", "spread_us", "repeats", "outliers", "campaign")
"""The columns that say how a workload ran; the others say which one it was, and on which device."""


def mad_filter(samples: np.ndarray, limit: float = MAD_LIMIT) -> np.ndarray:
    """Return the samples within ``limit`` median absolute deviations of their median.

    All of them where that deviation is 0 (more than half the samples are equal).
    """
    deviation = np.abs(samples - np.median(samples))
    mad = np.median(deviation)
    return samples if mad == 0 else samples[deviation <= limit * mad]


def summarise(samples_ns: Sequence[int]) -> dict[str, float]:
    """Return duration and spread (microseconds), and the counts of samples kept and removed."""
    kept = mad_filter(np.array(samples_ns) / 1e3)
    median = float(np.median(kept))
    return {
        "duration_us": round(median, 3),
        "spread_us": round(float(np.median(np.abs(kept - median))), 3),
        "repeats": len(kept),
        "outliers": len(samples_ns) - len(kept),
    }


def time_call(call: Callable[[], Any]) -> dict[str, float]:
    """Time one call by the protocol of this module; see `summarise`."""
    clock, started, done = time.perf_counter_ns, time.perf_counter(), 0
    while done < WARMUP or time.perf_counter() - started < WARMUP_SECONDS:
        call()
        done += 1
    samples: list[int] = []
    started = time.perf_counter()
    while len(samples) < REPEATS or (time.perf_counter() - started < MIN_SECONDS and len(samples) < MAX_REPEATS):
        begin = clock()
        call()
        samples.append(clock() - begin)
    return summarise(samples)


def measure(
    workloads: Sequence[Shape] | None = None,
    devices: Mapping[str, int] = DEVICES,
    *,
    passes: int = 2,
    seed: int = 0,
) -> pd.DataFrame:
    """Time every workload on every device.

    Parameters
    ----------
    workloads : sequence of dict, optional
        As `kernels.shapes` yields them; by default all of those.
    devices : mapping of str to int
        Name of each device and its number of threads.
    passes : int, default=2
        Times to go through the workloads.
    seed : int, default=0
        Seed of the operands; workload i takes ``seed + i``.

    Returns
    -------
    DataFrame
        One row per workload, device and pass: the workload, and the columns of `MEASURED`.

    Raises
    ------
    FlopcastError
        If torch is not installed.
    """
    torch = import_torch()
    workloads = list(shapes()) if workloads is None else workloads
    threads_before, rows = torch.get_num_threads(), []
    try:
        for campaign in range(1, passes + 1):
            for index, shape in enumerate(workloads):
                if index % 20 == 0:
                    print(f"pass {campaign} of {passes}: {index}/{len(workloads)}", file=sys.stderr, flush=True)
                call = build(shape, seed + index)
                with torch.inference_mode():
                    for device, threads in devices.items():
                        torch.set_num_threads(threads)
                        rows.append({"device": device, **shape, **time_call(call), "campaign": f"pass {campaign}"})
    finally:
        torch.set_num_threads(threads_before)
    return pd.DataFrame(rows)


def pass_differences(table: pd.DataFrame) -> pd.Series:
    """Return, for each workload and device, how far the last pass is from the first: ``100 |t2 - t1| / t1``, percent.

    It is the floor under every prediction error: a second measurement does no better.
    """
    identity = [column for column in table if column not in MEASURED]
    times = table.groupby(identity, dropna=False, sort=False)["duration_us"].agg(["first", "last"])
    return (100 * (times["last"] - times["first"]).abs() / times["first"]).reset_index(drop=True)


def provenance() -> dict[str, Any]:
    """Return the machine, the versions and the constants of the protocol.

    Raises
    ------
    FlopcastError
        If torch is not installed.
    """
    torch = import_torch()
    cpus = cpu_names()
    return {
        "cpu": cpus[0],
        "logical_cpus": len(cpus),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "isa": torch.backends.cpu.get_cpu_capability(),
        "date": time.strftime("%Y-%m-%d"),
        "warmup": [WARMUP, WARMUP_SECONDS],
        "repeats": [REPEATS, MIN_SECONDS, MAX_REPEATS],
        "mad_limit": MAD_LIMIT,
    }


def cpu_names(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """Return the model of each logical CPU.

    Raises
    ------
    FlopcastError
        If the system does not tell (only Linux on x86 does so in this form).
    """
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else ""
    if not (names := re.findall(r"^model name\s*:\s*(.+?)\s*$", text, re.MULTILINE)):
        raise FlopcastError(f"{cpuinfo} names no CPU model: measure on Linux on x86, or a table of your own")
    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the Parquet file and its provenance (JSON) beside it, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m flopcast.datasets.measure", description="Measure the kernels.")
    parser.add_argument("out", type=Path, metavar="OUT.parquet")
    parser.add_argument("--seed", type=int, default=0, help="seed of the operands (default 0)")
    parser.add_argument("--passes", type=int, default=2, help="times to go through all workloads (default 2)")
    options = parser.parse_args(arguments)
    try:
        _check_output(options.out)
        described = provenance()
        table = measure(passes=options.passes, seed=options.seed)
    except FlopcastError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    _write(table, described, options.out)
    print(f"Wrote {options.out}: {len(table)} rows")
    if options.passes > 1:
        differences = pass_differences(table).quantile([0.5, 0.9])
        print(
            f"From the first pass to the last a time changes by {differences[0.5]:.1f} % (median), "
            f"90th percentile {differences[0.9]:.1f} %"
        )
    return 0


def _check_output(out: Path) -> None:
    """Refuse, before minutes of measuring, a file that could not be written or read again."""
    if out.suffix != ".parquet":
        raise DataError("must end in .parquet", source=str(out))
    if not out.parent.is_dir():
        raise DataError("its folder does not exist: make it first", source=str(out))


def _write(table: pd.DataFrame, described: Mapping[str, Any], out: Path) -> None:
    """Write the table and, beside it, what it was measured with: each whole or not at all."""
    beside = [path.with_name(f".{path.name}.new") for path in (out, out.with_suffix(".json"))]
    table.to_parquet(beside[0], index=False)
    beside[1].write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
    beside[0].replace(out)
    beside[1].replace(out.with_suffix(".json"))


if __name__ == "__main__":
    sys.exit(main())
