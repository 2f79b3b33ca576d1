"""How many rows the advice saves: errors for unseen groups after a batch of `choose`, and after random batches.

AITER's FP8 pairs, MIOpen pairs (MI210 -> MI300X) and Dell's GEMMs (one device, one of three weight
shapes left out), 20 draws each: a third of the groups is left out, six random rows of the others
are measured, then a batch of the others. The model is a cheap one, trees on the residual of a sum
of times. Printed is the mean error by rows in the batch, and what a batch of 60 % of the rows does.
``python -m flopcast.benchmarks.advising [--data FOLDER]``.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesRegressor

from ..api.devices import device
from ..api.tables import load_measurements
from ..evaluation.advising import choose, coordinates, importance
from ..features.matrix import Dataset, build_dataset
from ..models.baselines import AdditiveTime
from ..models.ensembles import LogResidual
from .shared_data import run_on_data

DRAWS, FIRST, MOST = 20, 6, 1000
BATCHES = (20, 40, 60)
SHARE = 0.6
_SHAPES = ("compute.target_us", "memory.target_us", "tiles.target_us")


def data_sets(data: Path) -> Iterator[tuple[str, Dataset]]:
    """Yield each data set under its name."""
    fp8 = {"op": "gemm", "family": "a8w8_blockscale"}
    for name, where, host, target in (
        ("aiter", fp8, "MI300X", "MI355X"),
        ("miopen", None, "MI210", "MI300X"),
    ):
        frame = load_measurements([data / name], where).frame
        yield name, build_dataset(frame, host=device(host, "host"), target=device(target, "target"))
    dell = pd.read_csv(data / "workloads" / "dell_mlperf41_mi300x_fp8_gemm.csv")
    sizes = {
        "m": dell["N_tokens"],
        "n": dell["M_weight_rows"],
        "k": dell["K"],
        "duration_us": 1e3 * dell["time_ms"],
    }
    words = {"device": "MI300X", "op": "gemm", "dtype_a": "fp8", "dtype_out": "fp16"}
    frame = load_measurements([pd.DataFrame(sizes).assign(**words)]).frame
    yield "dell", build_dataset(frame, host=None, target=device("MI300X", "target"))


def errors(dataset: Dataset, seed: int) -> Iterator[tuple[int, str, float]]:
    """Yield the size of a batch, how it was chosen, and the error for the groups left out, percent."""
    rng, groups = np.random.default_rng(seed), dataset.groups.astype(str)
    left_out = np.isin(
        groups, rng.permutation(np.unique(groups))[: max(1, len(np.unique(groups)) // 3)]
    )
    pool, test = (_some(rng, np.flatnonzero(rows)) for rows in (~left_out, left_out))
    X, y, names = dataset.X.iloc[pool], dataset.y[pool], groups[pool]
    order = rng.permutation(len(pool))
    first, random = order[:FIRST], order[FIRST:]
    weights = importance(names, np.ones(len(names)))
    advised = choose(
        coordinates(X), weights, budget=float(max(BATCHES)), groups=names, measured=first
    )
    sizes = sorted({*BATCHES, *(round(SHARE * batch) for batch in BATCHES)})
    for size in sizes:
        for how, batch in (("random", random), ("advised", advised)):
            rows = np.r_[first, batch[:size]]
            predicted = (
                _model(dataset, seed).fit(X.iloc[rows], y[rows]).predict(dataset.X.iloc[test])
            )
            yield size, how, float(100 * np.mean(np.abs(predicted / dataset.y[test] - 1)))


def _some(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    return rows if len(rows) <= MOST else rng.choice(rows, MOST, replace=False)


def _model(dataset: Dataset, seed: int) -> Any:
    base = AdditiveTime(["host_us"] if dataset.host else _SHAPES)
    return LogResidual(
        base, ExtraTreesRegressor(30, max_features=0.5, min_samples_leaf=2, random_state=seed)
    )


def show(options: argparse.Namespace) -> None:
    """Print a line per data set and batch."""
    warnings.simplefilter("ignore")
    for name, dataset in data_sets(options.data):
        rows = pd.DataFrame(
            [(seed, *one) for seed in range(DRAWS) for one in errors(dataset, seed)],
            columns=["seed", "rows", "how", "error"],
        )
        mean = rows.groupby(["rows", "how"])["error"].mean()
        for batch in BATCHES:
            fewer = round(SHARE * batch)
            print(
                f"{name}: random {batch} rows {mean[batch, 'random']:.2f} %, advised "
                f"{mean[batch, 'advised']:.2f} %, "
                f"advised {fewer} rows {mean[fewer, 'advised']:.2f} % (random "
                f"{mean[fewer, 'random']:.2f} %)",
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(run_on_data("advising", __doc__, show))
