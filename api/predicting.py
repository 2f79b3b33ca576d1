"""Predicting: a run and new workloads to times with their intervals, and what is unlike training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ..errors import DataError, ParameterError
from ..evaluation.intervals import LEVELS, check_level
from ..evaluation.trained_model import TrainedModel
from ..features.recipe import FeatureRecipe
from ..readers import read_rows
from ..remarks import Remark, remark
from ..report.predictions import identifying, report_of, write_file
from ..report.words import in_words
from ..report.words.prediction import say_all
from ..table.measurements import REFUSED, REFUSED_DETAIL, select
from ..table.pairing import HOST
from ..table.problems import slower_kernels

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
        raise ParameterError("data", "is missing: give the files or folders that hold the workloads")
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
    reasons = found["reasons"]
    worded = found.assign(reasons=reasons.map(say_all).astype("str")).rename(columns={"reasons": "reason"})
    frame = pd.concat([identifying(rows, model.recipe.metric), worded], axis=1)
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
    return Prediction(frame, report_of(frame, reasons, facts, in_words([*notes, *remarks])))


def write(prediction: Prediction, out: Path) -> None:
    """Write predictions to a ``.csv``, ``.parquet`` or ``.json`` file, whole or not at all.

    Raises
    ------
    DataError
        If the suffix is another, or the file cannot be written.
    """
    write_file(prediction.frame, prediction.report, out)


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
    host, metric = model.recipe.host, model.recipe.metric
    usable = rows[REFUSED].eq("")
    if host is not None and metric != "duration_us":
        measured = pd.to_numeric(rows[metric], errors="coerce") if metric in rows else pd.Series(np.nan, rows.index)
        rows = rows.assign(**{metric: measured})
        usable &= measured.gt(0) & np.isfinite(measured)
    found = model.predict(rows[usable], level)
    whole = found.reindex(rows.index)
    slower = slower_kernels(rows[usable]) if host is not None else np.zeros(len(found), dtype=bool)
    whole.loc[rows.index[usable][slower], "extrapolated"] = True
    reasons = [_refusal(*cells, metric) for cells in zip(rows[REFUSED], rows[REFUSED_DETAIL], strict=True)]
    for place, why, slow in zip(np.flatnonzero(usable), found["reasons"], slower, strict=True):
        reasons[place] = (remark("slower-kernel", host=host.name), *why) if host is not None and slow else why
    if whole["predicted"].isna().all():
        first = say_all(reasons[0])
        raise DataError(f"no row can be predicted; first: {first}", source=str(rows["source"].iloc[0]))
    return whole.assign(
        extrapolated=whole["extrapolated"].eq(True), reasons=pd.Series(reasons, index=rows.index, dtype=object)
    )


def _refusal(reason: str, detail: str, metric: str) -> tuple[Remark, ...]:
    """Return why a row is not predicted: the reader refused it, or it lacks the metric."""
    if reason:
        return (remark("row-refused", reason=reason, detail=detail),)
    return (remark("no-positive-metric", metric=metric),)


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
