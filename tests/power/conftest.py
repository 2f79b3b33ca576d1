"""One simulated measurement and its profile, for every test that needs no other."""

from __future__ import annotations

import pytest

from flopcast.benchmarks.power_simulator import Scenario, Simulation, simulate
from flopcast.power.clocks import Measured, synchronise
from flopcast.power.profile import KernelPower, profile_kernel
from flopcast.traces.cleaning.binning import MIDDLE


@pytest.fixture(scope="session")
def simulation() -> Simulation:
    """A kernel of 120 us, averaged over 1 ms, with four components."""
    return simulate(Scenario())


@pytest.fixture(scope="session")
def measured(simulation: Simulation) -> Measured:
    return synchronise(simulation.log, simulation.executions, simulation.pairs)


@pytest.fixture(scope="session")
def profile(measured: Measured) -> KernelPower:
    return profile_kernel(measured, window_us=1000, within=MIDDLE, replicates=200)
