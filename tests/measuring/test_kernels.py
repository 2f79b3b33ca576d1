"""Calls of PyTorch: each computes what its row says (only where PyTorch is installed)."""

from __future__ import annotations

from typing import Any

import pytest

from flopcast.errors import DataError
from flopcast.measuring.backend import Backend, Operands, build
from flopcast.measuring.rows import Row, suite_rows
from flopcast.operators.operators import OPS

FLAT = {"dtype_a": "fp32", "rows": 3, "cols": 5}
ATTENTION = {
    "op": "attention",
    "dtype_a": "fp32",
    "batch": 2,
    "heads": 4,
    "seq_q": 6,
    "seq_kv": 6,
    "head_dim": 8,
}
GEMM = {"op": "gemm", "dtype_a": "fp32", "m": 2, "n": 3, "k": 4}
SHAPES: list[tuple[Row, tuple[int, ...]]] = [
    (GEMM, (2, 3)),
    *[({**GEMM, "layout": layout}, (2, 3)) for layout in ("NN", "NT", "TN", "TT")],
    ({**GEMM, "variant": "bias"}, (2, 3)),
    ({**GEMM, "variant": "bias", "layout": "NN"}, (2, 3)),
    ({**GEMM, "op": "batched_gemm", "batch": 5}, (5, 2, 3)),
    ({**GEMM, "op": "batched_gemm", "batch": 5, "layout": "TT"}, (5, 2, 3)),
    (ATTENTION, (2, 4, 6, 8)),
    ({**ATTENTION, "kv_heads": 2, "head_dim_v": 8, "causal": True}, (2, 4, 6, 8)),
    ({**ATTENTION, "seq_q": 1}, (2, 4, 1, 8)),
    *[({"op": op, **FLAT}, (3, 5)) for op in ("softmax", "layer_norm", "rms_norm", "gelu", "add", "copy", "fill")],
    *[({"op": op, **FLAT}, (3, 5)) for op in ("addu", "mulu", "divu", "powu", "relu", "tanh", "mul", "div", "pow")],
    *[({"op": op, "variant": "plain", **FLAT}, (3, 5)) for op in ("layer_norm", "rms_norm")],
    *[({"op": op, **FLAT}, (1, 3, 5)) for op in ("batch_norm", "batch_norm_inference")],
    ({"op": "softmax", "variant": "log", **FLAT}, (3, 5)),
    *[({"op": "reduction", "variant": name, **FLAT}, (3,)) for name in ("", "sum", "amax", "argmin", "logsumexp")],
    ({"op": "gather", "variant": "embedding", **FLAT}, (3, 5)),
    *[({"op": "loss", "variant": name, **FLAT}, ()) for name in ("cross_entropy", "mse_loss")],
    ({"op": "elementwise", "variant": "silu", "inputs": 1, **FLAT}, (3, 5)),
    ({"op": "elementwise", "variant": "maximum", "inputs": 2, "elements_b": 15, **FLAT}, (3, 5)),
    ({"op": "add", "variant": "sub", **FLAT}, (3, 5)),
]  # fmt: skip


@pytest.fixture
def make(torch: Any) -> Operands:
    return Operands(Backend(torch, "cpu"), seed=0)


@pytest.mark.parametrize(("row", "shape"), SHAPES, ids=str)
def test_a_call_computes_what_its_row_says(
    row: Row, shape: tuple[int, ...], make: Operands
) -> None:
    result = build(make, row)()
    assert tuple(result.shape) == shape
    assert result.isfinite().all()


def test_every_operator_is_tried_above(make: Operands) -> None:
    assert {str(row["op"]) for row, _ in SHAPES} | {"conv"} == {
        op.name for op in OPS.values() if op.measured
    }


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_operands_lie_in_memory_as_the_layout_says(
    layout: str, make: Operands, monkeypatch: Any
) -> None:
    seen: list[Any] = []
    name = "linear" if layout == "NT" else "mm"
    owner = make.torch.nn.functional if layout == "NT" else make.torch
    monkeypatch.setattr(owner, name, lambda *operands: seen.extend(operands))
    build(make, {**GEMM, "layout": layout})()
    a, b = seen[0], seen[1].t() if layout == "NT" else seen[1]
    assert "".join("N" if x.stride(1) == 1 else "T" for x in (a, b)) == layout


def test_values_agree_with_the_definition(make: Operands) -> None:
    row = {**GEMM, "variant": "bias"}
    first, again = build(make, row)(), build(Operands(make.backend, 0), row)()
    assert make.torch.equal(first, again)
    other = build(Operands(make.backend, 1), row)()
    assert not make.torch.equal(first, other)
    norm = build(make, {"op": "batch_norm", "variant": "plain", **FLAT})()
    assert norm[0].mean(dim=1).abs().max() < 1e-6


@pytest.mark.parametrize(("dtype", "out"), [("int8", "int32"), ("bf16", "bf16"), ("fp64", "fp64")])
def test_number_formats(dtype: str, out: str, make: Operands) -> None:
    row = {"op": "gemm", "dtype_a": dtype, "dtype_out": out, "m": 32, "n": 16, "k": 16}
    assert build(make, row)().dtype == make.dtype(out)


def test_eight_bit_floats_are_multiplied_with_one_scale_and_written_as_bf16(make: Operands) -> None:
    row = {
        "op": "gemm",
        "dtype_a": "fp8",
        "dtype_out": "bf16",
        "scale_block": "tensor",
        "m": 16,
        "n": 16,
        "k": 16,
    }
    assert build(make, row)().dtype == make.torch.bfloat16


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"op": "moe"}, "moe cannot be measured"),
        ({**GEMM, "batch": 4}, "a batched_gemm: change op"),
        ({**GEMM, "layout": "XY"}, r"NN.*NT.*TN.*TT"),
        ({**GEMM, "variant": "addend"}, "known here is bias"),
        ({**GEMM, "dtype_b": "int4"}, r"dtype_b.*int4.*fp32"),
        ({**GEMM, "dtype_a": "fp4"}, r"PyTorch.*fp4"),
        ({**GEMM, "dtype_a": "int8", "variant": "bias"}, "none for 8-bit"),
        ({**GEMM, "dtype_a": "fp8", "layout": "NN"}, "NT for 8-bit"),
        ({**GEMM, "dtype_a": "fp8", "scale_block": "1x128"}, "known here is tensor"),
        ({**ATTENTION, "seq_q": 3, "causal": True}, "seq_q must be seq_kv"),
        ({**ATTENTION, "kv_heads": 3}, "multiple of kv_heads"),
        ({"op": "softmax", "variant": "strided", **FLAT}, "known here is none, log"),
        ({"op": "batch_norm", "dtype_a": "fp32", "rows": 2, "cols": 1}, "cols >= 2"),
        ({"op": "gather", "dtype_b": "fp32", **FLAT}, "int64, int32"),
        ({"op": "copy", "variant": "HtoD", **FLAT}, "needs a GPU"),
        ({"op": "copy", "variant": "sideways", **FLAT}, "DtoD, HtoD, DtoH"),
        ({"op": "elementwise", "variant": "silu", "inputs": 3, **FLAT}, "1 or 2 inputs"),
        (
            {"op": "elementwise", "variant": "silu", "inputs": 1, "elements_a": 5, **FLAT},
            "size of the result only",
        ),
        ({"op": "gemm", "dtype_a": "fp32", "m": 2, "n": 3}, "gemm needs k"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_says_what_can(row: Row, message: str, make: Operands) -> None:
    with pytest.raises(DataError, match=message):
        build(make, row)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_small_suite_for_cpus_can_be_built_and_called(dtype: str, make: Operands) -> None:
    rows = [row for row in suite_rows("small", gpu=False) if row["dtype_a"] == dtype]
    first = {(row["op"], row.get("variant", "")): row for row in reversed(rows)}
    assert len(first) >= 14
    with make.torch.inference_mode():
        for row in first.values():
            assert build(make, row)().isfinite().all()


CONVOLUTION = {
    "op": "conv", "dtype_a": "fp32", "direction": "F", "batch": 2, "in_channels": 4, "out_channels": 6,
    "in_h": 9, "in_w": 8, "fil_h": 3, "fil_w": 2, "out_h": 5, "out_w": 7, "stride_h": 2, "pad_h": 1, "groups": 2,
}  # fmt: skip


@pytest.mark.parametrize("layout", ["", "NCHW", "NHWC"])
def test_a_convolution_forward(layout: str, make: Operands) -> None:
    result = build(make, {**CONVOLUTION, "layout": layout, "variant": "bias"})()
    assert tuple(result.shape) == (2, 6, 5, 7)
    assert result.is_contiguous(memory_format=make.torch.channels_last) == (layout == "NHWC")


@pytest.mark.parametrize(
    ("direction", "given"), [("B", (True, False)), ("W", (False, True)), ("BW", (True, True))]
)
def test_gradients_of_a_convolution(
    direction: str, given: tuple[bool, bool], make: Operands
) -> None:
    data, weights, bias = build(make, {**CONVOLUTION, "direction": direction})()
    assert (data is not None, weights is not None, bias) == (*given, None)
    assert data is None or tuple(data.shape) == (2, 4, 9, 8)
    assert weights is None or tuple(weights.shape) == (6, 2, 3, 2)


def test_a_convolution_with_depth(make: Operands) -> None:
    deep = {"in_d": 4, "fil_d": 2, "out_d": 3, "layout": "NDHWC"}
    assert tuple(build(make, {**CONVOLUTION, **deep})().shape) == (2, 6, 3, 5, 7)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"out_h": 4}, "out_h"),
        ({"groups": 3}, "groups must divide"),
        ({"direction": "X"}, "F, B, W, BW"),
        ({"direction": "B", "variant": "bias"}, "bias, of direction F"),
        ({"layout": "CHWN"}, "NCHW, NHWC"),
        ({"dtype_out": "bf16"}, "known here is fp32"),
        ({"in_h": None}, "conv needs in_h"),
    ],
)
def test_contradictions_of_a_convolution_are_refused(
    changed: dict[str, Any], message: str, make: Operands
) -> None:
    with pytest.raises(DataError, match=message):
        build(make, {**CONVOLUTION, **changed})
