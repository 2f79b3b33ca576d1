"""The measurement table: what is refused and why, selection of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.api.tables import template
from flopcast.table.measurements import REFUSED, REFUSED_DETAIL, clean, fill_text, judge

GEMM: dict[str, Any] = {
    "device": "MI300X",
    "op": "gemm",
    "dtype_a": "fp8",
    "m": "16",
    "n": "32",
    "k": "64",
}
CONV: dict[str, Any] = {
    "device": "MI300X", "op": "conv", "dtype_a": "FP16", "direction": "F", "layout": "NCHW", "batch": 2,
    "in_channels": 4, "in_h": 8, "in_w": 8, "out_channels": 4, "out_h": 8, "out_w": 8, "fil_h": 3, "fil_w": 3,
    "pad_h": 0, "pad_w": 0, "stride_h": 1, "stride_w": 1,
}  # fmt: skip


def rows(*changes: dict[str, Any], base: dict[str, Any] = GEMM) -> pd.DataFrame:
    """Return one raw row for each change of a good row."""
    good = {**base, "duration_us": "2.5"}
    return pd.DataFrame(
        [{**good, "source": f"a.csv:{i + 2}", **change} for i, change in enumerate(changes)]
    )


@pytest.mark.parametrize(
    ("change", "reason", "detail"),
    [
        ({"duration_us": "0"}, "zero-duration", "0"),
        ({"duration_us": "0.000"}, "zero-duration", "0.000"),
        ({"duration_us": "-1.5"}, "negative-duration", "-1.5"),
        ({"duration_us": "inf"}, "infinite-duration", "inf"),
        ({"duration_us": "nan"}, "no-duration", "nan"),
        ({"duration_us": ""}, "no-duration", "blank"),
        ({"duration_us": None}, "no-duration", "blank"),
        ({"duration_us": "2,5"}, "no-duration", "2,5"),
        ({"device": ""}, "no-device", "give default device=NAME"),
        ({"device": None}, "no-device", "give default device=NAME"),
        ({"op": "gem"}, "unknown-operator", "gem: did you mean gemm?"),
        ({"dtype_a": "fp99"}, "unknown-number-format", "dtype_a = fp99"),
        ({"dtype_b": "fp99"}, "unknown-number-format", "dtype_b = fp99"),
        ({"dtype_a": ""}, "no-number-format", "give default dtype_a=NAME"),
        ({"m": ""}, "missing-dimension", "m"),
        ({"k": None}, "missing-dimension", "k"),
        ({"n": "x"}, "dimension-not-a-number", "n = x"),
        ({"n": "inf"}, "infinite-dimension", "n = inf"),
        ({"m": "0"}, "dimension-not-positive", "m = 0"),
        ({"m": "-4"}, "dimension-not-positive", "m = -4"),
        ({"m": "16.5"}, "dimension-not-whole", "m = 16.5"),
        ({"batch": "q"}, "dimension-not-a-number", "batch = q"),
        ({"_defect": "bad line", "_defect_detail": "?"}, "bad line", "?"),
    ],
)
def test_a_row_that_cannot_be_used_is_kept_out_with_its_reason(
    change: dict[str, Any], reason: str, detail: str
) -> None:
    measured = clean(rows({}, change, {}))
    assert measured.frame["source"].tolist() == ["a.csv:2", "a.csv:4"]
    assert measured.rejected.to_dict("records") == [
        {"source": "a.csv:3", "reason": reason, "detail": detail}
    ]
    assert measured.rejected["reason"].tolist() == [reason]


def test_the_first_reason_counts_once() -> None:
    measured = clean(
        rows({"device": "", "duration_us": "0", "m": "x"}, {"duration_us": "0", "m": "x"})
    )
    assert measured.rejected["reason"].tolist() == ["no-device", "zero-duration"]
    assert measured.frame.empty


def test_clean_rows_are_typed_and_complete() -> None:
    frame = clean(rows({"repeats": None, "spread_us": "0.5"})).frame
    row = frame.iloc[0]
    assert (row["m"], row["n"], row["k"], row["batch"], row["duration_us"]) == (
        16.0,
        32.0,
        64.0,
        1.0,
        2.5,
    )
    assert (row["dtype_a"], row["dtype_b"], row["dtype_out"]) == ("fp8", "fp8", "bf16")
    assert (row["family"], row["variant"], row["kernel"], row["scale_block"], row["campaign"]) == (
        "",
    ) * 5
    assert (row["repeats"], row["spread_us"], bool(row["tuned"])) == (1.0, 0.5, False)


def test_a_convolution_may_leave_out_depth_groups_and_dilation_and_have_no_padding() -> None:
    row = clean(rows({}, base=CONV)).frame.iloc[0]
    implied = {
        "in_d": 1,
        "out_d": 1,
        "fil_d": 1,
        "pad_d": 0,
        "stride_d": 1,
        "dil_d": 1,
        "groups": 1,
        "dil_h": 1,
    }
    assert {name: row[name] for name in implied} == implied
    refused = clean(rows({"pad_h": -1}, {"stride_h": 0}, {"direction": ""}, base=CONV)).rejected
    assert refused["detail"].tolist() == ["pad_h = -1", "stride_h = 0", "direction"]


@pytest.mark.parametrize(
    ("word", "value"),
    [("True", 1.0), (True, 1.0), ("1", 1.0), (1, 1.0), ("false", 0.0), (0.0, 0.0)],
)
def test_flags_become_one_or_zero(word: object, value: float) -> None:
    moe = {
        "op": "moe",
        "tokens": 1,
        "model_dim": 2,
        "inter_dim": 3,
        "experts": 4,
        "topk": 1,
        "gated": word,
    }
    assert clean(rows(moe)).frame["gated"].tolist() == [value]


def test_a_flag_that_is_neither_is_refused() -> None:
    moe = {
        "op": "moe",
        "tokens": 1,
        "model_dim": 2,
        "inter_dim": 3,
        "experts": 4,
        "topk": 1,
        "gated": "perhaps",
    }
    assert clean(rows(moe)).rejected["detail"].tolist() == ["gated = perhaps"]


def test_fill_text_leaves_numbers_missing() -> None:
    frame = fill_text(
        pd.DataFrame({"word": ["a", None], "number": [1.0, np.nan], "nothing": [None, None]})
    )
    assert frame["word"].tolist() == ["a", ""]
    assert frame["nothing"].tolist() == ["", ""]
    assert frame["number"].isna().tolist() == [False, True]


def test_judged_rows_stay_in_their_place() -> None:
    raw = rows({}, {"m": "x", "n": "7"}, {"op": "gem"}, {"k": "5", "device": "MI355X"})
    judged = judge(raw)
    assert judged["source"].tolist() == raw["source"].tolist()
    assert judged[REFUSED].tolist() == ["", "dimension-not-a-number", "unknown-operator", ""]
    assert judged[REFUSED_DETAIL].tolist() == ["", "m = x", "gem: did you mean gemm?", ""]
    assert judged.loc[1, ["m", "n", "dtype_a"]].fillna(-1).tolist() == [-1, 7, "fp8"]
    usable = (
        judged[judged[REFUSED] == ""].drop(columns=[REFUSED, REFUSED_DETAIL]).reset_index(drop=True)
    )
    pd.testing.assert_frame_equal(usable, clean(raw).frame)


def test_columns_of_every_operator_at_once_leave_no_fragmented_table() -> None:
    raw = template().assign(source="x:1")
    assert len(raw.columns) > 100  # from which pandas below 3 warns, and warnings are errors here
    assert judge(raw)[REFUSED].ne("").sum() == clean(raw).rejected.shape[0] == 1


def test_workloads_need_neither_device_nor_duration_where_they_are_not_required() -> None:
    raw = rows({"device": "", "duration_us": "0"}, {"duration_us": "-"}, {"m": "0"})
    assert judge(raw)[REFUSED].tolist() == ["no-device", "no-duration", "dimension-not-positive"]
    assert judge(raw, required=())[REFUSED].tolist() == ["", "", "dimension-not-positive"]
    shapes = raw.drop(columns=["device", "duration_us"])
    judged = judge(shapes, required=())
    assert judged[REFUSED].tolist() == ["", "", "dimension-not-positive"]
    assert judged["duration_us"].isna().all()
