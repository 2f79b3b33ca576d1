"""Which profiler to believe: ``flopcast fidelity A.json B.csv --unprofiled 41.2ms`` compares traces of a workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import JsonOption, SetOption, announce, parse_defaults, parse_time

PLACE = 160

OPTIONS = {"unprofiled_us": "--unprofiled"}


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="One file or folder for each trace.")],
    unprofiled: Annotated[
        str | None, typer.Option(metavar="TIME", help="End-to-end time of one step without a profiler, e.g. 41.2ms.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps each trace holds, where it does not record them.")] = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what each profiler adds to a workload, and which of them to believe."""
    time_us = None if unprofiled is None else parse_time(unprofiled, "--unprofiled")
    defaults = parse_defaults(set_)
    announce("reading the traces", quiet=as_json)
    from ..api.profilers import fidelity  # here: what it imports takes seconds, and the options are checked before
    from ..report.profilers import fidelity_document
    from ..report.terminal import show

    found = fidelity(paths, time_us, steps=steps, defaults=defaults)
    show(fidelity_document(found), as_json=as_json)
