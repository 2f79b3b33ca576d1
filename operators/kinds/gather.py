"""Gathers and scatters: rows of a table, one for each index (``dtype_b``)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..call import Call, CallReader, Described, Tensor, require
from ..op import Measured, Op, Operands, Row, Run, of_variant, sizes, unknown, word
from ..vector import COLS, ELEMENTWISE_SPREAD, ROWS, VectorWork
from ..work import element_bytes, numbers

VOCABULARY = 32_768
"""Rows of the table that embeddings are taken from: the dimensions of a gather do not tell it."""


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return zeros: nothing is computed."""
    return np.zeros(len(frame))


def bytes_moved(frame: pd.DataFrame) -> np.ndarray:
    """Return ``rows (cols (a + c) + b)``: for each index (``dtype_b``) ``cols`` elements are read and written."""
    rows, cols = numbers(frame, "rows", "cols")
    a, b, out = (element_bytes(frame, name) for name in ("dtype_a", "dtype_b", "dtype_out"))
    return rows * (cols * (a + out) + b)


def least_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return ``rows (cols c + b)``: all indices may name the same row."""
    rows, cols = numbers(frame, "rows", "cols")
    return rows * (cols * element_bytes(frame, "dtype_out") + element_bytes(frame, "dtype_b"))


def _gathered(kind: str, source: Tensor, index: Tensor, cols: int, rows: int = 0) -> Described:
    formats = {"dtype_a": source.dtype, "dtype_b": index.dtype, "dtype_out": source.dtype}
    return {"op": "gather", "variant": kind, "rows": rows or index.numel, "cols": cols, **formats}


def embedding(call: Call) -> Described:
    """``embedding(weight, indices)``."""
    weight = call.tensor(0)
    require(len(weight.dims) == 2)
    return _gathered("embedding", weight, call.tensor(1), weight.dims[1])


def embedding_backward(call: Call) -> Described:
    """``embedding_dense_backward(grad, indices, ...)``: the gradients' rows are added to those of the table."""
    grad = call.tensor(0)
    require(bool(grad.dims))
    return _gathered("embedding_backward", grad, call.tensor(1), grad.dims[-1])


def index_select(call: Call) -> Described:
    """``index_select(x, dim, index)``: slices of x across one dimension."""
    x, axis, index = call.tensor(0), call.integer(1), call.tensor(2)
    require(bool(x.dims) and -len(x.dims) <= axis < len(x.dims) and x.dims[axis] > 0)
    return _gathered(call.kind, x, index, x.numel // x.dims[axis])


def index_add(call: Call) -> Described:
    """``index_add(x, dim, index, source)`` and ``index_copy``: slices of the source across one dimension."""
    index, source = call.tensor(2), call.tensor(3)
    require(index.numel > 0 and source.numel % index.numel == 0)
    return _gathered(call.kind, source, index, source.numel // index.numel)


def gather(call: Call) -> Described:
    """``gather(x, dim, index)``, ``scatter``, ``scatter_add``: an index per element, unless the index is expanded."""
    index = call.tensor(2)
    require(index.elements > 0 and index.numel % index.elements == 0)
    return _gathered(call.kind, call.tensor(0), index, index.numel // index.elements, index.elements)


ATEN: dict[str, CallReader] = {
    "aten::embedding": embedding,
    "aten::embedding_dense_backward": embedding_backward,
    "aten::index_select": index_select,
    "aten::index_add": index_add,
    "aten::index_copy": index_add,
    **{f"aten::{name}": gather for name in ("gather", "scatter", "scatter_add")},
}


def _gather(make: Operands, row: Row) -> Run:
    """Return ``embedding`` in a table of `VOCABULARY` rows."""
    of_variant(row, {"": None, "embedding": None})
    if word(row, "dtype_b") not in ("", "int64", "int32"):
        raise unknown(row, "dtype_b", "int64, int32")
    rows, cols = sizes(row, "rows", "cols")
    table = make.tensor(word(row, "dtype_a"), VOCABULARY, cols)
    indices = make.integers(VOCABULARY, rows).to(make.dtype(word(row, "dtype_b") or "int64"))
    embedding = make.torch.nn.functional.embedding
    return lambda: embedding(indices, table)


OPERATORS = (
    Op("gather", "vector", (ROWS, COLS), ("cols",), "gather {cols}",
       flops, bytes_moved, VectorWork.view, _least_bytes=least_bytes, spread=ELEMENTWISE_SPREAD,
       aliases=("embedding", "index_select"), kernels="embedding",
       measured=Measured(_gather, "embedding", formats=lambda dtype: {"dtype_b": "int64"})),
)  # fmt: skip
