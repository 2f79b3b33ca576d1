"""Profile a few kernels at a time: ``flopcast plan rocprofv3 TRACE --kernels-per-pass 20 --steps-per-pass 50``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ParameterError
from ..output import check_file, check_table
from . import options as opt
from .derived import as_taken, with_options_of

PLACE = 150
EXAMPLES = ("flopcast plan rocprofv3 trace.json.gz --kernels-per-pass 20 --script passes.sh",)


@with_options_of("plan", {}, ("profiler", "trace"))
def command(
    profiler: Annotated[str, typer.Argument(metavar="PROFILER", help="rocprofv3 or torch.")],
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE",
            help="A full trace, or kernel names (.txt): one a line, as often as run.",
        ),
    ],
    *,
    script: Annotated[
        Path | None,
        opt.option("Write what starts the passes: .sh (`sh FILE PROGRAM`) or .py.", "FILE"),
    ] = None,
    out: Annotated[
        Path | None,
        opt.option("With --check: table of durations for `project --durations`.", spelt="--out -o"),
    ] = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Plan passes of a profiler that record a few kernels each, and prove that they have recorded all of them."""
    check = given["check"]
    if out is not None and check is None:
        raise ParameterError("out", "must go with --check: it is a table of what passes recorded")
    inputs = [trace, *([check] if check else [])]
    check_table(out, "out", inputs)
    check_file(script, (".py",) if profiler == "torch" else (".sh",), inputs, "script")
    asked = as_taken("plan", given)
    opt.announce("reading the trace", quiet=as_json)
    # here: what it imports takes seconds, and the options are checked before
    from ..api.profilers import plan
    from ..report.terminal import show

    passes = plan(profiler, trace, **asked)
    if script is not None:
        passes.save_script(script)
    if out is not None:
        passes.save(out)
    show(passes.document(), *filter(None, (script, out)), as_json=as_json, every=every)
