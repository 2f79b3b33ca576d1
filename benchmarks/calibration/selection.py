"""Selection against the truth: the honest error and its interval, the sign ≈, `compare`, repeats, unequal groups.

Each function makes so many sets of data made from a law, and yields the findings.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

import flopcast as fc

from ...arrays import FloatArray, IntArray
from ...evaluation.intervals import ConformalIntervals
from ...evaluation.paired import paired_difference
from ...evaluation.selection import select
from .rows import Row, Rows, products, timed

GROUPS: Final[dict[str, IntArray]] = {
    **{f"{count} equal groups": np.full(count, 20) for count in (3, 4, 6, 10, 16)},
    **{
        f"{count} unequal groups": np.repeat([150, 8], [count // 5, count - count // 5])
        for count in (10, 16, 32)
    },
}
"""Rows of each group: a fifth of the unequal ones are nineteen times the size of the others."""
MODELS: Final = 20
# standard deviations of a group's and of a row's logarithm of predicted over observed
_SHIFT, _NOISE = (0.06, 0.03)
_NORMAL: Final = np.random.default_rng(1).normal(size=(2, 100_000))


def shifted(
    rng: np.random.Generator, sizes: IntArray, apart: float
) -> tuple[IntArray, pd.DataFrame, FloatArray]:
    """Return groups, predictions of rows whose observed value is 1, and each model's true error on new groups, %.

    A model errs by a shift of each group, which models share in part, and by noise of each row;
    ``apart`` is the standard deviation over models of the logarithm of the size of their shifts.
    """
    groups, size = (
        np.repeat(np.arange(len(sizes)), sizes),
        _SHIFT * np.exp(rng.normal(0, apart, MODELS)),
    )
    shared, of_model = rng.normal(size=(len(sizes), 1)), rng.normal(size=(len(sizes), MODELS))
    logs = (0.7 * shared + np.sqrt(0.51) * of_model)[groups] * size + _NOISE * rng.normal(
        size=(len(groups), MODELS)
    )
    true = [
        100 * np.mean(np.abs(np.exp(_NORMAL[0] * one + _NOISE * _NORMAL[1]) - 1)) for one in size
    ]
    return (
        groups,
        pd.DataFrame(np.exp(logs), columns=[f"m{model}" for model in range(MODELS)]),
        np.array(true),
    )


def _selected(
    groups: IntArray, predictions: pd.DataFrame, replicates: int, seed: int
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "preference": list(predictions),
        "replicates": replicates,
        "seed": seed,
    }
    return select(np.ones(len(groups)), predictions, groups, scheme="grouped", **options)


def honest_interval(sets: int, seed: int = 0, groups: tuple[str, ...] = tuple(GROUPS)) -> Rows:
    """How often the 95 % interval of the honest error holds the true error of the model selected; stated over true."""
    for place, name in enumerate(groups):
        sizes = GROUPS[name]
        held, ratios = 0, []
        for number in range(sets):
            code, predictions, true = shifted(
                np.random.default_rng([seed, place, number]), sizes, 0.15
            )
            chosen = _selected(code, predictions, 400, number)
            truth = dict(zip(predictions, true, strict=True))[chosen["name"]]
            held += bool(chosen["interval"][0] <= truth <= chosen["interval"][1])
            ratios.append(chosen["e_out"] / truth)
        yield Row(f"95 % interval of the honest error, {name}: holds", held / sets, sets)
        yield Row(
            f"honest error, {name}: stated / true, median", float(np.median(ratios)), sets, ""
        )


def equal_models(sets: int, seed: int = 0, groups: tuple[str, ...] = tuple(GROUPS)) -> Rows:
    """How many models that are as good as all others, and how many that err twice as much, lack the sign ≈."""
    for place, name in enumerate(groups):
        sizes = GROUPS[name]
        lost = shown_worse = 0
        for number in range(sets):
            code, predictions, _ = shifted(np.random.default_rng([seed, place, number]), sizes, 0.0)
            lost += MODELS - len(_selected(code, predictions, 50, number)["tied"])
            twice = predictions.assign(twice=predictions["m0"] ** 2)
            shown_worse += "twice" not in _selected(code, twice, 50, number)["tied"]
        yield Row(f"equal models without ≈, {name}", lost / (sets * MODELS), sets)
        yield Row(f"models twice as wrong without ≈, {name}", shown_worse / sets, sets)


def compared_runs(sets: int, seed: int = 0) -> Rows:
    """How often the 95 % interval of `compare` misses the true difference, and runs as good are called apart."""
    for place, (name, sizes) in enumerate({"2 equal groups": np.full(2, 20), **GROUPS}.items()):
        missed = apart = 0
        for number in range(sets):
            rng = np.random.default_rng([seed, place, number])
            groups, first = (
                np.repeat(np.arange(len(sizes)), sizes),
                rng.exponential(4, int(sizes.sum())),
            )
            other = first + rng.normal(0, 1.5, len(sizes))[groups] + rng.normal(0, 2, len(groups))
            difference = paired_difference(first, other, groups)
            missed += (
                difference.lower is None
                or difference.upper is None
                or not difference.lower <= 0 <= difference.upper
            )
            apart += difference.apart
        yield Row(f"95 % interval of compare, {name}: misses", missed / sets, sets)
        yield Row(f"equal runs called apart by compare, {name}", apart / sets, sets)


CAMPAIGNS: Final = (4, 6, 10)  # of four groups with 20 rows each


def campaigns_of_four(sets: int, seed: int = 0, counts: tuple[int, ...] = CAMPAIGNS) -> Rows:
    """Intervals of the error, of `compare` and of rows of new campaigns, where whole campaigns are shifted.

    Beside each stands what it does where groups are counted.
    """
    for count in counts:
        sizes = np.full(count, 80)
        held, missed = np.zeros(2), np.zeros(2)
        inside: tuple[list[float], list[float]] = ([], [])
        for number in range(sets):
            rng = np.random.default_rng([seed, count, number])
            campaigns, predictions, true = shifted(rng, sizes, 0.15)
            groups = np.arange(len(campaigns)) // 20
            first = rng.exponential(4, len(groups))
            other = first + rng.normal(0, 1.5, count)[campaigns] + rng.normal(0, 2, len(groups))
            errors = rng.normal(0, 0.12, count)[campaigns] + _NOISE * rng.normal(size=len(groups))
            new = rng.normal(0, 0.12, (500, 1)) + _NOISE * rng.normal(size=(500, 20))
            for place, units in enumerate((campaigns, groups)):
                chosen = select(
                    np.ones(len(groups)),
                    predictions,
                    groups,
                    scheme="grouped",
                    campaigns=units,
                    preference=[str(name) for name in predictions],
                    replicates=400,
                    seed=number,
                )
                truth = dict(zip(predictions, true, strict=True))[chosen["name"]]
                held[place] += chosen["interval"][0] <= truth <= chosen["interval"][1]
                difference = paired_difference(first, other, groups, campaigns=units)
                if (
                    difference.lower is None
                    or difference.upper is None
                    or not difference.lower <= 0 <= difference.upper
                ):
                    missed[place] += 1
                intervals = ConformalIntervals("grouped").fit(
                    np.exp(errors), np.ones(len(errors)), units
                )
                lower, upper = (float(end[0]) for end in intervals.bounds([1.0]))
                inside[place].append(
                    float(((np.exp(new) >= lower) & (np.exp(new) <= upper)).mean())
                )
        for place, unit in enumerate(("campaigns", "groups")):
            name = f"{count} campaigns, counted by {unit}"
            yield Row(f"95 % interval of the error, {name}: holds", held[place] / sets, sets)
            yield Row(f"95 % interval of compare, {name}: misses", missed[place] / sets, sets)
            mean = float(np.mean(inside[place]))
            yield Row(f"90 % intervals of new campaigns, {name}: hold", mean, sets)


def repeated_rows(sets: int, seed: int = 0) -> Rows:
    """Every repeat a separate row, 80 problems by 8: stated over true error and coverage, on other sizes."""
    ratios, covered = [], []
    for number in range(sets):
        rng = np.random.default_rng([seed, number])
        every_row, shifts = products(rng, [16] * 10), rng.normal(0, 0.05, 10)
        first = every_row.groupby("shape").head(8)
        measured = timed(rng, first.loc[first.index.repeat(8)], shifts, 0.15, 0.02)
        new = timed(rng, every_row.drop(first.index), shifts, 0.15, 0.02)
        run = fc.train(
            measured, target="MI300X", quick=True, each=True, scheme="kfold", seed=number
        )
        score = run.check(new).found.score
        ratios.append(run.selected["e_out"] / score.e_out)
        covered.append(score.coverage)
    yield Row(
        "repeats as rows, known shapes: stated / true error, median",
        float(np.median(ratios)),
        sets,
        "",
    )
    yield Row("repeats as rows, known shapes: 90 % intervals hold", float(np.mean(covered)), sets)


def one_large_group(sets: int, seed: int = 0) -> Rows:
    """One weight shape with 120 of 174 rows: the error by rows, and by groups, over that of evenly spread new sizes."""
    by_rows, by_groups = [], []
    for number in range(sets):
        rng = np.random.default_rng([seed, number])
        every_row, shifts = products(rng, [128] + [14] * 9), rng.normal(0, 0.06, 10)
        new = every_row.groupby("shape").tail(8)
        run = fc.train(
            timed(rng, every_row.drop(new.index), shifts, 0.0, 0.03),
            target="MI300X",
            quick=True,
            scheme="kfold",
            seed=number,
        )
        true = run.check(timed(rng, new, shifts, 0.0, 0.03)).found.score.e_out
        by_rows.append(run.selected["e_out"] / true)
        by_groups.append(run.selected["e_out_groups"] / true)
    yield Row(
        "one large group, even new sizes: mean over rows / true error, median",
        float(np.median(by_rows)),
        sets,
        "",
    )
    yield Row(
        "one large group, even new sizes: mean over groups / true error, median",
        float(np.median(by_groups)),
        sets,
        "",
    )


def seeds_of_the_demo(sets: int, seed: int = 0) -> Rows:
    """Embedded measurements, ``--quick``, with other seeds: how often a rule that errs less than the choice is left."""
    worse, stated = 0, []
    for number in range(sets):
        (cv,) = [
            one
            for one in fc.train(quick=True, seed=seed + number).metrics["cv"]
            if one["scheme"] == "grouped"
        ]
        rule = min(row["e_out"] for row in cv["baselines"] if row["e_out"] is not None)
        worse += cv["selected"]["e_out_table"] > rule
        stated.append(cv["selected"]["e_out"])
    yield Row("demo, quick: a simple rule errs less than what is selected", worse / sets, sets)
    yield Row(
        "demo, quick: honest error on unseen groups, largest / smallest of the seeds",
        max(stated) / min(stated),
        sets,
        "",
    )


def stopped_models(sets: int, seed: int = 0) -> Rows:
    """Embedded measurements, all models: how many have an E_out of fewer than all folds."""
    run = fc.train(seed=seed, jobs=1)
    rows = [
        (cv["scheme"], row) for cv in run.metrics["cv"] for row in (*cv["baselines"], *cv["models"])
    ]
    scored = run.predictions.groupby(["scheme", "model"], observed=True)["row"].nunique()
    few = sum(
        row["e_out"] is not None and scored[scheme, row["name"]] < len(run.dataset)
        for scheme, row in rows
    )
    yield Row("demo: models with an E_out of fewer than all folds", few, len(rows), "")
