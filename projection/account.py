"""What a projection says, in tables: classes of kernels, laws, totals, gaps, steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.special import ndtri

from .critical import ACTIVITY, DELAY, GAP, LATENCY, RETURN, UNEXPLAINED, WORK
from .forecast import class_of, class_sigmas
from .graph import CAUSES, gap_table
from .kernel_laws import CORRECTED, MODEL
from .replay import AGGREGATIONS, OVERLAP, REPLAY, SUM
from .split import COMMUNICATION
from .sweep import END_TO_END
from .whole_trace import BOUND, CATEGORY, LAW, WHY, FloatArray, Projection

# What sets the pace of a trace: the parts of its critical path, the kernels on it, and whether the CPU holds it up.

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


LAUNCH: Final = "launch"
"""What bounds the part of a critical path that is the CPU's."""
LATENCY_BOUND: Final = "latency"


def class_table(
    projection: Projection, published: Projection, stated: Mapping[str, float] | None = None, *, level: float = 0.9
) -> pd.DataFrame:
    """Return one row per class of kernels, the largest projected time first.

    Parameters
    ----------
    projection, published : Projection
        The one asked for, and that of the published methodology.
    stated : mapping of str to float, optional
        Uncertainties that the user states (`forecast.sources_of`).
    level : float, default=0.9
        Of the interval of each class.

    Returns
    -------
    DataFrame
        `op_class`; `count`; `measured_us`, `published_us`, `projected_us` (sums over all activities, orphans included);
        `lower_us`, `upper_us`, the quantiles of the class's own factor around the last; `factor`, projected over
        measured; `law` and `bound`, those of the most projected time; `sigma` and `basis` (`forecast.class_sigmas`);
        `fallbacks`, activities whose law is not the one asked for.
    """
    rows = projection.activities.assign(op_class=class_of(projection.activities))
    rows["published_us"] = published.activities["projected_us"]
    rows["fallbacks"] = other_law(projection)
    by_class = rows.groupby("op_class", sort=True)
    table = by_class[["measured_us", "published_us", "projected_us", "fallbacks"]].sum().assign(count=by_class.size())
    table["factor"] = np.divide(
        table["projected_us"], table["measured_us"], out=np.full(len(table), np.nan), where=table["measured_us"] > 0
    )
    for name in (LAW, BOUND):
        table[name] = _most(rows, name)
    table = table.join(class_sigmas(projection, stated).set_index("op_class")).reset_index()
    reach = np.exp(float(ndtri((1 + level) / 2)) * table["sigma"])
    table["lower_us"], table["upper_us"] = table["projected_us"] / reach, table["projected_us"] * reach
    order = [
        "op_class", "count", "measured_us", "published_us", "projected_us", "lower_us", "upper_us", "factor", "law",
        "bound", "sigma", "basis", "fallbacks",
    ]  # fmt: skip
    return table[order].sort_values("projected_us", ascending=False, kind="stable", ignore_index=True)


def _most(rows: pd.DataFrame, name: str) -> pd.Series:
    """Return for each class the value of a column that has the most projected time."""
    time = rows.groupby(["op_class", rows[name].astype(str)], sort=True)["projected_us"].sum().reset_index()
    first = time.sort_values("projected_us", ascending=False, kind="stable").drop_duplicates("op_class")
    return first.set_index("op_class")[name]


def other_law(projection: Projection) -> np.ndarray:
    """Return which activities go by another law than the one asked for, shape (n_activities,)."""
    rows, laws = projection.activities, projection.laws
    asked = np.where(rows[CATEGORY] == COMMUNICATION, laws.communication, MODEL if laws.run else laws.compute)
    return rows[LAW].astype(str).str.removesuffix(CORRECTED).to_numpy() != asked


def remark_table(projection: Projection) -> pd.DataFrame:
    """Return what the laws say of how they were applied, and why others were used, the longest time first.

    The columns are `why`; `law`, the one used; `other`, whether another one was asked for; `count`; `projected_us`.
    """
    rows = projection.activities.assign(other=other_law(projection))
    told = rows[(rows[WHY].astype(object) != "") | rows["other"]]
    by = [told[WHY].astype(str), told[LAW].astype(str), told["other"]]
    table = told.groupby(by, sort=True)["projected_us"].agg(count="size", projected_us="sum").reset_index()
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
    step = projection.activities["step"].iloc[graph.rows]
    chosen = step.notna().to_numpy(dtype=bool) & projection.counted
    if not chosen.any():
        return pd.DataFrame({"step": [], "measured_us": [], "projected_us": []})
    frame = pd.DataFrame(
        {
            "step": step[chosen].to_numpy(dtype=np.int64),
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
