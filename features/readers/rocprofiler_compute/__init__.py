"""Workload folders of rocprofiler-compute (Omniperf)."""

from __future__ import annotations

from .reader import RocprofilerComputeReader

__all__ = ["RocprofilerComputeReader"]
