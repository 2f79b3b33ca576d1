from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.hardware import find, measured
from flopcast.laws.bounds import (
    best_tile,
    bounds,
    matrix_shares,
    memory_shares,
    reached,
    shares,
    stretch,
    typical,
)
from flopcast.laws.rates import by_kind, runnable
from flopcast.operators.operators import Work, work_of
from flopcast.projection.sweep import swept
from flopcast.tests.projection.oracles.activities import HOST, TARGET


def products(*sizes: tuple[int, int, int], dtype: str = "bf16") -> Work:
    return work_of(pd.DataFrame(sizes, columns=["m", "n", "k"]).assign(op="gemm", dtype_a=dtype))


def attention(batch: int, seq_q: int, seq_kv: int) -> Work:
    row = {
        "op": "attention",
        "dtype_a": "bf16",
        "batch": batch,
        "heads": 1,
        "seq_q": seq_q,
        "seq_kv": seq_kv,
    }
    return work_of(pd.DataFrame([row | {"head_dim": 128}]))


def test_times_at_the_published_figures_and_at_a_part_of_them() -> None:
    work = products((1000, 1000, 500), (10, 10, 10))
    found = bounds(work, HOST)
    assert found.compute_us.tolist() == pytest.approx([1.0, 2e-6])
    assert found.memory_us.tolist() == pytest.approx([4e6 / 4e6, 600 / 4e6])
    assert found.names.tolist() == ["memory", "memory"]
    assert found.roofline_us.tolist() == found.memory_us.tolist()
    part = bounds(work, HOST, matrix=0.5, memory=0.25)
    assert part.compute_us.tolist() == pytest.approx((2 * found.compute_us).tolist())
    assert part.memory_us.tolist() == pytest.approx((4 * found.memory_us).tolist())


def test_a_figure_that_is_not_published_is_named_in_the_rows_that_need_it() -> None:
    work = work_of(
        pd.DataFrame(
            {"op": ["gemm", "relu"], "dtype_a": ["fp64", "bf16"], "m": 8, "n": 8, "k": 8}
        ).assign(rows=8, cols=8)
    )
    found = bounds(work, HOST)
    assert np.isnan(found.compute_us).tolist() == [True, False]
    assert found.missing[0].values["figure"] == "peak_tflops.fp64_matrix or peak_tflops.fp64_vector"
    assert found.missing[1] is None
    blind = bounds(work, replace(HOST, memory_bw_gbs=None))
    assert np.isnan(blind.memory_us).all()
    assert {one.code for one in blind.missing} == {"figure-not-published"}


def test_what_has_no_flops_needs_no_peak() -> None:
    work = work_of(pd.DataFrame({"op": ["copy"], "dtype_a": ["bf16"], "rows": 1000, "cols": 1000}))
    found = bounds(work, replace(HOST, peaks={}))
    assert (found.compute_us.tolist(), found.missing.tolist()) == ([0.0], [None])


def test_integers_that_no_gpu_multiplies_have_no_peak() -> None:
    values, missing = by_kind(
        products((8, 8, 8), dtype="int64"),
        lambda work: np.full(len(work), HOST.peak_tflops(work.dtype[0])),
    )
    assert np.isnan(values).all()
    assert missing[0].code == "no-such-unit"


def test_tf32_becomes_fp32_where_there_is_none() -> None:
    work = replace(products((8, 8, 8)), dtype=np.array(["tf32"], dtype=object))
    assert runnable(work, HOST) is work
    assert runnable(work, TARGET).dtype.tolist() == ["fp32"]


def test_products_are_stretched_to_the_best_whole_tiles() -> None:
    work = products((4096, 4096, 64), (100, 100, 100), (4096, 4096, 64))
    found = stretch(work, np.full(3, "gemm", dtype=object), HOST)
    assert found.tolist() == best_tile(work, 64).stretch.tolist()
    assert found[0] == 1.0  # 256 tiles of 256 x 256 on 64 compute units


def test_prefill_attention_has_a_workgroup_per_128_queries_whatever_the_gpu() -> None:
    work, op = attention(16, 128, 4096), np.array(["attention"], dtype=object)
    assert stretch(work, op, HOST).tolist() == [4.0]  # 16 blocks on 64 units
    assert stretch(work, op, TARGET).tolist() == [2.0]
    # of each tile of queries one is there
    assert stretch(attention(16, 1, 4096), op, HOST).tolist() == [16.0]
    assert stretch(attention(16, 20, 4096), op, HOST).tolist() == [1.6]


def test_vector_operators_unknown_work_and_unknown_compute_units_are_not_stretched() -> None:
    work, op = products((100, 100, 100)), np.array(["gemm"], dtype=object)
    assert stretch(work, op, replace(HOST, cus=None)).tolist() == [1.0]
    assert stretch(replace(work, flops=np.array([np.nan])), op, HOST).tolist() == [1.0]
    assert stretch(replace(work, unit=np.array(["vector"], dtype=object)), op, HOST).tolist() == [
        1.0
    ]


MI300X, MI355X, H100 = find("MI300X"), find("MI355X"), find("H100 SXM5")


def test_figures_measured_in_the_same_way_are_compared() -> None:
    found = matrix_shares(MI300X, H100, "bf16")
    assert found == pytest.approx((668.4 / 1307.4, 794.5 / 989.4))
    assert found[::-1] == matrix_shares(H100, MI300X, "bf16")
    assert memory_shares(MI300X, H100) == pytest.approx((4110 / 5325, 2900 / 3350))


def test_one_share_stands_for_both_where_only_one_was_measured_or_in_another_way() -> None:
    assert memory_shares(MI300X, MI355X) == (4177.285 / 5325,) * 2
    assert memory_shares(MI355X, MI300X) == memory_shares(MI300X, MI355X)
    methods = [{row.method for row in measured(name, "gemm_fp8")} for name in ("MI300X", "MI355X")]
    assert not methods[0] & methods[1]
    assert matrix_shares(MI300X, MI355X, "fp8") == (1273 / 2614.9,) * 2
    assert matrix_shares(MI355X, MI300X, "fp8") == (3610.88 / 5033.2,) * 2


def test_fp16_and_bf16_stand_in_for_each_other() -> None:
    assert shares(H100, TARGET, "gemm_fp16") is None
    assert matrix_shares(H100, TARGET, "fp16") == matrix_shares(H100, TARGET, "bf16")


def test_gpus_nobody_has_measured_have_the_usual_share() -> None:
    assert memory_shares(HOST, TARGET) == (typical("hbm_copy"),) * 2
    assert matrix_shares(HOST, TARGET, "bf16") == (typical("gemm_bf16"),) * 2
    assert matrix_shares(HOST, TARGET, "int8") == (typical("gemm_bf16"),) * 2
    assert typical("gemm_int8") is None
    assert 0.6 < (typical("hbm_copy") or 0) < 0.95


def test_a_gpu_based_on_another_reaches_the_shares_of_that_one() -> None:
    faster = swept(H100, "memory_bw_gbs", 5000.0)
    assert memory_shares(MI300X, faster) == memory_shares(MI300X, H100)
    assert matrix_shares(faster, MI300X, "bf16") == matrix_shares(H100, MI300X, "bf16")


def test_each_row_has_the_share_of_its_precision_and_vector_rows_the_whole_peak() -> None:
    one = np.ones(3)
    words = (
        np.array(["bf16", "fp32", ""], dtype=object),
        np.array(["matrix", "vector", ""], dtype=object),
    )
    own, others = reached(Work(one, one, one, one, one, one, *words), MI300X, H100)
    assert own.tolist() == pytest.approx([668.4 / 1307.4, 1, 1])
    assert others.tolist() == pytest.approx([794.5 / 989.4, 1, 1])
    none = np.ones(0)
    assert (
        reached(Work(none, none, none, none, none, none, none, none), MI300X, H100)[0].tolist()
        == []
    )
