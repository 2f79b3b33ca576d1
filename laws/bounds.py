"""What each row would take by its compute and its memory alone, and what of the two, or its launch, bounds it.

`bounds` is of the published peaks, `achieved` of the part of them that real kernels reach: in whole
tiles, which come in whole waves of the compute units, and as hardware/measured.csv says, as far as
both devices were measured in the same way (`reached`, `memory_shares`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray, ObjectArray
from ..errors import NotPublishedError, UnknownGPUError
from ..hardware import GPU, Ceiling, all_gpus, find, measured
from ..hardware.constants import constant
from ..operators.operators import Work
from .base import COMPUTE, MEMORY, Pair, Rows, Scaled
from .rates import by_kind, chosen, given, memory_us, peaks, runnable, where_published

# rows whose roofline time is below this are launch-bound
LAUNCH_FLOOR_US: Final = constant("launch.before_work").value


@dataclass(frozen=True)
class Bounds:
    """Times of the rows on one GPU, microseconds, shape (n_rows,); NaN where the work or a figure is unknown."""

    compute_us: FloatArray  # the arithmetic alone
    memory_us: FloatArray  # the memory traffic alone
    missing: ObjectArray  # Remark or None: ``figure-not-published``, ``no-such-unit`` (does this arithmetic)

    @property
    def roofline_us(self) -> FloatArray:
        """The larger of the two."""
        return np.maximum(self.compute_us, self.memory_us)

    @property
    def names(self) -> ObjectArray:
        """Which of the two is the larger: "compute" or "memory"."""
        return np.where(self.compute_us > self.memory_us, COMPUTE, MEMORY).astype(object)


def bounds(
    work: Work, gpu: GPU, *, matrix: FloatArray | float = 1.0, memory: float = 1.0
) -> Bounds:
    """Return the times at the published peaks, or at a part of them.

    ``matrix`` is the part of the peak that each row can reach, ``memory`` that of the memory
    bandwidth.
    """
    rates, missing = by_kind(runnable(work, gpu), lambda part: peaks(part, gpu))
    moved, bandwidth = by_kind(work, lambda part: memory_us(part, gpu))
    compute = np.where(work.flops == 0, 0.0, work.flops / (rates * 1e6 * matrix))
    lacks = chosen([given(bandwidth), work.flops == 0], [bandwidth, None], missing)
    return Bounds(compute, moved / memory, lacks)


def bounded(rows: Rows, mine: Bounds, others: Bounds) -> Scaled:
    """Return the ratio of two rooflines."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = others.roofline_us / mine.roofline_us
    works = rows.has_work & np.isfinite(ratio)
    bound = np.where(works, others.names, "").astype(object)
    why = chosen(
        [~rows.has_work, given(mine.missing)], [rows.unknown, mine.missing], others.missing
    )
    return Scaled(np.where(works, ratio, np.nan), bound, why)


def bound(work: Work, gpu: GPU, *, floor_us: float = LAUNCH_FLOOR_US) -> np.ndarray:
    """Return what bounds each row on a GPU by the roofline: ``launch``, ``memory`` or ``compute``.

    Rows with a roofline time below `floor_us` (microseconds) are launch-bound; ``unknown`` where
    the needed figure is not published.
    """
    try:
        memory = memory_us(work, gpu)
    except NotPublishedError:
        memory = np.full(len(work), np.nan)
    compute = work.flops / (where_published(work, lambda part: peaks(part, gpu))[0] * 1e6)
    limit = np.maximum(memory, compute)
    cases = [np.isnan(limit), limit < floor_us, memory >= compute]
    return np.select(cases, ["unknown", "launch", "memory"], "compute").astype(object)


SIDES = (16, 32, 64, 128, 256)
# macro tiles (rows, columns) that GEMM libraries for CDNA offer
TILES = tuple(itertools.product(SIDES, SIDES))
# parts the inner dimension k is split into (split-K; for attention, split-KV)
SPLITS = (
    1,
    2,
    4,
    8,
)
SMALLEST_PART = 32  # a part keeps at least this much of k
FULL_RATE = 64.0  # tm tn / (tm + tn) from which a tile's operand traffic no longer limits it: that of 128 x 128


@dataclass(frozen=True)
class Quantised:
    """How the rows fit a device; arrays of shape (n_rows,).

    `waves` are rounds of workgroups, ``ceil(tiles / CUs)``; `tile_efficiency` is the useful part of
    the tiles' area, `wave_efficiency` the busy part of the compute units over all waves, 0 to 1;
    `stretch` the time of the whole waves over the time without any loss, >= 1: compute time x
    stretch is the quantised time.
    """

    waves: np.ndarray
    tile_efficiency: np.ndarray
    wave_efficiency: np.ndarray
    stretch: np.ndarray


def quantise(work: Work, cus: Any, tile: tuple[Any, Any] = (128, 128), split: Any = 1) -> Quantised:
    """Return how the rows, as products of m x k and k x n, fit a device with one macro tile, k in `split` parts.

    CUs, sides of the tile and parts are whole numbers, or arrays of them, one for each row.

    ``tiles = ceil(m/tm) ceil(n/tn) batch split``, ``waves = ceil(tiles / CUs)``; each wave lasts as
    long as one tile, ``tm tn k_part`` products at the rate of one compute unit (NVIDIA, "Matrix
    Multiplication Background User's Guide", sections on tile and wave quantisation). A tile smaller
    than 128 x 128 loads more operand bytes per product, so its rate is that times ``min(1, h /
    64)``, h = tm tn / (tm + tn).
    """
    rows, cols = tile
    area = np.ceil(work.m / rows) * rows * np.ceil(work.n / cols) * cols
    tiles = np.ceil(work.m / rows) * np.ceil(work.n / cols)
    tiles = tiles * np.ceil(work.batch) * split
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
    least = np.full(len(work), np.inf)
    chosen = np.zeros(len(work), dtype=np.int64)
    rows = {side: np.ceil(work.m / side) for side in SIDES}
    cols = {side: np.ceil(work.n / side) for side in SIDES}
    parts = {split: _part(work, split) for split in SPLITS}
    batch = np.ceil(work.batch)
    products = work.batch * work.m * work.n * work.k
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


FIXED_GRID = ("attention", "attention_backward")
"""Operators whose prefill kernels give one workgroup a block of queries of one head, whatever the
GPU: few of them leave most of a larger GPU idle. Libraries of matrix products choose tile and split
of k to fill it."""
QUERIES = 128
"""Queries of such a block (FlashAttention-2, arXiv:2307.08691, section 3.3); fewer queries are split along the keys."""


def achieved(rows: Rows, pair: Pair) -> tuple[Bounds, Bounds]:
    """Return the times on both devices at the rates of real kernels, the arithmetic in whole tiles and waves."""
    memory = memory_shares(pair.host, pair.target)
    matrix = reached(rows.work, pair.host, pair.target)
    gpus = (pair.host, pair.target)
    both = []
    for gpu, share, part in zip(gpus, memory, matrix, strict=True):
        both.append(
            bounds(rows.work, gpu, matrix=part / stretch(rows.work, rows.op, gpu), memory=share)
        )
    return both[0], both[1]


def stretch(work: Work, op: ObjectArray, gpu: GPU) -> FloatArray:
    """Return the factor by which whole tiles on whole waves of compute units lengthen matrix operators.

    The best tile and split of k; for prefill attention, blocks of 128 queries (see `FIXED_GRID`);
    for few queries, whole tiles of 16, split along the keys as often as it takes: what they load is
    the memory's. 1 for vector operators, rows of unknown work, and a GPU whose compute units are
    not published.
    """
    factors = np.ones(len(work))
    rows = np.flatnonzero((work.unit == "matrix") & np.isfinite(work.flops))
    if gpu.cus is None or not len(rows):
        return factors
    part = work.take(rows)
    attends = np.isin(op[rows], FIXED_GRID)
    blocks = attends & (part.m >= QUERIES)
    sides = pd.DataFrame(
        {"batch": part.batch, "m": part.m, "n": part.n, "k": part.k, "blocks": blocks}
    )
    code = sides.groupby(list(sides.columns), sort=False).ngroup().to_numpy()
    first = np.unique(code, return_index=True)[1]
    once = part.take(first)
    fixed = quantise(once, gpu.cus, (QUERIES, QUERIES))
    best = best_tile(once, gpu.cus)
    factors[rows] = np.where(blocks[first], fixed.stretch, best.stretch)[code]
    few = attends & ~blocks
    whole_tiles = np.ceil(part.m[few] / SIDES[0])
    factors[rows[few]] = whole_tiles * SIDES[0] / part.m[few]
    return factors


STREAMING = "hbm_copy"  # the measurement that stands for memory bandwidth: a copy that streams (BabelStream)
# the measurement that stands for matrix peaks of a precision nobody has measured
MATRIX_PRODUCT = "gemm_bf16"
LOW = "low"  # confidence of measurements that do not count
_SAME_RATE = {"fp16": "bf16", "bf16": "fp16"}
"""Precisions that stand in for each other: they run at one rate on every matrix unit."""


def memory_shares(host: GPU, target: GPU) -> tuple[float, float]:
    """Return the part of the memory bandwidth that a streaming copy reaches on each device (see `shares`)."""
    return shares(host, target, STREAMING) or (typical(STREAMING) or 1.0,) * 2


def matrix_shares(host: GPU, target: GPU, dtype: str) -> tuple[float, float]:
    """Return the part of the matrix peak that the best matrix products reach on each device (see `shares`)."""
    metric = f"gemm_{dtype}"
    pair = shares(host, target, metric) or shares(
        host, target, f"gemm_{_SAME_RATE.get(dtype, dtype)}"
    )
    return pair or (typical(metric) or typical(MATRIX_PRODUCT) or 1.0,) * 2


def shares(host: GPU, target: GPU, metric: str) -> tuple[float, float] | None:
    """Return the part of a figure (``hbm_copy``, ...) reached on each device; None where neither was measured.

    Two figures measured in the same way (column `method` of hardware/measured.csv) count as they
    are. If only one device was measured, or each in another way, one share stands for both, the
    larger one of the host or else of the target: a ratio of two methods would measure the methods.
    """
    ours = _by_method(host, metric)
    others = _by_method(target, metric)
    common = [method for method in ours if method in others]
    if common:
        return ours[common[0]], others[common[0]]
    either = ours or others
    if either:
        return (max(either.values()),) * 2
    return None


@cache
def typical(metric: str) -> float | None:
    """Return the median share over all measurements of all GPUs; None where there is none."""
    shares_measured = []
    for gpu in all_gpus():
        for row in _rows(gpu.name, metric):
            share = row.share(gpu)
            if share:
                shares_measured.append(share)
    if shares_measured:
        return float(np.median(shares_measured))
    return None


def reached(work: Work, host: GPU, target: GPU) -> tuple[FloatArray, FloatArray]:
    """Return the part of the peak of its unit and precision that each row can reach on each device.

    Vector operators count with the whole peak: nothing was measured, and they wait for memory.
    """
    codes, kinds = work.kinds()
    pairs = [
        matrix_shares(host, target, dtype) if unit == "matrix" else (1.0, 1.0)
        for dtype, unit in kinds
    ]
    pairs_of_row = np.array(pairs, dtype=float).reshape(-1, 2)[codes]
    return pairs_of_row[:, 0], pairs_of_row[:, 1]


def ceiling_tflops(gpu: GPU, dtype: str) -> float:
    """Return the measured, or else estimated, rate of the best products of a precision."""
    return gpu.peak_tflops(dtype) * matrix_shares(gpu, gpu, dtype)[0]


def streaming_gbs(gpu: GPU) -> float:
    """Return the bandwidth that a copy through the whole memory reaches, GB/s."""
    return gpu.require("memory_bw_gbs") * memory_shares(gpu, gpu)[0]


def _by_method(gpu: GPU, metric: str) -> dict[str, float]:
    """Return the largest share of a device by method: measured on it, or on the one it is based on."""
    by_method: dict[str, float] = {}
    for row in _rows(gpu.measured_name, metric):
        share = row.share(find(row.gpu))
        if share and row.confidence != LOW:
            by_method[row.method] = max(share, by_method.get(row.method, 0.0))
    return by_method


def _rows(name: str, metric: str) -> list[Ceiling]:
    try:
        return measured(name, metric)
    except UnknownGPUError:  # the user's, based on none
        return []
