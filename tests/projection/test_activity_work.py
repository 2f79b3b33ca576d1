from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.operators.operators import OPS
from flopcast.projection.kernel_work import HELPER, NO_WORK, OVERHEADS, class_of, of_activities, of_pairs
from flopcast.tests.projection.oracles.activities import activities, copy, gemm, kernel, relu
from flopcast.traces.classes import op_classes

AMD = OVERHEADS["AMD"]


def test_work_is_that_of_the_table_and_unknown_where_nobody_knows_it() -> None:
    table = activities(gemm(64, 32, 16, us=3), kernel(), relu(8, 4, dtype="fp32"), gemm(64, 32, 16), copy("HtoD", 100))
    rows = of_activities(table, AMD)
    assert rows.known.tolist() == [True, False, True, True, True]
    assert rows.unknown.tolist() == ["", NO_WORK, "", "", ""]
    np.testing.assert_array_equal(rows.work.flops, [2 * 64 * 32 * 16, np.nan, 32, 2 * 64 * 32 * 16, 0])
    np.testing.assert_array_equal(rows.work.bytes[[0, 2, 4]], table["bytes_moved"].iloc[[0, 2, 4]])
    assert rows.work.dtype.tolist() == ["bf16", "", "fp32", "bf16", "fp32"]
    assert rows.work.unit.tolist() == ["matrix", "", "vector", "matrix", "vector"]
    assert rows.work.m[0] == 64
    assert rows.host_us[:3].tolist() == [3, 100, 100]
    assert rows.direction.tolist() == ["", "", "", "", "HtoD"]
    assert rows.op_class.tolist() == ["gemm", "", "elementwise", "gemm", "memcpy"]


def test_a_helper_has_no_work_of_its_own() -> None:
    table = activities(gemm(64, 64, 64, op_id=1), gemm(64, 64, 64, us=1, op_id=1))
    assert of_activities(table, AMD).unknown.tolist() == ["", HELPER]


@pytest.mark.parametrize(
    ("name", "dtype", "computes"),
    [
        ("cutlass_80_tensorop_s1688gemm_128x128_nn", "fp32", "tf32"),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn", "fp32", "tf32"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_32x128_8x5_nn>", "fp32", "fp32"),
        ("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_nn", "bf16", "bf16"),
    ],
)
def test_tf32_is_used_where_the_kernel_says_so(name: str, dtype: str, computes: str) -> None:
    rows = of_activities(activities(gemm(64, 64, 64, dtype=dtype, name=name)), AMD)
    assert rows.work.dtype.tolist() == [computes]


def test_impossible_durations_count_as_a_nanosecond() -> None:
    table = activities(gemm(64, 64, 64, us=0), kernel(us=-5))
    assert of_activities(table, AMD).host_us.tolist() == [0.001, 0.001]


def test_no_activities_have_no_rows() -> None:
    assert len(of_activities(activities(gemm(1, 1, 1)).iloc[:0], AMD)) == 0


def test_measured_rows_count_as_measured_alone() -> None:
    table = pd.DataFrame({"op": ["gemm"], "dtype_a": "fp8", "m": 8, "n": 4, "k": 2, "host_duration_us": 7.0})
    rows = of_pairs(table)
    assert (rows.op_class.tolist(), rows.host_us.tolist(), rows.queued.tolist()) == (["gemm"], [7.0], [False])
    assert rows.work.flops.tolist() == [2 * 8 * 4 * 2]
    with pytest.raises(DataError, match="host_duration_us must be > 0"):
        of_pairs(table.assign(host_duration_us=0.0))


def test_every_operator_has_a_class_of_the_catalogue() -> None:
    names = [name for name in OPS if name != "kernel"]
    found = class_of(pd.DataFrame({"op": names}))
    assert set(found) <= set(op_classes())
    assert dict(zip(names, found, strict=True))["rms_norm_backward"] == "norm"
    assert class_of(pd.DataFrame({"op": ["copy", "add"], "op_class": ["kv_cache", ""]})).tolist() == [
        "kv_cache", "elementwise",
    ]  # fmt: skip
