"""Slopes, and which simple law explains best."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.regression import linear_model
from statsmodels.tools import add_constant

from flopcast.evaluation.law_comparison import (
    CONSTANT,
    Explanation,
    SlopeTest,
    affine,
    compare_laws,
    scatter_test,
    slope_test,
)

AFFINE = affine("duration_us")
GROUPS = np.repeat(np.arange(12), 10)
HOST = np.geomspace(2, 400, 120)[np.random.default_rng(1).permutation(120)]
NOISE = np.exp(np.random.default_rng(2).normal(0, 0.02, 120))


def compare(target: np.ndarray, **laws: np.ndarray) -> dict[str, Explanation]:
    frame = pd.DataFrame(laws or {"half": 0.5 * HOST})
    return {one.law: one for one in compare_laws(target, HOST, frame, GROUPS, replicates=300)}


def test_an_analytic_law_is_scored_as_it_stands() -> None:
    found = compare(HOST, exact=HOST, half=0.5 * HOST, double=2 * HOST)
    assert {name: found[name].mape.value for name in ("exact", "half", "double")} == pytest.approx(
        {"exact": 0, "half": 50, "double": 100}
    )
    assert found["half"].parameters == {}


def test_the_best_comes_first_and_its_equals_are_marked() -> None:
    found = compare((5 + 0.3 * HOST) * NOISE)
    assert list(found) == [AFFINE, CONSTANT, "half"]
    assert [one.as_good_as_best for one in found.values()] == [True, False, False]
    assert found[AFFINE].parameters == pytest.approx({"a_us": 5, "b": 0.3}, rel=0.02)


def test_the_line_is_named_by_what_was_measured_and_its_unit() -> None:
    laws = pd.DataFrame({"half": 0.5 * HOST})
    found = compare_laws(5 + 0.3 * HOST, HOST, laws, GROUPS, metric="energy_j", replicates=20)
    assert found[0].law == affine("energy_j") == "affine a + b·E_host"
    assert found[0].parameters == pytest.approx({"a_j": 5, "b": 0.3}, rel=1e-3)


def test_laws_that_err_alike_are_not_told_apart() -> None:
    found = compare(HOST * NOISE, low=0.999 * HOST, high=1.001 * HOST, far=1.1 * HOST)
    assert found["low"].as_good_as_best
    assert found["high"].as_good_as_best
    assert not found["far"].as_good_as_best


def test_intervals_hold_the_estimate() -> None:
    for one in compare((5 + 0.3 * HOST) * NOISE).values():
        assert one.mape.lower < one.mape.value < one.mape.upper
        assert one.mape.level == pytest.approx(0.9)


def test_fitted_laws_have_not_seen_the_group_they_predict() -> None:
    # the last group is ten times slower than the law of the others: no fit without it can know
    target = 0.5 * HOST * np.where(GROUPS == 11, 10, 1)
    found = compare(target)
    assert found[CONSTANT].parameters == {"ratio": pytest.approx(0.5)}
    assert found[CONSTANT].mape.value == pytest.approx(90 / 12)


def simulate(
    sizes: list[int], slope: float, seed: int, *, spread: float = 1.0, noise: float = 0.0
) -> tuple[np.ndarray, ...]:
    """Draw times with group effects on level and slope; `noise` is that of the host's times."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    x = spread * (rng.normal(0, 0.7, len(sizes))[groups] + rng.normal(0, 1, len(groups)))
    local = slope + rng.normal(0, 0.03, len(sizes))[groups]
    y = local * x + rng.normal(0, 0.1, len(sizes))[groups] + rng.normal(0, 0.1, len(groups))
    return np.exp(x + rng.normal(0, noise, len(groups))), np.exp(y), groups


def fitted(*data: np.ndarray) -> SlopeTest:
    result = slope_test(*data)
    assert result is not None
    return result


def test_hand_solved_slope() -> None:
    # log2 of the points: (0, 0), (1, 1), (2, 1), (3, 2): slope 3/5, variance of x 5/3
    x, y = np.array([1.0, 2.0, 4.0, 8.0]), np.array([1.0, 2.0, 2.0, 4.0])
    result = fitted(x, y, np.arange(4))
    assert result.slope.value == pytest.approx(0.6)
    assert result.attenuated == pytest.approx(1 - 0.01 / (np.log(2) ** 2 * 5 / 3))


def test_errors_are_those_of_statsmodels_where_the_jackknife_is_smaller() -> None:
    x, y, groups = simulate([20] * 12, 1.0, seed=4)
    result = fitted(x, y, groups)
    fit = linear_model.OLS(np.log(y), add_constant(np.log(x))).fit(
        cov_type="cluster", cov_kwds={"groups": groups}, use_t=True
    )
    assert result.slope.value == pytest.approx(fit.params[1])
    robust, used = fit.bse[1], (result.slope.upper - result.slope.value) / stats.t.ppf(0.975, 11)
    assert robust * (1 - 1e-9) <= used <= 1.2 * robust
    assert result.p_value == pytest.approx(2 * stats.t.sf(abs(result.slope.value - 1) / used, 11))


def test_jackknife_error_against_refits_without_each_group() -> None:
    x, y, groups = simulate([3, 3, 3, 3, 40, 40], 1.0, seed=0)
    slopes = [np.polyfit(np.log(x[groups != g]), np.log(y[groups != g]), 1)[0] for g in range(6)]
    whole = np.polyfit(np.log(x), np.log(y), 1)[0]
    expected = np.sqrt(5 / 6 * np.sum((np.array(slopes) - whole) ** 2))
    result = fitted(x, y, groups)
    assert (result.slope.upper - result.slope.value) / stats.t.ppf(0.975, 5) == pytest.approx(
        expected
    )


def test_units_do_not_matter() -> None:
    x, y, groups = simulate([20] * 8, 0.9, seed=2)
    small, large = fitted(x, y, groups), fitted(1e6 * x, 1e-3 * y, groups)
    assert large.slope.lower == pytest.approx(small.slope.lower)
    assert large.p_value == pytest.approx(small.p_value)


@pytest.mark.parametrize(("slope", "p"), [(1.0, 1.0), (0.8, 0.0)])
def test_a_law_without_noise(slope: float, p: float) -> None:
    x = np.geomspace(3, 300, 20)
    result = fitted(x, 2 * x**slope, np.repeat(np.arange(5), 4))
    assert result.slope.value == pytest.approx(slope)
    assert result.p_value == pytest.approx(p, abs=1e-12)
    assert result.p_size == pytest.approx(p, abs=1e-12)


@pytest.mark.parametrize("slope", [0.8, 1.2])
def test_a_slope_other_than_one_is_shown(slope: float) -> None:
    assert fitted(*simulate([27] * 16, slope, seed=0)).p_size < 1e-3


def test_noise_in_the_host_times_is_not_taken_for_size_dependence() -> None:
    # a class of nearly equal kernels: noise of 0.1 beside a spread of 0.2 pulls the slope of a perfect law to 0.8
    result = fitted(*simulate([40] * 16, 1.0, seed=0, spread=0.16, noise=0.1))
    assert result.slope.upper < 0.9
    assert result.p_value < 0.01
    assert result.attenuated == pytest.approx(0.8, abs=0.05)
    assert result.p_size > 0.05


def test_a_slope_below_what_noise_can_feign_counts() -> None:
    assert fitted(*simulate([40] * 16, 0.6, seed=0, spread=0.16, noise=0.1)).p_size < 0.001


def test_times_that_do_not_vary_have_no_slope() -> None:
    varied, same, groups = np.geomspace(1, 9, 10), np.full(10, 3.0), np.arange(10)
    assert slope_test(same, varied, groups) is None
    nearly = same * (1 + 1e-15 * np.arange(len(same)))
    assert slope_test(nearly, varied, groups) is None
    assert fitted(varied, same, groups).slope.value == pytest.approx(0)


def test_a_slope_that_hangs_on_one_group_has_no_error() -> None:
    x = np.array([1.0] * 8 + [2.0, 4.0])
    y = x * np.array([1.0, 1.1] * 5)
    result = fitted(x, y, np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4]))
    assert result.slope.upper == np.inf
    assert result.p_value == 1


@pytest.mark.long
@pytest.mark.parametrize("sizes", [[20] * 5, [27] * 16, [5] * 10 + [60] * 6, [3, 3, 3, 3, 40, 40]])
def test_interval_covers_as_often_as_it_says(sizes: list[int]) -> None:
    slopes = [fitted(*simulate(sizes, 1.0, seed)).slope for seed in range(250)]
    assert 0.91 <= np.mean([one.lower <= 1 <= one.upper for one in slopes]) <= 0.985


def test_scatter_counts_groups_where_they_differ_and_rows_where_these_do() -> None:
    rng = np.random.default_rng(3)
    limit = np.log(1.1) / stats.norm.ppf(5 / 6)
    shifts = rng.normal(0, 2 * limit, 12)
    by_group, by_row = (
        np.exp(shifts[GROUPS] + rng.normal(0, 1e-3, 120)),
        np.exp(rng.normal(0, 2 * limit, 120)),
    )
    excess, freedom = scatter_test(by_group, GROUPS, 0.10)
    assert freedom == pytest.approx(11, abs=0.1)
    assert excess == pytest.approx(np.var(shifts, ddof=1) / limit**2, rel=0.15)
    excess, freedom = scatter_test(by_row, GROUPS, 0.10)
    assert freedom > 100
    # host noise may be 0.10 of it
    assert excess == pytest.approx(4 * limit**2 / (limit**2 + 0.10**2), rel=0.3)


def test_groups_that_differ_count_alike_however_many_rows_they_have() -> None:
    groups = np.repeat(np.arange(16), [160] * 2 + [6] * 14)
    shifts = np.random.default_rng(5).normal(0, 0.2, 16)
    excess, freedom = scatter_test(np.exp(shifts[groups]), groups, 0.10)
    assert freedom == pytest.approx(15)
    assert excess == pytest.approx(
        np.var(shifts, ddof=1) / (np.log(1.1) / stats.norm.ppf(5 / 6)) ** 2
    )


def test_one_spike_is_no_scatter() -> None:
    calm = np.exp(np.random.default_rng(4).normal(0, 0.03, 120))
    spiked = calm.copy()
    spiked[7] *= 1e4
    assert scatter_test(spiked, GROUPS, 0.10)[0] == pytest.approx(
        scatter_test(calm, GROUPS, 0.10)[0], rel=0.2
    )
    assert scatter_test(np.ones(120), GROUPS, 0.10)[0] == 0
