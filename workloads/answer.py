"""The answer to one setting: a time with its interval, what it is made of, the memory, and why it cannot be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..remarks import Remark
from .layer_graph import GraphSetting
from .setting import Setting


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
