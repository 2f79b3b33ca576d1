"""Advising: a run and what could be measured next to the batch that teaches it most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ..errors import DataError, ParameterError
from ..evaluation.advising import choose, coordinates, expected_error, importance
from ..evaluation.trained_model import TrainedModel
from ..features.matrix import groups_of
from ..operators.work import as_numbers
from ..report.document import Document
from ..report.measuring import advice_document
from ..report.predictions import Identity, write_file
from ..table.conditions import Where
from ..table.measurements import fill_text
from ..table.problems import one_per_problem, problem_ids, rows_of
from .checking import Trained, run_of
from .tables import Data, items, load_measurements, names_of, titled

COST = "cost_s"
"""Column of the candidates: seconds that measuring a row takes."""
ROW_SECONDS = 10.0


@dataclass(frozen=True)
class Advice:
    """What to measure next.

    Attributes
    ----------
    batch : DataFrame
        The rows to measure on the target, the most useful first: what identifies each, ``predicted`` and its limits,
        ``group``, whether it is ``known`` from training, and ``cost_s``.
    report : dict
        Fit for JSON: of which run, how many candidates, the budget, and the error expected now and after.
    """

    batch: pd.DataFrame
    report: dict[str, Any]

    def document(self) -> Document:
        """Return the advice as `report` shows it."""
        return advice_document(self.batch, self.report)

    def save(self, out: str | Path) -> None:
        """Write the batch to .csv, .parquet or .xlsx, with the report to .json; whole or not at all.

        Raises
        ------
        DataError
            If the suffix is another, or the file cannot be written.
        """
        write_file(self.batch, self.report, Path(out))

    def __repr__(self) -> str:
        return f"<Advice for {self.report['run']}: {len(self.batch)} of {self.report['candidates']} rows>"

    def _repr_html_(self) -> str:
        return titled(repr(self)[1:-1], self.batch)


def advise(
    run: str | Path | Trained,
    candidates: Data,
    *,
    budget: int | None = None,
    minutes: float | None = None,
    row_seconds: float = ROW_SECONDS,
    weight: str | None = None,
    where: Where = None,
    group: str | Sequence[str] | None = None,
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Advice:
    """Choose which rows to measure on the target next, so that the run errs least on unseen groups.

    Parameters
    ----------
    run : path or Run
        Run folder that `train` wrote, or a run.
    candidates : path, DataFrame, Measurements, or a sequence of them
        What could be measured: rows of the run's host, or of the target's shapes where it has none (with any time).
        Rows of the target beside a host's count as measured already.
    budget : int, optional
        How many rows may be measured; or ``minutes``.
    minutes : float, optional
        How long that may take: a row costs its ``cost_s``, where the candidates have that column, else ``row_seconds``.
    row_seconds : float, default=10
        Seconds that a row takes to set up and repeat.
    weight : str, optional
        Column of the candidates that says how much each counts in your workload (its calls, or its time).
    where, group, units, defaults
        As for `flopcast.check`.
    seed : int
        Of the sample of candidates, where there are more than 3 000.

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
    >>> len(fc.advise(run, measured_on_the_host, budget=5).batch)
    5
    """
    if (budget is None) == (minutes is None):
        raise ParameterError("budget", "or minutes must be given, and not both: how much may be measured?")
    if (budget is not None and budget < 1) or (minutes is not None and not 0 < minutes < np.inf):
        raise ParameterError("budget" if minutes is None else "minutes", "must be above 0")
    if not 0 < row_seconds < np.inf:
        raise ParameterError("row_seconds", f"must be above 0, got {row_seconds:g}")
    if not items(candidates):
        raise ParameterError("candidates", "are missing: give the files that hold what could be measured")
    trained = run_of(run)
    model = trained.trained
    found = load_measurements(candidates, where, units, defaults, [gpu.name for gpu in _devices(model)])
    rows, measured = _candidates(model, found.frame)
    with threadpool_limits(limits=1):
        answers = model.predict(rows, 0.9)
    able = answers["predicted"].gt(0).to_numpy()
    _check_any(answers, able, measured, model.recipe.target.name)
    rows, answers = rows[able].reset_index(drop=True), answers[able].reset_index(drop=True)
    measured = measured[able]
    groups = groups_of(rows, names_of(group, "group")).astype(str)
    known = np.isin(groups, trained.predictions["group"].astype(str))
    weights = np.ones(len(rows)) if weight is None else _weights(rows, weight)
    errors = _errors(trained.metrics)
    cost = as_numbers(rows, COST) if COST in rows else np.full(len(rows), row_seconds)
    batch = choose(
        coordinates(model.recipe.transform(rows)),
        importance(groups, known, **errors, weights=weights),
        budget=float(budget) if budget is not None else 60 * float(minutes or 0),
        cost=1.0 if budget is not None else cost,
        groups=groups,
        measured=np.flatnonzero(measured),
        seed=seed,
    )
    if not len(batch):
        raise ParameterError("minutes", f"is too short for any candidate: the shortest takes {np.nanmin(cost):g} s")
    identity = Identity(model.recipe.metric)
    identity.see(rows)
    table = identity.of(rows).assign(
        **{name: answers[name] for name in ("predicted", "lower", "upper")}, group=groups, known=known, cost_s=cost
    )
    report = {
        "run": str(trained.folder or "the run just trained"),
        "host": _devices(model)[0].name if model.recipe.host else None,
        "target": model.recipe.target.name,
        "metric": model.recipe.metric,
        "candidates": int((~measured).sum()),
        "measured_already": int(measured.sum()),
        "not_predicted": int((~able).sum()),
        "budget": budget,
        "minutes": minutes,
        "rows": len(batch),
        "cost_s": float(np.sum(cost[batch])),
        "groups": len(set(groups[batch])),
        "expected": expected_error(groups, known, batch, **errors, weights=weights),
        "errors": errors,
    }
    return Advice(table.iloc[batch].reset_index(drop=True), report)


def _devices(model: TrainedModel) -> list[Any]:
    return [gpu for gpu in (model.recipe.host, model.recipe.target) if gpu is not None]


def _candidates(model: TrainedModel, frame: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Return what could be measured, and which of it the data already hold for the target."""
    host, target = model.recipe.host, model.recipe.target
    if host is None:
        return fill_text(one_per_problem(frame.assign(device=target.name))[0]), np.zeros(len(frame), dtype=bool)
    rows = one_per_problem(rows_of(frame, host.name), model.recipe.metric)[0]
    theirs = frame[frame["device"].eq(target.name)]
    if theirs.empty:
        return rows, np.zeros(len(rows), dtype=bool)
    theirs = one_per_problem(theirs, model.recipe.metric)[0]
    ids = problem_ids(pd.concat([rows, theirs], ignore_index=True), device=False)
    return rows, np.isin(ids[: len(rows)], ids[len(rows) :])


def _check_any(answers: pd.DataFrame, able: np.ndarray, measured: np.ndarray, target: str) -> None:
    if measured.all():
        raise DataError(f"nothing is left to measure: all {len(measured)} candidates are measured on {target} already")
    if not able[~measured].any():
        first = answers["reasons"][~measured].iloc[0]
        why = first[0].general if first else ""
        raise DataError(f"no candidate can be predicted; first of {int((~measured).sum())}: {why}")


def _weights(rows: pd.DataFrame, column: str) -> np.ndarray:
    if column not in rows:
        raise ParameterError("weight", f"must be a column of the candidates, got {column!r}")
    values = as_numbers(rows, column)
    if not (np.isfinite(values).all() and (values >= 0).all() and values.any()):
        raise ParameterError("weight", f"must be a column of numbers of 0 or more, {column!r} is not")
    return values


def _errors(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return what the saved model errs by in unseen and in known groups, out of fold; one where only that is known."""
    name = metrics["model"]["name"]
    found = {
        cv["scheme"]: row["e_out"]
        for cv in metrics["cv"]
        for row in cv["models"]
        if row["name"] == name and row["e_out"]
    }
    unseen = found.get("grouped") or found["kfold"]
    return {"unseen_error": float(unseen), "known_error": float(min(found.get("kfold") or unseen, unseen))}
