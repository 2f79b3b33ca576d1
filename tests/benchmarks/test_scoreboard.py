"""The scoreboard holds what is promised of forecasts: errors, coverage, widths."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flopcast.benchmarks.scoreboard import scores, served, steps


def test_errors_coverage_and_widths(shared_data: Path) -> None:
    found = {
        one.name: one
        for one in (*served(shared_data / "workloads"), *steps(shared_data / "workloads"))
    }
    latency = [one for name, one in found.items() if name.startswith("latency")]
    inside = np.concatenate([np.abs(np.log(one.ratio)) <= one.half for one in latency])
    assert 0.85 <= inside.mean() <= 0.97
    assert max(np.expm1(one.half).max() for one in latency) <= 0.16
    tuned = found["step: Megatron 22B, 175B on A100"]
    assert np.expm1(tuned.half).max() < 0.3
    for one in found.values():
        if len(one.naive):
            assert np.abs(one.ratio - 1).mean() < 0.25 * np.abs(one.naive - 1).mean()


def test_scores_come_out_near_but_for_the_run_that_lost_a_fifth(shared_data: Path) -> None:
    found = {one.name: one for one in scores(shared_data / "workloads")}
    missed = {name: abs(np.log(one.ratio[0])) for name, one in found.items()}
    assert [name for name, error in missed.items() if error > found[name].half[0]] == [
        "HPCG: Aurora, June 2024, from Frontier"
    ]
    assert sorted(missed.values())[-2] < 0.08  # HPL on eight H100, whose links are the node's own
