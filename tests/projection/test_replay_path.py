"""The critical path of small programs, and of every shared trace."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from flopcast.projection.graph import Graph, build, gap_table
from flopcast.projection.replay import critical_path, replay
from flopcast.tests.projection.oracles.programs import GAP_NS, Step, run
from flopcast.tests.projection.test_replay import PROGRAM, durations_of, settled


def path_of(graph: Graph) -> pd.DataFrame:
    return critical_path(graph, replay(graph, graph.duration_ns))


def by_kind(path: pd.DataFrame) -> dict[str, float]:
    length: dict[str, float] = (
        (path["end_ns"] - path["begin_ns"]).groupby(path["kind"]).sum().to_dict()
    )
    return length


@given(PROGRAM)
def test_the_path_has_no_holes_and_the_length_of_the_trace(steps: list[Step]) -> None:
    recording = run(steps, durations_of(steps))
    graph = build(recording.activities, recording.calls)
    path = path_of(graph)
    np.testing.assert_allclose(
        path["begin_ns"].to_numpy()[1:], path["end_ns"].to_numpy()[:-1], atol=1e-6
    )
    assert path["begin_ns"].iloc[0] == pytest.approx(graph.start_ns.min(), abs=1e-6)
    assert path["end_ns"].iloc[-1] == pytest.approx(graph.end_ns.max())


def test_a_busy_queue_is_activities_and_gaps() -> None:
    recording = run(settled([]), durations_of(settled([])))
    queue = [Step(0, 0, 100_000)] * 20
    recording = run(queue, durations_of(queue))
    found = by_kind(path_of(build(recording.activities, recording.calls)))
    assert found == {"activity": 20 * 100_000.0, "gap": 19.0 * GAP_NS}


def test_an_idle_queue_is_the_cpu() -> None:
    program = [Step(50_000, 0, 1_000)] * 20
    recording = run(program, durations_of(program))
    found = by_kind(path_of(build(recording.activities, recording.calls)))
    assert found["activity"] == 1_000
    assert found["cpu"] > 0.99 * 19 * 54_000 - 4_000


def test_a_wait_leads_the_path_back_to_the_gpu() -> None:
    program = settled([Step(0, 0, 400_000), Step(0, -1), Step(30_000, 0, 1_000)])
    recording = run(program, durations_of(program))
    path = path_of(build(recording.activities, recording.calls))
    assert path["kind"].tolist()[-5:] == ["activity", "return", "cpu", "launch", "activity"]


def test_gaps_have_causes() -> None:
    program = settled(
        [Step(0, 0, 200_000), Step(0, -1), Step(30_000, 0, 1_000), Step(90_000, 0, 1_000)]
    )
    recording = run(program, durations_of(program))
    gaps = gap_table(build(recording.activities, recording.calls))
    assert gaps["cause"].tolist()[-2:] == ["synchronisation", "launch-bound"]
    assert (gaps["cause"] == "dispatch").sum() >= 35
    waiting = [Step(1_000, 0, 300_000), Step(1_000, 1, 20_000), Step(1_000, 1, 5_000, after=0)]
    recording = run(waiting, durations_of(waiting))
    assert gap_table(build(recording.activities, recording.calls))["cause"].tolist() == [
        "dependency"
    ]
