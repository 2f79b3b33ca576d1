"""Three ways to add up a trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.projection.graph import Graph, build
from flopcast.projection.replay import own_time, replay, totals_us
from flopcast.traces.dispatches import dispatch_table, empty_calls
from flopcast.traces.quality import busy_ns

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(0, 2)), min_size=1, max_size=25)


def totals_of(
    graph: Graph, projected_ns: np.ndarray, rank: np.ndarray, counted: np.ndarray, idle: float = 1.0
) -> dict[str, float]:
    own = own_time(graph.start_ns[counted], graph.duration_ns[counted], rank[counted])
    return totals_us(graph, projected_ns, own, counted, replay(graph, projected_ns), idle=idle)


def graph_of(rows: list[tuple[int, int, int]]) -> Graph:
    table = dispatch_table(
        {
            "kind": "kernel",
            "name": "k",
            "start_ns": [start for start, _, _ in rows],
            "duration_ns": [length for _, length, _ in rows],
            "stream": [stream for *_, stream in rows],
        }
    )
    return build(table, empty_calls())


@given(INTERVALS)
def test_own_times_cover_the_busy_time_once_and_the_lower_rank_first(rows: list[tuple[int, int, int]]) -> None:
    start, duration, rank = (np.array(column) for column in zip(*rows, strict=True))
    own = own_time(start.astype(float), duration.astype(float), rank)
    table = dispatch_table({"kind": "kernel", "name": "k", "start_ns": start, "duration_ns": duration})
    assert (own >= 0).all()
    assert own.sum() == busy_ns(table)
    for level in range(3):
        assert own[rank <= level].sum() == busy_ns(table[rank <= level])


def test_what_is_hidden_is_put_down_to_what_hides_it() -> None:
    start, duration = np.array([0.0, 5.0, 8.0]), np.array([10.0, 10.0, 20.0])
    assert own_time(start, duration, np.array([0, 1, 2])).tolist() == [10.0, 5.0, 13.0]
    assert own_time(start, duration, np.array([2, 1, 0])).tolist() == [5.0, 3.0, 20.0]


@given(INTERVALS)
def test_nothing_changes_where_nothing_changes(rows: list[tuple[int, int, int]]) -> None:
    graph = graph_of(rows)
    everything = np.ones(len(graph), dtype=bool)
    rank = np.zeros(len(graph), dtype=np.int64)
    totals = totals_of(graph, graph.duration_ns, rank, everything)
    span = (graph.end_ns.max() - graph.start_ns.min()) / 1000
    assert totals["overlap"] == pytest.approx(span)
    assert totals["replay"] == pytest.approx(span)
    assert totals["sum"] >= totals["overlap"] - 1e-12


def test_each_way_counts_overlap_as_it_says() -> None:
    """Two queues: 0-100 computes, 50-150 communicates; then 50 idle, then 20 more."""
    graph = graph_of([(0, 100, 0), (50, 100, 1), (200, 20, 0)])
    everything = np.ones(3, dtype=bool)
    rank = np.array([0, 1, 0])
    totals = totals_of(graph, np.array([50.0, 100.0, 20.0]), rank, everything)
    assert totals["sum"] == pytest.approx((50 + 100 + 20 + 50) / 1000)
    assert totals["overlap"] == pytest.approx((50 + 50 + 20 + 50) / 1000)
    assert totals["replay"] == pytest.approx(170 / 1000)  # without calls nothing ties the queues: 50, gap 100, 20
    halved = totals_of(graph, np.array([50.0, 100.0, 20.0]), rank, everything, idle=0.5)
    assert totals["sum"] - halved["sum"] == pytest.approx(25 / 1000)


def test_what_does_not_count_still_holds_up() -> None:
    graph = graph_of([(0, 100, 0), (110, 50, 0)])
    counted = np.array([False, True])
    totals = totals_of(graph, np.array([10.0, 50.0]), np.zeros(2, dtype=np.int64), counted)
    assert totals == pytest.approx({"sum": 0.05, "overlap": 0.05, "replay": 0.05})
