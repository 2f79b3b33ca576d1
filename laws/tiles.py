"""The law of matrix products that are cut into tiles: what the best tile and split of k would take.

A product of m x k and k x n runs as workgroups, one for each tile of tm x tn of the result and each
of s parts of k. They come in whole waves of the compute units:

    waves = ceil(ceil(m / tm) ceil(n / tn) batch s / CUs)

Each wave lasts as long as one workgroup, which computes ``2 tm tn k / s`` FLOP at the peak of its
compute unit while it loads ``(tm + tn) k / s`` elements from the L2 cache, whichever is longer. The
memory moves the operands and the result once, and of a split k the partial sums too, written and
read in fp32. Both times join by the p-norm that products of hipBLASLt were measured to have
(``product.norm``), and a kernel takes the time between two of them beside (`base.OVERHEADS`):

    t = fixed + [(waves · max(compute, loads))^p + (bytes / streaming bandwidth)^p]^(1/p)

The tile and split are those that take least, of `bounds.TILES` and `SPLITS`, as a tuned library
would choose them. Nothing is fitted to products at hand, so a library that is far from the peak
takes longer, up to twice: as a ratio of two GPUs, and as a feature, the law needs no such factor.

It is of the kind of tritonBLAS' and hipBLASLt's Origami (arXiv:2512.04226), with fewer constants.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..hardware import GPU
from ..hardware.constants import constant
from ..operators.operators import Work
from ..operators.work import BITS
from .base import MATRIX, DeviceLaw, Overhead, overheads_of
from .bounds import TILES, memory_shares
from .rates import compute_us, memory_us, peaks

SPLITS: Final = (1, 2, 4, 8, 16)
"""Parts of k that workgroups share, as libraries offer them."""
PARTIAL_BYTES: Final = 2 * 4
"""Of an element of a partial sum: fp32, written and read."""


class Tiles(DeviceLaw):
    """Whole tiles on whole waves, loads from L2 and HBM, and a fixed time: of the best tile and split of k."""

    name = "tiles"
    title = "tiles"
    alone = True
    scales = True
    needs = ("peak_tflops", "memory_bw_gbs", "cus", "boost_mhz")
    source = "as Origami (arXiv:2512.04226); constants of hardware/constants.toml, measured.csv"

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return the time, microseconds; a NotPublishedError if a figure is not published."""
        fixed = overheads_of(gpu, gpu)[0]
        return _us(work, gpu, fixed, memory_shares(gpu, gpu)[0])

    def ratio(self, work: Work, host: GPU, target: GPU) -> FloatArray:
        """Return the ratio, with the measurements of both devices taken in the same way."""
        fixed, fixed_there = overheads_of(host, target)
        share, share_there = memory_shares(host, target)
        return _us(work, target, fixed_there, share_there) / _us(work, host, fixed, share)


TILES_LAW = Tiles()


def _us(work: Work, gpu: GPU, fixed: Overhead, share: float) -> FloatArray:
    units = gpu.require("cus")
    clock = gpu.require("boost_mhz")
    moving = memory_us(work, gpu) / share
    byte_us = moving / np.maximum(work.bytes, 1.0)
    busy = _joined(compute_us(work, gpu), moving)
    rows = np.flatnonzero(work.unit == MATRIX)
    product = work.take(rows)
    flop_us = units / (peaks(product, gpu) * 1e6)
    load_us = _bytes(product) / (constant("cache.l2_read").of(gpu.gfx) * clock)
    norm = constant("product.norm").value
    least = np.full(len(rows), np.inf)
    counts = [
        np.ceil(product.m / tall) * np.ceil(product.n / wide) * product.batch
        for tall, wide in TILES
    ]
    slowest = [
        np.maximum(2 * tall * wide * flop_us, (tall + wide) * load_us) for tall, wide in TILES
    ]
    for split in SPLITS:
        computing = np.full(len(rows), np.inf)
        for count, step_us in zip(counts, slowest, strict=True):
            np.minimum(computing, np.ceil(count * split / units) * step_us, out=computing)
        computing *= np.ceil(product.k / split)
        moved = moving[rows]
        if split > 1:
            sums = split * product.m * product.n * product.batch
            moved = moved + PARTIAL_BYTES * sums * byte_us[rows]
        np.minimum(least, computing**norm + moved**norm, out=least)
    least = least ** (1 / norm)
    busy[rows] = least
    return busy + fixed.fixed_us(np.ones(len(work), dtype=bool))


def _bytes(work: Work) -> FloatArray:
    """Return the bytes of an element of the inputs, as they are computed with."""
    codes, kinds = work.kinds()
    each = [BITS[dtype] / 8 for dtype, _ in kinds]
    return np.array(each, dtype=np.float64)[codes]


def _joined(one: FloatArray, other: FloatArray) -> FloatArray:
    norm = constant("product.norm").value
    return (one**norm + other**norm) ** (1 / norm)
