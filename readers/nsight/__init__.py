"""Nsight Systems (`nsys`: SQLite export and CSV) and Nsight Compute (`ncu`)."""

from __future__ import annotations

from .ncu import NcuReader
from .nsys import NsysReader, NsysStatsReader

__all__ = ["NcuReader", "NsysReader", "NsysStatsReader"]
