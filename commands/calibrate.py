"""Constants of one's own software release: ``flopcast calibrate runs.csv -o mine.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..output import check_file
from . import options as opt
from .derived import as_taken, with_options_of

PLACE = 45
EXAMPLES = ("flopcast calibrate runs.csv --prior vllm-0.10.0 -o mine.toml",)


@with_options_of("calibrate", {}, ("cases", "source"))
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
    *,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Fit launch, scheduling and communication costs to measured runs of a software release, for forecasts.

    Runs of serving (vllm bench serve, ...) are added to those that the forecast of serving has
    learnt from.
    """
    check_file(out, (".toml", ".parquet"), cases)
    asked = as_taken("calibrate", given)
    opt.check_data(cases)
    opt.announce("fitting the constants", quiet=as_json)
    # here: what it imports takes seconds
    from ..api.forecasting import CalibratedServing, calibrate
    from ..errors import ParameterError
    from ..report.terminal import show

    source = ", ".join(path.name for path in cases)
    served = calibrate(*cases, source=source, **asked)
    learnt = isinstance(served, CalibratedServing)
    if learnt != (out.suffix == ".parquet"):
        raise ParameterError(
            "out", f"must end in {'.parquet' if learnt else '.toml'} for these runs, got {out}"
        )
    served.save(out)
    show(served.document(), out, as_json=as_json)
