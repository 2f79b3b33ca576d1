from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.evaluation.law_comparison import CONSTANT, Explanation, affine, compare_laws

AFFINE = affine("duration_us")
GROUPS = np.repeat(np.arange(12), 10)
HOST = np.geomspace(2, 400, 120)[np.random.default_rng(1).permutation(120)]
NOISE = np.exp(np.random.default_rng(2).normal(0, 0.02, 120))


def compare(target: np.ndarray, **laws: np.ndarray) -> dict[str, Explanation]:
    frame = pd.DataFrame(laws or {"half": 0.5 * HOST})
    return {one.law: one for one in compare_laws(target, HOST, frame, GROUPS, replicates=300)}


def test_an_analytic_law_is_scored_as_it_stands() -> None:
    found = compare(HOST, exact=HOST, half=0.5 * HOST, double=2 * HOST)
    assert {name: found[name].mape.value for name in ("exact", "half", "double")} == pytest.approx(
        {"exact": 0, "half": 50, "double": 100}
    )
    assert found["half"].parameters == {}


def test_the_best_comes_first_and_its_equals_are_marked() -> None:
    found = compare((5 + 0.3 * HOST) * NOISE)
    assert list(found) == [AFFINE, CONSTANT, "half"]
    assert [one.as_good_as_best for one in found.values()] == [True, False, False]
    assert found[AFFINE].parameters == pytest.approx({"a_us": 5, "b": 0.3}, rel=0.02)


def test_the_line_is_named_by_what_was_measured_and_its_unit() -> None:
    laws = pd.DataFrame({"half": 0.5 * HOST})
    found = compare_laws(5 + 0.3 * HOST, HOST, laws, GROUPS, metric="energy_j", replicates=20)
    assert found[0].law == affine("energy_j") == "affine a + b·E_host"
    assert found[0].parameters == pytest.approx({"a_j": 5, "b": 0.3}, rel=1e-3)


def test_laws_that_err_alike_are_not_told_apart() -> None:
    found = compare(HOST * NOISE, low=0.999 * HOST, high=1.001 * HOST, far=1.1 * HOST)
    assert found["low"].as_good_as_best
    assert found["high"].as_good_as_best
    assert not found["far"].as_good_as_best


def test_intervals_hold_the_estimate() -> None:
    for one in compare((5 + 0.3 * HOST) * NOISE).values():
        assert one.mape.lower < one.mape.value < one.mape.upper
        assert one.mape.level == pytest.approx(0.9)


def test_fitted_laws_have_not_seen_the_group_they_predict() -> None:
    # the last group is ten times slower than the law of the others: no fit without it can know
    target = 0.5 * HOST * np.where(GROUPS == 11, 10, 1)
    found = compare(target)
    assert found[CONSTANT].parameters == {"ratio": pytest.approx(0.5)}
    assert found[CONSTANT].mape.value == pytest.approx(90 / 12)
