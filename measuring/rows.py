"""Rows to measure: their cells, and the default grids of kernels over the sizes of today's models, for a GPU or a CPU.

A row has the columns of the measurement table before it is measured: operator, number formats, dimensions. Of the grids
``full`` has every row; ``small`` the smallest, the middle and the largest of each operator, variant and number format;
``fingrav`` the kernels whose power was published (Singhania, Aga and Ibrahim, ISPASS 2025): products by a matrix and by
a vector of three sizes, two collectives bound by latency and by bandwidth. The sizes for a CPU are those of small
models, so spread that every operator is bound by launches, by memory and by computing on two cores.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from ..errors import DataError, ParameterError
from ..operators.operands import word
from ..operators.operators import OPS, op_of, work_of
from ..table.measurements import DTYPE_COLUMNS

Shape = dict[str, Any]

DTYPES = ("fp32", "bf16")


def shapes() -> Iterator[Shape]:
    """Yield operators in sizes of small models, in two number formats."""
    for dtype in DTYPES:
        for make in (_gemm, _batched_gemm, _conv, _attention_layers, _row_wise, _element_wise):
            for shape in make():
                yield {"dtype_a": dtype, **shape}


def _gemm() -> Iterator[Shape]:
    weights = [(256, 256), (768, 768), (1024, 4096), (2304, 768), (3072, 768), (512, 2048), (4096, 1024), (1000, 1280)]
    for (n, k), m in itertools.product(weights, (1, 4, 16, 50, 64, 128, 200, 512)):
        yield {"op": "gemm", "m": m, "n": n, "k": k}


def _batched_gemm() -> Iterator[Shape]:
    sides = [
        (64, 64, 64),
        (128, 128, 64),
        (128, 64, 128),
        (197, 197, 64),
        (256, 256, 32),
        (384, 384, 64),
        (512, 64, 512),
    ]
    for (m, n, k), batch in itertools.product(sides, (2, 8, 12, 48)):
        yield {"op": "batched_gemm", "batch": batch, "m": m, "n": n, "k": k}


def _conv() -> Iterator[Shape]:
    layers = [  # in_channels, out_channels, image side, filter side, stride, groups
        (3, 32, 112, 3, 2, 1),
        (3, 64, 64, 7, 2, 1),
        (64, 64, 28, 1, 1, 1),
        (64, 64, 28, 3, 1, 1),
        (64, 128, 28, 3, 2, 1),
        (128, 128, 14, 3, 1, 1),
        (128, 512, 14, 1, 1, 1),
        (256, 256, 14, 3, 1, 1),
        (512, 512, 7, 3, 1, 1),
        (96, 96, 28, 3, 1, 96),
    ]
    for (c_in, c_out, side, filter_side, stride, groups), batch in itertools.product(layers, (1, 4, 8)):
        pad = filter_side // 2
        out = (side + 2 * pad - filter_side) // stride + 1
        yield {
            "op": "conv", "direction": "F", "layout": "NCHW", "batch": batch, "groups": groups,
            "in_channels": c_in, "in_d": 1, "in_h": side, "in_w": side,
            "out_channels": c_out, "out_d": 1, "out_h": out, "out_w": out,
            "fil_d": 1, "fil_h": filter_side, "fil_w": filter_side,
            "pad_d": 0, "pad_h": pad, "pad_w": pad,
            "stride_d": 1, "stride_h": stride, "stride_w": stride,
            "dil_d": 1, "dil_h": 1, "dil_w": 1,
        }  # fmt: skip


def _attention_layers() -> Iterator[Shape]:
    for heads, head_dim in ((4, 64), (12, 64), (16, 128)):
        for batch, seq_q, seq_kv in (
            (1, 64, 64),
            (1, 197, 197),
            (1, 512, 512),
            (4, 128, 128),
            (8, 1, 256),
            (8, 1, 1024),
        ):
            yield {
                "op": "attention", "batch": batch, "heads": heads, "kv_heads": heads, "seq_q": seq_q,
                "seq_kv": seq_kv, "head_dim": head_dim, "causal": False,
            }  # fmt: skip


def _row_wise() -> Iterator[Shape]:
    for op in ("softmax", "layer_norm", "reduction"):
        for cols, rows in itertools.product((128, 768, 1024, 4096), (16, 128, 512, 1000, 3152)):
            yield {"op": op, "rows": rows, "cols": cols}


def _element_wise() -> Iterator[Shape]:
    for op in ("add", "gelu", "copy"):
        for cols, rows in itertools.product((256, 768, 3072, 4096), (16, 128, 512, 1000, 3152)):
            yield {"op": op, "rows": rows, "cols": cols}


Row = dict[str, Any]

WORDS = ("op", "variant", "layout", *DTYPE_COLUMNS)
"""Cells of a row that are words, whatever its operator."""

SUITES = ("small", "full", "fingrav")
_BY_FAMILY = [(op.measured.family or name, name) for name, op in OPS.items() if op.measured]
FAMILIES: dict[str, tuple[str, ...]] = {
    **{family: tuple(name for one, name in _BY_FAMILY if one == family) for family, _ in _BY_FAMILY},
    "collective": ("collective",),
}
"""Names of kernels that can be chosen, and the operators each stands for."""

_WEIGHTS = ((4096, 4096), (6144, 4096), (14336, 4096), (4096, 14336), (8192, 8192), (28672, 8192), (7168, 2048))
_LAYERS = (  # in_channels, out_channels, image side, filter side, stride, groups: ResNet-50, MobileNetV2
    (3, 64, 224, 7, 2, 1), (64, 64, 56, 1, 1, 1), (64, 64, 56, 3, 1, 1), (128, 128, 28, 3, 1, 1),
    (256, 256, 14, 3, 1, 1), (512, 512, 7, 3, 1, 1), (512, 1024, 28, 1, 2, 1), (96, 96, 56, 3, 1, 96),
)  # fmt: skip
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
_GPU_DTYPES, _HALF = ("fp32", "bf16", "fp16"), ("bf16", "fp16")


def parameters(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells that are no part of the problem: what a user's function is told besides."""
    return {name: value for name, value in row.items() if name not in (*WORDS, *op_of(row["op"]).dims)}


def described(row: Mapping[str, Any]) -> str:
    """Return a row in words, e.g. ``gemm bf16 m=16 n=4096 k=7168``."""
    first = [word(row, name) for name in ("op", "variant", "dtype_a", "direction", "layout")]
    skipped = {"op", "variant", "dtype_a", "dtype_b", "dtype_out", "direction", "layout", "kernel"}
    dims = [f"{name}={_shown(value)}" for name, value in row.items() if name not in skipped and word(row, name)]
    return " ".join([part for part in first if part] + dims)


def _shown(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def suite_rows(suite: str, *, gpu: bool, families: Sequence[str] | None = None, ranks: int = 1) -> list[Row]:
    """Return the rows of a default grid, of some kernels (see `FAMILIES`) or all.

    `gpu` says whether the sizes are those for a GPU, `ranks` how many GPUs collectives have; with one there are none.

    Raises
    ------
    DataError
        The suite or a kernel is unknown, or nothing is left.
    """
    if suite not in SUITES:
        raise ParameterError("suite", f"must be one of {', '.join(SUITES)}, got {suite!r}")
    ops = operators(families)
    rows = [row for row in _every_row(suite, gpu, ranks) if row["op"] in ops]
    if not rows:
        hint = "collectives need two GPUs or more" if families == ["collective"] else "choose other kernels"
        raise DataError(f"suite {suite} has none of {', '.join(families or ())} here: {hint}")
    return _spread(rows) if suite == "small" else rows


def _every_row(suite: str, gpu: bool, ranks: int) -> Iterable[Row]:
    if suite == "fingrav":
        return _published_rows(ranks)
    return _gpu_rows(ranks) if gpu else _cpu_rows()


def operators(families: Sequence[str] | None) -> set[str]:
    """Return the operators of some families, or of all; what is neither a family nor an operator is refused."""
    chosen: set[str] = set()
    every = {op for ops in FAMILIES.values() for op in ops}
    for name in FAMILIES if families is None else families:
        if name not in FAMILIES and name not in every:
            raise ParameterError("kernels", f"must be among {', '.join(FAMILIES)}, got {name!r}")
        chosen |= set(FAMILIES.get(name, (name,)))
    return chosen


def _spread(rows: Iterable[Row]) -> list[Row]:
    """Return the smallest, the middle and the largest of each operator, variant and format, by bytes moved."""
    frame = pd.DataFrame(list(rows))
    frame["variant"] = frame["variant"].fillna("") if "variant" in frame else ""
    keys = frame.groupby(["op", "variant", "dtype_a"], sort=False, dropna=False).ngroup()
    moved = pd.Series(work_of(frame).bytes)
    chosen: set[int] = set()
    for _, part in moved.groupby(keys.to_numpy(), sort=False):
        order = part.sort_values(kind="stable").index
        chosen |= {int(order[at]) for at in (0, len(order) // 2, -1)}
    listed = list(rows)
    return [listed[index] for index in sorted(chosen)]


def _cpu_rows() -> Iterator[Row]:
    """Yield `shapes` and the operators they lack, in sizes for a few cores."""
    yield from shapes()
    sides = list(itertools.product((16, 128, 1000), (256, 1024, 4096)))
    for dtype in ("fp32", "bf16"):
        for op, (rows, cols) in itertools.product(("rms_norm", "relu", "mul"), sides):
            yield {"op": op, "dtype_a": dtype, "rows": rows, "cols": cols}
        yield from _channels(dtype, itertools.product((64, 256), (196, 784, 3136)))
        yield from _tokens(dtype, itertools.product((16, 256), (256, 1024)), (1000, 32_000))


def _published_rows(ranks: int) -> Iterator[Row]:
    for side in (8192, 4096, 2048):
        yield {"op": "gemm", "dtype_a": "bf16", "m": side, "n": side, "k": side}
        yield {"op": "gemm", "dtype_a": "bf16", "m": side, "n": 1, "k": side}
    if ranks > 1:
        for variant, message in itertools.product(("all_gather", "all_reduce"), (2**16, 2**17, 2**29, 2**30)):
            yield {"op": "collective", "variant": variant, "dtype_a": "bf16", "message_bytes": message, "ranks": ranks}


def _gpu_rows(ranks: int) -> Iterator[Row]:
    for dtype in _GPU_DTYPES:
        yield from _gemms(dtype)
        yield from _convolutions(dtype)
        sides = list(itertools.product((16, 256, 4096, 16_384), (1024, 4096, 8192, 16_384)))
        row_wise = ("softmax", "layer_norm", "rms_norm", "add", "mul", "relu", "gelu", "copy", "fill")
        for op, (rows, cols) in itertools.product(row_wise, sides):
            yield {"op": op, "dtype_a": dtype, "rows": rows, "cols": cols}
        for rows, cols in sides:
            yield {"op": "reduction", "variant": "sum", "dtype_a": dtype, "rows": rows, "cols": cols}
        yield from _channels(dtype, itertools.product((64, 512, 2048), (784, 12_544, 100_352)))
        yield from _tokens(dtype, itertools.product((16, 512, 8192), (1024, 4096, 8192)), (32_000, 128_256))
    for dtype in _HALF:
        yield from _attentions(dtype)
    for dtype in ("tf32", "fp8"):
        yield from _gemms(dtype, batched=False)
    for variant, exponent in itertools.product(("DtoD", "HtoD", "DtoH"), range(12, 31, 3)):
        yield {"op": "copy", "variant": variant, "dtype_a": "uint8", "rows": 1, "cols": 2**exponent}
    if ranks > 1:
        for variant, exponent in itertools.product(_COLLECTIVES, range(12, 31, 3)):
            sizes = {"message_bytes": 2**exponent // (2 * ranks) * 2 * ranks, "ranks": ranks}
            yield {"op": "collective", "variant": variant, "dtype_a": "bf16", **sizes}


def _gemms(dtype: str, *, batched: bool = True) -> Iterator[Row]:
    formats = {"dtype_out": "bf16", "scale_block": "tensor"} if dtype == "fp8" else {}
    for (n, k), m in itertools.product(_WEIGHTS, (16, 64, 256, 1024, 4096, 8192)):
        yield {"op": "gemm", "dtype_a": dtype, **formats, "m": m, "n": n, "k": k}
    if batched:
        for (m, n, k), batch in itertools.product(((128, 128, 128), (512, 512, 64), (1024, 64, 1024)), (8, 64, 256)):
            yield {"op": "batched_gemm", "dtype_a": dtype, "batch": batch, "m": m, "n": n, "k": k}


def _convolutions(dtype: str) -> Iterator[Row]:
    for (c_in, c_out, side, fil, stride, groups), batch in itertools.product(_LAYERS, (1, 32, 128)):
        pad = fil // 2
        out = (side + 2 * pad - fil) // stride + 1
        yield {
            "op": "conv", "dtype_a": dtype, "direction": "F", "layout": "NCHW", "batch": batch, "groups": groups,
            "in_channels": c_in, "in_d": 1, "in_h": side, "in_w": side,
            "out_channels": c_out, "out_d": 1, "out_h": out, "out_w": out,
            "fil_d": 1, "fil_h": fil, "fil_w": fil, "pad_d": 0, "pad_h": pad, "pad_w": pad,
            "stride_d": 1, "stride_h": stride, "stride_w": stride, "dil_d": 1, "dil_h": 1, "dil_w": 1,
        }  # fmt: skip


def _attentions(dtype: str) -> Iterator[Row]:
    """Yield prefill (causal) and decode (one query), with as many heads for keys as for queries and with an eighth."""
    lengths = [(1, 512), (1, 2048), (1, 8192), (8, 2048)]
    cached = [(1, 2048), (16, 2048), (64, 2048), (16, 16_384)]
    for (heads, kv_heads), (batch, length) in itertools.product(((32, 32), (64, 8)), lengths):
        yield _attention(dtype, batch, heads, kv_heads, length, length, causal=True)
    for (heads, kv_heads), (batch, length) in itertools.product(((32, 32), (64, 8)), cached):
        yield _attention(dtype, batch, heads, kv_heads, 1, length, causal=False)


def _attention(dtype: str, batch: int, heads: int, kv_heads: int, seq_q: int, seq_kv: int, *, causal: bool) -> Row:
    sizes = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "seq_q": seq_q, "seq_kv": seq_kv, "head_dim": 128}
    return {"op": "attention", "dtype_a": dtype, **sizes, "causal": causal}


def _channels(dtype: str, sides: Iterable[tuple[int, int]]) -> Iterator[Row]:
    for channels, cols in sides:
        yield {"op": "batch_norm", "dtype_a": dtype, "rows": channels, "cols": cols}


def _tokens(dtype: str, sides: Iterable[tuple[int, int]], vocabularies: Sequence[int]) -> Iterator[Row]:
    """Yield what a language model does at its ends: embeddings, and the loss over the vocabulary."""
    for tokens, width in (listed := list(sides)):
        yield {
            "op": "gather",
            "variant": "embedding",
            "dtype_a": dtype,
            "dtype_b": "int64",
            "rows": tokens,
            "cols": width,
        }
    for tokens, words in itertools.product(dict.fromkeys(tokens for tokens, _ in listed), vocabularies):
        yield {"op": "loss", "variant": "cross_entropy", "dtype_a": dtype, "rows": tokens, "cols": words}
