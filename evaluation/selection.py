"""The best model of a suite and its honest error: what choosing the smallest of many errors costs is taken back.

The smallest E_out of the table is too good to be true: the same rows chose the model and scored it.
BBC-CV corrects it without fitting anything again. On each bootstrap sample of the out-of-fold
errors a model is chosen by the same rule. Its error on the rows that the sample left out is what
the choice is worth.

The rule is that of one standard error:

- Of the models whose E_out is within one standard error of the smallest, the one named first in
  ``preference`` is taken (``Candidate.preference`` in `models.suite`). The error is that of the
  paired difference, over groups where groups are left out. Where no model has a preference (the
  literature's suite) the smallest E_out wins.
- A prior worth `CAUTION` groups (or rows) favours the cautious model: of more groups n the reach is
  ``sqrt(CAUTION / n)`` standard errors. With few groups the smallest error of many is mostly luck,
  and the rule lets luck decide only between models that are liked alike.
- A simple law (a baseline) is taken instead if its E_out is no larger.
- Where evidence from other data speaks for one model, that ``default`` is kept unless the smallest
  E_out, a simple law's too, is below its own by more than `DEFAULT_ERRORS` standard errors.
- Where groups are left out each has one vote, whatever its rows. Where they come in families
  (`campaigns`), whole families are resampled. Of many models the ``contenders`` alone may be
  chosen, and the price is that of choosing among them.
- Chosen by an inlier ratio (`CRITERIA`), the share of rows beyond the threshold takes the place of
  E_out.

The honest error and its interval are a `stated_error.Mixture`, as those that a saved model states of
the rows that it is asked about: one error has one interval. It is that of Student's t on the
logarithmic scale, with the effective number of groups: a mean of few unequal groups has a long
upper tail. The winner's variance is too small, as luck is part of what made it win; the median over
the best third of the models is taken where it is larger. Models of ``k`` folds learn from the part
``1 - 1 / k`` of the rows that the saved one learns from. Errors fall with the root of the rows at
most, as those of parametric fits do, so the lower end is lower by the factor ``sqrt(1 - 1 / k)``.
Which models might as well be best is said by `ties`, over the same units: it has no part in the
choice.

References
----------
Breiman, Friedman, Olshen & Stone, "Classification and regression trees", 1984, section 3.4.3 (one
standard error).

Tsamardinos, Greasidou & Borboudakis, "Bootstrapping the out-of-sample predictions for efficient and
accurate cross-validation", Machine Learning 107:1895-1922, 2018, algorithm 3 (BBC-CV).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..arrays import BoolArray, FloatArray
from ..errors import FlopcastError
from ..workers import one_thread
from .cluster_bootstrap import effective_groups, percentile_interval
from .metrics import THRESHOLDS, ape
from .stated_error import EVERY, LEVEL, Mixture, Part, relative_scatter
from .ties import joined, sums_of, tied_with_best

METHOD: Final = "BBC-CV, Tsamardinos, Greasidou & Borboudakis 2018"
CRITERIA: Final[dict[str, tuple[float | None, str]]] = {
    "e_out": (None, "smallest E_out"),
    "ir10": (10.0, "largest IR10"),
    "ir20": (20.0, "largest IR20"),
}
"""What a model is chosen by: its mean error, or how many rows it errs by more than so many percent on."""
CAUTIOUS_RULE: Final = (
    "the most cautious model within {:.2g} standard errors of the {}, or a simple law that errs "
    "no more"
)
CAUTION: Final = 8
"""Effective number of groups, or of rows, from which on the most cautious model is sought within
less than a standard error: a whole one gives away what many say. Models of three tables chosen on
some groups or rows and judged on all the others erred by 2.6 to 3.4 % more than the best at 60 rows
instead of 3.7 to 7.6 %, at 64 groups by 2.0, not 3.2 %."""
DEFAULT_ERRORS: Final = 2.0
"""Standard errors by which a model, or a simple law, must be better than a default."""
_WORST: Final = 1e12  # percent; keeps sums finite where a model exploded
_CHUNK: Final = 100  # bootstrap samples held in memory at a time
MOST_UNITS: Final = 15_000
"""Rows, or groups, that are resampled: of more, so many sets of them drawn at random, which err together as little."""


def select(
    observed: ArrayLike,
    predictions: pd.DataFrame,
    groups: ArrayLike,
    *,
    scheme: str,
    baselines: Collection[str] = (),
    preference: Sequence[str] | None = None,
    default: str | None = None,
    contenders: Collection[str] | None = None,
    partial: pd.DataFrame | None = None,
    problems: ArrayLike | None = None,
    campaigns: ArrayLike | None = None,
    parts: Mapping[str, BoolArray] | None = None,
    folds: int | None = None,
    criterion: str = "e_out",
    replicates: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Choose a model by its E_out, or an inlier ratio, and say how good the choice really is.

    Models that left early (see `hopeless`) are never chosen, but they take part in the bootstrap:
    choosing among them has its price too. Rows that such a model was not fitted for count with the
    error there of the best of the others plus what it was worse by, on average, on the rows that it
    was fitted for.

    Raises FlopcastError: no model ran, or there are fewer than two groups to resample.

    Parameters
    ----------
    observed, groups, problems : array-like of shape (n,)
        Measured values, and the group of each row; under the scheme ``"grouped"`` whole groups are
        resampled, otherwise rows, or the problems that rows are repeats of.
    campaigns : array-like of shape (n,), optional
        The campaign of each row's group: whole campaigns are resampled in place of groups, each of
        which has one vote still.
    predictions : DataFrame of shape (n, n_models)
        Out-of-fold predictions of the models that ran, ``baselines`` included; one of these is
        taken where the model that is chosen errs no less.
    preference : sequence of str, optional
        Names, the most liked first; other models follow in the order of the columns. None: the
        smallest E_out is taken, whatever the standard error.
    default : str, optional
        The model that is kept unless another is clearly better; of no effect where it did not run.
    contenders : collection of str, optional
        The models that may be chosen, beside the baselines: the error of the choice is that of
        choosing among these alone. None, or none that ran: all of them.
    partial : DataFrame of shape (n, n_left), optional
        Out-of-fold predictions of the models that left early, NaN where there are none.
    parts : mapping of str to ndarray of shape (n,), optional
        Rows of which the error is stated apart; ``every`` row by default.
    folds : int, optional
        Of how many folds each model saw all but one: a model fitted to all rows may err less, by
        the factor ``least`` at most, which lowers the lower ends.
    criterion : {"e_out", "ir10", "ir20"}
        What is chosen by.

    Returns
    -------
    dict
        The entry ``selected`` of ``metrics.json``: ``name``; ``baseline`` (whether an analytic
        baseline won); ``e_out`` and ``ir``, bias-corrected, percent; ``e_out_groups``, the same
        with every group counting alike; ``e_out_table``, its uncorrected error; ``interval`` of
        ``e_out``; ``parts``, of each that has rows its `stated_error.Part`; ``tied``, the model
        chosen and every one that `ties.tied_with_best` does not tell from the best by what is
        chosen by, the least error first; ``picked``, how often each model was chosen on a sample,
        percent; and ``method``, ``criterion``, ``rule``, ``resampled``, ``units``, ``replicates``,
        ``level``.
    """
    if predictions.shape[1] == 0:
        raise FlopcastError(
            "no model ran, so none can be selected: see the error of each, or allow a larger budget"
        )
    votes = _votes(groups, scheme)
    if campaigns is not None:
        resampled = "campaigns"
        units_of = _clusters(campaigns, "grouped", None)
    elif scheme == "grouped":
        resampled = "groups"
        units_of = _clusters(groups, scheme, None)
    else:
        resampled = "problems"
        if problems is None:
            resampled = "rows"
        units_of = _clusters(groups, scheme, problems)
    units = int(units_of.max()) + 1
    if units < 2:
        raise FlopcastError(
            f"the error of a selection needs at least 2 {resampled}, there are {units}: measure "
            "more"
        )
    code = joined(units_of, MOST_UNITS)
    shown = [str(name) for name in predictions.columns]
    shown_errors = _errors(observed, predictions)
    candidates = _contenders(shown, baselines, contenders)
    errors = shown_errors[:, [shown.index(name) for name in candidates]]
    losses = _losses(errors, criterion)
    chosen_among = candidates
    with one_thread():
        tied = tied_with_best(
            _losses(shown_errors, criterion), units_of, logs=CRITERIA[criterion][0] is None
        )
        chooser = _Chooser(losses, code, candidates, baselines, preference, default, votes)
        best = chooser.best()
        table = errors.mean(axis=0)
        stopped = _stopped(partial, baselines, contenders)
        if stopped is not None:
            # the errors of the best of the others stand for those of folds that were not run
            smallest = [int(np.argmin(losses.mean(axis=0)))]
            stopped_errors = _errors(observed, stopped)
            stopped_losses = _losses(stopped_errors, criterion)
            chosen_among = [*candidates, *(str(name) for name in stopped.columns)]
            errors = np.column_stack([errors, _completed(stopped_errors, errors[:, smallest])])
            losses = np.column_stack([losses, _completed(stopped_losses, losses[:, smallest])])
            chooser = _Chooser(losses, code, chosen_among, baselines, preference, default, votes)
        draws = _bootstrap(errors, code, chooser, replicates, seed)
    chosen = candidates[best]
    near_best = max(3, math.ceil(len(candidates) / 3))
    columns = [best, *np.argsort(table, kind="stable")[:near_best]]
    least = 1.0
    if folds is not None:
        least = float(np.sqrt(1 - 1 / folds))
    every_row = np.ones(len(code), dtype=bool)
    part_of: dict[str, Part] = {}
    for name, rows in (parts or {EVERY: every_row}).items():
        if rows.any():
            part_of[name] = _part(draws, errors, code, rows, columns, least)
    mixed = [*part_of.values()]
    if scheme == "grouped":
        # a group may have rows in several parts, which then err together
        mixed = [_part(draws, errors, code, every_row, columns, least)]
    elif parts:
        others = ~np.any([*parts.values()], axis=0)
        if others.any():
            mixed.append(_part(draws, errors, code, others, columns, least))
    stated = Mixture.of_parts([(part, part.rows) for part in mixed]).stated
    inlier_ratios = {}
    for limit in THRESHOLDS:
        within = 100.0 * (errors <= limit)
        inlier_ratios[str(limit)] = draws.left_out_mean(within, code)
    picked = {}
    for model, samples in Counter(draws.chosen.tolist()).most_common():
        picked[chosen_among[model]] = 100.0 * samples / len(draws.chosen)
    rule = CRITERIA[criterion][1]
    if preference is not None:
        rule = CAUTIOUS_RULE.format(chooser.reach, rule)
    return {
        "name": chosen,
        "baseline": chosen in baselines,
        "e_out": stated.error,
        "e_out_groups": draws.left_out_mean(errors, code, _votes(groups, "grouped")),
        "ir": inlier_ratios,
        "e_out_table": float(table[best]),
        "interval": [stated.lower, stated.upper],
        "parts": {name: asdict(part) for name, part in part_of.items()},
        "tied": _in_order(shown, shown_errors.mean(axis=0), tied, chosen),
        "picked": picked,
        "method": METHOD,
        "criterion": criterion,
        "rule": rule,
        "resampled": resampled,
        "units": units,
        "replicates": replicates,
        "level": LEVEL,
    }


def statement(entry: Mapping[str, Any]) -> str:
    """Return a selection (``selected`` of ``metrics.json``) in one line: the model, its error, who else might be best.

    >>> statement({"name": "OLS", "e_out": 4, "interval": [3, 6], "level": 0.95, "tied": ["OLS"], "baseline": False})
    'OLS: 4.0 % [3.0, 6.0] at 95 % confidence'
    """
    low, high = entry["interval"]
    text = (
        f"{entry['name']}: {entry['e_out']:.1f} % [{low:.1f}, {high:.1f}] at "
        f"{100 * entry['level']:g} % confidence"
    )
    if entry["baseline"]:
        none = "no fitted model"
        if entry.get("left_out"):
            none = "none of the models that ran"
        text += f"; a simple law: {none} is told to be better"
    if len(tied := entry["tied"]) > 1:
        text += f"; statistically indistinguishable: {', '.join(tied[:-1])} and {tied[-1]}"
    return text


def hopeless(
    observed: ArrayLike,
    predictions: pd.DataFrame,
    groups: ArrayLike,
    *,
    scheme: str,
    preference: Sequence[str] | None = None,
    criterion: str = "e_out",
    margin: float = 0.0,
    problems: ArrayLike | None = None,
    replicates: int = 500,
    level: float = 0.95,
    seed: int = 0,
) -> list[str]:
    """Return the models that cannot win any more, judged by the rows of the first folds.

    The arguments are those of `select`, of these rows. A model is given up when what is chosen by
    (its E_out) is above ``1 + margin`` times the smallest by more than the paired bootstrap (of
    groups under the scheme ``"grouped"``) allows for at ``level``, and the rule of `select` chooses
    it on none of the samples. The model with the smallest, and those that the rule prefers to it,
    thus always stay.
    """
    losses = _losses(_errors(observed, predictions), criterion)
    code = joined(_clusters(groups, scheme, problems), MOST_UNITS)
    names = [str(name) for name in predictions.columns]
    units = effective_groups(code)
    if units < 2 or len(names) < 2:
        return []
    with one_thread():
        votes = _votes(groups, scheme)
        chooser = _Chooser(losses, code, names, (), preference, None, votes)
        draws = _bootstrap(losses, code, chooser, replicates, seed)
    best = int(np.argmin(chooser.means()))
    above = draws.losses - (1 + margin) * draws.losses[:, [best]]
    lower, _ = percentile_interval(above, units, level=level)
    may_win = {best, *draws.chosen.tolist()}
    given_up = []
    for model, name in enumerate(names):
        if model not in may_win and lower[model] > 0:
            given_up.append(name)
    return given_up


def _errors(observed: ArrayLike, predictions: pd.DataFrame) -> FloatArray:
    """Return the APE of each row and model, capped so that sums stay finite; NaN without a prediction."""
    errors = [ape(observed, predictions[name]) for name in predictions.columns]
    return np.minimum(np.column_stack(errors), _WORST)


def _losses(errors: FloatArray, criterion: str) -> FloatArray:
    """Return the criterion of each row and model: the error, or 100 where it is beyond a threshold."""
    limit = CRITERIA[criterion][0]
    if limit is None:
        return errors
    return np.where(np.isnan(errors), np.nan, 100.0 * (errors > limit))


def _clusters(groups: ArrayLike, scheme: str, problems: ArrayLike | None) -> NDArray[np.intp]:
    """Return the number of the unit that each row is resampled with."""
    if scheme == "grouped":
        units = np.asarray(groups)
    elif problems is None:
        units = np.arange(len(np.asarray(groups)))
    else:
        units = np.asarray(problems)
    return pd.factorize(units, sort=True)[0]


def _votes(groups: ArrayLike, scheme: str) -> FloatArray:
    """Return the weight of each row in the choice: every group has one vote where groups are left out, else a row."""
    names = pd.Series(np.asarray(groups))
    if scheme != "grouped":
        return np.ones(len(names))
    return 1.0 / names.groupby(names).transform("size").to_numpy(dtype=np.float64)


def _completed(errors: FloatArray, others: FloatArray) -> FloatArray:
    """Return ``errors`` (n, n_left) with its NaN filled by those of another model (n, 1) plus their mean difference."""
    expected = others + np.nanmean(errors - others, axis=0)
    return np.where(np.isnan(errors), expected, errors)


def _contenders(
    names: list[str], baselines: Collection[str], contenders: Collection[str] | None
) -> list[str]:
    """Return who may be chosen: the baselines and the contenders; all where none of the contenders ran."""
    if contenders is None or not set(contenders) & set(names):
        return names
    return [name for name in names if name in baselines or name in contenders]


def _stopped(
    partial: pd.DataFrame | None, baselines: Collection[str], contenders: Collection[str] | None
) -> pd.DataFrame | None:
    """Return the predictions of the contenders that were stopped; None where there is none."""
    if partial is None:
        return None
    names = _contenders([str(name) for name in partial.columns], baselines, contenders)
    if names:
        return partial[names]
    return None


def _in_order(names: list[str], errors: FloatArray, tied: BoolArray, chosen: str) -> list[str]:
    """Return the model that was chosen and those tied with the best, the least error first."""
    places = np.argsort(errors, kind="stable")
    return [names[place] for place in places if tied[place] or names[place] == chosen]


def _order(
    names: list[str], preference: Sequence[str] | None, baselines: Collection[str]
) -> NDArray[np.intp] | None:
    """Return the position of each model in the order of preference, baselines last; None without preference."""
    if preference is None:
        return None
    rank = {name: place for place, name in enumerate(preference)}

    def key(model: int) -> tuple[bool, int, int]:
        name = names[model]
        return name in baselines, rank.get(name, len(rank)), model

    return np.argsort(np.array(sorted(range(len(names)), key=key), dtype=np.intp))


class _Chooser:
    """Chooses a model on each of several samples of clusters, given as counts (samples × clusters).

    ``votes`` (n,) are the weights of the rows.
    """

    def __init__(
        self,
        losses: FloatArray,
        code: NDArray[np.intp],
        names: list[str],
        baselines: Collection[str],
        preference: Sequence[str] | None,
        default: str | None,
        votes: FloatArray,
    ) -> None:
        self.sizes = np.bincount(code, votes)
        self.sums = sums_of(losses * votes[:, None], code)
        units = float(self.sizes.sum() ** 2 / (self.sizes**2).sum())
        self.order = _order(names, preference, baselines)
        self.laws = np.array(
            [place for place, name in enumerate(names) if name in baselines], dtype=np.intp
        )
        self.default: int | None = None
        if default in names:
            self.default = names.index(default)
        self.reach = min(1.0, np.sqrt(CAUTION / units))

    def best(self) -> int:
        """Return the index of the model chosen on all clusters."""
        every_cluster = np.ones((1, len(self.sizes)))
        return int(self.choose(every_cluster, self.means()[None])[0])

    def means(self) -> FloatArray:
        """Return the mean loss of each model over all clusters."""
        return self.sums.sum(axis=0) / self.sizes.sum()

    def choose(self, counts: FloatArray, means: FloatArray) -> NDArray[np.intp]:
        """Return the index of the model chosen on each sample; ``means`` are of the losses, samples × models."""
        chosen = best = np.argmin(means, axis=1)
        if self.order is not None:
            near = self._near(counts, means, best, self.reach)
            chosen = np.argmin(np.where(near, self.order, len(self.order)), axis=1)
        if len(self.laws):
            sample = np.arange(len(means))
            law = self.laws[np.argmin(means[:, self.laws], axis=1)]
            chosen = np.where(means[sample, law] <= means[sample, chosen], law, chosen)
        if self.default is not None:
            near = self._near(counts, means, best, DEFAULT_ERRORS)[:, self.default]
            chosen = np.where(near, self.default, chosen)
        return chosen

    def _near(
        self, counts: FloatArray, means: FloatArray, best: NDArray[np.intp], errors: float
    ) -> BoolArray:
        """Return which means are within so many standard errors of the smallest, samples × models."""
        near = np.empty(means.shape, dtype=bool)
        for model in np.unique(best):
            rows = best == model
            above = means[rows] - means[rows][:, [model]]
            near[rows] = above <= errors * self._standard_error(counts[rows], above, int(model))
        return near

    def _standard_error(self, counts: FloatArray, above: FloatArray, model: int) -> FloatArray:
        """Return the standard error of the difference in mean loss to ``model``, samples × models: a ratio estimate.

        Its square is sum_g c_g (D_g - n_g delta)² / (sum_g c_g n_g)², with D_g the difference of
        the sums of cluster g and n_g its size.
        """
        apart = self.sums - self.sums[:, [model]]
        sizes = self.sizes[:, None]
        cross = counts @ (apart * sizes)
        spread = counts @ apart**2 - 2 * above * cross + above**2 * (counts @ sizes**2)
        return np.sqrt(np.maximum(spread, 0.0)) / (counts @ self.sizes)[:, None]


class _Draws(NamedTuple):
    """What the bootstrap saw.

    ``losses`` is the mean of what is chosen by, samples × models; ``chosen`` the model of each
    sample; ``left_out``, models × clusters, how many of the samples on which a model was chosen
    left a cluster out.
    """

    losses: FloatArray
    chosen: NDArray[np.intp]
    left_out: FloatArray

    def left_out_mean(
        self, values: ArrayLike, code: NDArray[np.intp], weights: FloatArray | None = None
    ) -> float:
        """Return the mean of values (n, n_models), of the model chosen on a sample and the rows that it left out.

        Over all left-out rows of all samples: a mean of means would favour small clusters.
        """
        if weights is None:
            weights = np.ones(len(code))
        sums = sums_of(np.asarray(values) * weights[:, None], code)
        sizes = np.bincount(code, weights)
        return float((self.left_out * sums.T).sum() / (self.left_out @ sizes).sum())


def _bootstrap(
    errors: FloatArray, code: NDArray[np.intp], chooser: _Chooser, replicates: int, seed: int
) -> _Draws:
    """Resample clusters; cluster sums (clusters × models) times counts (samples × clusters) replace resampled rows."""
    sums = sums_of(errors, code)
    losses = []
    chosen = []
    left_out = np.zeros(sums.T.shape)
    for counts in _cluster_counts(len(sums), replicates, seed):
        means = (counts @ chooser.sums) / (counts @ chooser.sizes)[:, None]
        best = chooser.choose(counts, means)
        for model in np.unique(best):
            left_out[model] += (counts[best == model] == 0).sum(axis=0)
        losses.append(means)
        chosen.append(best)
    return _Draws(np.concatenate(losses), np.concatenate(chosen), left_out)


def _cluster_counts(clusters: int, replicates: int, seed: int) -> Iterator[FloatArray]:
    """Yield how often each cluster was drawn (samples × clusters), some samples at a time; none holds all clusters."""
    rng = np.random.default_rng(seed)
    done = 0
    while done < replicates:
        draws = rng.integers(clusters, size=(min(_CHUNK, replicates - done), clusters))
        flat = draws + clusters * np.arange(len(draws))[:, None]
        times_drawn = np.bincount(flat.ravel(), minlength=draws.size)
        counts = times_drawn.reshape(draws.shape).astype(np.float64)
        counts = counts[(counts == 0).any(axis=1)]
        done += len(counts)
        if len(counts):
            yield counts


def _part(
    draws: _Draws,
    errors: FloatArray,
    code: NDArray[np.intp],
    rows: BoolArray,
    near_best: Sequence[int],
    least: float,
) -> Part:
    """Return what is stated of some ``rows``, (n,), by all errors, (n, models), and the cluster of each, (n,).

    ``near_best`` are the model that is chosen, then those near the best.
    """
    honest = draws.left_out_mean(errors, code, rows.astype(np.float64))
    _, code_here = np.unique(code[rows], return_inverse=True)
    units, scatter = relative_scatter(errors[rows][:, near_best], code_here)
    sigma = float(max(scatter[0], np.median(scatter[1:])))
    return Part(int(rows.sum()), units, honest, sigma, least)
