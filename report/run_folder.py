"""The folder that a training run leaves: whole or not at all, and the same bytes for the same input.

It holds ``metrics.json``, ``predictions.parquet``, ``model/``, ``report.html``, and the seal of
them all (`sealing`). What the first two must be stands in `run_schema`. Last in this file stands
how to read an entry of ``metrics["cv"]``: its rows in order, and the baseline to compare with.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .. import output as json_text
from .. import sealing
from ..errors import ArtifactError, DataError, few
from ..output import (
    SCHEMA,
    check_folder,
    check_output,
    check_unread,
    overwriting,
    whole_folder,
)
from .run_schema import NUMBERS, TEXTS, check_metrics

# a command checks the place of its run before it takes the time to import what trains
if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Metrics = Mapping[str, Any]
"""A part of ``metrics.json``: the whole, its ``data``, one of its ``cv``, or one line of a model table."""
DIGITS = 9  # significant digits of the floats in ``metrics.json``: far beyond what is measured, short of rounding noise
METRICS = "metrics.json"
PREDICTIONS = "predictions.parquet"
REPORT = "report.html"
MODEL = "model"
PARTS = (REPORT, METRICS, PREDICTIONS, MODEL, sealing.MANIFEST)
"""What a run folder consists of; a signature (`sealing.SIGNATURE`) may stand beside them."""
# what a folder of runs for several targets has beside them
TARGETS = (
    "targets.json",
    "targets.html",
)
_MOST_TEXT = 2**28  # bytes of metrics.json


def write_run(
    folder: Path,
    *,
    metrics: Metrics,
    predictions: pd.DataFrame,
    save_model: Callable[[Path], None],
    html: str,
) -> None:
    """Write a run folder, in one step for whoever looks at it: new or empty, or a previous run, which is replaced.

    ``metrics.json`` gets the schema, sorted keys, floats rounded to nine significant digits,
    and null for NaN and infinities; `save_model` is called with the path of the model folder to
    write; where it raises, the folder is as it was. Raises ArtifactError: `folder` is a file, or
    holds something that is not a run; DataError: it cannot be written.
    """
    check_run_folder(folder)
    with whole_folder(folder) as stage:
        text = json_text.dumps(
            {**metrics, "schema": SCHEMA}, digits=DIGITS, missing=True, sort=True
        )
        (stage / METRICS).write_text(text, encoding="utf-8")
        _write(predictions, stage / PREDICTIONS)
        save_model(stage / MODEL)
        (stage / REPORT).write_text(html, encoding="utf-8")
        sealing.seal(stage)
    (folder / sealing.SIGNATURE).unlink(missing_ok=True)  # of the previous run


def _write(predictions: pd.DataFrame, path: Path) -> None:
    """Write the predictions, each column in the encoding that is fast for it and each text once in the file."""
    encodings = {"f": "BYTE_STREAM_SPLIT", "i": "DELTA_BINARY_PACKED"}
    kinds = {name: getattr(predictions[name].dtype, "kind", "O") for name in predictions}
    predictions.to_parquet(
        path,
        index=False,
        compression="zstd",
        column_encoding={
            name: encodings[kind] for name, kind in kinds.items() if kind in encodings
        },
        use_dictionary=[name for name, kind in kinds.items() if kind not in encodings],
        # each has a separate dictionary: ten took three times as long
        row_group_size=max(len(predictions), 1),
    )


def read_metrics(folder: Path) -> dict[str, Any]:
    """Return ``metrics.json`` of a run folder that is as it was sealed (`sealing.check`).

    Raises ArtifactError: the folder is missing or foreign, not as it was sealed, its metrics are
    damaged, or a newer flopcast wrote them.
    """
    metrics = _metrics(Path(folder))
    sealing.check(Path(folder))
    return metrics


def read_run(folder: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return ``metrics.json`` and ``predictions.parquet`` of a run folder.

    Raises ArtifactError: as `read_metrics`; or the predictions are damaged, or of other rows and
    models than the metrics.
    """
    import numpy as np
    import pyarrow as pa

    from ..readers.base import TRACE_BYTES
    from ..readers.files import whole_parquet, whole_table  # here: `show` alone needs no reader

    metrics = read_metrics(folder)
    path = folder / PREDICTIONS
    try:
        with whole_parquet(path) as file:
            laws = list[str]()
            models = list[str]()
            for cv in metrics["cv"]:
                laws += [str(row["name"]) for row in cv.get("baselines") or []]
                models += [str(row["name"]) for row in cv.get("models") or []]
            entries = len(laws) + len(models)
            if not 0 < file.metadata.num_rows <= entries * (metrics["data"].get("n") or 0):
                raise ValueError(
                    f"{file.metadata.num_rows:,} rows, which are not those of {METRICS}"
                )
            if missing := [
                name for name in (*NUMBERS, *TEXTS) if name not in file.schema_arrow.names
            ]:
                raise ValueError(f"it lacks {few(missing)}")
            kinds = dict.fromkeys((*NUMBERS, *laws), pa.float64())
            kinds |= dict.fromkeys(("row", "fold"), pa.int64())
            table = whole_table(file, path, TRACE_BYTES, once=True)
            for place, name in enumerate(table.column_names):
                if name in (*TEXTS, "source"):  # each text once, as `Competition.table` has it
                    table = table.set_column(place, name, _as_categories(table[name]))
            if nulls := [
                name for name in ("row", "fold", "observed", *TEXTS) if table[name].null_count
            ]:
                raise ValueError(f"{few(nulls)} is not known of every row")
            fields = [
                pa.field(field.name, kinds.get(field.name, field.type)) for field in table.schema
            ]
            # Columns are those of the file's schema, whatever pandas wrote beside it of an index.
            predictions = table.cast(pa.schema(fields)).to_pandas()
            if (
                not np.isfinite(predictions[["observed", "predicted", "ape"]]).all(axis=None)
                or (predictions["observed"] <= 0).any()
            ):
                raise ValueError(
                    "observed and predicted values must be finite, and observed ones positive"
                )
            if not predictions["row"].between(0, metrics["data"]["n"] - 1).all():
                raise ValueError(f"its rows are not those of {METRICS}")
            if predictions.duplicated(["scheme", "model", "row"]).any():
                raise ValueError("a model predicts a row twice")
            predicted = set(predictions["model"])
            if metrics["model"]["name"] not in predicted or not predicted <= {*laws, *models}:
                raise ValueError(f"its models are not those of {METRICS}")
            return metrics, predictions
    except (OSError, ValueError, TypeError, KeyError, DataError, pa.ArrowException) as error:
        why = " ".join(str(error).split())[:200]
        raise ArtifactError(
            f"{path} cannot be read ({why}), so the run is damaged: train again"
        ) from error


def _as_categories(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return texts as categories."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        column = column.cast(pa.string())
    if pa.types.is_dictionary(column.type):
        return column.unify_dictionaries()
    return column.dictionary_encode()


def check_run_folder(folder: Path) -> None:
    """Raise if a run cannot be written there: the folder holds other files, or is an input.

    Where `output.replacing` allows it, files of the same names are replaced that are of no run.
    """
    if os.path.lexists(folder):
        if not folder.is_dir():
            raise ArtifactError(f"{folder} is a file: choose another folder for the run")
        check_unread(folder)
        written = {*PARTS, sealing.SIGNATURE}
        held = sorted(one.name for one in folder.iterdir())
        others = [name for name in held if name not in written and not name.startswith(".")]
        if others:
            raise ArtifactError(
                f"{folder} holds what is not of a run ({few(others)}): choose another folder"
            )
        if held and not overwriting():
            try:
                _metrics(folder)
            except ArtifactError as error:
                what = "holds files that are not a run of this flopcast, which would be lost"
                raise ArtifactError(
                    f"{folder} {what}: choose another folder, or give overwrite=True"
                ) from error
    check_folder(folder)


def check_runs_folder(folder: Path, targets: Iterable[str]) -> None:
    """Raise if a folder with a run for each of these targets cannot be written there."""
    names = [folder_of(target) for target in targets]
    for name in names:
        check_run_folder(folder / name)
    check_output(folder, (*TARGETS, *names), checked=names)


def folder_of(target: str) -> str:
    """Return a target's name as that of a folder."""
    return re.sub(r"[^\w.-]+", "-", target).strip("-.")


def _metrics(folder: Path) -> dict[str, Any]:
    """Return valid metrics, sealed or not."""
    path = folder / METRICS
    if not os.path.isdir(folder):  # Path would raise for a name too long to be one
        raise ArtifactError(f"{folder} is not a folder: give the run folder that `train` wrote")
    if not path.exists():
        raise ArtifactError(
            f"{folder} is not a run folder (it has no {METRICS}): {sealing.which_run(folder)}"
        )
    try:
        metrics = msgspec.json.decode(sealing.plain_content(path, _MOST_TEXT, "train again"))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ArtifactError(
            f"{path} cannot be read as JSON, so the run is damaged: train again"
        ) from error
    schema = None
    if isinstance(metrics, dict):
        schema = metrics.get("schema")
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise ArtifactError(
            f"{path} was not written by flopcast: give the run folder that `train` wrote"
        )
    if schema > SCHEMA:
        raise ArtifactError(
            f"{path} has schema {schema}, this flopcast reads {SCHEMA}: train again, or upgrade flopcast"
        )
    try:
        check_metrics(metrics)
    except msgspec.ValidationError as error:
        raise ArtifactError(f"{path} is damaged ({error}): train again") from error
    if metrics.get("correction") and not all(map(as_trained, metrics["cv"])):
        return as_corrected(metrics, {})  # runs of before stated what they erred by as trained
    return metrics


def as_corrected(metrics: Metrics, since: Mapping[str, Metrics]) -> dict[str, Any]:
    """Return ``metrics.json`` of a run that was corrected: errors and coverage of selections are those since.

    ``since`` holds by scheme ``e_out``, ``interval``, ``coverage`` and so on; of a scheme that it
    lacks nothing is known. What a selection was as trained stands in its ``as_trained``; tables of
    models, groups and features are as they were.
    """
    restated = dict(metrics)
    restated["cv"] = [_corrected_scheme(cv, since) for cv in metrics["cv"]]
    campaigns = metrics.get("campaigns") or {}
    if campaigns.get("new"):
        new = _corrected_scheme(campaigns["new"], since)
        restated["campaigns"] = {**campaigns, "new": new}
    intervals = dict(metrics.get("intervals") or {})
    kinds = {}
    for name, row in (intervals.get("schemes") or {}).items():
        others = {key: value for key, value in row.items() if key not in _OF_TRAINED}
        kinds[name] = others | {key: (since.get(name) or {}).get(key) for key in _HELD}
    if kinds:
        intervals["schemes"] = kinds
    if "coverage" in intervals:
        shown = since.get(metrics["model"]["scheme"]) or {}
        intervals |= {key: shown.get(key) for key in _HELD}
    if intervals:
        restated["intervals"] = intervals
    return restated


_HELD = ("coverage", "median_relative_width")
_OF_TRAINED = ("rows", "rows_beyond", "worst_groups")
_SINCE = ("e_out", "e_out_groups", "ir", "interval", "level", "parts", "rows", "groups")
"""What a selection says of itself since the correction."""


def _corrected_scheme(cv: Metrics, since: Mapping[str, Metrics]) -> dict[str, Any]:
    chosen = cv.get("selected")
    if not chosen:
        return dict(cv)
    before = as_trained(cv) or chosen
    measured = since.get(cv["scheme"]) or {}
    now = {key: measured.get(key) for key in _SINCE}
    selected = {"name": chosen["name"], **now, "as_trained": before}
    return {**cv, "selected": selected}


def as_trained(cv: Metrics) -> Metrics | None:
    """Return the selection of a scheme as it was before the run was corrected; None where it was not."""
    return (cv.get("selected") or {}).get("as_trained")


ANALYTIC = "FLOPS scaling"  # the baseline that headlines compare with, where it exists


def ordered(cv: Metrics) -> list[tuple[Metrics, str]]:
    """Return the rows of one scheme with their kind: baselines as given, then models from best to failed.

    Those that left early come after those that saw all folds, by how much worse than the best they
    were. The scheme is an entry of ``metrics["cv"]``. What a row is: ``"selected"``, ``"tied"``
    where it is not distinguishable from the best, ``"baseline"``, ``"left"`` where it left early,
    or ``""``.
    """
    chosen = as_trained(cv) or cv.get("selected") or {}
    kinds = {**dict.fromkeys(chosen.get("tied") or [], "tied"), chosen.get("name"): "selected"}

    def rank(row: Metrics) -> tuple[bool, bool, float, float, str]:
        left = row.get("left") or {}
        failed = bool(row.get("error"))
        return failed, bool(left), _error(row), left.get("times") or 0.0, row["name"]

    models = sorted(cv.get("models") or [], key=rank)
    baselines = [(row, kinds.get(row["name"], "baseline")) for row in cv.get("baselines") or []]
    return baselines + [
        (row, kinds.get(row["name"], "left" if row.get("left") else "")) for row in models
    ]


def reference(cv: Metrics) -> Metrics | None:
    """Return the baseline to compare with: FLOPS scaling, else the first without fitting, else the first."""
    scored = _scored(cv)
    named = [row for row in scored if row["name"] == ANALYTIC]
    analytic = [row for row in scored if row.get("space") == "no fitting"]
    return next(iter([*named, *analytic, *scored]), None)


def beside(rows: pd.DataFrame, predictions: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Return rows of one scheme and model with the predictions of these baselines, a column each.

    They are among the `predictions` of the same scheme.
    """
    if rows.empty:
        return rows
    of_scheme = predictions[predictions["scheme"] == rows["scheme"].iloc[0]]
    joined = {}
    for name in names:
        predicted = of_scheme[of_scheme["model"] == name].set_index("row")["predicted"]
        if len(predicted):
            joined[name] = rows["row"].map(predicted)
    return rows.assign(**joined)


def simplest(cv: Metrics) -> Metrics | None:
    """Return the best simple rule: the baseline of the smallest E_out; None where none has one."""
    return min(_scored(cv), key=_error, default=None)


def _scored(cv: Metrics) -> list[Metrics]:
    """Return the baselines that have an error."""
    return [row for row in cv.get("baselines") or [] if row.get("e_out") is not None]


def _error(row: Metrics) -> float:
    error = row.get("e_out")
    if error is None:
        return math.inf
    return float(error)
