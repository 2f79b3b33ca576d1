"""What a run saves: a model for each question, and intervals by how well a group is known."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import ArtifactError
from flopcast.evaluation.folds import rows_in_other_folds
from flopcast.evaluation.interval_scale import PRIOR_ROWS, STRATA, Strata
from flopcast.evaluation.trained_model import TrainedModel
from flopcast.table.problems import rows_of

LEFT_OUT = 5  # every fifth row is kept back


@pytest.fixture(scope="module")
def measured() -> pd.DataFrame:
    """Products of MI300X alone: 16 weight shapes of the embedded table with their first 60 rows each."""
    rows = rows_of(fc.read().frame, "MI300X")
    shape = rows["n"].astype(str) + "x" + rows["k"].astype(str)
    some = rows[shape.isin(sorted(shape.unique())[:16])]
    return some.groupby(["n", "k"]).head(60).reset_index(drop=True)


@pytest.fixture(scope="module")
def run(measured: pd.DataFrame) -> fc.Run:
    return fc.train(measured[measured.index % LEFT_OUT != 0], target="MI300X", quick=True, jobs=1)


def test_what_is_stated_for_known_groups_is_what_their_rows_get(
    run: fc.Run, measured: pd.DataFrame
) -> None:
    kept_back = measured[measured.index % LEFT_OUT == 0].reset_index(drop=True)
    answers = run.trained.predict(kept_back, 0.9)
    errors = 100 * np.abs(answers["predicted"] / kept_back["duration_us"] - 1)
    stated = next(cv["selected"]["e_out"] for cv in run.metrics["cv"] if cv["scheme"] == "kfold")
    assert 0.7 < errors.mean() / stated < 1.4
    assert set(answers["basis"]) <= {"known group", "beyond", "blend", "rule"}


def test_each_row_is_answered_by_the_model_of_its_question(
    run: fc.Run, measured: pd.DataFrame
) -> None:
    model = run.trained
    assert model.of_trained_groups is not None
    known = measured.iloc[30:33].reset_index(drop=True)
    new = known.assign(n=known["n"] + 256)
    both = pd.concat([new, known, new], ignore_index=True)
    answers = model.predict(both, 0.9)
    apart = [
        model.predict(new, 0.9),
        model.of_trained_groups.predict(known, 0.9),
        model.predict(new, 0.9),
    ]
    pd.testing.assert_frame_equal(
        answers.drop(columns="reasons"), pd.concat(apart, ignore_index=True).drop(columns="reasons")
    )
    assert answers["basis"].tolist()[3:6] == ["known group"] * 3
    assert model.answering(known.head(1)) is model.of_trained_groups
    assert model.answering(new.head(1)) is model


def test_both_models_are_saved_and_neither_loads_without_the_other(
    run: fc.Run, tmp_path: Path
) -> None:
    run.save(tmp_path / "run")
    loaded = fc.load(tmp_path / "run").trained
    assert loaded.of_trained_groups is not None
    assert (loaded.name, loaded.of_trained_groups.scheme, loaded.scheme) == (
        run.trained.name,
        "kfold",
        "grouped",
    )
    assert run.trained.of_trained_groups is not None
    before = run.trained.of_trained_groups.spreads["kfold"].strata
    assert loaded.of_trained_groups.spreads["kfold"].strata == before
    shutil.rmtree(tmp_path / "run" / "model" / "known")
    with pytest.raises(ArtifactError):
        TrainedModel.load(tmp_path / "run")


def test_barely_known_groups_have_wider_intervals() -> None:
    rng = np.random.default_rng(0)
    rows = np.repeat([5, 500], 2000)
    scores = np.abs(rng.normal(size=4000)) * np.where(rows == 5, 3.0, 1.0)
    strata = Strata.learn(scores, rows)
    few, many = strata.scale(np.array([5, 500]))
    assert few / many == pytest.approx(3, rel=0.1)
    assert strata.scale(np.array([30]))[0] == 1.0  # nobody was seen there
    widths = strata.scale(rows)
    radius = np.quantile(scores / widths, 0.9)
    for count in (5, 500):
        assert np.mean((scores <= radius * widths)[rows == count]) == pytest.approx(0.9, abs=0.02)


def test_a_stratum_of_few_rows_is_shrunk_to_all() -> None:
    scores = np.r_[np.linspace(0.01, 1, 1000), np.full(PRIOR_ROWS, 8.0)]
    rows = np.r_[np.full(1000, 300), np.full(PRIOR_ROWS, 3)]
    alone = 8.0 / np.quantile(scores, 0.9)
    assert Strata.learn(scores, rows).factors[0] == pytest.approx(alone**0.5, rel=0.03)


def test_a_barely_known_group_lies_between_known_and_new_ones() -> None:
    rng = np.random.default_rng(2)
    rows = np.r_[np.full(1000, 300), np.full(PRIOR_ROWS, 4)]
    scores = np.abs(rng.normal(size=len(rows)))
    alone, beside = Strata.learn(scores, rows), Strata.learn(scores, rows, 3.0)
    expected = Strata.expected(3.0)
    assert beside.factors[0] / alone.factors[0] == pytest.approx(expected[0] ** 0.5)
    assert 1 < expected[0] < 3
    assert list(expected) == sorted(expected, reverse=True)  # the more rows, the better known
    assert beside.factors[1] == expected[1]  # nobody was seen there
    assert beside.factors[-1] == pytest.approx(alone.factors[-1])
    assert Strata.expected(1.0).tolist() == [1.0] * (len(STRATA) + 1)


def test_strata_of_a_manifest_are_checked() -> None:
    assert Strata.from_list([1.0] * (len(STRATA) + 1)).factors == (1.0,) * (len(STRATA) + 1)
    for wrong in ([1.0], [0.0] * (len(STRATA) + 1), [np.inf] * (len(STRATA) + 1)):
        with pytest.raises(ValueError, match="strata"):
            Strata.from_list(wrong)


def test_rows_of_a_group_in_other_folds_are_counted() -> None:
    rng = np.random.default_rng(1)
    groups, folds = rng.integers(4, size=60).astype(str), rng.integers(5, size=60)
    counted = rows_in_other_folds(groups, folds)
    for row in range(60):
        assert counted[row] == np.sum((groups == groups[row]) & (folds != folds[row]))


def test_answers_do_not_depend_on_the_order_of_the_rows(
    run: fc.Run, measured: pd.DataFrame
) -> None:
    trained = measured[measured.index % LEFT_OUT != 0]
    shuffled = trained.sample(frac=1, random_state=1).reset_index(drop=True)
    again = fc.train(shuffled, target="MI300X", quick=True, jobs=1)
    asked = measured[measured.index % LEFT_OUT == 0].reset_index(drop=True)
    new = asked.assign(n=asked["n"] + 256)
    for rows in (asked, new):
        first, second = run.trained.predict(rows, 0.9), again.trained.predict(rows, 0.9)
        pd.testing.assert_frame_equal(first, second, check_exact=True)
    assert [cv["selected"] for cv in again.metrics["cv"]] == [
        cv["selected"] for cv in run.metrics["cv"]
    ]
