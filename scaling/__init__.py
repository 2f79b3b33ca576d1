"""Scaling laws: from performance at a few small sizes of a GPU to any larger one."""

from __future__ import annotations

from collections.abc import Sequence

from .scale_models import Equations, LearnedScaleModel, Program
from .scaling_laws import (
    Amdahl,
    Curve,
    Gustafson,
    Linear,
    Logarithmic,
    Power,
    Proportional,
    ScalingLaw,
    UniversalScalability,
)

_ALL: tuple[type[ScalingLaw], ...] = (
    *(Proportional, Linear, Power, Logarithmic, Amdahl, Gustafson, UniversalScalability),
    *(Equations, Program, LearnedScaleModel),
)

LAWS: dict[str, type[ScalingLaw]] = {law.name: law for law in _ALL}
"""Every law by its name, in the order of tables."""


def laws(training: Sequence[Curve] | None = None) -> list[ScalingLaw]:
    """Return every law, unfitted.

    Parameters
    ----------
    training : sequence of Curve, optional
        Curves of other benchmarks to learn from; the published ones by default.
    """
    return [law(training) for law in LAWS.values()]
