"""Formulas of measured regions over one, two or more parameters, as Extra-P fits them.

`scale_terms` returns a `TermModels`: a table, a page and a folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .. import values
from ..arrays import FloatArray
from ..errors import ParameterError, check_level, few
from ..output import FILES
from ..remarks import Remark
from ..report.formats import counted
from ..report.result import Result, saving
from ..report.terms import terms_document
from ..scaling.extrap import Experiment, read_experiment
from ..scaling.prediction import error_percent
from ..scaling.terms import TermModel, fit_terms
from ..settings import configured
from ..values import Assigned, Names

if TYPE_CHECKING:
    from ..report.document import Document


@dataclass(frozen=True)
class TermModels(Result):
    """A formula for each metric of each region, and its predictions.

    Attributes
    ----------
    models : tuple of TermModel
        Formula, fit and interval of each metric of each region (`scaling.terms`).
    at : ndarray of shape (n, parameters)
        The points that were asked for.
    level : float
        Of the intervals.
    notes : tuple of Remark
        What was left out.
    """

    saved_as = FILES["scale"]
    models: tuple[TermModel, ...]
    at: FloatArray
    level: float
    notes: tuple[Remark, ...] = ()

    @property
    def table(self) -> pd.DataFrame:
        """One row per region, metric and point; without points one per region and metric.

        Columns: region, metric, formula, adjusted_r2, smape_percent; of a point its parameters,
        predicted, lower, upper, measured, error_percent (NaN where nothing was measured).
        """
        rows = []
        for model in self.models:
            about = {
                "region": model.region,
                "metric": model.metric,
                "formula": model.formula,
                "adjusted_r2": model.adjusted_r2,
                "smape_percent": model.smape_percent,
            }
            if not len(self.at):
                rows.append(about)
                continue
            lower, upper = model.interval(self.at, self.level)
            predicted = model.predict(self.at)
            for place, point in enumerate(self.at):
                measured = _measured_at(model, point)
                row = {
                    **about,
                    **dict(zip(model.parameters, point.tolist(), strict=True)),
                    "predicted": float(predicted[place]),
                    "lower": float(lower[place]),
                    "upper": float(upper[place]),
                    "measured": measured,
                    "error_percent": error_percent(float(predicted[place]), measured),
                }
                rows.append(row)
        return pd.DataFrame(rows)

    def document(self) -> Document:
        """Return the result for readers; its ``data`` are those of ``scale.json``."""
        return terms_document(self.models, self.table, self.at, self.level, self.notes)

    def __repr__(self) -> str:
        points = counted(len(self.at), "point")
        return f"<TermModels of {counted(len(self.models), 'region')} at {points}>"


def _measured_at(model: TermModel, point: FloatArray) -> float:
    same = (model.points == point).all(axis=1)
    if same.any():
        return float(model.measured[same][0])
    return float("nan")


@saving
@configured
def scale_terms(
    data: str | Path,
    at: Assigned | None = None,
    *,
    region: Names | None = None,
    rename: Assigned | None = None,
    measure: str = "mean",
    negative_exponents: bool = False,
    interval: float = 0.9,
) -> TermModels:
    """Fit formulas of p^a · log2(p)^b over one, two or more parameters, region by region, and predict other points.

    Parameters
    ----------
    data : path
        What Extra-P reads: its text, JSON, JSON lines or a saved experiment.
    at : mapping of str to number or sequence of float, optional
        Values of each parameter to predict at: every combination. As text ``p=64,128``.
    region : str or sequence of str, optional
        Regions to model, each by a part of its name; all by default.
    rename : mapping of str to str, optional
        The file's name of a parameter -> the name that formulas have.
    measure : {"mean", "median"}
        What stands for repetitions: mean, median.
    negative_exponents : bool, default=False
        Try terms that fall with a parameter too, as times do in strong scaling.
    interval : float, default=0.9
        As for `predict`.

    Returns
    -------
    TermModels

    Raises
    ------
    ParameterError
        A parameter is unknown, or lacks a value to predict at.
    DataError
        The file cannot be read, or no region can be modelled.

    Examples
    --------
    Runs whose time is a second and a hundredth of n · log2(p):

    >>> import tempfile
    >>> import flopcast as fc
    >>> lines = ["PARAMETER p", "PARAMETER n"]
    >>> points = [(p, n) for p in (4, 8, 16, 32, 64) for n in (10, 20, 30, 40, 50)]
    >>> lines += [f"POINTS ({p} {n})" for p, n in points]
    >>> lines += ["REGION solve", "METRIC time"]
    >>> lines += [f"DATA {1 + 0.01 * n * (p.bit_length() - 1)}" for p, n in points]
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as runs:
    ...     print(*lines, sep=chr(10), file=runs, flush=True)
    ...     models = fc.scale_terms(runs.name, at={"p": 1024, "n": 100})
    >>> models.models[0].formula, round(float(models.table["predicted"][0]), 6)
    ('1 + 0.01·log2(p)·n', 11.0)
    """
    check_level(interval)
    if measure not in ("mean", "median"):
        raise ParameterError("measure", f"must be mean or median, got {measure!r}")
    renames = values.assigned("rename", rename)
    given: Mapping[str, Any] = at if isinstance(at, Mapping) else values.assigned("at", at)
    wanted = values.names("region", region)
    experiment = read_experiment(Path(data))
    names = tuple(renames.get(name, name) for name in experiment.parameters)
    points = _points(given, names)
    kept = _regions(experiment, wanted)
    models, notes = fit_terms(
        Experiment(names, kept), measure=measure, negative_exponents=negative_exponents
    )
    return TermModels(tuple(models), points, interval, notes)


def _points(given: Mapping[str, Any], parameters: Sequence[str]) -> FloatArray:
    """Return every combination of the values of parameters, (n, parameters)."""
    if not given:
        return np.empty((0, len(parameters)))
    unknown = [name for name in given if name not in parameters]
    if unknown:
        raise ParameterError(
            "at", f"has an unknown {unknown[0]!r}: the parameters are {few(parameters)}"
        )
    missing = [name for name in parameters if name not in given]
    if missing:
        raise ParameterError("at", f"lacks a value of {missing[0]}, as in {missing[0]}=64,128")
    axes = []
    for name in parameters:
        axis = values.numbers("at", given[name]) or []
        if not axis or min(axis) <= 0:
            raise ParameterError("at", f"must give values above 0 of {name}, got {given[name]!r}")
        axes.append(axis)
    return np.array(list(product(*axes)), dtype=np.float64)


def _regions(experiment: Experiment, wanted: Sequence[str] | None) -> list[Any]:
    """Return the values of the regions that are wanted."""
    if wanted is None:
        return experiment.values
    regions = {value.region for value in experiment.values}
    for part in wanted:
        if not any(part in region for region in regions):
            raise ParameterError(
                "region", f"has an unknown {part!r}: regions are {few(sorted(regions))}"
            )
    chosen = {region for region in regions if any(part in region for part in wanted)}
    return [value for value in experiment.values if value.region in chosen]
