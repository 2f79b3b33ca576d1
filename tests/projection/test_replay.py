"""A replay with the measured durations is the measurement; with others it is what the machine would have done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flopcast.projection.graph import CAUSES, Graph, build, gap_table
from flopcast.projection.replay import (
    Times,
    attributed_time,
    critical_path,
    replay,
    spans_us,
    totals_us,
)
from flopcast.tests.projection.oracles.programs import RETURN_NS, Recording, Step, run
from flopcast.traces.dispatches import call_table, dispatch_table, empty_calls
from flopcast.traces.quality import busy_ns
from flopcast.traces.summary import Annotated

WORK = st.integers(0, 60_000)
DURATION = st.integers(1, 90_000)
LAUNCH = st.builds(Step, work_ns=WORK, queue=st.just(0), duration_ns=DURATION)
SYNC = st.builds(Step, work_ns=WORK, queue=st.just(-1))
PROGRAM = st.lists(st.one_of(LAUNCH, LAUNCH, LAUNCH, SYNC), min_size=1, max_size=30).filter(
    lambda steps: any(step.queue >= 0 for step in steps)
)


def durations_of(steps: list[Step]) -> list[int]:
    return [step.duration_ns for step in steps if step.queue >= 0]


def settled(steps: list[Step]) -> list[Step]:
    """Return the program after a prologue that shows the usual latency and the usual gap."""
    prologue = [Step(40_000, 0, 500)] * 40 + [Step(0, 0, 50_000)] * 40 + [Step(0, -1)]
    return [*prologue, *steps]


@settings(max_examples=30)
@given(PROGRAM)
def test_the_measured_durations_give_the_measured_times(steps: list[Step]) -> None:
    recording = run(steps, durations_of(steps))
    graph = build(recording.activities, recording.calls)
    times = replay(graph, graph.duration_ns)
    np.testing.assert_array_equal(times.start_ns[0], graph.start_ns)
    np.testing.assert_array_equal(times.end_ns[0], graph.end_ns)


def as_categories(recording: Recording) -> bool:
    """Say whether each wait that saw the GPU end came back for that reason: a trace does not tell it from its cost."""
    activities, calls = recording.activities, recording.calls
    ends = np.sort(activities["start_ns"] + activities["duration_ns"])
    waits = calls[calls["name"] == "hipDeviceSynchronize"]
    back = (waits["start_ns"] + waits["duration_ns"]).to_numpy()
    last = ends[np.searchsorted(ends, back, side="right") - 1]
    return bool((back - last)[last > waits["start_ns"]].max(initial=0) <= RETURN_NS)


@given(PROGRAM, st.floats(0.05, 20.0), st.floats(0.2, 5.0))
def test_other_durations_and_another_cpu_give_what_the_machine_would_do(
    steps: list[Step], factor: float, cpu: float
) -> None:
    program = settled(steps)
    slow = [max(1, round(factor * duration)) for duration in durations_of(program)]
    recording = run(program, durations_of(program))
    assume(as_categories(recording))
    truth = run(program, slow, cpu)
    graph = build(recording.activities, recording.calls)
    times = replay(graph, np.array(slow, dtype=float)[graph.rows], cpu)
    first = truth.activities["start_ns"].to_numpy()[graph.rows]
    # the beginning of the first stretch of work is fixed where it was measured
    shift = times.start_ns[0, 0] - first[0]
    np.testing.assert_allclose(times.start_ns[0] - shift, first, atol=3.0)


def test_a_queue_that_waits_for_another_goes_on_waiting() -> None:
    steps = [Step(1_000, 0, 300_000), Step(1_000, 1, 20_000, after=0), Step(1_000, 0, 5_000)]
    recording = run(steps, durations_of(steps))
    graph = build(recording.activities, recording.calls)
    assert graph.cause.tolist()[-1] == "dependency"
    shorter = [100_000, 20_000, 5_000]
    truth = run(steps, shorter).activities.sort_values("start_ns")
    order = recording.activities["start_ns"].argsort().to_numpy()
    times = replay(graph, np.array(shorter, dtype=float)[order])
    expected = dict(zip(truth["name"], truth["start_ns"] - truth["start_ns"].min(), strict=True))
    names = recording.activities["name"].to_numpy()[graph.rows]
    assert dict(zip(names, times.start_ns[0], strict=True)) == pytest.approx(expected)


def test_samples_are_replays_of_their_own() -> None:
    steps = settled([Step(1_000, 0, 40_000), Step(0, -1), Step(5_000, 0, 70_000)])
    recording = run(steps, durations_of(steps))
    graph = build(recording.activities, recording.calls)
    factors = np.array([[0.5], [1.0], [3.0]])
    cpu = np.array([1.0, 0.5, 2.0])
    together = replay(graph, factors * graph.duration_ns, cpu)
    for sample in range(3):
        alone = replay(graph, factors[sample] * graph.duration_ns, float(cpu[sample]))
        np.testing.assert_array_equal(together.end_ns[sample], alone.end_ns[0])
    groups = np.zeros(len(graph), dtype=np.int64)
    found = spans_us(graph, graph.duration_ns, factors, groups, cpu, Times.span_us)
    np.testing.assert_array_equal(found, together.span_us())


def test_without_calls_gaps_are_kept() -> None:
    table = dispatch_table(
        {
            "kind": "kernel",
            "name": "k",
            "start_ns": [0, 20, 50],
            "duration_ns": [10, 20, 5],
            "stream": 0,
        }
    )
    graph = build(table, empty_calls())
    times = replay(graph, np.array([100.0, 1.0, 5.0]))
    assert times.start_ns[0].tolist() == [0.0, 110.0, 121.0]


def test_what_overlaps_on_a_queue_keeps_its_share() -> None:
    table = dispatch_table(
        {"kind": "kernel", "name": "k", "start_ns": [0, 25], "duration_ns": [100, 10], "stream": 0}
    )
    graph = build(table, empty_calls())
    assert replay(graph, np.array([200.0, 10.0])).start_ns[0].tolist() == [0.0, 50.0]


def test_a_thread_that_paused_for_another_goes_on_after_it() -> None:
    """A forward pass on one thread, a backward pass on another, then the first again."""
    launched = [("main", 0, 0), ("main", 10, 1), ("back", 40, 2), ("back", 60, 3), ("main", 100, 4)]
    calls = call_table(
        {
            "name": ["hipLaunchKernel"] * 5 + ["hipDeviceSynchronize"],
            "start_ns": [1000 * at for _, at, _ in launched] + [16_000],
            "duration_ns": [1000] * 5 + [14_000],
            "process": [1] * 6,
            "thread": [0 if name == "main" else 1 for name, _, _ in launched] + [0],
            "correlation": [number for *_, number in launched] + [99],
        }
    )
    starts = [2_000, 12_000, 42_000, 62_000, 102_000]
    table = dispatch_table(
        {"kind": "kernel", "name": "k", "start_ns": starts, "duration_ns": [1_000, 16_000, 5_000, 5_000, 5_000],
         "stream": 0, "process": 1, "correlation": range(5), "linked": True}
    )  # fmt: skip
    graph = build(table, calls)
    assert len(set(graph.calls.run[[0, 1]])) == 1
    # the wait for the second kernel ends 10 us earlier, and so does everything after it, on both threads
    times = replay(graph, np.array([1_000.0, 6_000.0, 5_000.0, 5_000.0, 5_000.0]))
    moved = graph.start_ns - times.start_ns[0]
    assert moved[:2].tolist() == [0.0, 0.0]
    assert moved[2] == moved[3] == moved[4] > 0


def test_activities_that_do_not_fit_are_refused() -> None:
    table = dispatch_table(
        {"kind": "kernel", "name": "k", "start_ns": [0], "duration_ns": [1], "stream": 0}
    )
    graph = build(table, empty_calls())
    with pytest.raises(ValueError, match=r"2 .*1 "):
        replay(graph, np.ones(2))
    with pytest.raises(ValueError, match="not a number"):
        replay(graph, np.array([np.nan]))


@pytest.mark.long
def test_shared_traces_replay_to_themselves_and_have_a_path_as_long(
    shared_data: Path, kineto: Callable[[str], Annotated]
) -> None:
    found = 0
    for path in (shared_data / "profiles" / "kineto").glob("pairs_*/*.json.gz"):
        label = f"{path.parent.name}/{path.name.removesuffix('.json.gz')}"
        trace = kineto(label)
        if trace.dispatches.empty:
            continue
        graph = build(trace.dispatches, trace.calls)
        times = replay(graph, graph.duration_ns)
        assert np.abs(times.start_ns[0] - graph.start_ns).max() < 0.5, label
        linked = trace.dispatches["linked"].to_numpy(dtype=bool)[graph.rows]
        rows = trace.dispatches.iloc[graph.rows][linked]
        span = (
            (rows["start_ns"] + rows["duration_ns"]).max() - rows["start_ns"].min()
            if linked.any()
            else pd.NA
        )
        if linked.any():
            assert times.span_us(linked)[0] == pytest.approx(span / 1000, rel=1e-9), label
        path, gaps = critical_path(graph, times), gap_table(graph)
        assert path["end_ns"].iloc[-1] == pytest.approx(graph.end_ns.max()), label
        hole = np.abs(path["begin_ns"].to_numpy()[1:] - path["end_ns"].to_numpy()[:-1]).max(
            initial=0.0
        )
        assert hole < 1.0, label
        assert set(gaps["cause"]) <= set(CAUSES)
        assert (gaps["gap_ns"] > 0).all()
        found += 1
    assert found >= 9


def test_a_queue_without_launches_follows_what_ended_before_it_on_its_device() -> None:
    starts = [100.0 * number for number in range(20)] + [1_900.0]
    table = dispatch_table(
        {"kind": "kernel", "name": "k", "device": "MI300X", "gpu": 0, "start_ns": starts, "duration_ns": 99,
         "stream": [0] * 20 + [1]}
    )  # fmt: skip
    graph = build(table, empty_calls())
    assert replay(graph, graph.duration_ns / 2).span_us()[0] == pytest.approx(
        (20 * 49.5 + 18 + 1 + 49.5) / 1000, abs=0.06
    )


def launched(
    names: list[str], threads: list[int], begin: list[int], duration: list[int]
) -> pd.DataFrame:
    """Return calls in microseconds; each has the correlation of its place."""
    return call_table(
        {
            "name": names,
            "start_ns": [1000 * value for value in begin],
            "duration_ns": [1000 * value for value in duration],
            "process": [1] * len(names),
            "thread": threads,
            "correlation": list(range(len(names))),
        }
    )


def activities(
    kinds: list[str], names: list[str], begin: list[int], duration: list[int], places: list[int]
) -> pd.DataFrame:
    """Return activities in microseconds that the calls at the places launched."""
    return dispatch_table(
        {"kind": kinds, "name": names, "start_ns": [1000 * value for value in begin], "stream": 0, "process": 1,
         "duration_ns": [1000 * value for value in duration], "correlation": places, "linked": True}
    )  # fmt: skip


def test_an_asynchronous_fill_that_ends_in_time_by_chance_is_no_wait() -> None:
    calls = launched(
        ["hipLaunchKernel", "hipMemsetAsync", "hipLaunchKernel"], [0, 0, 0], [0, 40, 60], [5, 12, 5]
    )
    table = activities(
        ["kernel", "memset", "kernel"], ["k", "Memset", "k"], [10, 48, 70], [20, 2, 5], [0, 1, 2]
    )
    graph = build(table, calls)
    times = replay(graph, np.array([500_000.0, 2_000.0, 5_000.0]))
    assert times.call_ns(graph)[0].tolist() == graph.calls.start_ns.tolist()


def test_a_call_of_another_thread_does_not_make_a_thread_forget_its_wait() -> None:
    names = ["hipLaunchKernel", "hipStreamSynchronize", "hipLaunchKernel", "hipLaunchKernel"]
    calls = launched(names, [0, 0, 1, 0], [0, 10, 118, 120], [5, 106, 1, 5])
    table = activities(["kernel"] * 3, ["k"] * 3, [10, 130, 140], [100, 5, 5], [0, 2, 3])
    graph = build(table, calls)
    later = replay(graph, np.array([300_000.0, 5_000.0, 5_000.0])).start_ns[0] - graph.start_ns
    assert later[2] == pytest.approx(200_000)


INTERVALS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 30), st.integers(0, 2)), min_size=1, max_size=25
)


def totals_of(
    graph: Graph, projected_ns: np.ndarray, rank: np.ndarray, counted: np.ndarray, idle: float = 1.0
) -> dict[str, float]:
    own = attributed_time(graph.start_ns[counted], graph.duration_ns[counted], rank[counted])
    start, duration = graph.start_ns[counted], graph.duration_ns[counted]
    measured_us = float((start + duration).max() - start.min()) / 1000
    replayed_us = float(replay(graph, projected_ns).span_us(counted)[0])
    return totals_us(
        duration, projected_ns[counted], own, np.ones(len(own)), measured_us, replayed_us, idle=idle
    )


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
def test_own_times_cover_the_busy_time_once_and_the_lower_rank_first(
    rows: list[tuple[int, int, int]],
) -> None:
    start, duration, rank = (np.array(column) for column in zip(*rows, strict=True))
    own = attributed_time(start.astype(float), duration.astype(float), rank)
    table = dispatch_table(
        {"kind": "kernel", "name": "k", "start_ns": start, "duration_ns": duration}
    )
    assert (own >= 0).all()
    assert own.sum() == busy_ns(table)
    for level in range(3):
        assert own[rank <= level].sum() == busy_ns(table[rank <= level])


def test_what_is_hidden_is_put_down_to_what_hides_it() -> None:
    start, duration = np.array([0.0, 5.0, 8.0]), np.array([10.0, 10.0, 20.0])
    assert attributed_time(start, duration, np.array([0, 1, 2])).tolist() == [10.0, 5.0, 13.0]
    assert attributed_time(start, duration, np.array([2, 1, 0])).tolist() == [5.0, 3.0, 20.0]


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
    # without calls nothing ties the queues: 50, gap 100, 20
    assert totals["replay"] == pytest.approx(170 / 1000)
    halved = totals_of(graph, np.array([50.0, 100.0, 20.0]), rank, everything, idle=0.5)
    assert totals["sum"] - halved["sum"] == pytest.approx(25 / 1000)


def test_what_does_not_count_still_holds_up() -> None:
    graph = graph_of([(0, 100, 0), (110, 50, 0)])
    counted = np.array([False, True])
    totals = totals_of(graph, np.array([10.0, 50.0]), np.zeros(2, dtype=np.int64), counted)
    assert totals == pytest.approx({"sum": 0.05, "overlap": 0.05, "replay": 0.05})
