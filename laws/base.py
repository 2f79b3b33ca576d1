"""A law as an object: what it is called, what it needs of a GPU, where it is from, and what it says of rows.

`DeviceLaw` is ``(work, GPU) -> value``; from host to target it multiplies by the ratio of its
values on both. Any other `Law` says by itself what the host's time is multiplied by (`Law.scaled`).
Rows of a trace or of measurements enter that as `Rows`, made by `projection.kernel_laws`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..arrays import BoolArray, FloatArray, ObjectArray
from ..hardware import GPU
from ..hardware.constants import constant
from ..operators.operators import Work
from .rates import by_kind, chosen, given, runnable

# what bounds a kernel
COMPUTE = "compute"
MEMORY = "memory"
LATENCY = "latency"
LINK = "link"
MATRIX = "matrix"  # the unit of products
HOST_LINK = ("HtoD", "DtoH")  # copies between host and GPU


@dataclass(frozen=True)
class Rows:
    """The input of the laws, row by row; arrays of shape (n_rows,)."""

    work: Work  # NaN for FLOPs and bytes where it is unknown
    unknown: ObjectArray  # Remark: why (``operator-unknown``, ``helper-kernel``); None where the work is stated
    op: ObjectArray
    op_class: ObjectArray  # `traces.classes`
    host_us: FloatArray  # measured time, at least a nanosecond
    queued: BoolArray  # whether it began as soon as the one before it in its queue had ended
    direction: ObjectArray  # of copies by the runtime ("HtoD", "DtoH", "DtoD", ...), "" for everything else

    def __len__(self) -> int:
        return len(self.host_us)

    @property
    def has_work(self) -> BoolArray:
        """Whether the work is stated."""
        return ~given(self.unknown)


@dataclass(frozen=True)
class Overhead:
    """The fixed times of a kernel.

    `inside` says whether profilers count the dispatch in the duration of the later kernel (kernels
    then follow each other without a gap) or leave a gap.
    """

    kernel_us: float  # from start to end of a kernel that has next to nothing to do
    # from the end of a kernel to the start of the next one, which was waiting already
    dispatch_us: float
    inside: bool

    def fixed_us(self, queued: BoolArray) -> FloatArray:
        """Return the part of each kernel's duration that is not work."""
        return np.where(
            queued & self.inside, self.kernel_us + self.dispatch_us, self.kernel_us
        ).astype(np.float64)


_KERNEL = constant("launch.empty_queue").by
_DISPATCH = constant("launch.dispatch").by
OVERHEADS: Final[Mapping[str, Overhead]] = {
    "AMD": Overhead(_KERNEL["AMD"], _DISPATCH["AMD"], inside=True),
    "NVIDIA": Overhead(_KERNEL["NVIDIA"], _DISPATCH["NVIDIA"], inside=False),
}
"""By vendor."""
_NONE = Overhead(0.0, 0.0, inside=False)


def overheads_of(
    host: GPU, target: GPU, overheads: Mapping[str, Overhead] | None = None
) -> tuple[Overhead, Overhead]:
    """Return the fixed times on both devices; if one has none, the other's stand for both.

    ``overheads`` are by vendor, `OVERHEADS` by default.
    """
    if overheads is None:
        by_vendor = OVERHEADS
    else:
        by_vendor = overheads
    ours = by_vendor.get(host.vendor)
    others = by_vendor.get(target.vendor)
    return ours or others or _NONE, others or ours or _NONE


@dataclass(frozen=True)
class Pair:
    """The two devices, and the fixed times of kernels on them."""

    host: GPU
    target: GPU
    fixed: tuple[Overhead, Overhead]

    @classmethod
    def of(cls, host: GPU, target: GPU, overhead: Mapping[str, Overhead] | None = None) -> Pair:
        """Return the pair with its fixed times (see `overheads_of`)."""
        return cls(host, target, overheads_of(host, target, overhead))


@dataclass(frozen=True)
class Scaled:
    """A law's result for each row; arrays of shape (n_rows,)."""

    factor: FloatArray  # projected over measured duration; NaN where the law does not apply
    bound: ObjectArray  # what the target is bound by: compute, memory, latency, link, or ""
    why: ObjectArray  # Remark: why the law does not apply, or how it was applied; None for the rule


class Law(ABC):
    """A law from host to target, for rows measured on the host.

    Attributes
    ----------
    name : str
        As in `laws.LAWS`.
    source : str
        Paper or derivation.
    needs : tuple of str
        Figures of the GPU, by their keys; without one the law is silent.
    metric : str
        What it speaks of.
    """

    name: str
    source: str
    needs: tuple[str, ...] = ()
    metric: str = "duration_us"

    @abstractmethod
    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return the factor on the host's times, and the bound of the rows on the target."""


class DeviceLaw(Law):
    """A law of one device, ``law(work, gpu)``: a value per row, in the unit of its metric."""

    title: str = ""  # what tables of baselines call it: "roofline", and from host to target "roofline scaling"
    alone: bool = False  # whether it is a baseline of models of one device
    scales: bool = False  # whether it is one from host to target

    @abstractmethod
    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        """Return the value of each row, shape (n_rows,); a NotPublishedError if a figure is not published."""

    def ratio(self, work: Work, host: GPU, target: GPU) -> FloatArray:
        """Return the factor on the host's values; a NotPublishedError if a figure is not published."""
        return self(work, target) / self(work, host)

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return the ratio of the values on both devices, of work at the precisions that each of them runs."""
        here, lacks = by_kind(runnable(rows.work, pair.host), lambda work: self(work, pair.host))
        others, lacks_too = by_kind(
            runnable(rows.work, pair.target), lambda work: self(work, pair.target)
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = others / here
        works = rows.has_work & np.isfinite(ratio) & (ratio > 0)
        why = chosen([~rows.has_work, given(lacks)], [rows.unknown, lacks], lacks_too)
        return Scaled(np.where(works, ratio, np.nan), filled("", rows), why)


def filled(value: object, rows: Rows) -> ObjectArray:
    """Return the same for every row."""
    return np.full(len(rows), value, dtype=object)
