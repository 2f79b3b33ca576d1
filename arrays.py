"""Types of arrays, by what they hold: the words of every signature that takes or returns one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
ObjectArray = NDArray[np.object_]


def weighted_sums(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the sum of each row (n × p), each column times its weight (p,).

    A row's sum is the same to the last bit whatever rows stand beside it. In a product of matrices
    it is not: a library adds up the last rows of a block in another order.

    >>> weighted_sums(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 0.5])).tolist()
    [11.0, 32.0]
    """
    sums = np.zeros(len(values))
    for column, weight in zip(values.T, weights, strict=True):
        if weight != 0:
            sums += weight * column
    return sums
