"""The saved model: a folder with ``manifest.json`` (what it is) and a file of the estimator (what it learnt).

Loading runs no code from the folder and trusts nothing in it: both files must be plain ones of that
folder, the estimator's classes must be on the allow-list of `models.persistence`, every index in it
must stay inside its array, and it must reproduce the predictions that the manifest holds for a few
probe rows. A newer scikit-learn thus either predicts what the trained model predicted or says that
it cannot.

Whether the files are those that were saved is what the seal of the run says (`sealing.check`),
before anything is loaded. Who changes files on purpose and seals them anew can make a model that
predicts other numbers where no probe looks, but none that runs code or reads memory that is not its
own.
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from .. import __version__
from .. import output as json_text
from ..errors import ArtifactError, few
from ..output import SCHEMA
from ..sealing import plain_content
from ..workers import in_parts
from . import persistence

PROBES = 20  # most probe rows a manifest holds
TOLERANCE = 1e-9  # relative difference up to which a probe counts as reproduced
# rows predicted at a time: what a model keeps meanwhile takes a multiple of their features
AT_ONCE = 2**13

MODEL = "model"  # name of the model's folder in a run folder
MANIFEST = "manifest.json"
ESTIMATOR = "estimator.zip"
PRIOR = "prior"  # name of the folder, in that of a model, of the model whose prediction it takes as a feature
KNOWN = "known"  # name of the folder, in that of a model, of the model that answers rows of known groups
_WRITTEN_HERE = ("schema", "versions", "estimator", "probes")
_MOST_TEXT = 2**26  # bytes of a manifest


@dataclass(frozen=True)
class Artifact:
    """A loaded model that reproduced its probes.

    Attributes
    ----------
    estimator : scikit-learn regressor
        Fitted; predicts in the unit of the trained metric (µs for durations).
    manifest : dict
        ``features`` (list of name, unit, low, high, in the order of X), ``data_sha256``,
        ``versions``, ``probes``, and whatever the trainer added.
    """

    estimator: Any
    manifest: dict[str, Any]

    @property
    def feature_names(self) -> list[str]:
        """The columns of X, in order."""
        return [feature["name"] for feature in self.manifest["features"]]

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Return the predictions for ``X`` after checking its columns by name.

        Raises
        ------
        ArtifactError
            Columns are missing, unexpected or in another order.
        """
        check_columns(self.feature_names, list(X.columns))
        parts = in_parts(len(X), AT_ONCE)
        if len(parts) < 2:
            return _predict(self.estimator, X)
        return np.concatenate([_predict(self.estimator, X.iloc[part]) for part in parts])


def save(
    folder: Path, estimator: BaseEstimator, manifest: Mapping[str, Any], probes: pd.DataFrame
) -> None:
    """Write a fitted model to ``folder`` and read it back, so that what cannot be loaded is never saved.

    The folder is made when missing, and holds two files afterwards. ``manifest`` must hold
    ``features`` (see :func:`describe_features`) and ``data_sha256``; other keys are the trainer's
    and come back from :func:`load` as JSON does (tuples as lists); finite numbers only. ``probes``
    are rows of X, NaN allowed. Up to ten, spread evenly over those given, and points between them
    are kept with their predictions: at a training row alone two fully grown forests predict the
    same.

    Raises ArtifactError: the estimator holds a type that :func:`load` would refuse; ValueError: the
    manifest lacks a key, uses one that is written here, or does not describe the columns of
    ``probes``.
    """
    _check_manifest(manifest, list(probes.columns))
    rows = _probe_rows(probes)
    data = persistence.to_bytes(estimator)
    full = {
        "schema": SCHEMA,
        **manifest,
        "versions": versions(),
        "estimator": {"unpacked_bytes": persistence.unpacked_bytes(data)},
        "probes": {
            "rows": [
                [None if np.isnan(x) else float(x) for x in row]
                for row in rows.to_numpy(dtype=float)
            ],
            "predictions": np.asarray(_predict(estimator, rows), dtype=float),
        },
    }
    text = json_text.dumps(full)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ESTIMATOR).write_bytes(data)
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    load(folder)


def save_again(folder: Path, artifact: Artifact) -> None:
    """Write a loaded model to another folder, which is created."""
    folder.mkdir(parents=True)
    (folder / ESTIMATOR).write_bytes(persistence.to_bytes(artifact.estimator))
    restate(folder, artifact.manifest)


def restate(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write another manifest to the estimator that :func:`save` wrote, and read both back.

    ``manifest`` is the one that :func:`load` returned, with keys of the trainer's added or changed.
    Raises as :func:`load`.
    """
    (folder / MANIFEST).write_text(json_text.dumps(manifest), encoding="utf-8")
    load(folder)


def load(folder: Path) -> Artifact:
    """Return the model saved in ``folder``; nothing in the folder is executed. `sealing.check` comes before.

    Raises
    ------
    ArtifactError
        A file is missing, foreign, cut short, of a newer schema, or holds a type that is not
        allowed; or the installed versions do not reproduce the probes. One line that names the
        file.
    """
    manifest = _read_manifest(folder / MANIFEST)
    path = folder / ESTIMATOR
    data = plain_content(path, persistence.MOST_BYTES, "train again")
    unpacked_bytes = manifest["estimator"]["unpacked_bytes"]
    artifact = Artifact(persistence.from_bytes(data, str(path), unpacked_bytes), manifest)
    _check_probes(artifact, folder)
    return artifact


def check_columns(expected: Sequence[str], given: Sequence[str]) -> None:
    """Refuse columns that are not exactly the expected ones in their order.

    Raises
    ------
    ArtifactError
        Names the first five missing, unexpected or repeated columns, or the first one out of place.
    """
    expected = list(expected)
    given = list(given)
    if expected == given:
        return
    counts = Counter(given)
    faults = {
        "missing": [name for name in expected if name not in counts],
        "unexpected": [name for name in counts if name not in set(expected)],
        "repeated": [name for name, count in counts.items() if count > 1],
    }
    said = [f"{fault}: {few(names)}" for fault, names in faults.items() if names]
    if said:
        raise ArtifactError(
            f"the columns are not those the model was trained on ({'; '.join(said)})"
        )
    place = next(index for index, (a, b) in enumerate(zip(expected, given, strict=True)) if a != b)
    raise ArtifactError(
        f"the columns are in another order than the model was trained on: column {place + 1} is "
        f"{given[place]}, "
        f"expected {expected[place]}"
    )


def describe_features(X: pd.DataFrame, units: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the manifest's ``features``: name, unit and trained range of each column of ``X``, in order.

    ``units`` has ``""`` for a column without one; low and high are None where a column is NaN
    throughout.
    """
    low = X.min()
    high = X.max()
    return [
        {
            "name": str(name),
            "unit": units[str(name)],
            "low": None if np.isnan(low[name]) else float(low[name]),
            "high": None if np.isnan(high[name]) else float(high[name]),
        }
        for name in X.columns
    ]


# each looks for the package anew, and reads all that it says of itself
version = cache(metadata.version)


def versions() -> dict[str, str]:
    """Return the versions that a model depends on, by package."""
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "lightgbm")}
    return {"python": platform.python_version(), **packages, "flopcast": __version__}


def _probe_rows(X: pd.DataFrame) -> pd.DataFrame:
    """Return rows of ``X`` and points 40 % of the way from each to the next (not halfway, where trees split)."""
    count = min(PROBES // 2, len(X))
    places = np.linspace(0, len(X) - 1, count).round()
    chosen = np.unique(places.astype(int))
    rows = X.to_numpy(dtype=float)[chosen]
    between = 0.6 * rows[:-1] + 0.4 * rows[1:]
    return pd.DataFrame(np.vstack([rows, between]), columns=X.columns)


def _predict(estimator: Any, X: pd.DataFrame) -> np.ndarray:
    """Predict with names if the estimator was fitted with names."""
    return estimator.predict(
        X if hasattr(estimator, "feature_names_in_") else X.to_numpy(dtype=float)
    )


def _check_manifest(manifest: Mapping[str, Any], columns: list[str]) -> None:
    taken = [key for key in _WRITTEN_HERE if key in manifest]
    if taken:
        raise ValueError(f"save() writes {', '.join(taken)} itself: leave it out of the manifest")
    missing = [key for key in ("features", "data_sha256") if key not in manifest]
    if missing:
        raise ValueError(f"the manifest lacks {', '.join(missing)}")
    if [feature["name"] for feature in manifest["features"]] != columns:
        raise ValueError("the manifest's features are not the columns of the probes, in order")


def _read_manifest(path: Path) -> dict[str, Any]:
    content = plain_content(path, _MOST_TEXT, "is this the model/ folder of a run?")
    try:
        manifest = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ArtifactError(
            f"{path} is not JSON, so the model is damaged or foreign: train again"
        ) from error
    if isinstance(manifest, dict):
        schema = manifest.get("schema")
    else:
        schema = None
    if isinstance(schema, int) and schema > SCHEMA:
        raise ArtifactError(
            f"{path} has schema {schema}, this flopcast reads {SCHEMA}: train again, or upgrade flopcast"
        )
    if schema != SCHEMA or isinstance(schema, bool):
        raise ArtifactError(f"{path} is not the manifest of a flopcast model: train again")
    problem = next(_missing_parts(manifest), None)
    if problem:
        raise ArtifactError(f"{path} is damaged ({problem}): train again")
    return manifest


def _missing_parts(manifest: dict[str, Any]) -> Iterator[str]:
    """Yield the keys that :func:`load` needs and a manifest lacks."""
    try:
        names = [feature["name"] for feature in manifest["features"]]
        width = len(names)
        if not all(isinstance(name, str) for name in names) or not isinstance(
            manifest["versions"], dict
        ):
            yield "its features have no names, or its packages no versions"
        unpacked_bytes = manifest["estimator"]["unpacked_bytes"]
        if type(unpacked_bytes) is not int or unpacked_bytes < 0:
            yield "its estimator has no size"
        rows = np.array(manifest["probes"]["rows"], dtype=float)
        predictions = np.array(manifest["probes"]["predictions"], dtype=float)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        yield f"{type(error).__name__}: {error}"
        return
    if predictions.ndim != 1 or rows.shape != (len(predictions), width) or not len(predictions):
        yield "its probes do not fit its features"


def _check_probes(artifact: Artifact, folder: Path) -> None:
    """Refuse a model whose predictions for its probes differ from those at saving."""
    probes = artifact.manifest["probes"]
    rows = pd.DataFrame(np.array(probes["rows"], dtype=float), columns=artifact.feature_names)
    saved = np.array(probes["predictions"], dtype=float)
    try:
        now = np.asarray(_predict(artifact.estimator, rows), dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            difference = float(np.max(np.abs(now / saved - 1), where=now != saved, initial=0.0))
    except Exception as error:  # an estimator of another version can fail in any way
        raise ArtifactError(
            not_reproduced(artifact, folder, f"{type(error).__name__}: {error}")
        ) from error
    if not difference <= TOLERANCE:
        raise ArtifactError(
            not_reproduced(artifact, folder, f"probes differ by up to {100 * difference:.2g} %")
        )


def not_reproduced(artifact: Artifact, folder: Path | str, why: str) -> str:
    """Say what is to blame: other versions than in training, or the model itself."""
    trained = artifact.manifest["versions"]
    here = versions()
    why = " ".join(why.split())[:200]
    changed = [name for name in here if trained.get(name) != here[name]]
    if not changed:
        return (
            f"{folder} is damaged: it does not predict what it predicted when it was saved "
            f"({why}); train again"
        )
    if "scikit-learn" in changed:
        first = "scikit-learn"
    else:
        first = changed[0]
    others = "".join(f", {name} {trained.get(name)}" for name in changed if name != first)
    return (
        f"{folder}: this {first} {here[first]} does not reproduce the model trained with "
        f"{trained.get(first)}{others} "
        f"({why}): install those versions, or train again"
    )
