from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.power_ablation import rms_percent
from flopcast.benchmarks.power_simulator import Scenario, Truth, simulate
from flopcast.power.clocks import Measured, synchronise
from flopcast.power.deconvolution import Deconvolved, Windows, deconvolve, windows
from flopcast.power.runs import golden_runs

LONG = Scenario(kernel_us=2500, jitter=0.01, outliers=0, runs=100)


def equations(measured: Measured, window_us: float = 1000, warm: int = 3) -> Windows:
    rows = measured.executions
    golden = rows[rows["run"].isin(golden_runs(rows).kept)]
    return windows(measured.times_ns, golden, rows.drop(golden.index), 1e3 * window_us, warm=warm)


def solved(scenario: Scenario) -> tuple[Deconvolved, Truth]:
    simulation = simulate(scenario)
    measured = synchronise(simulation.log, simulation.executions, simulation.pairs)
    found = deconvolve(
        equations(measured, scenario.window_us), measured.power_w["total"].to_numpy()
    )
    assert found is not None
    return found, simulation.truth


def test_shares_agree_with_counting(measured: Measured) -> None:
    found = equations(measured)
    rows = measured.executions
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    assert found.shares.shape == (len(found.reading), 40 + 3 + 1)
    assert found.shares[:, :40].sum(axis=1) + found.shares[:, -1] == pytest.approx(1)
    for equation in (0, len(found.reading) // 2, -1):
        at = measured.times_ns[found.reading[equation]] - 1_000_000 + np.arange(5, 1_000_000, 10)
        place = np.searchsorted(start, at, side="right") - 1
        phase = (at - start[place]) / (end - start)[place]
        running = (place >= 0) & (phase < 1)
        cells = np.bincount((phase[running] * 40).astype(int), minlength=40) / len(at)
        assert found.shares[equation, :40] == pytest.approx(cells, abs=2e-5 * 20)
        number = np.where(running, rows["execution"].to_numpy()[place], 0)
        warm = [np.mean(number == execution) for execution in (1, 2, 3)]
        assert found.shares[equation, 40:43] == pytest.approx(np.array(warm), abs=1e-4)


def test_windows_that_see_other_executions_are_left_out(measured: Measured) -> None:
    rows = measured.executions
    none = rows.head(0)
    alone = windows(measured.times_ns, rows, none, 1e6)
    some = rows["run"].isin(rows["run"].unique()[::2])
    beside = windows(measured.times_ns, rows[some], rows[~some], 1e6)
    assert 0 < len(beside.reading) < len(alone.reading)
    # a second: it reaches into other runs
    wide = windows(measured.times_ns, rows[some], rows[~some], 1e9)
    assert set(wide.run) == {0}  # only idle time lies before the first


def test_the_curve_of_the_kernel_is_recovered_from_averages() -> None:
    found, truth = solved(LONG)
    own, averaged = truth.power_w(found.phase), truth.averaged_w(found.phase)
    assert rms_percent(found.power_w, own) < 1.5 < 5 < rms_percent(averaged, own)
    assert found.idle_w == pytest.approx(140, rel=0.05)
    assert found.parameters > 4
    assert found.residual_w == pytest.approx(0.012 * own.mean(), rel=0.8)


def test_where_the_window_hides_the_curve_its_level_is_left() -> None:
    found, truth = solved(replace(LONG, kernel_us=50, runs=200))
    assert found.parameters < 2
    assert found.power_w.mean() == pytest.approx(truth.power_w(found.phase).mean(), rel=0.02)
    assert np.ptp(found.power_w) < 10


@pytest.mark.parametrize("seed", [36, 47])
def test_noise_is_not_taken_for_a_curve(seed: int) -> None:
    found, truth = solved(Scenario(seed=seed))
    own = truth.power_w(found.phase)
    assert rms_percent(found.power_w, own) < 1.05 * rms_percent(np.full(len(own), own.mean()), own)


def test_power_is_not_negative() -> None:
    spike = {"xcd": lambda phase: 2000 * np.exp(-(((phase - 0.5) / 0.05) ** 2))}
    found, _ = solved(replace(LONG, shapes=spike, idle_w={"xcd": 20.0}))
    assert found.power_w.min() >= 0
    assert found.idle_w >= 0
    assert found.power_w.max() > 1000


def test_executions_that_warm_up_get_a_level_of_their_own() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(6), 400)
    table = np.column_stack([shares[:, :4], shares[:, 4], 1 - shares[:, :4].sum(axis=1)])
    power = table @ np.array([500.0, 500, 500, 500, -80, 100])
    found = deconvolve(Windows(np.arange(400), np.arange(400) // 8, table, 4), power)
    assert found is not None
    assert found.power_w == pytest.approx(500, rel=0.01)
    assert found.warm_w == pytest.approx([-80], rel=0.1)
    assert found.idle_w == pytest.approx(100, rel=0.05)


def test_no_power_lies_above_the_cap() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(5), 400)
    power = shares @ np.array([300.0, 300, 900, 300, 100]) + rng.normal(0, 5, 400)
    some = Windows(np.arange(400), np.arange(400) // 8, np.insert(shares, 4, 0, axis=1), 4)
    free, capped = (deconvolve(some, power, cap_w=cap_w) for cap_w in (None, 700.0))
    assert free is not None
    assert capped is not None
    assert (free.power_w.max() > 850, capped.power_w.max()) == (True, pytest.approx(700))


def test_few_runs_give_none(measured: Measured) -> None:
    rows = measured.executions
    few = rows[rows["run"].isin(rows["run"].unique()[:15])]
    some = windows(measured.times_ns, few, pd.DataFrame(columns=rows.columns), 1e6)
    assert deconvolve(some, measured.power_w["total"].to_numpy()) is None
