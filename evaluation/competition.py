"""The competition: baselines and models on the same folds, the winner of each scheme and its honest error.

Beside it `by_trees` says how many trees a forest needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor

from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import FlopcastError, ParameterError, TooFewRowsError, counted, few
from ..features.catalogue import BASELINE_INPUT
from ..features.matrix import Dataset
from ..laws.rates import HOST_DEVICE
from ..models.base import Candidate, Memo, PositiveRegressor, fit
from ..models.learners import Forest
from ..models.prior import PRIOR
from ..models.suite import (
    FEW_ROWS,
    LEARNT,
    QUICK,
    Columnar,
    baselines,
    check_names,
    contenders,
    default_of,
    names_of,
    of_prior,
    suite,
)
from ..operators.operators import DIMENSIONS
from ..remarks import Remark, joined, remark
from ..table.measurements import DTYPE_COLUMNS, quantity
from ..workers import one_thread, workers
from .campaigns import LEAST_LEFT_OUT, Campaigns
from .crossval import Evaluation, Observer, SchemeResult, cross_validate
from .domain import in_range_of_others
from .folds import (
    NEW_CAMPAIGN,
    SCHEMES,
    LearningData,
    PairedAndUnpaired,
    TrainingRows,
    drawn,
    hosts_of,
    repeats_of,
    rows_in_other_folds,
)
from .intervals import log_ratio
from .metrics import ape, by_group
from .observers.budget import SPENT
from .observers.early_stopping import EarlyStopping
from .selection import CRITERIA, hopeless, select
from .stated_error import parts_of_new, parts_of_trained
from .unstated_families import unstated_families

ENOUGH: Final = 5  # groups that are worth folds
FOLDS: Final = ((50_000, 3),)
"""Rows beyond which fewer folds than ten do: each error is then the mean over so many that the
folds cost more than they tell. Of 71 484 pairs five folds said 5.56 and 5.87 %, three 5.64 and 5.93
%."""
REFERENCE = "reference"  # column that the fitted baselines scale: `Dataset.reference`


@dataclass(frozen=True)
class NewCampaign:
    """What the model for new groups errs by in campaigns left out whole, beside its rivals.

    Attributes
    ----------
    result : SchemeResult
        Of the baselines and of the models that may be saved for new groups.
    selected : dict
        The entry of `select` of the model that is saved for new groups: what it errs by in a new
        campaign, with the interval over campaigns.
    """

    result: SchemeResult
    selected: dict[str, Any]


@dataclass(frozen=True)
class Competition:
    """Every candidate's out-of-fold predictions, and the choice among them."""

    evaluation: Evaluation  # baselines first, then the models
    baselines: tuple[Candidate, ...]
    models: tuple[Candidate, ...]
    # the winner of each scheme, as ``metrics.json`` has it (`select`); a baseline's ``best_model``
    # is that of models
    selected: dict[str, dict[str, Any]]
    scheme: str  # under which the saved model is chosen
    # ``few-groups`` (there are no folds by group), ``quick`` and ``baseline-wins``
    notes: tuple[Remark, ...]
    # the baselines as models to save, by name: of a feature, or of a column `BASELINE_INPUT`
    laws: Mapping[str, Candidate]
    campaigns: Campaigns | None = None  # of the groups; None where these are in no families
    new_campaign: NewCampaign | None = None

    def best_model(self, scheme: str) -> Candidate:
        """Return the selected simple rule or model.

        Raises FlopcastError: no model ran.
        """
        entry = self.selected[scheme]
        best = entry.get("best_model") or entry
        for model in self.models:
            if model.name == best["name"]:
                return self.laws.get(entry["name"], model)
        result = self.evaluation[scheme]
        spent = result.left(SPENT)
        names_of = dict[str, list[str]]()
        for name, why in {**result.errors, **spent}.items():
            names_of.setdefault(str(why), []).append(name)
        reasons = []
        for why, names in names_of.items():
            reasons.append(f"{why} ({few(names)})")
        remedy = "choose other models"
        if spent:
            remedy = "allow a larger budget, or fit fewer models (quick, models)"
        what = f"no model ran (scheme {scheme}), so nothing can be saved: {'; '.join(reasons[:3])}"
        if len(reasons) > 3:
            what += f"; and {counted(len(reasons) - 3, 'more reason')}"
        raise FlopcastError(f"{what}; {remedy}")

    def summary(self) -> list[dict[str, Any]]:
        """Return the list ``cv`` of ``metrics.json``."""
        count = len(self.baselines)
        return [
            {
                "scheme": scheme,
                "folds": len(np.unique(result.folds)),
                "baselines": result.rows[:count],
                "models": result.rows[count:],
                "selected": self.selected[scheme],
            }
            for scheme, result in self.evaluation.schemes.items()
        ]

    def table(self, dataset: Dataset) -> pd.DataFrame:
        """Return one row per workload, scheme, and baseline or model: observed, predicted out of fold, APE, fold.

        Of many targets each row names its ``host`` and ``target``. Of a model that left early there
        are the rows of the folds before. Texts are categories: each is held once.
        """
        # made before the numbers take their memory
        texts = {"group": pd.Categorical(dataset.groups)}
        if HOST_DEVICE in dataset.rows:
            texts["host"] = pd.Categorical(dataset.rows[HOST_DEVICE])
            texts["target"] = pd.Categorical(dataset.rows["device"])
        if "source" in dataset.rows:
            texts["source"] = pd.Categorical(dataset.rows["source"])
        schemes: list[str] = []
        models: list[str] = []
        rows: list[NDArray[np.intp]] = []
        predicted: list[FloatArray] = []
        folds: list[IntArray] = []
        for scheme, result in self.evaluation.schemes.items():
            for table in (result.predictions, result.partial):
                for model in table:
                    values = table[model].to_numpy()
                    asked = np.flatnonzero(np.isfinite(values))
                    schemes.append(scheme)
                    models.append(str(model))
                    rows.append(asked)
                    predicted.append(values[asked])
                    folds.append(result.folds[asked])
        at = np.concatenate(rows)
        sizes = [len(asked) for asked in rows]
        columns: dict[str, Any] = {
            "row": at,
            "scheme": _repeated(schemes, sizes),
            "model": _repeated(models, sizes),
            "observed": dataset.y[at],
            "predicted": np.concatenate(predicted),
        }
        columns["ape"] = ape(columns["observed"], columns["predicted"])
        columns["fold"] = np.concatenate(folds)
        for name, words in texts.items():
            columns[name] = words[at]
        return pd.DataFrame(columns, copy=False)

    def by_group(self, dataset: Dataset, name: str) -> list[dict[str, Any]]:
        """Return rows and E_out per group of `scheme`, the worst first: of a model, of the first baseline, of the best.

        The best baseline, named by ``rule``, is the simple rule that errs least over all rows of
        the scheme.
        """
        predictions = self.evaluation[self.scheme].predictions
        table = by_group(dataset.y, predictions[name], dataset.groups)[["group", "rows", "e_out"]]
        table = table.rename(columns={"rows": "n"})
        errors = {}
        for baseline in self.baselines:
            if baseline.name in predictions:
                predicted = predictions[baseline.name].to_numpy()
                errors[baseline.name] = float(np.mean(ape(dataset.y, predicted)))
        if errors:
            first = next(iter(errors))
            best = min(errors, key=errors.__getitem__)
            for column, rule in (("baseline_e_out", first), ("rule_e_out", best)):
                rows = by_group(dataset.y, predictions[rule], dataset.groups)
                table[column] = table["group"].map(rows.set_index("group")["e_out"])
            table["rule"] = best
        if self.campaigns is not None:
            table["campaign"] = self.campaigns.labels(table["group"])
        return _records(table)

    def by_pair(self, dataset: Dataset, name: str) -> list[dict[str, Any]]:
        """Return rows and E_out of a model per host and target, the worst first; none unless there are many targets."""
        if HOST_DEVICE not in dataset.rows:
            return []
        errors = ape(dataset.y, self.evaluation[self.scheme].predictions[name].to_numpy())
        pairs = pd.DataFrame(
            {"host": dataset.rows[HOST_DEVICE], "target": dataset.rows["device"], "e_out": errors}
        )
        table = pairs.groupby(["host", "target"], as_index=False).agg(
            n=("e_out", "size"), e_out=("e_out", "mean")
        )
        return _records(table.sort_values("e_out", ascending=False, kind="stable"))


def _repeated(names: list[str], times: list[int]) -> pd.Categorical:
    """Return a column that holds each name so many times."""
    words: Any = pd.Categorical(names)
    return pd.Categorical.from_codes(np.repeat(words.codes, times), dtype=words.dtype)


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    records = []
    for row in table.to_dict("records"):
        records.append({str(key): value for key, value in row.items()})
    return records


def compete(
    dataset: Dataset,
    kind: str = "default",
    *,
    models: Sequence[str] | None = None,
    without: Sequence[str] = (),
    quick: bool = False,
    seed: int = 0,
    observers: Sequence[Observer] = (),
    by_candidate: bool = False,
    scheme: str = "grouped",
    alone: bool = False,
    criterion: str = "e_out",
    more: Sequence[Candidate] = (),
) -> Competition:
    """Cross-validate baselines and suite, and select: on ten folds, of many rows on fewer (`FOLDS`).

    Of the default suite, expensive models that cannot win any more are stopped after the first
    folds, clear losers sooner (`selection.hopeless`, `observers.early_stopping`), unless models are
    worked through ``by_candidate``; all others, and the literature's suite, see all folds.

    Models are told the groups under the grouped scheme only, where their inner folds must leave
    groups out as the outer ones do; under shuffled folds inner folds are shuffled too.

    ``kind``, ``models`` and ``without`` are those of `models.suite.suite`; ``seed``, ``observers``
    and ``by_candidate`` those of `crossval.cross_validate`. With ``quick`` only the models
    `models.suite.QUICK` run, and the notes say so. The saved model is chosen under ``scheme``, or
    ``kfold`` where there are fewer than three groups; ``alone`` leaves the other scheme out;
    ``criterion`` is what models are chosen by (`selection.CRITERIA`). ``more`` are the user's
    models, beside the suite's, or alone where ``models`` is empty. Raises FlopcastError: for a
    scheme, suite or model that does not exist, too few rows, and where nothing ran.
    """
    if scheme not in SCHEMES:
        raise ParameterError("scheme", f"must be {' or '.join(SCHEMES)}, got {scheme!r}")
    if criterion not in CRITERIA:
        raise ParameterError("select", f"must be one of {', '.join(CRITERIA)}, got {criterion!r}")
    quick_models: tuple[str, ...] = ()
    if quick:
        quick_models = QUICK
        if PRIOR in dataset.X:
            quick_models += of_prior(len(dataset))
        models = quick_models
    contestants = []
    if models is None or models or not more:
        contestants = suite(kind, columnar(dataset), seed, models, without)
    laws = law_table(dataset)
    analytic = baselines([name for name in laws.columns if name != REFERENCE], REFERENCE)
    if more:
        check_names(more, [candidate.name for candidate in (*analytic, *contestants)])
    contestants = [*contestants, *more]
    schemes, notes = usable_schemes(dataset)
    if alone and scheme in schemes:
        schemes = (scheme,)
    if quick:
        notes.append(_quick(quick_models, names_of(kind, columnar(dataset))))
    elif models is None and kind == "default" and len(dataset) <= FEW_ROWS:
        notes.append(_few_rows(len(dataset), len(contestants)))
    folds = _folds(dataset)
    notes += _sampled((*analytic, *contestants), len(dataset), folds["kfold"])
    if np.ptp(dataset.y) == 0.0:
        text = (
            "every row has the same measured value: errors of 0 % and intervals without width say no "
            "more than that"
        )
        notes.append(remark("never-varies", text, value=float(dataset.y[0])))
    settings: dict[str, Any] = {
        "schemes": schemes,
        "folds": folds,
        "seed": seed,
        "tell_groups": ("grouped",),
    }
    with workers(1):  # laws are computed in less time than processes take to start
        of_laws = cross_validate(replace(dataset, X=laws, unpaired=None), analytic, **settings)
    preference = None
    if kind == "default":
        preference = by_preference(contestants)
    chosen_by: dict[str, Any] = {"preference": preference, "criterion": criterion, "seed": seed}
    repeats = repeats_of(dataset)

    def cannot_win(
        scheme: str, rows: np.ndarray, predictions: pd.DataFrame, margin: float
    ) -> list[str]:
        problems = None
        if repeats is not None:
            problems = repeats.paired[rows]
        return hopeless(
            dataset.y[rows],
            predictions,
            dataset.groups[rows],
            problems=problems,
            scheme=scheme,
            margin=margin,
            **chosen_by,
        )

    expensive = any(candidate.expensive for candidate in contestants)
    if kind == "default" and expensive and not by_candidate:
        observers = [EarlyStopping(cannot_win), *observers]
    of_models = cross_validate(
        dataset, contestants, **settings, observers=observers, by_candidate=by_candidate
    )
    for result in of_laws.schemes.values():
        for row in result.rows:
            row["features_available"] = dataset.X.shape[1]
            if row["error"] is not None:
                row["error"] = dataset.report.get("laws", {}).get(row["name"]) or row["error"]
    evaluation = _merged(of_laws, of_models)
    families = families_of(dataset)
    selected = {}
    for each_scheme, result in evaluation.schemes.items():
        may_be_chosen = None
        if kind == "default":
            may_be_chosen = contenders(each_scheme, contestants)
        campaigns = None
        if each_scheme == "grouped" and families is not None and families.campaigns.enough:
            campaigns = families.of_rows.paired
        fold_count = None
        if each_scheme == "kfold":
            fold_count = len(np.unique(result.folds))
        selected[each_scheme] = _selected(
            evaluation,
            each_scheme,
            [candidate.name for candidate in analytic],
            may_be_chosen,
            campaigns,
            {
                **chosen_by,
                "parts": _parts(dataset, result.folds, each_scheme),
                "folds": fold_count,
            },
        )
        left_out = tuple(result.left(SPENT))
        if left_out:
            selected[each_scheme]["left_out"] = list(left_out)
            notes.append(_left_out(each_scheme, left_out))
        if selected[each_scheme]["baseline"]:
            notes.append(_baseline_wins(each_scheme, selected[each_scheme]["name"], left_out))
    if scheme not in schemes:
        scheme = schemes[0]
    competition = Competition(
        evaluation,
        tuple(analytic),
        tuple(contestants),
        selected,
        scheme,
        tuple(notes),
        _laws_to_save(dataset, laws, analytic),
    )
    if families is None and "grouped" in evaluation.schemes and not dataset.comparison.is_many:
        best = selected["grouped"]["name"]
        predicted = evaluation["grouped"].predictions[best].to_numpy()
        errors = log_ratio(dataset.y, predicted)
        read = {str(name).partition("=")[0] for name in dataset.X if "=" in str(name)}
        trace = unstated_families(dataset.rows, dataset.groups, errors, read=read, seed=seed)
        if trace is not None:
            competition = replace(competition, notes=(*notes, trace))
    if families is None or "grouped" not in evaluation.schemes:
        return competition
    if not families.campaigns.enough:
        notes.append(families.campaigns.remark)
    new_campaign = None
    if len(families.campaigns.names) >= LEAST_LEFT_OUT:
        to_the_end = [each for each in observers if not isinstance(each, EarlyStopping)]
        new_campaign = _of_new_campaigns(
            dataset, competition, families.of_rows, seed=seed, observers=to_the_end
        )
    return replace(
        competition,
        notes=tuple(notes),
        campaigns=families.campaigns,
        new_campaign=new_campaign,
    )


def _folds(dataset: Dataset) -> dict[str, int]:
    """Return the number of folds under each scheme; a DataError if there are fewer rows than that."""
    rows = len(dataset)
    shuffled = 10
    for more_than, fewer in FOLDS:
        if rows > more_than:
            shuffled = fewer
    why_so_few = joined(dataset.report.get("remarks", ()))
    if rows < shuffled and why_so_few:
        raise TooFewRowsError(
            f"{shuffled}-fold cross-validation needs at least {shuffled} rows, there are {rows}: "
            f"{why_so_few}"
        )
    by_group = shuffled
    if len(pd.unique(dataset.groups)) <= 10:
        by_group = 10  # each group is left out by itself
    return {"kfold": shuffled, "grouped": by_group}


def _quick(ran: tuple[str, ...], names: Sequence[str]) -> Remark:
    left_out = tuple(name for name in names if name not in ran)
    text = f"a quick answer: only {', '.join(ran)} ran, {len(left_out)} models were left out"
    return remark("quick", text, ran=ran, left_out=left_out)


def _laws_to_save(
    dataset: Dataset, laws: pd.DataFrame, analytic: Sequence[Candidate]
) -> dict[str, Candidate]:
    """Return the baselines that read a feature where one has their values, else a column `BASELINE_INPUT`."""
    saved = {}
    for candidate in analytic:
        name = candidate.estimator.get_params()["column"]
        column = _same_column(dataset.X, laws[name])
        if column is None and name == REFERENCE:
            column = f"{BASELINE_INPUT}{dataset.reference.name}"
        elif column is None:
            column = f"{BASELINE_INPUT}{name}"
        estimator = clone(candidate.estimator).set_params(column=column)
        saved[candidate.name] = replace(candidate, estimator=estimator)
    return saved


def _parts(dataset: Dataset, folds: IntArray, scheme: str) -> dict[str, BoolArray]:
    """Return which rows tell the error of each kind of row that a scheme's model answers."""
    within = in_range_of_others(dataset.X, folds)
    if scheme == "kfold":
        return parts_of_trained(rows_in_other_folds(dataset.groups, folds), within)
    return parts_of_new(dataset.groups.astype(str), within)


class Families(NamedTuple):
    """The campaigns of a data set's groups, and that of each row's."""

    campaigns: Campaigns
    of_rows: PairedAndUnpaired


def families_of(dataset: Dataset) -> Families | None:
    """Return the campaigns that the groups of a data set come in; None where they do not, and of many devices."""
    if dataset.comparison.is_many:
        return None
    families = Campaigns.of_data(dataset)
    if families is None:
        return None
    return Families(*families)


def _of_new_campaigns(
    dataset: Dataset,
    competition: Competition,
    origins: PairedAndUnpaired,
    *,
    seed: int,
    observers: Sequence[Observer],
) -> NewCampaign | None:
    """Leave out each campaign; return the errors there of the model for new groups and of its rivals.

    Its rivals are the baselines and the other models that may be saved. None where the model did
    not run.
    """
    answering = competition.selected["grouped"]["name"]
    names = contenders("grouped", competition.models) or [answering]
    settings: dict[str, Any] = {
        "schemes": (NEW_CAMPAIGN,),
        "seed": seed,
        "tell_groups": ("grouped", NEW_CAMPAIGN),
        "origins": origins,
    }
    laws = replace(dataset, X=law_table(dataset), unpaired=None)
    with workers(1):
        of_laws = cross_validate(laws, competition.baselines, **settings)
    fitted = [model for model in competition.models if model.name in {*names, answering}]
    of_models = cross_validate(dataset, fitted, **settings, observers=observers)
    result = _merged(of_laws, of_models)[NEW_CAMPAIGN]
    if answering not in result.predictions:
        return None
    selected = select(
        dataset.y,
        result.predictions,
        dataset.groups,
        scheme="grouped",
        contenders=[answering],
        campaigns=origins.paired,
        seed=seed,
    )
    return NewCampaign(result, selected)


def _few_rows(rows: int, models: int) -> Remark:
    text = (
        f"{counted(rows, 'row')} are too few to tell {models} models apart: quick fits two of them "
        "in a fraction of the time, and often errs as little"
    )
    return remark("few-rows", text, rows=rows, models=models)


def _left_out(scheme: str, names: tuple[str, ...]) -> Remark:
    text = f"the budget was spent before these were tried (scheme {scheme}): {', '.join(names)}"
    return remark("left-out-by-budget", text, scheme=scheme, models=names)


def _baseline_wins(scheme: str, baseline: str, left_out: tuple[str, ...]) -> Remark:
    which = "no model"
    if left_out:
        which = "of the models that ran none"
    text = f"{which} is shown to err less than the simple rule {baseline!r} (scheme {scheme})"
    return remark("baseline-wins", text, scheme=scheme, baseline=baseline, left_out=left_out)


def _sampled(candidates: Sequence[Candidate], rows: int, folds: int) -> list[Remark]:
    """Return a remark where candidates, or intervals, learn from fewer than all of the ``rows`` that they might."""
    by_most: dict[int, list[str]] = {}
    for candidate in candidates:
        most_rows = candidate.most_rows
        if most_rows is not None and most_rows < rows - rows // folds:
            by_most.setdefault(most_rows, []).append(candidate.name)
    if rows > LEARNT:
        by_most.setdefault(LEARNT, []).append("intervals")
    parts = [f"{', '.join(names)} from {limit:,}" for limit, names in sorted(by_most.items())]
    text = f"learnt from so many rows at most, drawn at random: {'; '.join(parts)}"
    limits = tuple((name, limit) for limit, names in by_most.items() for name in names)
    if parts:
        return [remark("rows-drawn", text, most=limits)]
    return []


def _same_column(X: pd.DataFrame, values: pd.Series) -> str | None:
    """Return the feature that holds these values; None where none does."""
    wanted = values.to_numpy(dtype=np.float64)
    for name in X:
        if np.allclose(X[name].to_numpy(), wanted, rtol=1e-9, atol=0):
            return str(name)
    return None


def with_rule(dataset: Dataset, best: Candidate) -> Dataset:
    """Return the data set with the column that a simple rule reads, where the features do not have it."""
    column = best.estimator.get_params().get("column")
    if not str(column).startswith(BASELINE_INPUT):
        return dataset
    values = dataset.laws.get(column.removeprefix(BASELINE_INPUT), dataset.reference)
    X = dataset.X.assign(**{column: values.to_numpy(dtype=np.float64)})
    return replace(dataset, X=X, recipe=dataset.recipe.with_rule(column))


def by_preference(candidates: Sequence[Candidate]) -> list[str]:
    """Return the names of the candidates that have a preference, the most cautious first."""
    liked = [
        (candidate.preference, candidate.name)
        for candidate in candidates
        if candidate.preference is not None
    ]
    return [name for _, name in sorted(liked)]


def _selected(
    evaluation: Evaluation,
    scheme: str,
    baselines: Sequence[str],
    may_be_chosen: Collection[str] | None,
    campaigns: NDArray | None,
    chosen_by: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the winner of a scheme and, where an analytic baseline is, the best of the models beside it."""
    predictions = evaluation[scheme].predictions

    def chosen(among: pd.DataFrame) -> dict[str, Any]:
        return select(
            evaluation.observed,
            among,
            evaluation.groups,
            scheme=scheme,
            baselines=baselines,
            default=default_of(scheme, [str(name) for name in among]),
            contenders=may_be_chosen,
            partial=evaluation[scheme].partial,
            problems=evaluation.problems,
            campaigns=campaigns,
            **chosen_by,
        )

    winner = chosen(predictions)
    models = predictions.drop(columns=list(baselines), errors="ignore")
    if winner["baseline"] and models.shape[1]:
        return {**winner, "best_model": chosen(models)}
    return winner


def columnar(dataset: Dataset) -> Columnar:
    """Return the facts on a data set's matrix that the suite needs."""
    extra = dataset.unpaired
    if extra is None:
        shape_columns = dataset.X.columns
    else:
        shape_columns = extra.X.columns[extra.X.notna().all()]
    if dataset.metric == "duration_us":
        time = "host_us"
    else:
        time = f"host_{dataset.metric}"
    measured = quantity(dataset.metric)
    return Columnar(
        roles=dataset.recipe.roles,
        shape_columns=tuple(map(str, shape_columns)),
        n_rows=len(dataset),
        host=dataset.host is not None and time in dataset.X,
        unpaired=extra is not None,
        host_time=time,
        noun=measured.noun or dataset.metric,
        grows=measured.grows,
        devices=dataset.comparison.is_many and "compute.target_us" in dataset.X,
    )


def law_table(dataset: Dataset) -> pd.DataFrame:
    """Return the analytic laws' predictions and the column ``reference``, which the fitted baselines scale."""
    return dataset.laws.reset_index(drop=True).assign(**{REFERENCE: dataset.reference})


def fit_all(
    dataset: LearningData,
    candidate: Candidate,
    scheme: str,
    rows: BoolArray | slice = slice(None),
    unpaired: BoolArray | slice = slice(None),
) -> Any:
    """Return the candidate fitted to all rows, or some, as under ``scheme``: told what is left out together there.

    ``rows`` and ``unpaired`` say which of the paired and the unpaired rows; of the former so many
    are drawn as the candidate learns from at most.
    """
    paired = np.zeros(len(dataset.y), dtype=bool)
    paired[rows] = True
    others = None
    if candidate.uses_unpaired and dataset.unpaired is not None:
        others = np.zeros(len(dataset.unpaired.y), dtype=bool)
        others[unpaired] = True
    training_rows = TrainingRows.of(dataset, {}, frozenset({"grouped"}), repeats_of(dataset))
    learning = training_rows.learning_rows(scheme, drawn(paired, candidate.most_rows), others)
    with one_thread():
        return fit(
            clone(candidate.estimator),
            learning.X,
            learning.y,
            learning.groups,
            campaigns=learning.campaigns,
        )


def _alone_in_their_groups(groups: NDArray) -> list[Remark]:
    """Return a remark where most rows are alone in their group: left out, they are rows of new groups."""
    sizes = pd.Series(groups).value_counts()
    alone = int((sizes == 1).sum())
    if 2 * alone <= len(groups):
        return []
    text = (
        f"{alone} of {counted(len(groups), 'row')} are alone in their group, so leaving out rows "
        "leaves out groups: what is stated of known groups is the error of new ones"
    )
    return [remark("rows-alone", text, rows=len(groups), alone=alone)]


LEAST_LEFT: Final = 30
"""Rows that every fold by group must leave to learn from, where rows have hosts."""


def usable_schemes(dataset: LearningData) -> tuple[tuple[str, ...], list[Remark]]:
    """Return the schemes that the number of groups allows, and a remark where one is left out."""
    count = len(pd.unique(dataset.groups))
    hub = hub_of(dataset.groups.astype(str), hosts_of(dataset))
    if count >= 3 and hub is None:
        return tuple(SCHEMES), _alone_in_their_groups(dataset.groups)
    if hub is None:
        only = f"{counted(count, 'group')} only"
    else:
        only = f"without {hub} hardly a pair is left"
    others_named = tuple(_columns_of_groups(dataset.rows, dataset.unpaired))
    if others_named:
        others = f"other columns, such as {', '.join(others_named[:3])}"
    else:
        others = "other columns"
    text = f"{only}: no folds by group, so the error on new groups is unknown; group by {others}"
    return ("kfold",), [remark("few-groups", text, groups=count, columns=others_named)]


def hub_of(groups: np.ndarray, hosts: np.ndarray | None) -> str | None:
    """Return a group without which, as target and host, fewer than `LEAST_LEFT` rows are left to learn from."""
    if hosts is None:
        return None
    other_hosts = pd.Series(hosts)[hosts != groups]
    rows_lost = pd.concat([pd.Series(groups), other_hosts]).value_counts()
    if len(groups) - rows_lost.iloc[0] < LEAST_LEFT:
        return str(rows_lost.index[0])
    return None


def _columns_of_groups(rows: pd.DataFrame, unpaired: LearningData | None) -> list[str]:
    """Return the columns that would make `ENOUGH` groups or more, each of two rows or more on average."""
    words = ("op", *DTYPE_COLUMNS, "family", "variant", "scale_block")
    if unpaired is None:
        tables = [rows]
    else:
        tables = [rows, unpaired.rows]
    columns = []
    for name in (*DIMENSIONS, *words):
        filled = [name in table and table[name].notna().all() for table in tables]
        if not all(filled) or any(table[name].eq("").any() for table in tables):
            continue
        if ENOUGH <= rows[name].nunique() <= len(rows) / 2:
            columns.append(name)
    return columns


def _merged(first: Evaluation, second: Evaluation) -> Evaluation:
    """Return one evaluation with the candidates of both."""
    schemes = {
        scheme: SchemeResult(
            scheme,
            result.folds,
            pd.concat([result.predictions, second[scheme].predictions], axis=1),
            [*result.rows, *second[scheme].rows],
            second[scheme].partial,
        )
        for scheme, result in first.schemes.items()
    }
    return Evaluation(
        first.observed, first.groups, (*first.names, *second.names), schemes, first.problems
    )


SIZES: Final = tuple(2**power for power in range(1, 11))  # numbers of trees


class FirstTrees(PositiveRegressor):
    """The first ``trees`` of so many ``grown`` on the logarithm of y, all of which a memo keeps for the other sizes."""

    def __init__(self, trees: int, grown: int, random_state: int = 0) -> None:
        self.trees = trees
        self.grown = grown
        self.random_state = random_state

    def fit(self, X: Any, y: Any, memo: Memo | None = None) -> Self:
        """Grow the forest on X of shape (n, p) and positive y of shape (n,), or take it from the memo."""
        rows = (np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64))
        forest = RandomForestRegressor(
            self.grown, max_features=Forest().max_features, random_state=self.random_state, n_jobs=1
        )
        self.forest_ = (memo or Memo()).of(
            "first trees", rows, lambda: forest.fit(rows[0], np.log(rows[1]))
        )
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the exponential of the mean over the trees, shape (n,)."""
        rows = np.asarray(X, dtype=np.float32)
        logs = [tree.tree_.predict(rows)[:, 0] for tree in self.forest_.estimators_[: self.trees]]
        return np.exp(np.mean(logs, axis=0))


def by_trees(
    dataset: LearningData,
    *,
    seed: int = 0,
    observers: Sequence[Observer] = (),
) -> dict[str, list[dict[str, Any]]]:
    """Return, per scheme, the row of each size as tables of models have it (``e_out``, ``ir``, ...), with ``trees``.

    Up to 2048 rows 1024 trees are grown, of more rows fewer, as `models.learners.Forest` does.
    """
    largest = Forest().max_work or max(SIZES)
    sizes = [size for size in SIZES if size * len(dataset.y) <= max(largest, 2 * len(dataset.y))]
    candidates = [
        Candidate(str(size), FirstTrees(size, sizes[-1], seed), "log time", family="first trees")
        for size in sizes
    ]
    schemes = usable_schemes(dataset)[0]
    evaluation = cross_validate(
        dataset, candidates, schemes=schemes, seed=seed, observers=observers
    )
    trials: dict[str, list[dict[str, Any]]] = {}
    for scheme, result in evaluation.schemes.items():
        trials[scheme] = []
        for row in result.rows:
            errors = {key: row[key] for key in ("e_out", "e_in", "ir")}
            trials[scheme].append({"trees": int(row["name"])} | errors)
    return trials
