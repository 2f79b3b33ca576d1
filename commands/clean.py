"""Clean repeated measurements: ``flopcast clean TRACES... -o runs.parquet`` drops what distorts, and says how much."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ParameterError
from ..output import check_table
from .options import AllOption, DefaultOption, JobsOption, JsonOption, announce, parse_defaults

PLACE = 110
EXAMPLES = ("flopcast clean traces/ -o clean.parquet",)


def command(
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Traces: files and folders, any formats.")],
    mad: Annotated[
        float | None, typer.Option(help="MAD that repeats may lie from their median; 0: no filter.", show_default="7")
    ] = None,
    steps: Annotated[
        str, typer.Option(metavar="stable|all|A:B", help="Profiler's steps to keep; A:B is from number A to B.")
    ] = "stable",
    warm_up: Annotated[
        bool | None,
        typer.Option("--warm-up/--no-warm-up", help="Leave out warm-up (MSER-5).", show_default="warm-up"),
    ] = None,
    golden: Annotated[bool, typer.Option("--golden", help="Keep the fullest execution-time bin only.")] = False,
    join: Annotated[
        bool, typer.Option("--join", help="Traces of one program that profile different kernels or counters.")
    ] = False,
    cover: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A full trace, or kernel names: prove that all are covered.")
    ] = None,
    epochs: Annotated[
        str | None,
        typer.Option("--epochs", metavar="RULE", help="A row per epoch: step, kernels:N, flops:X or marker:REGEX."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Measurement table: .parquet, .csv or .xlsx.")] = None,
    removed: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table of everything left out: .parquet, .csv or .xlsx.")
    ] = None,
    default: DefaultOption = None,
    jobs: JobsOption = -1,
    every: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Clean repeated measurements in traces: steps, warm-up, outliers; report the spread of each kernel."""
    for parameter, path in (("out", out), ("removed", removed)):
        if path is not None:
            check_table(path, parameter, data)
    if out is not None and removed is not None and out.resolve() == removed.resolve():
        raise ParameterError("removed", f"must be another file than --out, got {str(removed)!r}")
    columns = parse_defaults(default)
    announce("reading the traces", quiet=as_json)
    from ..api.cleaning import clean  # here: what it imports takes seconds, and the options are checked before
    from ..report.cleaning import cleaning_document
    from ..report.terminal import show

    result = clean(
        data,
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
        cleaning_document(result, saved=out is not None), *written, as_json=as_json, every=every, rows=len(result.frame)
    )
