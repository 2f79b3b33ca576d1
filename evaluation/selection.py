"""The best model of a suite and its honest error: what choosing the smallest of many errors costs is taken back.

The smallest E_out of the table is too good to be true, because the same rows chose the model and scored it. BBC-CV
corrects it without fitting anything again: on each bootstrap sample of the out-of-fold errors a model is chosen by the
same rule, and its error on the rows that the sample left out is what the choice is worth.

The rule is that of one standard error: of the models whose E_out is above the smallest by no more than one standard
error of the paired difference (over groups, where groups are left out), the one named first in ``preference`` is taken:
the order of ``Candidate.preference`` in `models.suite`. Where none has one (the literature's suite) the smallest wins.
Chosen by an inlier ratio (`CRITERIA`), the share of rows beyond the threshold takes the place of E_out in that rule.
With few groups the smallest error of many is mostly luck, and the rule lets luck decide only between models that are
liked alike.

References
----------
Breiman, Friedman, Olshen & Stone, "Classification and regression trees", 1984, section 3.4.3 (one standard error).

Tsamardinos, Greasidou & Borboudakis, "Bootstrapping the out-of-sample predictions for efficient and accurate
cross-validation", Machine Learning 107:1895-1922, 2018, algorithm 3 (BBC-CV).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ..arrays import FloatArray
from ..errors import FlopcastError
from ..workers import one_thread
from .cluster_bootstrap import effective_groups, percentile_interval
from .metrics import THRESHOLDS, ape

METHOD: Final = "BBC-CV, Tsamardinos, Greasidou & Borboudakis 2018"
CRITERIA: Final[dict[str, tuple[float | None, str]]] = {
    "e_out": (None, "smallest E_out"),
    "ir10": (10.0, "largest IR10"),
    "ir20": (20.0, "largest IR20"),
}
"""What a model is chosen by: its mean error, or how many rows it errs by more than so many percent on."""
RULE: Final = "the most cautious model within one standard error of the {}"
_WORST: Final = 1e12  # percent; keeps sums finite where a model exploded
_CHUNK: Final = 100  # bootstrap samples held in memory at a time


def select(
    observed: ArrayLike,
    predictions: pd.DataFrame,
    groups: ArrayLike,
    *,
    scheme: str,
    baselines: Collection[str] = (),
    preference: Sequence[str] | None = None,
    partial: pd.DataFrame | None = None,
    criterion: str = "e_out",
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Choose a model by its E_out, or an inlier ratio, and say how good the choice really is.

    Models that left early (see `hopeless`) are never chosen, but they take part in the bootstrap: choosing among them
    has its price too. Rows that such a model was not fitted for count with the error there of the best of the others
    plus what it was worse by, on average, on the rows that it was fitted for.

    Parameters
    ----------
    observed : array-like of shape (n,)
        Measured values.
    predictions : DataFrame of shape (n, n_models)
        Out-of-fold predictions of the models that ran, ``baselines`` included; these compete like any other model, but
        are preferred to none.
    groups : array-like of shape (n,)
        Group of each row; under the scheme ``"grouped"`` whole groups are resampled, otherwise rows.
    preference : sequence of str, optional
        Names, the most liked first; other models follow in the order of the columns. None: the smallest E_out is taken,
        whatever the standard error.
    partial : DataFrame of shape (n, n_left), optional
        Out-of-fold predictions of the models that left early, NaN where there are none.
    criterion : {"e_out", "ir10", "ir20"}
        What is chosen by.
    replicates, level, seed
        Bootstrap samples and their seed, and the level of the interval.

    Returns
    -------
    dict
        The entry ``selected`` of ``metrics.json``: ``name``; ``baseline`` (whether an analytic baseline won);
        ``e_out`` and ``ir``, bias-corrected, percent; ``e_out_table``, its uncorrected error; ``interval`` of
        ``e_out`` (expanded percentile bootstrap, shifted by the correction); ``within``, every model whose E_out lies
        below the interval's upper end; ``tied``, those of them whose difference to the chosen one is not told from zero
        by the paired bootstrap of what is chosen by; ``picked``, how often each model was chosen on a sample, percent;
        and ``method``, ``criterion``, ``rule``, ``resampled``, ``units``, ``replicates``, ``level``.

    Raises
    ------
    FlopcastError
        No model ran, or there are fewer than two groups to resample.
    """
    if predictions.shape[1] == 0:
        raise FlopcastError("no model ran, so none can be selected: see the error of each, or allow a larger budget")
    errors = _errors(observed, predictions)
    losses = _losses(errors, criterion)
    count = errors.shape[1]
    code = _clusters(groups, scheme)
    units, resampled = int(code.max()) + 1, "groups" if scheme == "grouped" else "rows"
    if units < 2:
        raise FlopcastError(f"the error of a selection needs at least 2 {resampled}, there are {units}: measure more")
    with one_thread():
        names = [str(name) for name in predictions.columns]
        chooser = _Chooser(losses, code, _order(names, preference, baselines))
        table, loss = errors.mean(axis=0), losses.mean(axis=0)
        best = int(chooser.choose(np.ones((1, units)), loss[None])[0])
        if partial is not None and partial.shape[1]:
            names += [str(name) for name in partial.columns]
            some, least = _errors(observed, partial), [int(np.argmin(loss))]
            missed = _losses(some, criterion)
            errors = np.column_stack([errors, _completed(some, errors[:, least])])
            losses = np.column_stack([losses, _completed(missed, losses[:, least])])
            chooser = _Chooser(losses, code, _order(names, preference, baselines))
        draws = _bootstrap(errors, code, chooser, replicates, seed)
    honest = draws.error
    lower, upper = percentile_interval(draws.in_bag[:, best], units, level=level)
    shift = honest - table[best]
    interval = [max(float(lower + shift), 0.0), float(upper + shift)]
    within = [names[i] for i in np.argsort(table[:count], kind="stable") if i == best or table[i] <= interval[1]]
    tied = [name for name in within if _tied(draws.losses, names.index(name), best, units, level)]
    return {
        "name": names[best],
        "baseline": names[best] in baselines,
        "e_out": honest,
        "ir": draws.inliers,
        "e_out_table": float(table[best]),
        "interval": interval,
        "within": within,
        "tied": tied,
        "picked": {names[i]: 100.0 * n / len(draws.chosen) for i, n in Counter(draws.chosen.tolist()).most_common()},
        "method": METHOD,
        "criterion": criterion,
        "rule": CRITERIA[criterion][1] if preference is None else RULE.format(CRITERIA[criterion][1]),
        "resampled": resampled,
        "units": units,
        "replicates": replicates,
        "level": level,
    }


def statement(entry: Mapping[str, Any]) -> str:
    """Return a selection (``selected`` of ``metrics.json``) in one line: the model, its error, who else might be best.

    Examples
    --------
    >>> statement({"name": "OLS", "e_out": 4, "interval": [3, 6], "level": 0.95, "tied": ["OLS"], "baseline": False})
    'OLS: 4.0 % [3.0, 6.0] at 95 % confidence'
    """
    low, high = entry["interval"]
    text = f"{entry['name']}: {entry['e_out']:.1f} % [{low:.1f}, {high:.1f}] at {100 * entry['level']:g} % confidence"
    if entry["baseline"]:
        text += "; an analytic baseline beats every fitted model"
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
    replicates: int = 500,
    level: float = 0.95,
    seed: int = 0,
) -> list[str]:
    """Return the models that cannot win any more, judged by the rows of the first folds.

    The arguments are those of `select`, of these rows. A model is given up when what is chosen by (its E_out) is above
    ``1 + margin`` times the smallest by more than the paired bootstrap (of groups under the scheme ``"grouped"``)
    allows for at ``level``, and the rule of `select` chooses it on none of the samples. The model with the smallest,
    and those that the rule prefers to it within a standard error, thus always stay.
    """
    losses, code = _losses(_errors(observed, predictions), criterion), _clusters(groups, scheme)
    names = [str(name) for name in predictions.columns]
    units = effective_groups(code)
    if units < 2 or len(names) < 2:
        return []
    with one_thread():
        draws = _bootstrap(losses, code, _Chooser(losses, code, _order(names, preference, ())), replicates, seed)
    best = int(np.argmin(losses.mean(axis=0)))
    lower, _ = percentile_interval(draws.losses - (1 + margin) * draws.losses[:, [best]], units, level=level)
    picked = set(draws.chosen.tolist())
    return [name for i, name in enumerate(names) if i != best and i not in picked and lower[i] > 0]


def _errors(observed: ArrayLike, predictions: pd.DataFrame) -> FloatArray:
    """Return the APE of each row and model, held below what sums can take; NaN where there is no prediction."""
    return np.minimum(np.column_stack([ape(observed, predictions[name]) for name in predictions.columns]), _WORST)


def _losses(errors: FloatArray, criterion: str) -> FloatArray:
    """Return what a model is chosen by, of each row and model: the error, or 100 where it is beyond a threshold."""
    limit = CRITERIA[criterion][0]
    return errors if limit is None else np.where(np.isnan(errors), np.nan, 100.0 * (errors > limit))


def _clusters(groups: ArrayLike, scheme: str) -> NDArray[np.intp]:
    """Return the number of the unit that each row is resampled with."""
    clusters = np.asarray(groups)
    return np.unique(clusters if scheme == "grouped" else np.arange(len(clusters)), return_inverse=True)[1]


def _completed(errors: FloatArray, others: FloatArray) -> FloatArray:
    """Return ``errors`` (n, n_left) with its NaN filled by those of another model (n, 1) plus their mean difference."""
    return np.where(np.isnan(errors), others + np.nanmean(errors - others, axis=0), errors)


def _order(names: list[str], preference: Sequence[str] | None, baselines: Collection[str]) -> NDArray[np.intp] | None:
    """Return the position of each model in the order of preference, baselines last; None without preference."""
    if preference is None:
        return None
    liked = {name: i for i, name in enumerate(preference)}
    key = [(name in baselines, liked.get(name, len(liked)), i) for i, name in enumerate(names)]
    return np.argsort(np.array([i for *_, i in sorted(key)], dtype=np.intp))


class _Chooser:
    """Chooses a model on each of several samples of clusters, given as counts (samples × clusters)."""

    def __init__(self, losses: FloatArray, code: NDArray[np.intp], order: NDArray[np.intp] | None) -> None:
        self.sizes = np.bincount(code).astype(np.float64)
        self.sums = _cluster_sums(losses, code)
        self.order = order

    def choose(self, counts: FloatArray, means: FloatArray) -> NDArray[np.intp]:
        """Return the index of the model chosen on each sample; ``means`` are of the losses, samples × models."""
        best = np.argmin(means, axis=1)
        if self.order is None:
            return best
        chosen = best.copy()
        for model in np.unique(best):
            rows = best == model
            above = means[rows] - means[rows][:, [model]]
            liked = np.where(
                above <= self._standard_error(counts[rows], above, int(model)), self.order, len(self.order)
            )
            chosen[rows] = np.argmin(liked, axis=1)
        return chosen

    def _standard_error(self, counts: FloatArray, above: FloatArray, model: int) -> FloatArray:
        """Return the standard error of the difference in mean loss to ``model``, samples × models: a ratio estimate.

        Its square is sum_g c_g (D_g - n_g delta)² / (sum_g c_g n_g)², with D_g the difference of the sums of cluster g
        and n_g its size.
        """
        apart, sizes = self.sums - self.sums[:, [model]], self.sizes[:, None]
        spread = counts @ apart**2 - 2 * above * (counts @ (apart * sizes)) + above**2 * (counts @ sizes**2)
        return np.sqrt(np.maximum(spread, 0.0)) / (counts @ self.sizes)[:, None]


class _Draws(NamedTuple):
    """What the bootstrap saw; error and inliers (percent) are of the model chosen on a sample, on the rows it left out.

    The error is averaged over all left-out rows of all samples: a mean of means would favour small groups.
    """

    in_bag: FloatArray  # E_out, samples × models
    losses: FloatArray  # mean of what is chosen by, samples × models
    chosen: NDArray[np.intp]
    error: float
    inliers: dict[str, float]


def _bootstrap(errors: FloatArray, code: NDArray[np.intp], chooser: _Chooser, replicates: int, seed: int) -> _Draws:
    """Resample clusters; cluster sums (clusters × models) times counts (samples × clusters) replace resampled rows."""
    sizes, sums = chooser.sizes, _cluster_sums(errors, code)
    in_bag, losses, chosen, rows, total, inside = [], [], [], 0.0, 0.0, np.zeros(len(THRESHOLDS))
    hits: dict[int, FloatArray] = {}
    for counts in _cluster_counts(len(sizes), replicates, seed):
        drawn = (counts @ sizes)[:, None]
        means = (counts @ chooser.sums) / drawn
        left_out = (counts == 0).astype(np.float64)
        best = chooser.choose(counts, means)
        for model in np.unique(best):
            if model not in hits:
                within = errors[:, [model]] <= np.asarray(THRESHOLDS)
                hits[int(model)] = _cluster_sums(within.astype(np.float64), code)
            weight = left_out[best == model].sum(axis=0)
            rows += weight @ sizes
            total += weight @ sums[:, model]
            inside += weight @ hits[int(model)]
        in_bag.append((counts @ sums) / drawn)
        losses.append(means)
        chosen.append(best)
    inliers = {str(limit): float(100.0 * hit / rows) for limit, hit in zip(THRESHOLDS, inside, strict=True)}
    return _Draws(np.concatenate(in_bag), np.concatenate(losses), np.concatenate(chosen), float(total / rows), inliers)


def _cluster_sums(values: FloatArray, code: NDArray[np.intp]) -> FloatArray:
    order = np.argsort(code, kind="stable")
    return np.add.reduceat(values[order], np.r_[0, np.cumsum(np.bincount(code))[:-1]], axis=0)


def _cluster_counts(clusters: int, replicates: int, seed: int) -> Iterator[FloatArray]:
    """Yield how often each cluster was drawn (samples × clusters), some samples at a time; none holds all clusters."""
    rng = np.random.default_rng(seed)
    done = 0
    while done < replicates:
        draws = rng.integers(clusters, size=(min(_CHUNK, replicates - done), clusters))
        flat = draws + clusters * np.arange(len(draws))[:, None]
        counts = np.bincount(flat.ravel(), minlength=draws.size).reshape(draws.shape).astype(np.float64)
        counts = counts[(counts == 0).any(axis=1)]
        done += len(counts)
        if len(counts):
            yield counts


def _tied(in_bag: FloatArray, model: int, best: int, units: int, level: float) -> bool:
    """Whether zero lies in the interval of the difference in mean loss, both models resampled together."""
    if model == best:
        return True
    lower, _ = percentile_interval(in_bag[:, model] - in_bag[:, best], units, level=level)
    return bool(lower <= 0)
