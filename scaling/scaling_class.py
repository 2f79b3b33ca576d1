"""Linear, sub-linear or super-linear: a test of the exponent of performance against size, and cliffs of miss rates.

Where the working set of a benchmark fits the last-level cache, its misses vanish from one size of
the GPU to the next: the time spent waiting for memory goes with them, and performance jumps by up
to 1 / (1 - f_mem) [2]_. Where the L2 has a last-level cache behind it (Infinity Cache), each has a
separate cliff (`CliffPath`).

References
----------
.. [1] D. J. Schuirmann, "A comparison of the two one-sided tests procedure and the power approach for assessing the
   equivalence of average bioavailability", J. Pharmacokinet. Biopharm. 15(6), 1987.
.. [2] H. SeyyedAghaei, M. Naderan-Tahan, L. Eeckhout, "GPU Scale-Model Simulation", HPCA 2024.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

from ..arrays import BoolArray, FloatArray
from ..evaluation.law_comparison import p_value_of
from ..remarks import Remark, remark
from .curves import STRONG, Curve

THRESHOLD = 2.0  # misses must fall by more than this factor when the cache doubles
NEARLY = 1.1  # sizes up to 2 · 1.1 apart count as one doubling: GPUs come in 80, 152 or 304 units


@dataclass(frozen=True)
class Cliff:
    """A fall of the miss rate, by the factor ``ratio``, from size ``before`` to size ``after`` (infinite: to none)."""

    before: float
    after: float
    ratio: float

    def __str__(self) -> str:
        return (
            f"cliff between {self.before:g} and {self.after:g}: MPKI falls {self.ratio:.3g} times"
        )


@dataclass(frozen=True)
class L2Cliff(Cliff):
    """A fall of the misses of the L2, where it is not the last-level cache."""

    def __str__(self) -> str:
        return (
            f"cliff of the L2 between {self.before:g} and {self.after:g}: its misses fall "
            f"{self.ratio:.3g} times"
        )


def cliffs_of(curve: Curve) -> tuple[Cliff, ...]:
    """Return the cliffs of a curve: those of the L2, then those of the last-level cache; none without miss rates."""
    every = list[Cliff]()
    if curve.l2_mpki is not None:
        for cliff in cliffs(curve.miss_sizes, curve.l2_mpki):
            every.append(L2Cliff(cliff.before, cliff.after, cliff.ratio))
    if curve.mpki is not None:
        every += cliffs(curve.miss_sizes, curve.mpki)
    return tuple(every)


def cliffs(sizes: FloatArray, mpki: FloatArray, threshold: float = THRESHOLD) -> list[Cliff]:
    """Return the cliffs of a miss-rate curve, in order: falls by more than ``threshold`` when the size doubles.

    ``mpki`` are the misses per thousand instructions at each of the increasing ``sizes`` of the
    GPU, whose cache grows in proportion; both of shape (m,).

    Sizes need not double from one to the next. A window from one size to the farthest within
    (nearly) a doubling is tested as one, so a fall that fine steps cut in pieces is still found; it
    is reported from the size where it begins to the one where it ends, or where the doubling does.
    A step of several doublings d must fall by ``threshold ** d``: a single cliff inside it may go
    unseen, as the curve does not show where in the step the misses went.

    >>> [(cliff.before, cliff.after) for cliff in cliffs([8, 16, 32, 64], [6.0, 5.9, 1.2, 1.1])]
    [(16.0, 32.0)]
    """
    at = np.asarray(sizes, dtype=np.float64)
    misses = np.asarray(mpki, dtype=np.float64)
    steps = []
    i = 0
    while i < len(at) - 1:
        doubled = np.searchsorted(at, 2 * NEARLY * at[i], side="right")
        j = max(i + 1, int(doubled) - 1)
        if not _falls(at, misses, i, j, threshold):
            i += 1
            continue
        # the part of the window that falls: flat ends left out, a fall that goes on beyond it taken
        # in
        while (
            j - i > 1
            and not _steep(at, misses, i, threshold)
            and _falls(at, misses, i + 1, j, threshold)
        ):
            i += 1
        while (
            j - i > 1
            and not _steep(at, misses, j - 1, threshold)
            and _falls(at, misses, i, j - 1, threshold)
        ):
            j -= 1
        while (
            j + 1 < len(at) and _within_doubling(at, i, j + 1) and _steep(at, misses, j, threshold)
        ):
            j += 1
        steps.append(Cliff(float(at[i]), float(at[j]), _ratio(misses[i], misses[j])))
        i = j
    return steps


def _falls(at: FloatArray, misses: FloatArray, i: int, j: int, threshold: float) -> bool:
    if _within_doubling(at, i, j):
        needed = threshold
    else:
        needed = threshold ** np.log2(at[j] / at[i])
    return bool(misses[i] > needed * misses[j])


def _steep(at: FloatArray, misses: FloatArray, i: int, threshold: float) -> bool:
    """Return whether the misses fall from one size to the next at the pace of a cliff."""
    return bool(misses[i] > threshold ** np.log2(at[i + 1] / at[i]) * misses[i + 1])


def _within_doubling(at: FloatArray, i: int, j: int) -> bool:
    return bool(at[j] <= 2 * NEARLY * at[i])


def _ratio(before: float, after: float) -> float:
    if after > 0:
        return float(before) / float(after)
    return float("inf")


class Jump(NamedTuple):
    """By how much cliffs have multiplied performance at each size: best estimate, least and most."""

    factor: FloatArray
    low: FloatArray
    high: FloatArray


class _Level:
    """The cliffs of one cache beyond the largest size, and which share of the time they take away.

    The share of the time that waits for the misses is ``share``; where it was not measured it lies
    between ``least`` and ``most``.
    """

    def __init__(self, cliffs: Sequence[Cliff], misses: Mapping[float, float]) -> None:
        self.cliffs = cliffs
        self.share = self.least = self.most = 0.0
        fallen = [0.0]
        for cliff in cliffs:
            fallen.append(fallen[-1] + misses[cliff.before] - misses[cliff.after])
        self._gone = np.array(fallen) / (fallen[-1] or 1.0)
        self._misses = misses

    def measured(self, share: float) -> None:
        """Take a share that was measured."""
        self.share = self.least = self.most = share

    def bounded(self) -> None:
        """Take half of what the misses that go could wait for."""
        before = self._misses[self.cliffs[0].before]
        self.most = 1 - self._misses[self.cliffs[-1].after] / before
        self.least = 0.0
        self.share = self.most / 2

    def gone(self, sizes: FloatArray, side: Literal["before", "after"]) -> FloatArray:
        """Return which part of all misses that fall is gone at each size: after whole cliffs, or from their start."""
        if side == "after":
            passed = np.searchsorted([cliff.after for cliff in self.cliffs], sizes, side="right")
        else:
            passed = np.searchsorted([cliff.before for cliff in self.cliffs], sizes, side="left")
        return self._gone[passed]


class CliffPath:
    """The cliffs beyond the largest size measured, and by how much they multiply performance.

    `cliffs` are those that end beyond the largest size, of the L2 (`L2Cliff`) and of the last-level
    cache; none under weak scaling, where the work grows with the caches. `notes` list the findings
    (``cliff-beyond``, ``l2-cliff-beyond``, ``cliff-among-sizes-fitted``), and what was unknown
    (``miss-rates-end``, ``f-mem-not-measured``, ``f-l2-not-measured``).

    One cliff multiplies performance by 1 / (1 - f_mem) [1]_. Of several, the k-th leaves 1 / (1 -
    f_mem · R_k), R_k the part of the misses that go over all cliffs which is gone after it, so the
    last gives 1 / (1 - f_mem) again. Misses of the L2 have a share f_l2 of their own, what they wait
    until the last-level cache answers, and R_k of their own; beyond that f_mem counts. Both together
    give 1 / (1 - f_mem · R - f_l2 · R_l2).

    Without f_mem the jump is bounded: by 1 if no time waited for memory, and by the ratio of the
    misses before and after if all of it did. The middle of the f_mem between stands in, and the
    interval spans both bounds. f_l2 is bounded in the same way.

    Between the sizes before and after a cliff it is unknown where it lies: the law predicts as
    before it, and the interval reaches up to what comes after it.
    """

    def __init__(self, curve: Curve) -> None:
        self.cliffs: list[Cliff] = []
        self.notes: list[Remark] = []
        self._largest = float(curve.sizes[-1])
        self._levels = list[_Level]()
        if curve.scenario == STRONG and curve.mpki is not None:
            self._find(curve, curve.mpki)

    def at(self, sizes: FloatArray) -> Jump:
        """Return the jump at each size."""
        left = np.ones(len(sizes))
        least = np.ones(len(sizes))
        largest = np.ones(len(sizes))
        for level in self._levels:
            before = level.gone(sizes, "after")
            after = level.gone(sizes, "before")
            left = left - level.share * before
            least = least - level.least * before
            largest = largest - level.most * np.where(sizes > self._largest, after, 0.0)
        return Jump(_inverse(left), _inverse(least), _inverse(largest))

    def ends(self, sizes: FloatArray) -> BoolArray:
        """Return which sizes are the first beyond a cliff, ndarray of bool."""
        return np.isin(sizes, [cliff.after for cliff in self.cliffs])

    def _find(self, curve: Curve, mpki: FloatArray) -> None:
        at = curve.miss_sizes
        largest = curve.sizes[-1]
        every = cliffs_of(curve)
        self.cliffs = [cliff for cliff in every if cliff.after > largest]
        for cliff in self.cliffs:
            code = "cliff-beyond"
            if isinstance(cliff, L2Cliff):
                code = "l2-cliff-beyond"
            self.notes.append(remark(code, str(cliff), **vars(cliff)))
        among = "among the sizes fitted: the growth seen there includes a jump"
        for cliff in every:
            if cliff.before >= curve.sizes[0] and cliff.after <= largest:
                text = f"{cliff}, {among}"
                self.notes.append(remark("cliff-among-sizes-fitted", text, **vars(cliff)))
        if at[-1] <= largest:
            end = float(at[-1])
            text = f"miss rates end at {end:g}: a cliff beyond would go unnoticed"
            self.notes.append(remark("miss-rates-end", text, size=end))
        last = [cliff for cliff in self.cliffs if not isinstance(cliff, L2Cliff)]
        inner: list[Cliff] = [cliff for cliff in self.cliffs if isinstance(cliff, L2Cliff)]
        self._level(last, at, mpki, curve.f_mem, "f_mem")
        if curve.l2_mpki is not None:
            self._level(inner, at, curve.l2_mpki, curve.f_l2, "f_l2")

    def _level(
        self,
        cliffs: list[Cliff],
        at: FloatArray,
        misses: FloatArray,
        share: float | None,
        name: str,
    ) -> None:
        """Add the cliffs of one cache; ``name`` is what the share of its misses is called."""
        if not cliffs:
            return
        level = _Level(cliffs, dict(zip(at.tolist(), misses.tolist(), strict=True)))
        self._levels.append(level)
        if share is not None:
            level.measured(share)
            return
        level.bounded()
        jump = "any factor"
        if level.most < 1:
            jump = f"{1 / (1 - level.most):.3g} times"
        text = (
            f"{name} not measured: assumed to be {level.share:.2f}, bounded by 0 and "
            f"{level.most:.2f}, so performance may not jump at all or by {jump}"
        )
        code = name.replace("_", "-") + "-not-measured"
        self.notes.append(remark(code, text, taken=level.share, most=level.most))


def _inverse(values: FloatArray) -> FloatArray:
    """Return 1 / values, infinite where they are 0."""
    return np.divide(1.0, values, out=np.full(len(values), np.inf), where=values > 1e-12)


MARGIN = 0.05  # exponents within 1 ± this count as linear: 0.05 is 3.5 % of the performance at each doubling


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
    # slope of log performance on log size: 1 where performance doubles with the size
    exponent: float
    interval: tuple[float, float]  # its two-sided confidence interval; infinite with two sizes
    p_value: float  # two-sided, of 'the exponent is 1'; NaN with two sizes
    level: float  # of the interval
    margin: float  # what counts as linear
    cliffs: tuple[Cliff, ...] = ()  # those among the sizes

    def __str__(self) -> str:
        lower, upper = self.interval
        if lower == -float("inf"):
            text = (
                f"{self.growth}: exponent {self.exponent:.2f} between two sizes, which carry no "
                "interval"
            )
        else:
            if self.p_value < 0.001:
                p_value = "p < 0.001"
            else:
                p_value = f"p = {self.p_value:.2g}"
            text = (
                f"{self.growth}: exponent {self.exponent:.2f} [{lower:.2f}, {upper:.2f}], {p_value}"
            )
            if self.growth == "linear" and self.p_value < 1 - self.level:
                text += f" for exactly 1, but within {self.margin:g} of it"
        if self.cliffs:
            return f"{text}; crosses a {' and a '.join(map(str, self.cliffs))}"
        return text


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
    u = np.log(curve.sizes)
    v = np.log(curve.performance)
    crossed = tuple(
        one
        for one in cliffs_of(curve)
        if curve.sizes[0] < one.after and one.before < curve.sizes[-1]
    )
    steps = [curve.sizes >= cliff.after for cliff in crossed if curve.scenario == STRONG]
    if len(steps) >= len(u) - 2:
        steps = []
    step_columns = np.array(steps, dtype=np.float64).reshape(-1, len(u))
    exponent, error = _growth(u, v, step_columns)
    freedom = len(u) - 2 - len(steps)
    if not freedom:
        nothing = (-np.inf, np.inf)
        return ScalingClass(
            Growth.UNDECIDED, exponent, nothing, float("nan"), level, margin, crossed
        )
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * error
    shown = float(stats.t.ppf(level, freedom)) * error
    interval = (exponent - half, exponent + half)
    growth = growth_of(interval, (exponent - shown, exponent + shown), margin)
    p_value = p_value_of(exponent - 1, error, freedom)
    return ScalingClass(growth, exponent, interval, p_value, level, margin, crossed)


def growth_of(
    interval: tuple[float, float], equivalence: tuple[float, float], margin: float = MARGIN
) -> Growth:
    """Return the class of an exponent by its intervals.

    ``interval`` is of the level at which the exponent may differ from 1, ``equivalence`` of level
    2·level - 1, so that both one-sided tests are at 1 - level.
    """
    if 1 - margin <= equivalence[0] and equivalence[1] <= 1 + margin:
        return Growth.LINEAR
    if interval[1] < 1:
        return Growth.SUB
    if interval[0] > 1:
        return Growth.SUPER
    return Growth.UNDECIDED


def _growth(u: np.ndarray, v: np.ndarray, steps: np.ndarray) -> tuple[float, float]:
    """Return the mean slope of v over u, steps (s, k) included, and its standard error (0 without a spare point)."""
    A = np.column_stack([np.ones_like(u), u, *steps])  # k x (2 + s)
    wanted = np.r_[0.0, 1.0, np.ones(len(steps)) / (u[-1] - u[0])]
    coefficients = np.linalg.lstsq(A, v, rcond=None)[0]
    residual = v - A @ coefficients
    residual = np.where(np.abs(residual) < 1e-12, 0.0, residual)
    variance = residual @ residual / max(len(u) - A.shape[1], 1)
    return float(wanted @ coefficients), float(
        np.sqrt(variance * (wanted @ np.linalg.pinv(A.T @ A) @ wanted))
    )
