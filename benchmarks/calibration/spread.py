"""Intervals against the truth, by the basis of a row: known groups, few or unequal new ones, beyond the range.

Each function makes so many sets of data made from a law, and yields the findings.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np

import flopcast as fc

from ...arrays import FloatArray, IntArray
from ...evaluation.intervals import ConformalIntervals
from .rows import LAWS, Row, Rows, products, timed

GROUPS: Final[dict[str, IntArray]] = {
    **{f"{count} equal groups": np.full(count, 20) for count in (3, 4, 6, 8, 16, 32)},
    **{
        f"{count} unequal groups": np.r_[
            np.full(count // 4 + 1, 300), np.full(count - count // 4 - 1, 12)
        ]
        for count in (3, 4, 6, 8, 16, 32)
    },
    "12 groups, one of 500 of 588 rows": np.r_[500, np.full(11, 8)],
}
"""Rows of each group."""
BETWEEN: Final = {
    "alike": 0.0,
    "as far apart as rows": 0.03,
    "three times as far apart as rows": 0.1,
}
"""How groups differ -> standard deviation of the logarithm of their shifts; that of rows is 0.03."""
TAILS: Final = ("normal", "heavy", "outliers")
_TRUTH: Final = 20_000
_NOISE: Final = 0.03
CAMPAIGNS: Final = (1.1, 1.2, 1.3)
"""How many times slower another campaign's rows are."""


def _deviations(rng: np.random.Generator, count: int, tails: str) -> FloatArray:
    if tails == "heavy":
        return rng.standard_t(3, count) / np.sqrt(3)
    return rng.normal(size=count) * np.where(
        rng.random(count) < (0.01 if tails == "outliers" else 0.0), 10, 1
    )


def new_groups(sets: int, seed: int = 0, groups: tuple[str, ...] = tuple(GROUPS)) -> Rows:
    """Yield what 90 % intervals hold of new groups, of the worst kind of rows, and their width over the true one."""
    for place, name in enumerate(groups):
        held, wide, worst = [], [], 1.0
        for between in BETWEEN.values():
            for tails in TAILS:
                rng = np.random.default_rng([seed, 9])
                truth = between * rng.normal(size=_TRUTH) + _NOISE * _deviations(rng, _TRUTH, tails)
                oracle, hits = np.quantile(np.abs(truth), 0.9), []
                for number in range(sets):
                    rng = np.random.default_rng(
                        [seed, place, number, len(tails), round(1000 * between)]
                    )
                    code = np.repeat(np.arange(len(GROUPS[name])), GROUPS[name])
                    logs = rng.normal(0, between, len(GROUPS[name]))[code] + _NOISE * _deviations(
                        rng, len(code), tails
                    )
                    fitted = ConformalIntervals("grouped").fit(
                        np.exp(logs), np.ones(len(code)), code
                    )
                    lower, upper = fitted.bounds(np.ones(1), 0.9)
                    hits.append(np.mean((np.log(lower[0]) <= truth) & (truth <= np.log(upper[0]))))
                    wide.append(fitted.radius(0.9) / oracle)
                held.append(np.mean(hits))
                worst = min(worst, float(held[-1]))
        yield Row(f"90 % intervals of new groups, {name}: hold, mean", float(np.mean(held)), sets)
        yield Row(
            f"90 % intervals of new groups, {name}: hold, least of {len(held)} kinds of rows",
            worst,
            sets,
        )
        yield Row(
            f"90 % intervals of new groups, {name}: width / true width, median",
            float(np.median(wide)),
            sets,
            "",
        )


def another_campaign(sets: int, seed: int = 0) -> Rows:
    """Yield what 90 % intervals calibrated on 16 groups hold of a campaign whose rows are all slower."""
    for factor in CAMPAIGNS:
        held = []
        for number in range(sets):
            rng = np.random.default_rng([seed, number])
            code = np.repeat(np.arange(16), 20)
            logs = rng.normal(0, 0.05, 16)[code] + 0.05 * rng.normal(size=320)
            fitted = ConformalIntervals("grouped").fit(np.exp(logs), np.ones(320), code)
            truth = factor * np.exp(0.05 * rng.normal(size=2000) + 0.05 * rng.normal(size=2000))
            lower, upper = fitted.bounds(np.ones(1), 0.9)
            held.append(np.mean((lower[0] <= truth) & (truth <= upper[0])))
        yield Row(
            f"90 % intervals, another campaign {factor} times slower: hold",
            float(np.mean(held)),
            sets,
        )


BINS: Final = ((0, 1), (1, 2), (2, 4), (4, 9))
"""Doublings of m outside the range."""


def beyond_the_range(sets: int, seed: int = 0, laws: tuple[str, ...] = LAWS) -> Rows:
    """Yield what 90 % intervals hold beyond the trained range, by doublings of m; a third of the rows at either end."""
    for law in laws:
        for end, large in (("small m", False), ("large m", True)):
            held, width = defaultdict(list), defaultdict(list)
            for number in range(sets):
                rng = np.random.default_rng([seed, number])
                rows = timed(rng, products(rng, [24] * 12), rng.normal(0, 0.03, 12), law=law)
                low, high = rows["m"].quantile([0.35, 0.65])
                out = rows["m"] > high if large else rows["m"] < low
                asked = fc.train(rows[~out], target="MI300X", quick=True, seed=number).predict(
                    rows[out]
                )
                far = np.abs(np.log2(asked["m"] / (high if large else low)))
                inside = asked["duration_us"].between(asked["lower_us"], asked["upper_us"])
                for limits in BINS:
                    some = (far > limits[0]) & (far <= limits[1])
                    held[limits] += inside[some].tolist()
                    width[limits] += (
                        (asked["upper_us"] - asked["lower_us"]) / asked["predicted_us"]
                    )[some].tolist()
            for first, last in BINS:
                if len(hits := held[first, last]) >= 2 * sets:
                    where = f"beyond the range, {law}, {end}, {first} to {last} doublings"
                    yield Row(f"{where}: 90 % intervals hold", float(np.mean(hits)), sets)
                    yield Row(
                        f"{where}: width, median",
                        100 * float(np.median(width[first, last])),
                        sets,
                        " %",
                    )


TRAINED: Final = {  # sizes of the groups, law, tails, noise, how groups differ
    "affine, 16 groups": ([12] * 16, "affine", "normal", 0.03, 0.03),
    "power, 6 groups of 6": ([6] * 6, "power", "normal", 0.03, 0.03),
    "roofline, one large of 8 groups": ([60] + [6] * 7, "roofline", "normal", 0.03, 0.06),
    "waves, 16 groups": ([12] * 16, "waves", "normal", 0.03, 0.03),
    "waves, 8 groups, short kernels scatter more": ([12] * 8, "waves", "short", 0.05, 0.03),
    "affine, 16 groups, heavy tails": ([12] * 16, "affine", "heavy", 0.06, 0.03),
}


def trained(sets: int, seed: int = 0, settings: tuple[str, ...] = tuple(TRAINED)) -> Rows:
    """Run by run: stated over true error, and what intervals hold of new sizes of known groups and of new groups."""
    for name in settings:
        sizes, law, tails, noise, between = TRAINED[name]
        ratios, held = defaultdict(list), defaultdict(list)
        for number in range(sets):
            rng = np.random.default_rng([seed, number])
            count = len(sizes)
            rows = products(rng, [*(size + 8 for size in sizes), *[8] * 30])
            rows = rows.assign(group=rows["shape"])
            shifts = rng.normal(0, between, count + 30)
            rows = timed(rng, rows, shifts, noise=noise, law=law, tails=tails)
            new, last = rows["group"] >= count, rows.groupby("group").cumcount(ascending=False) < 8
            run = fc.train(
                rows[~new & ~last].drop(columns="group"), target="MI300X", quick=True, seed=number
            )
            stated = {cv["scheme"]: cv["selected"]["e_out"] for cv in run.metrics["cv"]}
            for kind, scheme, part in (
                ("known groups", "kfold", ~new & last),
                ("new groups", "grouped", new),
            ):
                asked = run.predict(rows[part].drop(columns="group"))
                asked = asked[~asked["extrapolated"]]
                if len(asked) and scheme in stated:
                    error = 100 * np.mean(np.abs(asked["predicted_us"] / asked["duration_us"] - 1))
                    ratios[kind].append(stated[scheme] / error)
                    held[kind] += (
                        asked["duration_us"].between(asked["lower_us"], asked["upper_us"]).tolist()
                    )
        for kind, hits in held.items():
            yield Row(
                f"{name}, {kind}: stated / true error, median",
                float(np.median(ratios[kind])),
                sets,
                "",
            )
            yield Row(f"{name}, {kind}: 90 % intervals hold", float(np.mean(hits)), sets)
