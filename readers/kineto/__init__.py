"""PyTorch's profiler (Kineto), on CUDA and ROCm."""

from __future__ import annotations

from .kineto_reader import KinetoReader

__all__ = ["KinetoReader"]
