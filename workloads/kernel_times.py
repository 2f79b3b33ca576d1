"""How long kernels take on one GPU: laws of achieved rates for products, attention and norms.

A product takes the p-norm of its time at the memory's and at the matrix units' achieved rate:

    t = [(bytes / bandwidth)^p + (flop / (rate · fill))^p]^(1/p) + launch,    fill = 1 / (1 + outputs_half / outputs)

`outputs` are the elements of the result, which fill the compute units; `outputs_half` of them fill half. The figures
of MI300X were fitted to hipBLASLt's FP8 products of an MLPerf submission (`SOURCE`; mean error 3.5 %), those of another
GPU or precision follow from what its best products are measured to reach (hardware/measured.csv), and its units.

Fused attention reaches a part of the 16-bit product rate that grows with the keys, as its blocks on the edge and its
start weigh less: t = flop / rate · (1 + keys_half / keys). The rates were fitted to AITER on MI300X and HipKittens on
MI355X (forward and backward, heads of 64 and 128, with and without a mask: mean error 3.5 %, worst 18 %).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..hardware import GPU
from ..operators.work import BITS
from ..projection.bounds import matrix_shares, memory_shares

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
        return self.work_us(2.0 * n * k * tokens, moved, n * tokens)

    def work_us(self, flop: FloatArray, moved: FloatArray, outputs: FloatArray) -> FloatArray:
        """Return the time of products that compute and move so much, without a launch."""
        reading = moved / (self.bandwidth_gbs * 1e3)
        computing = flop / (self.rate_tflops * 1e6) * (1.0 + self.outputs_half / np.maximum(outputs, 1.0))
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


ATTENTION_RATES: Final = {"gfx942": 534.0 / 708.0, "gfx950": 1345.0 / 1565.0}
"""Part of the best measured 16-bit product rate that attention with heads of 128 reaches at length: where measured."""
OTHER_ATTENTION: Final = 0.81
"""The same elsewhere: the mean of the two."""
NARROW_HEAD: Final = 0.74
"""Rate with heads of 64 over that with heads of 128; both GPUs agree within 1 %."""
BACKWARD_RATE: Final = 0.87
"""Rate of the backward pass over that of the forward one, its work being 2.5 times as much (MI355X)."""
KEYS_HALF: Final = {True: 1030.0, False: 350.0}
"""Keys at which half of that rate is reached, with a causal mask and without one."""
KEYS_HALF_FITTED: Final = {("gfx942", True): 1410.0}
BACKWARD_KEYS: Final = 1.3
"""That number of the backward pass over that of the forward one."""


def attention_us(
    gpu: GPU, flop: ArrayLike, keys: ArrayLike, *, head_dim: int = 128, causal: bool = True, backward: bool = False
) -> FloatArray:
    """Return the time of fused attention that does so many operations, each query over so many keys.

    Raises
    ------
    NotPublishedError
        The GPU's 16-bit matrix rate is not published.
    """
    flop, keys = np.asarray(flop, dtype=np.float64), np.asarray(keys, dtype=np.float64)
    part = ATTENTION_RATES.get(gpu.gfx or "", OTHER_ATTENTION) * (NARROW_HEAD if head_dim <= 64 else 1.0)
    rate = ceiling_tflops(gpu, "bf16") * part * (BACKWARD_RATE if backward else 1.0)
    half = KEYS_HALF_FITTED.get((gpu.gfx or "", causal), KEYS_HALF[causal]) * (BACKWARD_KEYS if backward else 1.0)
    return flop / (rate * 1e6) * (1.0 + half / np.maximum(keys, 1.0))
