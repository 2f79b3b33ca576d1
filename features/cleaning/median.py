"""How well a median is known: intervals from order statistics, and whether two halves of a series differ."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

FloatArray = NDArray[np.float64]

LEAST = 6
"""Repeats from which the smallest and the largest enclose the median with 95 % (1 - 2 / 2^6 = 96.9 %)."""


def median_intervals(values: ArrayLike, groups: ArrayLike, level: float = 0.95) -> pd.DataFrame:
    """Return the median of each group with a distribution-free interval.

    The interval goes from the l-th smallest to the l-th largest value, l the largest rank whose coverage
    ``1 - 2 P(B <= l - 1)``, B binomial of n trials and probability 1/2, is at least `level` (Hahn & Meeker,
    *Statistical Intervals*, 1991, section 5.2). A bootstrap would be no help to smaller samples: resampling five
    values cannot leave their range, which holds the median with 93.8 % only.

    Parameters
    ----------
    values : array-like of float of shape (n,)
    groups : array-like of int of shape (n,)
        Number of each value's group, from 0 on.
    level : float, default=0.95

    Returns
    -------
    DataFrame, one row per group number that occurs (the index)
        `n`, `median`, `mad` (median absolute deviation), `lower`, `upper` and `level`, the coverage the interval
        really has; the last three are NaN for groups that are too small for `level`.

    Examples
    --------
    >>> median_intervals([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0] * 6).round(3).to_numpy().tolist()
    [[6.0, 3.5, 1.5, 1.0, 6.0, 0.969]]
    """
    data, codes = np.asarray(values, dtype=np.float64), np.asarray(groups, dtype=np.int64)
    order = np.lexsort((data, codes))
    found, start, count = np.unique(codes[order], return_index=True, return_counts=True)
    series = pd.Series(data)
    median = series.groupby(codes).median()
    mad = (series - series.groupby(codes).transform("median")).abs().groupby(codes).median()
    sizes, back = np.unique(count, return_inverse=True)
    rank = _ranks(sizes, level)[back]
    coverage = 1.0 - 2.0 * binom.cdf(rank - 1, count, 0.5)
    known = rank > 0
    at = np.where(known, rank, 1)
    return pd.DataFrame(
        {
            "n": count,
            "median": median.to_numpy(),
            "mad": mad.to_numpy(),
            "lower": np.where(known, data[order][start + at - 1], np.nan),
            "upper": np.where(known, data[order][start + count - at], np.nan),
            "level": np.where(known, coverage, np.nan),
        },
        index=pd.Index(found),
    )


def drift_of_medians(values: ArrayLike, groups: ArrayLike, level: float = 0.95) -> pd.DataFrame:
    """Return by how much the second half of each group lies above the first, and whether that is more than chance.

    If each of two independent intervals holds its median with a probability of sqrt(`level`), both do with `level`, and
    the difference then lies between ``lower2 - upper1`` and ``upper2 - lower1``. This is wider than it need be for one
    smooth peak, but holds for every distribution. Kernel times often have two peaks (a cache warm or cold, one clock or
    another), between which the median jumps from sample to sample; intervals that read the variance of the median off
    the values next to it (Price & Bonett, J. Stat. Comput. Simul. 72, 2002) are then far too narrow.

    Parameters
    ----------
    values : array-like of float of shape (n,)
        In the order they were measured.
    groups : array-like of int of shape (n,)
    level : float, default=0.95
        Of the interval of the difference.

    Returns
    -------
    DataFrame, one row per group number that occurs (the index)
        `drift`, and `drifts`: 1.0 where the interval does not hold zero, 0.0 where it does; both NaN for groups of
        which a half is too small for the level (fewer than 7 values at 95 %).
    """
    codes = np.asarray(groups, dtype=np.int64)
    place = pd.Series(codes).groupby(codes)
    later = (2 * place.cumcount() >= place.transform("size")).to_numpy()
    found = median_intervals(values, 2 * codes + later, float(np.sqrt(level)))
    numbers = np.unique(codes)
    first, second = found.reindex(2 * numbers), found.reindex(2 * numbers + 1)
    drift = second["median"].to_numpy() - first["median"].to_numpy()
    apart = (second["lower"].to_numpy() > first["upper"].to_numpy()) | (
        second["upper"].to_numpy() < first["lower"].to_numpy()
    )
    known = first["lower"].notna().to_numpy() & second["lower"].notna().to_numpy()
    drifts = np.where(known, apart.astype(np.float64), np.nan)
    return pd.DataFrame({"drift": np.where(known, drift, np.nan), "drifts": drifts}, index=pd.Index(numbers))


def _ranks(sizes: NDArray[np.int64], level: float) -> NDArray[np.int64]:
    """Return the largest rank whose interval covers the median with `level`, for each size; 0 where there is none."""
    rank = np.asarray(binom.ppf((1.0 - level) / 2.0, sizes, 0.5)).astype(np.int64)  # first of P(B <= rank) >= the tail
    exceeds = binom.cdf(rank, sizes, 0.5) > (1.0 - level) / 2.0
    return np.where(exceeds, rank, rank + 1)
