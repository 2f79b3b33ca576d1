"""Read profilers' and tuners' files: ``flopcast ingest DATA -o runs.parquet`` writes one table, quality checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ParameterError
from ..output import check_table
from .options import (
    MORE,
    AllOption,
    ClusterOption,
    DefaultOption,
    EachOption,
    JobsOption,
    JsonOption,
    KeepOption,
    RenameOption,
    UnitOption,
    WhereOption,
    announce,
    check_data,
    made_by,
    parse_renames,
    parse_rows,
    parse_size,
)

PLACE = 90
EXAMPLES = ("flopcast ingest traces/ -o runs.parquet", "flopcast ingest traces/ --strict")


def command(
    context: typer.Context,
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Files and folders, any mix of formats.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Table (.parquet, .csv, .xlsx), or a folder for table, JSON and page."),
    ] = None,
    dispatches: Annotated[bool, typer.Option("--dispatches", help="One row per GPU activity, not per shape.")] = False,
    parts: Annotated[bool, typer.Option("--parts", help="To a folder, a part per file: memory does not grow.")] = False,
    where: WhereOption = None,
    unit: UnitOption = None,
    default: DefaultOption = None,
    rename: RenameOption = None,
    keep: KeepOption = None,
    each: EachOption = False,
    channels: Annotated[bool, typer.Option("--channels", help="Keep every channel of per-channel counters.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse unreadable files and impossible times.")] = False,
    max_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Limit of a decompressed file.",
            show_default="512M, a binary trace or JSON 4G",
            rich_help_panel=MORE,
        ),
    ] = None,
    jobs: JobsOption = -1,
    cluster: ClusterOption = None,
    every: AllOption = False,
    as_json: JsonOption = False,
) -> None:
    """Read profiler traces, counter files and tuner logs into one table, and check their quality."""
    if out is not None and (out.suffix or dispatches) and not parts:
        check_table(out, data=data)
    if dispatches and where:
        raise ParameterError("where", "chooses rows of the measurement table: leave it out, or leave out --dispatches")
    settings: dict[str, Any] = {
        **parse_rows(where, unit, default, keep=keep or ()),
        "rename": parse_renames(rename),
        "max_size": None if max_size is None else parse_size(max_size),
    }
    check_data(data)
    announce("reading", quiet=as_json)
    from ..api.ingesting import FILES, ingest  # here: what it imports takes time, and the options are checked before
    from ..readers.parts import PARTS
    from ..report.formats import counted
    from ..report.terminal import show

    given: dict[str, Any] = {"each": each, "channels": channels, "strict": strict, "jobs": jobs, "cluster": cluster}
    if out is not None and (parts or not out.suffix):
        given["made"] = made_by(context)
    found = ingest(data, out, dispatches=dispatches, parts=parts, **given, **settings)
    nouns = ("activity", "activities") if dispatches else ("measurement", "measurements")
    held = "" if out is not None else counted(found.rows, *nouns)
    written = (PARTS, *FILES[1:]) if parts else FILES
    files = [] if out is None else [out] if out.suffix and not parts else [out / name for name in written]
    show(found.document(held), *files, as_json=as_json, every=every, rows=found.rows)
