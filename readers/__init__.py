"""From files of any supported format to one measurement table; every module imported here registers its readers."""

from __future__ import annotations

from . import (  # noqa: F401  (each registers its readers)
    aiter,  # noqa: A004
    hipblaslt,
    kineto,
    miopen,
    nsight,
    rccl_tests,
    rocpd,
    rocprof,
    rocprofiler_compute,
    rocprofv3,
    rpd,
    tidy,
    tunableop,
)
from .base import Note, Options, RawTable, Reader, TraceReader, formats, readers, register
from .reading import Measurements, read, read_rows, read_traces
from .trace_files import TraceFailure

__all__ = [
    "Measurements",
    "Note",
    "Options",
    "RawTable",
    "Reader",
    "TraceFailure",
    "TraceReader",
    "formats",
    "read",
    "read_rows",
    "read_traces",
    "readers",
    "register",
]
