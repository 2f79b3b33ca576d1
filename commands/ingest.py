"""Read profilers' and tuners' files: ``flopcast ingest PATHS -o runs.parquet`` writes one table, quality checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..api.ingesting import ingest_dispatches, ingest_measurements
from ..errors import DataError
from ..output import check_table
from ..readers import Options
from ..report.console import counted, output, say_written, show_losses
from ..report.ingest import show_traces
from ..report.words import in_words
from .options import (
    EachOption,
    JobsOption,
    JsonOption,
    SetOption,
    UnitOption,
    WhereOption,
    parse_defaults,
    parse_size,
    parse_units,
    parse_where,
)


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="PATHS...", help="Files and folders, any mix of formats.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Table to write: .parquet or .csv.")] = None,
    dispatches: Annotated[bool, typer.Option("--dispatches", help="One row per GPU activity, not per shape.")] = False,
    where: WhereOption = None,
    unit: UnitOption = None,
    set_: SetOption = None,
    each: EachOption = False,
    channels: Annotated[bool, typer.Option("--channels", help="Keep every channel of per-channel counters.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse unreadable files and impossible times.")] = False,
    max_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Limit of a decompressed file, e.g. 500M, 16G.")
    ] = "16G",
    jobs: JobsOption = -1,
    as_json: JsonOption = False,
) -> None:
    """Read profiler traces, counter files and tuner logs into one table, and check their quality."""
    if out is not None:
        check_table(out)
    options = Options(
        parse_units(unit), parse_defaults(set_), each=each, channels=channels, max_bytes=parse_size(max_size)
    )
    if dispatches and where:
        raise DataError("--where chooses rows of the measurement table: leave it out, or leave out --dispatches")
    if dispatches:
        found = ingest_dispatches(paths, out, options=options, strict=strict, jobs=jobs)
    else:
        found = ingest_measurements(paths, out, where=parse_where(where), options=options, strict=strict, jobs=jobs)
    if as_json:
        print(found.to_json(), end="")
        return
    console = output()
    show_traces(console, found.traces)
    show_losses(console, found.rejected, in_words(found.notes), found.unreadable)
    if out is None:
        nouns = ("activity", "activities") if dispatches else ("measurement", "measurements")
        console.print(counted(found.rows, *nouns), highlight=False)
    else:
        say_written(console, out, rows=found.rows)
