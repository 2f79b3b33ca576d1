"""Learning curves: the error on workloads that were not measured, against how many of the target's were."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ..errors import ParameterError, counted
from ..evaluation.competition import compete, usable_schemes
from ..evaluation.crossval import Progress, make_folds
from ..evaluation.deployment import deploy
from ..evaluation.intervals import LEVELS
from ..evaluation.metrics import ape, check_level
from ..evaluation.trained_model import TrainedModel
from ..features.matrix import Dataset, build_dataset
from ..hardware import EVERY, GPU
from ..models.suite import OF_PRIOR
from ..report import figures
from ..report.document import Document
from ..report.html import Shown
from ..report.learning import curve_document
from ..table.conditions import Where
from ..table.problems import HOST
from .devices import Device, device
from .tables import Data, load_measurements, names_of
from .training import Run, Trained, as_prior, trained_model

ROWS: Final = (10, 30, 100, 300, 1000)
"""Rows of the target that are measured, where nobody says how many."""
MODELS: Final = ("Additive", "BoostedTrees/Residual", "ExtraTrees/Residual")
"""Models that compete: the most cautious, and what is best of many rows and of few."""
LEAST: Final = 10
"""Rows that ten folds need."""
FOLDS: Final = 10
ASKED: Final = 3000
"""Most held-out rows that are predicted in a draw."""
ALONE, WITH_PRIOR, FROM_HOST = "target alone", "with a prior", "from the host"
_OWN: Final = ("flops", "bytes", "compute_dtype", "bound")  # what a data set says of its rows by itself


@dataclass(frozen=True)
class Curve(Shown):
    """Errors against the number of measured rows.

    Attributes
    ----------
    draws : DataFrame
        One row per number of rows, way and draw: ``rows``, ``way`` ("target alone", "with a prior", "from the host"),
        ``draw``, ``model`` (which was selected), ``e_out``, ``median_ape`` and ``affine`` (of the line through the
        host's times, or the roofline's) in percent, ``coverage`` and ``answered`` as shares, ``width`` (median of the
        interval's width over the prediction).
    about : dict
        ``host``, ``target``, ``metric``, ``scheme``, ``interval``, ``seed``, and how many rows there are to draw from
        (``pool``) and were held out (``held_out``).
    """

    files = ("curve.json", "curve.html")
    draws: pd.DataFrame
    about: dict[str, Any]

    @property
    def table(self) -> pd.DataFrame:
        """One row per number of rows and way: means over the draws, the least and greatest ``e_out``, the model."""
        found = self.draws.groupby(["rows", "way"], sort=False)
        means = found[["e_out", "median_ape", "affine", "coverage", "width", "answered"]].mean()
        extra = found.agg(
            least=("e_out", "min"), greatest=("e_out", "max"), model=("model", lambda names: names.mode().iloc[0])
        )
        return pd.concat([means, extra], axis=1).reset_index()

    def plot(self) -> go.Figure:
        """Draw error and coverage against the number of rows."""
        return figures.learning(self.table, self.about["interval"])

    def document(self) -> Document:
        """Return the curve as `report` shows it on terminals and pages."""
        return curve_document(self.table, self.about)


def curve(
    data: Data | None = None,
    *,
    host: Device | None = None,
    target: Device | None = None,
    where: Where = None,
    rows: Sequence[int] = ROWS,
    draws: int = 3,
    group: str | Sequence[str] | None = None,
    metric: str = "duration_us",
    unit: Mapping[str, str] | None = None,
    default: Mapping[str, str] | None = None,
    keep: Collection[str] = (),
    prior_run: str | Path | Run | None = None,
    models: str | Sequence[str] | None = MODELS,
    scheme: str = "grouped",
    interval: float = 0.9,
    seed: int = 0,
    progress: Progress | None = None,
) -> Curve:
    """Say how many rows of the target must be measured: train on few of them, predict others, and so on with more.

    In every draw some groups are held out. Of the other rows so many are drawn at random, a model is trained on them as
    `train` does, once from shapes alone, with a prior once with that, and with a host once from what that measured, and
    predicts the rows held out.
    Smaller draws are parts of larger ones.

    Parameters
    ----------
    data, host, target, where, group, metric, unit, default, keep
        As for `train`. With a host only problems that both measured count.
    rows : sequence of int
        Numbers of measured rows, at least 10 each; those that the data do not have are left out.
    draws : int
        How often rows are held out and drawn.
    prior_run : str, Path or Run, optional
        A run over other devices, as for `train`; its own models (`models.suite.OF_PRIOR`) compete there too.
    models : sequence of str, optional
        Models that compete on the rows drawn; None: all.
    scheme : {"grouped", "kfold"}
        What is held out: whole groups, or rows.
    interval : float, default=0.9
        Level of the intervals whose coverage is counted.
    seed : int
        Seed of everything random.
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
    check_level(interval, LEVELS[0], LEVELS[-1])
    wanted = sorted(set(rows))
    if not wanted or wanted[0] < LEAST:
        raise ParameterError("rows", f"must be {LEAST} or more each, got {list(rows)}")
    if draws < 1:
        raise ParameterError("draws", f"must be 1 or more, got {draws}")
    if target is None:
        raise ParameterError("target", "is missing: which device is measured?")
    gpus = device(host, "host") if host is not None else None, device(target, "target")
    if gpus[1] == EVERY:
        raise ParameterError("target", "must be one device: its rows are drawn")
    names = [gpu.name for gpu in gpus if gpu is not None]
    measured = load_measurements(data, where, unit, default, names, keep=keep)
    options: dict[str, Any] = {"metric": metric, "group": names_of(group, "group")}
    every = build_dataset(measured.frame, host=gpus[0], target=gpus[1], **options)
    if scheme not in (possible := usable_schemes(every)[0]):
        raise ParameterError("scheme", f"must be {' or '.join(possible)} for these data, got {scheme!r}")
    known = None if prior_run is None else as_prior(prior_run, gpus[1], metric)
    told = names_of(models, "models")
    target_rows, host_rows = _by_device(every)
    ways: dict[str, tuple[list[pd.DataFrame], GPU | None, TrainedModel | None]] = {ALONE: ([target_rows], None, None)}
    if known is not None:
        ways[WITH_PRIOR] = [known.told(target_rows, gpus[1])], None, known
    if gpus[0] is not None:
        ways[FROM_HOST] = [target_rows, host_rows], gpus[0], None
    found, pools, held_out, done = list[dict[str, Any]](), list[int](), list[int](), 0
    total = draws * len(wanted) * len(ways)
    for draw in range(draws):
        folds = make_folds(scheme, every.groups, len(every), FOLDS, seed + draw)
        held, pool = np.flatnonzero(folds == 0), np.flatnonzero(folds != 0)
        asked = held[np.linspace(0, len(held) - 1, min(ASKED, len(held))).astype(int)]
        order = np.random.default_rng(seed + draw).permutation(pool)
        pools.append(len(pool))
        held_out.append(len(held))
        for count in wanted:
            for way, (parts, from_host, taught) in ways.items():
                done += 1
                if count > len(pool):
                    continue
                drawn = [part.iloc[order[:count]] for part in parts]
                dataset = build_dataset(pd.concat(drawn, ignore_index=True), host=from_host, target=gpus[1], **options)
                own = [*(told or ()), *OF_PRIOR] if taught else told
                competition = compete(dataset, models=told and own, seed=seed, scheme=scheme)
                model = trained_model(Trained(dataset, deploy(dataset, competition, seed=seed), measured, taught))
                answers = model.answer(parts[-1].iloc[asked], interval)[0]
                scored = _scored(every.y[asked], answers)
                selected = str(model.saved.manifest["selected"])
                found.append({"rows": count, "way": way, "draw": draw, "model": selected, **scored})
                if progress is not None:
                    progress(done, total, f"{counted(count, 'row')}, {way}", float("nan"))
    if not found:
        raise ParameterError("rows", f"must be {max(pools)} or less: so many rows are left to draw from")
    about = {
        "host": every.host.name if every.host else None, "target": every.target.name, "metric": metric,
        "scheme": scheme, "interval": interval, "draws": draws, "seed": seed, "pool": min(pools),
        "held_out": min(held_out), "left_out": [count for count in wanted if count > max(pools)],
    }  # fmt: skip
    return Curve(pd.DataFrame(found), about)


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
    there = answers["predicted"].notna().to_numpy()
    own, y = answers[there], observed[there]
    if not len(own):
        return dict.fromkeys(("e_out", "median_ape", "affine", "coverage", "width"), float("nan")) | {"answered": 0.0}
    errors = ape(y, own["predicted"])
    inside = (own["lower"] <= y) & (y <= own["upper"])
    return {
        "e_out": float(errors.mean()),
        "median_ape": float(np.median(errors)),
        "affine": float(ape(y, own["affine"]).mean()),
        "coverage": float(inside.mean()),
        "width": float(((own["upper"] - own["lower"]) / own["predicted"]).median()),
        "answered": float(there.mean()),
    }
