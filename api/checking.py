"""Checking: a saved run and new measurements of the same devices to what the run is still worth."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ..errors import DataError, ParameterError
from ..evaluation.checking import Checked, Score, assess
from ..evaluation.intervals import LEVELS
from ..evaluation.metrics import check_level
from ..evaluation.trained_model import Correction, TrainedModel
from ..features.matrix import groups_of
from ..laws.bounds import bound
from ..models import artifact
from ..operators.operators import work_of
from ..output import dumps, whole_folder
from ..readers.labels import canonical_device
from ..report.checking import CheckFacts, check_document
from ..report.document import Document
from ..report.html import Shown, page
from ..report.run_folder import METRICS, REPORT, check_run_folder, read_run
from ..report.training import training_document
from ..table.conditions import Where
from ..table.measurements import fill_text
from ..table.problems import one_per_problem, pair, rows_of
from .tables import Data, items, load_measurements, names_of, titled

FILES = ("check.json", "check.html")


class Trained(Protocol):
    """A run with its evidence and its model (`training.Run`)."""

    metrics: dict[str, Any]
    predictions: pd.DataFrame
    trained: TrainedModel
    folder: Path | None

    def save(self, folder: str | Path) -> None:
        """Write the run folder."""


@dataclass
class _Stored:
    """A run folder as `Trained`."""

    metrics: dict[str, Any]
    predictions: pd.DataFrame
    trained: TrainedModel
    folder: Path | None

    def save(self, folder: str | Path) -> None:
        assert self.folder is not None
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)


@dataclass(frozen=True)
class Check(Shown):
    """What new measurements say of a run.

    Attributes
    ----------
    found : Checked
        Errors, coverage, shift, and the verdict (see `evaluation.checking`, where its rule stands).
    rows : DataFrame
        One row per new workload: ``observed``, ``predicted``, ``lower`` and ``upper`` in the unit of the metric,
        ``group``, ``class``, ``within`` (the trained range) and ``source``.
    facts : CheckFacts
        Of which run and data this is, and what was left out.
    run : Run
        What was checked.
    """

    files = FILES
    found: Checked
    rows: pd.DataFrame
    facts: CheckFacts
    run: Trained

    @property
    def verdict(self) -> str:
        """``still valid``, ``shifted``, ``no longer valid`` or ``too few data``."""
        return str(self.found.outcome)

    @property
    def table(self) -> pd.DataFrame:
        """One row per class, then per group, with error, coverage, and the median of observed / predicted."""
        parts = [("class", part) for part in self.found.classes] + [("group", part) for part in self.found.by_group]
        return pd.DataFrame(
            [
                {
                    "kind": kind,
                    "name": part.name,
                    "rows": part.rows,
                    "e_out": part.e_out,
                    "coverage": part.coverage,
                    "ratio": part.ratio,
                    "lower": part.shift.lower if part.shift else None,
                    "upper": part.shift.upper if part.shift else None,
                }
                for kind, part in parts
            ]
        )

    def document(self) -> Document:
        """Return the findings as `report` shows them on terminals and pages."""
        return check_document(self.found, self.rows, self.facts)

    def correct(self, folder: str | Path) -> None:
        """Save the run with its shift corrected.

        Its predictions are multiplied by the factor and their intervals widened by what that leaves open; the manifest
        of the model, ``metrics.json`` and the page state it.

        Raises
        ------
        DataError
            The verdict is not that the run is shifted: there is nothing to correct, or more than a factor.
        ArtifactError
            ``folder`` holds something that is not a run.
        """
        correction = self.correction
        if correction is None:
            raise DataError(f"a factor corrects a run that is shifted; the verdict on this one is: {self.verdict}")
        out = Path(folder)
        check_run_folder(out)
        with TemporaryDirectory() as aside:
            place = Path(aside) / "run"
            self.run.save(place)
            corrected = TrainedModel.load(place).corrected(correction)
            artifact.restate(place / artifact.MODEL, corrected.saved.manifest)
            metrics, predictions = read_run(place)
            metrics |= {"correction": vars(correction)}
            metrics["data"] = {
                **metrics["data"],
                "notes": [*(metrics["data"].get("notes") or []), str(correction.remark)],
            }
            (place / METRICS).write_text(dumps(metrics, missing=True, sort=True), encoding="utf-8")
            (place / REPORT).write_text(page(training_document(metrics, predictions)), encoding="utf-8")
            with whole_folder(out) as stage:
                shutil.copytree(place, stage, dirs_exist_ok=True)

    @property
    def correction(self) -> Correction | None:
        """What the run would be corrected by, on the model as it was trained; None unless it is shifted."""
        found, before = self.found.correction, self.run.trained.correction
        if found is None or before is None:
            return found
        ends = {name: getattr(found, name) * before.factor for name in ("factor", "lower", "upper")}
        return replace(found, **ends)

    def __repr__(self) -> str:
        return f"<Check of {self.facts.run}: {self.verdict}, {self.found.score.n} rows>"

    def _repr_html_(self) -> str:
        return titled(repr(self)[1:-1], self.table)


def check(
    run: str | Path | Trained,
    data: Data,
    *,
    host: str | None = None,
    level: float = 0.9,
    where: Where = None,
    group: str | Sequence[str] | None = None,
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    keep: Collection[str] = (),
    seed: int = 0,
) -> Check:
    """Score a run on new measurements, and say whether it still holds, is shifted, or must be trained again.

    Parameters
    ----------
    run : path or Run
        Run folder that `train` wrote, or a run.
    data : path, DataFrame, Measurements, or a sequence of them
        Measured on the target; where the run has a host, on both devices, and paired as for `train`. Rows that the run
        was trained on are left out.
    host : str, optional
        A device in the data that takes the place of the run's host: the same GPU with another driver, or half of it.
    level : float, default=0.9
        Of the intervals whose coverage is tested.
    where : mapping, or sequence of str, optional
        Which rows, as for `read`.
    group : str or sequence of str, optional
        Columns that make a group, as for `train`; rows of one group are not counted as independent.
    units, defaults : mapping of str to str, optional
        Units, and values, of columns whose files do not state them.
    keep : collection of str
        ``("impossible",)`` keeps rows that take less time than their device can, or impossibly long or little.
    seed : int
        Of the bootstrap.

    Returns
    -------
    Check

    Raises
    ------
    FlopcastError
        The run cannot be loaded, the data cannot be read, or no row of them can be predicted.

    Examples
    --------
    >>> import flopcast as fc
    >>> run = fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1)
    >>> found = run.check(fc.read(where={"m": (65, 256)}))
    >>> found.verdict in ("still valid", "shifted", "no longer valid", "too few data")
    True
    """
    check_level(level, LEVELS[0], LEVELS[-1])
    if not items(data):
        raise ParameterError("data", "is missing: give the files or folders that hold the new measurements")
    checked = run_of(run)
    model = checked.trained
    if host is not None and model.recipe.host is None:
        raise ParameterError("host", "is given, but this run has none: it predicts from shapes alone")
    named = None if host is None else canonical_device(host)[0]
    devices = [name for name in (named, _host(model), model.recipe.target.name) if name]
    measured = load_measurements(data, where, units, defaults, devices, keep=keep)
    with threadpool_limits(limits=1):
        rows, lost = _scored(checked, measured.frame, named or _host(model), names_of(group, "group"), level)
        others = _own_host(checked, measured.frame, rows, level) if named not in (None, _host(model)) else {}
    found = assess(rows, _folds(checked), level=level, covered=_covered(checked), seed=seed)
    before = [] if model.correction is None else [model.correction.remark]
    facts = CheckFacts(
        run=str(checked.folder or "the run just trained"),
        model=str(model.saved.manifest.get("selected", "?")),
        host=named or _host(model),
        trained_host=_host(model),
        target=model.recipe.target.name,
        metric=model.recipe.metric,
        level=level,
        rejected=measured.rejected_by_reason,
        rejected_at=measured.rejected_at,
        notes=[*map(str, before), *map(str, measured.notes)],
        **lost,
        **others,
    )
    return Check(found, rows, facts, checked)


def run_of(run: str | Path | Trained) -> Trained:
    """Return a run, or that of a folder; a ParameterError for anything else."""
    if isinstance(run, str | Path):
        return _Stored(*read_run(Path(run)), TrainedModel.load(Path(run)), Path(run))
    if isinstance(getattr(run, "trained", None), TrainedModel):
        return run
    raise ParameterError("run", f"must be a run or the folder of one, got {type(run).__name__}")


def _host(model: TrainedModel) -> str | None:
    return model.recipe.host.name if model.recipe.host else None


def _scored(
    run: Trained, frame: pd.DataFrame, host: str | None, group: Sequence[str] | None, level: float
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the rows that can be scored, as `evaluation.checking.assess` takes them, and what was left out."""
    model = run.trained
    target, metric = model.recipe.target, model.recipe.metric
    if host is None:
        rows = one_per_problem(rows_of(frame, target.name), metric)[0]
    else:
        rows = pair(frame, host, target.name, metric=metric).paired
    answers = model.predict(model.as_asked(rows), level)
    bounds = bound(work_of(rows), model.recipe.host or target)
    kinds = rows["op"].astype(str) + " " + fill_text(rows)["dtype_a"] + " " + bounds + "-bound"
    whole = answers[["predicted", "lower", "upper"]].assign(
        **{
            "observed": rows[metric].to_numpy(dtype=float),
            "group": groups_of(rows, group).astype(str),
            "class": kinds.str.replace("  ", " "),
            "within": answers["basis"].eq("model"),
            "extrapolated": answers["extrapolated"],
            "source": rows["source"].astype(str) if "source" in rows else "",
        }
    )
    able = whole["predicted"].gt(0).to_numpy()
    before = pd.MultiIndex.from_frame(_of_model(run)[["group", "observed"]])
    trained = pd.MultiIndex.from_frame(whole[["group", "observed"]]).isin(before)
    every = bool(trained[able].all())
    kept = whole[able & (~trained | every)].reset_index(drop=True)
    unable = [why[0].general if why else "" for why in answers["reasons"][~able]]
    if kept.empty:
        raise DataError(f"no row can be predicted; first: {unable[0]}", source=str(whole["source"].iloc[0]))
    lost = {"trained_rows": int(trained[able].sum()), "all_trained": every}
    return kept, {**lost, "not_predicted": dict(Counter(unable).most_common())}


def _own_host(run: Trained, frame: pd.DataFrame, rows: pd.DataFrame, level: float) -> dict[str, Any]:
    """Return what the run errs by from its own host and from the other one, on the workloads that both measured."""
    own = _host(run.trained)
    if own is None or not frame["device"].eq(own).any():
        return {}
    try:
        theirs = _scored(run, frame, own, None, level)[0]
    except DataError:  # no pair of them
        return {}
    both = rows.merge(theirs, on=["source", "observed"], suffixes=("", "_own"))
    if both.empty:
        return {}
    errors = [Score.of(both[["observed", name]].set_axis(["observed", "predicted"], axis=1)).e_out for name in
              ("predicted", "predicted_own")]  # fmt: skip
    return {"common_rows": len(both), "other_e_out": errors[0], "own_e_out": errors[1]}


def _of_model(run: Trained) -> pd.DataFrame:
    """Return the out-of-fold predictions of the saved model."""
    rows = run.predictions[run.predictions["model"] == run.metrics["model"]["name"]]
    return rows[np.isfinite(rows["predicted"]) & rows["predicted"].gt(0)]


def _folds(run: Trained) -> dict[str, pd.DataFrame]:
    """Return them by scheme, that which the model was chosen under first."""
    rows, chosen = _of_model(run), run.metrics["model"]["scheme"]
    return {str(name): part for name, part in sorted(rows.groupby("scheme"), key=lambda item: item[0] != chosen)}


def _covered(run: Trained) -> dict[str, float | None]:
    schemes = (run.metrics.get("intervals") or {}).get("schemes") or {}
    return {name: found.get("coverage") for name, found in schemes.items()}
