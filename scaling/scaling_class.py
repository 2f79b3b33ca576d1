"""Linear, sub-linear or super-linear: a test of the exponent of performance against size.

References
----------
.. [1] D. J. Schuirmann, "A comparison of the two one-sided tests procedure and the power approach for assessing the
   equivalence of average bioavailability", J. Pharmacokinet. Biopharm. 15(6), 1987.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy import stats

from ..evaluation.law_comparison import p_value_of
from .cliffs import Cliff, cliffs
from .curves import STRONG, Curve

MARGIN = 0.05
"""Exponents within 1 ± this count as linear: 0.05 is 3.5 % of the performance at each doubling."""


class Growth(StrEnum):
    """How performance grows with size; the value is the stable key of scale.json."""

    LINEAR = "linear"
    SUB = "sub-linear"
    SUPER = "super-linear"
    UNDECIDED = "undecided"
    TOO_FEW = "too few data"


@dataclass(frozen=True)
class ScalingClass:
    """How performance grows with size."""

    growth: Growth  # what the test says; never ``TOO_FEW``
    exponent: float  # slope of log performance on log size: 1 where performance doubles with the size
    interval: tuple[float, float]  # its two-sided confidence interval; infinite with two sizes
    p_value: float  # two-sided, of 'the exponent is 1'; NaN with two sizes
    level: float  # of the interval
    margin: float  # what counts as linear
    cliffs: tuple[Cliff, ...] = ()  # those among the sizes


def classify(curve: Curve, level: float = 0.95, margin: float = MARGIN) -> ScalingClass:
    """Test how performance scales with size.

    The class is the first that applies of

    ============ ============================================================================
    linear       equivalence is shown: both one-sided tests against 1 ± margin reject at
                 1 - level, so the interval of level 2·level - 1 lies within 1 ± margin [1]_
    sub-linear   the interval lies below 1
    super-linear the interval lies above 1
    undecided    else
    ============ ============================================================================

    The curve has two sizes or more, three before anything can be decided; a DataError says that it cannot be used.

    Least squares on k sizes with Student's t of k - 2 degrees of freedom: three sizes have one, and a wide interval. An
    exponent shown to differ from 1 by less than the margin is linear. The interval takes departures from one power law
    for chance, so a curve that bends has a wide one; sizes are few and no test of the bend is made. A cliff among the
    sizes is told, and under strong scaling its jump is no chance: the curve is fitted with a step there, and the
    exponent is that from the smallest size to the largest, jumps included, as long as a degree of freedom is left.
    """
    if not 0.5 < level < 1:
        raise ValueError(f"parameter level of classify must lie between 0.5 and 1, got {level}")
    curve.check()
    u, v = np.log(curve.sizes), np.log(curve.performance)
    crossed = _crossed(curve)
    steps = [curve.sizes >= cliff.after for cliff in crossed if curve.scenario == STRONG]
    steps = steps if len(steps) < len(u) - 2 else []
    exponent, error = _growth(u, v, np.array(steps, dtype=np.float64).reshape(-1, len(u)))
    freedom = len(u) - 2 - len(steps)
    if not freedom:
        nothing = (-np.inf, np.inf)
        return ScalingClass(Growth.UNDECIDED, exponent, nothing, float("nan"), level, margin, crossed)
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * error
    shown = float(stats.t.ppf(level, freedom)) * error
    interval = (exponent - half, exponent + half)
    growth = growth_of(interval, (exponent - shown, exponent + shown), margin)
    p_value = p_value_of(exponent - 1, error, freedom)
    return ScalingClass(growth, exponent, interval, p_value, level, margin, crossed)


def growth_of(interval: tuple[float, float], equivalence: tuple[float, float], margin: float = MARGIN) -> Growth:
    """Return the class of an exponent by its intervals.

    ``interval`` is of the level at which the exponent may differ from 1, ``equivalence`` of level 2·level - 1, so that
    both one-sided tests are at 1 - level.
    """
    if 1 - margin <= equivalence[0] and equivalence[1] <= 1 + margin:
        return Growth.LINEAR
    if interval[1] < 1:
        return Growth.SUB
    return Growth.SUPER if interval[0] > 1 else Growth.UNDECIDED


def _growth(u: np.ndarray, v: np.ndarray, steps: np.ndarray) -> tuple[float, float]:
    """Return the mean slope of v over u, steps (s, k) included, and its standard error (0 without a spare point)."""
    A = np.column_stack([np.ones_like(u), u, *steps])  # k x (2 + s)
    wanted = np.r_[0.0, 1.0, np.ones(len(steps)) / (u[-1] - u[0])]
    coefficients = np.linalg.lstsq(A, v, rcond=None)[0]
    residual = v - A @ coefficients
    residual = np.where(np.abs(residual) < 1e-12, 0.0, residual)
    variance = residual @ residual / max(len(u) - A.shape[1], 1)
    return float(wanted @ coefficients), float(np.sqrt(variance * (wanted @ np.linalg.pinv(A.T @ A) @ wanted)))


def _crossed(curve: Curve) -> tuple[Cliff, ...]:
    """Return the cliffs among the sizes."""
    if curve.mpki is None:
        return ()
    first, last = curve.sizes[0], curve.sizes[-1]
    every = cliffs(curve.miss_sizes, curve.mpki)
    return tuple(cliff for cliff in every if first < cliff.after and cliff.before < last)
