"""Work of element-wise operators of any number of operands, some of them broadcast; of gathers; of fused optimizers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from .columns import as_numbers, element_bytes, numbers


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return one operation per element of the result and operand beyond the first, at least one per element."""
    rows, cols, inputs = numbers(frame, "rows", "cols", "inputs")
    return rows * cols * np.maximum(inputs - 1, 1)


def bytes_moved(frame: pd.DataFrame) -> np.ndarray:
    """Return ``elements_a a + elements_b b + rows cols c``: what is read and written once.

    ``elements_a`` are the different elements of the first operand, ``elements_b`` those of all others together (a
    bias added to every row has cols elements, not rows cols); where missing, operands have the size of the result.
    """
    rows, cols, inputs = numbers(frame, "rows", "cols", "inputs")
    sizes = rows * cols
    first, others = as_numbers(frame, "elements_a"), as_numbers(frame, "elements_b")
    first = np.where(np.isnan(first), sizes, first)
    others = np.where(np.isnan(others), (inputs - 1) * sizes, others)
    a, b, out = (element_bytes(frame, name) for name in ("dtype_a", "dtype_b", "dtype_out"))
    return first * a + others * b + sizes * out


def gather_flops(frame: pd.DataFrame) -> np.ndarray:
    """Return zeros: nothing is computed."""
    return np.zeros(len(frame))


def gather_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return ``rows (cols (a + c) + b)``: for each index (``dtype_b``) ``cols`` elements are read and written."""
    rows, cols = numbers(frame, "rows", "cols")
    a, b, out = (element_bytes(frame, name) for name in ("dtype_a", "dtype_b", "dtype_out"))
    return rows * (cols * (a + out) + b)
