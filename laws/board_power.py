"""Power and energy by the board's power limit.

A GPU under load is taken to draw a fixed share of its board power (TDP) on either device, so power
scales by the ratio of the TDPs, and energy, which is power times time, by that ratio times the one
of the times.

Where nobody has measured the power of a kernel it is taken to be a share of the board power by what
it does: products (`PRODUCTS`), what moves data (`MOVING`), messages (`LINKS`), launches
(`LAUNCHES`), nothing (`IDLE`). The shares are judgements (hardware/constants.toml), as is the
spread of the logarithm of the power around them (`SPREAD`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from ..arrays import FloatArray
from ..hardware import GPU
from ..hardware.constants import constant
from ..operators.operators import Work
from .base import DeviceLaw

_J_PER_W_US = 1e-6
PRODUCTS, MOVING, LINKS, LAUNCHES, IDLE = (
    constant(f"power.{name}").value for name in ("products", "moving", "links", "launches", "idle")
)
SPREAD = constant("power.products").spread


class Tdp(DeviceLaw):
    """The board power in every row, W."""

    name = "tdp"
    title = "TDP"
    alone = True
    scales = True
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
        self.name = f"energy-by-{time.name}"
        self.title = f"TDP x {time.title}"
        self.alone = time.alone
        self.scales = time.scales
        self.needs = (*TDP.needs, *time.needs)

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return the energy."""
        return TDP(work, gpu) * self.time(work, gpu) * _J_PER_W_US

    def ratio(self, work: Work, host: GPU, target: GPU) -> FloatArray:
        """Return the ratio of the board powers times that of the times."""
        return TDP.ratio(work, host, target) * self.time.ratio(work, host, target)


def energy_interval(
    watts: float, seconds: Sequence[float], spread: float, level: float
) -> tuple[float, float]:
    """Return the interval of the energy (J) at a level, from median and limits of the time and the power's spread.

    The logarithms of time and power are taken to err independently; ``spread`` is the standard
    deviation of the latter.

    >>> [round(joule, 1) for joule in energy_interval(500.0, (2.0, 2.0, 2.0), 0.15, 0.9)]
    [781.4, 1279.8]
    """
    middle, lower, upper = seconds
    reach = NormalDist().inv_cdf((1 + level) / 2) * spread
    sides = (
        math.hypot(math.log(middle / lower), reach),
        math.hypot(math.log(upper / middle), reach),
    )
    return watts * middle * math.exp(-sides[0]), watts * middle * math.exp(sides[1])
