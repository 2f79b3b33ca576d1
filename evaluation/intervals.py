"""Prediction intervals of relative error that hold for new rows or for new groups, whichever they are used for.

The score of a row is ``s = max(r / up, -r / down) / scale`` with ``r = log(y / f(x))`` from OUT-OF-FOLD predictions, so
an interval is ``[f exp(-q down scale), f exp(q up scale)]``. ``q`` is a quantile of the scores of the calibration rows.

Which quantile? Rows of one group share their error, so a new group is not one more draw from the pooled rows: the plain
conformal quantile under-covers new groups, and weighting by group (hierarchical conformal prediction, Dunn, Wasserman &
Ramdas 2023; Lee, Barber & Willett 2023), valid in the worst case of fully dependent rows, covers 95-96 % instead of
90 % with 16 groups. Here each row's score is ranked among the scores of the OTHER groups (a leave-one-group-out
probability integral transform, ``u``); the level used is the quantile of these ranks at which rows of left-out groups
are covered as often as claimed, plus ``margin`` cluster-robust standard errors of that coverage. Where rows are
independent this is the conformal quantile; where groups differ the interval widens by what that costs. A rank of at
least 1 stands for a score beyond all of the others', as a multiple of their largest, so that few groups still give a
finite interval. This is calibration by measurement, without the finite-sample guarantee of the hierarchical method:
what it achieves on the data at hand is `covered` of `cross_bounds`.

With each row as its own group (scheme ``"kfold"``) the ranks are those of split conformal prediction.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import FloatArray
from ..errors import DataError
from .crossval import SCHEMES

LEVEL: Final = 0.9
"""Of an interval where nobody asks for another: what is learnt, reported and kept with a model."""
NINETY_PERCENT: Final = 1.645
"""Standard deviations from the median to the ends of the 90 % interval of a normal distribution."""
LEVELS: Final = np.arange(1, 200) / 200
"""Levels at which the quantile is kept: 0.5 % to 99.5 % in steps of half a percent."""

MARGIN: Final = 0.5
"""Standard errors added to the coverage aimed at.

Over 480 simulated data sets of 16 groups (11 to 156 rows; group shifts of 0 to 4 within-group standard deviations) 90 %
intervals covered 88-92 % on average in each setting, and 87-95 % in 87 of 100 data sets (without: 86-90 %, 83 of 100).
"""

SIDE_QUANTILE: Final = 0.9
"""Quantile of the errors of either sign that sets how much wider one side of the interval is than the other."""

SIDE_LIMIT: Final = 4.0
"""Largest ratio believed between the errors of either sign: few rows cannot tell more."""


class Coverage(NamedTuple):
    """What intervals did on rows they had not been calibrated on.

    Attributes
    ----------
    coverage : float
        Share of rows inside their interval, 0 to 1.
    median_relative_width : float
        Median of (upper - lower) / predicted.
    mean_group_coverage : float
        Mean over groups of the share of their rows inside: small groups count as much as large ones.
    """

    coverage: float
    median_relative_width: float
    mean_group_coverage: float


class ConformalIntervals:
    """Intervals around predictions at any level, calibrated on out-of-fold predictions.

    Parameters
    ----------
    scheme : {"kfold", "grouped"}
        What the intervals must cover: new rows of known groups, or rows of new groups. Calibrate with the out-of-fold
        predictions of the same scheme.
    margin : float
        Standard errors of the leave-one-group-out coverage added to the level aimed at.

    Attributes
    ----------
    radii_ : ndarray of shape (199,)
        The quantile of the scores at each of ``LEVELS``.
    up_, down_ : float
        Share of the radius above and below the prediction (their product is 1).
    rows_, groups_ : int
        Number of rows and of groups calibrated on.
    """

    def __init__(self, scheme: str, *, margin: float = MARGIN) -> None:
        if scheme not in SCHEMES:
            raise ValueError(f"parameter scheme of ConformalIntervals must be one of {SCHEMES}, got {scheme!r}")
        self.scheme = scheme
        self.margin = margin

    def fit(
        self, observed: ArrayLike, predicted: ArrayLike, groups: ArrayLike, *, scale: ArrayLike | None = None
    ) -> Self:
        """Calibrate on out-of-fold predictions.

        A prediction at or below zero counts as a miss at every level. ``scale``, where given, says how difficult each
        row is thought to be, > 0; its interval is as many times wider. All have the shape (n,).

        Raises
        ------
        DataError
            Fewer than two groups under the scheme ``"grouped"``, or fewer than two rows.
        """
        residuals = log_ratio(observed, predicted) / _positive(scale)
        code = np.unique(np.asarray(groups), return_inverse=True)[1]
        self.rows_, self.groups_ = len(residuals), int(code.max(initial=-1)) + 1
        units = code if self.scheme == "grouped" else np.arange(len(residuals))
        if (count := int(units.max(initial=-1)) + 1) < 2:
            what = "groups" if self.scheme == "grouped" else "rows"
            raise DataError(f"intervals need at least 2 {what} to be calibrated on, there are {count}: measure more")
        self.up_, self.down_ = _sides(residuals)
        self.radii_ = _radii(np.maximum(residuals / self.up_, -residuals / self.down_) + 0.0, units, self.margin)
        return self

    def radius(self, level: float) -> float:
        """Half-width of the interval on the log scale, before the two sides are told apart (inf: no bound known)."""
        if not LEVELS[0] <= level <= LEVELS[-1]:
            raise ValueError(f"parameter level of radius must be between {LEVELS[0]} and {LEVELS[-1]}, got {level}")
        return float(self.radii_[np.searchsorted(LEVELS, level - 1e-9)])

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

        Of the half-width of a row (log scale) ``share`` is theirs and ``1 - share`` is this one's: their radius is the
        one at which so many of these rows lie inside as each level says, plus ``margin`` cluster-robust standard
        errors. Rows with a share of 0 have no say. ``wider`` is to their radius what ``scale`` is to this one's. All
        arrays have the shape (n,).
        """
        out = np.asarray(share, dtype=np.float64)
        rows = out > 0
        residuals, near = log_ratio(observed, predicted)[rows], ((1 - out) * _positive(scale))[rows]
        out = (out * _positive(wider))[rows]
        units = np.unique(np.asarray(groups)[rows], return_inverse=True)[1]
        found = ConformalIntervals(self.scheme, margin=self.margin)
        found.rows_, found.groups_ = len(units), int(units.max(initial=-1)) + 1
        found.up_ = found.down_ = 1.0  # which way a range left out errs says nothing of the next one
        radii = np.empty(len(LEVELS))
        for i, (level, radius) in enumerate(zip(LEVELS, self.radii_, strict=True)):
            near_up, near_down = (np.where(near > 0, near * radius * side, 0.0) for side in (self.up_, self.down_))
            needed = np.maximum(residuals - near_up, -residuals - near_down) / out
            ordered = np.sort(np.where(np.isnan(needed), np.inf, needed))
            limit = _order_statistic(ordered, [level])
            error = float(_clustered_errors(needed, limit, units)[0]) if found.groups_ > 1 else 0.0
            radii[i] = _order_statistic(ordered, level * (1 + 1 / len(units)) + self.margin * error)
        found.radii_ = np.maximum.accumulate(np.maximum(radii, 0.0))
        return found

    def bounds(
        self,
        predicted: ArrayLike,
        level: float = 0.9,
        *,
        scale: ArrayLike | None = None,
        widen: ArrayLike = 1.0,
        outside: ConformalIntervals | None = None,
        share: ArrayLike = 0.0,
        wider: ArrayLike = 1.0,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper end of each prediction's interval.

        Parameters
        ----------
        predicted, scale : array-like of shape (n,)
            Predictions, and the difficulty of each row if one was given to ``fit``.
        level : float
            Share of rows that should lie inside, 0.005 to 0.995 (the next half percent up is used).
        widen : array-like of shape (n,) or float
            Factor >= 1 of the half-width on the log scale.
        outside, share : ConformalIntervals and array-like of shape (n,), optional
            Intervals of rows outside the trained range, and the share of the half-width that is theirs (see `outside`).
        wider : array-like of shape (n,) or float
            How many times wider theirs are in each row, if that was given to `outside`.

        Returns
        -------
        lower, upper : ndarray of shape (n,)
            In the unit of the prediction; NaN where the prediction is not positive.
        """
        centre = np.asarray(predicted, dtype=np.float64)
        centre = np.where(np.isfinite(centre) & (centre > 0), centre, np.nan)
        reach = self.radius(level) * _positive(scale) * np.asarray(widen, dtype=np.float64)
        up, down = reach * self.up_, reach * self.down_
        if outside is not None:
            theirs, far = np.asarray(share, dtype=np.float64), outside.radius(level) * _positive(wider)
            up, down = (
                np.where(theirs < 1, (1 - theirs) * own, 0.0) + np.where(theirs > 0, theirs * far * side, 0.0)
                for own, side in ((up, outside.up_), (down, outside.down_))
            )
        with np.errstate(over="ignore"):
            return centre * np.exp(-down), centre * np.exp(up)

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration as JSON holds it; an unbounded radius is None."""
        return {
            "scheme": self.scheme,
            "margin": self.margin,
            "up": self.up_,
            "down": self.down_,
            "rows": self.rows_,
            "groups": self.groups_,
            "radii": [float(radius) if np.isfinite(radius) else None for radius in self.radii_],
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Self:
        """Return the intervals that ``to_dict`` described."""
        intervals = cls(state["scheme"], margin=state["margin"])
        intervals.up_, intervals.down_ = float(state["up"]), float(state["down"])
        intervals.rows_, intervals.groups_ = int(state["rows"]), int(state["groups"])
        intervals.radii_ = np.array([np.inf if radius is None else radius for radius in state["radii"]], dtype=float)
        if len(intervals.radii_) != len(LEVELS):
            raise ValueError(f"intervals must hold {len(LEVELS)} radii, got {len(intervals.radii_)}")
        if not (intervals.radii_ >= 0).all() or not (intervals.radii_[1:] >= intervals.radii_[:-1]).all():
            raise ValueError("radii of intervals must not be negative, and grow with the level")
        if not (
            0 < intervals.up_ < np.inf and 0 < intervals.down_ < np.inf and min(intervals.rows_, intervals.groups_) > 0
        ):
            raise ValueError("intervals must reach up and down, and come from some rows")
        return intervals


def cross_bounds(
    observed: ArrayLike,
    predicted: ArrayLike,
    groups: ArrayLike,
    folds: ArrayLike,
    level: float = 0.9,
    scheme: str = "grouped",
    *,
    scale: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper end of every row's interval, (n,), calibrated on the other folds' predictions.

    ``predicted`` and ``folds`` are of the same scheme, ``level`` is the one claimed; ``scale`` as for
    `ConformalIntervals.fit`.

    Raises
    ------
    DataError
        Fewer than three groups under the scheme ``"grouped"``: none could be left out.
    """
    y, p, fold = np.asarray(observed, dtype=float), np.asarray(predicted, dtype=float), np.asarray(folds)
    names = np.asarray(groups)
    difficulty = np.broadcast_to(_positive(scale), y.shape)
    lower, upper = np.full((2, len(y)), np.nan)
    for held_out in np.unique(fold):
        test = fold == held_out
        intervals = ConformalIntervals(scheme).fit(y[~test], p[~test], names[~test], scale=difficulty[~test])
        lower[test], upper[test] = intervals.bounds(p[test], level, scale=difficulty[test])
    return lower, upper


def interval_score(observed: FloatArray, lower: FloatArray, upper: FloatArray, level: float) -> FloatArray:
    """Return the interval score of every row on the log scale: width, and what is missed times ``2 / (1 - level)``.

    Gneiting & Raftery (2007), Journal of the American Statistical Association 102:477, section 6.2; the less the
    better. An interval without an end is infinitely bad.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        y, low, high = np.log(observed), np.log(lower), np.log(upper)
        missed = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
        return np.nan_to_num(high - low + 2.0 / (1.0 - level) * missed, nan=np.inf)


def covered(
    observed: FloatArray, predicted: FloatArray, groups: NDArray, lower: FloatArray, upper: FloatArray
) -> Coverage:
    """Return how many rows lie between limits that were not calibrated on them; NaN limits hold none."""
    inside, width = (lower <= observed) & (observed <= upper), (upper - lower) / predicted
    code = np.unique(groups, return_inverse=True)[1]
    per_group = np.bincount(code, inside) / np.bincount(code)
    known = width[~np.isnan(width)]
    return Coverage(float(inside.mean()), float(np.median(known)) if len(known) else np.inf, float(per_group.mean()))


def log_ratio(observed: ArrayLike, predicted: ArrayLike) -> FloatArray:
    """``log(y / f(x))``: positive where the prediction is too short, inf where it is not a positive number."""
    y, p = np.asarray(observed, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    usable = np.isfinite(p) & (p > 0)
    return np.where(usable, np.log(y / np.where(usable, p, 1.0)), np.inf)


def _positive(scale: ArrayLike | None) -> FloatArray:
    values = np.asarray(1.0 if scale is None else scale, dtype=np.float64)
    if not np.all(values > 0):
        raise ValueError("parameter scale of ConformalIntervals must be positive in every row")
    return values


def _sides(residuals: FloatArray) -> tuple[float, float]:
    """How far errors reach above and below the prediction, as two factors whose product is 1.

    Half of the asymmetry seen (on the log scale) is used: which way a few groups err is partly chance, and taking all
    of it cost 2 points of coverage where groups differ much.
    """
    above, below = residuals[(residuals > 0) & np.isfinite(residuals)], -residuals[residuals < 0]
    if not (len(above) and len(below)):
        return 1.0, 1.0
    ratio = float(np.quantile(above, SIDE_QUANTILE) / np.quantile(below, SIDE_QUANTILE))
    up = float(np.clip(ratio, 1 / SIDE_LIMIT, SIDE_LIMIT) ** 0.25)
    return up, 1 / up


def _radii(scores: FloatArray, units: NDArray[np.intp], margin: float) -> FloatArray:
    """Quantile of the scores that covers rows of a left-out unit (group, or row) as often as each level says."""
    n = len(scores)
    ranks = _ranks_among_others(scores, units)
    ordered_ranks, ordered_scores = np.sort(ranks), np.sort(scores)
    finite = ordered_scores[np.isfinite(ordered_scores)]
    largest = finite[-1] if len(finite) else np.inf
    limits = _order_statistic(ordered_ranks, LEVELS)
    errors = _clustered_errors(ranks, limits, units)
    rank = _order_statistic(ordered_ranks, LEVELS * (1 + 1 / n) + margin * errors)
    radii = ordered_scores[np.minimum((np.minimum(rank, 1.0) * n + 1e-9).astype(np.intp), n - 1)]
    beyond = rank >= 1
    radii[beyond] = rank[beyond] * largest
    return np.maximum.accumulate(radii)


def _order_statistic(ordered: FloatArray, level: ArrayLike) -> FloatArray:
    """Smallest value with at least a share ``level`` of the sample at or below it (the largest if there is none)."""
    place = np.ceil(np.asarray(level) * len(ordered) - 1e-9)
    return ordered[np.clip(place, 1, len(ordered)).astype(np.intp) - 1]


def _ranks_among_others(scores: FloatArray, units: NDArray[np.intp]) -> FloatArray:
    """Share of the other units' scores below each score; beyond all of them, its multiple (>= 1) of their largest."""
    sizes = np.bincount(units)
    below = np.searchsorted(np.sort(scores), scores, side="left") - _ranks_within(scores, units, sizes)
    ranks = below / (len(scores) - sizes[units])
    largest = _largest_of_others(scores, units, len(sizes))[units]
    beyond = scores > largest
    with np.errstate(divide="ignore"):
        ranks[beyond] = scores[beyond] / largest[beyond]
    return ranks


def _ranks_within(scores: FloatArray, units: NDArray[np.intp], sizes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the number of scores of the same unit that are smaller."""
    order = np.lexsort((scores, units))
    ordered, start = scores[order], np.repeat(np.cumsum(sizes) - sizes, sizes)
    new = np.r_[True, (ordered[1:] != ordered[:-1]) | (units[order][1:] != units[order][:-1])]
    first = np.maximum.accumulate(np.where(new, np.arange(len(scores)), 0))
    within = np.empty(len(scores), dtype=np.intp)
    within[order] = first - start
    return within


def _largest_of_others(scores: FloatArray, units: NDArray[np.intp], count: int) -> FloatArray:
    """Return for each unit the largest finite score of all the others (0 where they have none)."""
    largest = np.zeros(count)
    np.maximum.at(largest, units, np.where(np.isfinite(scores), scores, 0.0))
    second, first = np.sort(largest)[-2:]
    return np.where(np.arange(count) == np.argmax(largest), second, first)


def _clustered_errors(values: FloatArray, limits: FloatArray, units: NDArray[np.intp]) -> FloatArray:
    """Cluster-robust standard errors of the shares of rows at or below each of rising limits, (n_limits,).

    Liang & Zeger (1986), with K / (K - 1) for K clusters, the units; values of NaN are above every limit.
    """
    place, sizes, columns = np.searchsorted(limits, values), np.bincount(units), len(limits) + 1
    order = np.lexsort((place, units))
    before = np.arange(len(values)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # rows of the unit that come first

    def below(weights: NDArray[Any]) -> NDArray[Any]:
        return np.cumsum(np.bincount(place[order], weights, minlength=columns))[:-1]

    # of B rows of a unit of N at or below a limit, sum (B - N share)² = sum B² - 2 share sum B N + share² sum N²
    own, share = sizes[units[order]], below(np.ones(len(values))) / len(values)
    squares = below(2 * before + 1) - 2 * share * below(own) + share**2 * float(own.sum())
    return np.sqrt(np.maximum(squares, 0.0) * len(sizes) / (len(sizes) - 1)) / len(values)
