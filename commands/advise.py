"""What to measure next: ``flopcast advise RUN CANDIDATES... --rows 40`` chooses rows of the target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import values
from ..output import PREDICTION_FORMATS, check_file
from . import options as opt

PLACE = 70
EXAMPLES = ("flopcast advise runs/fp8 candidates.csv --rows 40 --out batch.csv",)


def command(
    run: opt.RunArgument,
    candidates: Annotated[
        list[Path],
        typer.Argument(
            metavar="CANDIDATES", help="What could be measured: rows of the host, or shapes."
        ),
    ],
    rows: Annotated[int | None, opt.option("How many rows of the target are measured.")] = None,
    budget: opt.BudgetOption = None,
    row_seconds: Annotated[float, opt.option("Seconds of a row that has no column cost_s.")] = 10.0,
    weight: Annotated[
        str | None, opt.option("How much each candidate counts in your workload.", "COLUMN")
    ] = None,
    out: Annotated[
        Path | None, opt.option("File to write: .csv, .parquet, .json or .xlsx.", spelt="--out -o")
    ] = None,
    where: opt.WhereOption = None,
    group: opt.GroupOption = None,
    unit: opt.UnitOption = None,
    default: opt.DefaultOption = None,
    rename: opt.RenameOption = None,
    seed: opt.SeedOption = 0,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Choose what to measure next on the target: the batch that teaches a run most about unseen groups."""
    check_file(out, PREDICTION_FORMATS, [run, *candidates])
    settings: dict[str, Any] = opt.parse_rows(where, unit, default, rename, group=group)
    seconds = values.duration("budget", budget)
    opt.check_data([run, *candidates])
    opt.announce(f"loading {run}", quiet=as_json)
    from ..api.checking import (
        advise,
    )  # here: what it imports takes seconds, and the options are checked before
    from ..report.terminal import show

    found = advise(
        run,
        *candidates,
        rows=rows,
        budget=seconds,
        row_seconds=row_seconds,
        weight=weight,
        seed=seed,
        **settings,
    )
    if out is not None:
        found.save(out)
    show(
        found.document(),
        *([out] if out else []),
        as_json=as_json,
        every=every,
        rows=len(found.batch),
    )
