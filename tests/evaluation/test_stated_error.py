"""What is stated of rows is the error of rows like them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.evaluation.selection import select
from flopcast.evaluation.stated_error import (
    BEYOND,
    EVERY,
    WITHIN,
    Part,
    StatedErrors,
    by_trained_rows,
    parts_of_new,
    parts_of_trained,
)

FEW, MANY = Part(10, 10.0, 9.0, 0.2), Part(290, 290.0, 3.0, 0.05)
ERRORS = StatedErrors(
    {
        "known group": {"up to 10": FEW, "more than 200": MANY},
        "new group": {WITHIN: Part(80, 8.0, 12.0, 0.3), BEYOND: Part(20, 3.0, 40.0, 0.5)},
        "new campaign": {EVERY: Part(100, 5.0, 20.0, 0.3)},
    }
)


def test_the_error_of_rows_is_the_mean_of_their_parts() -> None:
    alone = ERRORS.of({("known group", "up to 10"): 7})
    assert alone is not None
    assert (alone.rows, alone.error) == (7, 9.0)
    assert np.log(alone.upper / 9) == pytest.approx(2.262 * 0.2, rel=1e-3)  # t of 9 degrees
    asked = {("known group", "more than 200"): 30, ("new group", ""): 10, ("beyond", ""): 500}
    mixed = ERRORS.of(asked)
    assert mixed is not None
    assert (mixed.rows, mixed.error) == (40, pytest.approx((30 * 3 + 10 * 12) / 40))
    assert mixed.lower < mixed.error < mixed.upper
    campaign = ERRORS.of({("new campaign", ""): 1})
    assert campaign is not None
    assert campaign.error == 20.0


def test_of_a_stratum_without_rows_that_of_fewer_speaks_and_nothing_is_stated_of_others() -> None:
    between = ERRORS.of({("known group", "up to 60"): 1})
    assert between is not None
    assert between.error == FEW.e_out
    first = StatedErrors({"known group": {"more than 200": MANY}}).of(
        {("known group", "up to 10"): 1}
    )
    assert first is not None
    assert first.error == MANY.e_out
    assert ERRORS.of({("blend", ""): 3, ("new device", ""): 2}) is None
    assert StatedErrors.from_dict(ERRORS.to_dict()) == ERRORS


@pytest.mark.parametrize("name", ["rows", "units", "e_out", "sigma", "least"])
def test_damaged_parts_are_refused(name: str) -> None:
    saved = ERRORS.to_dict()
    saved["known group"]["more than 200"][name] = -1
    with pytest.raises(ValueError, match="must be positive"):
        StatedErrors.from_dict(saved)


def test_rows_are_told_apart_by_the_trained_rows_of_their_group_and_by_the_range() -> None:
    trained = np.array([0, 10, 11, 200, 201])
    assert by_trained_rows(trained).tolist() == [
        "up to 10",
        "up to 10",
        "up to 25",
        "up to 200",
        "more than 200",
    ]
    within = np.array([True, False, True, True, True])
    parts = parts_of_trained(trained, within)
    assert {name: rows.tolist().count(True) for name, rows in parts.items()} == {
        "up to 10": 1,
        "up to 25": 1,
        "up to 60": 0,
        "up to 200": 1,
        "more than 200": 1,
    }
    groups = np.repeat(np.arange(12), 2)
    inside = groups < 10
    assert parts_of_new(groups, inside)[WITHIN].sum() == 20
    assert list(parts_of_new(groups, groups < 9)) == [EVERY]


def test_a_selection_states_each_part_apart() -> None:
    rng = np.random.default_rng(0)
    few = np.arange(300) < 30
    observed = np.full(300, 100.0)
    noise = np.where(few, 0.10, 0.02) * rng.normal(size=300)
    predictions = pd.DataFrame({"one": observed * (1 + noise)})
    parts = {"few": few, "many": ~few, "none": np.zeros(300, dtype=bool)}
    found = select(observed, predictions, np.arange(300) % 5, scheme="kfold", parts=parts)
    errors = 100 * np.abs(noise)
    assert set(found["parts"]) == {"few", "many"}
    assert found["parts"]["few"]["e_out"] == pytest.approx(errors[few].mean(), rel=0.05)
    assert found["parts"]["many"]["e_out"] == pytest.approx(errors[~few].mean(), rel=0.02)
    deviation = errors[few].std(ddof=1) / np.sqrt(30) / errors[few].mean()
    assert found["parts"]["few"]["sigma"] == pytest.approx(deviation, rel=0.01)
    assert found["parts"]["few"]["rows"] == found["parts"]["few"]["units"] == 30


def test_all_rows_may_err_less_than_those_of_folds() -> None:
    rng = np.random.default_rng(0)
    observed = np.full(100, 100.0)
    predictions = pd.DataFrame({"one": observed * (1 + 0.05 * rng.normal(size=100))})
    whole = select(observed, predictions, np.arange(100) % 5, scheme="kfold")
    found = select(observed, predictions, np.arange(100) % 5, scheme="kfold", folds=10)
    assert found["interval"][0] == pytest.approx(np.sqrt(0.9) * whole["interval"][0])
    assert found["interval"][1] == whole["interval"][1]
    part = Part.from_dict(found["parts"]["every"])
    stated = StatedErrors({"new group": {EVERY: part}}).of({("new group", ""): 1})
    assert stated is not None
    assert stated.lower * stated.upper == pytest.approx(np.sqrt(0.9) * stated.error**2)


def unequal_groups() -> pd.DataFrame:
    """Three groups of 60 rows that scatter by 2 %, and one of 8 that scatters by 20 %."""
    rng = np.random.default_rng(1)
    m = np.unique(np.geomspace(16, 8192, 60).astype(int))
    tables = []
    for place, (rows, noise) in enumerate([(60, 0.02), (60, 0.02), (60, 0.02), (8, 0.2)]):
        some = rng.permutation(m)[:rows]
        table = pd.DataFrame({"m": some, "n": 1024 * (place + 1), "k": 2048})
        work = table["m"] * table["n"] * 1e-4
        tables.append(table.assign(duration_us=(5 + work) * np.exp(noise * rng.normal(size=rows))))
    return pd.concat(tables).assign(op="gemm", dtype_a="fp8", device="MI300X")


@pytest.fixture(scope="module")
def run() -> fc.Run:
    return fc.train(unequal_groups(), target="MI300X", models=["OLS"], jobs=1)


ASKED = pd.DataFrame({"m": [100, 300, 900], "k": 2048, "op": "gemm", "dtype_a": "fp8"})


def test_predictions_say_the_error_of_the_rows_that_are_asked_for(run: fc.Run) -> None:
    stated = {}
    for n in (1024, 4096):
        stated[n] = fc.predict(run, ASKED.assign(n=n)).summary["stated_error"]
    parts = next(cv for cv in run.metrics["cv"] if cv["scheme"] == "kfold")["selected"]["parts"]
    assert stated[1024]["error"] == parts["up to 60"]["e_out"]
    assert stated[4096]["error"] == parts["up to 10"]["e_out"] > 2 * stated[1024]["error"]
    assert stated[4096]["rows"] == 3
    short = repr(run.document().short)
    assert "up to 10 rows " in short


def test_checks_and_advice_state_the_error_that_predictions_state(run: fc.Run) -> None:
    rows = pd.concat([ASKED.assign(n=1024), ASKED.assign(n=[4096, 4096, 2560])])
    rows = rows.assign(device="MI300X", duration_us=50.0 + np.arange(6))
    stated = fc.predict(run, rows).summary["stated_error"]
    checked = run.check(rows)
    assert checked.found.stated is not None
    assert checked.found.stated._asdict() == pytest.approx(stated)
    document = checked.document()
    assert document.data["stated_error"] == pytest.approx(stated)
    assert f"{stated['error']:.1f} %" in repr(document.opening)
    advice = fc.advise(run, rows.drop(columns="duration_us"), rows=2).summary
    assert advice["not_stated"] == 1  # a size that lies beyond the range counts as a new group
    grouped = next(cv for cv in run.metrics["cv"] if cv["scheme"] == "grouped")
    of_new = grouped["selected"]["parts"][EVERY]["e_out"]
    expected = (5 * stated["error"] + of_new) / 6
    assert advice["expected"]["now"] == pytest.approx(expected)
    assert fc.needed(run, 1e-3).now == pytest.approx(of_new / 100)


def test_rows_of_which_a_run_promises_nothing_do_not_make_it_invalid() -> None:
    table = unequal_groups()
    one_group = fc.train(table[table["n"] == 1024], target="MI300X", models=["OLS"], jobs=1)
    checked = one_group.check(table.assign(m=table["m"] + 1))
    others = int((table["n"] != 1024).sum())
    assert checked.found.nothing_promised == others
    assert checked.verdict == "too few data"
    assert checked.to_dict()["nothing_promised"] == others
    trained_on_all = fc.train(table, target="MI300X", models=["OLS"], jobs=1)
    assert trained_on_all.check(table.assign(m=table["m"] + 1)).found.nothing_promised == 0


def test_groups_of_one_row_do_not_tell_of_known_groups() -> None:
    table = unequal_groups()
    table = table.iloc[:12].assign(n=[256 * place for place in range(1, 13)])
    run = fc.train(table, target="MI300X", models=["OLS"], jobs=1)
    (note,) = (note for note in run.metrics["data"]["notes"] if "rows-alone" in note)
    assert "12 of 12 rows are alone in their group" in note


def test_the_interval_of_all_rows_is_that_of_their_parts_together() -> None:
    rng = np.random.default_rng(0)
    few = np.arange(230) >= 200
    noise = np.where(few, 0.2, 0.05) * rng.normal(size=230)
    predictions = pd.DataFrame({"one": 100 * (1 + noise)})
    names = np.where(few, "up to 10", "more than 200")
    parts = {str(name): names == name for name in np.unique(names)}
    found = select(np.full(230, 100.0), predictions, names, scheme="kfold", parts=parts, folds=10)
    errors = StatedErrors.from_dict({"known group": found["parts"]})
    asked = {("known group", name): int(rows.sum()) for name, rows in parts.items()}
    stated = errors.of(asked)
    assert stated is not None
    assert (found["e_out"], found["interval"]) == (stated.error, [stated.lower, stated.upper])


def test_the_error_beyond_the_range_is_that_of_new_groups_there() -> None:
    assert ERRORS.beyond == 40.0
    assert StatedErrors({"new group": {EVERY: FEW}}).beyond is None
