"""Which counters to record: ``flopcast counters DATA... --host A --target B`` weighs profiling passes against error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..output import check_file
from .options import (
    AllOption,
    DefaultOption,
    GroupOption,
    HostOption,
    JobsOption,
    JsonOption,
    MetricOption,
    QuietOption,
    SeedOption,
    UnitOption,
    WhereOption,
    WithoutFeaturesOption,
    check_data,
    parse_assigned_counts,
    parse_gpu,
    parse_rows,
)

PLACE = 80
EXAMPLES = ("flopcast counters profiles/ --host MI300X --target MI355X --max-passes 2 --out pmc.txt",)


def command(
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Measured files and folders, with counters.")],
    target: Annotated[
        str,
        typer.Option(
            metavar="GPU", help="Device to predict: a name or a TOML file; to train over several, their names or all."
        ),
    ],
    host: HostOption = None,
    max_passes: Annotated[int, typer.Option(help="Most passes of the profiler to try.")] = 2,
    without_features: WithoutFeaturesOption = None,
    per_pass: Annotated[
        list[str] | None,
        typer.Option(metavar="BLOCK=N", help="Counters of a hardware block in a pass, e.g. SQ=8 (repeatable)."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Input file for rocprofv3 to write: .txt.")] = None,
    where: WhereOption = None,
    group: GroupOption = None,
    metric: MetricOption = "duration_us",
    unit: UnitOption = None,
    default: DefaultOption = None,
    seed: SeedOption = 0,
    jobs: JobsOption = -1,
    every: AllOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say which few hardware counters keep the accuracy, with how many passes of the profiler.

    Each --without-features also says what a family of features is worth.
    """
    if out is not None:
        check_file(out, (".txt",), data)
    settings: dict[str, Any] = {
        "host": parse_gpu(host),
        "target": parse_gpu(target),
        "max_passes": max_passes,
        "without_features": without_features or (),
        "per_pass": parse_assigned_counts(per_pass, "--per-pass", "SQ=8"),
        **parse_rows(where, unit, default, group=group),
    }
    check_data(data)
    from ..report.terminal import shown_progress

    with shown_progress("cross-validation", first="reading the measurements", quiet=as_json or quiet) as progress:
        from ..api.profilers import counters  # here: what it imports takes seconds, and the options are checked before

        found = counters(data, **settings, metric=metric, seed=seed, jobs=jobs, progress=progress)
    if out is not None:
        found.save(out)
    from ..report.terminal import show

    show(found.document(), *([out] if out else []), as_json=as_json, every=every)
