"""The kernels and shapes of the embedded measurements: a table of dimensions, and how to build each kernel in PyTorch.

The shapes are those of small models (hidden sizes, head sizes, image sizes), spread so that every operator has
launch-bound, memory-bound and compute-bound members on a two-core CPU.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import FlopcastError

Shape = dict[str, Any]

DTYPES = ("fp32", "bf16")


def shapes() -> Iterator[Shape]:
    """Yield every workload of the suite: operator, dtype and the operator's dimensions."""
    for dtype in DTYPES:
        for make in (_gemm, _batched_gemm, _conv, _attention, _row_wise, _element_wise):
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


def _attention() -> Iterator[Shape]:
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


def import_torch() -> Any:
    """Return PyTorch, which only measuring needs.

    Raises
    ------
    FlopcastError
        If it is not installed.
    """
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise FlopcastError('measuring needs PyTorch: pip install "flopcast[measure]"') from error


def build(shape: Shape, seed: int) -> Callable[[], Any]:
    """Return the PyTorch call of one workload, its operands drawn with ``seed``.

    Raises
    ------
    FlopcastError
        If torch is not installed.
    """
    torch = import_torch()
    nn = torch.nn.functional
    generator = torch.Generator().manual_seed(seed)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[shape["dtype_a"]]

    def tensor(*size: int) -> Any:
        return torch.randn(*size, generator=generator).to(dtype)

    op = shape["op"]
    if op == "gemm":
        a, w = tensor(shape["m"], shape["k"]), tensor(shape["n"], shape["k"])
        return lambda: nn.linear(a, w)
    if op == "batched_gemm":
        a, b = tensor(shape["batch"], shape["m"], shape["k"]), tensor(shape["batch"], shape["k"], shape["n"])
        return lambda: torch.bmm(a, b)
    if op == "conv":
        x = tensor(shape["batch"], shape["in_channels"], shape["in_h"], shape["in_w"])
        w = tensor(shape["out_channels"], shape["in_channels"] // shape["groups"], shape["fil_h"], shape["fil_w"])
        stride, pad, groups = shape["stride_h"], shape["pad_h"], shape["groups"]
        return lambda: nn.conv2d(x, w, stride=stride, padding=pad, groups=groups)
    if op == "attention":
        q = tensor(shape["batch"], shape["heads"], shape["seq_q"], shape["head_dim"])
        k, v = (tensor(shape["batch"], shape["kv_heads"], shape["seq_kv"], shape["head_dim"]) for _ in range(2))
        return lambda: nn.scaled_dot_product_attention(q, k, v)
    return _vector_call(torch, op, tensor(shape["rows"], shape["cols"]))


def _vector_call(torch: Any, op: str, x: Any) -> Callable[[], Any]:
    nn, cols = torch.nn.functional, x.shape[1]
    other = torch.empty_like(x).copy_(x)
    return {
        "softmax": lambda: torch.softmax(x, dim=1),
        "layer_norm": lambda: nn.layer_norm(x, (cols,)),
        "reduction": lambda: x.sum(dim=1),
        "add": lambda: torch.add(x, other),
        "gelu": lambda: nn.gelu(x),
        "copy": lambda: other.copy_(x),
    }[op]
