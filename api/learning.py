"""Learning curves: the error on workloads that were not measured, against how many of the target's were."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Unpack

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from .. import values
from ..errors import ParameterError, check_drawn, check_level, check_number, counted
from ..evaluation.checking import median_shift
from ..evaluation.competition import compete, usable_schemes
from ..evaluation.final_model import fit_final
from ..evaluation.folds import make_folds
from ..evaluation.metrics import ape
from ..evaluation.trained_model import Correction, TrainedModel
from ..features.matrix import Dataset, build_dataset
from ..hardware import GPU
from ..models.suite import of_prior
from ..output import FILES
from ..report import figures
from ..report.checking import curve_document
from ..report.document import Document
from ..report.result import Shown, saving
from ..settings import Report, configured, spelt_out
from ..table.conditions import MeasuredReading
from ..table.problems import HOST
from ..values import Columns, Drawn, Names
from .checking import Check
from .devices import Device, compared
from .predicting import RunGiven, RunLike, run_of
from .runs import Run, Trained, as_prior
from .tables import Data, items_or_embedded, load_measurements

# rows of the target that are measured, where nobody says how many
ROWS: Final = (
    10,
    30,
    100,
    300,
    1000,
)
MODELS: Final = ("Additive", "BoostedTrees/Residual", "ExtraTrees/Residual")
"""Models that compete: the most cautious, and what is best of many rows and of few."""
FOLDS: Final = 10
ASKED: Final = 3000  # most held-out rows that are predicted in a draw
ALONE = "target alone"
WITH_PRIOR = "with a prior"
FROM_HOST = "from the host"
SHIFTED = "the run, shifted"
# what a data set says of its rows by itself
_OWN: Final = (
    "flops",
    "bytes",
    "compute_dtype",
    "bound",
)


@dataclass(frozen=True)
class Curve(Shown):
    """Errors against the number of measured rows.

    Attributes
    ----------
    draws : DataFrame
        One row per number of rows, way and draw: ``rows``, ``way`` ("target alone", "with a prior",
        "from the host", "the run, shifted"), ``draw``, ``held_out`` (rows), ``model`` (which was
        selected), ``e_out``, ``median_ape`` and ``affine`` (of the line through the host's times,
        or the roofline's) in percent, ``coverage`` and ``answered`` as shares, ``width`` (median of
        the interval's width over the prediction).
    about : dict
        ``host``, ``target``, ``metric``, ``scheme``, ``interval``, ``seed``, and how many rows
        there are to draw from (``pool``) and were held out (``held_out``). With a ``shifted_run``
        its target, and ``anew_from``: from how many rows on training anew errs less, None where it
        does with none of those tried.
    """

    saved_as = FILES["curve"]
    draws: pd.DataFrame
    about: dict[str, Any]

    @property
    def table(self) -> pd.DataFrame:
        """One row per number of rows and way: means over the draws, the least and greatest ``e_out``, the model."""
        grouped = self.draws.groupby(["rows", "way"], sort=False)
        means = grouped[["e_out", "median_ape", "affine", "coverage", "width", "answered"]].mean()
        extra = grouped.agg(
            least=("e_out", "min"),
            greatest=("e_out", "max"),
            model=("model", lambda names: names.mode().iloc[0]),
        )
        return pd.concat([means, extra], axis=1).reset_index()

    def plot(self) -> go.Figure:
        """Draw error and coverage against the number of rows."""
        return figures.learning(self.table, self.about["interval"])

    def document(self) -> Document:
        """Return the curve as `report` shows it on terminals and pages."""
        return curve_document(self.table, self.about)


@configured
def with_curve(
    answer: Check,
    *,
    group: Columns | None = None,
    seed: int = 0,
    progress: Report | None = None,
) -> Check:
    """Return a check of a run on a third device with its learning curve: from how many rows on training anew errs less.

    A check of the run's target, or of a run with many targets, is returned as it is.

    Parameters
    ----------
    answer : Check
        What `check` returned.
    group, seed, progress
        As for `curve`.

    Raises
    ------
    FlopcastError
        The rows of the third device are too few for a curve.

    Examples
    --------
    >>> import flopcast as fc
    >>> run = fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1)
    >>> found = run.check(fc.read(where={"m": (65, 256)}))
    >>> fc.with_curve(found) is found
    True
    """
    recipe = answer.run.trained.recipe
    if answer.facts.target == recipe.target.name or recipe.comparison.is_many:
        return answer
    learnt = curve(
        answer.measured,
        host=recipe.host,
        target=answer.facts.target,
        metric=answer.facts.metric,
        group=group,
        interval=answer.facts.level,
        seed=seed,
        shifted_run=answer.run,
        models=MODELS,
        progress=progress,
    )
    return replace(answer, learnt=learnt)


@saving
@spelt_out
@configured
def curve(
    *data: Data,
    host: Device | None = None,
    target: Device | None = None,
    rows: Drawn = ROWS,
    draws: int = 3,
    group: Columns | None = None,
    metric: str = "duration_us",
    prior_run: str | Path | Run | None = None,
    shifted_run: RunGiven | None = None,
    models: Names | None = MODELS,
    scheme: str | None = None,
    interval: float = 0.9,
    seed: int = 0,
    progress: Report | None = None,
    **reading: Unpack[MeasuredReading],
) -> Curve:
    """Say how many rows of the target to measure: error and coverage against their number, with a host and without.

    In every draw other groups are held out, in ten draws each of them once. Of the other rows so
    many are drawn at random, a model is trained on them as `train` does, once from shapes alone,
    with a prior once with that, and with a host once from what that measured, and predicts the rows
    held out. Smaller draws are parts of larger ones.

    Parameters
    ----------
    *data : path, DataFrame, Measurements, or a sequence of them, optional
        Measured files and folders, any mix. None: the embedded measurements.
    host, target, group, metric
        As for `train`. With a host only problems that both measured count.
    where, unit, default, rename, keep
        As for `read`.
    rows : sequence of int, or str
        How many rows of the target to measure. At least 10 each; those that the data do not have
        are left out.
    draws : int
        How often rows are drawn, and others held out.
    prior_run : str, Path or Run, optional
        As for `train`. Its own models (`models.suite.of_prior`) compete there too.
    shifted_run : str, Path or Run, optional
        Also say from how many rows on training anew errs less than this run, shifted. It is a run
        from the same host, or from shapes alone, for another target: its predictions times one
        factor, the median of observed / predicted over the rows drawn, stand beside training anew
        on these rows in the way it was trained.
    models : sequence of str, optional
        As for `train`. None: all.
    scheme : {"grouped", "kfold"}, default: grouped where there are three groups or more, else kfold
        As for `train`: whole groups are held out, or rows.
    interval : float, default=0.9
        As for `predict`: of those whose coverage is counted.
    seed : int
        As for `train`.
    progress : callable, optional
        Called as ``progress(done, total, label, eta_seconds)`` after every training.

    Returns
    -------
    Curve

    Raises
    ------
    FlopcastError
        The data or the devices cannot be used, or a parameter is wrong (`ParameterError` names it).

    Examples
    --------
    >>> import flopcast as fc
    >>> small = {"m": (None, 64)}
    >>> found = fc.curve(host="MI300X", target="MI355X", where=small, rows=[20], draws=1, models="Additive")
    >>> found.table[["rows", "way"]].to_numpy().tolist()
    [[20, 'target alone'], [20, 'from the host']]
    """
    check_level(interval)
    check_number("seed", seed, 0)
    wanted = check_drawn(values.counts("rows", rows) or [])
    if draws < 1:
        raise ParameterError("draws", f"must be 1 or more, got {draws}")
    items_or_embedded(data or None)  # a run folder in their place is refused first
    if target is None:
        raise ParameterError("target", "is missing: which device is measured?")
    comparison, _ = compared(host, target, tuple)
    measured_on = comparison.host
    predicted = comparison.target
    if comparison.is_many:
        raise ParameterError("target", "must be one device: its rows are drawn")
    if prior_run is None:
        prior = None
    else:
        prior = as_prior(prior_run, predicted, metric)
    names = [gpu.name for gpu in comparison.devices]
    measured = load_measurements(data or None, devices=names, only=names, **reading)
    options: dict[str, Any] = {"metric": metric, "group": values.columns("group", group)}
    every = build_dataset(measured.frame, host=measured_on, target=predicted, **options)
    possible = usable_schemes(every)[0]
    if scheme is None and "grouped" in possible:
        scheme = "grouped"
    elif scheme is None:
        scheme = possible[0]
    if scheme not in possible:
        raise ParameterError(
            "scheme", f"must be {' or '.join(possible)} for these data, got {scheme!r}"
        )
    stated = values.names("models", models)
    target_rows, host_rows = _by_device(every)
    ways: dict[str, tuple[list[pd.DataFrame], GPU | None, TrainedModel | None]] = {
        ALONE: ([target_rows], None, None)
    }
    if prior is not None:
        ways[WITH_PRIOR] = [prior.with_predictions(target_rows, predicted)], None, prior
    if measured_on is not None:
        ways[FROM_HOST] = [target_rows, host_rows], measured_on, None
    if shifted_run is None:
        shifted = None
    else:
        shifted = _shiftable(shifted_run, measured_on, metric)
    if shifted is not None:  # beside it only what was trained in the same way
        ways = {
            SHIFTED: (
                [host_rows.assign(device=(shifted.recipe.host or shifted.recipe.target).name)],
                None,
                None,
            )
        } | ({FROM_HOST: ways[FROM_HOST]} if measured_on is not None else {ALONE: ways[ALONE]})
    results = list[dict[str, Any]]()
    pools = list[int]()
    held_out = list[int]()
    start = perf_counter()
    done = 0
    total = draws * len(ways) * len(wanted)
    # no trained group is asked about
    folds = make_folds(scheme, every.groups, len(every), FOLDS, seed)
    new = scheme == "grouped"
    turns = np.random.default_rng(seed).permutation(folds.max() + 1)
    for draw in range(draws):  # each time another fold: the first one always has the largest group
        turn = turns[draw % len(turns)]
        held = np.flatnonzero(folds == turn)
        pool = np.flatnonzero(folds != turn)
        asked = held[np.linspace(0, len(held) - 1, min(ASKED, len(held))).astype(int)]
        order = np.random.default_rng(seed + draw).permutation(pool)
        pools.append(len(pool))
        held_out.append(len(held))
        for count in wanted:
            for way, (parts, from_host, taught) in ways.items():
                done += 1
                if count > len(pool):
                    continue
                if way == SHIFTED and shifted is not None:
                    model = shifted
                    scored = _of_shifted(shifted, parts[0], every.y, order[:count], asked, interval)
                else:
                    drawn = pd.concat(
                        [part.iloc[order[:count]] for part in parts], ignore_index=True
                    )
                    dataset = build_dataset(drawn, host=from_host, target=predicted, **options)
                    if taught:
                        models_here = [*(stated or ()), *of_prior(len(dataset))]
                    else:
                        models_here = stated
                    competition = compete(
                        dataset, models=stated and models_here, seed=seed, scheme=scheme, alone=new
                    )
                    final, _ = fit_final(dataset, competition, seed=seed, rank=False)
                    model = Trained(dataset, final, measured, taught).loaded
                    scored = _scored(
                        every.y[asked], model.answer(parts[-1].iloc[asked], interval)[0]
                    )
                selected = str(model.saved.manifest["selected"])
                results.append(
                    {
                        "rows": count,
                        "way": way,
                        "draw": draw,
                        "held_out": len(held),
                        "model": selected,
                        **scored,
                    }
                )
                if progress is not None:
                    seconds = (perf_counter() - start) * (total - done) / done
                    progress(done, total, f"{counted(count, 'row')}, {way}", seconds)
    if not results:
        raise ParameterError(
            "rows", f"must be {max(pools)} or less: so many rows are left to draw from"
        )
    about = {
        "host": every.host.name if every.host else None,
        "target": every.target.name,
        "metric": metric,
        "scheme": scheme,
        "interval": interval,
        "draws": draws,
        "seed": seed,
        "pool": min(pools),
        "held_out": min(held_out),
        "left_out": [count for count in wanted if count > max(pools)],
    }
    if shifted is not None:
        about |= {
            "shifted_target": shifted.recipe.target.name,
            "anew_from": _anew_from(pd.DataFrame(results)),
        }
    return Curve(pd.DataFrame(results), about)


def _anew_from(draws: pd.DataFrame) -> int | None:
    """Return from how many rows on training anew errs less than the run shifted, on average; None: with none tried."""
    errors = draws.pivot_table("e_out", "rows", "way", sort=False).sort_index()
    better = errors.drop(columns=SHIFTED).min(axis=1) < errors[SHIFTED]
    lasting = better[::-1].cummin()
    if lasting.any():
        return int(lasting[lasting].index.min())
    return None


def _shiftable(run: str | Path | RunLike, host: GPU | None, metric: str) -> TrainedModel:
    """Return the model of a run that predicts from this host, or a ParameterError."""
    trained = run_of(run).trained
    recipe = trained.recipe
    host_trained = None
    if recipe.host:
        host_trained = recipe.host.name
    if host_trained != (host.name if host else None):
        raise ParameterError(
            "shifted_run",
            f"must predict from the same host, and this one does from {host_trained or 'shapes alone'}",
        )
    if recipe.metric != metric or recipe.comparison.is_many:
        what = f"{recipe.metric} of {recipe.target.name}"
        raise ParameterError(
            "shifted_run", f"must predict {metric} of one device, and this one predicts {what}"
        )
    return trained


def _of_shifted(
    model: TrainedModel,
    rows: pd.DataFrame,
    y: np.ndarray,
    drawn: np.ndarray,
    asked: np.ndarray,
    level: float,
) -> dict[str, float]:
    """Return the errors of a run on rows asked about, shifted by the median of observed / predicted of those drawn."""
    before = model.answer(rows.iloc[drawn], level)[0]["predicted"].to_numpy(dtype=float)
    answered = before > 0
    shift = median_shift(np.log(y[drawn][answered] / before[answered]))
    answers = model.answer(rows.iloc[asked], level)[0]
    if shift is not None:
        correction = Correction.of(shift, rows=int(answered.sum()), groups=0)
        answers = correction.applied(answers, level).assign(affine=answers["affine"] * shift.value)
    return _scored(y[asked], answers)


def _by_device(every: Dataset) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows as the target measured them and, row by row, as the host did (with none: the same)."""
    plain = every.rows.drop(columns=[name for name in every.rows if name in _OWN])
    theirs = [name for name in plain if str(name).startswith(HOST)]
    target = plain.drop(columns=theirs)
    if every.host is None:
        return target, target
    measured = {str(name).removeprefix(HOST): plain[name] for name in theirs}
    return target, target.assign(**measured, device=every.host.name)


def _scored(observed: np.ndarray, answers: pd.DataFrame) -> dict[str, float]:
    """Return the errors of answers; rows without one count as not answered, and nowhere else."""
    answered = answers["predicted"].notna().to_numpy()
    given = answers[answered]
    y = observed[answered]
    if not len(given):
        return dict.fromkeys(
            ("e_out", "median_ape", "affine", "coverage", "width"), float("nan")
        ) | {"answered": 0.0}
    errors = ape(y, given["predicted"])
    promised = given["lower"].notna() & given["upper"].notna()
    inside = (given["lower"] <= y) & (y <= given["upper"])
    return {
        "e_out": float(errors.mean()),
        "median_ape": float(np.median(errors)),
        "affine": float(ape(y, given["affine"]).mean()),
        "coverage": float(inside[promised].mean()),
        "width": float(((given["upper"] - given["lower"]) / given["predicted"]).median()),
        "answered": float(answered.mean()),
    }
