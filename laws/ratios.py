"""Laws that go by one published figure, and the one that changes nothing."""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray
from ..errors import DataError, NotPublishedError
from ..hardware import GPU
from ..operators.operators import Work
from ..remarks import Remark, remark
from .base import COMPUTE, HOST_LINK, LINK, MEMORY, DeviceLaw, Law, Pair, Rows, Scaled, filled
from .rates import by_kind, chosen, compute_us, given, memory_us, no_unit, not_published, peaks, ratio, run_as, runnable

MATRIX = "matrix"
WITH_FLOPS = ("softmax", "norm", "reduction", "loss")
"""Op classes of vector operators whose FLOPs count: they sum along their rows."""
NO_FLOPS = remark("no-flops")
"""Why the FLOPs of a row say nothing of its time: its elements are read and written."""


class Flops(DeviceLaw):
    """``flops / peak`` at the precision and unit that each row computes with; the ratio is ``peak_host / peak_target``.

    The constant hardware efficiency of the published methodology, per kernel. In traces copies, fills and element-wise
    operators have no FLOPs that count.
    """

    name, title, scales = "flops", "FLOPS", True
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
        counts = rows.known & (np.nan_to_num(rows.work.flops) > 0)
        counts &= (rows.work.unit == MATRIX) | np.isin(rows.op_class, WITH_FLOPS)
        own, lacks = by_kind(runnable(rows.work, pair.host), lambda work: peaks(work, pair.host))
        others, lacks_too = by_kind(runnable(rows.work, pair.target), lambda work: peaks(work, pair.target))
        why = chosen([~rows.known, ~counts, given(lacks)], [rows.unknown, NO_FLOPS, lacks], lacks_too)
        return Scaled(np.where(counts, own / others, np.nan), filled(COMPUTE, rows), why)


class UniformFlops(Law):
    """One ratio of peaks for all rows: that of the precision in which the matrix operators spend most time.

    The published methodology as such; bf16 where no matrix operator is known.
    """

    name = "flops-uniform"
    needs = ("peak_tflops",)
    source = "constant hardware efficiency, of a whole workload"

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return the one ratio."""
        matrix = rows.known & (rows.work.unit == MATRIX)
        names = np.unique(rows.work.dtype[matrix]).tolist() or ["bf16"]
        dtype = max(names, key=lambda name: float(rows.host_us[matrix & (rows.work.dtype == name)].sum()))
        found, why = np.nan, None
        try:
            own, others = (gpu.peak_tflops(run_as(dtype, gpu)) for gpu in (pair.host, pair.target))
            found = own / others
        except NotPublishedError as error:
            why = not_published(error)
        except DataError as error:  # products of integers that no GPU has a unit for
            why = no_unit(error)
        return Scaled(np.full(len(rows), found), filled(COMPUTE, rows), filled(why, rows))


class Bandwidth(DeviceLaw):
    """``bytes / bandwidth``; the ratio is ``bandwidth_host / bandwidth_target``.

    In traces copies between host and GPU go by the ratio of their PCIe generations.
    """

    name, title, scales = "bandwidth", "bandwidth", True
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
        link, unknown = _link_ratio(pair)
        return Scaled(
            np.where(linked, link, memory),
            np.where(linked, LINK, MEMORY).astype(object),
            chosen([linked], [unknown], lacks),
        )


class Kept(Law):
    """1: every kernel takes as long as on the host."""

    name = "kept"
    source = "no law: what else a projection says is seen alone"

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return 1."""
        return Scaled(np.ones(len(rows)), filled("", rows), filled(None, rows))


def _link_ratio(pair: Pair) -> tuple[float, Remark | None]:
    """Return the rate of the host's PCIe over that of the target: a generation doubles it."""
    try:
        return 2.0 ** (pair.host.require("pcie_gen") - pair.target.require("pcie_gen")), None
    except NotPublishedError as error:
        return np.nan, not_published(error)


FLOPS, FLOPS_UNIFORM, BANDWIDTH, KEPT = Flops(), UniformFlops(), Bandwidth(), Kept()
