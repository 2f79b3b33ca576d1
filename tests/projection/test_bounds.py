from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.features.quantisation import best_tile
from flopcast.operators.operators import Work, work_of
from flopcast.projection.bounds import bounds, by_kind, runnable, stretch
from flopcast.tests.projection.oracles.activities import HOST, TARGET


def products(*sizes: tuple[int, int, int], dtype: str = "bf16") -> Work:
    return work_of(pd.DataFrame(sizes, columns=["m", "n", "k"]).assign(op="gemm", dtype_a=dtype))


def attention(batch: int, seq_q: int, seq_kv: int) -> Work:
    row = {"op": "attention", "dtype_a": "bf16", "batch": batch, "heads": 1, "seq_q": seq_q, "seq_kv": seq_kv}
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
        pd.DataFrame({"op": ["gemm", "relu"], "dtype_a": ["fp64", "bf16"], "m": 8, "n": 8, "k": 8}).assign(
            rows=8, cols=8
        )
    )
    found = bounds(work, HOST)
    assert np.isnan(found.compute_us).tolist() == [True, False]
    assert found.missing[0].startswith("peak_tflops.fp64_matrix or peak_tflops.fp64_vector of Roundchip is not")
    assert found.missing[1] == ""
    blind = bounds(work, replace(HOST, memory_bw_gbs=None))
    assert np.isnan(blind.memory_us).all()
    assert set(blind.missing) == {"memory_bw_gbs (memory bandwidth) of Roundchip is not published"}


def test_what_has_no_flops_needs_no_peak() -> None:
    work = work_of(pd.DataFrame({"op": ["copy"], "dtype_a": ["bf16"], "rows": 1000, "cols": 1000}))
    found = bounds(work, replace(HOST, peaks={}))
    assert (found.compute_us.tolist(), found.missing.tolist()) == ([0.0], [""])


def test_integers_that_no_gpu_multiplies_have_no_peak() -> None:
    values, missing = by_kind(
        products((8, 8, 8), dtype="int64"), lambda work: np.full(len(work), HOST.peak_tflops(work.dtype[0]))
    )
    assert np.isnan(values).all()
    assert missing[0].startswith("no GPU has a peak for dtype 'int64'")


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
    decode = attention(16, 1, 4096)
    assert stretch(decode, op, HOST).tolist() == best_tile(decode, 64).stretch.tolist()


def test_vector_operators_unknown_work_and_unknown_compute_units_are_not_stretched() -> None:
    work, op = products((100, 100, 100)), np.array(["gemm"], dtype=object)
    assert stretch(work, op, replace(HOST, cus=None)).tolist() == [1.0]
    assert stretch(replace(work, flops=np.array([np.nan])), op, HOST).tolist() == [1.0]
    assert stretch(replace(work, unit=np.array(["vector"], dtype=object)), op, HOST).tolist() == [1.0]
