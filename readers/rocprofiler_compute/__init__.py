"""Workload folders of rocprofiler-compute (Omniperf): start with `compute_reader`; `passes` joins their counters."""

from __future__ import annotations

from .compute_reader import RocprofilerComputeReader

__all__ = ["RocprofilerComputeReader"]
