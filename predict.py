"""Predict from a run: ``python predict.py RUN DATA... --out FILE.csv`` writes one row per workload, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import pandas as pd
import typer
from threadpoolctl import threadpool_limits

from flopcast.errors import ArtifactError, DataError, NotPublishedError
from flopcast.evaluation.domain import WIDENING, TrainedRange
from flopcast.evaluation.intervals import LEVELS, ConformalIntervals, check_level
from flopcast.features import roofline
from flopcast.features.context import HOST
from flopcast.features.laws import own_laws, scaling_laws
from flopcast.features.ops import work_of
from flopcast.features.problems import slower_kernels
from flopcast.features.readers import read_rows
from flopcast.features.recipe import FeatureRecipe
from flopcast.features.table import REFUSED, REFUSED_DETAIL, select
from flopcast.models import artifact
from flopcast.options import (
    JsonOption,
    LevelOption,
    SetOption,
    UnitOption,
    WhereOption,
    parse_defaults,
    parse_units,
    parse_where,
    run_command,
)
from flopcast.report.console import output
from flopcast.report.predictions import check_file, identifying, report_of, show, to_json, write_file
from flopcast.report.run_folder import MODEL

STATED = ("family", "variant", "layout", "scale_block", "library")
"""Categories that a file may leave out and the user can state with --set."""


@dataclass(frozen=True)
class Prediction:
    """What a run predicts for new workloads.

    Attributes
    ----------
    frame : DataFrame
        One row per row of the data, in order: identifying columns, ``predicted``, ``lower`` and ``upper`` in the unit
        of the metric, ``extrapolated`` and ``reason``, and a column per baseline. A row that cannot be predicted has
        NaN there, and the reason.
    report : dict
        Fit for JSON: the model, counts, why rows are extrapolated or not predicted, and remarks.
    """

    frame: pd.DataFrame
    report: dict[str, Any]


@dataclass(frozen=True)
class TrainedModel:
    """A run's model with all that a prediction needs beside it.

    Attributes
    ----------
    saved : Artifact
        The estimator, and the manifest.
    recipe : FeatureRecipe
        How rows become features; holds the specifications of the devices.
    domain : TrainedRange
        Range of the training features.
    intervals : ConformalIntervals
        Calibrated on the training rows.
    baselines : dict
        ``constant ratio`` and ``affine``, fitted to the training rows.
    """

    saved: artifact.Artifact
    recipe: FeatureRecipe
    domain: TrainedRange
    intervals: ConformalIntervals
    baselines: Mapping[str, Any]

    @classmethod
    def load(cls, run: Path) -> Self:
        """Return the model of a run folder.

        Raises
        ------
        ArtifactError
            The folder is no run, or its model is damaged, foreign, or of other versions.
        """
        folder = run / MODEL
        if not folder.is_dir():
            raise ArtifactError(f"{run} is not a run folder (it has no {MODEL}/): give the one that `train` wrote")
        saved = artifact.load(folder)
        manifest = saved.manifest
        try:
            model = cls(
                saved,
                FeatureRecipe.from_dict(manifest["recipe"]),
                TrainedRange.from_dict(manifest["domain"]),
                ConformalIntervals.from_dict(manifest["intervals"]),
                {
                    "constant ratio": {"ratio": float(manifest["baselines"]["constant ratio"]["ratio"])},
                    "affine": {key: float(manifest["baselines"]["affine"][key]) for key in ("intercept", "ratio")},
                },
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"{type(error).__name__}: {error}"
            raise ArtifactError(f"{folder / artifact.MANIFEST} is damaged ({what}): train again") from error
        artifact.check_columns(saved.feature_names, model.recipe.columns)
        if foreign := sorted(set(model.domain.names) - set(saved.feature_names)):
            what = f"its trained range names {foreign[0]}, which is not a feature"
            raise ArtifactError(f"{folder / artifact.MANIFEST} is damaged ({what}): train again")
        return model

    def predict(self, rows: pd.DataFrame, level: float) -> pd.DataFrame:
        """Return ``predicted``, ``lower``, ``upper``, ``extrapolated``, ``reason`` and the baselines.

        Parameters
        ----------
        rows : DataFrame
            Clean rows; with a host, its measurements.
        level : float
            Share of rows that should lie inside their interval.

        Returns
        -------
        DataFrame with the index of ``rows``
            Where a row's features cannot be computed there is no prediction, and ``reason`` says why.
        """
        X, unlike, unable = self._features(rows)
        able = unable == ""
        check = self.domain.check(X[able])
        new = unlike[able] != ""
        widen = np.where(new, np.maximum(check.widening, 1 + WIDENING), check.widening)
        predicted, reason = np.full(len(rows), np.nan), unable.copy()
        predicted[able] = self.saved.predict(X[able]) if able.any() else []
        reason[able] = [_joined(pair) for pair in zip(unlike[able], check.reason, strict=True)]
        extrapolated = np.zeros(len(rows), dtype=bool)
        extrapolated[able] = new | check.extrapolated
        lower, upper = np.full((2, len(rows)), np.nan)
        lower[able], upper[able] = self.intervals.bounds(predicted[able], level, widen=widen)
        bare = able & ~(predicted > 0)
        reason[bare] = [_joined(("not a positive prediction: no interval", why)) for why in reason[bare]]
        found = {"predicted": predicted, "lower": lower, "upper": upper, "extrapolated": extrapolated, "reason": reason}
        return pd.concat([pd.DataFrame(found, index=rows.index), self._baselines(rows)], axis=1)

    def _features(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
        """Return the features, in which way each row is unlike every training row, and why it has no features."""
        values = np.full((len(rows), len(self.recipe.columns)), np.nan)
        unlike, unable = np.full(len(rows), "", dtype=object), np.full(len(rows), "", dtype=object)
        for kind in _kinds(rows):
            part = rows.iloc[kind]
            try:
                values[kind], unlike[kind] = self.recipe.transform(part), self.recipe.unseen(part)
            except NotPublishedError as error:
                unable[kind] = f"{error.figure} of {error.gpu} is not published"
            except DataError as error:
                unable[kind] = str(error)
        unknown = ~np.isfinite(values)
        for row in np.flatnonzero(unknown.any(axis=1) & (unable == "")):
            unable[row] = f"{self.recipe.columns[int(np.argmax(unknown[row]))]} is unknown for this row"
        return pd.DataFrame(values, columns=list(self.recipe.columns)), unlike, unable

    def _baselines(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return what the laws predict, and a constant ratio and a line fitted to the training rows."""
        if self.recipe.host is None:
            measure, target = self.saved.manifest["baselines"].get("reference", "roofline"), self.recipe.target
            reference, _ = roofline.where_published(work_of(rows), lambda kind: roofline.size(measure, kind, target))
        else:
            reference = rows[self.recipe.metric].to_numpy(dtype=float)
        line = self.baselines["affine"]
        return self._laws(rows)[0].assign(
            **{
                "constant ratio": self.baselines["constant ratio"]["ratio"] * reference,
                "affine": line["intercept"] + line["ratio"] * reference,
            }
        )

    def unpublished(self, rows: pd.DataFrame) -> dict[str, str]:
        """Return the laws that lack a figure for some of the rows, because it is not published, and which."""
        return self._laws(rows)[1]

    def _laws(self, rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
        """Return what the analytic laws predict, and what they lack (see `features.laws`)."""
        host, target, metric, work = self.recipe.host, self.recipe.target, self.recipe.metric, work_of(rows)
        if host is None:
            laws, lacking = own_laws(metric, work, target)
        else:
            laws, lacking = scaling_laws(metric, work, rows[metric].to_numpy(dtype=float), host, target)
        return laws.set_axis(rows.index), lacking


def predict(
    run: Path | str,
    data: Sequence[Path | str],
    *,
    interval: float = 0.9,
    where: Mapping[str, Sequence[str]] | None = None,
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> Prediction:
    """Predict new workloads with the model of a run.

    Parameters
    ----------
    run : path
        Run folder that `train` wrote.
    data : sequence of path
        Files and folders. If the run has a host: what it measured (rows of other devices are counted and left out).
        If not: shapes, with or without a device and a time.
    interval : float, default=0.9
        Share of rows that should lie between ``lower`` and ``upper``.
    where : mapping of str to sequence of str, optional
        Column -> accepted values; only these rows are predicted.
    units, defaults : mapping of str to str, optional
        Units, and values, of columns whose files do not state them.

    Returns
    -------
    Prediction

    Raises
    ------
    FlopcastError
        If the run cannot be loaded, or the data cannot be read, or no row of them can be predicted.
    """
    check_level(interval, LEVELS[0], LEVELS[-1])
    if not data:
        raise DataError("no DATA to predict: give the files or folders that hold the workloads")
    with threadpool_limits(limits=1):  # small trees by the hundred: threads would wait for each other
        return _predict(TrainedModel.load(Path(run)), str(run), data, interval, where, units, defaults)


def _predict(
    model: TrainedModel,
    run: str,
    data: Sequence[Path | str],
    level: float,
    where: Mapping[str, Sequence[str]] | None,
    units: Mapping[str, str] | None,
    defaults: Mapping[str, str] | None,
) -> Prediction:
    host = model.recipe.host
    rows, notes = read_rows(data, units=units, defaults=defaults, timed=host is not None)
    rows = select(rows, where or {})
    rows, others = (rows, {}) if host is None else _of_host(rows, (host.name, *host.aliases))
    found = _predict_rows(model, rows, level)
    frame = pd.concat([identifying(rows, model.recipe.metric), found], axis=1)
    facts = {
        "run": run,
        "model": str(model.saved.manifest.get("selected", "?")),
        "host": host.name if host else None,
        "target": model.recipe.target.name,
        "metric": model.recipe.metric,
        "level": level,
        "scheme": model.intervals.scheme,
        "other_devices": others,
    }
    lacking = model.unpublished(rows[found["predicted"].notna()])
    remarks = [*_remarks(model.recipe, rows), *(f"no {law} where {why}" for law, why in lacking.items())]
    return Prediction(frame, report_of(frame, facts, [*notes, *remarks]))


def write(prediction: Prediction, out: Path) -> None:
    """Write predictions to a ``.csv``, ``.parquet`` or ``.json`` file, whole or not at all.

    Raises
    ------
    DataError
        If the suffix is another, or the file cannot be written.
    """
    write_file(prediction.frame, prediction.report, out)


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder that train wrote.")],
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Files and folders with workloads, any mix.")],
    interval: LevelOption = 0.9,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write: .csv, .parquet or .json.")] = None,
    where: WhereOption = None,
    unit: UnitOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict new workloads with a run's model: times with intervals, and what lies outside the trained range."""
    if out is not None:
        check_file(out, data)
    prediction = predict(
        run,
        data,
        interval=interval,
        where=parse_where(where),
        units=parse_units(unit),
        defaults=parse_defaults(set_),
    )
    if out is not None:
        write(prediction, out)
    if as_json:
        print(to_json(prediction.frame, prediction.report), end="")
    else:
        show(output(), prediction.frame, prediction.report, out)


def _of_host(rows: pd.DataFrame, names: Sequence[str]) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the rows of the host, and those whose device is unknown; count the rows of other devices."""
    own = rows["device"].str.casefold().isin([name.casefold() for name in names])
    counts = {str(name): int(n) for name, n in rows.loc[~own & rows["device"].ne(""), "device"].value_counts().items()}
    if not own.any():
        there = ", ".join(f"{name} ({n} rows)" for name, n in counts.items()) or "rows without a device"
        raise DataError(
            f"no row was measured on {names[0]}, from whose measurements this run predicts: the data have {there}"
        )
    kept = rows[own | rows["device"].eq("")]
    return kept.assign(device=kept["device"].where(~own, names[0])).reset_index(drop=True), counts


def _predict_rows(model: TrainedModel, rows: pd.DataFrame, level: float) -> pd.DataFrame:
    """Return the predictions of all rows; those refused by the reader have a reason instead."""
    refused = rows[REFUSED].where(rows[REFUSED_DETAIL].eq(""), rows[REFUSED] + " (" + rows[REFUSED_DETAIL] + ")")
    host, metric = model.recipe.host, model.recipe.metric
    if host is not None and metric != "duration_us":
        measured = pd.to_numeric(rows[metric], errors="coerce") if metric in rows else pd.Series(np.nan, rows.index)
        rows = rows.assign(**{metric: measured})
        refused = refused.mask(refused.eq("") & ~(measured.gt(0) & np.isfinite(measured)), f"no positive {metric}")
    usable = rows[refused.eq("")]
    found = model.predict(usable, level)
    if host is not None:
        slower = slower_kernels(usable)
        words = f"another kernel solves this problem faster on {host.name}: trained on the fastest only"
        found.loc[slower, "extrapolated"] = True
        found.loc[slower, "reason"] = [_joined((words, why)) for why in found.loc[slower, "reason"]]
    whole = found.reindex(rows.index)
    reason = refused.mask(refused.eq(""), whole["reason"]).astype("str")
    if whole["predicted"].isna().all():
        raise DataError(f"no row can be predicted; first: {reason.iloc[0]}", source=str(rows["source"].iloc[0]))
    return whole.assign(extrapolated=whole["extrapolated"].eq(True), reason=reason)


def _kinds(rows: pd.DataFrame) -> list[np.ndarray]:
    """Return the positions of the rows of each operator and precision: a figure or a dimension is missing for all."""
    codes, _ = work_of(rows).kinds()
    ops = pd.factorize(rows["op"])[0]
    both = pd.factorize(ops * (codes.max(initial=0) + 1) + codes)[0]
    return [np.flatnonzero(both == kind) for kind in range(both.max(initial=-1) + 1)]


def _remarks(recipe: FeatureRecipe, rows: pd.DataFrame) -> Iterator[str]:
    """Say which columns that no row has were the same in all of training, and that other devices do not matter."""
    for name, levels in recipe.levels.items():
        column = name.removeprefix(HOST)
        absent = column not in rows or rows[column].eq("").all()
        if column in STATED and absent and len(levels) == 1 and levels[0] != "none":
            said = f"--set {column}={levels[0]}"
            yield f"no row states its {column}, in training it was always {levels[0]}: if that holds, add {said}"
    if recipe.host is None:
        others = int((rows["device"].ne("") & rows["device"].ne(recipe.target.name)).sum())
        if others:
            yield f"{others} rows name another device: their shapes are predicted for {recipe.target.name}"


def _joined(reasons: Sequence[str]) -> str:
    return "; ".join(filter(None, reasons))


if __name__ == "__main__":
    typer.run(run_command(command))
