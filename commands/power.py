"""Power of kernels from a logger's readings: ``flopcast power profile LOG --executions FILE --clocks FILE``.

Three commands: ``plan`` (how to measure a kernel), ``record`` (measure it), ``profile`` (power and
energy from a log).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..output import FILES, check_output
from . import options as opt
from .declared import said
from .derived import as_taken, derive, with_options_of

PLACE = 180
EXAMPLES = (
    "flopcast power plan --kernel-us 120 --window-us 1000 --lag-us 400",
    "flopcast power record gemms.csv --out power/ --logger amdsmi",
    "flopcast power profile amd-smi.csv --executions executions.csv --clocks clocks.csv --window-us 1000 --out profile/",  # noqa: E501
)
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def command() -> None:
    """Measure power and energy of single kernels with a logger, by the method of FinGraV (ISPASS 2025)."""


@with_options_of("power_profile", {}, ("log",))
def profile_command(
    context: typer.Context,
    log: Annotated[Path, typer.Argument(metavar="LOG", help=said("power_profile", "log"))],
    *,
    out: Annotated[
        Path | None, opt.option("Folder for power.json and power.html.", spelt="--out -o")
    ] = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Stitch the power of kernels over their time from the readings of a log, with the energy of one execution."""
    asked = as_taken("power_profile", given)
    check_output(out, FILES["power"])
    opt.check_data([log, *filter(None, (given["executions"], given["clocks"]))])
    opt.announce(f"reading {log}", quiet=as_json)
    from ..api.power import power_profile  # here: what it imports takes seconds

    opt.finish(context, power_profile(log, **asked), out, as_json=as_json, every=every)


@with_options_of("power_record", {}, ("kernels", "out", "logger", "overwrite", "progress"))
def record_command(
    out: Annotated[
        Path, opt.option("Folder for log, executions, clocks and record.json.", spelt="--out -o")
    ],
    logger: Annotated[str, opt.option(said("power_record", "logger"))],
    kernels: Annotated[
        Path | None,
        typer.Argument(
            metavar="[KERNELS]",
            help="CSV or Parquet with op, dtype_a, dimensions. Default: the published products of 8192, 4096 and 2048, "
            "by a matrix and by a vector; simulated also the collectives.",
        ),
    ] = None,
    *,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Record the power of kernels as published: lag measured, executions as plan says with it, random delays.

    Ctrl-C keeps what is recorded; the same command again goes on.
    """
    opt.check_data([] if kernels is None else [kernels])
    asked = as_taken("power_record", given)
    from ..api.power import power_record  # here: what it imports takes seconds
    from ..report.terminal import show, shown_progress

    try:
        with shown_progress("recording", quiet=as_json) as progress:
            recorded = power_record(kernels, out=out, logger=logger, progress=progress, **asked)
    except KeyboardInterrupt:
        print("what is recorded is kept: the same command goes on", file=sys.stderr)
        raise
    show(recorded.document(), *recorded.files, as_json=as_json)


app.command("plan")(opt.run_command(derive("power plan")))
app.command("record")(opt.run_command(record_command))
app.command("profile")(opt.run_command(profile_command))
