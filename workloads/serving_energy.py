"""Power of a GPU while it serves, and the joules of a token.

A board draws a share of its power limit (TDP) between steps, and more the longer its memory and its
products would work at their published peaks: of a time in which they would for the parts ``m`` and
``p``, the share is ``idle + (1 - idle) (1 - exp(-reach (a m + b p)))``. The parts come from
`laws.serving_steps` and the tokens that are served in a second; the constants, which
`benchmarks.serving_energy` fits to InferenceX's measured joules per token, are ``energy.*`` of
workloads/constants.toml. ``reach`` is of the GPU's architecture. Energy is that of the GPUs alone,
not of the hosts or the cooling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..hardware import GPU
from ..laws.serving_steps import steps
from ..operators.operators import complete
from .releases import PRIORS

IDLE, MEMORY, PRODUCTS = (PRIORS[f"energy.{name}"].value for name in ("idle", "memory", "products"))
REACH, SPREAD = PRIORS["energy.reach"], PRIORS["energy.power"]
MILLION_KWH: Final = 1e6 / 3.6e6
"""Kilowatt hours of a million tokens that take a joule each."""
_MEMORY: Final = ("weights", "experts", "cache")
_PRODUCTS: Final = ("products", "prompts", "prompt_experts", "scores")


@dataclass(frozen=True)
class Work:
    """What a step of each setting asks of a GPU."""

    # milliseconds at the published peaks of memory and of products; shape (n_settings,)
    memory_ms: FloatArray
    products_ms: FloatArray
    running: FloatArray  # sequences that a step gives a token each; shape (n_settings,)

    def shares(self, tokens_per_s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the parts of the time in which memory and products would work at their peaks.

        ``tokens_per_s`` are those of answers, of all GPUs of an instance; shape (..., n_settings).
        """
        steps_per_ms = tokens_per_s / self.running / 1e3
        return self.memory_ms * steps_per_ms, self.products_ms * steps_per_ms

    def part(self, settings: slice) -> Work:
        """Return the work of some of the settings."""
        return Work(self.memory_ms[settings], self.products_ms[settings], self.running[settings])

    def at(self, users: FloatArray, asked: FloatArray) -> Work:
        """Return the work with other numbers of requests under way, between those of the settings.

        ``users`` are theirs, rising; fewer or more than these have the work of the first or last.
        """
        logs = np.log(users)
        between = [
            np.interp(np.log(asked), logs, values)
            for values in (self.memory_ms, self.products_ms, self.running)
        ]
        return Work(*between)


def work(rows: pd.DataFrame, gpu: GPU) -> Work:
    """Return the work of a step of settings on a GPU.

    ``rows`` are of the operator ``serving``, with the figures of their models; where a figure of the
    model or of the GPU is missing, the work is NaN.
    """
    parts = steps(complete(rows), gpu)
    memory = np.sum([parts.tpot[name] for name in _MEMORY], axis=0)
    products = np.sum([parts.tpot[name] for name in _PRODUCTS], axis=0)
    return Work(memory, products, parts.running)


def board_share(
    memory: FloatArray,
    products: FloatArray,
    reach: FloatArray | float,
    *,
    idle: float = IDLE,
    rise: tuple[float, float] = (MEMORY, PRODUCTS),
) -> FloatArray:
    """Return the share of its board power that a GPU draws: ``idle`` at rest, 1 at most.

    >>> share = board_share(np.array([0.0, 0.3, 50.0]), np.zeros(3), 1.0, idle=0.2, rise=(2.0, 20.0))
    >>> share.round(2).tolist()
    [0.2, 0.56, 1.0]
    """
    busy = reach * (rise[0] * memory + rise[1] * products)
    return idle + (1.0 - idle) * -np.expm1(-busy)


def power_w(step: Work, tokens_per_s: FloatArray, gpu: GPU) -> FloatArray:
    """Return the mean power (W) of a GPU; NaN where its board power is not published."""
    memory, products = step.shares(tokens_per_s)
    board = np.nan if gpu.tdp_w is None else gpu.tdp_w
    return board * board_share(memory, products, REACH.of(gpu.arch))


def power_spread(gpu: GPU) -> float:
    """Return the standard deviation of the logarithm of `power_w`, less where the GPU was measured."""
    return SPREAD.by.get(gpu.measured_name, SPREAD.of(gpu.vendor))
