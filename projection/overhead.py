"""What a kernel costs beyond its work, and whose time it is: on AMD GPUs durations hold the dispatch of the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..features.dispatches.timeline import gaps_ns
from ..hardware import GPU

CLOCK_NS = 160
"""Largest step of a GPU's clock in a profile (MI210); a gap up to it is none."""


@dataclass(frozen=True)
class Overhead:
    """The fixed times of a kernel.

    Attributes
    ----------
    kernel_us : float
        From start to end of a kernel that has next to nothing to do.
    dispatch_us : float
        From the end of a kernel to the start of the next one, which was waiting already.
    inside : bool
        Whether profilers count the dispatch in the duration of the later kernel (kernels then follow each other without
        a gap) or leave a gap.
    """

    kernel_us: float
    dispatch_us: float
    inside: bool

    def fixed_us(self, queued: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the part of each kernel's duration that is not work."""
        return np.where(queued & self.inside, self.kernel_us + self.dispatch_us, self.kernel_us).astype(np.float64)


OVERHEADS: Mapping[str, Overhead] = {
    "AMD": Overhead(kernel_us=2.0, dispatch_us=2.3, inside=True),
    "NVIDIA": Overhead(kernel_us=1.6, dispatch_us=1.3, inside=False),
}
"""By vendor, from public traces: 10th percentiles over the kernels of at most 16 workgroups.

AMD: an empty queue 1.8 to 2.2 us, a busy one 3.8 to 4.3 us (PyTorch on MI300X: TraceLens' normalisation and Flux
traces; rocprofv3 on MI350X). NVIDIA: 1.6 us, and a median gap of 1.3 us in busy queues (PyTorch on A100: the NCCL
trace of HolisticTraceAnalysis). MI210 and one MI300X trace of another ROCm lie about 1 us lower."""
_NONE = Overhead(0.0, 0.0, inside=False)


def overheads_of(host: GPU, target: GPU, overheads: Mapping[str, Overhead] | None = None) -> tuple[Overhead, Overhead]:
    """Return the fixed times on both devices; where those of one are not known, those of the other stand for both.

    Parameters
    ----------
    host, target : GPU
        The devices.
    overheads : mapping of str to Overhead, optional
        By vendor; `OVERHEADS` by default.
    """
    known = OVERHEADS if overheads is None else overheads
    own, others = known.get(host.vendor), known.get(target.vendor)
    return own or others or _NONE, others or own or _NONE


def is_queued(activities: pd.DataFrame, overhead: Overhead) -> NDArray[np.bool_]:
    """Return whether each activity was waiting when the one before it in its queue ended.

    Parameters
    ----------
    activities : DataFrame
        Dispatch table.
    overhead : Overhead
        Of the GPU it was measured on. Where durations hold the dispatch, that leaves no gap (up to `CLOCK_NS`); where
        they do not, one of up to twice the usual dispatch.
    """
    longest_ns = CLOCK_NS if overhead.inside else max(CLOCK_NS, 2000 * overhead.dispatch_us)
    return np.asarray(gaps_ns(activities).le(longest_ns).fillna(False), dtype=bool)
