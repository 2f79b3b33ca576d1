"""The range table: the user's annotations of a run (`record_function`, markers) as the GPU went through them.

===========  ==========================================================================================================
column       meaning
===========  ==========================================================================================================
name         what the user called it
start_ns     start of the first activity inside, on the clock of the dispatch table, integer nanoseconds
duration_ns  from there to the end of the last activity inside
===========  ==========================================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def range_table(name: Sequence[str], start_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> pd.DataFrame:
    """Return a range table in the order of `start_ns`, of equal starts the longer first; RangeIndex.

    Parameters
    ----------
    name : sequence of str
    start_ns, end_ns : ndarray of int64 of the same length
    """
    words = pd.Categorical(np.array(name, dtype=object))
    table = pd.DataFrame({"name": words, "start_ns": start_ns, "duration_ns": end_ns - start_ns})
    return table.sort_values(["start_ns", "duration_ns", "name"], ascending=[True, False, True], ignore_index=True)


def empty_ranges() -> pd.DataFrame:
    """Return a table of no ranges."""
    return range_table([], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
