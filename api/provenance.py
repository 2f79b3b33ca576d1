"""What a run or a page says of itself: how it was asked for, from which files and rows, when, on which machine."""

from __future__ import annotations

import hashlib
import inspect
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from ..evaluation.campaigns import Campaigns
from ..evaluation.selection import statement
from ..hardware import GPU, Comparison
from ..models.artifact import versions
from ..output import SCHEMA
from ..readers import Measurements
from ..remarks import visible
from ..table.conditions import Where, conditions
from ..table.noise import noise_of
from ..table.problems import HOST
from ..workers import cpu_model, in_parts

if TYPE_CHECKING:  # a page of a command that trains nothing need not import what trains
    from ..evaluation.competition import Competition
    from ..evaluation.final_model import FinalModel
    from ..features.matrix import Dataset

# parameters that do not change a result
_WITHOUT: Final = (
    "jobs",
    "cluster",
    "fits",
    "resume",
    "progress",
    "command",
)
MOST_FILES: Final = 500  # files of a folder that are named one by one
LARGEST: Final = 2**31  # bytes of the largest file that is hashed


def made_of(asked: str, paths: Iterable[Path], seed: int | None = None) -> dict[str, Any]:
    """Return where a page comes from, as `provenance`, with ``versions``; ``seed`` is None where nothing is random.

    Of files above `LARGEST`, and of folders with more than `MOST_FILES`, there is no SHA-256 ("").
    """
    files = []
    for path in paths:
        for entry in _entries(Path(path)):
            files.append(entry)
    return {
        "command": visible(asked),
        "files": files,
        "where": [],
        "seed": seed,
        "versions": versions(),
        **_now(),
    }


def _entries(path: Path) -> list[dict[str, Any]]:
    if path.is_dir():
        inside = sorted(one for one in path.rglob("*") if one.is_file())
    else:
        inside = [path]
    if len(inside) > MOST_FILES:
        size = sum(one.stat().st_size for one in inside)
        return [
            {"name": visible(f"{path.name}/ ({len(inside):,} files)"), "bytes": size, "sha256": ""}
        ]
    entries = []
    for one in inside:
        if one.is_file():
            size = one.stat().st_size
            digest = ""
            if size <= LARGEST:
                with one.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            entries.append(
                {
                    "name": visible(str(one.relative_to(path.parent))),
                    "bytes": size,
                    "sha256": digest,
                }
            )
    return entries


def _now() -> dict[str, Any]:
    """Return the date and the machine."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "os": platform.platform(),
            "python": platform.python_version(),
        },
    }


def provenance(asked: str, measured: Measurements, where: Where, seed: int) -> dict[str, Any]:
    """Return ``provenance`` of ``metrics.json`` of what was ``asked``: the command line, or the call.

    These are ``command``; ``files``, a list of name, bytes and sha256 of each; ``where``, the
    conditions as texts; ``seed``; ``date``, UTC; ``machine``: cpu, cores, os and python. All but
    the date and the machine are the same for the same call and data.
    """
    return {
        "command": visible(asked),
        "files": [
            {"name": visible(file.name), "bytes": file.size, "sha256": file.sha256}
            for file in measured.files
        ],
        "where": [visible(str(condition)) for condition in conditions(where)],
        "seed": seed,
        **_now(),
    }


def call_text(function: Any, given: Mapping[str, Any]) -> str:
    """Return a call of the API as it would be written, without defaults and without options that change no result.

    >>> import flopcast as fc
    >>> call_text(fc.gpu, {"name": Path("mine.toml")})
    "fc.gpu(name='mine.toml')"
    """
    stated = {**given, **given.get("reading", {})}
    words = []
    for name, parameter in signature(function).parameters.items():
        value = stated.get(name, parameter.default)
        if parameter.kind == Parameter.VAR_POSITIONAL:
            words += [_written(one) for one in value]
        elif name not in _WITHOUT and repr(value) != repr(parameter.default):
            words.append(f"{name}={_written(value)}")
    return f"fc.{function.__name__}({', '.join(words)})"


def _written(value: Any) -> str:
    """Write an argument in a few words: a table by its size, a path and a GPU by its name."""
    if isinstance(value, pd.DataFrame | Measurements):
        return f"<table of {len(value.frame if isinstance(value, Measurements) else value)} rows>"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_written, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner}{',' * (len(value) == 1)})"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key!r}: {_written(each)}" for key, each in value.items())
        return f"{{{inner}}}"
    if inspect.isroutine(value):
        return str(value.__name__)
    return repr(
        value.name
        if isinstance(value, GPU)
        else os.fspath(value)
        if isinstance(value, Path)
        else value
    )


_MORE: Final = r" \(\+\d+ more\)$"  # behind the source of merged repeats
LISTED: Final = 20  # irregular rows that ``metrics.json`` names


def metrics_of(
    dataset: Dataset,
    measured: Measurements,
    competition: Competition,
    model: FinalModel,
    ranking: Sequence[Mapping[str, Any]],
    predictions: pd.DataFrame,
    digest: str,
) -> dict[str, Any]:
    """Return what ``metrics.json`` holds.

    `predictions` are those of the competition (`Competition.table`), `digest` is the `data_hash` of
    the data set.
    """
    report = dataset.report
    shown = model.of(competition.scheme)
    irregular, odd = irregular_rows(dataset, measured.irregular)
    notes = [*map(repr, (*measured.notes, *report.get("remarks", ()), *competition.notes))]
    return {
        "schema": SCHEMA,
        "data": {
            "n": len(dataset),
            "groups": len(pd.unique(dataset.groups)),
            "campaigns": competition.campaigns and len(competition.campaigns.names),
            "noise": _noise(dataset, measured),
            "host": dataset.host.name if dataset.host else None,
            "target": dataset.target.name,
            "metric": dataset.metric,
            "features_available": dataset.X.shape[1],
            "sha256": digest,
            "rejected": measured.rejected_by_reason,
            "rejected_at": measured.rejected_at,
            "unpaired_host": report.get("host_only"),
            "unpaired_target": report.get("target_only"),
            "slower_kernels": report.get("slower_kernels") or None,
            "without_metric": report.get("without_metric") or None,
            "metric_not_positive": report.get("metric_not_positive") or None,
            "without_operator": report.get("without_operator") or None,
            "not_published": report["features"]["not_published"],
            "notes": notes,
            "irregular": odd[["source", "factor", "beside"]].head(LISTED).to_dict("records")
            if len(odd)
            else None,
        },
        "cv": [
            {
                **entry,
                "selected": _stated(entry["selected"]),
                **_regular(predictions, entry["scheme"], irregular),
            }
            for entry in competition.summary()
        ],
        "model": {"name": shown.name, "scheme": shown.scheme, "space": shown.candidate.space},
        "intervals": model.coverage(competition.scheme),
        "ranking": ranking,
        "groups": competition.by_group(dataset, shown.name),
        **({"pairs": pairs} if (pairs := competition.by_pair(dataset, shown.name)) else {}),
        **_campaigns(competition),
        "versions": versions(),
    }


def _noise(dataset: Dataset, measured: Measurements) -> dict[str, Any] | None:
    """Return ``noise`` of ``metrics.json``: what the target's measurements leave open; None where none shows it."""
    rows = measured.frame
    if not dataset.comparison.is_many:
        rows = rows[rows["device"] == dataset.target.name]
    noise = noise_of(rows.reset_index(drop=True), dataset.metric)
    if noise is None:
        return None
    return vars(noise)


def _campaigns(competition: Competition) -> dict[str, Any]:
    """Return ``campaigns`` of ``metrics.json``: whether whole ones were resampled, and the error in a new one."""
    campaigns = competition.campaigns
    new = competition.new_campaign
    if campaigns is None:
        return {}
    columns: dict[str, Any] = {"resampled": campaigns.enough}
    if new is not None:
        count = len(competition.baselines)
        columns["new"] = {
            "scheme": new.result.scheme,
            "folds": len(np.unique(new.result.folds)),
            "baselines": new.result.rows[:count],
            "models": new.result.rows[count:],
            "selected": _stated(new.selected),
        }
    return {"campaigns": columns}


def irregular_rows(dataset: Dataset, odd: pd.DataFrame) -> tuple[np.ndarray, pd.DataFrame]:
    """Return which workloads are spikes or have repeats that disagree, on the host or the target, and these rows.

    `odd` is `Measurements.irregular`; rows of it that are not among the workloads are left out.
    """
    irregular = np.zeros(len(dataset), dtype=bool)
    used = np.zeros(len(odd), dtype=bool)
    for gpu, column in ((dataset.target, "source"), (dataset.host, f"{HOST}source")):
        if len(odd) and gpu is not None and column in dataset.rows:
            of_gpu = odd["device"].eq(gpu.name).to_numpy() | Comparison.means_all(gpu)
            rows, named = (
                words.astype(str).str.replace(_MORE, "", regex=True)
                for words in (dataset.rows[column], odd["row"])
            )
            hit = rows.isin(named[of_gpu]).to_numpy()
            irregular |= hit
            used |= of_gpu & named.isin(rows[hit]).to_numpy()
    return irregular, odd[used]


def _regular(predictions: pd.DataFrame, scheme: str, irregular: np.ndarray) -> dict[str, Any]:
    """Return the error of each model on the regular workloads, under a scheme; nothing without irregular ones."""
    if not irregular.any() or irregular.all():
        return {}
    of_scheme = predictions["scheme"].eq(scheme) & ~irregular[predictions["row"]]
    errors = (
        predictions.loc[of_scheme, ["model", "ape"]]
        .groupby("model", sort=False, observed=True)["ape"]
        .mean()
    )
    return {
        "regular": {
            "rows": int((~irregular).sum()),
            "irregular": int(irregular.sum()),
            "e_out": errors.to_dict(),
        }
    }


def _stated(selected: Mapping[str, Any]) -> dict[str, Any]:
    """Return a selection with its statement; so has the best model, where a baseline was selected."""
    if "best_model" in selected:
        inner = {"best_model": _stated(selected["best_model"])}
    else:
        inner = {}
    return {**selected, **inner, "statement": statement(selected)}


def campaigns_hash(dataset: Dataset) -> str:
    """Return the SHA-256 of the campaigns of the rows' groups; "" where these come in none."""
    families = Campaigns.of_data(dataset)
    if families is None:
        return ""
    _, origins = families
    labels = "\0".join([*origins.paired, *origins.unpaired])
    return hashlib.sha256(labels.encode()).hexdigest()


def data_hash(dataset: Dataset) -> str:
    """Return the SHA-256 of features, column names, target and groups, those of unpaired rows included.

    Features count in single precision: the last digits of a logarithm depend on the processor.
    """
    digest = hashlib.sha256()
    for rows in (dataset, dataset.unpaired):
        if rows is not None:
            for part in in_parts(len(rows.y)):
                with np.errstate(over="ignore"):
                    features = rows.X.iloc[part].to_numpy(np.float32)
                digest.update(np.ascontiguousarray(features).data)
            digest.update(np.ascontiguousarray(rows.y).data)
            for words in (rows.X.columns, rows.groups):
                digest.update("\0".join(map(str, words)).encode())
    return digest.hexdigest()
