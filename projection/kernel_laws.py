"""Durations of computation and copies on another GPU: a factor for each activity, with the law it comes from.

`compute_factors` applies a law of computation (`laws`), corrects it or puts the predictions of a trained model in its
place (`predicted_factors`), and adds how wrong each law was where both GPUs have been measured (`ERRORS`).
Corrections (`learn_corrections`) come from problems measured on both: by what the times of a class lie off a law, and
the spread that remains. A trained model predicts call by call; its times become factors of the activities of each call.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ..arrays import BoolArray
from ..errors import DataError
from ..evaluation.intervals import LEVEL
from ..evaluation.trained_model import TrainedModel
from ..features.recipe import FeatureRecipe
from ..hardware import GPU
from ..laws.applied import KEPT, by_law
from ..laws.base import Overhead, Pair, Rows
from ..remarks import Remark, joined, remark
from ..table.measurements import REFUSED, fill_text, judge
from ..table.problems import pair as pair_rows
from ..table.problems import problem_ids
from ..table.refusals import row_refused
from ..traces.cleaning.robust import MAD_TO_SIGMA
from ..traces.dispatches import empty_steps
from ..traces.summary import Annotated, call_codes, measurements
from .kernel_work import of_activities, of_pairs

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


def learn_corrections(measured: pd.DataFrame, host: GPU, target: GPU, law: str) -> dict[str, Correction]:
    """Return by op class how the times measured on the target lie to those that a law projects from the host.

    Problems of the measurement table that were measured on both devices (column `device`) count, the fastest kernel of
    each (`table.problems`). ``law`` is as for `compute_factors`. A DataError says that
    the law is unknown, a device has no rows, or no problem was measured on both.
    """
    paired = pair_rows(measured, host.name, target.name).paired
    rows = of_pairs(paired)
    projected = rows.host_us * by_law(rows, Pair.of(host, target), law)["factor"].to_numpy()
    return corrections_of(paired["duration_us"].to_numpy(dtype=float), projected, rows.op_class)


def corrections_of(measured_us: np.ndarray, projected_us: np.ndarray, op_class: np.ndarray) -> dict[str, Correction]:
    """Return the correction of each class from measured and projected times, arrays of shape (n_rows,)."""
    error = np.log(measured_us / projected_us)
    return {name: _correction(error[op_class == name]) for name in sorted(set(op_class.tolist()))}


def _correction(error: np.ndarray) -> Correction:
    centre = float(np.median(error))
    spread = MAD_TO_SIGMA * float(np.median(np.abs(error - centre))) if len(error) >= FEWEST else np.nan
    return Correction(float(np.exp(centre)), spread, len(error))


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
    why = [(row_refused(reason),) if reason else () for reason in rows[REFUSED]]
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


def _unlike(reasons: Reasons) -> Remark:
    return remark("unlike-training", f"outside the trained range: {joined(reasons)}", reasons=reasons)


def _ratios(predicted: pd.DataFrame, host_us: np.ndarray) -> pd.DataFrame:
    """Return factor, why and sigma of predictions; those outside the trained range do not count."""
    factor = predicted["predicted"].to_numpy(dtype=float) / host_us
    applies = np.isfinite(factor) & (factor > 0) & ~predicted["extrapolated"].to_numpy(dtype=bool)
    why = [
        () if applied else (_unlike(reasons),) for applied, reasons in zip(applies, predicted["reasons"], strict=True)
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


@dataclass(frozen=True)
class LawError:
    """What was measured of a law in one class from one architecture to another."""

    law: str  # as in `compute_factors`
    op_class: str
    host: str  # architecture
    target: str
    bias: float  # median of ln(measured / projected)
    spread: float  # its standard deviation, robust
    n: int  # problems measured on both

    @property
    def sigma(self) -> float:
        """Standard deviation of ln(factor): bias and spread together."""
        return float(np.hypot(self.bias, self.spread))


ERRORS: Final = tuple(
    LawError(*row)
    for row in tomllib.loads((resources.files(__package__) / "law_errors.toml").read_text("utf-8"))["errors"]
)
"""Of law_errors.toml, which says where they are from."""


def sigmas(op_class: np.ndarray, law: np.ndarray, host: GPU, target: GPU) -> np.ndarray:
    """Return the standard deviation of ln(factor) of each row, NaN where its law was never measured in its class.

    It is that between the architectures of the devices, if that was measured, else the root mean square over all pairs
    of architectures that were; 0 between equal devices. Arrays are of shape (n_rows,).
    """
    if host == target or not len(law):  # pandas before 3 has no codes of an empty index
        return np.zeros(len(law))
    codes, cases = pd.MultiIndex.from_arrays([law, op_class]).factorize()
    levels = np.zeros(len(cases))
    for position, (used, name) in enumerate(cases):
        levels[position] = _sigma(str(used), str(name), {host.arch, target.arch})
    return levels[codes]


def _sigma(law: str, op_class: str, architectures: set[str]) -> float:
    """Return the sigma of one law and class; an error from one architecture to another is that of the way back."""
    errors = [error for error in ERRORS if (error.law, error.op_class) == (law, op_class)]
    own = [error for error in errors if {error.host, error.target} == architectures] or errors
    return float(np.sqrt(np.mean([error.sigma**2 for error in own]))) if own else np.nan


Reasons = tuple[Remark, ...]

DEFAULT_LAW = "affine"
MODEL = "model"
CORRECTED = "+correction"
"""What the name of a law ends in where a correction was applied."""
SPLITS = ("affine", f"affine{CORRECTED}")
"""Laws that tell the dispatch of a kernel from its work, and put it into the duration only where the target does so."""
COLUMNS = ("factor", "law", "why", "bound", "sigma")


def compute_factors(
    activities: pd.DataFrame,
    host: GPU,
    target: GPU,
    law: str = DEFAULT_LAW,
    *,
    run: TrainedModel | None = None,
    overhead: Mapping[str, Overhead] | None = None,
    corrections: Mapping[str, Correction] | None = None,
    queued: BoolArray | None = None,
    trained_for: GPU | None = None,
) -> pd.DataFrame:
    """Return by what the duration of each activity is multiplied on the target.

    Parameters
    ----------
    activities : DataFrame
        Dispatch table with classes and work (`traces.summary`): kernels that compute, copies and fills.
    host, target : GPU
        Where it was measured, and where it is to run.
    law : str, default="affine"
        A name of `laws.OF_COMPUTATION`.
    run : TrainedModel, optional
        A loaded run folder of `train` for this host and target (or for the target alone). Its predictions go before the
        law wherever they apply.
    overhead : mapping of str to Overhead, optional
        Fixed times of kernels by vendor, for the law "affine"; `laws.base.OVERHEADS` by default.
    corrections : mapping of str to Correction, optional
        Op class -> what the law's factor is multiplied by (`learn_corrections`).
    queued : ndarray of bool of shape (n_activities,), optional
        Which were waiting when the one before them ended, where the activities are a part of a trace
        (`kernel_work.is_queued` of the whole); by default what the activities given tell.
    trained_for : GPU, optional
        Where the target is this one with other figures, the target of the run: its predictions go on to the target by
        the law.

    Returns
    -------
    DataFrame with the index of ``activities``
        `factor` (> 0, finite); `law`, the one used: where the one asked for does not apply, "bandwidth", and where that
        does not, "kept"; `why`, a tuple of `Remark`, where another law was used or the work is not known, else ();
        `bound`, of the target: compute, memory, latency, link or ""; `sigma`, the standard deviation of ln(factor), NaN
        where nobody measured it.

    Raises
    ------
    DataError
        The law is unknown, or the run was trained for other devices.
    """
    pair = Pair.of(host, target, overhead)
    rows = of_activities(activities, pair.fixed[0], queued)
    found = by_law(rows, pair, law)
    found["sigma"] = sigmas(rows.op_class, found["law"].to_numpy(dtype=object), host, target)
    if corrections:
        found = _corrected(found, rows, corrections)
    if run is not None:
        model = predicted_factors(activities, host, trained_for or target, run)
        if trained_for not in (None, target):
            model = _carried_on(model, rows, pair, trained_for, law)
        found = _predicted(found, model)
    return found[list(COLUMNS)].set_axis(activities.index)


def _corrected(found: pd.DataFrame, rows: Rows, corrections: Mapping[str, Correction]) -> pd.DataFrame:
    """Return the table with the corrections of the classes that have one; kept durations stay."""
    factor, sigma, law = (found[name].to_numpy(copy=True) for name in ("factor", "sigma", "law"))
    for name, correction in corrections.items():
        own = (rows.op_class == name) & (found["law"] != KEPT).to_numpy()
        factor[own] *= correction.factor
        sigma[own] = correction.sigma
        law[own] += CORRECTED
    return found.assign(factor=factor, sigma=sigma, law=law)


def _carried_on(model: pd.DataFrame, rows: Rows, pair: Pair, trained_for: GPU, law: str) -> pd.DataFrame:
    """Return the run's factors times what a law says of the way from the target of the run to another one."""
    first, whole = (by_law(rows, one, law)["factor"] for one in (replace(pair, target=trained_for), pair))
    carried = (
        remark(
            "carried-on-by-law",
            f"the model is of {trained_for.name}: projected from there by the law {law}",
            gpu=trained_for.name,
            law=law,
        ),
    )
    why = [carried if has else own for has, own in zip(model["factor"].notna(), model["why"], strict=True)]
    return model.assign(factor=model["factor"] * whole / first, why=pd.Series(why, model.index, dtype=object))


def _predicted(found: pd.DataFrame, model: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the run's factors where it has them, and why it has none elsewhere."""
    has = model["factor"].notna().to_numpy()
    why = [
        own if predicted else _neither(own, law)
        for predicted, own, law in zip(has, model["why"], found["why"], strict=True)
    ]
    return pd.DataFrame(
        {
            "factor": np.where(has, model["factor"], found["factor"]),
            "law": np.where(has, MODEL, found["law"]).astype(object),
            "why": np.fromiter(why, dtype=object, count=len(why)),
            "bound": found["bound"],
            "sigma": np.where(has, model["sigma"], found["sigma"]),
        }
    )


def _neither(model: Reasons, law: Reasons) -> Reasons:
    """Return why a model has no factor, and with it what the law says that stands in."""
    if not (model and law):
        return model or law
    text = f"{joined(model)}: {joined(law)}"
    return (remark("model-then-law", text, model=model, law=law),)
