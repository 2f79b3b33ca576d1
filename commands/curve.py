"""How many rows to measure: ``flopcast curve DATA --host H100 --target B200 --rows 10,30,100`` says what they give."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..output import check_output
from .options import (
    AllOption,
    DataArgument,
    DefaultOption,
    GroupOption,
    HostOption,
    IntervalOption,
    JsonOption,
    KeepOption,
    MetricOption,
    PriorOption,
    QuietOption,
    SeedOption,
    TargetOption,
    UnitOption,
    WhereOption,
    check_data,
    made_by,
    parse_counts,
    parse_gpu,
    parse_names,
    parse_rows,
)

PLACE = 71
EXAMPLES = ("flopcast curve DATA --host MI300X --target MI355X --rows 10,30,100 --out curve/",)

FILES = ("curve.json", "curve.html")


def command(
    context: typer.Context,
    data: DataArgument = None,
    host: HostOption = None,
    target: TargetOption = None,
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="N[,N]", help="How many rows of the target are measured.", show_default="10,30,100,300,1000"
        ),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="How often rows are drawn, and others held out.")] = 3,
    where: WhereOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for curve.json and curve.html.")] = None,
    group: GroupOption = None,
    models: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME]",
            help="Run these models only.",
            show_default="Additive,BoostedTrees/Residual,ExtraTrees/Residual",
        ),
    ] = None,
    scheme: Annotated[str, typer.Option(help="Save the best model for new groups (grouped) or known (kfold).")] = (
        "grouped"
    ),
    prior_run: PriorOption = None,
    interval: IntervalOption = 0.9,
    metric: MetricOption = "duration_us",
    unit: UnitOption = None,
    default: DefaultOption = None,
    keep: KeepOption = None,
    seed: SeedOption = 0,
    every: AllOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say how many rows of the target to measure: error and coverage against their number, with a host and without."""
    if out is not None:
        check_output(out, FILES, data or ())
    data = check_data(data)
    settings: dict[str, Any] = parse_rows(where, unit, default, group=group, keep=keep or ())
    if (counts := parse_counts(rows, "--rows", "10,30,100")) is not None:
        settings["rows"] = counts
    if (names := parse_names(models, "--models", "Additive,Stack")) is not None:
        settings["models"] = names
    gpus = {"host": parse_gpu(host), "target": parse_gpu(target)}
    from ..report.terminal import show, shown_progress

    options: dict[str, Any] = {
        "draws": draws,
        "scheme": scheme,
        "interval": interval,
        "metric": metric,
        "seed": seed,
        "prior_run": prior_run,
    }
    with shown_progress("learning curve", first="reading the measurements", quiet=as_json or quiet) as progress:
        from ..api.learning import curve  # here: what it imports takes seconds, and the options are checked before

        found = curve(data, **gpus, **settings, **options, progress=progress)
    if out is not None:
        found.save(out, made_by(context))
    show(found.document(), *(out / name for name in FILES if out is not None), as_json=as_json, every=every)
