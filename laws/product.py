"""Products of matrices at achieved rates: the p-norm of the time of the memory and of the matrix units.

    t = [(bytes / bandwidth)^p + (flop / (rate · fill))^p]^(1/p),    fill = 1 / (1 + outputs_half / outputs)

`outputs` are the elements of the result, which fill the compute units; `outputs_half` of them fill half. The figures
of MI300X were fitted to hipBLASLt's FP8 products of an MLPerf submission (mean error 3.5 %), those of another GPU or
precision follow from what its best products are measured to reach (hardware/measured.csv), and its units.
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
from .achieved import ceiling_tflops
from .base import DeviceLaw


class Product(DeviceLaw):
    """The p-norm of both times, without a launch, by what each precision reaches on the GPU (`product_law`)."""

    name = "product"
    needs = ("peak_tflops", "memory_bw_gbs")
    source = "fitted to MLPerf inference v4.1, Dell (hardware/constants.toml)"

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return the time of matrix products, microseconds."""
        found = np.empty(len(work))
        codes, kinds = work.kinds()
        for code, (dtype, _) in enumerate(kinds):
            part = work.take(rows := np.flatnonzero(codes == code))
            found[rows] = product_law(gpu, dtype).work_us(part.flops, part.bytes, part.batch * part.m * part.n)
        return found


PRODUCT = Product()


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
    weight_bytes : float, optional
        Of one element of the weights, where they are stored narrower than they are computed with.
    """

    rate_tflops: float
    bandwidth_gbs: float
    outputs_half: float
    in_bytes: float
    out_bytes: float = 2.0
    weight_bytes: float | None = None

    def time_us(self, n: ArrayLike, tokens: ArrayLike, k: ArrayLike, copies: ArrayLike = 1.0) -> FloatArray:
        """Return the time of products of (n, k) weights with so many tokens, without a launch.

        ``copies`` are the weight matrices among which the tokens are spread (the experts of a mixture). All broadcast.
        """
        n, tokens, k, copies = (np.asarray(one, dtype=np.float64) for one in (n, tokens, k, copies))
        weights = copies * n * k * (self.in_bytes if self.weight_bytes is None else self.weight_bytes)
        moved = weights + tokens * k * self.in_bytes + n * tokens * self.out_bytes
        return self.work_us(2.0 * n * k * tokens, moved, n * tokens)

    def work_us(self, flop: FloatArray, moved: FloatArray, outputs: FloatArray) -> FloatArray:
        """Return the time of products that compute and move so much, without a launch."""
        reading = moved / (self.bandwidth_gbs * 1e3)
        computing = flop / (self.rate_tflops * 1e6) * (1.0 + self.outputs_half / np.maximum(outputs, 1.0))
        norm = constant("product.norm").value
        return (reading**norm + computing**norm) ** (1.0 / norm)


@cache
def product_law(gpu: GPU, dtype: str) -> ProductLaw:
    """Return the law of a GPU for a precision.

    Raises
    ------
    NotPublishedError
        The GPU has no matrix rate for it, or a figure that the law needs is not published.
    """
    rate = ceiling_tflops(gpu, dtype) * constant("product.of_ceiling").of(f"{gpu.gfx} {dtype}")
    bandwidth = gpu.require("memory_bw_gbs") * constant("product.of_bandwidth").value
    units = gpu.cus or gpu.reported_cus or 0
    return ProductLaw(rate, bandwidth, constant("product.half_filled").value * units, BITS[dtype] / 8)


def fitted(gpu: GPU, dtype: str) -> bool:
    """Whether the law was fitted to products of that GPU and precision."""
    return f"{gpu.gfx} {dtype}" in constant("product.of_ceiling").by
