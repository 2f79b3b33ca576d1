"""How far the repeats of each kernel spread once cleaned, and what was left out of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .mad import MAD_TO_SIGMA
from .median import drift_of_medians, repeat_intervals
from .repeats import LAUNCH, runs_of, series_codes

IntArray = NDArray[np.int64]

REMOVED = "removed."
"""Prefix of the columns that count what was left out, by reason."""
_ROUNDING_US = 1e-6  # a thousandth of a nanosecond: one tick must not be more than one tick
_TEXT = ("device", "kind", "kernel_class", "op_class", "op", "variant", "dtype_a", "name")


def spread_report(
    table: pd.DataFrame,
    repeats: IntArray,
    reason: NDArray[np.object_],
    *,
    resolution_ns: IntArray,
    unsettled: IntArray,
    level: float = 0.95,
) -> pd.DataFrame:
    """Return one row per kernel, the one that takes most time first.

    Parameters
    ----------
    table : DataFrame
        Every activity, dispatch table.
    repeats : ndarray of int of shape (n,)
        Number of each activity's kernel (`repeats.repeat_codes`).
    reason : ndarray of str of shape (n,)
        Why an activity was left out, "" where it is kept.
    resolution_ns : ndarray of int of shape (n,)
        Step of the clock behind each duration. Intervals reach at least half a step on either side of the median.
    unsettled : ndarray of int
        Kernels of which a series has not settled.
    level : float, default=0.95
        Of the intervals of the medians.

    Returns
    -------
    DataFrame
        Index: the kernel's number. `device`, `kind`, `kernel_class`, `op_class`, `op`, `variant`, `dtype_a`, `name`
        where the table has them, `grid`, `block` ("8x1x1"); `measured`, `n` (kept), `median_us`, `mad_us`, `robust_cv`
        (1.4826 MAD / median), `lower_us`, `upper_us`, `level` (see `median.repeat_intervals`; NaN for too few
        repeats), `drift_us` and `drifts` (second half in time against the first: `median.drift_of_medians`, more than
        a step of the clock), `resolution_us`, `total_us` (of those kept), `settled`; ``removed.REASON`` counts what was
        left out.
    """
    first = table.iloc[np.unique(repeats, return_index=True)[1]] if len(table) else table
    words = {name: first[name].astype(str).to_numpy() for name in _TEXT if name in table}
    launch = {stem: _sides(first, stem) for stem in ("grid", "block")}
    kept = reason == ""
    duration_us = table["duration_ns"].to_numpy(dtype=np.float64) / 1e3
    codes = pd.RangeIndex(len(first))
    count = np.bincount(repeats[kept], minlength=len(first))
    runs = runs_of(table)
    in_time = np.lexsort((table["start_ns"].to_numpy(), runs))
    in_time = in_time[kept[in_time]]
    series = series_codes(table, repeats)
    values, groups = duration_us[in_time], repeats[in_time]
    found = repeat_intervals(values, groups, series[in_time], runs[in_time], level).reindex(codes)
    drift = drift_of_medians(values, groups, level).reindex(codes)
    half_us = np.zeros(len(first))
    np.maximum.at(half_us, repeats, resolution_ns / 2e3)
    numbers = {
        "measured": np.bincount(repeats, minlength=len(first)),
        "n": count,
        "median_us": found["median"],
        "mad_us": found["mad"].where(count > 1),
        "robust_cv": (MAD_TO_SIGMA * found["mad"] / found["median"]).where(count > 1),
        "lower_us": found["lower"].clip(upper=found["median"] - half_us),
        "upper_us": found["upper"].clip(lower=found["median"] + half_us),
        "level": found["level"],
        "drift_us": drift["drift"],
        "drifts": drift["drifts"] * (drift["drift"].abs() > 2 * half_us + _ROUNDING_US),  # missing stays missing
        "resolution_us": 2 * half_us,
        "total_us": np.bincount(repeats[kept], weights=duration_us[kept], minlength=len(first)),
        "settled": ~np.isin(np.arange(len(first)), unsettled),
    }
    removed = {
        f"{REMOVED}{why}": np.bincount(repeats[reason == why], minlength=len(first))
        for why in dict.fromkeys(reason[~kept].tolist())
    }
    report = pd.DataFrame({**words, **launch, **numbers, **removed}, index=codes)
    return report.sort_values("total_us", ascending=False, kind="stable")


def _sides(first: pd.DataFrame, stem: str) -> NDArray[np.object_]:
    """Return grids or blocks as words, "" where they are not recorded."""
    columns = [first[name].astype("Int64") for name in LAUNCH if name.startswith(stem)]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return np.array(["x".join(str(side) for side in row if side is not pd.NA) for row in rows], dtype=object)
