"""Calls of serving engines' own operators: quantised products and fused experts, work held against sums by hand."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from flopcast.operators.operators import work_of
from flopcast.traces.activity_work import describe_call

from .test_operators import BF, FLOAT, inputs

FP8, FP4, E8M0, BYTE, INT = (
    "c10::Float8_e4m3fnuz",
    "c10::Float4_e2m1fn_x2",
    "c10::Float8_e8m0fnu",
    "unsigned char",
    "int",
)
ACTIVATIONS, WEIGHT = ([64, 1024], FP8), ([4096, 1024], FP8)
FLOPS = 2 * 64 * 4096 * 1024


def described(name: str, *arguments: Any) -> dict[str, Any]:
    """Return what a call is, with its FLOPs."""
    row = describe_call(name, inputs(*arguments))
    assert row, name
    flops = work_of(pd.DataFrame([row])).flops
    return row | {"flops": float(flops[0])}


@pytest.mark.parametrize(
    ("name", "arguments", "block", "out"),
    [
        ("aiter::gemm_a8w8_CK", (([64, 1], FLOAT), ([4096, 1], FLOAT), None, "15"), "token", "bf16"),
        ("aiter::gemm_a8w8_blockscale_", (([64, 8], FLOAT), ([32, 8], FLOAT), ([64, 4096], "c10::Half")), "1x128", "fp16"),
        ("vllm::rocm_aiter_gemm_w8a8_blockscale", (([64, 8], FLOAT), ([32, 8], FLOAT)), "1x128", "bf16"),
        ("vllm::w8a8_triton_block_scaled_mm_func", (([64, 8], FLOAT), ([32, 8], FLOAT), "[128, 128]"), "1x128", "bf16"),
        ("sgl_kernel::fp8_scaled_mm", (([64, 1], FLOAT), ([4096, 1], FLOAT), "15"), "token", "bf16"),
        ("aiter::gemm_a8w8_bpreshuffle", (([1], FLOAT), ([1], FLOAT)), "tensor", "bf16"),
    ],
)  # fmt: skip
def test_an_8_bit_product_has_its_weight_as_n_by_k(
    name: str, arguments: tuple[Any, ...], block: str, out: str
) -> None:
    row = described(name, ACTIVATIONS, WEIGHT, *arguments)
    assert (row["op"], row["m"], row["n"], row["k"]) == ("gemm", 64, 4096, 1024)
    assert (row["flops"], row["scale_block"], row["dtype_out"]) == (FLOPS, block, out)
    assert (row["dtype_a"], row["dtype_b"], row["layout"]) == ("fp8", "fp8", "NT")


def test_a_weight_in_columns_is_the_same_product() -> None:
    weight = ([1024, 4096], FP8, [1, 1024])
    row = described("sgl_kernel::fp8_scaled_mm", ACTIVATIONS, weight, ([64, 1], FLOAT))
    assert (row["flops"], row["layout"]) == (FLOPS, "NT")


@pytest.mark.parametrize("kind", [FP4, BYTE])
def test_a_4_bit_product_has_two_elements_a_byte(kind: str) -> None:
    scales = E8M0 if kind == FP4 else BYTE
    operands = ([64, 512], kind), ([4096, 512], kind)
    row = described("aiter::gemm_a4w4", *operands, ([256, 32], scales), ([4096, 32], scales))
    assert (row["k"], row["flops"], row["dtype_b"]) == (1024, FLOPS, "fp4")
    assert row["scale_block"] == "1x32"


def test_a_skinny_product_has_its_weight_first() -> None:
    row = described("_rocm_C::wvSplitK", ([4096, 1024], BF), ([4, 1024], BF), "304")
    assert (row["m"], row["n"], row["k"]) == (4, 4096, 1024)
    bias = ([4096], BF)
    row = described("_rocm_C::wvSplitK", ([4096, 1024], BF), ([4, 1024], BF), bias, "304")
    assert row["variant"] == "bias"
    narrow = ([4096, 1024], FP8), ([4, 1024], FP8), ([4, 4096], BF), ([1], FLOAT), ([1], FLOAT)
    row = described("_rocm_C::wvSplitKQ", *narrow, "304")
    assert (row["dtype_a"], row["dtype_out"], row["scale_block"]) == ("fp8", "bf16", "tensor")


EXPERTS = ([512, 1024], BF), ([8, 8192, 1024], FP8), ([8, 1024, 4096], FP8)
ROUTED = ([512, 2], FLOAT), ([512, 2], INT)


@pytest.mark.parametrize(
    "name",
    [
        "vllm::inplace_fused_experts",
        "vllm::outplace_fused_experts",
        "sglang::outplace_fused_experts",
        "vllm::rocm_aiter_fused_moe",
        "aiter::fused_moe_",
    ],
)
def test_fused_experts_have_their_projections(name: str) -> None:
    row = described(name, *EXPERTS, *ROUTED, ([8, 64, 8], FLOAT))
    assert row["flops"] == 2 * 512 * 2 * 3 * 1024 * 4096
    assert (row["experts"], row["topk"], row["gated"], row["inter_dim"]) == (8, 2, 1, 4096)
    assert (row["scale_block"], row["dtype_a"], row["dtype_b"]) == ("1x128", "fp8", "fp8")


def test_a_map_of_experts_shares_them_out() -> None:
    row = described("vllm::outplace_fused_experts", *EXPERTS, *ROUTED, ([32], INT))
    assert (row["experts"], row["ep"]) == (32, 4)
    assert row["flops"] == 2 * 512 * 2 * 3 * 1024 * 4096 / 4


def test_experts_in_bytes_are_4_bit_and_others_of_no_known_form_have_no_work() -> None:
    packed = ([512, 1024], BF), ([8, 4096, 512], BYTE), ([8, 1024, 2048], BYTE)
    row = described("vllm::inplace_fused_experts", *packed, *ROUTED)
    assert (row["dtype_b"], row["inter_dim"], row["gated"]) == ("fp4", 4096, 0)
    shuffled = ([512, 1024], BF), ([8, 16, 64], BF), ([8, 64, 16], BF)
    assert not describe_call("aiter::fused_moe_", inputs(*shuffled, *ROUTED))
