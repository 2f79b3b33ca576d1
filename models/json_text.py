"""JSON as flopcast writes it: plain numbers, stable bytes, nothing that another reader would refuse."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np


def dumps(value: Any, *, digits: int | None = None, missing: bool = False, sort: bool = False) -> str:
    """Return ``value`` as JSON text that ends in a newline; the same value gives the same bytes.

    Parameters
    ----------
    value : mapping, sequence, str, number, bool or None
        NumPy arrays and scalars are written as the Python values they hold.
    digits : int, optional
        Significant digits that floats are rounded to; without it every float is written in full and reads back equal.
    missing : bool
        Write NaN and infinities as ``null``. Without it they are an error, since JSON has no such numbers.
    sort : bool
        Sort the keys of mappings, numbers by value (``"5"`` before ``"10"``); without it they keep their order.

    Raises
    ------
    ValueError
        A number is NaN or infinite and ``missing`` is false; the message holds its path.
    TypeError
        A value is none of the above.
    """

    def plain(item: Any, path: str) -> Any:
        if isinstance(item, np.generic):
            item = item.item()
        if item is None or isinstance(item, bool | int | str):
            return item
        if isinstance(item, float):
            return _number(item, path, digits, missing)
        if isinstance(item, Mapping):
            keys = sorted(item, key=_natural) if sort else item
            return {str(key): plain(item[key], f"{path}.{key}") for key in keys}
        if isinstance(item, np.ndarray):
            item = item.tolist()
        if isinstance(item, Sequence):
            return [plain(entry, f"{path}[{index}]") for index, entry in enumerate(item)]
        if isinstance(item, PurePath):
            return item.as_posix()
        raise TypeError(f"{path} is a {type(item).__name__}, which JSON cannot hold")

    return json.dumps(plain(value, "value"), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _number(value: float, path: str, digits: int | None, missing: bool) -> float | None:
    if not math.isfinite(value):
        if missing:
            return None
        raise ValueError(f"{path} is {value}, which is not a number in JSON")
    return value if digits is None else float(f"{value:.{digits}g}")


def _natural(key: Any) -> tuple[bool, float, str]:
    """Sort numbers by value and before words."""
    text = str(key)
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text
