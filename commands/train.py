"""Train on measured runs: ``python train.py [DATA...] --host MI300X --target MI355X --out RUN`` writes a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ParameterError
from ..report.run_folder import METRICS, MODEL, PREDICTIONS, REPORT, TARGETS, check_run_folder
from .options import (
    AllOption,
    BudgetOption,
    ClusterOption,
    DataArgument,
    DefaultOption,
    EachOption,
    GroupOption,
    HostOption,
    JobsOption,
    JsonOption,
    KeepOption,
    MetricOption,
    NeedOption,
    PlotOption,
    PriorOption,
    QuietOption,
    ResumeOption,
    SeedOption,
    TargetCostOption,
    TargetOption,
    TopOption,
    UnitOption,
    WhereOption,
    WithoutFeaturesOption,
    check_data,
    check_needed,
    command_line,
    parse_budget,
    parse_gpu,
    parse_names,
    parse_rows,
    parse_targets,
)

PLACE = 10
CHOICE = "Which models run, and how one is chosen"
EXAMPLES = (
    "flopcast train --quick --out runs/gemm",
    "flopcast train DATA --host MI300X --target MI355X --out runs/mine",
)


def command(
    context: typer.Context,
    data: DataArgument = None,
    host: HostOption = None,
    target: TargetOption = None,
    where: WhereOption = None,
    group: GroupOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Run folder to write.")] = None,
    seed: SeedOption = 0,
    jobs: JobsOption = -1,
    cluster: ClusterOption = None,
    prior_run: PriorOption = None,
    suite: Annotated[
        str, typer.Option(help="default, or literature: O'Neal's models in measured space.", rich_help_panel=CHOICE)
    ] = "default",
    models: Annotated[
        str | None, typer.Option(metavar="NAME[,NAME]", help="Run these models only.", rich_help_panel=CHOICE)
    ] = None,
    without: Annotated[
        str | None, typer.Option(metavar="NAME[,NAME]", help="Do not run these models.", rich_help_panel=CHOICE)
    ] = None,
    without_features: WithoutFeaturesOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two fast models only.")] = False,
    scheme: Annotated[
        str,
        typer.Option(help="Save the best model for new groups (grouped) or known (kfold).", rich_help_panel=CHOICE),
    ] = "grouped",
    select: Annotated[
        str,
        typer.Option(
            help="Choose by e_out, or by most workloads within 10 or 20 %: ir10, ir20.", rich_help_panel=CHOICE
        ),
    ] = "e_out",
    trees: Annotated[
        bool,
        typer.Option("--trees", help="Errors of forests of 2 to 1024 trees too (slow).", rich_help_panel=CHOICE),
    ] = False,
    budget: BudgetOption = None,
    every: AllOption = False,
    top: TopOption = 10,
    plot: PlotOption = False,
    metric: MetricOption = "duration_us",
    unit: UnitOption = None,
    default: DefaultOption = None,
    keep: KeepOption = None,
    target_cost: TargetCostOption = None,
    each: EachOption = False,
    need: NeedOption = None,
    resume: ResumeOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Cross-validate models of measured times (or energy, power) next to FLOPS scaling, and save the best.

    Several targets have a run each where there is a --host, and without one a single run.
    """
    check_needed(need)
    if resume and out is None:
        raise ParameterError("resume", "goes on with what was begun of --out: give it")
    data = check_data(data)
    own, targets = parse_gpu(host), parse_targets(target)
    if out is not None and (own is None or not isinstance(targets, list)):
        check_run_folder(out)
    settings: dict[str, Any] = {
        "host": own,
        **parse_rows(where, unit, default, group=group, keep=keep or ()),
        "target_cost": target_cost,
        "prior_run": prior_run,
        "models": parse_names(models, "--models", "Additive,Stack"),
        "without": parse_names(without, "--without", "MLP,Stack") or (),
        "without_features": without_features or (),
        "budget": parse_budget(budget),
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

    with shown_progress("cross-validation", first="reading the measurements", quiet=as_json or quiet) as progress:
        # here: what these import takes seconds, and the options are checked before
        from ..api.targets import Runs, train_each
        from ..api.training import train

        options |= {"progress": progress, "command": command_line(context)}
        if own is not None and isinstance(targets, list):
            found = train_each(data, targets=targets, **settings, **options)
        else:
            found = train(data, **settings | {"target": targets}, **options)
    if out is not None:
        found.save(out)
    from ..report.terminal import show

    told = {}
    if need is not None:
        from ..api.checking import needed

        rows = {name: value for name, value in settings.items() if name in ("where", "group", "unit", "default")}
        runs = found if isinstance(found, Runs) else {"": found}
        told = {name: needed(run, need, data or (), seed=seed, **rows).told for name, run in runs.items()}
    if isinstance(found, Runs):
        shown = found.document(out)
        shown = shown.with_remarks("need", told) if told else shown
        show(shown, *(out / name for name in TARGETS if out is not None), as_json=as_json)
        return
    from ..report.training import training_document

    written = [out / name for name in (REPORT, METRICS, PREDICTIONS, MODEL) if out is not None]
    shown = training_document(
        found.metrics, found.predictions, rank=top, run=out, saved=out is not None, every=every, plot=plot
    )
    for remark in told.values():
        shown = shown.with_remark("need", remark)
    show(shown, *written, as_json=as_json)
