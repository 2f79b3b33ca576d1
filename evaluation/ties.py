"""Whether one model errs more than another: by how many units agree, not by how many points.

A unit is what errs independently of the rest: a group where groups are left out, otherwise a row,
or a problem whose rows are repeats. A mean over rows is mostly that of the largest group and of the
worst model, and so is its standard error: a model that errs twice as much in every group hides
behind one group. So the mean error of each unit counts once, and of two models the logarithm of its
ratio. The signed-rank test asks whether it is as often and as far above zero as below. It holds its
level for units of any size, as long as two equal models may be swapped.

References
----------
F. Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1(6):80-83, 1945.

S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
Statistics 6(2):65-70, 1979.

J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine
Learning Research 7:1-30, 2006, section 3.1.3.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from ..arrays import BoolArray, FloatArray

LEVEL: Final = 0.05
"""Of the one-sided tests against the best, all together (Holm)."""
SIGNED_RANK: Final = "Wilcoxon signed-rank"
STUDENT: Final = "Student's t"
MOST_UNITS: Final = 20
"""Of more units, so many sets of them drawn at random: the mean of a set is near that of all,
whatever the shape of errors. Row by row, a model that errs by 12 % everywhere would lose to one
that mostly errs by 2 % and rarely by 100 %."""
MOST_EXACT: Final = 50
"""Of more unequal units, in a comparison of two models that draws no sets, the sum of ranks is taken for normal."""
_LEAST: Final = 1e-9
"""Percent: errors below it, and logarithms of ratios closer to zero, are rounding."""


def joined(code: NDArray[np.intp], limit: int) -> NDArray[np.intp]:
    """Return the number of each row's set; units beyond ``limit`` are drawn into that many sets."""
    count = int(code.max(initial=-1)) + 1
    if count <= limit:
        return code
    return np.random.default_rng(0).permutation(count)[code] % limit


def sums_of(values: FloatArray, code: NDArray[np.intp]) -> FloatArray:
    """Return the sums of values (n, columns) by unit, (units, columns); ``code`` (n,) numbers it."""
    sums = np.stack([np.bincount(code, column) for column in values.T], axis=1)
    return sums.astype(np.float64, copy=False)


def rule_of_units(units: int, tests: int, level: float = LEVEL) -> str:
    """Return the test for this many units: ranks, unless these could not show even a model that is worse in all.

    The least p-value of n signs is 2⁻ⁿ, and Holm asks for ``level / tests``. Fewer units are held
    to Student's t of the same logarithms, which takes these for normal: so few cannot say
    otherwise.

    >>> rule_of_units(16, 26), rule_of_units(9, 26)
    ('Wilcoxon signed-rank', "Student's t")
    """
    if 0.5**units <= level / tests:
        return SIGNED_RANK
    return STUDENT


def p_values(
    losses: FloatArray, other: FloatArray, *, logs: bool, tests: int, level: float = LEVEL
) -> FloatArray:
    """Return one-sided p-values of "the first errs no more than the second", column by column.

    Parameters
    ----------
    losses, other : array of shape (units, columns)
        Mean losses of each unit, percent; ``other`` may have one column.
    logs : bool
        Whether ratios are compared, or differences, as of shares that may be zero.
    tests : int
        How many p-values will be adjusted together (`rule_of_units`).
    level : float
        That they will be held to.
    """
    above = losses - other
    if logs:
        above = np.log(np.maximum(losses, _LEAST)) - np.log(np.maximum(other, _LEAST))
    above[np.abs(above) < _LEAST] = 0.0
    if rule_of_units(len(above), tests, level) == STUDENT:
        return np.array([_student(column) for column in above.T])
    values = np.ones(above.shape[1])
    for place, column in enumerate(above.T):
        unequal = column[column != 0]  # units that are equal say nothing
        if len(unequal) > MOST_EXACT:
            values[place] = stats.wilcoxon(unequal, alternative="greater").pvalue
        elif len(unequal):
            values[place] = _signed_rank(unequal)
    return values


def _signed_rank(above: FloatArray) -> float:
    """Return the exact p-value of a sum of positive ranks as large as that of values (n,), none of them zero.

    The sets of signs are counted by their sum. SciPy's exact test computes the statistic of each
    of the 2ⁿ sets in turn where ranks are tied, which takes seconds.
    """
    # whole numbers: of tied values the mean rank is a whole or a half
    twice = np.rint(2 * stats.rankdata(np.abs(above))).astype(np.intp)
    sets = np.zeros(twice.sum() + 1)
    sets[0] = 1
    for rank in twice:
        sets[rank:] += sets[:-rank].copy()
    reached = twice[above > 0].sum()
    return float(sets[reached:].sum() / sets.sum())


def _student(above: FloatArray) -> float:
    """Return the p-value of a mean of zero or less."""
    if len(above) < 2:
        return 1.0
    error = float(above.std(ddof=1)) / np.sqrt(len(above))
    if error == 0:
        return float(above[0] <= 0)
    return float(stats.t.sf(above.mean() / error, len(above) - 1))


def tied_with_best(losses: FloatArray, code: NDArray[np.intp], *, logs: bool = True) -> BoolArray:
    """Return which models are not shown to err more than that of the least mean loss, itself included.

    Parameters
    ----------
    losses : array of shape (n, models)
        Of each row, percent.
    code : array of shape (n,)
        Numbers, from zero, of the independent units that rows are of.
    logs : bool
        Whether units are compared by ratios, or by differences (`p_values`).

    Notes
    -----
    One-sided signed-rank tests of each model against the best over the units (`rule_of_units`),
    adjusted by Holm over the models. A model that errs less in most units stays tied, however large
    its mean is. The best of many equal models is the luckiest, so the tests together reject more
    often than `LEVEL`; of the models that are as good at least 95 in 100 stay tied
    (`benchmarks.calibration.selection`).

    Examples
    --------
    One group has most rows, and there the two models err nearly alike:

    >>> code = np.repeat(np.arange(6), [50, 5, 5, 5, 5, 5])
    >>> first = np.linspace(8, 12, 75)
    >>> second = first * np.where(code == 0, 1.01, 2.0)
    >>> tied_with_best(np.column_stack([first, second]), code).tolist()
    [True, False]
    """
    best = int(np.argmin(losses.mean(axis=0)))
    tied = np.ones(losses.shape[1], dtype=bool)
    others = np.flatnonzero(np.arange(len(tied)) != best)
    if len(others) == 0:
        return tied
    code = joined(code, MOST_UNITS)
    means = sums_of(losses, code) / np.bincount(code)[:, None]
    values = p_values(means[:, others], means[:, [best]], logs=logs, tests=len(others))
    tied[others] = holm(values) > LEVEL
    return tied


def holm(p_values: ArrayLike) -> FloatArray:
    """Return p-values adjusted for their number, (n,), in the order in which they are given.

    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6(2), 1979: the smallest counts n times, the next n - 1 times, and none is below one
    before it. These are the values of statsmodels' ``multipletests``, which searches the whole
    process for garbage at each call: with two million objects that takes a second.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    times = np.arange(len(given), 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(given[order] * times), 1.0)
    return adjusted


def p_value_of_pair(first: FloatArray, second: FloatArray, less: bool, level: float) -> float:
    """Return the two-sided p-value that two predictors err alike, by mean errors of each unit, (units,).

    ``less`` says whether the second's mean over all rows is the smaller. Units that mostly say the
    opposite do not support it, and the p-value is then large.
    """
    if less:
        larger = first
        smaller = second
    else:
        larger = second
        smaller = first
    one_sided = (1 - level) / 2
    values = p_values(larger[:, None], smaller[:, None], logs=True, tests=1, level=one_sided)
    return min(1.0, 2 * float(values[0]))
