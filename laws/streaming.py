"""What only moves: at the bandwidth that a copy through the whole memory reaches, or a part of it."""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays import FloatArray
from ..hardware import GPU
from ..hardware.constants import constant
from ..operators.operators import Work
from .achieved import streaming_gbs
from .base import DeviceLaw


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
ROW_WISE = Streaming(constant("streaming.row_wise").value)
"""Norms, softmax and what else sums along its rows."""
