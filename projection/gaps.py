"""Why the queues of a GPU were idle between activities."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .binding import DEPENDENCY, LAUNCH, QUEUE
from .graph import Graph

DISPATCH, LAUNCH_BOUND, SYNCHRONISATION, UNEXPLAINED = "dispatch", "launch-bound", "synchronisation", "unexplained"
CAUSES = (DISPATCH, LAUNCH_BOUND, SYNCHRONISATION, DEPENDENCY, UNEXPLAINED)
"""Causes of a gap, as users see them:

- dispatch: the next activity was waiting already; the GPU took that long to begin it. On AMD GPUs this time is part of
  the durations instead, and the gaps are 0.
- launch-bound: the queue was empty, and the CPU had not launched the next activity yet.
- synchronisation: as before, and the CPU came from waiting for the GPU itself.
- dependency: the activity waited for one on another queue.
- unexplained: longer than its queue and its launch account for (the first call loads code, the clock was changed, ...).
"""


def gap_table(graph: Graph) -> pd.DataFrame:
    """Return every gap between two activities of a queue, with its cause.

    Parameters
    ----------
    graph : Graph

    Returns
    -------
    DataFrame
        `row` (place in the graph of the activity after the gap), `queue`, `begin_ns`, `gap_ns` (> 0), `cause` (one of
        `CAUSES`).
    """
    over = pd.Series(graph.end_ns).groupby(graph.queue).cummax().to_numpy()[graph.before]
    gap = np.where(graph.before >= 0, graph.start_ns - over, 0.0)
    rows = np.flatnonzero(gap > 0)
    begin = over[rows]
    cause = np.full(len(rows), UNEXPLAINED, dtype=object)
    held = graph.cause[rows]
    cause[held == QUEUE] = DISPATCH
    cause[held == DEPENDENCY] = DEPENDENCY
    launched = held == LAUNCH
    cause[launched] = LAUNCH_BOUND
    call = graph.call[rows]
    if len(graph.runs):
        run = np.r_[graph.calls.run, 0][call]
        came_back = (graph.runs.wait[run] >= 0) & (graph.runs.begin_ns[run] >= begin)
        cause[launched & came_back] = SYNCHRONISATION
    return pd.DataFrame(
        {"row": rows, "queue": graph.queue[rows], "begin_ns": begin, "gap_ns": gap[rows], "cause": cause}
    )
