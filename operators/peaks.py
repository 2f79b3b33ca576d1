"""How fast a row says its device was: the least time of its work at the peaks of the device, and which peak bounds it.

Peaks are those of `hardware`, dense; a row that says it is sparse has twice the arithmetic (2:4 sparsity of AMD and
NVIDIA), and fp32 products may have run as TF32, as PyTorch lets convolutions do. Bytes count against the memory only
beyond the caches: what fits there may lie there from the call before. What the last-level cache holds counts against
its bandwidth, beyond the L2; and every byte enters a compute unit, at most `BYTES_PER_CLOCK` a clock. What a collective
sends counts against the links to its peers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..hardware import GPU, all_gpus
from ..hardware.spec import UNITS
from .operators import Op, each_op

BYTES_PER_CLOCK = 128
"""What the first-level cache of a compute unit delivers in a clock, at most: CDNA 3 white paper (AMD, 2023) and
H100 white paper (NVIDIA, 2022), 128 bytes; others 64 or 128."""
LOADS = "loads"
"""The limit of the compute units together, in place of the key of a figure."""
_MIB = 2.0**20
_SPARSE = re.compile(r"sparse|(?<!\d)2:4(?!\d)", re.IGNORECASE)
_SPARSE_WORDS = ("variant", "family", "kernel")


@dataclass(frozen=True)
class Bound:
    """The least time of every row on its device, microseconds, and the peak behind it (key of a figure, or `LOADS`).

    Both of shape (n_rows,); NaN and "" where the device is none of the catalogue, or the work is not known.
    """

    least_us: np.ndarray
    peak: np.ndarray


def bound_of(frame: pd.DataFrame) -> Bound:
    """Return the least time of complete rows of any operators on the devices that they name."""
    least, peak = np.full(len(frame), np.nan), np.full(len(frame), "", dtype=object)
    gpus = {gpu.name: gpu for gpu in all_gpus()}
    devices, names = pd.factorize(frame["device"])
    sparse = _sparse(frame)
    for op, rows in each_op(frame):
        part = frame[[name for name in op.identity if name in frame]].iloc[rows] if len(rows) < len(frame) else frame
        flops, moved = op.least(part)
        sent = op.sent(part)
        dtypes, formats = pd.factorize(op.compute_dtype(part))
        kinds, pairs = pd.factorize(devices[rows] * max(len(formats), 1) + dtypes)
        for kind, pair in enumerate(pairs):
            gpu = gpus.get(str(names[int(pair) // len(formats)]))
            if gpu is None:
                continue
            own = kinds == kind
            dtype = str(formats[pair % len(formats)])
            limits = [*_times(gpu, op, dtype, flops[own], moved[own])]
            if sent is not None and gpu.link_bw_gbs:
                limits.append(("link_bw_gbs", _link_times(gpu, sent[0][own], sent[1][own])))
            for key, times in limits:
                at = rows[own]
                needed = np.where(sparse[at], times / 2, times) if key in gpu.peaks else times
                longer = ~(needed <= least[at]) & ~np.isnan(needed)
                least[at[longer]], peak[at[longer]] = needed[longer], key
    return Bound(least, peak)


def _times(gpu: GPU, op: Op, dtype: str, flops: np.ndarray, moved: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield every limit of a device by its key, and the microseconds that the work takes there."""
    formats = (dtype, "tf32") if dtype == "fp32" else (dtype,)
    units = ("vector",) if op.unit == "vector" else UNITS
    found = [key for dtype in formats for unit in units if (key := f"{dtype}_{unit}") in gpu.peaks]
    if found:
        key = max(found, key=lambda name: gpu.peaks[name])
        yield key, flops / (gpu.peaks[key] * 1e6)
    l2, llc = ((size or 0.0) * _MIB for size in (gpu.l2_mb, gpu.llc_mb))
    if gpu.memory_bw_gbs:
        yield "memory_bw_gbs", np.maximum(moved - l2 - llc, 0) / (gpu.memory_bw_gbs * 1e3)
    if gpu.llc_bw_gbs:
        yield "llc_bw_gbs", np.maximum(moved - l2, 0) / (gpu.llc_bw_gbs * 1e3)
    if gpu.cus and gpu.boost_mhz:
        yield LOADS, moved / (BYTES_PER_CLOCK * gpu.cus * gpu.boost_mhz)


def _link_times(gpu: GPU, sent: np.ndarray, peers: np.ndarray) -> np.ndarray:
    """Return the microseconds that the links take: those to every peer, at most all; NaN where they do not join it."""
    every = gpu.require("link_bw_gbs")
    joined = np.where((peers > 1) & gpu.joins_two, np.nan, peers)
    return sent / (np.minimum(every, joined * (gpu.p2p_uni_gbs or every)) * 1e3)


def _sparse(frame: pd.DataFrame) -> np.ndarray:
    """Return which rows say that they use structured sparsity."""
    said = np.zeros(len(frame), dtype=bool)
    for name in _SPARSE_WORDS:
        if name in frame:
            codes, words = pd.factorize(frame[name], use_na_sentinel=False)
            said |= np.array([_SPARSE.search(str(word)) is not None for word in words], dtype=bool)[codes]
    return said
