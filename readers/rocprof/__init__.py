"""rocprof versions 1 and 2."""

from __future__ import annotations

from .rocprof_reader import RocprofReader

__all__ = ["RocprofReader"]
