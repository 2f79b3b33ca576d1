from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flopcast.errors import DataError
from flopcast.scaling.curve import Curve, doublings_away, log_ratio, positive, within

CURVE = Curve(
    "gemm", "strong", "SM", [8, 16, 32], [1.0, 2.0, 3.0], mpki=[3.0, 2.0, 1.0, 0.5], mpki_sizes=[8, 16, 32, 64]
)


def test_lists_become_arrays_and_misses_keep_their_own_sizes() -> None:
    assert CURVE.check().sizes.dtype == CURVE.mpki.dtype == np.float64
    assert CURVE.miss_sizes.tolist() == [8, 16, 32, 64]
    assert replace(CURVE, mpki=[3.0, 2.0, 1.0], mpki_sizes=None).check().miss_sizes.tolist() == [8, 16, 32]


def test_a_cut_takes_performance_away_and_leaves_the_misses() -> None:
    cut = replace(CURVE, mpki=[3.0, 2.0, 1.0], mpki_sizes=None).cut([8, 16])
    assert (cut.sizes.tolist(), cut.performance.tolist()) == ([8, 16], [1, 2])
    assert (cut.mpki.tolist(), cut.miss_sizes.tolist()) == ([3, 2, 1], [8, 16, 32])
    assert CURVE.cut([8, 32, 99]).performance.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": [8], "performance": [1.0]}, "gemm: a curve needs two sizes or more, got 8"),
        ({"sizes": [], "performance": []}, "gemm: a curve needs two sizes or more, got none"),
        ({"performance": [1.0, -2.0, 3.0]}, "gemm: performance must be above 0, got -2 at 16"),
        ({"performance": [1.0, np.nan, 3.0]}, "gemm: performance must be above 0, got nan at 16"),
        ({"performance": [1.0, 2.0]}, "gemm: each size needs one performance, got 3 and 2"),
        ({"sizes": [8, 8, 32]}, "gemm: sizes must be above 0 and increase, got 8, 8, 32"),
        ({"sizes": [0, 8, 32]}, "gemm: sizes must be above 0 and increase, got 0, 8, 32"),
        ({"mpki": [1.0, 2.0]}, "gemm: each MPKI needs a size, got 2 and 4"),
        ({"mpki": [1.0, 2.0], "mpki_sizes": None}, "gemm: each MPKI needs a size, got 2 and 3"),
        ({"mpki": [1.0, 2.0, -1.0, 1.0]}, "gemm: MPKI must be 0 or more, got 1, 2, -1, 1"),
        ({"mpki_sizes": [8, 16, 64, 32]}, "gemm: sizes of the MPKI must be above 0 and increase, got 8, 16, 64, 32"),
        ({"f_mem": 52.0}, "gemm: f_mem must be a share of the time from 0 to below 1, got 52"),
        ({"f_mem": float("nan")}, "gemm: f_mem must be a share of the time from 0 to below 1, got nan"),
        ({"scenario": "medium"}, "gemm: scenario must be one of strong, weak, chiplets, got 'medium'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(change: dict, message: str) -> None:
    with pytest.raises(DataError) as caught:
        replace(CURVE, **change).check()
    assert str(caught.value) == message


def test_sizes_to_predict_are_positive() -> None:
    assert positive(3).tolist() == [3.0]
    with pytest.raises(DataError, match="sizes to predict must be above 0, got 8, 0"):
        positive([8, 0])


def test_distance_in_doublings() -> None:
    assert doublings_away(np.array([8.0, 16.0]), np.array([4.0, 8.0, 16.0, 64.0])).tolist() == [1, 0, 0, 2]


def test_log_ratio_of_a_prediction_that_is_not_positive() -> None:
    found = log_ratio(np.array([2.0, 2.0, 2.0]), np.array([1.0, -1.0, np.inf]))
    assert found.tolist() == [np.log(2), np.inf, np.inf]


def test_between_sizes_performance_follows_power_laws() -> None:
    curve = Curve("b", "strong", "SM", [8, 32, 64], [1.0, 4.0, 4.0])
    assert within(curve, np.array([4.0, 8.0, 16.0, 32.0, 48.0, 64.0])) == pytest.approx([0.5, 1, 2, 4, 4, 4])
