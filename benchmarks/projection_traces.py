"""How far projected traces are from measured ones: ``python -m flopcast.benchmarks.projection_traces``.

Models profiled on MI300X and H100 by PyTorch, each projected to the other GPU by every law and
every way of adding up: the end-to-end time against the measured one. A trained model never sees the
pair that it is judged by.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ..hardware import find
from ..projection.replay import AGGREGATIONS
from ..projection.uncertainty import uncertainty_of
from ..projection.whole_trace import PUBLISHED, Laws, Projection, project_trace
from ..readers import Options, TraceFailure, read_traces
from ..report.terminal import output
from ..traces.summary import Annotated
from .projection_laws import CHOICE, H100, MI300X, TRACES, Cells, shown, trained_on
from .shared_data import run_on_data

LAWS = {
    "published": PUBLISHED,
    **{
        name: Laws(compute=name)
        for name in ("flops", "bandwidth", "roofline", "roofline-achieved", CHOICE)
    },
}


def trace(path: Path) -> Annotated:
    """Return a trace with the calls of the CPU."""
    _, trace = next(iter(read_traces([path], options=Options(calls=True))))
    if isinstance(trace, TraceFailure):
        raise trace.error
    return trace


def pairs(data: Path) -> Iterator[tuple[str, str, str, Annotated, float, list[Path]]]:
    """Yield model, host, target, the host's trace, the target's measured time, and the files of the other pairs."""
    names = sorted(path.name for path in (data / TRACES[H100]).glob("*.json.gz"))
    traces = {
        (device, name): trace(data / folder / name)
        for device, folder in TRACES.items()
        for name in names
    }
    for host, target in ((MI300X, H100), (H100, MI300X)):
        for name in names:
            target_us = project_trace(traces[target, name], find(target), find(target)).measured_us
            others = [
                data / TRACES[device] / other
                for other in names
                if other != name
                for device in TRACES
            ]
            yield name.split("_")[0], host, target, traces[host, name], target_us, others


def rows(data: Path) -> Iterator[tuple[list[Cells], Cells]]:
    """Yield for each pair and direction the error of every law and way of adding up, %, and the choice's interval."""
    for model, host, target, trace, target_us, others in pairs(data):
        devices = find(host), find(target)
        projected = {name: project_trace(trace, *devices, laws) for name, laws in LAWS.items()}
        projected["trained"] = project_trace(
            trace, *devices, Laws(run=trained_on(others, host, target))
        )
        head: Cells = {
            "model": model,
            "host": host,
            "host_us": projected[CHOICE].measured_us,
            "target_us": target_us,
        }
        table = [
            {**head, "law": name, **_errors(one, target_us)} for name, one in projected.items()
        ]
        uncertainty = uncertainty_of(projected[CHOICE])
        yield (
            table,
            {
                **head,
                "projected_us": uncertainty.nominal_us,
                "lower_us": uncertainty.lower_us,
                "upper_us": uncertainty.upper_us,
                "half width %": 100 * uncertainty.half_width,
                "inside": "yes"
                if uncertainty.lower_us <= target_us <= uncertainty.upper_us
                else "no",
            },
        )


def idle_changes(data: Path) -> Iterator[Cells]:
    """Yield for each model the time in which nothing ran on both GPUs, and by how much it changed."""
    for path in sorted((data / TRACES[H100]).glob("*.json.gz")):
        idle_us = {}
        for device, folder in TRACES.items():
            gpu = find(device)
            projection = project_trace(trace(data / folder / path.name), gpu, gpu)
            idle_us[device] = projection.measured_us - projection.busy_us
        ratio = idle_us[H100] / idle_us[MI300X]
        yield {
            "model": path.name.split("_")[0],
            MI300X: idle_us[MI300X],
            H100: idle_us[H100],
            "ratio": ratio,
        }


def _errors(projection: Projection, measured_us: float) -> Cells:
    return {name: 100 * (projection.totals[name] / measured_us - 1) for name in AGGREGATIONS}


def summary(errors: pd.DataFrame) -> pd.DataFrame:
    """Return by law and way of adding up how far off projections are at most and on average, %."""
    size = errors.set_index("law")[list(AGGREGATIONS)].abs()
    by_law = size.groupby(level=0, sort=False)
    parts = [by_law.mean().add_suffix(" mean"), by_law.max().add_suffix(" most")]
    return pd.concat(parts, axis=1).reset_index()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 0, also where there is nothing to measure against."""
    return run_on_data("projection_traces", __doc__, _show, arguments)


def _show(options: argparse.Namespace) -> None:
    projected = list(rows(options.data))
    errors = pd.DataFrame([row for table, _ in projected for row in table])
    intervals = pd.DataFrame([row for _, row in projected])
    output().print(shown("End-to-end time: error by law and way of adding up, %", errors))
    output().print(shown("Over all pairs and directions, %", summary(errors)))
    output().print(shown(f"90 % intervals of {CHOICE}, replayed", intervals))
    changed = pd.DataFrame(list(idle_changes(options.data)))
    output().print(shown("Time in which nothing ran, µs (GAP_SIGMA)", changed))
    print(
        f"root mean square of the logarithms {np.sqrt(np.mean(np.log(changed['ratio']) ** 2)):.3f}"
    )
    inside = int(np.sum(intervals["inside"] == "yes"))
    print(f"{inside} of {len(intervals)} measured times inside their interval")


if __name__ == "__main__":
    sys.exit(main())
