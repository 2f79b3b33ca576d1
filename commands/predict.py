"""Predict from a run: ``python predict.py RUN DATA... --out FILE.csv`` writes one row per workload, in order."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ParameterError
from ..output import PREDICTION_FORMATS, check_file, check_output
from .options import (
    JsonOption,
    KeepOption,
    LevelOption,
    SetOption,
    TargetCostOption,
    UnitOption,
    WhereOption,
    announce,
    check_data,
    made_by,
    parse_rows,
)

PLACE = 20

OPTIONS = {"row": "--explain"}
FILES = ("explain.json", "explain.html")


def command(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder that train wrote.")],
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Files and folders with workloads, any mix.")],
    interval: LevelOption = 0.9,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write: .csv, .parquet, .json or .xlsx.")
    ] = None,
    where: WhereOption = None,
    unit: UnitOption = None,
    set_: SetOption = None,
    keep: KeepOption = None,
    target_cost: TargetCostOption = None,
    fallback: Annotated[
        str | None,
        typer.Option(metavar="law", help="Answer for what was never trained: law, the roofline at trained rates."),
    ] = None,
    explain: Annotated[
        int | None,
        typer.Option(metavar="ROW", help="Say why that row, counted from 1, is predicted as it is; --out is a folder."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Predict new workloads with a run's model: times with intervals, and what lies outside the trained range."""
    if out is not None and explain is not None:
        check_output(out, FILES, [run, *data])
    elif out is not None:
        check_file(out, PREDICTION_FORMATS, [run, *data])
    settings: dict[str, Any] = {
        **parse_rows(where, unit, set_, keep=keep or ()),
        "target_cost": target_cost,
        "fallback": fallback,
    }
    check_data([run, *data])
    announce(f"loading {run}", quiet=as_json)
    if explain is not None:
        _explain(context, explain, settings)
        return
    gc.set_threshold(200_000, 20, 100)  # neither what is imported nor remarks by the million hold many circles
    from ..api.predicting import predict  # here: what it imports takes seconds, and the options are checked before
    from ..report.predictions import predictions_document, to_json
    from ..report.terminal import show

    gc.freeze()
    prediction = predict(run, data, level=interval, out=None if as_json else out, **settings)
    if as_json:
        if out is not None:
            prediction.save(out)
        print(to_json(prediction.frame, prediction.report), end="")
        return
    found = predictions_document(prediction.frame, prediction.report, whole=out is not None)
    show(found, *([out] if out else []), rows=prediction.report["n"])


def _explain(context: typer.Context, row: int, settings: Mapping[str, Any]) -> None:
    """Show why one row is predicted as it is."""
    from ..api.predicting import explain  # here: what it imports takes seconds
    from ..report.terminal import show

    given = context.params
    for name in ("keep", "fallback"):
        if settings[name]:
            raise ParameterError(name, "changes what is predicted of many rows: leave it out with --explain")
    options = {name: settings[name] for name in ("where", "units", "defaults")}
    found = explain(given["run"], given["data"], row, level=given["interval"], **options)
    out = given["out"]
    if out is not None:
        found.save(out, made_by(context))
    show(found.document(), *(out / name for name in FILES if out is not None), as_json=given["as_json"])
