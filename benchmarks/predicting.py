"""Predicting new rows, from a file to a file, against the fitted estimator alone, its features given."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from ..api.predicting import predict
from ..api.runs import Run
from ..api.training import train
from ..staging import temporary_folder
from .features import HOST, TARGET, gemms
from .harness import Comparison, Contender

LARGE = "FLOPCAST_BENCH_LARGE"
"""Set in the environment, it adds a million rows."""


def predicting(sizes: Sequence[int], seed: int = 0, trained: int = 500) -> Iterator[Comparison]:
    """Yield the predictions of fp8 GEMMs, pair MI300X to MI355X, for each number of rows (see `LARGE`)."""
    measured = pd.concat(
        [gemms(trained, seed, device) for device in (HOST, TARGET)], ignore_index=True
    )
    run = train(
        measured, host=HOST, target=TARGET, models=["ExtraTrees/Residual", "BoostedTrees"], jobs=1
    )
    saved, recipe = run.trained.saved, run.trained.recipe
    with temporary_folder() as folder:
        for n in (*sizes, *([1_000_000] if os.environ.get(LARGE) else [])):
            data, out = folder / f"{n}.parquet", folder / "predicted.parquet"
            rows = gemms(n, seed + 1, HOST)
            rows.to_parquet(data)
            X = recipe.transform(rows)
            yield Comparison(
                task=f"predict {n} GEMMs, Parquet to Parquet",
                ours=Contender("flopcast predict", partial(_predicted, run, data, out)),
                peers=(
                    Contender("the estimator alone, features given", partial(saved.predict, X)),
                ),
                nothing=Contender("do nothing (zeros)", partial(np.zeros, n)),
                differs=different_times,
                items=n,
            )


def _predicted(run: Run, data: Path, out: Path) -> Path:
    predict(run, data, out=out)
    return out


def different_times(out: Path, times: np.ndarray) -> str:
    """Return in what the predictions by the model alone, those within its range, differ from the estimator's."""
    frame = pd.read_parquet(out, columns=["basis", "predicted_us"])
    inside = frame["basis"].isin(["known group", "new group", "new campaign"]).to_numpy()
    same = inside.any() and np.allclose(
        frame["predicted_us"].to_numpy()[inside], times[inside], rtol=1e-12, atol=0.0
    )
    return "" if same else "predictions"
