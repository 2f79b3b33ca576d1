"""What measurements of both GPUs say of durations: corrections of a law by class, and what a trained model predicts.

Corrections (`learn_corrections`) come from problems measured on both: by what the times of a class lie off a law, and
the spread that remains. A trained model (`predicted_factors`) predicts call by call; its times become factors of the
activities of each call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ..errors import DataError
from ..evaluation.trained_model import TrainedModel
from ..features.recipe import FeatureRecipe
from ..hardware import GPU
from ..remarks import remark
from ..table.measurements import REFUSED, fill_text, judge
from ..table.problems import pair as pair_rows
from ..table.problems import problem_ids
from ..traces.cleaning.robust import MAD_TO_SIGMA
from ..traces.dispatches import empty_steps
from ..traces.summary import Annotated, call_codes, measurements
from .kernel_work import Overhead, of_pairs
from .scalings import Pair, by_law

FEWEST = 3
"""Pairs from which a spread can be told."""


@dataclass(frozen=True)
class Correction:
    """What measured pairs say of a law in one op class."""

    factor: float  # median of measured over projected time
    sigma: float  # standard deviation of its logarithm, robust; NaN for fewer than `FEWEST` pairs
    n: int  # pairs

    @property
    def error(self) -> float:
        """Standard deviation of ln(factor) of the law without the correction: its bias and its spread together."""
        return float(np.hypot(np.log(self.factor), self.sigma))


def learn_corrections(
    measured: pd.DataFrame,
    host: GPU,
    target: GPU,
    law: str,
    *,
    overhead: Mapping[str, Overhead] | None = None,
) -> dict[str, Correction]:
    """Return by op class how the times measured on the target lie to those that a law projects from the host.

    Problems of the measurement table that were measured on both devices (column `device`) count, the fastest kernel of
    each (`table.problems`). ``law`` and ``overhead`` are as for `kernel_laws.compute_factors`. A DataError says that
    the law is unknown, a device has no rows, or no problem was measured on both.
    """
    paired = pair_rows(measured, host.name, target.name).paired
    rows = of_pairs(paired)
    projected = rows.host_us * by_law(rows, Pair.of(host, target, overhead), law)["factor"].to_numpy()
    return corrections_of(paired["duration_us"].to_numpy(dtype=float), projected, rows.op_class)


def corrections_of(measured_us: np.ndarray, projected_us: np.ndarray, op_class: np.ndarray) -> dict[str, Correction]:
    """Return the correction of each class from measured and projected times, arrays of shape (n_rows,)."""
    error = np.log(measured_us / projected_us)
    return {name: _correction(error[op_class == name]) for name in sorted(set(op_class.tolist()))}


def _correction(error: np.ndarray) -> Correction:
    centre = float(np.median(error))
    spread = MAD_TO_SIGMA * float(np.median(np.abs(error - centre))) if len(error) >= FEWEST else np.nan
    return Correction(float(np.exp(centre)), spread, len(error))


LEVEL = 0.9
"""Of the interval that the standard deviation is read from."""
DURATION = "duration_us"


def predicted_factors(activities: pd.DataFrame, host: GPU, target: GPU, run: TrainedModel) -> pd.DataFrame:
    """Return the factor of each activity: the predicted time of its call on the target over the measured one.

    The run was trained for the two devices, or for the target from shapes alone; a DataError says that it was trained
    for others, or does not predict durations. Activities are those of a dispatch table with classes and work.

    Returns
    -------
    DataFrame with a RangeIndex
        `factor`, equal for all activities of a call and NaN where the model does not apply: no work, a kernel or
        dimensions outside the trained range, no positive prediction; `why`, a tuple of `Remark`, in these rows, else
        (); `sigma`, the standard deviation of ln(factor) that the interval of the prediction gives.
    """
    _check(run.recipe, host, target)
    table = activities.reset_index(drop=True)
    table = table.assign(source=table.index.astype("str"))  # names the rows, whatever file they come from
    calls = measurements(Annotated(table, empty_steps(), (), ()), "trace", each=True)
    if calls.empty:
        return pd.DataFrame({"factor": np.zeros(0), "why": np.zeros(0, dtype=object), "sigma": np.zeros(0)})
    return _of_calls(calls, run).reindex(_first_of_call(table)).reset_index(drop=True)


def _check(recipe: FeatureRecipe, host: GPU, target: GPU) -> None:
    own = recipe.host.name if recipe.host else host.name
    if (own, recipe.target.name) != (host.name, target.name):
        trained = f"from {recipe.host.name} to {recipe.target.name}" if recipe.host else f"for {recipe.target.name}"
        raise DataError(f"the run was trained {trained}, not from {host.name} to {target.name}: give another run")
    if recipe.metric != DURATION:
        raise DataError(f"the run predicts {recipe.metric}, not {DURATION}: give another run")


def _of_calls(calls: pd.DataFrame, run: TrainedModel) -> pd.DataFrame:
    """Return factor, why and sigma of each call, by the place of its first activity.

    Repeats of one kernel on one problem are predicted once, from their median, and share the factor.
    """
    rows = fill_text(judge(calls))
    refused = rows[REFUSED].ne("").to_numpy()
    usable = rows[~refused].reset_index(drop=True)
    why = [(remark("row-refused", reason=reason, detail=""),) if reason else () for reason in rows[REFUSED]]
    found = pd.DataFrame({"factor": np.nan, "sigma": np.nan}, index=range(len(rows)))
    if len(usable):
        _, first, code = np.unique(problem_ids(usable, kernel=True), return_index=True, return_inverse=True)
        median = usable.groupby(code)[DURATION].median().to_numpy()
        once = usable.iloc[first].assign(**{DURATION: median}).reset_index(drop=True)
        ratios = _ratios(run.predict(once, LEVEL), median).iloc[code]
        found.loc[~refused, ["factor", "sigma"]] = ratios[["factor", "sigma"]].to_numpy()
        for place, reasons in zip(np.flatnonzero(~refused), ratios["why"], strict=True):
            why[place] = reasons
    found.insert(1, "why", pd.Series(why, dtype=object))
    return found.set_axis(pd.Index(calls["source"].astype("str")))


def _ratios(predicted: pd.DataFrame, host_us: np.ndarray) -> pd.DataFrame:
    """Return factor, why and sigma of predictions; those outside the trained range do not count."""
    factor = predicted["predicted"].to_numpy(dtype=float) / host_us
    applies = np.isfinite(factor) & (factor > 0) & ~predicted["extrapolated"].to_numpy(dtype=bool)
    why = [
        () if applied else (remark("unlike-training", reasons=reasons),)
        for applied, reasons in zip(applies, predicted["reasons"], strict=True)
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.log(predicted["upper"].to_numpy(dtype=float) / predicted["lower"].to_numpy(dtype=float))
    sigma = reach / (2 * float(ndtri((1 + LEVEL) / 2)))
    return pd.DataFrame(
        {
            "factor": np.where(applies, factor, np.nan),
            "why": pd.Series(why, dtype=object),
            "sigma": np.where(applies & np.isfinite(sigma), sigma, np.nan),
        }
    )


def _first_of_call(table: pd.DataFrame) -> pd.Series:
    """Return for every activity the place of the first activity of its call, which names the call."""
    return table["source"].groupby(call_codes(table)).transform("first")
