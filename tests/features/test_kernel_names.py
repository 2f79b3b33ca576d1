"""Families of kernels by their names."""

from __future__ import annotations

import pytest

from flopcast.features.catalogue import kernel_family


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("a8w8_blockscale_1x128x128_256x16x64x256_16x16_intrawave_v1", "a8w8_blockscale"),
        ("Cijk_Ailk_Bljk_SB_MT64x32x32_MI16x16x4x1_SN_1LDSB1_APM1", "Cijk_Ailk_Bljk_SB"),
        ("flydsl_gemm5_abf16_wbf16_bf16_t16x64x128_split_k8", "flydsl_gemm5_abf16_wbf16_bf16"),
        ("_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E", "f4gemm_bf16_per1x32Fp4_BpreShuffle"),
        ("ConvBinWinogradRxSf2x3g1", "ConvBinWinogradRxSf2x3g1"),
        ("GemmFwd1x1_0_1", "GemmFwd1x1"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)",
         "at::native::vectorized_elementwise_kernel"),
        ("void at::native::(anonymous namespace)::softmax_warp<float>(float*)", "at::native::softmax_warp"),
        ("_ZN2at6native3fooEv", "foo"),
        ("256x128", "256x128"),
        ("_Zbroken", "_Zbroken"),
        ("", ""),
    ],
)  # fmt: skip
def test_family(name: str, family: str):
    assert kernel_family(name) == family
