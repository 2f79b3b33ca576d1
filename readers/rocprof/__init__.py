"""rocprof versions 1 and 2: start with `rocprof_reader`; `results_csv` has the tables and their stamps."""

from __future__ import annotations

from .rocprof_reader import RocprofReader

__all__ = ["RocprofReader"]
