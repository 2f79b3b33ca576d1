"""The call table: what the CPU asked of the runtime and driver, as a profiler recorded it.

===========  ==========================================================================================================
column       meaning
===========  ==========================================================================================================
name         function ("hipLaunchKernel", "cudaStreamSynchronize")
start_ns     start on the clock of the dispatch table, integer nanoseconds
duration_ns  end - start: how long the CPU was in the call, waiting included
process      process id, missing where the file has a word
thread       number of the thread within the trace
correlation  number that links the call to the activities it launched, missing where there is none
===========  ==========================================================================================================
"""

from __future__ import annotations

from typing import Any

import pandas as pd

COLUMNS = ("name", "start_ns", "duration_ns", "process", "thread", "correlation")


def call_table(columns: dict[str, Any]) -> pd.DataFrame:
    """Return a call table in the order of `start_ns` (ties as given) from its columns.

    Parameters
    ----------
    columns : dict of str to array-like
        Every one of `COLUMNS`, of equal length.

    Returns
    -------
    DataFrame
        `name` is categorical, the times are int64, other numbers Int64; RangeIndex.
    """
    table = pd.DataFrame(
        {
            "name": pd.Categorical(columns["name"]),
            "start_ns": pd.array(columns["start_ns"], dtype="int64"),
            "duration_ns": pd.array(columns["duration_ns"], dtype="int64"),
            **{name: pd.array(columns[name], dtype="Int64") for name in COLUMNS[3:]},
        }
    )
    return table.sort_values("start_ns", kind="stable", ignore_index=True)


def empty_calls() -> pd.DataFrame:
    """Return a table of no calls."""
    return call_table({name: [] for name in COLUMNS})
