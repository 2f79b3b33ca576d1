"""Types of arrays, by what they hold: the words of every signature that takes or returns one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
ObjectArray = NDArray[np.object_]


def in_parts(count: int, most: int = 2**15) -> list[slice]:
    """Return slices of at most so many rows: what is worked out of a large table is then never as large.

    >>> in_parts(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(first, min(first + most, count)) for first in range(0, count, most)]
