"""Rows of the measurement table before they are measured: words, whole numbers, and what to say where one is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..errors import DataError
from ..features.ops import op_of
from ..features.table import DTYPE_COLUMNS

WORDS = ("op", "variant", "layout", *DTYPE_COLUMNS)
"""Cells of a row that are words, whatever its operator."""


def word(row: Mapping[str, Any], name: str) -> str:
    """Return a text cell, "" where it is missing."""
    value = row.get(name, "")
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def sizes(row: Mapping[str, Any], *names: str, default: int | None = None) -> list[int]:
    """Return dimensions as integers.

    Raises
    ------
    DataError
        One is missing and there is no default, or is not a whole number.
    """
    found = []
    for name in names:
        value = row.get(name, default)
        value = default if value is None or (isinstance(value, float) and math.isnan(value)) else value
        if value is None or isinstance(value, str) or float(value) != int(value):
            raise DataError(f"{word(row, 'op')} needs {name} as a whole number, got {row.get(name, 'nothing')}")
        found.append(int(value))
    return found


def parameters(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells that are no part of the problem: what a user's function is told besides."""
    return {name: value for name, value in row.items() if name not in (*WORDS, *op_of(row["op"]).dims)}


def unknown(row: Mapping[str, Any], name: str, known: str) -> DataError:
    """Return the error for a word that no call of the row's operator has."""
    said = word(row, name) or "none"
    return DataError(f"{word(row, 'op')} with {name} {said} cannot be measured: known here is {known}")


def described(row: Mapping[str, Any]) -> str:
    """Return a row in words, e.g. ``gemm bf16 m=16 n=4096 k=7168``."""
    first = [word(row, name) for name in ("op", "variant", "dtype_a", "direction", "layout")]
    skipped = {"op", "variant", "dtype_a", "dtype_b", "dtype_out", "direction", "layout", "kernel"}
    dims = [f"{name}={_shown(value)}" for name, value in row.items() if name not in skipped and word(row, name)]
    return " ".join([part for part in first if part] + dims)


def _shown(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
