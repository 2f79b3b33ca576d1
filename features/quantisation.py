"""Tile and wave quantisation: work comes in whole tiles, and tiles in whole waves of the device's compute units."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

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

    Attributes
    ----------
    waves : ndarray
        Rounds of workgroups, ``ceil(tiles / CUs)``.
    tile_efficiency : ndarray
        Useful part of the tiles' area, 0 to 1.
    wave_efficiency : ndarray
        Busy part of the compute units over all waves, 0 to 1.
    stretch : ndarray
        Time of the whole waves over the time without any loss, >= 1: compute time x stretch is the quantised time.
    """

    waves: np.ndarray
    tile_efficiency: np.ndarray
    wave_efficiency: np.ndarray
    stretch: np.ndarray


def quantise(work: Work, cus: int, tile: tuple[int, int] = (128, 128), split: int = 1) -> Quantised:
    """Return how the rows fit a device with one macro tile.

    ``tiles = ceil(m/tm) ceil(n/tn) batch split``, ``waves = ceil(tiles / CUs)``; each wave lasts as long as one tile,
    ``tm tn k_part`` products at the rate of one compute unit (NVIDIA, "Matrix Multiplication Background User's
    Guide", sections on tile and wave quantisation). A tile smaller than 128 x 128 loads more operand bytes per
    product, so its rate is that times ``min(1, h / 64)``, h = tm tn / (tm + tn).

    Parameters
    ----------
    work : Work
        The rows, as products of m x k and k x n.
    cus : int
        Compute units (or SMs) of the device.
    tile : (int, int), default=(128, 128)
        Rows and columns of the macro tile.
    split : int, default=1
        Parts of k, each a tile of its own.

    Returns
    -------
    Quantised
    """
    rows, cols = tile
    area = np.ceil(work.m / rows) * rows * np.ceil(work.n / cols) * cols
    tiles = np.ceil(work.m / rows) * np.ceil(work.n / cols) * np.ceil(work.batch) * split
    waves = np.ceil(tiles / cus)
    part = np.maximum(work.k / split, np.minimum(work.k, SMALLEST_PART))
    rate = min(1.0, rows * cols / (rows + cols) / FULL_RATE)
    padded = waves * cus * rows * cols * part / rate
    return Quantised(
        waves=waves,
        tile_efficiency=work.m * work.n / area,
        wave_efficiency=tiles / (waves * cus),
        stretch=padded / (work.batch * work.m * work.n * work.k),
    )


def best_tile(work: Work, cus: int) -> Quantised:
    """Return, for every row, the fit of the macro tile and split of k that finish first.

    Parameters
    ----------
    work : Work
        The rows.
    cus : int
        Compute units of the device.

    Returns
    -------
    Quantised
        Of the tile of `TILES` and split of `SPLITS` with the smallest stretch, the first of equals.
    """
    best = quantise(work, cus, TILES[0], SPLITS[0])
    for tile, split in itertools.islice(itertools.product(TILES, SPLITS), 1, None):
        other = quantise(work, cus, tile, split)
        better = other.stretch < best.stretch
        best = Quantised(
            np.where(better, other.waves, best.waves),
            np.where(better, other.tile_efficiency, best.tile_efficiency),
            np.where(better, other.wave_efficiency, best.wave_efficiency),
            np.where(better, other.stretch, best.stretch),
        )
    return best
