"""The folder that a training run leaves: whole or not at all, and the same bytes for the same input.

``metrics.json``, ``predictions.parquet``, ``model/`` and ``report.html`` are written into a hidden folder beside the
target, which then takes its place by renaming. Whatever happens on the way, the folder holds either the previous run
or the new one, and never a mix.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import ArtifactError
from ..models import json_text

SCHEMA = 1
"""Version of ``metrics.json``; a reader refuses those it does not know."""
DIGITS = 9
"""Significant digits of the floats in ``metrics.json``: far beyond what is measured, short of rounding noise."""

METRICS, PREDICTIONS, MODEL, REPORT = "metrics.json", "predictions.parquet", "model", "report.html"


def write_run(
    folder: Path,
    *,
    metrics: Mapping[str, Any],
    predictions: pd.DataFrame,
    save_model: Callable[[Path], None],
    html: str,
) -> None:
    """Write a run folder, in one step for whoever looks at it.

    Parameters
    ----------
    folder : Path
        A new or empty folder, or a previous run, which is replaced; its parents are made. What the user has put beside
        the four files of a previous run stays.
    metrics : mapping
        Goes to ``metrics.json`` with ``"schema": 1``, sorted keys, floats rounded to nine significant digits, and null
        for NaN and infinities.
    predictions : DataFrame
        Goes to ``predictions.parquet`` as it is, without its index.
    save_model : callable
        Called with the path of the model folder to write.
    html : str
        The report.

    Raises
    ------
    ArtifactError
        ``folder`` is a file, or holds something that is not a run.
    Exception
        Whatever ``save_model`` raises; ``folder`` is then as it was.
    """
    folder = Path(folder).resolve()
    check_run_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _beside(folder) as aside:
        stage = aside / "run"
        stage.mkdir()
        text = json_text.dumps({**metrics, "schema": SCHEMA}, digits=DIGITS, missing=True, sort=True)
        (stage / METRICS).write_text(text, encoding="utf-8")
        predictions.to_parquet(stage / PREDICTIONS, index=False, compression="zstd")
        save_model(stage / MODEL)
        (stage / REPORT).write_text(html, encoding="utf-8")
        _swap(stage, folder, aside / "previous")


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


def check_run_folder(folder: Path) -> None:
    """Raise where writing would remove something that no training run has written."""
    if not os.path.lexists(folder):
        parent = next(place for place in folder.absolute().parents if place.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise ArtifactError(f"{folder} cannot be written: {parent} is not a folder one may write to")
        return
    if not folder.is_dir():
        raise ArtifactError(f"{folder} is a file: choose another folder for the run")
    if not any(folder.iterdir()):
        return
    try:
        read_metrics(folder)
    except ArtifactError as error:
        raise ArtifactError(
            f"{folder} holds files that are not a run of this flopcast, which would be lost: choose another folder, "
            "or remove it"
        ) from error


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder on the same file system; it is removed unless a previous run is still in it."""
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield aside
    finally:
        if not (aside / "previous").exists():
            shutil.rmtree(aside, ignore_errors=True)


def _swap(stage: Path, folder: Path, previous: Path) -> None:
    """Put ``stage`` in the place of ``folder``; on any failure between the two renames the previous run returns."""
    if not folder.exists():
        stage.rename(folder)
        return
    try:
        folder.rename(previous)
        stage.rename(folder)
    except BaseException:
        if previous.exists() and not folder.exists():
            previous.rename(folder)
        raise
    finally:
        if folder.exists() and previous.exists():
            _keep_additions(previous, folder)


def _keep_additions(previous: Path, folder: Path) -> None:
    """Move what the user added to the previous run into the new one, then remove the previous run."""
    for path in sorted(previous.iterdir()):
        if path.name not in (METRICS, PREDICTIONS, MODEL, REPORT):
            path.rename(folder / path.name)
    shutil.rmtree(previous)
