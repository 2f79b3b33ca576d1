"""How an operator is measured: from a row of the measurement table to a call of PyTorch, which the caller imports.

A row has the dimensions of its operator and the variants that readers of profiles give it, so that measured and
profiled rows are the same problems.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import DataError

Row = Mapping[str, Any]


class Operands(Protocol):
    """PyTorch (`torch`), the device (`backend`), and what makes random tensors for one row there."""

    torch: Any
    backend: Any

    def dtype(self, name: str) -> Any:
        """Return PyTorch's type for a number format."""
        ...

    def tensor(self, dtype: str, *size: int) -> Any:
        """Return a tensor: standard normal numbers, or integers from 0 to 99."""
        ...

    def integers(self, limit: int, *size: int) -> Any:
        """Return int64 numbers from 0 to ``limit - 1``."""
        ...


Run = Callable[[], Any]
"""The call that is timed."""
Builder = Callable[[Operands, Row], Run]


@dataclass(frozen=True)
class Measured:
    """How an operator is measured.

    `build` makes the call of a row; a DataError where its variant or number format cannot be measured, or dimensions
    contradict each other. `family` is the name by which its kernels are chosen; "" for the operator's own. `formats`
    are those the call has where a list of rows does not state them, given ``dtype_a``.
    """

    build: Builder
    family: str = ""
    formats: Callable[[str], Mapping[str, str]] = lambda dtype: {}


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
    dimensions = []
    for name in names:
        value = row.get(name, default)
        value = default if value is None or (isinstance(value, float) and math.isnan(value)) else value
        if value is None or isinstance(value, str) or float(value) != int(value):
            raise DataError(f"{word(row, 'op')} needs {name} as a whole number, got {row.get(name, 'nothing')}")
        dimensions.append(int(value))
    return dimensions


def unknown(row: Mapping[str, Any], name: str, known: str) -> DataError:
    """Return the error for a word that no call of the row's operator has."""
    said = word(row, name) or "none"
    return DataError(f"{word(row, 'op')} with {name} {said} cannot be measured: known here is {known}")


def matrix(make: Operands, row: Row, written: str | None = None) -> Any:
    """Return a tensor of rows x cols of the row's format."""
    return make.tensor(only_format(row, written), *sizes(row, "rows", "cols"))


def only_format(row: Row, written: str | None = None) -> str:
    """Return ``dtype_a``; a DataError for formats the call does not compute with: it writes `written`, or the same."""
    dtype = word(row, "dtype_a")
    for name, expected in {"dtype_b": dtype, "dtype_out": written or dtype}.items():
        if word(row, name) not in ("", expected):
            raise unknown(row, name, expected)
    return dtype


def of_variant(row: Row, known: Mapping[str, Any]) -> Any:
    """Return what belongs to the row's variant; a DataError for another."""
    if (variant := word(row, "variant")) not in known:
        raise unknown(row, "variant", ", ".join(name or "none" for name in known))
    return known[variant]
