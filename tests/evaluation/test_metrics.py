"""Relative errors: hand-solved figures, properties, and what no relative error can be taken of."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from flopcast.errors import DataError, ParameterError, check_level
from flopcast.evaluation.metrics import (
    THRESHOLDS,
    ape,
    by_group,
    check_targets,
    e_out,
    inlier_ratios,
    summarise,
)

TIMES = npst.arrays(float, st.integers(1, 40), elements=st.floats(1e-3, 1e6))


def test_hand_solved() -> None:
    observed, predicted = [10.0, 20.0, 40.0, 100.0], [11.0, 20.0, 30.0, -20.0]
    assert ape(observed, predicted) == pytest.approx([10, 0, 25, 120])
    assert e_out(observed, predicted) == pytest.approx(38.75)
    row = summarise(
        "OLS", observed, predicted, groups=["a", "a", "a", "b"], e_in=3.0, features_selected=2, features_available=9,
        fit_seconds=0.5, space="log",
    )  # fmt: skip
    assert row == {
        "name": "OLS",
        "e_out": pytest.approx(38.75),
        "e_out_groups": pytest.approx((35 / 3 + 120) / 2),
        "e_in": 3.0,
        "median_ape": pytest.approx(17.5),
        "max_ape": pytest.approx(120.0),
        "ir": {
            "1": 25.0,
            "5": 25.0,
            "10": 50.0,
            "15": 50.0,
            "20": 50.0,
            "30": 75.0,
            "40": 75.0,
            "50": 75.0,
        },
        "features_selected": 2,
        "features_available": 9,
        "fit_seconds": 0.5,
        "nonpositive": 1,
        "space": "log",
        "error": None,
    }


@given(y=TIMES, factor=st.floats(1e-3, 1e3), scale=st.floats(1e-3, 1e3))
@settings(deadline=None, derandomize=True, max_examples=30)
def test_errors_do_not_depend_on_the_unit_and_ratios_rise_with_the_threshold(
    y: np.ndarray, factor: float, scale: float
) -> None:
    errors = ape(y, factor * y)
    assert errors == pytest.approx(np.full(len(y), 100 * abs(1 - factor)), rel=1e-6, abs=1e-9)
    assert ape(scale * y, scale * factor * y) == pytest.approx(errors, rel=1e-6, abs=1e-9)
    ratios = list(inlier_ratios(errors).values())
    assert ratios == sorted(ratios)
    assert list(inlier_ratios(np.zeros(3)).values()) == [100.0] * len(THRESHOLDS)


def test_a_failed_model_keeps_its_row() -> None:
    row = summarise("MLP", [1.0], None, error="ValueError: no")
    assert row["error"] == "ValueError: no"
    assert row["e_out"] is row["e_in"] is row["nonpositive"] is row["ir"]["5"] is None


def test_what_json_cannot_hold_is_null() -> None:
    row = summarise("OLS", [1e-300, 1.0], [1e300, 1.0], e_in=np.inf)
    assert row["e_out"] is row["max_ape"] is row["e_in"] is None
    json.dumps(row, allow_nan=False)


@pytest.mark.parametrize("bad", [0.0, -2.0, np.nan, np.inf])
def test_targets_without_a_relative_error_are_refused_by_name(bad: float) -> None:
    with pytest.raises(DataError, match=r"b.csv:7.*1") as caught:
        check_targets([1.0, bad, 2.0], ["a.csv:2", "b.csv:7", "b.csv:8"])
    assert caught.value.source == "b.csv:7"
    with pytest.raises(DataError, match="row 1: "):
        ape([1.0, bad], [1.0, 1.0])


def test_errors_by_group_worst_first() -> None:
    table = by_group([10.0] * 4, [11.0, 13.0, 5.0, 10.5], ["b", "b", "a", "b"])
    assert table.to_dict("list") == {
        "group": ["a", "b"],
        "rows": [1, 3],
        "e_out": pytest.approx([50.0, 15.0]),
        "median_ape": pytest.approx([50.0, 10.0]),
        "max_ape": pytest.approx([50.0, 30.0]),
        "ratio": pytest.approx([0.5, 1.1]),
    }


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 90, float("nan")])
def test_a_level_lies_between_0_and_1(level: float) -> None:
    check_level(0.9)
    with pytest.raises(DataError, match=r"interval.*0.9.*90"):
        check_level(level)


def test_a_level_lies_where_intervals_can_be_calibrated() -> None:
    check_level(0.005)
    with pytest.raises(ParameterError, match=r"0.005.*0.995.*0.999"):
        check_level(0.999)
