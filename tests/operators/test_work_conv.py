"""FLOPs and bytes of convolutions in three directions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.operators.operators import op_of

CONV = op_of("conv")


def conv(**columns: object) -> pd.DataFrame:
    """Return the first layer of ResNet-50 (He et al., 2016), batch 1, or a variant of it."""
    first = {
        "op": "conv",
        "direction": "F",
        "dtype_a": "fp16",
        "batch": 1,
        "in_channels": 3,
        "in_h": 224,
        "in_w": 224,
    }
    first |= {
        "out_channels": 64,
        "out_h": 112,
        "out_w": 112,
        "fil_h": 7,
        "fil_w": 7,
        "stride_h": 2,
        "stride_w": 2,
    }
    return pd.DataFrame([first | {"pad_h": 3, "pad_w": 3} | columns])


@pytest.mark.parametrize("direction", ["F", "B", "W"])
def test_first_layer_of_resnet_has_118_million_products_in_each_direction(direction: str):
    assert CONV.flops(conv(direction=direction)) == 2 * 118_013_952


@pytest.mark.parametrize("direction", ["F", "B", "W"])
def test_three_tensors_cross_the_memory(direction: str):
    elements = 3 * 224 * 224 + 64 * 112 * 112 + 64 * 3 * 49
    assert CONV.bytes(conv(direction=direction)) == 2 * elements


def test_the_written_tensor_has_the_output_precision():
    x, y, w = 3 * 224 * 224, 64 * 112 * 112, 64 * 3 * 49
    for direction, expected in (("F", x + w + 4 * y), ("B", y + w + 4 * x), ("W", x + y + 4 * w)):
        assert CONV.bytes(conv(direction=direction, dtype_a="int8", dtype_out="fp32")) == expected


def test_groups_divide_the_work_and_the_filter():
    dense = conv(in_channels=64)
    depthwise = conv(in_channels=64, groups=64)
    assert CONV.flops(dense) == 64 * CONV.flops(depthwise)
    assert CONV.bytes(dense) - CONV.bytes(depthwise) == 2 * 63 * 64 * 49


def test_depth_multiplies():
    assert CONV.flops(conv(fil_d=3, out_d=8, in_d=8, pad_d=1)) == 24 * CONV.flops(conv())


@pytest.mark.parametrize("direction", ["F", "W"])
def test_the_view_keeps_the_flops(direction: str):
    for frame in (
        conv(direction=direction),
        conv(direction=direction, in_channels=64, groups=32, batch=8),
    ):
        view = CONV.gemm_view(frame)
        assert 2 * np.prod(view.to_numpy()) == CONV.flops(frame)[0]


def test_the_view_of_each_direction():
    frame = conv(
        batch=2,
        in_channels=32,
        in_h=8,
        in_w=8,
        out_h=8,
        out_w=8,
        fil_h=3,
        fil_w=3,
        stride_h=1,
        stride_w=1,
    )
    views = {d: CONV.gemm_view(frame.assign(direction=d)).iloc[0].tolist() for d in "FBW"}
    assert views == {"F": [1, 128, 64, 288], "B": [1, 128, 32, 576], "W": [1, 64, 288, 128]}


def test_strided_backward_is_a_product_per_class_of_taps():
    view = CONV.gemm_view(conv(direction="B")).iloc[0].tolist()
    assert view == [4, 112 * 112, 3, 64 * 16]  # 2 x 2 classes of at most 4 x 4 of the 7 x 7 taps
    pointwise = conv(direction="B", fil_h=1, fil_w=1, pad_h=0, pad_w=0)
    # 3 of 4 classes are empty
    assert 2 * np.prod(CONV.gemm_view(pointwise).to_numpy()) == CONV.flops(pointwise)[0]


def test_two_passes_are_the_sum_of_both():
    both, b, w = (conv(direction=direction) for direction in ("BW", "B", "W"))
    assert CONV.flops(both) == CONV.flops(b) + CONV.flops(w)
    assert CONV.bytes(both) == CONV.bytes(b) + CONV.bytes(w)
    assert 2 * CONV.gemm_view(both).to_numpy().prod() == CONV.flops(both)[0]
    transposed, f = conv(direction="FW", dtype_out="fp32"), conv(direction="F", dtype_out="fp32")
    assert CONV.bytes(transposed) == CONV.bytes(f) + CONV.bytes(
        conv(direction="W", dtype_out="fp32")
    )


def test_a_filter_smaller_than_its_stride_need_not_touch_all_of_x() -> None:
    one = CONV.complete(conv(out_h=112, out_w=112, fil_h=1, fil_w=1, pad_h=0, pad_w=0))
    moved, least = CONV.bytes(one), CONV.least(one)[1]
    assert moved - least == pytest.approx(2 * (3 * 224 * 224) * (1 - (112 / 224) ** 2))
    # 7 x 7 touches all
    assert CONV.least(CONV.complete(conv()))[1] == CONV.bytes(CONV.complete(conv()))
