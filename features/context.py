"""What a feature is computed from: the rows, their work, and the two devices; and how the work fits the units of each.

Tile and wave quantisation: work comes in whole tiles, and tiles in whole waves of the device's compute units.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError
from ..hardware import GPU
from ..operators.operators import Work, complete, work_of
from ..operators.work import numbers, positive, texts
from ..table.measurements import COUNTER
from ..table.problems import HOST
from . import roofline

SIDES = (16, 32, 64, 128, 256)
TILES = tuple(itertools.product(SIDES, SIDES))
"""Macro tiles (rows, columns) that GEMM libraries for CDNA offer."""
SPLITS = (1, 2, 4, 8)
"""Parts the inner dimension k is split into (split-K; for attention, split-KV)."""
SMALLEST_PART = 32
"""A part keeps at least this much of k."""
FULL_RATE = 64.0
"""tm tn / (tm + tn) from which a tile's operand traffic no longer limits it: that of 128 x 128."""


@dataclass(frozen=True)
class Quantised:
    """How the rows fit a device; arrays of shape (n_rows,).

    `waves` are rounds of workgroups, ``ceil(tiles / CUs)``; `tile_efficiency` is the useful part of the tiles' area,
    `wave_efficiency` the busy part of the compute units over all waves, 0 to 1; `stretch` the time of the whole waves
    over the time without any loss, >= 1: compute time x stretch is the quantised time.
    """

    waves: np.ndarray
    tile_efficiency: np.ndarray
    wave_efficiency: np.ndarray
    stretch: np.ndarray


def quantise(work: Work, cus: int, tile: tuple[Any, Any] = (128, 128), split: Any = 1) -> Quantised:
    """Return how the rows, as products of m x k and k x n, fit a device with one macro tile, k in `split` parts.

    Sides of the tile and parts are whole numbers, or arrays of them, one for each row.

    ``tiles = ceil(m/tm) ceil(n/tn) batch split``, ``waves = ceil(tiles / CUs)``; each wave lasts as long as one tile,
    ``tm tn k_part`` products at the rate of one compute unit (NVIDIA, "Matrix Multiplication Background User's Guide",
    sections on tile and wave quantisation). A tile smaller than 128 x 128 loads more operand bytes per product, so its
    rate is that times ``min(1, h / 64)``, h = tm tn / (tm + tn).
    """
    rows, cols = tile
    area = np.ceil(work.m / rows) * rows * np.ceil(work.n / cols) * cols
    tiles = np.ceil(work.m / rows) * np.ceil(work.n / cols) * np.ceil(work.batch) * split
    waves = np.ceil(tiles / cus)
    padded = waves * cus * rows * cols * _part(work, split) / _rate(rows, cols)
    return Quantised(
        waves=waves,
        tile_efficiency=work.m * work.n / area,
        wave_efficiency=tiles / (waves * cus),
        stretch=padded / (work.batch * work.m * work.n * work.k),
    )


def best_tile(work: Work, cus: int) -> Quantised:
    """Return, for every row, the fit of the tile of `TILES` and split of `SPLITS` with the smallest stretch.

    That is what finishes first; of equals the first.
    """
    least, chosen = np.full(len(work), np.inf), np.zeros(len(work), dtype=np.int64)
    rows, cols = ({side: np.ceil(sizes / side) for side in SIDES} for sizes in (work.m, work.n))
    parts = {split: _part(work, split) for split in SPLITS}
    batch, products = np.ceil(work.batch), work.batch * work.m * work.n * work.k
    for place, ((tall, wide), split) in enumerate(_CHOICES):
        stretch = rows[tall] * cols[wide]
        for factor in (batch, split):
            stretch *= factor
        stretch /= cus
        np.ceil(stretch, out=stretch)  # waves
        for factor in (cus, tall, wide, parts[split]):
            stretch *= factor
        stretch /= _rate(tall, wide)
        stretch /= products
        chosen[stretch < least] = place
        np.fmin(least, stretch, out=least)
    tall, wide, split = np.array([(*tile, split) for tile, split in _CHOICES])[chosen].T
    return quantise(work, cus, (tall, wide), split)


_CHOICES = tuple(itertools.product(TILES, SPLITS))


def _part(work: Work, split: int | np.ndarray) -> np.ndarray:
    return np.maximum(work.k / split, np.minimum(work.k, SMALLEST_PART))


def _rate(rows: int | np.ndarray, cols: int | np.ndarray) -> np.ndarray:
    return np.minimum(1.0, rows * cols / (rows + cols) / FULL_RATE)


# The rows as a device would run them.

LEAST_INTENSITY = 1 / 64
"""FLOP per byte that stands for kernels without arithmetic (copies), where a logarithm is taken."""


class Device:
    """The rows as one device would run them; every figure is computed once, when first asked for."""

    def __init__(self, work: Work, gpu: GPU) -> None:
        self.work, self.gpu = work, gpu

    @cached_property
    def peaks(self) -> np.ndarray:
        """Peak of the unit and precision of each row, TFLOPS."""
        return roofline.peaks(self.work, self.gpu)

    @cached_property
    def compute_us(self) -> np.ndarray:
        """Time of the arithmetic at peak."""
        return self.work.flops / (self.peaks * 1e6)

    @cached_property
    def memory_us(self) -> np.ndarray:
        """Time of the compulsory traffic at full bandwidth."""
        return roofline.memory_us(self.work, self.gpu)

    @cached_property
    def roofline_us(self) -> np.ndarray:
        """Larger of the two."""
        return np.maximum(self.compute_us, self.memory_us)

    @cached_property
    def ridge(self) -> np.ndarray:
        """Compute over memory time: above 1 the roofline says compute-bound (at least 1/64 FLOP per byte)."""
        least = LEAST_INTENSITY * self.work.bytes / (self.peaks * 1e6)
        return np.maximum(self.compute_us, least) / self.memory_us

    @cached_property
    def fit(self) -> Quantised:
        """Fit of 128 x 128 tiles to the compute units."""
        return quantise(self.work, int(self.gpu.require("cus")))

    @cached_property
    def best_fit(self) -> Quantised:
        """Fit of the best tile and split of k."""
        return best_tile(self.work, int(self.gpu.require("cus")))


class Context:
    """The rows a matrix is built from.

    Rows of the measurement table are completed here (see `operators.complete`). What the host measured stands in
    columns with the prefix ``host_``; without them, features of what was measured cannot be computed. `host` is None
    for models of one device; `metric` is the column to predict; `work` that of the rows, where it is known already.
    """

    def __init__(
        self, frame: pd.DataFrame, host: GPU | None, target: GPU, metric: str = "duration_us", work: Work | None = None
    ) -> None:
        self.frame, self.metric, self._work = complete(frame), metric, work
        self._host, self._target = host, target
        self._words: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def ops(self) -> frozenset[str]:
        """Operators that occur."""
        return frozenset(map(str, pd.unique(self.texts("op"))))

    @property
    def has_host(self) -> bool:
        """Whether there is a host."""
        return self._host is not None

    @property
    def has_measured(self) -> bool:
        """Whether the rows carry what the host measured."""
        return f"{HOST}duration_us" in self.frame

    @cached_property
    def work(self) -> Work:
        """FLOPs, bytes and shape of every row."""
        return work_of(self.frame) if self._work is None else self._work

    @cached_property
    def host(self) -> Device:
        """The rows on the host."""
        if self._host is None:
            raise DataError("there is no host in a model of one device")
        return Device(self.work, self._host)

    @cached_property
    def target(self) -> Device:
        """The rows on the target."""
        return Device(self.work, self._target)

    @cached_property
    def host_us(self) -> np.ndarray:
        """Time measured on the host."""
        return self.measured("duration_us")

    def law(self, name: str) -> np.ndarray:
        """Return what a scaling law predicts for the target, microseconds."""
        return self.host_us * roofline.RATIOS[name](self.work, self.host.gpu, self.target.gpu)

    def measured(self, metric: str) -> np.ndarray:
        """Return a figure measured on the host; it must be positive in every row."""
        return positive(self.frame, HOST + metric)

    @cached_property
    def counters(self) -> tuple[str, ...]:
        """Names of the hardware counters (``counter.NAME``) of the run that features come from."""
        stem = (HOST if self.has_host else "") + COUNTER
        return tuple(str(name).removeprefix(HOST) for name in self.frame.columns if str(name).startswith(stem))

    def counter(self, name: str) -> np.ndarray:
        """Return a hardware counter of the run that features come from, NaN where it was not collected.

        Raises DataError where the rows lack the counter.
        """
        column = (HOST if self.has_host else "") + name
        if column not in self.frame:
            raise DataError(f"the rows lack {name}, which the model uses: collect it with the profiler")
        return self.frame[column].to_numpy(dtype=np.float64)

    def dim(self, name: str, minimum: float = 1.0) -> np.ndarray:
        """Return a dimension as numbers of at least `minimum`, or say which rows lack it."""
        return numbers(self.frame, name, minimum=minimum)[0]

    def texts(self, name: str) -> np.ndarray:
        """Return a column of words, "" where there is none."""
        return self.once(f"column {name}", lambda context: texts(context.frame, name))

    def once(self, name: str, compute: Callable[[Context], np.ndarray]) -> np.ndarray:
        """Return words of every row, computed when first asked for under this name."""
        if name not in self._words:
            self._words[name] = compute(self)
        return self._words[name]

    @cached_property
    def log_flops(self) -> np.ndarray:
        """Binary logarithm of the FLOPs, at least 1/64 FLOP per byte."""
        return np.log2(np.maximum(self.work.flops, LEAST_INTENSITY * self.work.bytes))
