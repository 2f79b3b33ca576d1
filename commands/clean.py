"""Clean repeated measurements: ``flopcast clean TRACES... -o runs.parquet`` drops what distorts, and says how much."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..output import check_tables
from . import options as opt
from .derived import as_taken, with_options_of

PLACE = 110
EXAMPLES = ("flopcast clean traces/ -o clean.parquet",)


@with_options_of("clean", {}, ("data", "warm_up", "interval"))
def command(
    data: Annotated[
        list[Path], typer.Argument(metavar="DATA", help="Traces: files and folders, any formats.")
    ],
    warm_up: Annotated[
        bool | None,
        opt.option("Leave out warm-up (MSER-5).", spelt="--warm-up/--no-warm-up", shown="warm-up"),
    ] = None,
    *,
    out: Annotated[
        Path | None, opt.option("Measurement table: .parquet, .csv or .xlsx.", spelt="--out -o")
    ] = None,
    removed: Annotated[
        Path | None, opt.option("Table of everything left out: .parquet, .csv or .xlsx.", "FILE")
    ] = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Clean repeated measurements in traces: steps, warm-up, outliers; report the spread of each kernel."""
    check_tables({"out": out, "removed": removed}, data)
    settings = as_taken("clean", given)
    opt.announce("reading the traces", quiet=as_json)
    # here: what it imports takes seconds, and the options are checked before
    from ..api.cleaning import clean
    from ..report.cleaning import cleaning_document
    from ..report.terminal import show

    result = clean(*data, warm_up=warm_up, **settings)
    if out is not None:
        result.save(out)
    if removed is not None:
        result.save_removed(removed)
    written = ()
    if out is not None:
        written = (out,)
    show(
        cleaning_document(result, saved=out is not None),
        *written,
        as_json=as_json,
        every=every,
        rows=len(result.frame),
    )
