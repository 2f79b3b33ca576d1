"""Energy of a forecast: board power times the share of it that each part of the time draws.

The shares are judgements of the utilisation class: matrix units busy, memory busy, links busy, the host awaited. MI300X
boards draw near their limit in large products and half of it while they wait for memory or links (FinGraV, arXiv:
2412.12426, figures of isolated kernels). The spread of the whole is `SPREAD`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..hardware import GPU

SHARES: Final = {
    "products": 0.85,
    "attention": 0.85,
    "head": 0.85,
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
