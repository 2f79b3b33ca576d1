"""Training: measured runs to the best model, its out-of-sample evidence, and the folder that holds both."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..datasets import DEFAULT_HOST, DEFAULT_TARGET
from ..errors import ParameterError
from ..evaluation.competition import Competition, compete
from ..evaluation.crossval import Progress
from ..evaluation.deployment import Deployed, deploy
from ..features.matrix import Dataset, build_dataset
from ..hardware import find
from ..models import artifact
from ..readers import Measurements
from ..report.html import page
from ..report.run_folder import write_run
from ..report.training import training_document
from ..report.words import in_words
from ..report.words.training import selection
from .tables import check_jobs, load_measurements


@dataclass(frozen=True)
class Run:
    """What training found.

    Attributes
    ----------
    metrics : dict
        The content of ``metrics.json``.
    predictions : DataFrame
        Out-of-fold predictions: one row per workload, scheme and model.
    dataset : Dataset
        What was trained on.
    model : Deployed
        The model to save: fitted to all rows, with its intervals and trained range.
    measured : Measurements
        The rows read, and those kept out.
    """

    metrics: dict[str, Any]
    predictions: pd.DataFrame
    dataset: Dataset
    model: Deployed
    measured: Measurements


def train(
    data: Sequence[Path | str] | None = None,
    *,
    host: str | None = None,
    target: str | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
    group: Sequence[str] | None = None,
    metric: str = "duration_us",
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    each: bool = False,
    suite: str = "default",
    models: Sequence[str] | None = None,
    without: Sequence[str] = (),
    scheme: str = "grouped",
    budget: float | None = None,
    seed: int = 0,
    jobs: int = -1,
    progress: Progress | None = None,
) -> Run:
    """Cross-validate the suite next to the analytic baselines and fit the best model to all rows.

    Parameters
    ----------
    data : sequence of path, optional
        Measured files and folders; None: the embedded measurements.
    host, target : str, optional
        Names or TOML files of the devices. Without a host, the time on the target is learnt from shapes alone.
    where : mapping of str to sequence of str, optional
        Column -> accepted values; only these rows count.
    group : sequence of str, optional
        Columns that make a group; by default what each operator says (GEMM: the weight shape).
    metric : str, default="duration_us"
        The measured column to predict; ``energy_j`` and ``power_w`` have analytic laws beside the models, as time has.
    units, defaults : mapping of str to str, optional
        Units, and values, of columns whose files do not state them.
    each : bool
        Whether every repeat of a measurement is a row of its own; else repeats are one row, their median.
    suite : {"default", "literature"}
        See `models.suite`.
    models : sequence of str, optional
        Models of the suite to run; all by default.
    without : sequence of str
        Models of the suite not to run.
    scheme : {"grouped", "kfold"}
        What the saved model is for: workloads of new groups, or of known ones. It is chosen, and its intervals are
        calibrated, under that scheme.
    budget : float, optional
        Seconds after which no further fit of the cross-validation starts.
    seed, jobs : int
        Seed of everything random; processes (-1: one per core). The result does not depend on ``jobs``.
    progress : callable, optional
        See `evaluation.crossval`.

    Returns
    -------
    Run

    Raises
    ------
    FlopcastError
        If the data, the devices or an option cannot be used.
    """
    if not data:
        target = target or DEFAULT_TARGET
        host = host or (DEFAULT_HOST if target == DEFAULT_TARGET else None)
    if target is None:
        raise ParameterError("target", "is missing: which device? and the host, to predict from its measurements")
    devices = find(host) if host else None, find(target)
    check_jobs(jobs)
    if devices[0] == devices[1]:
        both = f"and the target are both {devices[1].name}: leave out the host to predict new workloads"
        raise ParameterError("host", both)
    names = [device.name for device in devices if device is not None]
    measured = load_measurements(data, where, units, defaults, names, each)
    dataset = build_dataset(measured.frame, host=devices[0], target=devices[1], metric=metric, group=group)
    competition = compete(
        dataset,
        suite,
        models=models,
        without=without,
        seed=seed,
        jobs=jobs,
        budget=budget,
        progress=progress,
        scheme=scheme,
    )
    model = deploy(dataset, competition, seed=seed)
    return Run(_metrics(dataset, measured, competition, model), competition.table(dataset), dataset, model, measured)


def write(run: Run, out: Path) -> None:
    """Write the run folder, whole or not at all.

    Raises
    ------
    ArtifactError
        If ``out`` holds something that is not a run.
    """
    found = training_document(run.metrics, run.predictions, run.measured.rejected)
    save = partial(_save_model, run=run)
    write_run(out, metrics=run.metrics, predictions=run.predictions, save_model=save, html=page(found))


def _metrics(dataset: Dataset, measured: Measurements, competition: Competition, model: Deployed) -> dict[str, Any]:
    """Return what ``metrics.json`` holds."""
    report = dataset.report
    notes = in_words([*measured.notes, *competition.notes])
    return {
        "schema": 1,
        "data": {
            "n": len(dataset),
            "groups": len(np.unique(dataset.groups.astype(str))),
            "host": dataset.host.name if dataset.host else None,
            "target": dataset.target.name,
            "metric": dataset.metric,
            "features_available": dataset.X.shape[1],
            "sha256": data_hash(dataset),
            "rejected": measured.rejected_by_reason,
            "unpaired_host": report.get("host_only"),
            "unpaired_target": report.get("target_only"),
            "slower_kernels": report.get("slower_kernels") or None,
            "without_metric": report.get("without_metric") or None,
            "metric_not_positive": report.get("metric_not_positive") or None,
            "without_operator": report.get("without_operator") or None,
            "not_published": report["features"]["not_published"],
            "notes": notes,
        },
        "cv": [{**entry, "selected": _in_words(entry["selected"])} for entry in competition.summary()],
        "model": {"name": model.name, "scheme": model.scheme, "space": model.space},
        "intervals": model.coverage,
        "ranking": model.ranking,
        "groups": competition.by_group(dataset, model.name),
        "versions": artifact.versions(),
    }


def _in_words(selected: Mapping[str, Any]) -> dict[str, Any]:
    """Return a selection with its statement; so has the best model, where a baseline was selected."""
    inner = {"best_model": _in_words(selected["best_model"])} if "best_model" in selected else {}
    return {**selected, **inner, "statement": selection(selected)}


def data_hash(dataset: Dataset) -> str:
    """Return the SHA-256 of features, column names, target and groups, those of unpaired rows included."""
    digest = hashlib.sha256()
    for rows in (dataset, dataset.unpaired):
        if rows is not None:
            for part in (rows.X.to_numpy(np.float64), rows.y):
                digest.update(np.ascontiguousarray(part).tobytes())
            for words in (rows.X.columns, rows.groups):
                digest.update("\0".join(map(str, words)).encode())
    return digest.hexdigest()


def _save_model(folder: Path, run: Run) -> None:
    """Write ``model/``: the estimator, and a manifest with all that predict needs."""
    dataset, model = run.dataset, run.model
    manifest = {
        "features": artifact.describe_features(dataset.X, dataset.recipe.units),
        "data_sha256": run.metrics["data"]["sha256"],
        "recipe": dataset.recipe.to_dict(),
        "host": dataset.host.name if dataset.host else None,
        "target": dataset.target.name,
        "metric": dataset.metric,
        **model.manifest(),
    }
    artifact.save(folder, model.estimator, manifest, dataset.X)
