"""Training: measured runs to the best model, its out-of-sample evidence, and the folder that holds both."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd

from .. import values
from ..datasets import DEFAULT_HOST, DEFAULT_TARGET
from ..errors import (
    ParameterError,
    check_jobs,
    check_number,
    check_quick,
    few,
)
from ..evaluation.competition import by_trees, compete
from ..evaluation.counter_choice import passes_of
from ..evaluation.crossval import Observer
from ..evaluation.final_model import FinalModel, fit_final
from ..evaluation.metrics import COST, accounting, with_target_cost
from ..evaluation.observers.budget import Budget
from ..evaluation.observers.progress import Progress
from ..evaluation.observers.resume import KeptFits
from ..features.additions import Additions, Function
from ..features.catalogue import RULE
from ..features.matrix import Dataset, build_dataset
from ..hardware import Comparison
from ..laws.user_law import Formula, titled
from ..models import artifact
from ..models.suite import LEARNT
from ..models.user_models import Model, kept_in_memory, names_and_candidates
from ..output import replacing
from ..remarks import Remark, remark
from ..report.notebook import notebook_progress
from ..settings import Report, configured
from ..table.conditions import Where
from ..table.measurements import COUNTER
from ..table.problems import HOST, rows_of
from ..workers import workers
from .devices import Device, device, known_or_measured, several_devices
from .provenance import call_text, campaigns_hash, data_hash, metrics_of, provenance
from .runs import Run, Trained, as_prior
from .tables import Data, check_devices, items_or_embedded, load_measurements

if TYPE_CHECKING:
    from distributed import Client


Features: TypeAlias = "str | Function | Sequence[str | Function] | Mapping[str, Function] | None"
Laws: TypeAlias = "Formula | Sequence[Formula] | Mapping[str, Formula] | None"


@configured
def train(
    *data: Data,
    host: Device | None = None,
    target: Device | list[Device] | tuple[Device, ...] | None = None,
    where: Where = None,
    group: str | Sequence[str] | None = None,
    metric: str = "duration_us",
    unit: Mapping[str, str] | None = None,
    default: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    each: bool = False,
    keep: Collection[str] = (),
    prior_run: str | Path | Run | None = None,
    target_cost: str | None = None,
    suite: str = "default",
    models: str | Iterable[Model] | None = None,
    features: Features = None,
    laws: Laws = None,
    without: str | Sequence[str] = (),
    without_features: str | Sequence[str] = (),
    quick: bool = False,
    scheme: str = "grouped",
    select: str = "e_out",
    trees: bool = False,
    budget: float | str | None = None,
    seed: int = 0,
    jobs: int = -1,
    cluster: str | Client | None = None,
    fits: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Report | None = None,
    command: str | None = None,
) -> Run:
    """Cross-validate the suite next to the analytic baselines and fit the best model to all rows.

    Parameters
    ----------
    *data : path, DataFrame, Measurements, or a sequence of them, optional
        Measured files and folders, tables with the columns of the measurement table, or what `read`
        returned, in any mix. None: the embedded measurements.
    host : str, Path or GPU, optional
        Device that was measured: a name or a TOML file; to train from any, all. Without a host, the
        time on the target is learnt from shapes alone.
    target : str, Path or GPU, or a list of them, optional
        Device to predict: a name or a TOML file; to train over several, their names or all. The
        target ``"all"`` is all known GPUs that the rows name, a list those
        of them: one model learns what each does of what it can do, and predicts for GPUs that were
        not measured. With ``group="device"`` one GPU after the other is left out, with
        ``"device_family"`` all of a generation. With the host ``"all"`` too, each row is predicted
        from what another GPU measured on the same problem, whichever that is; a GPU left out is
        then no host either, and `predict` is told the ``target``. One host and the target ``"all"``
        learn from its times alone.
    where : mapping, or sequence of str, optional
        As for `read`.
    group : str or sequence of str, optional
        Rows of one group are never split between folds. These columns make a group; by default what
        each operator says (GEMM: the weight shape).
    metric : str, default="duration_us"
        The measured column to scale: duration_us, energy_j, power_w, ... Energy and power have
        analytic laws beside the models, as time has.
    unit, default, rename : mapping of str to str, optional
        As for `read`.
    each : bool
        As for `read`.
    keep : collection of str
        As for `read`.
    prior_run : str, Path or Run, optional
        Start from a run over other devices: its prediction is a feature. The run has no host, and
        other devices than the target. Its prediction for the target is a feature, and with a
        correction of a few parameters a model of the suite (`models.prior`): it pays where the
        target has few rows.
    target_cost : str, optional
        Time that a row costs on the target (s, or sim_ms): say how many times faster this is.
        A column of the target's rows with the time that measuring or simulating each costs, in the
        unit that its name ends with (``simulated_ms``), else seconds: ``metrics["speedup"]`` and
        the column ``speedup`` of the predictions then say how many times less host, counters and
        this call cost.
    suite : {"default", "literature"}
        See `models.suite`.
    models : sequence of str or scikit-learn regressor, optional
        Run these models only. By default all of the suite run. Your own stand by themselves, as
        pairs of name and regressor, or beside ``"all"`` of the suite; they compete on the same
        folds. One that is chosen is saved where it can be stored as plain arrays; else the run
        stays in memory.
    features : str or callable, sequence of them, or mapping of name to callable, optional
        Columns of your own: names of columns of the data, and functions of the table that return
        one number a row, each row by itself. From a host they are those of its rows.
    laws : callable, sequence of them, or mapping of name to callable, optional
        Baselines of your own: functions of work (`flops`, `bytes`, `m`, `n`, `k`, ...) and GPU that
        return a value per row in the unit of the metric. From a host, its value is multiplied by
        the ratio on both GPUs.
    without : sequence of str
        Do not run these models.
    without_features : sequence of str
        Do without these features: 'counter.TCC*'. Shell patterns; rows to predict need no such
        counters.
    quick : bool
        Whether two models alone run, those of `models.suite.QUICK`, for an answer at once; its
        notes name the others.
    scheme : {"grouped", "kfold"}
        Which question comes first: new groups (grouped) or known ones (kfold). The best model of
        each is saved, and answers the rows of its question.
    select : {"e_out", "ir10", "ir20"}
        What models are chosen by: the mean error, or the share of workloads within 10 or 20 %.
    trees : bool
        Whether a forest of up to 1024 trees is grown in every fold, to show its error against the
        number of trees.
    budget : float or str, optional
        Time that it may take: 90s, 20m or 1.5h. A number is of seconds; after it no further fit of
        the cross-validation starts.
    seed : int
        Seed of everything random; the same seed gives the same result.
    jobs : int
        Processes, -1: one per core; the result does not depend on it.
    cluster : str or distributed.Client, optional
        Dask scheduler whose workers do it, tcp://node1:8786; same result. Or a client of one. Needs
        ``flopcast[cluster]``.
    fits : path, optional
        File that keeps each fit of the cross-validation until the run is saved; an earlier one is
        replaced.
    resume : bool
        Whether to go on with the fits that ``fits`` keeps, those of the same data, settings and
        versions. The result is that of a training that was not interrupted; a ``budget`` counts
        anew.
    overwrite : bool
        Whether ``fits`` may replace a file that holds something else.
    progress : callable, optional
        See `evaluation.crossval`; without it a notebook shows it under its cell.
    command : str, optional
        How the run was asked for, as it shall say; by default this call.

    Returns
    -------
    Run

    Raises
    ------
    FlopcastError
        The data or the devices cannot be used, or a parameter is wrong (`ParameterError` names it).

    Examples
    --------
    >>> import flopcast as fc
    >>> run = fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1)
    >>> run.metrics["data"]["metric"]
    'duration_us'
    """
    asked, started = command or call_text(train, locals()), time.perf_counter()
    progress = progress or notebook_progress("training")
    check_jobs(jobs)
    check_number("seed", seed, 0)
    budget = values.duration("budget", budget)
    if budget is not None:
        check_number("budget", budget, 0, whole=False)
    check_quick(quick, models, without, suite)
    named, brought = names_and_candidates(models)
    additions = Additions.of(features, laws, metric)
    if resume and fits is None:
        raise ParameterError("resume", "goes on with fits that a file keeps: name it")
    given = items_or_embedded(data or None)
    if not data:
        target = target or DEFAULT_TARGET
    if target is None:
        raise ParameterError(
            "target", "is missing: which device? and the host, to predict from its measurements"
        )
    target = several_devices(target, "target")
    if isinstance(target, list | tuple) and not target:
        raise ParameterError("target", "must name a GPU, got an empty list")
    if isinstance(target, list | tuple):
        several = [device(one, "target") for one in target]
    else:
        several = []

    def devices_of_data() -> list[str]:
        read = load_measurements(given, where, unit, default, rename, each=each, keep=keep)
        return list(read.frame["device"].unique())

    own = Comparison.MANY
    if not isinstance(target, list | tuple):
        own = known_or_measured(target, "target", devices_of_data)
    if not data:
        host = host or (DEFAULT_HOST if own.name == DEFAULT_TARGET else None)
    from_host = None
    if host is not None:
        from_host = known_or_measured(host, "host", devices_of_data)
    devices = from_host, own
    comparison = Comparison(*devices)
    bare = [gpu.name for gpu in comparison.devices if not (gpu.peaks or gpu.memory_bw_gbs)]
    if comparison.is_pair and devices[0] == own:
        both = f"and the target are both {own.name}: leave out the host to predict new workloads"
        raise ParameterError("host", both)
    if comparison.has_many_hosts and not comparison.is_many:
        raise ParameterError(
            "host", f"may be all only where the target is all, or several GPUs, not {own.name}"
        )
    if several and comparison.one_host is not None:
        each_own = (
            "`train_each` has a run for each of them, and all GPUs as target one for them together"
        )
        raise ParameterError(
            "host", f"must be all or left out where targets are listed: {each_own}"
        )
    if prior_run is None:
        known = None
    else:
        known = as_prior(prior_run, own, metric)
    names = [gpu.name for gpu in comparison.devices]
    processes = 1 if quick else jobs  # two fast models are fitted before processes have started
    with workers(processes, cluster):
        chosen_from = list(dict.fromkeys([*names, *(gpu.name for gpu in several)]))
        if comparison.is_many and not several:
            only = []
        else:
            only = chosen_from
        measured = load_measurements(
            given, where, unit, default, rename, names, each, keep, only=only
        )
        if several:
            frames = [rows_of(measured.frame, name) for name in chosen_from]
            measured = replace(measured, frame=pd.concat(frames, ignore_index=True))
        check_devices(measured, names)
        if bare:
            measured = replace(measured, notes=(*measured.notes, _without_figures(bare)))
        if target_cost is not None:
            rows = with_target_cost(
                measured.frame, target_cost, unit
            )  # what the target costs is no feature
            measured = replace(
                measured, frame=rows.drop(columns=COUNTER + target_cost, errors="ignore")
            )
        if known is not None:
            measured = replace(measured, frame=known.told(measured.frame, own))
        omitted = values.names("without_features", without_features) or ()
        options: dict[str, Any] = {
            "metric": metric,
            "group": values.columns("group", group),
            "without": omitted,
            "additions": additions,
        }
        dataset = build_dataset(measured.frame, host=devices[0], target=devices[1], **options)
        chosen = named, values.names("without", without) or ()
        digest = data_hash(dataset)
        of = {
            "rows, groups or features": f"{digest} {campaigns_hash(dataset)}".strip(),
            "host": devices[0].name if devices[0] else "",
            "target": own.name,
            "metric": metric,
        }
        asked_for = {
            "models": (*chosen, *((one.name, one.estimator.get_params()) for one in brought)),
            "suite": suite,
            "quick": quick,
            "select": select,
            "trees": trees,
            "seed": seed,
        }
        of |= {name: str(value) for name, value in asked_for.items()} | {
            "versions": str(artifact.versions())
        }
        with replacing(overwrite=overwrite, reads=[one for one in given if isinstance(one, Path)]):
            if fits is None:
                kept = None
            else:
                kept = KeptFits(Path(fits), of, resume=resume)
        observers: list[Observer] = [] if kept is None else [kept]
        limit = None if budget is None else Budget(budget)
        if limit is not None:
            observers.append(limit)
        if progress is not None:
            observers.append(Progress(progress, limit))
        competition = compete(
            dataset,
            suite,
            models=chosen[0],
            without=chosen[1],
            quick=quick,
            seed=seed,
            observers=observers,
            by_candidate=budget is not None,
            scheme=scheme,
            criterion=select,
            more=brought,
        )
        forests = {}
        if trees:
            observers = [] if kept is None else [kept]
            if progress is not None:
                observers.append(Progress(progress))
            forests = by_trees(dataset, seed=seed, observers=observers)
        with ExitStack() as here:
            if (
                quick or len(dataset) > LEARNT
            ):  # each step asks for all rows: none goes to a cluster
                here.enter_context(workers(processes))
            model, ranked = fit_final(dataset, competition, seed=seed, report=progress)
    in_memory = _only_in_memory(model)
    competition = replace(competition, notes=(*competition.notes, *in_memory))
    trained = Trained(dataset, model, measured, known, kept, digest, in_memory)
    predictions = competition.table(dataset)
    metrics = metrics_of(dataset, measured, competition, model, ranked, predictions, digest)
    metrics["provenance"] = provenance(asked, measured, where, seed)
    for cv in metrics["cv"] if trees else ():
        cv["trees"] = forests[cv["scheme"]]
    saved = trained.loaded
    if target_cost is not None:
        cost, run = dataset.rows[COST], dataset.rows.get(f"{HOST}duration_us")
        passes, taken = passes_of(dataset.recipe.columns), time.perf_counter() - started
        times, metrics["speedup"] = accounting(cost, run, passes, taken)
        predictions["speedup"] = times[predictions["row"]]
    return Run(metrics, predictions, saved, fresh=trained)


def _without_figures(names: Sequence[str]) -> Remark:
    text = (
        f"no figures of {few(names)} are published: no roofline and no scaling law stands beside "
        "the models; state some in a TOML file"
    )
    return remark("device-without-figures", text, devices=tuple(names))


def _only_in_memory(model: FinalModel) -> tuple[Remark, ...]:
    """Return why the models of a run cannot be saved: code of the user's own was chosen."""
    remarks = []
    for one in (model, model.known):
        if one is None:
            continue
        told = None
        rules = {f"{RULE}{law}" for law in _own_laws(one.fitted)}
        if rules & set(one.fitted.recipe.columns):
            text = (
                f"the law {one.name} was chosen and is in memory only, as it is code: this run "
                "predicts, and cannot be saved"
            )
            told = remark("kept-in-memory", text, model=one.name, problem="")
        elif one.candidate.of_user:
            told = kept_in_memory(one.name, one.estimator)
        if told is not None and told not in remarks:
            remarks.append(told)
    return tuple(remarks)


def _own_laws(dataset: Dataset) -> list[str]:
    scaling = dataset.host is not None
    return [titled(law, scaling=scaling) for law in dataset.recipe.additions.laws]
