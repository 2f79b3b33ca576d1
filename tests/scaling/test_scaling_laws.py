from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import curve_fit

from flopcast.errors import DataError
from flopcast.remarks import remark
from flopcast.scaling.curves import Curve
from flopcast.scaling.scaling_laws import (
    Amdahl,
    Gustafson,
    Linear,
    Logarithmic,
    Power,
    Proportional,
    UniversalScalability,
    relative_fit,
)

SIZES = np.array([8.0, 16.0, 32.0, 64.0])


def curve(performance: object, sizes: object = SIZES) -> Curve:
    return Curve("b", "strong", "SM", sizes, performance)


@pytest.mark.parametrize(
    ("law", "truth"),
    [
        (Proportional, lambda x: 3 * x),
        (Linear, lambda x: 3 * x + 5),
        (Linear, lambda x: 3 * x - 5),
        (Power, lambda x: 2 * x**0.8),
        (Logarithmic, lambda x: 2 + 3 * np.log(x)),
        (Amdahl, lambda x: 7 / (0.1 + 0.9 / x)),
        (Gustafson, lambda x: 7 * (0.1 + 0.9 * x)),
        (UniversalScalability, lambda x: 5 * x / (1 + 0.02 * (x - 1) + 1e-4 * x * (x - 1))),
    ],
)
def test_each_law_finds_itself_and_reaches_beyond(law: type, truth: object) -> None:
    fitted = law().fit(curve(truth(SIZES)))
    at = np.array([4.0, 8.0, 50.0, 512.0])
    assert fitted.predict(at) == pytest.approx(truth(at), rel=1e-9)


@pytest.mark.parametrize("law", [Linear, Power, Logarithmic, Amdahl, Gustafson])
def test_two_sizes_are_met_exactly_where_growth_is_below_proportion(law: type) -> None:
    fitted = law().fit(curve([10.0, 18.0], [8.0, 16.0]))
    assert fitted.predict([8, 16]) == pytest.approx([10, 18])


def test_hand_solved_predictions_from_two_sizes() -> None:
    small = curve([10.0, 18.0], [8.0, 16.0])
    found = {
        law.name: float(law().fit(small).predict(32)[0])
        for law in (Proportional, Linear, Power, Logarithmic)
    }
    assert found == pytest.approx(
        {"proportional": 40, "linear": 34, "power law": 32.4, "logarithmic": 26}
    )
    # 1/P = s + p/u: s + p = 1/10 and s + p/2 = 1/18, so p = 8/90 and s = 1/90
    amdahl = Amdahl().fit(small)
    assert amdahl.predict(32) == pytest.approx(1 / (1 / 90 + 8 / 360))
    assert amdahl.serial_ == pytest.approx(1 / 9)


@pytest.mark.parametrize("law", [Amdahl, Gustafson])
def test_growth_beyond_proportion_has_no_serial_share(law: type) -> None:
    fitted = law().fit(curve([10.0, 22.0], [8.0, 16.0]))
    assert fitted.serial_ == 0
    assert fitted.notes[0] == remark("no-serial-share")
    at = fitted.predict([8, 80])
    assert at[1] == pytest.approx(10 * at[0])


def test_universal_scalability_needs_three_sizes_and_finds_the_peak() -> None:
    with pytest.raises(DataError, match=r"USL.*8.*16"):
        UniversalScalability().fit(curve([1.0, 2.0], [8.0, 16.0]))
    u = SIZES / 8
    fitted = UniversalScalability().fit(curve(5 * u / (1 + 0.04 * (u - 1) + 0.0024 * u * (u - 1))))
    assert (fitted.contention_, fitted.coherence_) == pytest.approx((0.04, 0.0024))
    assert fitted.notes[0].code == "performance-peaks"
    assert dict(fitted.notes[0].items)["size"] == pytest.approx(160)


def test_relative_least_squares_agrees_with_scipy() -> None:
    observed = np.array([10.0, 19.0, 33.0, 60.0])
    best, _ = curve_fit(lambda x, a, b: a * x + b, SIZES, observed, sigma=observed)
    assert Linear().fit(curve(observed)).predict([100]) == pytest.approx(best[0] * 100 + best[1])


def test_residual_interval_of_the_power_law_is_that_of_the_textbook() -> None:
    observed = np.array([10.0, 19.0, 33.0, 60.0])
    fitted = Power().fit(curve(observed))
    lower, upper = fitted._residual_interval(np.array([128.0]), 0.9)
    u, v = np.log(SIZES), np.log(observed)
    line = stats.linregress(u, v)
    s = np.sqrt(np.sum((v - line.intercept - line.slope * u) ** 2) / 2)
    sd = s * np.sqrt(1 + 1 / 4 + (np.log(128) - u.mean()) ** 2 / np.sum((u - u.mean()) ** 2))
    reach = np.exp(stats.t.ppf(0.95, 2) * sd)
    centre = fitted.predict(128)
    assert lower == pytest.approx(centre / reach)
    assert upper == pytest.approx(centre * reach)


def test_the_interval_holds_residuals_and_errors_on_others() -> None:
    fitted = Linear().fit(curve([10.0, 19.0, 33.0, 60.0]))
    at = np.array([128.0])
    lower, upper = fitted.interval(at)
    below, above = fitted._residual_interval(at, 0.9)
    assert lower <= below < above <= upper
    assert fitted.notes == [
        remark(
            "interval-from-others-and-residuals",
            benchmarks=21,
            scenario="strong",
            source="published",
            sizes=4,
            spare=2,
        )
    ]


@pytest.mark.no_cover
@pytest.mark.parametrize("law", [Linear, Amdahl, Power])
def test_residual_intervals_cover_noise_about_a_law_that_holds(law: type) -> None:
    rng = np.random.default_rng(0)
    truth = {
        Linear: lambda x: 3 * x + 5,
        Amdahl: lambda x: 7 / (0.01 + 0.99 / x),
        Power: lambda x: x**0.9,
    }[law]
    sizes = 8.0 * np.arange(1, 9)
    inside = 0
    for _ in range(300):
        fitted = law(training=()).fit(
            curve(truth(sizes) * np.exp(0.02 * rng.normal(size=8)), sizes)
        )
        lower, upper = fitted._residual_interval(np.array([128.0]), 0.9)
        inside += bool(lower[0] <= truth(128.0) * np.exp(0.02 * rng.normal()) <= upper[0])
    assert 0.86 <= inside / 300 <= 0.95


def test_a_prediction_that_is_not_positive_has_no_interval() -> None:
    fitted = Linear().fit(curve([1.0, 4.0], [8.0, 16.0]))
    assert fitted.predict([1])[0] < 0
    assert np.isnan(fitted.interval([1])).all()


DESIGN = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])


def test_free_fit_is_least_squares() -> None:
    found = relative_fit(DESIGN, np.array([1.0, 0.0, 2.0, 1.0]))
    # slope 1/5, intercept 7/10; residuals 0.3, -0.9, 0.9, -0.3
    assert found.coefficients == pytest.approx([0.7, 0.2])
    assert found.noise == pytest.approx(np.sqrt(1.8 / 2))
    assert found.freedom == 2
    assert found.spread(np.array([[1.0, 1.5]]), np.ones(1)) == pytest.approx(
        found.noise * np.sqrt(1.25)
    )


def test_a_parameter_held_at_zero_is_certain_and_gives_back_its_degree_of_freedom() -> None:
    found = relative_fit(DESIGN, np.array([3.0, 2.0, 1.0, 0.5]), bounded=True)
    assert found.coefficients == pytest.approx([6.5 / 4, 0])
    assert found.freedom == 3
    assert found.covariance == pytest.approx(np.diag([0.25, 0.0]))


def test_a_fit_without_rows_to_spare_has_no_noise() -> None:
    found = relative_fit(DESIGN[:2], np.array([1.0, 2.0]))
    assert (found.freedom, np.isnan(found.noise)) == (0, True)
