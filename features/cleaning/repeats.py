"""Which activities repeat each other: the same kernel, launched the same way, for the same problem, on the same GPU."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..codes import codes_of
from ..dispatches.operators import WORDS
from ..dispatches.timeline import resolution_ns
from ..dispatches.work import SAME_CALL, UNKNOWN
from ..ops import OPS

IntArray = NDArray[np.int64]

OF_RUN = "run"
"""Column that numbers the runs of a program where several are put together; one run where it is absent. It is not
`ops.RUN`, which numbers the repeats of a problem."""
LAUNCH = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_WHAT = ("device", "kind", "name", *LAUNCH, "collective", "collective_bytes", "group_size", "bytes")
_SIZES = tuple(dict.fromkeys(size for op in OPS.values() for size in op.dims if size not in WORDS))
_ALONE = ("", UNKNOWN, "collective")


def pool(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the tables of several runs as one, `run` their number from 0 on."""
    return pd.concat([table.assign(**{OF_RUN: number}) for number, table in enumerate(tables)], ignore_index=True)


def runs_of(table: pd.DataFrame) -> IntArray:
    """Return the run of each row."""
    return table[OF_RUN].to_numpy(dtype=np.int64) if OF_RUN in table else np.zeros(len(table), dtype=np.int64)


def repeat_codes(table: pd.DataFrame) -> IntArray:
    """Return a number for each row, equal for repeats.

    Repeats agree in device, kind, name, grid, block, message or bytes, and in operator, variant, formats and
    dimensions where these are known. Runs, processes and queues do not tell repeats apart.

    Parameters
    ----------
    table : DataFrame
        Dispatch table, with or without the operators that `dispatches.annotate` adds.
    """
    names = [name for name in dict.fromkeys((*_WHAT, *WORDS, *_SIZES)) if name in table]
    return codes_of(table[name] for name in names)


def series_codes(table: pd.DataFrame, repeats: IntArray) -> IntArray:
    """Return a number for each row, equal for the repeats of one kernel on one GPU in one run: what has a warm-up."""
    return codes_of([pd.Series(repeats), pd.Series(runs_of(table)), table["process"], table["gpu"]])


def resolutions_ns(table: pd.DataFrame) -> IntArray:
    """Return the step of the clock behind each row's duration (`timeline.resolution_ns` of its device and run)."""
    duration = table["duration_ns"].to_numpy(dtype=np.int64)
    codes = codes_of([table["device"], pd.Series(runs_of(table))]) if len(table) else np.zeros(0, dtype=np.int64)
    steps = np.zeros(len(table), dtype=np.int64)
    for code in np.unique(codes):
        own = codes == code
        steps[own] = resolution_ns(duration[own & (duration > 0)])
    return steps


def rest_of_calls(table: pd.DataFrame, removed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the rows not removed whose operator's call has lost a kernel: its time would no longer be the call's."""
    if not removed.any():
        return np.zeros(len(table), dtype=bool)
    called = table["op_id"].notna().to_numpy()
    if "op" in table:
        called = called & ~table["op"].isin(_ALONE).to_numpy()
    code = codes_of([*(table[name] for name in SAME_CALL), pd.Series(runs_of(table))])
    hit = np.zeros(int(code.max()) + 1, dtype=bool)
    hit[code[removed & called]] = True
    return hit[code] & called & ~removed
