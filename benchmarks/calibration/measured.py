"""Intervals of measured rows that were left out: MI300X alone, known and new groups, beside MAPIE and crepes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin

import flopcast as fc

from ...arrays import FloatArray
from ...evaluation.intervals import LEVEL, interval_score
from .rows import Row, Rows

Limits = tuple[FloatArray, FloatArray]


def alone(data: Path, seed: int = 0) -> Rows:
    """Yield what intervals hold of AITER's products on MI300X, a fifth of the rows left out: known and new groups."""
    frame = fc.read(data / "aiter", where={"op": "gemm", "family": "a8w8_blockscale"}).frame
    frame = frame[frame["device"].astype(str).str.contains("MI300X")].drop_duplicates(
        ["m", "n", "k"]
    )
    draw = np.random.default_rng(seed)
    out = draw.random(len(frame)) < 0.2
    run = fc.train(frame[~out], target="MI300X", quick=True)
    rows = run.check(frame[out]).rows
    inside = rows["observed"].between(rows["lower"], rows["upper"])
    yield Row("MI300X alone, known groups: 90 % intervals hold", float(inside.mean()), len(rows))
    width = np.median((rows["upper"] - rows["lower"]) / rows["predicted"])
    yield Row("MI300X alone, known groups: width, median", 100 * float(width), len(rows), " %")
    predictions = run.predictions
    predictions = predictions[
        (predictions["scheme"] == "grouped") & (predictions["model"] == run.selected["name"])
    ].sort_values("row")
    y, p, fold = (predictions[name].to_numpy() for name in ("observed", "predicted", "fold"))
    groups, X = run.dataset.groups.astype(str), run.dataset.X
    answers = pd.concat(
        [unseen(run.dataset.rows, fold == one, target="MI300X") for one in np.unique(fold)],
        ignore_index=True,
    )
    within = answers["within"].to_numpy(bool)
    for where, part in (
        ("", answers),
        (" within the range", answers[within]),
        (" beyond it", answers[~within]),
    ):
        observed, predicted, *limits = (
            part[name].to_numpy() for name in ("observed", "predicted", "lower", "upper")
        )
        yield from _scored(
            f"MI300X alone, new groups{where}, flopcast", observed, predicted, part["group"], limits
        )
    for name, limits in peers(X, y, p, fold, draw).items():
        yield from _scored(f"MI300X alone, new groups, {name}", y, p, groups, limits)


def unseen(rows: pd.DataFrame, out: np.ndarray, **options: Any) -> pd.DataFrame:
    """Return what a run that was trained without some of the rows says of them, as `check` does."""
    rows = rows.drop(columns=["flops", "bytes", "compute_dtype", "bound"])
    return fc.train(rows[~out], quick=True, **options).check(rows[out]).rows


def _scored(
    name: str,
    y: FloatArray,
    p: FloatArray,
    groups: np.ndarray | pd.Series,
    limits: Sequence[FloatArray],
) -> Rows:
    lower, upper = limits
    inside = (lower <= y) & (y <= upper)
    by_group = pd.Series(inside).groupby(np.asarray(groups)).mean()
    yield Row(f"{name}: 90 % intervals hold", float(inside.mean()), len(y))
    yield Row(f"{name}: width, median", 100 * float(np.median((upper - lower) / p)), len(y), " %")
    yield Row(
        f"{name}: interval score, mean",
        float(interval_score(y, lower, upper, LEVEL).mean()),
        len(y),
        "",
    )
    yield Row(
        f"{name}: groups held in more than 98 % of their rows",
        float((by_group > 0.98).mean()),
        len(by_group),
    )


def peers(
    X: pd.DataFrame, y: FloatArray, p: FloatArray, fold: np.ndarray, draw: np.random.Generator
) -> dict[str, Limits]:
    """Return limits of MAPIE and crepes, where installed, around the same predictions: log residuals of other folds."""
    Z = np.column_stack([np.log(p), X.to_numpy(dtype=float)])
    target = np.log(y)

    def crossed(calibrated: Callable[[np.ndarray, np.ndarray], FloatArray]) -> Limits:
        ends = np.empty((len(y), 2))
        for one in np.unique(fold):
            test = np.flatnonzero(fold == one)
            ends[test] = calibrated(np.flatnonzero(fold != one), test)
        return np.exp(ends[:, 0]), np.exp(ends[:, 1])

    limits: dict[str, Limits] = {}
    if find_spec("crepes"):
        crepes, extras = import_module("crepes"), import_module("crepes.extras")
        residuals = target - Z[:, 0]

        def normalised(rest: np.ndarray, test: np.ndarray) -> FloatArray:
            half = draw.random(len(rest)) < 0.5
            learn, held = rest[half], rest[~half]
            difficulty = extras.DifficultyEstimator().fit(
                X=Z[learn], residuals=residuals[learn], scaler=True
            )
            one = crepes.ConformalRegressor().fit(
                residuals=residuals[held], sigmas=difficulty.apply(Z[held])
            )
            return one.predict_int(
                y_hat=Z[test, 0], sigmas=difficulty.apply(Z[test]), confidence=LEVEL
            )

        limits["crepes, normalised"] = crossed(normalised)
    if find_spec("mapie"):
        scores, regression = (
            import_module("mapie.conformity_scores"),
            import_module("mapie.regression"),
        )
        for name, score in {
            "MAPIE": scores.AbsoluteConformityScore(),
            "MAPIE, normalised": scores.ResidualNormalisedScore(random_state=0),
        }.items():

            def scored(rest: np.ndarray, test: np.ndarray, score: Any = score) -> FloatArray:
                one = regression.SplitConformalRegressor(
                    _Known().fit(Z, target), LEVEL, conformity_score=score
                )
                return one.conformalize(Z[rest], target[rest]).predict_interval(Z[test])[1][:, :, 0]

            limits[name] = crossed(scored)
    return limits


class _Known(RegressorMixin, BaseEstimator):
    """Predicts its first column: what was predicted already."""

    def fit(self, X: FloatArray, y: FloatArray) -> _Known:
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        return X[:, 0]
