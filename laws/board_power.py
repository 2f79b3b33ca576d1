"""Power and energy by the board's power limit.

A GPU under load is taken to draw a fixed share of its board power (TDP) on either device, so power scales by the ratio
of the TDPs, and energy, which is power times time, by that ratio times the one of the times.
"""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray
from ..hardware import GPU
from ..operators.operators import Work
from .base import DeviceLaw

_J_PER_W_US = 1e-6


class Tdp(DeviceLaw):
    """The board power in every row, W."""

    name, title, alone, scales = "tdp", "TDP", True, True
    needs = ("tdp_w",)
    source = "the same share of the board power on either device"
    metric = "power_w"

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return the board power."""
        return np.full(len(work), gpu.require("tdp_w"))


TDP = Tdp()


class Energy(DeviceLaw):
    """``tdp t``: the energy (J) of the time t of another law (µs) at full board power."""

    source = "power times time"
    metric = "energy_j"

    def __init__(self, time: DeviceLaw) -> None:
        self.time = time
        self.name, self.title = f"energy-by-{time.name}", f"TDP x {time.title}"
        self.alone, self.scales = time.alone, time.scales
        self.needs = (*TDP.needs, *time.needs)

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return the energy."""
        return TDP(work, gpu) * self.time(work, gpu) * _J_PER_W_US

    def ratio(self, work: Work, host: GPU, target: GPU) -> FloatArray:
        """Return the ratio of the board powers times that of the times."""
        return TDP.ratio(work, host, target) * self.time.ratio(work, host, target)
