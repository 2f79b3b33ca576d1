"""Energy of a forecast: board power times the share of it that each part of the time draws.

The shares are judgements of the utilisation class: matrix units busy, memory busy, links busy, the host awaited. MI300X
boards draw near their limit in large products and half of it while they wait for memory or links (FinGraV, arXiv:
2412.12426, figures of isolated kernels). The spread of the whole is `SPREAD`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from scipy.special import ndtri

from ..hardware import GPU

SHARES: Final = {
    "products": 0.85,
    "attention": 0.85,
    "head": 0.85,
    "stated": 0.65,
    "cache": 0.65,
    "elementwise": 0.65,
    "optimizer": 0.65,
    "collectives": 0.5,
    "gradients": 0.5,
    "layers": 0.4,
    "sequences": 0.4,
    "steps": 0.3,
    "pipeline": 0.3,
}
"""Part of the board power (TDP) that is drawn, by part of the time."""
SPREAD: Final = 0.15
"""Standard deviation of the logarithm of the power, beside that of the time."""


def mean_power_w(gpu: GPU, seconds: Mapping[str, float]) -> float:
    """Return the mean power of one GPU over the parts of a time, W; NaN where its board power is not published."""
    whole = sum(seconds.values())
    if gpu.tdp_w is None or not whole:
        return float("nan")
    return gpu.tdp_w * sum(SHARES[name] * value for name, value in seconds.items()) / whole


def energy(
    gpu: GPU, gpus: int, parts: Mapping[str, Sequence[float]], seconds: Sequence[float], level: float
) -> dict[str, float]:
    """Return seconds, mean power of all GPUs and energy, with the interval of the energy at a level.

    ``parts`` and ``seconds`` hold median and limits, of each part of the time and of the whole.
    """
    power = mean_power_w(gpu, {name: values[0] for name, values in parts.items()}) * gpus
    middle, lower, upper = (float(value) for value in seconds)
    z = float(ndtri((1 + level) / 2))
    sides = (math.hypot(math.log(middle / lower), z * SPREAD), math.hypot(math.log(upper / middle), z * SPREAD))
    return {
        "seconds": middle,
        "power_w": power,
        "energy_j": power * middle,
        "energy_j_lower": power * middle * math.exp(-sides[0]),
        "energy_j_upper": power * middle * math.exp(sides[1]),
    }
