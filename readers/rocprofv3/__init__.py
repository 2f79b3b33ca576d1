"""rocprofv3 (rocprofiler-sdk): CSV files and JSON."""

from __future__ import annotations

from .csv_reader import Rocprofv3CsvReader
from .json_reader import Rocprofv3JsonReader

__all__ = ["Rocprofv3CsvReader", "Rocprofv3JsonReader"]
