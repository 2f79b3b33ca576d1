"""How the model of serving is made: constants that are found again, what a law misses chosen on other groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor

from flopcast.benchmarks.serving_model import (
    BETWEEN,
    NEW,
    Learnt,
    board_cells,
    constants,
    grown,
    moves,
    packed,
    questions,
    trusted,
)
from flopcast.workloads.serving_model import (
    NEW_COMBINATION,
    NEW_RELEASE,
    points_of,
    shipped,
    summed,
)


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
    own = pd.DataFrame(
        {"group": np.repeat(np.arange(5), 10), "place": 0, "missed": missed, "law": 1.0 - missed}
    )
    questions = (*NEW, BETWEEN, NEW_RELEASE)
    found = pd.concat([own.assign(question=name) for name in questions], ignore_index=True)
    runs = shipped().runs.iloc[:5].assign(engine_version="")
    scored, parts = trusted(found, runs, points_of(runs))
    assert set(parts) == {*NEW, NEW_RELEASE}
    assert set(parts.values()) == {(0.0, 0.0)}
    assert set(scored["question"]) == set(questions) - {BETWEEN}
    assert scored["missed"].to_numpy() == pytest.approx(scored["law"].to_numpy())


def test_of_a_combination_any_two_of_model_format_gpu_and_engine_are_left_out() -> None:
    runs = shipped().runs.assign(measured="")
    together = runs[runs["apart"] != "yes"]
    names = points_of(runs).names
    asked = [
        rows
        for question, rows, _ in questions(points_of(runs), runs)
        if question == NEW_COMBINATION
    ]
    assert sum(map(len, asked)) == 6 * len(together)
    of_one_model_and_gpu = {name: names[name][together.index] for name in ("model", "GPU")}
    pair = np.all([codes == codes[0] for codes in of_one_model_and_gpu.values()], axis=0)
    assert any(np.array_equal(rows, together.index[pair]) for rows in asked)


def test_where_process_and_trees_miss_to_both_sides_their_mean_is_taken() -> None:
    own = pd.DataFrame(
        {"group": np.repeat(np.arange(5), 10), "place": 0, "missed": 0.5, "law": 1.0, "trees": 1.5}
    )
    questions = (*NEW, BETWEEN, NEW_RELEASE)
    found = pd.concat([own.assign(question=name) for name in questions], ignore_index=True)
    runs = shipped().runs.iloc[:5].assign(engine_version="")
    scored, parts = trusted(found, runs, points_of(runs))
    assert set(parts.values()) == {(0.5, 0.5)}
    assert scored["missed"].to_numpy() == pytest.approx(0.0)


def test_packed_trees_answer_as_the_forest_they_were() -> None:
    rng = np.random.default_rng(0)
    asked = rng.normal(size=(300, 4))
    forest = ExtraTreesRegressor(10, min_samples_leaf=3, random_state=0).fit(
        asked, asked[:, 0] * asked[:, 1]
    )
    assert packed(forest).predicted(asked) == pytest.approx(forest.predict(asked), abs=1e-6)


def test_trees_do_not_hang_on_the_last_digit_of_what_the_law_misses() -> None:
    runs = shipped().runs.iloc[:600].reset_index(drop=True)
    points, fit, rng = points_of(runs), shipped().fits["ttft_ms"], np.random.default_rng(0)
    base, shares = summed(points, fit, "ttft_ms")
    missing = rng.normal(fit.centre, 0.3, len(runs))
    nudged = missing + 1e-15 * rng.choice([-1.0, 1.0], len(runs))
    one, two = (
        grown(Learnt(fit, np.arange(len(runs)), each, base, shares, (shares, True)), points, runs)
        for each in (missing, nudged)
    )
    assert np.array_equal(one.nodes, two.nodes)


def test_errors_of_few_groups_move_as_their_means_do_however_many_runs_each_has() -> None:
    means = np.array([0.05, 0.1, 0.3, 0.2])
    of_mean = means.std(ddof=1) / 2.0  # 4 groups
    for runs in (1, 100):
        errors, groups = np.repeat(means, runs), np.repeat(np.arange(4), runs)
        assert moves(errors, groups)[0] == pytest.approx(of_mean, rel=0.05)


def test_the_scoreboard_that_ships_says_how_many_groups_it_rests_on() -> None:
    rows = {cells[0]: cells for cells in board_cells(shipped().about["scoreboard"])}
    assert rows["NVIDIA: new GPU"][1].endswith(" of 4 GPUs")
    assert rows["AMD: new GPU"][1].endswith(" of 3 GPUs")
    assert "±" in rows["AMD: new GPU"][2]
    assert rows["AMD: new vendor"][4] == rows["AMD: new vendor"][7] == "–"
