"""The model that is saved: fitted to all rows, with intervals, trained range, ranking and fitted baselines.

A data set and its competition enter `deploy`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import nan
from time import perf_counter
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..features.catalogue import RULE
from ..features.matrix import BY_DEVICE, DEVICE_FAMILY, SIBLING, STRANGER, Dataset, KnownGroups, groups_of
from ..hardware import EVERY
from ..laws.rates import HOST_DEVICE, on_hosts
from ..models.base import Candidate
from ..models.baselines import Affine, ConstantRatio
from ..models.suite import LEARNT
from ..workers import Jobs, one_thread, pool
from .competition import REFERENCE, Competition, fit_all, hub_of, law_table, with_rule
from .crossval import cross_validate
from .domain import TrainedRange, in_range_of_others, trained_range
from .extrapolation import Beyond, FallbackLaw, fixed_widening, learn_beyond, learn_law
from .folds import SCHEMES, drawn
from .interval_scale import Learnt, Spread, held_out_limits, learn_difficulty
from .intervals import LEVEL, ConformalIntervals, covered
from .observers.progress import Report
from .ranking import ranking, ranking_by_rss

WORST: Final = 5
NAMED: Final = 5  # groups named whose rows were covered least, and the rows that one must have
LEAST_DEVICES: Final = 3  # devices, or families of them, that must have been left out, for intervals of another
ENOUGH: Final = {"kfold": 200, "grouped": 10}
"""Rows, or groups, that intervals are calibrated on: of the first folds alone, or within the trained range alone."""


@dataclass(frozen=True)
class Deployed:
    """A model fitted to all rows, with what a prediction needs beside it."""

    # the candidate, the space it is fitted in, the scheme it was chosen under
    name: str
    space: str
    scheme: str
    estimator: Any  # a fitted regressor
    # by scheme the intervals calibrated on the model's out-of-fold predictions of that scheme; of a run over all
    # devices that left some out, those of new devices too, by how near they are (`KnownGroups.nearness`)
    spreads: dict[str, Spread]
    groups: KnownGroups  # by which the intervals of a new row are chosen
    domain: TrainedRange  # of the training matrix (`trained_range`)
    # ``intervals`` of ``metrics.json``: by scheme, how many rows 90 % intervals held, and of which groups fewest
    coverage: dict[str, Any]
    ranking: list[dict[str, Any]]  # that of ``metrics.json``
    fitted_baselines: dict[str, Any]  # constant ratio and line, fitted to all rows, and what they scale
    # how it goes on outside the trained range; None where the rows are too few, or too alike, to tell
    beyond: Beyond | None
    law: FallbackLaw | None  # what may be said of what was never trained; None where there is no law
    fitted: Dataset  # what it was fitted to: the features, and the column of a simple rule that is none of them

    def manifest(self) -> dict[str, Any]:
        """Return the part of the saved model's manifest that is about it."""
        others = [self.spreads[scheme] for scheme in SCHEMES if scheme in self.spreads and scheme != self.scheme]
        devices = {near: self.spreads[near].to_dict() for near in (SIBLING, STRANGER) if near in self.spreads}
        return {
            "selected": self.name,
            "space": self.space,
            "scheme": self.scheme,
            **self.spreads[self.scheme].to_dict(),
            "other": others[0].to_dict() if others else None,
            "groups": self.groups.to_dict(),
            **({"devices": devices} if devices else {}),
            "domain": self.domain.to_dict(),
            "baselines": self.fitted_baselines,
            "beyond": self.beyond and self.beyond.to_dict(),
            "law": self.law and self.law.to_dict(),
        }


Work = Callable[[Dataset], Any]  # something that is worked out of the data set alone


def deploy(
    dataset: Dataset,
    competition: Competition,
    *,
    seed: int = 0,
    jobs: Jobs = 1,
    progress: Report | None = None,
    rank: bool = True,
) -> Deployed:
    """Fit the best model of the competition to all rows and calibrate its intervals.

    The competition's ``scheme`` decides which model. Its intervals are calibrated on its out-of-fold predictions of
    each scheme; where it left one after too few folds (`ENOUGH`), it is fitted without each fold once more. ``seed`` is
    that of the competition and of the ranking; ``jobs`` are the processes, on which the result does not depend;
    ``progress`` is told what has been worked out, and how long the rest takes. Features are ranked unless ``rank`` is
    False.
    """
    scheme = competition.scheme
    best, result = competition.best_model(scheme), competition.evaluation[scheme]
    dataset = with_rule(dataset, best)
    predicted = result.predictions[best.name].to_numpy()
    inside = _within(dataset, predicted, result.folds, scheme)
    within = drawn(inside, LEARNT)
    known = dataset.y[within], predicted[within], _alike(dataset, within, scheme)
    learnt = learn_difficulty(dataset.X, *known, scheme, rows=within, devices=_devices(dataset, within, scheme))
    outside = partial(learn_beyond, candidate=best, scheme=scheme, predicted=predicted, learnt=learnt, within=within)
    told = {scheme: {"known": (inside, learnt)}}
    asked, rankers = _asked(competition, best), [best, *_rankers(competition, best)] if rank else []
    new = _of_new_devices(dataset, best, asked.get("grouped", {}), seed)
    ranked = partial(partial, scheme=scheme, seed=seed)
    steps: list[tuple[str, Work]] = [
        (f"{best.name} (all rows)", partial(fit_all, candidate=best, scheme=scheme)),
        (f"{best.name} (ranges left out)", outside),
        *((f"{one.name} (ranking)", ranked(ranking if one is best else _ranked, model=one)) for one in rankers),
        *(
            (
                f"intervals ({name})",
                partial(_calibrated, model=best, scheme=name, seed=seed, **given, **told.get(name, {})),
            )
            for name, given in asked.items()
        ),
        *((f"intervals ({near} devices)", work) for near, work in new.items()),
    ]
    estimator, beyond, *rest = _worked_out(steps, dataset, jobs, progress)
    spreads = dict(zip([*asked, *new], rest[len(rankers) :], strict=True))
    return Deployed(
        name=best.name,
        space=best.space,
        scheme=scheme,
        estimator=estimator,
        spreads={name: spread for name, (spread, _) in spreads.items()},
        groups=KnownGroups.of(dataset),
        domain=trained_range(dataset.X),
        coverage={
            **_coverage({name: held for name, (_, held) in spreads.items()}, scheme, beyond),
            "difficulty": learnt and learnt.summary(),
        },
        ranking=[*(ranking_by_rss(estimator, best) if rank else ()), *chain.from_iterable(rest[: len(rankers)])],
        fitted_baselines=_baselines(dataset),
        beyond=beyond,
        law=learn_law(dataset),
        fitted=dataset,
    )


def _units(groups: NDArray[Any], scheme: str) -> int:
    """Return what `ENOUGH` counts of rows of such groups: rows where they are shuffled, groups where those are new."""
    return len(groups) if scheme == "kfold" else len(pd.unique(groups))


def _worked_out(steps: Sequence[tuple[str, Work]], dataset: Dataset, jobs: Jobs, progress: Report | None) -> list[Any]:
    """Return what each step, by its label, finds."""
    said, found, start = progress or (lambda *_: None), dict[int, Any](), perf_counter()
    labels, works = zip(*steps, strict=True)
    said(0, len(steps), labels[0], nan)
    with pool(jobs) as processes:
        for place, result in processes.map(_done, enumerate(works), dataset):
            found[place] = result
            left = (perf_counter() - start) * (len(steps) - len(found)) / len(found)
            said(len(found), len(steps), labels[place], left)
    return [found[place] for place in range(len(steps))]


def _done(numbered: tuple[int, Work], dataset: Dataset) -> tuple[int, Any]:
    """Return the place of a step and what it finds; of warnings those of the folds are told."""
    place, work = numbered
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return place, work(dataset)


def _coverage(schemes: dict[str, dict[str, Any]], scheme: str, beyond: Beyond | None) -> dict[str, Any]:
    """Return the measured coverage and width of 90 % intervals around each scheme's best model, and outside ranges."""
    own = schemes[scheme]
    if beyond is not None:
        schemes = {**schemes, "range": {"model": own["model"], **beyond.found}}
    return {
        "level": LEVEL,
        "coverage": own["coverage"],
        "median_relative_width": own["median_relative_width"],
        "schemes": schemes,
        "outside": None if beyond else fixed_widening().to_dict(),
    }


def _asked(competition: Competition, best: Candidate) -> dict[str, dict[str, Any]]:
    """Return by scheme the best model's predictions and the folds, or how many folds it is to be fitted without."""
    found: dict[str, dict[str, Any]] = {}
    for scheme, result in competition.evaluation.schemes.items():
        predicted = np.full(len(result.folds), np.nan)
        for each in (result.partial, result.predictions):
            if best.name in each:
                predicted = each[best.name].to_numpy()
        seen = ~np.isnan(predicted)
        count = len(np.unique(result.folds))
        enough = seen.all() or _units(competition.evaluation.groups[seen], scheme) >= ENOUGH[scheme]
        found[scheme] = {"count": count, **({"predicted": predicted, "folds": result.folds} if enough else {})}
    return found


def _of_new_devices(dataset: Dataset, model: Candidate, grouped: dict[str, Any], seed: int) -> dict[str, Work]:
    """Return what calibrates the intervals of new devices, by how near these are.

    Of devices left out, those whose family was still trained say how siblings err. Strangers err as whole families do
    that are left out: where devices were left out singly, the model is fitted without each family too. ``grouped`` are
    the predictions and folds of the groups left out, which must be devices or families.
    """
    by, found = dataset.group_by or (), dict[str, Work]()
    if dataset.target != EVERY or by not in BY_DEVICE or "folds" not in grouped:
        return found
    families, folds = groups_of(dataset.rows, (DEVICE_FAMILY,)), grouped["folds"]
    enough = hub_of(families.astype(str), replace(dataset, group_by=(DEVICE_FAMILY,)).host_groups) is None
    calibrated = partial(_calibrated, model=model, scheme="grouped", seed=seed, beyond=True)
    if by == (DEVICE_FAMILY,):
        apart = {**grouped, "predicted": _of_two_families(dataset, grouped["predicted"])}
        return {STRANGER: partial(calibrated, **apart)} if len(np.unique(families)) >= LEAST_DEVICES else found
    elsewhere = pd.Series(folds).groupby(families).transform("nunique").to_numpy() > 1
    if len(pd.unique(dataset.groups[elsewhere])) >= LEAST_DEVICES:
        near = {**grouped, "predicted": np.where(elsewhere, grouped["predicted"], np.nan)}
        found[SIBLING] = partial(calibrated, **near)
    if enough and len(np.unique(families)) >= LEAST_DEVICES:
        found[STRANGER] = partial(_without_families, model=model, families=families, seed=seed)
    return found


def _without_families(
    dataset: Dataset, model: Candidate, families: NDArray[np.object_], seed: int
) -> tuple[Spread, dict[str, Any]]:
    """Return what `_calibrated` does of families left out."""
    own = replace(dataset, groups=families, group_by=(DEVICE_FAMILY,))
    found = cross_validate(own, [model], schemes=("grouped",), folds=10, seed=seed, tell_groups=("grouped",))["grouped"]
    predicted = _of_two_families(dataset, found.predictions[model.name].to_numpy())
    return _calibrated(own, model, "grouped", seed, count=10, predicted=predicted, folds=found.folds, beyond=True)


def _of_two_families(dataset: Dataset, predicted: FloatArray) -> FloatArray:
    """Return predictions of families left out, NaN where the host was left out too: a stranger's host is known."""
    if HOST_DEVICE not in dataset.rows:
        return predicted
    same = groups_of(on_hosts(dataset.rows), (DEVICE_FAMILY,)) == groups_of(dataset.rows, (DEVICE_FAMILY,))
    return np.where(same, np.nan, predicted)


def _calibrated(
    dataset: Dataset,
    model: Candidate,
    scheme: str,
    seed: int,
    count: int,
    predicted: FloatArray | None = None,
    folds: IntArray | None = None,
    *,
    beyond: bool = False,
    known: tuple[BoolArray, Learnt | None] | None = None,
) -> tuple[Spread, dict[str, Any]]:
    """Return the intervals of a scheme, what they held, and the groups of which they held the fewest rows.

    They are for rows within the trained range, and so calibrated on those (`_within`); or with ``beyond`` for all. Of
    more than `LEARNT` so many are drawn at random. ``known`` are the rows within, and how difficult those are that were
    drawn, where that was worked out before.
    """
    if predicted is None or folds is None:
        found = cross_validate(
            dataset, [model], schemes=(scheme,), folds=max(count, 2), seed=seed, tell_groups=("grouped",)
        )[scheme]  # fmt: skip
        predicted, folds = found.predictions[model.name].to_numpy(), found.folds
    within = known[0] if known else ~np.isnan(predicted) if beyond else _within(dataset, predicted, folds, scheme)
    seen = drawn(within, LEARNT)
    y, groups = dataset.y[seen], dataset.groups[seen].astype(str)
    whole, predicted, folds = predicted, predicted[seen], folds[seen]
    alike, of = _alike(dataset, seen, scheme), {"rows": seen, "devices": _devices(dataset, seen, scheme)}
    with one_thread():  # many small products: threads would wait for each other
        learnt = known[1] if known else learn_difficulty(dataset.X, y, predicted, alike, scheme, **of)
        lower, upper = held_out_limits(dataset.X, y, predicted, alike, folds, LEVEL, scheme, **of)
    difficulty, scale = (None, None) if learnt is None else (learnt.difficulty, learnt.scale)
    inside = pd.Series((lower <= y) & (y <= upper)).groupby(groups).agg(["size", "mean"])
    worst = inside[inside["size"] >= NAMED].sort_values(["mean", "size"], ascending=[True, False], kind="stable")
    named = [
        {"group": str(group), "rows": int(size), "coverage": float(mean)}
        for group, size, mean in worst.head(WORST).itertuples()
    ]
    counts = {"rows": len(y), "rows_beyond": int((~np.isnan(whole)).sum() - within.sum())}
    held = {
        "model": model.name,
        **covered(y, predicted, groups, lower, upper)._asdict(),
        **counts,
        "worst_groups": named,
    }
    return Spread(ConformalIntervals(scheme).fit(y, predicted, groups, scale=scale), difficulty), held


def _alike(dataset: Dataset, rows: BoolArray, scheme: str) -> NDArray[Any]:
    """Return what says which of the rows err together, for how difficult each is: their groups.

    Where these are devices, shuffled rows are told apart by what the operator says: a few devices tell nothing.
    """
    if scheme == "grouped" or dataset.group_by not in BY_DEVICE:
        return dataset.groups[rows].astype(str)
    return groups_of(dataset.rows[rows]).astype(str)


def _devices(dataset: Dataset, rows: BoolArray, scheme: str) -> NDArray[Any] | None:
    """Return the device of each of the rows, where they are of many and all of these are trained: some are harder."""
    if dataset.target != EVERY or (scheme == "grouped" and set(dataset.group_by or ()) & {"device", DEVICE_FAMILY}):
        return None
    return dataset.rows["device"].to_numpy(dtype=str)[rows]


def _within(dataset: Dataset, predicted: FloatArray, folds: IntArray, scheme: str) -> BoolArray:
    """Return which rows were predicted out of fold in the range of the rows of other folds, (n,).

    The others were asked for as what lies beyond the range, which has intervals of its own (`extrapolation`). Where too
    few are within (`ENOUGH`), all rows count that were predicted.
    """
    seen = ~np.isnan(predicted)
    within = seen & in_range_of_others(dataset.X, folds)
    enough = _units(dataset.groups[within], scheme) >= ENOUGH[scheme]
    return within if enough and len(np.unique(folds[within])) > 2 else seen


def _rankers(competition: Competition, best: Candidate) -> list[Candidate]:
    """Return who ranks the features beside the best model: the forest, and the best model that selects by tests."""
    rows_of = competition.evaluation[competition.scheme].rows
    errors = {row["name"]: (row["left"] is not None, row["e_out"]) for row in rows_of if row["error"] is None}
    ran = [model for model in competition.models if model.name in errors]
    tested = [model for model in ran if model.selects_features and model.tests_features]
    linear = [min(tested, key=lambda model: errors[model.name])] if tested and best not in tested else []
    return [*(model for model in ran if model.is_forest and model is not best), *linear]


def _ranked(dataset: Dataset, model: Candidate, scheme: str, seed: int) -> list[dict[str, Any]]:
    """Return the ranking by a model beside the best, a forest's by the decrease of its RSS too."""
    dataset = replace(dataset, X=dataset.X[[name for name in dataset.X if not str(name).startswith(RULE)]])
    by_rss = ranking_by_rss(fit_all(dataset, model, scheme), model) if model.is_forest else []
    return [*by_rss, *ranking(dataset, model, scheme, seed)]


def _baselines(dataset: Dataset) -> dict[str, Any]:
    """Return the constant ratio and the line of all rows, and what they scale."""
    reference = law_table(dataset)[[REFERENCE]]
    ratio = ConstantRatio(REFERENCE).fit(reference, dataset.y)
    line = Affine(REFERENCE).fit(reference, dataset.y)
    return {
        "reference": str(dataset.reference.name),
        "constant ratio": {"ratio": float(ratio.ratio_)},
        "affine": {"intercept": float(line.intercept_), "ratio": float(line.ratio_)},
    }
