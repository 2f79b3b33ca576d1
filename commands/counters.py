"""Which counters to record: ``flopcast counters DATA... --host A --target B`` weighs profiling passes against error."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import values
from ..output import check_file
from . import options as opt

PLACE = 80
EXAMPLES = (
    "flopcast counters profiles/ --host MI300X --target MI355X --max-passes 2 --out pmc.txt",
)


def command(
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA", help="Measured files and folders, with counters."),
    ],
    target: Annotated[
        str,
        opt.option(
            "Device to predict: a name or a TOML file; to train over several, their names or all.",
            "GPU",
        ),
    ],
    host: opt.HostOption = None,
    max_passes: Annotated[int, opt.option("Most passes of the profiler to try.")] = 2,
    without_features: opt.WithoutFeaturesOption = None,
    per_pass: Annotated[
        list[str] | None,
        opt.option("Counters of a hardware block in a pass, e.g. SQ=8 (repeatable).", "BLOCK=N"),
    ] = None,
    out: Annotated[
        Path | None, opt.option("Input file for rocprofv3 to write: .txt.", spelt="--out -o")
    ] = None,
    where: opt.WhereOption = None,
    group: opt.GroupOption = None,
    metric: opt.MetricOption = "duration_us",
    unit: opt.UnitOption = None,
    default: opt.DefaultOption = None,
    rename: opt.RenameOption = None,
    seed: opt.SeedOption = 0,
    jobs: opt.JobsOption = -1,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> None:
    """Say which few hardware counters keep the accuracy, with how many passes of the profiler.

    Each --without-features also says what a family of features is worth.
    """
    check_file(out, (".txt",), data)
    settings: dict[str, Any] = {
        "host": opt.parse_gpu(host),
        "target": opt.parse_gpu(target),
        "max_passes": max_passes,
        "without_features": without_features or (),
        "per_pass": values.assigned_counts("per_pass", per_pass),
        **opt.parse_rows(where, unit, default, rename, group=group),
    }
    opt.check_data(data)
    from ..report.terminal import shown_progress

    with shown_progress(
        "cross-validation", first="reading the measurements", quiet=as_json or quiet
    ) as progress:
        from ..api.profilers import (
            counters,
        )  # here: what it imports takes seconds, and the options are checked before

        found = counters(*data, **settings, metric=metric, seed=seed, jobs=jobs, progress=progress)
    if out is not None:
        found.save(out)
    from ..report.terminal import show

    show(found.document(), *([out] if out else []), as_json=as_json, every=every)
