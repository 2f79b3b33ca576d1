"""Convolutions in all directions (only where PyTorch is installed)."""

from __future__ import annotations

from typing import Any

import pytest

from flopcast.errors import DataError
from flopcast.measuring.backend import Backend, Operands
from flopcast.measuring.convolutions import convolution

ROW = {
    "op": "conv", "dtype_a": "fp32", "direction": "F", "batch": 2, "in_channels": 4, "out_channels": 6,
    "in_h": 9, "in_w": 8, "fil_h": 3, "fil_w": 2, "out_h": 5, "out_w": 7, "stride_h": 2, "pad_h": 1, "groups": 2,
}  # fmt: skip


@pytest.fixture
def make(torch: Any) -> Operands:
    return Operands(Backend(torch, "cpu"), seed=0)


@pytest.mark.parametrize("layout", ["", "NCHW", "NHWC"])
def test_forward(layout: str, make: Operands) -> None:
    result = convolution(make, {**ROW, "layout": layout, "variant": "bias"})()
    assert tuple(result.shape) == (2, 6, 5, 7)
    assert result.is_contiguous(memory_format=make.torch.channels_last) == (layout == "NHWC")


@pytest.mark.parametrize(("direction", "given"), [("B", (True, False)), ("W", (False, True)), ("BW", (True, True))])
def test_gradients(direction: str, given: tuple[bool, bool], make: Operands) -> None:
    data, weights, bias = convolution(make, {**ROW, "direction": direction})()
    assert (data is not None, weights is not None, bias) == (*given, None)
    assert data is None or tuple(data.shape) == (2, 4, 9, 8)
    assert weights is None or tuple(weights.shape) == (6, 2, 3, 2)


def test_depth(make: Operands) -> None:
    deep = {"in_d": 4, "fil_d": 2, "out_d": 3, "layout": "NDHWC"}
    assert tuple(convolution(make, {**ROW, **deep})().shape) == (2, 6, 3, 5, 7)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"out_h": 4}, "out_h must be 5, which follows"),
        ({"groups": 3}, "groups must divide"),
        ({"direction": "X"}, "F, B, W, BW"),
        ({"direction": "B", "variant": "bias"}, "bias, of direction F"),
        ({"layout": "CHWN"}, "NCHW, NHWC"),
        ({"dtype_out": "bf16"}, "known here is fp32"),
        ({"in_h": None}, "conv needs in_h"),
    ],
)
def test_contradictions_are_refused(changed: dict[str, Any], message: str, make: Operands) -> None:
    with pytest.raises(DataError, match=message):
        convolution(make, {**ROW, **changed})
