"""What a measurement table holds, per operator and number format: how much, of what sizes, how close to the peaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..operators.operators import op_of
from .measurements import TEXT_DIMENSIONS
from .physics import bound_of
from .problems import is_measured

Range = tuple[float, float, float]  # least, median and greatest value
KIND = ["op", "dtype_a"]
_OPTIONAL = ("kernel", "spread_us")


@dataclass(frozen=True)
class Profile:
    """The rows of one operator and number format.

    Attributes
    ----------
    op, dtype : str
        Operator; format of its first input, "" where it has none.
    rows, duplicates : int
        Rows, and how many more there were of the same kernel on the same problem and device, merged
        into these.
    devices : mapping of str to int
        Rows of each.
    sizes : mapping of str to (float, float)
        Least and greatest value of each dimension.
    duration_us : Range
        Times, microseconds.
    share : Range or None
        Of a peak of the device (`table.physics`); None without any row's.
    repeats : float
        Measurements behind all rows together.
    spread : float or None
        Median of the spread (MAD) as a share of the time; None where none is given.
    missing : mapping of str to int
        Column -> rows without a value, of columns that need not be there.
    """

    op: str
    dtype: str
    rows: int
    duplicates: int
    devices: Mapping[str, int]
    sizes: Mapping[str, tuple[float, float]]
    duration_us: Range
    share: Range | None
    repeats: float
    spread: float | None
    missing: Mapping[str, int]


def profiles(frame: pd.DataFrame, before: pd.Series | None = None) -> list[Profile]:
    """Return the profile of each operator and number format of clean rows, the most rows first.

    `before` is the number of rows by `KIND` before repeats were merged.
    """
    share = bound_of(frame).least_us / frame["duration_us"].to_numpy(dtype=float)
    if before is None:
        before = frame.groupby(KIND).size()
    made = []
    for kind, rows in frame.reset_index(drop=True).groupby(KIND, sort=False):
        op, dtype = map(str, kind)
        rows_share = share[rows.index.to_numpy()]
        made.append(_profile(op, dtype, rows, rows_share, int(before[op, dtype])))
    return sorted(made, key=lambda one: -one.rows)


def _profile(op: str, dtype: str, rows: pd.DataFrame, share: np.ndarray, before: int) -> Profile:
    share_range = None
    shares = share[~np.isnan(share)]
    if len(shares):
        share_range = _range(shares)
    spread = None
    spreads = (rows["spread_us"] / rows["duration_us"]).dropna()
    if len(spreads):
        spread = float(spreads.median())
    sizes = {}
    for name in op_of(op).dims:
        if name not in TEXT_DIMENSIONS and rows[name].notna().any():
            sizes[name] = (float(rows[name].min()), float(rows[name].max()))
    beside = [str(name) for name in rows if is_measured(str(name)) and name != "duration_us"]
    missing = {}
    for name in (*_OPTIONAL, *beside):
        empty = rows[name].isna() | rows[name].eq("")
        if empty.any():
            missing[name] = int(empty.sum())
    return Profile(
        op,
        dtype,
        len(rows),
        before - len(rows),
        devices={str(name): int(count) for name, count in rows["device"].value_counts().items()},
        sizes=sizes,
        duration_us=_range(rows["duration_us"].to_numpy()),
        share=share_range,
        repeats=float(rows["repeats"].sum()),
        spread=spread,
        missing=missing,
    )


def _range(values: np.ndarray) -> Range:
    return float(values.min()), float(np.median(values)), float(values.max())
