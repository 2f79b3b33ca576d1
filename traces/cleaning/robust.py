"""Robust statistics of repeated times: outliers by the MAD, medians with intervals, and drift within a series.

Kernel times are skewed, have several peaks and follow each other, so nothing here takes them for
normal or independent: `mad_filter` says which repeats lie too far from the others,
`median_intervals` the interval of the median of independent repeats, `part_intervals` and
`repeat_intervals` how well that of repeats which are alike within a run, and `drift_of_medians`
whether the second half of a series differs from the first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import binom, t

from ...arrays import BoolArray, FloatArray, IntArray
from ...errors import ParameterError

THRESHOLD = 7.0  # MAD on either side of the median, as in the protocol of 100 repeated runs that this filter is from
LEAST = 5
"""Repeats from which an outlier can be seen: of four values, two may be outliers and the median between the camps."""
# standard deviation of a normal distribution over its median absolute deviation
MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class MadFilter:
    """The result of the filter; `median`, `mad` and `limit` are of each value's group, shape (n,)."""

    kept: BoolArray
    removed: IntArray  # positions of the outliers
    median: FloatArray
    mad: FloatArray  # median absolute deviation
    # the distance from the median that is accepted (inf where nothing can be said)
    limit: FloatArray


def mad_filter(
    values: ArrayLike,
    threshold: float = THRESHOLD,
    *,
    floor: ArrayLike = 0.0,
    groups: ArrayLike | None = None,
    least: int = LEAST,
) -> MadFilter:
    """Return which values lie within `threshold` MAD of the median of their group.

    The MAD is the plain median of ``|x - median|``, not scaled to a normal deviation: 7 MAD are 4.7
    standard deviations of a normal sample, one value in 400 000.

    A clock that ticks in coarse steps makes the MAD of stable repeats zero, and every other tick an
    outlier. The MAD is therefore taken to be at least `floor`, the clock's resolution
    (`traces.quality.resolution_ns`), one for all or one for each value. Where both are zero,
    nothing says how far apart honest repeats lie, and all are kept; so are groups (numbered from 0
    on; all values are one by default) of fewer than `least`. A ParameterError says that the
    threshold is not positive.

    >>> mad_filter([10.0, 11.0, 10.5, 10.2, 30.0]).removed.tolist()
    [4]
    """
    if not threshold > 0:
        raise ParameterError(
            "threshold", f"must be above 0 MAD, got {threshold:g}: {THRESHOLD:g} is usual"
        )
    data = pd.Series(np.asarray(values, dtype=np.float64))
    if groups is None:
        codes = np.zeros(len(data), dtype=np.int64)
    else:
        codes = np.asarray(groups, dtype=np.int64)
    median = data.groupby(codes).transform("median")
    distance = (data - median).abs()
    mad = distance.groupby(codes).transform("median").to_numpy()
    size = data.groupby(codes).transform("size").to_numpy()
    scale = np.maximum(mad, np.asarray(floor, dtype=np.float64))
    limit = np.where((size >= least) & (scale > 0), threshold * scale, np.inf)
    kept = distance.to_numpy() <= limit
    return MadFilter(kept, np.flatnonzero(~kept), median.to_numpy(), mad, limit)


LEAST_BLOCKS = 4
BLOCKS = 10
"""Stretches that a series is cut into: fewer make Student's t wide, more are too short to differ independently."""


def median_intervals(values: ArrayLike, groups: ArrayLike, level: float = 0.95) -> pd.DataFrame:
    """Return the median of each group (numbered from 0 on) with a distribution-free interval.

    The interval goes from the l-th smallest to the l-th largest value, l the largest rank whose
    coverage ``1 - 2 P(B <= l - 1)``, B binomial of n trials and probability 1/2, is at least
    `level` (Hahn & Meeker, *Statistical Intervals*, 1991, section 5.2). A bootstrap would be no
    help to smaller samples: resampling five values cannot leave their range, which holds the median
    with 93.8 % only.

    One row per group number that occurs (the index): `n`, `median`, `mad` (median absolute
    deviation), `lower`, `upper` and `level`, the coverage the interval really has; the last three
    are NaN for groups that are too small for `level`.

    >>> median_intervals([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0] * 6).round(3).to_numpy().tolist()
    [[6.0, 3.5, 1.5, 1.0, 6.0, 0.969]]
    """
    data = np.asarray(values, dtype=np.float64)
    codes = np.asarray(groups, dtype=np.int64)
    order = np.lexsort((data, codes))
    codes_sorted, start, count = np.unique(codes[order], return_index=True, return_counts=True)
    series = pd.Series(data)
    median = series.groupby(codes).median()
    distance = (series - series.groupby(codes).transform("median")).abs()
    mad = distance.groupby(codes).median()
    sizes, back = np.unique(count, return_inverse=True)
    rank = interval_ranks(sizes, level)[back]
    coverage = 1.0 - 2.0 * binom.cdf(rank - 1, count, 0.5)
    has_interval = rank > 0
    at = np.where(has_interval, rank, 1)
    lowest = data[order][start + at - 1]
    highest = data[order][start + count - at]
    return pd.DataFrame(
        {
            "n": count,
            "median": median.to_numpy(),
            "mad": mad.to_numpy(),
            "lower": np.where(has_interval, lowest, np.nan),
            "upper": np.where(has_interval, highest, np.nan),
            "level": np.where(has_interval, coverage, np.nan),
        },
        index=pd.Index(codes_sorted),
    )


def interval_ranks(sizes: IntArray, level: float) -> IntArray:
    """Return the largest rank whose interval covers the median with ``level``, for each size; 0 where there is none."""
    tail = (1.0 - level) / 2.0
    # the first of P(B <= rank) >= the tail
    rank = np.asarray(binom.ppf(tail, sizes, 0.5)).astype(np.int64)
    exceeds = binom.cdf(rank, sizes, 0.5) > tail
    return np.where(exceeds, rank, rank + 1)


def part_intervals(medians: ArrayLike, groups: ArrayLike, level: float = 0.95) -> pd.DataFrame:
    """Return the interval of each group's median from the medians of its parts: runs, visits, stretches of time.

    It is that of the mean of ``ln(median)`` over R parts, by Student's t with R - 1 degrees of
    freedom. One row per group number that occurs (the index): `n`, the parts; `lower` and `upper`,
    NaN where there is one part only, or one whose median is not positive.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = pd.Series(np.log(np.asarray(medians)))
        parts = logs.groupby(np.asarray(groups)).agg(["size", "mean", "std"])
        count = parts["size"].to_numpy()
        quantile = t.ppf(0.5 + level / 2.0, np.maximum(count - 1, 1))
        half = quantile * parts["std"] / np.sqrt(count)
        lower = np.exp(parts["mean"] - half)
        upper = np.exp(parts["mean"] + half)
    return pd.DataFrame({"n": count, "lower": lower, "upper": upper}, index=parts.index)


def repeat_intervals(
    values: ArrayLike, groups: ArrayLike, series: ArrayLike, runs: ArrayLike, level: float = 0.95
) -> pd.DataFrame:
    """Return the median of each group with an interval that accounts for the similarity of close repeats.

    Repeats of one run share clock, placement and neighbours, and those that follow each other more
    so: taken for independent draws, they know the median less well than they claim. The interval is
    therefore the widest of three:

    - that of independent repeats (`median_intervals`), in logarithms ``sqrt((1 + r) / (1 - r))``
      times as wide, r the autocorrelation at lag one within the series, its bias of ``-(1 + 4 r) /
      n`` undone (Marriott & Pope, Biometrika 41, 1954), 0 where it is negative and at most what
      leaves one independent repeat;
    - that of the medians of `LEAST_BLOCKS` to `BLOCKS` stretches of each series, sqrt(n) of n
      repeats (batch means: Law & Carson, Oper. Res. 27, 1979), for likeness that lasts longer than
      a lag tells;
    - that of the medians of the runs, where there are several.

    Values are positive, those of a series in the order they were measured; each has the number of
    its group, its series (which belongs to one group) and its run. Columns are those of
    `median_intervals`, whose `level` is that of independent repeats.
    """
    data = pd.Series(np.asarray(values))
    codes = pd.Series(np.asarray(groups))
    series_codes = pd.Series(np.asarray(series))
    run_codes = pd.Series(np.asarray(runs))
    intervals = median_intervals(data, codes, level)
    stretch = _stretch(pd.Series(np.log(data.to_numpy())), codes, series_codes)
    middle = intervals["median"]
    lower = middle * (intervals["lower"] / middle) ** stretch
    upper = middle * (intervals["upper"] / middle) ** stretch
    place = series_codes.groupby(series_codes).cumcount()
    size = series_codes.groupby(series_codes).transform("size")
    count = np.minimum(np.floor(np.sqrt(size)), BLOCKS).astype(np.int64)
    is_long = count >= LEAST_BLOCKS
    stretches = [codes[is_long], series_codes[is_long], (place * count // size)[is_long]]
    of_stretches = data[is_long].groupby(stretches).median()
    of_runs = data.groupby([codes, run_codes]).median()
    for medians in (of_stretches, of_runs):
        between = part_intervals(medians, medians.index.get_level_values(0), level)
        between = between.reindex(intervals.index)
        # NaN of a single part changes nothing
        lower = lower.where(~(between["lower"] < lower), between["lower"])
        upper = upper.where(~(between["upper"] > upper), between["upper"])
    return intervals.assign(lower=lower, upper=upper)


def _stretch(logs: pd.Series, codes: pd.Series, series: pd.Series) -> pd.Series:
    """Return the factor by which the autocorrelation of a group's series widens the interval of its median."""
    centred = logs - logs.groupby(series).transform("mean")
    squares = (centred * centred).groupby(codes).sum()
    products = (centred * centred.groupby(series).shift()).groupby(codes).sum()
    size = codes.groupby(codes).size()
    lag = (products / squares.where(squares > 0)).fillna(0.0)
    lag = lag + (1.0 + 4.0 * lag) * series.groupby(codes).nunique() / size
    lag = lag.clip(0.0, (size - 1) / (size + 1))
    return ((1.0 + lag) / (1.0 - lag)) ** 0.5


def drift_of_medians(values: ArrayLike, groups: ArrayLike, level: float = 0.95) -> pd.DataFrame:
    """Return how far the second half of each group lies above the first, and whether that is significant.

    If each of two independent intervals holds its median with a probability of sqrt(`level`), both
    do with `level`, and the difference then lies between ``lower2 - upper1`` and ``upper2 -
    lower1``. This is wider than it need be for one smooth peak, but holds for every distribution.
    Kernel times often have two peaks (a cache warm or cold, one clock or another), between which
    the median jumps from sample to sample; intervals that read the variance of the median off the
    values next to it (Price & Bonett, J. Stat. Comput. Simul. 72, 2002) are then far too narrow.

    Values are in the order they were measured. One row per group number that occurs (the index):
    `drift`, and `drifts`, 1.0 where the interval does not hold zero, 0.0 where it does; both NaN
    for groups of which a half is too small for the level (fewer than 7 values at 95 %).
    """
    codes = np.asarray(groups, dtype=np.int64)
    place = pd.Series(codes).groupby(codes)
    later = (2 * place.cumcount() >= place.transform("size")).to_numpy()
    intervals = median_intervals(values, 2 * codes + later, float(np.sqrt(level)))
    numbers = np.unique(codes)
    first = intervals.reindex(2 * numbers)
    second = intervals.reindex(2 * numbers + 1)
    second.index = first.index
    has_both = first["lower"].notna() & second["lower"].notna()
    drift = second["median"] - first["median"]
    above = second["lower"] > first["upper"]
    below = second["upper"] < first["lower"]
    drifts = (above | below).astype(np.float64)
    halves = pd.DataFrame({"drift": drift, "drifts": drifts}).where(has_both)
    return halves.set_axis(numbers)
