"""What rows say of laws of scaling: the slope of one time on another, and which simple law predicts best.

`slope_test` fits log y on log x with errors that respect groups, and says what noise in x can
feign. `compare_laws` scores the analytic laws, a constant ratio and a line on rows whose groups
their fit has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone
from statsmodels.regression.linear_model import OLS

from ..models.baselines import Affine, ConstantRatio
from ..table.measurements import quantity
from .cluster_bootstrap import bootstrap, effective_groups, percentile_interval
from .folds import make_folds
from .ties import tied_with_best
from .verdicts import ALPHA, MOST_ROWS, Interval

_ALIKE = 1e-9  # range of logarithms that rounding makes of equal times
NOISE = 0.10
"""Relative standard deviation that repeated measurements of one kernel may have (two GPUs of one
class, one campaign of tuning and the next); size dependence that such noise in the host's times
could feign is not counted."""


@dataclass(frozen=True)
class SlopeTest:
    """A log-log slope with its cluster-robust interval and tests against 1."""

    slope: Interval  # of log y on log x by least squares, level 1 - ALPHA
    p_value: float  # two-sided, of slope = 1
    attenuated: float  # the slope that a true slope of 1 would show if x were noisy by `NOISE`: 1 - NOISE² / var(log x)
    # of 'the slope is 1, or seems less because x is noisy': of the slope being `attenuated` if it
    # is below that, of its being 1 if it is above 1; 1 in between
    p_size: float


def slope_test(x: np.ndarray, y: np.ndarray, groups: np.ndarray) -> SlopeTest | None:
    """Fit log y = a + s · log x and test s = 1.

    x and y are positive times (µs) of shape (n,); rows of one group err together. None where x does
    not vary: there is no slope.

    Notes
    -----
    Ordinary least squares of statsmodels with its cluster-robust standard error (CR1, with the
    factor G/(G-1) · (n-1)/(n-2)) and Student's t with G - 1 degrees of freedom. CR1 is too small
    where groups are few or unequal: in simulations its 95 % interval covered 92 % with 5 equal
    groups and 75 % with 4 small and 2 large ones. The cluster jackknife (CV3, [1]_) covered 92 to
    95 % in the same simulations. The larger of the two is used.

    Noise in x pulls s towards 0 by the factor 1 - var(noise) / var(log x) (regression dilution,
    [2]_), so a class of nearly equal host times shows s < 1 under a perfect law. `SlopeTest.p_size`
    allows for that.

    References
    ----------
    .. [1] J. G. MacKinnon, M. Ø. Nielsen, M. D. Webb, "Fast and reliable jackknife and bootstrap methods for
       cluster-robust inference", Journal of Applied Econometrics 38(5), 2023.
    .. [2] W. A. Fuller, "Measurement Error Models", Wiley, 1987, section 1.1.
    """
    u = np.log(x)
    v = np.log(y)
    if np.ptp(u) < _ALIKE:
        return None
    _, codes = np.unique(groups, return_inverse=True)
    slope, error = _fit(u, v, codes)
    df = int(codes.max())
    reach = stats.t.ppf(1 - ALPHA / 2, df) * error
    attenuated = max(0.0, 1 - NOISE**2 / float(np.var(u, ddof=1)))
    return SlopeTest(
        slope=Interval(slope, float(slope - reach), float(slope + reach), 1 - ALPHA),
        p_value=p_value_of(slope - 1, error, df),
        attenuated=attenuated,
        p_size=p_value_of(slope - min(max(slope, attenuated), 1.0), error, df),
    )


def _fit(u: np.ndarray, v: np.ndarray, codes: np.ndarray) -> tuple[float, float]:
    """Return the least-squares slope of v on u and the larger of its CR1 and jackknife standard errors."""
    # centred, so that the fit is as good for times far from 1 µs as for times around it
    design = np.column_stack([np.ones(len(u)), u - u.mean()])
    model = OLS(v - v.mean(), design)
    fitted = model.fit(cov_type="cluster", cov_kwds={"groups": codes}, use_t=True)
    jackknife = _jackknife_error(u - u.mean(), v - v.mean(), codes)
    return float(fitted.params[1]), max(float(fitted.bse[1]), jackknife)


def _jackknife_error(u: np.ndarray, v: np.ndarray, codes: np.ndarray) -> float:
    """Return sqrt((G-1)/G · Σ (s₋g - s)²), s₋g the slope without group g; infinite where one of them is undefined."""
    sums = _Sums(
        np.bincount(codes),
        np.bincount(codes, u),
        np.bincount(codes, v),
        np.bincount(codes, u * u),
        np.bincount(codes, u * v),
    )
    total = _Sums(*(by_group.sum() for by_group in sums))
    without = _Sums(*(every - by_group for every, by_group in zip(total, sums, strict=True)))
    slopes, spread = _slope(without)
    if np.any(spread <= 1e-12 * total.uu):
        return float("inf")
    slope, _ = _slope(total)
    groups = len(sums.n)
    return float(np.sqrt((groups - 1) / groups * np.sum((slopes - slope) ** 2)))


class _Sums(NamedTuple):
    """The sums that a line is fitted from: the number of points, and sums of u, v, u² and u v."""

    n: np.ndarray
    u: np.ndarray
    v: np.ndarray
    uu: np.ndarray
    uv: np.ndarray


def _slope(sums: _Sums) -> tuple[np.ndarray, np.ndarray]:
    """Return the least-squares slope from sums, and the centred sum of squares it divides by (0 where undefined)."""
    spread = sums.uu - sums.u * sums.u / sums.n
    covariance = sums.uv - sums.u * sums.v / sums.n
    slope = np.divide(covariance, spread, out=np.zeros_like(spread), where=spread > 0)
    return slope, spread


def p_value_of(distance: float, error: float, df: int) -> float:
    """Return the two-sided p-value of distance = 0; a fit without residuals would decide by rounding error alone."""
    if abs(distance) < 1e-9:
        return 1.0
    if error > 0:
        return float(2 * stats.t.sf(abs(distance) / error, df))
    return 0.0


def scatter_test(deviations: np.ndarray, groups: np.ndarray, margin: float) -> tuple[float, float]:
    """Hold the scatter of a law's deviations t_target / t_law (n,) against a margin.

    With a margin of 0.10 `MOST_ROWS` of the rows may lie within [c/1.10, c·1.10] and still be near
    c. Rows of one group err together. Returned are the variance of the log deviations over the
    largest allowed (above 1 they scatter by more), and its degrees of freedom: their product is
    held against the chi-squared distribution.

    Notes
    -----
    The largest allowed is the variance of a normal distribution of which `MOST_ROWS` lie within the
    margin, and up to `NOISE`² of what the rows of one group differ by, which noise in the host's
    times feigns. Deviations beyond 3 robust standard deviations from the median count as such, for
    one spike is no scatter. The variance of a row of a new group is that of the group means, every
    group of the same weight, and what averaging took from it: the variance within groups times ``1
    - mean(1 / nᵍ)`` (the analysis of unweighted means [1]_). Its degrees of freedom are those of
    Satterthwaite [2]_: with few rows to a group those of the rows, with groups far apart one less
    than the groups.

    References
    ----------
    .. [1] J. D. Thomas, R. A. Hultquist, "Interval estimation for the unbalanced case of the one-way random effects
       model", Annals of Statistics 6(3), 1978.
    .. [2] F. E. Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics Bulletin
       2(6), 1946.

    Examples
    --------
    Sixteen groups that differ by 20 %:

    >>> rng, groups = np.random.default_rng(0), np.repeat(np.arange(16), 10)
    >>> excess, freedom = scatter_test(np.exp(rng.normal(0, 0.2, 16)[groups]), groups, 0.10)
    >>> round(excess, 1), round(freedom)
    (3.4, 15)
    """
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    logs = np.log(deviations)
    logs -= group_quantile(logs, 0.5, codes)
    z = float(stats.norm.ppf((1 + MOST_ROWS) / 2))
    robust = group_quantile(np.abs(logs), MOST_ROWS, codes) / z
    if robust > 0:
        logs = np.clip(logs, -3 * robust, 3 * robust)
    means = np.bincount(codes, logs) / sizes
    free = max(len(logs) - len(sizes), 1)
    within = float(np.sum((logs - means[codes]) ** 2)) / free
    between = float(np.var(means, ddof=1))
    inner = within * (1 - float(np.mean(1 / sizes)))
    limit = (np.log1p(margin) / z) ** 2 + min(within, NOISE**2)
    if between + inner == 0:
        return 0.0, float(len(sizes) - 1)
    variance = between + inner
    doubt = between**2 / (len(sizes) - 1) + inner**2 / free
    return variance / float(limit), variance**2 / doubt


def group_quantile(values: np.ndarray, share: float, groups: np.ndarray) -> float:
    """Return the quantile of values (n,), every group (n,) of the same weight."""
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(values, kind="stable")
    weights = 1 / sizes[codes][order]
    places = (np.cumsum(weights) - weights / 2) / len(sizes)
    return float(np.interp(share, places, values[order]))


HOST = "host"
CONSTANT = "constant ratio"


@dataclass(frozen=True)
class Explanation:
    """How well one law explains a class out of sample."""

    # its name: a column of ``Dataset.laws``, ``"constant ratio"`` or that of `affine`, ``"affine a
    # + b·t_host"``
    law: str
    mape: Interval  # mean absolute percentage error, percent, with its cluster-bootstrap interval
    # whether it is not shown to err more, over groups, than the law of lowest error, which it may
    # be itself (`ties`)
    as_good_as_best: bool
    # of the fit to all rows: ``ratio``, or ``a_us`` (``a_j`` of energies) and ``b``; empty for
    # analytic laws
    parameters: dict[str, float]


def affine(metric: str) -> str:
    """Return the name of the line fitted to a metric, e.g. ``affine a + b·t_host``."""
    return f"affine a + b·{quantity(metric).symbol}_host"


def compare_laws(
    target: np.ndarray,
    host: np.ndarray,
    laws: pd.DataFrame,
    groups: np.ndarray,
    *,
    campaigns: np.ndarray | None = None,
    metric: str = "duration_us",
    folds: int = 10,
    replicates: int = 2000,
    seed: int = 0,
) -> tuple[Explanation, ...]:
    """Score every law on rows whose groups its fit has not seen, best first.

    The errors are out of sample; that the first is the smallest of several is not corrected for,
    which is why `Explanation.as_good_as_best` marks its equals. ``target`` and ``host`` (n,) were
    measured, in the unit of ``metric``; ``laws`` (n × laws) are the target's values by the analytic
    laws, which fit nothing; all are positive. Rows of one of the ``groups`` (n,) are never split in
    the ``folds`` of the two fitted laws (one group each where groups are fewer). ``campaigns`` (n,)
    are those that the groups come in: intervals and `Explanation.as_good_as_best` are over these
    then.
    """
    X = pd.DataFrame({HOST: host})
    fold = make_folds("grouped", groups, len(groups), folds=folds, seed=seed)
    predictions = {str(name): laws[name].to_numpy(dtype=float) for name in laws}
    parameters: dict[str, dict[str, float]] = {name: {} for name in predictions}
    for name, model in {CONSTANT: ConstantRatio(HOST), affine(metric): Affine(HOST)}.items():
        predictions[name] = _out_of_fold(model, X, target, fold)
        parameters[name] = _parameters(clone(model).fit(X, target), quantity(metric).suffix)
    names = list(predictions)
    predicted = np.column_stack([predictions[name] for name in names])
    ape = 100 * np.abs(predicted / target[:, None] - 1)
    mape = ape.mean(axis=0)
    if campaigns is None:
        units = groups
    else:
        units = campaigns
    draws = bootstrap(lambda rows: ape[rows].mean(axis=0), units, replicates=replicates, seed=seed)
    level = 1 - 2 * ALPHA
    count = effective_groups(units)
    lower, upper = percentile_interval(draws, count, level=level)
    tied = tied_with_best(ape, np.unique(units, return_inverse=True)[1])
    explanations = []
    for law in np.argsort(mape, kind="stable"):
        error = Interval(float(mape[law]), float(lower[law]), float(upper[law]), level)
        explanations.append(
            Explanation(
                law=names[law],
                mape=error,
                as_good_as_best=bool(tied[law]),
                parameters=parameters[names[law]],
            )
        )
    return tuple(explanations)


def _out_of_fold(
    model: ConstantRatio | Affine, X: pd.DataFrame, y: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    """Predict each fold by a fit to the others."""
    predicted = np.empty(len(y))
    for k in np.unique(fold):
        held_out = fold == k
        fitted = clone(model).fit(X[~held_out], y[~held_out])
        predicted[held_out] = fitted.predict(X[held_out])
    return predicted


def _parameters(fitted: ConstantRatio | Affine, unit: str) -> dict[str, float]:
    """Return the coefficients of a fitted law by their names in validation.json."""
    if isinstance(fitted, Affine):
        return {f"a_{unit}": fitted.intercept_, "b": fitted.ratio_}
    return {"ratio": fitted.ratio_}
