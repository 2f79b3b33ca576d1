"""The suite: which models compete, under which names, in which order, and models that a user brings.

Any scikit-learn regressor of the user competes beside the suite, as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, Final, Literal, TypeAlias

from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.pipeline import make_pipeline

from .. import values
from ..errors import ArtifactError, DataError, ParameterError, nearest, one_line
from ..remarks import Remark, remark
from . import persistence
from .base import Candidate
from .baselines import AdditiveTime, Affine, AnalyticLaw, ConstantRatio
from .ensembles import (
    HOST_CAMPAIGN,
    SHAPE_TIME,
    CrossFitted,
    GeometricStack,
    LogResidual,
    PrecisionTransfer,
    Transfer,
)
from .learners import MLP, Boosted, Forest
from .linear.least_squares import NNLS, OLS
from .linear.regularised import ElasticNet, Lasso
from .linear.rfecv import RFECV
from .linear.stepwise import Stepwise
from .prior import PRIOR, VARIES, Corrected, Pooled, Smooth
from .target_space import Columns, LogTarget, RelativeError

SUITES = ("default", "literature")
QUICK = ("Additive", "BoostedTrees/Residual")  # of the default suite, what gives an answer at once
NEW_GROUPS = ("Mean/Transfer", "BoostedTrees/Residual")
"""The default for new groups is the first of these that runs: where groups are few, a search among
all models costs more than it finds. On the 429 embedded pairs alone, of 16 groups, it errs by 10.5 %,
all of 26 models contending by 11.3; with the rows without a partner by 7.9 %."""
POOLED = "Pooled/Prior"
"""What is taken of a prior and few rows unless another model is clearly better: they do not tell models apart."""
FEW_ROWS = 150  # up to here a prior and the rows are pooled
TREES_ROWS = 20  # trees take part from here on
RELATIVE = "relative error"  # space of the models whose rows are weighted by 1/y²
MANY_ROWS = 2000  # from here on models with inner folds use three instead of five, and forests fewer and coarser trees
LARGE = 5000
"""From here on boosted trees are more, larger and of Huber's loss: what is small about a residual can be learnt."""
MOST_ROWS = 2**14
"""From here on forests have fewer trees still: 15 instead of 30 cost 0.03 points of error on 20 454 pairs."""

LEARNT: Final = 200_000
"""Rows that a fit is made to at most: of a million rows of eight GPUs 200 000 err by 8.57 % on
unseen weight shapes, 300 000 by 8.49, 667 000 by 8.45, and trees of twice as many leaves
(`_boosted`) on 200 000 by 7.93."""
LEARNT_BY_NETWORK: Final = 20_000
"""The same of the network: 20 000 of 47 656 rows err by 9.5 % on the others, all by 9.6 in 2.5 times the time."""
Model: TypeAlias = str | BaseEstimator | tuple[str, BaseEstimator]
NON_DECREASING: Final = frozenset(
    (
        "Additive",
        "NNLS",
        *(f"NNLS/{way}/{by}" for way in ("Forward", "Backward") for by in ("AIC", "BIC")),
        "NNLS/RFECV",
        "Lasso/NNLS",
        "ElasticNet/NNLS",
        "Mean/Transfer",
    )
)
"""Models of the default suite of which no prediction falls as the host's time rises, nor does that of any law or line.

No coefficient of theirs is negative, nor is the weight that Mean/Transfer gives to such a sum, which
shapes alone decide. All others see ratios of work and the host's time, or may have negative
coefficients, or split by the host's time where rows scatter.
"""
EVERY = "all"  # stands for all models of the suite, where others are named beside it


@dataclass(frozen=True)
class Columnar:
    """What the suite must know of a feature matrix."""

    # role of every column: ``additive``, ``shape`` or ``category``
    roles: Mapping[str, str] = field(hash=False)
    shape_columns: tuple[str, ...]  # the columns that need no measurement on the host
    n_rows: int  # paired rows
    host: bool  # whether there is a host time (``host_us``)
    unpaired: bool  # whether there are target rows without one
    host_time: str = "host_us"  # the column with the metric measured on the host
    noun: str = "time"  # what is predicted, in words
    grows: bool = True  # whether that grows with the work (power does not)
    devices: bool = False  # whether the rows are kernels of many devices

    @property
    def additive(self) -> list[str]:
        """Columns that may stand in a sum of times: all but the scaling laws, which are the baselines."""
        return [
            name
            for name, role in self.roles.items()
            if role == "additive" and not name.startswith("law.")
        ]

    def seen(self, *more: str) -> list[str] | None:
        """Return the columns that learners of the residual see, with ``more``; None for all.

        The search that chose the host's kernel tells groups of one data set apart, and says little
        of a new one.
        """
        seen = [name for name in self.roles if not name.startswith(HOST_CAMPAIGN)]
        if len(seen) == len(self.roles):
            return None
        return [*seen, *more]

    @property
    def inner_folds(self) -> int:
        """Folds of inner cross-validation."""
        if self.n_rows > MANY_ROWS:
            return 3
        return 5


def baselines(laws: Sequence[str], reference: str) -> list[Candidate]:
    """Return the baselines: the analytic laws (one column each), then ratio and line fitted to the reference time.

    ``laws`` names the columns that hold the times the laws give, ``reference`` that of the time to
    be scaled: the host's, or the target's roofline where there is no host.
    """
    fitted = [
        Candidate("constant ratio", ConstantRatio(reference), RELATIVE, most_rows=LEARNT),
        Candidate("affine", Affine(reference), RELATIVE, most_rows=LEARNT),
    ]
    return [*(Candidate(law, AnalyticLaw(law), "no fitting") for law in laws), *fitted]


def suite(
    kind: str,
    data: Columnar,
    seed: int = 0,
    names: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> list[Candidate]:
    """Return the models of a suite, roughly the cheapest first.

    The suite ``literature`` fits O'Neal's models in measured space to all columns, as published;
    ``default`` fits the same names to relative error or log time and adds what goes beyond. Of
    ``data``'s models ``names`` (all by default) are kept but for those ``without``; ``seed`` is
    that of every model.

    Raises
    ------
    DataError
        A model does not exist; the message lists them.
    ParameterError
        There is no such suite, or no model is left.
    """
    members = _members(kind, data, seed)
    names_of_suite = list(members)
    if names is None:
        names = names_of_suite
    for name in (*names, *without):
        if name not in names_of_suite:
            choices = f"choose from {', '.join(names_of_suite)}; baselines always run"
            hint = nearest(name, names_of_suite, choices)
            raise DataError(f"no model {name!r} in the {kind} suite here: {hint}")
    chosen = set(names) - set(without)
    kept = []
    for name, make in members.items():
        if name in chosen:
            member = make()
            if kind == "default" and not member.uses_unpaired:
                member = replace(member, most_rows=_MOST_ROWS.get(name, LEARNT))
            kept.append(member)
    if not kept:
        raise ParameterError("without", "leaves no model to run: it names all that are chosen")
    return kept


def names_of(kind: str, data: Columnar) -> list[str]:
    """Return the names of the models of a suite; raises as `suite`."""
    return list(_members(kind, data, 0))


def _members(kind: str, data: Columnar, seed: int) -> dict[str, Callable[[], Candidate]]:
    """Return by name what makes each model of a suite."""
    if kind not in SUITES:
        raise ParameterError("suite", f"must be {' or '.join(SUITES)}, got {kind!r}")
    if kind == "literature":
        return _literature(data, seed)
    return _DefaultSuite(data, seed).members


_MOST_ROWS: Final = {"MLP": LEARNT_BY_NETWORK}
"""Rows that a model of the default suite learns from at most, where that is not `LEARNT`."""


def of_prior(rows: int) -> tuple[str, ...]:
    """Return the names of what competes where there is a prior and so many rows of the target."""
    names = ("Prior", "ExtraTrees/Prior", "BoostedTrees/Prior")
    if rows <= FEW_ROWS:
        return (POOLED, *names)
    return names


def default_of(scheme: str, names: Collection[str]) -> str | None:
    """Return which of the models that ran is kept for a question unless another is clearly better; None of none.

    >>> default_of("grouped", ["OLS", "BoostedTrees/Residual"])
    'BoostedTrees/Residual'
    """
    if POOLED in names:
        return POOLED
    if scheme == "grouped":
        for name in NEW_GROUPS:
            if name in names:
                return name
    return None


def contenders(scheme: str, candidates: Sequence[Candidate]) -> list[str] | None:
    """Return which of the default suite may be chosen for a question; None for all.

    For new groups the default, what learns from a prior and the user's; all others are shown beside them. With
    a default that does not run all may be chosen.
    """
    names = [candidate.name for candidate in candidates]
    if scheme != "grouped" or not set(names) & {*NEW_GROUPS, POOLED}:
        return None
    may_be_chosen = []
    for candidate in candidates:
        learns_from_prior = candidate.family == "prior"
        if candidate.name in NEW_GROUPS or learns_from_prior or candidate.of_user:
            may_be_chosen.append(candidate.name)
    return may_be_chosen


def _linear(seed: int) -> dict[str, Callable[[], BaseEstimator]]:
    """Return by name what makes each linear model of the literature."""
    models: dict[str, Callable[[], BaseEstimator]] = {"OLS": OLS, "NNLS": NNLS}
    bases: tuple[Literal["ols", "nnls"], ...] = ("ols", "nnls")
    directions: tuple[Literal["forward", "backward"], ...] = ("forward", "backward")
    criteria: tuple[Literal["aic", "bic"], ...] = ("aic", "bic")
    for base, direction, criterion in product(bases, directions, criteria):
        name = f"{base.upper()}/{direction.title()}/{criterion.upper()}"
        models[name] = partial(Stepwise, base=base, direction=direction, criterion=criterion)
    for name, kind in (("Lasso", Lasso), ("ElasticNet", ElasticNet)):
        models[name] = partial(kind, random_state=seed)
        models[f"{name}/NNLS"] = partial(kind, positive=True, random_state=seed)
    for base in bases:
        models[f"{base.upper()}/RFECV"] = partial(RFECV, base=base, random_state=seed)
    return models


def _candidate(
    name: str,
    make: Callable[[], BaseEstimator],
    space: str,
    wrap: Callable[[BaseEstimator], BaseEstimator] | None = None,
) -> Candidate:
    """Return a model of the literature, its properties read off the learner; what ``wrap`` makes, if any, holds it."""
    learner = make()
    estimator = learner
    if wrap is not None:
        estimator = wrap(learner)
    family = None
    if isinstance(learner, Stepwise):
        family = f"{learner.base}/{learner.direction}"
    return Candidate(
        name,
        estimator,
        space,
        selects_features=isinstance(learner, Stepwise | RFECV | Lasso | ElasticNet),
        tests_features=isinstance(learner, OLS) or getattr(learner, "base", None) == "ols",
        is_forest=isinstance(learner, Forest),
        family=family,
    )


def _literature(data: Columnar, seed: int) -> dict[str, Callable[[], Candidate]]:
    models = {
        **_linear(seed),
        "RandomForest": partial(Forest, random_state=seed),
        "MLP": partial(MLP, random_state=seed),
    }
    members: dict[str, Callable[[], Candidate]] = {}
    for name, make in models.items():
        members[name] = partial(_candidate, name, make, f"measured {data.noun}")
    return members


class _DefaultSuite:
    """What makes each model of the default suite, by name: the literature's, better fitted, and what goes beyond them.

    They are sums, then trees and networks, stacks. Sums of terms are fitted to relative error
    (weighted by 1/y²), the others to the logarithm.
    """

    def __init__(self, data: Columnar, seed: int) -> None:
        self.data = data
        self.seed = seed
        self.base = additive_base(data)
        self.boosted = _boosted(data, seed)
        self.trees = _trees(data, seed)
        self.members: dict[str, Callable[[], Candidate]] = {}
        self._add_sums()
        self._add_trees_and_networks()
        if data.devices:
            self._add_many_devices()
        if PRIOR in data.roles:
            self._add_prior()
        if data.unpaired:
            self._add_transfer()

    def _add(self, name: str, estimator: BaseEstimator, space: str = "", **about: Any) -> None:
        space = space or f"log {self.data.noun}"
        self.members[name] = partial(Candidate, name, estimator, space, **about)

    def _add_residual(
        self, name: str, base: BaseEstimator, learner: BaseEstimator, **about: Any
    ) -> None:
        model = LogResidual(base, learner, columns=self.data.seen())
        self._add(name, model, "log residual", **about)

    def _add_sums(self) -> None:
        self._add("Additive", self.base, RELATIVE, preference=1, family="residual")
        to_relative_error = partial(_relative, [*self.data.additive, "op=*"])
        searched = partial(ElasticNet, l1_ratio=(0.1, 0.5, 0.9), random_state=self.seed)
        for name, make in (*_linear(self.seed).items(), ("ElasticNet/searched", searched)):
            self.members[name] = partial(_candidate, name, make, RELATIVE, to_relative_error)

    def _add_trees_and_networks(self) -> None:
        log = f"log {self.data.noun}"
        self._add("BoostedTrees", LogTarget(self.boosted))
        for name, learner, preference in (
            ("BoostedTrees/Residual", self.boosted, 3),
            ("ExtraTrees/Residual", self.trees, 2),
        ):
            self._add_residual(name, self.base, learner, preference=preference, family="residual")
        mlp = partial(MLP, random_state=self.seed)
        forest = partial(Forest, max_trees=128, max_work=2**20, random_state=self.seed)
        self.members["MLP"] = partial(_candidate, "MLP", mlp, log, LogTarget)
        self.members["RandomForest"] = partial(_candidate, "RandomForest", forest, log, LogTarget)
        stack = _stack(self.data, self.seed)
        self._add("Stack", stack, preference=4, family="residual", expensive=True)

    def _add_many_devices(self) -> None:
        coarse = Boosted(
            n_trees=250,
            learning_rate=0.1,
            max_leaves=15,
            min_samples_leaf=200,
            max_features=1.0,
            tree_features=0.5,
            loss="huber",
            random_state=self.seed,
        )
        self._add_residual("BoostedTrees/Smooth", self.base, coarse)

    def _add_prior(self) -> None:
        varying = [name for name in VARIES if name in self.data.roles]
        prior = Corrected(PRIOR, varying)
        if self.data.n_rows <= FEW_ROWS:
            pooled = self._pooled(prior)
            self._add(POOLED, pooled, "log residual", preference=-1, family="prior")
        self._add("Prior", prior, "log residual", preference=6, family="prior")
        for name, learner, preference in (
            ("ExtraTrees/Prior", self.trees, 7),
            ("BoostedTrees/Prior", self.boosted, 8),
        ):
            self._add_residual(name, prior, learner, preference=preference, family="prior")

    def _pooled(self, prior: Corrected) -> Pooled:
        """Return the weighted mean of the prior and of what so few rows can teach."""
        roles = self.data.roles
        parts: list[tuple[str, BaseEstimator]] = [("prior", prior)]
        if set(VARIES) <= set(roles):
            bases: dict[str, BaseEstimator] = {"additive": self.base}
            for name, law in (("prior", PRIOR), ("roofline", "roofline.target_us")):
                if law in roles:
                    bases[name] = AnalyticLaw(law)
            for name, base in bases.items():
                parts.append((f"smooth {name}", LogResidual(base, Smooth(), columns=VARIES)))
        else:
            parts.append(("additive", self.base))
        folds = 10
        if self.data.n_rows >= TREES_ROWS:
            folds = 5
            fewer_trees = clone(self.trees).set_params(n_estimators=20)
            for name, base in (("trees", self.base), ("trees prior", prior)):
                model = LogResidual(base, fewer_trees, columns=self.data.seen())
                parts.append((name, model))
        return Pooled(parts, cv=folds, random_state=self.seed)

    def _add_transfer(self) -> None:
        data = self.data
        seed = self.seed
        shapes = list(data.shape_columns)
        host_time = AdditiveTime([data.host_time], by="op=")
        mean = PrecisionTransfer(_shape(data, seed), host_time, shape_columns=shapes)
        stack = Transfer(_shape(data, seed), _stack(data, seed, [SHAPE_TIME]), shape_columns=shapes)
        for name, model, preference in (("Mean/Transfer", mean, 0), ("Stack/Transfer", stack, 5)):
            self._add(
                name,
                model,
                preference=preference,
                uses_unpaired=True,
                family="transfer",
                expensive=True,
            )


def _relative(terms: Sequence[str], model: BaseEstimator) -> RelativeError:
    """Return a sum of terms that is fitted to relative error."""
    return RelativeError(make_pipeline(Columns(terms), model), floor=0.1)


def additive_base(data: Columnar) -> AdditiveTime:
    """Return overhead + work on the target + the host's time (without a host: tiles and their depth), by operator.

    Between many GPUs the host's time counts as it is and as rooflines scale it.

    Of kernels whose work is unknown, work-items and rounds of workgroups stand for it. What does
    not grow with the work is a sum of shares that do not either: how well the tiles fill the
    target, and what the host measured.
    """
    if data.grows:
        wanted = ["compute.target_us", "memory.target_us"]
        if not data.host:
            wanted += ["tiles.target_us", "one_tile.target_us"]
    else:
        wanted = ["wave_efficiency.target", "best_tile_efficiency.target", "tile_efficiency"]
    if data.host:
        wanted.append(data.host_time)
        if data.grows and data.devices:
            wanted.append("law.roofline_us")
    additive = [name for name in wanted if name in data.roles]
    launched = [name for name in ("work_items", "rounds.target") if name in data.roles]
    return AdditiveTime(additive or launched or data.additive, by="op=")


def _boosted(data: Columnar, seed: int) -> Boosted:
    """Return boosted trees for so many rows.

    Without a host rows are weighed by group: for new groups bf16 products of MI355X err by 8.0 % in
    place of 9.0 (8.8 and 9.6 with groups counted alike), FP8 ones of MI300X by as much as before.
    With a host the 429 embedded pairs would lose by it: 11.6 in place of 10.5. So they would by
    constraints that no time falls as the host's rises, which LightGBM has for Huber's loss alone:
    12.1 % for new groups. What is saved of these pairs, Mean/Transfer, falls in none of 1 444
    trials with times 2 to 30 % longer; these trees fall in a tenth of theirs, by 6 % at most.
    """
    sizes: dict[str, Any] = {"max_leaves": 15, "n_trees": 150, "learning_rate": 0.1}
    if data.n_rows > MANY_ROWS:
        sizes |= {"max_leaves": 31}
    if data.n_rows > LARGE:
        sizes = {"max_leaves": 31, "n_trees": 200, "learning_rate": 0.12, "loss": "huber"}
        sizes |= {"max_features": 1.0, "tree_features": 0.4}
    if data.n_rows > MOST_ROWS:
        sizes |= {"max_leaves": 127, "min_samples_leaf": 20}
    if data.n_rows > LEARNT:
        sizes |= {"max_leaves": 255}
    return Boosted(**sizes, weigh_groups=not data.host, random_state=seed)


def _trees(data: Columnar, seed: int) -> ExtraTreesRegressor:
    n_trees = 60
    min_samples_leaf = 1
    if data.n_rows > MANY_ROWS:
        n_trees = 30
        min_samples_leaf = 2
    if data.n_rows > MOST_ROWS:
        n_trees = 15
    max_features = 0.8
    if data.host:
        max_features = 0.5
    return ExtraTreesRegressor(
        n_trees,
        max_features=max_features,
        min_samples_leaf=min_samples_leaf,
        random_state=seed,
    )


def _stack(data: Columnar, seed: int, ratios: Sequence[str] = ()) -> GeometricStack:
    base = additive_base(data)
    seen = data.seen(*ratios)
    parts: list[tuple[str, Any]] = [
        ("additive", base),
        ("trees", LogResidual(base, _trees(data, seed), columns=seen, ratios=ratios)),
        ("boosted", LogResidual(base, _boosted(data, seed), columns=seen, ratios=ratios)),
    ]
    if data.host:
        parts.insert(0, ("affine", Affine(data.host_time)))
    parts += [(name, AnalyticLaw(name)) for name in ratios]
    return GeometricStack(parts, cv=data.inner_folds, random_state=seed)


def _shape(data: Columnar, seed: int) -> CrossFitted:
    """Return the model of time by shape alone.

    A quarter of the columns at each split: with half of them the 429 embedded pairs err by the same
    5.2 and 8.0 % (shuffled, new groups) in 1.6 times the time.
    """
    terms = [name for name in data.additive if name in data.shape_columns]
    trees = ExtraTreesRegressor(8, max_features=0.25, min_samples_leaf=2, random_state=seed)
    return CrossFitted(LogResidual(AdditiveTime(terms, by="op="), trees), random_state=seed)


def names_and_candidates(
    given: str | Iterable[Model] | None,
) -> tuple[list[str] | None, list[Candidate]]:
    """Return the names of models of the suite, None for all of them, and the user's models.

    An estimator is called after its class, numbered where two have one; a pair of name and
    estimator by that name. Raises ParameterError (``models``): an estimator is no regressor, or a
    class in place of an instance.

    >>> from sklearn.linear_model import Ridge
    >>> names, added = names_and_candidates(["OLS", Ridge(), ("stiff", Ridge(alpha=9))])
    >>> names, [candidate.name for candidate in added]
    (['OLS'], ['Ridge', 'stiff'])
    """
    if given is None:
        return None, []
    if isinstance(given, str):
        given = values.names("models", given) or []
    if isinstance(given, BaseEstimator):
        given = [given]
    names: list[str] = []
    candidates: list[Candidate] = []
    for model in given:
        if isinstance(model, str):
            names.append(model)
        else:
            taken = [candidate.name for candidate in candidates]
            candidates.append(_of_user(model, taken))
    if EVERY in names:
        return None, candidates
    return values.names("models", names), candidates


def _of_user(given: object, taken: Sequence[str]) -> Candidate:
    name = ""
    estimator = given
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        name, estimator = given
    if isinstance(estimator, type):
        problem = f"must be instances, got the class {estimator.__name__}: write its parentheses"
        raise ParameterError("models", problem)
    if not isinstance(estimator, BaseEstimator) or not is_regressor(estimator):
        problem = f"must be names or scikit-learn regressors, got {type(estimator).__name__}"
        raise ParameterError("models", problem)
    if not name:
        name = type(estimator).__name__
        number = 2
        while name in taken:
            name = f"{type(estimator).__name__} {number}"
            number += 1
    if name in taken:
        raise ParameterError("models", f"must have different names, got {name!r} twice")
    return Candidate(name, clone(estimator), "its own", of_user=True)


def check_names(candidates: Sequence[Candidate], others: Iterable[str]) -> None:
    """Refuse a model of the user that is called as another one: ParameterError."""
    taken = set(others)
    for candidate in candidates:
        if candidate.name in taken:
            problem = f"has a model {candidate.name!r} already: give a pair of a name and yours"
            raise ParameterError("models", problem)


def kept_in_memory(name: str, estimator: BaseEstimator) -> Remark | None:
    """Return why a fitted model is not saved; None where it can be."""
    try:
        persistence.to_bytes(estimator)
    except ArtifactError as error:
        text = (
            f"{name} was chosen and is in memory only, as it cannot be stored as plain arrays: "
            "this run predicts, and cannot be saved"
        )
        return remark("kept-in-memory", text, model=name, problem=one_line(error))
    return None
