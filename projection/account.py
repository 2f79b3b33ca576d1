"""What a projection says, in tables: classes of kernels, gaps, the critical path, and whether the CPU holds it up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from .aggregate import AGGREGATIONS, OVERLAP, REPLAY, SUM
from .critical import ACTIVITY, DELAY, GAP, LATENCY, RETURN, UNEXPLAINED, WORK
from .forecast import class_of
from .gaps import CAUSES, gap_table
from .sweep import END_TO_END
from .whole_trace import BOUND, LAW, SIGMA, WHY, Projection

CPU_KINDS: Final = (WORK, LATENCY, RETURN)
"""Pieces of a critical path that no faster GPU shortens: the CPU works, its launch is under way, or its wait ends."""
KINDS: Final = (ACTIVITY, *CPU_KINDS, GAP, DELAY, UNEXPLAINED)
LAUNCH: Final = "launch"
"""What bounds the part of a critical path that is the CPU's."""
LATENCY_BOUND: Final = "latency"
BOUND_BY_CPU: Final = 0.5
"""Share of the critical path from which on a trace is called launch-bound."""


def class_table(projection: Projection, published: Projection) -> pd.DataFrame:
    """Return one row per class of kernels, the largest projected time first.

    Parameters
    ----------
    projection, published : Projection
        The one asked for, and that of the published methodology.

    Returns
    -------
    DataFrame
        `op_class`; `count`; `measured_us`, `published_us`, `projected_us` (sums over all activities, orphans included);
        `factor`, the last over the first; `law` and `bound`, those of the most projected time; `sigma`, of
        ln(factor), the root mean square weighted by time (NaN where nothing is known of any); `fallbacks`, activities
        whose law is not the one asked for.
    """
    rows = projection.activities.assign(op_class=class_of(projection.activities))
    rows["published_us"] = published.activities["projected_us"]
    rows["fallback"] = (rows[WHY].astype(object) != "").to_numpy()
    rows["weighted"] = rows["projected_us"] * rows[SIGMA] ** 2
    rows["known"] = rows["projected_us"].where(rows[SIGMA].notna(), 0.0)
    sums = rows.groupby("op_class", sort=True)[
        ["measured_us", "published_us", "projected_us", "fallback", "weighted", "known"]
    ].sum()
    table = sums.assign(count=rows.groupby("op_class", sort=True).size())
    table["factor"] = np.divide(
        table["projected_us"], table["measured_us"], out=np.full(len(table), np.nan), where=table["measured_us"] > 0
    )
    known = table["known"].to_numpy()
    table["sigma"] = np.sqrt(np.divide(table["weighted"], known, out=np.full(len(table), np.nan), where=known > 0))
    for name in (LAW, BOUND):
        table[name] = _most(rows, name)
    table = table.rename(columns={"fallback": "fallbacks"}).reset_index()
    order = [
        "op_class", "count", "measured_us", "published_us", "projected_us", "factor", "law", "bound", "sigma",
        "fallbacks",
    ]  # fmt: skip
    return table[order].sort_values("projected_us", ascending=False, kind="stable", ignore_index=True)


def _most(rows: pd.DataFrame, name: str) -> pd.Series:
    """Return for each class the value of a column that has the most projected time."""
    time = rows.groupby(["op_class", rows[name].astype(str)], sort=True)["projected_us"].sum().reset_index()
    first = time.sort_values("projected_us", ascending=False, kind="stable").drop_duplicates("op_class")
    return first.set_index("op_class")[name]


def fallback_table(projection: Projection) -> pd.DataFrame:
    """Return why laws other than the one asked for were used: `why`, `law`, `count`, `projected_us`; longest first."""
    rows = projection.activities
    other = rows[rows[WHY].astype(object) != ""]
    by = [other[name].astype(str) for name in (WHY, LAW)]
    table = other.groupby(by, sort=True)["projected_us"].agg(count="size", projected_us="sum").reset_index()
    return table.sort_values("projected_us", ascending=False, kind="stable", ignore_index=True)


def total_table(projection: Projection, published: Projection) -> pd.DataFrame:
    """Return the end-to-end time by every way of adding up.

    The columns are `aggregation`, `measured_us`, `published_us`, `projected_us`, and `factor`, the last over the first.
    Measured sums differ from the measured end-to-end time where activities overlap: they count overlap twice.
    """
    graph, counted = projection.graph, projection.counted
    busy = projection.busy_us
    measured = {
        SUM: float(graph.duration_ns[counted].sum()) / 1000.0 + projection.measured_us - busy,
        OVERLAP: projection.measured_us,
        REPLAY: projection.measured_us,
    }
    table = pd.DataFrame({"aggregation": list(AGGREGATIONS)})
    table["measured_us"] = table["aggregation"].map(measured)
    table["published_us"] = table["aggregation"].map(published.totals)
    table["projected_us"] = table["aggregation"].map(projection.totals)
    return table.assign(factor=table["projected_us"] / table["measured_us"])


def path_shares(path: pd.DataFrame) -> dict[str, float]:
    """Return the share of each kind of piece (`KINDS`) in a critical path, adding up to 1."""
    length = path["end_ns"] - path["begin_ns"]
    by_kind = length.groupby(path["kind"]).sum()
    return {kind: float(by_kind.get(kind, 0.0) / length.sum()) for kind in KINDS}


def cpu_share(path: pd.DataFrame) -> float:
    """Return the share of a critical path that no faster GPU shortens."""
    shares = path_shares(path)
    return sum(shares[kind] for kind in CPU_KINDS)


def verdict(projection: Projection) -> str:
    """Say in a sentence what bounds the trace on the target, against what bounded it on the host."""
    before, after = cpu_share(projection.measured_path), cpu_share(projection.path)
    words = (
        f"the CPU's work and launches are {100 * after:.0f} % of the critical path ({100 * before:.0f} % as measured)"
    )
    target = projection.target.name
    if after < BOUND_BY_CPU:
        return f"on {target} the GPU sets the pace: {words}"
    became = "becomes" if before < BOUND_BY_CPU else "stays"
    return f"on {target} the trace {became} launch-bound: {words}; a faster GPU does not shorten that part"


def gap_summary(projection: Projection) -> pd.DataFrame:
    """Return the measured gaps between activities of a queue by cause: `cause`, `count`, `gap_us`."""
    gaps = gap_table(projection.graph)
    found = gaps.groupby("cause")["gap_ns"].agg(["size", "sum"]).reindex(list(CAUSES)).fillna(0.0)
    return pd.DataFrame(
        {"cause": list(CAUSES), "count": found["size"].astype(int).to_numpy(), "gap_us": found["sum"].to_numpy() / 1e3}
    )


def step_table(projection: Projection) -> pd.DataFrame:
    """Return the steps of the trace; no row where it has none.

    The columns are `step`, and `measured_us` and `projected_us` from the first start to the last end of what was
    launched in it.
    """
    graph, times = projection.graph, projection.times
    step = projection.activities["step"].to_numpy(dtype=object, na_value=None)[graph.rows]
    chosen = np.array([value is not None for value in step], dtype=bool) & projection.counted
    if not chosen.any():
        return pd.DataFrame({"step": [], "measured_us": [], "projected_us": []})
    frame = pd.DataFrame(
        {
            "step": step[chosen].astype(np.int64),
            "start": graph.start_ns[chosen],
            "end": graph.end_ns[chosen],
            "new_start": times.start_ns[0][chosen],
            "new_end": times.end_ns[0][chosen],
        }
    )
    by_step = frame.groupby("step")
    measured = by_step["end"].max() - by_step["start"].min()
    projected = by_step["new_end"].max() - by_step["new_start"].min()
    return pd.DataFrame({"measured_us": measured / 1e3, "projected_us": projected / 1e3}).reset_index()


def outcome(projection: Projection) -> Mapping[str, Any]:
    """Return the results of a projection as `sweep` wants them.

    The shares are those of the critical path: activities by their bound, `LAUNCH` for the CPU's part, "latency" for
    gaps and what one queue waits for another.
    """
    path = projection.path
    length = (path["end_ns"] - path["begin_ns"]).to_numpy()
    bound = projection.activities[BOUND].astype(str).to_numpy()[projection.graph.rows]
    rows = path["row"].to_numpy()
    kind = path["kind"].to_numpy(dtype=object)
    what = np.where(kind == ACTIVITY, bound[rows], np.where(np.isin(kind, CPU_KINDS), LAUNCH, LATENCY_BOUND))
    share = pd.Series(length).groupby(what).sum() / length.sum()
    classes = projection.activities.groupby(class_of(projection.activities))["projected_us"].sum()
    return {
        END_TO_END: projection.projected_us,
        "time_us": {str(name): float(value) for name, value in classes.items()},
        "share": {str(name): float(value) for name, value in share.items()},
    }
