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
    _, found = next(iter(read_traces([path], options=Options(calls=True))))
    if isinstance(found, TraceFailure):
        raise found.error
    return found


def pairs(data: Path) -> Iterator[tuple[str, str, str, Annotated, float, list[Path]]]:
    """Yield model, host, target, the host's trace, the target's measured time, and the files of the other pairs."""
    names = sorted(path.name for path in (data / TRACES[H100]).glob("*.json.gz"))
    found = {
        (device, name): trace(data / folder / name)
        for device, folder in TRACES.items()
        for name in names
    }
    for host, target in ((MI300X, H100), (H100, MI300X)):
        for name in names:
            there = project_trace(found[target, name], find(target), find(target)).measured_us
            others = [
                data / TRACES[device] / other
                for other in names
                if other != name
                for device in TRACES
            ]
            yield name.split("_")[0], host, target, found[host, name], there, others


def rows(data: Path) -> Iterator[tuple[list[Cells], Cells]]:
    """Yield for each pair and direction the error of every law and way of adding up, %, and the choice's interval."""
    for model, host, target, own, there, others in pairs(data):
        devices = find(host), find(target)
        found = {name: project_trace(own, *devices, laws) for name, laws in LAWS.items()}
        found["trained"] = project_trace(own, *devices, Laws(run=trained_on(others, host, target)))
        head: Cells = {
            "model": model,
            "host": host,
            "host_us": found[CHOICE].measured_us,
            "target_us": there,
        }
        table = [{**head, "law": name, **_errors(one, there)} for name, one in found.items()]
        told = uncertainty_of(found[CHOICE])
        yield (
            table,
            {
                **head,
                "projected_us": told.nominal_us,
                "lower_us": told.lower_us,
                "upper_us": told.upper_us,
                "half width %": 100 * told.half_width,
                "inside": "yes" if told.lower_us <= there <= told.upper_us else "no",
            },
        )


def idle_changes(data: Path) -> Iterator[Cells]:
    """Yield for each model the time in which nothing ran on both GPUs, and by how much it changed."""
    for path in sorted((data / TRACES[H100]).glob("*.json.gz")):
        idle_us = {}
        for device, folder in TRACES.items():
            gpu = find(device)
            own = project_trace(trace(data / folder / path.name), gpu, gpu)
            idle_us[device] = own.measured_us - own.busy_us
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
    found = list(rows(options.data))
    errors = pd.DataFrame([row for table, _ in found for row in table])
    told = pd.DataFrame([row for _, row in found])
    output().print(shown("End-to-end time: error by law and way of adding up, %", errors))
    output().print(shown("Over all pairs and directions, %", summary(errors)))
    output().print(shown(f"90 % intervals of {CHOICE}, replayed", told))
    changed = pd.DataFrame(list(idle_changes(options.data)))
    output().print(shown("Time in which nothing ran, µs (GAP_SIGMA)", changed))
    print(
        f"root mean square of the logarithms {np.sqrt(np.mean(np.log(changed['ratio']) ** 2)):.3f}"
    )
    inside = int(np.sum(told["inside"] == "yes"))
    print(f"{inside} of {len(told)} measured times inside their interval")


if __name__ == "__main__":
    sys.exit(main())
