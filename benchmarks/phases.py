"""What it costs to project a few repeats of each phase for all of them: ``python -m flopcast.benchmarks.phases``.

Traces are projected whole and by phases: CPU time of both, without reading, and the error of the
end-to-end time beside the one that is stated. Real ones, where a phase is a layer or a step; and
long ones, made of single steps that PyTorch has profiled: `STEPS` of each (or as many as make
`MOST` activities), one after the other, where every step is a replay with separate durations.
These spread about the measured ones as durations of one kernel on one shape do within the trace,
and the CPU's times by `CPU_SPREAD`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ..hardware import find
from ..projection.graph import build
from ..projection.replay import replay
from ..projection.result import result_of
from ..projection.whole_trace import replayed
from ..report.terminal import output
from ..table.problems import codes_of
from ..traces.summary import Annotated
from .projection_laws import H100, MI300X, TRACES, Cells, shown
from .projection_traces import trace
from .shared_data import run_on_data

TARGET = "MI355X"
STEPS, MOST = 200, 350_000
CPU_SPREAD = 0.03
REAL = (
    *(
        "profiles/kineto/other/" + name
        for name in (
            "mi300_sglang_Qwen3-8B_prefilldecode.json.gz",
            "mi300_xdit_flux1_aiter_sage_profile_trace_rank_0.json.gz",
            "vllm_prefilldecode_piecewise_graph_execution.json.gz",
        )
    ),
    "profiles/rocprofv3/json/908_results.json.gz",
    "profiles/rocprofv3/csv_real_rdna35/prefill_kernel_trace.csv",
    "profiles/rpd_legacy/mytrace.rpd.gz",
    "profiles/nsys/perlmutter-cloverleaf-cuda.sqlite",
    "profiles/chakra/param_resnet_kineto.json.gz",
)
"""Traces with phases besides those of `TRACES`; whatever they were measured on is taken for an MI300X."""


def spread_of(trace: Annotated) -> float:
    """Return how the durations of one kernel on one shape spread: the median standard deviation of their logarithm."""
    table = trace.dispatches[trace.dispatches["duration_ns"] > 0]
    code = codes_of([table["name"], table["flops"], table["bytes_moved"], table["grid_x"]])
    by = pd.Series(np.log(table["duration_ns"].to_numpy(dtype=float))).groupby(code)
    spread = by.std()[by.size() >= 3]
    return float(spread.median()) if len(spread) else 0.0


def long_trace(step: Annotated, steps: int, seed: int = 0) -> Annotated:
    """Return a trace of many steps, made of one: each a replay with other durations, begun when the last was over."""
    random, graph = np.random.default_rng(seed), build(step.dispatches, step.calls)
    spread = spread_of(step)
    durations = graph.duration_ns * np.exp(spread * random.standard_normal((steps, len(graph))))
    speeds = np.exp(CPU_SPREAD * random.standard_normal(steps))
    above = int(step.dispatches["correlation"].max()) + 1
    tables, calls, now = [], [], 0
    for number in range(steps):
        times = replay(graph, durations[number].round(), float(speeds[number]))
        start, called = replayed(graph, times, step.dispatches.index, float(speeds[number]))
        length = step.dispatches["duration_ns"].copy()
        length.iloc[graph.rows] = durations[number].round().astype(np.int64)
        first = min(
            int(start.min()), int(called["start_ns"].min()) if len(called) else int(start.min())
        )
        shift, numbered = (
            now - first,
            {"correlation": step.dispatches["correlation"] + above * number},
        )
        tables.append(
            step.dispatches.assign(start_ns=start + shift, duration_ns=length, **numbered)
        )
        last = int((start + length).max())
        if len(called):
            calls.append(
                called.assign(
                    start_ns=called["start_ns"] + shift,
                    correlation=called["correlation"] + above * number,
                )
            )
            last = max(last, int((called["start_ns"] + called["duration_ns"]).max()))
        now += last - first + 20_000
    table = pd.concat(tables, ignore_index=True)
    return replace(
        step, dispatches=table, calls=pd.concat(calls, ignore_index=True) if calls else step.calls
    )


def traces(data: Path, steps: int = STEPS) -> Iterator[tuple[str, str, Annotated]]:
    """Yield the name, the GPU and the trace of every case."""
    for device, folder in TRACES.items():
        for path in sorted((data / folder).glob("*.json.gz")):
            annotated, name = trace(path), f"{path.name.split('_')[0]}, {device.split()[0]}"
            yield name, device, annotated
            several = min(steps, MOST // len(annotated.dispatches))
            yield f"{name}, {several} steps", device, long_trace(annotated, several)
    for name in REAL:
        if (data / name).is_file():
            yield Path(name).name.split(".")[0][:40], MI300X, trace(data / name)


def compared(name: str, device: str, trace: Annotated) -> Cells:
    """Return what a projection by phases costs and how far off it is."""
    target = find(TARGET if device != H100 else MI300X)
    begun = time.process_time()
    whole = result_of(name, trace, find(device), target)
    between = time.process_time()
    quick = result_of(name, trace, find(device), target, phases=True)
    done = time.process_time()
    phases = quick.phases
    return {
        "trace": name,
        "activities": len(trace.dispatches),
        "phases": 0 if phases is None else len(phases.table),
        "projected %": 100.0 if phases is None else 100 * phases.share,
        "whole, CPU s": between - begun,
        "phases, CPU s": done - between,
        "error %": 100 * (quick.projection.projected_us / whole.projection.projected_us - 1),
        "stated ± %": 0.0 if phases is None else 100 * phases.error,
    }


def summary(table: pd.DataFrame) -> str:
    """Return what all cases with phases say, in a sentence."""
    phased = table[table["phases"] > 0]
    size = phased["error %"].abs()
    inside = int((size <= 2 * phased["stated ± %"] + 0.1).sum())
    long_ = phased[phased["trace"].str.contains("steps")]
    times = (
        (long_["whole, CPU s"] / long_["phases, CPU s"]).median() if len(long_) else float("nan")
    )
    return (
        f"{len(phased)} of {len(table)} traces have phases: error {size.median():.2g} % (median), "
        f"{size.max():.2g} % at "
        f"most; {inside} within twice the stated error (or 0.1 %); long ones take {times:.1f} "
        "times less CPU "
        "time (median)"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 0, also where there is nothing to measure against."""
    return run_on_data("phases", __doc__, _show, arguments)


def _show(options: argparse.Namespace) -> None:
    table = pd.DataFrame([compared(*case) for case in traces(options.data)])
    output().print(shown("Projected by phases, against the whole", table))
    print(summary(table))


if __name__ == "__main__":
    sys.exit(main())
