"""Checking: a saved run to what it is still worth on new measurements, and to what should be measured next."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Unpack

import numpy as np
import pandas as pd

from .. import sealing, values
from ..errors import (
    DataError,
    ParameterError,
    check_level,
    check_margin,
    check_number,
    counted,
    few,
)
from ..evaluation import advising
from ..evaluation.advising import (
    check_need,
    choose,
    coordinates,
    expected_error,
    importance,
    rows_to_reach,
)
from ..evaluation.campaigns import Campaigns, stated
from ..evaluation.checking import Checked, Outcome, Score, assess
from ..evaluation.corrected_error import SCHEME_OF
from ..evaluation.intervals import LEVEL
from ..evaluation.stated_error import NEW_GROUP, NOTHING_STATED, WITHIN
from ..evaluation.trained_model import Correction, TrainedModel
from ..features.matrix import BY_DEVICE, groups_of
from ..hardware import GPU, Comparison, word_of
from ..laws.bounds import bound
from ..laws.rates import on_each
from ..models import artifact
from ..operators.operators import work_of
from ..operators.work import as_numbers
from ..output import FILES, SCHEMA, dumps, replacing, whole_folder
from ..readers import Measurements, read_rows
from ..readers.labels import canonical_device
from ..report.checking import CheckFacts, advice_document, check_document
from ..report.document import Document, lines
from ..report.html import page
from ..report.notebook import Figures
from ..report.predictions import Identity, in_order, write_file
from ..report.result import Result, saving
from ..report.run_folder import METRICS, REPORT, as_corrected, beside, check_run_folder
from ..report.training import left_out, training_document
from ..settings import configured, spelt_out
from ..table.conditions import MeasuredReading, Reading
from ..table.measurements import REFUSED, fill_text
from ..table.problems import one_per_problem, pair, pair_each, problem_ids, rows_of
from ..values import Column, Columns, Duration, Margin
from ..workers import one_thread
from .devices import DeviceName, device
from .predicting import FITTED, RunFolder, RunGiven, RunLike, on_user_gpu, predict, run_of
from .tables import Data, items, load_measurements, refuse_unknown_models

MOST_ROWS: Final = 256  # further rows that `needed` looks at


@dataclass(frozen=True)
class Check(Result):
    """What new measurements say of a run.

    Attributes
    ----------
    found : Checked
        Errors, coverage, shift, and the verdict (see `evaluation.checking`, where its rule stands).
    rows : DataFrame
        One row per new workload: ``observed``, ``predicted``, ``lower`` and ``upper`` in the unit
        of the metric, ``group``, ``class``, ``within`` (the trained range) and ``source``.
    facts : CheckFacts
        Of which run and data this is, and what was left out.
    run : Run
        What was checked.
    measured : Measurements
        The data, as they were read.
    learnt : Curve or None
        Of another target, what `curve` with ``shifted_run`` gives, where that was asked for: its
        document goes along.
    """

    saved_as = FILES["check"]
    found: Checked
    rows: pd.DataFrame
    facts: CheckFacts
    run: RunLike
    measured: Measurements
    learnt: Result | None = None

    @property
    def saved_besides(self) -> tuple[Path, ...]:
        """The run that was corrected, where it was saved (`corrected` of `check`)."""
        if self.facts.saved:
            return (Path(self.facts.saved),)
        return ()

    @property
    def verdict(self) -> str:
        """One of `evaluation.checking.Outcome`: ``still valid``, ``shifted``, ... or ``proves nothing``."""
        return str(self.found.outcome)

    @property
    def table(self) -> pd.DataFrame:
        """One row per class, then per group, with error, coverage, and the median of observed / predicted."""
        parts = [("class", part) for part in self.found.classes] + [
            ("group", part) for part in self.found.by_group
        ]
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
        return check_document(
            self.found,
            self.rows,
            self.facts,
            None if self.learnt is None else self.learnt.document(),
        )

    def correct(self, folder: str | Path) -> None:
        """Save the run with its shift corrected.

        Its predictions are multiplied by the factor and their intervals widened by what that leaves
        open; the manifest of the model, ``metrics.json`` and the page state it.

        Raises
        ------
        DataError
            The verdict is not that the run is shifted: there is nothing to correct, or more than a
            factor.
        ArtifactError
            ``folder`` holds something that is not a run.
        """
        correction = self.correction
        if self.facts.target != self.facts.trained_target:
            raise DataError(
                f"the run is for {self.facts.trained_target}, and corrected it would still say "
                "so: train on "
                f"{self.facts.target}, or multiply by the factor"
            )
        if correction is None:
            raise DataError(
                "a factor corrects a run that is shifted; the verdict on this one is: "
                f"{self.verdict}"
            )
        out = Path(folder)
        with replacing(reads=[] if self.run.folder is None else [self.run.folder]):
            check_run_folder(out)
        with TemporaryDirectory() as aside:
            place = Path(aside) / "run"
            self.run.save(place)
            checked = run_of(place)
            corrected = checked.trained.corrected(correction, self.found.stated_since)
            model_folder = place / artifact.MODEL
            artifact.restate(model_folder, corrected.saved.manifest)
            if corrected.of_trained_groups is not None:
                artifact.restate(
                    model_folder / artifact.KNOWN, corrected.of_trained_groups.saved.manifest
                )
            metrics = as_corrected(checked.metrics, self._since())
            metrics |= {"correction": vars(correction), "schema": SCHEMA}
            metrics["data"] = {
                **metrics["data"],
                "notes": [*(metrics["data"].get("notes") or []), repr(correction.remark)],
            }
            (place / METRICS).write_text(dumps(metrics, missing=True, sort=True), encoding="utf-8")
            (place / REPORT).write_text(
                page(training_document(metrics, checked.predictions)), encoding="utf-8"
            )
            sealing.seal(place)
            with whole_folder(out) as stage:
                shutil.copytree(place, stage, dirs_exist_ok=True)

    def _since(self) -> dict[str, dict[str, Any]]:
        """Return by scheme what the corrected run errs by."""
        stated = self.found.stated_since.to_dict()
        since = {}
        for basis, measured in self.found.since.items():
            entry = measured.to_dict() | {"parts": stated[basis]}
            if self.facts.level != LEVEL:  # metrics.json says of one level what was held
                entry |= {"coverage": None, "median_relative_width": None}
            since[SCHEME_OF[basis]] = entry
        return since

    @property
    def correction(self) -> Correction | None:
        """What the run would be corrected by, on the model as it was trained; None unless it is shifted."""
        correction = self.found.correction
        before = self.run.trained.correction
        if correction is None or before is None:
            return correction
        ends = {
            name: getattr(correction, name) * before.factor for name in ("factor", "lower", "upper")
        }
        return replace(correction, **ends)

    def __repr__(self) -> str:
        return f"<Check of {self.facts.run}: {self.verdict}, {self.found.score.n} rows>"


@saving
@spelt_out
@configured
def check(
    run: RunGiven,
    *data: Data,
    host: DeviceName | None = None,
    target: DeviceName | None = None,
    interval: float = 0.9,
    margin: Margin = 0.10,
    group: Columns | None = None,
    seed: int = 0,
    corrected: RunFolder | None = None,
    **reading: Unpack[MeasuredReading],
) -> Check:
    """Score a saved run on new measurements: still valid, shifted by a factor, to be retrained, or impossible to tell.

    With ``host`` a device of the data takes the place of the run's host, and the answer says what
    that costs. With ``target`` one takes the place of its target.

    Parameters
    ----------
    run : path or Run
        Run folder that `train` wrote.
    *data : path, DataFrame, Measurements, or a sequence of them
        Files and folders of new measurements. They were measured on the target; where the run has a
        host, on both devices, and paired as for `train`. Rows that the run was trained on are left
        out.
    host : str, optional
        As for `train`: a device in the data that takes the place of the run's host: the same GPU
        with another driver, or half of it. Of a run from any GPU the one whose rows are asked
        about.
    target : str, optional
        As for `train`: a device in the data that takes the place of the run's target: does the run
        hold, shifted, for a third GPU? `curve`, with ``shifted_run``, says from how many of its
        rows on training anew errs less. Of a run with many targets the one to score, whether it was
        trained or not.
    interval : float, default=0.9
        As for `predict`: of those whose coverage is tested.
    margin : float, default=0.10
        As for `validate`: still valid is a run whose shift is shown to lie within it. A shift of 2 %
        or more (of the margin, where that is less) that is shown counts as one, however wide it is.
    where : mapping, or sequence of str, optional
        As for `read`.
    group : str or sequence of str, optional
        As for `train`: columns that make a group, by default those of the training (those of the
        operator where they are devices, and one is scored); rows of one group are not counted as
        independent.
    unit, default, rename : mapping of str to str, optional
        As for `read`.
    keep : collection of str
        As for `read`.
    seed : int
        As for `train`: of the bootstrap.
    corrected : path, optional
        Where the run is shifted, save it corrected by the factor. As `Check.correct` does, which
        refuses a run that is not.

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
    >>> found.verdict in ("still valid", "shifted", "no longer valid", "cannot tell", "too few data")
    True
    """
    check_level(interval)
    check_margin(margin)
    check_number("seed", seed, 0)
    if not items(data):
        raise ParameterError(
            "data", "is missing: give the files or folders that hold the new measurements"
        )
    checked = run_of(run)
    model, stated_defaults = on_user_gpu(checked.trained, reading.get("default"))
    reading["default"] = stated_defaults
    comparison = model.recipe.comparison
    if host is not None and model.recipe.host is None:
        raise ParameterError(
            "host", "is given, but this run has none: it predicts from shapes alone"
        )
    if host is not None and target is not None and not comparison.is_many:
        raise ParameterError(
            "target", "is given together with a host: replace one of them at a time"
        )
    named = None
    if host is not None:
        named = canonical_device(word_of(host))[0]
    if target is None:
        third = model.recipe.target.name
    else:
        third = device(target, "target").name
    devices = [name for name in (named, _host(model), model.recipe.target.name, third) if name]
    measured = load_measurements(data, devices=devices, only=devices, **reading)
    with one_thread():
        by = _grouped_by(model, group)
        if group is None and target is not None and comparison.is_many and by in BY_DEVICE:
            by = None  # all rows of one device are one group
        asked_host = named or _host(model)
        rows, lost = _scored(model, checked, measured.frame, asked_host, third, by, interval)
        if named not in (None, _host(model)):
            others = _host_error(model, checked, measured.frame, rows, interval)
        else:
            others = {}
    # the scheme of the choice goes first
    trained_errors = _of_model(checked)
    chosen = checked.metrics["model"]["scheme"]
    folds = {
        str(name): part
        for name, part in sorted(
            trained_errors.groupby("scheme", observed=True), key=lambda item: item[0] != chosen
        )
    }
    schemes = (checked.metrics.get("intervals") or {}).get("schemes") or {}
    covered = {name: one.get("coverage") for name, one in schemes.items()}
    campaigns = Campaigns.of_metrics(checked.metrics)
    if campaigns is not None:
        folds = {
            name: part.assign(campaign=campaigns.labels(part["group"]))
            for name, part in folds.items()
        }
    errors = NOTHING_STATED
    if (named or _host(model), third) == (_host(model), model.recipe.target.name):
        errors = model.stated_errors
    checked_rows = assess(
        rows, folds, level=interval, margin=margin, covered=covered, errors=errors, seed=seed
    )
    if lost["all_trained"]:
        checked_rows = replace(checked_rows, outcome=Outcome.TRAINED, correction=None)
    before = []
    factor = None
    if model.correction is not None:
        before = [model.correction.remark]
        factor = model.correction.factor
    facts = CheckFacts(
        run=str(checked.folder or "the run just trained"),
        model=model.name,
        host=named or _host(model),
        trained_host=_host(model),
        target=third,
        trained_target=model.recipe.target.name,
        metric=model.recipe.metric,
        level=interval,
        rejected=measured.rejected_by_reason,
        rejected_at=measured.rejected_at,
        notes=[*map(repr, (*before, *measured.notes))],
        factor=factor,
        **lost,
        **others,
    )
    answer = Check(checked_rows, rows, facts, checked, measured)
    return _corrected(answer, corrected)


def _corrected(answer: Check, folder: RunFolder | None) -> Check:
    """Return a check that says whether its run was saved corrected in a folder; it is where it is shifted."""
    if folder is None:
        return answer
    if answer.correction is None:
        return replace(answer, facts=replace(answer.facts, unsaved=str(folder)))
    answer.correct(folder)
    return replace(answer, facts=replace(answer.facts, saved=str(folder)))


def _grouped_by(model: TrainedModel, group: str | Sequence[str] | None) -> Sequence[str] | None:
    """Return the columns that make a group: those stated, else those of the training, whose groups they are to meet."""
    return values.columns("group", group) or (model.groups and model.groups.by) or None


def _host(model: TrainedModel) -> str | None:
    if model.recipe.host:
        return model.recipe.host.name
    return None


def _scored(
    model: TrainedModel,
    run: RunLike,
    frame: pd.DataFrame,
    host: str | None,
    device: str,
    group: Sequence[str] | None,
    level: float,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the rows that can be scored, as `evaluation.checking.assess` takes them, and what was left out."""
    target = model.recipe.target
    metric = model.recipe.metric
    if model.recipe.comparison.is_many:
        rows_of(frame, device)  # says which devices there are where it is none of them
        rows = one_per_problem(rows_of(frame, target.name), metric)[0]
        if host is not None:
            hosts: Collection[str] = {host}
            if Comparison.means_all(host):
                hosts = ()
                if model.groups:
                    hosts = model.groups.hosts
            rows = pair_each(rows, hosts, metric=metric).paired
        asked = rows = rows_of(rows, device)
    elif host is None:
        rows = one_per_problem(rows_of(frame, device), metric)[0]
        if device == target.name:
            asked = rows
        else:
            asked = rows.assign(device=target.name)
    else:
        rows = pair(frame, host, device, metric=metric).paired
        asked = model.as_asked(rows)
    answers = model.predict(asked, level)
    bounds = on_each(work_of(rows), rows, model.recipe.host or target, bound, "unknown")
    kinds = rows["op"].astype(str) + " " + fill_text(rows)["dtype_a"] + " " + bounds + "-bound"
    before = _of_model(run)[["group", "observed"]].astype({"group": str})
    as_trained = groups_of(rows, _grouped_by(model, None)).astype(str)
    parts = model.parts(asked, answers["basis"])
    whole = answers[["predicted", "lower", "upper"]].assign(
        **{
            "observed": rows[metric].to_numpy(dtype=float),
            "group": groups_of(rows, group).astype(str),
            "known": pd.Series(as_trained).isin(before["group"]).to_numpy(),
            "class": kinds.str.replace("  ", " "),
            "campaign": stated(rows),
            "within": answers["basis"].isin(
                [
                    "model",
                    "known group",
                    "new group",
                    "new campaign",
                    "new device",
                    "new host",
                    "beyond",
                ]
            ),
            "extrapolated": answers["extrapolated"],
            "basis": parts["basis"].to_numpy(),
            "part": parts["part"].to_numpy(),
            "source": rows["source"].astype(str) if "source" in rows else "",
        }
    )
    able = whole["predicted"].gt(0).to_numpy()
    trained = pd.MultiIndex.from_arrays([as_trained, whole["observed"]]).isin(
        pd.MultiIndex.from_frame(before)
    )
    every = bool(trained[able].all())
    kept = whole[able & (~trained | every)].reset_index(drop=True)
    unable = [why[0].general if why else "" for why in answers["reasons"][~able]]
    if kept.empty:
        reasons = few(
            (f"{why} ({counted(count, 'row')})" for why, count in Counter(unable).most_common()),
            limit=3,
        )
        raise DataError(f"no row can be predicted: {reasons}", source=str(whole["source"].iloc[0]))
    lost = {"trained_rows": int(trained[able].sum()), "all_trained": every}
    return kept, {**lost, "not_predicted": dict(Counter(unable).most_common())}


def _host_error(
    model: TrainedModel, run: RunLike, frame: pd.DataFrame, rows: pd.DataFrame, level: float
) -> dict[str, Any]:
    """Return the errors of the run from its host and from the other one, on the workloads that both measured."""
    host_trained = _host(model)
    if host_trained is None or not frame["device"].eq(host_trained).any():
        return {}
    try:
        theirs = _scored(model, run, frame, host_trained, model.recipe.target.name, None, level)[0]
    except DataError:  # no pair of them
        return {}
    both = rows.merge(theirs, on=["source", "observed"], suffixes=("", "_own"))
    if both.empty:
        return {}
    errors = [
        Score.of(both[["observed", name]].set_axis(["observed", "predicted"], axis=1)).e_out
        for name in ("predicted", "predicted_own")
    ]
    return {"common_rows": len(both), "other_e_out": errors[0], "own_e_out": errors[1]}


def _of_model(run: RunLike) -> pd.DataFrame:
    """Return under each scheme the out-of-fold predictions of the model that answers its question."""
    answering = {cv["scheme"]: cv["selected"]["name"] for cv in run.metrics["cv"]}
    rows = run.predictions
    rows = rows[rows["scheme"].astype(str).map(answering).eq(rows["model"].astype(str))]
    return rows[np.isfinite(rows["predicted"]) & rows["predicted"].gt(0)]


COST = "cost_s"  # column of the candidates: seconds that measuring a row takes
ROW_SECONDS = 10.0


class NothingLeftError(DataError):
    """All candidates are measured already."""


@dataclass(frozen=True)
class Advice(Result):
    """What to measure next.

    Attributes
    ----------
    batch : DataFrame
        The rows to measure on the target, the most useful first: what identifies each,
        ``predicted`` and its limits, ``group``, whether it is ``known`` from training, and
        ``cost_s``.
    summary : dict
        Fit for JSON: of which run, how many candidates, the budget, and the error expected now and
        after.
    """

    batch: pd.DataFrame
    summary: dict[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "summary", Figures(self.summary))

    @property
    def table(self) -> pd.DataFrame:
        """The rows to measure: `batch`."""
        return self.batch

    def document(self) -> Document:
        """Return the advice as `report` shows it."""
        return advice_document(self.batch, self.summary)

    def save(
        self, path: str | Path, *, made: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> None:
        """Write the batch to .csv, .parquet or .xlsx, with the summary to .json, the page to .html; whole or not.

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
            write_file(self.batch, self.summary, Path(path))

    def __repr__(self) -> str:
        return (
            f"<Advice for {self.summary['run']}: {len(self.batch)} of {self.summary['candidates']} "
            "rows>"
        )


@saving
@spelt_out
@configured
def advise(
    run: RunGiven,
    *candidates: Data,
    rows: int | None = None,
    budget: Duration | None = None,
    row_seconds: float = ROW_SECONDS,
    weight: Column | None = None,
    group: Columns | None = None,
    seed: int = 0,
    **reading: Unpack[Reading],
) -> Advice:
    """Choose what to measure next on the target: the batch that teaches a run most about new groups.

    Parameters
    ----------
    run : path or Run
        Run folder that `train` wrote.
    *candidates : path, DataFrame, Measurements, or a sequence of them
        What could be measured: rows of the host, or shapes. Shapes are for a run that has no host,
        with or without a time. Rows of the target beside a host's, and those that the run was
        trained on, count as measured already.
    rows : int, optional
        As for `curve`; or else a ``budget``.
    budget : float or str, optional
        As for `train`: a row costs its ``cost_s``, where the candidates have that column, else
        ``row_seconds``.
    row_seconds : float, default=10
        Seconds of a row that has no column cost_s. That is what it takes to set up and repeat.
    weight : str, optional
        How much each candidate counts in your workload. A column of the candidates: its calls, or
        its time.
    where, unit, default, rename
        As for `read`.
    group : str or sequence of str, optional
        As for `check`.
    seed : int
        As for `train`: of the sample of candidates, where there are more than 3 000.

    Returns
    -------
    Advice

    Raises
    ------
    FlopcastError
        The run cannot be loaded, the data cannot be read, or there is nothing to choose from.

    Examples
    --------
    >>> import flopcast as fc
    >>> run = fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1)
    >>> measured_on_the_host = fc.read(where={"device": "MI300X", "n": 4608})
    >>> len(fc.advise(run, measured_on_the_host, rows=5).batch)
    5
    """
    if rows is None and budget is None:
        raise ParameterError("rows", "is missing: how many rows may be measured? or give a budget")
    if rows is not None and budget is not None:
        raise ParameterError("rows", "cannot be given with a budget: leave one of them out")
    check_number("seed", seed, 0)
    budget = values.duration("budget", budget)
    for name, value in (("rows", rows), ("budget", budget)):
        if value is not None:
            check_number(name, value, 1 if name == "rows" else 0, whole=name == "rows")
    if budget is not None and not 0 < budget < np.inf:
        raise ParameterError("budget", "must be above 0")
    if not 0 < row_seconds < np.inf:
        raise ParameterError("row_seconds", f"must be above 0, got {row_seconds:g}")
    if not items(candidates):
        raise ParameterError(
            "candidates", "are missing: give the files that hold what could be measured"
        )
    trained = run_of(run)
    model, stated = on_user_gpu(trained.trained, reading.get("default"))
    if model.recipe.comparison.is_from_hosts_to_many:
        raise ParameterError(
            "run",
            "must be for one target where there is a host: train one to the GPU to measure on",
        )
    host = model.recipe.host
    if host is None:
        tables = [one.frame if isinstance(one, Measurements) else one for one in items(candidates)]
        read, _ = read_rows(
            tables,
            units=reading.get("unit"),
            defaults=stated,
            renames=reading.get("rename"),
            timed=False,
            where=reading.get("where"),
        )
        frame = _shapes(model, read)
        measured = np.zeros(len(frame), dtype=bool)
    else:
        measurements = load_measurements(
            candidates, devices=[gpu.name for gpu in _devices(model)], **reading
        )
        frame, measured = _candidates(model, host, measurements.frame)
    with one_thread():
        answers = model.predict(frame, 0.9)
    able = answers["predicted"].gt(0).to_numpy()
    if able.any():
        workloads = groups_of(frame[able], _grouped_by(model, None)).astype(str)
        measured[able] |= _trained_before(workloads, answers[able], trained.predictions)
    if measured.all():
        done = f"all {len(measured)} candidates are measured on {model.recipe.target.name} already"
        raise NothingLeftError(f"nothing is left to measure: {done}")
    if measured[able].all():
        first = answers["reasons"][~measured].iloc[0]
        why = ""
        if first:
            why = first[0].general
        raise DataError(f"no candidate can be predicted; first of {int((~measured).sum())}: {why}")
    frame = frame[able].reset_index(drop=True)
    answers = answers[able].reset_index(drop=True)
    measured = measured[able]
    groups = groups_of(frame, _grouped_by(model, group)).astype(str)
    trained_on = np.isin(groups, trained.predictions["group"].astype(str))
    weights = np.ones(len(frame))
    if weight is not None:
        if weight not in frame:
            raise ParameterError("weight", f"must be a column of the candidates, got {weight!r}")
        weights = as_numbers(frame, weight)
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
            raise ParameterError(
                "weight", f"must be a column of numbers of 0 or more, {weight!r} is not"
            )
    errors = _errors(trained)
    parts = model.parts(frame, answers["basis"])
    of_each = model.stated_errors.of_each(
        parts["basis"].to_numpy(dtype=object), parts["part"].to_numpy(dtype=object)
    )
    is_stated = np.isfinite(of_each)
    outside = model.stated_errors.beyond
    if outside is None:
        outside = errors["unseen_error"]
    of_each = np.where(is_stated, of_each, outside)
    expectation: dict[str, Any] = {
        "unseen_error": errors["unseen_error"],
        "trained_error": errors["trained_error"],
        "errors": of_each,
        "trained": int(trained.metrics["data"]["n"]),
        "weights": weights,
    }
    if COST in frame:
        cost = as_numbers(frame, COST)
    else:
        cost = np.full(len(frame), row_seconds)
    batch = choose(
        coordinates(model.features(frame)),
        importance(groups, of_each, weights=weights),
        budget=float(rows) if rows is not None else float(budget or 0),
        cost=1.0 if rows is not None else cost,
        groups=groups,
        measured=np.flatnonzero(measured),
        seed=seed,
    )
    if not len(batch):
        raise ParameterError(
            "budget", f"is too short for any candidate: the shortest takes {np.nanmin(cost):g} s"
        )
    identity = Identity(model.recipe.metric)
    identity.see(frame)
    table = identity.of(frame).assign(
        **{name: answers[name] for name in ("predicted", "lower", "upper")},
        group=groups,
        known=trained_on,
        cost_s=cost,
    )
    table = in_order(table, ["predicted", "lower", "upper"])
    report = {
        "run": str(trained.folder or "the run just trained"),
        "host": _devices(model)[0].name if model.recipe.host else None,
        "target": model.recipe.target.name,
        "metric": model.recipe.metric,
        "candidates": int((~measured).sum()),
        "measured_already": int(measured.sum()),
        "not_predicted": int((~able).sum()),
        "budget": rows,
        "minutes": None if budget is None else budget / 60,
        "rows": len(batch),
        "cost_s": float(np.sum(cost[batch])),
        "groups": len(set(groups[batch])),
        "expected": expected_error(groups, trained_on, batch, **expectation),
        "errors": errors,
        "not_stated": int((~is_stated).sum()),
        "by_rows": [
            {"rows": rows, **expected_error(groups, trained_on, batch[:rows], **expectation)}
            for rows in dict.fromkeys(
                [*(2**power for power in range(12) if 2**power < len(batch)), len(batch)]
            )
        ],
    }
    return Advice(table.iloc[batch].reset_index(drop=True), report)


def _errors(run: RunLike) -> dict[str, Any]:
    """Return the error of rows of new groups and of known ones, percent.

    Of new groups that which is stated of them (within the trained range, where that was told
    apart); where nothing is, that of the folds by group, and without these that of all folds. Where
    a corrected run was measured on one of the two since, or on neither, the other's error is that
    ``before_correction``.
    """
    honest = {}
    before_correction = []
    for cv in run.metrics["cv"]:
        error = cv["selected"]["e_out"]
        if error is None:
            error = cv["selected"]["as_trained"]["e_out"]
            before_correction.append(cv["scheme"])
        honest[cv["scheme"]] = float(error)
    stated = run.trained.stated_errors.of({(NEW_GROUP, ""): 1})
    unseen = honest.get("grouped", honest.get("kfold", np.nan))
    if stated is not None:
        unseen = stated.error
    trained = min(honest.get("kfold", unseen), unseen)
    return {
        "unseen_error": unseen,
        "trained_error": trained,
        "before_correction": before_correction,
    }


class Need(Result, advising.Need):
    """How sure an answer is to be, how sure it is, and what would make it so: `evaluation.advising.Need`."""

    heading = "How sure the answer is"

    @property
    def table(self) -> pd.DataFrame:
        """How wide the answer is now, then after each further measurement: ``what`` and the share that is ``left``."""
        return pd.DataFrame([("now", self.now), *self.ways], columns=["what", "left"])

    def document(self) -> Document:
        """Return the answer for readers."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        return Document(opening=[lines([str(self.told)], "answer")], data=data)

    def __repr__(self) -> str:
        return f"<Need: {self.told.text}>"


@configured
def needed(
    run: str | Path | RunLike,
    need: float,
    *candidates: Data,
    half_width: float | None = None,
    **settings: Any,
) -> Need:
    """Say whether answers are as sure as is needed, and how many more rows of the target would reach that.

    Parameters
    ----------
    run : path or Run
    need : float
        How sure it must be: 0.1 asks for ±10 %, and what to measure for it. That is the error that
        is allowed, as a share of the answer.
    *candidates : path, DataFrame, Measurements, or a sequence of them
        The rows at hand, as for `predict`: the half-width of their intervals (90 %) that nine in
        ten keep is held against ``need``, and they are what could be measured. Without any the mean
        error that the run states is held against it: of new groups, or of what was measured since
        a correction.
    half_width : float, optional
        That of the candidates (`Prediction.half_width`), where they were predicted before.
    **settings
        Of `advise`: ``where``, ``group``, ``unit``, ``default``, ``rename``, ``seed``; and
        ``target``, as for `predict`.

    Returns
    -------
    Need
        Its ``told`` is the answer in words; no ways where nothing is left to measure.

    Examples
    --------
    >>> import flopcast as fc
    >>> run = fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1)
    >>> fc.needed(run, 0.5).told.code
    'need-reached'
    >>> products = fc.read(where={"m": (None, 64), "device": "MI300X"})
    >>> fc.needed(run, 0.5, products).now == fc.predict(run, products).half_width()
    True
    """
    check_need(need)
    trained = run_of(run)
    target = settings.pop("target", None)
    if not items(candidates):
        return needed_as_stated(trained, need)
    if half_width is None:
        names = ("where", "unit", "default", "rename")
        reading = {name: value for name, value in settings.items() if name in names}
        half_width = predict(trained, *candidates, target=target, **reading).half_width()
    now = Need(need, half_width, what="half-width that nine rows in ten keep")
    return _with_ways(now, trained, candidates, settings)


def needed_as_stated(run: RunLike, need: float, *candidates: Data, **settings: Any) -> Need:
    """Say the same of the mean error that a run states of the question that its model is saved for.

    Where a corrected run was measured on rows of the other question alone, it is the error of those.
    ``candidates`` are what could be measured, as for `advise`. Where they do not reach what is
    needed, or there are none, it is said how many rows would (`advising.rows_to_reach`).
    """
    selections = {}
    for cv in run.metrics["cv"]:
        if cv.get("selected"):
            selections[cv["scheme"]] = cv["selected"]
    scheme = run.metrics["model"]["scheme"]
    if scheme not in selections:
        raise DataError(
            "the run has no honest error: train it with folds",
            source=str(run.folder or "run"),
        )
    unknown = ""
    if selections[scheme]["e_out"] is None:
        since = [name for name, chosen in selections.items() if chosen["e_out"] is not None]
        if since:
            unknown = f" ({left_out(scheme)} were not measured since the correction)"
            scheme = since[0]
    chosen = selections[scheme]
    error = chosen["e_out"]
    what = f"mean error of {left_out(scheme)}"
    if error is None:
        error = chosen["as_trained"]["e_out"]
        what += " before the run was corrected"
    elif scheme == "grouped":
        error = _errors(run)["unseen_error"]
        if WITHIN in (chosen.get("parts") or {}):
            what += " within the trained range"
    what += unknown
    now = Need(need, error / 100, what=what)
    of_new_groups = scheme == "grouped"
    answer = _with_ways(now, run, candidates, settings, of_new_groups=of_new_groups)
    if now.reached or any(after <= need for _, after in answer.ways):
        return answer
    count = run.metrics["data"]["n"]
    more = rows_to_reach(now.now, need, count, of_new_groups=of_new_groups)
    if more is None:
        return answer
    like = "of new groups like those trained"
    if not of_new_groups:
        like = "of the trained groups"
    return replace(now, ways=[(f"about {counted(more, 'row')} more, {like},", need)])


def _with_ways(
    now: Need,
    run: RunLike,
    candidates: Sequence[Data],
    settings: Mapping[str, Any],
    *,
    of_new_groups: bool = False,
) -> Need:
    """Return the answer with the rows of the candidates that would reach what is needed, or come near it.

    It falls as the mean error of the candidates is expected to, or that of groups that stay new.
    """
    comparison = run.trained.recipe.comparison
    if now.reached or not items(candidates) or comparison.is_from_hosts_to_many:
        return now
    try:
        summary = advise(run, *candidates, rows=MOST_ROWS, **settings).summary
    except NothingLeftError:
        return now
    where = ""
    if not comparison.is_many:
        where = f" on {summary['target']}"
    ways = []
    for batch in summary["by_rows"]:
        if of_new_groups and not comparison.is_many:
            left = batch["unseen"] / summary["errors"]["unseen_error"]
        else:
            left = batch["after"] / batch["now"]
        way = f"{counted(batch['rows'], 'row')} more{where} (advise)"
        ways.append((way, now.now * left))
    less = [way for way in ways if way[1] < 0.99 * now.now]
    enough = [way for way in less if way[1] <= now.need]
    return Need(now.need, now.now, enough[:1] or less[-1:], now.what)


def _trained_before(
    groups: np.ndarray, answers: pd.DataFrame, predictions: pd.DataFrame
) -> np.ndarray:
    """Return which workloads a run was trained on, (n,): of a trained row's group, and every law says the same of both.

    ``answers`` have what the laws say, ``predictions`` are those of the run. Fewer than two laws
    tell no workload from others.
    """
    models = set(predictions["model"].astype(str))
    laws = [name for name in answers if name in models and name not in FITTED]
    if len(laws) < 2:
        return np.zeros(len(answers), dtype=bool)
    first = predictions.iloc[0]
    of_scheme = predictions["scheme"].eq(first["scheme"])
    of_model = predictions["model"].eq(first["model"])
    trained = beside(predictions[of_scheme & of_model], predictions, laws)
    said = trained[laws].round(9).assign(group=trained["group"].astype(str))
    asked = answers[laws].round(9).assign(group=groups)
    return pd.MultiIndex.from_frame(asked).isin(pd.MultiIndex.from_frame(said))


def _devices(model: TrainedModel) -> list[Any]:
    return [gpu for gpu in (model.recipe.host, model.recipe.target) if gpu is not None]


def _shapes(model: TrainedModel, rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row of each problem that can be used, of those that have a time the fastest."""
    rows = refuse_unknown_models(rows)
    usable = rows[rows[REFUSED].eq("")].reset_index(drop=True)
    timed = as_numbers(usable, "duration_us") > 0
    stand_in = np.where(timed, usable["duration_us"], 1.0)  # only orders the kernels of one problem
    devices = model.recipe.target.name
    if model.recipe.comparison.is_many:
        devices = usable["device"]
    problems = one_per_problem(usable.assign(device=devices, duration_us=stand_in))[0]
    return fill_text(problems if timed.all() else problems.drop(columns="duration_us"))


def _candidates(
    model: TrainedModel, host: GPU, frame: pd.DataFrame
) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the workloads that could be measured, and which of these the data already hold for the target."""
    target = model.recipe.target
    rows = one_per_problem(rows_of(frame, host.name), model.recipe.metric)[0]
    theirs = frame[frame["device"].eq(target.name)]
    if theirs.empty:
        return rows, np.zeros(len(rows), dtype=bool)
    theirs = one_per_problem(theirs, model.recipe.metric)[0]
    ids = problem_ids(pd.concat([rows, theirs], ignore_index=True), device=False)
    return rows, np.isin(ids[: len(rows)], ids[len(rows) :])
