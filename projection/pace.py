"""What sets the pace of a trace: the parts of its critical path, the kernels on it, and whether the CPU holds it up."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from .critical import ACTIVITY, DELAY, GAP, LATENCY, RETURN, UNEXPLAINED, WORK
from .forecast import class_of
from .whole_trace import FloatArray, Projection

CPU_KINDS: Final = (WORK, LATENCY, RETURN)
"""Pieces of a critical path that no faster GPU shortens: the CPU works, its launch is under way, or its wait ends."""
KINDS: Final = (ACTIVITY, *CPU_KINDS, GAP, DELAY, UNEXPLAINED)
BOUND_BY_CPU: Final = 0.5
"""Share of the critical path from which on a trace is called launch-bound."""


def path_shares(path: pd.DataFrame) -> dict[str, float]:
    """Return the share of each kind of piece (`KINDS`) in a critical path, adding up to 1."""
    length = path["end_ns"] - path["begin_ns"]
    by_kind = length.groupby(path["kind"]).sum()
    return {kind: float(by_kind.get(kind, 0.0) / length.sum()) for kind in KINDS}


def cpu_share(path: pd.DataFrame) -> float:
    """Return the share of a critical path that no faster GPU shortens."""
    shares = path_shares(path)
    return sum(shares[kind] for kind in CPU_KINDS)


def critical_us(projection: Projection) -> FloatArray:
    """Return how long each activity runs on the critical path of the target, shape (n_activities,)."""
    graph, path = projection.graph, projection.path
    path = path[path["kind"] == ACTIVITY]
    length = (path["end_ns"] - path["begin_ns"]).to_numpy() / 1000.0
    found = np.zeros(len(graph))
    found[graph.rows] = np.bincount(path["row"].to_numpy(dtype=np.int64), weights=length, minlength=len(graph))
    return found


def path_kernels(projection: Projection) -> pd.DataFrame:
    """Return the kernels of the critical path on the target by name, the longest time on it first.

    The columns are `name`, `op_class`, `count` of its activities on the path, `path_us`, and `share` of the path.
    """
    rows = projection.activities
    table = pd.DataFrame(
        {"name": rows["name"].astype(str), "op_class": class_of(rows), "path_us": critical_us(projection)}
    )
    length_us = float((projection.path["end_ns"] - projection.path["begin_ns"]).sum()) / 1000.0
    by = table[table["path_us"] > 0].groupby(["name", "op_class"], sort=True)["path_us"]
    found = by.agg(count="size", path_us="sum").reset_index()
    found["share"] = found["path_us"] / length_us
    return found.sort_values("path_us", ascending=False, kind="stable", ignore_index=True)


def verdict(projection: Projection) -> str:
    """Say in a sentence what bounds the trace on the target, against what bounded it on the host."""
    target = projection.target.name
    if not len(projection.graph.calls):
        before, after = (path_shares(path)[ACTIVITY] for path in (projection.measured_path, projection.path))
        return (
            f"what sets the pace on {target} is not known, the trace has no calls of the CPU: activities of the GPU "
            f"are {100 * after:.0f} % of the critical path ({100 * before:.0f} % as measured)"
        )
    before, after = cpu_share(projection.measured_path), cpu_share(projection.path)
    words = (
        f"the CPU's work and launches are {100 * after:.0f} % of the critical path ({100 * before:.0f} % as measured)"
    )
    if after < BOUND_BY_CPU:
        return f"on {target} the GPU sets the pace: {words}"
    became = "becomes" if before < BOUND_BY_CPU else "stays"
    return f"on {target} the trace {became} launch-bound: {words}; a faster GPU does not shorten that part"
