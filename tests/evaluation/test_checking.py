from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.evaluation import checking
from flopcast.evaluation.checking import Checked, Outcome, assess, independent_rows
from flopcast.evaluation.intervals import ConformalIntervals
from flopcast.evaluation.stated_error import Part, StatedErrors
from flopcast.evaluation.trained_model import Correction
from flopcast.evaluation.verdicts import ALPHA


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw fewer bootstrap samples than `check` does: `test_calibration` draws all."""
    monkeypatch.setattr(checking, "REPLICATES", 400)


def table(
    seed: int, groups: int = 20, rows: int = 20, between: float = 0.02, name: str = "g"
) -> pd.DataFrame:
    """Rows that differ from their predictions by a deviate of their group and one of their own, 4 %."""
    rng = np.random.default_rng(seed)
    errors = np.repeat(rng.normal(0, between, groups), rows) + rng.normal(0, 0.04, groups * rows)
    predicted = np.exp(rng.normal(4, 1, groups * rows))
    labels = np.repeat([f"{name}{group}" for group in range(groups)], rows)
    return pd.DataFrame(
        {"observed": predicted * np.exp(errors), "predicted": predicted, "group": labels}
    )


OLD = table(0)
INTERVALS = ConformalIntervals("grouped").fit(OLD["observed"], OLD["predicted"], OLD["group"])


def asked(rows: pd.DataFrame, factor: float | np.ndarray = 1.0) -> pd.DataFrame:
    lower, upper = INTERVALS.bounds(rows["predicted"], 0.9)
    more = {"observed": rows["observed"] * factor, "class": "one", "within": True}
    return rows.assign(lower=lower, upper=upper, **more)


def judged(rows: pd.DataFrame, factor: float | np.ndarray = 1.0) -> Checked:
    return assess(asked(rows, factor), {"grouped": OLD})


def test_rows_like_those_of_training_leave_the_run_valid() -> None:
    outcomes = [judged(table(seed, name="new")).outcome for seed in range(1, 4)]
    assert outcomes == [Outcome.VALID] * 3


@pytest.mark.parametrize("factor", [1.15, 1 / 1.15])
def test_a_factor_on_all_rows_is_a_shift_that_its_correction_undoes(factor: float) -> None:
    new = table(1, name="new")
    found = judged(new, factor)
    assert found.outcome is Outcome.SHIFTED
    assert found.shift is not None
    assert found.shift.lower < factor < found.shift.upper
    assert found.correction is not None
    again = assess(found.correction.applied(asked(new, factor), 0.9), {"grouped": OLD})
    assert again.outcome is Outcome.VALID
    assert again.shift is not None
    assert again.shift.value == pytest.approx(1)
    assert again.score.coverage is not None
    assert again.score.coverage >= 0.88


def test_a_shift_of_one_percent_is_not_worth_a_correction_however_sure_it_is() -> None:
    new, old = (
        asked(table(1, groups=200, rows=40, between=0.0, name="new")),
        {"grouped": table(0, 200, 40, 0.0)},
    )
    found = assess(new.assign(observed=1.01 * new["observed"]), old)
    assert found.shift is not None
    assert found.shift.lower > 1
    assert (found.outcome, found.correction) == (Outcome.VALID, None)


def test_a_shift_that_is_shown_counts_whatever_the_margin_and_a_narrow_margin_shows_less() -> None:
    sides = {"groups": 200, "rows": 40, "between": 0.0}
    new, old = asked(table(1, **sides, name="new")), {"grouped": table(0, **sides)}
    five = new.assign(observed=1.05 * new["observed"])
    assert [assess(five, old, margin=margin).outcome for margin in (0.01, 0.1, 0.3)] == [
        Outcome.SHIFTED
    ] * 3
    found = assess(new.assign(observed=1.015 * new["observed"]), old, margin=0.01)
    assert found.outcome is Outcome.SHIFTED  # beyond the margin for sure


def test_each_of_the_three_tests_has_a_third_of_the_level() -> None:
    found = judged(table(1, name="new"))
    assert found.shift is not None
    assert found.growth is not None
    assert (found.shift.level, found.growth.level) == pytest.approx((1 - ALPHA / 3, 1 - ALPHA / 3))


def test_groups_that_changed_each_its_way_ask_for_another_training() -> None:
    new = table(1, name="new")
    factor = np.where(new["group"].str[-1].isin(list("02468")), 1.5, 0.7)
    assert judged(new, factor).outcome is Outcome.RETRAIN


def test_intervals_that_many_rows_show_to_be_a_little_narrow_still_hold() -> None:
    new, old = (
        asked(table(1, groups=200, rows=40, name="new")),
        {"grouped": table(0, groups=200, rows=40)},
    )
    errors = np.abs(np.log(new["observed"] / new["predicted"]))
    for share, outcome in ((0.87, Outcome.VALID), (0.8, Outcome.RETRAIN)):
        far = np.exp(np.quantile(errors, share))
        found = assess(new.assign(lower=new["predicted"] / far, upper=new["predicted"] * far), old)
        assert found.outcome is outcome
        assert found.corrected_coverage is not None
        assert found.corrected_coverage.p_value < checking.EACH


def test_what_is_too_wide_for_the_margin_cannot_be_told() -> None:
    new = asked(table(1, groups=5, between=0.10, name="new"))
    old = {"grouped": table(0, between=0.10)}
    strict, wide = (assess(new, old, margin=margin) for margin in (0.03, 0.5))
    assert (strict.outcome, wide.outcome, wide.more_groups) == (
        Outcome.UNDECIDED,
        Outcome.VALID,
        None,
    )
    middle = assess(new, old, margin=0.12)
    assert middle.outcome is Outcome.UNDECIDED
    assert middle.more_groups is not None
    # what the training groups leave open is wider than this margin
    assert strict.more_groups is None
    more = asked(table(1, groups=5 + middle.more_groups, between=0.10, name="new")).assign(
        lower=0.0, upper=np.inf
    )
    assert assess(more, old, margin=0.12).outcome is Outcome.VALID


def test_few_groups_and_rows_outside_the_range_carry_no_verdict() -> None:
    assert judged(table(1, groups=3), 2.0).outcome is Outcome.TOO_FEW
    new = asked(table(1, name="new"))
    far = new.assign(observed=3 * new["observed"], within=False, group="far")
    found = assess(pd.concat([new, far]), {"grouped": OLD})
    assert found.outcome is Outcome.VALID
    assert found.out_of_range == len(far)
    assert found.beyond is not None
    assert found.beyond.e_out > 50


def test_rows_of_trained_groups_are_compared_with_the_folds_that_kept_their_groups() -> None:
    near = OLD.assign(observed=OLD["predicted"] * 1.001)
    new = asked(table(1))
    assert assess(new, {"grouped": OLD, "kfold": near}).scheme == "kfold"
    assert assess(new, {"grouped": OLD}).scheme == "grouped"
    assert assess(asked(table(1, name="new")), {"kfold": near, "grouped": OLD}).scheme == "grouped"


def test_rows_of_groups_that_err_more_are_compared_with_rows_like_them() -> None:
    large = table(0, groups=20, rows=200, between=0.0, name="large")
    rng = np.random.default_rng(5)
    far = rng.normal(0, 0.15, 120)
    few = pd.DataFrame({"predicted": np.exp(rng.normal(4, 1, 120))})
    few = few.assign(observed=few["predicted"] * np.exp(far), group=np.repeat(np.arange(20), 6))
    few["group"] = "few" + few["group"].astype(str)
    trained = pd.concat([large, few], ignore_index=True)
    errors = 100 * np.abs(few["predicted"] / few["observed"] - 1)
    stated = StatedErrors(
        {
            "known group": {
                "up to 10": Part(120, 120.0, float(errors.mean()), 0.07),
                "more than 200": Part(800, 800.0, 3.0, 0.03),
            }
        }
    )
    asked_rows = few.assign(
        observed=few["predicted"] * np.exp(rng.normal(0, 0.15, 120)),
        lower=0.0,
        upper=np.inf,
        within=True,
        basis="known group",
        part="up to 10",
    )
    asked_rows["class"] = "one"
    as_trained = assess(asked_rows, {"kfold": trained})
    assert as_trained.outcome is Outcome.RETRAIN, as_trained.growth
    assert as_trained.stated is None
    found = assess(asked_rows, {"kfold": trained}, errors=stated)
    assert found.outcome is Outcome.VALID
    assert found.growth is not None
    assert found.growth.value == pytest.approx(1, abs=0.15)
    assert found.stated is not None
    assert (found.stated.rows, found.stated.error) == (120, pytest.approx(errors.mean()))
    worse = asked_rows.assign(observed=few["predicted"] * np.exp(2 * far))
    assert assess(worse, {"kfold": trained}, errors=stated).outcome is Outcome.RETRAIN
    beyond = asked_rows.assign(basis="beyond", part="")
    unstated = assess(beyond, {"kfold": trained}, errors=stated)
    assert (unstated.stated, unstated.outcome) == (None, Outcome.RETRAIN)


def test_the_worst_group_comes_first_with_the_interval_of_its_rows() -> None:
    new = table(1, name="new")
    found = judged(new, np.where(new["group"] == "new7", 1.3, 1.0))
    first = found.by_group[0]
    assert first.name == "new7"
    assert first.shift is not None
    assert 1.2 < first.shift.lower < first.ratio < first.shift.upper < 1.4
    (whole,) = found.classes
    assert whole.shift is not None
    assert not whole.shift.excludes(1)


def test_rows_of_one_group_count_once_where_they_agree() -> None:
    groups = pd.Series(np.repeat(np.arange(20), 10))
    together = np.repeat(np.arange(20) < 16, 10)
    apart = np.tile(np.arange(10) < 8, 20)
    assert independent_rows(together, groups) == pytest.approx(20, rel=0.06)
    assert independent_rows(apart, groups) == 200


def test_a_correction_moves_the_middle_and_widens_the_interval_by_its_own_uncertainty() -> None:
    answers = pd.DataFrame({"predicted": [100.0], "lower": [100 / 1.2], "upper": [120.0]})
    sure = Correction(1.1, 1.1, 1.1, 0.9, 50, 10).applied(answers, 0.9).iloc[0]
    assert sure.tolist() == pytest.approx([110, 110 / 1.2, 132])
    half = np.exp(np.hypot(np.log(1.2), np.log(1.05)))
    unsure = Correction(1.1, 1.1 / 1.05, 1.1 * 1.05, 0.9, 50, 10).applied(answers, 0.9).iloc[0]
    assert unsure.tolist() == pytest.approx([110, 110 / half, 110 * half])
