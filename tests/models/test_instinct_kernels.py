"""What ships of AMD Instinct's kernels: errors on shapes left out, limits, and what is not answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks.instinct_kernels import embedded_rows, learnt
from flopcast.datasets.embedded import INSTINCT_KERNELS
from flopcast.models.instinct_kernels import kernel_times, kinds

PRODUCT = {"op": "gemm", "device": "MI300X", "dtype_a": "bf16", "m": 6144, "n": 4096, "k": 5120}
ATTENTION = {
    "op": "attention", "device": "MI300X", "dtype_a": "bf16", "batch": 2, "heads": 32, "kv_heads": 8,
    "seq_q": 4096, "seq_kv": 4096, "head_dim": 128, "head_dim_v": 128, "causal": 1,
}  # fmt: skip
GROUPED = {**PRODUCT, "op": "grouped_gemm", "batch": 8, "m": 16384, "k": 4096}
LARGEST_PERCENT = {
    ("gemm", "bf16"): 4.0,
    ("gemm", "fp8 tensor"): 4.0,
    ("gemm", "fp8 block"): 4.5,
    ("attention", "bf16"): 6.0,
    ("attention", "fp8"): 6.0,
    ("grouped_gemm", "bf16"): 8.0,
    ("grouped_gemm", "fp8 tensor"): 8.0,
}


def times(*rows: dict[str, Any], level: float = 0.9) -> Any:
    return kernel_times(pd.DataFrame(list(rows)), level)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(("op", "form"), LARGEST_PERCENT)
def test_stated_errors_on_new_shapes_of_mi300x(op: str, form: str, direction: str) -> None:
    errors = kinds()["MI300X", op, direction, form].errors
    assert errors["mean_percent"] <= LARGEST_PERCENT[op, form]
    assert abs(errors["bias_percent"]) < 1.0
    assert 86.0 < errors["inside_percent"] < 96.0
    assert errors["new_group_mean_percent"] > 0.9 * errors["mean_percent"]
    assert 76.0 < errors["new_group_inside_percent"] < 96.0


def test_new_weights_are_never_surer_than_known_ones() -> None:
    for kind in kinds().values():
        assert (kind.new_group_quantiles >= kind.quantiles).all()


def test_the_file_is_small() -> None:
    assert INSTINCT_KERNELS.stat().st_size < 100_000


def test_a_table_makes_the_file_again(shared_data: Path) -> None:
    table = pd.read_csv(shared_data / "amd" / "kernels.csv.gz", low_memory=False)
    rows = embedded_rows(table)
    kept = pd.read_parquet(INSTINCT_KERNELS)
    pd.testing.assert_frame_equal(rows, kept, check_dtype=False, rtol=1e-5)
    some = rows[rows["op"].eq("gemm") & rows["format"].eq("fp8 block")]
    made = learnt(some)["kinds"]["MI300X|gemm|forward|fp8 block"]
    stated = kinds()["MI300X", "gemm", "forward", "fp8 block"]
    assert made["errors"]["mean_percent"] == pytest.approx(stated.errors["mean_percent"], abs=0.3)


@pytest.mark.parametrize("row", [PRODUCT, ATTENTION, GROUPED])
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8"])
@pytest.mark.parametrize("device", ["MI300X", "MI355X"])
def test_both_gpus_all_formats_and_both_directions_are_answered(
    row: dict[str, Any], dtype: str, device: str
) -> None:
    asked = {**row, "dtype_a": dtype, "device": device}
    backward = {**asked, "variant": "backward"}
    found = times({**asked, "variant": ""}, backward)
    assert (found.lower < found.us).all()
    assert (found.us < found.upper).all()
    assert found.us[1] > 1.2 * found.us[0]


def test_half_precision_is_taken_as_bf16() -> None:
    assert times(PRODUCT).us == times({**PRODUCT, "dtype_a": "fp16"}).us


def test_scales_of_blocks_are_another_kind_and_none_is_that_of_the_tensor() -> None:
    narrow = {**PRODUCT, "dtype_a": "fp8"}
    whole, tensor, block, token = (
        times({**narrow, "scale_block": scale}).us[0] for scale in ("", "tensor", "1x128", "token")
    )
    assert whole == tensor != block
    assert np.isnan(token)


def test_more_work_takes_longer_and_surer_answers_are_wider() -> None:
    many = times(PRODUCT, {**PRODUCT, "m": 12288})
    assert 1.5 < many.us[1] / many.us[0] < 2.5
    sure, likely = times(PRODUCT, level=0.95), times(PRODUCT, level=0.6)
    assert sure.upper / sure.lower > likely.upper / likely.lower


def test_what_was_measured_on_one_gpu_alone_is_moved_with_a_wide_interval() -> None:
    own, moved = times(ATTENTION), times({**ATTENTION, "device": "MI355X"})
    assert moved.basis == ["law"]
    assert own.basis != ["law"]
    assert moved.us < own.us
    assert moved.upper / moved.lower > 2 * own.upper / own.lower


def test_far_outside_the_shapes_is_said_and_widens() -> None:
    found = times(PRODUCT, {**PRODUCT, "m": 16, "n": 128, "k": 128})
    assert found.basis[1] == "beyond"
    assert (found.upper / found.lower)[1] > (found.upper / found.lower)[0]


@pytest.mark.parametrize(
    "change",
    [
        {"dtype_a": "fp4"},
        {"device": "H100 SXM5"},
        {"batch": 4},
        {"dtype_b": "int4"},
        {**ATTENTION, "seq_q": 1},
        {**ATTENTION, "window": 512},
    ],
)
def test_what_was_not_measured_has_a_reason_and_no_time(change: dict[str, Any]) -> None:
    found = times({**PRODUCT, **change})
    assert np.isnan(found.us).all()
    assert found.reasons[0]


def test_what_lies_beyond_is_named_and_full_waves_do_not() -> None:
    products = pd.DataFrame(
        {
            "op": "gemm",
            "dtype_a": "bf16",
            "device": "MI300X",
            "m": [64.0, 4096.0, 4096.0, 19 * 256.0],
            "n": [4096.0, 4096.0, 5120.0, 16 * 256.0],
            "k": 4096.0,
        }
    )
    found = kernel_times(products)
    assert "m is 64, measured from 4096 to 32768" in found.reasons[0]
    assert found.basis[1] != "beyond"
    assert "waves begun over those filled is 1.9" in found.reasons[2]  # 320 tiles on 304 units
    assert found.basis[3] != "beyond"  # 304 tiles: one full wave, and no measured product has one
    assert found.reasons[3] == ""
