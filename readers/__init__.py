"""From files of any supported format to one measurement table; every module imported here registers its readers."""

from __future__ import annotations

from . import (
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
from .reading import read, read_rows, read_traces
from .trace_files import TraceFailure

__all__ = [
    "Note",
    "Options",
    "RawTable",
    "Reader",
    "TraceFailure",
    "TraceReader",
    "aiter",
    "formats",
    "hipblaslt",
    "kineto",
    "miopen",
    "nsight",
    "rccl_tests",
    "read",
    "read_rows",
    "read_traces",
    "readers",
    "register",
    "rocpd",
    "rocprof",
    "rocprofiler_compute",
    "rocprofv3",
    "rpd",
    "tidy",
    "tunableop",
]
