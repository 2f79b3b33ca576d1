"""Is a run still right? ``flopcast check RUN DATA...`` scores it on new measurements and says what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import check_margin
from ..output import FILES, check_output
from ..report.run_folder import check_run_folder
from . import options as opt

PLACE = 60
EXAMPLES = (
    "flopcast check runs/fp8 autumn.csv --out checked/",
    "flopcast check runs/fp8 autumn.csv --corrected runs/fp8b",
)


def command(
    context: typer.Context,
    run: opt.RunArgument,
    data: Annotated[
        list[Path], typer.Argument(metavar="DATA", help="Files and folders of new measurements.")
    ],
    host: opt.HostOption = None,
    target: opt.TargetOption = None,
    interval: opt.IntervalOption = 0.9,
    margin: opt.MarginOption = 0.10,
    corrected: Annotated[
        Path | None,
        opt.option("Where the run is shifted, save it corrected by the factor.", "FOLDER"),
    ] = None,
    out: Annotated[
        Path | None, opt.option("Folder for check.json and check.html.", spelt="--out -o")
    ] = None,
    where: opt.WhereOption = None,
    group: opt.GroupOption = None,
    unit: opt.UnitOption = None,
    default: opt.DefaultOption = None,
    rename: opt.RenameOption = None,
    keep: opt.KeepOption = None,
    seed: opt.SeedOption = 0,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Score a saved run on new measurements: still valid, shifted by a factor, to be retrained, or impossible to tell.

    With --host a device of DATA takes the place of the run's host, and the answer says what that
    costs. With --target one takes the place of its target, and the answer says from how many of its
    rows on training anew errs less.
    """
    check_output(out, FILES["check"])
    settings: dict[str, Any] = {
        "host": host,
        "target": target,
        "interval": interval,
        "margin": check_margin(margin),
        **opt.parse_rows(where, unit, default, rename, group=group, keep=keep or ()),
        "seed": seed,
    }
    opt.check_data([run, *data])
    opt.announce(f"loading {run}", quiet=as_json)
    from ..api.checking import (
        check,
    )  # here: what it imports takes seconds, and the options are checked before
    from ..report.terminal import shown_progress

    if corrected is not None:
        check_run_folder(corrected)
    found = check(run, *data, **settings)
    from ..api.learning import with_curve

    grouped = settings.get("group")
    with shown_progress("learning curve", quiet=as_json) as progress:
        found = with_curve(found, group=grouped, seed=seed, progress=progress)
    if corrected is not None and found.correction is None:
        found = replace(found, facts=replace(found.facts, unsaved=str(corrected)))
    elif corrected is not None:
        found.correct(corrected)
        found = replace(found, facts=replace(found.facts, saved=str(corrected)))
    if found.facts.saved:
        saved = [Path(found.facts.saved)]
    else:
        saved = []
    opt.finish(context, found, out, *saved, as_json=as_json, every=every)
