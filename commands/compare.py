"""Two runs side by side: ``flopcast compare RUN1 RUN2`` says what differs, and whether by more than chance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..output import check_output
from .options import JsonOption, LevelOption, SeedOption, announce, check_data

FILES = ("compare.json", "compare.html")


def command(
    first: Annotated[Path, typer.Argument(metavar="RUN1", help="Run folder that train wrote.")],
    second: Annotated[Path, typer.Argument(metavar="RUN2", help="Another.")],
    interval: LevelOption = 0.95,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for compare.json and compare.html.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs: settings, data, errors by model and group, and a paired test on their common rows."""
    if out is not None:
        check_output(out, FILES, [first, second])
    check_data([first, second])
    announce("reading both", quiet=as_json)
    from ..api.comparing import compare  # here: what it imports takes seconds, and the options are checked before
    from ..report.terminal import show

    found = compare(first, second, level=interval, seed=seed)
    if out is not None:
        found.save(out)
    show(found.document(), *(out / name for name in FILES if out is not None), as_json=as_json)
