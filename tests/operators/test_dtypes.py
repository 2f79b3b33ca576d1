"""Spellings of number formats, in files and in kernel names."""

from __future__ import annotations

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.operators.work import (
    DTYPES,
    canonical_dtype,
    canonical_dtypes,
    dtypes_in_kernel_names,
)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("torch.float8_e4m3fnuz", "fp8"),
        ("torch.float8_e4m3fn", "fp8"),
        ("torch.float8_e5m2", "fp8"),
        ("torch.float4_e2m1fn_x2", "fp4"),
        ("torch.int8", "int8"),
        ("torch.int4", "int4"),
        ("torch.bfloat16", "bf16"),
        ("c10::BFloat16", "bf16"),
        ("c10::Half", "fp16"),
        ("FP16", "fp16"),
        ("BF16", "bf16"),
        (" Float32 ", "fp32"),
        ("double", "fp64"),
        ("xf32", "tf32"),
        ("mxfp4", "fp4"),
        ("float6_e2m3", "fp6"),
    ],
)
def test_every_spelling_has_one_name(spelling: str, name: str) -> None:
    assert canonical_dtype(spelling) == name


@pytest.mark.parametrize("name", DTYPES)
def test_canonical_names_stay(name: str) -> None:
    assert canonical_dtype(name) == name
    assert canonical_dtype(name.upper()) == name


def test_an_unknown_format_names_the_closest() -> None:
    with pytest.raises(DataError, match=r"'bfloat17'.*bf16"):
        canonical_dtype("bfloat17")


def test_a_column_keeps_its_order_and_leaves_the_unknown_empty() -> None:
    column = pd.Series(["FP32", None, "quux", "torch.int8", "FP32"], index=[5, 4, 3, 2, 1])
    names = canonical_dtypes(column)
    assert names.tolist() == ["fp32", "", "", "int8", "fp32"]
    assert names.index.tolist() == column.index.tolist()


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("Cijk_Ailk_Bljk_SB_MT64x32x32_MI16x16x4x1_SN", "fp32"),
        ("Cijk_Alik_Bljk_HHS_BH_MT128x128x32", "fp16"),
        ("Cijk_Alik_Bljk_HB_MT128x128x32", "fp16"),
        ("Cijk_Alik_Bljk_BBS_BH_MT128x128x32", "bf16"),
        ("Cijk_Ailk_Bljk_BSS_BH_MT16x16x32", "bf16"),
        ("Cijk_Ailk_Bljk_DB_MT16x16x32", "fp64"),
        ("Cijk_Ailk_Bljk_I8II_BH_MT16x16x32", "int8"),
        ("Cijk_Ailk_Bljk_F8NBS_BH_MT16x16x32", "fp8"),
        ("void at::native::vectorized_layer_norm_kernel<float, float>(int)", "fp32"),
        ("void at::native::elementwise_kernel<4, at::native::BinaryFunctor<floa", "fp32"),
        ("void at::native::reduce<c10::Half, 512>", "fp16"),
        ("void at::native::reduce<c10::BFloat16, 512>", "bf16"),
        ("void at::native::(anonymous namespa", ""),
        ("elementwise<floating_policy>", ""),
        ("", ""),
    ],
)
def test_kernel_names_state_the_type_of_a(kernel: str, name: str) -> None:
    assert dtypes_in_kernel_names(pd.Series([kernel])).tolist() == [name]
