"""Why a row is predicted as it is: ``flopcast explain RUN DATA... --row 3`` takes its prediction apart."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..output import FILES, check_output
from . import options as opt

PLACE = 25
EXAMPLES = ("flopcast explain runs/fp8 new.csv --row 3",)


def command(
    context: typer.Context,
    run: opt.RunArgument,
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA", help="Files and folders with workloads, any mix."),
    ],
    row: Annotated[int, opt.option("Which row, counted from 1.")] = 1,
    target: opt.TargetOption = None,
    interval: opt.IntervalOption = 0.9,
    out: Annotated[
        Path | None, opt.option("Folder for explain.json and explain.html.", spelt="--out -o")
    ] = None,
    where: opt.WhereOption = None,
    unit: opt.UnitOption = None,
    default: opt.DefaultOption = None,
    rename: opt.RenameOption = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Say why a row is predicted as it is: the parts of its time, and its nearest measured neighbours."""
    check_output(out, FILES["explain"], [run, *data])
    settings = opt.parse_rows(where, unit, default, rename)
    asked = opt.parse_gpu(target)
    opt.check_data([run, *data])
    opt.announce(f"loading {run}", quiet=as_json)
    from ..api.predicting import (
        explain,
    )  # here: what it imports takes seconds, and the options are checked before

    found = explain(run, *data, row=row, target=asked, interval=interval, **settings)
    opt.finish(context, found, out, as_json=as_json, every=every)
