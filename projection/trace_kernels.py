"""Every kernel of a projected trace, those whose work is unknown, and what the CPU does on the critical path."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from ..operators.operators import OPS
from ..traces.activity_work import UNKNOWN as UNKNOWN_OP
from ..traces.activity_work import WORDS
from ..traces.classes import COMPUTE
from .phases import repeats_of
from .replay import WORK
from .result import critical_us
from .uncertainty import class_of
from .whole_trace import BOUND, CATEGORY, LAW, WHY, Projection

SUMS: Final = ("measured_us", "projected_us", "critical_us")


def kernel_table(projection: Projection) -> pd.DataFrame:
    """Return one row per kind of activity (name, shape, law), the largest projected time first.

    The columns are `name`, `op_class`, `op` with its formats and dimensions, `law`, `bound`, `why` (of the first),
    `sigma` (the greatest), `source` (of the first); `count`, `measured_us`, `projected_us`, `critical_us`, summed;
    `unknown`, whether its work is not known.
    """
    rows = projection.activities
    rows = rows.assign(critical_us=critical_us(projection), op_class=class_of(rows), unknown=unknown_work(projection))
    rows = rows.assign(repeats=repeats_of(rows))
    dims = dict.fromkeys(name for op in OPS.values() if op.name != UNKNOWN_OP for name in op.dims)
    keys = [name for name in ("name", "kind", LAW, BOUND, *WORDS, *dims) if name in rows]
    code = rows.groupby(keys, dropna=False, observed=True, sort=False).ngroup()
    by = rows.groupby(code)
    first = rows.assign(code=code).drop_duplicates("code").set_index("code")
    found = first[[*dict.fromkeys([*keys, "op_class", WHY, "source", "unknown"])]].assign(
        count=by["repeats"].sum().round().astype("int64"), sigma=by["sigma"].max()
    )
    found[list(SUMS)] = by[list(SUMS)].sum()
    return found.sort_values("projected_us", ascending=False, kind="stable", ignore_index=True)


def unknown_work(projection: Projection) -> np.ndarray:
    """Return which activities compute something nobody knows the work of, shape (n_activities,)."""
    rows = projection.activities
    computes = rows[CATEGORY].astype(str).eq(COMPUTE) & rows["kind"].astype(str).eq("kernel")
    return (computes & rows[BOUND].astype(str).eq("")).to_numpy(dtype=bool)


def cpu_operations(projection: Projection) -> pd.DataFrame:
    """Return what the CPU works for on the critical path of the target, the longest time first.

    The CPU's work up to the end of a call counts for the operator whose activity that call launches; of a call that
    launches none, for the call. The columns are `name`, `count` of calls replayed, `path_us`, and `share` of the path.
    """
    graph, path = projection.target_graph, projection.path
    work = path[path["kind"] == WORK]
    if not len(graph.calls) or work.empty:
        return pd.DataFrame({"name": [], "count": [], "path_us": [], "share": []})
    names = np.array(graph.calls.names, dtype=object)
    launched = np.flatnonzero(graph.call >= 0)
    operators = projection.activities["op_name"].astype(object).fillna("").astype(str).to_numpy()[graph.rows]
    own = operators[launched] != ""
    names[graph.call[launched[own]]] = operators[launched[own]]
    ends = projection.times.call_ns(graph)[0] + graph.calls.duration_ns * projection.cpu
    order = np.argsort(ends, kind="stable")
    edges = ends[order]
    pieces = []
    for begin, end, length in work[["begin_ns", "end_ns", "length_ns"]].to_numpy():
        inside = slice(np.searchsorted(edges, begin, side="right"), np.searchsorted(edges, end, side="left") + 1)
        calls = order[inside]
        if not len(calls):
            pieces.append(pd.DataFrame({"name": ["after the last call"], "path_us": [length / 1e3]}))
            continue
        until = np.minimum(edges[inside], end)
        until[-1] = end
        own_ns = np.diff(until, prepend=begin) * length / (end - begin)
        pieces.append(pd.DataFrame({"name": names[calls], "path_us": own_ns / 1e3}))
    found = pd.concat(pieces).groupby("name")["path_us"].agg(count="size", path_us="sum").reset_index()
    length_us = float(path["length_ns"].sum()) / 1e3
    return found.assign(share=found["path_us"] / length_us).sort_values(
        "path_us", ascending=False, kind="stable", ignore_index=True
    )
