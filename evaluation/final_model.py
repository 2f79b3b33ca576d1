"""The models that are saved: for each question the best one, fitted to all rows, with intervals and trained range.

A data set and its competition enter `fit_final`. Rows of a known group and rows of a new one are
two questions: a run holds the winner of each, and the intervals that belong to it, so that what is
stated of a question is what answers it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from time import perf_counter
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import counted
from ..features.catalogue import BASELINE_INPUT
from ..features.matrix import (
    BY_DEVICE,
    DEVICE_FAMILY,
    SIBLING,
    STRANGER,
    Dataset,
    KnownGroups,
    groups_of,
)
from ..laws.rates import HOST_DEVICE, on_hosts
from ..models.base import Candidate
from ..models.baselines import Affine, ConstantRatio
from ..models.suite import LEARNT
from ..settings import Report
from ..workers import one_thread, pool
from .campaigns import Campaigns
from .competition import REFERENCE, Competition, fit_all, hub_of, law_table, with_rule
from .crossval import cross_validate
from .domain import TrainedRange, in_range_of_others, trained_range
from .extrapolation import Beyond, FallbackLaw, fixed_widening, learn_beyond, learn_law
from .folds import NEW_CAMPAIGN, drawn, rows_in_other_folds
from .interval_scale import Learnt, Spread, Strata, held_out_limits, learn_difficulty
from .intervals import LEVEL, ConformalIntervals, conformal_quantile, covered, log_ratio
from .ranking import ranking, ranking_by_rss
from .stated_error import (
    EVERY,
    KNOWN_GROUP,
    NEW_CAMPAIGN_ROW,
    NEW_GROUP,
    NOTHING_STATED,
    StatedErrors,
)

WORST: Final = 5
NAMED: Final = 5  # groups named whose rows were covered least, and the rows that one must have
LEAST_DEVICES: Final = 3
"""Devices, or families of them, that must have been left out, for intervals of another."""
ENOUGH: Final = {"kfold": 200, "grouped": 10}
"""Rows, or groups, within the trained range on which intervals are calibrated; with fewer, all rows count."""


@dataclass(frozen=True)
class FinalModel:
    """The model that answers one question, fitted to all rows, with what a prediction needs beside it."""

    candidate: Candidate
    scheme: str  # the question: ``grouped`` rows of new groups, ``kfold`` those of known ones
    estimator: Any  # a fitted regressor
    # the intervals of the question; of a run over all devices that left some out those of new
    # devices too, by how near they are (`KnownGroups.nearness`); of new campaigns where there are
    # enough
    spreads: dict[str, Spread]
    # by spread: how many rows 90 % intervals held, and of which groups fewest
    held: dict[str, dict[str, Any]]
    groups: KnownGroups  # by which the question of a new row is told
    domain: TrainedRange  # of the training matrix (`trained_range`)
    # constant ratio and line, fitted to all rows, and what they scale
    fitted_baselines: dict[str, Any]
    difficulty: dict[str, Any] | None  # `Learnt.summary`
    # how it goes on outside the trained range; None where the rows are too few, or too alike, to
    # tell
    beyond: Beyond | None
    # what may be said of what was never trained; None where there is no law
    law: FallbackLaw | None
    # what it was fitted to: the features, and the column of a simple rule that is none of them
    fitted: Dataset
    of_trained_groups: FinalModel | None = None  # answers rows of known groups in its place
    campaigns: tuple[str, ...] = ()  # that were trained, where new ones have separate intervals
    errors: StatedErrors = NOTHING_STATED  # of the rows that it answers

    def __repr__(self) -> str:
        note = ""
        if self.of_trained_groups is not None:
            note = f"; known groups: {self.of_trained_groups.name}"
        question = "known groups"
        if self.scheme == "grouped":
            question = "new groups"
        rows = counted(len(self.fitted), "row")
        return f"<FinalModel for {question}: {self.name}, {rows}{note}>"

    @property
    def name(self) -> str:
        """The name of the model in tables."""
        return self.candidate.name

    def manifest(self) -> dict[str, Any]:
        """Return the part of the saved model's manifest that is about it."""
        devices = {}
        for near in (SIBLING, STRANGER):
            if near in self.spreads:
                devices[near] = self.spreads[near].to_dict()
        manifest = {
            "selected": self.name,
            "space": self.candidate.space,
            "scheme": self.scheme,
            **self.spreads[self.scheme].to_dict(),
            "groups": self.groups.to_dict(),
            "domain": self.domain.to_dict(),
            "baselines": self.fitted_baselines,
            "beyond": self.beyond and self.beyond.to_dict(),
            "law": self.law and self.law.to_dict(),
            "errors": self.errors.to_dict(),
        }
        if devices:
            manifest["devices"] = devices
        if self.campaigns:
            spread = self.spreads[NEW_CAMPAIGN].to_dict()
            manifest["campaigns"] = {"trained": list(self.campaigns), "spread": spread}
        return manifest

    def of(self, scheme: str) -> FinalModel:
        """Return the model that answers a question."""
        if self.of_trained_groups is not None and self.of_trained_groups.scheme == scheme:
            return self.of_trained_groups
        return self

    def coverage(self, shown: str) -> dict[str, Any]:
        """Return ``intervals`` of ``metrics.json``: coverage and width of 90 % intervals.

        Those of the question that is ``shown`` first, then by question and outside the trained
        range.
        """
        held = dict(self.held)
        if self.of_trained_groups is not None:
            held = {**self.of_trained_groups.held, **held}
        first = self.of(shown)
        figures = first.held[first.scheme]
        outside = None
        if first.beyond is None:
            outside = fixed_widening().to_dict()
        else:
            held["range"] = {"model": figures["model"], **first.beyond.found}
        return {
            "level": LEVEL,
            "coverage": figures["coverage"],
            "median_relative_width": figures["median_relative_width"],
            "schemes": held,
            "outside": outside,
            "difficulty": first.difficulty,
        }


@dataclass(frozen=True)
class _Question:
    """One question, and its winner's predictions out of fold."""

    scheme: str
    candidate: Candidate
    dataset: Dataset  # with the column of a simple rule, if that won
    predicted: FloatArray  # (n,)
    folds: IntArray  # (n,)
    within: BoolArray  # (n,): rows in the trained range of the other folds, on which intervals are calibrated
    learnt: Learnt | None  # how difficult each of those drawn of them is
    strata: Strata | None  # of known groups
    scale: FloatArray  # (n,): how many times as wide the interval of each row is
    left_out: _CampaignsLeftOut | None  # of new groups, where there are enough campaigns
    errors: StatedErrors

    @classmethod
    def of(cls, dataset: Dataset, competition: Competition, scheme: str) -> _Question:
        candidate = competition.best_model(scheme)
        result = competition.evaluation[scheme]
        dataset = with_rule(dataset, candidate)
        predicted = result.predictions[candidate.name].to_numpy()
        within = _within(dataset, predicted, result.folds, scheme)
        rows = drawn(within, LEARNT)
        learnt = learn_difficulty(
            dataset.X,
            dataset.y[rows],
            predicted[rows],
            _alike(dataset, rows, scheme),
            scheme,
            rows=rows,
            devices=_devices(dataset, rows, scheme),
        )
        scale = np.ones(len(dataset))
        if learnt is not None:
            scale = learnt.difficulty.scale(dataset.X, predicted, dataset.rows.get("device"))
            scale[rows] = learnt.scale
        strata = None
        if scheme == "kfold":
            trained_rows = rows_in_other_folds(dataset.groups, result.folds)
            strata = Strata.learn(
                np.abs(log_ratio(dataset.y, predicted) / scale)[rows],
                trained_rows[rows],
                _of_unknown_groups(dataset, competition, candidate, predicted),
            )
            scale = scale * strata.scale(trained_rows)
        left_out = None
        if scheme == "grouped":
            left_out = _CampaignsLeftOut.of(dataset, competition, candidate)
        return cls(
            scheme,
            candidate,
            dataset,
            predicted,
            result.folds,
            within,
            learnt,
            strata,
            scale,
            left_out,
            _stated_errors(competition, scheme),
        )

    def steps(self, seed: int) -> list[_Step]:
        """Return the remaining steps: the fit, the rule outside the trained range, the intervals."""
        name = self.candidate.name
        scheme = self.scheme
        fitted = partial(fit_all, candidate=self.candidate, scheme=scheme)
        beyond = partial(
            learn_beyond,
            candidate=self.candidate,
            scheme=scheme,
            predicted=self.predicted,
            scale=self.scale,
            within=drawn(self.within, LEARNT),
        )
        calibrated = partial(
            _calibrated,
            model=self.candidate,
            scheme=scheme,
            predicted=self.predicted,
            folds=self.folds,
            within=self.within,
            learnt=(self.learnt, self.strata),
        )
        steps: list[_Step] = [
            _Fit(scheme, "", f"{name} (all rows)", fitted),
            _OutsideRange(scheme, "", f"{name} (ranges left out)", beyond),
            _Intervals(scheme, scheme, f"intervals ({scheme})", calibrated),
        ]
        if scheme == "grouped":
            new = _of_new_devices(self.dataset, self.candidate, self.predicted, self.folds, seed)
            for near, work in new.items():
                steps.append(_Intervals(scheme, near, f"intervals ({near} devices)", work))
        if self.left_out is not None:
            work = partial(self.left_out.calibrated, model=self.candidate)
            steps.append(_Intervals(scheme, NEW_CAMPAIGN, "intervals (new campaigns)", work))
        return steps

    def answered(self, results: Mapping[_Step, Any]) -> FinalModel:
        """Return the model with the results of its steps."""
        estimator = beyond = None
        spreads = {}
        held = {}
        for step, result in results.items():
            if step.scheme != self.scheme:
                continue
            if isinstance(step, _Fit):
                estimator = result
            elif isinstance(step, _OutsideRange):
                beyond = result
            elif isinstance(step, _Intervals):
                spreads[step.part], held[step.part] = result
        return FinalModel(
            candidate=self.candidate,
            scheme=self.scheme,
            estimator=estimator,
            spreads=spreads,
            held=held,
            groups=KnownGroups.of(self.dataset),
            domain=trained_range(self.dataset.X),
            fitted_baselines=_baselines(self.dataset),
            difficulty=None if self.learnt is None else self.learnt.summary(),
            beyond=beyond,
            law=learn_law(self.dataset),
            fitted=self.dataset,
            campaigns=() if self.left_out is None else tuple(self.left_out.campaigns.names),
            errors=self.errors,
        )


def _of_unknown_groups(
    dataset: Dataset, competition: Competition, candidate: Candidate, predicted: FloatArray
) -> float:
    """Return how many times as wide as of known groups the intervals of new ones are by the same model, 1 or more.

    ``predicted`` (n,) are those of known groups. Where the model did not predict groups left out,
    their width was not measured: 1.
    """
    grouped = competition.evaluation.schemes.get("grouped")
    if grouped is None or candidate.name not in grouped.predictions:
        return 1.0
    radii = []
    for answers in (predicted, grouped.predictions[candidate.name].to_numpy()):
        scores = np.abs(log_ratio(dataset.y, answers))
        radii.append(float(conformal_quantile(np.sort(scores[np.isfinite(scores)]), LEVEL)))
    inner_radius, new = radii
    if inner_radius <= 0:
        return 1.0
    return max(new / inner_radius, 1.0)


def _stated_errors(competition: Competition, scheme: str) -> StatedErrors:
    """Return the stated error of the rows that the selected model answers."""
    stated = {}
    if scheme == "kfold":
        stated[KNOWN_GROUP] = competition.selected[scheme]["parts"]
    else:
        stated[NEW_GROUP] = competition.selected[scheme]["parts"]
        if competition.new_campaign is not None:
            every = competition.new_campaign.selected["parts"][EVERY]
            stated[NEW_CAMPAIGN_ROW] = {EVERY: every}
    return StatedErrors.from_dict(stated)


@dataclass(frozen=True)
class _CampaignsLeftOut:
    """What the model for new groups predicts of campaigns left out whole."""

    campaigns: Campaigns
    predicted: FloatArray  # (n,)
    folds: IntArray  # (n,)

    @classmethod
    def of(
        cls, dataset: Dataset, competition: Competition, candidate: Candidate
    ) -> _CampaignsLeftOut | None:
        """Return them; None where there are too few campaigns, or a model did not run without each."""
        campaigns = competition.campaigns
        new = competition.new_campaign
        if campaigns is None or new is None or not campaigns.enough:
            return None
        predicted = new.result.predictions[new.selected["name"]].to_numpy()
        return cls(campaigns, predicted, new.result.folds)

    def calibrated(self, dataset: Dataset, model: Candidate) -> tuple[Spread, dict[str, Any]]:
        """Return the intervals of rows of new campaigns, as `_calibrated` does those of new groups."""
        apart = replace(dataset, groups=self.campaigns.labels(dataset.groups))
        return _calibrated(apart, model, "grouped", predicted=self.predicted, folds=self.folds)


@dataclass(frozen=True, eq=False)
class _Step:
    """Something to compute from the data set of the question ``scheme``, in any order.

    ``part`` says which, where a question has several of a kind: the rows that intervals are for,
    the model that ranks the features.
    """

    scheme: str
    part: str
    label: str
    work: Callable[[Dataset], Any]


class _Fit(_Step):
    """The fit to all rows."""


class _OutsideRange(_Step):
    """How the model goes on outside the trained range."""


class _Intervals(_Step):
    """Intervals and their coverage."""


class _Ranking(_Step):
    """A ranking of the features."""


def fit_final(
    dataset: Dataset,
    competition: Competition,
    *,
    seed: int = 0,
    report: Report | None = None,
    rank: bool = True,
) -> tuple[FinalModel, list[dict[str, Any]]]:
    """Fit the best model of each question to all rows and calibrate its intervals; rank the features.

    Parameters
    ----------
    seed : int
        That of the competition, and of the ranking.
    report : callable, optional
        Told which step is done, and how long the rest takes.
    rank : bool
        Whether features are ranked, by the model of the question that is shown first
        (`Competition.scheme`).

    Returns
    -------
    FinalModel
        For new groups, with the one for known groups in ``of_trained_groups``; without folds by group for known
        groups alone.
    list of dict
        ``ranking`` of ``metrics.json``.
    """
    schemes = sorted(competition.evaluation.schemes)  # grouped before kfold
    questions = [_Question.of(dataset, competition, scheme) for scheme in schemes]
    steps = []
    for question in questions:
        steps += question.steps(seed)
    shown = next(question for question in questions if question.scheme == competition.scheme)
    if rank:
        for model in (shown.candidate, *_rankers(competition, shown.candidate)):
            function = _ranked
            if model is shown.candidate:
                function = ranking
            work = partial(function, model=model, scheme=shown.scheme, seed=seed)
            steps.append(_Ranking(shown.scheme, model.name, f"{model.name} (ranking)", work))
    datasets = {question.scheme: question.dataset for question in questions}
    results = _computed(steps, datasets, report)
    answers = {question.scheme: question.answered(results) for question in questions}
    final = answers[schemes[0]]
    if "grouped" in answers and "kfold" in answers:
        final = replace(answers["grouped"], of_trained_groups=answers["kfold"])
    table = []
    if rank:
        table += ranking_by_rss(final.of(shown.scheme).estimator, shown.candidate)
    for step, result in results.items():
        if isinstance(step, _Ranking):
            table += result
    return final, table


def _computed(
    steps: Sequence[_Step], datasets: Mapping[str, Dataset], report: Report | None
) -> dict[_Step, Any]:
    """Return the result of each step, in the order of the steps."""
    results: dict[int, Any] = {}
    start = perf_counter()
    if report is not None:
        report(0, len(steps), steps[0].label, nan)
    with pool() as processes:
        for place, result in processes.map(_done, enumerate(steps), datasets):
            results[place] = result
            seconds = (perf_counter() - start) * (len(steps) - len(results)) / len(results)
            if report is not None:
                report(len(results), len(steps), steps[place].label, seconds)
    return {step: results[place] for place, step in enumerate(steps)}


def _done(numbered: tuple[int, _Step], datasets: Mapping[str, Dataset]) -> tuple[int, Any]:
    """Return the place of a step and its result; its warnings were those of the folds too."""
    place, step = numbered
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return place, step.work(datasets[step.scheme])


def _units(groups: NDArray[Any], scheme: str) -> int:
    """Return what `ENOUGH` counts of rows of such groups: rows where they are shuffled, groups where those are new."""
    if scheme == "kfold":
        return len(groups)
    return len(pd.unique(groups))


def _of_new_devices(
    dataset: Dataset, model: Candidate, predicted: FloatArray, folds: IntArray, seed: int
) -> dict[str, Callable[[Dataset], Any]]:
    """Return what calibrates the intervals of new devices, by how near these are.

    Of devices left out, those whose family was still trained say how siblings err. Strangers err as
    whole families do that are left out: where devices were left out singly, the model is fitted
    without each family too. ``predicted`` and ``folds`` (n,) are those of the groups left out,
    which must be devices or families.
    """
    by = dataset.group_by or ()
    if not dataset.comparison.is_many or by not in BY_DEVICE:
        return {}
    families = groups_of(dataset.rows, (DEVICE_FAMILY,))
    count = len(np.unique(families))
    calibrated = partial(_calibrated, model=model, scheme="grouped", folds=folds)
    if by == (DEVICE_FAMILY,):
        if count < LEAST_DEVICES:
            return {}
        return {STRANGER: partial(calibrated, predicted=_of_two_families(dataset, predicted))}
    work: dict[str, Callable[[Dataset], Any]] = {}
    elsewhere = pd.Series(folds).groupby(families).transform("nunique").to_numpy() > 1
    if len(pd.unique(dataset.groups[elsewhere])) >= LEAST_DEVICES:
        work[SIBLING] = partial(calibrated, predicted=np.where(elsewhere, predicted, np.nan))
    hosts = replace(dataset, group_by=(DEVICE_FAMILY,)).host_groups
    if count >= LEAST_DEVICES and hub_of(families.astype(str), hosts) is None:
        work[STRANGER] = partial(_without_families, model=model, families=families, seed=seed)
    return work


def _without_families(
    dataset: Dataset, model: Candidate, families: NDArray[np.object_], seed: int
) -> tuple[Spread, dict[str, Any]]:
    """Return what `_calibrated` does of families left out."""
    apart = replace(dataset, groups=families, group_by=(DEVICE_FAMILY,))
    result = cross_validate(apart, [model], schemes=("grouped",), folds=10, seed=seed)["grouped"]
    predicted = _of_two_families(dataset, result.predictions[model.name].to_numpy())
    return _calibrated(apart, model, "grouped", predicted=predicted, folds=result.folds)


def _of_two_families(dataset: Dataset, predicted: FloatArray) -> FloatArray:
    """Return predictions of families left out, NaN where the host was left out too: a stranger's host is known."""
    if HOST_DEVICE not in dataset.rows:
        return predicted
    of_hosts = groups_of(on_hosts(dataset.rows), (DEVICE_FAMILY,))
    of_targets = groups_of(dataset.rows, (DEVICE_FAMILY,))
    return np.where(of_hosts == of_targets, np.nan, predicted)


def _calibrated(
    dataset: Dataset,
    model: Candidate,
    scheme: str,
    *,
    predicted: FloatArray,
    folds: IntArray,
    within: BoolArray | None = None,
    learnt: tuple[Learnt | None, Strata | None] | None = None,
) -> tuple[Spread, dict[str, Any]]:
    """Return the intervals of a scheme, their coverage, and the groups with the lowest coverage.

    They are calibrated on the rows ``within`` the trained range (`_within`), by default on all that
    were predicted; of more than `LEARNT` so many are drawn at random. ``learnt`` is how difficult
    those are, and the strata of known groups, where that is worked out already.
    """
    if within is None:
        within = ~np.isnan(predicted)
    rows = drawn(within, LEARNT)
    y = dataset.y[rows]
    seen = predicted[rows]
    groups = dataset.groups[rows].astype(str)
    alike = _alike(dataset, rows, scheme)
    devices = _devices(dataset, rows, scheme)
    with one_thread():  # many small products: threads would wait for each other
        if learnt is None:
            hard = learn_difficulty(dataset.X, y, seen, alike, scheme, rows=rows, devices=devices)
            strata = None
        else:
            hard, strata = learnt
        trained_rows = None
        unknown = 1.0
        if strata is not None:
            unknown = strata.unknown
            trained_rows = rows_in_other_folds(dataset.groups, folds)[rows]
        lower, upper = held_out_limits(
            dataset.X,
            y,
            seen,
            alike,
            folds[rows],
            LEVEL,
            scheme,
            rows=rows,
            devices=devices,
            trained_rows=trained_rows,
            unknown=unknown,
        )
    difficulty = None
    scale = np.ones(len(y))
    if hard is not None:
        difficulty = hard.difficulty
        scale = hard.scale
    if strata is not None and trained_rows is not None:
        scale = scale * strata.scale(trained_rows)
    inside = pd.Series((lower <= y) & (y <= upper)).groupby(groups).agg(["size", "mean"])
    worst = inside[inside["size"] >= NAMED].sort_values(
        ["mean", "size"], ascending=[True, False], kind="stable"
    )
    named = []
    for group, size, mean in worst.head(WORST).itertuples():
        named.append({"group": str(group), "rows": int(size), "coverage": float(mean)})
    held = {
        "model": model.name,
        **covered(y, seen, groups, lower, upper)._asdict(),
        "rows": len(y),
        "rows_beyond": int((~np.isnan(predicted)).sum() - within.sum()),
        "worst_groups": named,
    }
    intervals = ConformalIntervals(scheme).fit(y, seen, groups, scale=scale)
    return Spread(intervals, difficulty, strata), held


def _alike(dataset: Dataset, rows: BoolArray, scheme: str) -> NDArray[Any]:
    """Return the groups of rows that err together, for the difficulty of each row.

    Where these are devices, shuffled rows are told apart by what the operator says: a few devices
    tell nothing.
    """
    if scheme == "grouped" or dataset.group_by not in BY_DEVICE:
        return dataset.groups[rows].astype(str)
    return groups_of(dataset.rows[rows]).astype(str)


def _devices(dataset: Dataset, rows: BoolArray, scheme: str) -> NDArray[Any] | None:
    """Return the device of each of the rows, where they are of many and all of these are trained: some are harder."""
    if not dataset.comparison.is_many:
        return None
    if scheme == "grouped" and set(dataset.group_by or ()) & {"device", DEVICE_FAMILY}:
        return None
    return dataset.rows["device"].to_numpy(dtype=str)[rows]


def _within(dataset: Dataset, predicted: FloatArray, folds: IntArray, scheme: str) -> BoolArray:
    """Return which rows were predicted out of fold in the range of the rows of other folds, (n,).

    The others were asked for as what lies beyond the range, which has separate intervals
    (`extrapolation`). Where too few are within (`ENOUGH`), all rows count that were predicted.
    """
    seen = ~np.isnan(predicted)
    within = seen & in_range_of_others(dataset.X, folds)
    enough = _units(dataset.groups[within], scheme) >= ENOUGH[scheme]
    if enough and len(np.unique(folds[within])) > 2:
        return within
    return seen


def _rankers(competition: Competition, best: Candidate) -> list[Candidate]:
    """Return who ranks the features beside the best model: the forest, and the best model that selects by tests."""
    errors = {}
    for row in competition.evaluation[competition.scheme].rows:
        if row["error"] is None:
            errors[row["name"]] = (row["left"] is not None, row["e_out"])
    ran = [model for model in competition.models if model.name in errors]
    rankers = [model for model in ran if model.is_forest and model is not best]
    tested = [model for model in ran if model.selects_features and model.tests_features]
    if tested and best not in tested:
        rankers.append(min(tested, key=lambda model: errors[model.name]))
    return rankers


def _ranked(dataset: Dataset, model: Candidate, scheme: str, seed: int) -> list[dict[str, Any]]:
    """Return the ranking by a model beside the best, a forest's by the decrease of its RSS too."""
    features = [name for name in dataset.X if not str(name).startswith(BASELINE_INPUT)]
    dataset = replace(dataset, X=dataset.X[features])
    table = []
    if model.is_forest:
        table += ranking_by_rss(fit_all(dataset, model, scheme), model)
    return [*table, *ranking(dataset, model, scheme, seed)]


def _baselines(dataset: Dataset) -> dict[str, Any]:
    """Return the constant ratio and the line of all rows, and the figure that they scale."""
    reference = law_table(dataset)[[REFERENCE]]
    ratio = ConstantRatio(REFERENCE).fit(reference, dataset.y)
    line = Affine(REFERENCE).fit(reference, dataset.y)
    return {
        "reference": str(dataset.reference.name),
        "constant ratio": {"ratio": float(ratio.ratio_)},
        "affine": {"intercept": float(line.intercept_), "ratio": float(line.ratio_)},
    }
