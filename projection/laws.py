"""Durations of computation and copies on another GPU: a factor for each activity, with the law it comes from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ..hardware import GPU
from .activity_work import Rows, of_activities
from .corrections import Correction
from .fallback import KEPT, by_law
from .law_errors import sigmas
from .overhead import Overhead
from .scalings import Pair
from .trained import Trained, predicted_factors

DEFAULT_LAW = "affine"
MODEL = "model"
CORRECTED = "+correction"
"""What the name of a law ends in where a correction was applied."""
COLUMNS = ("factor", "law", "why", "bound", "sigma")


def compute_factors(
    activities: pd.DataFrame,
    host: GPU,
    target: GPU,
    law: str = DEFAULT_LAW,
    *,
    run: Trained | None = None,
    overhead: Mapping[str, Overhead] | None = None,
    corrections: Mapping[str, Correction] | None = None,
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
    run : Trained, optional
        A loaded run folder of `train` for this host and target (or for the target alone). Its predictions go before the
        law wherever they apply.
    overhead : mapping of str to Overhead, optional
        Fixed times of kernels by vendor, for the law "affine"; `overhead.OVERHEADS` by default.
    corrections : mapping of str to Correction, optional
        Op class -> what the law's factor is multiplied by (`corrections.learn_corrections`).

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
    rows = of_activities(activities, pair.fixed[0])
    found = by_law(rows, pair, law)
    found["sigma"] = sigmas(rows.op_class, found["law"].to_numpy(dtype=object), host, target)
    if corrections:
        found = _corrected(found, rows, corrections)
    if run is not None:
        found = _predicted(found, activities, host, target, run)
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


def _predicted(found: pd.DataFrame, activities: pd.DataFrame, host: GPU, target: GPU, run: Trained) -> pd.DataFrame:
    """Return the table with the run's factors where it has them, and why it has none elsewhere."""
    model = predicted_factors(activities, host, target, run)
    has = model["factor"].notna().to_numpy()
    why = [": ".join(filter(None, pair)) for pair in zip(model["why"], found["why"], strict=True)]
    return pd.DataFrame(
        {
            "factor": np.where(has, model["factor"], found["factor"]),
            "law": np.where(has, MODEL, found["law"]).astype(object),
            "why": np.where(has, "", np.array(why, dtype=object)).astype(object),
            "bound": found["bound"],
            "sigma": np.where(has, model["sigma"], found["sigma"]),
        }
    )
