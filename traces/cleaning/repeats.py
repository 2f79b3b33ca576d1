"""Which activities repeat each other, and how far the repeats of each kernel spread once they are cleaned.

Repeats are the same kernel, launched the same way, for the same problem, on the same kind of GPU
(`repeat_codes`); those on one GPU in one run are a series, which has a warm-up (`series_codes`).
`spread_report` is what cleaning says of each kernel: its median and its interval, and what
was left out of its repeats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ...arrays import BoolArray, IntArray, ObjectArray
from ...operators.operators import OPS
from ...table.problems import codes_of
from ..activity_work import SAME_CALL, UNKNOWN, WORDS
from ..quality import resolution_ns
from .robust import MAD_TO_SIGMA, drift_of_medians, repeat_intervals

OF_RUN = "run"
"""Column that numbers the runs of a program where several are put together; one run where it is
absent. It is not `operators.RUN`, which numbers the repeats of a problem."""
LAUNCH = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_WHAT = ("device", "kind", "name", *LAUNCH, "collective", "collective_bytes", "group_size", "bytes")
_SIZES = tuple(dict.fromkeys(size for op in OPS.values() for size in op.dims if size not in WORDS))
_ALONE = ("", UNKNOWN, "collective")


def pool(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the tables of several runs as one, `run` their number from 0 on."""
    return pd.concat(
        [table.assign(**{OF_RUN: number}) for number, table in enumerate(tables)], ignore_index=True
    )


def runs_of(table: pd.DataFrame) -> IntArray:
    """Return the run of each row."""
    if OF_RUN in table:
        return table[OF_RUN].to_numpy(dtype=np.int64)
    return np.zeros(len(table), dtype=np.int64)


def repeat_codes(table: pd.DataFrame) -> IntArray:
    """Return a number for each row of a dispatch table, equal for repeats.

    Repeats agree in device, kind, name, grid, block, message or bytes, and, where
    `summary.annotate` gives them, in operator, variant, formats and dimensions. Runs, processes
    and queues do not tell repeats apart.
    """
    names = [name for name in dict.fromkeys((*_WHAT, *WORDS, *_SIZES)) if name in table]
    return codes_of(table[name] for name in names)


def series_codes(table: pd.DataFrame, repeats: IntArray) -> IntArray:
    """Return a number for each row, equal for the repeats of one kernel on one GPU in one run: what has a warm-up."""
    return codes_of([pd.Series(repeats), pd.Series(runs_of(table)), table["process"], table["gpu"]])


def resolutions_ns(table: pd.DataFrame) -> IntArray:
    """Return the step of the clock behind each row's duration (`quality.resolution_ns` of its device and run)."""
    duration = table["duration_ns"].to_numpy(dtype=np.int64)
    steps = np.zeros(len(table), dtype=np.int64)
    clocks = table.groupby([table["device"], runs_of(table)], observed=True, dropna=False)
    for rows in clocks.indices.values():
        possible = rows[duration[rows] > 0]
        steps[rows] = resolution_ns(duration[possible])
    return steps


def rest_of_calls(table: pd.DataFrame, removed: BoolArray) -> BoolArray:
    """Return the kept rows whose operator's call has lost a kernel: its time would no longer be the call's."""
    if not removed.any():
        return np.zeros(len(table), dtype=bool)
    called = table["op_id"].notna().to_numpy()
    if "op" in table:
        called = called & ~table["op"].isin(_ALONE).to_numpy()
    code = codes_of([*(table[name] for name in SAME_CALL), pd.Series(runs_of(table))])
    hit = np.zeros(int(code.max()) + 1, dtype=bool)
    hit[code[removed & called]] = True
    return hit[code] & called & ~removed


REMOVED = "removed."  # prefix of the columns that count what was left out, by reason
_ROUNDING_US = 1e-6  # a thousandth of a nanosecond: one tick must not be more than one tick
_TEXT = ("device", "kind", "kernel_class", "op_class", "op", "variant", "dtype_a", "name")


def spread_report(
    table: pd.DataFrame,
    repeats: IntArray,
    reason: ObjectArray,
    *,
    resolution_ns: IntArray,
    unsettled: IntArray,
    level: float = 0.95,
) -> pd.DataFrame:
    """Return one row per kernel, the one that takes most time first; its number is the index.

    Every activity of the table has the number of its kernel (`repeat_codes`), the ``reason`` why it
    was left out, "" where it is kept, and the step of the clock behind its duration: intervals
    reach at least half a step on either side of the median. ``unsettled`` are kernels of which a
    series has not settled.

    The columns are `device`, `kind`, `kernel_class`, `op_class`, `op`, `variant`, `dtype_a`, `name`
    where the table has them, `grid`, `block` ("8x1x1"); `measured`, `n` (kept), `median_us`,
    `mad_us`, `robust_cv` (1.4826 MAD / median), `lower_us`, `upper_us`, `level` (see
    `robust.repeat_intervals`; NaN for too few repeats), `drift_us` and `drifts` (second half in
    time against the first: `robust.drift_of_medians`, more than a step of the clock),
    `resolution_us`, `total_us` (of those kept), `settled`; ``removed.REASON`` counts what was left
    out.
    """
    first = table.iloc[np.unique(repeats, return_index=True)[1]]
    columns: dict[str, Any] = {}
    for name in _TEXT:
        if name in table:
            columns[name] = first[name].astype(str).to_numpy()
    columns["grid"] = _sides(first, "grid")
    columns["block"] = _sides(first, "block")
    kept = reason == ""
    duration_us = table["duration_ns"].to_numpy(dtype=np.float64) / 1e3
    codes = pd.RangeIndex(len(first))
    count = np.bincount(repeats[kept], minlength=len(first))
    runs = runs_of(table)
    in_time = np.lexsort((table["start_ns"].to_numpy(), runs))
    in_time = in_time[kept[in_time]]
    series = series_codes(table, repeats)
    values = duration_us[in_time]
    groups = repeats[in_time]
    intervals = repeat_intervals(values, groups, series[in_time], runs[in_time], level)
    intervals = intervals.reindex(codes)
    drift = drift_of_medians(values, groups, level).reindex(codes)
    half_us = np.zeros(len(first))
    np.maximum.at(half_us, repeats, resolution_ns / 2e3)
    mad = intervals["mad"].where(count > 1)
    # missing stays missing
    beyond_tick = drift["drift"].abs() > 2 * half_us + _ROUNDING_US
    columns |= {
        "measured": np.bincount(repeats, minlength=len(first)),
        "n": count,
        "median_us": intervals["median"],
        "mad_us": mad,
        "robust_cv": MAD_TO_SIGMA * mad / intervals["median"],
        "lower_us": intervals["lower"].clip(upper=intervals["median"] - half_us),
        "upper_us": intervals["upper"].clip(lower=intervals["median"] + half_us),
        "level": intervals["level"],
        "drift_us": drift["drift"],
        "drifts": drift["drifts"] * beyond_tick,
        "resolution_us": 2 * half_us,
        "total_us": np.bincount(repeats[kept], weights=duration_us[kept], minlength=len(first)),
        "settled": ~np.isin(np.arange(len(first)), unsettled),
    }
    for why in dict.fromkeys(reason[~kept].tolist()):
        columns[f"{REMOVED}{why}"] = np.bincount(repeats[reason == why], minlength=len(first))
    report = pd.DataFrame(columns, index=codes)
    return report.sort_values("total_us", ascending=False, kind="stable")


def _sides(first: pd.DataFrame, stem: str) -> ObjectArray:
    """Return grids or blocks as words, "" where they are not recorded."""
    columns = [first[name].astype("Int64") for name in LAUNCH if name.startswith(stem)]
    texts = []
    for row in zip(*columns, strict=True):
        recorded = [str(side) for side in row if side is not pd.NA]
        texts.append("x".join(recorded))
    return np.array(texts, dtype=object)
