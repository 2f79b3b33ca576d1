"""Constants of one's own software release: ``flopcast calibrate runs.csv -o mine.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..output import check_file, whole_file
from .options import JsonOption, announce

PLACE = 140


def command(
    cases: Annotated[
        Path, typer.Argument(metavar="CASES", help="CSV: a row per run, columns as forecast's cases, and measured.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="File of the constants (.toml), for forecast --release.")],
    name: Annotated[str, typer.Option(help="Name of the release.")] = "own",
    prior: Annotated[
        str | None, typer.Option(help="A known release to start from: one or two runs then sharpen it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit launch, scheduling and communication costs to measured runs of a software release, for forecasts."""
    check_file(out, (".toml",), [cases])
    announce("fitting the constants", quiet=as_json)
    from ..api.forecasting import calibrate  # here: what it imports takes seconds
    from ..report.forecast import release_document
    from ..report.terminal import show
    from ..workloads.releases import as_toml

    found = calibrate(cases, name=name, prior=prior, source=cases.name)
    with whole_file(out) as beside:
        beside.write_text(as_toml(found), encoding="utf-8")
    show(release_document(found), out, as_json=as_json)
