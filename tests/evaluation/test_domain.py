"""The trained range: who leaves it, by which feature, how far, in words and numbers."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.errors import DataError
from flopcast.evaluation.domain import WIDENING, TrainedRange, in_range_of_others

TRAINING = pd.DataFrame(
    {
        "log2.m": [0.0, 5.0, 12.0],
        "host_us": [4.0, 10.0, 40.0],
        "balance": [-1.0, 0.0, 3.0],
        "dtype=fp8": [1.0, 1.0, 1.0],
        "dtype=fp4": [0.0, 0.0, 0.0],
        "hint": [np.nan, 1.0, 2.0],
    }
)
RANGE = TrainedRange.of(TRAINING)


def query(**changed: float) -> pd.DataFrame:
    return TRAINING.iloc[[1]].assign(**changed)


def test_the_training_rows_lie_inside() -> None:
    check = RANGE.check(TRAINING)
    assert not check.extrapolated.any()
    assert not check.reasons.any().any()
    assert check.distance.tolist() == [0, 0, 0]
    assert check.widening.tolist() == [1, 1, 1]


CHANGES = [
    ({"log2.m": 14.0}, 2.0, "above-trained-range"),
    ({"log2.m": -1.0}, 1.0, "below-trained-range"),
    ({"host_us": 320.0}, 3.0, "above-trained-range"),
    ({"host_us": 1.0}, 2.0, "below-trained-range"),
    ({"host_us": 0.0}, 20.0, "below-trained-range"),
    ({"balance": 5.0}, 0.5, "above-trained-range"),
    ({"balance": -5.0}, 1.0, "below-trained-range"),
    ({"dtype=fp8": 0.0}, 1.0, "below-trained-range"),
    ({"dtype=fp4": 1.0}, 1.0, "never-in-training"),
    ({"host_us": np.nan}, 1.0, "missing-value"),
    ({"hint": np.nan}, 0.0, ""),
    ({"host_us": 40.3}, 0.0, ""),  # a hundredth more than 40
]


@pytest.mark.parametrize(("changed", "distance", "code"), CHANGES)
def test_who_leaves_the_range_is_named(
    changed: dict[str, float], distance: float, code: str
) -> None:
    check = RANGE.check(query(**changed))
    assert check.extrapolated.tolist() == [distance > 0]
    assert check.distance == pytest.approx([distance])
    assert check.widening == pytest.approx([1 + WIDENING * distance])
    assert [reason.code for reason in check.reasons.of_rows()[0]] == [code] * bool(code)


def test_the_text_of_a_reason_has_its_figures_as_the_feature_means_them() -> None:
    reasons = [
        RANGE.check(query(**changed)).reasons.texts()[0].to_pylist()[0]
        for changed, _, code in CHANGES
        if code
    ]
    figures = [
        ("m is 16384", "4096", "4x"),
        ("m is 0.5", "from 1 ", "2x"),
        ("host_us", "320", "40", "8x"),
        ("host_us", "1", "4", "4x"),
        ("host_us", "0", "4", "0.111 spans"),
        ("balance", "5", "3", "0.5 spans"),
        ("balance", "-5", "-1", "1 spans"),
        ("dtype=fp8", "0", "1", "1 spans"),
        ("dtype=fp4",),
        ("host_us",),
    ]
    assert [
        text
        for text, shown in zip(reasons, figures, strict=True)
        if not all(one in text for one in shown)
    ] == []


def test_a_reason_holds_the_figures() -> None:
    ((reason,),) = RANGE.check(query(host_us=320.0)).reasons.of_rows()
    assert reason.code == "above-trained-range"
    assert dict(reason.items) == {
        "feature": "host_us", "value": 320.0, "limit": 40.0, "only": False, "far": 8.0, "factor": True,
    }  # fmt: skip


def test_the_worst_three_are_named_first() -> None:
    rows = pd.concat(
        [query(), query(**{"log2.m": 13.0, "host_us": 160.0, "balance": 15.0, "dtype=fp4": 0.5})]
    )
    check = RANGE.check(rows[rows.columns[::-1]].assign(more=1.0))
    assert check.extrapolated.tolist() == [False, True]
    assert [dict(reason.items)["feature"] for reason in check.reasons.of_rows()[1]] == [
        "balance",
        "host_us",
        "log2.m",
    ]


@given(beyond=st.floats(0, 30), more=st.floats(0, 10))
@settings(deadline=None, derandomize=True, max_examples=30)
def test_the_widening_grows_with_the_distance(beyond: float, more: float) -> None:
    near, far = (
        RANGE.check(query(host_us=40.0 * 2**doublings)) for doublings in (beyond, beyond + more)
    )
    assert 1 <= near.widening[0] <= far.widening[0]


def test_json_round_trip() -> None:
    training = TRAINING.assign(never=np.nan)
    again = TrainedRange.from_dict(
        json.loads(json.dumps(TrainedRange.of(training).to_dict(), allow_nan=False))
    )
    rows = training.assign(host_us=[1.0, 100.0, 20.0], never=[1.0, np.nan, 2.0])
    assert again.names == tuple(training.columns)
    assert (
        again.check(rows).reasons.of_rows()
        == TrainedRange.of(training).check(rows).reasons.of_rows()
    )


def test_missing_features_are_named() -> None:
    with pytest.raises(DataError, match="host_us"):
        RANGE.check(TRAINING.drop(columns=["host_us", "hint"]))
    wide = pd.DataFrame(np.ones((1, 8)), columns=[f"x{i}" for i in range(8)])
    with pytest.raises(DataError, match=r"x0.*x1.*x2.*x3.*x4"):
        TrainedRange.of(wide).check(wide[[]])
    with pytest.raises(DataError, match="one row"):
        TrainedRange.of(TRAINING.iloc[:0])


def test_each_class_has_a_range_of_its_own() -> None:
    sizes = pd.DataFrame({"log2.m": [0.0, 10.0, 2.0, 4.0], "op=gemm": [1.0, 1.0, 0.0, 0.0]})
    trained = sizes.assign(**{"op=add": 1 - sizes["op=gemm"]})
    asked = pd.DataFrame(
        {"log2.m": [8.0, 8.0, 8.0], "op=gemm": [1.0, 0.0, 0.0], "op=add": [0.0, 1.0, 0.0]}
    )
    whole = TrainedRange.of(trained, classes="op=")
    for one in (whole, TrainedRange.from_dict(json.loads(json.dumps(whole.to_dict())))):
        check = one.check(asked)
        assert check.distance.tolist() == [0.0, 4.0, 0.0]
        assert check.common.tolist() == [0.0, 0.0, 0.0]
        assert check.reasons.any().tolist() == [False, True, False]
        assert one.places(asked[1:]).iloc[0][["feature", "low", "high", "distance"]].tolist() == [
            "log2.m",
            2,
            4,
            4,
        ]
    damaged = whole.to_dict()
    damaged["log2.m"]["own"]["op=mul"] = damaged["log2.m"]["own"]["op=add"]
    with pytest.raises(ValueError, match="op=mul"):
        TrainedRange.from_dict(damaged)


def test_rows_are_held_against_the_range_of_the_other_folds() -> None:
    X, folds = pd.DataFrame({"log2.m": [0.0, 1.0, 2.0, 9.0, 8.0]}), np.array([0, 1, 1, 2, 2])
    assert in_range_of_others(X, folds).tolist() == [False, True, True, False, False]
    assert in_range_of_others(X, np.zeros(5)).tolist() == [False] * 5


def test_the_range_of_parts_is_that_of_their_rows() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "log2.b", "never"]).assign(
        never=np.nan
    )
    X.loc[[3, 35], "a"] = np.nan
    X["op=gemm"], X["op=add"] = (
        (np.arange(40) < 12).astype(float),
        (np.arange(40) >= 12).astype(float),
    )
    parts = [TrainedRange.of(X[first : first + 10], classes="op=") for first in range(0, 40, 10)]
    assert json.dumps(TrainedRange.together(parts).to_dict()) == json.dumps(
        TrainedRange.of(X, classes="op=").to_dict()
    )
