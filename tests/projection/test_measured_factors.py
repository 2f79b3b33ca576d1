from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError
from flopcast.projection.kernel_laws import (
    PAIR_SIGMA,
    compute_factors,
    corrections_of,
    learn_corrections,
)
from flopcast.table.measurements import clean
from flopcast.tests.projection.oracles.activities import HOST, TARGET, activities, gemm, relu
from flopcast.traces.cleaning.robust import MAD_TO_SIGMA


def measured(ratios: list[float], op: str = "gemm") -> pd.DataFrame:
    """Return compute-bound products measured on both devices, `ratios` of the target's time to the law's 2 t."""
    sizes = {
        "m": 4096,
        "n": 4096,
        "k": np.arange(len(ratios)) + 4096,
        "rows": 10**4,
        "cols": np.arange(len(ratios)) + 1,
    }
    table = pd.DataFrame({"op": op, "dtype_a": "bf16", "source": "f:1", **sizes})
    both = [
        table.assign(device=gpu.name, duration_us=100.0 * factor)
        for gpu, factor in ((HOST, np.ones(len(ratios))), (TARGET, 2 * np.array(ratios)))
    ]
    return clean(pd.concat(both, ignore_index=True)).frame


def test_the_median_ratio_corrects_and_the_rest_is_spread() -> None:
    ratios = [1.1] * 4 + [1.1 * np.e] * 3 + [1.1 / np.e] * 3 + [99.0]
    found = learn_corrections(measured(ratios), HOST, TARGET, "flops")["gemm"]
    assert (found.factor, found.n) == (pytest.approx(1.1), 11)
    assert found.sigma == pytest.approx(MAD_TO_SIGMA)
    assert found.error == pytest.approx(np.hypot(np.log(1.1), MAD_TO_SIGMA))


def test_the_spread_of_few_pairs_counts_the_farthest() -> None:
    """The median deviation of three is that of the second: here next to none."""
    ratios = np.array([0.43, 0.434, 0.78])
    found = corrections_of(ratios, np.ones(3), np.array(["attention"] * 3, dtype=object))[
        "attention"
    ]
    assert found.sigma == pytest.approx(np.std(np.log(ratios), ddof=1))
    assert abs(np.log(0.78 / found.factor)) < 2 * found.sigma


def test_classes_are_corrected_apart() -> None:
    rows = pd.concat(
        [measured([1.0, 1.5, 2.0]), measured([3.0, 3.0, 3.0], op="relu")], ignore_index=True
    )
    found = learn_corrections(rows, HOST, TARGET, "roofline")
    assert {name: round(correction.factor, 6) for name, correction in found.items()} == {
        "elementwise": 1.5,
        "gemm": 1.5,
    }


def test_two_pairs_have_no_spread() -> None:
    found = corrections_of(
        np.array([2.0, 4.0]), np.array([1.0, 1.0]), np.array(["gemm", "gemm"], dtype=object)
    )
    assert (found["gemm"].n, np.isnan(found["gemm"].sigma)) == (2, True)


def test_without_pairs_or_a_known_law_nothing_is_learnt() -> None:
    with pytest.raises(DataError, match="Halfchip"):
        learn_corrections(measured([1.0]).query("device == 'Roundchip'"), HOST, TARGET, "flops")
    with pytest.raises(DataError, match="'flop'"):
        learn_corrections(measured([1.0]), HOST, TARGET, "flop")


def test_a_call_whose_problem_was_measured_on_both_goes_by_its_own_ratio() -> None:
    table = activities(
        gemm(4096, 4096, 4096), gemm(4096, 4096, 4100), gemm(4096, 4096, 4098), relu(9, 9)
    )
    pairs = measured([1.0, 1.5, 3.0])  # k of 4096, 4097, 4098
    found = compute_factors(
        table, HOST, TARGET, "flops", corrections=learn_corrections(pairs, HOST, TARGET, "flops")
    )
    assert found["factor"].tolist()[:3] == pytest.approx([2.0, 2.0 * 1.5, 2.0 * 3.0])
    assert found["law"].tolist() == ["flops+pair", "flops+correction", "flops+pair", "bandwidth"]
    # by few, wide
    assert found["sigma"].tolist()[:3] == [PAIR_SIGMA, pytest.approx(0.601, abs=1e-3), PAIR_SIGMA]


def test_what_both_tables_state_tells_problems_apart() -> None:
    """A trace records the layout of a product, which a table of the user's may leave out or state."""
    table = activities(gemm(4096, 4096, 4096))
    for layout, law in (("NN", "flops+pair"), ("TN", "flops+correction")):
        pairs = learn_corrections(
            measured([1.0, 1.5, 3.0]).assign(layout=layout), HOST, TARGET, "flops"
        )
        assert compute_factors(table, HOST, TARGET, "flops", corrections=pairs)["law"].tolist() == [
            law
        ]


def test_a_trace_corrected_by_itself_takes_the_time_that_was_measured(shared_data: Path) -> None:
    name = "facebook_timesformer-base-finetuned-k400__1016002.json.gz"
    there, here = (
        shared_data / "profiles" / "kineto" / f"pairs_{gpu}" / name for gpu in ("h100", "mi300")
    )
    found = fc.project(here, target="H100 SXM5", host="MI300X", correct=[here, there])
    assert found.projected_us == pytest.approx(159_992, rel=0.02)  # by one factor a class 125,400
