"""Does linear scaling hold? ``python validate.py [DATA...] --host MI300X --target MI355X`` answers per kernel class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import check_margin
from ..output import FILES, check_output
from . import options as opt

PLACE = 30
EXAMPLES = (
    "flopcast validate DATA --host MI300X --target MI355X",
    "flopcast validate DATA --host MI300X --target MI355X --margin 0.05",
)


def command(
    context: typer.Context,
    data: opt.DataArgument = None,
    host: opt.HostOption = None,
    target: opt.TargetOption = None,
    where: opt.WhereOption = None,
    group: opt.GroupOption = None,
    margin: opt.MarginOption = 0.10,
    out: Annotated[
        Path | None, opt.option("Folder for validation.json and validation.html.", spelt="--out -o")
    ] = None,
    seed: opt.SeedOption = 0,
    plot: opt.PlotOption = False,
    every: opt.AllOption = False,
    short: opt.ShortOption = False,
    as_json: opt.JsonOption = False,
    metric: opt.MetricOption = "duration_us",
    unit: opt.UnitOption = None,
    default: opt.DefaultOption = None,
    rename: opt.RenameOption = None,
    keep: opt.KeepOption = None,
) -> None:
    """Test whether times (or energy, power) scale linearly from device to device, per class (op × dtype × bound)."""
    check_output(out, FILES["validate"])
    settings: dict[str, Any] = {
        "host": opt.parse_gpu(host),
        "target": opt.parse_gpu(target),
        **opt.parse_rows(where, unit, default, rename, group=group, keep=keep or ()),
    }
    check_margin(margin)
    data = opt.check_data(data)
    opt.announce("reading the measurements", quiet=as_json)
    from ..api.validating import (
        validate,
    )  # here: what it imports takes seconds, and the options are checked before
    from ..report.terminal import show
    from ..report.validation import validation_document

    result = validate(*(data or ()), **settings, margin=margin, metric=metric, seed=seed)
    if out is not None:
        result.save(out, made=opt.made_by(context))
    show(
        validation_document(result, plot=plot),
        *(out / name for name in FILES["validate"] if out is not None),
        as_json=as_json,
        every=every,
        short=short,
    )
