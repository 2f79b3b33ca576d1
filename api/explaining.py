"""Explaining: why one workload is predicted as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from ..errors import DataError, ParameterError
from ..evaluation.intervals import LEVELS
from ..evaluation.metrics import check_level
from ..evaluation.trained_model import TrainedModel
from ..features.matrix import groups_of
from ..models.explanation import Part, parts_of
from ..readers import Measurements, read_rows
from ..report.document import Document
from ..report.explanation import Explained, explanation_document
from ..report.html import Shown
from ..report.predictions import workload
from ..report.run_folder import read_run, simplest
from ..table.conditions import Where, select
from ..table.measurements import REFUSED, REFUSED_DETAIL
from .tables import Data, items

FILES: Final = ("explain.json", "explain.html")
NEIGHBOURS: Final = 50
"""Trained rows that are named."""


class Run(Protocol):
    """A run (`training.Run`)."""

    trained: TrainedModel
    predictions: pd.DataFrame
    metrics: dict[str, Any]


@dataclass(frozen=True)
class Explanation(Shown):
    """Why one workload is predicted as it is.

    Attributes
    ----------
    found : Explained
        Parts of the model, laws, neighbours, features (`report.explanation.Explained`).
    """

    files = FILES
    found: Explained

    @property
    def parts(self) -> Sequence[Part]:
        """What each part of the model says (`models.explanation.Part`)."""
        return self.found.parts

    @property
    def neighbours(self) -> pd.DataFrame:
        """The nearest trained rows, with what was measured and predicted out of fold."""
        return self.found.neighbours

    def document(self) -> Document:
        """Return the explanation as `report` shows it on terminals and pages."""
        return explanation_document(self.found)


def explain(
    run: str | Path | Run,
    data: Data,
    row: int = 1,
    *,
    level: float = 0.9,
    where: Where = None,
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> Explanation:
    """Say why one workload is predicted as it is.

    Parameters
    ----------
    run, data, level, where, units, defaults
        As for `flopcast.predict`.
    row : int, default=1
        Which row of what `predict` returns for these data, counted from 1.

    Returns
    -------
    Explanation

    Raises
    ------
    FlopcastError
        The run or the data cannot be used, there is no such row, or it cannot be predicted.

    Examples
    --------
    >>> import flopcast as fc
    >>> small = {"m": (None, 64)}
    >>> run = fc.train(where=small, models=["Additive"], jobs=1)
    >>> why = run.explain(fc.read(where=small), row=3)
    >>> round(sum(part.value for part in why.parts), 6) == round(why.found.alone, 6)
    True
    """
    check_level(level, LEVELS[0], LEVELS[-1])
    if isinstance(run, str | Path):
        model, (metrics, predictions) = TrainedModel.load(Path(run)), read_run(Path(run))
    else:
        model, metrics, predictions = run.trained, run.metrics, run.predictions
    recipe = model.recipe
    tables = [one.frame if isinstance(one, Measurements) else one for one in items(data)]
    rows, _ = read_rows(tables, units=units, defaults=defaults, timed=recipe.host is not None)
    rows = select(rows, where)
    if recipe.host is not None:
        names = [name.casefold() for name in ("", recipe.host.name, *recipe.host.aliases)]
        rows = rows[rows["device"].str.casefold().isin(names)]
    if not 1 <= row <= len(rows):
        raise ParameterError("row", f"must be 1 to {len(rows)}, the rows that can be predicted, got {row}")
    one = rows.iloc[[row - 1]].reset_index(drop=True)
    if why := str(one[REFUSED].iloc[0]):
        raise DataError(f"row {row} cannot be predicted: {why} {one[REFUSED_DETAIL].iloc[0]}".rstrip())
    with threadpool_limits(limits=1):
        return Explanation(_explained(model, metrics, predictions, one, level))


def _explained(
    model: TrainedModel, metrics: Mapping[str, Any], predictions: pd.DataFrame, one: pd.DataFrame, level: float
) -> Explained:
    """Gather what is known of the prediction of one row."""
    answer, recipe = model.predict(one, level).iloc[0], model.recipe
    reasons = [str(why) for why in answer["reasons"]]
    if not np.isfinite(answer["predicted"]):
        raise DataError(f"the row cannot be predicted: {'; '.join(reasons)}")
    X = model.features(one)
    known = ("predicted", "lower", "upper", "basis", "extrapolated", "reasons")
    laws = {str(name): float(value) for name, value in answer.drop(list(known)).items() if np.isfinite(value)}
    scheme = model.intervals.scheme
    cv: Mapping[str, Any] = next((one for one in metrics["cv"] if one["scheme"] == scheme), {})
    chosen, rule = cv.get("selected", {}).get("name"), simplest(cv)
    trained = predictions[(predictions["scheme"] == scheme) & (predictions["model"] == chosen)]
    return Explained(
        workload=workload(one.iloc[0].to_dict()),
        metric=recipe.metric,
        model=str(model.saved.manifest.get("selected", "?")),
        answer={
            **{name: float(answer[name]) for name in ("predicted", "lower", "upper")},
            "level": level,
            "basis": str(answer["basis"]),
            "reasons": reasons,
            "host": None if recipe.host is None else float(one[recipe.metric].iloc[0]),
        },
        alone=float(model.saved.predict(X)[0]),
        rule=None if rule is None else str(rule["name"]),
        parts=parts_of(model.saved.estimator, X),
        laws=laws,
        neighbours=_neighbours(trained, str(groups_of(one)[0]), laws),
        features=model.domain.places(X),
    )


def _neighbours(trained: pd.DataFrame, group: str, laws: Mapping[str, float]) -> pd.DataFrame:
    """Return trained rows: of the same group first, then by the largest factor between what a law says of both."""
    fitted = ("constant ratio", "affine")  # to other rows in every fold: of a trained row they say something else
    common = [name for name, value in laws.items() if name in trained and name not in fitted and value > 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(trained[common].to_numpy(dtype=float)) - np.log([laws[name] for name in common])
    apart = np.exp(np.abs(logs).max(axis=1, initial=0.0))
    found = trained.assign(apart=apart, other=trained["group"].astype(str).ne(group))
    nearest = found.sort_values(["other", "apart", "row"], kind="stable").head(NEIGHBOURS)
    columns = [name for name in ("group", "source", "observed", "predicted", "ape", "apart") if name in nearest]
    return nearest[columns].assign(source=nearest.get("source", "")).reset_index(drop=True)
