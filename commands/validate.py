"""Does linear scaling hold? ``python validate.py [DATA...] --host MI300X --target MI355X`` answers per kernel class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import check_margin
from ..output import check_output
from .options import (
    AllOption,
    DataArgument,
    DefaultOption,
    GroupOption,
    HostOption,
    JsonOption,
    KeepOption,
    MarginOption,
    MetricOption,
    PlotOption,
    SeedOption,
    TargetOption,
    UnitOption,
    WhereOption,
    announce,
    check_data,
    made_by,
    parse_gpu,
    parse_rows,
)

PLACE = 30
EXAMPLES = (
    "flopcast validate DATA --host MI300X --target MI355X",
    "flopcast validate DATA --host MI300X --target MI355X --margin 0.05",
)

FILES = ("validation.json", "validation.html")


def command(
    context: typer.Context,
    data: DataArgument = None,
    host: HostOption = None,
    target: TargetOption = None,
    where: WhereOption = None,
    group: GroupOption = None,
    margin: MarginOption = 0.10,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for validation.json and validation.html.")
    ] = None,
    seed: SeedOption = 0,
    plot: PlotOption = False,
    every: AllOption = False,
    as_json: JsonOption = False,
    metric: MetricOption = "duration_us",
    unit: UnitOption = None,
    default: DefaultOption = None,
    keep: KeepOption = None,
) -> None:
    """Test whether times (or energy, power) scale linearly from device to device, per class (op × dtype × bound)."""
    if out is not None:
        check_output(out, FILES)
    settings: dict[str, Any] = {
        "host": parse_gpu(host),
        "target": parse_gpu(target),
        **parse_rows(where, unit, default, group=group, keep=keep or ()),
    }
    check_margin(margin)
    data = check_data(data)
    announce("reading the measurements", quiet=as_json)
    from ..api.validating import validate  # here: what it imports takes seconds, and the options are checked before
    from ..report.terminal import show
    from ..report.validation import validation_document

    result = validate(data, **settings, margin=margin, metric=metric, seed=seed)
    if out is not None:
        result.save(out, made_by(context))
    show(
        validation_document(result, plot=plot),
        *(out / name for name in FILES if out is not None),
        as_json=as_json,
        every=every,
    )
