"""Work of operators on rows x cols, which wait for memory on every GPU of the last decade, and the calls they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pandas as pd

from .call import Described, Tensor, require
from .op import Dim, Op
from .work import element_bytes, numbers

ROWS = Dim("rows", "rows; elements are rows × cols", 4096)
COLS = Dim("cols", "elements of a row, along which is normalised or summed", 8192)
# of element-wise kernels; those of PyTorch on MI100 and MI210 lie within 0.1
ELEMENTWISE_SPREAD = 0.15
ROW_WISE_SPREAD = 0.35  # of kernels that go over each row: a judgement


@dataclass(frozen=True)
class VectorWork:
    """Cost of one element: operations, tensors read, and what a whole row or column adds.

    Operations are counted one by one, exponentials, powers and divisions as one each (the
    convention of the framework counters; special functions take several instructions, but these
    kernels wait for memory). `inputs` and `outputs` are tensors of rows x cols; where it `reduces`,
    one value per row is written instead. `parameters` are vectors of length cols read (scale,
    shift), `row_parameters` values per row read (scale, shift, mean and variance of a channel).
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

        ``(inputs rows cols + parameters cols + row_parameters rows) a + outputs written c``,
        `written` being rows for a reduction, else rows cols.
        """
        rows, cols = numbers(frame, "rows", "cols")
        a = element_bytes(frame, "dtype_a")
        out = element_bytes(frame, "dtype_out")
        written = rows
        if not self.reduces:
            written = rows * cols
        read = self.inputs * rows * cols + self.parameters * cols + self.row_parameters * rows
        return read * a + self.outputs * written * out

    @staticmethod
    def view(frame: pd.DataFrame) -> pd.DataFrame:
        """Return m = rows, n = cols, k = batch = 1."""
        rows, cols = numbers(frame, "rows", "cols")
        return pd.DataFrame(
            {"batch": np.ones(len(frame)), "m": rows, "n": cols, "k": np.ones(len(frame))}
        )


def vector_op(name: str, work: VectorWork, **more: Any) -> Op:
    """Return the operator of that work; `more` are further fields of `Op`."""
    return Op(
        name,
        "vector",
        (ROWS, COLS),
        ("cols",),
        name + " {cols}",
        work.flops,
        work.bytes_moved,
        work.view,
        **more,
    )


def as_rows(dims: Sequence[int]) -> Described:
    """Return a shape as rows x cols: the last dimension, and the product of the others."""
    cols = 1
    if dims:
        cols = dims[-1]
    return {"rows": prod(dims[:-1]), "cols": cols}


# A row is what is normalised or reduced together; its elements are the columns. The variant
# ``strided`` says that a row's elements lie further apart in memory than the rows.


def whole_rows(op: str, variant: str, x: Tensor, cols: int, out: str = "") -> Described:
    """Return an operator on an input that is read once; an expanded input is smaller in memory than its size says."""
    require(cols > 0 and x.numel % cols == 0 and x.elements == x.numel)
    formats = {"dtype_a": x.dtype, "dtype_b": x.dtype, "dtype_out": out or x.dtype}
    return {"op": op, "variant": variant, "rows": x.numel // cols, "cols": cols, **formats}


def axes_of(listed: list[int], rank: int) -> list[int]:
    """Return axes counted from the first, in order, each once."""
    require(all(-max(rank, 1) <= axis < max(rank, 1) for axis in listed))
    if rank:
        return sorted({axis % rank for axis in listed})
    return []


def along(op: str, words: list[str], x: Tensor, axes: list[int], out: str) -> Described:
    """Return an operator along axes of its input."""
    if x.innermost(axes):
        strided = []
    else:
        strided = ["strided"]
    return whole_rows(op, " ".join(words + strided), x, prod(x.dims[axis] for axis in axes), out)
