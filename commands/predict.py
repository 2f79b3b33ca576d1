"""Predict from a run: ``python predict.py RUN DATA... --out FILE.csv`` writes one row per workload, in order."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated, Any

import typer

from ..output import PREDICTION_FORMATS, check_file
from .options import (
    DefaultOption,
    IntervalOption,
    JsonOption,
    KeepOption,
    RunArgument,
    TargetCostOption,
    UnitOption,
    WhereOption,
    announce,
    check_data,
    parse_rows,
)

PLACE = 20


def command(
    run: RunArgument,
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Files and folders with workloads, any mix.")],
    interval: IntervalOption = 0.9,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write: .csv, .parquet, .json or .xlsx.")
    ] = None,
    where: WhereOption = None,
    unit: UnitOption = None,
    default: DefaultOption = None,
    keep: KeepOption = None,
    target_cost: TargetCostOption = None,
    fallback: Annotated[
        str | None,
        typer.Option(metavar="law", help="Answer for what was never trained: law, the roofline at trained rates."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Predict new workloads with a run's model: times with intervals, and what lies outside the trained range."""
    if out is not None:
        check_file(out, PREDICTION_FORMATS, [run, *data])
    settings: dict[str, Any] = {
        **parse_rows(where, unit, default, keep=keep or ()),
        "target_cost": target_cost,
        "fallback": fallback,
    }
    check_data([run, *data])
    announce(f"loading {run}", quiet=as_json)
    gc.set_threshold(200_000, 20, 100)  # neither what is imported nor remarks by the million hold many circles
    from ..api.predicting import predict  # here: what it imports takes seconds, and the options are checked before
    from ..report.predictions import predictions_document, to_json
    from ..report.terminal import print_json, show

    gc.freeze()
    prediction = predict(run, data, interval=interval, out=None if as_json else out, **settings)
    if as_json:
        if out is not None:
            prediction.save(out)
        print_json(to_json(prediction.frame, prediction.report))
        return
    found = predictions_document(prediction.frame, prediction.report, whole=out is not None)
    show(found, *([out] if out else []), rows=prediction.report["n"])
