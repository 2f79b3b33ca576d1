"""Run the benchmarks: ``python -m flopcast.benchmarks [--quick | --full] [--json]`` (``make bench``)."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from ..report.terminal import output
from .features import features
from .harness import TURN_SECONDS, Comparison, Row, compare
from .models import Report, models
from .peers import CASES, FAST, against_time, made_up, measured
from .predicting import predicting
from .ranks import ranks
from .readers import files, readers
from .scale_out import scale_out
from .shared_data import SHARED_DATA
from .start_up import start_up
from .stepwise_peers import selection
from .traces import traces

TASKS = "Shortest of several runs, one BLAS thread; ratio: time over that of flopcast"
TRAINING = "One run each, one thread a process"
PARTS = ("tasks", "models", "training", "all")


def comparisons(quick: bool, full: bool, data: Path) -> Iterator[Comparison]:
    """Yield every comparison; ``quick`` takes the smallest sizes, ``full`` adds peers that take a minute and more."""
    yield from selection(quick, full)
    yield from readers(data)
    for count in (100,) if quick else (1_000, 10_000):
        yield from files(count)
    yield from traces(data, 30 if quick else 300)
    yield from features([100] if quick else [1_000, 10_000, 100_000])
    yield from predicting([100]) if quick else predicting([10_000, 100_000, 1_000_000])


def training(quick: bool, full: bool, data: Path) -> Iterator[Row]:
    """Yield error against time beside peers, growth with the rows, ranks ingested, and workers of a cluster."""
    for name, case in CASES.items() if data.is_dir() and not quick else ():
        if full or name == "AITER":
            yield from against_time(name, measured(case, data))
    for n in (300,) if quick else (1000, 4000, 13_000, 50_000):
        yield from against_time("made up", made_up(n), FAST)
    counts = (2,) if quick else (10, 50, 200) if full else (10, 50)
    yield from ranks(counts, 1 if quick else 20)
    if importlib.util.find_spec("distributed"):
        yield from scale_out(300 if quick else 1000, (1, 2))


def table(rows: Sequence[Row], title: str = TASKS) -> Table:
    """Return the rows as a table; the ratio is to the time of flopcast."""
    shown = Table(title=title)
    for heading in ("task", "who"):
        shown.add_column(heading)
    for heading in ("time", "ratio", "µs/row", "peak MB"):
        shown.add_column(heading, justify="right")
    shown.add_column("answer")
    task = ""
    for row in rows:
        if row.task != task:
            shown.add_section()
        shown.add_row(
            row.task if row.task != task else "",
            row.name,
            _time(row.seconds),
            _number(row.ratio),
            _number(row.us_per_item),
            _number(row.peak_mb),
            row.note,
        )
        task = row.task
    return shown


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    scale, unit = next(
        (s, u) for s, u in ((1, "s"), (1e3, "ms"), (1e6, "µs")) if seconds * s >= 1 or u == "µs"
    )
    return f"{seconds * scale:.3g} {unit}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return "<0.01" if value < 0.01 else f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and return 1 where an answer differed from ours or a peer failed, else 0."""
    parser = argparse.ArgumentParser(
        prog="python -m flopcast.benchmarks", description="Compare flopcast with peers."
    )
    parser.add_argument("--quick", action="store_true", help="smallest sizes, one call each")
    parser.add_argument(
        "--full",
        action="store_true",
        help="also what takes long: every fold, both suites, slow peers",
    )
    parser.add_argument(
        "--part",
        choices=PARTS,
        default="all",
        help="tasks with peers, the suite's models, whole trainings, or all",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--data", type=Path, default=SHARED_DATA, help="folder of measured data (aiter/, miopen/)"
    )
    options = parser.parse_args(arguments)
    # the models first: their peaks are those of the process, and a trace of 300 MB would raise them
    # for good
    parts = PARTS[:-1] if options.part == "all" else (options.part,)
    report = models(options.quick, options.full) if "models" in parts else Report()
    rows: list[Row] = []
    for comparison in (
        comparisons(options.quick, options.full, options.data) if "tasks" in parts else ()
    ):
        print(f"{comparison.task} ...", file=sys.stderr, flush=True)
        rows += compare(
            comparison, 1 if options.quick else 3, 0.0 if options.quick else TURN_SECONDS
        )
    rows += report.compared
    rows += start_up(1 if options.quick else 5) if "tasks" in parts else []
    if "training" in parts:
        report.measured += (trained := [*training(options.quick, options.full, options.data)])
        report.tables.append(table(trained, TRAINING))
    if options.json:
        print(json.dumps([asdict(row) for row in (*rows, *report.measured)], indent=1))
    else:
        console = output()
        for shown in (table(rows), *report.tables):
            console.print(shown)
        for line in report.lines:
            console.print(line, markup=False)
        if not options.data.is_dir():
            console.print(
                f"Readers skipped: there are no measured data at {options.data}", markup=False
            )
    return int(any(row.note.startswith(("differs", "failed")) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
