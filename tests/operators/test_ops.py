"""The registry of operators: defaults, precisions, identity, groups, and work of mixed tables."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.operators import kinds
from flopcast.operators.operators import (
    ALIASES,
    ATEN,
    COMMON,
    DIMENSIONS,
    OPS,
    canonical_op,
    complete,
    group_labels,
    op_of,
    work_of,
)
from flopcast.operators.work import BITS, DTYPES

MIXED = pd.DataFrame(
    {
        "op": ["softmax", "gemm", "copy", "gemm"],
        "dtype_a": ["bf16", "fp8", "fp32", "bf16"],
        "dtype_b": ["", "", "", "int4"],
        "m": [np.nan, 16, np.nan, 1],
        "n": [np.nan, 4096, np.nan, 7168],
        "k": [np.nan, 7168, np.nan, 2048],
        "rows": [8, np.nan, 2, np.nan],
        "cols": [128, np.nan, 3, np.nan],
    }
)


def test_every_precision_of_the_readers_has_a_size():
    assert set(BITS) == set(DTYPES)


def test_unknown_operator_names_the_closest():
    with pytest.raises(DataError, match="'gem'"):
        op_of("gem")
    with pytest.raises(DataError, match="known are gemm"):
        op_of("zzz")


@pytest.mark.parametrize("name", OPS)
def test_every_operator_has_a_whole_record(name: str):
    op = op_of(name)
    assert op.name == name
    assert set(COMMON) < set(op.identity)
    assert set(op.group) <= set(op.dims)
    assert set(op.defaults) <= set(op.dims)
    assert all("{" + column + "}" in op.label for column in op.group)


def test_absent_dimensions_and_precisions_take_their_stated_defaults():
    whole = op_of("gemm").complete(MIXED.iloc[[1, 3]])
    assert whole["batch"].tolist() == [1, 1]
    assert whole["scale_block"].tolist() == ["", ""]
    assert whole["dtype_b"].tolist() == ["fp8", "int4"]
    assert whole["dtype_out"].tolist() == ["bf16", "bf16"]
    sdpa = pd.DataFrame(
        {"op": "attention", "heads": [8.0, 8.0], "kv_heads": [np.nan, 2.0], "dtype_a": "fp16"}
    )
    whole = op_of("attention").complete(sdpa)
    assert whole["kv_heads"].tolist() == [8, 2]
    assert whole["causal"].tolist() == [0, 0]
    assert op_of("softmax").complete(MIXED.iloc[[0]])["dtype_out"].tolist() == ["bf16"]


def test_flags_may_be_words_or_booleans():
    for yes in (True, "True", "true", 1, 1.0):
        for column in (
            pd.Series([yes, None], dtype=object),
            pd.Series([yes, yes]).where([True, False]),
        ):
            frame = pd.DataFrame({"causal": column, "heads": 1.0, "dtype_a": "fp16"})
            assert op_of("attention").complete(frame)["causal"].tolist() == [1, 0]


def test_a_word_that_is_no_number_is_not_taken_for_missing():
    frame = pd.DataFrame(
        {"causal": ["", "maybe"], "heads": 1.0, "dtype_a": "fp16", "source": ["f:2", "f:3"]}
    )
    with pytest.raises(DataError, match=r"causal.*'maybe'.*f:3"):
        op_of("attention").complete(frame)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("bf16", "int4", "bf16"),
        ("bf16", "fp4", "bf16"),
        ("fp8", "fp4", "fp8"),
        ("fp4", "fp4", "fp4"),
        ("int8", "int4", "int8"),
        ("int4", "int4", "int8"),
        ("fp16", "", "fp16"),
        ("tf32", "tf32", "tf32"),
    ],
)
def test_arithmetic_runs_at_the_wider_operand(a: str, b: str, expected: str):
    assert op_of("gemm").compute_dtype(pd.DataFrame({"dtype_a": [a], "dtype_b": [b]})).tolist() == [
        expected
    ]


def test_vector_operators_compute_in_single_precision_or_double():
    frame = pd.DataFrame({"dtype_a": ["bf16", "fp32", "fp64"]})
    assert op_of("add").compute_dtype(frame).tolist() == ["fp32", "fp32", "fp64"]


def test_complete_keeps_rows_in_order_and_fills_each_by_its_operator():
    whole = complete(MIXED.set_index(pd.Index([7, 7, 1, 0])))
    assert whole["op"].tolist() == MIXED["op"].tolist()
    assert whole.index.tolist() == [0, 1, 2, 3]
    assert whole["batch"].fillna(-1).tolist() == [-1, 1, -1, 1]
    assert whole["dtype_out"].tolist() == ["bf16", "bf16", "fp32", "bf16"]


def test_complete_of_nothing_is_nothing():
    assert len(complete(MIXED.iloc[:0])) == 0
    assert len(work_of(MIXED.iloc[:0])) == 0


def test_work_of_a_mixed_table_is_that_of_each_row():
    work = work_of(MIXED)
    for position in range(len(MIXED)):
        alone = work_of(MIXED.iloc[[position]])
        for side in ("flops", "bytes", "batch", "m", "n", "k", "dtype", "unit"):
            assert getattr(work, side)[position] == getattr(alone, side)[0]
    assert work.unit.tolist() == ["vector", "matrix", "vector", "matrix"]
    assert work.dtype.tolist() == ["fp32", "fp8", "fp32", "bf16"]
    codes, kinds = work.kinds()
    assert [kinds[code] for code in codes] == list(zip(work.dtype, work.unit, strict=True))


def test_default_groups_are_readable():
    assert group_labels(MIXED).tolist() == [
        "softmax 128",
        "gemm 4096x7168",
        "copy 3",
        "gemm 7168x2048",
    ]
    huge = pd.DataFrame({"op": ["add"], "cols": [12345678.0], "rows": [1.0], "dtype_a": "fp32"})
    assert group_labels(huge).tolist() == ["add 12345678"]


def test_convolution_groups_ignore_batch_precision_direction_and_layout():
    conv = {
        "op": "conv",
        "in_channels": 64,
        "in_h": 56,
        "in_w": 56,
        "out_channels": 64,
        "out_h": 56,
        "out_w": 56,
    }
    conv |= {"fil_h": 3, "fil_w": 3, "pad_h": 1, "pad_w": 1}
    frame = pd.DataFrame(
        [
            conv | {"batch": 1, "direction": "F", "dtype_a": "fp16", "layout": "NCHW"},
            conv | {"batch": 256, "direction": "W", "dtype_a": "fp32", "layout": "NHWC"},
            conv
            | {"batch": 1, "direction": "F", "dtype_a": "fp16", "layout": "NCHW", "stride_h": 2},
        ]
    )
    first, twin, strided = group_labels(frame)
    assert first == twin != strided
    assert first.startswith("conv 64x1x56x56 to 64x1x56x56 filter 1x3x3 stride 1x1x1 pad 0x1x1")


def test_missing_dimensions_are_named_five_at_most_with_their_place():
    frame = pd.DataFrame(
        {"op": "conv", "direction": "F", "dtype_a": "fp16", "source": ["a.csv:2", "a.csv:3"]}
    )
    with pytest.raises(DataError, match=r"in_channels.*out_channels.*1.*2.*rows.*a.csv:2"):
        op_of("conv").flops(frame)
    many = frame.assign(groups=np.nan, batch=4)
    with pytest.raises(DataError) as error:
        work_of(many.assign(op="moe"))
    assert "moe rows need" in str(error.value)


def test_a_zero_dimension_is_refused_not_computed():
    with pytest.raises(DataError, match=r"gemm.*m >= 1.*\(f:9\)"):
        work_of(
            pd.DataFrame(
                {
                    "op": "gemm",
                    "m": [1, 0],
                    "n": 8,
                    "k": 8,
                    "dtype_a": "fp16",
                    "source": ["f:8", "f:9"],
                }
            )
        )


def test_unknown_precision_is_refused():
    with pytest.raises(DataError, match="unknown dtype_a 'fp7'"):
        work_of(pd.DataFrame({"op": "gemm", "m": [1], "n": 8, "k": 8, "dtype_a": "fp7"}))


@pytest.mark.parametrize(
    ("word", "op"),
    [
        ("aten::mm", "gemm"),
        ("mm", "gemm"),
        ("addmm", "gemm"),
        (" Linear ", "gemm"),
        ("torch.nn.functional.linear", "gemm"),
        ("torch.ops.aten.bmm.default", "batched_gemm"),
        ("aten::relu_", "relu"),
        ("aten::_scaled_dot_product_flash_attention", "attention"),
        ("SDPA", "attention"),
        ("gemm", "gemm"),
        ("gemm.v2", "gemm.v2"),
        ("aten::sort", "aten::sort"),
    ],
)
def test_names_of_frameworks_are_understood(word, op):
    assert canonical_op(word) == op


def test_other_names_are_of_operators_and_none_of_them_is_one():
    assert set(ALIASES.values()) <= set(OPS)
    assert not set(ALIASES) & set(OPS)
    with pytest.raises(DataError, match="'aten::addm'"):
        op_of("aten::addm")


def test_a_dimension_is_of_one_kind_and_has_an_example_where_it_must_be_there():
    for dim in (dim for op in OPS.values() for dim in op.dimensions):
        assert (DIMENSIONS[dim.name].kind, DIMENSIONS[dim.name].least) == (dim.kind, dim.least)
        assert dim.meaning
        assert dim.default is not None or dim.example is not None


def test_no_two_files_have_an_operator_or_a_call_of_one_name():
    files = [
        import_module(f"{kinds.__name__}.{found.name}") for found in iter_modules(kinds.__path__)
    ]
    assert sum(len(file.OPERATORS) for file in files) == len(OPS)
    assert sum(len(getattr(file, "ATEN", ())) for file in files) == len(ATEN)
    assert sum(len(op.aliases) for op in OPS.values()) == len(ALIASES)
