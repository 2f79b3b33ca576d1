from __future__ import annotations

import numpy as np
import pytest

from flopcast.power.energy import kernel_energy


def readings(runs: int = 100, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two readings of 2 % noise per run on a rising curve of 500 W on average; times of 100 us ± 5 %, some slow."""
    rng = np.random.default_rng(seed)
    run, phase = np.repeat(np.arange(runs), 2), rng.random(2 * runs)
    slow = np.where(rng.random(runs) < 0.1, 1.5, 1)
    power = (400 + 200 * phase) / slow[run] * (1 + rng.normal(0, 0.02, 2 * runs))
    return run, phase, power, 100 * np.exp(rng.normal(0, 0.05, runs)) * slow


def test_constant_power_is_exact() -> None:
    found = kernel_energy(np.arange(6), np.linspace(0, 1, 6), np.full(6, 500.0), np.full(6, 100.0), 0.05, replicates=50)
    assert (found.mean_w, found.energy_j) == pytest.approx((500, 0.05))
    assert (found.lower_j, found.upper_j) == pytest.approx((0.05, 0.05))


def test_readings_that_crowd_do_not_count_more() -> None:
    phase = np.concatenate([np.linspace(0, 1, 50), np.full(200, 0.9)])
    found = kernel_energy(np.arange(250), phase, 400 + 200 * phase, np.full(250, 100.0), 0.05, replicates=1)
    assert found.mean_w == pytest.approx(500, abs=0.5)


def test_disturbed_runs_do_not_count() -> None:
    found = kernel_energy(*readings(), 0.05)
    assert found.energy_j == pytest.approx(0.05, rel=0.02)
    everything = kernel_energy(*readings(), np.inf)
    assert everything.mean_w < 490 < found.mean_w


def test_the_same_seed_gives_the_same_interval() -> None:
    first, again, other = (kernel_energy(*readings(), 0.05, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.lower_j != other.lower_j
    assert first.lower_j < first.energy_j < first.upper_j
    wide = kernel_energy(*readings(), 0.05, level=0.99)
    assert wide.upper_j - wide.lower_j > first.upper_j - first.lower_j


def test_one_run_has_no_interval() -> None:
    found = kernel_energy(np.zeros(8, dtype=int), np.linspace(0, 1, 8), np.full(8, 500.0), np.array([100.0]), 0.05)
    assert found.energy_j == pytest.approx(0.05)
    assert np.isnan([found.lower_j, found.upper_j]).all()


def test_replicates_without_a_reading_are_left_out() -> None:
    rng = np.random.default_rng(0)
    phase, power, times = np.linspace(0, 1, 6), 500 + rng.normal(0, 5, 6), 100 * np.exp(rng.normal(0, 0.01, 200))
    run = np.array([3, 3, 9, 9, 20, 20])  # one replicate in twenty draws none of the three runs with readings
    found = kernel_energy(run, phase, power, times, 0.05)
    assert found.lower_j < found.energy_j < found.upper_j
    two_ways = np.where(np.arange(200) < 101, 100.0, 200.0)  # of most replicates the golden runs have no reading
    alone = kernel_energy(np.full(6, 3), phase, power, two_ways, 0.05)
    assert alone.energy_j == pytest.approx(0.05, rel=0.02)
    assert np.isnan([alone.lower_j, alone.upper_j]).all()


@pytest.mark.long
@pytest.mark.parametrize(("runs", "margin"), [(200, 0.05), (200, 0.02), (50, 0.05)])
def test_intervals_hold_as_often_as_they_say(runs: int, margin: float) -> None:
    found = [kernel_energy(*readings(runs, seed), margin, replicates=300, level=0.9) for seed in range(150)]
    covered = np.mean([one.lower_j <= 0.05 <= one.upper_j for one in found])
    assert 0.85 <= covered <= 0.99
