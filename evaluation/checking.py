"""Does a trained model still hold? Its predictions against new measurements, next to what it did out of sample.

Rows of a group err together, in the new measurements as in training, so all that is claimed here counts groups, and
counts them on both sides: a model trained on 16 groups is itself uncertain by what 16 groups leave open, and new rows
that differ from it by no more than that are no evidence against it.

- The **shift** is the median of observed / predicted of the new rows. Its interval is a two-sample cluster bootstrap:
  groups are drawn on both sides (see `cluster_bootstrap`), since the median of a model that was trained on other groups
  of the same kind would differ from 1 by as much as that of its out-of-fold rows varies.
- The **coverage** of the intervals has a binomial test, with as many independent rows as would tell it as surely:
  ``1 / n = 1 / n_new + 1 / n_calibration``, each the number of rows over its design effect (Kish 1965), the
  cluster-robust variance of the share of rows inside over that of as many independent rows.
- The **growth** of the error is the ratio of the mean ``|log(observed / predicted)|``, new over out of fold, by the
  same bootstrap; its interval has one end. What is expected out of fold is the error that the run states of rows like
  the new ones (`stated_error`), as most trained rows may be of a few groups that err less. Where nothing is stated of
  the new rows (of another device) it is that of the rows as trained.

The verdict is the first line that applies; each alarm is tested at 5 % / 3, so that together they are raised on at most
5 % of the tables that differ from training by chance (`benchmarks.checking` counts them).

================================================================================================  ==================
fewer than 10 rows, or 4 groups, within the trained range                                         too few data
fewer rows inside than the intervals claim, by half as many again outside (`MATERIAL_MISSES`),    no longer valid
or an error 1.25 times as large (`MATERIAL_ERROR`) or more, both after a shift is corrected
a shift whose interval excludes 1, by 2 % or more (`material_shift`)                              shifted
the interval of the shift lies within the margin                                                  still valid
else                                                                                              cannot tell
================================================================================================  ==================

*Still valid* is a separate claim, not the want of an alarm: two one-sided tests at 5 % reject a shift beyond the
margin (Schuirmann 1987, as in `verdicts`). Where the interval is wider than that, these rows cannot tell, and the
answer says how many more groups like them would.

Where the groups of training come in campaigns (`campaigns`), what a campaign adds is a separate variance: of each
statistic that of the campaigns' values, less what their groups leave open. It is divided by the campaigns of either
side, and read with Student's t of the trained campaigns less one. A new campaign that is off by what campaigns differ
by is no evidence, however many groups it has; where campaigns are few, the answer is *cannot tell*.

Rows outside the trained range are scored, but no verdict rests on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, log
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special, stats

from ..arrays import BoolArray, FloatArray
from .cluster_bootstrap import (
    bootstrap,
    bootstrapped_medians,
    effective_groups,
    percentile_interval,
)
from .corrected_error import (
    CorrectedError,
    as_stated,
    corrected_by_others,
    corrected_errors,
    no_better_than_trained,
    stated_since,
)
from .intervals import LEVEL, log_ratio
from .metrics import ape, finite, inlier_ratios
from .stated_error import NEW_CAMPAIGN_ROW, NOTHING_STATED, Mixture, StatedError, StatedErrors
from .trained_model import Correction
from .verdicts import ALPHA, MOST_TIMES, Interval, too_few

# a smaller shift is not worth a correction, however surely it is there
MATERIAL_SHIFT: Final = 0.02
MATERIAL_ERROR: Final = 1.25  # an error that has grown less is that of the same model
MATERIAL_MISSES: Final = 1.5
"""Intervals that miss fewer times as many rows as they claim still hold: many rows tell a point of coverage apart."""
EACH: Final = ALPHA / 3  # level of each of the three tests
REPLICATES: Final = 1000
_LEAST_ERROR: Final = 1e-9  # a smaller mean error is rounding
LEAST_SHARE: Final = 0.5
"""Share of new rows in groups never trained from which they are compared with the folds that left groups out."""


class Outcome(StrEnum):
    """What a check comes to; the value is the stable key of its JSON."""

    VALID = "still valid"
    SHIFTED = "shifted"
    RETRAIN = "no longer valid"
    UNDECIDED = "cannot tell"
    TOO_FEW = "too few data"
    TRAINED = "proves nothing"  # the run was trained on all of these rows


@dataclass(frozen=True)
class Part:
    """One class, or group, of the new rows: ``shift`` is None where there are too few rows or groups for an interval.

    ``ratio`` is the median of observed / predicted, and ``shift`` the same with its interval of
    level 0.95: by the cluster bootstrap for a class, by the ranks of the rows for a group.
    """

    name: str
    rows: int
    groups: int
    e_out: float
    coverage: float | None
    ratio: float
    shift: Interval | None


@dataclass(frozen=True)
class Score:
    """Errors of some rows: percent, but the coverage, which is a share; None where it was not measured."""

    n: int
    e_out: float
    median_ape: float
    ir: dict[str, float]
    kendall: float | None
    coverage: float | None

    @classmethod
    def of(cls, rows: pd.DataFrame, coverage: float | None = None) -> Score:
        """Score rows with ``observed`` and ``predicted``; where ``lower`` and ``upper`` are, so is the coverage."""
        errors = ape(rows["observed"], rows["predicted"])
        if len(rows) > 1:
            order = stats.kendalltau(rows["observed"], rows["predicted"]).statistic
        else:
            order = None
        mean = float(errors.mean())
        middle = float(np.median(errors))
        if "lower" in rows:
            coverage = share_inside(rows)
        return cls(len(rows), mean, middle, inlier_ratios(errors), finite(order), coverage)


@dataclass(frozen=True)
class CoverageTest:
    """Share of rows inside their interval, against the share claimed.

    ``rows`` is how many independent rows would tell as much, ``p_value`` the chance of so small a
    share among them if the claim is true.
    """

    coverage: float
    level: float
    rows: float
    p_value: float


@dataclass(frozen=True)
class Checked:
    """The check of a model against new measurements.

    Attributes
    ----------
    score, expected : Score
        Of the new rows, and of the run's out-of-fold predictions under ``scheme``.
    stated : StatedError or None
        What `predict` states of the new rows within the trained range: the error of rows like
        these; None where it states nothing of any.
    scheme : str
        Of the out-of-fold predictions that the new rows are compared with.
    groups, known_groups : int
        Groups of the new rows, and how many of them were trained.
    campaigns, trained_campaigns : int or None
        Campaigns of the new rows, and of training; None where groups come in none.
    shift : Interval or None
        Of level 1 - `EACH`; None where there are too few data.
    coverage, corrected_coverage : CoverageTest or None
        As the run is, and after the shift is corrected.
    growth : Interval or None
        Of the error after the shift is corrected, over that out of fold, or over that ``stated`` of
        rows like these where ``growth_of_stated``; its upper end is infinite.
    margin : float
        What counts as the same: a shift within [1 / (1 + margin), 1 + margin].
    more_groups : int or None
        Of new groups like these would settle what cannot be told; None where nothing is open, or
        they would not.
    outcome : Outcome
        The verdict.
    correction : Correction or None
        What `Outcome.SHIFTED` asks for.
    corrected : Score or None
        Of the rows within the trained range, each corrected by what the other groups say; None
        where there is no shift. Where there is, `corrected_coverage` and `growth` are of corrected
        rows too, whatever the verdict.
    since : mapping of str to CorrectedError
        What the corrected run errs by, by `basis`.
    stated_since : StatedErrors
        What the corrected run states.
    classes, by_group : tuple of Part
        By falling number of rows; the groups that are off most first.
    without_interval : int
        Rows that were promised none: they do not count for the coverage.
    nothing_promised : int
        Rows of a kind of which the run states no error either, though it does of others (new groups
        where it was trained on one or two): they do not count for the verdict.
    out_of_range : int
        Rows outside the trained range.
    beyond : Score or None
        Of these rows.
    """

    score: Score
    expected: Score
    stated: StatedError | None
    scheme: str
    groups: int
    known_groups: int
    campaigns: int | None
    trained_campaigns: int | None
    shift: Interval | None
    coverage: CoverageTest | None
    corrected_coverage: CoverageTest | None
    growth: Interval | None
    growth_of_stated: bool
    margin: float
    more_groups: int | None
    outcome: Outcome
    correction: Correction | None
    corrected: Score | None
    since: Mapping[str, CorrectedError]
    stated_since: StatedErrors
    classes: tuple[Part, ...]
    by_group: tuple[Part, ...]
    without_interval: int
    nothing_promised: int
    out_of_range: int
    beyond: Score | None


def material_shift(margin: float) -> float:
    """Return the least shift that is worth a correction: what a margin below it excludes is one too.

    >>> material_shift(0.1), material_shift(0.01)
    (0.02, 0.01)
    """
    return min(MATERIAL_SHIFT, margin)


def inside(rows: pd.DataFrame) -> BoolArray:
    """Return which rows lie within their interval."""
    return rows["observed"].between(rows["lower"], rows["upper"]).to_numpy(dtype=bool)


def promised(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that have an interval: of the others nothing was claimed."""
    return rows[rows["lower"].notna() & rows["upper"].notna()]


def share_inside(rows: pd.DataFrame) -> float | None:
    """Return which share of the rows with an interval lie within it; None where there are none."""
    judged = promised(rows)
    if len(judged):
        return float(inside(judged).mean())
    return None


def assess(
    new: pd.DataFrame,
    folds: Mapping[str, pd.DataFrame],
    *,
    level: float = LEVEL,
    margin: float = 0.10,
    covered: Mapping[str, float | None] | None = None,
    errors: StatedErrors = NOTHING_STATED,
    seed: int = 0,
) -> Checked:
    """Judge a model by rows it has not seen.

    ``new`` has ``observed``, ``predicted``, ``lower``, ``upper``, ``group``, ``class`` and
    ``within``, whether the model itself answers (and not what goes on outside the trained range),
    and where it is grouped otherwise than the training ``known``, whether the row is of a group of
    that; predictions are positive. ``folds`` are by scheme ``observed``, ``predicted`` and
    ``group`` of the training rows out of fold, with ``campaign`` on both sides where groups come in
    campaigns: new rows are compared with ``grouped`` where half of
    them or more are of groups never trained, else with ``kfold``. ``covered`` is the share of rows
    that the run's intervals held out of fold by scheme, ``level`` that of the intervals, ``margin``
    as in `Checked`. ``errors`` are those that the run states of rows by ``basis`` and ``part``
    (columns of ``new`` then): most trained rows may be of one group, and the new ones of others
    that err more, so the error of the new rows is compared with that of rows like them.
    """
    if "known" in new:
        is_trained = new["known"]
    else:
        is_trained = new["group"].isin(next(iter(folds.values()))["group"])
    if (~is_trained).mean() >= LEAST_SHARE:
        wanted = "grouped"
    else:
        wanted = "kfold"
    scheme = wanted
    if wanted not in folds:
        scheme = next(iter(folds))
    reference = folds[scheme]
    judged = new[new["within"] & ~_nothing_promised(new, errors)]
    verdicts = _judge(judged, reference, level, margin, errors, seed)
    mixture = _mixed(judged, errors)
    largest_first = sorted(new.groupby("class", sort=True), key=lambda item: -len(item[1]))
    return Checked(
        score=Score.of(new),
        expected=Score.of(reference, (covered or {}).get(scheme)),
        stated=None if mixture is None else mixture.stated,
        scheme=scheme,
        groups=new["group"].nunique(),
        known_groups=new.loc[is_trained, "group"].nunique(),
        campaigns=_campaigns(new) if _in_campaigns(new, reference) else None,
        trained_campaigns=_campaigns(reference) if _in_campaigns(new, reference) else None,
        classes=tuple(_part(str(name), rows, seed) for name, rows in largest_first),
        by_group=tuple(sorted(_groups(new), key=lambda part: -abs(np.log(part.ratio)))),
        without_interval=len(new) - len(promised(new)),
        nothing_promised=int(_nothing_promised(new, errors).sum()),
        out_of_range=int((~new["within"]).sum()),
        beyond=None if new["within"].all() else Score.of(new[~new["within"]]),
        margin=margin,
        **verdicts,
    )


def _nothing_promised(new: pd.DataFrame, errors: StatedErrors) -> pd.Series:
    """Return of which rows a run that states errors of some promises neither error nor interval."""
    if "part" not in new or not errors.of_basis:
        return pd.Series(False, index=new.index)
    return (new["lower"].isna() | new["upper"].isna()) & ~_is_stated(new, errors)


def _is_stated(rows: pd.DataFrame, errors: StatedErrors) -> BoolArray:
    """Return of which rows an error is stated, (n,)."""
    basis = rows["basis"].to_numpy(dtype=object)
    return np.isfinite(errors.of_each(basis, rows["part"].to_numpy(dtype=object)))


def _mixed(rows: pd.DataFrame, errors: StatedErrors) -> Mixture | None:
    """Return the error stated of rows; None where none is."""
    if "part" not in rows:
        return None
    counts = Counter(zip(rows["basis"], rows["part"], strict=True))
    return errors.mixed(counts)


def _judge(
    new: pd.DataFrame,
    reference: pd.DataFrame,
    level: float,
    margin: float,
    stated: StatedErrors,
    seed: int,
) -> dict[str, Any]:
    """Return the evidence and the verdict on rows within the trained range."""
    if too_few(len(new), new["group"].nunique()):
        names = ("shift", "coverage", "corrected_coverage", "growth", "more_groups", "correction")
        nothing = {**dict.fromkeys(names), **_NOT_CORRECTED, "growth_of_stated": False}
        return {**nothing, "outcome": Outcome.TOO_FEW}
    errors, before = (log_ratio(rows["observed"], rows["predicted"]) for rows in (new, reference))
    sides = (errors, new["group"]), (before, reference["group"])
    campaigns = None
    if _in_campaigns(new, reference):
        campaigns = (new["campaign"], reference["campaign"])
    median = two_samples(np.median, *sides, over=0.0, seed=seed, campaigns=campaigns)
    shift = _exp(median.interval(1 - EACH))
    claim = median.interval(1 - 2 * ALPHA)
    moved = shift.excludes(1) and abs(shift.value - 1) >= material_shift(margin)
    if moved:
        correction = Correction.of(shift, rows=len(new), groups=new["group"].nunique())
    else:
        correction = None
    as_is = _coverage(new, reference, level)
    corrected = as_is
    if correction is not None:
        corrected = _coverage(correction.applied(new, level), reference, level)
    centre = 0.0
    if moved:
        centre = np.log(shift.value)
    growth, of_stated = _growth(new, errors - centre, reference, before, stated, campaigns, seed)
    growth = replace(growth, upper=np.inf, level=1 - EACH)
    more = None
    missed = corrected is not None and corrected.p_value < EACH
    missed = missed and 1 - corrected.coverage >= MATERIAL_MISSES * (1 - level)
    once_corrected = _once_corrected(new, correction, campaigns, stated, level)
    if missed or (growth.lower > 1 and growth.value >= MATERIAL_ERROR):
        outcome = Outcome.RETRAIN
        correction = None
    elif moved:
        outcome = Outcome.SHIFTED
    elif claim.inside(-log(1 + margin), log(1 + margin)):
        outcome = Outcome.VALID
    else:
        outcome = Outcome.UNDECIDED
        more = _more_groups(
            median, claim, margin, effective_groups(new["group"].to_numpy(dtype=str))
        )
    return {
        "shift": shift,
        "coverage": as_is,
        "corrected_coverage": corrected,
        "growth": growth,
        "growth_of_stated": of_stated,
        "more_groups": more,
        "outcome": outcome,
        "correction": correction,
        **once_corrected,
    }


_NOT_CORRECTED: Final[dict[str, Any]] = {
    "corrected": None,
    "since": {},
    "stated_since": NOTHING_STATED,
}


def _once_corrected(
    new: pd.DataFrame,
    correction: Correction | None,
    campaigns: tuple[pd.Series, pd.Series] | None,
    stated: StatedErrors,
    level: float,
) -> dict[str, Any]:
    """Return what the rows err by once they are corrected, and what a run corrected by them states."""
    if correction is None:
        return _NOT_CORRECTED
    answers = correction.applied(new, level)
    others = new.assign(
        predicted=corrected_by_others(new), lower=answers["lower"], upper=answers["upper"]
    )
    score = Score.of(others)
    if "part" not in new:
        return {**_NOT_CORRECTED, "corrected": score}
    clusters = new["group"].astype(str)
    if campaigns is not None:
        clusters = clusters.mask(new["basis"].eq(NEW_CAMPAIGN_ROW), new["campaign"])
    measured = corrected_errors(new, answers, clusters.to_numpy())
    measured = no_better_than_trained(measured, stated, new)
    since = stated_since(stated, new, measured)
    return {
        "corrected": score,
        "since": as_stated(measured, since, new),
        "stated_since": since,
    }


def _growth(
    new: pd.DataFrame,
    errors: FloatArray,
    reference: pd.DataFrame,
    before: FloatArray,
    stated: StatedErrors,
    campaigns: tuple[pd.Series, pd.Series] | None,
    seed: int,
) -> tuple[Interval, bool]:
    """Return the error of new rows over that out of fold, or over that stated of them, and which of the two.

    ``errors`` and ``before`` are the logarithms of observed / predicted of the rows of ``new`` and
    ``reference``, (n,) each. Rows of which nothing is stated do not count, unless the others are
    too few.
    """
    over = _log_error(before)
    stated_spread = None
    rows = np.ones(len(new), dtype=bool)
    mixture = _mixed(new, stated)
    if mixture is not None:
        rows = _is_stated(new, stated)
        if too_few(int(rows.sum()), new["group"][rows].nunique()):
            mixture = None
            rows = np.ones(len(new), dtype=bool)
    if mixture is not None:
        of_reference = float(ape(reference["observed"], reference["predicted"]).mean())
        over += float(np.log(max(mixture.error / 100, _LEAST_ERROR)))
        over -= float(np.log(max(of_reference / 100, _LEAST_ERROR)))
        stated_spread = (mixture.sigma, mixture.freedom)
    if campaigns is not None:
        campaigns = (campaigns[0][rows], campaigns[1])
    grown = two_samples(
        _log_error,
        (errors[rows], new["group"][rows]),
        (before, reference["group"]),
        over=over,
        seed=seed,
        campaigns=campaigns,
        stated_spread=stated_spread,
    )
    return _exp(grown.interval(1 - 2 * EACH)), mixture is not None


def _more_groups(median: TwoSamples, claim: Interval, margin: float, groups: float) -> int | None:
    """Return how many more new groups would bring the interval of the shift within the margin, or show the shift.

    Only the part of the width that new rows make shrinks, with the root of their groups. None where
    more than `MOST_TIMES` as many would not do.
    """
    far = abs(claim.value)
    limit = log(1 + margin)
    new, old = (float(np.var(draws)) for draws in median.spread)
    old += float(np.var(median.between))
    if new + old == 0:
        return None
    per_variance = ((claim.upper - claim.lower) / 2) ** 2 / (new + old)
    wanted = max(limit - far, far if far >= log(1 + material_shift(margin)) else 0.0)
    left = wanted**2 / per_variance - old
    times = np.inf
    if left > 0:
        times = new / left
    if times <= MOST_TIMES:
        return max(ceil(groups * (times - 1)), 1)
    return None


def _log_error(errors: FloatArray) -> float:
    return float(np.log(max(np.mean(np.abs(errors)), _LEAST_ERROR)))


def _exp(one: Interval) -> Interval:
    value, lower, upper = (float(np.exp(end)) for end in (one.value, one.lower, one.upper))
    return Interval(value, lower, upper, one.level)


Sample = tuple[FloatArray, pd.Series]  # values and their groups


@dataclass(frozen=True)
class TwoSamples:
    """The difference of a statistic of two samples, with what either sample leaves open."""

    value: float
    # draws of the statistic less its value, (replicates,), of the new sample and of the old one
    spread: tuple[FloatArray, FloatArray]
    freedom: float  # Welch's degrees of freedom
    between: FloatArray  # draws of what campaigns add to the difference, (replicates,)

    def interval(self, level: float) -> Interval:
        """Return the difference with its interval of this level."""
        tail = stats.norm.cdf(stats.t.ppf((1 - level) / 2, self.freedom))
        draws = self.value + self.spread[0] - self.spread[1] + self.between
        lower, upper = np.quantile(draws, [tail, 1 - tail])
        return Interval(self.value, float(lower), float(upper), level)


def two_samples(
    statistic: Callable[[FloatArray], Any],
    new: Sample,
    old: Sample,
    *,
    over: float,
    seed: int,
    campaigns: tuple[pd.Series, pd.Series] | None = None,
    stated_spread: tuple[float, float] | None = None,
) -> TwoSamples:
    """Return ``statistic(new) - over`` with what either sample leaves open: groups drawn on both sides.

    ``campaigns`` are those of the rows of either sample, where groups come in campaigns; what these
    add is drawn from a normal distribution (`between_campaigns`). The draws of each side are spread
    by ``sqrt(G / (G - 1))`` for its G groups, of Kish's effective number, and read at the t
    quantiles of Welch's degrees of freedom (see `cluster_bootstrap`, whose intervals these are for
    two samples). ``stated_spread``, the standard deviation of the old sample's statistic and its degrees
    of freedom, takes the place of what is drawn of it.
    """
    spread = []
    freedom = []
    drawn = [new]
    if stated_spread is None:
        drawn.append(old)
    for place, (values, names) in enumerate(drawn):
        groups = names.to_numpy(dtype=str)
        count = max(effective_groups(groups), 1.5)
        options: dict[str, int] = {"replicates": REPLICATES, "seed": seed + place}
        if statistic is np.median:
            draws = bootstrapped_medians(values, groups, **options)
        else:
            draws = bootstrap(
                lambda rows, values=values: statistic(values[rows]), groups, **options
            )
        spread.append((draws - statistic(values)) * np.sqrt(count / (count - 1)))
        freedom.append(count - 1)
    if stated_spread is not None:
        sigma, degrees = stated_spread
        spread.append(np.random.default_rng(seed + 3).normal(0.0, sigma, len(spread[0])))
        freedom.append(degrees)
    variances = [float(np.var(draws)) for draws in spread]
    between = np.zeros(len(spread[0]))
    if campaigns is not None:
        theirs, ours = (names.to_numpy(dtype=str) for names in campaigns)
        variance = between_campaigns(statistic, old[0], old[1].to_numpy(dtype=str), ours)
        variance *= 1 / effective_groups(theirs) + 1 / effective_groups(ours)
        draw = np.random.default_rng(seed + 2)
        between = draw.normal(0.0, np.sqrt(variance), len(between))
        variances.append(variance)
        freedom.append(len(np.unique(ours)) - 1)
    total = sum(variances)
    if total > 0:
        degrees = total**2 / sum(v**2 / d for v, d in zip(variances, freedom, strict=True))
    else:
        degrees = min(freedom)
    return TwoSamples(float(statistic(new[0]) - over), (spread[0], spread[1]), degrees, between)


def between_campaigns(
    statistic: Callable[[FloatArray], Any], values: FloatArray, groups: NDArray, campaigns: NDArray
) -> float:
    """Return the variance that a campaign adds to a statistic of its values, 0 or more, by the method of moments.

    That is the variance of the campaigns' statistics less what their groups leave open: the pooled
    variance of the groups' statistics within a campaign, over the effective number of its groups.
    ``values``, ``groups`` and ``campaigns`` are (n,).
    """
    statistics = []
    counts = []
    within = []
    for campaign in np.unique(campaigns):
        rows = campaigns == campaign
        statistics.append(float(statistic(values[rows])))
        counts.append(effective_groups(groups[rows]))
        of_groups = [
            float(statistic(values[rows & (groups == group)])) for group in np.unique(groups[rows])
        ]
        within.append((len(of_groups) - 1, float(np.var(of_groups)) * len(of_groups)))
    freedom = sum(degrees for degrees, _ in within)
    pooled = 0.0
    if freedom > 0:
        pooled = sum(squares for _, squares in within) / freedom
    chance = float(np.mean([pooled / count for count in counts]))
    return max(float(np.var(statistics, ddof=1)) - chance, 0.0)


def _in_campaigns(new: pd.DataFrame, reference: pd.DataFrame) -> bool:
    """Whether the campaign of every row is stated, and training had several."""
    stated = "campaign" in new and "campaign" in reference
    return stated and _campaigns(reference) > 1


def _campaigns(rows: pd.DataFrame) -> int:
    return int(rows["campaign"].nunique())


def _coverage(new: pd.DataFrame, reference: pd.DataFrame, level: float) -> CoverageTest | None:
    """Test whether the intervals hold fewer rows than they claim; None where no row has one."""
    if (new := promised(new)).empty:
        return None
    held = inside(new)
    far = np.abs(log_ratio(reference["observed"], reference["predicted"]))
    near = far <= np.quantile(far, level)
    leaves_open = 1 / independent_rows(held, new["group"])
    leaves_open += 1 / independent_rows(near, reference["group"])
    if _in_campaigns(new, reference):
        ours = reference["campaign"].to_numpy(dtype=str)
        groups = reference["group"].to_numpy(dtype=str)
        variance = between_campaigns(np.mean, near.astype(float), groups, ours)
        counts = [new["campaign"].to_numpy(dtype=str), ours]
        each = sum(1 / effective_groups(names) for names in counts)
        few = stats.t.isf(EACH, len(np.unique(ours)) - 1) / stats.norm.isf(EACH)
        leaves_open += few**2 * variance * each / (level * (1 - level))
    rows = 1 / leaves_open
    share = float(held.mean())
    if share < 1:
        p_value = float(special.betainc(rows * (1 - share), rows * share + 1, 1 - level))
    else:
        p_value = 1.0
    return CoverageTest(share, level, rows, p_value)


def independent_rows(held: BoolArray, groups: pd.Series) -> float:
    """Return how many independent rows would tell the share of rows inside as surely: the rows over the design effect.

    It is 1 or more. Where all rows, or none, are inside, or there is one group, the groups are
    counted, since nothing tells how alike the rows of one are.
    """
    share = held.mean()
    code = np.unique(groups.to_numpy(dtype=str), return_inverse=True)[1]
    count = int(code.max()) + 1
    if share in (0, 1) or count < 2:
        return effective_groups(code)
    sums = np.bincount(code, held - share)
    variance = float(np.sum(sums**2)) * count / (count - 1) / len(held) ** 2
    return len(held) / max(variance * len(held) / (share * (1 - share)), 1.0)


def _part(name: str, rows: pd.DataFrame, seed: int) -> Part:
    """Return a class: its median ratio by the cluster bootstrap."""
    errors = log_ratio(rows["observed"], rows["predicted"])
    groups = rows["group"].to_numpy(dtype=str)
    shift = None
    if not too_few(len(rows), len(np.unique(groups))):
        draws = bootstrapped_medians(errors, groups, replicates=REPLICATES // 2, seed=seed)
        shift = _interval(errors, *_ends(draws, effective_groups(groups)))
    return _scored(name, rows, errors, shift)


def _ends(draws: FloatArray, groups: float) -> tuple[float, float]:
    lower, upper = percentile_interval(draws, groups, level=1 - ALPHA)
    return float(lower), float(upper)


def _groups(new: pd.DataFrame) -> list[Part]:
    """Return the groups: their median ratio between order statistics of their rows (the sign test's interval)."""
    parts = []
    for name, rows in new.groupby("group", sort=True):
        errors = log_ratio(rows["observed"], rows["predicted"])
        shift = median_shift(errors)
        parts.append(_scored(str(name), rows, errors, shift))
    return parts


def median_shift(errors: FloatArray) -> Interval | None:
    """Return the median of observed / predicted of rows, given its logarithms (n,), by the ranks of a sign test.

    None where the rows are too few (fewer than six) for an interval of level 0.95.
    """
    errors = np.sort(errors)
    least = int(stats.binom.ppf(ALPHA / 2, len(errors), 0.5)) - 1
    if least >= 0:
        return _interval(errors, errors[least], errors[-1 - least])
    return None


def _interval(errors: FloatArray, lower: float, upper: float) -> Interval:
    return _exp(Interval(float(np.median(errors)), lower, upper, 1 - ALPHA))


def _scored(name: str, rows: pd.DataFrame, errors: FloatArray, shift: Interval | None) -> Part:
    mean = float(ape(rows["observed"], rows["predicted"]).mean())
    ratio = float(np.exp(np.median(errors)))
    return Part(name, len(rows), rows["group"].nunique(), mean, share_inside(rows), ratio, shift)
