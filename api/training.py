"""Training: measured runs to the best model, its out-of-sample evidence, and the folder that holds both."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .. import values
from ..arrays import FloatArray, IntArray
from ..datasets import DEFAULT_HOST, DEFAULT_TARGET
from ..errors import (
    ArtifactError,
    DataError,
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
from ..evaluation.folds import learnable
from ..evaluation.metrics import COST, accounting, with_target_cost
from ..evaluation.observers.budget import Budget
from ..evaluation.observers.progress import Progress
from ..evaluation.observers.resume import KeptFits
from ..evaluation.trained_model import TrainedModel
from ..features.additions import Additions, Function
from ..features.catalogue import RULE
from ..features.matrix import Dataset, build_dataset
from ..hardware import GPU, Comparison
from ..laws.user_law import Formula, titled
from ..models import artifact
from ..models.suite import LEARNT
from ..models.user_models import Model, kept_in_memory, names_and_candidates
from ..output import SCHEMA, dumps, replacing, whole_folder
from ..readers import Measurements
from ..remarks import Remark, remark
from ..report import figures
from ..report.document import Bar, Bars, Document, origin
from ..report.formats import percent
from ..report.html import page
from ..report.notebook import Figures, framed, notebook_progress
from ..report.result import Answer, Result, slid
from ..report.run_folder import PARTS, REPORT, check_run_folder, read_metrics, read_run, write_run
from ..report.training import left_out, seal_document, training_document
from ..report.training import metric as label_of
from ..report.training import title as title_of
from ..report.what_if import what_if
from ..sealing import Manifest, entry, signature_of, signed_by
from ..sealing import check as check_seal
from ..settings import Report, configured
from ..table.conditions import Where
from ..table.measurements import COUNTER
from ..table.problems import HOST, rows_of
from ..workers import workers
from .checking import Check, check
from .devices import Device, device, known_or_measured, several_devices
from .predicting import Explanation, explain, predict
from .provenance import call_text, campaigns_hash, data_hash, metrics_of, provenance
from .tables import Data, check_devices, items_or_embedded, load_measurements

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from distributed import Client


Features: TypeAlias = "str | Function | Sequence[str | Function] | Mapping[str, Function] | None"
Laws: TypeAlias = "Formula | Sequence[Formula] | Mapping[str, Formula] | None"
_BARS = 10  # models that a notebook draws
FIRST = ("name", "e_out", "e_in", "median_ape", "max_ape")  # first columns of the table of models


@dataclass(frozen=True)
class Trained:
    """What a run knows that was just trained, and its folder does not hold."""

    dataset: Dataset  # what was trained on
    model: FinalModel  # the model to save: fitted to all rows, with its intervals and trained range
    measured: Measurements  # the rows read, and those kept out
    prior: TrainedModel | None = None  # the run over other devices that it was trained with
    kept: KeptFits | None = (
        None  # where the fits of its cross-validation are kept until the run is saved
    )
    digest: str = ""  # `data_hash` of the data set
    in_memory: tuple[Remark, ...] = ()  # why the run cannot be saved

    @cached_property
    def loaded(self) -> TrainedModel:
        """The model as a run folder would give it back: its manifests as JSON holds them."""
        known = None
        if self.model.known is not None:
            known = self._as_loaded(self.model.known, None)
        return self._as_loaded(self.model, known)

    def save(self, folder: Path) -> None:
        """Write ``model/``: the estimators, and manifests with all that predict needs."""
        self.check_saved()
        loaded = self.loaded
        _save(folder, self.model, loaded)
        if self.model.known is not None and loaded.known is not None:
            _save(folder / artifact.KNOWN, self.model.known, loaded.known)
        if self.prior is not None:
            artifact.save_again(folder / artifact.PRIOR, self.prior.saved)

    def check_saved(self) -> None:
        """Raise ArtifactError where the model is in memory only."""
        if self.in_memory:
            what = f"the run cannot be saved: {self.in_memory[0].text}"
            raise ArtifactError(f"{what}; train without it, or keep this Run")

    def _as_loaded(self, model: FinalModel, known: TrainedModel | None) -> TrainedModel:
        """Return a model with the answers that it must give when it is loaded."""
        dataset = model.fitted
        manifest = {
            "features": artifact.describe_features(dataset.X, dataset.recipe.units),
            "data_sha256": self.digest or data_hash(self.dataset),
            "recipe": dataset.recipe.to_dict(),
            "host": dataset.host.name if dataset.host else None,
            "target": dataset.target.name,
            "metric": dataset.metric,
            **model.manifest(),
        }
        if self.prior is not None:
            manifest["prior"] = sorted(devices_of(self.prior))
        if known is not None:
            manifest["known"] = known.saved.manifest["selected"]
        saved = artifact.Artifact(model.estimator, json.loads(dumps(manifest)))
        answers = TrainedModel.of(saved, prior=self.prior, known=known).answers(dataset.rows)
        manifest = json.loads(dumps({**manifest, "answers": answers}))
        trained = TrainedModel.of(
            artifact.Artifact(model.estimator, manifest), prior=self.prior, known=known
        )
        recipe = replace(trained.recipe, additions=dataset.recipe.additions)
        return replace(trained, recipe=recipe)


def _save(folder: Path, model: FinalModel, loaded: TrainedModel) -> None:
    artifact.save(folder, model.estimator, loaded.saved.manifest, model.fitted.X)


class Run(Result):
    """A trained run: the evidence on every model, and the best of them to predict with.

    `train` makes one, `load` reads one back; both predict the same.

    Attributes
    ----------
    metrics : dict
        The content of ``metrics.json``.
    predictions : DataFrame
        Out-of-fold predictions: one row per workload, scheme and model.
    trained : TrainedModel
        The model, with all that a prediction needs beside it.
    folder : Path or None
        Where it was loaded from.

    Examples
    --------
    >>> import flopcast as fc
    >>> run = fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1)
    >>> run.table.loc[run.table["name"] == "OLS", "scheme"].tolist()
    ['kfold', 'grouped']
    >>> run.predict(fc.read(where={"m": (None, 64)}))[["predicted_us", "extrapolated"]].shape[1]
    2
    """

    saved_as = PARTS

    def __init__(
        self,
        metrics: dict[str, Any],
        predictions: pd.DataFrame,
        trained: TrainedModel,
        *,
        fresh: Trained | None = None,
        folder: Path | None = None,
    ) -> None:
        self.metrics: dict[str, Any] = Figures(metrics)
        self.predictions = predictions
        self.trained = trained
        self.folder = folder
        self._fresh = fresh

    @property
    def table(self) -> pd.DataFrame:
        """Errors of all baselines and models: one row per scheme and model, ``ir_T`` the share (%) within T %."""
        rows = []
        for cv in self.metrics["cv"]:
            for kind in ("baselines", "models"):
                for row in cv.get(kind) or []:
                    within = {
                        f"ir_{threshold}": share
                        for threshold, share in (row.get("ir") or {}).items()
                    }
                    known = {
                        key: row.get(key) for key in (*FIRST, *sorted(set(row) - {*FIRST, "ir"}))
                    }
                    rows.append({"scheme": cv["scheme"], "kind": kind[:-1], **known, **within})
        return pd.DataFrame(rows)

    @property
    def selected(self) -> dict[str, Any]:
        """The model selected under the scheme that the run predicts for: its name, honest error and interval."""
        chosen = self.metrics["model"]["scheme"]
        found = next(cv["selected"] for cv in self.metrics["cv"] if cv["scheme"] == chosen)
        return Figures(
            {name: found[name] for name in ("name", "e_out", "interval") if name in found} | found
        )

    @property
    def provenance(self) -> dict[str, Any]:
        """How the run was asked for, files with hashes, conditions, seed, date, machine, versions."""
        stated = self.metrics.get("provenance")
        if stated is None:
            return {}
        return Figures(stated, versions=self.metrics.get("versions"))

    @property
    def dataset(self) -> Dataset:
        """What was trained on; of a run just trained."""
        return self._just_trained("training rows").dataset

    @property
    def X(self) -> pd.DataFrame:  # noqa: N802
        """The features, (n, p), as scikit-learn takes them; of a run just trained."""
        return self.dataset.X

    @property
    def y(self) -> FloatArray:
        """The measured values, (n,), in the unit of the metric; of a run just trained."""
        return self.dataset.y

    @property
    def groups(self) -> NDArray[Any]:
        """The group of each row, (n,); of a run just trained."""
        return self.dataset.groups

    def cv(self, scheme: str | None = None) -> list[tuple[IntArray, IntArray]]:
        """Return the folds that the models of the run were scored on, as scikit-learn takes them.

        Parameters
        ----------
        scheme : {"grouped", "kfold"}, optional
            By default the one that the run shows first.

        Returns
        -------
        list of (ndarray, ndarray)
            Of each fold the rows to train on and the rows left out, as positions in `X`.

        Raises
        ------
        ArtifactError
            The run was loaded: a folder does not hold the training rows.

        Examples
        --------
        >>> import flopcast as fc
        >>> from sklearn.linear_model import Ridge
        >>> from sklearn.model_selection import cross_val_score
        >>> run = fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1)
        >>> cross_val_score(Ridge(), run.X, run.y, groups=run.groups, cv=run.cv()).ndim
        1
        """
        dataset = self.dataset
        cv = self._cv(scheme)
        rows = self.predictions[self.predictions["scheme"] == cv["scheme"]]
        folds = rows.drop_duplicates("row").set_index("row")["fold"]
        fold_of_row = folds.reindex(range(len(dataset))).to_numpy(dtype=np.int64)
        splits = []
        for fold in np.unique(fold_of_row):
            left_out = fold_of_row == fold
            training = ~left_out
            if cv["scheme"] == "grouped":
                training = learnable(left_out, dataset.groups, dataset.host_groups)
            splits.append((np.flatnonzero(training), np.flatnonzero(left_out)))
        return splits

    @property
    def model(self) -> FinalModel:
        """The model as it was chosen and fitted; of a run just trained."""
        return self._just_trained("fitting of its model").model

    @property
    def measured(self) -> Measurements:
        """The rows read, and those kept out; of a run just trained."""
        return self._just_trained("measurements").measured

    @configured
    def predict(
        self,
        *data: Data,
        target: Device | None = None,
        interval: float = 0.9,
        where: Where = None,
        unit: Mapping[str, str] | None = None,
        default: Mapping[str, str | Path | GPU] | None = None,
        rename: Mapping[str, str] | None = None,
        fallback: str | None = None,
    ) -> pd.DataFrame:
        """Predict new workloads; `flopcast.predict` gives a summary and figures beside the table.

        Parameters
        ----------
        *data, target, interval, where, unit, default, rename, fallback
            As for `flopcast.predict`.

        Returns
        -------
        DataFrame
            One row per workload: what identifies it, ``predicted_us``, ``lower_us`` and
            ``upper_us`` (the unit is that of the metric), ``extrapolated``, ``reason``, and a
            column per baseline. Of one DataFrame with its index. A run with a host predicts from
            its times: rows of others are left out (`flopcast.predict` counts them).

        Raises
        ------
        FlopcastError
            The data cannot be read, or no row of them can be predicted.
        """
        given: dict[str, Any] = {
            "target": target,
            "where": where,
            "unit": unit,
            "default": default,
            "rename": rename,
        }
        return predict(self, *data, interval=interval, fallback=fallback, **given).frame

    def explain(self, *data: Data, row: int = 1, **options: Any) -> Explanation:
        """Say why one workload is predicted as it is: `api.predicting.explain`, whose ``options`` they are."""
        return explain(self, *data, row=row, **options)

    def check(self, *data: Data, **options: Any) -> Check:
        """Score the run on new measurements: `flopcast.check`, whose ``options`` they are; `Check` has the verdict."""
        return check(self, *data, **options)

    def document(self) -> Document:
        """Return the run for readers; its ``data`` are those of ``metrics.json``, with the answer in a sentence."""
        return training_document(
            self.metrics, self.predictions, run=self.folder, saved=self.folder is not None
        )

    def _write(self, folder: Path, made: Mapping[str, Any] | None) -> None:
        """Write the run folder. Raises ArtifactError: it holds something that is no run, or files that no run has."""
        if self._fresh is None:
            saved = self._loaded_from()
            check_run_folder(folder)
            with whole_folder(folder) as stage:
                shutil.copytree(saved, stage, dirs_exist_ok=True)
            return
        self._fresh.check_saved()
        write_run(
            folder,
            metrics=self.metrics,
            predictions=self.predictions,
            html=self.report(),
            save_model=self._fresh.save,
        )
        if self._fresh.kept is not None:
            self._fresh.kept.remove()

    def report(self, made: Mapping[str, Any] | None = None) -> str:
        """Return the page of the run, which ends with its `provenance`: HTML that needs nothing beside it."""
        if self._fresh is None:
            return (self._loaded_from() / REPORT).read_text(encoding="utf-8")
        asked = what_if(self.trained, self._fresh.dataset.rows)
        return page(
            training_document(
                self.metrics, self.predictions, self._fresh.measured.rejected, what_if=asked
            )
        )

    def what_if(self) -> Answer:
        """Return sliders over the dimensions, for a notebook's cell; what they show is worked out in advance.

        Of a run just trained, without counters; from a host, over the settings that it was measured
        at.

        Raises
        ------
        ParameterError
            The run has counters as features, or no dimension that varies.
        """
        found = what_if(self.trained, self._just_trained("training rows").dataset.rows)
        return slid(
            repr(self)[1:-1],
            found,
            "needs a run without counters, whose rows differ in a dimension",
        )

    def plot_workloads(self, scheme: str | None = None) -> go.Figure:
        """Draw observed and predicted values of all workloads in order of size, and the error of each below.

        ``scheme`` is ``"grouped"`` or ``"kfold"``, by default that of the saved model.
        """
        unit = label_of(self.metrics["data"])
        figure = figures.workloads(self.predictions, self._cv(scheme), unit)
        if figure is None:
            raise DataError("no model was selected under this scheme: there is nothing to draw")
        return figure

    def plot_parity(self, scheme: str | None = None) -> go.Figure:
        """Draw predicted over observed values, and the band that holds 90 % of the workloads; ``scheme`` as above."""
        figure = figures.parity(self.predictions, self._cv(scheme), label_of(self.metrics["data"]))
        if figure is None:
            raise DataError("no model was selected under this scheme: there is nothing to draw")
        return figure

    def plot_inliers(self, scheme: str | None = None, *, families: bool = False) -> go.Figure:
        """Draw, for every model and baseline, the share of workloads whose error stays within a threshold.

        With ``families`` only of the best OLS, the best NNLS, Lasso, Lasso/NNLS and the forest;
        ``scheme`` as above. A DataError says that none of them was fitted.
        """
        figure = (figures.families if families else figures.inliers)(
            self.predictions, self._cv(scheme)
        )
        if figure is None:
            raise DataError("none of the literature's models was fitted: there is nothing to draw")
        return figure

    def plot_order(self, scheme: str | None = None) -> go.Figure:
        """Draw the place of each workload by its predicted value over that by its observed one; ``scheme`` as above."""
        return figures.order(self.predictions, self._cv(scheme))

    def plot_trees(self, scheme: str | None = None) -> go.Figure:
        """Draw E_out and inlier ratios against the number of trees of a forest; of a run trained with ``trees``."""
        if not (found := self._cv(scheme).get("trees")):
            raise ParameterError(
                "trees", "was not asked for: train with it to have the errors of 2 to 1024 trees"
            )
        return figures.trees(found)

    def __repr__(self) -> str:
        data, selected = self.metrics["data"], self.selected
        devices = title_of(data) if data["host"] else data["target"]
        best = f"{selected['name']}, E_out {selected['e_out']:.3g} %"
        return f"<Run {devices}, {data['metric']}: {'; '.join([best, *origin(self.provenance)])}>"

    def _repr_html_(self) -> str:
        shown = ["scheme", "kind", "name", "e_out", "median_ape", "max_ape", "ir_10", "ir_20"]
        table, chosen = self.table, self.metrics["model"]["scheme"]
        here, best = table["scheme"] == chosen, table["name"] == self.selected["name"]
        place = np.select([here & best, here & (table["kind"] == "baseline"), here], [0, 1, 2], 3)
        table = table.assign(place=place).sort_values(["place", "scheme", "e_out"], kind="stable")
        first = table[table["scheme"].eq(chosen) & table["e_out"].notna()].head(_BARS)
        most = float(first["e_out"].max()) or 1.0
        bars = [
            Bar(
                str(name),
                float(error) / most,
                percent(error),
                "good" if name == self.selected["name"] else "",
            )
            for name, error in zip(first["name"], first["e_out"], strict=True)
        ]
        drawn = Bars(f"Error out of sample, {left_out(chosen)}", bars)
        return framed(
            repr(self)[1:-1], table[[name for name in shown if name in table]], bars=drawn
        )

    def _cv(self, scheme: str | None) -> dict[str, Any]:
        schemes = {cv["scheme"]: cv for cv in self.metrics["cv"]}
        wanted = scheme or self.metrics["model"]["scheme"]
        if wanted not in schemes:
            raise ParameterError(
                "scheme", f"must be {' or '.join(schemes)} for this run, got {wanted!r}"
            )
        return schemes[wanted]

    def _just_trained(self, what: str) -> Trained:
        if self._fresh is None:
            raise ArtifactError(
                f"{self.folder}: a run folder does not hold the {what}: train again to have them"
            )
        return self._fresh

    def _loaded_from(self) -> Path:
        if self.folder is None:
            raise ArtifactError("this run has no folder: train it, or load it from one")
        return self.folder


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


def as_prior(run: str | Path | Run, target: GPU, metric: str) -> TrainedModel:
    """Return the model of a run that may tell of a device what others taught it.

    Raises ParameterError: it predicts from a host, or something else than time, has a prior itself,
    or has seen the target's own rows: errors on rows that it knows would say nothing of others.
    """
    given = run if isinstance(run, Run) else load(run)
    found = given.trained
    recipe = found.recipe
    if recipe.host is not None or found.prior is not None:
        what, without = "has a prior itself", "a prior"
        if recipe.host is not None:
            what, without = f"predicts from what {recipe.host.name} measured", "a host"
        other = (
            f"train one over other devices than the target, without {without}, and start from that"
        )
        raise ParameterError(
            "prior_run", f"must be a run of shapes alone, and this one {what}: {other}"
        )
    if not recipe.metric == metric == "duration_us":
        what = f"this run predicts {metric}, and that one {recipe.metric}"
        raise ParameterError(
            "prior_run", f"tells of the time of kernels, duration_us, alone: {what}"
        )
    comparison = Comparison.of_target(target)
    if target.name in (devices := devices_of(found)) or comparison.is_many:
        if not comparison.is_many:
            which = f"it was trained on rows of {target.name}"
        else:
            which = "the target is all of them"
        raise ParameterError(
            "prior_run",
            f"must be a run over other devices than the target: {which} ({few(devices)})",
        )
    if (
        given._fresh is not None
    ):  # with its probes, as a folder has it: the run that takes it is saved with both
        with TemporaryDirectory() as aside:
            given._fresh.save(Path(aside) / artifact.MODEL)
            found = TrainedModel.read(Path(aside) / artifact.MODEL)
    return found.for_new_groups()


def devices_of(model: TrainedModel) -> list[str]:
    """Return the devices whose rows a model without a host was trained on."""
    if model.groups and model.groups.devices:
        return sorted(model.groups.devices)
    return [model.recipe.target.name]


def load(folder: str | Path) -> Run:
    """Return the run that a folder holds.

    Parameters
    ----------
    folder : path
        What `train` and `Run.save` wrote. Nothing in it is executed.

    Returns
    -------
    Run
        With the metrics, out-of-fold predictions and model of the run that was saved; it predicts
        what that predicted. The training rows are not in the folder.

    Raises
    ------
    ArtifactError
        The folder is missing, foreign or damaged, or the installed versions do not reproduce its
        model.

    Examples
    --------
    >>> import tempfile, flopcast as fc
    >>> run = fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run.save(folder)
    ...     fc.load(folder).selected["name"] == run.selected["name"]
    True
    """
    place = Path(folder)
    return Run(*read_run(place), TrainedModel.load(place), folder=place)


def show(
    run: str | Path | Run,
    *,
    every: bool = False,
    top: int = 10,
    plot: bool = False,
    verify: bool = False,
    signers: str | Path | None = None,
) -> Answer:
    """Return the tables of a saved run; no model is loaded.

    Parameters
    ----------
    run : path or Run
        The folder that `train` wrote, or what it returned; or the .parquet of a model of serving.
    every : bool
        All tables, and not the first screen alone.
    top : int
        Features to name.
    plot : bool
        Whether inlier curves, and observed against predicted, are drawn for terminals.
    verify : bool
        The files of the run with their SHA-256 in place of its tables; one that is not sealed is
        refused.
    signers : path, optional
        With ``verify``: allowed signers (ssh-keygen), one of whom must have signed.

    Raises
    ------
    ArtifactError
        The folder is missing, foreign, damaged, or not as it was sealed.
    ParameterError
        ``signers`` without ``verify``.

    Examples
    --------
    >>> import tempfile, flopcast as fc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1).save(folder)
    ...     [one["scheme"] for one in fc.show(folder).document().data["cv"]]
    ['kfold', 'grouped']
    """
    if not isinstance(run, str | Path):
        if verify or signers is not None:
            raise ParameterError("run", "must be the folder of a run to verify: a Run has no seal")
        if not isinstance(run, Run):
            raise ParameterError(
                "run", f"must be a run or the folder of one, got {type(run).__name__}"
            )
        told = training_document(
            run.metrics,
            run.predictions,
            rank=top,
            run=run.folder,
            saved=run.folder is not None,
            every=every,
            plot=plot,
        )
        return Answer(told)
    folder = Path(run)
    if signers is not None and not verify:
        raise ParameterError("signers", "belongs to verify")
    if folder.is_file() and folder.suffix == ".parquet":
        return _show_serving(folder, verify, signers)
    if verify:
        read_run(folder)
        return _sealed(folder, check_seal(folder), signers)
    if plot:
        metrics, predictions = read_run(folder)
    else:
        metrics, predictions = read_metrics(folder), None
    return Answer(
        training_document(metrics, predictions, rank=top, run=folder, every=every, plot=plot)
    )


def _sealed(run: Path, manifest: Manifest, signers: str | Path | None) -> Answer:
    if signers is None:
        signer = None
    else:
        signer = signed_by(run, Path(signers))
    return Answer(seal_document(str(run), manifest, signer, signed=signature_of(run).exists()))


def _show_serving(file: Path, verify: bool, signers: str | Path | None) -> Answer:
    """Return how wide the answers of a model of serving are, or what its seal says."""
    from ..report.forecast import learnt_document  # here: runs need nothing of serving
    from ..workloads.serving_model import load as load_serving

    model = load_serving(file)
    if not verify:
        return Answer(learnt_document(model))
    return _sealed(file, Manifest(SCHEMA, None, {file.name: entry(file)}), signers)
