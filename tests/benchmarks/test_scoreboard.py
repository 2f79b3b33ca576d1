"""The scoreboard holds what is promised of forecasts: errors, coverage, widths."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flopcast.benchmarks.scoreboard import served, steps


def test_errors_coverage_and_widths(shared_data: Path) -> None:
    found = {one.name: one for one in (*served(shared_data / "workloads"), *steps(shared_data / "workloads"))}
    latency = [one for name, one in found.items() if name.startswith("latency")]
    inside = np.concatenate([np.abs(np.log(one.ratio)) <= one.half for one in latency])
    assert 0.85 <= inside.mean() <= 0.97
    assert max(np.expm1(one.half).max() for one in latency) <= 0.16
    for one in found.values():
        if len(one.naive):
            assert np.abs(one.ratio - 1).mean() < 0.25 * np.abs(one.naive - 1).mean()
