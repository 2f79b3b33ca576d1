"""The least time of a row on its device, by hand from the published figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.hardware import find
from flopcast.operators.operators import complete
from flopcast.table.physics import BYTES_PER_CLOCK, LOADS, bound_of

MI300X, MI210 = find("MI300X"), find("MI210")
MIB = 2.0**20


def bound(device: str = "MI300X", **row: object) -> tuple[float, str]:
    rows = complete(pd.DataFrame([{"device": device, "dtype_a": "bf16", **row}]))
    found = bound_of(rows)
    return float(found.least_us[0]), str(found.peak[0])


def gemm(
    m: float, n: float, k: float, dtype: str = "bf16", device: str = "MI300X", **row: object
) -> tuple[float, str]:
    return bound(device, op="gemm", m=m, n=n, k=k, dtype_a=dtype, **row)


def conv(size: float, fil: float, stride: float = 1, **row: object) -> tuple[float, str]:
    out = (size - fil) // stride + 1
    sides = {"in_h": size, "in_w": size, "fil_h": fil, "fil_w": fil, "out_h": out, "out_w": out}
    shape = {
        "batch": 64,
        "in_channels": 256,
        "out_channels": 256,
        "direction": "F",
        "stride_h": stride,
        "stride_w": stride,
    }
    return bound("MI210", op="conv", dtype_a="fp32", **{**sides, **shape, **row})


def test_arithmetic_counts_at_the_dense_peak_of_its_format() -> None:
    flops = 2 * 8192.0**3
    assert gemm(8192, 8192, 8192) == (
        pytest.approx(flops / (MI300X.peaks["bf16_matrix"] * 1e6)),
        "bf16_matrix",
    )
    assert gemm(8192, 8192, 8192, "fp8")[1] == "fp8_matrix"
    assert gemm(8192, 8192, 8192, "fp64")[1] == "fp64_matrix"


def test_sparse_products_may_be_twice_as_fast_and_fp32_may_run_as_tf32() -> None:
    dense, _ = gemm(8192, 8192, 8192)
    assert gemm(8192, 8192, 8192, variant="sparse 2:4")[0] == pytest.approx(dense / 2)
    assert gemm(8192, 8192, 8192, kernel="Cijk_12:48_MT")[0] == dense
    assert gemm(8192, 8192, 8192, "fp32")[1] == "tf32_matrix"
    assert gemm(8192, 8192, 8192, "fp32", "MI210")[1] == "fp32_matrix"


def test_bytes_count_against_the_memory_only_beyond_the_caches() -> None:
    rows, cols = 2.0**15, 2.0**14
    moved, caches = 2 * rows * cols * 2, (MI300X.l2_mb + MI300X.llc_mb) * MIB
    assert bound(op="relu", rows=rows, cols=cols) == (
        pytest.approx((moved - caches) / (MI300X.memory_bw_gbs * 1e3)),
        "memory_bw_gbs",
    )
    # 128 MiB: from the last-level cache, beyond the L2
    small, peak = bound(op="relu", rows=2.0**12, cols=2.0**13)
    assert (small, peak) == (
        pytest.approx((128 - MI300X.l2_mb) * MIB / (MI300X.llc_bw_gbs * 1e3)),
        "llc_bw_gbs",
    )


def test_what_fits_into_the_l2_still_enters_the_compute_units() -> None:
    moved = 2 * 1024.0 * 1024 * 2
    expected = moved / (BYTES_PER_CLOCK * MI210.cus * MI210.boost_mhz)
    assert bound("MI210", op="relu", rows=1024, cols=1024) == (pytest.approx(expected), LOADS)


def test_a_winograd_convolution_may_beat_the_direct_sum_and_a_pointwise_one_may_not() -> None:
    direct = 2 * 64 * 256 * 256 * 9 * 54.0**2 / (MI210.peaks["fp32_matrix"] * 1e6)
    assert conv(56, 3)[0] == pytest.approx(direct * ((54 + 2) / (54 * 3)) ** 2)
    pointwise = 2 * 64 * 256 * 256 * 56.0**2 / (MI210.peaks["fp32_matrix"] * 1e6)
    assert conv(56, 1)[0] == pytest.approx(pointwise)


def test_a_strided_convolution_need_not_read_what_its_filter_skips() -> None:
    least, peak = conv(224, 1, 2, in_channels=8, out_channels=1)
    touched = 64 * 112.0**2 * (8 + 1) * 4 + 8 * 4
    assert (least, peak) == (
        pytest.approx((touched - MI210.l2_mb * MIB) / (MI210.memory_bw_gbs * 1e3)),
        "memory_bw_gbs",
    )


def test_experts_may_be_shared_and_a_lone_rank_has_nothing_to_do() -> None:
    shape = {"model_dim": 7168, "inter_dim": 2048, "experts": 256, "topk": 8, "gated": 1.0}
    few = bound(op="moe", tokens=64, dtype_a="fp8", **shape)[0]
    assert few < 0.1 * 256 * 3 * 7168 * 2048 / (MI300X.memory_bw_gbs * 1e3)
    ring = {"op": "collective", "variant": "all_reduce", "message_bytes": 2.0**30}
    assert bound(ranks=1, **ring)[0] == 0


def test_a_collective_takes_the_links_to_its_peers() -> None:
    ring = {"op": "collective", "variant": "all_reduce", "message_bytes": 2.0**30}
    one = MI300X.p2p_uni_gbs
    assert bound(ranks=8, **ring) == (
        pytest.approx(2 * 7 / 8 * 2**30 / (7 * one * 1e3)),
        "link_bw_gbs",
    )
    assert bound(ranks=2, **ring) == (pytest.approx(2**30 / (one * 1e3)), "link_bw_gbs")
    pair = "A100 80GB PCIe"
    assert bound(pair, ranks=2, **ring)[1] == "link_bw_gbs"
    assert bound(pair, ranks=4, **ring)[1] == "memory_bw_gbs"


def test_unknown_devices_and_unknown_work_have_no_bound() -> None:
    assert np.isnan(gemm(64, 64, 64, device="LabChip")[0])
    assert np.isnan(bound(op="kernel", variant="stencil", workgroups=8, threads=64)[0])
    # no peak of fp4: bytes are left
    assert gemm(8192, 8192, 64, "fp4", "MI210")[1] in ("memory_bw_gbs", LOADS)


def test_every_operator_of_a_table_keeps_its_place() -> None:
    rows = [
        {
            "device": device,
            "op": op,
            "dtype_a": "bf16",
            "m": 512.0,
            "n": 512.0,
            "k": 512.0,
            "batch": 2.0,
            "rows": 512.0,
            "cols": 512.0,
        }
        for device in ("MI300X", "LabChip", "MI210")
        for op in ("gemm", "relu", "batched_gemm", "softmax")
    ]
    frame = complete(pd.DataFrame(rows))
    together = bound_of(frame)
    alone = [bound_of(frame.iloc[[place]].reset_index(drop=True)) for place in range(len(frame))]
    np.testing.assert_array_equal(together.least_us, [one.least_us[0] for one in alone])
    assert together.peak.tolist() == [one.peak[0] for one in alone]
