"""The feature matrix of new rows against NumPy computing FLOPs and bytes alone, at growing numbers of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd

from ..features.matrix import build_dataset
from ..hardware import find
from ..table.measurements import clean
from .harness import Comparison, Contender

HOST, TARGET = "MI300X", "MI355X"


def features(sizes: Sequence[int], seed: int = 0) -> Iterator[Comparison]:
    """Yield the features of fp8 GEMMs, pair MI300X to MI355X, for each number of rows."""
    learned_on = pd.concat(
        [gemms(500, seed, device) for device in (HOST, TARGET)], ignore_index=True
    )
    recipe = build_dataset(learned_on, host=find(HOST), target=find(TARGET)).recipe
    for n in sizes:
        rows = gemms(n, seed + 1, HOST)
        yield Comparison(
            task=f"features of {n} GEMMs",
            ours=Contender(
                f"flopcast, {len(recipe.columns)} features", partial(recipe.transform, rows)
            ),
            peers=(Contender("numpy, FLOPs and bytes only", partial(two_columns, rows)),),
            nothing=Contender("do nothing (zeros)", partial(np.zeros, (n, len(recipe.columns)))),
            differs=different_work,
            items=n,
        )


def gemms(n: int, seed: int, device: str) -> pd.DataFrame:
    """Return n rows of the measurement table: fp8 GEMMs with random shapes and times near 50 TFLOPS plus 5 µs."""
    rng = np.random.default_rng(seed)
    m, columns, k = (
        2.0 ** rng.integers(low, 14, n) + 16 * rng.integers(0, 4, n) for low in (0, 8, 8)
    )
    raw = pd.DataFrame(
        {
            "device": device,
            "op": "gemm",
            "family": "",
            "kernel": "k",
            "dtype_a": "fp8",
            "dtype_b": "fp8",
            "dtype_out": "bf16",
            "m": m,
            "n": columns,
            "k": k,
            "batch": 1.0,
            "scale_block": "",
            "duration_us": 5 + 2 * m * columns * k / 50e6 * np.exp(0.1 * rng.normal(size=n)),
        }
    )
    return clean(raw.assign(source="made up")).frame


def two_columns(rows: pd.DataFrame) -> np.ndarray:
    """Return FLOPs and bytes of fp8 GEMMs with bf16 output, shape (n, 2)."""
    m, n, k = (rows[name].to_numpy() for name in ("m", "n", "k"))
    return np.column_stack([2 * m * n * k, m * k + n * k + 2 * m * n])


def different_work(matrix: pd.DataFrame, work: np.ndarray) -> str:
    """Return which of FLOPs and bytes differ between the feature matrix and the two columns."""
    named = {"FLOPs": "log2.flops", "bytes": "log2.bytes"}
    wrong = [
        name
        for column, (name, feature) in enumerate(named.items())
        if not np.allclose(matrix[feature], np.log2(work[:, column]), rtol=1e-9)
    ]
    return " and ".join(wrong)
