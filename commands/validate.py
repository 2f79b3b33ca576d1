"""Does linear scaling hold? ``python validate.py [DATA...] --host MI300X --target MI355X`` answers per kernel class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..api.validating import FILES, validate, write_validation
from ..output import check_output
from ..report.terminal import show
from ..report.validation import validation_document
from .options import (
    DataArgument,
    GroupOption,
    JsonOption,
    MetricOption,
    SeedOption,
    SetOption,
    UnitOption,
    WhereOption,
    parse_defaults,
    parse_group,
    parse_units,
    parse_where,
)


def command(
    data: DataArgument = None,
    host: Annotated[str | None, typer.Option(help="Measured device: a name or a TOML file.")] = None,
    target: Annotated[str | None, typer.Option(help="Device to scale to: a name or a TOML file.")] = None,
    where: WhereOption = None,
    group: GroupOption = None,
    margin: Annotated[float, typer.Option(help="What counts as the same: 0.1 = within ±10 %.")] = 0.10,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for validation.json and validation.html.")
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    metric: MetricOption = "duration_us",
    unit: UnitOption = None,
    set_: SetOption = None,
) -> None:
    """Test whether times (or energy, power) scale linearly from device to device, per class (op × dtype × bound)."""
    if out is not None:
        check_output(out, FILES)
    result = validate(
        data,
        host=host,
        target=target,
        where=parse_where(where),
        group=parse_group(group),
        margin=margin,
        metric=metric,
        units=parse_units(unit),
        defaults=parse_defaults(set_),
        seed=seed,
    )
    if out is not None:
        write_validation(result, out)
    show(validation_document(result), *(out / name for name in FILES if out is not None), as_json=as_json)
