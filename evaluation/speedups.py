"""How many times faster a prediction is than measuring or simulating the target, workload by workload.

A prediction costs the run on the host, that run again in every further pass of the profiler for the counters that the
model uses, and the workload's share of what the model takes. The published speed-ups of scale models (`scaling`) are
the same quotient, of the seconds that simulations take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..errors import ParameterError, few
from ..operators.work import as_numbers
from ..table.measurements import COUNTER

FloatArray = NDArray[np.float64]
COST = "_target_cost_s"
"""Column: what measuring or simulating the target costs a row, seconds."""


def speedup(target_s: Any, *own_s: Any) -> Any:
    """Return how many times less the costs on our side take together than the target; numbers or arrays, seconds.

    Examples
    --------
    >>> speedup(120.0, 10.0, 20.0)
    4.0
    """
    return target_s / sum(own_s)


def mean_least_most(times: Sequence[float] | FloatArray) -> dict[str, float]:
    """Return mean, least and most of some speed-ups."""
    return {"mean": sum(times) / len(times), "least": min(times), "most": max(times)}


def with_target_cost(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the rows with the seconds that the target costs each under `COST`, NaN where that is not known.

    In a table of whole workloads the column counts as a counter (`readers.tidy`).

    Raises
    ------
    ParameterError
        No such column, or no positive number in it; it names ``target_cost``.
    """
    name = next((name for name in (column, COUNTER + column) if name in rows), None)
    if name is None:
        raise ParameterError("target_cost", f"must be a column with seconds, got {column!r}: there are {few(rows)}")
    found = as_numbers(rows, name)
    known = np.where(np.isfinite(found) & (found > 0), found, np.nan)
    if np.isnan(known).all():
        raise ParameterError("target_cost", f"must be a column with seconds, got {column!r}, which has none above 0")
    return rows.assign(**{COST: known})


def accounting(
    cost: ArrayLike, run_us: ArrayLike | None, passes: int, model_s: float
) -> tuple[FloatArray, dict[str, Any]]:
    """Return the speed-up of each workload, NaN where its cost is not known, and what there is to say of all.

    Parameters
    ----------
    cost : array-like of shape (n,)
        What the target costs each workload, seconds (`with_target_cost`).
    run_us : array-like of shape (n,) or None
        Its run on the host, microseconds; None without a host: nothing is run.
    passes : int
        Passes of the profiler for the counters that the model uses (`counter_choice.passes_of`), each a run.
    model_s : float
        Seconds that the model takes for all n workloads, of which each has an equal share.

    Returns
    -------
    ndarray of shape (n,), dict
        Fit for JSON: ``n``, ``without_cost``, ``mean``, ``least``, ``most``; the seconds of these n together,
        ``target_s``, ``host_s``, ``counters_s``, ``model_s``; and ``passes``. None where no cost is known.
    """
    target_s = np.asarray(cost, dtype=np.float64)
    host_s = np.zeros(len(target_s)) if run_us is None else np.asarray(run_us, dtype=np.float64) / 1e6
    passes = 0 if run_us is None else passes
    counters_s, each_s = passes * host_s, np.full(len(target_s), model_s / max(len(target_s), 1))
    times = np.asarray(speedup(target_s, host_s, counters_s, each_s))
    known = np.isfinite(times)
    if not known.any():
        return times, {"n": 0, "without_cost": len(times)}
    costs = {"target_s": target_s, "host_s": host_s, "counters_s": counters_s, "model_s": each_s}
    return times, {
        "n": int(known.sum()),
        "without_cost": int((~known).sum()),
        **{name: float(value) for name, value in mean_least_most(times[known]).items()},
        **{name: float(values[known].sum()) for name, values in costs.items()},
        "passes": passes,
    }
