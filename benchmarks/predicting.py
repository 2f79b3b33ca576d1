"""Predicting new rows, from a file to a file, against the fitted estimator and LightGBM alone, features given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..api.predicting import predict
from ..api.runs import Run
from ..api.training import train
from ..datasets.embedded import default_paths
from ..models.ensembles import LogResidual
from ..readers import read
from ..staging import temporary_folder
from .features import HOST, TARGET, gemms
from .harness import Comparison, Contender

FORMATS = ("parquet", "csv")


def predicting(sizes: Sequence[int], seed: int = 0) -> Iterator[Comparison]:
    """Yield the predictions of fp8 GEMMs, pair MI300X to MI355X, for each number of rows, by format of both files.

    The model is that of ``train --quick`` on the embedded measurements: trees on the residual of a
    sum of terms. LightGBM's own ``Booster.predict`` walks the same trees for the same rows, on one
    thread, and does nothing else.
    """
    measured = read(default_paths()).frame
    run = train(measured, host=HOST, target=TARGET, models=["BoostedTrees/Residual"], jobs=1)
    saved, recipe = run.trained.saved, run.trained.recipe
    with temporary_folder() as folder:
        for n in sizes:
            rows = gemms(n, seed + 1, HOST)
            X = recipe.transform(rows)
            for form in FORMATS:
                data, out = folder / f"{n}.{form}", folder / f"predicted.{form}"
                if form == "csv":
                    rows.to_csv(data, index=False)
                else:
                    rows.to_parquet(data)
                yield Comparison(
                    task=f"predict {n} GEMMs, {form} to {form}",
                    ours=Contender("flopcast predict", partial(_predicted, run, data, out)),
                    peers=(
                        Contender("the estimator alone, features given", partial(saved.predict, X)),
                        _lightgbm(saved.estimator, X),
                    ),
                    nothing=Contender("do nothing (zeros)", partial(np.zeros, n)),
                    differs=different_times,
                    items=n,
                )


def _lightgbm(estimator: Any, X: pd.DataFrame) -> Contender:
    """Return LightGBM's own prediction, what its trees see given."""
    name = "LightGBM's predict of the same trees alone"
    if not isinstance(estimator, LogResidual):
        return Contender(name, lambda: None, missing="a baseline won: there are no trees")
    log_base = np.log(estimator.base_.predict(X))
    seen = estimator.seen(X, log_base)
    return Contender(name, partial(_summed, estimator.learner_.native(), seen, log_base))


def _predicted(run: Run, data: Path, out: Path) -> Path:
    predict(run, data, out=out)
    return out


def _summed(booster: Any, seen: np.ndarray, log_base: np.ndarray) -> np.ndarray:
    return np.exp(log_base + booster.predict(seen, num_threads=1))


def different_times(out: Path, times: np.ndarray) -> str:
    """Return in what the predictions by the model alone, without a rule, differ from the estimator's."""
    if out.suffix == ".csv":
        frame = pd.read_csv(out, usecols=["basis", "predicted_us"])
    else:
        frame = pd.read_parquet(out, columns=["basis", "predicted_us"])
    inside = frame["basis"].isin(["known group", "new group", "new campaign", "beyond"]).to_numpy()
    same = inside.any() and np.allclose(
        frame["predicted_us"].to_numpy()[inside], times[inside], rtol=1e-9, atol=0.0
    )
    return "" if same else "predictions"
