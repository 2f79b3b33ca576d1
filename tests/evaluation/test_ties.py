"""The sign of a tie: its level where models are as good, its power where they are not, whatever a group's size."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import product

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

import flopcast as fc
from flopcast.evaluation.ties import (
    MOST_UNITS,
    SIGNED_RANK,
    STUDENT,
    holm,
    joined,
    p_values,
    rule_of_units,
    tied_with_best,
)

EQUAL = {
    "4 equal": np.full(4, 20),
    "16 equal": np.full(16, 20),
    "16 unequal": np.array([150] * 3 + [8] * 13),
}


def errors_of(
    rng: np.random.Generator, sizes: np.ndarray, models: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the group of each row and errors, %, of models that are as good: shifted by group, partly alike."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    shared, own = rng.normal(size=(len(sizes), 1)), rng.normal(size=(len(sizes), models))
    logs = 0.06 * (0.7 * shared + np.sqrt(0.51) * own)[groups] + 0.03 * rng.normal(
        size=(len(groups), models)
    )
    return groups, 100 * np.abs(np.expm1(logs))


@pytest.mark.parametrize("sizes", EQUAL.values(), ids=EQUAL)
def test_of_models_that_are_as_good_95_in_100_keep_the_sign(sizes: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(40):
        groups, errors = errors_of(rng, sizes, 20)
        kept.append(tied_with_best(errors, groups).mean())
    assert np.mean(kept) >= 0.95


def test_one_pair_of_equal_models_is_told_apart_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(1)
    rejected = []
    for _ in range(400):
        groups, errors = errors_of(rng, EQUAL["16 unequal"], 2)
        means = np.stack([errors[groups == group].mean(axis=0) for group in range(16)])
        rejected.append(p_values(means[:, [0]], means[:, [1]], logs=True, tests=1)[0] < 0.05)
    assert 0.02 < np.mean(rejected) < 0.085  # 0.05 within three standard errors of 400


@pytest.mark.parametrize(("sizes", "least"), [(EQUAL["16 equal"], 0.9), (EQUAL["16 unequal"], 0.7)])
def test_a_model_that_errs_twice_as_much_loses_the_sign(sizes: np.ndarray, least: float) -> None:
    rng = np.random.default_rng(2)
    told = []
    for _ in range(40):
        groups, errors = errors_of(rng, sizes, 20)
        worse = 2 * errors_of(rng, sizes, 1)[1]
        told.append(not tied_with_best(np.hstack([errors, worse]), groups)[-1])
    assert np.mean(told) >= least


def test_a_model_worse_in_every_group_is_not_hidden_by_how_far_its_errors_scatter() -> None:
    """One of 16 groups has a third of the rows, and models are worse in all of them by factors from 1.5 to 100."""
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(16), [156] + [18] * 15)
    best = rng.gamma(4, 2.4, len(groups))
    factors = np.array([1.0, 1.5, 3.0, 100.0])
    scatter = np.exp(rng.exponential(1.5, (16, 4)) * (factors > 1))[groups]
    assert tied_with_best(best[:, None] * factors * scatter, groups).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_a_model_that_errs_less_in_most_groups_keeps_the_sign_whatever_its_mean() -> None:
    groups = np.repeat(np.arange(16), [156] + [18] * 15)
    other = np.where(groups == 0, 30.0, 8.0)
    assert tied_with_best(
        np.column_stack([np.full(len(groups), 10.0), other]), groups
    ).tolist() == [True, True]


def test_few_groups_are_held_to_the_t_of_logarithms_as_ranks_cannot_reject() -> None:
    assert [rule_of_units(count, 1) for count in (4, 5)] == [STUDENT, SIGNED_RANK]
    assert [rule_of_units(count, 19) for count in (8, 9)] == [STUDENT, SIGNED_RANK]
    # two-sided at 5 %
    assert [rule_of_units(count, 1, level=0.025) for count in (5, 6)] == [STUDENT, SIGNED_RANK]
    best, worse = np.array([10.0, 11.0, 9.0, 10.0]), np.array([100.0, 130.0, 80.0, 105.0])
    (found,) = p_values(worse[:, None], best[:, None], logs=True, tests=1)
    assert found == pytest.approx(
        stats.ttest_1samp(np.log(worse / best), 0, alternative="greater").pvalue
    )
    assert tied_with_best(np.column_stack([best, worse]), np.arange(4)).tolist() == [True, False]
    assert tied_with_best(np.column_stack([best, worse])[:1], np.zeros(1, dtype=int)).tolist() == [
        True,
        True,
    ]


def test_tied_ranks_have_the_exact_p_value_and_change_that_of_no_other_model() -> None:
    tied = np.array([0.5, -0.5, 1.0, 1.0, 2.0, -1.5, 0.5])
    (found,) = p_values(1 + tied[:, None], np.ones((7, 1)), logs=False, tests=1)
    ranks = stats.rankdata(np.abs(tied))
    sums = [float(np.dot(signs, ranks)) for signs in product((0.0, 1.0), repeat=len(tied))]
    assert found == np.mean(np.array(sums) >= ranks[tied > 0].sum())
    with_zero = np.append(tied, 0.0)[:, None]
    assert p_values(1 + with_zero, np.ones((8, 1)), logs=False, tests=1) == [found]
    untied = np.random.default_rng(5).normal(0.3, 1, 15)
    both = np.column_stack([untied, np.resize([1.0, -1.0, 2.0], 15)])
    one_by_one = [stats.wilcoxon(untied, alternative="greater").pvalue]
    one_by_one.append(p_values(both[:, [1]], np.zeros((15, 1)), logs=False, tests=2)[0])
    beside = p_values(both, np.zeros((15, 1)), logs=False, tests=2)
    assert beside == pytest.approx(one_by_one, rel=1e-12)


def test_models_that_predict_the_same_are_tied_and_errors_of_zero_are_no_trouble() -> None:
    groups = np.repeat(np.arange(10), 5)
    errors = np.random.default_rng(4).gamma(2, 2, 50)
    same = np.column_stack([errors, errors * (1 + 1e-13), np.zeros(50)])
    assert tied_with_best(same[:, :2], groups).all()
    assert tied_with_best(same, groups).tolist() == [False, False, True]


def test_of_many_rows_the_mean_decides_and_not_the_usual_row() -> None:
    """Both err by 12 % on average, one evenly and the other mostly by less; row by row the first is worse in 2 of 3."""
    rng = np.random.default_rng(5)
    kept = []
    for _ in range(60):
        even, uneven = np.full(400, 12.0), np.abs(rng.normal(0, 12 / np.sqrt(2 / np.pi), 400))
        kept.append(tied_with_best(np.column_stack([even, uneven]), np.arange(400)).all())
    assert np.mean(kept) >= 0.9
    assert len(np.unique(joined(np.arange(400), MOST_UNITS))) == MOST_UNITS


def test_shares_of_rows_beyond_a_threshold_are_compared_by_differences() -> None:
    groups = np.repeat(np.arange(12), 10)
    first = np.where(np.arange(120) % 10 < np.repeat(np.arange(12) % 3, 10), 100.0, 0.0)
    second = np.where(np.arange(120) % 10 < np.repeat(np.arange(12) % 3 + 3, 10), 100.0, 0.0)
    assert tied_with_best(np.column_stack([first, second]), groups, logs=False).tolist() == [
        True,
        False,
    ]


def test_least_squares_of_all_columns_is_told_from_a_line_on_the_embedded_measurements(
    all_folds: Callable[[], AbstractContextManager[None]],
) -> None:
    """It errs by four times as much, more in 16 of 16 groups, one of which has 156 of the 429 rows."""
    with all_folds():
        run = fc.train(suite="literature", models=["OLS"], jobs=1)
    (grouped,) = [cv for cv in run.metrics["cv"] if cv["scheme"] == "grouped"]
    errors = {row["name"]: row["e_out"] for row in [*grouped["baselines"], *grouped["models"]]}
    assert (errors["affine"], errors["OLS"]) == pytest.approx((9.549, 41.38), rel=1e-3)
    tied = grouped["selected"]["tied"]
    assert "affine" in tied
    assert "OLS" not in tied


@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_adjusted_values_are_those_of_statsmodels(n: int) -> None:
    values = np.random.default_rng(n).uniform(0, 0.3, n).round(2)  # with ties
    rejected, adjusted, *_ = multipletests(values, alpha=0.05, method="holm")
    np.testing.assert_allclose(holm(values), adjusted, rtol=1e-12)
    assert (holm(values) <= 0.05).tolist() == rejected.tolist()
