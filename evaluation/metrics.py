"""How far predictions are from measurements: relative errors, inlier ratios, and the row of each model in the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..errors import DataError

THRESHOLDS: Final = (1, 5, 10, 15, 20, 30, 40, 50)


def check_targets(observed: ArrayLike, sources: Sequence[str] | None = None) -> NDArray[np.float64]:
    """Return the measured values as floats, refusing what no relative error can be taken of.

    ``sources`` says for the message where each row came from (``"file:row"``).

    Raises
    ------
    DataError
        A value is zero, negative or not finite; the first such row is named.
    """
    values = np.asarray(observed, dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if len(bad):
        first = int(bad[0])
        raise DataError(
            f"the measured value is {values[first]:g}, a relative error needs a positive one "
            f"({len(bad)} of {len(values)} rows are zero, negative or missing): remove or repair them",
            source=f"row {first}" if sources is None else str(sources[first]),
        )
    return values


def ape(observed: ArrayLike, predicted: ArrayLike) -> NDArray[np.float64]:
    """Absolute percentage error of each row, ``100 |y - f(x)| / y``.

    Raises
    ------
    DataError
        An observed value is not positive.
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

    Examples
    --------
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
    e_in: float | None = None,
    features_selected: int | None = None,
    features_available: int | None = None,
    fit_seconds: float | None = None,
    error: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """Return the row of one model as ``metrics.json`` and the tables hold it.

    ``predicted`` are out-of-fold predictions, None for a model that failed, and ``error`` then says why; ``e_in`` is
    the relative error on the training rows (percent), ``fit_seconds`` the time of all fits together, ``extra`` further
    entries. Fit for JSON: what has no value (or no finite one) is None. ``nonpositive`` counts predictions at or below
    zero.
    """
    figures: dict[str, Any] = {"e_out": None, "e_in": None, "median_ape": None, "max_ape": None}
    ir: dict[str, float | None] = {str(limit): None for limit in THRESHOLDS}
    nonpositive: int | None = None
    if predicted is not None:
        errors = ape(observed, predicted)
        with np.errstate(over="ignore"):
            mean = errors.mean()
        figures = {
            "e_out": finite(mean),
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
    """Return ``value`` as a float that JSON can hold, None for what it cannot."""
    return float(value) if value is not None and np.isfinite(value) else None


def by_group(observed: ArrayLike, predicted: ArrayLike, groups: ArrayLike) -> pd.DataFrame:
    """Return the errors of each group, the worst group first.

    Returns
    -------
    DataFrame
        Columns ``group``, ``rows``, ``e_out``, ``median_ape``, ``max_ape`` (percent) and ``ratio``, the median of
        predicted over observed: 1.1 means that the group's times are predicted 10 % too long.
    """
    y, p = check_targets(observed), np.asarray(predicted, dtype=np.float64)
    rows = pd.DataFrame({"group": np.asarray(groups, dtype=str), "ape": ape(y, p), "ratio": p / y})
    table = rows.groupby("group", sort=True).agg(
        rows=("ape", "size"),
        e_out=("ape", "mean"),
        median_ape=("ape", "median"),
        max_ape=("ape", "max"),
        ratio=("ratio", "median"),
    )
    return table.sort_values("e_out", ascending=False, kind="stable").reset_index()
