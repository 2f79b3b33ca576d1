"""Outliers by the median absolute deviation: what lies further than so many MAD from the median of its repeats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ...errors import DataError

FloatArray = NDArray[np.float64]

THRESHOLD = 7.0
"""MAD on either side of the median, as in the protocol of 100 repeated runs that this filter is from."""
LEAST = 5
"""Repeats from which an outlier can be told: of four values, two may be outliers and the median between the camps."""
MAD_TO_SIGMA = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True)
class MadFilter:
    """What the filter found.

    Attributes
    ----------
    kept : ndarray of bool of shape (n,)
    removed : ndarray of int of shape (n_removed,)
        Positions of the outliers.
    median, mad, limit : ndarray of float of shape (n,)
        Of each value's group: median, median absolute deviation, and the distance from the median that is accepted
        (inf where nothing can be told).
    """

    kept: NDArray[np.bool_]
    removed: NDArray[np.int64]
    median: FloatArray
    mad: FloatArray
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

    The MAD is the plain median of ``|x - median|``, not scaled to a normal deviation: 7 MAD are 4.7 standard
    deviations of a normal sample, one value in 400 000.

    A clock that ticks in coarse steps makes the MAD of stable repeats zero, and every other tick an outlier. The MAD
    is therefore taken to be at least `floor`, the clock's resolution (`dispatches.timeline.resolution_ns`). Where both
    are zero, nothing says how far apart honest repeats lie, and all are kept; so are groups of fewer than `least`.

    Parameters
    ----------
    values : array-like of float of shape (n,)
        Repeats, in any unit; finite.
    threshold : float, default=7
        MAD that are accepted on either side of the median.
    floor : float or array-like of shape (n,), default=0
        Least MAD, in the unit of the values; one for all or one for each value.
    groups : array-like of int of shape (n,), optional
        Number of each value's group, from 0 on; all are one group by default.
    least : int, default=5
        Values that a group must have.

    Raises
    ------
    DataError
        The threshold is not positive.

    Examples
    --------
    >>> mad_filter([10.0, 11.0, 10.5, 10.2, 30.0]).removed.tolist()
    [4]
    """
    if not threshold > 0:
        raise DataError(f"the threshold of the MAD filter must be positive, got {threshold:g}: 7 is usual")
    data = pd.Series(np.asarray(values, dtype=np.float64))
    codes = np.zeros(len(data), dtype=np.int64) if groups is None else np.asarray(groups, dtype=np.int64)
    median = data.groupby(codes).transform("median")
    distance = (data - median).abs()
    mad = distance.groupby(codes).transform("median").to_numpy()
    size = data.groupby(codes).transform("size").to_numpy()
    scale = np.maximum(mad, np.asarray(floor, dtype=np.float64))
    limit = np.where((size >= least) & (scale > 0), threshold * scale, np.inf)
    kept = distance.to_numpy() <= limit
    return MadFilter(kept, np.flatnonzero(~kept), median.to_numpy(), mad, limit)
