"""FLOPs and bytes of row-wise and element-wise operators."""

from __future__ import annotations

import pandas as pd
import pytest

from flopcast.operators.operators import op_of


@pytest.mark.parametrize(
    ("op", "flops", "elements"),
    [
        ("softmax", 5 * 1200, 2 * 1200),
        ("layer_norm", 8 * 1200, 2 * 1200 + 2 * 30),
        ("rms_norm", 4 * 1200, 2 * 1200 + 30),
        ("reduction", 1200, 1200 + 40),
        ("add", 1200, 3 * 1200),
        ("addu", 1200, 2 * 1200),
        ("powu", 1200, 2 * 1200),
        ("relu", 1200, 2 * 1200),
        ("gelu", 5 * 1200, 2 * 1200),
        ("copy", 0, 2 * 1200),
        ("fill", 0, 1200),
        ("softmax_backward", 4 * 1200, 3 * 1200),
        ("layer_norm_backward", 11 * 1200, 3 * 1200 + 30 + 2 * 40),
        ("rms_norm_backward", 8 * 1200, 3 * 1200 + 30 + 40),
        ("group_norm", 8 * 1200, 2 * 1200),
        ("group_norm_backward", 11 * 1200, 3 * 1200 + 2 * 40),
        ("batch_norm", 8 * 1200, 2 * 1200 + 4 * 40),
        ("batch_norm_inference", 2 * 1200, 2 * 1200 + 4 * 40),
        ("batch_norm_backward", 11 * 1200, 3 * 1200 + 3 * 40),
        ("add_rms_norm", 5 * 1200, 4 * 1200 + 30),
        ("loss", 3 * 1200, 2 * 1200 + 40),
        ("adam", 14 * 1200, 7 * 1200),
        ("sgd_momentum", 4 * 1200, 5 * 1200),
    ],
)
def test_work_of_40_rows_of_30(op: str, flops: float, elements: float):
    frame = pd.DataFrame({"op": [op, op], "rows": 40, "cols": 30, "dtype_a": ["fp32", "bf16"]})
    assert op_of(op).flops(frame).tolist() == [flops, flops]
    assert op_of(op).bytes(frame).tolist() == [4 * elements, 2 * elements]


def test_the_result_may_have_another_precision():
    frame = pd.DataFrame(
        {"op": ["copy"], "rows": 4, "cols": 8, "dtype_a": "fp32", "dtype_out": "bf16"}
    )
    assert op_of("copy").bytes(frame) == 32 * 4 + 32 * 2


def test_the_view_is_rows_by_cols():
    frame = pd.DataFrame({"op": ["add"], "rows": 4, "cols": 8, "dtype_a": "fp32"})
    assert op_of("add").gemm_view(frame).iloc[0].tolist() == [1, 4, 8, 1]
