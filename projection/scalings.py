"""The laws of computation: by what the time measured on the host is multiplied, row by row, and what bounds the row.

Each law of `LAWS` is a function from `Rows` and a `Pair` of GPUs to what it says (`Scaled`); where it does not apply,
`by_law` puts another in its place, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..arrays import FloatArray, ObjectArray
from ..errors import DataError, NotPublishedError, ParameterError, nearest
from ..features import roofline
from ..features.roofline import LAUNCH_FLOOR_US
from ..hardware import GPU
from ..remarks import Remark, remark
from .bounds import (
    COMPUTE,
    LATENCY,
    LINK,
    MEMORY,
    Bounds,
    bounds,
    by_kind,
    chosen,
    given,
    memory_shares,
    no_unit,
    not_published,
    reached,
    run_as,
    runnable,
    stretch,
)
from .kernel_work import Overhead, Rows, overheads_of

MATRIX = "matrix"
WITH_FLOPS = ("softmax", "norm", "reduction", "loss")
"""Op classes of vector operators whose FLOPs count: they sum along their rows."""
NO_FLOPS = remark("no-flops")
"""Why the FLOPs of a row say nothing of its time: its elements are read and written."""
HOST_LINK = ("HtoD", "DtoH")
"""Copies between host and GPU."""


@dataclass(frozen=True)
class Scaled:
    """What a law says of each row; arrays of shape (n_rows,)."""

    factor: FloatArray  # projected over measured duration; NaN where the law does not apply
    bound: ObjectArray  # what the target is bound by: compute, memory, latency, link, or ""
    why: ObjectArray  # Remark: why the law does not apply, or how it was applied; None for the rule


@dataclass(frozen=True)
class Pair:
    """The two devices, and the fixed times of kernels on them."""

    host: GPU
    target: GPU
    fixed: tuple[Overhead, Overhead]

    @classmethod
    def of(cls, host: GPU, target: GPU, overhead: Mapping[str, Overhead] | None = None) -> Pair:
        """Return the pair with its fixed times (see `overheads_of`)."""
        return cls(host, target, overheads_of(host, target, overhead))


def flops(rows: Rows, pair: Pair) -> Scaled:
    """Return ``peak_host / peak_target`` at the precision and unit that each row computes with.

    The constant hardware efficiency of the published methodology, per kernel. Copies, fills and element-wise operators
    have no FLOPs that count.
    """
    counts = rows.known & (np.nan_to_num(rows.work.flops) > 0)
    counts &= (rows.work.unit == MATRIX) | np.isin(rows.op_class, WITH_FLOPS)
    own, lacks = by_kind(runnable(rows.work, pair.host), lambda work: roofline.peaks(work, pair.host))
    others, lacks_too = by_kind(runnable(rows.work, pair.target), lambda work: roofline.peaks(work, pair.target))
    why = chosen([~rows.known, ~counts, given(lacks)], [rows.unknown, NO_FLOPS, lacks], lacks_too)
    return Scaled(np.where(counts, own / others, np.nan), _filled(COMPUTE, rows), why)


def flops_uniform(rows: Rows, pair: Pair) -> Scaled:
    """Return one ratio of peaks for all rows: that of the precision in which the matrix operators spend most time.

    The published methodology as such; bf16 where no matrix operator is known.
    """
    matrix = rows.known & (rows.work.unit == MATRIX)
    names = np.unique(rows.work.dtype[matrix]).tolist() or ["bf16"]
    dtype = max(names, key=lambda name: float(rows.host_us[matrix & (rows.work.dtype == name)].sum()))
    try:
        own, others = (gpu.peak_tflops(run_as(dtype, gpu)) for gpu in (pair.host, pair.target))
        ratio, why = own / others, None
    except NotPublishedError as error:
        ratio, why = np.nan, not_published(error)
    except DataError as error:  # products of integers that no GPU has a unit for
        ratio, why = np.nan, no_unit(error)
    return Scaled(np.full(len(rows), ratio), _filled(COMPUTE, rows), _filled(why, rows))


def bandwidth(rows: Rows, pair: Pair) -> Scaled:
    """Return ``bandwidth_host / bandwidth_target``; between host and GPU the ratio of their PCIe generations."""
    linked = np.isin(rows.direction, HOST_LINK)
    memory, lacks = _ratio(pair, "memory_bw_gbs")
    link, unknown = _link_ratio(pair)
    return Scaled(
        np.where(linked, link, memory),
        np.where(linked, LINK, MEMORY).astype(object),
        chosen([linked], [unknown], lacks),
    )


def roofline_law(rows: Rows, pair: Pair) -> Scaled:
    """Return ``max(compute, memory)`` on the target over that on the host, at the published figures."""
    own, others = bounds(rows.work, pair.host), bounds(rows.work, pair.target)
    return _bounded(rows, own, others)


def achieved_law(rows: Rows, pair: Pair) -> Scaled:
    """Return the same ratio at the part of the figures that the best kernels reach (see `bounds.reached`)."""
    return _bounded(rows, *_achieved(rows, pair))


def affine(rows: Rows, pair: Pair) -> Scaled:
    """Return ``t' = a_target + (t - a_host) r``, relative to t.

    - a is the fixed time of a kernel on its device (`kernel_work.Overhead`): it does not shrink with any rate. On AMD
      it holds the dispatch in queues that are not empty. A kernel shorter than that is all fixed time.
    - r is the ratio of the achieved rooflines (`bounds.reached`), the arithmetic in whole tiles and waves
      (`bounds.stretch`).
    - A kernel whose roofline is below `LAUNCH_FLOOR_US` on both devices waits for chains of dependent instructions: r
      is the ratio of the boost clocks. It passes into that of the rooflines over a factor of two around the floor.
    - Of kernels of unknown work r is the ratio of the achieved bandwidths.
    """
    own, others = _achieved(rows, pair)
    law = _bounded(rows, own, others)
    memory = bandwidth(rows, pair)
    shares = memory_shares(pair.host, pair.target)
    works = _share_of_work(np.maximum(own.roofline_us, others.roofline_us))
    ratio = law.factor**works * _clocks(pair) ** (1 - works)
    bound, why = np.where(works < 0.5, LATENCY, law.bound).astype(object), law.why.copy()
    blind = np.isnan(ratio) & ~rows.known & (rows.direction == "")
    ratio[blind] = memory.factor[blind] * shares[0] / shares[1]
    fixed, fixed_there = (one.fixed_us(rows.queued) for one in pair.fixed)
    kept = np.minimum(fixed, rows.host_us)
    began = np.where(fixed > 0, kept * fixed_there / np.where(fixed > 0, fixed, 1.0), fixed_there)
    return Scaled((began + (rows.host_us - kept) * ratio) / rows.host_us, bound, why)


def kept(rows: Rows, pair: Pair) -> Scaled:
    """Return 1."""
    return Scaled(np.ones(len(rows)), _filled("", rows), _filled(None, rows))


Law = Callable[[Rows, Pair], Scaled]
LAWS: Mapping[str, Law] = {
    "flops": flops,
    "flops-uniform": flops_uniform,
    "bandwidth": bandwidth,
    "roofline": roofline_law,
    "roofline-achieved": achieved_law,
    "affine": affine,
    "kept": kept,
}
"""The laws by the name that users give and tables show."""


def check_law(law: str) -> None:
    """Raise a ParameterError, with the nearest names, if no law of computation is called so."""
    if law not in LAWS:
        raise ParameterError("compute_law", f"must be a law of computation, got {law!r}: {nearest(law, LAWS)}")


BANDWIDTH, KEPT = "bandwidth", "kept"
OVER_PCIE = remark("over-pcie")
"""A copy between host and GPU goes by the generations of PCIe."""


def by_law(rows: Rows, pair: Pair, law: str) -> pd.DataFrame:
    """Return what a law of `LAWS` says of each row, or what says it in its place.

    Rows that the law says nothing of, and copies between host and GPU, go by bandwidth; where its figures are not
    published the duration is kept. Between equal devices every factor is 1. A DataError says that the law is unknown.

    Returns
    -------
    DataFrame with a RangeIndex
        `factor`, projected over measured duration (> 0, finite); `law`, the one used; `why`, a tuple of `Remark`, ()
        where there is nothing to say; `bound`.
    """
    check_law(law)
    asked, wide = LAWS[law](rows, pair), bandwidth(rows, pair)
    linked = np.isin(rows.direction, HOST_LINK) & (law not in (KEPT, BANDWIDTH))
    usable, fallback = np.isfinite(asked.factor) & ~linked, np.isfinite(wide.factor)
    reasons = chosen([linked], [OVER_PCIE], asked.why)
    factor = np.select([usable, fallback], [asked.factor, wide.factor], 1.0)
    return pd.DataFrame(
        {
            "factor": np.ones(len(rows)) if pair.host == pair.target else factor,
            "law": np.select([usable, fallback], [law, BANDWIDTH], KEPT).astype(object),
            "why": _together(reasons, chosen([usable | fallback], [None], wide.why)),
            "bound": np.select([usable, fallback], [asked.bound, wide.bound], "").astype(object),
        }
    )


def _together(first: ObjectArray, second: ObjectArray) -> ObjectArray:
    """Return the reasons of each row as a tuple, one that is twice there once."""
    pairs = (tuple(dict.fromkeys(filter(None, pair))) for pair in zip(first, second, strict=True))
    return np.fromiter(pairs, dtype=object, count=len(first))


def _achieved(rows: Rows, pair: Pair) -> tuple[Bounds, Bounds]:
    """Return the times on both devices at what real kernels reach, the arithmetic in whole tiles and waves."""
    memory = memory_shares(pair.host, pair.target)
    matrix = reached(rows.work, pair.host, pair.target)
    gpus = (pair.host, pair.target)
    found = []
    for gpu, share, part in zip(gpus, memory, matrix, strict=True):
        found.append(bounds(rows.work, gpu, matrix=part / stretch(rows.work, rows.op, gpu), memory=share))
    return found[0], found[1]


def _bounded(rows: Rows, own: Bounds, others: Bounds) -> Scaled:
    """Return the ratio of two rooflines."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = others.roofline_us / own.roofline_us
    works = rows.known & np.isfinite(ratio)
    bound = np.where(works, others.names, "").astype(object)
    why = chosen([~rows.known, given(own.missing)], [rows.unknown, own.missing], others.missing)
    return Scaled(np.where(works, ratio, np.nan), bound, why)


def _ratio(pair: Pair, figure: str) -> tuple[float, Remark | None]:
    """Return a figure of the host over that of the target, or NaN and which of the two is not published."""
    try:
        return pair.host.require(figure) / pair.target.require(figure), None
    except NotPublishedError as error:
        return np.nan, not_published(error)


def _link_ratio(pair: Pair) -> tuple[float, Remark | None]:
    """Return the rate of the host's PCIe over that of the target: a generation doubles it."""
    try:
        return 2.0 ** (pair.host.require("pcie_gen") - pair.target.require("pcie_gen")), None
    except NotPublishedError as error:
        return np.nan, not_published(error)


def _share_of_work(roofline_us: FloatArray) -> FloatArray:
    """Return how far each kernel follows its roofline: from 0 to 1 between the floor over and times the root of 2."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.clip(np.log2(roofline_us / LAUNCH_FLOOR_US) + 0.5, 0.0, 1.0), dtype=np.float64)


def _clocks(pair: Pair) -> float:
    """Return the ratio of the boost clocks, 1 where one is not published."""
    ratio, missing = _ratio(pair, "boost_mhz")
    return 1.0 if missing else ratio


def _filled(value: object, rows: Rows) -> ObjectArray:
    return np.full(len(rows), value, dtype=object)
