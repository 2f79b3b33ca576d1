from __future__ import annotations

import numpy as np
import pytest

from flopcast.hardware import find, measured
from flopcast.operators.operators import Work
from flopcast.projection.kernel_work import matrix_shares, memory_shares, reached, shares, typical
from flopcast.projection.sweep import swept
from flopcast.tests.projection.oracles.activities import HOST, TARGET

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
    words = np.array(["bf16", "fp32", ""], dtype=object), np.array(["matrix", "vector", ""], dtype=object)
    own, others = reached(Work(one, one, one, one, one, one, *words), MI300X, H100)
    assert own.tolist() == pytest.approx([668.4 / 1307.4, 1, 1])
    assert others.tolist() == pytest.approx([794.5 / 989.4, 1, 1])
    none = np.ones(0)
    assert reached(Work(none, none, none, none, none, none, none, none), MI300X, H100)[0].tolist() == []
