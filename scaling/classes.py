"""Linear, sub-linear or super-linear: a test of the exponent of performance against size.

References
----------
.. [1] D. J. Schuirmann, "A comparison of the two one-sided tests procedure and the power approach for assessing the
   equivalence of average bioavailability", J. Pharmacokinet. Biopharm. 15(6), 1987.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from ..evaluation.law_comparison import p_value_of
from .cliffs import cliffs
from .scaling_laws import Curve

Kind = Literal["linear", "sub-linear", "super-linear", "undecided"]


@dataclass(frozen=True)
class ScalingClass:
    """How performance grows with size.

    Attributes
    ----------
    kind : {"linear", "sub-linear", "super-linear", "undecided"}
        What the test says.
    exponent : float
        Slope of log performance on log size: 1 where performance doubles with the size.
    interval : tuple of float
        Its two-sided confidence interval; infinite with two sizes.
    p_value : float
        Two-sided, of 'the exponent is 1'; NaN with two sizes.
    words : str
        The verdict with its figures, cliffs included.
    """

    kind: Kind
    exponent: float
    interval: tuple[float, float]
    p_value: float
    words: str


def classify(curve: Curve, level: float = 0.95, margin: float = 0.05) -> ScalingClass:
    """Test how performance scales with size.

    Parameters
    ----------
    curve : Curve
        Two sizes or more; three before anything can be decided.
    level : float
        Of the interval; tests are made at 1 - level.
    margin : float
        Exponents within 1 ± margin are linear for practical purposes.

    Returns
    -------
    ScalingClass
        The first that applies of

        ============ ============================================================================
        linear       equivalence is shown: both one-sided tests against 1 ± margin reject at
                     1 - level, so the interval of level 2·level - 1 lies within 1 ± margin [1]_
        sub-linear   the interval lies below 1
        super-linear the interval lies above 1
        undecided    else
        ============ ============================================================================

    Raises
    ------
    DataError
        If the curve cannot be used.

    Notes
    -----
    Least squares on k sizes with Student's t of k - 2 degrees of freedom: three sizes have one, and a wide interval. An
    exponent shown to differ from 1 by less than the margin is linear; the words give its p-value. The interval takes
    departures from one power law for chance, so a curve that bends, or jumps at a cliff, has a wide one; sizes are few
    and no test of the bend is made. A cliff among the sizes is told.
    """
    if not 0.5 < level < 1:
        raise ValueError(f"parameter level of classify must lie between 0.5 and 1, got {level}")
    curve.check()
    u, v = np.log(curve.sizes), np.log(curve.performance)
    exponent, error = _slope(u - u.mean(), v - v.mean())
    freedom = len(u) - 2
    if not freedom:
        words = f"undecided: exponent {exponent:.2f} between two sizes, which carry no interval{_cliffs(curve)}"
        return ScalingClass("undecided", exponent, (-np.inf, np.inf), float("nan"), words)
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * error
    shown = float(stats.t.ppf(level, freedom)) * error
    interval = (exponent - half, exponent + half)
    kind = _kind(exponent, interval, shown, margin)
    p_value = p_value_of(exponent - 1, error, freedom)
    words = f"{kind}: exponent {exponent:.2f} [{interval[0]:.2f}, {interval[1]:.2f}], {_p_words(p_value)}"
    words += f" for exactly 1, but within {margin:g} of it" if kind == "linear" and p_value < 1 - level else ""
    return ScalingClass(kind, exponent, interval, p_value, words + _cliffs(curve))


def _slope(u: np.ndarray, v: np.ndarray) -> tuple[float, float]:
    """Return the least-squares slope of centred v on centred u and its standard error (0 with two points)."""
    slope = float(u @ v / (u @ u))
    residual = v - slope * u
    residual = np.where(np.abs(residual) < 1e-12, 0.0, residual)
    return slope, float(np.sqrt(residual @ residual / max(len(u) - 2, 1) / (u @ u)))


def _kind(exponent: float, interval: tuple[float, float], shown: float, margin: float) -> Kind:
    if 1 - margin <= exponent - shown and exponent + shown <= 1 + margin:
        return "linear"
    if interval[1] < 1:
        return "sub-linear"
    return "super-linear" if interval[0] > 1 else "undecided"


def _p_words(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"


def _cliffs(curve: Curve) -> str:
    """Return what there is to say of cliffs among the sizes, from a separator on; empty where there are none."""
    if curve.mpki is None:
        return ""
    first, last = curve.sizes[0], curve.sizes[-1]
    crossed = [cliff for cliff in cliffs(curve.miss_sizes, curve.mpki) if first < cliff.after and cliff.before < last]
    return f"; crosses a {' and a '.join(map(str, crossed))}" if crossed else ""
