"""Runs, traces, tables or answers side by side: ``flopcast compare A B C`` says what differs, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..output import FILES, check_output
from . import options as opt

PLACE = 50
EXAMPLES = (
    "flopcast compare runs/spring runs/autumn --out compared/",
    "flopcast compare runs/fp8 runs/spring runs/summer",
    "flopcast compare before.json.gz after.json.gz",
)


def command(
    context: typer.Context,
    first: Annotated[
        Path,
        typer.Argument(
            metavar="FIRST",
            help="A run folder, a trace, measurements, or a saved projection, forecast or prediction.",
        ),
    ],
    others: Annotated[
        list[Path],
        typer.Argument(metavar="OTHERS", help="Others of its kind, each compared with the first."),
    ],
    interval: opt.IntervalOption = 0.95,
    out: Annotated[
        Path | None, opt.option("Folder for compare.json and compare.html.", spelt="--out -o")
    ] = None,
    where: opt.WhereOption = None,
    seed: opt.SeedOption = 0,
    unit: opt.UnitOption = None,
    default: opt.DefaultOption = None,
    rename: opt.RenameOption = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Compare runs (settings, errors, a paired test), traces (what was added, removed, faster), tables or answers.

    Runs are compared by model and group on the rows that both predicted. Traces are matched by
    operator and shape; the difference of their times is taken apart without rest. Of measurements,
    the times of the problems that both hold. Of projections, forecasts and predictions, ratio and
    difference with paired intervals: what errs alike cancels. Several are compared with the first,
    figure by figure, runs on the rows that all predicted.
    """
    check_output(out, FILES["compare"], [first, *others])
    asked = opt.parse_rows(where, unit, default, rename)
    opt.check_data([first, *others])
    opt.announce("reading them", quiet=as_json)
    from ..api.comparing import (
        compare,
    )  # here: what it imports takes seconds, and the options are checked before

    found = compare(first, *others, interval=interval, seed=seed, **asked)
    opt.finish(context, found, out, as_json=as_json, every=every)
