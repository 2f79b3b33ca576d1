"""From framework calls to operators with dimensions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.operators.call import broadcast, promote
from flopcast.operators.operators import ATEN, OPS, complete, work_of
from flopcast.traces.activity_work import describe, describe_call

BF, HALF, FLOAT, LONG = "c10::BFloat16", "c10::Half", "float", "long int"


def inputs(*arguments: Any) -> str:
    """Write arguments as the profiler does: (dims, type[, strides]) for tensors, text for values, None for no argument.

    A list of (dims, type) pairs is a list of tensors, whose types the profiler does not write.
    """
    dims, types, strides, values = [], [], [], []
    for argument in arguments:
        if isinstance(argument, tuple):
            size, kind = argument[:2]
            packed = [int(np.prod(size[axis + 1 :])) for axis in range(len(size))]
            (
                dims.append(size),
                types.append(kind),
                strides.append(argument[2] if len(argument) > 2 else packed),
            )
            values.append("")
        elif isinstance(argument, list):
            dims.append(argument), types.append("TensorList"), strides.append([]), values.append("")
        else:
            kind = (
                "" if argument is None else "ScalarList" if argument.startswith("[") else "Scalar"
            )
            dims.append([]), types.append(kind), strides.append([]), values.append(argument or "")
    return json.dumps({"dims": dims, "types": types, "strides": strides, "values": values})


def row(name: str, *arguments: Any) -> dict[str, Any]:
    return describe_call(name, inputs(*arguments))


def work(name: str, *arguments: Any) -> tuple[float, float]:
    found = work_of(pd.DataFrame([row(name, *arguments)]))
    return float(found.flops[0]), float(found.bytes[0])


def has(found: dict[str, Any], **expected: Any) -> bool:
    assert {name: found.get(name) for name in expected} == expected
    return True


def test_a_table_of_calls_keeps_its_index_and_blanks_what_is_unknown():
    calls = pd.DataFrame(
        {
            "op_name": ["aten::mm", "my::op", "aten::mm", "aten::relu", "aten::mm", ""],
            "op_inputs": [inputs(([4, 8], BF), ([8, 2], BF))] * 3
            + [inputs(([5, 3], FLOAT)), "", ""],
        },
        index=[9, 8, 7, 6, 5, 4],
    )
    found = describe(calls)
    assert found.index.tolist() == [9, 8, 7, 6, 5, 4]
    assert found["op"].tolist() == ["gemm", "", "gemm", "relu", "", ""]
    assert found.loc[[9, 7], ["m", "n", "k"]].to_numpy().tolist() == [[4, 2, 8]] * 2
    assert found.loc[6, ["rows", "cols"]].tolist() == [5, 3]
    assert np.isnan(found.loc[6, "m"])
    as_categories = describe(calls.astype("category"))
    pd.testing.assert_frame_equal(as_categories, found)
    assert describe(calls.iloc[:0])["op"].tolist() == []


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        '{"dims": 3, "types": []}',
        '{"dims": [[4, 8]], "types": []}',
        '{"dims": [[4, 8], [8, 2]]}',
        '{"dims": [[4, 8], [8, 2]], "types": [1, null]}',
        '{"dims": [[4, 8], [8, 2]], "types": ["c10::complex<float>", "c10::complex<float>"]}',
        *(
            '{"dims": [SIZES], "types": ["float", "float"]}'.replace("SIZES", sizes)
            for sizes in (
                "[4, -8], [-8, 2]",
                '["4", 8], [8, 2]',
                "[4, 1e400], [1e400, 2]",
                "[4, 8], [9, 2]",
                "[0, 8], [8, 2]",
            )
        ),
    ],
)
def test_arguments_that_cannot_be_are_no_operator(text: str):
    assert describe_call("aten::mm", inputs(([4, 8], FLOAT), ([8, 2], FLOAT))) != {}
    assert describe_call("aten::mm", text) == {}


_SIZES = st.lists(st.sampled_from([0, 1, 2, 4, 2**61]), max_size=5)
_TYPES = st.sampled_from([BF, FLOAT, LONG, "bool", "c10::complex<float>"])
_WORDS = st.sampled_from(
    [
        "0",
        "1",
        "-1",
        "15",
        "0.5",
        "True",
        "False",
        "[]",
        "[1]",
        "[0, 2]",
        "[True, True]",
        "None",
        "x",
    ]
)
_JUNK = st.sampled_from([None, "", [], [[]], {}, 0, -1, 1.5, 2**70, "TensorList", [[2], "x"], True])
#: Sizes, type, strides and value of an argument: a tensor, a scalar, none, a list of tensors, nonsense.
_ARGUMENT = (
    st.tuples(_SIZES, _TYPES, _SIZES, st.just(""))
    | st.tuples(st.just([]), st.sampled_from(["Scalar", "ScalarList", ""]), st.just([]), _WORDS)
    | st.tuples(st.lists(_SIZES, max_size=3), st.just("TensorList"), st.just([]), st.just(""))
    | st.tuples(_JUNK, _JUNK, _JUNK, _JUNK)
)


@settings(max_examples=25, deadline=None)
@given(st.lists(_ARGUMENT, max_size=14))
def test_no_arguments_make_it_raise(arguments: list[tuple[Any, Any, Any, Any]]):
    sides = [list(side) for side in zip(*arguments, strict=True)] or [[], [], [], []]
    text = json.dumps(dict(zip(("dims", "types", "strides", "values"), sides, strict=True)))
    found = [row for row in (describe_call(name, text) for name in ATEN) if row and row["dtype_a"]]
    assert not found or (work_of(pd.DataFrame(found)).bytes > 0).all()


def test_every_reader_gives_dimensions_of_the_registry():
    """Tensors of one size everywhere satisfy many readers; none may invent a dimension."""
    tensors = inputs(*[([4, 4], FLOAT)] * 3)
    found = {name: describe_call(name, tensors) for name in ATEN}
    known = {name: row for name, row in found.items() if row}
    assert len(known) > 100
    for name, row in known.items():
        assert set(row) <= {*OPS[row["op"]].identity, "layout"}, name


def test_the_registry_accepts_what_is_described():
    found = [
        row("aten::mm", ([4, 8], BF), ([8, 2], BF)),
        row("aten::add", ([4, 8], BF), ([8], FLOAT), "1"),
    ]
    whole = complete(pd.DataFrame(found))
    assert whole["op"].tolist() == ["gemm", "elementwise"]
    assert whole["batch"].tolist()[0] == 1


class TestMatrixProducts:
    def test_mm_and_its_layout(self):
        found = row("aten::mm", ([4, 8], BF), ([8, 2], BF, [1, 8]))
        assert has(
            found,
            op="gemm",
            m=4,
            n=2,
            k=8,
            variant="",
            layout="NT",
            dtype_a="bf16",
            dtype_out="bf16",
        )
        assert row("aten::mm", ([4, 8], BF, [1, 4]), ([8, 2], BF))["layout"] == "TN"
        assert work("aten::mm", ([4, 8], BF), ([8, 2], BF)) == (
            2 * 4 * 8 * 2,
            2 * (4 * 8 + 8 * 2 + 4 * 2),
        )

    def test_a_bias_is_a_variant_and_beta_zero_is_none(self):
        a, b = ([4, 8], BF), ([8, 2], BF)
        assert row("aten::addmm", ([2], BF), a, b, "1", "1")["variant"] == "bias"
        assert row("aten::addmm", ([4, 2], BF, [0, 1]), a, b, "1", "1")["variant"] == "bias"
        assert row("aten::addmm", ([4, 2], BF), a, b, "1", "1")["variant"] == "addend"
        assert row("aten::addmm", ([4, 2], BF), a, b, "0", "1")["variant"] == ""
        assert has(row("aten::addmv", ([4], BF), a, ([8], BF), "1", "1"), op="gemm", m=4, n=1, k=8)

    def test_overloads_with_a_format_for_the_result(self):
        a, b = ([4, 8], BF), ([8, 2], BF)
        assert row("aten::mm", a, b, "6")["dtype_out"] == "fp32"
        found = row("aten::addmm", ([2], BF), a, b, "6", "0", "1")
        assert has(found, dtype_out="fp32", variant="")
        assert has(
            row("aten::_addmm_activation", ([2], BF), a, b, "1", "1", "False"),
            dtype_out="bf16",
            variant="bias",
        )

    def test_stacks(self):
        found = row("aten::bmm", ([6, 4, 8], HALF), ([6, 8, 2], HALF))
        assert has(found, op="batched_gemm", batch=6, m=4, n=2, k=8, dtype_a="fp16")
        assert has(
            row("aten::bmm", ([6, 4, 8], BF), ([6, 8, 2], BF, [0, 2, 1])), op="gemm", m=24, n=2, k=8
        )
        assert has(row("aten::matmul", ([3, 5, 4, 8], BF), ([8, 2], BF)), op="gemm", m=60, n=2, k=8)
        assert has(
            row("aten::matmul", ([3, 1, 4, 8], BF), ([5, 8, 2], BF)),
            op="batched_gemm",
            batch=15,
            m=4,
        )
        assert has(row("aten::matmul", ([8], BF), ([8], BF)), op="gemm", m=1, n=1, k=8)
        assert has(
            row("aten::baddbmm", ([6, 4, 2], BF), ([6, 4, 8], BF), ([6, 8, 2], BF), "0", "1"),
            variant="",
        )

    def test_a_linear_layer_has_its_weight_transposed(self):
        found = row("aten::linear", ([3, 4, 8], BF), ([2, 8], BF), ([2], BF))
        assert has(found, op="gemm", m=12, n=2, k=8, variant="bias", layout="NT")
        assert has(
            row("aiter::gemm_a16w16", ([4, 8], BF), ([2, 8], BF), None, "15"),
            m=4,
            n=2,
            k=8,
            variant="",
        )

    @pytest.mark.parametrize(
        ("scale", "block"),
        [
            (([], FLOAT), "tensor"),
            (([4, 1], FLOAT), "token"),
            (([4, 2], FLOAT), "1x128"),
            (([4, 8], "c10::Float8_e8m0fnu"), "1x32"),
        ],
    )
    def test_scaled_products_by_the_number_of_scales(self, scale: tuple[Any, ...], block: str):
        a, b = ([4, 256], "c10::Float8_e4m3fnuz"), ([256, 16], "c10::Float8_e4m3fnuz", [1, 256])
        found = row("aten::_scaled_mm", a, b, scale, ([], FLOAT), None, None, "15", "False")
        assert has(
            found, op="gemm", m=4, n=16, k=256, scale_block=block, dtype_a="fp8", dtype_out="bf16"
        )
        old = row("aten::_scaled_mm", a, b, None, "15", scale, ([], FLOAT), None, "False")
        assert has(old, scale_block=block, dtype_out="bf16", variant="")

    def test_packed_fp4_counts_elements(self):
        a, b = ([128, 64], "c10::Float4_e2m1fn_x2"), ([64, 16], "c10::Float4_e2m1fn_x2", [1, 64])
        found = row(
            "aten::_scaled_mm",
            a,
            b,
            ([1024], "c10::Float8_e4m3fn"),
            ([512], "c10::Float8_e4m3fn"),
            None,
            None,
            "15",
        )
        assert has(found, k=128, dtype_a="fp4", scale_block="1x16")

    def test_other_products(self):
        assert has(
            row("aten::_int_mm", ([4, 8], "signed char"), ([8, 2], "signed char")),
            dtype_out="int32",
        )
        found = row("aten::_grouped_mm", ([40, 8], BF), ([5, 8, 2], BF), ([5], "int"))
        assert has(found, op="grouped_gemm", m=40, n=2, k=8, batch=5)
        a, b = ([4, 256], "c10::Float8_e4m3fn"), ([256, 16], "c10::Float8_e4m3fn")
        found = row(
            "_C::cutlass_scaled_mm", ([4, 16], BF), a, b, ([4, 1], FLOAT), ([16, 1], FLOAT), None
        )
        assert has(found, m=4, n=16, k=256, scale_block="token", dtype_out="bf16", variant="")


class TestConvolutions:
    X, W = ([2, 6, 9, 9], BF), ([8, 3, 3, 3], BF)

    def test_forward(self):
        found = row(
            "aten::convolution",
            self.X,
            self.W,
            None,
            "[2, 2]",
            "[1, 1]",
            "[1, 1]",
            "False",
            "[0, 0]",
            "2",
        )
        assert has(
            found,
            op="conv",
            direction="F",
            batch=2,
            in_channels=6,
            out_channels=8,
            groups=2,
            layout="NCHW",
        )
        assert has(found, in_h=9, out_h=5, out_w=5, fil_h=3, stride_w=2, pad_h=1, dil_h=1)
        flops, moved = work(
            "aten::convolution",
            self.X,
            self.W,
            None,
            "[2, 2]",
            "[1, 1]",
            "[1, 1]",
            "False",
            "[0, 0]",
            "2",
        )
        assert flops == 2 * (2 * 8 * 5 * 5) * (3 * 3 * 3)
        assert moved == 2 * (2 * 6 * 81 + 8 * 3 * 9 + 2 * 8 * 25)

    def test_libraries_order_their_arguments_otherwise(self):
        torch = row(
            "aten::convolution",
            self.X,
            self.W,
            None,
            "[2, 2]",
            "[1, 1]",
            "[1, 1]",
            "False",
            "[0, 0]",
            "2",
        )
        assert (
            row(
                "aten::miopen_convolution",
                self.X,
                self.W,
                None,
                "[1, 1]",
                "[2, 2]",
                "[1, 1]",
                "2",
                "False",
            )
            == torch
        )
        assert (
            row(
                "aten::cudnn_convolution",
                self.X,
                self.W,
                "[1, 1]",
                "[2, 2]",
                "[1, 1]",
                "2",
                "False",
            )
            == torch
        )
        assert row("aten::conv2d", self.X, self.W, None, "[2, 2]", "[1, 1]", "[1, 1]", "2") == torch
        biased = row("aten::conv2d", self.X, self.W, ([8], BF), "[2, 2]", "[1, 1]", "[1, 1]", "2")
        assert biased == torch | {"variant": "bias"}

    def test_one_and_three_dimensions_and_channels_last(self):
        line = row(
            "aten::conv1d", ([2, 4, 10], BF), ([5, 4, 3], BF), None, "[1]", "[0]", "[2]", "1"
        )
        assert has(line, in_h=1, out_h=1, fil_h=1, in_w=10, out_w=6, fil_w=3, dil_w=2)
        assert complete(pd.DataFrame([line]))["in_d"].tolist() == [1]
        cube = row(
            "aten::conv3d", ([1, 1, 4, 5, 6], BF), ([2, 1, 1, 1, 1], BF), None, "1", "0", "1", "1"
        )
        assert has(cube, in_d=4, in_h=5, in_w=6, out_d=4, layout="NCDHW")
        nhwc = ([2, 6, 9, 9], BF, [486, 1, 54, 6])
        assert (
            row("aten::conv2d", nhwc, self.W, None, "[1, 1]", "[0, 0]", "[1, 1]", "2")["layout"]
            == "NHWC"
        )
        x, w, ones = ([1, 4, 8, 8], BF), ([4, 1, 3, 3], BF), ["[1, 1]"] * 3
        depthwise = row("aten::_conv_depthwise2d", x, w, "[3, 3]", None, *ones)
        assert has(depthwise, groups=4, out_h=8)

    def test_a_transposed_convolution_is_the_backward_pass_by_data(self):
        x, w = ([2, 8, 5, 5], BF), ([8, 3, 3, 3], BF)
        turned = row(
            "aten::convolution", x, w, None, "[2, 2]", "[1, 1]", "[1, 1]", "True", "[0, 0]", "2"
        )
        assert has(turned, direction="B", in_channels=6, in_h=9, out_channels=8, out_h=5, groups=2)
        assert turned == row(
            "aten::conv_transpose2d", x, w, None, "[2, 2]", "[1, 1]", "[0, 0]", "2", "[1, 1]"
        )
        flops, _ = work(
            "aten::convolution", x, w, None, "[2, 2]", "[1, 1]", "[1, 1]", "True", "[0, 0]", "2"
        )
        assert flops == 2 * (2 * 8 * 5 * 5) * (3 * 3 * 3)

    @pytest.mark.parametrize(
        ("mask", "direction", "passes"),
        [
            ("[True, True, False]", "BW", 2),
            ("[False, True, True]", "W", 1),
            ("[True, False, False]", "B", 1),
        ],
    )
    def test_backward_counts_the_gradients_asked_for(self, mask: str, direction: str, passes: int):
        arguments = (
            ([2, 8, 5, 5], BF),
            self.X,
            self.W,
            "[0]",
            "[2, 2]",
            "[1, 1]",
            "[1, 1]",
            "False",
            "[0, 0]",
            "2",
            mask,
        )
        found = row("aten::convolution_backward", *arguments)
        assert has(found, direction=direction, in_channels=6, out_channels=8, groups=2)
        flops, moved = work("aten::convolution_backward", *arguments)
        assert flops == passes * 2 * (2 * 8 * 5 * 5) * (3 * 3 * 3)
        assert moved == passes * 2 * (2 * 6 * 81 + 8 * 3 * 9 + 2 * 8 * 25)

    def test_the_library_of_a_backend_leaves_the_bias_out(self):
        arguments = (([2, 8, 5, 5], BF), self.X, self.W)
        rest = ("[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2", "[True, True, False]")
        plain = row("aten::convolution_backward", *arguments, "[0]", *rest)
        assert row("aten::convolution_backward_overrideable", *arguments, *rest) == plain != {}

    def test_no_stride_no_operator(self):
        told = json.loads(
            inputs(self.X, self.W, None, "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2")
        )
        del told["values"]
        assert describe_call("aten::convolution", json.dumps(told)) == {}
        assert row("aten::conv2d", self.X, self.W, None, "[1, 1]", "same", "[1, 1]", "2") == {}


class TestAttention:
    Q, KV = ([2, 16, 100, 64], BF), ([2, 4, 300, 64], BF)
    FLASH = (None, None, "1024", "1024", "0.", "True", "False", "0.125", None, None, None, None)

    def test_heads_first(self):
        found = row(
            "aten::_scaled_dot_product_flash_attention",
            self.Q,
            self.KV,
            self.KV,
            "0.",
            "True",
            "False",
            "0.1",
        )
        assert has(
            found,
            op="attention",
            batch=2,
            heads=16,
            kv_heads=4,
            seq_q=100,
            seq_kv=300,
            head_dim=64,
            causal=1.0,
        )
        plain = row(
            "aten::scaled_dot_product_attention",
            self.Q,
            self.KV,
            self.KV,
            None,
            "0.",
            "False",
            None,
            "True",
        )
        assert plain == found | {"causal": 0.0}

    def test_sequence_first_and_values_of_another_size(self):
        q, k, v = ([2, 100, 16, 64], BF), ([2, 300, 4, 64], BF), ([2, 300, 4, 32], BF)
        found = row("aten::_flash_attention_forward", q, k, v, *self.FLASH)
        assert has(
            found,
            heads=16,
            kv_heads=4,
            seq_q=100,
            seq_kv=300,
            head_dim=64,
            head_dim_v=32,
            causal=1.0,
        )
        assert (
            row(
                "flash_attn::_flash_attn_forward",
                q,
                k,
                v,
                "0.",
                "0.1",
                "True",
                "-1",
                "-1",
                "0.",
                None,
                "False",
            )
            == found
        )

    def test_the_backward_pass_is_two_and_a_half_times_the_forward(self):
        arguments = (
            self.Q,
            self.Q,
            self.KV,
            self.KV,
            self.Q,
            ([2, 16, 100], FLOAT),
            None,
            None,
            "100",
            "300",
            "0.",
        )
        found = row(
            "aten::_scaled_dot_product_flash_attention_backward",
            *arguments,
            "False",
            None,
            None,
            "0.1",
        )
        assert has(found, op="attention_backward", heads=16, kv_heads=4, seq_kv=300)
        back, _ = work(
            "aten::_scaled_dot_product_flash_attention_backward",
            *arguments,
            "False",
            None,
            None,
            "0.1",
        )
        assert back == 2.5 * 4 * 2 * 16 * 100 * 300 * 64

    def test_packed_sequences_only_where_all_are_of_the_greatest_length(self):
        def packed(total: int, longest: int) -> dict[str, Any]:
            q, offsets = ([total, 16, 64], BF), ([6], "int")
            return row(
                "aten::_flash_attention_forward",
                q,
                q,
                q,
                offsets,
                offsets,
                str(longest),
                str(longest),
                *self.FLASH[4:],
            )

        assert has(packed(500, 100), batch=5, seq_q=100, seq_kv=100, heads=16)
        assert packed(499, 100) == {}

    def test_packed_sequences_of_aiter_in_both_orders_of_arguments(self):
        q, k, v, offsets = (
            ([500, 16, 192], BF),
            ([500, 16, 192], BF),
            ([500, 16, 128], BF),
            ([6], "int"),
        )
        before = (q, k, v, offsets, offsets, "100", "100")
        new = ("0", "0.", "0.1", "0.", "False", "True", "-1", "-1", "True", "False")
        old = ("0.", "0.1", "False", "True", "-1", "-1", "True", "False")
        expected = {"batch": 5, "seq_q": 100, "seq_kv": 100, "heads": 16, "kv_heads": 16}
        expected |= {"head_dim": 192, "head_dim_v": 128, "causal": 1.0}
        assert has(row("aiter::mha_varlen_fwd", *before, *new), **expected)
        assert has(row("aiter::mha_varlen_fwd", *before, *old), **expected)
        assert has(row("aiter::fmha_v3_varlen_fwd", *before, *new, "1"), **expected)
        pages = ([9999, 16, 16, 192], BF)
        assert row("aiter::mha_varlen_fwd", q, pages, pages, *before[3:], *new) == {}

    def test_pages_hide_the_number_of_keys(self):
        def paged(longest_kv: str) -> dict[str, Any]:
            q, pages, offsets = ([500, 16, 64], BF), ([9999, 4, 64], BF), ([6], "int")
            scalars = ("100", longest_kv, "0.", "0.1", "0.", "False", "True", "-1", "-1")
            return row(
                "aiter::mha_batch_prefill",
                q,
                pages,
                pages,
                offsets,
                offsets,
                ([512], "int"),
                *scalars,
            )

        assert has(paged("100"), batch=5, seq_q=100, seq_kv=100, kv_heads=4, causal=1.0)
        assert paged("200") == {}

    def test_lengths_in_memory_overrule_sizes(self):
        q, lengths = ([2, 100, 16, 64], BF), ([2], "int")
        assert row("aten::_flash_attention_forward", q, q, q, *self.FLASH, None, None) != {}
        assert row("aten::_flash_attention_forward", q, q, q, *self.FLASH, lengths, None) == {}
        masked = (None, None, None, None, None, "0.", "1", "False", None)
        found = row("aten::_efficient_attention_forward", q, q, q, *masked, None, None)
        assert has(found, op="attention", causal=1.0, seq_q=100)
        assert row("aten::_efficient_attention_forward", q, q, q, *masked, lengths, None) == {}
        assert row("aten::_efficient_attention_forward", q, q, q, *masked, None, "16") == {}

    def test_a_window_narrower_than_the_keys_is_not_described(self):
        q = ([2, 100, 16, 64], BF)

        def windowed(left: str) -> dict[str, Any]:
            return row(
                "flash_attn::_flash_attn_forward",
                q,
                q,
                q,
                "0.",
                "0.1",
                "True",
                left,
                "0",
                "0.",
                None,
                "False",
            )

        assert windowed("16") == {}
        assert windowed("0") == {}
        assert windowed("100") == windowed("-1") != {}


class TestRows:
    X = ([4, 8, 32], BF)

    def test_norms(self):
        weight = ([32], BF)
        found = row("aten::native_layer_norm", self.X, "[32]", weight, weight, "1e-5")
        assert has(found, op="layer_norm", rows=32, cols=32, variant="", dtype_a="bf16")
        assert has(
            row("aten::native_layer_norm", self.X, "[8, 32]", None, None, "1e-5"),
            rows=4,
            cols=256,
            variant="plain",
        )
        assert has(
            row("aten::_fused_rms_norm", self.X, "[32]", weight, None),
            op="rms_norm",
            rows=32,
            cols=32,
        )
        assert has(
            row("aiter::rmsnorm", self.X, self.X, weight, "1e-6"), op="rms_norm", rows=32, cols=32
        )
        assert has(
            row("aiter::add_rmsnorm", *[self.X] * 4, weight, "1e-6"), op="add_rms_norm", rows=32
        )
        back = row(
            "aten::native_layer_norm_backward",
            self.X,
            self.X,
            "[32]",
            self.X,
            self.X,
            weight,
            weight,
            "[True]",
        )
        assert has(back, op="layer_norm_backward", rows=32, cols=32, variant="")

    def test_norms_over_channels(self):
        x, channel = ([2, 6, 5, 5], BF), ([6], BF)
        assert has(
            row("aten::native_group_norm", x, channel, channel, "2", "6", "25", "3", "1e-5"),
            rows=6,
            cols=50,
        )
        assert has(
            row("aten::group_norm", x, "3", channel, channel, "1e-5", "True"),
            op="group_norm",
            rows=6,
            cols=50,
        )
        batch = (x, channel, channel, channel, channel)
        assert has(
            row("aten::native_batch_norm", *batch, "True", "0.1", "1e-5"),
            op="batch_norm",
            rows=6,
            cols=50,
        )
        assert (
            row("aten::cudnn_batch_norm", *batch, "False", "0.1", "1e-5")["op"]
            == "batch_norm_inference"
        )
        assert row("aten::miopen_batch_norm_backward", x, x, channel)["op"] == "batch_norm_backward"

    def test_softmax(self):
        assert has(
            row("aten::_softmax", self.X, "-1", "False"), op="softmax", rows=32, cols=32, variant=""
        )
        assert has(
            row("aten::_log_softmax", self.X, "1", "False"), rows=128, cols=8, variant="log strided"
        )
        assert row("aten::_softmax", self.X, "2", "True")["dtype_out"] == "fp32"
        assert has(
            row("aten::_softmax_backward_data", self.X, self.X, "-1", "15"),
            op="softmax_backward",
            cols=32,
        )

    @pytest.mark.parametrize(
        ("axes", "rows", "cols", "variant"),
        [
            ("[-1]", 32, 32, "sum"),
            ("[0, 2]", 8, 128, "sum strided"),
            ("[]", 1, 1024, "sum"),
            ("[1, 2]", 4, 256, "sum"),
        ],
    )
    def test_reductions(self, axes: str, rows: int, cols: int, variant: str):
        assert has(
            row("aten::sum", self.X, axes, "False", None),
            op="reduction",
            rows=rows,
            cols=cols,
            variant=variant,
        )

    def test_reductions_by_their_arguments(self):
        assert has(row("aten::mean", self.X, "[-1]", "True", "6"), dtype_out="fp32", variant="mean")
        assert has(row("aten::sum", self.X, "6"), dtype_out="fp32", rows=1, cols=1024)
        assert has(row("aten::count_nonzero", self.X, "1"), rows=128, cols=8)
        assert has(row("aten::std", self.X, "True"), rows=1)
        assert has(row("aten::argmax", self.X, "-1", "False"), dtype_out="int64", rows=32)
        assert has(row("aten::max", self.X), op="reduction", rows=1, cols=1024)
        assert has(row("aten::max", self.X, self.X), op="elementwise", variant="max", inputs=2)
        assert has(row("aten::linalg_vector_norm", self.X, "2", "[-1]", "True", None), cols=32)
        # reads 8 elements, not 32
        assert row("aten::sum", ([4, 8], BF, [0, 1]), "[0]", "False", None) == {}
        assert row("aten::sum", self.X, "[5]", "False", None) == {}

    def test_losses(self):
        assert has(
            row("aten::mse_loss", self.X, self.X, "1"),
            op="loss",
            rows=1,
            cols=1024,
            variant="mse_loss",
        )
        assert row("aten::mse_loss", self.X, self.X, "0") == {}


class TestElements:
    X, MB = ([4, 8], BF), 2

    def test_plain_operators_keep_their_names(self):
        assert has(row("aten::add_", self.X, self.X, "1"), op="add", rows=4, cols=8, variant="")
        assert has(row("aten::mul", self.X, "2.0"), op="mulu", rows=4, cols=8)
        assert has(row("aten::mul", self.X, ([], "double")), op="mulu", dtype_out="bf16")
        assert has(row("aten::sub", self.X, self.X, "1"), op="add", variant="sub")
        assert row("aten::gelu", self.X, "none")["op"] == "gelu"

    def test_a_broadcast_operand_is_read_once(self):
        found = row("aten::add", self.X, ([8], BF), "1")
        assert has(found, op="elementwise", variant="add", inputs=2, elements_a=None, elements_b=8)
        assert work("aten::add", self.X, ([8], BF), "1") == (32, 2 * (32 + 8 + 32))
        assert work("aten::add", self.X, ([4, 8], BF, [0, 1]), "1") == (32, 2 * (32 + 8 + 32))
        assert work("aten::add", ([4, 1], BF), ([1, 8], BF), "1") == (32, 2 * (4 + 8 + 32))

    def test_formats_of_operands_and_result(self):
        assert has(
            row("aten::mul", self.X, ([4, 8], FLOAT)),
            dtype_a="bf16",
            dtype_b="fp32",
            dtype_out="fp32",
        )
        assert work("aten::mul", self.X, ([4, 8], FLOAT)) == (32, 32 * (2 + 4 + 4))
        assert work("aten::add_", self.X, ([4, 8], FLOAT), "1") == (32, 32 * (2 + 4 + 2))
        assert has(
            row("aten::eq", ([4, 8], LONG), "1"),
            op="elementwise",
            variant="eq",
            inputs=1,
            dtype_out="bool",
        )
        assert work("aten::where", ([4, 8], "bool"), self.X, self.X) == (64, 32 * (1 + 2 + 2 + 2))
        assert has(row("aten::div", ([4, 8], LONG), "2"), dtype_out="fp32")
        # the second is where to write
        assert has(row("aten::abs", self.X, ([0], BF)), inputs=1, rows=4, cols=8)

    def test_copies(self):
        assert has(
            row("aten::copy_", ([4, 8], FLOAT), self.X, "False"),
            op="copy",
            dtype_a="bf16",
            dtype_out="fp32",
        )
        assert work("aten::copy_", self.X, ([8], BF), "False") == (32, 2 * (8 + 32))
        assert has(row("aten::_to_copy", self.X, "6", None), op="copy", dtype_out="fp32")
        assert has(row("aten::clone", self.X, None), op="copy", rows=4, cols=8)
        joined = row("aten::cat", [[4, 8], [4, 2], [0]], "1")
        assert has(joined, op="copy", variant="cat", rows=4, cols=10, dtype_a="")
        key = ([16, 4, 8], BF)
        written = row(
            "_C_cache_ops::reshape_and_cache_flash", key, key, ([99, 4, 8], "c10::Float8_e4m3fn")
        )
        assert has(written, op="copy", rows=16, cols=64, dtype_a="bf16", dtype_out="fp8")

    def test_fills_only_write(self):
        assert work("aten::fill_", self.X, "1") == (0, 64)
        assert has(row("aten::normal_", self.X, "0.", "1.", None), op="fill", variant="normal")

    def test_gathers(self):
        table = ([1000, 64], BF)
        assert has(
            row("aten::embedding", table, ([4, 8], LONG), "-1"),
            op="gather",
            rows=32,
            cols=64,
            dtype_b="int64",
        )
        assert work("aten::index_select", table, "0", ([5], LONG)) == (0, 5 * (64 * 4 + 8))
        assert has(row("aten::index_select", table, "1", ([5], LONG)), rows=5, cols=1000)
        assert has(
            row("aten::gather", table, "0", ([5, 64], LONG, [1, 0]), "False"), rows=5, cols=64
        )
        assert has(
            row("aten::scatter_add_", table, "0", ([5, 64], LONG), ([5, 64], BF)), rows=320, cols=1
        )
        assert has(
            row("aten::index_add_", table, "0", ([5], LONG), ([5, 64], BF), "1"), rows=5, cols=64
        )

    def test_libraries(self):
        gate = row("sgl_kernel::silu_and_mul", ([4, 8], BF), ([4, 16], BF))
        assert has(gate, op="elementwise", variant="silu_and_mul", inputs=2, rows=4, cols=8)
        assert work("sgl_kernel::silu_and_mul", ([4, 8], BF), ([4, 16], BF)) == (32, 2 * (64 + 32))
        arguments = (([4], LONG), ([4, 64], BF), ([4, 16], BF), "8", ([99, 8], BF), "True")
        assert work("_C::rotary_embedding", *arguments) == (320, 2 * (320 + 32 + 320))
        assert has(
            row("aten::upsample_nearest2d", ([1, 3, 4, 4], BF), "[8, 8]", "2.", "2."),
            rows=24,
            cols=8,
            elements_a=48,
        )

    def test_lists_may_state_their_formats(self):
        told = {
            "dims": [[[4, 8], [2, 8]], []],
            "types": [[BF, BF], "Scalar"],
            "strides": [],
            "values": ["", "0"],
        }
        found = describe_call("aten::cat", json.dumps(told))
        assert has(found, op="copy", variant="cat", rows=6, cols=8, dtype_a="bf16")

    def test_lists_of_tensors(self):
        sizes = [[4, 8], [3]]
        assert has(
            row("aten::_foreach_add_", sizes, sizes, "1"),
            op="elementwise",
            rows=1,
            cols=35,
            inputs=2,
            dtype_a="",
        )
        assert has(row("aten::_foreach_zero_", sizes), op="fill", cols=35)
        assert has(
            row("aten::_foreach_copy_", sizes, sizes, "False"), inputs=1, variant="foreach_copy"
        )
        adam = row("aten::_fused_adamw_", sizes, sizes, sizes, sizes, [], [[], []], "0.001")
        assert has(adam, op="adam", variant="fused_adamw", rows=1, cols=35)
        # AMSGrad
        assert row("aten::_fused_adam_", sizes, sizes, sizes, sizes, sizes, [[], []], "0.001") == {}
        assert row("aten::_fused_sgd_", sizes, sizes, sizes, "0.1")["op"] == "sgd_momentum"


def test_promotion_and_broadcasting():
    assert promote("fp16", "bf16") == "fp32"
    assert promote("int64", "fp16") == "fp16"
    assert promote("bool", "uint8", "int32") == "int32"
    assert broadcast((3, 1), (1, 4), ()) == (3, 4)
