"""A machine of one process simulated event by event: what it records is a trace whose dependencies are known."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from flopcast.traces.dispatches import call_table, dispatch_table

LATENCY_NS, GAP_NS, CALL_NS, SYNC_NS, RETURN_NS = 3_000, 1_000, 4_000, 5_000, 2_000


@dataclass(frozen=True)
class Step:
    """One thing a thread does after some work: launch an activity on a queue, or wait for all it has launched.

    `queue` is -1 for a wait; `after` makes the queue wait for what was last launched on another one.
    """

    work_ns: int
    queue: int = 0
    duration_ns: int = 0
    after: int = -1


@dataclass(frozen=True)
class Recording:
    """What a profiler would write: activities in the order of their launch, and calls."""

    activities: pd.DataFrame
    calls: pd.DataFrame


def run(steps: list[Step], durations: list[int], cpu: float = 1.0) -> Recording:
    """Return the recording of a program whose activities take `durations` (ns, in the order of launch)."""
    now, number = 0.0, 0
    free: dict[int, float] = {}
    rows: list[tuple[int, int, float, float]] = []
    calls: list[tuple[str, float, float, int]] = []
    for step in steps:
        now += step.work_ns * cpu
        if step.queue < 0:
            last = max((end for *_, end in rows), default=float("-inf"))
            end = max(now + SYNC_NS * cpu, last + RETURN_NS)
            calls.append(("hipDeviceSynchronize", now, end - now, 10_000 + len(calls)))
            now = end
            continue
        ready = now + CALL_NS * cpu + LATENCY_NS
        start = max(ready, free.get(step.queue, float("-inf")) + GAP_NS)
        if step.after >= 0 and step.after in free:
            start = max(start, free[step.after] + 30_000)
        end = start + durations[number]
        free[step.queue] = end
        rows.append((number, step.queue, start, end))
        calls.append(("hipLaunchKernel", now, CALL_NS * cpu, number))
        now += CALL_NS * cpu
        number += 1
    return Recording(_activities(rows), _calls(calls))


def _activities(rows: list[tuple[int, int, float, float]]) -> pd.DataFrame:
    return dispatch_table(
        {
            "kind": "kernel",
            "device": "MI300X",
            "process": 1,
            "gpu": 2,
            "stream": [queue for _, queue, _, _ in rows],
            "name": [f"kernel{number}" for number, *_ in rows],
            "start_ns": [round(start) for _, _, start, _ in rows],
            "duration_ns": [round(end) - round(start) for _, _, start, end in rows],
            "correlation": [number for number, *_ in rows],
            "linked": True,
        }
    )


def _calls(calls: list[tuple[str, float, float, int]]) -> pd.DataFrame:
    return call_table(
        {
            "name": [name for name, *_ in calls],
            "start_ns": [round(start) for _, start, _, _ in calls],
            "duration_ns": [round(duration) for _, _, duration, _ in calls],
            "process": [1] * len(calls),
            "thread": [0] * len(calls),
            "correlation": [number for *_, number in calls],
        }
    )
