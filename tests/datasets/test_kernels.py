"""The workloads of the embedded measurements, and their calls (the latter only where PyTorch is installed)."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import pandas as pd
import pytest

from flopcast.datasets.kernels import build, import_torch, shapes
from flopcast.errors import FlopcastError
from flopcast.features.ops import work_of

SMALLEST = {shape["op"]: shape for shape in reversed(list(shapes()))}


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed (pip install flopcast[measure])")


def test_there_are_520_different_workloads() -> None:
    workloads = [tuple(sorted(shape.items())) for shape in shapes()]
    assert len(workloads) == len(set(workloads)) == 520
    assert Counter(shape["op"] for shape in shapes()) == {
        "gemm": 128, "batched_gemm": 56, "conv": 60, "attention": 36, "softmax": 40, "layer_norm": 40,
        "reduction": 40, "add": 40, "gelu": 40, "copy": 40,
    }  # fmt: skip
    assert Counter(shape["dtype_a"] for shape in shapes()) == {"fp32": 260, "bf16": 260}


def test_every_workload_has_flops_and_bytes() -> None:
    work = work_of(pd.DataFrame(shapes()))
    assert (work.bytes > 0).all()
    assert (work.flops >= 0).all()


@pytest.mark.parametrize("shape", [s for s in shapes() if s["op"] == "conv" and s["dtype_a"] == "fp32"][::3], ids=str)
def test_the_output_of_a_convolution_follows_from_its_input(shape: dict[str, Any]) -> None:
    out = (shape["in_h"] + 2 * shape["pad_h"] - shape["fil_h"]) // shape["stride_h"] + 1
    assert (shape["out_h"], shape["out_w"]) == (out, out)
    assert shape["in_channels"] % shape["groups"] == shape["out_channels"] % shape["groups"] == 0


def test_without_torch_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(FlopcastError, match=r'pip install "flopcast\[measure\]"'):
        import_torch()


@pytest.mark.parametrize("op", SMALLEST)
def test_a_call_computes_what_its_shape_says(op: str, torch: Any) -> None:
    shape = SMALLEST[op]
    result = build(shape, seed=0)()
    expected = {
        "gemm": ("m", "n"),
        "batched_gemm": ("batch", "m", "n"),
        "conv": ("batch", "out_channels", "out_h", "out_w"),
        "attention": ("batch", "heads", "seq_q", "head_dim"),
        "reduction": ("rows",),
    }.get(op, ("rows", "cols"))
    assert tuple(result.shape) == tuple(shape[name] for name in expected)
    assert result.dtype == torch.float32
    assert torch.isfinite(result).all()


def test_the_seed_fixes_the_operands(torch: Any) -> None:
    first, again, other = (build(SMALLEST["gemm"], seed)() for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
