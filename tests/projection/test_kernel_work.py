from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.laws.base import OVERHEADS, Overhead, overheads_of
from flopcast.operators.operators import OPS, WHOLE
from flopcast.projection.kernel_laws import (
    HELPER,
    NO_WORK,
    class_of,
    is_queued,
    of_activities,
    of_pairs,
)
from flopcast.tests.projection.oracles.activities import (
    HOST,
    TARGET,
    activities,
    copy,
    gemm,
    kernel,
    relu,
)
from flopcast.traces.classes import op_classes
from flopcast.traces.summary import Annotated

AMD = OVERHEADS["AMD"]


def test_work_is_that_of_the_table_and_unknown_where_nobody_knows_it() -> None:
    table = activities(
        gemm(64, 32, 16, us=3),
        kernel(),
        relu(8, 4, dtype="fp32"),
        gemm(64, 32, 16),
        copy("HtoD", 100),
    )
    rows = of_activities(table, AMD)
    assert rows.has_work.tolist() == [True, False, True, True, True]
    assert rows.unknown.tolist() == [None, NO_WORK, None, None, None]
    np.testing.assert_array_equal(
        rows.work.flops, [2 * 64 * 32 * 16, np.nan, 32, 2 * 64 * 32 * 16, 0]
    )
    np.testing.assert_array_equal(rows.work.bytes[[0, 2, 4]], table["bytes_moved"].iloc[[0, 2, 4]])
    assert rows.work.dtype.tolist() == ["bf16", "", "fp32", "bf16", "fp32"]
    assert rows.work.unit.tolist() == ["matrix", "", "vector", "matrix", "vector"]
    assert rows.work.m[0] == 64
    assert rows.host_us[:3].tolist() == [3, 100, 100]
    assert rows.direction.tolist() == ["", "", "", "", "HtoD"]
    assert rows.op_class.tolist() == ["gemm", "", "elementwise", "gemm", "memcpy"]


def test_a_helper_has_no_work_of_its_own() -> None:
    table = activities(gemm(64, 64, 64, op_id=1), gemm(64, 64, 64, us=1, op_id=1))
    assert of_activities(table, AMD).unknown.tolist() == [None, HELPER]


@pytest.mark.parametrize(
    ("name", "dtype", "computes"),
    [
        ("cutlass_80_tensorop_s1688gemm_128x128_nn", "fp32", "tf32"),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn", "fp32", "tf32"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_32x128_8x5_nn>", "fp32", "fp32"),
        ("cutlass_75_tensorop_bf16_s1688gemm_bf16_64x64_nn", "bf16", "bf16"),
    ],
)
def test_tf32_is_used_where_the_kernel_says_so(name: str, dtype: str, computes: str) -> None:
    rows = of_activities(activities(gemm(64, 64, 64, dtype=dtype, name=name)), AMD)
    assert rows.work.dtype.tolist() == [computes]


def test_impossible_durations_count_as_a_nanosecond() -> None:
    table = activities(gemm(64, 64, 64, us=0), kernel(us=-5))
    assert of_activities(table, AMD).host_us.tolist() == [0.001, 0.001]


def test_no_activities_have_no_rows() -> None:
    assert len(of_activities(activities(gemm(1, 1, 1)).iloc[:0], AMD)) == 0


def test_measured_rows_count_as_measured_alone() -> None:
    table = pd.DataFrame(
        {"op": ["gemm"], "dtype_a": "fp8", "m": 8, "n": 4, "k": 2, "host_duration_us": 7.0}
    )
    rows = of_pairs(table)
    assert (rows.op_class.tolist(), rows.host_us.tolist(), rows.queued.tolist()) == (
        ["gemm"],
        [7.0],
        [False],
    )
    assert rows.work.flops.tolist() == [2 * 8 * 4 * 2]
    with pytest.raises(DataError, match="host_duration_us"):
        of_pairs(table.assign(host_duration_us=0.0))


def test_every_operator_has_a_class_of_the_catalogue() -> None:
    names = [name for name in OPS if name not in ("kernel", "serving", *WHOLE)]
    found = class_of(pd.DataFrame({"op": names}))
    assert set(found) <= set(op_classes())
    assert dict(zip(names, found, strict=True))["rms_norm_backward"] == "norm"
    assert class_of(pd.DataFrame({"op": ["copy", "add"], "op_class": ["kv_cache", ""]})).tolist() == [
        "kv_cache", "elementwise",
    ]  # fmt: skip


AMD, NVIDIA = OVERHEADS["AMD"], OVERHEADS["NVIDIA"]


def test_durations_hold_the_dispatch_only_where_it_is_inside() -> None:
    queued = np.array([True, False])
    assert Overhead(2.0, 3.0, inside=True).fixed_us(queued).tolist() == [5.0, 2.0]
    assert Overhead(2.0, 3.0, inside=False).fixed_us(queued).tolist() == [2.0, 2.0]


def test_an_unknown_vendor_has_the_overhead_of_the_other_device() -> None:
    mine = replace(TARGET, vendor="")
    assert overheads_of(HOST, TARGET) == (AMD, NVIDIA)
    assert overheads_of(HOST, mine) == (AMD, AMD)
    assert overheads_of(mine, TARGET) == (NVIDIA, NVIDIA)
    assert overheads_of(mine, mine)[0].fixed_us(np.array([True])).tolist() == [0.0]
    assert overheads_of(HOST, TARGET, {"AMD": NVIDIA})[0] == NVIDIA


@pytest.mark.parametrize(
    ("overhead", "gaps_ns", "queued"),
    [
        (AMD, [0, 1, 160, 161, 2000], [True, True, True, False, False]),
        (NVIDIA, [0, 2600, 2601], [True, True, False]),
    ],
)
def test_an_activity_was_waiting_if_no_more_than_a_dispatch_went_by(
    overhead: Overhead, gaps_ns: list[int], queued: list[bool]
) -> None:
    starts = np.cumsum([1000, *(gap + 5000 for gap in gaps_ns)]).tolist()
    table = activities(*(kernel(us=5, start_ns=start) for start in starts))
    assert is_queued(table, overhead).tolist() == [False, *queued]


def test_queues_wait_for_themselves_only() -> None:
    table = activities(
        kernel(us=5, start_ns=1000),
        kernel(us=5, start_ns=6000, stream=8),
        kernel(us=1, start_ns=6000),
    )
    assert is_queued(table, AMD).tolist() == [False, False, True]


def _tenth(trace: Annotated, queued: bool) -> tuple[float, float]:
    """Return the 10th percentile of the durations of small kernels, and the median of short gaps, us."""
    table = trace.dispatches[trace.dispatches["kind"] == "kernel"].sort_values("start_ns")
    group = table.groupby(["gpu", "stream"])
    gap_ns = (
        table["start_ns"]
        - (table["start_ns"] + table["duration_ns"])
        .groupby([table["gpu"], table["stream"]])
        .shift()
    )
    small = (table[["grid_x", "grid_y", "grid_z"]].astype(float).prod(axis=1) <= 16) & (
        group.cumcount() > 0
    )
    own = gap_ns.le(160) if queued else gap_ns.gt(3000)
    times_us = table["duration_ns"][small & own] / 1e3
    return float(times_us.quantile(0.1)), float(gap_ns[gap_ns.between(161, 5000)].median()) / 1e3


def test_the_figures_are_those_of_public_traces(kineto: Callable[[str], Annotated]) -> None:
    flux = kineto("other/mi300_xdit_flux1_aiter_sage_profile_trace_rank_0")
    norms, nccl = kineto("other/normalization_layer_test"), kineto("other/hta_nccl_data")
    idle = [_tenth(trace, queued=False)[0] for trace in (flux, norms)]
    busy = [_tenth(trace, queued=True)[0] for trace in (flux, norms)]
    assert np.mean(idle) == pytest.approx(AMD.kernel_us, abs=0.15)
    assert np.mean(busy) == pytest.approx(AMD.kernel_us + AMD.dispatch_us, abs=0.35)
    kernel_us, dispatch_us = _tenth(nccl, queued=False)
    assert kernel_us == pytest.approx(NVIDIA.kernel_us, abs=0.05)
    assert dispatch_us == pytest.approx(NVIDIA.dispatch_us, abs=0.05)
