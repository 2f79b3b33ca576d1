"""How many rows to measure: ``flopcast curve DATA --host H100 --target B200 --rows 10,30,100`` says what they give."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import values
from ..errors import check_drawn
from ..output import FILES, check_output
from . import options as opt

PLACE = 71
EXAMPLES = ("flopcast curve DATA --host MI300X --target MI355X --rows 10,30,100 --out curve/",)


def command(
    context: typer.Context,
    data: opt.DataArgument = None,
    host: opt.HostOption = None,
    target: opt.TargetOption = None,
    rows: Annotated[
        str | None,
        opt.option(
            "How many rows of the target are measured.", "N[,N]", shown="10,30,100,300,1000"
        ),
    ] = None,
    draws: Annotated[int, opt.option("How often rows are drawn, and others held out.", min=1)] = 3,
    where: opt.WhereOption = None,
    out: Annotated[
        Path | None, opt.option("Folder for curve.json and curve.html.", spelt="--out -o")
    ] = None,
    group: opt.GroupOption = None,
    models: Annotated[
        str | None,
        opt.option(
            "Run these models only.",
            "NAME[,NAME]",
            shown="Additive,BoostedTrees/Residual,ExtraTrees/Residual",
        ),
    ] = None,
    scheme: Annotated[
        str, opt.option("Which question comes first: new groups (grouped) or known ones (kfold).")
    ] = ("grouped"),
    prior_run: opt.PriorOption = None,
    interval: opt.IntervalOption = 0.9,
    metric: opt.MetricOption = "duration_us",
    unit: opt.UnitOption = None,
    default: opt.DefaultOption = None,
    rename: opt.RenameOption = None,
    keep: opt.KeepOption = None,
    seed: opt.SeedOption = 0,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> None:
    """Say how many rows of the target to measure: error and coverage against their number, with a host and without."""
    check_output(out, FILES["curve"], data or ())
    data = opt.check_data(data)
    settings: dict[str, Any] = opt.parse_rows(
        where, unit, default, rename, group=group, keep=keep or ()
    )
    if (counts := values.counts("rows", rows)) is not None:
        settings["rows"] = check_drawn(counts)
    if (names := values.names("models", models)) is not None:
        settings["models"] = names
    gpus = {"host": opt.parse_gpu(host), "target": opt.parse_gpu(target)}
    from ..report.terminal import shown_progress

    options: dict[str, Any] = {
        "draws": draws,
        "scheme": scheme,
        "interval": interval,
        "metric": metric,
        "seed": seed,
        "prior_run": prior_run,
    }
    with shown_progress(
        "learning curve", first="reading the measurements", quiet=as_json or quiet
    ) as progress:
        from ..api.learning import (
            curve,
        )  # here: what it imports takes seconds, and the options are checked before

        found = curve(*(data or ()), **gpus, **settings, **options, progress=progress)
    opt.finish(context, found, out, as_json=as_json, every=every)
