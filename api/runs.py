"""Runs: the evidence on every model and the best of them, saved to a folder, loaded and shown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from os.path import isfile  # False of a name too long to be one, where that of Path raises
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import FloatArray, IntArray
from ..errors import (
    ArtifactError,
    DataError,
    ParameterError,
    few,
)
from ..evaluation.final_model import FinalModel
from ..evaluation.folds import learnable
from ..evaluation.observers.resume import KeptFits
from ..evaluation.trained_model import TrainedModel
from ..features.matrix import Dataset
from ..hardware import GPU, Comparison
from ..models import artifact
from ..output import SCHEMA, dumps, whole_folder
from ..readers import Measurements
from ..remarks import Remark
from ..report import figures
from ..report.document import Bar, Bars, Document, origin
from ..report.formats import percent
from ..report.html import page
from ..report.notebook import Figures, framed
from ..report.result import Answer, Result, slid
from ..report.run_folder import PARTS, REPORT, check_run_folder, read_metrics, read_run, write_run
from ..report.training import before_correction, left_out, seal_document, training_document
from ..report.training import metric as label_of
from ..report.training import title as title_of
from ..report.what_if import what_if
from ..sealing import Manifest, entry, signature_of, signed_by
from ..sealing import check as check_seal
from ..settings import configured, spelt_out
from ..values import Beside
from .checking import Advice, Check, Need, advise, check, needed
from .predicting import Explanation, Predicting, explain, predict
from .provenance import data_hash
from .tables import Data

if TYPE_CHECKING:
    import plotly.graph_objects as go


_BARS = 10  # models that a notebook draws
FIRST = ("name", "e_out", "e_in", "median_ape", "max_ape")  # first columns of the table of models


@dataclass(frozen=True)
class Trained:
    """What a run knows that was just trained, and its folder does not hold."""

    dataset: Dataset  # what was trained on
    model: FinalModel  # the model to save: fitted to all rows, with its intervals and trained range
    measured: Measurements  # the rows read, and those kept out
    prior: TrainedModel | None = None  # the run over other devices that it was trained with
    # where the fits of its cross-validation are kept until the run is saved
    kept: KeptFits | None = None
    digest: str = ""  # `data_hash` of the data set
    in_memory: tuple[Remark, ...] = ()  # why the run cannot be saved

    @cached_property
    def loaded(self) -> TrainedModel:
        """The model as a run folder would give it back: its manifests as JSON holds them."""
        groups_model = None
        if self.model.of_trained_groups is not None:
            groups_model = self._as_loaded(self.model.of_trained_groups, None)
        return self._as_loaded(self.model, groups_model)

    def save(self, folder: Path) -> None:
        """Write ``model/``: the estimators, and manifests with all that predict needs."""
        self.check_saved()
        loaded = self.loaded
        _save(folder, self.model, loaded)
        if self.model.of_trained_groups is not None and loaded.of_trained_groups is not None:
            _save(folder / artifact.KNOWN, self.model.of_trained_groups, loaded.of_trained_groups)
        if self.prior is not None:
            artifact.save_again(folder / artifact.PRIOR, self.prior.saved)

    def check_saved(self) -> None:
        """Raise ArtifactError where the model is in memory only."""
        if self.in_memory:
            what = f"the run cannot be saved: {self.in_memory[0].text}"
            raise ArtifactError(f"{what}; train without it, or keep this Run")

    def _as_loaded(self, model: FinalModel, groups_model: TrainedModel | None) -> TrainedModel:
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
        if groups_model is not None:
            manifest["known"] = groups_model.saved.manifest["selected"]
        as_read = json.loads(dumps(manifest))
        saved = artifact.Artifact(model.estimator, as_read)
        trained = TrainedModel.of(saved, prior=self.prior, groups_model=groups_model)
        answers = json.loads(dumps(trained.answers(dataset.rows)))
        saved = artifact.Artifact(model.estimator, {**as_read, "answers": answers})
        recipe = replace(trained.recipe, additions=dataset.recipe.additions)
        return replace(trained, saved=saved, recipe=recipe)


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
        """Errors of all baselines and models: one row per scheme and model, ``ir_T`` the share (%) within T %.

        They are those as trained; what a run that `Check.correct` saved errs by since, `selected` says.
        """
        rows = []
        for cv in self.metrics["cv"]:
            for kind in ("baselines", "models"):
                for row in cv.get(kind) or []:
                    within = {
                        f"ir_{threshold}": share
                        for threshold, share in (row.get("ir") or {}).items()
                    }
                    fields = {
                        key: row.get(key) for key in (*FIRST, *sorted(set(row) - {*FIRST, "ir"}))
                    }
                    rows.append({"scheme": cv["scheme"], "kind": kind[:-1], **fields, **within})
        return pd.DataFrame(rows)

    @property
    def selected(self) -> dict[str, Any]:
        """The model selected under the scheme that the run predicts for: its name, honest error and interval.

        Of a corrected run these are since the correction (None where that was not measured), and
        ``as_trained`` holds what they were.
        """
        chosen = self.metrics["model"]["scheme"]
        answer = next(cv["selected"] for cv in self.metrics["cv"] if cv["scheme"] == chosen)
        return Figures(
            {name: answer[name] for name in ("name", "e_out", "interval") if name in answer}
            | answer
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

    @spelt_out
    @configured
    def predict(
        self, *data: Data, interval: float = 0.9, **how: Unpack[Predicting]
    ) -> pd.DataFrame:
        """Predict new workloads; `flopcast.predict` gives a summary and figures beside the table.

        Parameters
        ----------
        *data, interval, where, unit, default, rename, keep, target, target_cost, fallback
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
        return predict(self, *data, interval=interval, **how).frame

    def explain(self, *data: Data, row: int = 1, **options: Any) -> Explanation:
        """Say why one workload is predicted as it is: `api.predicting.explain`, whose ``options`` they are."""
        return explain(self, *data, row=row, **options)

    def check(self, *data: Data, **options: Any) -> Check:
        """Score the run on new measurements: `flopcast.check`, whose ``options`` they are; `Check` has the verdict."""
        return check(self, *data, **options)

    def advise(self, *candidates: Data, **options: Any) -> Advice:
        """Choose what to measure next on the target: `flopcast.advise`, whose ``options`` they are."""
        return advise(self, *candidates, **options)

    def needed(self, need: float, *candidates: Data, **options: Any) -> Need:
        """Say whether the run errs by no more than is needed: `flopcast.needed`, whose ``options`` they are."""
        return needed(self, need, *candidates, **options)

    def document(self) -> Document:
        """Return the run for readers; its ``data`` are those of ``metrics.json``, with the answer in a sentence."""
        return training_document(
            self.metrics, self.predictions, run=self.folder, saved=self.folder is not None
        )

    @classmethod
    def _check_folder(cls, folder: Path) -> None:
        """Refuse a folder that no run can be written to; called before the work, not after."""
        check_run_folder(folder)

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
        answer = what_if(self.trained, self._just_trained("training rows").dataset.rows)
        return slid(
            repr(self)[1:-1],
            answer,
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
        trees = self._cv(scheme).get("trees")
        if not trees:
            raise ParameterError(
                "trees", "was not asked for: train with it to have the errors of 2 to 1024 trees"
            )
        return figures.trees(trees)

    def __repr__(self) -> str:
        data = self.metrics["data"]
        selected = self.selected
        if data["host"]:
            devices = title_of(data)
        else:
            devices = data["target"]
        error = "not measured since its correction"
        if selected["e_out"] is not None:
            error = percent(selected["e_out"])
        best = f"{selected['name']}, E_out {error}"
        return f"<Run {devices}, {data['metric']}: {'; '.join([best, *origin(self.provenance)])}>"

    def _repr_html_(self) -> str:
        shown = ["scheme", "kind", "name", "e_out", "median_ape", "max_ape", "ir_10", "ir_20"]
        table = self.table
        chosen = self.metrics["model"]["scheme"]
        here = table["scheme"] == chosen
        best = table["name"] == self.selected["name"]
        is_baseline = table["kind"] == "baseline"
        place = np.select([here & best, here & is_baseline, here], [0, 1, 2], 3)
        table = table.assign(place=place).sort_values(["place", "scheme", "e_out"], kind="stable")
        first = table[table["scheme"].eq(chosen) & table["e_out"].notna()].head(_BARS)
        largest = float(first["e_out"].max()) or 1.0
        bars = [
            Bar(
                str(name),
                float(error) / largest,
                percent(error),
                "good" if name == self.selected["name"] else "",
            )
            for name, error in zip(first["name"], first["e_out"], strict=True)
        ]
        what = f"{left_out(chosen)}{before_correction(self._cv(chosen))}"
        drawn = Bars(f"Error out of sample, {what}", bars)
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


def as_prior(run: str | Path | Run, target: GPU, metric: str) -> TrainedModel:
    """Return the model of a run that may tell of a device what others taught it.

    Raises ParameterError: it predicts from a host, or something else than time, has a prior itself,
    or has seen the target's rows: errors on rows that it knows would say nothing of others.
    """
    if not isinstance(run, Run):
        given = load(run)
    else:
        given = run
    trained = given.trained
    recipe = trained.recipe
    if recipe.host is not None or trained.prior is not None:
        what = "has a prior itself"
        without = "a prior"
        if recipe.host is not None:
            what = f"predicts from what {recipe.host.name} measured"
            without = "a host"
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
    if target.name in (devices := devices_of(trained)) or comparison.is_many:
        if not comparison.is_many:
            which = f"it was trained on rows of {target.name}"
        else:
            which = "the target is all of them"
        raise ParameterError(
            "prior_run",
            f"must be a run over other devices than the target: {which} ({few(devices)})",
        )
    # with its probes, as a folder has it: the run that takes it is saved with both
    if given._fresh is not None:
        with TemporaryDirectory() as aside:
            given._fresh.save(Path(aside) / artifact.MODEL)
            trained = TrainedModel.read(Path(aside) / artifact.MODEL)
    return trained.for_new_groups()


def devices_of(model: TrainedModel) -> list[str]:
    """Return the devices whose rows a model without a host was trained on."""
    if model.groups and model.groups.devices:
        return sorted(model.groups.devices)
    return [model.recipe.target.name]


@configured
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
    if not isinstance(folder, str | PathLike):
        raise ParameterError("folder", f"must be a path, got {type(folder).__name__}")
    place = Path(folder)
    return Run(*read_run(place), TrainedModel.load(place), folder=place)


@configured
def show(
    run: str | Path | Run,
    *,
    every: bool = False,
    top: int = 10,
    plot: bool = False,
    verify: bool = False,
    signers: Beside | None = None,
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
        Print the files of the run and their SHA-256; refuse one not sealed. They stand in place of its tables.
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
        document = training_document(
            run.metrics,
            run.predictions,
            rank=top,
            run=run.folder,
            saved=run.folder is not None,
            every=every,
            plot=plot,
        )
        return Answer(document)
    folder = Path(run)
    if signers is not None and not verify:
        raise ParameterError("signers", "belongs to verify")
    if isfile(folder) and folder.suffix == ".parquet":
        return _show_serving(folder, verify, signers)
    if verify:
        read_run(folder)
        return _sealed(folder, check_seal(folder), signers)
    if plot:
        metrics, predictions = read_run(folder)
    else:
        metrics = read_metrics(folder)
        predictions = None
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
