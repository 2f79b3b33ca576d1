from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import lognorm, norm, qmc

from flopcast.errors import DataError
from flopcast.projection.uncertainty import (
    Factor,
    Simulate,
    Uncertainty,
    accuracy_band,
    first_order_shares,
    parse_sigmas,
    propagate,
)
from flopcast.remarks import remark

PARTS_US, SIGMAS = np.array([500.0, 300.0, 150.0, 50.0]), np.array([0.1, 0.05, 0.3, 0.2])


def factors_of(sigmas: np.ndarray) -> list[Factor]:
    return [Factor(f"class {number}", "law", float(sigma)) for number, sigma in enumerate(sigmas)]


def linear(parts_us: np.ndarray) -> Simulate:
    """Return the plain sum of the trace: each factor scales its class."""
    return lambda draws: draws @ parts_us


@pytest.fixture(scope="module")
def of_sum() -> Uncertainty:
    return propagate(linear(PARTS_US), factors_of(SIGMAS))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_one_factor_has_the_quantiles_of_the_lognormal(level: float) -> None:
    found = propagate(linear(np.array([100.0])), [Factor("gemm", "law", 0.2)], level=level)
    low, high = 100 * lognorm(0.2).ppf([(1 - level) / 2, (1 + level) / 2])
    (row,) = found.tornado.to_dict("records")
    assert (row["low_us"], row["high_us"]) == pytest.approx((low, high), rel=1e-12)
    assert (found.lower_us, found.upper_us) == pytest.approx((low, high), rel=0.005)
    assert (found.nominal_us, row["share"]) == pytest.approx((100, 1), abs=1e-3)
    assert found.median_us == pytest.approx(100, rel=1e-3)


def test_a_product_is_lognormal() -> None:
    found = propagate(lambda draws: 100 * draws.prod(axis=1), factors_of(SIGMAS), samples=4096)
    exact = 100 * lognorm(np.sqrt(np.sum(SIGMAS**2))).ppf([0.05, 0.5, 0.95])
    assert (found.lower_us, found.median_us, found.upper_us) == pytest.approx(exact, rel=0.004)


def test_a_sum_has_the_shares_of_its_parts(of_sum: Uncertainty) -> None:
    variances = PARTS_US**2 * np.exp(SIGMAS**2) * np.expm1(SIGMAS**2)
    shares = of_sum.tornado.set_index("name")["share"]
    assert of_sum.nominal_us == 1000
    assert [shares[f"class {i}"] for i in range(4)] == pytest.approx(
        variances / variances.sum(), abs=0.02
    )
    assert shares.sum() == pytest.approx(1, abs=0.01)


def test_the_bounds_of_a_sum_agree_with_plain_monte_carlo(of_sum: Uncertainty) -> None:
    draws = np.exp(np.random.default_rng(1).normal(size=(400_000, 4)) * SIGMAS) @ PARTS_US
    exact = np.quantile(draws, [0.05, 0.95])
    assert (of_sum.lower_us, of_sum.upper_us) == pytest.approx(exact, rel=0.01)


def test_the_tornado_starts_with_the_largest_swing(of_sum: Uncertainty) -> None:
    assert of_sum.tornado["name"].tolist() == ["class 0", "class 2", "class 1", "class 3"]
    reach = norm.ppf(0.95)
    swings = PARTS_US * (np.exp(reach * SIGMAS) - np.exp(-reach * SIGMAS))
    assert of_sum.tornado["swing_us"].tolist() == pytest.approx(sorted(swings, reverse=True))


def test_a_factor_that_shortens_has_its_low_above_its_high() -> None:
    row = propagate(lambda draws: 100 / draws[:, 0], [Factor("cpu", "cpu", 0.1)]).tornado.iloc[0]
    assert row["low_us"] > 100 > row["high_us"]
    assert row["swing_us"] == row["low_us"] - row["high_us"]


def test_a_known_factor_changes_nothing() -> None:
    found = propagate(
        linear(np.array([60.0, 40.0])), [Factor("a", "law", 0.1), Factor("b", "law", 0.0)]
    )
    assert found.tornado.loc[1, ["name", "low_us", "high_us", "share"]].tolist() == [
        "b",
        100,
        100,
        0,
    ]


def test_without_factors_the_projection_is_certain() -> None:
    found = propagate(lambda draws: np.full(len(draws), 7.0), [])
    assert (found.lower_us, found.nominal_us, found.upper_us, found.band) == (7, 7, 7, "<5 %")
    assert found.tornado.empty
    assert found.convergence == 0


def test_the_nominal_time_is_inside_where_every_draw_is_worse() -> None:
    found = propagate(
        lambda draws: 100 + 50 * np.abs(np.log(draws[:, 0])), [Factor("a", "law", 1.0)]
    )
    assert found.lower_us == found.nominal_us == 100
    assert found.median_us > 100


def test_what_factors_do_together_is_told_apart() -> None:
    sigmas = np.array([0.6, 0.6])
    found = propagate(lambda draws: draws.prod(axis=1), factors_of(sigmas), samples=4096)
    alone = np.expm1(0.36) / np.expm1(0.72)
    assert found.tornado["share"].tolist() == pytest.approx([alone, alone], abs=0.02)


def test_more_samples_converge() -> None:
    few, many = (propagate(linear(PARTS_US), factors_of(SIGMAS), samples=n) for n in (32, 4096))
    assert many.convergence < few.convergence / 4
    assert few.note == remark("samples-converged", samples=32, seed=0, convergence=few.convergence)


@given(seed=st.integers(0, 2**32), scale=st.floats(1e-3, 1e6))
def test_results_depend_on_the_seed_alone_and_scale_with_time(seed: int, scale: float) -> None:
    factors = factors_of(SIGMAS)
    whole = propagate(lambda draws: (draws * PARTS_US).sum(axis=1), factors, seed=seed, samples=32)
    cut = propagate(
        lambda draws: scale * (draws * PARTS_US).sum(axis=1), factors, seed=seed, samples=32
    )
    for name in ("nominal_us", "median_us", "lower_us", "upper_us"):
        assert getattr(cut, name) == pytest.approx(scale * getattr(whole, name), rel=1e-9)
    assert cut.tornado["share"].tolist() == pytest.approx(whole.tornado["share"].tolist(), abs=1e-6)
    assert whole.lower_us <= whole.nominal_us <= whole.upper_us
    again = propagate(lambda draws: (draws * PARTS_US).sum(axis=1), factors, seed=seed, samples=32)
    assert again.tornado.equals(whole.tornado)


def test_seeds_differ() -> None:
    first, second = (propagate(linear(PARTS_US), factors_of(SIGMAS), seed=seed) for seed in (0, 1))
    assert first.lower_us != second.lower_us
    assert first.lower_us == pytest.approx(second.lower_us, rel=0.01)


@pytest.mark.parametrize(
    ("relative", "band"),
    [
        (0, "<5 %"),
        (0.05, "5-10 %"),
        (0.19, "10-20 %"),
        (0.35, "20-50 %"),
        (0.7, "50-100 %"),
        (1, ">100 %"),
    ],
)
def test_bands(relative: float, band: str) -> None:
    assert accuracy_band(relative) == band


def test_the_band_is_that_of_half_the_interval() -> None:
    found = propagate(linear(np.array([100.0])), [Factor("a", "law", 0.1)])
    assert found.half_width == pytest.approx((found.upper_us - found.lower_us) / 200)
    assert found.band == "10-20 %"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 100}, r"samples.*16.*100"),
        ({"samples": 8}, "16 on, got 8"),
        ({"level": 1.0}, "got 1"),
        ({"samples": 16}, r"samples.*20.*16"),
    ],
)
def test_what_a_user_can_get_wrong(options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        propagate(linear(PARTS_US), factors_of(SIGMAS), **options)


def test_factors_have_names_of_their_own() -> None:
    with pytest.raises(ValueError, match="share a name: a, a"):
        propagate(linear(np.ones(2)), [Factor("a", "law", 0.1)] * 2)


@pytest.mark.parametrize("times", [np.zeros(32), np.full(32, np.nan), np.ones(31)])
def test_a_simulation_must_return_times(times: np.ndarray) -> None:
    with pytest.raises(ValueError, match="67 rows"):
        propagate(lambda draws: times[: len(draws)], [Factor("a", "law", 0.1)], samples=64)


KNOWN = ("gemm", "attention", "memory_bw_gbs")


def test_given_uncertainties_become_those_of_the_logarithm() -> None:
    found = parse_sigmas("gemm=0.1, memory_bw_gbs = 5e-2,attention=0", KNOWN)
    assert list(found) == ["gemm", "memory_bw_gbs", "attention"]
    assert found["gemm"] == pytest.approx(0.09975, abs=1e-5)
    assert found["memory_bw_gbs"] == pytest.approx(0.05, abs=1e-4)
    assert found["attention"] == 0


@given(relative=st.floats(1e-4, 2))
def test_the_factor_has_the_relative_deviation_given(relative: float) -> None:
    sigma = parse_sigmas(f"gemm={relative!r}", KNOWN)["gemm"]
    assert math.sqrt(math.expm1(sigma**2)) == pytest.approx(relative, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"name=number.*''"),
        ("gemm", r"name=number.*'gemm'"),
        ("gemm=0.1,", r"name=number.*''"),
        ("gem=0.1", "'gem'"),
        ("zzz=0.1", r"'zzz'.*memory_bw_gbs"),
        ("gemm=0.1,gemm=0.2", "gives gemm twice: keep one"),
        ("gemm=10%", r"gemm.*'10%'"),
        ("gemm=10", r"gemm.*0.1.*10.*10"),
        ("gemm=-0.1", "gemm"),
        ("gemm=nan", "gemm"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"^uncertainty .*{message}"):
        parse_sigmas(text, KNOWN)


@pytest.mark.parametrize("sigma", [-0.1, math.nan, math.inf])
def test_a_sigma_is_a_finite_number_from_0_on(sigma: float) -> None:
    with pytest.raises(ValueError, match="factor gemm"):
        Factor("gemm", "law", sigma)


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    points = qmc.Sobol(3, bits=30, seed=np.random.default_rng(0)).random(4096)
    return ndtri(points + 2.0**-31)


def test_a_polynomial_has_the_shares_of_its_terms(scores: np.ndarray) -> None:
    x, y, _ = scores.T
    found = first_order_shares(scores, 100 + 3 * x + (y**3 - 3 * y) / np.sqrt(6))
    assert found == pytest.approx([0.9, 0.1, 0], abs=0.01)


def test_what_only_acts_together_is_nobodys(scores: np.ndarray) -> None:
    x, y, _ = scores.T
    assert first_order_shares(scores, 100 + x * y) == pytest.approx([0, 0, 0], abs=0.01)


def test_a_maximum_is_explained_by_what_it_depends_on(scores: np.ndarray) -> None:
    """E[max(x, y) | x] = x cdf(x) + pdf(x); its variance, integrated with scipy's quad, over 1 - 1/pi is 0.426."""
    x, y, _ = scores.T
    assert first_order_shares(scores, 10 + np.maximum(x, y)) == pytest.approx(
        [0.426, 0.426, 0], abs=0.01
    )


def test_few_rows_lower_the_degree(scores: np.ndarray) -> None:
    x = scores[:16, 0]
    assert first_order_shares(scores[:16], 5 + x)[0] == pytest.approx(1, abs=1e-9)
    with pytest.raises(DataError, match=r"samples.*16.*15"):
        first_order_shares(scores[:15], x[:15])


def test_shares_of_few_scores_that_go_together_are_no_more_than_all() -> None:
    x = np.linspace(-1.5, 1.5, 40)
    scores = np.column_stack([x, -x + 0.3 * np.cos(9 * x)])
    assert first_order_shares(scores, 5 + scores.sum(axis=1)).sum() == pytest.approx(1)


def test_a_constant_has_no_shares(scores: np.ndarray) -> None:
    assert not first_order_shares(scores, np.full(4096, 123.456)).any()
    assert first_order_shares(scores[:, :0], scores[:, 0]).shape == (0,)
