"""Predicting new rows, from the table to words, against the fitted estimator alone, its features given."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd

from ..api.predicting import Prediction, predict
from ..api.training import train
from .features import HOST, TARGET, gemms
from .harness import Comparison, Contender

LARGE = "FLOPCAST_BENCH_LARGE"
"""Set in the environment, it adds a million rows."""


def predicting(sizes: Sequence[int], seed: int = 0, trained: int = 500) -> Iterator[Comparison]:
    """Yield the predictions of fp8 GEMMs, pair MI300X to MI355X, for each number of rows (see `LARGE`)."""
    measured = pd.concat([gemms(trained, seed, device) for device in (HOST, TARGET)], ignore_index=True)
    run = train(measured, host=HOST, target=TARGET, models=["ExtraTrees/Residual", "BoostedTrees"], jobs=1)
    saved, recipe = run.trained.saved, run.trained.recipe
    for n in (*sizes, *([1_000_000] if os.environ.get(LARGE) else [])):
        rows = gemms(n, seed + 1, HOST)
        X = recipe.transform(rows)
        yield Comparison(
            task=f"predict {n} GEMMs",
            ours=Contender("flopcast predict", partial(predict, run, rows)),
            peers=(Contender("the estimator alone, features given", partial(saved.predict, X)),),
            nothing=Contender("do nothing (zeros)", partial(np.zeros, n)),
            differs=different_times,
            items=n,
        )


def different_times(found: Prediction, times: np.ndarray) -> str:
    """Return in what the predictions by the model alone, those within its range, differ from the estimator's."""
    inside = (found.frame["basis"] == "model").to_numpy()
    same = inside.any() and np.array_equal(found.frame["predicted_us"].to_numpy()[inside], times[inside])
    return "" if same else "predictions"
