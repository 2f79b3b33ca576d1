"""FLOPs and bytes of element-wise operators of any number of operands, and of gathers."""

from __future__ import annotations

import pandas as pd

from flopcast.operators.operators import op_of
from flopcast.table.measurements import clean

ELEMENTWISE, GATHER = op_of("elementwise"), op_of("gather")


def rows(**columns: object) -> pd.DataFrame:
    return pd.DataFrame(
        [{"op": "elementwise", "dtype_a": "bf16", "rows": 40, "cols": 30, "inputs": 2} | columns]
    )


def test_operands_have_the_size_of_the_result_unless_told():
    assert ELEMENTWISE.flops(rows()) == 1200
    assert ELEMENTWISE.bytes(rows()) == 2 * 3 * 1200
    assert ELEMENTWISE.bytes(rows(elements_b=30)) == 2 * (1200 + 30 + 1200)
    assert ELEMENTWISE.bytes(rows(elements_a=40, elements_b=30)) == 2 * (40 + 30 + 1200)


def test_every_operand_beyond_the_first_is_an_operation():
    assert ELEMENTWISE.flops(rows(inputs=1)) == 1200
    assert ELEMENTWISE.flops(rows(inputs=4)) == 3 * 1200
    assert ELEMENTWISE.bytes(rows(inputs=1)) == 2 * 2 * 1200


def test_operands_and_result_may_differ_in_precision():
    assert ELEMENTWISE.bytes(rows(dtype_b="fp32", dtype_out="bool")) == 1200 * (2 + 4 + 1)


def test_a_gather_moves_its_rows_and_reads_its_indices():
    frame = pd.DataFrame(
        {"op": ["gather"], "rows": 40, "cols": 30, "dtype_a": "bf16", "dtype_b": "int64"}
    )
    assert GATHER.flops(frame) == 0
    assert GATHER.bytes(frame) == 40 * (30 * 2 * 2 + 8)
    assert GATHER.gemm_view(frame).iloc[0].tolist() == [1, 40, 30, 1]


def test_absent_sizes_of_operands_stay_absent_and_none_is_a_size():
    raw = rows(device="MI300X", duration_us=1.0, source="t:1")
    assert clean(raw).frame["elements_b"].isna().all()
    assert clean(raw.assign(elements_b=0.0)).rejected.empty
    assert clean(raw.assign(elements_b=-1.0)).rejected["reason"].tolist() == [
        "dimension-not-positive"
    ]
