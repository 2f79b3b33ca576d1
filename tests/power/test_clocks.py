from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.power_simulator import Scenario, Simulation, simulate
from flopcast.errors import DataError
from flopcast.power.clocks import Measured, constant_offset, fit_clocks, one_clock, synchronise

EPOCH = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


def pairs(count: int = 100, *, drift: float = 50e-6, seed: int = 0) -> pd.DataFrame:
    """Pairs 10 ms apart of a GPU clock that is 3 ms ahead and gains; reads take about 6 us, sampled at any moment."""
    rng = np.random.default_rng(seed)
    issued = np.arange(count) * 10_000_000
    delay = rng.lognormal(np.log(6000), 0.5, count)
    gpu = (issued + delay * rng.random(count)) * (1 + drift) + 3_000_000
    return pd.DataFrame(
        {"gpu_ns": EPOCH + gpu.astype(int), "cpu_ns": EPOCH + issued, "delay_ns": delay.astype(int)}
    )


def test_offset_and_drift_are_found() -> None:
    clocks = fit_clocks(pairs())
    assert clocks.drift_ppm == pytest.approx(50, abs=1)
    assert clocks.offset_ns == pytest.approx(3_000_000, abs=2000)
    assert clocks.outliers == ()
    assert 500 < clocks.residual_ns < 4000 < clocks.largest_residual_ns
    cpu = np.arange(0, SECOND, SECOND // 7)
    gpu = EPOCH + (cpu * (1 + 50e-6) + 3e6).astype(int)
    assert np.abs(clocks.to_cpu_ns(gpu) - EPOCH - cpu).max() < 1000


def test_two_exact_pairs_give_the_line_to_the_nanosecond() -> None:
    table = pd.DataFrame(
        {"gpu_ns": [EPOCH, EPOCH + 1_000_100], "cpu_ns": [5, 1_000_005], "delay_ns": [0, 0]}
    )
    clocks = fit_clocks(table)
    assert clocks.to_cpu_ns(np.array([EPOCH, EPOCH + 2_000_200])).tolist() == [5, 2_000_005]
    assert np.isnan(clocks.residual_ns)
    assert clocks.drift_ppm == pytest.approx(100, rel=1e-4)


def test_pairs_that_contradict_the_others_are_left_out_and_counted() -> None:
    table = pairs()
    table.loc[[7, 40], "cpu_ns"] -= 400_000
    clocks = fit_clocks(table)
    assert clocks.outliers == (7, 40)
    assert clocks.to_cpu_ns(table["gpu_ns"].to_numpy()) == pytest.approx(
        fit_clocks(pairs()).to_cpu_ns(table["gpu_ns"].to_numpy()), abs=500
    )


def test_a_slow_read_says_little_and_is_no_outlier() -> None:
    table = pairs()
    table.loc[50, ["cpu_ns", "delay_ns"]] = [table["cpu_ns"][50] - 190_000, 200_000]
    clocks = fit_clocks(table)
    assert clocks.outliers == ()
    times = table["gpu_ns"].to_numpy()
    assert np.abs(clocks.to_cpu_ns(times) - fit_clocks(pairs()).to_cpu_ns(times)).max() < 200


def test_a_read_of_no_time_is_not_believed_alone() -> None:
    table, times = pairs(), pairs()["gpu_ns"].to_numpy()
    table.loc[50, ["cpu_ns", "delay_ns"]] = [table["cpu_ns"][50] - 4000, 0]
    clocks = fit_clocks(table)
    assert clocks.outliers == ()
    assert np.abs(clocks.to_cpu_ns(times) - fit_clocks(pairs()).to_cpu_ns(times)).max() < 2500


def test_one_pair_gives_a_constant_offset() -> None:
    clocks = fit_clocks(pairs(1))
    assert (clocks.slope, clocks.drift_fitted, clocks.outliers) == (1.0, False, ())
    assert np.isnan(clocks.drift_ppm)
    assert clocks.offset_ns == pytest.approx(3_000_000, abs=clocks.bound_ns + 1)
    assert (
        constant_offset(pairs()).to_cpu_ns(pairs()["gpu_ns"].to_numpy())[-1]
        - pairs()["cpu_ns"].iloc[-1]
        > 40_000
    )


def test_times_beyond_the_pairs_are_told() -> None:
    table = pairs(3)
    clocks = fit_clocks(table)
    times = np.array(
        [table["gpu_ns"][0] - 1, table["gpu_ns"][0], table["gpu_ns"][2], table["gpu_ns"][2] + 1]
    )
    assert clocks.extrapolated(times).tolist() == [True, False, False, True]


def test_a_log_on_the_clock_of_the_cpu_is_left_as_it_is() -> None:
    times = EPOCH + np.arange(3)
    assert one_clock(EPOCH, EPOCH + 2).to_cpu_ns(times).tolist() == times.tolist()


def test_ticks_are_no_nanoseconds() -> None:
    table = pairs()
    table["gpu_ns"] = (table["gpu_ns"] - EPOCH) // 10
    with pytest.raises(DataError, match=r"CPU's.*9\.99\d+.*GPU's"):
        fit_clocks(table)


def test_pairs_that_lie_on_no_line_are_refused() -> None:
    gpu = np.arange(100) * 10_000_000
    of_three_gpus = pd.DataFrame(
        {"gpu_ns": gpu, "cpu_ns": 10**9 + gpu + np.arange(100) % 3 * 3_000_000, "delay_ns": 100}
    )
    with pytest.raises(DataError, match=r"4,\d+.*GPU"):
        fit_clocks(of_three_gpus)


def test_many_pairs_are_as_good_as_few() -> None:
    assert fit_clocks(pairs(2000)).drift_ppm == pytest.approx(50, abs=0.05)


@pytest.mark.parametrize(
    ("count", "most_ppm"), [(2, 60), (3, 60), (4, 60), (10, 30), (20, 10), (201, 0.5)]
)
def test_the_drift_is_believed_as_far_as_the_pairs_tell_it(count: int, most_ppm: float) -> None:
    misses, errors, ends = [], [], []
    for seed in range(15):
        truth = Scenario(seed=seed, bad_pairs=0)
        found = simulate(truth)
        clocks, last = fit_clocks(found.pairs.head(count)), found.log["gpu_ns"].iloc[-1]
        misses.append(clocks.drift_ppm - truth.drift_ppm)
        errors.append(clocks.drift_error_ppm)
        at_end = EPOCH + (last - EPOCH - 1e3 * truth.offset_us) / (1 + 1e-6 * truth.drift_ppm)
        ends.append(
            (clocks.to_cpu_ns(np.array([last]))[0] - at_end) / clocks.error_ns(np.array([last]))[0]
        )
    assert np.sqrt(np.mean(np.square(misses))) < most_ppm
    assert np.max(np.abs(misses)) < 2 * max(most_ppm, np.mean(errors))
    assert 0.2 < np.sqrt(np.mean(np.square(ends))) < 1.5


def test_one_pair_says_that_the_drift_is_not_known() -> None:
    clocks = fit_clocks(pairs(1))
    gpu_ns = pairs(1)["gpu_ns"].to_numpy() + SECOND
    assert clocks.drift_error_ppm == pytest.approx(100)
    assert clocks.error_ns(gpu_ns) == pytest.approx(100_000, rel=0.01)


def test_a_wrong_read_among_two_does_not_become_a_drift() -> None:
    table = pairs(2)
    table.loc[1, "cpu_ns"] -= 500_000
    clocks = fit_clocks(table)
    assert abs(clocks.drift_ppm) < 100
    assert clocks.level_error_ns > 100_000


def test_clear_drift_is_not_drawn_to_zero() -> None:
    assert fit_clocks(pairs(drift=2000e-6)).drift_ppm == pytest.approx(2000, abs=1)


def test_the_log_is_put_on_the_clock_of_the_cpu(measured: Measured, simulation: Simulation) -> None:
    stamps = simulation.log["gpu_ns"].drop_duplicates().to_numpy()
    ahead = stamps - measured.times_ns
    assert ahead[0] == pytest.approx(3_000_000, abs=2000)
    assert ahead[-1] - ahead[0] == pytest.approx(50e-6 * (stamps[-1] - stamps[0]), rel=0.05)
    assert measured.power_w.columns.tolist() == ["total", "xcd", "iod", "hbm"]
    assert len(measured.power_w) == len(measured.times_ns) == len(measured.extrapolated)
    assert measured.interval_us == pytest.approx(1000, rel=0.01)
    assert measured.kernels == ["gemm"]


def test_without_pairs_the_log_is_on_that_clock(simulation: Simulation) -> None:
    found = synchronise(simulation.log, simulation.executions, None)
    assert found.times_ns.tolist() == simulation.log["gpu_ns"].drop_duplicates().tolist()
    assert not found.extrapolated.any()


def test_tables_that_do_not_meet(simulation: Simulation) -> None:
    log = simulation.log.assign(gpu_ns=simulation.log["gpu_ns"] // 1000)
    log["gpu_ns"] *= 10
    with pytest.raises(DataError, match=r"gpu_ns.*nanoseconds"):
        synchronise(log, simulation.executions, simulation.pairs)
    rows = simulation.executions.copy()
    rows[["start_ns", "end_ns"]] -= 1_700_000_000_000_000_000 - 5
    with pytest.raises(DataError, match=re.escape("no reading of the power log")):
        synchronise(simulation.log, rows, simulation.pairs)


@pytest.mark.parametrize("count", [1, 20])
def test_pairs_may_all_lie_before_the_log(
    simulation: Simulation, measured: Measured, count: int
) -> None:
    before = simulation.pairs.head(count).copy()
    before[["gpu_ns", "cpu_ns"]] -= 1_000_000_000
    found = synchronise(simulation.log, simulation.executions, before)
    assert found.extrapolated.all()
    # 50 ppm of 2 s, and the drift of few pairs
    assert np.abs(found.times_ns - measured.times_ns).max() < 200_000


def test_the_step_of_the_time_stamps_is_told(simulation: Simulation, measured: Measured) -> None:
    assert measured.step_ns == 1
    coarse = simulation.log.assign(gpu_ns=simulation.log["gpu_ns"] // 10_000 * 10_000)
    assert synchronise(coarse, simulation.executions, simulation.pairs).step_ns == 10_000


def test_stamps_that_are_apart_by_the_same_are_not_coarse(simulation: Simulation) -> None:
    total = simulation.log[simulation.log["component"].eq("total")]
    even = total.assign(gpu_ns=int(total["gpu_ns"].iloc[0]) + 1_000_000 * np.arange(len(total)))
    assert synchronise(even, simulation.executions, simulation.pairs).step_ns < 10
