from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.power.energy import PHASES, design, find_pauses, kernel_energy, polynomial, spline

WIDE = 1.05 / 0.95


def readings(
    runs: int = 100, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two readings of 2 % noise per run on a rising curve of 500 W on average; times of 100 us ± 5 %, some slow."""
    rng = np.random.default_rng(seed)
    run, phase = np.repeat(np.arange(runs), 2), rng.random(2 * runs)
    slow = np.where(rng.random(runs) < 0.1, 1.5, 1)
    power = (400 + 200 * phase) / slow[run] * (1 + rng.normal(0, 0.02, 2 * runs))
    return run, phase, power, 100 * np.exp(rng.normal(0, 0.05, runs)) * slow


def test_constant_power_is_exact() -> None:
    found = kernel_energy(
        np.arange(6),
        np.linspace(0, 1, 6),
        np.full(6, 500.0),
        np.full(6, 100.0),
        WIDE,
        replicates=50,
    )
    assert (found.mean_w, found.energy_j) == pytest.approx((500, 0.05))
    assert (found.lower_j, found.upper_j) == pytest.approx((0.05, 0.05))


def test_the_time_of_two_runs_is_the_mean_of_both() -> None:
    run, phase = np.repeat([0, 1], 4), np.tile(np.linspace(0, 1, 4), 2)
    found = kernel_energy(
        run, phase, np.full(8, 500.0), np.array([100.0, 200.0]), np.inf, replicates=20
    )
    assert found.energy_j == pytest.approx(500 * 150e-6)


def test_readings_that_crowd_do_not_count_more() -> None:
    phase = np.concatenate([np.linspace(0, 1, 50), np.full(200, 0.9)])
    found = kernel_energy(
        np.arange(250), phase, 400 + 200 * phase, np.full(250, 100.0), WIDE, replicates=1
    )
    assert found.mean_w == pytest.approx(500, abs=0.5)


def test_disturbed_runs_do_not_count() -> None:
    found = kernel_energy(*readings(), WIDE)
    assert found.energy_j == pytest.approx(0.05, rel=0.02)
    everything = kernel_energy(*readings(), np.inf)
    assert everything.mean_w < 490 < found.mean_w


def test_the_same_seed_gives_the_same_interval() -> None:
    first, again, other = (kernel_energy(*readings(), WIDE, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.lower_j != other.lower_j
    assert first.lower_j < first.energy_j < first.upper_j
    wide = kernel_energy(*readings(), WIDE, level=0.99)
    assert wide.upper_j - wide.lower_j > first.upper_j - first.lower_j


def test_one_run_has_no_interval() -> None:
    found = kernel_energy(
        np.zeros(8, dtype=int), np.linspace(0, 1, 8), np.full(8, 500.0), np.array([100.0]), WIDE
    )
    assert found.energy_j == pytest.approx(0.05)
    assert np.isnan([found.lower_j, found.upper_j]).all()


def test_replicates_without_a_reading_are_left_out() -> None:
    rng = np.random.default_rng(0)
    phase, power, times = (
        np.linspace(0, 1, 6),
        500 + rng.normal(0, 5, 6),
        100 * np.exp(rng.normal(0, 0.01, 200)),
    )
    # one replicate in twenty draws none of the three runs with readings
    run = np.array([3, 3, 9, 9, 20, 20])
    found = kernel_energy(run, phase, power, times, WIDE)
    assert found.lower_j < found.energy_j < found.upper_j
    # of most replicates the golden runs have no reading
    two_ways = np.where(np.arange(200) < 101, 100.0, 200.0)
    alone = kernel_energy(np.full(6, 3), phase, power, two_ways, WIDE)
    assert alone.energy_j == pytest.approx(0.05, rel=0.02)
    assert np.isnan([alone.lower_j, alone.upper_j]).all()


@pytest.mark.long
@pytest.mark.parametrize(("runs", "margin"), [(200, 0.05), (200, 0.02), (50, 0.05)])
def test_intervals_hold_as_often_as_they_say(runs: int, margin: float) -> None:
    found = [
        kernel_energy(*readings(runs, seed), 1 + margin, replicates=300, level=0.9)
        for seed in range(60)
    ]
    covered = np.mean([one.lower_j <= 0.05 <= one.upper_j for one in found])
    assert 0.85 <= covered <= 0.99


TIMES = np.arange(100, 2001, 100)
EXECUTIONS = pd.DataFrame({"start_ns": [150, 250, 1150, 1250], "end_ns": [230, 330, 1230, 1330]})


def test_pauses_and_idle_readings_are_found() -> None:
    found = find_pauses(TIMES, np.array([1, 2, 11]), EXECUTIONS, 100)
    assert found.filled == pytest.approx([0.5, 0.8, 0.5])
    assert found.share == pytest.approx(0.4)
    # after the run, before the next
    assert TIMES[found.idle].tolist() == [500, 600, 700, 800, 900, 1000, 1100]


def test_few_readings_between_runs_are_helped_by_those_around() -> None:
    found = find_pauses(TIMES, np.array([1]), EXECUTIONS.head(2), 100)
    assert TIMES[found.idle].tolist() == [100, *range(500, 2001, 100)]


def test_power_of_executions_is_told_from_idle_power() -> None:
    found = find_pauses(TIMES, np.array([1, 2, 11]), EXECUTIONS, 100)
    power = np.full(len(TIMES), 100.0)
    power[[1, 2, 11]] = 0.5 * 600 + 50, 0.8 * 600 + 20, 0.5 * 600 + 50
    running, error = found.running_w(power, power[[1, 2, 11]])
    assert running == pytest.approx([600, 600, 600])
    assert error == 0
    power[found.idle] += np.tile([1, -1, 0], 3)[: len(found.idle)]
    assert 0 < found.running_w(power, power[[1, 2, 11]])[1] < 1


def test_an_instantaneous_logger_sees_no_pauses() -> None:
    found = find_pauses(TIMES, np.array([1, 2]), EXECUTIONS, 0)
    assert (found.share, found.correctable) == (0, True)
    assert found.running_w(np.full(20, 5.0), np.array([5.0, 6.0]))[0].tolist() == [5, 6]


def test_windows_that_hold_hardly_an_execution_are_told() -> None:
    times = np.array([155, 230, 330])
    found = find_pauses(times, np.arange(3), EXECUTIONS, 50)
    assert found.usable.tolist() == [False, True, True]
    assert not found.correctable


def test_the_first_coefficient_is_the_mean() -> None:
    fine = (np.arange(100_000) + 0.5) / 100_000
    assert design(fine).mean(axis=0) == pytest.approx([1, 0, 0, 0, 0], abs=1e-9)
    assert (design(fine)[:, 1] * design(fine)[:, 3]).mean() == pytest.approx(0, abs=1e-8)


def test_a_quartic_is_recovered() -> None:
    phase = np.random.default_rng(0).random(2000)
    expected = np.polyval([-300, 500, -250, 80, 400], PHASES)
    found = polynomial(phase, np.polyval([-300, 500, -250, 80, 400], phase))
    assert found == pytest.approx(expected, abs=0.05)


def test_many_readings_make_it_the_least_squares_polynomial() -> None:
    rng = np.random.default_rng(1)
    phase = rng.random(400)
    power = 500 + 100 * np.sin(5 * phase) + rng.normal(0, 10, 400)
    plain = np.polynomial.Polynomial.fit(phase, power, 4)(PHASES)
    assert np.abs(polynomial(phase, power) - plain).max() < 0.1


def test_readings_on_one_side_do_not_send_the_other_away() -> None:
    rng = np.random.default_rng(2)
    phase = 0.4 * rng.random(12)
    power = 500 + rng.normal(0, 10, 12)
    assert np.abs(np.polynomial.Polynomial.fit(phase, power, 4)(PHASES) - 500).max() > 500
    assert np.abs(polynomial(phase, power) - 500).max() < 100


def test_the_spline_follows_what_a_quartic_cannot() -> None:
    rng = np.random.default_rng(3)
    phase = rng.random(1000)
    power = 500 + 100 * np.sin(20 * phase) + rng.normal(0, 10, 1000)
    true = 500 + 100 * np.sin(20 * PHASES)
    errors = [np.sqrt(np.mean((curve(phase, power) - true) ** 2)) for curve in (spline, polynomial)]
    assert errors[0] < 5 < 50 < errors[1]


def test_the_spline_of_few_readings_is_their_mean() -> None:
    assert spline(np.array([0.1, 0.1, 0.5]), np.array([100.0, 200, 300])).tolist() == [200.0] * 100


def test_the_spline_keeps_its_value_beyond_the_readings() -> None:
    phase = np.linspace(0.3, 0.6, 30)
    found = spline(phase, 1000 * phase)
    assert found[0] == pytest.approx(300, abs=1)
    assert found[-1] == pytest.approx(600, abs=1)
