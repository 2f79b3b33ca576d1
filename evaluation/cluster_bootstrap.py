"""The cluster bootstrap: draw whole groups with replacement, because rows of one group err together.

Notes
-----
The intervals are *expanded percentile* intervals. The plain percentile interval of a bootstrap is
too narrow by about ``sqrt((G - 1) / G)`` and uses normal instead of t quantiles, which with 10 to
20 groups costs several points of coverage. Reading the percentiles at ``Phi(±sqrt(G / (G - 1)) ·
t_{G-1})`` instead corrects both [1]_ and leaves the interval equivariant under monotone
transformations (that of a ratio and that of its logarithm agree). Whole groups are drawn as in
[2]_, section 3.8.

References
----------
.. [1] T. C. Hesterberg, "What teachers should know about the bootstrap", The American Statistician 69(4), 2015.
.. [2] A. C. Davison and D. V. Hinkley, "Bootstrap Methods and their Application", Cambridge, 1997.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy import stats


def resample_clusters(groups: np.ndarray, replicates: int, seed: int) -> Iterator[np.ndarray]:
    """Yield ``replicates`` bootstrap samples of rows, each made of as many groups as there are, drawn with replacement.

    ``groups`` of shape (n,) holds the group of each row; rows without groups:
    ``np.arange(n)``. A sample is an array of row numbers with repeats, their count differing where
    groups differ in size. Raises ValueError if ``groups`` is empty or not one-dimensional.
    """
    groups = np.asarray(groups)
    if groups.ndim != 1 or len(groups) == 0:
        raise ValueError(
            f"groups must be a non-empty one-dimensional array, got shape {groups.shape}"
        )
    _, label, size = np.unique(groups, return_inverse=True, return_counts=True)
    by_group = np.argsort(label, kind="stable")
    first = np.cumsum(size) - size
    rng = np.random.default_rng(seed)
    for _ in range(replicates):
        drawn = rng.integers(len(size), size=len(size))
        # position of each row in by_group: its group's first, plus 0, 1, ... within the group
        within = np.arange(size[drawn].sum()) - np.repeat(
            np.cumsum(size[drawn]) - size[drawn], size[drawn]
        )
        yield by_group[np.repeat(first[drawn], size[drawn]) + within]


def bootstrap(
    statistic: Callable[[np.ndarray], np.ndarray],
    groups: np.ndarray,
    *,
    replicates: int = 2000,
    seed: int = 0,
) -> np.ndarray:
    """Evaluate ``statistic(rows)``, a number or an array of fixed shape, on each sample of `resample_clusters`.

    Returns an array of shape (replicates, ...).
    """
    return np.array([statistic(rows) for rows in resample_clusters(groups, replicates, seed)])


def bootstrapped_medians(
    values: np.ndarray, groups: np.ndarray, *, replicates: int = 2000, seed: int = 0
) -> np.ndarray:
    """Return the median of ``values`` (n,) on each sample that `bootstrap` would draw, (replicates,).

    Values are sorted once; a sample is how often each group was drawn.
    """
    _, label, size = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(values, kind="stable")
    medians = np.empty(replicates)
    rng = np.random.default_rng(seed)
    ordered = values[order]
    label = label[order]
    for i in range(replicates):
        drawn = np.bincount(rng.integers(len(size), size=len(size)), minlength=len(size))
        below = np.cumsum(drawn[label])  # rows of the sample up to each value
        middle = np.searchsorted(below, [(below[-1] + 1) // 2, below[-1] // 2 + 1])
        medians[i] = ordered[middle].mean()
    return medians


def effective_groups(groups: np.ndarray) -> float:
    """Return the effective number of groups of equal size: (Σ nᵍ)² / Σ nᵍ², Kish's formula.

    With six large and ten small groups it is near six, and so is the information on how groups
    differ; an interval expanded for sixteen covered 84 % where 90 % was asked for.
    """
    sizes = np.unique(groups, return_counts=True)[1]
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def percentile_interval(
    draws: np.ndarray, n_groups: float, *, level: float = 0.90
) -> tuple[np.ndarray, np.ndarray]:
    """Return the expanded percentile interval of bootstrap ``draws``, along their first axis.

    The ``draws`` of shape (replicates, ...) are from ``n_groups`` groups (where they differ in
    size: their `effective_groups`); the ends of the two-sided interval have the shape (...). Raises
    ValueError if there is one group only: it says nothing of how groups differ.
    """
    if n_groups <= 1:
        raise ValueError(f"an interval over groups needs at least 2 groups, got {n_groups:g}")
    tail = stats.norm.cdf(
        np.sqrt(n_groups / (n_groups - 1)) * stats.t.ppf((1 - level) / 2, n_groups - 1)
    )
    lower, upper = np.quantile(draws, [tail, 1 - tail], axis=0)
    return lower, upper
