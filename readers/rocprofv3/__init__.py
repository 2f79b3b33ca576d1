"""rocprofv3 (rocprofiler-sdk): CSV files (`csv_reader`) and JSON (`json_reader`), and what they have in `common`."""

from __future__ import annotations

from .csv_reader import Rocprofv3CsvReader
from .json_reader import Rocprofv3JsonReader

__all__ = ["Rocprofv3CsvReader", "Rocprofv3JsonReader"]
