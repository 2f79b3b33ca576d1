"""Which profiler to believe: ``flopcast fidelity A.json B.csv --unprofiled-us 41200`` compares traces of a workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import values
from . import options as opt

PLACE = 160
EXAMPLES = ("flopcast fidelity rocprof/ torch.json.gz --unprofiled-us 41200 --steps-per-trace 5",)


def command(
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACE", help="One file or folder for each trace.")
    ],
    unprofiled_us: Annotated[
        float | None, opt.option("Time of one step from end to end without a profiler, µs.")
    ] = None,
    steps_per_trace: Annotated[
        int | None, opt.option("Steps each trace holds, where it does not record them.")
    ] = None,
    default: opt.DefaultOption = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Say what each profiler adds to a workload, and which of them to believe."""
    columns = values.assigned("default", default)
    opt.announce("reading the traces", quiet=as_json)
    from ..api.profilers import (
        fidelity,
    )  # here: what it imports takes seconds, and the options are checked before
    from ..report.profilers import fidelity_document
    from ..report.terminal import show

    found = fidelity(
        *traces, unprofiled_us=unprofiled_us, steps_per_trace=steps_per_trace, default=columns
    )
    show(fidelity_document(found), as_json=as_json, every=every)
