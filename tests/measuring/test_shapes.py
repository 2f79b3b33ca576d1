"""The sizes that are measured on a CPU."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd
import pytest

from flopcast.measuring.rows import shapes
from flopcast.operators.operators import work_of


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


@pytest.mark.parametrize(
    "shape", [s for s in shapes() if s["op"] == "conv" and s["dtype_a"] == "fp32"][::3], ids=str
)
def test_the_output_of_a_convolution_follows_from_its_input(shape: dict[str, Any]) -> None:
    out = (shape["in_h"] + 2 * shape["pad_h"] - shape["fil_h"]) // shape["stride_h"] + 1
    assert (shape["out_h"], shape["out_w"]) == (out, out)
    assert shape["in_channels"] % shape["groups"] == shape["out_channels"] % shape["groups"] == 0
