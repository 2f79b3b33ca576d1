"""Dense, batched and grouped matrix products C[m, n] = A[m, k] B[k, n], scales of narrow types included.

M, N and K are of the row-major product, whatever a library is told. ``layout`` has a letter for A
and one for B: N where its rows lie one after the other in memory, T where its columns do (a linear
layer's weight).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
import pandas as pd

from ...errors import DataError, few
from ..call import (
    Call,
    CallReader,
    Described,
    Tensor,
    broadcast,
    promote,
    readers_of,
    require,
    row_major,
)
from ..op import Dim, Measured, Op, Operands, Row, Run, only_format, sizes, unknown, word
from ..work import coded, element_bytes, numbers, texts

SCALES = ("", "tensor", "token", "1x128", "1x32", "1x16")
"""Known scale layouts: none, one per tensor, per token and channel, DeepSeek blocks, OCP MX, NVFP4."""


def flops(frame: pd.DataFrame) -> np.ndarray:
    """Return the FLOPs ``2 batch m n k`` (a multiply and an add per term; Golub & Van Loan, 2013, table 1.1.2)."""
    batch, m, n, k = numbers(frame, "batch", "m", "n", "k")
    return 2 * batch * m * n * k


def bytes_moved(frame: pd.DataFrame) -> np.ndarray:
    """Return the compulsory bytes ``batch (m k a + k n b + m n c)`` and those of the scales.

    a, b, c are the bytes of one element of ``dtype_a``, ``dtype_b``, ``dtype_out``; each operand
    crosses the memory once (Williams et al., "Roofline", CACM 52(4), 2009: compulsory traffic).
    Scales: see `scale_bytes`.
    """
    batch, m, n, k = numbers(frame, "batch", "m", "n", "k")
    operands = m * k * element_bytes(frame, "dtype_a") + k * n * element_bytes(frame, "dtype_b")
    result = m * n * element_bytes(frame, "dtype_out")
    return batch * (
        operands
        + result
        + scale_bytes(frame, "dtype_a", m, k)
        + scale_bytes(frame, "dtype_b", n, k)
    )


def view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return batch, m, n, k themselves."""
    return _view(*numbers(frame, "batch", "m", "n", "k"))


def grouped_flops(frame: pd.DataFrame) -> np.ndarray:
    """Return the FLOPs ``2 m n k`` of a grouped product; m counts the rows of all ``batch`` groups together."""
    m, n, k = numbers(frame, "m", "n", "k")
    return 2 * m * n * k


def grouped_bytes(frame: pd.DataFrame) -> np.ndarray:
    """Return the bytes ``m k a + batch k n b + m n c``: each group has separate weights, the rows are shared out."""
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

    Only operands narrower than 16 bits carry scales. By ``scale_block`` (DataError where it is none
    of these):

    - ``tensor``: one fp32;
    - ``token``: one fp32 per row (per token of A, per output channel of B);
    - ``1x128``: fp32 per 1 x 128 elements of A and per 128 x 128 of B (DeepSeek-V3 report,
      arXiv:2412.19437, 3.3.2);
    - ``1x32``: one e8m0 byte per 32 elements along k (OCP Microscaling Formats (MX) specification
      1.0, table 1); for int4, which MX does not know, a bf16 per 32 elements;
    - ``1x16``: one e4m3 byte per 16 elements and one fp32 (NVFP4).
    """
    codes, words = coded(frame, "scale_block")
    present = np.unique(codes).tolist()
    unknown = sorted({str(words[code]) for code in present} - set(SCALES))
    if unknown:
        raise DataError(
            f"unknown scale_block {few(map(repr, unknown))}: known are {', '.join(SCALES[1:])}"
        )
    in_block = rows
    if dtype == "dtype_b":
        in_block = np.ceil(rows / 128)
    sizes: dict[str, Callable[[], np.ndarray]] = {
        "tensor": lambda: np.full(len(frame), 4.0),
        "token": lambda: 4 * rows,
        "1x128": lambda: 4 * in_block * np.ceil(k / 128),
        "1x32": lambda: (
            np.where(np.isin(texts(frame, dtype), ["int4", "uint4"]), 2.0, 1.0)
            * rows
            * np.ceil(k / 32)
        ),
        "1x16": lambda: rows * np.ceil(k / 16) + 4,
    }
    total = np.zeros(len(frame))
    for code in present:
        if words[code]:
            total = np.where(codes == code, sizes[words[code]](), total)
    return np.where(element_bytes(frame, dtype) < 2, total, 0.0)


def _view(batch: np.ndarray, m: np.ndarray, n: np.ndarray, k: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"batch": batch, "m": m, "n": n, "k": k})


def _letter(matrix: Tensor) -> str:
    """Return T for a matrix whose columns lie one after the other in memory, else N."""
    if len(matrix.strides) > 1:
        down, along = matrix.strides[-2:]
    else:
        down = 0
        along = 1
    if down == 1 and along != 1:
        return "T"
    return "N"


def _product(a: Tensor, b: Tensor, variant: str = "", out: str = "") -> Described:
    """Return the product of two tensors by the rules of ``matmul``.

    A stack times one matrix, be it expanded (stride 0), is one gemm of tall A; stacks otherwise are
    batched, and an A that the members of the stack share counts for each of them.
    """
    rows = 1
    if len(a.dims) > 1:
        rows = a.dims[-2]
    if len(b.dims) > 1:
        k = b.dims[-2]
        n = b.dims[-1]
    else:
        k = 0
        if b.dims:
            k = b.dims[-1]
        n = 1
    require(bool(a.dims) and bool(b.dims) and a.dims[-1] == k)
    batch = prod(broadcast(a.dims[:-2], b.dims[:-2]))
    layout = ""
    if len(a.dims) > 1 and len(b.dims) > 1:
        layout = _letter(a) + _letter(b)
    described = {"variant": variant, "n": n, "k": k * max(a.packed, b.packed), "layout": layout}
    described |= {
        "dtype_a": a.dtype,
        "dtype_b": b.dtype,
        "dtype_out": out or promote(a.dtype, b.dtype),
    }
    if Tensor(b.dims[:-2], "", b.strides[:-2]).elements == 1:
        return {"op": "gemm", "m": batch * rows, **described}
    return {"op": "batched_gemm", "m": rows, "batch": batch, **described}


def mm(call: Call) -> Described:
    """``mm(a, b)``, ``bmm`` (both with an optional ``out_dtype``), ``mv``, ``dot`` and ``matmul``."""
    return _product(call.tensor(0), call.tensor(1), out=call.dtype(2, ""))


def int_mm(call: Call) -> Described:
    """``_int_mm(a, b)``: int8 to int32."""
    return _product(call.tensor(0), call.tensor(1), out="int32")


def addmm(call: Call) -> Described:
    """``addmm(bias, a, b, beta, alpha)``, ``baddbmm``, ``addmv``; with beta = 0 the first is not read.

    Six arguments are those of the overload with ``out_dtype`` before beta.

    Variant ``bias`` reads a value per column, ``addend`` a matrix of the size of the result.
    """
    first, a, b = (call.tensor(position) for position in range(3))
    variant = "addend"
    if first.elements <= b.dims[-1]:
        variant = "bias"
    typed = len(call) == 6 and call.kind != "addmm_activation"
    beta = call.text(4 if typed else 3)
    return _product(
        a, b, "" if beta in ("0", "0.") else variant, call.dtype(3, "") if typed else ""
    )


def linear(call: Call) -> Described:
    """``linear(x, weight, bias)`` and library products with the weight as n x k."""
    x = call.tensor(0)
    weight = call.tensor(1)
    return _product(x, _transposed(weight), "bias" if call.has(2) else "")


def _transposed(weight: Tensor) -> Tensor:
    """Return a weight of n x k as k x n; it is contiguous where strides are not recorded."""
    require(len(weight.dims) == 2)
    strides = weight.strides or row_major(weight.dims)
    return Tensor(weight.dims[::-1], weight.dtype, strides[::-1], weight.packed)


def scaled_mm(call: Call) -> Described:
    """``_scaled_mm(a, b, scale_a, scale_b, bias, scale_result, out_dtype)``; before 2.5 bias, out_dtype came first."""
    a = call.tensor(0)
    b = call.tensor(1)
    new = call.has(2) and call.tensor(2).dtype in ("fp32", "fp8")
    if new:
        scale = call.tensor(2)
        bias = 4
        out = 6
    else:
        scale = call.tensor(4)
        bias = 2
        out = 3
    dtype = call.dtype(out, a.dtype)
    block = _scale_block(a, scale)
    return {**_product(a, b, "bias" if call.has(bias) else "", dtype), "scale_block": block}


def _scale_block(a: Tensor, scale: Tensor) -> str:
    """Return the layout of the scales of A[m, k], by their number."""
    m = a.dims[-2]
    k = a.dims[-1] * a.packed
    if scale.numel == 1:
        return "tensor"
    by_size = {
        m: "token",
        m * -(-k // 128): "1x128",
        m * -(-k // 32): "1x32",
        m * -(-k // 16): "1x16",
    }
    if scale.dtype == "fp8":  # padded to whole tiles of 128 rows and 4 columns
        if a.dtype == "fp4" and scale.numel >= m * -(-k // 16):
            return "1x16"
        return "1x32"
    require(scale.numel in by_size)
    return by_size[scale.numel]


def cutlass_scaled_mm(call: Call) -> Described:
    """``_C::cutlass_scaled_mm(out, a, b, a_scales, b_scales, bias)`` of vLLM."""
    a = call.tensor(1)
    variant = ""
    if call.has(5):
        variant = "bias"
    return {
        **_product(a, call.tensor(2), variant, call.tensor(0).dtype),
        "scale_block": _scale_block(a, call.tensor(3)),
    }


def grouped_mm(call: Call) -> Described:
    """``_grouped_mm(a, b, offsets)`` with a[rows, k] shared out among the matrices of b[groups, k, n]."""
    a = call.tensor(0)
    b = call.tensor(1)
    require(len(a.dims) == 2 and len(b.dims) == 3 and a.dims[1] == b.dims[1])
    m, k = a.dims
    batch, _, n = b.dims
    sizes = {"m": m, "n": n, "k": k, "batch": batch}
    formats = {"dtype_a": a.dtype, "dtype_b": b.dtype, "dtype_out": promote(a.dtype, b.dtype)}
    return {
        "op": "grouped_gemm",
        "variant": "",
        "layout": _letter(a) + _letter(b),
        **sizes,
        **formats,
    }


def narrow_product(call: Call, block: str = "", packed: int = 1) -> Described:
    """``gemm(a, weight, scale_a, scale_b, ...)`` of serving, the weight as n x k, or k x n in columns.

    The result's format is that of a tensor of its size among the other arguments, else bf16, which
    these kernels write by default. Where scales are not recorded, `block` says how they lie. `packed`
    are the elements in a byte, where the operands are recorded as bytes.

    Source: the schemas of AITER (``aiter/ops/gemm_op_*.py``), vLLM (``_aiter_ops.py``,
    ``fp8_utils.py``) and SGLang (``sgl-kernel``), 2025 and 2026.
    """
    a, weight = (_unpacked(call.tensor(position), packed) for position in (0, 1))
    require(len(a.dims) > 1 and len(weight.dims) == 2)
    if weight.dims[1] == a.dims[-1]:
        weight = _transposed(weight)
    described = _product(a, weight)
    rows = prod(a.dims[:-1])
    columns = weight.dims[-1]
    layout = block
    scale = None
    if call.has(2):
        scale = call.tensor(2)
    if scale is not None and scale.numel > 0:
        layout = _serving_scales(a, rows, scale, block)
    out = "bf16"
    bias = False
    for position in range(4, len(call)):
        if not call.has(position):
            continue
        tensor = call.tensor(position)
        if tensor.numel == rows * columns and tensor.dims[-1] == columns and len(tensor.dims) > 1:
            out = tensor.dtype
        elif tensor.dims == (columns,):
            bias = True
    described |= {"dtype_out": out, "scale_block": layout}
    if bias:
        described["variant"] = "bias"
    return described


def _serving_scales(a: Tensor, rows: int, scale: Tensor, block: str) -> str:
    """Return the layout of the scales of A; those of narrow blocks may be padded to whole tiles."""
    if block == "1x32":
        require(scale.numel >= rows * -(-a.dims[-1] * a.packed // 32))
        return block
    whole = Tensor((rows, a.dims[-1]), a.dtype, (), a.packed)
    if scale.dtype in ("fp8", "uint8"):  # exponents alone, as MX writes them
        return _scale_block(whole, replace(scale, dtype="fp8"))
    return _scale_block(whole, scale)


def _unpacked(tensor: Tensor, packed: int) -> Tensor:
    """Return a tensor of bytes as one of the narrow elements in them."""
    if packed == 1 or tensor.dtype != "uint8":
        return tensor
    return Tensor(tensor.dims, "fp4", tensor.strides, packed)


def block_product(call: Call) -> Described:
    """FP8 with a scale per 1 x 128 of A and per 128 x 128 of the weight."""
    return narrow_product(call, "1x128")


def fp4_product(call: Call) -> Described:
    """FP4 with a scale per 32 elements (MXFP4), two elements a byte."""
    return narrow_product(call, "1x32", packed=2)


def skinny_product(call: Call) -> Described:
    """``_rocm_C::wvSplitK(weight, x, ...)`` of vLLM: few rows of x, the weight as n x k."""
    weight = call.tensor(0)
    x = call.tensor(1)
    bias = call.has(2) and call.tensor(2).dims == (weight.dims[0],)
    return _product(x, _transposed(weight), "bias" if bias else "")


def skinny_fp8(call: Call) -> Described:
    """``_rocm_C::wvSplitKQ(weight, x, [bias,] out, scale_a, scale_b, ...)``: a scale per tensor."""
    described = skinny_product(call)
    rows = prod(call.tensor(1).dims[:-1])
    written = [
        call.tensor(position).dtype
        for position in (2, 3)
        if call.has(position) and call.tensor(position).dims == (rows, described["n"])
    ]
    return described | {"dtype_out": (written or ["bf16"])[0], "scale_block": "tensor"}


_READERS: tuple[CallReader, ...] = (
    mm,
    int_mm,
    addmm,
    linear,
    scaled_mm,
    grouped_mm,
    cutlass_scaled_mm,
    skinny_product,
    skinny_fp8,
    narrow_product,
    block_product,
    fp4_product,
)
ATEN: dict[str, CallReader] = readers_of("gemm", {read.__name__: read for read in _READERS})
_WRITTEN = {"int8": "int32", "fp8": "bf16"}  # formats of results that are wider than the operands


def _gemm(make: Operands, row: Row) -> Run:
    """Return ``linear`` (weights n x k, or variant ``bias``), ``mm`` where ``layout`` says otherwise.

    fp8 has one scale per tensor (``_scaled_mm``); int8 writes int32 (``_int_mm``).
    """
    m, n, k = sizes(row, "m", "n", "k")
    if sizes(row, "batch", default=1) != [1]:
        raise DataError(
            "a gemm of several products is a batched_gemm: change op, or set batch to 1"
        )
    dtype = word(row, "dtype_a")
    variant = word(row, "variant")
    only_format(row, _WRITTEN.get(dtype, dtype))
    a_letter, b_letter = _letters(row)
    if dtype in ("fp8", "int8"):
        return _narrow(make, row, dtype, (m, n, k))
    if a_letter == "N":
        a = make.tensor(dtype, m, k)
    else:
        a = make.tensor(dtype, k, m).t()
    if b_letter == "N":
        b = make.tensor(dtype, k, n)
    else:
        b = make.tensor(dtype, n, k).t()
    torch = make.torch
    if variant not in ("", "bias"):
        raise unknown(row, "variant", "bias")
    bias = None
    if variant:
        bias = make.tensor(dtype, n)
    if (a_letter, b_letter) == ("N", "T"):
        linear = torch.nn.functional.linear
        weight = b.t()
        return lambda: linear(a, weight, bias)
    if bias is None:
        return lambda: torch.mm(a, b)
    return lambda: torch.addmm(bias, a, b)


def _narrow(make: Operands, row: Row, dtype: str, shape: tuple[int, int, int]) -> Run:
    """Return a product of 8-bit operands, B in columns as the libraries want it."""
    torch = make.torch
    (m, n, k) = shape
    if word(row, "variant"):
        raise unknown(row, "variant", "none for 8-bit operands")
    if _letters(row) != ("N", "T"):
        raise unknown(row, "layout", "NT for 8-bit operands")
    a = make.tensor(dtype, m, k)
    b = make.tensor(dtype, n, k).t()
    if dtype == "int8":
        return lambda: torch._int_mm(a, b)
    if word(row, "scale_block") not in ("", "tensor"):
        raise unknown(row, "scale_block", "tensor")
    one = torch.ones((), device=make.backend.word)
    return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _letters(row: Row) -> tuple[str, str]:
    """Return how A and B lie in memory, weights as n x k where nothing is said."""
    layout = word(row, "layout") or "NT"
    if layout not in ("NN", "NT", "TN", "TT"):
        raise unknown(row, "layout", "NN, NT, TN, TT")
    return layout[0], layout[1]


def _batched_gemm(make: Operands, row: Row) -> Run:
    batch, m, n, k = sizes(row, "batch", "m", "n", "k")
    dtype = only_format(row)
    a_letter, b_letter = _letters({**row, "layout": word(row, "layout") or "NN"})
    if a_letter == "N":
        a = make.tensor(dtype, batch, m, k)
    else:
        a = make.tensor(dtype, batch, k, m).mT
    if b_letter == "N":
        b = make.tensor(dtype, batch, k, n)
    else:
        b = make.tensor(dtype, batch, n, k).mT
    bmm = make.torch.bmm
    return lambda: bmm(a, b)


_SPREAD = 0.3  # AITER's tuned products lie at 0.8 to 2 of the law with 0.15 to 0.4 about that
BATCH = Dim("batch", "products, groups, images or sequences side by side", 8)
SCALE_BLOCK = Dim(
    "scale_block",
    "scales of narrow formats, one per `tensor`, `token`, or block: `1x128`, `1x32`, `1x16`",
    default="",
    kind="word",
)
_SIDES = (
    Dim("m", "rows of the first matrix and of the result", 128),
    Dim("n", "columns of the second matrix and of the result", 4096),
    Dim("k", "the dimension summed over", 7168),
)
OPERATORS = (
    Op(
        "gemm",
        "matrix",
        (*_SIDES, replace(BATCH, default=1.0), SCALE_BLOCK),
        ("n", "k"),
        "gemm {n}x{k}",
        flops,
        bytes_moved,
        view,
        spread=_SPREAD,
        aliases=("linear", "mm", "addmm", "matmul", "_addmm_activation", "_scaled_mm", "_int_mm"),
        measured=Measured(
            _gemm, formats=lambda dtype: {"dtype_out": "int32"} if dtype == "int8" else {}
        ),
    ),
    Op(
        "batched_gemm",
        "matrix",
        (*_SIDES, BATCH, SCALE_BLOCK),
        ("n", "k"),
        "batched_gemm {n}x{k}",
        flops,
        bytes_moved,
        view,
        spread=_SPREAD,
        kernels="gemm",
        aliases=("bmm", "baddbmm"),
        measured=Measured(_batched_gemm),
    ),
    Op(
        "grouped_gemm",
        "matrix",
        (*_SIDES, BATCH, SCALE_BLOCK),
        ("n", "k"),
        "grouped_gemm {n}x{k}",
        grouped_flops,
        grouped_bytes,
        grouped_view,
        spread=_SPREAD,
        kernels="gemm",
        aliases=("_grouped_mm",),
    ),
)
