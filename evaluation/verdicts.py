"""The decision rule of ``validate``: from the evidence on one law in one kernel class to a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil, log

import numpy as np
from scipy import stats

from ..errors import counted
from ..remarks import Remark, remark
from .campaigns import LEAST

MIN_ROWS = 10  # fewer rows carry no slope and no scatter worth a sentence
MIN_GROUPS = 4
"""With G groups even the whole range of the group medians covers the true median with 1 - 2·0.5^G
only: 75 % for three groups, 87.5 % for four. Below four no interval of 90 % comes near to what it
says."""
MOST_ROWS = 2 / 3
"""The share of rows that 'most rows' means; for a normal distribution its half-width is one standard deviation."""
ALPHA = 0.05  # level of each test; equivalence is tested by the interval of level 1 - 2·ALPHA
MOST_TIMES = 32  # what more than so many times the groups would settle is said to be left open


class Outcome(StrEnum):
    """What can be said of a law; the value is the stable key of validation.json."""

    HOLDS = "holds"
    CORRECTED = "holds with a correction"
    SIZE = "fails: depends on size"
    SCATTER = "fails: scatters"
    UNDECIDED = "cannot tell"
    TOO_FEW = "too few data"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Interval:
    """An estimate with its two-sided confidence interval of the given level."""

    value: float
    lower: float
    upper: float
    level: float

    def inside(self, lower: float, upper: float) -> bool:
        """Return whether the whole interval lies within [lower, upper]."""
        return lower <= self.lower and self.upper <= upper

    def excludes(self, value: float) -> bool:
        """Return whether ``value`` lies outside the interval."""
        return not self.lower <= value <= self.upper

    def __str__(self) -> str:
        return f"{self.value:z.2f} [{self.lower:z.2f}, {self.upper:z.2f}]"


@dataclass(frozen=True)
class Evidence:
    """The evidence of the rows of one kernel class on one law; the deviation of a row is t_target / t_law."""

    # how many rows, in how many groups
    rows: int
    groups: int
    deviation: Interval  # median deviation with its cluster-bootstrap interval of level 1 - 2·ALPHA: the correction c
    # slope of log t_target on log t_law with its cluster-robust interval of level 1 - ALPHA; for a
    # law with one ratio (FLOPS and bandwidth scaling within a dtype) that is the slope on log
    # t_host. None where a time does not vary, and for what does not grow with the work.
    slope: Interval | None
    slope_p: float  # p-value of slope = 1; NaN without a slope
    # the slope a perfect law would show with noisy host times (`law_comparison.NOISE`); NaN without
    # a slope
    attenuated_slope: float
    # p-value of 'the slope is 1, or seems less because the host's times are noisy', adjusted by
    # Holm over classes
    size_p: float
    # fold change of the deviation, by the slope, between the middle and either end of the class's
    # range of times (5th to 95th percentile), less 1: 0.10 means the ends are 10 % off when the
    # middle is right
    drift: float
    # half-width of the symmetric band (in log) around c that holds `MOST_ROWS` of the rows: 0.10 =
    # within 10 %
    scatter: float
    # the same with every group of the same weight: two large groups say little of how groups differ
    group_scatter: float
    # variance of the log deviations over the largest that the margin and the host's noise allow,
    # and its degrees of freedom (`law_comparison.scatter_test`)
    excess: float
    freedom: float
    scatter_p: float  # p-value of 'the rows scatter by no more than the margin', adjusted by Holm over classes
    # that the groups come in: each is one unit of the tests and intervals then; None: groups are
    campaigns: int | None = None

    @property
    def units(self) -> int:
        """What tests and intervals count: campaigns where groups come in them, else groups."""
        return self.groups if self.campaigns is None else self.campaigns


@dataclass(frozen=True)
class Verdict:
    """An outcome and its reason: a remark with the figures that decided."""

    outcome: Outcome
    why: Remark


def too_few(rows: int, groups: int, campaigns: int | None = None) -> Verdict | None:
    """Return the verdict 'too few data' with its reason, or None where there are enough."""
    figures = {"rows": rows, "groups": groups}
    needed = [("rows", rows, MIN_ROWS), ("groups", groups, MIN_GROUPS)]
    if campaigns is not None:
        figures["campaigns"] = campaigns
        needed.append(("campaigns", campaigns, MIN_GROUPS))
    missing = [f"{count} of the {least} {name}" for name, count, least in needed if count < least]
    if not missing:
        return None
    text = f"too few data ({' and '.join(missing)} needed)"
    return Verdict(Outcome.TOO_FEW, remark("law-too-few-data", text, **figures))


UNKNOWN = Verdict(
    Outcome.UNKNOWN,
    remark("law-not-published", "unknown: the law needs a figure that is not published"),
)
"""Of a law without a prediction."""


def judge(evidence: Evidence, margin: float) -> Verdict:
    """Apply the decision rule.

    ``margin`` is what 'the same' means: 0.10 = deviations within [1/1.10, 1.10], symmetric in log, so that exchanging
    host and target gives the same verdict.

    Returns
    -------
    Verdict
        The first line that applies, of:

        ========== ============= ================ ===================================== ==========================
        drift      slope ≠ 1     most rows        interval of the median deviation c    verdict
        > margin   is shown      near c
        ========== ============= ================ ===================================== ==========================
        any        any           any              fewer than 10 rows, 4 groups or 4     too few data
                                                  campaigns
        yes        yes                                                                  fails: depends on size
        any        any           no, as is shown                                        fails: scatters
        any        any           no, not shown                                          cannot tell (scatter)
        yes        no            yes                                                    cannot tell (slope)
        no         any           yes              fewer than 5 campaigns                cannot tell (campaigns)
        no         any           yes              inside the margins                    holds
        no         any           yes              excludes 1, half-width within margin  holds with a correction of c
        no         any           yes              else                                  cannot tell (median)
        ========== ============= ================ ===================================== ==========================

    Notes
    -----
    *Holds* is a claim of equivalence, not the absence of a difference: two one-sided tests at `ALPHA` reject 'c is off
    by more than the margin' exactly when the interval of level 1 - 2·`ALPHA` lies inside the margins [1]_, [2]_. It is
    a claim about the class's middle; the share of rows within the margin and the drift guard the rest of the class.
    A slope other than 1 counts only if it moves the ends of the class's range by more than the margin, and is shown:
    p < `ALPHA` after Holm over the classes, against the slopes that noise in the host's times can feign; likewise a
    scatter beyond the margin, of the rows or with every group of the same weight, against what the noise of the host
    and few groups can feign (`law_comparison`). The
    equivalence claims of several classes are not adjusted for each other: each class's claim is wrong with probability
    `ALPHA` at most, on its own. Where nothing is shown either way, the remark says how many more groups like these
    would settle it (`more_groups`).

    Where groups come in campaigns, a campaign is one draw: four can refute a law, but that it holds in campaigns that
    nobody measured is said of five or more.

    References
    ----------
    .. [1] D. J. Schuirmann, "A comparison of the two one-sided tests procedure and the power approach for assessing
       the equivalence of average bioavailability", J. Pharmacokinet. Biopharm. 15(6), 1987.
    .. [2] D. Lakens, "Equivalence tests", Social Psychological and Personality Science 8(4), 2017.
    """
    verdict = too_few(evidence.rows, evidence.groups, evidence.campaigns)
    if verdict:
        return verdict
    c = evidence.deviation
    slope = evidence.slope
    large_drift = evidence.drift > margin
    if large_drift and evidence.size_p < ALPHA:
        return Verdict(
            Outcome.SIZE,
            remark("law-depends-on-size", f"fails: depends on size (slope {slope})", slope=slope),
        )
    scatter = evidence.scatter
    weighed = ""
    if scatter <= margin:
        scatter = evidence.group_scatter
        weighed = ", every group of the same weight"
    if scatter > margin and evidence.scatter_p < ALPHA:
        text = f"fails: scatters by {100 * scatter:.1f} % around {c}{weighed}"
        return Verdict(Outcome.SCATTER, remark("law-scatters", text, scatter=scatter, deviation=c))
    if evidence.scatter <= margin and not large_drift:
        if evidence.campaigns is not None and evidence.campaigns < LEAST:
            return _few_campaigns(evidence)
        if c.inside(1 / (1 + margin), 1 + margin):
            return Verdict(Outcome.HOLDS, remark("law-holds", f"holds ({c})", deviation=c))
        if c.excludes(1) and _half_width(c) <= log(1 + margin):
            text = f"holds with a correction of {c}"
            return Verdict(Outcome.CORRECTED, remark("law-holds-corrected", text, deviation=c))
    if evidence.scatter > margin:
        code = "law-scatter-undecided"
        text = f"scatter {100 * evidence.scatter:.1f} %"
        figures = {"scatter": evidence.scatter}
    elif large_drift:
        code = "law-slope-undecided"
        text = f"slope {slope}"
        figures = {"slope": slope}
    else:
        code = "law-median-undecided"
        text = f"median {c}"
        figures = {"deviation": c}
    more = more_groups(evidence, margin)
    units = "campaigns"
    if evidence.campaigns is None:
        units = "groups"
    if more:
        needed = f"about {more} more {units} like these would tell"
    else:
        needed = f"{MOST_TIMES} times as many would not"
    if evidence.scatter > margin and evidence.excess <= 1:
        needed = "noise in the host's times alone can be as much"
    text = f"cannot tell ({text}; {needed})"
    return Verdict(Outcome.UNDECIDED, remark(code, text, **figures, more_groups=more))


def _few_campaigns(evidence: Evidence) -> Verdict:
    """Return the verdict on what may hold in the campaigns at hand, of which there are fewer than `LEAST`."""
    campaigns = evidence.campaigns
    c = evidence.deviation
    of = f"{counted(evidence.groups, 'group')} of {campaigns} campaigns, {LEAST} needed"
    return Verdict(
        Outcome.UNDECIDED,
        remark(
            "law-few-campaigns",
            f"cannot tell ({of}; of these the median is {c})",
            groups=evidence.groups,
            campaigns=campaigns,
            deviation=c,
        ),
    )


def more_groups(evidence: Evidence, margin: float) -> int | None:
    """Return how many more groups like those at hand would settle what `judge` cannot tell, if the estimates stay.

    Widths shrink with the root of the groups, degrees of freedom grow with them; campaigns stand in
    for groups that come in them. None where more than `MOST_TIMES` as many would not settle it.
    """
    c = evidence.deviation
    slope = evidence.slope
    limit = log(1 + margin)
    times = np.arange(1, 8 * MOST_TIMES + 1) / 8 + 1e-9
    if evidence.scatter > margin:
        freedom = evidence.freedom * times
        settled = np.asarray(stats.chi2.sf(freedom * evidence.excess, freedom)) < ALPHA
    elif evidence.drift > margin and slope is not None:
        distance = min(max(slope.value, evidence.attenuated_slope), 1.0) - slope.value
        settled = np.asarray((slope.upper - slope.lower) / 2 / np.sqrt(times)) < abs(distance)
    else:
        width = _half_width(c) / np.sqrt(times)
        distance = abs(log(c.value))
        settled = (distance + width <= limit) | ((width < distance) & (width <= limit))
    if not settled.any():
        return None
    return max(ceil(evidence.units * (times[np.argmax(settled)] - 1)), 1)


def _half_width(c: Interval) -> float:
    return (log(c.upper) - log(c.lower)) / 2
