"""Work of dense, batched and grouped matrix products C[m, n] = A[m, k] B[k, n], scales of narrow types included."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from ..errors import DataError, few
from .work import coded, element_bytes, numbers, texts

SCALES = ("", "tensor", "token", "1x128", "1x32", "1x16")
"""Known scale layouts: none, one per tensor, per token and channel, DeepSeek blocks, OCP MX, NVFP4."""


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return the FLOPs ``2 batch m n k`` (a multiply and an add per term; Golub & Van Loan, 2013, table 1.1.2)."""
    batch, m, n, k = numbers(frame, "batch", "m", "n", "k")
    return 2 * batch * m * n * k


def bytes_moved(frame: pd.DataFrame) -> np.ndarray:
    """Return the compulsory bytes ``batch (m k a + k n b + m n c)`` and those of the scales.

    a, b, c are the bytes of one element of ``dtype_a``, ``dtype_b``, ``dtype_out``; each operand crosses the memory
    once (Williams et al., "Roofline", CACM 52(4), 2009: compulsory traffic). Scales: see `scale_bytes`.
    """
    batch, m, n, k = numbers(frame, "batch", "m", "n", "k")
    operands = m * k * element_bytes(frame, "dtype_a") + k * n * element_bytes(frame, "dtype_b")
    result = m * n * element_bytes(frame, "dtype_out")
    return batch * (operands + result + scale_bytes(frame, "dtype_a", m, k) + scale_bytes(frame, "dtype_b", n, k))


def view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return batch, m, n, k themselves."""
    return _view(*numbers(frame, "batch", "m", "n", "k"))


def grouped_flops(frame: pd.DataFrame) -> np.ndarray:
    """Return the FLOPs ``2 m n k`` of a grouped product; m counts the rows of all ``batch`` groups together."""
    m, n, k = numbers(frame, "m", "n", "k")
    return 2 * m * n * k


def grouped_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return the bytes ``m k a + batch k n b + m n c``: each group has weights of its own, the rows are shared out."""
    batch, m, n, k = numbers(frame, "batch", "m", "n", "k")
    rows = m * k * element_bytes(frame, "dtype_a") + m * n * element_bytes(frame, "dtype_out")
    weights = k * n * element_bytes(frame, "dtype_b") + scale_bytes(frame, "dtype_b", n, k)
    return rows + scale_bytes(frame, "dtype_a", m, k) + batch * weights


def grouped_view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one product per group with the average number of rows, ``m / batch``."""
    batch, m, n, k = numbers(frame, "batch", "m", "n", "k")
    return _view(batch, np.maximum(m / batch, 1), n, k)


def scale_bytes(frame: pd.DataFrame, dtype: str, rows: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return the bytes of the scales of an operand of ``rows x k`` elements: activations (`dtype_a`) or weights.

    Only operands narrower than 16 bits carry scales. By ``scale_block`` (DataError where it is none of these):

    - ``tensor``: one fp32;
    - ``token``: one fp32 per row (per token of A, per output channel of B);
    - ``1x128``: fp32 per 1 x 128 elements of A and per 128 x 128 of B (DeepSeek-V3 report, arXiv:2412.19437, 3.3.2);
    - ``1x32``: one e8m0 byte per 32 elements along k (OCP Microscaling Formats (MX) specification 1.0, table 1); for
      int4, which MX does not know, a bf16 per 32 elements;
    - ``1x16``: one e4m3 byte per 16 elements and one fp32 (NVFP4).
    """
    codes, words = coded(frame, "scale_block")
    present = np.unique(codes).tolist()
    if unknown := sorted({str(words[code]) for code in present} - set(SCALES)):
        raise DataError(f"unknown scale_block {few(map(repr, unknown))}: known are {', '.join(SCALES[1:])}")
    in_block = np.ceil(rows / 128) if dtype == "dtype_b" else rows
    sizes: dict[str, Callable[[], np.ndarray]] = {
        "tensor": lambda: np.full(len(frame), 4.0),
        "token": lambda: 4 * rows,
        "1x128": lambda: 4 * in_block * np.ceil(k / 128),
        "1x32": lambda: np.where(np.isin(texts(frame, dtype), ["int4", "uint4"]), 2.0, 1.0) * rows * np.ceil(k / 32),
        "1x16": lambda: rows * np.ceil(k / 16) + 4,
    }
    total = np.zeros(len(frame))
    for code in present:
        if words[code]:
            total = np.where(codes == code, sizes[words[code]](), total)
    return np.where(element_bytes(frame, dtype) < 2, total, 0.0)


def _view(batch: np.ndarray, m: np.ndarray, n: np.ndarray, k: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"batch": batch, "m": m, "n": n, "k": k})
