"""Outside the trained range a simple rule goes on: data with a known law, learnt by what cannot go on by itself."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from flopcast.api.devices import device
from flopcast.evaluation.competition import fit_all
from flopcast.evaluation.domain import WIDENING, trained_range
from flopcast.evaluation.extrapolation import (
    LEAST_ROWS,
    Beyond,
    FallbackLaw,
    Rule,
    blend,
    by_operator,
    errors_by_operator,
    fixed_widening,
    learn_beyond,
    learn_law,
    limits,
    share_left_out,
)
from flopcast.evaluation.intervals import ConformalIntervals
from flopcast.features.matrix import Dataset, build_dataset
from flopcast.models.base import Candidate
from flopcast.models.baselines import Affine
from flopcast.models.target_space import LogTarget
from flopcast.readers import read

SATURATES = Candidate("trees", LogTarget(ExtraTreesRegressor(20, random_state=0)), "log time")


def dataset(low: int, high: int, seed: int = 0) -> Dataset:
    """GEMMs of m from 2**low to 2**high: 4 us + 0.4 x the host's time, 1.3 times that where n is 1024; 4 % noise."""
    draw = np.random.default_rng(seed)
    count = 50 * (high - low)
    sizes = {
        "m": np.rint(2 ** draw.uniform(low, high, count)),
        "n": draw.choice([1024, 2048, 4096], count),
    }
    shapes = pd.DataFrame(sizes).assign(
        k=draw.choice([1024, 3072], count), op="gemm", dtype_a="bf16"
    )
    host = 3 + 2 * shapes["m"] * shapes["n"] * shapes["k"] / 3e8
    target = (
        (4 + 0.4 * host)
        * np.where(shapes["n"] == 1024, 1.3, 1.0)
        * np.exp(draw.normal(0, 0.04, count))
    )
    both = [
        shapes.assign(device="MI300X", duration_us=host),
        shapes.assign(device="MI355X", duration_us=target),
    ]
    frame = read([pd.concat(both, ignore_index=True)]).frame
    return build_dataset(frame, host=device("MI300X", "host"), target=device("MI355X", "target"))


@pytest.fixture(scope="module")
def trained() -> Dataset:
    return dataset(4, 9)


@pytest.fixture(scope="module")
def predicted(trained: Dataset) -> np.ndarray:
    """Stand in for out-of-fold predictions: the truth with an error of 5 %."""
    return trained.y * np.exp(np.random.default_rng(1).normal(0, 0.05, len(trained)))


@pytest.fixture(scope="module")
def beyond(trained: Dataset, predicted: np.ndarray) -> Beyond:
    found = learn_beyond(trained, SATURATES, "kfold", predicted)
    assert found is not None
    return found


def error(data: Dataset, values: np.ndarray) -> float:
    return float(100 * np.mean(np.abs(values / data.y - 1)))


@pytest.mark.no_cover
def test_inside_the_model_answers_outside_the_rule_is_as_good_as_the_line(
    trained: Dataset, predicted: np.ndarray, beyond: Beyond
) -> None:
    model, edge = fit_all(trained, SATURATES, "kfold"), trained_range(trained.X)
    inside = model.predict(trained.X)
    np.testing.assert_array_equal(
        blend(inside, inside + 1, beyond.share(edge.check(trained.X).distance)), inside
    )
    far = dataset(10, 14, seed=3)
    X, reference = trained.recipe.transform(far.rows), far.reference.to_numpy(float)
    share = beyond.share(edge.check(X).distance)
    answers = blend(model.predict(X), beyond.rule.predict(X, reference), share)
    assert error(far, model.predict(X)) > 50
    line = Affine("reference").fit(pd.DataFrame({"reference": trained.reference}), trained.y)
    assert error(far, answers) < 1.05 * error(far, line.intercept_ + line.ratio_ * reference)
    limits = ConformalIntervals("kfold").fit(trained.y, predicted, trained.groups).bounds(
        answers, outside=beyond.intervals, share=share
    )  # fmt: skip
    assert 0.85 <= np.mean((limits[0] <= far.y) & (far.y <= limits[1])) <= 0.99


def test_what_it_did_on_ranges_left_out_is_reported(trained: Dataset, beyond: Beyond) -> None:
    found = beyond.found
    assert found["rule"] in ("affine", "additive")
    assert found["e_out"] < found["e_out_model"]
    assert found["e_out"] <= found["e_out_affine"] + 1.0
    assert 0.8 <= found["coverage"] <= 1
    assert 20 <= found["rows"] <= len(trained)


def test_it_is_the_same_after_json(trained: Dataset, beyond: Beyond) -> None:
    again = Beyond.from_dict(json.loads(json.dumps(beyond.to_dict())))
    reference = trained.reference.to_numpy(float)
    np.testing.assert_array_equal(
        again.rule.predict(trained.X, reference), beyond.rule.predict(trained.X, reference)
    )
    assert (again.fade, again.intervals.radius(0.9)) == (beyond.fade, beyond.intervals.radius(0.9))
    assert again.other is not None
    assert {again.rule.name, again.other.name} == {"affine", "additive"}


@pytest.mark.parametrize(
    "damage",
    [
        ("wider", {"op=add": -1.0}),
        ("fade", -1.0),
        ("fade", float("nan")),
        ("least", -1.0),
        ("coefficients", [[-1.0, 1.0]]),
        ("terms", []),
    ],
)
def test_a_damaged_one_is_refused(damage: tuple[str, Any]) -> None:
    rule = Rule("affine", ("reference",), np.array([[1.0, 2.0]]))
    intervals = ConformalIntervals("kfold").fit([1, 2, 3], [1, 2, 2], [0, 1, 2])
    saved = copy.deepcopy(Beyond(rule, 2.0, intervals, {}, None, {}).to_dict())
    (saved if damage[0] in saved else saved["rule"])[damage[0]] = damage[1]
    with pytest.raises(ValueError, match="trained range"):
        Beyond.from_dict(saved)


def test_an_operator_that_errs_more_is_wider_as_far_as_its_rows_tell() -> None:
    """A thousand rows of `add` err by 0.1, 196 of `gemm` by 0.4, four of `mul` by 9."""
    X = pd.DataFrame(
        {"op=add": [1.0] * 1000, "op=gemm": 0.0, "op=mul": 0.0, "op=pow": 0.0, "log2.m": 1.0}
    )
    X = pd.concat(
        [
            X,
            X[:196].assign(**{"op=add": 0.0, "op=gemm": 1.0}),
            X[:4].assign(**{"op=add": 0.0, "op=mul": 1.0}),
        ]
    )
    errors = np.repeat([0.1, -0.4, 9.0], [1000, 196, 4])
    found = errors_by_operator(X, errors)
    assert found == {"op=add": pytest.approx(0.25), "op=gemm": 1.0, "op=mul": 1.0}
    assert by_operator(X, found)[[0, -1]].tolist() == [pytest.approx(0.25), 1.0]
    assert errors_by_operator(X, 0 * errors) == {}
    assert errors_by_operator(X[:1000], errors[:1000]) == {}


def test_a_rule_is_a_sum_by_class_never_below_its_least() -> None:
    rule = Rule(
        "additive",
        ("x", "reference"),
        np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]]),
        ("op=conv",),
        2.5,
    )
    X = pd.DataFrame({"x": [0.0, 1.0, 5.0], "op=conv": [0.0, 0.0, 1.0]})
    assert rule.predict(X, np.array([9.0, 9.0, 4.0])).tolist() == [2.5, 3.0, 12.0]


def test_an_interval_holds_what_the_rules_say() -> None:
    intervals = ConformalIntervals("kfold").fit(
        np.exp(np.linspace(-0.1, 0.1, 99)), np.ones(99), np.arange(99)
    )
    predicted, other = np.full(4, 10.0), np.array([10.0, 40.0, 2.0, -1.0])
    lower, upper = limits(intervals, predicted, [other], 0.9)
    own = intervals.bounds(predicted, 0.9)
    np.testing.assert_allclose(lower / own[0], [1.0, 1.0, 0.2, 1.0])
    np.testing.assert_allclose(upper / own[1], [1.0, 4.0, 1.0, 1.0])
    np.testing.assert_array_equal(limits(intervals, predicted, [], 0.9), own)


def test_what_the_rules_say_is_as_wide_as_the_row_is_difficult() -> None:
    intervals = ConformalIntervals("kfold").fit(
        np.exp(np.linspace(-0.1, 0.1, 99)), np.ones(99), np.arange(99)
    )
    scale, rule = np.array([1.0, 3.0]), np.full(2, 40.0)
    upper = limits(intervals, np.full(2, 10.0), [rule], 0.9, scale=scale)[1]
    np.testing.assert_array_equal(upper, intervals.bounds(rule, 0.9, scale=scale)[1])


def test_too_few_rows_leave_it_out(trained: Dataset, predicted: np.ndarray) -> None:
    rows = {name: getattr(trained, name).iloc[:30] for name in ("X", "rows", "laws", "reference")}
    few = replace(trained, **rows, y=trained.y[:30], groups=trained.groups[:30])
    assert learn_beyond(few, SATURATES, "kfold", predicted[:30]) is None
    assert fixed_widening().values == {"widening": WIDENING, "least": LEAST_ROWS}


def several(ops: tuple[str, ...]) -> Dataset:
    """Vector operators that reach each its own share of the memory bandwidth, 2 us before any work."""
    draw = np.random.default_rng(0)
    rates = {"add": 0.5, "mul": 0.55, "gelu": 0.4, "relu": 0.6, "tanh": 0.45}
    parts = []
    for op in ops:
        size = np.rint(2 ** draw.uniform(12, 26, 40))
        time = 2 + 6 * size / (rates[op] * 5.3e6) * np.exp(draw.normal(0, 0.05, 40))
        parts.append(
            pd.DataFrame(
                {"op": op, "rows": 1, "cols": size, "dtype_a": "bf16", "duration_us": time}
            )
        )
    frame = read([pd.concat(parts, ignore_index=True).assign(device="MI300X")]).frame
    return build_dataset(frame, host=None, target=device("MI300X", "target"))


def test_the_law_at_trained_rates_covers_operators_that_were_never_trained() -> None:
    law, other = learn_law(several(("add", "mul", "gelu", "relu"))), several(("tanh",))
    assert law is not None
    values = law.predict(other.laws)
    lower, upper = law.intervals.bounds(values)
    assert error(other, values) < 40
    assert np.mean((lower <= other.y) & (other.y <= upper)) >= 0.85
    again = FallbackLaw.from_dict(json.loads(json.dumps(law.to_dict())))
    np.testing.assert_array_equal(again.predict(other.laws), values)
    with pytest.raises(ValueError, match="0 or more"):
        FallbackLaw.from_dict({**law.to_dict(), "ratio": -1.0})


def test_the_intervals_of_the_law_are_those_of_kinds_left_out() -> None:
    """Lines through each two of three operators, held against the third."""
    data = several(("add", "gelu", "relu"))
    found, named = learn_law(data), data.rows["op"].to_numpy()
    assert found is not None
    x, predicted = data.laws[[found.law]], np.empty(len(data))
    for op in np.unique(named):
        line = Affine().fit(x[named != op], data.y[named != op])
        predicted[named == op] = line.predict(x[named == op])
    own = ConformalIntervals("grouped").fit(data.y, predicted, named)
    assert found.intervals.radius(0.9) == pytest.approx(own.radius(0.9))


def test_where_only_one_kind_was_trained_the_law_is_wide() -> None:
    found, other = learn_law(several(("relu",))), several(("gelu",))
    assert found is not None
    lower, upper = found.intervals.bounds(found.predict(other.laws))
    assert np.mean((lower <= other.y) & (other.y <= upper)) >= 0.85


def test_without_a_law_there_is_none(trained: Dataset) -> None:
    assert learn_law(replace(trained, laws=pd.DataFrame(index=trained.laws.index))) is None


def test_the_ends_are_quarters_of_many_rows_and_halves_of_few() -> None:
    shares = [share_left_out(rows) for rows in (100, 500, 1000, 100_000)]
    assert shares == [0.5, 0.4, 0.25, 0.25]
