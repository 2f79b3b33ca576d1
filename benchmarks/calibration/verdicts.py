"""What the verdicts of `validate` and `check` are worth on data made from a law: false alarms, and power.

Each function yields shares of `sets` made-up tables drawn with `seed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ...arrays import FloatArray, IntArray
from ...evaluation.campaigns import LEAST
from ...evaluation.checking import Outcome as Answer
from ...evaluation.checking import assess
from ...evaluation.intervals import ConformalIntervals
from ...evaluation.linear_scaling import adjusted, gathered
from ...evaluation.ranking import ranking
from ...evaluation.selection import select
from ...evaluation.stated_error import (
    KNOWN_GROUP,
    NOTHING_STATED,
    StatedErrors,
    parts_of_trained,
)
from ...evaluation.verdicts import Evidence, Outcome, Verdict, judge
from ...models.base import Candidate
from ...models.linear.stepwise import Stepwise
from ...models.suite import RELATIVE
from ...models.target_space import RelativeError
from .rows import Row, Rows

CLASSES: Final = 8
MARGIN: Final = 0.10
SIZES: Final = {
    "6 groups of 10": [10] * 6,
    "16 groups of 25": [25] * 16,
    "16 unequal groups": [160] * 2 + [6] * 14,
}
TRUE: Final = {  # how groups differ, rows scatter (tails), and what noise the host's times have
    "groups differ by 8 %": (0.08, 0.03, False, 0.0),
    "host noise of 10 %": (0.03, 0.03, False, 0.10),
    "heavy tails of 8 %": (0.03, 0.08, True, 0.0),
}
FALSE: Final = {
    "rows scatter by twice the limit": (0.03, 0.20, False, 0.0),
    "groups scatter by twice the limit": (0.20, 0.03, False, 0.0),
}


def scaling_verdicts(sets: int, seed: int, sizes: tuple[str, ...] = tuple(SIZES)) -> Rows:
    """Yield how often a class of eight true ones is said to fail, and how often one that scatters is found to."""
    for name in sizes:
        for truth, setting in (TRUE | FALSE).items():
            outcomes_of = [_validated(SIZES[name], setting, [seed, draw]) for draw in range(sets)]
            if truth in TRUE:
                share = np.mean(
                    [any("fails" in one for one in outcomes) for outcomes in outcomes_of]
                )
                yield Row(
                    f"validate, eight true classes, {name}, {truth}: any fails", float(share), sets
                )
            else:
                share = np.mean(
                    [one is Outcome.SCATTER for outcomes in outcomes_of for one in outcomes]
                )
                yield Row(f"validate, {name}, {truth}: found", float(share), sets)


SCALED_CAMPAIGNS: Final = (6, 10)
"""Campaigns of four groups of ten rows, whose deviations and sizes differ by campaign."""


def scaling_campaigns(sets: int, seed: int) -> Rows:
    """Yield how often a class of eight true ones fails where campaigns differ by 8 %, by campaigns and by groups."""
    for count in SCALED_CAMPAIGNS:
        for unit in ("campaigns", "groups"):
            failed = []
            for draw in range(sets):
                outcomes = _validated_campaigns(count, [seed, draw], by_groups=unit == "groups")
                failed.append(any("fails" in outcome for outcome in outcomes))
            share = float(np.mean(failed))
            name = f"validate, eight true classes, {count} campaigns of 4 groups, by {unit}"
            yield Row(f"{name}: any fails", share, sets)


def _validated_campaigns(count: int, seed: list[int], *, by_groups: bool) -> list[Outcome]:
    evidences: list[list[Evidence | Verdict]] = []
    for position in range(CLASSES):
        rng = np.random.default_rng([*seed, position])
        groups, deviation = _drawn(rng, [10] * (4 * count), 0.02, 0.03, False)
        campaigns = groups // 4
        deviation = deviation + rng.normal(0, 0.08, count)[campaigns]
        size = rng.normal(0, 1, count)[campaigns] + rng.normal(0, 1, len(groups))
        law = np.exp(4 + size)
        evidence = gathered(
            law * np.exp(deviation),
            law[:, None],
            groups,
            MARGIN,
            2,
            seed[-1],
            sized=True,
            campaigns=None if by_groups else campaigns,
        )
        evidences.append([*evidence])
    return [
        judge(one, MARGIN).outcome for (one,) in adjusted(evidences) if isinstance(one, Evidence)
    ]


def _validated(
    sizes: list[int], setting: tuple[float, float, bool, float], seed: list[int]
) -> list[Outcome]:
    between, noise, heavy, host = setting
    evidence: list[list[Evidence | Verdict]] = []
    for position in range(CLASSES):
        rng = np.random.default_rng([*seed, position])
        groups, deviation = _drawn(rng, sizes, between, noise, heavy)
        size = rng.normal(0, 0.7, len(sizes))[groups] + rng.normal(0, 1.5, len(groups))
        law = np.exp(4 + size + rng.normal(0, host, len(groups)))
        target = np.exp(4 + size + deviation)
        # two replicates: the interval of the median decides between holds and cannot tell, never
        # whether a law fails
        evidence.append([*gathered(target, law[:, None], groups, MARGIN, 2, seed[-1], sized=True)])
    return [
        judge(one, MARGIN).outcome for (one,) in adjusted(evidence) if isinstance(one, Evidence)
    ]


def _drawn(
    rng: np.random.Generator, sizes: list[int], between: float, noise: float, heavy: bool
) -> tuple[IntArray, FloatArray]:
    """Return the group and the log deviation of each row; heavy: Student's t of 3 degrees, of the same variance."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    each = rng.standard_t(3, len(groups)) / np.sqrt(3) if heavy else rng.normal(size=len(groups))
    return groups, rng.normal(0, between, len(sizes))[groups] + noise * each


CHECKED: Final = {  # groups trained, new groups, how groups differ, heavy tails
    "16 groups, 8 new": ([20] * 16, [10] * 8, 0.05, False),
    "5 groups, 5 new": ([20] * 5, [10] * 5, 0.05, False),
    "16 unequal groups, 8 new": ([200] * 2 + [10] * 14, [10] * 8, 0.05, False),
    "16 unequal groups that differ by 10 %, heavy tails, 8 new": (
        [200] * 2 + [10] * 14,
        [10] * 8,
        0.10,
        True,
    ),
}


def check_verdicts(sets: int, seed: int, settings: tuple[str, ...] = tuple(CHECKED)) -> Rows:
    """Yield what `check` says of rows that are as the training rows were, and of rows that are shifted by 10 %."""
    for name in settings:
        for shift in (0.0, 0.10):
            outcomes = [_checked(*CHECKED[name], shift, [seed, draw]) for draw in range(sets)]
            alarms, valid = (
                [one in kinds for one in outcomes]
                for kinds in ((Answer.SHIFTED, Answer.RETRAIN), (Answer.VALID,))
            )
            if not shift:
                yield Row(f"check, {name}, unchanged: alarm", float(np.mean(alarms)), sets)
            yield Row(
                f"check, {name}, shifted by {shift:.0%}: still valid", float(np.mean(valid)), sets
            )


IN_CAMPAIGNS: Final = {  # campaigns trained and new, groups in each, how campaigns and groups differ
    "4 campaigns trained, 2 new": (4, 2, 4, 0.08, 0.02),
    "6 campaigns trained, 1 new": (6, 1, 4, 0.08, 0.02),
    "6 campaigns trained, 1 new, alike": (6, 1, 4, 0.0, 0.05),
}


def check_campaigns(sets: int, seed: int) -> Rows:
    """Yield how often `check` alarms where groups come in campaigns: of unchanged rows, and of 30 % slower ones."""
    for name, setting in IN_CAMPAIGNS.items():
        for shift in (0.0, 0.30):
            outcomes = [_of_campaigns(*setting, shift, [seed, draw]) for draw in range(sets)]
            alarms = [one in (Answer.SHIFTED, Answer.RETRAIN) for one in outcomes]
            what = f"shifted by {shift:.0%}" if shift else "unchanged"
            yield Row(f"check, {name}, {what}: alarm", float(np.mean(alarms)), sets)


def _of_campaigns(
    trained: int, new: int, each: int, between: float, groups: float, shift: float, seed: list[int]
) -> Answer:
    rng = np.random.default_rng(seed)
    tables = []
    for campaigns, rows, name, by in ((trained, 20, "g", 0.0), (new, 10, "n", np.log1p(shift))):
        group, deviation = _drawn(rng, [rows] * (campaigns * each), groups, 0.05, False)
        campaign = group // each
        deviation = by + deviation + rng.normal(0, between, campaigns)[campaign]
        predicted = np.exp(rng.normal(4, 1, len(group)))
        tables.append(
            pd.DataFrame(
                {
                    "observed": predicted * np.exp(deviation),
                    "predicted": predicted,
                    "group": [f"{name}{number}" for number in group],
                    "campaign": [f"{name}{number}" for number in campaign],
                }
            )
        )
    before, after = tables
    unit = "campaign" if trained >= LEAST else "group"
    intervals = ConformalIntervals("grouped").fit(
        before["observed"], before["predicted"], before[unit]
    )
    lower, upper = intervals.bounds(after["predicted"], 0.9)
    asked = after.assign(lower=lower, upper=upper, within=True, **{"class": "one"})
    return assess(asked, {"grouped": before}, margin=MARGIN, seed=seed[-1]).outcome


def _checked(
    trained: list[int], new: list[int], between: float, heavy: bool, shift: float, seed: list[int]
) -> Answer:
    rng = np.random.default_rng(seed)
    tables = []
    for sizes, name, by in ((trained, "g", 0.0), (new, "n", np.log1p(shift))):
        groups, deviation = _drawn(rng, sizes, between, 0.05, heavy)
        predicted = np.exp(rng.normal(4, 1, len(groups)))
        names = [f"{name}{group}" for group in groups]
        tables.append(
            pd.DataFrame(
                {
                    "observed": predicted * np.exp(by + deviation),
                    "predicted": predicted,
                    "group": names,
                }
            )
        )
    before, after = tables
    intervals = ConformalIntervals("grouped").fit(
        before["observed"], before["predicted"], before["group"]
    )
    lower, upper = intervals.bounds(after["predicted"], 0.9)
    asked = after.assign(lower=lower, upper=upper, within=True, **{"class": "one"})
    return assess(asked, {"grouped": before}, margin=MARGIN, seed=seed[-1]).outcome


UNEQUAL: Final = {
    "groups of 200 rows, asked of groups of 8": ([200] * 12, [8] * 24, 0.03, 0.09),
    "groups of 200 and 8 rows alike": ([200] * 12, [8] * 24, 0.05, 0.05),
}
"""Rows of the large and of the small known groups, and how rows of either scatter."""


def check_unequal(sets: int, seed: int) -> Rows:
    """Yield how often `check` alarms on new rows of the small groups, unchanged and of twice the scatter.

    Beside it what it would say by the error over all rows as trained.
    """
    for name, setting in UNEQUAL.items():
        for times, what in ((1.0, "unchanged"), (2.0, "twice the scatter")):
            for by_part in (True, False):
                outcomes = []
                for draw in range(sets):
                    outcomes.append(_of_small_groups(*setting, times, by_part, [seed, draw]))
                alarms = [one in (Answer.SHIFTED, Answer.RETRAIN) for one in outcomes]
                rows = "rows like these" if by_part else "rows as trained"
                name_of_row = f"check, {name}, {what}, against {rows}: alarm"
                yield Row(name_of_row, float(np.mean(alarms)), sets)


def _of_small_groups(
    large: list[int],
    small: list[int],
    scatter: float,
    scatter_small: float,
    times: float,
    by_part: bool,
    seed: list[int],
) -> Answer:
    rng = np.random.default_rng(seed)
    tables = []
    for sizes, sd, name in ((large, scatter, "l"), (small, scatter_small, "s")):
        tables.append(_scattered(rng, sizes, sd, name))
    before = pd.concat(tables, ignore_index=True)
    errors = pd.DataFrame({"one": before["predicted"]})
    trained_rows = before.groupby("group")["group"].transform("size").to_numpy()
    parts = parts_of_trained(trained_rows, np.ones(len(before), dtype=bool))
    selected = select(
        before["observed"], errors, before["group"], scheme="kfold", parts=parts, folds=10
    )
    stated = NOTHING_STATED
    if by_part:
        stated = StatedErrors.from_dict({KNOWN_GROUP: selected["parts"]})
    asked = _scattered(rng, small, times * scatter_small, "s").assign(
        lower=0.0, upper=np.inf, within=True, basis=KNOWN_GROUP, part="up to 10"
    )
    asked["class"] = "one"
    return assess(asked, {"kfold": before}, margin=MARGIN, errors=stated, seed=seed[-1]).outcome


def _scattered(
    rng: np.random.Generator, sizes: list[int], scatter: float, name: str
) -> pd.DataFrame:
    groups, deviation = _drawn(rng, sizes, 0.0, scatter, False)
    predicted = np.exp(rng.normal(4, 1, len(groups)))
    names = [f"{name}{group}" for group in groups]
    observed = predicted * np.exp(deviation)
    return pd.DataFrame({"observed": observed, "predicted": predicted, "group": names})


NOISE_FEATURES: Final = 20
GROUPS: Final = {
    "8 groups of 12": [12] * 8,
    "16 groups of 25": [25] * 16,
    "16 unequal groups": [160] * 2 + [6] * 14,
}


def significant_features(sets: int, seed: int, sizes: tuple[str, ...] = tuple(GROUPS)) -> Rows:
    """Yield how many noise features that a stepwise search lists are called significant, and how many true ones."""
    for name in sizes:
        for kind in ("of each row", "constant within a group"):
            listed = significant = detected = 0
            for draw in range(sets):
                dataset = _featured(
                    np.random.default_rng([seed, draw]), GROUPS[name], within=kind == "of each row"
                )
                table = ranking(dataset, _STEPWISE, "grouped", draw)
                noise = [row for row in table if row["feature"].startswith("noise")]
                listed += len(noise)
                significant += sum(bool(row["significant"]) for row in noise)
                detected += any(
                    row["feature"] == "host_us" and bool(row["significant"]) for row in table
                )
            share = significant / listed if listed else 0.0
            yield Row(
                f"p-values, {name}, noise {kind}: noise features listed that are significant",
                share,
                listed,
            )
            yield Row(
                f"p-values, {name}, noise {kind}: the true feature is significant",
                detected / sets,
                sets,
            )


def _featured(rng: np.random.Generator, sizes: list[int], *, within: bool) -> _Features:
    """Return rows whose target is a share of the host's time, groups and rows differing by 5 %, and noise features."""
    groups, deviation = _drawn(rng, sizes, 0.05, 0.05, False)
    noise = rng.uniform(1, 2, (len(groups) if within else len(sizes), NOISE_FEATURES))
    host = np.exp(rng.normal(4, 1, len(groups)))
    X = pd.DataFrame(
        noise if within else noise[groups], columns=[f"noise{j}" for j in range(NOISE_FEATURES)]
    )
    y = (2 + 0.6 * host) * np.exp(deviation)
    return _Features(X.assign(host_us=host), y, groups.astype(str), pd.DataFrame(index=X.index))


@dataclass(frozen=True)
class _Features:
    X: pd.DataFrame
    y: FloatArray
    groups: np.ndarray
    rows: pd.DataFrame
    unpaired: None = None


_STEPWISE: Final = Candidate(
    "OLS/Forward/AIC",
    RelativeError(Stepwise(criterion="aic")),
    RELATIVE,
    selects_features=True,
    tests_features=True,
)
