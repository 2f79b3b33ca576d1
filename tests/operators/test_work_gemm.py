"""FLOPs and bytes of matrix products, against sums done by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.operators.operators import op_of


def gemm(op: str = "gemm", **columns: object) -> pd.DataFrame:
    return pd.DataFrame([{"op": op, "dtype_a": "bf16", "m": 16, "n": 256, "k": 512} | columns])


def test_flops_are_two_per_term():
    assert op_of("gemm").flops(gemm(m=1024, n=1024, k=1024)) == 2**31
    assert op_of("batched_gemm").flops(gemm("batched_gemm", batch=3)) == 3 * 2 * 16 * 256 * 512


@pytest.mark.parametrize(
    ("a", "b", "out", "expected"),
    [
        ("bf16", "bf16", "bf16", 2 * (16 * 512 + 512 * 256 + 16 * 256)),
        ("fp32", "fp32", "fp32", 4 * (16 * 512 + 512 * 256 + 16 * 256)),
        ("fp8", "fp8", "", 16 * 512 + 512 * 256 + 2 * 16 * 256),
        ("fp4", "fp4", "", (16 * 512 + 512 * 256) / 2 + 2 * 16 * 256),
        ("fp6", "fp6", "fp32", (16 * 512 + 512 * 256) * 0.75 + 4 * 16 * 256),
        ("bf16", "int4", "bf16", 2 * 16 * 512 + 512 * 256 / 2 + 2 * 16 * 256),
    ],
)
def test_each_operand_crosses_the_memory_once(a: str, b: str, out: str, expected: float):
    assert op_of("gemm").bytes(gemm(dtype_a=a, dtype_b=b, dtype_out=out)) == expected


@pytest.mark.parametrize(
    ("block", "a", "b", "expected"),
    [
        # A 16 x 512/128, B 256/128 x 512/128, fp32
        ("1x128", "fp8", "fp8", 4 * 16 * 4 + 4 * 2 * 4),
        ("1x32", "fp4", "fp4", (16 + 256) * 16),  # one byte per 32 of k
        ("1x32", "bf16", "int4", 256 * 16 * 2),  # bf16 scales of the weights alone
        ("1x16", "fp4", "fp4", (16 + 256) * 32 + 8),
        ("token", "int8", "int8", 4 * (16 + 256)),
        ("token", "bf16", "int8", 4 * 256),
        ("tensor", "fp8", "fp8", 8),
        ("1x128", "bf16", "bf16", 0),  # nothing to scale
    ],
)
def test_scales_are_counted(block: str, a: str, b: str, expected: float):
    plain = gemm(dtype_a=a, dtype_b=b)
    assert (
        op_of("gemm").bytes(plain.assign(scale_block=block)) - op_of("gemm").bytes(plain)
        == expected
    )


def test_ragged_blocks_count_whole():
    ragged = gemm(dtype_a="fp8", n=130, k=129)
    extra = op_of("gemm").bytes(ragged.assign(scale_block="1x128")) - op_of("gemm").bytes(ragged)
    assert extra == 4 * 16 * 2 + 4 * 2 * 2


def test_batches_have_operands_of_their_own_and_groups_only_weights():
    single, batched = (
        op_of("gemm").bytes(gemm()),
        op_of("batched_gemm").bytes(gemm("batched_gemm", batch=5)),
    )
    assert batched == 5 * single
    grouped = op_of("grouped_gemm")
    assert grouped.bytes(gemm("grouped_gemm", batch=1)) == single
    assert grouped.bytes(gemm("grouped_gemm", batch=5)) - single == 4 * 2 * 512 * 256
    assert grouped.flops(gemm("grouped_gemm", batch=5)) == op_of("gemm").flops(gemm())


def test_views():
    assert op_of("batched_gemm").gemm_view(gemm("batched_gemm", batch=5)).iloc[0].tolist() == [
        5,
        16,
        256,
        512,
    ]
    assert op_of("grouped_gemm").gemm_view(gemm("grouped_gemm", batch=4)).iloc[0].tolist() == [
        4,
        4,
        256,
        512,
    ]


def test_unknown_scales_are_refused():
    with pytest.raises(DataError, match=r"scale_block.*'3x3'"):
        op_of("gemm").bytes(gemm(dtype_a="fp8", scale_block="3x3"))
