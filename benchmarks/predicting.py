"""Predicting new rows, from a file to a file, against the fitted estimator and LightGBM alone, features given."""

from __future__ import annotations

import subprocess
import sys
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
LARGE = 10**6  # rows from which on everybody predicts once, and memory is not traced
#: Predicts in a separate process; prints its CPU time, without that of imports and of the model, and its peak.
_ALONE = """
import re, sys, time
from pathlib import Path
import flopcast as fc
from flopcast.evaluation.trained_model import TrainedModel
run, data, out = map(Path, sys.argv[1:])
TrainedModel.load(run)
before = time.process_time()
fc.predict(run, data, out=out)
seconds = time.process_time() - before
peak = re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1]
print(f"{seconds:.1f} s of CPU, {1024 * int(peak) / 1e9:.2f} GB at most")
"""


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
        run.save(folder / "run")
        for n in sizes:
            rows = gemms(n, seed + 1, HOST)
            X = recipe.transform(rows)
            for form in FORMATS:
                data, out = folder / f"{n}.{form}", folder / f"predicted.{form}"
                if form == "csv":
                    rows.to_csv(data, index=False)
                else:
                    rows.to_parquet(data)
                once = n >= LARGE
                estimator = "the estimator alone, features given"
                yield Comparison(
                    task=f"predict {n} GEMMs, {form} to {form}{_alone(folder, data, out)}",
                    ours=Contender("flopcast predict", partial(_predicted, run, data, out), once),
                    peers=(
                        Contender(estimator, partial(saved.predict, X), once),
                        _lightgbm(saved.estimator, X, once),
                    ),
                    nothing=Contender("do nothing (zeros)", partial(np.zeros, n)),
                    differs=different_times,
                    items=n,
                )


def _alone(folder: Path, data: Path, out: Path) -> str:
    """Return what predicting takes a separate process, in words; "" where Linux is not."""
    if not Path("/proc/self/status").is_file():
        return ""
    command = [sys.executable, "-c", _ALONE, str(folder / "run"), str(data), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return f" (a process of its own: {done.stdout.strip()})"


def _lightgbm(estimator: Any, X: pd.DataFrame, once: bool) -> Contender:
    """Return LightGBM's prediction, what its trees see given."""
    name = "LightGBM's predict of the same trees alone"
    if not isinstance(estimator, LogResidual):
        return Contender(name, lambda: None, missing="a baseline won: there are no trees")
    log_base = np.log(estimator.base_.predict(X))
    seen = estimator.seen(X, log_base)
    return Contender(name, partial(_summed, estimator.learner_.native(), seen, log_base), once)


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
