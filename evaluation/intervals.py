"""Prediction intervals of relative error: the methods of all that states one, for new rows and for new groups.

The residual of a row is ``r = log(y / f(x))`` from OUT-OF-FOLD predictions, divided by the
difficulty of the row where one was learnt (`interval_scale`); an interval is ``[f exp(-q down scale),
f exp(q up scale)]``.

For new rows of known groups (scheme ``"kfold"``) q is the conformal quantile of ``max(r / up, -r /
down)``, the score at rank ``ceil((n + 1) level)`` of n (Vovk, Gammerman & Shafer 2005). Where n is
too small to have that rank, Student's t with n degrees of freedom goes on from the root mean square
of the scores.

Rows of one group share their error, so a new group is not one more draw from the pooled rows. For
new groups (scheme ``"grouped"``) the residual of a row is the shift of its group plus its deviation
within: the shifts of the G groups (their medians, shrunk by what the medians themselves scatter)
are combined with the deviations of the rows of all groups (every group of the same weight). What
few groups say of the spread of all is uncertain: shifts are stretched by the ratio of Student's t
with G - 1 degrees of freedom to the normal, deviations by the t of the degrees of freedom that the
variances of the groups have (Satterthwaite 1946). Up to `FEW` groups the shifts are those of the t
distribution itself. This is theory with a normal core, not a finite-sample guarantee: what it
achieves is measured on data made from a law (`benchmarks.calibration`) and on the data at hand
(`covered` of `cross_bounds`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from ..arrays import BoolArray, FloatArray
from ..errors import DataError
from ..workers import in_parts
from .folds import SCHEMES

LEVEL: Final = 0.9  # of an interval where nobody asks for another: what is learnt, reported and kept with a model
LEVELS: Final = np.arange(1, 200) / 200
"""Levels at which the quantile is kept: 0.5 % to 99.5 % in steps of half a percent."""
AT_ONCE: Final = 2**18  # levels times rows that are worked out together
MARGIN: Final = 0.5  # standard errors added to the coverage aimed at outside the trained range
FEW: Final = 16
"""Groups up to which their shifts count as drawn from a t distribution; of more the shifts themselves count."""
SIDE_QUANTILE: Final = 0.9
"""Quantile of the errors of either sign that sets how much wider one side of the interval is than the other."""
# largest ratio believed between the errors of either sign: few rows cannot tell more
SIDE_LIMIT: Final = 4.0


class Coverage(NamedTuple):
    """What intervals did on rows they had not been calibrated on."""

    coverage: float  # share of rows inside their interval, 0 to 1
    median_relative_width: float  # median of (upper - lower) / predicted
    # mean over groups of the share of their rows inside: small groups count as much as large ones
    mean_group_coverage: float


class ConformalIntervals:
    """Intervals around predictions at any level, calibrated on out-of-fold predictions.

    They cover what ``scheme`` asks for: new rows of known groups (``kfold``), or rows of new groups
    (``grouped``); calibrate with the out-of-fold predictions of the same scheme. ``radii_``
    (n_levels,) are the quantiles of the scores at ``levels_``, all `LEVELS` or a part of them;
    ``up_`` and ``down_`` (of product 1) the shares of the radius above and below the prediction;
    ``rows_`` and ``groups_`` how many it was calibrated on.
    """

    def __init__(self, scheme: str) -> None:
        if scheme not in SCHEMES:
            raise ValueError(
                f"parameter scheme of ConformalIntervals must be one of {SCHEMES}, got {scheme!r}"
            )
        self.scheme = scheme

    def fit(
        self,
        observed: ArrayLike,
        predicted: ArrayLike,
        groups: ArrayLike,
        *,
        scale: ArrayLike | None = None,
        level: float | None = None,
    ) -> Self:
        """Calibrate on out-of-fold predictions.

        A prediction at or below zero counts as a miss at every level. ``scale``, where given, says
        how difficult each row is thought to be, > 0; its interval is as many times wider. All have
        the shape (n,). With a ``level`` only intervals of that level can be asked for, which takes
        a fraction of the time. Raises DataError: fewer than two groups under the scheme
        ``"grouped"``, or fewer than two rows.
        """
        residuals = log_ratio(observed, predicted) / _positive(scale)
        code = pd.factorize(np.asarray(groups), sort=True)[0]
        if level is None:
            self.levels_ = LEVELS
        else:
            self.levels_ = LEVELS[[_place(level)]]
        self.rows_ = len(residuals)
        self.groups_ = int(code.max(initial=-1)) + 1
        if self.scheme == "grouped":
            what = "groups"
            count = self.groups_
        else:
            what = "rows"
            count = self.rows_
        if count < 2:
            raise DataError(
                f"intervals need at least 2 {what} to be calibrated on, there are {count}: "
                "measure more"
            )
        few = what == "groups" and count <= FEW  # which way they err is chance
        if few:
            self.up_ = 1.0
            self.down_ = 1.0
        else:
            self.up_, self.down_ = _sides(residuals)
        even = np.where(residuals > 0, residuals / self.up_, residuals / self.down_) + 0.0
        if what == "groups":
            self.radii_ = _group_radii(even, code, self.levels_)
        else:
            self.radii_ = conformal_quantile(np.sort(np.abs(even)), self.levels_)
        return self

    def radius(self, level: float) -> float:
        """Half-width of the interval on the log scale, before the two sides are separated (inf: no bound)."""
        if not LEVELS[0] <= level <= LEVELS[-1]:
            raise ValueError(
                f"parameter level of radius must be between {LEVELS[0]} and {LEVELS[-1]}, got "
                f"{level}"
            )
        if len(at_level := np.flatnonzero(self.levels_ == LEVELS[_place(level)])) == 0:
            raise ValueError(
                f"parameter level of radius must be what was calibrated, {self.levels_[0]}, got "
                f"{level}"
            )
        return float(self.radii_[at_level[0]])

    def outside(
        self,
        observed: ArrayLike,
        predicted: ArrayLike,
        groups: ArrayLike,
        share: ArrayLike,
        *,
        scale: ArrayLike | None = None,
        wider: ArrayLike = 1.0,
    ) -> ConformalIntervals:
        """Return intervals for rows outside the trained range, calibrated on ranges that were left out.

        Of the half-width of a row (log scale) ``share`` is theirs and ``1 - share`` is this one's:
        their radius is the one at which so many of these rows lie inside as each level says, plus
        `MARGIN` cluster-robust standard errors. Rows with a share of 0 have no say. ``wider`` is to
        their radius what ``scale`` is to this one's. All arrays have the shape (n,).
        """
        out = np.asarray(share, dtype=np.float64)
        rows = out > 0
        residuals = log_ratio(observed, predicted)[rows]
        near = ((1 - out) * _positive(scale))[rows]
        out = (out * _positive(wider))[rows]
        units = pd.factorize(np.asarray(groups)[rows], sort=True)[0]
        intervals = ConformalIntervals(self.scheme)
        intervals.levels_ = self.levels_
        intervals.rows_ = len(units)
        intervals.groups_ = int(units.max(initial=-1)) + 1
        intervals.up_ = intervals.down_ = (
            1.0  # which way a range left out errs says nothing of the next one
        )
        radii = np.empty(len(self.levels_))
        for part in in_parts(len(self.levels_), max(AT_ONCE // len(units), 1)):
            levels = self.levels_[part]
            inside = self.radii_[part, None]
            near_up = np.where(near > 0, near * inside * self.up_, 0.0)
            near_down = np.where(near > 0, near * inside * self.down_, 0.0)
            needed = np.maximum(residuals - near_up, -residuals - near_down) / out
            needed[np.isnan(needed)] = np.inf
            # (n_levels, n)
            ordered = np.sort(needed, axis=1)
            limits = _order_statistics(ordered, levels)
            errors = np.zeros(len(levels))
            if intervals.groups_ > 1:
                errors = _clustered_errors(needed <= limits[:, None], units)
            covered_share = levels * (1 + 1 / len(units)) + MARGIN * errors
            radii[part] = _order_statistics(ordered, covered_share)
        intervals.radii_ = np.maximum.accumulate(np.maximum(radii, 0.0))
        return intervals

    def bounds(
        self,
        predicted: ArrayLike,
        level: float = LEVEL,
        *,
        scale: ArrayLike | None = None,
        widen: ArrayLike = 1.0,
        outside: ConformalIntervals | None = None,
        share: ArrayLike = 0.0,
        wider: ArrayLike = 1.0,
    ) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper end of each prediction's interval, (n,), in its unit; NaN where it is not positive.

        The share ``level`` of rows should lie inside, 0.005 to 0.995 (the next half percent up is
        used). ``scale`` (n,) is the difficulty of each row if one was given to `fit`, ``widen`` a
        factor >= 1 of the half-width on the log scale. Of rows outside the trained range, ``share``
        of the half-width is that of the intervals ``outside`` (see `outside`), ``wider`` times
        theirs.
        """
        centre = np.asarray(predicted, dtype=np.float64)
        centre = np.where(np.isfinite(centre) & (centre > 0), centre, np.nan)
        reach = self.radius(level) * _positive(scale) * np.asarray(widen, dtype=np.float64)
        up = reach * self.up_
        down = reach * self.down_
        if outside is not None:
            theirs = np.asarray(share, dtype=np.float64)
            far = outside.radius(level) * _positive(wider)
            up, down = (
                np.where(theirs < 1, (1 - theirs) * radius, 0.0)
                + np.where(theirs > 0, theirs * far * side, 0.0)
                for radius, side in ((up, outside.up_), (down, outside.down_))
            )
        with np.errstate(over="ignore"):
            return centre * np.exp(-down), centre * np.exp(up)

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as JSON holds it; an unbounded radius is None."""
        return {
            "scheme": self.scheme,
            "up": self.up_,
            "down": self.down_,
            "rows": self.rows_,
            "groups": self.groups_,
            "radii": [float(radius) if np.isfinite(radius) else None for radius in self.radii_],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Return the intervals that ``to_dict`` described."""
        intervals = cls(state["scheme"])
        intervals.levels_ = LEVELS
        intervals.up_ = float(state["up"])
        intervals.down_ = float(state["down"])
        intervals.rows_ = int(state["rows"])
        intervals.groups_ = int(state["groups"])
        intervals.radii_ = np.array(
            [np.inf if radius is None else radius for radius in state["radii"]], dtype=float
        )
        if len(intervals.radii_) != len(LEVELS):
            raise ValueError(
                f"intervals must hold {len(LEVELS)} radii, got {len(intervals.radii_)}"
            )
        if (
            not (intervals.radii_ >= 0).all()
            or not (intervals.radii_[1:] >= intervals.radii_[:-1]).all()
        ):
            raise ValueError("radii of intervals must not be negative, and grow with the level")
        if not (
            0 < intervals.up_ < np.inf
            and 0 < intervals.down_ < np.inf
            and min(intervals.rows_, intervals.groups_) > 0
        ):
            raise ValueError("intervals must reach up and down, and come from some rows")
        return intervals


def cross_bounds(
    observed: ArrayLike,
    predicted: ArrayLike,
    groups: ArrayLike,
    folds: ArrayLike,
    level: float = LEVEL,
    scheme: str = "grouped",
    *,
    scale: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper end of every row's interval, (n,), calibrated on the other folds' predictions.

    ``predicted`` and ``folds`` are of the same scheme, ``level`` is the one claimed; ``scale`` as
    for `ConformalIntervals.fit`. Raises DataError: fewer than three groups under the scheme
    ``"grouped"``: none could be left out.
    """
    y = np.asarray(observed, dtype=float)
    p = np.asarray(predicted, dtype=float)
    fold = np.asarray(folds)
    names = np.asarray(groups)
    difficulty = np.broadcast_to(_positive(scale), y.shape)
    lower, upper = np.full((2, len(y)), np.nan)
    for held_out in np.unique(fold):
        test = fold == held_out
        intervals = ConformalIntervals(scheme)
        learnt = ~test
        intervals.fit(y[learnt], p[learnt], names[learnt], scale=difficulty[learnt], level=level)
        lower[test], upper[test] = intervals.bounds(p[test], level, scale=difficulty[test])
    return lower, upper


def interval_score(
    observed: FloatArray, lower: FloatArray, upper: FloatArray, level: float
) -> FloatArray:
    """Return the interval score of every row on the log scale: width, and what is missed times ``2 / (1 - level)``.

    Gneiting & Raftery (2007), Journal of the American Statistical Association 102:477, section 6.2;
    the less the better. An interval without an end is infinitely bad.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.log(observed)
        low = np.log(lower)
        high = np.log(upper)
        missed = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
        return np.nan_to_num(high - low + 2.0 / (1.0 - level) * missed, nan=np.inf)


def covered(
    observed: FloatArray,
    predicted: FloatArray,
    groups: NDArray,
    lower: FloatArray,
    upper: FloatArray,
) -> Coverage:
    """Return how many rows lie between limits that were not calibrated on them; NaN limits hold none."""
    inside = (lower <= observed) & (observed <= upper)
    width = (upper - lower) / predicted
    code = pd.factorize(groups, sort=True)[0]
    per_group = np.bincount(code, inside) / np.bincount(code)
    finite = width[~np.isnan(width)]
    return Coverage(
        float(inside.mean()),
        float(np.median(finite)) if len(finite) else np.inf,
        float(per_group.mean()),
    )


def log_ratio(observed: ArrayLike, predicted: ArrayLike) -> FloatArray:
    """``log(y / f(x))``: positive where the prediction is too short, inf where it is not a positive number."""
    y = np.asarray(observed, dtype=np.float64)
    p = np.asarray(predicted, dtype=np.float64)
    usable = np.isfinite(p) & (p > 0)
    return np.where(usable, np.log(y / np.where(usable, p, 1.0)), np.inf)


def _positive(scale: ArrayLike | None) -> FloatArray:
    values = np.asarray(1.0 if scale is None else scale, dtype=np.float64)
    if not np.all(values > 0):
        raise ValueError("parameter scale of ConformalIntervals must be positive in every row")
    return values


def _sides(residuals: FloatArray) -> tuple[float, float]:
    """How far errors reach above and below the prediction, as two factors whose product is 1.

    Half of the asymmetry seen (on the log scale) is used: which way a few groups err is partly
    chance, and taking all of it cost 2 points of coverage where groups differ much.
    """
    above = residuals[(residuals > 0) & np.isfinite(residuals)]
    below = -residuals[residuals < 0]
    if not (len(above) and len(below)):
        return 1.0, 1.0
    ratio = float(np.quantile(above, SIDE_QUANTILE) / np.quantile(below, SIDE_QUANTILE))
    up = float(np.clip(ratio, 1 / SIDE_LIMIT, SIDE_LIMIT) ** 0.25)
    return up, 1 / up


def conformal_quantile(ordered: FloatArray, level: ArrayLike) -> FloatArray:
    """Return the score that a new one stays within with probability ``level``, from sorted scores >= 0.

    Too few scores for a level are as many draws from a normal distribution around zero: Student's
    t, and no less than the largest of them.

    >>> conformal_quantile(np.arange(1.0, 21.0), [0.5, 0.9]).tolist()
    [11.0, 19.0]
    """
    n = len(ordered)
    wanted = np.asarray(level, dtype=np.float64)
    rank = np.ceil((n + 1) * wanted - 1e-9).astype(np.intp)
    root_mean_square = np.sqrt(np.mean(ordered**2))
    beyond = root_mean_square * special.stdtrit(n, (1 + wanted) / 2) * np.sqrt(1 + 1 / n)
    within = ordered[np.clip(rank, 1, n) - 1]
    return np.where(rank <= n, within, np.maximum(ordered[-1], beyond))


_PLACES: Final = np.linspace(-3, 3, 61)
# probabilities at which a distribution is represented, dense in its tails
_SHARES: Final = stats.norm.cdf(_PLACES)
_MASSES: Final = stats.norm.pdf(_PLACES) / stats.norm.pdf(_PLACES).sum()
# levels between which radii are interpolated
_STRETCHED: Final = np.array([0.005, 0.3, 0.6, 0.8, 0.9, 0.95, 0.98, 0.995])
_NORMAL: Final = special.ndtri((1 + _STRETCHED) / 2)
_MOST_SHIFTS: Final = 120
# variance of the median of n normal deviates, over that of their mean
_SCATTER_OF_MEDIAN: Final = np.pi / 2


def _group_radii(residuals: FloatArray, code: NDArray[np.intp], asked: FloatArray) -> FloatArray:
    """Return the radius at each level for rows of a new group, from residuals (n,) and the groups' numbers (n,)."""
    size = np.bincount(code)
    finite = np.isfinite(residuals)
    # rows without a usable prediction: misses at any radius
    missed = float(np.mean(np.bincount(code, ~finite) / size))
    r = residuals[finite]
    code = np.unique(code[finite], return_inverse=True)[1]
    if not len(r):
        return np.full(len(asked), np.inf)
    size = np.bincount(code)
    count = len(size)
    start = np.cumsum(size) - size
    ordered = r[np.lexsort((r, code))]
    middle = (ordered[start + (size - 1) // 2] + ordered[start + size // 2]) / 2
    within = (r - middle[code]) * np.sqrt(size / np.maximum(size - 1, 0.5))[code]
    # a single row says nothing of deviations
    if (size > 1).any():
        repeated = size > 1
    else:
        repeated = size > 0
    spread = (
        np.bincount(code, np.minimum(np.abs(within), np.quantile(np.abs(within), 0.99)) ** 2) / size
    )
    variance = float(spread[repeated].mean())
    total = float(np.mean(middle**2))
    between = max(
        total - float(np.mean(_SCATTER_OF_MEDIAN * np.where(repeated, spread, variance) / size)),
        0.0,
    )
    rows = repeated[code]
    order = np.argsort(within[rows], kind="stable")
    reached = np.cumsum((1 / size[code[rows]])[order])
    deviations = within[rows][order][
        np.minimum(np.searchsorted(reached / reached[-1], _SHARES), len(order) - 1)
    ]
    if repeated.sum() > 1:
        scatter = float(spread[repeated].var(ddof=1)) / repeated.sum()
    else:
        scatter = 0.0
    if scatter > 0:
        freedom = max(2 * variance**2 / scatter, 1.0)
    else:
        freedom = np.inf
    if count <= FEW:
        shifts = np.sqrt(between) * special.stdtrit(max(count - 1, 1), _SHARES)
        masses = _MASSES
    else:
        if total > 0:
            shifts = middle * np.sqrt(between / total)
        else:
            shifts = np.zeros(count)
        if count > _MOST_SHIFTS:
            shifts = np.quantile(shifts, (np.arange(_MOST_SHIFTS) + 0.5) / _MOST_SHIFTS)
        # groups may as well err the other way; Student's t does already
        shifts = np.r_[shifts, -shifts]
        masses = np.full(len(shifts), 1 / len(shifts))
    weights = np.outer(masses, _MASSES).ravel()
    if missed < 1:
        levels = asked / (1 - missed)
    else:
        levels = np.full(len(asked), 2.0)
    wanted = np.minimum(levels, 1) - 1e-9
    below = np.clip(np.searchsorted(_STRETCHED, asked, "right") - 1, 0, len(_STRETCHED) - 2)
    table = np.empty((len(_STRETCHED), len(asked)))
    for at in np.union1d(below, below + 1):
        level = (1 + _STRETCHED[at]) / 2
        normal = _NORMAL[at]
        if count <= FEW:
            stretch = 1.0
        else:
            stretch = special.stdtrit(count - 1, level) / normal
        inner = deviations * (
            special.stdtrit(freedom, level) / normal if np.isfinite(freedom) else 1.0
        )
        reach = np.abs(stretch * shifts[:, None] + inner).ravel()
        order = np.argsort(reach)
        place = np.searchsorted(np.cumsum(weights[order]), wanted)
        table[at] = reach[order[np.minimum(place, len(reach) - 1)]]
    each = np.arange(len(asked))
    part = (asked - _STRETCHED[below]) / (_STRETCHED[below + 1] - _STRETCHED[below])
    radii = table[below, each] + (table[below + 1, each] - table[below, each]) * part
    return np.maximum.accumulate(np.where(levels < 1, radii, np.inf))


def _place(level: float) -> int:
    """Return the place in ``LEVELS`` of the next level up."""
    return min(int(np.searchsorted(LEVELS, level - 1e-9)), len(LEVELS) - 1)


def _order_statistics(ordered: FloatArray, levels: FloatArray) -> FloatArray:
    """Return of each sorted row (n_levels, n) the smallest value with a share ``levels`` at or below it.

    Where no value has so many, it is the largest.
    """
    count = ordered.shape[1]
    places = np.clip(np.ceil(levels * count - 1e-9), 1, count).astype(np.intp) - 1
    return ordered[np.arange(len(ordered)), places]


def _clustered_errors(inside: BoolArray, units: NDArray[np.intp]) -> FloatArray:
    """Return the cluster-robust standard error of the share inside, of each row of ``inside`` (n_levels, n).

    Liang & Zeger (1986), K / (K - 1), K units.
    """
    sizes = np.bincount(units)
    by_unit = inside[:, np.argsort(units, kind="stable")]
    counts = np.add.reduceat(by_unit, np.cumsum(sizes) - sizes, axis=1, dtype=np.float64)
    apart = counts - sizes * inside.mean(axis=1)[:, None]
    squares = np.array([shares @ shares for shares in apart])
    return np.sqrt(squares * len(sizes) / (len(sizes) - 1)) / inside.shape[1]
