"""PyTorch's profiler (Kineto), on CUDA and ROCm: start with `kineto_reader`; `decode` the JSON, `link` the columns."""

from __future__ import annotations

from .kineto_reader import KinetoReader

__all__ = ["KinetoReader"]
