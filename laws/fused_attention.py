"""Fused attention at a part of the 16-bit product rate that grows with the keys.

Blocks on the edge, and the start, weigh less the more keys there are: t = flop / rate · (1 + keys_half / keys). The
rates were fitted to AITER on MI300X and HipKittens on MI355X (forward and backward, heads of 64 and 128, with and
without a mask: mean error 3.5 %, worst 18 %).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import FloatArray
from ..hardware import GPU
from ..hardware.constants import constant
from ..operators.operators import Work
from .achieved import ceiling_tflops
from .base import DeviceLaw


@dataclass(frozen=True)
class Attention(DeviceLaw):
    """``flop / rate · (1 + keys_half / keys)``.

    Attributes
    ----------
    keys : array_like
        That each query attends to, of every row; the rate is that of many.
    head_dim : int
        Of every head; those of at most 64 are slower.
    causal, backward : bool
        Whether a mask leaves out what lies ahead, and whether it is the backward pass.
    """

    keys: ArrayLike = np.inf
    head_dim: int = 128
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
        flop, keys = np.asarray(flop, dtype=np.float64), np.asarray(self.keys, dtype=np.float64)
        part = constant("attention.of_ceiling").of(gpu.gfx)
        half = constant("attention.half_rate_keys_causal" if self.causal else "attention.half_rate_keys").of(gpu.gfx)
        if self.head_dim <= 64:
            part *= constant("attention.narrow_head").value
        rate = ceiling_tflops(gpu, "bf16") * part
        if self.backward:
            rate *= constant("attention.backward_rate").value
            half *= constant("attention.backward_keys").value
        return flop / (rate * 1e6) * (1.0 + half / np.maximum(keys, 1.0))


ATTENTION = Attention()
