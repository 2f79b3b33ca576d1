"""How far predictions are from measurements: relative errors, inlier ratios, and the row of each model in the table.

How many times faster a prediction is than measuring is reckoned here too: it costs the run on the
host, that run again in every further pass of the profiler for the counters that the model uses, and
the workload's share of what the model takes. The published speed-ups of scale models (`scaling`)
are the same quotient, of the seconds that simulations take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..arrays import FloatArray
from ..errors import DataError, ParameterError, few
from ..operators.work import as_numbers
from ..readers.labels import TIME_UNITS, split_unit, stated_unit
from ..table.measurements import COUNTER

THRESHOLDS: Final = (1, 5, 10, 15, 20, 30, 40, 50)
NINETY_PERCENT: Final = 1.645
"""Standard deviations from the median to the ends of the 90 % interval of a normal distribution."""


def check_targets(observed: ArrayLike, sources: Sequence[str] | None = None) -> FloatArray:
    """Return the measured values as floats, refusing what no relative error can be taken of.

    ``sources`` says for the message where each row came from (``"file:row"``). Raises DataError: a
    value is zero, negative or not finite; the first such row is named.
    """
    values = np.asarray(observed, dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        first = int(bad[0])
        raise DataError(
            f"the measured value is {values[first]:g}, a relative error needs a positive one "
            f"({len(bad)} of {len(values)} rows are zero, negative or missing): remove or repair "
            "them",
            source=f"row {first}" if sources is None else str(sources[first]),
        )
    return values


def ape(observed: ArrayLike, predicted: ArrayLike) -> FloatArray:
    """Absolute percentage error of each row, ``100 |y - f(x)| / y``.

    Raises DataError: an observed value is not positive.
    """
    y = check_targets(observed)
    with np.errstate(over="ignore"):
        return 100.0 * np.abs(y - np.asarray(predicted, dtype=np.float64)) / y


def e_out(observed: ArrayLike, predicted: ArrayLike) -> float:
    """Mean absolute percentage error, ``100/M * sum |y - f(x)| / y``: E_out where each row's fold was left out."""
    with np.errstate(over="ignore"):
        return float(np.mean(ape(observed, predicted)))


def inlier_ratios(errors: ArrayLike, thresholds: Sequence[int] = THRESHOLDS) -> dict[str, float]:
    """Percentage of rows whose APE (in percent) is at most T, keyed by T as a string.

    >>> inlier_ratios([0.5, 7.0, 7.0, 80.0], thresholds=(1, 10))
    {'1': 25.0, '10': 75.0}
    """
    values = np.asarray(errors, dtype=np.float64)
    return {str(limit): float(100.0 * np.mean(values <= limit)) for limit in thresholds}


def summarise(
    name: str,
    observed: ArrayLike,
    predicted: ArrayLike | None,
    *,
    groups: ArrayLike | None = None,
    e_in: float | None = None,
    features_selected: int | None = None,
    features_available: int | None = None,
    fit_seconds: float | None = None,
    error: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """Return the row of one model as ``metrics.json`` and the tables hold it.

    ``predicted`` are out-of-fold predictions, None for a model that failed, and ``error`` then says
    why; ``groups`` are those of the rows, whose mean errors ``e_out_groups`` is the mean of: each
    group counts alike there; ``e_in`` is the relative error on the training rows (percent),
    ``fit_seconds`` the time of all fits together, ``extra`` further entries. Fit for JSON: what has
    no value (or no finite one) is None. ``nonpositive`` counts predictions at or below zero.
    """
    figures: dict[str, Any] = dict.fromkeys(
        ("e_out", "e_out_groups", "e_in", "median_ape", "max_ape")
    )
    ir: dict[str, float | None] = {str(limit): None for limit in THRESHOLDS}
    nonpositive: int | None = None
    if predicted is not None:
        errors = ape(observed, predicted)
        with np.errstate(over="ignore"):
            mean = errors.mean()
            if groups is None:
                even = None
            else:
                even = pd.Series(errors).groupby(np.asarray(groups)).mean().mean()
        figures = {
            "e_out": finite(mean),
            "e_out_groups": finite(even),
            "e_in": finite(e_in),
            "median_ape": finite(np.median(errors)),
            "max_ape": finite(errors.max()),
        }
        ir = dict(inlier_ratios(errors))
        nonpositive = int(np.sum(np.asarray(predicted) <= 0))
    return {
        "name": name,
        **figures,
        "ir": ir,
        "features_selected": features_selected,
        "features_available": features_available,
        "fit_seconds": fit_seconds,
        "nonpositive": nonpositive,
        **extra,
        "error": error,
    }


def finite(value: float | None) -> float | None:
    """Return ``value`` as a float that JSON can hold, None for any other."""
    if value is not None and np.isfinite(value):
        return float(value)
    return None


def by_group(observed: ArrayLike, predicted: ArrayLike, groups: ArrayLike) -> pd.DataFrame:
    """Return ``group``, ``rows``, ``e_out``, ``median_ape``, ``max_ape`` (percent), ``ratio``, the worst group first.

    ``ratio`` is the median of predicted over observed: 1.1 means that the group's times are
    predicted 10 % too long.
    """
    y = check_targets(observed)
    p = np.asarray(predicted, dtype=np.float64)
    rows = pd.DataFrame(
        {"group": np.asarray(groups, dtype=str), "ape": ape(y, p), "ratio": p / y}
    ).groupby("group")
    errors = rows["ape"]
    ratio = rows["ratio"].median()
    columns = {
        "rows": errors.size(),
        "e_out": errors.mean(),
        "median_ape": errors.median(),
        "max_ape": errors.max(),
    }
    table = pd.DataFrame({**columns, "ratio": ratio})
    return table.sort_values("e_out", ascending=False, kind="stable").reset_index()


COST = "_target_cost_s"  # column: what measuring or simulating the target costs a row, seconds


def speedup(target_s: Any, *spent_s: Any) -> Any:
    """Return how many times less the costs on our side take together than the target; numbers or arrays, seconds.

    >>> speedup(120.0, 10.0, 20.0)
    4.0
    """
    return target_s / sum(spent_s)


def mean_least_most(times: Sequence[float] | FloatArray) -> dict[str, float]:
    """Return mean, least and most of some speed-ups."""
    return {"mean": sum(times) / len(times), "least": min(times), "most": max(times)}


def with_target_cost(
    rows: pd.DataFrame, column: str, units: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Return the rows with the seconds that the target costs each under `COST`, NaN where that is not stated.

    The unit is the one that ``units`` state of the column, else that of its name (``duration_us``,
    ``simulated_ms``), seconds where it has none. In a table of whole workloads the column counts as
    a counter (`readers.tidy`). Raises ParameterError: no such column, one that is no time, or no
    positive number in it; it names ``target_cost``.
    """
    name = next((name for name in (column, COUNTER + column) if name in rows), None)
    if name is None:
        raise ParameterError(
            "target_cost", f"must be a column with times, got {column!r}: there are {few(rows)}"
        )
    unit = split_unit(column)[1] or "s"
    if units and column in units:
        unit = stated_unit(column, units[column])
    if unit not in TIME_UNITS:
        raise ParameterError(
            "target_cost", f"must be a column with times, got {column!r}, which is in {unit}"
        )
    costs = as_numbers(rows, name) * TIME_UNITS[unit] / TIME_UNITS["s"]
    positive = np.where(np.isfinite(costs) & (costs > 0), costs, np.nan)
    if np.isnan(positive).all():
        raise ParameterError(
            "target_cost", f"must be a column with times, got {column!r}, which has none above 0"
        )
    return rows.assign(**{COST: positive})


def accounting(
    cost: ArrayLike,
    run_us: ArrayLike | None,
    passes: int,
    model_s: float,
    training_s: float | None = None,
) -> tuple[FloatArray, dict[str, Any]]:
    """Return the speed-up of each workload, (n,), NaN without its cost, and what there is to say of all.

    ``cost`` (n,) is what the target costs each, seconds (`with_target_cost`); ``run_us`` (n,) its
    run on the host, None without one: nothing is run; ``passes`` of the profiler for the counters
    of the model are a run each. The model takes ``model_s`` seconds for all n; ``training_s`` are
    those of the training and its data, on target and host. By default these workloads are those
    data, and ``model_s`` is the training.

    The second, fit for JSON, has ``n``, ``without_cost``, ``mean``, ``least``, ``most``; the
    seconds of these n together, ``target_s``, ``host_s``, ``counters_s``, ``model_s``; ``passes``;
    ``training_s``, and ``break_even``, the number of predictions from which all has cost less than
    the target would have: training over what one prediction saves (None: it saves nothing). Fewer
    where no row has a cost.
    """
    target_s = np.asarray(cost, dtype=np.float64)
    if run_us is None:
        host_s = np.zeros(len(target_s))
    else:
        host_s = np.asarray(run_us, dtype=np.float64) / 1e6
    if run_us is None:
        passes = 0
    counters_s = passes * host_s
    each_s = np.full(len(target_s), model_s / max(len(target_s), 1))
    times = np.asarray(speedup(target_s, host_s, counters_s, each_s))
    finite = np.isfinite(times)
    if not finite.any():
        return times, {"n": 0, "without_cost": len(times)}
    costs = {"target_s": target_s, "host_s": host_s, "counters_s": counters_s, "model_s": each_s}
    sums = {name: float(values[finite].sum()) for name, values in costs.items()}
    spent_s = sums["host_s"] + sums["counters_s"] + (0.0 if training_s is None else sums["model_s"])
    if training_s is None:
        before = sum(sums.values())
    else:
        before = training_s
    saved = (sums["target_s"] - spent_s) / int(finite.sum())
    return times, {
        "n": int(finite.sum()),
        "without_cost": int((~finite).sum()),
        **{name: float(value) for name, value in mean_least_most(times[finite]).items()},
        **sums,
        "passes": passes,
        "training_s": before,
        "break_even": math.ceil(before / saved) if saved > 0 else None,
    }
