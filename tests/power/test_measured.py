from __future__ import annotations

import re

import numpy as np
import pytest

from flopcast.benchmarks.power_simulator import Simulation
from flopcast.errors import DataError
from flopcast.power.sources import Measured, synchronise


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
    with pytest.raises(DataError, match=re.escape("the gpu_ns of log and clock pairs of another, all in nanoseconds?")):
        synchronise(log, simulation.executions, simulation.pairs)
    rows = simulation.executions.copy()
    rows[["start_ns", "end_ns"]] -= 1_700_000_000_000_000_000 - 5
    with pytest.raises(DataError, match=re.escape("no reading of the power log falls between the first execution")):
        synchronise(simulation.log, rows, simulation.pairs)


@pytest.mark.parametrize("count", [1, 20])
def test_pairs_may_all_lie_before_the_log(simulation: Simulation, measured: Measured, count: int) -> None:
    before = simulation.pairs.head(count).copy()
    before[["gpu_ns", "cpu_ns"]] -= 1_000_000_000
    found = synchronise(simulation.log, simulation.executions, before)
    assert found.extrapolated.all()
    assert np.abs(found.times_ns - measured.times_ns).max() < 200_000  # 50 ppm of 2 s, and the drift of few pairs


def test_the_step_of_the_time_stamps_is_told(simulation: Simulation, measured: Measured) -> None:
    assert measured.step_ns == 1
    coarse = simulation.log.assign(gpu_ns=simulation.log["gpu_ns"] // 10_000 * 10_000)
    assert synchronise(coarse, simulation.executions, simulation.pairs).step_ns == 10_000


def test_stamps_that_are_apart_by_the_same_are_not_coarse(simulation: Simulation) -> None:
    total = simulation.log[simulation.log["component"].eq("total")]
    even = total.assign(gpu_ns=int(total["gpu_ns"].iloc[0]) + 1_000_000 * np.arange(len(total)))
    assert synchronise(even, simulation.executions, simulation.pairs).step_ns < 10
