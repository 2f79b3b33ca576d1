"""How the model of serving is made: constants that are found again, what a law misses chosen on other groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from flopcast.benchmarks.serving_model import BETWEEN, constants, packed, trusted
from flopcast.workloads.serving_model import BASES, NEW_RELEASE, points_of, shipped


def test_known_constants_are_found_again_and_wild_runs_move_them_little() -> None:
    rng = np.random.default_rng(0)
    parts = {"weights": rng.uniform(1, 10, 600), "layers": rng.uniform(1, 10, 600)}
    groups = np.where(np.arange(600) % 2, "a|closed", "b|closed")
    true = np.array([2.0, 0.5])
    times = np.column_stack([*parts.values()]) @ true
    times[:60] *= 1e4  # least squares alone would move all by a factor of 2.5
    found = constants(parts, groups, times, "tpot_ms")
    for name in ("a|closed", "b|closed"):
        assert np.exp(found[""] + found[name]) == pytest.approx(true, rel=0.25)


def test_the_part_for_a_group_is_chosen_on_the_others_and_for_later_runs_on_those_before() -> None:
    # of one group the process is right, of the other four the law
    missed = np.repeat([0.0, 1.0, 1.0, 1.0, 1.0], 10)
    own = pd.DataFrame({"group": np.repeat(np.arange(5), 10), "place": 0, "missed": missed, "law": 1.0 - missed})
    questions = (*BASES[1:5], BETWEEN, NEW_RELEASE)
    found = pd.concat([own.assign(question=name) for name in questions], ignore_index=True)
    runs = shipped().runs.iloc[:5].assign(engine_version="")
    scored, parts = trusted(found, runs, points_of(runs))
    assert set(parts) == {*BASES[1:5], NEW_RELEASE}
    assert set(parts.values()) == {(0.0, 0.0)}
    assert set(scored["question"]) == set(questions) - {BETWEEN}
    assert scored["missed"].to_numpy() == pytest.approx(scored["law"].to_numpy())


def test_where_process_and_trees_miss_to_both_sides_their_mean_is_taken() -> None:
    own = pd.DataFrame({"group": np.repeat(np.arange(5), 10), "place": 0, "missed": 0.5, "law": 1.0, "trees": 1.5})
    questions = (*BASES[1:5], BETWEEN, NEW_RELEASE)
    found = pd.concat([own.assign(question=name) for name in questions], ignore_index=True)
    runs = shipped().runs.iloc[:5].assign(engine_version="")
    scored, parts = trusted(found, runs, points_of(runs))
    assert set(parts.values()) == {(0.5, 0.5)}
    assert scored["missed"].to_numpy() == pytest.approx(0.0)


def test_packed_trees_answer_as_the_forest_they_were() -> None:
    rng = np.random.default_rng(0)
    asked = rng.normal(size=(300, 4))
    forest = ExtraTreesRegressor(10, min_samples_leaf=3, random_state=0).fit(asked, asked[:, 0] * asked[:, 1])
    assert packed(forest).predicted(asked) == pytest.approx(forest.predict(asked), abs=1e-6)
