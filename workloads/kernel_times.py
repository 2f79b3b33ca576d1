"""How long the kernels of a layer take on one GPU: a law of achieved rates for matrix products, and the links' models.

A product takes the p-norm of its time at the memory's and at the matrix units' achieved rate:

    t = [(bytes / bandwidth)^p + (flop / (rate · fill))^p]^(1/p) + launch,    fill = 1 / (1 + outputs_half / outputs)

`outputs` are the elements of the result, which fill the compute units; `outputs_half` of them fill half. The figures
of MI300X were fitted to hipBLASLt's FP8 products of an MLPerf submission (`SOURCE`; mean error 3.5 %), those of another
GPU or precision follow from what its best products are measured to reach (hardware/measured.csv), and its units.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import DataError
from ..hardware import GPU
from ..operators.work import BITS
from ..projection.alpha_beta import find_link, measured_links
from ..projection.bounds import matrix_shares, memory_shares
from ..projection.collective_laws import link_bandwidth_gbs

FloatArray = NDArray[np.float64]

SOURCE: Final = "MLPerf inference v4.1, Dell: hipBLASLt FP8 products of Llama-2-70B on MI300X"
NORM: Final = 1.04
OF_CEILING: Final = 0.93
"""Part of the best measured rate that large products reach: BF16 on MI325X and MI355X."""
FITTED: Final = {("gfx942", "fp8"): 1111.0 / 1273.0}
"""The same where a law was fitted: FP8 on MI300X reaches 1111 of 1273 TFLOP/s."""
OF_BANDWIDTH: Final = 5300.0 / 5325.0
"""Part of the published bandwidth at which the weights are read, in the law's norm."""
OUTPUTS_HALF_PER_CU: Final = 5.2e5 / 304
LAUNCH_US: Final = 10.0
"""Of a measured product: what its launch adds where no graph replays it."""


@dataclass(frozen=True)
class ProductLaw:
    """Times of matrix products on one GPU.

    Attributes
    ----------
    rate_tflops, bandwidth_gbs : float
        Achieved rates of large products and of reading weights.
    outputs_half : float
        Elements of the result that fill half of the compute units.
    in_bytes, out_bytes : float
        Of one element of the inputs and of the result.
    """

    rate_tflops: float
    bandwidth_gbs: float
    outputs_half: float
    in_bytes: float
    out_bytes: float = 2.0

    def time_us(self, n: ArrayLike, tokens: ArrayLike, k: ArrayLike, copies: ArrayLike = 1.0) -> FloatArray:
        """Return the time of products of (n, k) weights with so many tokens, without a launch.

        ``copies`` are the weight matrices among which the tokens are spread (the experts of a mixture). All broadcast.
        """
        n, tokens, k, copies = (np.asarray(one, dtype=np.float64) for one in (n, tokens, k, copies))
        moved = (copies * n * k + tokens * k) * self.in_bytes + n * tokens * self.out_bytes
        outputs = np.maximum(n * tokens, 1.0)
        reading = moved / (self.bandwidth_gbs * 1e3)
        computing = 2.0 * n * k * tokens / (self.rate_tflops * 1e6) * (1.0 + self.outputs_half / outputs)
        return (reading**NORM + computing**NORM) ** (1.0 / NORM)


@cache
def product_law(gpu: GPU, dtype: str) -> ProductLaw:
    """Return the law of a GPU for a precision.

    Raises
    ------
    NotPublishedError
        The GPU has no matrix rate for it, or a figure that the law needs is not published.
    """
    rate = ceiling_tflops(gpu, dtype) * FITTED.get((gpu.gfx, dtype), OF_CEILING)
    bandwidth = gpu.require("memory_bw_gbs") * OF_BANDWIDTH
    units = gpu.cus or gpu.reported_cus or 0
    return ProductLaw(rate, bandwidth, OUTPUTS_HALF_PER_CU * units, BITS[dtype] / 8)


def ceiling_tflops(gpu: GPU, dtype: str) -> float:
    """Return the rate that the best products of a precision are measured to reach, or are reckoned to."""
    return gpu.peak_tflops(dtype) * matrix_shares(gpu, gpu, dtype)[0]


def streaming_gbs(gpu: GPU) -> float:
    """Return the bandwidth that a copy through the whole memory reaches, GB/s."""
    return gpu.require("memory_bw_gbs") * memory_shares(gpu, gpu)[0]


def collective_us(gpu: GPU, collective: str, message_bytes: ArrayLike, ranks: int) -> FloatArray:
    """Return the times of collectives within a node, one per message; 0 for one rank.

    Where the links of this GPU were not measured, those of MI300X stand in, at this GPU's bandwidth.
    """
    size = np.asarray(message_bytes, dtype=np.float64)
    if ranks < 2:
        return np.zeros_like(size)
    links = measured_links()
    link = find_link(links, gpu.measured_name, collective) or find_link(links, "MI300X", collective)
    if link is None:
        raise DataError(f"no model of {collective}")
    return link.time_us(collective, size, float(ranks), link_bandwidth_gbs(gpu, collective, ranks))
