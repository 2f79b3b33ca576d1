"""Bandwidth scaling: the ratio of the memory bandwidths, or of the links to the host."""

from __future__ import annotations

import numpy as np

from ...arrays import FloatArray
from ...errors import NotPublishedError
from ...hardware import GPU
from ...operators.operators import Work
from ..base import HOST_LINK, LINK, MEMORY, DeviceLaw, Pair, Rows, Scaled
from ..rates import chosen, memory_us, ratio


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
        link, unknown = np.nan, None
        try:
            link = 2.0 ** (pair.host.require("pcie_gen") - pair.target.require("pcie_gen"))
        except NotPublishedError as error:
            unknown = error.remark
        return Scaled(
            np.where(linked, link, memory),
            np.where(linked, LINK, MEMORY).astype(object),
            chosen([linked], [unknown], lacks),
        )


LAW = Bandwidth()
