"""Predict from a run: ``python predict.py RUN DATA... --out FILE.csv`` writes one row per workload, in order."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated, Any

import typer

from ..datasets.embedded import is_shipped
from ..output import PREDICTION_FORMATS, check_file
from . import options as opt
from .derived import as_taken, with_options_of

PLACE = 20
EXAMPLES = (
    "flopcast predict runs/mine new.csv --out predictions.csv",
    "flopcast predict shipped products.csv --target MI300X",
)


@with_options_of("predict", {}, ("run", "data", "out", "overwrite"))
def command(
    context: typer.Context,
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="Run folder that train wrote, or shipped: kernels of MI300X and MI355X.",
        ),
    ],
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA", help="Files and folders with workloads, any mix."),
    ],
    *,
    out: Annotated[
        Path | None,
        opt.option(
            "File to write: rows to .csv, .parquet, .json or .xlsx, a page to .html.",
            spelt="--out -o",
        ),
    ] = None,
    need: opt.NeedOption = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Predict new workloads with a run's model: times with intervals, and what lies outside the trained range."""
    read = data
    if not is_shipped(run):
        read = [run, *data]
    check_file(out, PREDICTION_FORMATS, read)
    settings = as_taken("predict", given)
    opt.check_data(read)
    opt.check_needed(need)
    opt.announce(f"loading {run}", quiet=as_json)
    # neither what is imported nor remarks by the million hold many circles
    gc.set_threshold(200_000, 20, 100)
    # here: what it imports takes seconds, and the options are checked before
    from ..api.predicting import predict
    from ..report.predictions import predictions_document, to_json
    from ..report.terminal import print_json, show

    gc.freeze()
    # batches go to the file as they come; what has the need of the rows, or how the page was made, follows
    at_last = as_json or (out is not None and out.suffix.lower() == ".html")
    prediction = predict(run, *data, out=None if at_last else out, **settings)
    remark_of_need = None
    if need is not None:
        from ..api.checking import needed

        rows = {
            name: value
            for name, value in settings.items()
            if name in ("where", "unit", "default", "rename", "target")
        }
        remark_of_need = needed(run, need, *data, half_width=prediction.half_width(), **rows).told
        prediction.summary["need"] = remark_of_need.to_dict()
    if at_last and out is not None:
        opt.save_file(context, prediction, out)
    if as_json:
        print_json(to_json(prediction.frame, prediction.summary))
        return
    document = predictions_document(prediction.frame, prediction.summary, whole=out is not None)
    if remark_of_need is not None:
        document = document.with_remark("need", remark_of_need)
    show(document, *([out] if out else []), rows=prediction.summary["n"], every=every)
