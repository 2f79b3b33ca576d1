"""Times of a table that has rates in their place: TFLOP/s, and the FLOPs of each row's shape."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import numpy as np
import pandas as pd

from ..operators.operators import OPS
from ..operators.work import as_numbers

_RATE: Final = re.compile(
    r"(?i)(?:^|[ _.(\[-])(?P<unit>[MGTP])flop(?:s|/s|ps|s/s)?[)\]]?(?:_?(?:mean|median|avg))?$"
)
_OTHER: Final = re.compile(
    r"(?i)(?:^|[ _])(?:peak|theoretical|roofline|max|min|std|ideal|limit|expected|predicted|cpu)(?:[ _(]|$)"
)
#: FLOPs a microsecond of one of each unit.
FLOPS_A_MICROSECOND: Final = {
    "M": 1.0,
    "G": 1e3,
    "T": 1e6,
    "P": 1e9,
}


def rate_columns(names: Iterable[str]) -> dict[str, float]:
    """Return the columns that hold a measured rate by their name, and FLOPs a microsecond in one of each.

    >>> rate_columns(["m", "TFLOPS", "peak_tflops", "perf (GFLOP/s)"])
    {'TFLOPS': 1000000.0, 'perf (GFLOP/s)': 1000.0}
    """
    columns = {}
    for name in names:
        rate = _RATE.search(name.strip())
        if rate and not _OTHER.search(name):
            columns[name] = FLOPS_A_MICROSECOND[rate["unit"].upper()]
    return columns


def times_by_rates(rows: pd.DataFrame, rates: np.ndarray) -> np.ndarray:
    """Return the microseconds that each row's FLOPs take at its rate (n_rows,), in FLOPs a microsecond.

    They are missing where a dimension is, or an operator has no FLOPs.
    """
    times = np.full(len(rows), np.nan)
    for name in rows["op"].unique():
        op = OPS.get(str(name))
        if op is None:
            continue
        whole = rows["op"].eq(name).to_numpy() & (rates > 0)
        sizes = rows.copy(deep=False)
        for dim in op.dimensions:
            if dim.kind == "word":
                continue
            values = as_numbers(rows, dim.name)
            if dim.name in rows:
                sizes[dim.name] = values
            if dim.default is None:
                whole &= np.isfinite(values) & (values >= dim.least)
            else:
                whole &= np.isnan(values) | (values >= dim.least)
        if whole.any():
            flops = op.flops(sizes[whole].reset_index(drop=True))
            times[whole] = np.where(flops > 0, flops, np.nan) / rates[whole]
    return times
