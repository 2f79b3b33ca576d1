"""Constants of one's own software release: ``flopcast calibrate runs.csv -o mine.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import values
from ..output import check_file, whole_file
from . import options as opt

PLACE = 45
EXAMPLES = ("flopcast calibrate runs.csv --prior vllm-0.10.0 -o mine.toml",)


def command(
    cases: Annotated[
        list[Path],
        typer.Argument(
            metavar="CASES",
            help="CSVs: a row per run, columns as forecast's cases, and measured; or runs of serving.",
        ),
    ],
    out: Annotated[
        Path,
        opt.option("File for forecast --release: .toml, of serving .parquet.", spelt="--out -o"),
    ],
    name: Annotated[str, opt.option("Name of the release.")] = "own",
    prior: Annotated[
        str | None, opt.option("A known release to start from: one or two runs then sharpen it.")
    ] = None,
    default: opt.DefaultOption = None,
    rename: opt.RenameOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Fit launch, scheduling and communication costs to measured runs of a software release, for forecasts.

    Runs of serving (vllm bench serve, ...) are added to those that the forecast of serving has
    learnt from.
    """
    check_file(out, (".toml", ".parquet"), cases)
    columns, names = values.assigned("default", default), values.assigned("rename", rename)
    opt.check_data(cases)
    opt.announce("fitting the constants", quiet=as_json)
    from ..api.forecasting import calibrate, sharpened  # here: what it imports takes seconds
    from ..errors import ParameterError
    from ..report.forecast import MEASURED, learnt_document, release_document
    from ..report.terminal import show
    from ..workloads.releases import as_toml
    from ..workloads.serving_model import ServingModel

    source = ", ".join(path.name for path in cases)
    found = calibrate(*cases, name=name, prior=prior, source=source, default=columns, rename=names)
    learnt = isinstance(found, ServingModel)
    if learnt != (out.suffix == ".parquet"):
        raise ParameterError(
            "out", f"must end in {'.parquet' if learnt else '.toml'} for these runs, got {out}"
        )
    with whole_file(out) as beside:
        if isinstance(found, ServingModel):
            found.save(beside)
        else:
            beside.write_text(as_toml(found), encoding="utf-8")
    if isinstance(found, ServingModel):
        told = learnt_document(found)
    else:
        before, now = sharpened(cases, str(out), names)
        told = release_document(found, before.answers, now.answers, now.table[MEASURED].tolist())
    show(told, out, as_json=as_json)
