"""Training: measured runs to the model of each question, with its out-of-sample evidence."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import pandas as pd

from .. import values
from ..errors import (
    ParameterError,
    TooFewRowsError,
    check_jobs,
    check_number,
    check_quick,
    counted,
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
from ..features.catalogue import BASELINE_INPUT
from ..features.matrix import Dataset, build_dataset
from ..hardware import GPU, Comparison
from ..laws.user_law import Formula, titled
from ..models import artifact
from ..models.suite import LEARNT, Model, kept_in_memory, names_and_candidates
from ..output import replacing
from ..readers import Measurements
from ..remarks import Remark, remark
from ..report.notebook import notebook_progress
from ..report.result import saving
from ..settings import Report, configured, spelt_out
from ..table.conditions import MeasuredReading
from ..table.measurements import COUNTER
from ..table.problems import HOST, rows_of
from ..values import Column, Columns, Duration, Names
from ..workers import workers
from .devices import Device, compared
from .provenance import call_text, campaigns_hash, data_hash, metrics_of, provenance
from .runs import Run, Trained, as_prior
from .tables import Data, Item, check_devices, items_or_embedded, load_measurements, paths_among

if TYPE_CHECKING:
    from distributed import Client


Features: TypeAlias = "str | Function | Sequence[str | Function] | Mapping[str, Function]"
Laws: TypeAlias = "Formula | Sequence[Formula] | Mapping[str, Formula]"
Models: TypeAlias = "str | Iterable[Model]"
Targets: TypeAlias = "Device | list[Device] | tuple[Device, ...]"


@saving
@spelt_out
@configured
def train(
    *data: Data,
    host: Device | None = None,
    target: Targets | None = None,
    group: Columns | None = None,
    metric: str = "duration_us",
    each: bool = False,
    prior_run: str | Path | Run | None = None,
    target_cost: Column | None = None,
    suite: str = "default",
    models: Models | None = None,
    features: Features | None = None,
    laws: Laws | None = None,
    without: Names = (),
    without_features: Collection[str] = (),
    quick: bool = False,
    scheme: str = "grouped",
    select: str = "e_out",
    trees: bool = False,
    budget: Duration | None = None,
    seed: int = 0,
    jobs: int = -1,
    cluster: str | Client | None = None,
    fits: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: Report | None = None,
    command: str | None = None,
    **reading: Unpack[MeasuredReading],
) -> Run:
    """Cross-validate the suite next to the analytic baselines and fit the best model to all rows.

    Parameters
    ----------
    *data : path, DataFrame, Measurements, or a sequence of them, optional
        Measured files and folders, tables with the columns of the measurement table, or what `read`
        returned, in any mix. None: the embedded measurements.
    host : str, Path or GPU, optional
        Device that was measured: a name or a TOML file. From ``"all"`` it is trained for any. Without a
        host, the time on the target is learnt from shapes alone.
    target : str, Path or GPU, or a list of them, optional
        Device to predict: a name or a TOML file. The
        target ``"all"`` is all GPUs of the catalogue that the rows name, a list those
        of them: one model learns what each does of what it can do, and predicts for GPUs that were
        not measured. With ``group="device"`` one GPU after the other is left out, with
        ``"device_family"`` all of a generation. With the host ``"all"`` too, each row is predicted
        from what another GPU measured on the same problem, whichever that is; a GPU left out is
        then no host either, and `predict` is told the ``target``. One host and the target ``"all"``
        learn from its times alone.
    where : mapping, or sequence of str, optional
        As for `read`.
    group : str or sequence of str, optional
        Folds of new groups never split one. These columns make a group; by default what
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
        default, or literature: O'Neal's models in measured space. See `models.suite`.
    models : sequence of str or scikit-learn regressor, optional
        Run these models only. By default all of the suite run. Your own stand by themselves, as
        pairs of name and regressor, or beside ``"all"`` of the suite; they compete on the same
        folds. One that is chosen is saved where it can be stored as plain arrays; else the run
        stays in memory.
    features : str or callable, sequence of them, or mapping of name to callable, optional
        Your columns as features. They are names of columns of the data, and functions of the
        table that return one number a row, each row by itself. From a host they are those of its
        rows.
    laws : callable, sequence of them, or mapping of name to callable, optional
        Your baselines: functions of work (`flops`, `bytes`, `m`, `n`, `k`, ...) and GPU that
        return a value per row in the unit of the metric. From a host, its value is multiplied by
        the ratio on both GPUs.
    without : sequence of str
        Do not run these models.
    without_features : sequence of str
        Do without these features: 'counter.TCC*'. Shell patterns; rows to predict need no such
        counters.
    quick : bool
        Few fast models only, for an answer at once. They are those of `models.suite.QUICK`;
        the notes name the others.
    scheme : {"grouped", "kfold"}
        Which question comes first: new groups (grouped) or known ones (kfold). The best model of
        each is saved, and answers the rows of its question.
    select : {"e_out", "ir10", "ir20"}
        Choose by e_out, or by most workloads within 10 or 20 %: ir10, ir20. The first is the mean
        error.
    trees : bool
        Errors of forests of 2 to 1024 trees too (slow). They are grown in every fold.
    budget : float or str, optional
        Time that may be spent: 90s, 20m or 1.5h. A number is of seconds; after it no further fit of
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
    started = time.perf_counter()
    asked = command or call_text(train, locals())
    check_jobs(jobs)
    check_number("seed", seed, 0)
    check_quick(quick, models, without, suite)
    seconds = values.duration("budget", budget)
    if seconds is not None:
        check_number("budget", seconds, 0, whole=False)
    if resume and fits is None:
        raise ParameterError("resume", "goes on with fits that a file keeps: name it")
    named, brought = names_and_candidates(models)
    left_out = values.names("without", without) or ()
    additions = Additions.of(features, laws, metric)
    given = items_or_embedded(data or None)
    named_in_data = partial(_devices_of, given, each=each, **reading)
    comparison, listed = compared(host, target, named_in_data, embedded=not data)
    prior = None
    if prior_run is not None:
        prior = as_prior(prior_run, comparison.target, metric)
    progress = progress or notebook_progress("training")
    # fast models are fitted before processes have started
    processes = jobs
    if quick:
        processes = 1

    with workers(processes, cluster):
        measured = _measurements(given, comparison, listed, each=each, **reading)
        rows = measured.frame
        if target_cost is not None:
            rows = _with_cost(rows, target_cost, reading.get("unit"))
        if prior is not None:
            rows = prior.with_predictions(rows, comparison.target)
        dataset = build_dataset(
            rows,
            host=comparison.host,
            target=comparison.target,
            metric=metric,
            group=values.columns("group", group),
            without=values.names("without_features", without_features) or (),
            additions=additions,
        )
        digest = data_hash(dataset)
        kept = None
        if fits is not None:
            settings = (named, left_out, brought, suite, quick, select, trees, seed)
            with replacing(overwrite=overwrite, reads=paths_among(given)):
                kept = KeptFits(Path(fits), _depend_on(dataset, digest, settings), resume=resume)
        try:
            competition = compete(
                dataset,
                suite,
                models=named,
                without=left_out,
                more=brought,
                quick=quick,
                scheme=scheme,
                criterion=select,
                seed=seed,
                observers=_observers(kept, seconds, progress),
                by_candidate=seconds is not None,
            )
        except TooFewRowsError as error:
            raise _with_rejected(error, measured) from None
        forests = {}
        if trees:
            forests = by_trees(dataset, seed=seed, observers=_observers(kept, None, progress))
        here: AbstractContextManager[object] = nullcontext()
        # quick: in one process; many rows: each step asks for all, none goes to a cluster
        if quick or len(dataset) > LEARNT:
            here = workers(processes)
        with here:
            model, ranked = fit_final(dataset, competition, seed=seed, report=progress)

    remarks = _only_in_memory(model)
    competition = replace(competition, notes=(*competition.notes, *remarks))
    predictions = competition.table(dataset)
    metrics = metrics_of(dataset, measured, competition, model, ranked, predictions, digest)
    metrics["provenance"] = provenance(asked, measured, reading.get("where"), seed)
    for cv in metrics["cv"]:
        if trees:
            cv["trees"] = forests[cv["scheme"]]
    trained = Trained(dataset, model, measured, prior, kept, digest, remarks)
    run = Run(metrics, predictions, trained.loaded, fresh=trained)
    if target_cost is not None:
        _add_speedup(run, time.perf_counter() - started)
    return run


def _devices_of(given: Sequence[Item], **reading: Any) -> list[str]:
    frame = load_measurements(given, **reading).frame
    return list(frame["device"].unique())


def _measurements(
    given: Sequence[Item], comparison: Comparison, listed: Sequence[GPU], **reading: Any
) -> Measurements:
    """Return the rows of the devices that are compared, of many targets those ``listed`` if any are."""
    names = [gpu.name for gpu in comparison.devices]
    wanted = list(dict.fromkeys([*names, *(gpu.name for gpu in listed)]))
    only = wanted
    if comparison.is_many and not listed:
        only = []  # rows of all devices
    measured = load_measurements(given, devices=names, only=only, **reading)
    if listed:
        frames = [rows_of(measured.frame, name) for name in wanted]
        measured = replace(measured, frame=pd.concat(frames, ignore_index=True))
    check_devices(measured, names)
    bare = [gpu.name for gpu in comparison.devices if not (gpu.peaks or gpu.memory_bw_gbs)]
    if bare:
        measured = replace(measured, notes=(*measured.notes, _without_figures(bare)))
    return measured


def _with_rejected(error: TooFewRowsError, measured: Measurements) -> TooFewRowsError:
    """Return the error with the rows that could not be used, and why: they may be what is missing."""
    rejected = measured.rejected_by_reason
    if not rejected:
        return error
    said = [repr(note) for note in measured.notes if note.code == "other-unit"]
    for reason, count in rejected.items():
        said.append(f"{counted(count, 'row')} {reason} ({measured.rejected_at[reason]})")
    return TooFewRowsError(f"{error}; left out: {few(said, limit=3)}")


def _with_cost(rows: pd.DataFrame, target_cost: str, units: Any) -> pd.DataFrame:
    """Return the rows with what the target costs each, which is no feature."""
    rows = with_target_cost(rows, target_cost, units)
    return rows.drop(columns=COUNTER + target_cost, errors="ignore")


def _depend_on(dataset: Dataset, digest: str, settings: Sequence[Any]) -> dict[str, str]:
    """Return all that kept fits depend on: a run that resumes them has the same."""
    named, left_out, brought, suite, quick, select, trees, seed = settings
    brought_models = [(candidate.name, candidate.estimator.get_params()) for candidate in brought]
    stated = {
        "models": (named, left_out, *brought_models),
        "suite": suite,
        "quick": quick,
        "select": select,
        "trees": trees,
        "seed": seed,
        "versions": artifact.versions(),
    }
    return {
        "rows, groups or features": f"{digest} {campaigns_hash(dataset)}".strip(),
        "host": dataset.host.name if dataset.host else "",
        "target": dataset.target.name,
        "metric": dataset.metric,
        **{name: str(value) for name, value in stated.items()},
    }


def _observers(
    kept: KeptFits | None, seconds: float | None, progress: Report | None
) -> list[Observer]:
    """Return who watches the fits, in the order in which they are asked; the budget begins now."""
    observers: list[Observer] = []
    if kept is not None:
        observers.append(kept)
    budget = None
    if seconds is not None:
        budget = Budget(seconds)
        observers.append(budget)
    if progress is not None:
        observers.append(Progress(progress, budget))
    return observers


def _add_speedup(run: Run, spent: float) -> None:
    """Add how many times less each workload costs than on the target; the training took ``spent`` seconds."""
    rows = run.dataset.rows
    passes = passes_of(run.dataset.recipe.columns)
    times, run.metrics["speedup"] = accounting(
        rows[COST], rows.get(f"{HOST}duration_us"), passes, spent
    )
    run.predictions["speedup"] = times[run.predictions["row"]]


def _without_figures(names: Sequence[str]) -> Remark:
    text = (
        f"no figures of {few(names)} are published: no roofline and no scaling law stands beside "
        "the models; state some in a TOML file"
    )
    return remark("device-without-figures", text, devices=tuple(names))


def _only_in_memory(model: FinalModel) -> tuple[Remark, ...]:
    """Return why the models of a run cannot be saved: the user's code was chosen."""
    remarks = []
    for answer in (model, model.of_trained_groups):
        if answer is None:
            continue
        note = None
        inputs = {f"{BASELINE_INPUT}{law}" for law in _user_laws(answer.fitted)}
        if inputs & set(answer.fitted.recipe.columns):
            text = (
                f"the law {answer.name} was chosen and is in memory only, as it is code: this run "
                "predicts, and cannot be saved"
            )
            note = remark("kept-in-memory", text, model=answer.name, problem="")
        elif answer.candidate.of_user:
            note = kept_in_memory(answer.name, answer.estimator)
        if note is not None and note not in remarks:
            remarks.append(note)
    return tuple(remarks)


def _user_laws(dataset: Dataset) -> list[str]:
    scaling = dataset.host is not None
    return [titled(law, scaling=scaling) for law in dataset.recipe.additions.laws]
