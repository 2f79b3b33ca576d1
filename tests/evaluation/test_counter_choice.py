"""Which counters to record: chosen within the passes of a profiler, and inside the fold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.benchmarks.made_up_counters import CAUSES, workloads
from flopcast.errors import DataError
from flopcast.evaluation import counter_choice
from flopcast.evaluation.competition import columnar
from flopcast.evaluation.counter_choice import (
    WithinPasses,
    ablation,
    by_passes,
    choose,
    fewest,
    in_passes,
    recorded,
)
from flopcast.evaluation.crossval import cross_validate
from flopcast.features.matrix import Dataset, build_dataset
from flopcast.models.base import Candidate
from flopcast.models.suite import suite
from flopcast.table.counters import per_pass

LIMITS = dict(per_pass())


def dataset(n: int = 60, p: int = 30, **columns: Any) -> Dataset:
    table = fc.read(workloads(n, p).assign(**columns)).frame
    return build_dataset(table, host=fc.gpu("MI300X"), target=fc.gpu("MI355X"))


@pytest.fixture
def linear_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_choice, "CATEGORIES", {"OLS": ("OLS",), "NNLS": ("NNLS",)})


def test_counters_fill_passes_block_by_block() -> None:
    names = ["TA_A", "TA_B", "SQ_A", "TA_C", "SQC_A", "loss"]
    assert in_passes(names, LIMITS) == [["TA_A", "TA_B", "SQ_A", "SQC_A", "loss"], ["TA_C"]]
    assert in_passes(names, {**LIMITS, "SQ": 1})[1] == ["TA_C", "SQC_A"]
    assert in_passes([], LIMITS) == []
    columns = [
        "host_us",
        "counter.TCC_HIT.sum",
        "counter.TCC_HIT.max",
        "counter.epoch.kernels",
        "counter.SQ_WAVES",
    ]
    assert recorded(columns) == ["TCC_HIT", "SQ_WAVES"]


def test_of_hundreds_of_counters_those_that_make_the_time_are_found_where_they_fit() -> None:
    data = dataset(200, 300)
    causes = {f"counter.{name}" for name in CAUSES}
    two = choose(data.X, data.y, 2, LIMITS)
    assert len(causes & set(two)) >= 5
    assert len(two) <= 8
    one = choose(data.X, data.y, 1, LIMITS)
    assert sum(name.startswith("counter.TA_") for name in one) <= LIMITS["TA"]
    assert choose(data.X, data.y, 0, LIMITS) == []


def test_the_summaries_of_one_counter_cost_one_place() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        rng.lognormal(size=(80, 3)),
        columns=["counter.TD_A.sum", "counter.TD_A.max", "counter.TD_B"],
    )
    y = X.to_numpy() @ [3.0, 2.0, 0.1]
    assert sorted(choose(X, y, 1, {**LIMITS, "TD": 1})) == ["counter.TD_A.max", "counter.TD_A.sum"]


def test_counters_chosen_outside_the_fold_would_flatter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters of noise, as many as fit: chosen from all rows they seem to help, chosen inside the fold they do not."""
    monkeypatch.setattr(
        counter_choice._Space, "thinned", lambda self, chosen, penalty: list(chosen)
    )
    data, rng = dataset(60, 6), np.random.default_rng(1)
    y = data.host_values * rng.lognormal(0, 0.5, 60)
    noise = rng.uniform(0.5, 1.5, size=(60, 500)) * data.host_values[:, None]
    X = data.X[["host_us"]].join(
        pd.DataFrame(noise, columns=[f"counter.SQ_N{j}" for j in range(500)])
    )
    roles = dict.fromkeys(map(str, X.columns), "additive")
    planted = replace(
        data,
        X=X,
        y=y,
        recipe=replace(data.recipe, columns=tuple(roles), roles=roles),
        unpaired=None,
    )
    leaked = choose(X, y, 1, LIMITS)
    seen = replace(columnar(planted), roles=dict.fromkeys(["host_us", *leaked], "additive"))
    models = [
        *suite("default", seen, 0, ["OLS"]),
        *(
            Candidate(
                f"{passes}",
                WithinPasses("OLS", columnar(planted), passes, LIMITS),
                "relative error",
            )
            for passes in (0, 1)
        ),
    ]
    rows = cross_validate(planted, models, schemes=("kfold",))["kfold"].rows
    of_all, none, inside = (row["e_out"] for row in rows)
    assert of_all < 0.8 * none
    assert inside > 0.95 * none


def test_passes_against_error_and_families_left_out(linear_only: None) -> None:
    data = dataset()
    tried = by_passes(data, 1, LIMITS)
    assert [(one.columns, one.category) for one in tried] == [
        (columns, kind) for columns in ("0 passes", "1 pass", "all") for kind in ("OLS", "NNLS")
    ]
    errors = {one.columns: one.e_out for one in tried if one.category == "NNLS"}
    assert errors["1 pass"] < 0.5 * errors["0 passes"]
    assert fewest(tried, data, 1).passes == 1
    assert fewest(tried, data, 0).columns == "0 passes"
    (ols, _) = ablation(data, ["counter.*"], LIMITS)
    assert (ols.columns, ols.passes, ols.counters) == ("without counter.*", 0, 0)
    assert ols.e_out > 2 * min(one.e_out for one in tried)


def test_families_of_nothing_and_rows_without_counters_are_refused(linear_only: None) -> None:
    data = dataset()
    with pytest.raises(DataError, match=r"counter\.L9\* matches no feature"):
        ablation(data, ["counter.L9*"], LIMITS)
    with pytest.raises(DataError, match="every feature"):
        ablation(data, ["*"], LIMITS)
    with pytest.raises(DataError, match="no counters"):
        by_passes(counter_choice.without(data, ["counter.*"]), 1, LIMITS)


def test_with_more_counters_than_workloads_plain_least_squares_explode_and_others_do_not() -> None:
    data = dataset(150, 288)
    assert data.X.shape[1] > 288 > len(data) == 150
    errors = {}
    for kind, names in (("literature", ["OLS"]), ("default", ["OLS", "NNLS/Forward/BIC"])):
        found = cross_validate(
            replace(data, unpaired=None), suite(kind, columnar(data), 0, names), schemes=("kfold",)
        )["kfold"]
        errors |= {(kind, row["name"]): row["e_out"] for row in found.rows}
    assert min(errors["literature", "OLS"], errors["default", "OLS"]) > 40
    assert errors["default", "NNLS/Forward/BIC"] < 5
    held_out = found.folds == 0
    (trees,) = suite("default", columnar(data), 0, ["BoostedTrees"])
    predicted = trees.estimator.fit(data.X[~held_out], data.y[~held_out]).predict(data.X[held_out])
    assert np.mean(np.abs(predicted / data.y[held_out] - 1)) < 0.1
