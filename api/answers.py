"""Answers with intervals that were saved, read back: tables of forecasts and of predictions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from ..errors import DataError, check_plain_file
from ..output import SCHEMA, replacing, unguarded
from ..readers.base import LINE, PARQUET
from ..readers.files import (
    WORKBOOK,
    content,
    csv_header,
    head,
    parquet_columns,
    read_plain_table,
    suffix_of,
    with_points,
)
from ..readers.tidy import numbers_or_text
from ..report.answer_schema import check_answer
from ..report.figures import intervals
from ..report.forecast import SPREAD_OF
from ..report.notebook import Figures
from ..report.predictions import ABOUT, predictions_document, to_json, write_file
from ..report.result import Result
from ..settings import configured
from ..table.measurements import prediction_columns

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..report.document import Document

# columns that a table of forecasts has
ANSWER: Final = (
    "predicted",
    "lower",
    "upper",
    "unit",
    "level",
    "reason",
)
WAY: Final = ("gpu", "gpus", "engine", "dtype", "kv_dtype", "replicas", "tp", "dp", "ep")
"""Columns that say what a way to serve is, in the table of `Deployments`."""


@dataclass(frozen=True)
class Prediction(Result):
    """What a run predicts for new workloads.

    Attributes
    ----------
    frame : DataFrame
        One row per row of the data, in order: identifying columns, ``predicted_us``, ``lower_us``
        and ``upper_us`` (the unit is that of the metric: ``predicted_j`` of energy, ``predicted_w``
        of power), ``target`` (the GPU), ``metric``, ``level`` (of the interval), ``extrapolated``
        and ``reason``, and a column per baseline. A row that cannot be predicted has NaN there, and
        the reason. ``basis`` says what the model has seen of the row, and so which intervals it has: ``known
        group``, ``new group``, outside the trained range ``beyond`` (the model answers), ``blend``
        or ``rule``, or ``law`` (`predict`).
    summary : dict
        Fit for JSON: the model, counts, why rows are extrapolated or not predicted, and remarks.

    Examples
    --------
    >>> import flopcast as fc
    >>> import numpy as np
    >>> small = {"m": (None, 64)}
    >>> run = fc.train(where=small, models=["OLS"], jobs=1)
    >>> found = fc.predict(run, fc.read(where=small))
    >>> found.frame["basis"].isin(["known group", "new group", "beyond", "blend", "rule"]).all()
    np.True_
    """

    frame: pd.DataFrame
    summary: dict[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "summary", Figures(self.summary))

    @property
    def table(self) -> pd.DataFrame:
        """The rows: `frame`."""
        return self.frame

    def document(self) -> Document:
        """Return the summary and the first rows for readers."""
        return predictions_document(self.frame, self.summary, whole=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the summary and, under ``rows``, every row as JSON types."""
        return json.loads(to_json(self.frame, self.summary))

    def save(
        self, path: str | Path, *, made: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> None:
        """Write the rows to .csv, .parquet or .xlsx, rows and summary to .json, the page to .html; whole or not at all.

        Raises
        ------
        DataError
            If the suffix is another, or the file cannot be written, or flopcast did not write it
            and ``overwrite`` is not set.
        """
        if Path(path).suffix.lower() == ".html":
            super().save(path, made=made, overwrite=overwrite)
            return
        with replacing(overwrite=overwrite):
            write_file(self.frame, self.summary, Path(path))

    def half_width(self, share: float = 0.9) -> float:
        """Return the half-width, relative to the prediction, that a share of the predicted rows does not exceed.

        Raises
        ------
        DataError
            No row has an interval.
        """
        predicted, lower, upper = (
            self.frame[name] for name in prediction_columns(self.summary["metric"]).values()
        )
        widths = ((upper - lower) / (2 * predicted)).dropna()
        if widths.empty:
            raise DataError("no row has an interval: nothing says how sure the predictions are")
        return float(widths.quantile(share))

    def plot_intervals(self) -> go.Figure:
        """Draw the predictions with their intervals, from the smallest to the largest; what is extrapolated apart."""
        return intervals(self.frame, self.summary["metric"])

    def __repr__(self) -> str:
        counts = f"{self.summary['predicted']} of {self.summary['n']} workloads"
        return f"<Prediction of {self.summary['metric']} on {self.summary['target']}: {counts}>"


@configured
def read_predictions(file: str | Path) -> Prediction:
    """Read predictions that `Prediction.save` wrote, or `predict` with ``out``.

    Parameters
    ----------
    file : path
        CSV, Parquet or JSON, also compressed, or the first sheet of an .xlsx.

    Returns
    -------
    Prediction
        Its ``summary`` is whole of JSON; of a table it is what the rows say: metric, target, level
        and counts.

    Raises
    ------
    DataError
        It holds no predictions, or a prediction's level is not stated.

    Examples
    --------
    >>> import flopcast as fc
    >>> import numpy as np
    >>> small = {"m": (None, 64)}
    >>> run = fc.train(where=small, models=["OLS"], jobs=1)
    >>> made = fc.predict(run, fc.read(where=small), out="predicted.csv")
    >>> bool(np.allclose(fc.read_predictions("predicted.csv").frame["upper_us"], made.frame["upper_us"]))
    True
    """
    path = Path(file)
    check_plain_file(path)
    if suffix_of(path) == ".json":
        try:
            report = json.loads(content(path))
            check_answer(report, "rows", str(path))
            frame = pd.DataFrame(report.pop("rows"))
        except (
            OSError,
            ValueError,
            LookupError,
            AttributeError,
            TypeError,
            RecursionError,
        ) as error:
            raise DataError("holds no predictions in JSON", source=str(path)) from error
    else:
        report = {}
        frame = read_plain(path)
    missing = [name for name in (*ABOUT, "extrapolated") if name not in frame]
    if missing:
        raise DataError(
            f"holds no predictions with {', '.join(ABOUT)}: {missing[0]} is missing",
            source=str(path),
        )
    if frame.empty:
        raise DataError("holds no prediction: it has a header alone", source=str(path))
    frame = frame.apply(numbers_or_text)
    of = frame[["target", "metric"]]
    if (blank := of.isna() | (of == "")).to_numpy().any():
        row, place = (int(first) for first in np.argwhere(blank.to_numpy())[0])
        raise DataError(f"row {row + 1} has no {of.columns[place]}", source=str(path))
    if len(frame["metric"].unique()) > 1:
        raise DataError("is of several metrics: give the rows of one", source=str(path))
    names = list(prediction_columns(metric := str(frame["metric"].iloc[0])).values())
    missing = [name for name in names if name not in frame]
    if missing:
        raise DataError(
            f"says that it predicts {metric}, and has no column {missing[0]}", source=str(path)
        )
    done = frame[names[0]].notna()
    figures = checked(frame, (*names, "level"), done, str(path))
    frame[figures.columns] = figures
    flags = frame["extrapolated"].astype(str).str.casefold().eq("true")
    report = report or {
        "metric": metric,
        "target": ", ".join(dict.fromkeys(frame["target"].astype(str))),
        "level": float(frame["level"].iloc[0]),
        "n": len(frame),
        "predicted": int(done.sum()),
    }
    return Prediction(frame.assign(extrapolated=flags), report)


def read_table(rows: pd.DataFrame, source: str | None = None) -> dict[str, Any]:
    """Return the answers of ``forecast.json``, their intervals and where these come from, from `Forecasts.table`.

    ``source`` is the file that errors name. Raises DataError: a column is missing, or a row has an
    answer without an interval.

    >>> import flopcast as fc
    >>> found = fc.forecast("Llama-3.1-8B", gpu="MI300X", batch=[1, 16], input_len=128, output_len=128)
    >>> again = read_table(found.table)
    >>> [one["upper"] for one in again["forecasts"]] == [one.upper for one in found.answers]
    True
    """
    missing = [name for name in ANSWER if name not in rows]
    if missing:
        what = (
            f"a table of forecasts has the columns {', '.join(ANSWER)}, this one no "
            f"{', '.join(missing)}"
        )
        raise DataError(what, source=source)
    spreads = [str(name) for name in rows if str(name).startswith(SPREAD_OF)]
    answered = rows["reason"].isna() | rows["reason"].eq("")
    if rows.empty:
        raise DataError("a table of forecasts holds none: it has a header alone", source=source)
    figures = checked(rows, ("predicted", "lower", "upper", "level", *spreads), answered, source)
    if (unsure := answered & figures["upper"].isna()).any():
        what = f"row {int(unsure.to_numpy().argmax()) + 1} of a table of forecasts has no interval"
        raise DataError(what, source=source)
    asked = (
        rows[list(rows.columns[: list(rows.columns).index("predicted")])]
        .astype(str)
        .to_dict("records")
    )
    forecasts = []
    for fields, one, unit, reason in zip(
        asked, figures.to_dict("records"), rows["unit"], rows["reason"], strict=True
    ):
        of = {name.removeprefix(SPREAD_OF): one[name] for name in spreads if one[name] == one[name]}
        ends = {name: one[name] for name in ("predicted", "lower", "upper")}
        forecasts.append(
            {"asked": fields, **ends, "unit": unit, "reason": reason or None, "spreads": of}
        )
    return {"schema": SCHEMA, "level": float(figures["level"].iloc[0]), "forecasts": forecasts}


def read_answers(path: Path) -> dict[str, Any] | None:
    """Return what a table says of forecasts (`read_table`), ``predictions``, or ``ways`` to serve; None of others.

    A table that has a part of the columns of one of them has lost the rest, and is refused by their
    readers.
    """
    beginning = head(path)
    if beginning.startswith(WORKBOOK):
        names = {*map(str, read_plain_table(path))}
    else:
        names = {
            *(parquet_columns(path) if beginning.startswith(PARQUET) else csv_header(beginning))
        }
    if {"predicted", "unit"} <= names or {"predicted", "level"} <= names:
        return read_table(read_plain(path), str(path))
    if {*WAY, "holds"} <= names:
        if not {"model", "level"} <= names:
            raise DataError(
                "states no model and level, as an older release wrote it: forecast again",
                source=str(path),
            )
        rows = read_plain(path)
        labels = {"gpu", "engine", "dtype", "kv_dtype", "model", "queued"}
        numbers = [name for name in map(str, rows) if name not in labels]
        rows, _ = with_points(rows, numbers, str(path))
        rows[numbers] = rows[numbers].apply(pd.to_numeric, errors="coerce")
        _check_ways(rows, str(path))
        return {"ways": rows}
    lost = (
        any(name.startswith("predicted_") for name in names) or {"basis", "extrapolated"} <= names
    )
    if lost or {*ABOUT} <= names:
        return {"predictions": read_predictions(path)}
    return None


def _check_ways(rows: pd.DataFrame, source: str) -> None:
    """Refuse ways to serve with a level, or a figure that has an interval, that cannot be."""
    possible = rows["level"].between(0, 1, inclusive="neither")
    if not possible.all():
        row = int((~possible).to_numpy().argmax()) + 1
        raise DataError(f"row {row} has a level that cannot be", source=source)
    for name in map(str, rows):
        if f"{name}_lower" not in rows:
            continue
        is_rate = name.startswith("tokens_per_s")
        for end in (name, f"{name}_lower", f"{name}_upper"):
            if end not in rows:
                continue
            # a rate of no end is 0
            if is_rate:
                impossible = rows[end].lt(0)
            else:
                impossible = rows[end].le(0)
            if impossible.any():
                row = int(impossible.to_numpy().argmax()) + 1
                least = "not above 0"
                if is_rate:
                    least = "below 0"
                raise DataError(f"row {row} of column {end} is {least}", source=source)


def read_plain(path: Path) -> pd.DataFrame:
    """Return the cells of a CSV or .xlsx, which a spreadsheet may have saved, or of Parquet, as they were written."""
    rows = read_plain_table(path).drop(columns=LINE, errors="ignore").rename(columns=unguarded)
    numbers = [
        name for name in map(str, rows) if name.startswith((*ANSWER[:3], "level", SPREAD_OF))
    ]
    rows, _ = with_points(rows, numbers, str(path))
    return rows.map(lambda cell: unguarded(cell) if isinstance(cell, str) else cell)


def checked(
    rows: pd.DataFrame, names: Sequence[str], answered: pd.Series, source: str | None = None
) -> pd.DataFrame:
    """Return the columns of answers, their limits, the level and others as numbers; NaN limits are no interval.

    Raises DataError: a cell is no number, or a row that is answered has no level, or limits that
    are not in order.
    """
    figures = rows[[*names]].apply(pd.to_numeric, errors="coerce")
    words = figures.isna() & rows[[*names]].notna() & (rows[[*names]] != "")
    if words.to_numpy().any():
        row, column = (int(place) for place in np.argwhere(words.to_numpy())[0])
        cell = str(rows[names[column]].iloc[row])[:40]
        raise DataError(
            f"row {row + 1} of column {names[column]} is no number: {cell!r}", source=source
        )
    _, lower, upper, level = (figures[name] for name in names[:4])
    wrong = answered & ~(
        level.between(0, 1, inclusive="neither") & ((lower <= upper) | lower.isna() | upper.isna())
    )
    if wrong.any():
        if level[wrong].isna().any():
            fault = "no level of its interval"
        else:
            fault = "limits or a level that cannot be"
        raise DataError(f"row {int(wrong.to_numpy().argmax()) + 1} has {fault}", source=source)
    return figures
