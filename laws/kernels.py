"""Laws of single kinds of kernels, as forecasts use them: products, fused attention, and what only moves.

Products of matrices (`Product`) take the p-norm of the time of the memory and of the matrix units
at achieved rates:

    t = [(bytes / bandwidth)^p + (flop / (rate · fill))^p]^(1/p),    fill = 1 / (1 + outputs_half /
    outputs)

`outputs` are the elements of the result, which fill the compute units; `outputs_half` of them fill
half. The figures of MI300X were fitted to hipBLASLt's FP8 products of an MLPerf submission (mean
error 3.5 %), those of another GPU or precision follow from what its best products are measured to
reach (hardware/measured.csv), and its units.

Fused attention (`Attention`) runs at a part of the 16-bit product rate that grows with the keys:
blocks on the edge, and the start, weigh less the more there are, t = flop / rate · (1 + keys_half /
keys). The rates were fitted to AITER on MI300X and HipKittens on MI355X (forward and backward,
heads of 64 and 128, with and without a mask: mean error 3.5 %, worst 18 %). What only moves
(`Streaming`) takes the bandwidth that a copy through the whole memory reaches, or a part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import FloatArray
from ..hardware import GPU
from ..hardware.constants import constant
from ..operators.operators import Work
from ..operators.work import BITS
from .base import DeviceLaw
from .bounds import ceiling_tflops, streaming_gbs


class Product(DeviceLaw):
    """The p-norm of both times, without a launch, by what each precision reaches on the GPU (`product_law`)."""

    name = "product"
    needs = ("peak_tflops", "memory_bw_gbs")
    source = "fitted to MLPerf inference v4.1, Dell (hardware/constants.toml)"

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return the time of matrix products, microseconds."""
        times = np.empty(len(work))
        codes, kinds = work.kinds()
        for code, (dtype, _) in enumerate(kinds):
            part = work.take(rows := np.flatnonzero(codes == code))
            times[rows] = product_law(gpu, dtype).work_us(
                part.flops, part.bytes, part.batch * part.m * part.n
            )
        return times


PRODUCT = Product()


@dataclass(frozen=True)
class ProductLaw:
    """Times of matrix products on one GPU."""

    # achieved rates of large products and of reading weights
    rate_tflops: float
    bandwidth_gbs: float
    outputs_half: float  # elements of the result that fill half of the compute units
    # of one element of the inputs and of the result
    in_bytes: float
    out_bytes: float = 2.0
    # of one element of the weights, where they are stored narrower than they are computed with
    weight_bytes: float | None = None

    def time_us(
        self, n: ArrayLike, tokens: ArrayLike, k: ArrayLike, copies: ArrayLike = 1.0
    ) -> FloatArray:
        """Return the time of products of (n, k) weights with so many tokens, without a launch.

        ``copies`` are the weight matrices among which the tokens are spread (the experts of a
        mixture). All broadcast.
        """
        n, tokens, k, copies = (np.asarray(one, dtype=np.float64) for one in (n, tokens, k, copies))
        weights = (
            copies * n * k * (self.in_bytes if self.weight_bytes is None else self.weight_bytes)
        )
        moved = weights + tokens * k * self.in_bytes + n * tokens * self.out_bytes
        return self.work_us(2.0 * n * k * tokens, moved, n * tokens)

    def work_us(self, flop: FloatArray, moved: FloatArray, outputs: FloatArray) -> FloatArray:
        """Return the time of products that compute and move so much, without a launch."""
        reading = moved / (self.bandwidth_gbs * 1e3)
        computing = (
            flop / (self.rate_tflops * 1e6) * (1.0 + self.outputs_half / np.maximum(outputs, 1.0))
        )
        norm = constant("product.norm").value
        return (reading**norm + computing**norm) ** (1.0 / norm)


@cache
def product_law(gpu: GPU, dtype: str) -> ProductLaw:
    """Return the law of a GPU for a precision.

    Raises NotPublishedError: the GPU has no matrix rate for it, or a figure that the law needs is
    not published.
    """
    rate = ceiling_tflops(gpu, dtype) * constant("product.of_ceiling").of(f"{gpu.gfx} {dtype}")
    bandwidth = gpu.require("memory_bw_gbs") * constant("product.of_bandwidth").value
    units = gpu.cus or gpu.reported_cus or 0
    return ProductLaw(
        rate, bandwidth, constant("product.half_filled").value * units, BITS[dtype] / 8
    )


def fitted(gpu: GPU, dtype: str) -> bool:
    """Whether the law was fitted to products of that GPU and precision."""
    return f"{gpu.gfx} {dtype}" in constant("product.of_ceiling").by


@dataclass(frozen=True)
class Attention(DeviceLaw):
    """``flop / rate · (1 + keys_half / keys)``."""

    keys: ArrayLike = np.inf  # that each query attends to, of every row; the rate is that of many
    head_dim: int = 128  # of every head; those of at most 64 are slower
    # whether a mask leaves out what lies ahead, and whether it is the backward pass
    causal: bool = True
    backward: bool = False

    name = "attention"
    needs = ("peak_tflops",)
    source = "fitted to AITER and HipKittens (hardware/constants.toml)"

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return the time, microseconds; a NotPublishedError if the GPU's 16-bit matrix rate is not published."""
        return self.us(work.flops, gpu)

    def us(self, flop: ArrayLike, gpu: GPU) -> FloatArray:
        """Return the time of so many operations, as the law of rows does."""
        flop = np.asarray(flop, dtype=np.float64)
        keys = np.asarray(self.keys, dtype=np.float64)
        part = constant("attention.of_ceiling").of(gpu.gfx)
        half = constant(
            "attention.half_rate_keys_causal" if self.causal else "attention.half_rate_keys"
        ).of(gpu.gfx)
        if self.head_dim <= 64:
            part *= constant("attention.narrow_head").value
        rate = ceiling_tflops(gpu, "bf16") * part
        if self.backward:
            rate *= constant("attention.backward_rate").value
            half *= constant("attention.backward_keys").value
        return flop / (rate * 1e6) * (1.0 + half / np.maximum(keys, 1.0))


ATTENTION = Attention()


@dataclass(frozen=True)
class Streaming(DeviceLaw):
    """``bytes / (bandwidth · share)``: `share` is the part that such kernels reach of what a copy does."""

    share: float = 1.0

    name = "streaming"
    needs = ("memory_bw_gbs",)
    source = "copies measured by BabelStream (hardware/measured.csv)"

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return the time of the traffic, microseconds."""
        return work.bytes / (streaming_gbs(gpu) * 1e3) / self.share


STREAMING = Streaming()
# norms, softmax and what else sums along its rows
ROW_WISE = Streaming(constant("streaming.row_wise").value)
