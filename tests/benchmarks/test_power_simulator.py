from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flopcast.benchmarks.power_simulator import COMPONENTS, IDLE_W, Scenario, Truth, simulate

QUIET = Scenario(
    kernel_us=300,
    runs=3,
    executions=8,
    jitter=0,
    outliers=0,
    noise=0,
    warm=(),
    bad_pairs=0,
    read_us=1e-6,
    gap_us=0,
)


def test_the_same_scenario_gives_the_same_tables() -> None:
    first, again, other = (simulate(replace(QUIET, seed=seed, noise=0.02)) for seed in (0, 0, 1))
    assert first.log.equals(again.log)
    assert first.executions.equals(again.executions)
    assert first.pairs.equals(again.pairs)
    assert not first.log.equals(other.log)


def test_clocks_differ_by_offset_and_drift() -> None:
    pairs = simulate(QUIET).pairs
    ahead = (pairs["gpu_ns"] - pairs["cpu_ns"]).to_numpy()
    since = (pairs["cpu_ns"] - 1_700_000_000_000_000_000).to_numpy()
    assert ahead == pytest.approx(3_000_000 + 50e-6 * since, abs=3)


@pytest.mark.parametrize("window_us", [1000.0, 0.0])
def test_readings_agree_with_counting(window_us: float) -> None:
    found = simulate(replace(QUIET, window_us=window_us, drift_ppm=0))
    log = found.log[found.log["component"].eq("xcd")]
    start, end = (found.executions[name].to_numpy() / 1e3 for name in ("start_ns", "end_ns"))
    for gpu_ns, power_w in log[["gpu_ns", "power_w"]].to_numpy()[3:]:
        at = gpu_ns / 1e3 - 3000
        times = (
            np.array([at])
            if not window_us
            else at - window_us + (np.arange(20_000) + 0.5) * window_us / 20_000
        )
        place = np.clip(np.searchsorted(start, times, side="right") - 1, 0, None)
        phase = (times - start[place]) / (end - start)[place]
        running = (phase >= 0) & (phase <= 1)
        expected = (
            IDLE_W["xcd"] + np.where(running, COMPONENTS["xcd"](np.clip(phase, 0, 1)), 0).mean()
        )
        assert power_w == pytest.approx(expected, abs=0.5)


def test_the_total_is_the_sum_of_its_parts() -> None:
    wide = simulate(QUIET).log.pivot_table(index="gpu_ns", columns="component", values="power_w")
    assert wide["total"].to_numpy() == pytest.approx(
        wide[["xcd", "iod", "hbm"]].sum(axis=1).to_numpy()
    )


def test_the_truth_is_averaged_over_the_window() -> None:
    truth = Truth(Scenario(kernel_us=400, window_us=1000))
    at, count = 0.3, 200_000
    back = at - (np.arange(count) + 0.5) / count * 2.5
    assert truth.averaged_w(np.array([at]))[0] == pytest.approx(
        truth.power_w(back % 1).mean(), rel=1e-5
    )
    fine = (np.arange(2000) + 0.5) / 2000
    assert truth.averaged_w(fine).mean() == pytest.approx(truth.power_w(fine).mean(), rel=1e-5)
    assert truth.energy_j() == pytest.approx(truth.power_w(fine).mean() * 400e-6)
    assert truth.energy_j("hbm") < truth.energy_j("xcd") < truth.energy_j()
    whole = Truth(Scenario(kernel_us=400, window_us=800))
    assert np.ptp(whole.averaged_w(fine)) < 1e-6 * whole.averaged_w(fine).mean()


def test_disturbed_runs_are_slower_and_draw_less() -> None:
    found = simulate(replace(QUIET, runs=200, outliers=0.1, executions=10))
    times = (found.executions["end_ns"] - found.executions["start_ns"]).groupby(
        found.executions["run"]
    ).median() / 1e3
    slow = times > 350
    assert 0.04 < slow.mean() < 0.17
    assert times[~slow].to_numpy() == pytest.approx(300, abs=0.01)


def test_warm_up_and_jitter() -> None:
    found = simulate(Scenario(kernel_us=100, runs=300, outliers=0)).executions
    times = (found["end_ns"] - found["start_ns"]) / 1e5
    assert times[found["execution"] == 1].mean() == pytest.approx(1.3, rel=0.02)
    assert np.log(times[found["execution"] == 5]).std() == pytest.approx(0.05, rel=0.15)
