"""Nsight Systems (`nsys`: SQLite export; `nsys_stats`: CSV) and Nsight Compute (`ncu`, its pages in `ncu_pages`)."""

from __future__ import annotations

from .ncu import NcuReader
from .nsys import NsysReader
from .nsys_stats import NsysStatsReader

__all__ = ["NcuReader", "NsysReader", "NsysStatsReader"]
