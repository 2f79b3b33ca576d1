"""How many times longer serving takes under a condition than without it, learnt from runs under it.

The logarithm of a measured time over the forecast one is a Gaussian process (Rasmussen and Williams,
"Gaussian Processes for Machine Learning", MIT Press 2006, chapter 2) over what a run shares with
others (`LEVELS`): each level has a separate variance, one that is the same for any number of
requests under way, and one that fades over octaves of them. What was measured in a setting is
answered nearly as measured; the less a setting shares with any run, the wider the answer is.

Rows of the operator ``serving`` with the figures of their models enter, a mean and a deviation of
the logarithm leave. `datasets/serving_conditions.parquet` holds the runs, and in its metadata the
variances; `benchmarks.serving_conditions` makes it. Start at `process`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray
from ..datasets import SERVING_CONDITIONS
from ..hardware import GPU
from ..operators.work import as_numbers, texts

NONE: Final = "none"
"""Of `speculation`: each step gives a request one token."""
SIZES: Final = ("tp", "dp", "ep", "input_len", "output_len")
_PLACE: Final = ("model", "gpu", "engine", "dtype", *SIZES, "speculation")
LEVELS: Final[Mapping[str, tuple[str, ...]]] = {
    "all": (),
    "model": ("model",),
    "GPU": ("gpu",),
    "engine": ("engine",),
    "lengths": ("input_len", "output_len"),
    "family": ("model", "gpu", "engine"),
    "combination": ("model", "gpu", "engine", "dtype"),
    "setting": _PLACE,
}
"""What runs have in common -> the columns in which they then agree."""
OCTAVES: Final = 3.0
"""Octaves of the requests under way over which ratios fade. A judgement."""
COLUMNS: Final = (*_PLACE, "concurrency")


@dataclass(frozen=True)
class Ratios:
    """Runs under a condition, and how their ratios vary.

    Attributes
    ----------
    runs : DataFrame
        `COLUMNS`, and ``log``: the logarithm of the measured time over the forecast one.
    variances : mapping of str to (float, float)
        By `LEVELS`: for any number of requests under way, and fading over octaves of them.
    noise : float
        Variance of a run.
    centre : float
        Mean of the logarithm where nothing is shared.
    """

    runs: pd.DataFrame
    variances: Mapping[str, tuple[float, float]]
    noise: float
    centre: float

    def of(self, places: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the logarithm of places (`places_of`), that of a run included."""
        from scipy.linalg import solve_triangular  # here: few forecasts ask about conditions

        shared = self._covariance(places, self.runs)
        mean = self.centre + shared @ self._weights
        inner = solve_triangular(self._root, shared.T, lower=True)
        total = sum(map(sum, self.variances.values())) + self.noise
        left = total - np.square(inner).sum(axis=0)
        return mean, np.sqrt(np.maximum(left, self.noise))

    def measured(self, places: pd.DataFrame, level: str = "setting") -> BoolArray:
        """Return which places share a level with a run."""
        here, theirs = (_codes(one, LEVELS[level]) for one in (places, self.runs))
        return np.isin(here, theirs, kind="sort")

    @cached_property
    def _root(self) -> FloatArray:
        """Return the lower Cholesky factor of the covariance of the runs."""
        inner = self._covariance(self.runs, self.runs)
        inner[np.diag_indices(len(inner))] += self.noise
        return np.asarray(np.linalg.cholesky(inner), dtype=np.float64)

    @cached_property
    def _weights(self) -> FloatArray:
        from scipy.linalg import cho_solve

        missed = self.runs["log"].to_numpy() - self.centre
        return np.asarray(cho_solve((self._root, True), missed))

    def _covariance(self, one: pd.DataFrame, two: pd.DataFrame) -> FloatArray:
        covariances = np.zeros((len(one), len(two)))
        for level, alike in likenesses(one, two):
            always, fading = self.variances[level]
            covariances += alike.shared * (always + fading * alike.near)
        return covariances


@dataclass(frozen=True)
class Likeness:
    """How alike pairs of runs are at one level; shape (n, m)."""

    shared: BoolArray  # whether they agree in its columns
    near: FloatArray  # 1 with as many requests under way, 0 far from it


def likenesses(one: pd.DataFrame, two: pd.DataFrame) -> list[tuple[str, Likeness]]:
    """Return the `Likeness` of pairs of runs at each of `LEVELS`."""
    octaves = [np.log2(frame["concurrency"].to_numpy(dtype=np.float64)) for frame in (one, two)]
    # Matérn of order 3/2 (Rasmussen and Williams, equation 4.17)
    apart = np.sqrt(3.0) * np.abs(octaves[0][:, None] - octaves[1]) / OCTAVES
    near = (1.0 + apart) * np.exp(-apart)
    by_level = []
    for level, columns in LEVELS.items():
        shared = _codes(one, columns)[:, None] == _codes(two, columns)
        by_level.append((level, Likeness(shared, near)))
    return by_level


def _codes(places: pd.DataFrame, columns: tuple[str, ...]) -> np.ndarray:
    """Return a number for each combination of values: equal ones have equal numbers, in any table."""
    if not columns:
        return np.zeros(len(places), dtype=np.uint64)
    return pd.util.hash_pandas_object(places[list(columns)], index=False).to_numpy()


def places_of(
    rows: pd.DataFrame, speculation: str = NONE, user_gpu: GPU | None = None
) -> pd.DataFrame:
    """Return rows of the operator ``serving`` as places (`COLUMNS`).

    A model is identified by its figures, so that two names of one are one, or by its name where it has none;
    a GPU by the first word of its name, or the GPU whose kernels ``user_gpu`` has.
    """
    devices = texts(rows, "device")
    if user_gpu is not None:
        devices = np.where(devices == user_gpu.name, user_gpu.measured_name, devices)
    places = pd.DataFrame({name: as_numbers(rows, name) for name in (*SIZES, "concurrency")})
    words = {
        "model": _models(rows),
        "gpu": [str(name).split(" ")[0] for name in devices],
        "engine": texts(rows, "engine"),
        "dtype": texts(rows, "dtype_b"),
        "speculation": [speculation] * len(rows),
    }
    # as objects: equal words have equal hashes whatever Pandas would store them as
    return places.assign(
        **{name: pd.Series(values, dtype=object) for name, values in words.items()}
    )


def _models(rows: pd.DataFrame) -> list[str]:
    figures = [as_numbers(rows, name) for name in ("parameters", "layers", "width")]
    models = []
    for name, *figures_of in zip(texts(rows, "model"), *figures, strict=True):
        if np.isnan(figures_of[0]):
            models.append(str(name))
        else:
            models.append(" ".join(f"{figure:.3g}" for figure in figures_of))
    return models


@cache
def _shipped() -> Mapping[str, Ratios]:
    return load(SERVING_CONDITIONS)


def process(name: str) -> Ratios | None:
    """Return the ratios of that name that ship; None where no run taught them."""
    return _shipped().get(name)


def load(file: Path) -> dict[str, Ratios]:
    """Return the processes of a file that `save` wrote, by name."""
    import pyarrow.parquet as pq  # here: few forecasts ask about conditions

    table = pq.read_table(file)
    runs = table.to_pandas()
    ratios = {}
    for name, state in json.loads(table.schema.metadata[b"processes"]).items():
        mine = runs[runs["process"] == name].drop(columns="process").reset_index(drop=True)
        for word in mine.select_dtypes(exclude="number"):
            mine[word] = mine[word].astype(object)
        variances = {level: tuple(both) for level, both in state["variances"].items()}
        ratios[name] = Ratios(mine, variances, state["noise"], state["centre"])
    return ratios


def save(file: Path, processes: Mapping[str, Ratios], source: str) -> None:
    """Write processes as Parquet: the runs as columns, the rest as JSON of its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    runs = []
    states = {}
    for name, one in processes.items():
        runs.append(one.runs.assign(process=name, log=one.runs["log"].round(5)))
        states[name] = {
            "variances": {level: list(both) for level, both in one.variances.items()},
            "noise": one.noise,
            "centre": one.centre,
        }
    table = pa.Table.from_pandas(pd.concat(runs, ignore_index=True), preserve_index=False)
    said = {"processes": json.dumps(states), "source": source, "licence": "Apache-2.0, MIT"}
    pq.write_table(
        table.replace_schema_metadata(said), file, compression="zstd", compression_level=19
    )
