from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import ParameterError
from flopcast.evaluation.advising import choose, coordinates, expected_error, importance


def test_a_batch_stands_for_the_candidates_and_leaves_what_is_measured() -> None:
    points = (
        np.repeat([[0.0], [1.0], [2.0], [3.0]], 25, axis=0) + 0.01 * np.arange(100)[:, None] / 100
    )
    weights = np.full(100, 0.01)
    batch = choose(points, weights, budget=4)
    assert sorted(points[batch].round()[:, 0]) == [0, 1, 2, 3]
    batch = choose(points, weights, budget=2, measured=[0, 25])
    assert sorted(points[batch].round()[:, 0]) == [2, 3]
    assert not {0, 25} & set(choose(points, weights, budget=98, measured=[0, 25]))


def test_what_a_row_costs_and_weighs_counts() -> None:
    points = np.arange(10.0)[:, None]
    cost = np.where(np.arange(10) < 5, 100.0, 1.0)
    assert set(choose(points, np.full(10, 0.1), budget=5, cost=cost)) == set(range(5, 10))
    heavy = np.where(np.arange(10) == 7, 1.0, 1e-3)
    assert choose(points, heavy, budget=1)[0] == 7


@pytest.mark.no_cover
def test_the_same_candidates_give_the_same_batch_in_their_thousands() -> None:
    points = np.random.default_rng(0).normal(size=(4000, 3))
    first, second = (choose(points, np.ones(4000), budget=5, measured=[3999]) for _ in range(2))
    assert first.tolist() == second.tolist()


def test_an_error_is_expected_of_groups_that_stay_unknown_and_of_those_the_batch_makes_known() -> (
    None
):
    groups, known = np.array(["a", "a", "b", "c"]), np.array([True, True, False, False])
    errors = np.array([1.0, 5.0, 10.0, 20.0])
    of_groups = {"errors": errors, "unseen_error": 10.0, "trained_error": 2.0}
    found = expected_error(groups, known, np.array([2]), **of_groups, trained=10)
    unseen, seen = 1.1**-0.15, 1.1**-0.3
    first = 2 * seen + (10 * unseen - 2 * seen) * 6 / 7
    assert found == {
        "now": pytest.approx(9),
        "after": pytest.approx((1 * seen + 5 * seen + first + 20 * unseen) / 4),
        "unseen": pytest.approx(10 * unseen),
        "new_groups": 1,
    }

    shares = importance(groups, errors)
    assert shares.sum() == pytest.approx(1)
    assert shares[2] == pytest.approx(10 * np.sqrt(2) * shares[0])


def test_errors_are_expected_to_fall_as_rows_are_added_to_few_and_hardly_to_many() -> None:
    groups, known = np.array(["a", "b"] * 128), np.zeros(256, dtype=bool)
    alike: dict[str, Any] = {
        "errors": np.full(256, 10.0),
        "unseen_error": 10.0,
        "trained_error": 10.0,
    }
    few, many = (
        expected_error(groups, known, np.arange(256), **alike, trained=trained)
        for trained in (120, 100_000)
    )
    assert few["after"] < few["unseen"] < 8.5
    assert 9.9 < many["after"] < 10


def test_sizes_are_told_apart_by_their_logarithms() -> None:
    X = pd.DataFrame({"log2.m": [1.0, 2.0, 3.0], "m": [2.0, 4.0, 8.0], "log2.n": [5.0, 5.0, 5.0]})
    assert coordinates(X).shape == (3, 1)
    assert coordinates(X[["m"]])[:, 0].std() == pytest.approx(1)


@pytest.mark.long
def test_a_run_is_advised_on_what_its_host_measured_and_its_target_did_not() -> None:
    rng = np.random.default_rng(0)
    shapes = pd.DataFrame(
        [(16 * m, 512 * n, 2048) for n in range(1, 9) for m in (1, 2, 4, 8, 16)],
        columns=list("mnk"),
    )
    host = shapes.assign(
        op="gemm", dtype_a="bf16", device="MI300X", duration_us=10 + shapes.prod(axis=1) / 2e7
    )
    target = host.assign(
        device="MI355X", duration_us=0.7 * host["duration_us"] * np.exp(rng.normal(0, 0.02, 40))
    )
    old = shapes["n"] <= 512 * 4
    run = fc.train(
        pd.concat([host[old], target[old]]),
        host="MI300X",
        target="MI355X",
        models=["Additive"],
        jobs=1,
    )
    found = fc.advise(run, pd.concat([host, target[old]]), rows=4)
    assert (found.summary["candidates"], found.summary["measured_already"]) == (20, 20)
    assert len(found.batch) == 4
    assert found.summary["groups"] >= 3
    assert not found.batch["known"].any()
    expected = found.summary["expected"]
    assert expected["after"] <= expected["now"]
    assert fc.advise(run, host.assign(cost_s=30.0), budget=120.0).summary["rows"] == 4
    assert found.document().data["batch"][0]["device"] == "MI300X"
    with pytest.raises(fc.ParameterError):
        fc.advise(run, host)
    with pytest.raises(fc.ParameterError):
        fc.advise(run, host, rows=4, weight="calls")


def test_advise_says_which_number_is_missing_and_which_is_too_many() -> None:
    with pytest.raises(ParameterError, match=r"rows is missing.*give a budget"):
        fc.advise("run", pd.DataFrame())
    with pytest.raises(ParameterError, match="rows cannot be given with a budget"):
        fc.advise("run", pd.DataFrame(), rows=1, budget=1.0)
