"""Clean repeated measurements: ``flopcast clean TRACES... -o runs.parquet`` drops what distorts, and says how much."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import values
from ..output import check_tables
from . import options as opt

PLACE = 110
EXAMPLES = ("flopcast clean traces/ -o clean.parquet",)


def command(
    data: Annotated[
        list[Path], typer.Argument(metavar="DATA", help="Traces: files and folders, any formats.")
    ],
    mad: Annotated[
        float | None,
        opt.option("MAD that repeats may lie from their median; 0: no filter.", shown="7"),
    ] = None,
    steps: Annotated[
        str, opt.option("Profiler's steps to keep; A:B is from number A to B.", "stable|all|A:B")
    ] = "stable",
    warm_up: Annotated[
        bool | None,
        opt.option("Leave out warm-up (MSER-5).", spelt="--warm-up/--no-warm-up", shown="warm-up"),
    ] = None,
    golden: Annotated[
        bool, opt.option("Keep the fullest execution-time bin only.", spelt="--golden")
    ] = False,
    join: Annotated[
        bool,
        opt.option(
            "Traces of one program that profile different kernels or counters.", spelt="--join"
        ),
    ] = False,
    cover: Annotated[
        Path | None,
        opt.option("A full trace, or kernel names: prove that all are covered.", "FILE"),
    ] = None,
    epochs: Annotated[
        str | None,
        opt.option(
            "A row per epoch: step, kernels:N, flops:X or marker:REGEX.", "RULE", spelt="--epochs"
        ),
    ] = None,
    out: Annotated[
        Path | None, opt.option("Measurement table: .parquet, .csv or .xlsx.", spelt="--out -o")
    ] = None,
    removed: Annotated[
        Path | None, opt.option("Table of everything left out: .parquet, .csv or .xlsx.", "FILE")
    ] = None,
    default: opt.DefaultOption = None,
    jobs: opt.JobsOption = -1,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Clean repeated measurements in traces: steps, warm-up, outliers; report the spread of each kernel."""
    check_tables({"out": out, "removed": removed}, data)
    columns = values.assigned("default", default)
    opt.announce("reading the traces", quiet=as_json)
    from ..api.cleaning import (
        clean,
    )  # here: what it imports takes seconds, and the options are checked before
    from ..report.cleaning import cleaning_document
    from ..report.terminal import show

    result = clean(
        *data,
        mad=mad,
        steps=steps,
        warm_up=warm_up,
        golden=golden,
        join=join,
        cover=cover,
        epochs=epochs,
        default=columns,
        jobs=jobs,
    )
    if out is not None:
        result.save(out)
    if removed is not None:
        result.save_removed(removed)
    written = () if out is None else (out,)
    show(
        cleaning_document(result, saved=out is not None),
        *written,
        as_json=as_json,
        every=every,
        rows=len(result.frame),
    )
