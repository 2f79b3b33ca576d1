"""Intervals: the conformal quantile where rows are independent, honest coverage of new groups where they are not."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from flopcast.errors import DataError
from flopcast.evaluation.folds import make_folds
from flopcast.evaluation.intervals import (
    LEVELS,
    ConformalIntervals,
    covered,
    cross_bounds,
)

SIZES = np.array([11, 11, 12, 12, 12, 12, 16, 16, 16, 18, 21, 22, 23, 34, 37, 156])


def grouped_errors(
    seed: int, shift: float = 0.0, spread: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Log errors of 16 groups: each its own shift (in within-group standard deviations) and log-normal spread."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(16), rng.permutation(SIZES))
    errors = shift * rng.standard_normal(16)[groups]
    errors += np.exp(spread * rng.standard_normal(16))[groups] * rng.standard_normal(len(groups))
    return 0.05 * errors, groups


def fitted(seed: int = 0, scheme: str = "grouped") -> ConformalIntervals:
    errors, groups = grouped_errors(seed, shift=1)
    return ConformalIntervals(scheme).fit(np.exp(errors), np.ones(len(errors)), groups)


def test_independent_rows_get_the_conformal_quantile() -> None:
    """With errors of +-0.01 ... +-0.50 the radius at 90 % is the ceil(0.9 * 101)-th score of 100."""
    sizes = np.repeat(np.arange(1, 51), 2) / 100
    errors = sizes * np.tile([1, -1], 50)
    intervals = ConformalIntervals("kfold").fit(np.exp(errors), np.ones(100), np.arange(100))
    assert (intervals.up_, intervals.down_) == (1.0, 1.0)
    assert intervals.radius(0.9) == pytest.approx(0.46)
    assert intervals.radius(0.5) == pytest.approx(0.26)
    lower, upper = intervals.bounds([2.0], 0.9)
    assert lower == pytest.approx([2 * np.exp(-0.46)])
    assert upper == pytest.approx([2 * np.exp(0.46)])


def test_too_few_rows_for_a_level_are_draws_from_a_normal_distribution() -> None:
    intervals = ConformalIntervals("kfold").fit(
        np.exp([0.03, -0.04, 0.05]), np.ones(3), np.arange(3)
    )
    reach = stats.t.ppf(0.95, 3) * np.sqrt(np.mean(np.square([0.03, 0.04, 0.05])) * 4 / 3)
    assert intervals.radius(0.9) == pytest.approx(reach, rel=0.05)  # of unlike reach up and down


@pytest.mark.parametrize("unknown", [0, 1])
def test_groups_that_only_shift_reach_as_far_as_their_shifts_stretched_by_student(
    unknown: int,
) -> None:
    """40 groups of ten rows, 0.01 ... 0.20 up or down; in the second case a tenth of the rows has no prediction."""
    shifts = np.repeat(np.r_[1:21, -20:0] / 100, 10)
    predicted = np.where(np.arange(400) % 10 < unknown, np.nan, 1.0)
    intervals = ConformalIntervals("grouped").fit(np.exp(shifts), predicted, np.arange(400) // 10)

    def stretch(level: float) -> float:
        return float(stats.t.ppf((1 + level) / 2, 39) / stats.norm.ppf((1 + level) / 2))

    if unknown:
        assert intervals.radius(0.81) == pytest.approx(
            0.18 * np.interp(0.81, [0.8, 0.9], [stretch(0.8), stretch(0.9)])
        )
    else:
        assert intervals.radius(0.9) == pytest.approx(0.18 * stretch(0.9))
        assert intervals.radius(0.925) == pytest.approx(0.19 * (stretch(0.9) + stretch(0.95)) / 2)


def test_few_groups_that_only_shift_are_draws_from_student_s_distribution_of_one_group_less() -> (
    None
):
    shifts = np.repeat([-0.2, -0.1, 0.1, 0.2], 10)
    intervals = ConformalIntervals("grouped").fit(np.exp(shifts), np.ones(40), np.arange(40) // 10)
    for level in (0.5, 0.9):
        assert intervals.radius(level) == pytest.approx(
            np.sqrt(0.025) * stats.t.ppf((1 + level) / 2, 3), rel=0.05
        )


def test_one_wild_row_does_not_widen_the_others() -> None:
    errors, groups = grouped_errors(0, shift=1)
    wild = np.r_[errors[:-1], 50.0]
    plain, found = (
        ConformalIntervals("grouped").fit(np.exp(of), np.ones(len(of)), groups)
        for of in (errors, wild)
    )
    assert found.radius(0.9) < 1.2 * plain.radius(0.9)


def test_new_groups_may_err_to_the_other_side_than_those_that_are_known() -> None:
    """All groups shift by 0.2, a fifth of their rows by 0.1 more: a tenth reaches 0.3, as both have one sign."""
    errors = 0.2 + np.tile(np.repeat([0.0, 0.1], [8, 2]), 20)
    intervals = ConformalIntervals("grouped").fit(
        np.exp(errors), np.ones(200), np.arange(200) // 10
    )
    for level, reach in ((0.85, 0.2), (0.95, 0.2 + 0.1 * np.sqrt(10 / 9))):
        stretched = 0.2 * (stats.t.ppf((1 + level) / 2, 19) / stats.norm.ppf((1 + level) / 2) - 1)
        assert np.log(intervals.bounds([1.0], level)[1][0]) == pytest.approx(
            reach + stretched, rel=0.01
        )


@pytest.mark.parametrize("scheme", ["kfold", "grouped"])
def test_intervals_grow_with_the_level(scheme: str) -> None:
    for seed in range(5):
        intervals = fitted(seed, scheme)
        radii = [intervals.radius(level) for level in LEVELS]
        assert radii == sorted(radii)
        assert radii[0] < radii[-1]


def test_bounds_scale_with_the_prediction_the_difficulty_and_the_widening() -> None:
    intervals = fitted()
    lower, upper = intervals.bounds([1.0, 10.0])
    assert 10 * lower[0] == pytest.approx(lower[1])
    assert lower[0] < 1 < upper[0]
    _, wide = intervals.bounds([1.0], widen=[2.0])
    _, hard = intervals.bounds([1.0], scale=[2.0])
    assert np.log(wide[0]) == pytest.approx(2 * np.log(upper[0]))
    assert hard == pytest.approx(wide)
    with pytest.raises(ValueError, match="ConformalIntervals"):
        intervals.bounds([1.0], scale=[0.0])
    with pytest.raises(ValueError, match=r"0.005.*0.995.*1"):
        intervals.bounds([1.0], 1.0)


def test_outside_rows_are_as_wide_as_their_kind_errs() -> None:
    """Rows outside err by 0.2 or, every other one, by three times that; inside all err by 0.1."""
    inside = ConformalIntervals("kfold").fit(
        np.exp(np.tile([0.1, -0.1], 50)), np.ones(100), np.arange(100)
    )
    share, wider = np.repeat([0.0, 1.0, 0.5], [50, 50, 50]), np.tile([1.0, 3.0], 75)
    errors = ((1 - share) * 0.1 + share * wider * 0.2) * np.tile([1, 1, -1, -1, 1], 30)
    outside = inside.outside(np.exp(errors), np.ones(150), np.arange(150), share, wider=wider)
    assert outside.radius(0.9) == pytest.approx(0.2)
    lower, upper = inside.bounds(np.ones(150), 0.9, outside=outside, share=share, wider=wider)
    np.testing.assert_allclose(np.log(upper), np.abs(errors))
    np.testing.assert_allclose(np.log(lower), -np.abs(errors))


def test_difficulty_tells_easy_rows_from_hard_ones() -> None:
    rng = np.random.default_rng(0)
    scale = np.where(np.arange(400) < 200, 1.0, 5.0)
    y, groups = np.exp(0.02 * scale * rng.standard_normal(400)), np.arange(400)
    intervals = ConformalIntervals("kfold").fit(y, np.ones(400), groups, scale=scale)
    lower, upper = intervals.bounds(np.ones(400), scale=scale)
    inside = (lower <= y) & (y <= upper)
    assert abs(inside[:200].mean() - inside[200:].mean()) < 0.06
    folds = make_folds("kfold", None, 400)
    with_scale, without = (
        cross_coverage(y, np.ones(400), groups, folds, scheme="kfold", scale=s)
        for s in (scale, None)
    )
    assert with_scale.coverage == pytest.approx(without.coverage, abs=0.03)
    assert with_scale.median_relative_width < 0.9 * without.median_relative_width


def test_the_side_that_errs_more_is_wider() -> None:
    rng = np.random.default_rng(0)
    skewed = np.where(rng.random(300) < 0.5, 0.2, -0.05) * rng.random(300)
    intervals = ConformalIntervals("kfold").fit(np.exp(skewed), np.ones(300), np.arange(300))
    # half of the factor 4, on the log scale
    assert intervals.up_ / intervals.down_ == pytest.approx(2.0, rel=0.05)
    assert intervals.up_ * intervals.down_ == pytest.approx(1)


def test_predictions_that_are_no_time_are_misses_without_bounds() -> None:
    y, p = np.exp(0.1 * np.linspace(-1, 1, 40)), np.ones(40)
    p[:8] = -1.0
    intervals = ConformalIntervals("kfold").fit(y, p, np.arange(40))
    assert intervals.radius(0.9) == np.inf
    assert np.isfinite(intervals.radius(0.5))
    assert np.isnan(intervals.bounds([-1.0, 0.0, np.nan], 0.5)).all()
    assert intervals.bounds([3.0], 0.9) == (0.0, np.inf)
    coverage = cross_coverage(y, p, np.arange(40), make_folds("kfold", None, 40), 0.5, "kfold")
    assert coverage.coverage <= 32 / 40


def test_json_round_trip() -> None:
    y, p = np.exp(0.1 * np.linspace(-1, 1, 40)), np.ones(40)
    p[:8] = -1.0
    for intervals in (fitted(), ConformalIntervals("kfold").fit(y, p, np.arange(40))):
        state = json.loads(json.dumps(intervals.to_dict(), allow_nan=False))
        again = ConformalIntervals.from_dict(state)
        assert again.to_dict() == intervals.to_dict()
        for level in (0.1, 0.9):
            assert [b.tolist() for b in again.bounds([1.0, 7.0], level)] == [
                b.tolist() for b in intervals.bounds([1.0, 7.0], level)
            ]
    with pytest.raises(ValueError, match=r"199.*1"):
        ConformalIntervals.from_dict(state | {"radii": [1.0]})


@pytest.mark.parametrize("scheme", ["kfold", "grouped"])
def test_of_one_level_alone_they_are_as_of_all(scheme: str) -> None:
    rng = np.random.default_rng(3)
    y, p, groups = np.exp(rng.normal(0, 0.1, 400)), np.ones(400), np.arange(400) // 10
    one, every = (
        ConformalIntervals(scheme).fit(y, p, groups, level=level) for level in (0.93, None)
    )
    assert one.radius(0.93) == every.radius(0.93)
    with pytest.raises(ValueError, match=r"calibrated, 0\.93, got 0\.5"):
        one.radius(0.5)


def test_perfect_predictions_have_no_width() -> None:
    assert (
        ConformalIntervals("grouped")
        .fit([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], ["a", "a", "b"])
        .radius(0.9)
        == 0.0
    )


def test_few_groups_still_give_a_finite_interval_beyond_the_largest_score() -> None:
    errors = np.array([0.01, -0.01, 0.02, -0.1, 0.11, 0.1])
    intervals = ConformalIntervals("grouped").fit(
        np.exp(errors), np.ones(6), ["a", "a", "a", "b", "b", "b"]
    )
    assert 0.11 < intervals.radius(0.9) < np.inf


def test_too_few_groups_say_so() -> None:
    with pytest.raises(DataError, match="least 2 groups"):
        ConformalIntervals("grouped").fit([1.0, 2.0], [1.0, 2.0], ["a", "a"])
    with pytest.raises(ValueError, match="ConformalIntervals"):
        ConformalIntervals("random")


def cross_coverage(
    y: Any,
    p: Any,
    groups: Any,
    folds: Any,
    level: float = 0.9,
    scheme: str = "kfold",
    scale: Any = None,
) -> Any:
    """Coverage fold by fold."""
    return covered(
        y, p, np.asarray(groups), *cross_bounds(y, p, groups, folds, level, scheme, scale=scale)
    )


def test_shuffled_rows_are_covered_as_claimed() -> None:
    found = [
        cross_coverage(
            np.exp(errors), np.ones(429), groups, make_folds("kfold", None, 429), level, "kfold"
        ).coverage
        for errors, groups in (grouped_errors(seed, shift=2) for seed in range(4))
        for level in (0.9,)
    ]
    assert 0.89 < np.mean(found) < 0.93


def new_group_coverage(seed: int, shift: float, spread: float, scheme: str) -> float:
    """Coverage of 90 % intervals with whole groups left out, calibrated under ``scheme``."""
    errors, groups = grouped_errors(seed, shift, spread)
    folds = make_folds("grouped", groups, len(groups), seed=seed)
    return cross_coverage(np.exp(errors), np.ones(len(errors)), groups, folds, 0.9, scheme).coverage


@pytest.mark.long
@pytest.mark.parametrize(
    ("shift", "spread"), [(0.0, 0.0), (1.0, 0.0), (4.0, 0.0), (2.0, 0.5), (0.0, 1.0), (4.0, 1.0)]
)
def test_new_groups_are_covered_as_claimed(shift: float, spread: float) -> None:
    found = [new_group_coverage(seed, shift, spread, "grouped") for seed in range(15)]
    assert 0.88 < np.mean(found) < 0.95


@pytest.mark.long
def test_pooled_calibration_under_covers_new_groups() -> None:
    pooled = [new_group_coverage(seed, 4.0, 0.0, "kfold") for seed in range(25)]
    grouped = [new_group_coverage(seed, 4.0, 0.0, "grouped") for seed in range(25)]
    assert np.mean(pooled) < 0.88
    assert np.mean(grouped) > np.mean(pooled) + 0.02


@pytest.mark.long
def test_errors_of_shuffled_folds_under_cover_new_groups() -> None:
    """A model that saw a group knows its shift: calibrated on such rows, intervals are too narrow for new groups."""
    found = []
    for seed in range(20):
        errors, groups = grouped_errors(seed, shift=1.0)
        sums, sizes = np.bincount(groups, errors)[groups], np.bincount(groups)[groups]
        # each row less the mean of the rest of its group
        known = errors - (sums - errors) / (sizes - 1)
        lower, upper = (
            ConformalIntervals("kfold")
            .fit(np.exp(known), np.ones(429), groups)
            .bounds(np.ones(429))
        )
        fresh, _ = grouped_errors(seed + 1000, shift=1.0)
        found.append(np.mean((lower <= np.exp(fresh)) & (np.exp(fresh) <= upper)))
    assert 0.7 < np.mean(found) < 0.82
