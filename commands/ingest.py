"""Read profilers' and tuners' files: ``flopcast ingest DATA -o runs.parquet`` writes one table, quality checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..output import check_table
from . import options as opt
from .derived import as_taken, with_options_of

PLACE = 90
EXAMPLES = ("flopcast ingest traces/ -o runs.parquet", "flopcast ingest traces/ --strict")


@with_options_of("ingest", {opt.MORE: ("max_size",)}, ("data", "out", "overwrite", "made"))
def command(
    context: typer.Context,
    data: Annotated[
        list[Path], typer.Argument(metavar="DATA", help="Files and folders, any mix of formats.")
    ],
    *,
    out: Annotated[
        Path | None,
        opt.option(
            "Table (.parquet, .csv, .xlsx), or a folder for table, JSON and page.", spelt="--out -o"
        ),
    ] = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Read profiler traces, counter files and tuner logs into one table, and check their quality."""
    dispatches = given["dispatches"]
    parts = given["parts"]
    if out is not None and (out.suffix or dispatches) and not parts:
        check_table(out, data=data)
    settings = as_taken("ingest", given)
    opt.check_data(data)
    opt.announce("reading", quiet=as_json)
    # here: what it imports takes time, and the options are checked before
    from ..api.ingesting import FILES, ingest
    from ..readers.parts import PARTS
    from ..report.formats import counted
    from ..report.terminal import show

    if out is not None and (parts or not out.suffix):
        settings["made"] = opt.made_by(context)
    result = ingest(*data, out=out, **settings)
    if dispatches:
        nouns = ("activity", "activities")
    else:
        nouns = ("measurement", "measurements")
    held = ""
    if out is None:
        held = counted(result.rows, *nouns)
    written = FILES
    if parts:
        written = (PARTS, *FILES[1:])
    if out is None:
        files = []
    elif out.suffix and not parts:
        files = [out]
    else:
        files = [out / name for name in written]
    show(result.document(held), *files, as_json=as_json, every=every, rows=result.rows)
