"""Every kernel of a trace on another GPU, those whose work is unknown, and what the CPU does on the critical path."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from ..operators.operators import OPS
from ..projection.phases import repeats_of
from ..projection.replay import WORK
from ..projection.result import critical_us
from ..projection.uncertainty import class_of
from ..projection.whole_trace import BOUND, CATEGORY, LAW, WHY, Projection
from ..traces.activity_work import UNKNOWN as UNKNOWN_OP
from ..traces.activity_work import WORDS
from ..traces.classes import COMPUTE
from .document import Column, Listing, columns
from .formats import counted, formatted, share, significant
from .predictions import workload
from .words.projection import say_all

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


BOUNDS = {"": "unknown"}


def unknown(kernels: pd.DataFrame) -> list[str]:
    """Say how much of the projected time is of kernels whose work is not known; nothing where there is none."""
    own, total = kernels[kernels["unknown"]], float(kernels["projected_us"].sum())
    if own.empty or not total:
        return []
    part = share(float(own["projected_us"].sum()) / total)
    count = counted(int(own["count"].sum()), "kernel")
    return [
        f"{part} of the projected time of activities is of {count} whose work is not known: a law has only their time"
    ]


def unknown_json(kernels: pd.DataFrame) -> dict[str, Any]:
    """Return the same as JSON types, with the kernels by name."""
    own, total = kernels[kernels["unknown"]], float(kernels["projected_us"].sum())
    by = own.groupby("name", sort=False, observed=True)[["count", "measured_us", "projected_us"]].sum().reset_index()
    part = float(own["projected_us"].sum()) / total if total else 0.0
    return {"share": part, "kernels": records(by)}


def kernel_listing(kernels: pd.DataFrame, name: str, total: float) -> Listing:
    """List kinds of activities with all that is known of each, and their share of a total."""
    heads = (
        Column("kernel", "cut"), Column("class"), *columns(numbers=("count", "measured, µs", "projected, µs")),
        Column("share", "number"), Column("ratio", "number"), Column("± 1 σ", "number"),
        Column("on critical path, µs", "number"), Column("bound"), Column("law"), Column("work"), Column("because"),
        Column("file and line", "place"),
    )  # fmt: skip

    def texts() -> list[list[str]]:
        rows = [
            (
                str(row["name"]), str(row["op_class"]), f"{row['count']:,}", significant(row["measured_us"]),
                significant(row["projected_us"]), share(row["projected_us"] / total if total else None, 2),
                formatted(row["projected_us"] / row["measured_us"] if row["measured_us"] else None, "{:.3f}"),
                spread(row["sigma"]), significant(row["critical_us"]), BOUNDS.get(str(row["bound"]), str(row["bound"])),
                str(row["law"]), _work(row), say_all(row["why"]), str(row["source"]),
            )
            for row in kernels.to_dict("records")
        ]  # fmt: skip
        return [list(column) for column in zip(*rows, strict=True)] if rows else [[]]

    caption = (
        "ratio: projected / measured; share: of the projected time of all activities; ± 1 σ: how far the law errs, "
        "relative, – where it is not known; file and line: of the first of its kind."
    )
    return Listing(heads, texts, name, caption)


def _work(row: dict[Any, Any]) -> str:
    return "unknown" if row["unknown"] or str(row["op"]) in ("", "kernel") else workload(row)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table as JSON types."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def spread(sigma: float) -> str:
    """Return the relative standard deviation of a factor, as users state it (`uncertainty.parse_sigmas`)."""
    return formatted(100 * np.sqrt(np.expm1(sigma**2)), "{:.0f} %")
