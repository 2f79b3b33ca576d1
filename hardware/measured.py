"""What others have measured on GPUs: the part of the published peaks that real kernels reach."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from .lookup import find
from .schema import PEAKS
from .spec import GPU


@dataclass(frozen=True)
class Ceiling:
    """One published measurement.

    Attributes
    ----------
    gpu : str
        Canonical name.
    metric : str
        What was measured: ``gemm_fp8``, ``hbm_copy``, ``allreduce_busbw_8gpu``, ...
    value : float
        The measurement, in `unit`.
    unit : str
        TFLOPS, TOPS or GB/s.
    figure : str
        The figure of the GPU it is a part of: ``fp8_matrix``, ``memory_bw_gbs``, ...; empty where there is none.
    method, conditions, source, confidence : str
        How, under which conditions and by whom it was measured; "high", "medium" or "low".
    """

    gpu: str
    metric: str
    value: float
    unit: str
    figure: str
    method: str
    conditions: str
    source: str
    confidence: str

    def share(self, gpu: GPU) -> float | None:
        """Return the measurement as a part of the published figure of `gpu` (1 = all of it), None where it has none."""
        if not self.figure:
            return None
        spec: float | None = gpu.peaks.get(self.figure) if self.figure in PEAKS else getattr(gpu, self.figure)
        return self.value / spec if spec else None


def measured(gpu: str, metric: str | None = None) -> list[Ceiling]:
    """Return the measurements known for a GPU, of one metric or of all; empty where there are none.

    Raises
    ------
    UnknownGPUError
        If no GPU answers to the name.
    """
    name = find(gpu).name
    return [row for row in _rows() if row.gpu == name and metric in (None, row.metric)]


@cache
def _rows() -> tuple[Ceiling, ...]:
    text = resources.files(__package__).joinpath("measured.csv").read_text(encoding="utf-8")
    return tuple(Ceiling(value=float(row.pop("value")), **row) for row in csv.DictReader(text.splitlines()))
