"""Predict from a run: ``python predict.py RUN DATA... --out FILE.csv`` writes one row per workload, in order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..api.predicting import predict, write
from ..report.predictions import check_file, predictions_document, to_json
from ..report.terminal import show
from .options import (
    JsonOption,
    LevelOption,
    SetOption,
    UnitOption,
    WhereOption,
    parse_defaults,
    parse_units,
    parse_where,
)


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder that train wrote.")],
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Files and folders with workloads, any mix.")],
    interval: LevelOption = 0.9,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write: .csv, .parquet or .json.")] = None,
    where: WhereOption = None,
    unit: UnitOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict new workloads with a run's model: times with intervals, and what lies outside the trained range."""
    if out is not None:
        check_file(out, data)
    prediction = predict(
        run,
        data,
        interval=interval,
        where=parse_where(where),
        units=parse_units(unit),
        defaults=parse_defaults(set_),
    )
    if out is not None:
        write(prediction, out)
    if as_json:
        print(to_json(prediction.frame, prediction.report), end="")
        return
    found = predictions_document(prediction.frame, prediction.report, whole=out is not None)
    show(found, *([out] if out else []), rows=len(prediction.frame))
