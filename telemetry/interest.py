"""Readings of interest: those that fall into an execution, when in the kernel's time, and what their window saw."""

from __future__ import annotations

import numpy as np
import pandas as pd


def readings_of_interest(times_ns: np.ndarray, executions: pd.DataFrame) -> pd.DataFrame:
    """Return the readings whose time stamp falls into an execution.

    Parameters
    ----------
    times_ns : ndarray of int64, shape (n,)
        Time stamps on the CPU's clock.
    executions : DataFrame
        With ``start_ns``, ``end_ns``, ``run``, ``execution`` and ``run_start_ns``, in order of time.

    Returns
    -------
    DataFrame
        ``reading`` (place among the time stamps), ``run``, ``execution``, ``time_us`` (of interest: since the
        execution's start), ``phase`` (the same as a share of its duration, 0 to 1), ``since_run_us`` and
        ``execution_start_us``, both since the start of the run.
    """
    start, end = executions["start_ns"].to_numpy(), executions["end_ns"].to_numpy()
    place = np.searchsorted(start, times_ns, side="right") - 1
    inside = (place >= 0) & (times_ns <= end[place])
    reading, place = np.flatnonzero(inside), place[inside]
    rows = executions.iloc[place]
    since = times_ns[reading] - start[place]
    began = rows["run_start_ns"].to_numpy()
    return pd.DataFrame(
        {
            "reading": reading,
            "run": rows["run"].to_numpy(),
            "execution": rows["execution"].to_numpy(),
            "time_us": since / 1e3,
            "phase": since / (end[place] - start[place]),
            "since_run_us": (times_ns[reading] - began) / 1e3,
            "execution_start_us": (start[place] - began) / 1e3,
        }
    )


def covered_share(times_ns: np.ndarray, executions: pd.DataFrame, window_ns: float) -> np.ndarray:
    """Return the share of each window [time − window, time] in which an execution ran.

    Parameters
    ----------
    times_ns : ndarray of int64, shape (n,)
        Ends of the windows.
    executions : DataFrame
        ``start_ns`` and ``end_ns``, in order of time, none overlapping the next. None: the shares are 0.
    window_ns : float
        Length, > 0.

    Returns
    -------
    ndarray of shape (n,)
    """
    if executions.empty:
        return np.zeros(len(times_ns))
    origin = int(executions["start_ns"].iloc[0])
    edges = (executions[["start_ns", "end_ns"]].to_numpy() - origin).astype(float)  # (executions, 2)
    busy = np.cumsum(edges[:, 1] - edges[:, 0])
    total = np.column_stack([np.concatenate([[0.0], busy[:-1]]), busy]).ravel()
    at = (np.asarray(times_ns) - origin).astype(float)
    until, before = (np.interp(moment, edges.ravel(), total) for moment in (at, at - window_ns))
    return (until - before) / window_ns
