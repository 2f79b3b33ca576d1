from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.hardware import GPU
from flopcast.projection.corrections import OVER_PCIE, by_law
from flopcast.projection.kernel_work import of_activities
from flopcast.projection.scalings import LAWS, Pair
from flopcast.tests.projection.oracles.activities import HOST, TARGET, activities, copy, gemm, kernel, relu, softmax

ROWS = (gemm(4096, 4096, 4096), gemm(8, 8, 8, us=0.7), relu(1000, 1000), softmax(99, 99), kernel(), copy("HtoD"))


def applied(law: str, *rows: dict[str, Any], host: GPU = HOST, target: GPU = TARGET) -> pd.DataFrame:
    pair = Pair.of(host, target)
    return by_law(of_activities(activities(*(rows or ROWS)), pair.fixed[0]), pair, law)


@pytest.mark.parametrize("law", LAWS)
def test_between_equal_devices_nothing_changes(law: str) -> None:
    assert applied(law, target=HOST)["factor"].tolist() == [1.0] * len(ROWS)


@pytest.mark.parametrize("law", LAWS)
def test_every_factor_is_finite_and_positive_whatever_is_published(law: str) -> None:
    bare = GPU(name="Bare", vendor="")
    for host, target in ((HOST, TARGET), (HOST, bare), (bare, TARGET), (bare, replace(bare, name="Other"))):
        factor = applied(law, host=host, target=target)["factor"]
        assert factor.between(1e-6, 1e6).all()


def test_bandwidth_stands_in_with_the_reason() -> None:
    found = applied("flops")
    assert found["law"].tolist() == ["flops", "flops", "bandwidth", "flops", "bandwidth", "bandwidth"]
    assert found["factor"].tolist() == [2.0, 2.0, 4.0, 5.0, 4.0, 2.0]
    assert found["why"].ne("").tolist() == [False, False, True, False, True, True]
    assert found["bound"].tolist() == ["compute", "compute", "memory", "compute", "memory", "link"]


def test_where_no_figure_is_published_durations_are_kept_and_both_reasons_given() -> None:
    found = applied("flops", *ROWS[:3], target=replace(TARGET, peaks={}, memory_bw_gbs=None))
    assert found["law"].tolist() == ["kept"] * 3
    assert found["factor"].tolist() == [1.0] * 3
    assert found["why"][0] == (
        "peak_tflops.bf16_matrix or peak_tflops.bf16_vector of Halfchip is not published; "
        "memory_bw_gbs (memory bandwidth) of Halfchip is not published"
    )
    same = applied("roofline", relu(10, 10), target=replace(TARGET, memory_bw_gbs=None))
    assert same["why"].tolist() == ["memory_bw_gbs (memory bandwidth) of Halfchip is not published"]
    assert same["bound"].tolist() == [""]


def test_copies_between_host_and_gpu_go_over_pcie_whatever_the_law() -> None:
    for law in LAWS:
        found = applied(law, copy("DtoH"))
        expected = ("kept", 1.0, "") if law == "kept" else ("bandwidth", 2.0, "" if law == "bandwidth" else OVER_PCIE)
        assert (found["law"][0], found["factor"][0], found["why"][0]) == expected


def test_a_law_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DataError, match="no law of computation is called 'rooflin': did you mean roofline"):
        applied("rooflin")
    with pytest.raises(DataError, match="'zzz': there are flops, flops-uniform"):
        applied("zzz")
