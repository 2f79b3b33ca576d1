"""The folder that a training run leaves: whole or not at all, and the same bytes for the same input.

It holds ``metrics.json``, ``predictions.parquet``, ``model/`` and ``report.html``. Last in this file stands how to read
an entry of ``metrics["cv"]``: its rows in order, and the baseline to compare with.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import output as json_text
from ..errors import ArtifactError
from ..output import check_place, whole_folder

if TYPE_CHECKING:  # a command checks the place of its run before it takes the time to import what trains
    import pandas as pd

SCHEMA = 2
"""Version of ``metrics.json``; a reader refuses those it does not know. Since 2 it has ``provenance``."""
DIGITS = 9
"""Significant digits of the floats in ``metrics.json``: far beyond what is measured, short of rounding noise."""

METRICS, PREDICTIONS, REPORT, MODEL = "metrics.json", "predictions.parquet", "report.html", "model"


def write_run(
    folder: Path,
    *,
    metrics: Mapping[str, Any],
    predictions: pd.DataFrame,
    save_model: Callable[[Path], None],
    html: str,
) -> None:
    """Write a run folder, in one step for whoever looks at it.

    The folder is new or empty, or a previous run, which is replaced; what the user has put beside the four files of
    that run stays. ``metrics.json`` gets ``"schema": 2``, sorted keys, floats rounded to nine significant digits, and
    null for NaN and infinities; `save_model` is called with the path of the model folder to write.

    Raises
    ------
    ArtifactError
        `folder` is a file, or holds something that is not a run.
    DataError
        It cannot be written.
    Exception
        Whatever `save_model` raises; `folder` is then as it was.
    """
    check_run_folder(folder)
    with whole_folder(folder) as stage:
        text = json_text.dumps({**metrics, "schema": SCHEMA}, digits=DIGITS, missing=True, sort=True)
        (stage / METRICS).write_text(text, encoding="utf-8")
        predictions.to_parquet(stage / PREDICTIONS, index=False, compression="zstd")
        save_model(stage / MODEL)
        (stage / REPORT).write_text(html, encoding="utf-8")


def read_metrics(folder: Path) -> dict[str, Any]:
    """Return ``metrics.json`` of a run folder.

    Raises
    ------
    ArtifactError
        The folder is missing or foreign, its metrics are damaged, or a newer flopcast wrote them.
    """
    folder = Path(folder)
    path = folder / METRICS
    if not folder.is_dir():
        raise ArtifactError(f"{folder} is not a folder: give the run folder that `train` wrote")
    if not path.is_file():
        raise ArtifactError(f"{folder} is not a run folder (it has no {METRICS}): give the one that `train` wrote")
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} cannot be read as JSON, so the run is damaged: train again") from error
    schema = metrics.get("schema") if isinstance(metrics, dict) else None
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise ArtifactError(f"{path} was not written by flopcast: give the run folder that `train` wrote")
    if schema > SCHEMA:
        raise ArtifactError(f"{path} has schema {schema}, this flopcast reads up to {SCHEMA}: upgrade flopcast")
    return metrics


def read_run(folder: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return ``metrics.json`` and ``predictions.parquet`` of a run folder.

    Raises
    ------
    ArtifactError
        As `read_metrics`; or the predictions are damaged.
    """
    import pandas as pd

    metrics = read_metrics(folder)
    try:
        return metrics, pd.read_parquet(folder / PREDICTIONS)
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{folder / PREDICTIONS} cannot be read, so the run is damaged: train again") from error


def check_run_folder(folder: Path) -> None:
    """Raise where a run cannot be written, or would replace something that no training run has written."""
    if os.path.lexists(folder):
        if not folder.is_dir():
            raise ArtifactError(f"{folder} is a file: choose another folder for the run")
        if any(folder.iterdir()):
            try:
                read_metrics(folder)
            except ArtifactError as error:
                raise ArtifactError(
                    f"{folder} holds files that are not a run of this flopcast, which would be lost: choose another "
                    "folder, or remove it"
                ) from error
    check_place(Path(os.path.realpath(folder)))


ANALYTIC = "FLOPS scaling"
"""The baseline that headlines compare with, where it exists."""


def ordered(cv: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], str]]:
    """Return the rows of one scheme with what they are: baselines as given, then models from best to failed.

    Those that left early come after those that saw all folds. The scheme is an entry of
    ``metrics["cv"]``. What a row is: ``"baseline"``, ``"selected"``, ``"tied"`` where a model is as good within the
    uncertainty, ``"left"`` where it left early, or ``""``.
    """
    chosen = cv.get("selected") or {}
    kinds = {**dict.fromkeys(chosen.get("tied") or [], "tied"), chosen.get("name"): "selected"}
    rank = lambda row: (bool(row.get("error")), bool(row.get("left")), _error(row), row["name"])  # noqa: E731
    models = sorted(cv.get("models") or [], key=rank)
    baselines = [(row, "baseline") for row in cv.get("baselines") or []]
    return baselines + [(row, kinds.get(row["name"], "left" if row.get("left") else "")) for row in models]


def reference(cv: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the baseline to compare with: FLOPS scaling, else the first without fitting, else the first."""
    known = [row for row in cv.get("baselines") or [] if row.get("e_out") is not None]
    named = [row for row in known if row["name"] == ANALYTIC]
    analytic = [row for row in known if row.get("space") == "no fitting"]
    return next(iter([*named, *analytic, *known]), None)


def simplest(cv: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the best simple rule: the baseline of the smallest E_out; None where none has one."""
    known = [row for row in cv.get("baselines") or [] if row.get("e_out") is not None]
    return min(known, key=_error, default=None)


def _error(row: Mapping[str, Any]) -> float:
    error = row.get("e_out")
    return math.inf if error is None else float(error)
