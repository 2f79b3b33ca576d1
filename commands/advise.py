"""What to measure next: ``flopcast advise RUN CANDIDATES... --rows 40`` chooses rows of the target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..output import PREDICTION_FORMATS, check_file
from .options import (
    AllOption,
    BudgetOption,
    DefaultOption,
    GroupOption,
    JsonOption,
    RunArgument,
    SeedOption,
    UnitOption,
    WhereOption,
    announce,
    check_data,
    parse_budget,
    parse_rows,
)

PLACE = 70
EXAMPLES = ("flopcast advise runs/fp8 candidates.csv --rows 40 --out batch.csv",)


def command(
    run: RunArgument,
    candidates: Annotated[
        list[Path], typer.Argument(metavar="CANDIDATES...", help="What could be measured: rows of the host, or shapes.")
    ],
    rows: Annotated[int | None, typer.Option(help="How many rows of the target are measured.")] = None,
    budget: BudgetOption = None,
    row_seconds: Annotated[float, typer.Option(help="Seconds of a row that has no column cost_s.")] = 10.0,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="How much each candidate counts in your workload.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write: .csv, .parquet, .json or .xlsx.")
    ] = None,
    where: WhereOption = None,
    group: GroupOption = None,
    unit: UnitOption = None,
    default: DefaultOption = None,
    seed: SeedOption = 0,
    every: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Choose what to measure next on the target: the batch that teaches a run most about unseen groups."""
    if out is not None:
        check_file(out, PREDICTION_FORMATS, [run, *candidates])
    settings: dict[str, Any] = parse_rows(where, unit, default, group=group)
    seconds = parse_budget(budget)
    check_data([run, *candidates])
    announce(f"loading {run}", quiet=as_json)
    from ..api.checking import advise  # here: what it imports takes seconds, and the options are checked before
    from ..report.terminal import show

    found = advise(
        run, candidates, rows=rows, budget=seconds, row_seconds=row_seconds, weight=weight, seed=seed, **settings
    )
    if out is not None:
        found.save(out)
    show(found.document(), *([out] if out else []), as_json=as_json, every=every, rows=len(found.batch))
