"""Nsight Systems and Nsight Compute."""

from __future__ import annotations

from .ncu import NcuReader
from .nsys import NsysReader
from .nsys_stats import NsysStatsReader

__all__ = ["NcuReader", "NsysReader", "NsysStatsReader"]
