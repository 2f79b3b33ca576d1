"""Read profilers' and tuners' files: ``flopcast ingest DATA -o runs.parquet`` writes one table, quality checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import values
from ..errors import ParameterError
from ..output import check_table
from . import options as opt

PLACE = 90
EXAMPLES = ("flopcast ingest traces/ -o runs.parquet", "flopcast ingest traces/ --strict")


def command(
    context: typer.Context,
    data: Annotated[
        list[Path], typer.Argument(metavar="DATA", help="Files and folders, any mix of formats.")
    ],
    out: Annotated[
        Path | None,
        opt.option(
            "Table (.parquet, .csv, .xlsx), or a folder for table, JSON and page.", spelt="--out -o"
        ),
    ] = None,
    dispatches: Annotated[
        bool, opt.option("One row per GPU activity, not per shape.", spelt="--dispatches")
    ] = False,
    parts: Annotated[
        bool, opt.option("To a folder, a part per file: memory does not grow.", spelt="--parts")
    ] = False,
    where: opt.WhereOption = None,
    unit: opt.UnitOption = None,
    default: opt.DefaultOption = None,
    rename: opt.RenameOption = None,
    keep: opt.KeepOption = None,
    each: opt.EachOption = False,
    channels: Annotated[
        bool, opt.option("Keep every channel of per-channel counters.", spelt="--channels")
    ] = False,
    strict: Annotated[
        bool, opt.option("Refuse unreadable files and impossible times.", spelt="--strict")
    ] = False,
    max_size: Annotated[
        str | None,
        opt.option(
            "Limit of a decompressed file.",
            "SIZE",
            opt.MORE,
            shown="512M, a binary trace or JSON 4G",
        ),
    ] = None,
    jobs: opt.JobsOption = -1,
    cluster: opt.ClusterOption = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Read profiler traces, counter files and tuner logs into one table, and check their quality."""
    if out is not None and (out.suffix or dispatches) and not parts:
        check_table(out, data=data)
    if dispatches and where:
        raise ParameterError(
            "where",
            "chooses rows of the measurement table: leave it out, or leave out --dispatches",
        )
    settings: dict[str, Any] = {
        **opt.parse_rows(where, unit, default, rename, keep=keep or ()),
        "max_size": values.size("max_size", max_size),
    }
    opt.check_data(data)
    opt.announce("reading", quiet=as_json)
    from ..api.ingesting import (
        FILES,
        ingest,
    )  # here: what it imports takes time, and the options are checked before
    from ..readers.parts import PARTS
    from ..report.formats import counted
    from ..report.terminal import show

    given: dict[str, Any] = {
        "each": each,
        "channels": channels,
        "strict": strict,
        "jobs": jobs,
        "cluster": cluster,
    }
    if out is not None and (parts or not out.suffix):
        given["made"] = opt.made_by(context)
    found = ingest(*data, out=out, dispatches=dispatches, parts=parts, **given, **settings)
    if dispatches:
        nouns = ("activity", "activities")
    else:
        nouns = ("measurement", "measurements")
    held = "" if out is not None else counted(found.rows, *nouns)
    written = (PARTS, *FILES[1:]) if parts else FILES
    if out is None:
        files = []
    elif out.suffix and not parts:
        files = [out]
    else:
        files = [out / name for name in written]
    show(found.document(held), *files, as_json=as_json, every=every, rows=found.rows)
