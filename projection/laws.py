"""Durations of computation and copies on another GPU: a factor for each activity, with the law it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..evaluation.trained_model import TrainedModel
from ..hardware import GPU
from .activity_work import Rows, of_activities
from .corrections import Correction
from .fallback import KEPT, by_law
from .law_errors import sigmas
from .overhead import Overhead
from .scalings import Pair
from .trained import predicted_factors

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
    queued: NDArray[np.bool_] | None = None,
    trained_for: GPU | None = None,
) -> pd.DataFrame:
    """Return by what the duration of each activity is multiplied on the target.

    Parameters
    ----------
    activities : DataFrame
        Dispatch table with classes and work (`features.dispatches.annotate`): kernels that compute, copies and fills.
    host, target : GPU
        Where it was measured, and where it is to run.
    law : str, default="affine"
        A name of `scalings.LAWS`.
    run : TrainedModel, optional
        A loaded run folder of `train` for this host and target (or for the target alone). Its predictions go before the
        law wherever they apply.
    overhead : mapping of str to Overhead, optional
        Fixed times of kernels by vendor, for the law "affine"; `overhead.OVERHEADS` by default.
    corrections : mapping of str to Correction, optional
        Op class -> what the law's factor is multiplied by (`corrections.learn_corrections`).
    queued : ndarray of bool of shape (n_activities,), optional
        Which were waiting when the one before them ended, where the activities are a part of a trace
        (`overhead.is_queued` of the whole); by default what the activities given tell.
    trained_for : GPU, optional
        Where the target is this one with other figures, the target of the run: its predictions go on to the target by
        the law.

    Returns
    -------
    DataFrame with the index of ``activities``
        `factor` (> 0, finite); `law`, the one used: where the one asked for does not apply, "bandwidth", and where that
        does not, "kept"; `why`, in words, where another law was used or the work is not known; `bound`, of the target:
        compute, memory, latency, link or ""; `sigma`, the standard deviation of ln(factor), NaN where nobody measured
        it.

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
    has = model["factor"].notna()
    why = model["why"].where(~has, f"the model is of {trained_for.name}: from there by the law {law}")
    return model.assign(factor=model["factor"] * whole / first, why=why)


def _predicted(found: pd.DataFrame, model: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the run's factors where it has them, and why it has none elsewhere."""
    has = model["factor"].notna().to_numpy()
    why = [": ".join(filter(None, pair)) for pair in zip(model["why"], found["why"], strict=True)]
    return pd.DataFrame(
        {
            "factor": np.where(has, model["factor"], found["factor"]),
            "law": np.where(has, MODEL, found["law"]).astype(object),
            "why": np.where(has, model["why"], np.array(why, dtype=object)).astype(object),
            "bound": found["bound"],
            "sigma": np.where(has, model["sigma"], found["sigma"]),
        }
    )
