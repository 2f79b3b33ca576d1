"""How the work fits a device: it comes in whole tiles, and tiles in whole waves of its compute units."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..operators.operators import Work

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


def quantise(work: Work, cus: Any, tile: tuple[Any, Any] = (128, 128), split: Any = 1) -> Quantised:
    """Return how the rows, as products of m x k and k x n, fit a device with one macro tile, k in `split` parts.

    CUs, sides of the tile and parts are whole numbers, or arrays of them, one for each row.

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


def best_tile(work: Work, cus: Any) -> Quantised:
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
