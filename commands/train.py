"""Train on measured runs: ``python train.py [DATA...] --host MI300X --target MI355X --out RUN`` writes a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ParameterError, check_quick
from ..hardware import Comparison
from ..report.run_folder import (
    METRICS,
    MODEL,
    PREDICTIONS,
    REPORT,
    TARGETS,
    check_run_folder,
    check_runs_folder,
)
from . import options as opt
from .derived import as_taken, with_options_of

PLACE = 10
PANELS = {
    "Which models run, and how one is chosen": (
        "suite",
        "models",
        "without",
        "features",
        "scheme",
        "select",
        "trees",
    )
}
WITHOUT = ("data", "laws", "fits", "resume", "overwrite", "progress", "command")
EXAMPLES = (
    "flopcast train --quick --out runs/gemm",
    "flopcast train DATA --host MI300X --target MI355X --out runs/mine",
)


@with_options_of("train", PANELS, WITHOUT)
def command(
    context: typer.Context,
    data: opt.DataArgument = None,
    *,
    out: Annotated[Path | None, opt.option("Run folder to write.", spelt="--out -o")] = None,
    resume: opt.ResumeOption = False,
    every: opt.AllOption = False,
    short: opt.ShortOption = False,
    top: opt.TopOption = 10,
    plot: opt.PlotOption = False,
    need: opt.NeedOption = None,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    **given: Any,
) -> None:
    """Cross-validate models of measured times (or energy, power) next to FLOPS scaling, and save the best.

    Several targets have a run each where there is one --host; without one, or with --host all, a
    single run.
    """
    opt.check_needed(need)
    check_quick(given["quick"], given["models"], given["without"], given["suite"])
    if resume and out is None:
        raise ParameterError("resume", "goes on with what was begun of --out: give it")
    data = opt.check_data(data) or []
    host = opt.named_or_measured(given.pop("host"), data)
    target = opt.named_or_measured(given.pop("target"), data, several=True)
    one_for_each = host is not None and not Comparison.means_all(host) and isinstance(target, list)
    if out is not None and one_for_each:
        check_runs_folder(out, [gpu.name for gpu in target])
    elif out is not None:
        check_run_folder(out)
    settings = as_taken("train", given) | {"host": host, "resume": resume}
    if out is not None:
        settings["fits"] = out.with_name(f"{out.name}.fits")
    from ..report.terminal import show, shown_progress

    with shown_progress(
        "cross-validation", first="reading the measurements", quiet=as_json or quiet or short
    ) as progress:
        # here: what these import takes seconds, and the options are checked before
        from ..api.targets import Runs, train_each
        from ..api.training import train

        settings |= {"progress": progress, "command": opt.command_line(context)}
        if one_for_each:
            trained = train_each(*data, targets=target, **settings)
        else:
            trained = train(*data, target=target, **settings)
    if out is not None:
        trained.save(out)
    if isinstance(trained, Runs):
        runs = trained
    else:
        runs = {"": trained}
    needs = {}
    if need is not None:
        from ..api.checking import needed_as_stated

        names = ("where", "group", "unit", "default", "rename", "seed")
        rows = {name: value for name, value in settings.items() if name in names}
        for name, run in runs.items():
            needs[name] = needed_as_stated(run, need, *data, **rows).told
    if isinstance(trained, Runs):
        document = trained.document(out)
        files = TARGETS
        if needs:
            document = document.with_remarks("need", needs)
    else:
        from ..report.training import training_document

        document = training_document(
            trained.metrics,
            trained.predictions,
            rank=top,
            run=out,
            saved=out is not None,
            every=every,
            plot=plot,
        )
        files = (REPORT, METRICS, PREDICTIONS, MODEL)
        for remark in needs.values():
            document = document.with_remark("need", remark)
    written = [out / name for name in files if out is not None]
    show(document, *written, as_json=as_json, short=short)
