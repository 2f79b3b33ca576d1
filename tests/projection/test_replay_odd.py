"""Replays of tables that no machine would write: random times, clocks that disagree, ties, several processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.projection.graph import Graph, build
from flopcast.projection.replay import Times, critical_path, replay
from flopcast.traces.dispatches import call_table, dispatch_table, empty_calls

NAMES = (
    "hipLaunchKernel", "hipMemcpyAsync", "hipMemcpy", "hipDeviceSynchronize", "hipStreamSynchronize",
    "hipEventSynchronize", "hipFree", "hipGraphLaunch",
)  # fmt: skip
ORIGIN = 10**18
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "coarse": {"grid": 1000},
    "skewed": {"skew": 20_000},
    "several processes": {"processes": 2, "skew": 5_000},
    "zero durations": {"zero": True},
    "zero durations, coarse": {"zero": True, "grid": 1000, "processes": 2},
    "no calls": {"grid": 100, "called": False},
    "no calls, zero durations": {"zero": True, "grid": 1000, "called": False},
}


def tables(
    rng: np.random.Generator,
    *,
    zero: bool = False,
    grid: int = 1,
    processes: int = 1,
    skew: int = 0,
    called: bool = True,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    count, span = int(rng.integers(2, 40)), int(rng.choice([2_000, 20_000, 200_000, 2_000_000]))
    start = rng.integers(0, span, count) // grid * grid
    duration = rng.integers(0 if zero else 1, max(2, span // 8), count) // grid * grid
    duration = np.where(
        zero & (rng.random(count) < 0.3), 0, np.maximum(duration, 0 if zero else grid)
    )
    correlation = np.arange(count)
    if rng.random() < 0.3:  # a graph: one call launches several
        correlation[rng.random(count) < 0.3] = rng.integers(0, count)
    activities = dispatch_table(
        {
            "kind": rng.choice(["kernel", "memcpy", "memset"], count),
            "device": "MI300X",
            "process": rng.integers(1, processes + 1, count),
            "gpu": 0,
            "stream": rng.integers(0, int(rng.integers(1, 4)), count),
            "name": rng.choice(["k", "HtoD", "DtoD"], count),
            "start_ns": start + ORIGIN,
            "duration_ns": duration,
            "correlation": correlation,
            "linked": rng.random(count) < 0.9,
            "collective": rng.choice(["", "", "", "allreduce"], count),
        }
    )
    if not called:
        return activities, empty_calls()
    number = int(rng.integers(1, 50))
    begin = rng.integers(-span // 10, span, number)
    if rng.random() < 0.5:  # most calls come before what they launch
        shift = rng.integers(-skew, skew + 1, number) - rng.integers(0, span // 20 + 1, number)
        begin = start[rng.integers(0, count, number)] + shift
    launched = np.where(
        rng.random(number) < 0.8, rng.integers(0, count, number), 10_000 + np.arange(number)
    )
    calls = call_table(
        {
            "name": rng.choice(NAMES, number),
            "start_ns": begin // grid * grid + ORIGIN,
            "duration_ns": rng.integers(0, max(2, span // 6), number) // grid * grid,
            "process": rng.integers(1, processes + 1, number),
            "thread": rng.integers(0, int(rng.integers(1, 4)), number),
            "correlation": launched,
        }
    )
    return activities, calls


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "seeds", [range(3), pytest.param(range(3, 5), marks=pytest.mark.long)], ids=str
)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_the_table_the_replay_is_the_measurement_and_keeps_every_dependency(
    kind: str, seeds: range
) -> None:
    for seed in seeds:
        graph = build(*tables(np.random.default_rng(seed), **KINDS[kind]))
        same = replay(graph, graph.duration_ns)
        np.testing.assert_allclose(
            same.start_ns[0], graph.start_ns, atol=1e-3, err_msg=f"{kind}, seed {seed}"
        )
        np.testing.assert_allclose(
            same.run_ns[0], graph.runs.begin_ns, atol=1e-3, err_msg=f"{kind}, seed {seed}"
        )
        stretch = np.exp(np.random.default_rng(seed).normal(0, 1, (3, len(graph))))
        times = replay(graph, graph.duration_ns * stretch, np.array([0.5, 1.0, 2.0]))
        for sample in range(3):
            check(graph, times, graph.duration_ns * stretch[sample], sample, f"{kind}, seed {seed}")


def check(graph: Graph, times: Times, duration: np.ndarray, sample: int, label: str) -> None:
    start, end = times.start_ns[sample], times.end_ns[sample]
    assert np.isfinite(start).all(), label
    follows, waits = graph.before >= 0, graph.other >= 0
    free = start[graph.before] + graph.passed * duration[graph.before] + graph.gap_ns
    assert (start[follows] >= free[follows] - 1e-3).all(), label
    over = end[graph.other] + graph.delay_ns
    assert (start[waits] >= over[waits] - 1e-3).all(), label
    path = critical_path(graph, times, sample)
    assert (
        np.abs(path["begin_ns"].to_numpy()[1:] - path["end_ns"].to_numpy()[:-1]).max(initial=0.0)
        < 1
    ), label
    if len(path):
        assert path["begin_ns"].iloc[0] == pytest.approx(start.min(), abs=1), label
        assert path["end_ns"].iloc[-1] == pytest.approx(end.max(), abs=1), label
