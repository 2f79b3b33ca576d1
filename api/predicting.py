"""Predicting: a run and new workloads to times with their intervals, and what is unlike training."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ..errors import DataError, ParameterError
from ..evaluation.intervals import LEVELS, check_level
from ..evaluation.trained_model import TrainedModel
from ..features.recipe import FeatureRecipe
from ..readers import Measurements, read_rows
from ..remarks import Remark, remark
from ..report import figures
from ..report.predictions import identifying, report_of, write_file
from ..report.words import in_words
from ..report.words.prediction import in_words_of_rows
from ..table.conditions import Where, conditions, select
from ..table.measurements import REFUSED, REFUSED_DETAIL, prediction_columns
from ..table.problems import HOST, slower_kernels
from .tables import Data, items, titled

if TYPE_CHECKING:
    import plotly.graph_objects as go

STATED = ("family", "variant", "layout", "scale_block", "library")
"""Categories that a file may leave out and the user can state as defaults."""
PLACE = "_place"
"""Column: place of a row among those that were read."""
BATCH, THREADS = 2**14, 2
"""Rows predicted at a time, and how many batches at once."""


class Trained(Protocol):
    """A run with its model (`training.Run`)."""

    folder: Path | None
    trained: TrainedModel


@dataclass(frozen=True)
class Prediction:
    """What a run predicts for new workloads.

    Attributes
    ----------
    frame : DataFrame
        One row per row of the data, in order: identifying columns, ``predicted_us``, ``lower_us`` and ``upper_us`` (the
        unit is that of the metric: ``predicted_j`` of energy, ``predicted_w`` of power), ``extrapolated`` and
        ``reason``, and a column per baseline. A row that cannot be predicted has NaN there, and the reason. ``basis``
        says what answers: ``model``, ``rule`` or ``blend`` outside the trained range, or ``law`` (`predict`).
    report : dict
        Fit for JSON: the model, counts, why rows are extrapolated or not predicted, and remarks.
    """

    frame: pd.DataFrame
    report: dict[str, Any]

    def save(self, out: str | Path) -> None:
        """Write the rows to a ``.csv`` or ``.parquet`` file, rows and report to a ``.json`` file; whole or not at all.

        Raises
        ------
        DataError
            If the suffix is another, or the file cannot be written.
        """
        write_file(self.frame, self.report, Path(out))

    def plot_intervals(self) -> go.Figure:
        """Draw the predictions with their intervals, from the smallest to the largest; what is extrapolated apart."""
        return figures.intervals(self.frame, self.report["metric"])

    def __repr__(self) -> str:
        counts = f"{self.report['predicted']} of {self.report['n']} workloads"
        return f"<Prediction of {self.report['metric']} on {self.report['target']}: {counts}>"

    def _repr_html_(self) -> str:
        return titled(repr(self)[1:-1], self.frame)


def predict(
    run: str | Path | Trained,
    data: Data,
    *,
    level: float = 0.9,
    where: Where = None,
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    keep: Collection[str] = (),
    fallback: str | None = None,
) -> Prediction:
    """Predict new workloads with the model of a run.

    Parameters
    ----------
    run : path or Run
        Run folder that `train` wrote, or a run.
    data : path, DataFrame, Measurements, or a sequence of them
        If the run has a host: what it measured (rows of other devices are counted and left out). If not: shapes, with
        or without a device and a time.
    level : float, default=0.9
        Share of rows that should lie between the lower and the upper limit.
    where : mapping, or sequence of str, optional
        Which rows, as for `read`: column -> value, list or range ``(from, to)``, or texts such as ``m=16..512``.
    units, defaults : mapping of str to str, optional
        Units, and values, of columns whose data do not state them.
    keep : collection of str
        ``("impossible",)`` keeps rows that take less time than their device can, or impossibly long or little.
    fallback : {"law"}, optional
        What answers for rows that the run was never trained on. By default nothing does; ``"law"`` is the roofline at
        the rates that the training rows reached, with a wide interval of its own (``basis`` is then ``law``).

    Returns
    -------
    Prediction
        Of one DataFrame its rows have the index of that.

    Raises
    ------
    FlopcastError
        If the run cannot be loaded, or the data cannot be read, or no row of them can be predicted.

    Examples
    --------
    >>> import flopcast as fc
    >>> gemms = {"op": "gemm", "dtype_a": "fp32"}
    >>> run = fc.train(where=gemms, models=["OLS"], jobs=1)
    >>> found = fc.predict(run, fc.read(where=gemms))
    >>> bool((found.frame["lower_us"] < found.frame["predicted_us"]).all())
    True
    """
    check_level(level, LEVELS[0], LEVELS[-1])
    if fallback not in (None, "law"):
        raise ParameterError("fallback", f"must be law, got {fallback!r}")
    conditions(where)  # refused before anything is read
    given = items(data)
    if not given:
        raise ParameterError("data", "is missing: give the files or folders that hold the workloads")
    with threadpool_limits(limits=1):  # small trees by the hundred: threads would wait for each other
        if isinstance(run, str | Path):
            model, name = TrainedModel.load(Path(run)), str(run)
        elif isinstance(getattr(run, "trained", None), TrainedModel):
            model, name = run.trained, str(run.folder or "the run just trained")
        else:
            raise ParameterError("run", f"must be a run or the folder of one, got {type(run).__name__}")
        return _predict(model, name, given, level, where, units, defaults, keep, fallback is not None)


def _predict(
    model: TrainedModel,
    run: str,
    given: Sequence[Path | pd.DataFrame | Measurements],
    level: float,
    where: Where,
    units: Mapping[str, str] | None,
    defaults: Mapping[str, str] | None,
    keep: Collection[str],
    fallback: bool,
) -> Prediction:
    host = model.recipe.host
    tables = [one.frame if isinstance(one, Measurements) else one for one in given]
    rows, notes = read_rows(tables, units=units, defaults=defaults, timed=host is not None, keep=keep)
    rows = select(rows.assign(**{PLACE: np.arange(len(rows))}), where)
    rows, others = (rows, {}) if host is None else _of_host(rows, (host.name, *host.aliases))
    found = _predict_rows(model, rows, level, fallback)
    names = {"reasons": "reason", **prediction_columns(model.recipe.metric)}
    worded = found.drop(columns="cause").rename(columns=names)
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
    lacking = model.unpublished(rows[found["predicted"].notna() & found.isna().any(axis=1)])
    remarks = [*_remarks(model.recipe, rows), *(remark("law-lacks", law=law, why=why) for law, why in lacking.items())]
    if model.correction is not None:
        remarks.insert(0, remark("corrected", **vars(model.correction)))
    report = report_of(frame, found["cause"], facts, in_words([*notes, *remarks]))
    alone = given[0] if len(given) == 1 else None
    return Prediction(frame.set_axis(alone.index[rows[PLACE]]) if isinstance(alone, pd.DataFrame) else frame, report)


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


def _predict_rows(model: TrainedModel, rows: pd.DataFrame, level: float, fallback: bool) -> pd.DataFrame:
    """Return the predictions of all rows; those refused by the reader have a reason instead.

    ``reasons`` and ``cause`` are words: all reasons of the row, and the first one without figures.
    """
    host, metric = model.recipe.host, model.recipe.metric
    usable = rows[REFUSED].eq("")
    if host is not None and metric != "duration_us":
        measured = pd.to_numeric(rows[metric], errors="coerce") if metric in rows else pd.Series(np.nan, rows.index)
        rows = rows.assign(**{metric: measured})
        usable &= measured.gt(0) & np.isfinite(measured)
    slower = pd.Series(False, index=rows.index)
    if host is not None:
        slower[usable] = slower_kernels(rows[usable])

    def predicted(start: int) -> pd.DataFrame:
        some = slice(start, start + BATCH)
        return _predict_batch(model, rows[some], usable[some], slower[some], level, fallback)

    with ThreadPoolExecutor(THREADS) as pool:  # trees are walked and arrays computed outside Python's lock
        whole = pd.concat(list(pool.map(predicted, range(0, len(rows), BATCH))))
    if whole["predicted"].isna().all():
        first = whole["reasons"].iloc[0]
        raise DataError(f"no row can be predicted; first: {first}", source=str(rows["source"].iloc[0]))
    return whole


def _predict_batch(
    model: TrainedModel, rows: pd.DataFrame, usable: pd.Series, slower: pd.Series, level: float, fallback: bool
) -> pd.DataFrame:
    """Return what `_predict_rows` says of some rows: reasons as data are many times larger than as words."""
    found = model.predict(rows[usable], level, fallback)
    whole = found.reindex(rows.index)
    reasons = dict(zip(found.index, found["reasons"], strict=True))
    for place in slower.index[slower]:
        reasons[place] = (
            remark("slower-kernel", host=str(model.recipe.host and model.recipe.host.name)),
            *reasons[place],
        )
    refused = rows.loc[~usable, [REFUSED, REFUSED_DETAIL]]
    whys = (_refusal(why, detail, model.recipe.metric) for why, detail in refused.itertuples(index=False))
    reasons |= dict(zip(refused.index, whys, strict=True))
    words, causes = in_words_of_rows([reasons[place] for place in rows.index])
    return whole.assign(
        basis=whole["basis"].fillna(""),
        extrapolated=whole["extrapolated"].eq(True) | slower,
        reasons=pd.Series(words, rows.index, dtype="str"),
        cause=pd.Series(causes, rows.index, dtype="str"),
    )


def _refusal(reason: str, detail: str, metric: str) -> tuple[Remark, ...]:
    """Return why a row is not predicted: the reader refused it, or it lacks the metric."""
    if reason:
        return (remark("row-refused", reason=reason, detail=detail),)
    return (remark("no-positive-metric", metric=metric),)


def _remarks(recipe: FeatureRecipe, rows: pd.DataFrame) -> Iterator[Remark]:
    """Say which columns that no row has were the same in all of training, and that other devices do not matter."""
    for name, levels in recipe.levels.items():
        column = name.removeprefix(HOST)
        absent = column not in rows or rows[column].eq("").all()
        if column in STATED and absent and len(levels) == 1 and levels[0] != "none":
            yield remark("never-stated", column=column, trained=levels[0])
    if recipe.host is None:
        others = int((rows["device"].ne("") & rows["device"].ne(recipe.target.name)).sum())
        if others:
            yield remark("other-devices", rows=others, target=recipe.target.name)
