"""Work of row-wise and element-wise operators, bound by memory on every GPU of the last decade."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from .columns import element_bytes, numbers


@dataclass(frozen=True)
class VectorWork:
    """Cost of one element: operations, tensors read, and what a whole row or column adds.

    Operations are counted one by one, exponentials, powers and divisions as one each (the convention of the
    framework counters; special functions take several instructions, but these kernels wait for memory).

    Attributes
    ----------
    operations : float
        FLOPs per element.
    inputs : int
        Tensors of rows x cols read.
    reduces : bool
        One value per row is written in place of rows x cols.
    parameters : int
        Vectors of length cols read (scale, shift).
    """

    operations: float
    inputs: int = 1
    reduces: bool = False
    parameters: int = 0

    def flops(self, frame: pd.DataFrame) -> np.ndarray:
        """Return ``operations rows cols``."""
        rows, cols = numbers(frame, "rows", "cols")
        return self.operations * rows * cols

    def bytes_moved(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the bytes read and written once: ``inputs rows cols a + parameters cols a + written c``."""
        rows, cols = numbers(frame, "rows", "cols")
        a, out = element_bytes(frame, "dtype_a"), element_bytes(frame, "dtype_out")
        written = rows if self.reduces else rows * cols
        return (self.inputs * rows * cols + self.parameters * cols) * a + written * out

    @staticmethod
    def view(frame: pd.DataFrame) -> pd.DataFrame:
        """Return m = rows, n = cols, k = batch = 1."""
        rows, cols = numbers(frame, "rows", "cols")
        return pd.DataFrame({"batch": np.ones(len(frame)), "m": rows, "n": cols, "k": np.ones(len(frame))})


ROW_WISE = {
    "softmax": VectorWork(5),  # max, subtract, exponential, sum, divide
    "layer_norm": VectorWork(8, parameters=2),  # mean; subtract, square, sum; divide, scale, shift; root per row
    "rms_norm": VectorWork(4, parameters=1),  # square, sum; divide, scale
    "reduction": VectorWork(1, reduces=True),
}
ELEMENT_WISE = {
    **{name: VectorWork(1, inputs=2) for name in ("add", "mul", "div", "pow")},
    **{name: VectorWork(1) for name in ("addu", "mulu", "divu", "powu", "relu", "tanh")},
    "gelu": VectorWork(5),  # x/2 (1 + erf(x/sqrt 2)): two products, erf, add, product
    "copy": VectorWork(0),
}
