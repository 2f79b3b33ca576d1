"""The model of serving that ships, made anew: ``python -m flopcast.benchmarks.serving_model SAMPLE OUT --data FOLDER``.

SAMPLE is ``systems/silicon_sample.csv`` of AIConfigurator's wheel (``flopcast fetch
aiconfigurator``), FOLDER holds AMD's published latencies. Prints how it errs on what is left out
(whole configurations, models, GPUs, engines, vendors, what was measured after February 2026),
everything that is learnt being learnt anew without it; these errors give the intervals.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import exponnorm
from sklearn.ensemble import ExtraTreesRegressor

from ..arrays import FloatArray
from ..errors import FlopcastError
from ..evaluation.cluster_bootstrap import bootstrap, effective_groups
from ..evaluation.metrics import NINETY_PERCENT
from ..hardware import find
from ..operators.kinds.serving_run import EQUAL, SERVING
from ..operators.operators import complete
from ..readers import read
from ..workloads import serving_model as process
from ..workloads.serving import described
from ..workloads.serving_model import (
    BASES,
    FAR,
    KNOWN,
    NEW_COMBINATION,
    NEW_ENGINE,
    NEW_GPU,
    NEW_MODEL,
    NEW_RELEASE,
    NEW_SETTING,
    NEW_VENDOR,
    TIMES,
    TWO_RUNS,
    Fit,
    Points,
    ServingModel,
    Stock,
)
from ..workloads.serving_trees import NODE, WORDS, Trees, columns
from .forecast_releases import RUNS, published_runs
from .instinct_runs import INSTINCT, drift, settings
from .kernel_reach import AMD, slower
from .shared_data import run_on_data

MADE: Final = "2026-11-30"
EARLIER: Final = "2025-12"
LATER: Final = "2026-03"
"""Month from which on runs are later; how far later runs are left to the law is learnt from those between both."""
BETWEEN: Final = "release before"
LEFT_OUT: Final = {
    NEW_SETTING: ("configuration",),
    NEW_COMBINATION: ("model", "format", "GPU", "engine"),
    NEW_MODEL: ("model",),
    NEW_GPU: ("GPU",),
    NEW_ENGINE: ("engine",),
}
"""By question, what groups of runs have in common that are left out one by one: one of these, of four any two."""
NEW: Final = tuple(LEFT_OUT)[1:]
"""Of these, where something is so new that the law may know it better than the runs do."""
FOLDS: Final = 10
LEAST: Final = 30
"""Runs that a spread of their own takes."""
START: Final[Mapping[str, tuple[tuple[float, ...], tuple[float, ...], float]]] = {
    "tpot_ms": (
        (
            0.033,
            0.044,
            0.044,
            0.1,
            0.25,
            0.08,
            0.12,
            0.033,
            0.07,
            0.25,
            0.033,
            0.25,
            0.12,
            0.056,
            0.165,
        ),
        (3.1, 2.0, 2.7, 3.4, 1.5, 1.85),
        0.04,
    ),
    "ttft_ms": (
        (
            0.045,
            0.055,
            0.25,
            0.1,
            0.13,
            0.14,
            0.19,
            0.033,
            0.033,
            0.72,
            0.11,
            0.3,
            0.033,
            0.1,
            0.51,
        ),
        (2.5, 3.0, 3.0, 2.5, 2.0, 2.0),
        0.17,
    ),
}
"""Amplitudes of the terms, lengths, and the deviation of a run: tried by hand on what is left out
below, small enough that what is far from all runs is left to the law."""
PULL: Final = {"tpot_ms": (2.0, 20.0), "ttft_ms": (2.0, 6.0)}
"""How strongly the logarithms of constants are drawn to `PRIOR`, and those of a group to the constants of all."""
NEAR: Final = 0.3
"""Logarithms from which on what a law misses weighs as its distance."""
VENDOR: Final = "AMD"
"""Whose groups, whose names start with it, have separate constants: AMD's runs move no constant
of other GPUs. With common ones the time per token on a new GPU of NVIDIA erred by 22.4 / 16.2 %."""
ACROSS: Final = 0.5
"""Covariance between GPUs of unlike vendors, of that within one: 1 made a new setting of NVIDIA's
10.2 %, 0 a new GPU of AMD's 27, where 0.5 has 9.3 and 16."""
STEPS: Final = 20
PRIOR: Final = {
    "weights": 2.0,
    "products": 1.5,
    "scores": 3.0,
    "messages": 3.0,
    "layers": 25.0,
    "waits": 5.0,
    "crowd": 0.25,
    "experts": 3.0,
    "crowd_experts": 0.5,
    "crowd_messages": 1.5,
    "step": 2.0,
    "polls": 2.0,
    "queue_weights": 1.5,
    "queue_cache": 1.5,
}
"""Constants of the time to the first token: prompts are read by kernels that are launched one by one."""


SAME_RUN: Final = ["device", "engine", "input_len", "output_len", "concurrency", *TIMES]
"""Columns in which a run does not differ that stands in the sources twice."""


def published(sample: Path, data: Path) -> pd.DataFrame:
    """Return the runs to learn from, complete, with ``weight``-less times, without impossible runs.

    The sample lists runs of DeepSeek-R1 as runs of DeepSeek-V3 too: a run is taken once.
    A run on more GPUs than a node has other GPUs for its prompts, whatever its row says. Runs whose
    weights have no room, or whose prompts are read faster than the peak allows, are of other GPUs
    than they say. AMD's runs with prompts found in the cache are steps alone: they have a time per
    token, and no first token. Of its Instinct GPUs the runs that a vendor tuned are learnt
    (`instinct_runs.settings`); what is stock is asked, and not learnt.
    """
    rows = read([sample]).frame
    wide = rows["tp"] * rows["dp"] > 8
    rows["apart"] = rows["apart"].where(~wide, "yes")
    rows["group"] = process.groups(rows)
    amd = published_runs(data / "workloads" / RUNS)
    amd = amd[amd["prefix_cache"]]
    more = pd.DataFrame(
        {
            "op": SERVING,
            "device": "MI300X",
            "model": amd["model"],
            "engine": "vllm",
            "engine_version": amd["release"].str.removeprefix("vllm-"),
            "client": "",
            "dtype_a": "fp8",
            "dtype_b": "fp8",
            "dtype_kv": "fp8",
            "apart": "yes",
            "group": "AMD vllm|closed",
            "tp": 8.0,
            "input_len": amd["input_len"],
            "output_len": amd["output_len"],
            "concurrency": amd["batch"],
            "tpot_ms": 1e3 * amd["seconds"] / amd["output_len"],
        }
    )
    instinct = settings(data)
    instinct = instinct[instinct["tuned"] & instinct["device"].isin(INSTINCT)]
    instinct = instinct.drop(columns=["tuned", "source", "spread", "repeats"])
    every, why = described(pd.concat([rows, more, instinct], ignore_index=True))
    complete_runs = complete(every[why == ""].reset_index(drop=True))
    missing = complete_runs["group"].isna().to_numpy()
    complete_runs.loc[missing, "group"] = process.groups(complete_runs[missing])
    complete_runs["engine_version"] = complete_runs["engine_version"].fillna("")
    size = complete_runs["dtype_b"].map({"fp8": 1.0, "fp4": 0.56, "int4": 0.56}).fillna(2.0)
    held = (
        complete_runs["parameters"].astype(float)
        * size
        / (complete_runs["tp"] * complete_runs["dp"]).astype(float)
    )
    room = held < complete_runs["device"].map(_memory).astype(float) * 0.95
    one = process.points_of(complete_runs).steps
    computed = sum(one.ttft[name] for name in ("products", "experts", "scores"))
    shown = complete_runs["ttft_ms"] + (complete_runs["output_len"] - 1) * complete_runs["tpot_ms"]
    # the same GPUs would have computed their prompts in less time than at the peak
    faster = (complete_runs["apart"] != "yes") & (complete_runs["concurrency"] * computed > shown)
    keep = room & np.isfinite(np.log(one.running)) & ~faster
    twice = (
        complete_runs.sort_values("engine_version", ascending=False, kind="stable")
        .duplicated(SAME_RUN)
        .sort_index()
    )
    return complete_runs[keep & ~(twice & complete_runs["ttft_ms"].notna())].reset_index(drop=True)


def stock_runs(data: Path) -> pd.DataFrame:
    """Return the runs of engines as they come, of all vendors' GPUs, with the figures of their models.

    A run that stands there under the name of two models with the same figures is taken once.
    """
    rows = settings(data)
    every, why = described(rows[~rows["tuned"]].reset_index(drop=True))
    figures = ["parameters", "layers", "width", "routed_experts"]
    same = [*SAME_RUN, *figures]
    return complete(every[why == ""].drop_duplicates(same).reset_index(drop=True))


def _memory(device: str) -> float:
    return (find(device).memory_gb or np.nan) * 2.0**30


def constants(
    parts: Mapping[str, FloatArray],
    groups: np.ndarray,
    times: FloatArray,
    time: str,
) -> dict[str, FloatArray]:
    """Return logarithms of factors on the parts, of all runs and of each group on top: least squares of logarithms.

    Gauss and Newton's steps; what is further off than `NEAR` weighs as its distance (soft L1), and
    each constant is drawn to its prior as strongly as so many runs would draw it as the square of
    `PULL` says. AMD's groups have what all runs say together, the others what they say without
    AMD's; the constants of `VENDOR` are of its groups that no run has.
    """
    theirs = np.char.startswith(groups.astype(str), VENDOR)
    if not theirs.any() or theirs.all():
        return _constants(parts, groups, times, time)
    ours = {part: values[~theirs] for part, values in parts.items()}
    fitted = _constants(ours, groups[~theirs], times[~theirs], time)
    every = _constants(parts, groups, times, time)
    away = every.pop("") - fitted[""]
    fitted[VENDOR] = away
    for name, values in every.items():
        if name.startswith(VENDOR):
            fitted[name] = away + values
    return fitted


def _constants(
    parts: Mapping[str, FloatArray],
    groups: np.ndarray,
    times: FloatArray,
    time: str,
) -> dict[str, FloatArray]:
    codes, names = pd.factorize(groups)
    matrix = np.column_stack([*parts.values()])
    n, p = matrix.shape
    prior = np.log([PRIOR.get(name, 1.0) if time == "ttft_ms" else 1.0 for name in parts])
    pulls = np.repeat(np.square(PULL[time]), [p, p * len(names)])
    member = (codes[:, None] == np.arange(len(names)))[:, :, None]
    v = np.zeros(p * (1 + len(names)))
    for _ in range(STEPS):
        weighed = matrix * np.exp(prior + v[:p] + v[p:].reshape(-1, p)[codes])
        whole = weighed.sum(axis=1)
        shares = weighed / whole[:, None]
        missed = np.log(whole) - np.log(times)
        slopes = np.column_stack([shares, (shares[:, None, :] * member).reshape(n, -1)])
        near = 1.0 / np.sqrt(1.0 + np.square(missed / NEAR))
        inner = (slopes * near[:, None]).T @ slopes + np.diag(pulls)
        v -= np.clip(np.linalg.solve(inner, slopes.T @ (near * missed) + pulls * v), -0.7, 0.7)
    return {"": prior + v[:p], **dict(zip(map(str, names), v[p:].reshape(-1, p), strict=True))}


def first_fit(time: str, count: int) -> Fit:
    """Return the start of a fit: the terms and lengths, no constants, and no weights for this many runs."""
    amplitudes, lengths, noise = START[time]
    return Fit(
        {"": np.zeros(1)},
        np.square(amplitudes),
        np.array(lengths),
        noise**2,
        0.0,
        np.zeros(count),
        {},
        across=ACROSS,
    )


@dataclass(frozen=True)
class Pairs:
    """Covariances of all pairs of runs: what all folds have in common, to which the shares of the parts add.

    Attributes
    ----------
    fixed, weighed : ndarray of shape (n_runs, n_runs)
        Covariances without the shares, and what the products of the shares are multiplied by.
    """

    fixed: FloatArray
    weighed: FloatArray

    @classmethod
    def of(cls, points: Points, fit: Fit) -> Pairs:
        """Return those of all runs, by the terms of a fit."""
        one = np.ones((len(points.group), 1))
        fixed = process.covariance(points, points, 0.0 * one, one, fit)
        return cls(fixed, process.covariance(points, points, one, one, fit) - fixed)

    def between(self, shares: FloatArray, one: np.ndarray, two: np.ndarray) -> FloatArray:
        """Return covariances of some runs (places) with others."""
        at = np.ix_(one, two)
        return self.fixed[at] + self.weighed[at] * (shares[one] @ shares[two].T)


@dataclass(frozen=True)
class Learnt:
    """A fit, the rows that it has learnt, and the points to ask it with."""

    fit: Fit
    places: np.ndarray
    missing: FloatArray
    base: FloatArray
    shares: FloatArray
    factor: tuple[FloatArray, bool]


def learn(points: Points, pairs: Pairs, times: FloatArray, time: str, rows: np.ndarray) -> Learnt:
    """Fit constants and weights to some rows."""
    at = np.flatnonzero(rows & np.isfinite(times))
    parts = {
        name: values[at] for name, values in getattr(points.steps, time.removesuffix("_ms")).items()
    }
    fit = replace(
        first_fit(time, len(times)), constants=constants(parts, points.group[at], times[at], time)
    )
    fit, missing, base, shares = centred(fit, points, times, time, at)
    inner = pairs.between(shares, at, at)
    inner[np.diag_indices(len(inner))] += fit.noise
    factor = cho_factor(inner, lower=True, overwrite_a=True)
    weights = np.zeros(len(times))
    weights[at] = cho_solve(factor, np.clip(missing[at] - fit.centre, -FAR, FAR))
    return Learnt(replace(fit, weights=weights), at, missing, base, shares, factor)


def grown(learnt: Learnt, points: Points, runs: pd.DataFrame) -> Trees:
    """Return trees fitted to the residuals of the law on the same rows."""
    learnt_runs = runs.iloc[learnt.places]
    words = tuple(
        (name, word)
        for name in WORDS
        for word in sorted({*learnt_runs[name].fillna("")})
        if word and (name != "group" or word.endswith(f"|{EQUAL}"))
    )
    asked = columns(runs, points.steps, learnt.shares, words)[learnt.places]
    # rounded: what the number of cores changes in the last digit decides between splits that are
    # equally good
    missed = np.round(np.clip(learnt.missing[learnt.places] - learnt.fit.centre, -FAR, FAR), 6)
    return packed(
        ExtraTreesRegressor(100, min_samples_leaf=5, max_features=0.7, random_state=0).fit(
            asked, missed
        ),
        words,
    )


def packed(forest: ExtraTreesRegressor, words: Sequence[tuple[str, str]] = ()) -> Trees:
    """Return a fitted forest as nodes, whose last columns are of these words."""
    nodes = []
    for one in (tree.tree_ for tree in forest.estimators_):
        inner, at = one.children_left >= 0, np.arange(one.node_count)
        if (one.children_left[inner] != at[inner] + 1).any():
            raise FlopcastError("scikit-learn no longer numbers the nodes of a tree depth first")
        tree = np.zeros(one.node_count, NODE)
        tree["trait"] = np.where(inner, one.feature, -1)
        tree["skip"] = np.where(inner, one.children_right - at, 0)
        tree["number"] = np.where(inner, one.threshold, one.value[:, 0, 0])
        nodes.append(tree)
    return Trees(
        np.concatenate(nodes), np.cumsum([0, *(len(tree) for tree in nodes[:-1])]), tuple(words)
    )


def centred(
    fit: Fit, points: Points, times: FloatArray, time: str, places: np.ndarray
) -> tuple[Fit, FloatArray, FloatArray, FloatArray]:
    """Return a fit with its centre, what it misses, and what `summed` says.

    The centre is the median of the runs that are not AMD's: these move no other run.
    """
    base, shares = process.summed(points, fit, time)
    missing = np.log(times) - base
    theirs = np.char.startswith(points.group[places].astype(str), VENDOR)
    if theirs.all():
        theirs[:] = False
    centre = float(np.median(missing[places[~theirs]]))
    return replace(fit, centre=centre), missing, base, shares


def relearnt(every: Learnt, points: Points, times: FloatArray, time: str, at: np.ndarray) -> Learnt:
    """Return what some of the runs say of the constants; the weights stay to be found by `asked_of`."""
    parts = getattr(points.steps, time.removesuffix("_ms"))
    parts_here = {name: values[at] for name, values in parts.items()}
    anew = constants(parts_here, points.group[at], times[at], time)
    fit = replace(every.fit, constants=anew)
    fit, missing, base, shares = centred(fit, points, times, time, at)
    return Learnt(fit, at, missing, base, shares, every.factor)


def asked_of(
    learnt: Learnt,
    every: Learnt,
    inverse: FloatArray,
    left_out: np.ndarray,
    points: Points,
    users: FloatArray,
    new: str,
) -> dict[str, FloatArray]:
    """Return logarithms of measured over predicted of rows left out: ``missed``, by the ``law`` alone, two ``given``.

    The process is learnt without a block of rows by the inverse of the covariance of all
    (Rasmussen and Williams, equations 5.10 to 5.12, of blocks), whose shares of the parts are those
    of all runs. The two runs of a setting (of four runs or more) are those with the fewest and the
    most requests under way; what they miss is spread over the others by the covariance that the
    learnt rows leave (equation 2.24). NaN where a setting has fewer, for the two, and where a model
    is not what is ``new``.
    """
    fit, rows = learnt.fit, every.places[left_out]
    clipped = np.clip(learnt.missing[every.places] - fit.centre, -FAR, FAR)
    left = np.linalg.inv(inverse[np.ix_(left_out, left_out)])  # noise included
    law = learnt.missing[rows] - fit.centre
    missed = law - clipped[left_out] + left @ (inverse[left_out] @ clipped)
    given = np.full(len(rows), np.nan)
    words = points.names["run"][rows]
    for word in sorted(set(words)) if new == NEW_MODEL else ():
        of_word = np.flatnonzero(words == word)
        of_word = of_word[np.argsort(users[rows[of_word]], kind="stable")]
        if len(of_word) < 4:
            continue
        ends = [of_word[0], of_word[-1]]
        inner = left[np.ix_(ends, ends)] + np.diag(process.doubted(missed[ends], words[ends]))
        between = of_word[1:-1]
        spread = left[np.ix_(between, ends)] @ np.linalg.solve(inner, missed[ends])
        given[between] = missed[between] - spread
    return {"missed": missed, "law": law, "given": given}


def questions(points: Points, runs: pd.DataFrame) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the name of a question, the rows that are asked, and those to be learnt without."""
    together = (runs["apart"] != "yes").to_numpy()
    months = runs["measured"].fillna("").str[:7].to_numpy(dtype=str)
    names = {**points.names, "format": runs["dtype_b"].to_numpy(dtype=str)}
    for basis, common in LEFT_OUT.items():
        for pair in itertools.combinations(common, min(2, len(common))):
            codes, words = pd.MultiIndex.from_arrays(
                [names[name][together] for name in pair]
            ).factorize(sort=True)
            for code in range(len(words)):
                asked = np.flatnonzero(together)[codes == code]
                yield basis, asked, asked
    instinct = amd(runs)
    later = np.flatnonzero((months >= LATER) & together)
    # most of AMD's settings are medians over months: none of them is published before
    yield NEW_RELEASE, later, np.union1d(later, np.flatnonzero(instinct))
    yield NEW_VENDOR, np.flatnonzero(instinct), np.flatnonzero(instinct)
    after = (months >= EARLIER) | instinct
    between = (months >= EARLIER) & (months < LATER) & together
    yield BETWEEN, np.flatnonzero(between), np.flatnonzero(after)


def amd(runs: pd.DataFrame) -> np.ndarray:
    """Return which runs are of AMD's GPUs."""
    return runs["device"].isin(INSTINCT).to_numpy()


def errors(
    points: Points, pairs: Pairs, runs: pd.DataFrame, time: str, log: Any = None
) -> pd.DataFrame:
    """Return the errors on left-out runs, a row each: ``question``, ``group``, ``place``, ``missed``, ``given``.

    All is learnt anew without what is asked, of runs whose prompts and answers are the same GPUs',
    and AMD's; for known settings the constants are those of all runs.
    """
    times, users = (runs[name].to_numpy(dtype=float) for name in (time, "concurrency"))
    usable = (runs["apart"] != "yes").to_numpy() | amd(runs)
    every = learn(points, pairs, times, time, usable)
    inverse = cho_solve(every.factor, np.eye(len(every.places)))
    place = np.full(len(runs), -1)
    place[every.places] = np.arange(len(every.places))
    tables, number = list[pd.DataFrame](), 0
    for number, (question, rows, hidden) in enumerate(questions(points, runs)):
        rows = rows[place[rows] >= 0]
        if not len(rows):
            continue
        left_out = place[hidden][place[hidden] >= 0]
        learnt = relearnt(every, points, times, time, np.delete(every.places, left_out))
        one = asked_of(learnt, every, inverse, left_out, points, users, question)
        asked = np.isin(every.places[left_out], rows)
        rows = every.places[left_out][asked]
        one = {name: values[asked] for name, values in one.items()}
        if time in TREES and question in (*NEW, NEW_RELEASE, BETWEEN):
            trees = grown(learnt, points, runs)
            one["trees"] = trees.predicted(
                columns(runs, points.steps, learnt.shares, trees.words)[rows]
            )
        tables.append(pd.DataFrame({"question": question, "group": number, "place": rows, **one}))
        if log is not None:
            print(
                time,
                question,
                len(rows),
                percent(one["missed"]),
                percent(one["law"]),
                file=log,
                flush=True,
            )
    target = np.clip(every.missing[every.places] - every.fit.centre, -FAR, FAR)
    predicted = target - every.fit.weights[every.places] / np.diag(inverse)
    missed = every.missing[every.places] - every.fit.centre - predicted
    group = every.places % FOLDS + number + 1
    tables.append(
        pd.DataFrame({"question": KNOWN, "group": group, "place": every.places, "missed": missed})
    )
    return pd.concat(tables, ignore_index=True)


def percent(missed: Any) -> tuple[float, float]:
    """Return the mean and the median error in percent of logarithms of measured over predicted."""
    error = np.abs(np.expm1(-np.asarray(missed)))
    return round(100 * float(error.mean()), 1), round(100 * float(np.median(error)), 1)


def trusted(
    missed: pd.DataFrame, runs: pd.DataFrame, points: Points
) -> tuple[pd.DataFrame, dict[str, tuple[float, float]]]:
    """Return the errors where of what the law misses so much is added as errs least, by what answers rest on.

    The part for a group is chosen on the other groups of its question, of AMD's GPUs on the other
    groups of all questions, that for later runs on the runs before them; what ships, on all. Later
    runs of what is new otherwise have the part of that.
    """
    parts, missed = {}, missed.copy()
    choices = [(part, 0.0) for part in PARTS]
    if "trees" in missed:
        choices += [(part / 2, part / 2) for part in PARTS[1:]]

    def left(chosen_rows: pd.DataFrame, part: Any) -> pd.Series:
        of_process, of_trees = np.asarray(part).T
        rest = chosen_rows["law"] - of_process * (chosen_rows["law"] - chosen_rows["missed"])
        return rest - of_trees * chosen_rows["trees"] if "trees" in chosen_rows else rest

    def least(chosen_rows: pd.DataFrame) -> tuple[float, float]:
        return min(choices, key=lambda part: sum(percent(left(chosen_rows, part))))

    vendor = _vendor(missed, runs)
    for basis in NEW:
        chosen_rows = missed[(missed["question"] == basis) & (vendor != VENDOR)]
        parts[basis] = least(chosen_rows)
        for group, rows in chosen_rows.groupby("group"):
            missed.loc[rows.index, "missed"] = left(
                rows, least(chosen_rows[chosen_rows["group"] != group])
            )
    # of so few groups a part for all questions together
    chosen_rows = missed[missed["question"].isin(NEW) & (vendor == VENDOR)]
    theirs = {}
    if len(chosen_rows):
        theirs = dict.fromkeys([f"{VENDOR}: {basis}" for basis in NEW], least(chosen_rows))
        # AMD's settings are medians over months, of no release: what the process says is kept
        theirs[f"{VENDOR}: {NEW_RELEASE}"] = (1.0, 0.0)
    for group, rows in chosen_rows.groupby("group"):
        missed.loc[rows.index, "missed"] = left(
            rows, least(chosen_rows[chosen_rows["group"] != group])
        )
    before, chosen_rows = (missed[missed["question"] == name] for name in (BETWEEN, NEW_RELEASE))
    chosen_of = {**parts, NEW_RELEASE: least(before)}
    rests = _later_bases(chosen_rows, runs, points)
    part = [process.trusted(basis, chosen_of) for basis in rests]
    missed.loc[chosen_rows.index, "missed"] = left(chosen_rows, np.reshape(part, (-1, 2)))
    alone = [not set(NEW) & set(basis) for basis in rests]
    later = least(pd.concat([before, chosen_rows[alone]]))
    return missed.drop(before.index), {**parts, **theirs, NEW_RELEASE: later}


def _vendor(missed: pd.DataFrame, runs: pd.DataFrame) -> np.ndarray:
    """Return the vendor of the GPU of each row of errors."""
    return np.where(amd(runs)[missed["place"]], "AMD", "NVIDIA")


def _later_bases(later: pd.DataFrame, runs: pd.DataFrame, points: Points) -> list[tuple[str, ...]]:
    """Return the bases of later runs, with the earlier ones learnt from."""
    places = later["place"].to_numpy()
    together = (runs["apart"] != "yes").to_numpy() & ~amd(runs)
    before = np.setdiff1d(np.flatnonzero(together), places)
    asked = {name: codes[places] for name, codes in points.names.items()}
    earlier = {name: codes[before] for name, codes in points.names.items()}
    return process.bases(asked, earlier)


PARTS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of what the law misses, that may be added: as the process says, or as the mean of process and trees does."""
TREES: Final = ("ttft_ms",)
"""Of the other time the process alone errs less, whatever is new."""


def spreads(
    missed: pd.DataFrame, queued: np.ndarray, runs: pd.DataFrame
) -> dict[str, tuple[float, float]]:
    """Return the standard deviations that hold nine in ten errors, by question, without and with a queue.

    Of each vendor's GPUs too, after its name; where something is `NEW`, those of AMD's are no
    narrower than those of all, because so few groups of them are published.
    """

    def of(rows: pd.DataFrame, column: str) -> tuple[float, float]:
        rows = rows[rows[column].notna()]
        crowd = queued[rows["place"]]
        parts = (rows[mask] if mask.sum() >= LEAST else rows for mask in (~crowd, crowd))
        alone, many = (_nine(part, column) / NINETY_PERCENT for part in parts)
        return alone, many

    each = {str(name): of(rows, "missed") for name, rows in missed.groupby("question")}
    each[TWO_RUNS] = of(missed[missed["question"] == NEW_MODEL], "given")
    by_vendor = dict[str, tuple[float, float]]()
    for vendor, of_vendor in missed.groupby(_vendor(missed, runs)):
        named = {str(name): of(rows, "missed") for name, rows in of_vendor.groupby("question")}
        named[TWO_RUNS] = of(of_vendor[of_vendor["question"] == NEW_MODEL], "given")
        for name, (alone, many) in named.items():
            if vendor == VENDOR and name in NEW:
                alone, many = max(alone, each[name][0]), max(many, each[name][1])
            if name != NEW_VENDOR:
                by_vendor[f"{vendor}: {name}"] = alone, many
    return {**each, **by_vendor}


def _nine(rows: pd.DataFrame, column: str = "missed") -> float:
    """Return the error that nine in ten are within, each group that was left out weighing the same."""
    errors = rows[column].abs().to_numpy()
    weight = 1.0 / rows.groupby("group")[column].transform("size").to_numpy()
    order = np.argsort(errors)
    level = np.cumsum(weight[order]) / weight.sum()
    return float(errors[order][min(int(np.searchsorted(level, 0.9)), len(errors) - 1)])


def covered(
    missed: pd.DataFrame,
    queued: np.ndarray,
    column: str = "missed",
    least: pd.DataFrame | None = None,
) -> float:
    """Return the share of errors within the interval that the other groups of the same question give.

    It is no narrower than that of ``least``, errors of the same question with ``missed`` among them.
    """
    inside = []
    for group in missed["group"].unique():
        of_group = missed[missed["group"] == group]
        sides = []
        for every in (missed, least):
            if every is not None:
                sides.append(every[every["group"] != group])
        for crowd in (False, True):
            asked = of_group[queued[of_group["place"]] == crowd]
            if not len(asked):
                continue
            limits = []
            for others in sides:
                alike = others[queued[others["place"]] == crowd]
                limits.append(_nine(alike if len(alike) >= LEAST else others, column))
            inside.append(asked[column].abs() <= max(limits))
    return float(pd.concat(inside).mean())


def later_covered(
    missed: pd.DataFrame,
    runs: pd.DataFrame,
    points: Points,
    queued: np.ndarray,
    table: Mapping[str, tuple[float, float]],
) -> float:
    """Return the share of later runs within the intervals of what each rests on, with the earlier ones learnt from."""
    crowd = queued[missed["place"]].astype(int)
    rests = _later_bases(missed, runs, points)
    wide = [process.spread_of(basis, table, at) for basis, at in zip(rests, crowd, strict=True)]
    return float(np.mean(missed["missed"].abs().to_numpy() <= NINETY_PERCENT * np.array(wide)))


def roofline(points: Points, time: str) -> FloatArray:
    """Return the time by peak rates alone: reading or computing, whichever takes longer; of a prompt, computing."""
    one, first = points.steps.tpot, points.steps.ttft
    if time == "ttft_ms":
        return first["products"] + first["experts"] + first["scores"]
    computed = [one[name] for name in ("products", "prompts", "prompt_experts", "scores")]
    return np.maximum(one["weights"] + one["experts"] + one["cache"], sum(computed))


def board(
    missed_of_time: Mapping[str, pd.DataFrame],
    points: Points,
    runs: pd.DataFrame,
    fits: Mapping[str, Fit],
) -> list[dict[str, Any]]:
    """Return the scoreboard: a row for each question, with errors in percent (mean, median) and coverage.

    ``moves`` is the standard error of both when whole groups are drawn: what was left out one by
    one, else settings.
    """
    queued = process.queues(points.steps)
    setting = [points.names["deployment"], points.names["lengths"]]
    names = {**points.names, "setting": pd.MultiIndex.from_arrays(setting).factorize()[0]}
    rows = []
    instinct = amd(runs)
    asked = itertools.product(("AMD", "NVIDIA"), (*BASES, NEW_RELEASE, TWO_RUNS))
    for vendor, question in asked:
        column, of = ("given", NEW_MODEL) if question == TWO_RUNS else ("missed", question)
        common = LEFT_OUT.get(of, ("setting",))
        drawn = common[0] if len(common) == 1 else "pair"
        row: dict[str, Any] = {"vendor": vendor, "left_out": question, "drawn": drawn}
        for time in TIMES:
            every = missed_of_time[time]
            asked_rows = every[(every["question"] == of) & every[column].notna()]
            asked_rows = asked_rows[instinct[asked_rows["place"]] == (vendor == "AMD")]
            if not len(asked_rows):
                continue
            times = runs[time].to_numpy(dtype=float)[asked_rows["place"]]
            naive = roofline(points, time)[asked_rows["place"]]
            naive *= np.median(times / naive)
            each = {
                "learnt": np.abs(np.expm1(-asked_rows[column].to_numpy())),
                "roofline": np.abs(naive / times - 1),
            }
            inside = None
            if question == NEW_RELEASE:
                inside = later_covered(asked_rows, runs, points, queued, fits[time].spreads)
            elif len(set(asked_rows["group"])) > 1:
                narrow = vendor == VENDOR and question in NEW
                whole = every[(every["question"] == of) & every[column].notna()]
                inside = covered(asked_rows, queued, column, whole if narrow else None)
            groups = (
                names[drawn][asked_rows["place"]]
                if len(common) == 1
                else asked_rows["group"].to_numpy()
            )
            means_and_medians = {}
            for name, one in each.items():
                means = [np.mean(one), np.median(one)]
                means_and_medians[name] = [round(100 * float(value), 1) for value in means]
            row[time] = {
                "runs": asked_rows["place"].nunique(),
                "groups": len(set(groups)),
                "moves": [round(100 * float(one), 2) for one in moves(each["learnt"], groups)],
                "bias": round(100 * float(np.expm1(-np.median(asked_rows[column]))), 1),
                "covered": None if inside is None else round(100 * inside, 1),
                "factor": round(float(np.exp(_nine(asked_rows, column))), 3),
                **means_and_medians,
            }
        if TIMES[0] in row:
            rows.append(row)
    return rows


def moves(errors: FloatArray, groups: np.ndarray) -> FloatArray:
    """Return the standard errors of the mean and the median of errors when whole groups are drawn anew.

    A bootstrap of G groups is too narrow by the root of (G - 1) / G
    (`evaluation.cluster_bootstrap`), which is mended.
    """
    draws = bootstrap(lambda rows: np.array([errors[rows].mean(), np.median(errors[rows])]), groups)
    count = effective_groups(groups)
    return draws.std(axis=0) * np.sqrt(count / (count - 1.0))


def unknown_vendor(runs: pd.DataFrame, longer: Mapping[str, float], time: str) -> float:
    """Return the spread for a vendor whose kernels are unknown either: what AMD's runs have without AMD's."""
    points = process.points_of(
        runs, slower={key: one for key, one in longer.items() if key.split("|")[1] not in AMD}
    )
    instinct, times = amd(runs), runs[time].to_numpy(dtype=float)
    pairs = Pairs.of(points, first_fit(time, 0))
    others = ~instinct & (runs["apart"] != "yes").to_numpy()
    learnt = learn(points, pairs, times, time, others)
    rows = np.flatnonzero(instinct & np.isfinite(times))
    across = pairs.between(learnt.shares, rows, learnt.places)
    missed = learnt.missing[rows] - learnt.fit.centre - across @ learnt.fit.weights[learnt.places]
    return _nine(pd.DataFrame({"group": 0, "missed": missed})) / NINETY_PERCENT


def made(
    runs: pd.DataFrame,
    longer: Mapping[str, float],
    nights: Mapping[str, float],
    stock: pd.DataFrame,
    log: Any = None,
) -> ServingModel:
    """Return the model, with its scoreboard.

    ``longer`` is `ServingModel.slower`, ``nights`` what `instinct_runs.drift` found,
    ``stock`` are runs of `stock_runs`.
    """
    points = process.points_of(runs, slower=longer)
    queued = process.queues(points.steps)
    fits, missed_of_time = {}, {}
    for time in TIMES:
        pairs = Pairs.of(points, first_fit(time, 0))
        missed_of_time[time], trust = trusted(errors(points, pairs, runs, time, log), runs, points)
        every = learn(
            points, pairs, runs[time].to_numpy(dtype=float), time, np.ones(len(runs), dtype=bool)
        )
        trees = grown(every, points, runs) if time in TREES else None
        wide = unknown_vendor(runs, longer, time)
        widths = spreads(missed_of_time[time], queued, runs)
        widths[NEW_VENDOR] = (wide, wide)
        widths[f"AMD: {NEW_RELEASE}"] = (nights[time], nights[time])
        fits[time] = replace(every.fit, spreads=widths, trust=trust, trees=trees)
    about = {
        "made": MADE,
        "runs": len(runs),
        "sources": "aiconfigurator-core 0.12.0, systems/silicon_sample.csv (Apache-2.0); ROCm/vllm, "
        "docs/dev-docker/README.md (Apache-2.0); SemiAnalysisAI/InferenceX, results to July 2026 "
        "(Apache-2.0); ROCm/ATOM, nightly benchmarks (MIT)",
        "scoreboard": board(missed_of_time, points, runs, fits),
    }
    model = ServingModel(process.kept(runs), fits, about, longer)
    fits = {time: replace(fit, stock=stock_law(model, stock, time)) for time, fit in fits.items()}
    return replace(model, fits=fits)


def stock_law(model: ServingModel, rows: pd.DataFrame, time: str) -> Stock:
    """Return how much longer stock engines took than forecast of tuned ones (`Fit.stock`).

    The most likely law (`workloads.serving_law`) with the forecasts' own deviations, a model's runs
    on the GPUs of a vendor weighing the same together. That between models of one stack (a source on
    one engine) is what each model misses beside the median of the others.
    """
    served = model.served(rows)
    spread = getattr(served, time.replace("_ms", "_spread"))
    missed = np.log(rows[time].to_numpy(dtype=float) / getattr(served, time))
    vendor = pd.Series(process.vendors(rows), index=rows.index)
    points = process.points_of(rows, slower=model.slower)
    table = pd.DataFrame({"missed": missed, "spread": spread, "group": points.names["model"]})
    table["octaves"] = np.log2(rows["concurrency"].to_numpy(dtype=float))
    table["stack"] = vendor + "|" + rows["source"] + "|" + rows["engine"]
    table["vendor"] = vendor
    table = table[np.isfinite(missed)].reset_index(drop=True)
    weight = 1.0 / table.groupby(["vendor", "group"])["missed"].transform("size")

    def unlikely(logs: FloatArray) -> float:
        start, octave = np.exp(logs)
        longer = (start + octave * table["octaves"]) / table["spread"]
        logs_of = exponnorm.logpdf(table["missed"], longer, scale=table["spread"])
        return -float((weight * logs_of).sum())

    start, octave = np.exp(minimize(unlikely, np.log([0.3, 0.1]), method="Nelder-Mead").x)
    longer = Stock(start, octave, 0.0).longer(2.0 ** table["octaves"].to_numpy(dtype=float))
    table["longer"] = longer
    table["part"] = table["missed"] / longer
    beside = []
    for _, rows_of in table.groupby("stack"):
        medians = rows_of.groupby("group")["part"].median()
        for name, rows_of_model in rows_of.groupby("group"):
            others = medians.drop(name)
            if len(others):
                of_stack = float(others.median()) * rows_of_model["longer"]
                missed_beside = rows_of_model["missed"] - of_stack
                beside.append(rows_of_model.assign(missed=missed_beside))
    near = _nine(pd.concat(beside)) / NINETY_PERCENT
    between = np.sqrt(max(near**2 - float(table["spread"].median()) ** 2, 0.0))
    return Stock(float(start), float(octave), float(between))


BOARD: Final = ("runs", "TPOT", "roofline", "covered", "TTFT", "roofline", "covered")
"""Columns of the scoreboard beside what was left out: mean / median error and their standard errors, all in percent."""


def board_cells(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """Yield the cells of the scoreboard, row by row."""
    for row in rows:
        cells = [
            f"{row['vendor']}: {row['left_out']}",
            f"{row['tpot_ms']['runs']:,} of {row['tpot_ms']['groups']} {row['drawn']}s",
        ]
        for time in TIMES:
            if one := row.get(time):
                learnt = (
                    f"{error:.1f} ± {moved:.1f}"
                    for error, moved in zip(one["learnt"], one["moves"], strict=True)
                )
                cells += [" / ".join(learnt), "{:.1f} / {:.1f}".format(*one["roofline"])]
                cells.append("–" if one["covered"] is None else f"{one['covered']:.0f}")
            else:
                cells += ["–"] * 3
        yield cells


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the model; return the exit code."""
    return run_on_data(
        "serving_model",
        __doc__,
        _show,
        arguments,
        paths={"sample": "silicon_sample.csv", "out": "the Parquet file to write"},
    )


def _show(options: argparse.Namespace) -> None:
    runs = published(options.sample, options.data)
    longer = slower(options.sample.parent / "data", options.data / "aiter")
    stock = stock_runs(options.data)
    model = made(runs, longer, drift(options.data), stock, sys.stderr)
    model.save(options.out)
    for cells in (
        ("left out", *BOARD),
        ["---"] * (1 + len(BOARD)),
        *board_cells(model.about["scoreboard"]),
    ):
        print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    sys.exit(main())
