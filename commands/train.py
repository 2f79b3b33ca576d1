"""Train on measured runs: ``python train.py [DATA...] --host MI300X --target MI355X --out RUN`` writes a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .. import values
from ..errors import ParameterError, check_quick
from ..hardware import Comparison
from ..report.run_folder import METRICS, MODEL, PREDICTIONS, REPORT, TARGETS, check_run_folder
from . import options as opt

PLACE = 10
CHOICE = "Which models run, and how one is chosen"
EXAMPLES = (
    "flopcast train --quick --out runs/gemm",
    "flopcast train DATA --host MI300X --target MI355X --out runs/mine",
)


def command(
    context: typer.Context,
    data: opt.DataArgument = None,
    host: opt.HostOption = None,
    target: opt.TargetOption = None,
    where: opt.WhereOption = None,
    group: opt.GroupOption = None,
    out: Annotated[Path | None, opt.option("Run folder to write.", spelt="--out -o")] = None,
    seed: opt.SeedOption = 0,
    jobs: opt.JobsOption = -1,
    cluster: opt.ClusterOption = None,
    prior_run: opt.PriorOption = None,
    suite: Annotated[
        str, opt.option("default, or literature: O'Neal's models in measured space.", panel=CHOICE)
    ] = "default",
    models: Annotated[
        str | None, opt.option("Run these models only.", "NAME[,NAME]", CHOICE)
    ] = None,
    without: Annotated[
        str | None, opt.option("Do not run these models.", "NAME[,NAME]", CHOICE)
    ] = None,
    features: Annotated[
        str | None, opt.option("Columns of your own as features.", "COLUMN[,COLUMN]", CHOICE)
    ] = None,
    without_features: opt.WithoutFeaturesOption = None,
    quick: Annotated[bool, opt.option("Two fast models only.", spelt="--quick")] = False,
    scheme: Annotated[
        str,
        opt.option(
            "Which question comes first: new groups (grouped) or known ones (kfold).", panel=CHOICE
        ),
    ] = "grouped",
    select: Annotated[
        str,
        opt.option(
            "Choose by e_out, or by most workloads within 10 or 20 %: ir10, ir20.", panel=CHOICE
        ),
    ] = "e_out",
    trees: Annotated[
        bool,
        opt.option(
            "Errors of forests of 2 to 1024 trees too (slow).", panel=CHOICE, spelt="--trees"
        ),
    ] = False,
    budget: opt.BudgetOption = None,
    every: opt.AllOption = False,
    short: opt.ShortOption = False,
    top: opt.TopOption = 10,
    plot: opt.PlotOption = False,
    metric: opt.MetricOption = "duration_us",
    unit: opt.UnitOption = None,
    default: opt.DefaultOption = None,
    rename: opt.RenameOption = None,
    keep: opt.KeepOption = None,
    target_cost: opt.TargetCostOption = None,
    each: opt.EachOption = False,
    need: opt.NeedOption = None,
    resume: opt.ResumeOption = False,
    as_json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
) -> None:
    """Cross-validate models of measured times (or energy, power) next to FLOPS scaling, and save the best.

    Several targets have a run each where there is one --host; without one, or with --host all, a
    single run.
    """
    opt.check_needed(need)
    check_quick(quick, models, without, suite)
    if resume and out is None:
        raise ParameterError("resume", "goes on with what was begun of --out: give it")
    data = opt.check_data(data)
    own = opt.named_or_measured(host, data)
    targets = opt.named_or_measured(target, data, several=True)
    one_host = own is not None and not Comparison.means_all(own)
    apart = one_host and isinstance(targets, list)
    if out is not None and not apart:
        check_run_folder(out)
    settings: dict[str, Any] = {
        "host": own,
        **opt.parse_rows(where, unit, default, rename, group=group, keep=keep or ()),
        "target_cost": target_cost,
        "prior_run": prior_run,
        "models": values.names("models", models),
        "without": values.names("without", without) or (),
        "features": values.columns("features", features),
        "without_features": without_features or (),
        "budget": values.duration("budget", budget),
    }
    options: dict[str, Any] = {
        "metric": metric,
        "each": each,
        "suite": suite,
        "quick": quick,
        "scheme": scheme,
        "select": select,
        "trees": trees,
        "seed": seed,
        "jobs": jobs,
        "cluster": cluster,
        "fits": None if out is None else out.with_name(f"{out.name}.fits"),
        "resume": resume,
    }
    from ..report.terminal import shown_progress

    with shown_progress(
        "cross-validation", first="reading the measurements", quiet=as_json or quiet
    ) as progress:
        # here: what these import takes seconds, and the options are checked before
        from ..api.targets import Runs, train_each
        from ..api.training import train

        options |= {"progress": progress, "command": opt.command_line(context)}
        if apart:
            found = train_each(*(data or ()), targets=targets, **settings, **options)
        else:
            found = train(*(data or ()), **settings | {"target": targets}, **options)
    if out is not None:
        found.save(out)
    from ..report.terminal import show

    told = {}
    if need is not None:
        from ..api.checking import needed

        rows = {
            name: value
            for name, value in settings.items()
            if name in ("where", "group", "unit", "default", "rename")
        }
        runs = found if isinstance(found, Runs) else {"": found}
        told = {
            name: needed(run, need, *(data or ()), seed=seed, **rows).told
            for name, run in runs.items()
        }
    if isinstance(found, Runs):
        shown = found.document(out)
        shown = shown.with_remarks("need", told) if told else shown
        show(
            shown,
            *(out / name for name in TARGETS if out is not None),
            as_json=as_json,
            short=short,
        )
        return
    from ..report.training import training_document

    written = [out / name for name in (REPORT, METRICS, PREDICTIONS, MODEL) if out is not None]
    shown = training_document(
        found.metrics,
        found.predictions,
        rank=top,
        run=out,
        saved=out is not None,
        every=every,
        plot=plot,
    )
    for remark in told.values():
        shown = shown.with_remark("need", remark)
    show(shown, *written, as_json=as_json, short=short)
