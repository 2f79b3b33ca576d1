from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flopcast as fc
from flopcast.errors import DataError, ParameterError
from flopcast.remarks import remark
from flopcast.scaling.curves import Curve, curves_of, published_curves
from flopcast.scaling.scale_models import Equations
from flopcast.scaling.scaling_class import Cliff, CliffPath, L2Cliff, cliffs, cliffs_of


def strong(
    mpki: list[float], f_mem: float | None = None, known: int = 2, sizes: list[float] | None = None
) -> Curve:
    at = sizes or [8 * 2**i for i in range(len(mpki))]
    return Curve("b", "strong", "SM", at[:known], np.arange(1.0, known + 1), mpki, at, f_mem)


def test_a_fall_by_more_than_the_threshold_is_a_cliff() -> None:
    assert cliffs([8, 16, 32], [4.0, 2.0, 0.5]) == [Cliff(16, 32, 4.0)]
    assert cliffs([8, 16, 32], [4.0, 2.0, 0.5], threshold=1.9) == [
        Cliff(8, 16, 2.0),
        Cliff(16, 32, 4.0),
    ]
    assert cliffs([8, 16, 32], [4.0, 2.0, 0.5], threshold=4) == []


def test_several_cliffs_in_order() -> None:
    found = cliffs([8, 16, 32, 64, 128], [9.0, 3.0, 3.0, 2.9, 0.5])
    assert found == [Cliff(8, 16, 3.0), Cliff(64, 128, pytest.approx(5.8))]


def test_misses_that_vanish_altogether_and_none_at_all() -> None:
    assert cliffs([8, 16], [1.0, 0.0]) == [Cliff(8, 16, np.inf)]
    assert cliffs([8, 16], [0.0, 0.0]) == []
    assert cliffs([8], [1.0]) == []


def test_fine_steps_that_cut_a_fall_in_pieces() -> None:
    # from 64 to 128 misses fall four times, by no step more than 1.6
    found = cliffs([40, 64, 80, 96, 128, 160], [8.0, 8.0, 5.2, 3.3, 2.0, 2.0])
    assert found == [Cliff(64, 128, 4.0)]


def test_a_fall_that_goes_on_beyond_the_window_is_taken_in() -> None:
    assert cliffs([48, 64, 80, 96, 128, 160], [8.0, 8.0, 5.2, 3.3, 2.0, 2.0]) == [
        Cliff(64, 128, 4.0)
    ]


def test_steps_that_nearly_double_count_as_doublings() -> None:
    assert cliffs([38, 80, 152, 304], [5.0, 4.9, 2.3, 2.2]) == [
        Cliff(80, 152, pytest.approx(4.9 / 2.3))
    ]


def test_a_step_of_two_doublings_must_fall_as_much_as_two() -> None:
    assert cliffs([8, 32], [4.0, 1.1]) == []
    assert cliffs([8, 32], [4.0, 0.9]) == [Cliff(8, 32, pytest.approx(4 / 0.9))]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.floats(1.1, 3.0))
def test_cliffs_do_not_overlap_and_each_falls_enough(mpki: list[float], step: float) -> None:
    sizes = step ** np.arange(len(mpki))
    found = cliffs(sizes, mpki)
    assert all(one.after <= two.before for one, two in pairwise(found))
    assert all(cliff.before < cliff.after and cliff.ratio > 2 for cliff in found)


def test_the_published_cliffs() -> None:
    found = {
        (curve.scenario, curve.benchmark): [
            (c.before, c.after) for c in cliffs(curve.miss_sizes, curve.mpki)
        ]
        for curve in published_curves()
    }
    assert {key: value for key, value in found.items() if value} == {
        ("strong", "dct"): [(64, 128)],
        ("strong", "fwt"): [(64, 128)],
    }


def test_one_cliff_multiplies_by_the_published_factor() -> None:
    path = CliffPath(strong([6, 6, 6, 1, 1], f_mem=0.6))
    assert path.at(np.array([16.0, 32, 64, 128])).factor == pytest.approx([1, 1, 2.5, 2.5])
    assert path.ends(np.array([32.0, 64, 128])).tolist() == [False, True, False]
    assert path.notes == [remark("cliff-beyond", before=32.0, after=64.0, ratio=6.0)]


def test_several_cliffs_share_f_mem_by_the_misses_they_take() -> None:
    path = CliffPath(strong([8, 8, 2, 2, 0.0], f_mem=0.8))
    # three quarters of the misses go at 32: 1 / (1 - 0.8 * 0.75); all of them at 128
    assert path.at(np.array([32.0, 64, 128])).factor == pytest.approx([2.5, 2.5, 5.0])


def test_without_f_mem_the_jump_is_bounded_and_said_to_be() -> None:
    path = CliffPath(strong([6, 6, 6, 1.5]))
    jump = path.at(np.array([32.0, 48, 64]))
    assert jump.low == pytest.approx([1, 1, 1])
    assert jump.factor == pytest.approx([1, 1, 1 / (1 - 0.375)])
    assert jump.high == pytest.approx([1, 4, 4])
    assert path.notes[-1] == remark("f-mem-not-measured", taken=0.375, most=0.75)


def test_misses_that_vanish_leave_the_jump_without_bound() -> None:
    path = CliffPath(strong([6, 6, 6, 0.0]))
    assert path.at(np.array([64.0])).high.tolist() == [np.inf]
    assert path.notes[-1] == remark("f-mem-not-measured", taken=0.5, most=1.0)


def test_a_cliff_among_the_fitted_sizes_is_told_and_not_counted() -> None:
    path = CliffPath(strong([6, 1, 1, 1], f_mem=0.5))
    assert path.at(np.array([64.0])).factor.tolist() == [1]
    assert path.notes == [remark("cliff-among-sizes-fitted", before=8.0, after=16.0, ratio=6.0)]


def test_misses_that_are_not_known_beyond_are_told() -> None:
    assert CliffPath(strong([6, 6])).notes == [remark("miss-rates-end", size=16.0)]


def test_weak_scaling_has_no_cliffs() -> None:
    curve = Curve("b", "weak", "SM", [8, 16], [1, 2], [6, 6, 1], [8, 16, 32])
    assert CliffPath(curve).cliffs == CliffPath(curve).notes == []


def test_a_cliff_from_below_the_largest_size_leaves_that_as_measured() -> None:
    path = CliffPath(strong([6, 6, 6, 1], f_mem=0.5, known=2, sizes=[8, 20, 24, 48]))
    assert path.at(np.array([20.0])).high.tolist() == [1]


def two_levels(
    f_mem: float | None = None, f_l2: float | None = None, scenario: str = "strong"
) -> Curve:
    """Return a curve whose L2 holds everything from 32 on, and its last-level cache from 128 on."""
    sizes = [8, 16, 32, 64, 128]
    inner, last = [20.0, 20, 5, 5, 5], [4.0, 4, 4, 4, 1]
    return Curve("b", scenario, "SM", [8, 16], [1, 2], last, sizes, f_mem, l2_mpki=inner, f_l2=f_l2)


def test_each_cache_has_cliffs_of_its_own() -> None:
    assert cliffs_of(two_levels()) == (L2Cliff(16, 32, 4.0), Cliff(64, 128, 4.0))
    path = CliffPath(two_levels(f_mem=0.3, f_l2=0.2))
    jump = path.at(np.array([16.0, 32, 64, 128]))
    # the L2's wait is gone from 32 on: 1 / (1 - 0.2); both from 128 on: 1 / (1 - 0.2 - 0.3)
    assert jump.factor == pytest.approx([1, 1.25, 1.25, 2])
    assert jump.low == pytest.approx(jump.factor)
    assert path.notes == [
        remark("l2-cliff-beyond", before=16.0, after=32.0, ratio=4.0),
        remark("cliff-beyond", before=64.0, after=128.0, ratio=4.0),
    ]
    assert path.ends(np.array([32.0, 64, 128])).tolist() == [True, False, True]


def test_the_share_of_each_cache_is_bounded_where_it_was_not_measured() -> None:
    path = CliffPath(two_levels(f_mem=0.2))
    jump = path.at(np.array([32.0, 128]))
    assert jump.low == pytest.approx([1, 1.25])
    assert jump.factor == pytest.approx([1 / (1 - 0.375), 1 / (1 - 0.575)])
    assert jump.high == pytest.approx([4, 20])
    assert [note.code for note in path.notes][2:] == ["f-l2-not-measured"]
    assert CliffPath(two_levels(scenario="weak")).cliffs == []


def test_laws_multiply_by_the_jumps_of_both_caches() -> None:
    law = Equations(training=()).fit(two_levels(f_mem=0.3, f_l2=0.2))
    alone = Equations(training=()).fit(strong([4, 4, 4, 4, 4], f_mem=0.3))
    ratio = law.predict([32, 64, 128]) / alone.predict([32, 64, 128])
    assert ratio == pytest.approx([1.25, 1.25, 2.0])


def test_a_table_of_both_caches_is_read_and_a_wrong_one_is_refused() -> None:
    rows = pd.DataFrame(
        {
            "benchmark": "b", "size": [8, 16, 32], "performance": [1.0, 2, np.nan],
            "mpki": [4.0, 4, 1], "l2_mpki": [20.0, 20, 5], "f_l2_percent": [20.0, np.nan, np.nan],
        }
    )  # fmt: skip
    (curve,) = curves_of(rows).curves
    assert curve.l2_mpki is not None
    assert curve.l2_mpki.tolist() == [20, 20, 5]
    assert curve.f_l2 == 0.2
    with pytest.raises(DataError, match="l2_mpki of b must be at least mpki"):
        curves_of(rows.assign(l2_mpki=[20.0, 3, 5]))
    with pytest.raises(DataError, match="l2_mpki of b must be given at every measured size"):
        curves_of(rows.assign(l2_mpki=[20.0, np.nan, 5]))
    with pytest.raises(DataError, match="f_mem and f_l2 must leave time to compute"):
        Curve("b", "strong", "SM", [8, 16], [1, 2], f_mem=0.6, f_l2=0.4).check()


def test_a_trace_of_addresses_tells_both_caches_of_a_gpu_apart(tmp_path: Path) -> None:
    """Three times over 0.1875 MiB: half of the GPU holds that in its last-level cache, the whole one in its L2."""
    gpu = tmp_path / "small.toml"
    gpu.write_text("name = 'small'\nbased_on = 'MI300X'\nl2_mb = 0.25\nllc_mb = 2\n")
    path = tmp_path / "addresses.txt"
    path.write_text("\n".join(str(128 * (at % 1536)) for at in range(3 * 1536)))
    found = fc.scale_misses(path, sizes=[19, 152, 304], caches_of=gpu)
    first = 1000 / 3  # the first time no line is there
    assert found["mpki"].tolist() == pytest.approx([1000, first, first])
    assert found["l2_mpki"].tolist() == pytest.approx([1000, 1000, first])
    alone = fc.scale_misses(path, sizes=[19], caches_of="MI250X (per GCD)")
    assert "l2_mpki" not in alone
    with pytest.raises(ParameterError, match="l2_mb must be at most cache_mb"):
        fc.scale_misses(path, sizes=[8], cache_mb=[1], l2_mb=[2])
    with pytest.raises(ParameterError, match="cache_mb states a cache"):
        fc.scale_misses(path, sizes=[152], cache_mb=[1], caches_of=gpu)
