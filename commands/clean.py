"""Clean repeated measurements: ``flopcast clean TRACES... -o runs.parquet`` drops what distorts, and says how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import typer

from ..api.tables import check_jobs
from ..errors import DataError
from ..output import check_table, dumps, write_table
from ..readers import Measurements, Options, TraceFailure, read_traces
from ..readers.files import campaign_of
from ..remarks import remark
from ..report.cleaning import cleaned_json, counter_table, counters_json, coverage_json, show_cleaned, show_coverage
from ..report.console import counted, output, say_written, show_losses
from ..report.words import in_words, say
from ..table.measurements import clean as usable
from ..table.measurements import fill_text
from ..table.problems import merge_duplicates
from ..traces import summary as annotate
from ..traces.cleaning.joining import Coverage, Joined, join_passes, merge_coverage
from ..traces.cleaning.pipeline import Cleaned, CleanOptions
from ..traces.cleaning.pipeline import clean as clean_dispatches
from ..traces.cleaning.repeats import OF_RUN, pool
from ..traces.cleaning.robust import THRESHOLD
from ..traces.cleaning.steady_state import STABLE, step_range
from ..traces.epochs import epochs, matching, parse_rule
from ..traces.summary import measurements
from .options import JobsOption, JsonOption, SetOption, parse_defaults


@dataclass(frozen=True)
class CleanedRuns:
    """What cleaning made of several traces.

    Attributes
    ----------
    sources : tuple of str
        The traces.
    cleaned : Cleaned
        All of them together; column `run` numbers them.
    table : Measurements
        The measurement table of what is left, or its epochs.
    coverage : Coverage or None
        Where a full list was given to prove it against, or runs were joined.
    joined : Joined or None
        Counters of several passes, where these were joined.
    notes, unreadable : tuple of str
    """

    sources: tuple[str, ...]
    cleaned: Cleaned
    table: Measurements
    coverage: Coverage | None
    joined: Joined | None
    notes: tuple[str, ...]
    unreadable: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {
            "schema": 1,
            "sources": list(self.sources),
            **cleaned_json(self.cleaned),
            "rows": len(self.table.frame),
            "rejected": self.table.rejected_by_reason,
            "coverage": None if self.coverage is None else coverage_json(self.coverage),
            "counters": None if self.joined is None else counters_json(self.joined),
            "notes": [*map(say, self.cleaned.notes), *self.notes],
            "unreadable": list(self.unreadable),
        }


def clean_traces(
    paths: Sequence[Path],
    options: CleanOptions | None = None,
    *,
    join: bool = False,
    cover: Path | None = None,
    by: str | None = None,
    reading: Options | None = None,
    jobs: int = -1,
) -> CleanedRuns:
    """Read traces, clean them together, and summarise what is left as measurements.

    Parameters
    ----------
    paths : sequence of path
        Files and folders with traces; several are repeated runs.
    options : CleanOptions, optional
    join : bool
        The traces are runs of one program that profile different kernels or counters: they are matched kernel by
        kernel, must not contradict each other, and counters go to every run with times.
    cover : Path, optional
        A trace that has every kernel of the program, or a text file with a kernel name per line: the runs must have
        them all between them.
    by : str, optional
        A row for each epoch instead of each operator and shape (`traces.epochs.parse_rule`); markers are the user's
        annotations where one matches. Of the options only the steps count then: an epoch without some of its kernels is
        none, so outliers and warm-up stay in.
    reading : Options, optional
        What the user states about the files.
    jobs : int
        Processes; -1: one per core.

    Raises
    ------
    DataError
        Nothing can be read or is left, an option is impossible, or runs that are to be joined contradict each other.
    """
    check_jobs(jobs)
    options, reading = options or CleanOptions(), reading or Options()
    rule = None if by is None else parse_rule(by)
    if rule is not None:
        options = CleanOptions(None, options.steps, False, False, options.level)
        reading = replace(reading, ranges=rule.by == "marker")
    traces, unreadable = _read(paths, reading, jobs)
    tables = {label: trace.dispatches for label, trace in traces.items()}
    coverage = merge_coverage(tables, _full(cover, reading, jobs)) if join or cover is not None else None
    joined = join_passes(tables) if join and any(_counted(table) for table in tables.values()) else None
    tables = tables if joined is None else joined.dispatches
    steps = pool([traces[label].steps for label in tables])
    cleaned = clean_dispatches(pool(list(tables.values())), steps, options)
    runs = cleaned.dispatches[OF_RUN].to_numpy()
    parts, cuts = [], list[str]()
    for number, label in enumerate(tables):
        own = cleaned.dispatches[runs == number].drop(columns=OF_RUN).reset_index(drop=True)
        if own.empty:
            continue
        campaign, ranges = campaign_of(Path(label)), traces[label].ranges
        if rule is None:
            parts.append(measurements(annotate.Annotated(own, traces[label].steps, (), ()), campaign))
            continue
        parts.append(epochs(own, rule, campaign, ranges=ranges))
        if count := len(matching(ranges, rule)):
            cuts.append(say(remark("cut-by-ranges", label=label, rule=str(rule), matched=count, ranges=len(ranges))))
    found = usable(pd.concat(parts, ignore_index=True))
    frame = fill_text(found.frame) if rule is not None else _merged(found.frame)
    notes = [*cuts, *in_words(note for label in tables for note in traces[label].notes)]
    notes += [] if joined is None else map(say, joined.notes)
    table = Measurements(frame, found.rejected)
    once = tuple(dict.fromkeys(notes))
    return CleanedRuns(tuple(traces), cleaned, table, coverage, joined, once, tuple(unreadable))


def command(
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Traces: files and folders, any formats.")],
    mad: Annotated[
        float | None, typer.Option(help="MAD that repeats may lie from their median; 0: no filter.", show_default="7")
    ] = None,
    steps: Annotated[
        str, typer.Option(metavar="stable|all|A:B", help="Profiler's steps to keep; A:B is from number A to B.")
    ] = STABLE,
    warm_up: Annotated[
        bool | None,
        typer.Option("--warm-up/--no-warm-up", help="Leave out warm-up (MSER-5).", show_default="warm-up"),
    ] = None,
    golden: Annotated[bool, typer.Option("--golden", help="Keep the fullest execution-time bin only.")] = False,
    join: Annotated[
        bool, typer.Option("--join", help="Traces of one program that profile different kernels or counters.")
    ] = False,
    cover: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A full trace, or kernel names: prove that all are covered.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--epochs", metavar="RULE", help="A row per epoch: step, kernels:N, flops:X or marker:REGEX."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Measurement table: .parquet or .csv.")] = None,
    removed: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table of everything left out: .parquet or .csv.")
    ] = None,
    set_: SetOption = None,
    jobs: JobsOption = -1,
    as_json: JsonOption = False,
) -> None:
    """Clean repeated measurements in traces: steps, warm-up, outliers; report the spread of each kernel."""
    for parameter, path in (("out", out), ("removed", removed)):
        if path is not None:
            check_table(path, parameter)
    if by is not None:
        _check_epoch_options({"--mad": mad or None, "--warm-up": warm_up or None, "--golden": golden or None})
    mad = THRESHOLD if mad is None else mad
    if mad < 0 or not np.isfinite(mad):
        raise DataError(f"--mad must be 0 or more, got {mad:g}: {THRESHOLD:g} is usual")
    step_range(steps)
    options = CleanOptions(mad or None, steps, warm_up is not False, golden)
    reading = Options({}, parse_defaults(set_))
    result = clean_traces(data, options, join=join, cover=cover, by=by, reading=reading, jobs=jobs)
    if out is not None:
        _write(result.table.frame, out, result)
    if removed is not None:
        _write(result.cleaned.removed, removed, result)
    if as_json:
        print(dumps(result.to_dict(), missing=True), end="")
        return
    _show(result, options, out)


def _check_epoch_options(asked: Mapping[str, Any]) -> None:
    """Refuse what would take kernels out of an epoch."""
    if given := [option for option, value in asked.items() if value is not None]:
        raise DataError(
            f"{' and '.join(given)} would take kernels out of the epochs, which are no whole epochs then: leave "
            f"{'it' if len(given) == 1 else 'them'} out with --epochs"
        )


def _show(result: CleanedRuns, options: CleanOptions, out: Path | None) -> None:
    console = output()
    show_cleaned(console, result.cleaned, options.level)
    if result.coverage is not None:
        show_coverage(console, result.coverage)
    if result.joined is not None:
        console.print(counter_table(result.joined))
    show_losses(console, result.table.rejected_by_reason, result.notes, result.unreadable)
    if out is None:
        console.print(counted(len(result.table.frame), "measurement"), highlight=False)
    else:
        say_written(console, out, rows=len(result.table.frame))


def _read(paths: Sequence[Path], reading: Options, jobs: int) -> tuple[dict[str, annotate.Annotated], list[str]]:
    """Return the traces that have activities of a GPU, and why others cannot be read."""
    traces: dict[str, annotate.Annotated] = {}
    unreadable: list[str] = []
    for label, found in read_traces(paths, options=reading, jobs=jobs):
        if isinstance(found, TraceFailure):
            unreadable.append(str(found.error))
        elif len(found.dispatches):
            traces[label] = found
        else:
            unreadable.append(f"{label}: no activity of a GPU")
    if not traces:
        among = f"no trace among {', '.join(map(str, paths))}: `flopcast ingest` says what the files are"
        raise DataError(f"no trace to clean: {'; '.join(unreadable)}" if unreadable else among)
    return traces, unreadable


def _full(cover: Path | None, reading: Options, jobs: int) -> pd.DataFrame | None:
    """Return every kernel of the program: those of a trace, or the lines of a text file."""
    if cover is None:
        return None
    if cover.suffix.lower() in (".txt", ".lst"):
        try:
            lines = [line.strip() for line in cover.read_text(encoding="utf-8").splitlines()]
        except UnicodeDecodeError:
            raise DataError("is no UTF-8 text: write one kernel name per line", source=str(cover)) from None
        if not (names := [line for line in lines if line]):
            raise DataError("has no kernel name: write one per line, as often as the kernel runs", source=str(cover))
        return pd.DataFrame({"name": names})
    traces, _ = _read([cover], reading, jobs)
    if len(traces) > 1:
        raise DataError(f"holds {len(traces)} traces: give the one that has every kernel", source=str(cover))
    return next(iter(traces.values())).dispatches


def _counted(table: pd.DataFrame) -> bool:
    return any(str(name).startswith("counter.") for name in table)


def _merged(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each kernel on each problem, as `ingest` writes them."""
    return fill_text(merge_duplicates(fill_text(frame))) if len(frame) else frame


def _write(frame: pd.DataFrame, out: Path, result: CleanedRuns) -> None:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    write_table(table, out, dumps(result.to_dict(), missing=True))
