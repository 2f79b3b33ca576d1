"""Long times in which nothing runs: idle ends of a trace, which are cut, and gaps that lead its end-to-end time.

A long gap is at least `LONG` of the end-to-end time. Where next to nothing ran before it (`SLIGHT`
of the time of all activities) it is an idle head, where next to nothing ran after it an idle tail:
what lies beyond is left out of the end-to-end time (`with_ends_cut`). Others stay and are named,
with the times without them (`long_gaps`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from ..arrays import FloatArray, IntArray
from ..remarks import Remark, remark
from ..traces.summary import Annotated
from .graph import gap_table
from .phases import CUT, counted_of
from .whole_trace import Projection

LONG: Final = 0.1
SLIGHT: Final = 0.01
_NAMED: Final = 3  # gaps that are named


def with_ends_cut(trace: Annotated) -> tuple[Annotated, tuple[Remark, ...]]:
    """Return the trace with what lies before an idle head and after an idle tail marked (`phases.CUT`), and what it is.

    The remarks are ``idle-head`` and ``idle-tail``, with `idle_us` and the number and time of the
    activities cut.
    """
    table = trace.dispatches
    rows = np.flatnonzero(counted_of(table))
    start = table["start_ns"].to_numpy(dtype=np.int64)[rows]
    duration = np.maximum(table["duration_ns"].to_numpy(dtype=np.int64)[rows], 0)
    order = np.argsort(start, kind="stable")
    rows = rows[order]
    start = start[order]
    duration = duration[order]
    cut = np.zeros(len(table), dtype=bool)
    counted = len(rows)
    remarks = []
    head, idle = _head(start, duration)
    if head:
        cut[rows[:head]] = True
        text, values = _cut_end("before", idle, duration[:head], counted)
        remarks.append(remark("idle-head", text, **values))
        rows = rows[head:]
        start = start[head:]
        duration = duration[head:]
    tail, idle = _tail(start, duration)
    if tail < len(rows):
        cut[rows[tail:]] = True
        text, values = _cut_end("after", idle, duration[tail:], counted)
        remarks.append(remark("idle-tail", text, **values))
    if not remarks:
        return trace, ()
    return replace(trace, dispatches=table.assign(**{CUT: cut})), tuple(remarks)


def _gaps(start: IntArray, duration: IntArray) -> IntArray:
    """Return how long nothing ran before each activity but the first; starts ascend."""
    reach = np.maximum.accumulate(start + duration)
    return np.maximum(start[1:] - reach[:-1], 0)


def _head(start: IntArray, duration: IntArray) -> tuple[int, int]:
    """Return how many activities lie before an idle head, 0 where there is none, and how long it is."""
    if len(start) < 2:
        return 0, 0
    gaps = _gaps(start, duration)
    span = int((start + duration).max() - start[0])
    passed = np.cumsum(duration)
    is_long = (gaps >= LONG * span) & (gaps > 0)
    is_early = passed[:-1] <= SLIGHT * passed[-1]
    ends = np.flatnonzero(is_long & is_early)
    if not len(ends):
        return 0, 0
    last = int(ends[-1])
    return last + 1, int(gaps[last])


def _tail(start: IntArray, duration: IntArray) -> tuple[int, int]:
    """Return the first activity behind an idle tail, their number where there is none, and how long it is."""
    if len(start) < 2:
        return len(start), 0
    gaps = _gaps(start, duration)
    span = int((start + duration).max() - start[0])
    passed = np.cumsum(duration)
    left = passed[-1] - passed[:-1]
    ends = np.flatnonzero((gaps >= LONG * span) & (gaps > 0) & (left <= SLIGHT * passed[-1]))
    if not len(ends):
        return len(start), 0
    first = int(ends[0])
    return first + 1, int(gaps[first])


def _cut_end(
    side: str, idle_ns: int, duration_ns: IntArray, count: int
) -> tuple[str, dict[str, float]]:
    """Return the text on an idle end, and its values."""
    cut = len(duration_ns)
    time_us = float(duration_ns.sum()) / 1e3
    ran = f"{cut:,} of {count:,} activities ran {side} it, for {time_us:,.4g} µs"
    text = (
        f"an idle stretch of {idle_ns / 1e6:,.4g} ms is left out of the end-to-end time: {ran}, "
        "left out too"
    )
    return text, {"idle_us": idle_ns / 1e3, "activities": cut, "time_us": time_us}


def long_gaps(projection: Projection) -> list[Remark]:
    """Return remarks on the long gaps of a trace, and the times without them (``long-gap``); none of a folded trace.

    The values are `gaps`, their number; `gap_us` and `projected_gap_us` of all; `measured_us`,
    `projected_us` and `ratio` without them.
    """
    if projection.folded:
        return []
    graph = projection.graph
    counted = np.flatnonzero(projection.counted)
    order = counted[np.argsort(graph.start_ns[counted], kind="stable")]
    if len(order) < 2:
        return []
    gaps = _between(graph.start_ns[order], graph.end_ns[order])
    measured_us = projection.measured_us
    projected_us = projection.projected_us
    places = np.flatnonzero(gaps >= LONG * 1e3 * measured_us)
    places = places[np.argsort(-gaps[places], kind="stable")]
    if not len(places):
        return []
    later = _between(projection.times.start_ns[0][order], projection.times.end_ns[0][order])
    gap_us = float(gaps[places].sum()) / 1e3
    projected_gap_us = float(later[places].sum()) / 1e3
    rest_us = measured_us - gap_us
    rest_projected_us = projected_us - projected_gap_us
    ratio = rest_projected_us / rest_us
    text = (
        f"{_named(projection, order, gaps, places)}: {100 * gap_us / measured_us:.0f} % of the "
        "measured time; without "
        f"{rest_us / 1e3:,.4g} ms → {rest_projected_us / 1e3:,.4g} ms, ratio {ratio:.3f}"
    )
    values = {"gap_us": gap_us, "projected_gap_us": projected_gap_us, "measured_us": rest_us}
    return [
        remark(
            "long-gap",
            text,
            gaps=len(places),
            **values,
            projected_us=rest_projected_us,
            ratio=ratio,
        )
    ]


def _between(start: FloatArray, end: FloatArray) -> FloatArray:
    """Return how long nothing ran between the activities up to each and those after it, in the order given."""
    reach = np.maximum.accumulate(end)
    first = np.minimum.accumulate(start[::-1])[::-1]
    return np.maximum(first[1:] - reach[:-1], 0.0)


def _named(projection: Projection, order: IntArray, gaps: FloatArray, places: IntArray) -> str:
    """Return the longest gaps in words: how long, after what, and why as far as the trace says."""
    table = gap_table(projection.graph).set_index("row")["cause"]
    names = projection.activities["name"].astype(str).to_numpy()[projection.graph.rows]
    said: list[str] = []
    for place in places[:_NAMED].tolist():
        cause = table.get(int(order[place + 1]), "unexplained")
        after = f"after activity {place + 1:,}, {names[order[place]][:48]}"
        said.append(f"{gaps[place] / 1e6:,.4g} ms {after} ({cause})")
    if len(places) > _NAMED:
        said.append(f"and {len(places) - _NAMED} more")
    return (
        f"{len(places)} gap{'s' if len(places) > 1 else ''} in which nothing ran, {'; '.join(said)}"
    )
