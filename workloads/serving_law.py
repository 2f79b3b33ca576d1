"""The law of a time of serving: what a tuned engine takes, and how much longer one takes as it comes.

The logarithm of the time of an engine that the vendor tunes is normal. As it comes, an engine is no
faster: what its logarithm is on top is exponential, so the sum is the law of composed errors of
Meeusen and van den Broeck, "Efficiency estimation from Cobb-Douglas production functions with
composed error", International Economic Review 18(2), 1977. Every quantile of it is above that of the
tuned engine, and it keeps no limit more surely.

Of an engine that may be either, the part of what stock ones take longer grows with the quantile: from
none at the lower end of nine in ten to all of it at the upper end. So its interval reaches from the
lower end of the tuned to the upper end of the stock engine, and its median is the geometric mean of
both medians.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray
from ..evaluation.metrics import NINETY_PERCENT
from .releases import NORMAL, each

ENDS: Final = (-NINETY_PERCENT, NINETY_PERCENT)
"""Standard normal quantiles between which nine in ten are."""
NORMALS: Final = np.union1d(np.linspace(-4.0, 4.0, 65), ENDS)
"""Standard normal quantiles between which quantiles of the law are interpolated; shape (n_normals,)."""
_LATE: Final = 32
"""Steps from a law without an exponential part to one that is nothing else."""
_FAR: Final = np.linspace(-5.0, 12.0, 341)
"""Where the distribution is computed, in deviations of the normal and exponential part together."""


@dataclass(frozen=True)
class Law:
    """Times of settings, of an engine that is tuned, stock or either.

    Attributes
    ----------
    middle : ndarray of shape (...)
        Medians as tuned, in any unit.
    spread : ndarray of shape (...)
        Standard deviations of the logarithm as tuned.
    longer : ndarray of shape (...)
        Mean of what the logarithm of a stock engine is on top; 0 of a tuned one.
    either : ndarray of shape (...)
        Whether the engine may be tuned just as well.
    least : ndarray of shape (...)
        What physics allows at least, in the unit of the medians: no quantile is below it.
    beneath, beneath_share : ndarray of shape (...)
        Of a stack whose own runs are carried over: what the logarithm of a tuned engine's median is beside
        this one's, and its deviation in parts of this one's. No quantile is below the tuned one's.
        Minus infinity where nothing is carried over.

    Examples
    --------
    >>> law = Law.of(10.0, 0.2, np.array([0.0, 0.5, 0.5]), np.array([False, False, True]))
    >>> law.quantiles([0.0]).round(1).ravel().tolist()
    [10.0, 14.6, 12.1]
    >>> law.chance(15.0).round(2).tolist()
    [0.98, 0.52, 0.67]
    """

    middle: FloatArray
    spread: FloatArray
    longer: FloatArray
    either: BoolArray
    least: FloatArray
    beneath: FloatArray
    beneath_share: FloatArray

    @classmethod
    def of(
        cls,
        middle: FloatArray | float,
        spread: FloatArray | float,
        longer: FloatArray | float = 0.0,
        either: BoolArray | bool = False,
        least: FloatArray | float = 0.0,
        beneath: FloatArray | float = -np.inf,
        beneath_share: FloatArray | float = 1.0,
    ) -> Law:
        """Return the law of times, each part broadcast to the shape of all."""
        parts = (middle, spread, longer, either, least, beneath, beneath_share)
        return cls(*np.broadcast_arrays(*parts))

    @classmethod
    def joined(cls, laws: Sequence[Law], shape: tuple[int, ...]) -> Law:
        """Return the laws of several sets of settings as one of a shape."""
        parts = []
        for of_laws in zip(*(law._parts for law in laws), strict=True):
            parts.append(np.concatenate(of_laws).reshape(shape))
        return cls(*parts)

    def part(self, settings: int) -> Law:
        """Return the laws of one place of the first dimension."""
        return Law(*(part[settings] for part in self._parts))

    def times(self, log: FloatArray, spread: FloatArray) -> Law:
        """Return the law of a product: with a factor of such medians and deviations of the logarithm."""
        factor = np.exp(log)
        wider = np.hypot(self.spread, spread)
        rest = (self.beneath, self.beneath_share)
        least = self.least * factor
        return Law.of(self.middle * factor, wider, self.longer, self.either, least, *rest)

    def quantiles(self, normals: Sequence[float] | FloatArray) -> FloatArray:
        """Return the quantiles at standard normal quantiles, shape (..., n)."""
        return np.exp(self.logs(normals))

    def logs(self, normals: Sequence[float] | FloatArray) -> FloatArray:
        """Return the logarithms of `quantiles`, shape (..., n)."""
        z = np.asarray(normals, dtype=np.float64)
        right = np.clip(np.searchsorted(NORMALS, z), 1, len(NORMALS) - 1)
        width = NORMALS[right] - NORMALS[right - 1]
        weight = np.clip((z - NORMALS[right - 1]) / width, 0.0, 1.0)
        on_top = self._on_top
        between = (1.0 - weight) * on_top[..., right - 1] + weight * on_top[..., right]
        logs = self.spread[..., None] * z + between
        tuned = self.beneath[..., None] + (self.beneath_share * self.spread)[..., None] * z
        logs = np.log(self.middle)[..., None] + np.maximum(logs, tuned)
        with np.errstate(divide="ignore"):
            return np.maximum(logs, np.log(self.least)[..., None])

    def chance(self, limit: float) -> FloatArray:
        """Return the probability that each time is no longer than a limit, shape (...)."""
        asked = np.log(limit) - np.log(self.middle)
        logs = self.spread[..., None] * NORMALS + self._on_top
        right = np.clip((logs < asked[..., None]).sum(axis=-1), 1, len(NORMALS) - 1)
        high = np.take_along_axis(logs, right[..., None], axis=-1)[..., 0]
        low = np.take_along_axis(logs, right[..., None] - 1, axis=-1)[..., 0]
        weight = np.clip((asked - low) / (high - low), 0.0, 1.0)
        z = NORMALS[right - 1] + weight * (NORMALS[right] - NORMALS[right - 1])
        # beyond the last quantiles the law is as steep as that of the tuned engine
        z += np.minimum(asked - logs[..., 0], 0.0) / self.spread
        z += np.maximum(asked - logs[..., -1], 0.0) / self.spread
        z = np.minimum(z, (asked - self.beneath) / (self.beneath_share * self.spread))
        return np.where(limit < self.least, 0.0, each(NORMAL.cdf, z))

    @property
    def half_width(self) -> FloatArray:
        """Half of what the logarithm of the interval of nine in ten is long, in standard normal deviations."""
        ends = self.logs(ENDS)
        return (ends[..., 1] - ends[..., 0]) / (2.0 * NINETY_PERCENT)

    @property
    def _parts(self) -> tuple[FloatArray | BoolArray, ...]:
        tuned = (self.beneath, self.beneath_share)
        return self.middle, self.spread, self.longer, self.either, self.least, *tuned

    @property
    def _on_top(self) -> FloatArray:
        """What the logarithm is on top of a tuned engine's, at `NORMALS`; shape (..., n_normals)."""
        whole = self.spread + self.longer
        steps = _LATE * self.longer / whole
        left = np.clip(steps.astype(int), 0, _LATE - 1)
        weight = (steps - left)[..., None]
        table = _excess()
        on_top = (1.0 - weight) * table[left] + weight * table[left + 1]
        share = np.where(self.either[..., None], _STOCK_PART, 1.0)
        return whole[..., None] * share * on_top


_PROBABLE: Final = each(NORMAL.cdf, NORMALS)
_STOCK_PART: Final = np.clip((NORMALS + NINETY_PERCENT) / (2.0 * NINETY_PERCENT), 0.0, 1.0)
"""Part of a stock engine's time on top that one has which may be either, by `NORMALS`."""


@cache
def _excess() -> FloatArray:
    """Return by how much quantiles of the sum exceed those of its normal part, shape (steps, n_normals).

    Row by row the exponential part is a larger part, 0 to 1, of the deviations of both, which add up
    to 1.
    """
    rows = [np.zeros(len(NORMALS))]
    for step in range(1, _LATE):
        longer = step / _LATE
        spread = 1.0 - longer
        below = np.array([_below(x, spread, longer) for x in _FAR.tolist()])
        inside = (below > 1e-12) & (below < 1.0 - 1e-12)
        sums = np.interp(NORMALS, each(NORMAL.inv_cdf, below[inside]), _FAR[inside])
        rows.append(np.maximum(sums - spread * NORMALS, 0.0))
    rows.append(-np.log1p(-_PROBABLE))
    return np.array(rows)


def _below(x: float, spread: float, longer: float) -> float:
    """Return the probability that a normal and an exponential variable add up to at most ``x``."""
    late = spread / longer
    u = x / spread
    tail = math.exp(late * (late / 2.0 - u)) * _normal(u - late)
    return _normal(u) - tail


def _normal(x: float) -> float:
    """Return the standard normal distribution, exact far below the mean too."""
    return math.erfc(-x / math.sqrt(2.0)) / 2.0
