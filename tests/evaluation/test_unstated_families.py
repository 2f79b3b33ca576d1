"""Groups that come in families which no column states leave a trace in the order of the table, or in a label."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.evaluation import unstated_families as module
from flopcast.evaluation.unstated_families import LEVEL, unstated_families

GROUPS, EACH = 24, 4


@pytest.fixture(autouse=True)
def few_permutations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PERMUTATIONS", 299)


def made_up(seed: int, family: float) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Return rows, groups and errors: six families of four groups differ by so much, groups by 3 %, rows by 3 %."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(GROUPS), EACH)
    shifts = rng.normal(0, family, GROUPS // 4)[np.arange(GROUPS) // 4]
    shifts = shifts + rng.normal(0, 0.03, GROUPS)
    errors = shifts[group] + rng.normal(0, 0.03, len(group))
    rows = pd.DataFrame({"source": [f"row {number + 1}" for number in range(len(group))]})
    rows["n"] = 128.0 * (1 + rng.permutation(GROUPS))[group]
    return rows, group, errors


def test_neighbours_that_err_alike_are_told_and_shuffled_ones_are_not() -> None:
    rows, group, errors = made_up(0, family=0.12)
    trace = unstated_families(rows, group, errors)
    assert trace is not None
    assert (trace.code, trace.values["by"], trace.values["groups"]) == (
        "unstated-families",
        "order",
        GROUPS,
    )
    assert trace.values["p_value"] < LEVEL
    lines = np.random.default_rng(1).permutation(len(rows))
    shuffled = rows.assign(source=[f"row {line}" for line in lines])
    assert unstated_families(shuffled, group, errors) is None
    assert unstated_families(rows.drop(columns="source"), group, errors) is None
    assert unstated_families(rows[:28], group[:28], errors[:28]) is None  # seven groups


def test_independent_groups_are_called_families_no_more_often_than_the_level_says() -> None:
    alarms = [unstated_families(*made_up(seed, family=0.0)) is not None for seed in range(100)]
    assert sum(alarms) <= 11  # the binomial 99 % quantile of 5 %


def test_a_label_that_no_model_reads_is_told_with_what_to_do() -> None:
    rows, group, errors = made_up(2, family=0.12)
    lines = np.random.default_rng(1).permutation(len(rows))
    rows = rows.assign(source=[f"row {line}" for line in lines])
    labelled = rows.assign(server=[f"node {family}" for family in group // 4])
    trace = unstated_families(labelled, group, errors)
    assert trace is not None
    assert trace.values["by"] == "server"
    assert "rename server=campaign" in trace.text
    assert unstated_families(labelled, group, errors, read={"server"}) is None
    of_each_row = rows.assign(server=[f"node {number % 6}" for number in range(len(rows))])
    assert unstated_families(of_each_row, group, errors) is None


def test_what_sizes_explain_is_no_family() -> None:
    rows, group, errors = made_up(3, family=0.0)
    sorted_by_size = rows.assign(n=2.0 ** (group / 4))
    assert unstated_families(sorted_by_size, group, errors + 0.02 * group) is None
    assert unstated_families(rows, group, errors + 0.02 * group) is not None


def test_a_run_says_that_its_groups_seem_to_come_in_families() -> None:
    rng = np.random.default_rng(4)
    m = np.unique(np.geomspace(16, 8192, 6).astype(int))
    tables = []
    for family, shift in enumerate(rng.permutation([-0.2, -0.1, 0.1, 0.2, 0.3])):
        for _ in range(4):
            n, k = 128 * rng.integers(4, 64, 2)
            us = (5 + m * n * k * 1e-9) * np.exp(shift + rng.normal(0, 0.02, len(m)))
            table = pd.DataFrame({"m": m, "n": n, "k": k, "duration_us": us})
            tables.append(table.assign(search=f"search {family}"))
    rows = pd.concat(tables, ignore_index=True)
    rows = rows.assign(op="gemm", dtype_a="fp8", device="MI300X")
    options = {"target": "MI300X", "models": ["Additive"], "jobs": 1}
    unstated = fc.train(rows.drop(columns="search"), **options)
    assert "the 20 groups seem to come in families" in repr(unstated.metrics["data"]["notes"])
    stated = fc.train(rows.rename(columns={"search": "campaign"}), **options)
    assert "seem to come in families" not in repr(stated.metrics["data"]["notes"])
