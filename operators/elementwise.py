"""Work of row-wise and element-wise operators, bound by memory on every GPU of the last decade.

Any number of operands, some of them broadcast; gathers; fused optimizers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from .work import as_numbers, element_bytes, numbers


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


def gather_least_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return ``rows (cols c + b)``: all indices may name the same row."""
    rows, cols = numbers(frame, "rows", "cols")
    return rows * (cols * element_bytes(frame, "dtype_out") + element_bytes(frame, "dtype_b"))


@dataclass(frozen=True)
class VectorWork:
    """Cost of one element: operations, tensors read, and what a whole row or column adds.

    Operations are counted one by one, exponentials, powers and divisions as one each (the convention of the framework
    counters; special functions take several instructions, but these kernels wait for memory). `inputs` and `outputs`
    are tensors of rows x cols; where it `reduces`, one value per row is written instead. `parameters` are vectors of
    length cols read (scale, shift), `row_parameters` values per row read (scale, shift, mean and variance of a
    channel).
    """

    operations: float
    inputs: int = 1
    reduces: bool = False
    parameters: int = 0
    row_parameters: int = 0
    outputs: int = 1

    def flops(self, frame: pd.DataFrame) -> np.ndarray:
        """Return ``operations rows cols``."""
        rows, cols = numbers(frame, "rows", "cols")
        return self.operations * rows * cols

    def bytes_moved(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the bytes read and written once.

        ``(inputs rows cols + parameters cols + row_parameters rows) a + outputs written c``, `written` being rows for
        a reduction, else rows cols.
        """
        rows, cols = numbers(frame, "rows", "cols")
        a, out = element_bytes(frame, "dtype_a"), element_bytes(frame, "dtype_out")
        written = rows if self.reduces else rows * cols
        read = self.inputs * rows * cols + self.parameters * cols + self.row_parameters * rows
        return read * a + self.outputs * written * out

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
#: Backward passes read the gradient with what the forward pass kept, and write the gradient of the input.
TRAINED = {
    "softmax_backward": VectorWork(4, inputs=2),  # product, sum; subtract, product
    "layer_norm_backward": VectorWork(11, inputs=2, parameters=1, row_parameters=2),  # 2 sums of products; 3 terms
    "rms_norm_backward": VectorWork(8, inputs=2, parameters=1, row_parameters=1),
    "group_norm": VectorWork(8),  # as layer_norm, a row per image and group; scale and shift are too few to count
    "group_norm_backward": VectorWork(11, inputs=2, row_parameters=2),
    "batch_norm": VectorWork(8, row_parameters=4),  # as layer_norm, a row per channel
    "batch_norm_inference": VectorWork(2, row_parameters=4),  # scale and shift
    "batch_norm_backward": VectorWork(11, inputs=2, row_parameters=3),
    "add_rms_norm": VectorWork(5, inputs=2, outputs=2, parameters=1),  # the sum is written for the next layer
    "loss": VectorWork(3, inputs=2, reduces=True),  # difference, square, sum
    "adam": VectorWork(14, inputs=4, outputs=3),  # moments 3 + 4, root and quotient 3, decay 2, step 2
    "sgd_momentum": VectorWork(4, inputs=3, outputs=2),  # momentum 2, step 2
}
ELEMENT_WISE = {
    **{name: VectorWork(1, inputs=2) for name in ("add", "mul", "div", "pow")},
    **{name: VectorWork(1) for name in ("addu", "mulu", "divu", "powu", "relu", "tanh")},
    "gelu": VectorWork(5),  # x/2 (1 + erf(x/sqrt 2)): two products, erf, add, product
    "copy": VectorWork(0),
    "fill": VectorWork(0, inputs=0),
}
