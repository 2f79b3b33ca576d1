from __future__ import annotations

import re

import pytest

from flopcast.errors import DataError
from flopcast.telemetry.measured import Measured, synchronise
from flopcast.telemetry.simulate import Simulation


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
    with pytest.raises(DataError, match="power log and clock pairs have no time in common"):
        synchronise(log, simulation.executions, simulation.pairs)
    rows = simulation.executions.copy()
    rows[["start_ns", "end_ns"]] -= 1_700_000_000_000_000_000 - 5
    with pytest.raises(DataError, match=re.escape("no reading of the power log falls between the first execution")):
        synchronise(simulation.log, rows, simulation.pairs)
