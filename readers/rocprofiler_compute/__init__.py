"""Workload folders of rocprofiler-compute (Omniperf)."""

from __future__ import annotations

from .compute_reader import RocprofilerComputeReader

__all__ = ["RocprofilerComputeReader"]
