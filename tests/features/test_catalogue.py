"""The catalogue of features and its page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.features.catalogue import BY_NAME, CATALOGUE, CATEGORIES, Category, page
from flopcast.features.context import Context
from flopcast.hardware import GPU

ROOT = Path(__file__).parents[2]
HOST = GPU(
    name="slow", cus=10, peaks={"bf16_matrix": 100.0, "fp32_vector": 10.0}, memory_bw_gbs=1000.0
)
TARGET = GPU(
    name="fast", cus=20, peaks={"bf16_matrix": 400.0, "fp32_vector": 20.0}, memory_bw_gbs=3000.0
)
COMMON = {"dtype_a": "bf16", "host_duration_us": [50.0, 60.0]}
ONE_OF_EACH = {
    "gemm": {"m": [1000.0, 48.0], "n": 1000.0, "k": 1000.0},
    "batched_gemm": {"m": [100.0, 48.0], "n": 64.0, "k": 64.0, "batch": 12},
    "grouped_gemm": {"m": [100.0, 48.0], "n": 64.0, "k": 64.0, "batch": 12},
    "moe": {"tokens": [1.0, 7.0], "model_dim": 256, "inter_dim": 128, "experts": 8, "topk": 2, "gated": True},
    "conv": {
        "direction": ["F", "B"], "batch": 2, "in_channels": 8, "in_h": 9, "in_w": 9, "out_channels": 4,
        "out_h": 9, "out_w": 9, "fil_h": 3, "fil_w": 3, "pad_h": 1, "pad_w": 1,
    },
    "attention": {"batch": 2, "heads": 4, "seq_q": [1, 64], "seq_kv": 64, "head_dim": 32},
    "softmax": {"rows": [1.0, 100.0], "cols": 33},
    "copy": {"rows": [1.0, 100.0], "cols": 33},
}  # fmt: skip


def context(op: str, **columns: object) -> Context:
    return Context(pd.DataFrame({"op": op} | ONE_OF_EACH[op] | COMMON | columns), HOST, TARGET)


def value(name: str, op: str = "gemm", **columns: object) -> list[float]:
    return BY_NAME[name].compute(context(op, **columns)).tolist()


def test_the_page_is_printed_from_the_catalogue():
    assert (ROOT / "docs" / "features.md").read_text(encoding="utf-8") == page(), (
        "run python -m flopcast.features.catalogue > docs/features.md"
    )


def test_names_are_unique_and_no_name_looks_like_a_category():
    names = [feature.name for feature in CATALOGUE] + [category.name for category in CATEGORIES]
    assert len(names) == len(set(names))
    assert not any("=" in name for name in names)


def test_additive_features_are_times_or_counts_and_say_so():
    for feature in CATALOGUE:
        assert feature.role in ("additive", "shape")
        assert feature.unit in ("us", "ms", "log2", "1", "0/1")
        assert (feature.unit == "us") <= (feature.role == "additive")
        assert feature.name.endswith("_us") == (feature.unit == "us") or feature.name.startswith(
            "log2."
        )


@pytest.mark.parametrize("op", ONE_OF_EACH)
def test_every_feature_is_finite_for_every_operator_and_additive_ones_are_not_negative(op: str):
    rows = context(op)
    applied = [feature for feature in CATALOGUE if feature.applies(rows)]
    assert len(applied) > 50
    for feature in applied:
        values = feature.compute(rows)
        assert values.shape == (2,), feature.name
        assert np.isfinite(values).all(), feature.name
        assert feature.role == "shape" or (values >= 0).all(), feature.name


def test_features_by_hand():
    assert value("compute.target_us") == pytest.approx([2e9 / 400e6, 2e9 * 0.048 / 400e6])
    assert value("memory.host_us")[0] == pytest.approx(6)
    assert value("roofline.host_us")[0] == pytest.approx(20)
    assert value("law.flops_us") == pytest.approx([12.5, 15])
    assert value("law.bandwidth_us") == pytest.approx([50 / 3, 20])
    assert value("law.roofline_us")[0] == pytest.approx(50 * 5 / 20)
    assert value("waves.host") == [7, 1]
    assert value("tiles128.host_us")[0] == pytest.approx(20 * 70 * 128 * 128 / 1e6)
    assert value("he.host")[0] == pytest.approx(0.4)
    assert value("log2.slowdown.host")[0] == pytest.approx(np.log2(2.5))
    assert value("log2.ridge.host")[0] == pytest.approx(np.log2(20 / 6))
    assert value("tail.m.32") == [8 / 32, 16 / 32]
    assert value("twos.m") == [3, 4]
    assert value("twos.m", m=[3 * 2.0**10, 2.0**16]) == [10, 10]
    assert value("log2.intensity", "copy") == [-6, -6]
    # 10 FLOP per byte at the peaks
    assert value("log2.ridge.host", "copy") == pytest.approx([-np.log2(64 * 10)] * 2)


def test_the_tile_of_the_hosts_tensile_kernel_is_read_off_its_name():
    kernels = [
        "Cijk_Ailk_Bljk_SB_MT64x32x16_MI16x16x4x1_SN",
        "Cijk_Ailk_Bljk_SB_MT16x8x32_SE_1LDSB0",
    ]
    names = (
        "log2.macro_tile_0.host",
        "log2.macro_tile_1.host",
        "log2.macro_tile_k.host",
        "matrix_instructions.host",
    )
    assert [value(name, host_kernel=kernels) for name in names] == [[6, 4], [5, 3], [4, 5], [1, 0]]
    others = ["a8w8_blockscale_1x128x128_256x16x64x256", "Cijk_MT0x0x0_MI16x16"]
    assert [value(name, host_kernel=others) for name in names] == [[0, 0]] * 4
    assert [value(name) for name in names] == [[0, 0]] * 4


def test_convolution_flags():
    assert value("winograd", "conv") == [1, 1]
    assert value("winograd", "conv", stride_h=2) == [0, 0]
    assert value("winograd", "conv", groups=4) == [0, 0]
    assert value("pointwise", "conv", fil_h=1, fil_w=[1, 3]) == [1, 0]
    assert value("depthwise", "conv", groups=[8, 4]) == [1, 0]
    assert value("depthwise", "conv", groups=1, in_channels=1) == [0, 0]


def test_operators_own_dimensions_enter_only_tables_of_that_operator():
    mixed = pd.concat([context("conv").frame, context("gemm").frame])
    assert BY_NAME["log2.in_channels"].applies(context("conv"))
    assert not BY_NAME["log2.in_channels"].applies(Context(mixed, HOST, TARGET))
    assert BY_NAME["log2.m"].applies(Context(mixed, HOST, TARGET))


def test_without_a_host_only_the_target_has_features():
    alone = Context(context("gemm").frame.drop(columns="host_duration_us"), None, TARGET)
    names = {feature.name for feature in CATALOGUE if feature.applies(alone)}
    assert "compute.target_us" in names
    assert not any("host" in name or name.startswith("law.") for name in names)


def words_of(category: Category, rows: Context) -> list[str]:
    codes, words = category.compute(rows)
    return words[codes].tolist()


def test_only_the_words_of_an_exchange_tell_it_apart():
    variant = next(category for category in CATEGORIES if category.name == "variant")
    message = {
        "op": "collective",
        "message_bytes": 4096.0,
        "ranks": 8,
        "host_duration_us": 9.0,
        "dtype_a": "bf16",
    }
    rows = pd.DataFrame(
        message
        | {"variant": ["dispatch hidden_size=1024 topk=8", "dispatch hidden_size=2048 topk=4"]}
    )
    assert words_of(variant, Context(rows, HOST, TARGET)) == ["dispatch", "dispatch"]
    named = context("copy", variant=["step n=1", ""])
    assert words_of(variant, named) == ["step n=1", "none"]


def test_precision_category_names_both_operands():
    dtype = next(category for category in CATEGORIES if category.name == "dtype")
    assert words_of(dtype, context("gemm", dtype_b=["", "int4"])) == ["bf16", "bf16xint4"]
