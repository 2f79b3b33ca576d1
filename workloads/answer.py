"""The answer to one setting: a time with its interval, what it is made of, the memory, and why it cannot be.

Its energy is board power times the share of it that each part of the time draws. The shares are judgements of the
utilisation class: matrix units busy, memory busy, links busy, the host awaited. MI300X boards draw near their limit in
large products and half of it while they wait for memory or links (FinGraV, arXiv:2412.12426, figures of isolated
kernels). The spread of the whole is `SPREAD`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from scipy.special import ndtri

from ..hardware import GPU
from ..remarks import Remark
from .layer_graph import GraphSetting
from .setting import Setting

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


@dataclass(frozen=True, kw_only=True)
class LayerTime:
    """One layer of a graph: its seconds of computing and of its message, when, and where they come from.

    ``source`` is ``stated``, ``run``, ``measured`` or ``law`` of what it computes, "" where it only sends; ``critical``
    says whether the end of the whole waits for it.
    """

    name: str
    phase: str
    source: str
    compute_s: float
    message_s: float
    start_s: float
    end_s: float
    critical: bool


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The answer to one setting.

    Attributes
    ----------
    setting : Setting, GraphSetting or None
        What was asked; None where it could not be understood.
    predicted, lower, upper : float
        Median and interval, in ``unit``; NaN where there is no answer.
    unit : str
        ``s`` (of a batch, or a step) or ``tok/s`` (output tokens of all GPUs).
    memory_gb : float
        GiB that one GPU needs.
    memory : dict of str to float
        GiB of it by what they hold.
    fits : bool or None
        Whether it has them; None where that is not known.
    reason : Remark or None
        Why there is no answer.
    parts : dict of str to (median, lower, upper)
        Seconds of each part of the time.
    spreads : dict of str to float
        Standard deviation of the logarithm of the answer, by where it comes from.
    details : dict of str to float
        Further figures: seconds to the first token and per token, tokens per second, sequences at once, ...
    remarks : tuple of Remark
        What the answer rests on and assumes.
    layers : tuple of LayerTime
        Of a graph, in the order in which they run; empty otherwise.
    """

    setting: Setting | GraphSetting | None
    predicted: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    unit: str = ""
    memory_gb: float = math.nan
    memory: Mapping[str, float] = field(default_factory=dict)
    fits: bool | None = None
    reason: Remark | None = None
    parts: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    spreads: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
    layers: tuple[LayerTime, ...] = ()

    @property
    def half_width(self) -> float:
        """Of the interval, as a share of the answer; NaN where there is none."""
        return (self.upper - self.lower) / 2 / self.predicted

    def sure(self, need: float) -> str:
        """Return whether the answer is known within so much: ``reached``, ``not reached``, ``unknown``.

        Unknown is what has no answer, and what would be reached but rests on a GPU that was never calibrated.
        """
        if self.reason is not None:
            return "unknown"
        if self.half_width > need:
            return "not reached"
        return "unknown" if "gpu" in self.spreads else "reached"
