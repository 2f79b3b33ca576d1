"""Laws that a projection may go by: an object each, called as the law is in capitals (``ROOFLINE_ACHIEVED``)."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..errors import DataError, NotPublishedError
from ..hardware import GPU
from ..operators.operators import Work
from ..remarks import remark
from .base import (
    COMPUTE,
    HOST_LINK,
    LATENCY,
    LINK,
    MATRIX,
    MEMORY,
    DeviceLaw,
    Law,
    Pair,
    Rows,
    Scaled,
    filled,
)
from .bounds import LAUNCH_FLOOR_US, achieved, bounded, bounds, memory_shares
from .rates import (
    by_kind,
    chosen,
    compute_us,
    given,
    memory_us,
    no_unit,
    peaks,
    ratio,
    run_as,
    runnable,
)

WITH_FLOPS = ("softmax", "norm", "reduction", "loss")
"""Op classes of vector operators whose FLOPs count: they sum along their rows."""
NO_FLOPS = remark("no-flops", "no FLOPs that count: its elements are read and written")
"""Why the FLOPs of a row say nothing of its time: its elements are read and written."""


class Flops(DeviceLaw):
    """``flops / peak`` at the precision and unit that each row computes with; the ratio is ``peak_host / peak_target``.

    The constant hardware efficiency of the published methodology, per kernel. In traces copies,
    fills and element-wise operators have no FLOPs that count.
    """

    name = "flops"
    title = "FLOPS"
    scales = True
    needs = ("peak_tflops",)
    source = "constant hardware efficiency, per kernel"

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return `rates.compute_us`."""
        return compute_us(work, gpu)

    def ratio(self, work: Work, host: GPU, target: GPU) -> FloatArray:
        """Return ``peak_host / peak_target``, whatever the FLOPs: there may be none."""
        return peaks(work, host) / peaks(work, target)

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return the ratio where FLOPs count."""
        counts = rows.has_work & (np.nan_to_num(rows.work.flops) > 0)
        counts &= (rows.work.unit == MATRIX) | np.isin(rows.op_class, WITH_FLOPS)
        here, lacks = by_kind(runnable(rows.work, pair.host), lambda work: peaks(work, pair.host))
        others, lacks_too = by_kind(
            runnable(rows.work, pair.target), lambda work: peaks(work, pair.target)
        )
        why = chosen(
            [~rows.has_work, ~counts, given(lacks)], [rows.unknown, NO_FLOPS, lacks], lacks_too
        )
        return Scaled(np.where(counts, here / others, np.nan), filled(COMPUTE, rows), why)


FLOPS = Flops()


class UniformFlops(Law):
    """One ratio of peaks for all rows: that of the precision in which the matrix operators spend most time.

    The published methodology as such; bf16 without a matrix operator.
    """

    name = "flops-uniform"
    needs = ("peak_tflops",)
    source = "constant hardware efficiency, of a whole workload"

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return the one ratio."""
        matrix = rows.has_work & (rows.work.unit == MATRIX)
        names = np.unique(rows.work.dtype[matrix]).tolist() or ["bf16"]
        dtype = max(
            names, key=lambda name: float(rows.host_us[matrix & (rows.work.dtype == name)].sum())
        )
        ratio = np.nan
        why = None
        try:
            here, others = (gpu.peak_tflops(run_as(dtype, gpu)) for gpu in (pair.host, pair.target))
            ratio = here / others
        except NotPublishedError as error:
            why = error.remark
        except DataError as error:  # products of integers that no GPU has a unit for
            why = no_unit(error)
        return Scaled(np.full(len(rows), ratio), filled(COMPUTE, rows), filled(why, rows))


FLOPS_UNIFORM = UniformFlops()


class Bandwidth(DeviceLaw):
    """``bytes / bandwidth``; the ratio is ``bandwidth_host / bandwidth_target``.

    In traces copies between host and GPU go by the ratio of their PCIe generations.
    """

    name = "bandwidth"
    title = "bandwidth"
    scales = True
    needs = ("memory_bw_gbs",)
    source = "all kernels wait for memory; PCIe doubles its rate with each generation"

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return `rates.memory_us`."""
        return memory_us(work, gpu)

    def ratio(self, work: Work, host: GPU, target: GPU) -> FloatArray:
        """Return ``bandwidth_host / bandwidth_target``, whatever the bytes: they may be unknown."""
        return np.full(len(work), host.require("memory_bw_gbs") / target.require("memory_bw_gbs"))

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return the ratio of the memories, or of the links to the host."""
        linked = np.isin(rows.direction, HOST_LINK)
        memory, lacks = ratio(pair.host, pair.target, "memory_bw_gbs")
        link = np.nan
        unknown = None
        try:
            link = 2.0 ** (pair.host.require("pcie_gen") - pair.target.require("pcie_gen"))
        except NotPublishedError as error:
            unknown = error.remark
        return Scaled(
            np.where(linked, link, memory),
            np.where(linked, LINK, MEMORY).astype(object),
            chosen([linked], [unknown], lacks),
        )


BANDWIDTH = Bandwidth()


class Roofline(DeviceLaw):
    """``max(flops / peak, bytes / bandwidth)``: a lower bound, as no kernel computes or moves faster."""

    name = "roofline"
    title = "roofline"
    alone = True
    scales = True
    needs = ("peak_tflops", "memory_bw_gbs")
    source = 'S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009'

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return ``max(compute, memory)``."""
        return np.maximum(compute_us(work, gpu), memory_us(work, gpu))

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return the ratio of the rooflines; rows without FLOPs need no peak."""
        return bounded(rows, bounds(rows.work, pair.host), bounds(rows.work, pair.target))


ROOFLINE = Roofline()


class RooflineAchieved(Law):
    """The ratio of the rooflines at the part of the figures that the best kernels reach (`bounds.achieved`).

    The arithmetic of matrix operators runs in whole tiles and waves (`bounds.stretch`).
    """

    name = "roofline-achieved"
    needs = ("peak_tflops", "memory_bw_gbs")
    source = "hardware/measured.csv"

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return the ratio."""
        return bounded(rows, *achieved(rows, pair))


ROOFLINE_ACHIEVED = RooflineAchieved()


# of the time of a kernel whose work is unknown, what memory is taken to explain
BLIND_SHARE: Final = 0.5


class Affine(Law):
    """``t' = a_target + (t - a_host) (e r + (1 - e) c)``, relative to t.

    - a is the fixed time of a kernel on its device (`base.Overhead`): it does not shrink with any
      rate. On AMD it holds the dispatch in queues that are not empty. A kernel shorter than that is
      all fixed time.
    - r is the ratio of the achieved rooflines of both devices (`achieved`), the arithmetic in whole
      tiles and waves. e is what that roofline explains on the host: the root of its share of ``t -
      a_host``, at most 1. To scale all of the time by r (e = 1) takes the efficiency of a kernel to
      be the same on both; to scale its share alone takes the rest to be waiting. Measured pairs of
      GPUs lie between the two.
    - The rest waits for chains of dependent instructions, for caches or for a last wave: c is the
      ratio of the boost clocks.
    - Of kernels of unknown work r is the ratio of the achieved bandwidths, for `BLIND_SHARE` of
      their time.
    """

    name = "affine"
    needs = ("peak_tflops", "memory_bw_gbs")
    source = "fixed times of public traces (hardware/constants.toml), hardware/measured.csv"
    # of the share that the roofline explains; 1 scales that share alone, 0 all of the time
    power = 0.5

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return ``t' / t``."""
        mine, others = achieved(rows, pair)
        law = bounded(rows, mine, others)
        memory = BANDWIDTH.scaled(rows, pair)
        fixed, fixed_there = (one.fixed_us(rows.queued) for one in pair.fixed)
        kept = np.minimum(fixed, rows.host_us)
        began = np.where(
            fixed > 0, kept * fixed_there / np.where(fixed > 0, fixed, 1.0), fixed_there
        )
        blind = np.isnan(law.factor) & ~rows.has_work & (rows.direction == "")
        shares = memory_shares(pair.host, pair.target)
        with np.errstate(divide="ignore", invalid="ignore"):  # a kernel that is all fixed time
            share = np.minimum(mine.roofline_us / (rows.host_us - kept), 1.0)
        explained = share**self.power
        explained = np.where(blind, BLIND_SHARE, explained)
        rates = np.where(blind, memory.factor * shares[0] / shares[1], law.factor)
        clocks, missing = ratio(pair.host, pair.target, "boost_mhz")
        factor = explained * rates + (1 - explained) * (1.0 if missing else clocks)
        waits = np.maximum(mine.roofline_us, others.roofline_us) < LAUNCH_FLOOR_US
        bound = np.where(waits, LATENCY, law.bound).astype(object)
        return Scaled((began + (rows.host_us - kept) * factor) / rows.host_us, bound, law.why)


AFFINE = Affine()


class Kept(Law):
    """1, no law: every kernel takes as long as on the host, which isolates the other effects of a projection."""

    name = "kept"
    source = "no law: what else a projection says is seen alone"

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return 1."""
        return Scaled(np.ones(len(rows)), filled("", rows), filled(None, rows))


KEPT = Kept()
